"""Blocks on disk as an operator meets them: the directory of --cache-dir, who may use it, what it is of."""
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import harness

SMALL = ("--ctx", "2048", "--kv-tokens", "4K")
BLOCK_BYTES = 196608  # of the demo model: also that of its slot
WORDS = "And it came to pass in those days that the people went up to the hill. "


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
        others = {self.serve_once("--kv-dtype", "f32"), self.serve_once("--kv-dtype", "fp8"), self.serve_once("--isa", "c"),
                  self.serve_once("--load", "dummy"), self.serve_once("--load", "dummy", "--seed", "1")}
        self.assertEqual(len(others - {None, first}), 5)
        self.assertIsNone(self.serve_once("--threads", "1", "--max-seqs", "3"))
        with open(os.path.join(self.dir, first, "about")) as f:
            self.assertRegex(f.read(), r"^demo/model, cpu, \S+, KV in bf16, longflash \d+\.\d+\.\d+, \S+, .+\n$")

    def test_an_fp8_cache_answers_the_same_alone_together_and_after_a_restart(self):
        prompt = WORDS * 20
        server = self.serve("--kv-dtype", "fp8")
        self.assertEqual(server.metric("cache_config_info", 'cache_dtype="fp8"'), 1)
        first = server.complete(prompt, max_tokens=16, temperature=0)
        self.assertEqual(first.status, 200)
        text = first.json["choices"][0]["text"]
        both = server.complete([prompt, prompt + "And"], max_tokens=16, temperature=0).json["choices"]
        self.assertEqual(both[0]["text"], text)
        self.wait_kept(4)
        self.assertEqual(server.stop(), 0)
        server = self.serve("--kv-dtype", "fp8")
        again = server.complete(prompt, max_tokens=16, temperature=0).json
        self.assertEqual(again["choices"][0]["text"], text)
        self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

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

    # ---- longflash run ----

    def run_once(self, question, *more):
        return self.command("run", "--document", os.path.join(self.folder.name, "text"), "--max-tokens", "8",
                            "--cache-dir", self.dir, "--cache-disk", "20M", *more, question)

    def test_a_document_is_read_once_for_several_questions_on_the_terminal(self):
        with open(os.path.join(self.folder.name, "text"), "w") as f:
            f.write(WORDS * 24)
        first, again = self.run_once("Who went up?"), self.run_once("Who went up?")
        self.assertEqual((first.returncode, again.returncode), (0, 0), first.stderr + again.stderr)
        self.assertNotIn("from the disk", first.stderr)
        self.assertRegex(again.stderr, r"^prompt \d+ tokens, \d+ of them from the disk, in ")
        self.assertEqual(first.stdout, again.stdout)
        n_prompt, n_restored = (int(x) for x in re.findall(r"\d+", again.stderr)[:2])
        self.assertGreaterEqual(n_restored, n_prompt - 128)
        self.assertIn("from the disk", self.run_once("And where?").stderr)
        self.assertNotIn("from the disk", self.run_once("Who went up?", "--kv-dtype", "f32").stderr)
        fp8, fp8_again = (self.run_once("Who went up?", "--kv-dtype", "fp8") for _ in range(2))
        self.assertNotIn("from the disk", fp8.stderr)  # that of bf16 is not fp8's, and fp8's is
        self.assertIn("from the disk", fp8_again.stderr)
        self.assertEqual((fp8_again.returncode, fp8_again.stdout), (0, fp8.stdout))
        self.assertIn("from the disk", self.run_once("Who went up?").stderr)
        server = self.serve()
        r = self.run_once("Who went up?")
        self.assertEqual((r.returncode, r.stderr), (2, f"longflash: {self.dir} is in use by another process, {server.process.pid}\n"))

    # ---- longflash documents ----

    def documents(self, verb, *args):
        return self.command("documents", verb, *args, "--cache-dir", self.dir)

    def wait_kept(self, n):
        """Until n blocks are listed: they are written behind the answer."""
        for _ in range(int(200 * harness.SLOW)):
            found = json.loads(self.documents("ls", "--json").stdout)
            if sum(f["blocks"] for f in found) >= n:
                return found
            time.sleep(0.05)
        self.fail(f"not kept: {found}")

    def keep_some(self, *more):
        """A server that has read a text of more than five blocks."""
        server = self.serve(*more)
        self.assertEqual(server.complete(WORDS * 24, temperature=0).status, 200)
        return server

    def flip(self, identity, name, offset):
        with open(os.path.join(self.dir, identity, name), "r+b") as f:
            f.seek(offset)
            byte = f.read(1)[0]
            f.seek(offset)
            f.write(bytes([byte ^ 4]))

    def test_what_a_server_keeps_is_listed_while_it_runs_and_verified_when_it_has_ended(self):
        server = self.keep_some()
        [found] = self.wait_kept(5)
        self.assertEqual((found["kind"], found["tokens"], found["bad_records"]), ("full", 64 * found["blocks"], 0))
        self.assertGreaterEqual(found["bytes_on_disk"], found["blocks"] * BLOCK_BYTES)
        self.assertLess(abs(found["written"] - time.time()), 600)
        for verb, more in (("verify", ()), ("rm", ("--all",)), ("rm", (found["identity"],))):
            r = self.documents(verb, *more)
            self.assertEqual((r.returncode, r.stdout), (2, ""))
            self.assertEqual(r.stderr, f"longflash: {self.dir} is in use by another process, {server.process.pid}\n")
        self.assertEqual(server.stop(), 0)
        r = self.documents("verify", "--json")
        [after] = json.loads(r.stdout)
        self.assertEqual((r.returncode, after["whole"], after["broken"]), (0, after["blocks"], 0))
        self.assertGreaterEqual(after["blocks"], found["blocks"])
        text = self.documents("ls").stdout
        self.assertIn(f"{found['identity']}\n  demo/model, cpu, ", text)
        self.assertIn(f"  full: {after['blocks']} blocks, {after['tokens']} tokens, ", text)

    def test_a_flipped_bit_is_found_and_a_server_computes_the_block_anew(self):
        server = self.keep_some()
        before = server.complete(WORDS * 24, temperature=0).json["choices"][0]["text"]
        [found] = self.wait_kept(5)
        server.stop()
        self.flip(found["identity"], "full.data", 2 * BLOCK_BYTES + 12345)
        r = self.documents("verify")
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stdout, r"\n  \d+ whole, 1 broken\n$")
        server = self.serve()
        self.assertEqual(server.complete(WORDS * 24, temperature=0).json["choices"][0]["text"], before)
        server.stop()
        self.assertEqual(self.documents("verify").returncode, 0)  # the block was written anew, to another slot
        self.flip(found["identity"], "full.index", 3 * 512 + 30)
        r = self.documents("verify")
        self.assertEqual(r.returncode, 1)
        self.assertIn("1 records that cannot be read", r.stdout)

    def test_documents_are_listed_verified_and_removed_by_name(self):
        server = self.serve()
        for name in ("a", "b", "c"):
            self.assertEqual(server.request("PUT", f"/v1/documents/{name}", {"text": WORDS * 2}).status, 202)
        self.assertEqual(server.stop(), 0)
        paths = [os.path.join(self.dir, "documents", name) for name in sorted(os.listdir(os.path.join(self.dir, "documents")))]
        self.assertRegex(self.documents("ls").stdout, rf"\ndocuments\n  a: \d+ tokens, {2 * len(WORDS)} bytes, whole\n  b: ")
        r = self.documents("verify", "--json")
        found = [f for f in json.loads(r.stdout) if "document" in f]
        self.assertEqual((r.returncode, [(f["document"], f["state"], f["key"], f["bytes"]) for f in found]),
                         (0, [(name, "whole", "", 2 * len(WORDS)) for name in "abc"]))
        os.truncate(paths[1], 520)
        r = self.documents("verify")
        self.assertEqual(r.returncode, 1)
        self.assertIn(f"  file {os.path.basename(paths[1])}: broken\n", r.stdout)
        for name in ("documents/", "documents/b", "documents/A"):
            r = self.documents("rm", "documents/a", name)  # one of two is none: nothing is removed
            self.assertEqual((r.returncode, r.stdout), (2, ""))
            self.assertIn("has no document", r.stderr)
        r = self.documents("rm", "documents/a")
        self.assertEqual((r.returncode, r.stdout, os.path.exists(paths[0])), (0, "removed documents/a\n", False))
        server = self.serve()
        self.assertEqual([d["name"] for d in server.get("/v1/documents").json["data"]], ["c"])
        self.assertEqual(self.documents("rm", "documents/c").returncode, 2)
        self.assertEqual(server.stop(), 0)
        r = self.documents("rm", "--all")
        self.assertEqual((r.returncode, r.stdout.splitlines()[-1]), (0, "removed documents/c"))
        self.assertEqual(self.documents("ls").stdout, f"nothing is kept in {self.dir}\n")

    def test_identities_are_removed_by_the_beginning_of_their_names_or_all(self):
        first, second, third = self.serve_once(), self.serve_once("--isa", "c"), self.serve_once("--kv-dtype", "f32")
        for name in ("01234567", first[:-1] + "x"):
            r = self.documents("rm", name)
            self.assertEqual((r.returncode, r.stdout), (2, ""))
            self.assertIn("has no identity that begins with", r.stderr)
        r = self.documents("rm", first[:8], "ffffffff")  # one of two is none: nothing is removed
        self.assertEqual((r.returncode, len(self.identities())), (2, 3))
        r = self.documents("rm", first[:12])
        self.assertEqual((r.returncode, r.stdout), (0, f"removed {first}\n"))
        self.assertEqual(self.identities(), sorted((second, third)))
        r = self.documents("rm", "--all")
        self.assertEqual((r.returncode, len(r.stdout.splitlines())), (0, 2))
        self.assertEqual(self.documents("ls").stdout, f"nothing is kept in {self.dir}\n")
        self.assertEqual(json.loads(self.documents("verify", "--json").stdout), [])
        self.assertEqual(self.identities(), [])
        self.assertIsNotNone(self.serve_once())

    # ---- from one machine to another ----

    def move_to(self, name):
        """From now on the directory is another one."""
        self.dir = os.path.join(self.folder.name, name)

    def export(self, *args):
        path = os.path.join(self.folder.name, "kept")
        return path, self.documents("export", path, *args)

    def test_what_one_machine_has_read_another_one_answers_about(self):
        server = self.keep_some()
        before = server.complete(WORDS * 24, temperature=0).json
        n_full = (before["usage"]["prompt_tokens"] - 1) // 64
        self.wait_kept(n_full)
        path, r = self.export()
        self.assertEqual((r.returncode, r.stderr), (2, f"longflash: {self.dir} is in use by another process, {server.process.pid}\n"))
        self.assertEqual(server.stop(), 0)
        [found] = json.loads(self.documents("ls", "--json").stdout)
        path, r = self.export()
        self.assertRegex(r.stdout, rf"^exported {found['blocks']} blocks, {found['tokens']} tokens, \S+ MiB\n$")
        self.assertEqual((r.returncode, os.stat(path).st_mode & 0o777), (0, 0o600))
        self.assertEqual(os.path.getsize(path), 512 + found["blocks"] * (512 + BLOCK_BYTES))
        self.assertFalse(os.path.exists(path + ".part"))
        self.move_to("elsewhere")
        self.assertEqual(self.serve_once(), found["identity"])
        r = self.documents("import", path)
        self.assertRegex(r.stdout, rf"^imported {found['blocks']} blocks, {found['tokens']} tokens, \S+ MiB\n$")
        self.assertEqual(self.documents("verify").returncode, 0)
        self.assertIn(f" {found['blocks']} of them were there", self.documents("import", path).stdout)
        server = self.serve()
        self.assertEqual(self.documents("import", path).returncode, 2)  # in use
        after = server.complete(WORDS * 24, temperature=0).json
        self.assertEqual(after["choices"][0]["text"], before["choices"][0]["text"])
        self.assertEqual(server.metric("disk_blocks_loaded_total"), n_full)
        self.assertEqual(after["usage"]["prompt_tokens_details"]["cached_tokens"], n_full * 64)

    def test_an_export_is_written_over_nothing_but_a_file_of_its_own(self):
        self.keep_some().stop()
        path, victim = os.path.join(self.folder.name, "kept"), os.path.join(self.folder.name, "victim")
        part = path + ".part"
        with open(victim, "w") as f:
            f.write("mine")
        os.symlink(victim, part)
        self.assertEqual(self.export()[1].returncode, 2)
        with open(victim) as f:
            self.assertEqual(f.read(), "mine")
        os.unlink(part)
        os.mkfifo(part)
        self.assertEqual(self.export()[1].returncode, 2)
        os.unlink(part)
        with open(part, "wb") as other:  # left by one that was killed, then in use by another one
            other.write(b"x" * 1000000)
            other.flush()
            fcntl.flock(other, fcntl.LOCK_EX)
            self.assertEqual(self.export()[1].stderr, f"longflash: another export writes {part}\n")
            self.assertEqual(os.path.getsize(part), 1000000)
        self.assertEqual(self.export()[1].returncode, 0)
        self.assertFalse(os.path.lexists(part))
        self.assertEqual(self.documents("import", path).returncode, 0)

    def test_another_models_blocks_are_refused_by_name_and_through_pipes_nothing_is_lost(self):
        self.keep_some("--isa", "c").stop()
        self.keep_some().stop()
        found = json.loads(self.documents("ls", "--json").stdout)
        self.assertEqual(len(found), 2)
        for names, n in (([], 2), ([found[1]["identity"][:8]], 1)):
            r = subprocess.run([harness.Program.program, "documents", "export", "-", *names, "--cache-dir", self.dir], capture_output=True,
                               timeout=60 * harness.SLOW)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(len(r.stdout), sum(512 + f["blocks"] * (512 + BLOCK_BYTES) for f in found[-n:]))
            stream = r.stdout
        self.assertIn("no identity that begins with", self.export("0123456789")[1].stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "kept")))

        def put(data, *args):
            r = subprocess.run([harness.Program.program, "documents", "import", "-", "--cache-dir", self.dir, *args], input=data,
                               capture_output=True, timeout=60 * harness.SLOW)
            return r.returncode, r.stdout.decode(), r.stderr.decode()
        self.move_to("elsewhere")
        self.assertEqual(put(stream)[0], 2)  # there is no such directory
        os.mkdir(self.dir)
        code, _, stderr = put(stream)
        self.assertEqual(code, 2)
        self.assertIn(f"standard input has blocks of {found[1]['identity']} ({found[1]['about']}", stderr)
        self.assertEqual(self.identities(), [])
        self.assertEqual(put(stream, "--all")[0], 0)
        [there] = json.loads(self.documents("verify", "--json").stdout)
        self.assertEqual((there["identity"], there["whole"], there["about"]), (found[1]["identity"], found[1]["blocks"], found[1]["about"]))
        cut, broken = stream[:1000000], bytearray(stream)
        broken[512 + 512 + BLOCK_BYTES + 4000] ^= 1
        for data, n, message in ((cut, len(cut) // (512 + BLOCK_BYTES), "it ends in the middle"), (bytes(broken), 1, "block 1 is broken"),
                                 (b"no such file" * 99, 0, "expected a file that `longflash documents export` has written")):
            self.assertEqual(self.documents("rm", "--all").returncode, 0)
            code, stdout, stderr = put(data, "--all")
            self.assertEqual(code, 2)
            self.assertIn(message, stderr)
            self.assertEqual(stdout.startswith(f"imported {n} blocks, "), n > 0)
            self.assertEqual(sum(f["whole"] for f in json.loads(self.documents("verify", "--json").stdout)), n)


if __name__ == "__main__":
    unittest.main()
