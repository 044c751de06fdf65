"""Blocks on disk as an operator meets them: the directory of --cache-dir, who may use it, what it is of."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import harness

SMALL = ("--ctx", "2048", "--kv-tokens", "4K")


class Directory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not harness.Program.program:
            raise unittest.SkipTest("no program in the environment")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lf_documents_")
        self.addCleanup(self.folder.cleanup)
        self.dir = os.path.join(self.folder.name, "cache")

    def serve(self, *more):
        server = harness.Program(*SMALL, "--cache-dir", self.dir, "--cache-disk", "20M", *more)
        self.addCleanup(server.stop)
        return server

    def command(self, *args):
        return subprocess.run([harness.Program.program, *args], capture_output=True, text=True, timeout=60 * harness.SLOW)

    def identities(self):
        return sorted(name for name in os.listdir(self.dir) if name != "lock")

    def serve_once(self, *more):
        """The directory of this server's identity."""
        before = set(self.identities()) if os.path.isdir(self.dir) else set()
        self.assertEqual(self.serve(*more).stop(), 0)
        new = set(self.identities()) - before
        return new.pop() if new else None

    def test_a_directory_is_one_servers_at_a_time(self):
        server = self.serve()
        r = self.command("serve", "--port", "0", *SMALL, "--cache-dir", self.dir)
        self.assertEqual((r.returncode, r.stdout), (2, ""))
        self.assertEqual(r.stderr, f"longflash: {self.dir} is in use by another process, {server.process.pid}\n")
        self.assertEqual(server.stop(), 0)
        self.assertIsNone(self.serve_once())  # the same model again: no other directory

    def test_what_computes_otherwise_has_a_directory_of_its_own(self):
        first = self.serve_once()
        self.assertRegex(first, "^[0-9a-f]{64}$")
        others = {self.serve_once("--kv-dtype", "f32"), self.serve_once("--isa", "c"),
                  self.serve_once("--load", "dummy"), self.serve_once("--load", "dummy", "--seed", "1")}
        self.assertEqual(len(others - {None, first}), 4)
        self.assertIsNone(self.serve_once("--threads", "1", "--max-seqs", "3"))
        with open(os.path.join(self.dir, first, "about")) as f:
            self.assertRegex(f.read(), r"^demo/model, cpu, \S+, KV in bf16, longflash \d+\.\d+\.\d+, \S+, .+\n$")

    def test_a_fine_tune_of_the_same_shape_has_a_directory_of_its_own(self):
        model = os.path.join(self.folder.name, "model")
        shutil.copytree("demo/model", model)
        first = self.serve_once("--model", model)
        path = os.path.join(model, "model.safetensors")
        with open(path, "r+b") as f:
            f.seek(os.path.getsize(path) - 1)
            last = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([last ^ 1]))
        second = self.serve_once("--model", model)
        self.assertNotIn(second, (None, first))

    def test_the_plan_counts_the_index(self):
        def plan(*args):
            return json.loads(self.command("plan", *SMALL, "--json", *args).stdout)

        without, some, more = plan(), plan("--cache-dir", self.dir, "--cache-disk", "8G"), plan("--cache-dir", self.dir)
        self.assertEqual((without["disk_index_bytes"], without["disk_bytes"], without["disk_tokens"]), (0, 0, 0))
        self.assertEqual((some["disk_bytes"], more["disk_bytes"]), (8 << 30, 64 << 30))
        n_slots = some["disk_tokens"] // 64
        self.assertEqual(n_slots, (8 << 30) // (some["kv_block_bytes"] + 512))
        self.assertGreater(some["disk_index_bytes"], 40 * n_slots)
        self.assertGreater(more["disk_index_bytes"], 7 * some["disk_index_bytes"])
        self.assertEqual(some["total_bytes"] - some["host_bytes"] - some["disk_index_bytes"],
                         without["total_bytes"] - without["host_bytes"])
        self.assertFalse(os.path.exists(self.dir))  # plan makes nothing


if __name__ == "__main__":
    unittest.main()
