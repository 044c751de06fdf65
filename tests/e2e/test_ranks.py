"""--parallel tp=N, cp=N and both on a CPU: the demo over 1, 2 and 4 ranks. Greedy answers are those of one rank where
activations are floats (rounded to bf16 they part where two tokens are nearly alike); for a split the same bytes come alone, in company, in chunks and from the cache."""
import concurrent.futures
import csv
import json
import os
import re
import subprocess
import tempfile
import unittest

import harness

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
FACTS = ("The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun. The director of the Silent River is Otto Krast. "
         "And it came to pass in those days that the people went up to the hill and sat there until the evening. ") * 6
SMALL = ("--ctx", "8192", "--kv-tokens", "64K", "--device", "cpu")
GREEDY = {"temperature": 0, "return_token_ids": True}


def questions():
    with open("demo/document.txt", encoding="utf-8") as f:
        document = f.read(12000)
    with open("demo/questions.json", encoding="utf-8") as f:
        asked = [q["question"] for q in json.load(f)[:3]]
    return [f"{document}\n\n{question}" for question in asked]


def asks():
    """Greedy ones, then some that draw: with a seed they are the same again, but another split may draw otherwise."""
    greedy = [(CHAT, {"messages": [{"role": "user", "content": FACTS + "\n\nWhat is the access code for Marrow Hill?"}],
                      "max_tokens": 40, "logprobs": True, "top_logprobs": 3, **GREEDY}),
              (TEXT, {"prompt": FACTS, "max_tokens": 60, "ignore_eos": True, "logprobs": 2, **GREEDY}),
              (TEXT, {"prompt": [FACTS, FACTS + "The access code", "In the"], "max_tokens": 30, "logprobs": 1, **GREEDY}),
              (CHAT, {"messages": [{"role": "user", "content": FACTS + "\n\nWhere does Anna Vell live?"}], "max_tokens": 40,
                      "guided_regex": "Anna Vell lives in [A-Z][a-z]+\\.", **GREEDY})]
    greedy += [(CHAT, {"messages": [{"role": "user", "content": text}], "max_tokens": 40, "logprobs": True, **GREEDY})
               for text in questions()]
    drawn = [(TEXT, {"prompt": FACTS, "max_tokens": 40, "ignore_eos": True, "temperature": 0.8, "seed": 5, "logprobs": 2}),
             (CHAT, {"messages": [{"role": "user", "content": FACTS + "Who?"}], "max_tokens": 30, "temperature": 0.7,
                     "seed": 9, "n": 2, "logprobs": True})]
    return greedy, drawn


def texts(reply):
    return [c["message"]["content"] if "message" in c else c["text"] for c in reply.json["choices"]]


def choices(reply):
    """Everything of them: texts, ids, and log-probabilities to the last digit."""
    return reply.json["choices"]


SPLITS = {"tp=2": 2, "tp=4": 4, "cp=2": 2, "cp=4": 4, "tp=2,cp=2": 4}  # ranks of each


def options(split):
    return (*SMALL, "--parallel", split, "--threads", str(SPLITS.get(split, 1)))


def floats():
    """The kernels of this machine that do not round activations."""
    said = subprocess.run([harness.Program.program, "version"], stdout=subprocess.PIPE, check=True, text=True).stdout
    isa = re.search(r"this machine: (\S+)", said).group(1)
    return ("--isa", "avx512" if isa in ("avx512-bf16", "amx") else isa)


def plan(*more):
    out = subprocess.run([harness.Program.program, "plan", "--model", "demo/model", "--json", *more], stdout=subprocess.PIPE,
                         check=True).stdout
    return json.loads(out)


class Ranks(unittest.TestCase):
    def serve(self, split, *more):
        server = harness.Program(*options(split), *more)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def ask(self, server, path, body):
        reply = server.post(path, body, timeout=300)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply

    def check_same(self, server, all_asks, expected):
        """Again, now from the cache; then all at once, twice."""
        for (path, body), first in zip(all_asks, expected):
            self.assertEqual(choices(self.ask(server, path, body)), first)
        for _ in range(2):
            with concurrent.futures.ThreadPoolExecutor(len(all_asks)) as pool:
                together = list(pool.map(lambda a: choices(self.ask(server, *a)), all_asks))
            self.assertEqual(together, expected)

    def test_greedy_answers_of_splits_are_one_rank_s(self):
        greedy, _ = asks()
        one = self.serve("tp=1", *floats())
        expected = [texts(self.ask(one, *a)) for a in greedy]
        self.assertEqual(one.stop(), 0)
        self.assertIn("48213", expected[0][0])
        self.assertEqual(expected[3], ["Anna Vell lives in Dorrun."])
        for split in SPLITS:
            server = self.serve(split, *floats())
            self.assertEqual([texts(self.ask(server, *a)) for a in greedy], expected, split)
            self.assertEqual(server.stop(), 0, server.stderr[-2000:])

    def test_bytes_of_a_split_are_those_of_any_company(self):
        greedy, drawn = asks()
        for split in SPLITS:
            server = self.serve(split)
            alone = [choices(self.ask(server, *a)) for a in greedy + drawn]
            self.check_same(server, greedy + drawn, alone)
            self.assertEqual(server.stop(), 0, server.stderr[-2000:])
            chunked = self.serve(split, "--chunk", "48", "--max-seqs", "4", "--speculate", "off", "--prefix-cache", "off")
            self.assertEqual([choices(self.ask(chunked, *a)) for a in greedy + drawn], alone)
            self.assertEqual(chunked.stop(), 0, chunked.stderr[-2000:])

    def test_the_fingerprint_of_an_answer_names_its_split(self):
        prints = {}
        for split in ("tp=1", "cp=1", "tp=2", "cp=2", "tp=4", "cp=4", "tp=2,cp=2"):
            server = self.serve(split)
            prints[split] = self.ask(server, CHAT, {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1,
                                                    **GREEDY}).json["system_fingerprint"]
            self.assertEqual(server.stop(), 0)
        server = harness.Program(*SMALL)
        one = self.ask(server, CHAT, {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, **GREEDY})
        self.assertEqual(server.stop(), 0)
        self.assertEqual({prints.pop("tp=1"), prints.pop("cp=1")}, {one.json["system_fingerprint"]})
        self.assertEqual(len({one.json["system_fingerprint"], *prints.values()}), 6, prints)

    def test_load_says_over_how_many_ranks_it_measured(self):
        server = self.serve("tp=2")
        with tempfile.NamedTemporaryFile(mode="r") as f:
            out = subprocess.run([harness.Program.program, "load", "--url", f"http://127.0.0.1:{server.port}", "--concurrency", "1",
                                  "--lengths", "64", "--rounds", "1", "--output-tokens", "2", "--csv", f.name],
                                 stdout=subprocess.PIPE, check=True, text=True).stdout
            row, = csv.DictReader(f)
        self.assertEqual(out.splitlines()[0], "demo over 2 ranks")
        self.assertEqual((row["ok"], row["ranks"]), ("1", "2"))
        self.assertEqual(server.stop(), 0)

    def test_load_counts_blocks_of_all_ranks_of_a_context(self):
        server = self.serve("cp=4")
        out = subprocess.run([harness.Program.program, "load", "--url", f"http://127.0.0.1:{server.port}", "--documents", "2",
                              "--lengths", "900", "--concurrency", "2", "--rounds", "2", "--output-tokens", "2"],
                             stdout=subprocess.PIPE, check=True, text=True).stdout
        self.assertEqual(out.splitlines()[0], "demo over 4 ranks, each context over 4 of them")
        self.assertRegex(out, r"hit rate: 100\.0% of the \d+ tokens of documents that can be found \(blocks of 256\)")
        self.assertEqual(server.stop(), 0)

    def test_what_is_resident_is_what_was_planned(self):
        if harness.SLOW > 1:
            self.skipTest("memory under a sanitizer is not what the plan says")
        for split, n in SPLITS.items():
            planned, n_cp = plan(*options(split)), int(split[-1]) if "cp" in split else 1
            self.assertEqual((planned["ranks"], planned["context_ranks"]), (n, n_cp))
            parts = planned["weight_bytes"] + planned["workspace_bytes"] + planned["kv_bytes"]
            self.assertEqual(planned["total_bytes"],
                             n * parts + planned["ranks_shared_bytes"] + planned["host_bytes"] + planned["text_bytes"])
            server = self.serve(split)
            self.assertIn(f"on {n} ranks (tp={n // n_cp},cp={n_cp}) of " if n_cp > 1 else f"on {n} ranks of ", server.ready)
            self.assertEqual((server.metric("ranks"), server.metric("context_ranks")), (n, n_cp))
            capacity = server.get("/v1/capacity").json
            shares = capacity["plan"]
            self.assertEqual((shares["ranks"], shares["context_ranks"], shares["weights_bytes"], shares["workspace_bytes"],
                              shares["kv_bytes"]),
                             (n, n_cp, n * planned["weight_bytes"], n * planned["workspace_bytes"], n * planned["kv_bytes"]))
            self.assertEqual(capacity["blocks"]["tokens"], 64 * n_cp)
            self.assertEqual(capacity["blocks"]["total"], 65536 // (64 * n_cp))
            self.ask(server, *asks()[0][0])
            resident = planned["total_bytes"] - planned["text_bytes"]
            self.assertLess(server.rss_bytes(), 1.02 * resident, split)
            self.assertGreater(server.rss_bytes(), 0.8 * resident, split)
            self.assertEqual(server.stop(), 0)

    def test_a_context_that_is_divided_takes_its_part_of_each_rank_s_cache(self):
        one = plan("--device", "cpu", "--ctx", "4096", "--kv-tokens", "4096")
        for n in (2, 4):
            same = plan("--device", "cpu", "--ctx", "4096", "--kv-tokens", "4096", "--parallel", f"cp={n}")
            self.assertEqual(n * same["kv_bytes"], one["kv_bytes"])
            self.assertEqual(same["kv_tokens"], one["kv_tokens"])
        longer = plan("--device", "cpu", "--ctx", "8192", "--kv-tokens", "8192", "--parallel", "cp=2")
        self.assertEqual(longer["kv_bytes"], one["kv_bytes"])
        self.assertEqual(longer["kv_tokens"], 2 * one["kv_tokens"])

    def test_what_is_not_divided_is_refused_with_what_would_do(self):
        olmo = "tests/golden/model/data/olmo2-f32"
        for options, words in (
                (("--parallel", "tp=3"), "it has 4 query heads of model.layers.#.self_attn.q_proj; expected 1, 2, 4"),
                (("--parallel", "pp=2"), 'expected auto, tp=N, cp=M or tp=N,cp=M, from 1 to 16 ranks together, got "pp=2"'),
                *(((("--parallel", wrong), f'got "{wrong}"')) for wrong in
                  ("tp=0", "tp=17", "cp=17", "tp=2x", "tp=5,cp=4", "tp=2,tp=2", "tp=2,", ",cp=2", "cp=0", "tp=-1", "tp=2 cp=2", "tp=2,pp=2",
                   "cp=", "tp=4294967298")),
                (("--parallel", "4"), 'got "4" (how many requests run at once is --max-seqs)'),
                (("--parallel", "tp=2", "--model", olmo), "Olmo2ForCausalLM has norms of all heads at once, which are not divided"),
                (("--parallel", "tp=2", "--device", "cpu", "--cache-memory", "64M"), "--cache-memory is memory below a GPU's cache"),
                (("--parallel", "tp=2", "--profile"), "--profile is not implemented for several ranks yet")):
            model = () if "--model" in options else ("--model", "demo/model")
            run = subprocess.run([harness.Program.program, "plan", *model, *options], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=False)
            self.assertEqual(run.returncode, 2, options)
            self.assertIn(words, run.stderr.decode())


if __name__ == "__main__":
    harness.main()
