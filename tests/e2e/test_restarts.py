"""A document that outlives the server: read once, then found on disk by the next one, whatever ended the first. The
answer is the same, byte for byte, as where everything is computed."""
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import harness

N_BLOCKS = 23 if harness.SLOW == 1 else 9  # of the document, or so
LEAST = N_BLOCKS - 3  # of these are full, whatever a text's tokens come to
N_TOKENS = 64 * N_BLOCKS + 28
ASK = {"max_tokens": 24, "temperature": 0, "return_token_ids": True}


def text(seed):
    """So many tokens that another seed's does not begin with."""
    with open("demo/document.txt") as f:
        whole = f.read()
    at = seed * 7919 % (len(whole) - 10000)
    return whole[at:at + 4 * N_TOKENS]


class Restarts(unittest.TestCase):
    SPLIT, BLOCK = (), 64  # options, and the tokens of a block with them

    @classmethod
    def setUpClass(cls):
        if not harness.Program.program:
            raise unittest.SkipTest("no program in the environment")
        cls.least = LEAST * 64 // cls.BLOCK  # blocks of a document that are full
        server = harness.Program("--ctx", "4096", "--kv-tokens", "8K", *cls.SPLIT)
        cls.truth = [cls.ask(server, seed) for seed in range(4)]
        assert server.stop() == 0

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lf_restarts_")
        self.addCleanup(self.folder.cleanup)
        self.dir = os.path.join(self.folder.name, "cache")

    @staticmethod
    def ask(server, seed):
        """(the answer's ids, tokens that need not be computed)"""
        r = server.post("/v1/completions", {"prompt": text(seed), **ASK})
        assert r.status == 200, r.body
        choice = r.json["choices"][0]
        return choice["token_ids"], r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    def start(self, *more):
        server = harness.Program("--ctx", "4096", "--kv-tokens", "8K", "--cache-dir", self.dir, "--cache-disk", "40M",
                                 *self.SPLIT, *more)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def restored(self, server):
        return server.metric("prompt_tokens_by_source_total", 'source="external_kv_transfer"')

    def check(self, server, seed, least=None, most=None):
        ids, n_cached = self.ask(server, seed)
        self.assertEqual(ids, self.truth[seed][0], f"document {seed}, {n_cached} tokens from the cache")
        if least is not None:
            self.assertGreaterEqual(n_cached, least)
        if most is not None:
            self.assertLessEqual(n_cached, most)
        return n_cached

    def n_kept(self, server):
        return server.get("/v1/capacity").json["disk"]["kept"]

    def wait_until_kept(self, server, n):
        self.assertTrue(harness.wait_until(lambda: self.n_kept(server) >= n), f"{self.n_kept(server)} of {n} blocks")

    def data_file(self):
        (identity,) = [name for name in os.listdir(self.dir) if name != "lock"]
        return os.path.join(self.dir, identity, "full.data")

    def test_it_is_there_after_an_orderly_end(self):
        server = self.start()
        self.assertEqual(server.get("/v1/capacity").json["disk"]["kept"], 0)
        self.check(server, 0, most=0)
        self.assertEqual(server.stop(), 0)
        server = self.start()
        n = self.check(server, 0, least=self.least * self.BLOCK)
        self.assertEqual(n % self.BLOCK, 0)
        self.assertEqual(self.restored(server), n)
        self.assertEqual(self.check(server, 0), n)
        self.assertEqual(self.restored(server), n)  # the second time from memory
        self.check(server, 1, most=0)
        self.assertEqual(server.metric("disk_blocks_loaded_total"), n // self.BLOCK)
        self.assertEqual(server.stop(), 0)

    def test_it_is_there_after_a_kill(self):
        server = self.start()
        self.check(server, 0)
        self.wait_until_kept(server, self.least)
        server.stop(signal.SIGKILL)
        server = self.start()
        self.check(server, 0, least=self.least * self.BLOCK)

    def test_a_kill_at_any_moment_leaves_nothing_wrong(self):
        rng = random.Random(5)
        total = 0
        for _ in range(8):
            server = self.start()
            threads = [threading.Thread(target=self.ask_until_gone, args=(server, seed)) for seed in range(4)]
            for t in threads:
                t.start()
            time.sleep(rng.uniform(0.02, 0.7) * harness.SLOW)
            server.stop(signal.SIGKILL)
            for t in threads:
                t.join()
            server = self.start()
            total += sum(self.check(server, seed) for seed in range(4))
            server.stop(signal.SIGKILL)
        self.assertGreater(total, 4 * self.least * self.BLOCK)

    def load(self, server, *more):
        """The rows of `load --documents`, which must not have failed, and what it printed."""
        r = subprocess.run([harness.Program.program, "load", "--url", f"http://127.0.0.1:{server.port}", "--documents", "3",
                            "--lengths", "600", "--concurrency", "1,3", "--rounds", "3", "--output-tokens", "4", "--csv", "/dev/stdout",
                            *more], capture_output=True, text=True, timeout=120 * harness.SLOW)
        self.assertEqual((r.returncode, r.stderr), (0, ""), r.stdout)
        rows = list(csv.DictReader(line for line in r.stdout.splitlines() if line.count(",") > 10))
        self.assertEqual([(row["ok"], row["failed"], row["documents"]) for row in rows], [("3", "0", "3"), ("9", "0", "3")], r.stdout)
        return [{k: float(v) for k, v in row.items() if k != "first_failure"} for row in rows], r.stdout

    def test_the_load_test_of_documents_finds_its_documents_after_a_restart(self):
        server = self.start()
        (first, again), text = self.load(server)
        n = first["document_tokens"]
        self.assertEqual((first["put_computed"], first["put_memory"], first["put_disk"]), (n, 0, 0))
        self.assertEqual((again["put_computed"], again["put_memory"], again["put_disk"]), (0, 0, 0))
        self.assertIn("100.0% computed, 0.0% from memory, 0.0% from disk", text)
        self.assertIn(", as they were there", text)
        for row, n_asked in ((first, 3), (again, 9)):
            self.assertEqual((row["asked_memory"], row["asked_disk"]), (row["cached_tokens"], 0))
            self.assertGreaterEqual(row["asked_memory"], n_asked * (600 // self.BLOCK) * self.BLOCK)
        self.assertEqual(len(server.get("/v1/documents").json["data"]), 3)
        self.assertEqual(server.stop(), 0)
        server = self.start()
        (first, _), _ = self.load(server, "--dialect", "messages", "--zipf", "0")
        self.assertEqual(first["document_tokens"], n)
        self.assertLess(first["put_computed"], 3 * self.BLOCK)
        self.assertGreaterEqual(first["put_disk"] + first["asked_disk"], 600 // self.BLOCK * self.BLOCK)
        other, _ = self.load(server, "--seed", "5")
        self.assertEqual(other[0]["put_disk"], 0)

    def test_the_load_test_says_why_a_document_was_not_read(self):
        server = self.start()
        r = subprocess.run([harness.Program.program, "load", "--url", f"http://127.0.0.1:{server.port}", "--documents", "2",
                            "--lengths", "8K"], capture_output=True, text=True, timeout=60 * harness.SLOW)
        self.assertEqual(r.returncode, 1)
        self.assertIn("longflash: 2 of 2 documents were not read: HTTP 400 ", r.stderr)
        self.assertIn("4096", r.stderr)

    def ask_until_gone(self, server, seed):
        try:
            self.ask(server, seed)
        except (OSError, AssertionError, json.JSONDecodeError, harness.http.client.HTTPException):
            pass  # the server is gone

    def test_a_flipped_byte_is_computed_again(self):
        server = self.start()
        self.check(server, 0)
        whole = self.check(server, 0)
        self.assertEqual(server.stop(), 0)
        rng = random.Random(6)
        size = os.path.getsize(self.data_file())
        with open(self.data_file(), "r+b") as f:
            slot = f.read().rstrip(b"\0")
            for at in rng.sample(range(len(slot)), 6):
                f.seek(at)
                byte = f.read(1)[0]
                f.seek(at)
                f.write(bytes([byte ^ 1 << rng.randrange(8)]))
        self.assertEqual(os.path.getsize(self.data_file()), size)
        server = self.start()
        n = self.check(server, 0)
        broken = server.metric("disk_blocks_broken_total")
        self.assertGreaterEqual(broken, 1)
        self.assertLess(n, whole)
        self.assertEqual(server.stop(), 0)
        server = self.start()  # what was computed again is whole
        self.check(server, 0, least=n + self.BLOCK * broken)

    def test_a_disk_that_is_too_small_keeps_what_was_used_last(self):
        server = self.start("--cache-disk", "4M")
        places = server.get("/v1/capacity").json["disk"]["total"]
        for seed in range(4):
            self.check(server, seed)
        self.assertEqual(server.stop(), 0)
        self.assertLessEqual(sum(os.stat(os.path.join(r, name)).st_blocks * 512 for r, _, names in os.walk(self.dir)
                                 for name in names), 4 << 20)
        server = self.start("--cache-disk", "4M")
        self.assertLessEqual(self.n_kept(server), places)
        for seed in (3, 0, 1, 2):
            self.check(server, seed)
        self.assertGreater(server.metric("disk_blocks_evicted_total"), 0)

    def test_a_disk_that_goes_away_costs_only_time(self):
        server = self.start()
        self.check(server, 0)
        self.wait_until_kept(server, self.least)
        shutil.rmtree(self.dir)
        for seed in range(4):
            self.check(server, seed)
        self.assertEqual(server.stop(), 0)

    def test_keys_do_not_share(self):
        keys = os.path.join(self.folder.name, "keys")
        with open(keys, "w") as f:
            f.write("sk-a\nsk-b\n")
        for key, least, most in (("sk-a", 0, 0), ("sk-b", 0, 0), ("sk-a", self.least * self.BLOCK, None)):
            server = self.start("--api-keys-file", keys)
            r = server.post("/v1/completions", {"prompt": text(0), **ASK}, headers={"Authorization": f"Bearer {key}"})
            self.assertEqual(r.status, 200, r.body)
            n = r.json["usage"]["prompt_tokens_details"]["cached_tokens"]
            self.assertGreaterEqual(n, least)
            if most is not None:
                self.assertLessEqual(n, most)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
