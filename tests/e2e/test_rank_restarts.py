"""--cache-dir over ranks that are threads: what outlives the server is what all of them had of a block. The tests of
restarts, pins and documents of one rank, over splits, and what only several can have."""
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import unittest

import harness
import kept_answers
import test_kept_documents
import test_pinned_documents
import test_rank_faults as faults
import test_restarts
import test_states
import test_windows


def split(parallel, n):
    return ("--device", "cpu", "--parallel", parallel, "--threads", str(n))


LEAST = 1000 if harness.SLOW == 1 else 400  # tokens of a document that are found at least
TP, CP, BOTH = split("tp=2", 2), split("cp=2", 2), split("tp=2,cp=2", 4)


class OverHeads(test_restarts.Restarts):
    SPLIT = TP


class OverContexts(test_restarts.Restarts):
    SPLIT, BLOCK = CP, 128


class OverBoth(test_restarts.Restarts):
    SPLIT, BLOCK = BOTH, 128

    def setUp(self):
        if harness.SLOW > 1 or self._testMethodName.startswith("test_the_load_test"):
            self.skipTest("as over contexts")
        super().setUp()


class PinsOverHeads(test_pinned_documents.PinnedDocuments):
    SPLIT = TP


class DocumentsOverContexts(test_kept_documents.KeptDocuments):
    SPLIT, BLOCK = CP, 128


def change_a_weight(folder, tensor, row, column):
    """The lowest bit of one of its bf16 numbers, in a copy of the demo."""
    shutil.copytree("demo/model", folder)
    path = os.path.join(folder, "model.safetensors")
    with open(path, "r+b") as f:
        n, = struct.unpack("<Q", f.read(8))
        about = json.loads(f.read(n))[tensor]
        assert about["dtype"] == "BF16", about
        n_rows, n_columns = about["shape"]
        f.seek(8 + n + about["data_offsets"][0] + 2 * (row % n_rows * n_columns + column % n_columns))
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 1]))


class Parts(test_restarts.Restarts):
    """Of splits that the tests choose themselves."""

    SPLIT = TP

    def test_a_byte_of_any_rank_is_one_of_the_block(self):
        server = self.start()
        self.check(server, 0)
        whole = self.check(server, 0)
        block_bytes = server.get("/v1/capacity").json["plan"]["kv_bytes"] // (8192 // 64)
        self.assertEqual(server.stop(), 0)
        for rank in (0, 1):
            with open(self.data_file(), "r+b") as f:  # slots are as long as blocks here; what is broken moves to another
                f.seek((2 + rank) * block_bytes + rank * block_bytes // 2 + 1000)
                byte = f.read(1)[0]
                f.seek(-1, os.SEEK_CUR)
                f.write(bytes([byte ^ 4]))
            server = self.start()
            n = self.check(server, 0)
            self.assertEqual(server.metric("disk_blocks_broken_total"), 1, f"rank {rank}")
            self.assertEqual(server.metric("disk_blocks_loaded_total") * 64, n)
            self.assertGreaterEqual(n, whole - 64)
            self.assertLess(n, whole)
            self.assertEqual(server.stop(), 0)  # it is saved again, whole
        server = self.start()
        self.check(server, 0, least=whole)
        self.assertEqual(server.metric("disk_blocks_broken_total"), 0)

    def serve(self, *options):
        server = harness.Program("--ctx", "4096", "--kv-tokens", "8K", "--cache-dir", self.dir, "--cache-disk", "64M", *options)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def n_found(self, *options):
        """(tokens of document 0 that were kept, what the log says of others)"""
        server = self.serve(*options)
        _, n = self.ask(server, 0)
        self.assertEqual(server.stop(), 0, server.stderr[-2000:])
        return n, [line for line in server.stderr.decode().splitlines() if "are not used" in line]

    def test_another_split_finds_nothing_and_says_so(self):
        splits = (TP, CP, BOTH, ("--device", "cpu"))
        n, said = self.n_found(*TP)
        self.assertEqual((n, said), (0, []))
        for other in splits[1:]:
            self.assertEqual(self.serve(*other).stop(), 0)  # that it has been here changes nothing
            n, said = self.n_found(*other)
            self.assertEqual(n, 0, other)
            self.assertEqual(len(said), 1, said)
        n, said = self.n_found("--device", "cpu", "--kv-dtype", "fp8")
        self.assertEqual((n, len(said)), (0, 1))
        self.assertRegex(said[0], " over tp=2,cp=[12],| KV in ")
        self.assertEqual(len([d for d in os.listdir(self.dir) if len(d) == 64]), 5)
        for again in splits:
            n, said = self.n_found(*again)
            self.assertGreaterEqual(n, LEAST, again)
            self.assertEqual(said, [])
        ls = subprocess.run([harness.Program.program, "documents", "ls", "--cache-dir", self.dir, "--json"],
                            stdout=subprocess.PIPE, check=True, text=True).stdout
        kept = {next((s for s in (" over tp=2,cp=1,", " over tp=1,cp=2,", " over tp=2,cp=2,") if s in row["about"]), ""): row
                for row in json.loads(ls) if "KV in bf16" in row["about"] or "KV in f32" in row["about"]}
        self.assertEqual({s: row["tokens"] // row["blocks"] for s, row in kept.items()},
                         {"": 64, " over tp=2,cp=1,": 64, " over tp=1,cp=2,": 128, " over tp=2,cp=2,": 128})
        verified = subprocess.run([harness.Program.program, "documents", "verify", "--cache-dir", self.dir], check=False,
                                  stdout=subprocess.PIPE, text=True)
        self.assertEqual(verified.returncode, 0, verified.stdout)

    def test_weights_that_only_another_rank_has_count(self):
        n, _ = self.n_found(*TP)
        self.assertEqual(n, 0)
        for i, tensor in enumerate(("q_proj", "o_proj")):  # cut by rows, and by columns: rank 1 has the last ones
            changed = os.path.join(self.folder.name, f"model{i}")
            change_a_weight(changed, f"model.layers.0.self_attn.{tensor}.weight", -1, -1)
            n, said = self.n_found("--model", changed, *TP)
            self.assertEqual((n, len(said)), (0, 1), tensor)
        self.assertGreaterEqual(self.n_found(*TP)[0], LEAST)

    def test_what_is_kept_moves_with_export_and_import(self):
        for options in (CP, TP):
            self.n_found(*options)
            store, moved = self.dir, os.path.join(self.folder.name, "moved")
            os.mkdir(store + "2")
            for args in (("export", moved, "--cache-dir", store), ("import", moved, "--all", "--cache-dir", store + "2")):
                r = subprocess.run([harness.Program.program, "documents", *args], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, check=False, text=True)
                self.assertEqual(r.returncode, 0, r.stdout)
            shutil.rmtree(store)
            os.rename(store + "2", store)
            self.assertGreaterEqual(self.n_found(*options)[0], LEAST)
            shutil.rmtree(store)

    def test_the_budget_is_that_of_all_ranks(self):
        def plan(*options):
            return json.loads(subprocess.run(
                [harness.Program.program, "plan", "--model", "demo/model", "--json", "--ctx", "4096", "--cache-dir", self.dir,
                 "--cache-disk", "64M", *options], stdout=subprocess.PIPE, check=True).stdout)

        one = plan("--device", "cpu")
        for options in (TP, CP, BOTH):
            several = plan(*options)
            self.assertEqual(several["disk_bytes"], one["disk_bytes"])
            self.assertLess(abs(several["disk_tokens"] - one["disk_tokens"]), one["disk_tokens"] / 50, options)
            self.assertLessEqual(several["disk_index_bytes"], one["disk_index_bytes"])
        server = self.serve(*CP)
        total = server.get("/v1/capacity").json["disk"]["total"]
        self.assertEqual(total * 128, plan(*CP)["disk_tokens"])
        self.assertEqual(server.stop(), 0)

    def test_ranks_that_are_processes_are_refused(self):
        for options, word in ((("--cache-dir", self.dir), "--cache-dir"), (("--cache-memory", "64M"), "--cache-memory")):
            r = subprocess.run([harness.Program.program, "serve", "--model", "demo/model", "--rank", "0", "--ranks-address", "127.0.0.1:1",
                                "--ranks-secret-file", __file__, *TP, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               check=False, text=True)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(f"{word} is not implemented for ranks that are processes yet: expected --parallel without --rank",
                          r.stderr)
            self.assertFalse(os.path.exists(self.dir))


class Groups(kept_answers.KeptAnswers, unittest.TestCase):
    """Models of whose layers most have states or windows: snapshots and blocks of all groups, of all ranks."""

    LENGTHS = (40, 1000, 3000)

    def start(self, model, *more):
        server = harness.Program("--model", model, "--load", "dummy", "--seed", "7", "--ctx", "4096", *more)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def check_model(self, config, folder):
        model = os.path.join(folder, "model")
        kept_answers.with_texts(model, config)
        for i, options in enumerate((TP, CP, BOTH)):
            server = self.start(model, "--prefix-cache", "off", *options)
            self.learn(server)
            self.assertEqual(server.stop(), 0)
            more = ("--cache-dir", os.path.join(folder, f"cache{i}"), "--cache-disk", "200M", "--kv-tokens", "16K", *options)
            server = self.start(model, *more)
            for k in range(len(self.LENGTHS)):
                self.assertEqual(self.check(server, k), 0)
            self.assertEqual(server.stop(), 0)
            server = self.start(model, *more)
            block = server.get("/v1/capacity").json["blocks"]["tokens"]
            for k, length in enumerate(self.LENGTHS):
                self.assertEqual(self.check(server, k), (length - 1) // block * block, options)
                self.check(server, k, 1)
            self.assertGreater(server.metric("disk_blocks_loaded_total"), 0)
            self.assertEqual(server.metric("disk_blocks_broken_total"), 0)
            self.assertEqual(server.stop(), 0)

    def test_states_of_all_ranks_come_back(self):
        with tempfile.TemporaryDirectory(prefix="lf_rank_states_") as folder:
            self.check_model(test_states.CONFIG, folder)

    def test_windows_of_all_ranks_come_back(self):
        with tempfile.TemporaryDirectory(prefix="lf_rank_windows_") as folder:
            self.check_model(test_windows.config(True), folder)


@unittest.skipIf(harness.SLOW > 1, "a rank that stands still has a sanitizer's tests of its own")
class Stopped(test_restarts.Restarts):
    SPLIT = TP

    def test_a_rank_that_stands_still_leaves_what_was_kept(self):
        server = self.start()
        self.check(server, 0)
        self.wait_until_kept(server, self.least)
        asked = threading.Thread(target=self.ask_until_gone, args=(server, 1))
        asked.start()  # its blocks are on their way
        tid = faults.stop_thread(server.process.pid, "lf-rank1")
        if tid is None:
            server.stop(signal.SIGKILL)
            asked.join()
            self.skipTest("this system does not let a process stop its child's thread")
        again = threading.Thread(target=self.ask_until_gone, args=(server, 2))
        again.start()
        watcher = faults.Watcher(tid)
        watcher.join(60)
        self.assertEqual(server.stop(sig=None, timeout=60), 1)
        self.assertTrue(watcher.is_in_time(10), watcher.ended_s)
        for thread in (asked, again):
            thread.join()
        server = self.start()
        self.check(server, 0, least=self.least * self.BLOCK)
        for seed in (1, 2):
            self.check(server, seed)
        self.assertEqual(server.metric("disk_blocks_broken_total"), 0)


for name in dir(test_restarts.Restarts):  # those are OverHeads'
    if name.startswith("test_"):
        setattr(Parts, name, None)
        setattr(Stopped, name, None)

if __name__ == "__main__":
    unittest.main()
