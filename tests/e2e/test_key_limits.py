"""Limits of single keys, in the file of keys: requests in flight, tokens a minute, documents and their tokens; and what SIGHUP
makes of another file."""
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

import harness

LONG = "The access code for Marrow Hill is 48213. " * 12  # more than a hundred tokens, fewer than a thousand
BUSY = {"prompt": "One, two, three", "max_tokens": 3000, "ignore_eos": True, "stream": True}


class Case(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "4K", "--kv-tokens", "16K", "--device", "cpu")
    lines = ""

    @classmethod
    def setUpClass(cls):
        cls.file = tempfile.NamedTemporaryFile("w", delete=False)
        cls.write(cls.lines)
        cls.args = (*Case.args, "--api-keys-file", cls.file.name)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        os.unlink(cls.file.name)

    @classmethod
    def write(cls, text):
        with open(cls.file.name, "w") as f:
            f.write(text)

    def head(self, key):
        return {"Authorization": f"Bearer {key}"}

    def ask(self, key, prompt="x", **more):
        return self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 2, **more}, headers=self.head(key))

    def put(self, key, name, text=LONG):
        return self.server.request("PUT", f"/v1/documents/{name}?wait=true", text.encode(),
                                   {"Content-Type": "text/plain", **self.head(key)})

    def refused(self, r, words):
        self.assert_error(r, 429, "rate_limit_exceeded", None)
        self.assertIn(words, r.error["message"])
        self.assertEqual(r.error["type"], "rate_limit_error")
        self.assertIn(int(r.headers["retry-after"]), range(1, 61))

    def reload(self, text, seen):
        self.write(text)
        self.server.process.send_signal(signal.SIGHUP)
        self.assertTrue(harness.wait_until(seen))


class InFlight(Case):
    lines = "# a file as it was before, and one line more\nsk-any\n\nsk-two in-flight=2\n"

    def busy(self, key):
        body = json.dumps(BUSY)
        s = self.server.socket(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
                               f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        self.assertTrue(s.recv(64).startswith(b"HTTP/1.1 200 "))
        return s

    def test_a_key_has_so_many_at_once_and_others_have_what_they_had(self):
        held = [self.busy("sk-two") for _ in range(2)]
        self.refused(self.ask("sk-two"), "2 requests in flight, 1 would come, at most 2 may be")
        self.refused(self.put("sk-two", "a"), "2 requests in flight")
        self.assertEqual(self.server.get("/v1/models", headers=self.head("sk-two")).status, 200)
        self.assertEqual(self.ask("sk-any", n=8).status, 200)
        # its requests were not the only ones: a limit that is raised holds at once
        self.reload("sk-any\nsk-two in-flight=3\n", lambda: self.ask("sk-two").status == 200)
        held.append(self.busy("sk-two"))
        self.refused(self.ask("sk-two"), "3 requests in flight")
        for c in held:
            c.close()
        self.assertTrue(harness.wait_until(lambda: self.ask("sk-two", n=3).status == 200))
        self.assert_error(self.ask("sk-two", n=4), 400, "too_many_choices", "n")
        # a file that is wrong changes nothing, and the log says where, without a key
        self.write("sk-any\nsk-two in-flight=lots\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.assertTrue(harness.wait_until(lambda: b"line 2: expected in-flight=N" in b"".join(self.server.log)))
        self.assertNotIn(b"sk-", b"".join(self.server.log))
        self.assert_error(self.ask("sk-two", n=4), 400, "too_many_choices")
        self.assertEqual(self.ask("sk-any").status, 200)


class Tokens(Case):
    lines = "sk-slow tokens-per-minute=100\nsk-any\n"

    def test_what_a_key_has_computed_counts_and_what_was_cached_does_not(self):
        first = self.ask("sk-slow", LONG)
        self.assertEqual(first.status, 200)  # more than a minute's, once
        n = first.json["usage"]["prompt_tokens"]
        self.assertGreater(n, 150)
        r = self.ask("sk-slow")
        self.refused(r, "100 tokens computed a minute")
        self.refused(self.server.post("/v1/responses", {"input": "x"}, headers=self.head("sk-slow")), "100 tokens")
        self.refused(self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]},
                                      headers=self.head("sk-slow")), "100 tokens")
        self.refused(self.put("sk-slow", "a"), "100 tokens")
        r = self.server.post("/v1/messages", {"model": "demo", "max_tokens": 3, "messages": [{"role": "user", "content": "x"}]},
                             headers=self.head("sk-slow"))
        self.assertEqual((r.status, r.json["error"]["type"]), (429, "rate_limit_error"))
        self.assertEqual(self.server.get("/v1/documents", headers=self.head("sk-slow")).json["data"], [])
        for _ in range(2):
            self.assertEqual(self.ask("sk-any", LONG).status, 200)
        # what is owed stays owed under another limit; nine prompts as long as the first are beyond it, unless they are cached
        most = 5 * n
        self.reload(f"sk-slow tokens-per-minute={most}\nsk-any\n", lambda: self.ask("sk-slow", LONG).status == 200)
        for _ in range(8):
            r = self.ask("sk-slow", LONG, max_tokens=1)
            self.assertEqual(r.status, 200, r.body)
            self.assertGreater(r.json["usage"]["prompt_tokens_details"]["cached_tokens"], n - 65)
        metrics = self.server.get("/metrics", headers=self.head("sk-any")).body.decode()
        self.assertRegex(metrics, r'admission_rejections_total\{[^}]*reason="key_tokens"[^}]*\} [5-9]')


class Names(Case):
    lines = "sk-one name=finance in-flight=1\nsk-two name=law\nsk-any\n"

    def counted(self, name, key):
        m = re.search(rf'^longflash:key_{name}_total{{model_name="demo",key="{key}"}} (\d+)$', self.metrics(), re.M)
        return m and int(m.group(1))

    def metrics(self):
        return self.server.get("/metrics", headers=self.head("sk-any")).body.decode()

    def test_what_keys_with_names_do_is_counted(self):
        self.assertEqual(self.counted("requests", "law"), 0)
        usage = [self.ask("sk-one", LONG).json["usage"] for _ in range(2)]
        self.ask("sk-any", LONG)
        self.assertEqual(self.put("sk-one", "a").status, 200)
        document = self.server.get("/v1/documents/a", headers=self.head("sk-one")).json
        self.assert_error(self.ask("sk-one", ["x", "y"]), 400, "too_many_choices")
        self.assertEqual(self.counted("requests", "finance"), 3)
        self.assertEqual(self.counted("rejections", "finance"), 0)
        self.assertTrue(harness.wait_until(lambda: self.counted("prompt_tokens", "finance") ==
                                           sum(u["prompt_tokens"] for u in usage) + document["tokens"]))
        self.assertEqual(self.counted("prompt_tokens_cached", "finance"), usage[1]["prompt_tokens_details"]["cached_tokens"])
        self.assertEqual(self.counted("generation_tokens", "finance"), sum(u["completion_tokens"] for u in usage))
        self.reload("sk-one name=finance\nsk-any\n",  # asked by what is not counted
                    lambda: self.server.get("/v1/models", headers=self.head("sk-two")).status == 401)
        self.assertEqual(self.counted("requests", "finance"), 3)
        self.assertEqual(self.counted("requests", "law"), 0)
        self.assertNotIn("sk-", self.metrics())


class Documents(Case):
    lines = "sk-few documents=1\nsk-small document-tokens=300\nsk-any\n"

    def test_a_key_has_so_many_documents_and_tokens_of_them(self):
        for name in ("a", "b"):
            self.assertEqual(self.put("sk-any", name).status, 200)
        self.assertEqual(self.put("sk-few", "a").status, 200)
        r = self.put("sk-few", "b")
        self.assert_error(r, 507, "document_quota", None)
        self.assertEqual(r.error["message"], "This key may have 1 documents: delete one first.")
        self.assertEqual(self.put("sk-few", "a").status, 200)  # the same again
        self.assertEqual(self.server.request("DELETE", "/v1/documents/a", headers=self.head("sk-few")).status, 200)
        self.assertEqual(self.put("sk-few", "b").status, 200)
        self.assertEqual(self.put("sk-small", "a").status, 200)
        r = self.put("sk-small", "b")
        self.assert_error(r, 507, "document_quota", None)
        self.assertIn("300 tokens together (its document-tokens)", r.error["message"])


@unittest.skipUnless(harness.Program.program, "no server program in the environment")
class Start(unittest.TestCase):
    def test_a_line_that_is_wrong_is_refused_before_anything_else_and_not_repeated(self):
        for line in ("sk-secret in-flight=0", "sk-secret sk-other", "sk-secret in-flight=2 colour=red", "sk-secret name=a,b", "sk-s\u00e9cret"):
            with tempfile.NamedTemporaryFile("w") as f:
                f.write("sk-one\n" + line + "\n")
                f.flush()
                r = subprocess.run([harness.Program.program, "serve", "--model", "demo/model", "--port", "0", "--api-keys-file", f.name],
                                   capture_output=True, timeout=60 * harness.SLOW)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertEqual(r.stderr.count(b"\n"), 1, r.stderr)
            self.assertIn(b"line 2: expected", r.stderr)
            self.assertNotIn(b"secret", r.stderr)
            self.assertNotIn(b"other", r.stderr)


if __name__ == "__main__":
    harness.main()
