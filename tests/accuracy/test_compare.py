#!/usr/bin/env python3
"""compare.py on the demo model, its short form: what is equal costs nothing, what is worse costs more, a divergence is what
the definition says, and a file of other texts is refused."""
import argparse
import csv
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import needle_gate  # noqa: E402
import tasks  # noqa: E402

DRIVER, LONGFLASH = os.environ["LF_ACCURACY_DRIVER"], os.environ["LF_LONGFLASH"]
DEMO = os.path.join(tasks.ROOT, "demo", "model")
N_VOCAB = 4096
SMALL = ["--windows", "4", "--tokens", "128", "--scored", "16", "--text", "books", "--lengths", "1K:1"]
WINDOWS = tasks.windows(tasks.read_text("books")[1], 2, 128, 8)


def copy_with_bits(folder, n_bits):
    """The demo model with so many bits of its weights' mantissas (bf16 has 7)."""
    out = os.path.join(folder, f"bits{n_bits}")
    shutil.copytree(DEMO, out)
    path = os.path.join(out, "model.safetensors")
    data = bytearray(open(path, "rb").read())
    first = 8 + struct.unpack("<Q", data[:8])[0]
    mask = 0x100 - (1 << (7 - n_bits))  # the low byte of a bf16: the exponent's last bit, then the mantissa
    data[first::2] = data[first::2].translate(bytes(byte & mask for byte in range(256)))
    with open(path, "wb") as f:
        f.write(data)
    return out


def shape_with_tokenizer(folder, name):
    """The shape of a fixture of that name, for dummy weights, with the demo's vocabulary."""
    out = os.path.join(folder, name)
    os.makedirs(out)
    with open(os.path.join(tasks.ROOT, "tests/golden/model/data", name, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as f:
        json.dump({**config, "vocab_size": N_VOCAB, "max_position_embeddings": 2048}, f)
    for file in ("tokenizer.model", "tokenizer_config.json"):
        shutil.copy(os.path.join(DEMO, file), out)
    return out


def drive(model, what, lines, options=()):
    """The driver's results, or what it says where it refuses."""
    run = subprocess.run([DRIVER, "--model", model, "--device", "cpu", *options, *what], capture_output=True, text=True,
                         input="".join(json.dumps(line) + "\n" for line in lines))
    return [json.loads(line) for line in run.stdout.splitlines()] if run.returncode == 0 else run.stderr


def recorded_rows(path):
    """Each row of a file of windows that has the whole vocabulary, as log-probabilities by id."""
    data, at = open(path, "rb").read(), 16
    for _ in WINDOWS:
        at += 16
        for _ in range(WINDOWS[0]["scored"]):
            entries = struct.unpack_from(f"<{'if' * N_VOCAB}", data, at + 8)
            yield dict(zip(entries[::2], entries[1::2]))
            at += 8 + 8 * N_VOCAB
    assert at == len(data)


class Accuracy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="accuracy")
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def compare(self, *options, rc=0):
        """Its rows by name."""
        run = subprocess.run([sys.executable, os.path.join(HERE, "compare.py"), "--driver", DRIVER, "--both", "--device cpu",
                              *SMALL, "--csv", self.path("rows"), *options], capture_output=True, text=True)
        self.assertEqual(run.returncode, rc, run.stdout + run.stderr)
        with open(self.path("rows"), encoding="utf-8", newline="") as f:
            return [{**row, "name": f"{row['what']} {row['length']}".strip()} for row in csv.DictReader(f)]

    def test_what_is_equal_costs_nothing(self):
        rows = self.compare("--max-kl", "0", "--max-lost", "0")
        self.assertEqual([row["name"] for row in rows], ["books", "needle 1K", "fact 1K", "absent 1K"])
        for row in rows:
            self.assertEqual((float(row["kl_max"]), float(row["same_top"])), (0, 1), row)
        self.assertGreater(sum(int(row["right_a"]) for row in rows[1:]), 7)  # of 9
        self.assertEqual([row["right_a"] for row in rows[1:]], [row["right_b"] for row in rows[1:]])

    def test_the_type_of_the_cache_costs_little_and_is_seen(self):
        for row in self.compare("--b", "--kv-dtype f32"):
            self.assertGreater(float(row["kl_max"]), 0, row)
            self.assertLess(float(row["kl_mean"]), 0.01, row)

    def test_what_was_kept_of_a_is_taken_where_it_is_of_the_same(self):
        first = self.compare("--b", "--kv-dtype f32", "--keep", self.path("kept"))
        written = os.stat(self.path("kept/reference")).st_mtime_ns
        self.assertEqual(self.compare("--b", "--kv-dtype f32", "--keep", self.path("kept")), first)
        self.assertEqual(os.stat(self.path("kept/reference")).st_mtime_ns, written)
        self.compare("--a", "--kv-dtype f32", "--keep", self.path("kept"), rc=1)
        self.compare("--seed", "2", "--keep", self.path("kept"), rc=1)

    def test_fewer_bits_cost_more_and_none_lose_answers(self):
        costs = [float(self.compare("--model-b", copy_with_bits(self.folder, bits))[0]["kl_mean"]) for bits in (5, 3)]
        spoiled = copy_with_bits(self.folder, 0)
        rows = self.compare("--model-b", spoiled, "--max-lost", "0", rc=1)
        costs.append(float(rows[0]["kl_mean"]))
        self.assertEqual(costs, sorted(costs))
        self.assertGreater(costs[0], 1e-5)
        self.assertGreater(sum(int(row["lost"]) for row in rows[1:]), 3)
        self.assertLess(float(rows[1]["same_top"]), 1)
        self.compare("--model-b", spoiled, "--max-kl", "0.01", rc=1)

    def test_a_divergence_is_what_the_definition_says(self):
        other = copy_with_bits(self.folder, 4)
        drive(DEMO, ["record", self.path("p"), "4096"], WINDOWS)
        drive(other, ["record", self.path("q"), "4096"], WINDOWS)
        found = [x for line in drive(other, ["compare", self.path("p")], WINDOWS) for x in line["kl"]]
        rows = list(zip(recorded_rows(self.path("p")), recorded_rows(self.path("q"))))
        self.assertEqual(len(found), len(rows))
        for kl, (p, q) in zip(found, rows):
            self.assertAlmostEqual(math.fsum(map(math.exp, p.values())), 1, 5)
            self.assertAlmostEqual(kl, math.fsum(math.exp(p[i]) * (p[i] - q[i]) for i in p), delta=1e-6)
        self.assertGreater(max(found), 1e-3)

    def test_what_is_lumped_together_makes_it_no_larger(self):
        other = copy_with_bits(self.folder, 2)
        found = []
        for top in ("1", "64", "4096"):
            drive(DEMO, ["record", self.path("top"), top], WINDOWS)
            found.append([x for line in drive(other, ["compare", self.path("top")], WINDOWS) for x in line["kl"]])
        for one, some, all_of_it in zip(*found):
            self.assertGreater(one, -1e-6)
            self.assertLess(one, some + 1e-6)
            self.assertLess(some, all_of_it + 1e-6)
        self.assertLess(sum(found[0]), sum(found[2]))

    def test_a_question_behind_a_shared_document_is_answered_as_alone(self):
        task, questions = tasks.document(1024, 7, 3.5)
        together = drive(DEMO, ["record", self.path("together"), "8"], [task], ["--max-tokens", "64"])
        alone = [drive(DEMO, ["record", self.path("alone"), "8"], [{**task, "questions": [text]}],
                       ["--max-tokens", "64"])[0] for text in task["questions"]]
        self.assertEqual(together, alone)
        self.assertGreater(sum(q.is_right(a["answer"]) for q, a in zip(questions, alone)), 7)  # of 9

    def test_answers_are_those_of_the_program_where_layers_have_windows_or_states_too(self):
        task, _ = tasks.document(512, 3, 3.5)
        options = ["--load", "dummy", "--max-tokens", "5"]
        with open(self.path("document"), "w", encoding="utf-8") as f:
            f.write(task["document"])
        for family in ("llama-f32", "gemma3-f32", "qwen3-next-f32"):
            shape = shape_with_tokenizer(self.folder, family)
            found = [line["answer"] for line in drive(shape, ["record", self.path("ref"), "8"], [task], options)]
            expected = [subprocess.run([LONGFLASH, "run", "--model", shape, "--device", "cpu", *options, "--document",
                                        self.path("document"), text], capture_output=True, text=True, check=True).stdout
                        for text in task["questions"]]
            self.assertEqual([text.strip() for text in found], [text.strip() for text in expected], family)
            self.assertGreater(len(set(found)), 1)

    def test_files_of_other_texts_and_broken_ones_are_refused(self):
        drive(DEMO, ["record", self.path("ref"), "8"], WINDOWS)
        shifted = [{**WINDOWS[0], "text": WINDOWS[0]["text"][9:]}, WINDOWS[1]]
        for lines, word in ((shifted, "other tokens"), (WINDOWS * 2, "ends early")):
            self.assertIn(word, drive(DEMO, ["compare", self.path("ref")], lines))
        with open(self.path("ref"), "r+b") as f:
            f.truncate(os.path.getsize(self.path("ref")) - 1)
        self.assertIn("ends early", drive(DEMO, ["compare", self.path("ref")], WINDOWS))
        with open(self.path("ref"), "r+b") as f:
            f.write(b"\0")
        self.assertIn("no file of distributions", drive(DEMO, ["compare", self.path("ref")], WINDOWS))

    def test_tasks_that_cannot_be_run_are_refused(self):
        for line, word in (({"text": "short", "tokens": 9, "scored": 2}, "expected 9 at least"),
                           ({"text": "a b c d", "tokens": 2, "scored": 2}, "below the first"),
                           ({"document": "a", "questions": []}, "list of strings"),
                           ({"document": "a", "questions": [1]}, "expected a string"), ({}, "neither text nor document")):
            self.assertIn(word, drive(DEMO, ["record", self.path("none")], [line]))
        self.assertIn("expected: accuracy_driver", drive(DEMO, ["measure", self.path("none")], WINDOWS))
        self.assertIn("TOP is 0", drive(DEMO, ["record", self.path("none"), "0"], WINDOWS))

    def test_an_answer_is_right_where_it_holds_the_value(self):
        question = tasks.Question("fact", "?", "482")
        for answer, is_right in (("It is 482.", True), ("482", True), ("It is 48213.", False), ("A482", False), ("", False),
                                 ("48213 or 482", True)):
            self.assertEqual(question.is_right(answer), is_right, answer)
        self.assertTrue(tasks.Question("absent", "?").is_right("The document does not say."))
        self.assertFalse(tasks.Question("absent", "?").is_right("It is 482."))


class Gate(unittest.TestCase):
    def test_a_grid_has_every_question_for_each_cache_and_only_bf16_costs_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "grid.csv")
            run = subprocess.run([sys.executable, os.path.join(HERE, "needle_gate.py"), "--both", "--device cpu", "--lengths",
                                  "1K:1", "--csv", path], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            with open(path, newline="", encoding="utf-8") as f:
                rows = list(csv.DictReader(f))
        n_asked = len(tasks.document(1024, 1, 3.5)[1])
        kl = {}
        for cache in ("bf16", "fp8", "e4m3, scale 1"):
            mine = [r for r in rows if r["cache"] == cache]
            self.assertEqual(sum(int(r["questions"]) for r in mine), n_asked)
            kl[cache] = sum(float(r["kl_mean"]) for r in mine)
        self.assertEqual(kl["bf16"], 0)
        self.assertTrue(0 < kl["fp8"] != kl["e4m3, scale 1"] > 0, kl)

    def test_one_point_of_a_hundred_at_one_length_may_be_lost_and_no_more(self):
        def rows(right):
            return [{"length": n, "kind": "needle", "depth": 0.5, "cache": cache, "questions": 100, "positions": 1, "kl_mean": 0,
                     "right": right if (n, cache) == ("4K", "fp8") else 90} for n in ("1K", "4K") for cache in ("bf16", "fp8")]
        args = argparse.Namespace(points=1)
        self.assertEqual(list(needle_gate.judge(args, rows(91))) + list(needle_gate.judge(args, rows(89))), [])
        self.assertEqual([line[:2] for line in needle_gate.judge(args, rows(88))], ["4K"])


if __name__ == "__main__":
    unittest.main()
