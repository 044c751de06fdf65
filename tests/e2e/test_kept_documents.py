"""Documents over restarts: with --cache-dir a name that was answered for is there again, with its text, whatever ended the
server; what is broken is not."""
import os
import resource
import re
import signal
import subprocess
import tempfile
import time
import unittest

import harness

URL = "/v1/documents"
KEPT = ("name", "tokens", "bytes", "created", "expires", "etag")


def text(seed, n=1500):
    with open("demo/document.txt", encoding="utf-8") as f:
        whole = f.read()
    at = seed * 7919 % (len(whole) - n)
    return whole[at:at + n]


class KeptDocuments(unittest.TestCase):
    SPLIT, BLOCK = (), 64  # options, and the tokens of a block with them

    def setUp(self):
        if not harness.Program.program:
            self.skipTest("no program in the environment")
        folder = tempfile.TemporaryDirectory(prefix="lf_kept_")
        self.addCleanup(folder.cleanup)
        self.dir = os.path.join(folder.name, "cache")
        self.folder = os.path.join(self.dir, "documents")
        self.keys = os.path.join(folder.name, "keys")

    def start(self, *more):
        server = harness.Program("--ctx", "4096", "--kv-tokens", "8K", "--device", "cpu", "--cache-dir", self.dir,
                                 "--cache-disk", "40M", *self.SPLIT, *more)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def again(self, server, sig=signal.SIGTERM, *more):
        code = server.stop(sig)
        if sig == signal.SIGTERM:
            self.assertEqual(code, 0)
        return self.start(*more)

    def put(self, server, name, body, headers=None, query=""):
        return server.request("PUT", f"{URL}/{name}{query}", body, headers, timeout=200)

    def kept(self, server, **more):
        """What outlives the process of each document, in the list's order."""
        return [tuple(d[key] for key in KEPT) for d in server.get(URL, **more).json["data"]]

    def ready(self, server, name, **more):
        self.assertTrue(harness.wait_until(lambda: server.get(f"{URL}/{name}", **more).json["state"] == "ready", 60), name)

    def files(self):
        return sorted(os.listdir(self.folder))

    def run_about(self, name, *more, cache=True):
        kept = ("--cache-dir", self.dir, "--cache-disk", "40M") if cache else ()
        return subprocess.run([harness.Program.program, "run", "--model", "demo/model", "--device", "cpu", "--document", name, *kept,
                               "--max-tokens", "8", *self.SPLIT, *more],
                              capture_output=True, text=True, timeout=200)

    def test_a_kept_document_is_asked_about_on_the_terminal(self):
        server = self.start()
        self.assertEqual(self.put(server, "a", {"text": text(1), "system": "Be brief."}, query="?wait=true").status, 200)
        self.assertEqual(self.put(server, "over", {"text": text(2), "ttl": 1}, query="?wait=true").status, 200)
        n = server.get(f"{URL}/a").json["tokens"] // self.BLOCK * self.BLOCK
        self.assertTrue(harness.wait_until(lambda: server.get(f"{URL}/a").json["tokens_on"]["disk"] == n))
        self.assertEqual(server.stop(), 0)
        (identity,) = [name for name in os.listdir(self.dir) if len(name) == 64]
        with open(os.path.join(self.dir, identity, "speed")) as f:  # for the first prompt of the next process
            self.assertRegex(f.read(), r"^LFspeed1( \S+){9} [0-9a-f]{16}\n$")
        time.sleep(1.1)
        r = self.run_about("@a", "What is this about?")
        self.assertEqual(r.returncode, 0, r.stderr)
        m = re.match(r"prompt \d+ tokens, (\d+) of them from the disk, in ", r.stderr)
        self.assertIsNotNone(m, r.stderr)
        self.assertNotIn("warn", r.stderr)
        self.assertGreaterEqual(int(m[1]), n - self.BLOCK)  # behind its end other tokens follow
        for name, why in (("@b", "has no document b"), ("@over", "has no document over")):
            r = self.run_about(name, "What?")
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(why, r.stderr)
        r = self.run_about("@a", "What?", cache=False)
        self.assertIn("--cache-dir, which is not given", r.stderr)
        self.assertEqual(r.returncode, 2)

    def ask(self, server, name):
        content = [{"type": "document", "name": name}, {"type": "text", "text": "What is this about?"}]
        r = server.chat(content, max_tokens=12, temperature=0)
        self.assertEqual(r.status, 200, r.body)
        return r.json["choices"][0]["message"]["content"], r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_names_and_texts_are_there_after_an_end_of_any_kind(self):
        server = self.start()
        self.assertFalse(os.path.exists(self.folder))
        self.assertEqual(self.put(server, "a", {"text": text(1), "system": "Be brief.", "ttl": 5000}).status, 202)
        self.assertEqual(self.put(server, "b", {"text": text(2)}, query="?wait=true").status, 200)
        self.ready(server, "a")
        answers = [self.ask(server, name)[0] for name in "ab"]
        was = self.kept(server)
        self.assertEqual([d[0] for d in was], ["a", "b"])
        for sig in (signal.SIGTERM, signal.SIGKILL):
            server = self.again(server, sig)
            self.assertEqual(self.kept(server), was)
            for name, answer in zip("ab", answers):
                self.ready(server, name)
                got, n_cached = self.ask(server, name)
                self.assertEqual(got, answer)
                self.assertEqual(n_cached, server.get(f"{URL}/{name}").json["tokens"] // self.BLOCK * self.BLOCK)
        self.assertEqual(self.put(server, "a", {"text": text(1), "system": "Be brief.", "ttl": 5000}).status, 200)
        self.assertEqual(self.put(server, "a", {"text": text(3)}).status, 409)

    def test_what_is_on_disk_is_not_read_again(self):
        server = self.start()
        self.assertEqual(self.put(server, "a", {"text": text(1)}, query="?wait=true").status, 200)
        server = self.again(server)
        self.ready(server, "a")
        self.assertEqual(server.metric("prompt_tokens_total"), 0)
        for name in os.listdir(self.dir):
            if len(name) == 64:
                os.unlink(os.path.join(self.dir, name, "full.index"))
        server = self.again(server)
        self.ready(server, "a")
        self.assertGreater(server.metric("prompt_tokens_total"), 300)

    def test_what_was_answered_outlives_a_kill_at_that_moment(self):
        server = self.start()
        for i in range(6):
            self.assertEqual(self.put(server, f"d{i}", {"text": text(i, 300)}).status, 202)
            server = self.again(server, signal.SIGKILL)
            self.assertEqual([d[0] for d in self.kept(server)], [f"d{k}" for k in range(i + 1)])
        self.assertEqual(self.put(server, "d0", {"text": "instead"}, {"If-Match": "*"}).status, 202)
        self.assertEqual(server.request("DELETE", f"{URL}/d1").status, 200)
        server = self.again(server, signal.SIGKILL)
        self.assertEqual({d[0]: d[2] for d in self.kept(server)}, {"d0": 7, **{f"d{k}": 300 for k in range(2, 6)}})
        self.assertEqual(len(self.files()), 5)

    def test_an_end_of_life_is_kept_and_so_is_a_new_one(self):
        server = self.start()
        ttl = int(2 * harness.SLOW)
        for name, ttl in (("short", ttl), ("long", 1000), ("renewed", ttl)):
            self.assertEqual(self.put(server, name, {"text": text(1, 300), "ttl": ttl}).status, 202)
        r = self.put(server, "renewed", {"text": text(1, 300), "ttl": 500})
        self.assertEqual((r.status, r.json["expires"] >= r.json["created"] + 500), (200, True))
        self.assertTrue(harness.wait_until(lambda: len(self.files()) == 2), self.files())
        was = self.kept(server)
        server = self.again(server, signal.SIGKILL)
        self.assertEqual(self.kept(server), was)
        self.assertEqual(self.put(server, "short", {"text": "x", "ttl": 1}).status, 202)
        server.stop(signal.SIGKILL)
        time.sleep(1.1)
        server = self.start()
        self.assertEqual(self.kept(server), was)
        self.assertEqual(len(self.files()), 2)

    def test_an_end_comes_while_another_one_is_read_again(self):
        server = self.start()
        self.assertEqual(self.put(server, "long", {"text": text(1, 9000)}).status, 202)
        self.assertEqual(self.put(server, "short", {"text": "x", "ttl": int(4 * harness.SLOW)}).status, 202)
        server = self.again(server, signal.SIGKILL, "--isa", "c", "--threads", "1")  # it reads for ten seconds
        self.assertEqual([d[0] for d in self.kept(server)], ["long", "short"])
        self.assertTrue(harness.wait_until(lambda: len(self.files()) == 1, 8), self.files())
        self.assertEqual(server.get(f"{URL}/long").json["state"], "reading")
        self.assertEqual(self.put(server, "short", {"text": "y"}).status, 202)

    def test_a_text_that_no_template_takes_is_refused_as_the_text_that_it_is(self):
        server = self.start("--max-document", "12M", "--max-body", "12M")
        r = server.request("PUT", f"{URL}/a", b"a" * 9000000, {"Content-Type": "text/plain"}, timeout=200)
        self.assertEqual((r.status, r.error["param"]), (400, "text"), r.body)
        self.assertIn("text: ", r.error["message"])

    def test_a_broken_file_is_dropped_and_the_others_are_there(self):
        server = self.start()
        for i in range(4):
            self.assertEqual(self.put(server, f"d{i}", {"text": text(i, 300)}).status, 202)
        self.assertEqual(server.stop(), 0)
        paths = [os.path.join(self.folder, name) for name in self.files()]
        with open(paths[0], "r+b") as f:
            f.seek(600)
            byte = f.read(1)[0]
            f.seek(600)
            f.write(bytes([byte ^ 1]))
        os.truncate(paths[1], 700)
        with open(os.path.join(self.folder, "00000000000000ff.tmp"), "wb") as f:
            f.write(b"half")
        server = self.start()
        self.assertEqual([d[0] for d in self.kept(server)], ["d2", "d3"])
        self.assertEqual(server.metric("document_files_broken_total"), 2)
        self.assertEqual(len(self.files()), 2)
        self.assertEqual(self.put(server, "d0", {"text": text(0, 300)}).status, 202)

    def test_keys_have_their_own(self):
        with open(self.keys, "w", encoding="utf-8") as f:
            f.write("sk-a\nsk-b\n")
        a, b = ({"Authorization": f"Bearer sk-{key}"} for key in "ab")
        server = self.start("--api-keys-file", self.keys)
        self.assertEqual(self.put(server, "mine", {"text": text(1, 300)}, a).status, 202)
        self.assertEqual(self.put(server, "mine", {"text": text(2, 400)}, b).status, 202)
        self.assertEqual(self.put(server, "hers", {"text": text(2, 400)}, b).status, 202)
        server = self.again(server, signal.SIGKILL, "--api-keys-file", self.keys)
        self.assertEqual([(d[0], d[2]) for d in self.kept(server, headers=a)], [("mine", 300)])
        self.assertEqual([(d[0], d[2]) for d in self.kept(server, headers=b)], [("mine", 400), ("hers", 400)])
        self.assertEqual(server.get(f"{URL}/hers", headers=a).status, 404)
        self.ready(server, "mine", headers=a)
        self.ready(server, "hers", headers=b)

    def test_a_full_disk_and_one_that_fails_put_nothing(self):
        server = self.start()
        self.assertEqual(self.put(server, "a", {"text": text(1, 300), "ttl": 100}).status, 202)
        self.ready(server, "a")
        was = self.kept(server)
        limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (600, limit[1]))
        for r in (self.put(server, "b", {"text": text(2, 3000)}), self.put(server, "a", {"text": text(1, 300), "ttl": 900})):
            self.assertEqual((r.status, r.json["error"]["code"]), (507, "document_disk_full"), r.body)
        self.assertEqual(self.kept(server), was)
        self.assertEqual(len(self.files()), 1)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
        os.rename(self.folder, self.folder + ".away")
        with open(self.folder, "wb"):
            pass
        r = self.put(server, "b", {"text": text(2, 300)})
        self.assertEqual((r.status, r.json["error"]["code"]), (500, "document_not_kept"), r.body)
        self.assertEqual(self.kept(server), was)
        os.unlink(self.folder)
        os.rename(self.folder + ".away", self.folder)
        self.assertEqual(self.put(server, "b", {"text": text(2, 300)}).status, 202)
        server = self.again(server)
        self.assertEqual([d[0] for d in self.kept(server)], ["a", "b"])


if __name__ == "__main__":
    unittest.main()
