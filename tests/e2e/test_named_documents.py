"""Documents with the program and the demo model: read once, found in the cache by every conversation that begins with
them, and answered as if the text were there."""
import os
import unittest

import harness

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "demo", "document.txt")
FACT = "The access code for Marrow Hill is 48213. "


class Documents(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "8K", "--kv-tokens", "32K", "--device", "cpu")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(PATH, encoding="utf-8") as f:
            cls.text = FACT + f.read()[:9000].rsplit(".", 1)[0] + ". "
        cls.question, cls.code = "What is the access code for Marrow Hill?", "48213"
        r = cls.server.request("PUT", "/v1/documents/report?wait=true", cls.text.encode(), {"Content-Type": "text/plain"}, timeout=200)
        assert r.status == 200 and harness.events(r.body)[-1] == "[DONE]", r.body

    def ids(self, content):
        return self.server.post("/tokenize", {"messages": [{"role": "user", "content": content}]}).json["tokens"]

    def chat(self, content):
        r = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 40,
                                                      "temperature": 0}, timeout=200)
        self.assertEqual(r.status, 200, r.body)
        return r.json["choices"][0]["message"]["content"], r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    def messages(self, content):
        r = self.server.post("/v1/messages", {"messages": [{"role": "user", "content": content}], "max_tokens": 40,
                                              "temperature": 0}, timeout=200)
        self.assertEqual(r.status, 200, r.body)
        return r.json["content"][0]["text"], r.json["usage"]["cache_read_input_tokens"]

    def test_both_dialects_answer_from_the_cache_and_as_with_the_text(self):
        n = self.server.get("/v1/documents/report").json["tokens"]
        self.assertGreater(n, 2000)
        question = {"type": "text", "text": self.question}
        chat = [{"type": "file", "file": {"file_id": "report"}}, question]
        messages = [{"type": "document", "source": {"type": "file", "file_id": "report"}}, question]
        first, cached = self.chat(chat)
        self.assertEqual(cached, n // 64 * 64)
        self.assertIn(self.code, first)
        self.assertEqual(self.chat(chat)[0], first)
        answer, cached = self.messages(messages)
        self.assertEqual(answer, first)
        self.assertGreaterEqual(cached, n // 64 * 64)
        self.assertEqual(self.chat(self.text + "\n" + self.question)[0], first)
        self.assertEqual(self.server.get("/v1/documents/report").json["hits"], 3)

    def test_its_tokens_are_its_own_whatever_follows(self):
        n = self.server.get("/v1/documents/report").json["tokens"]
        part = {"type": "document", "name": "report"}
        alone = self.ids([part])[:n]
        for behind in ("x", ".", "\n\n", " and so on", "</s>", "é"):
            got = self.ids([part, {"type": "text", "text": behind}])
            self.assertEqual(got[:n], alone)
            self.assertGreater(len(got), n)

    def test_elsewhere_it_is_the_same_text_read_again(self):
        part = {"type": "document", "name": "report"}
        answer, cached = self.chat([{"type": "text", "text": "A report:"}, part, {"type": "text", "text": self.question}])
        self.assertLess(cached, 64)
        self.assertIn(self.code, answer)


if __name__ == "__main__":
    harness.main()
