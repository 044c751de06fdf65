"""Answers: their shape, usage, timings, log-probabilities, stop strings and echo."""
import harness

TIMINGS = {"queue_ms", "tokenize_ms", "prefill_ms", "cached_tokens", "decode_ms", "prefill_tokens_per_second",
           "decode_tokens_per_second"}


class Answers(harness.Case):
    args = ("ctx=4096",)

    def test_chat(self):
        r = self.server.chat("[[say=Hello world]]")
        j = r.json
        self.assertEqual(list(j), ["id", "object", "created", "model", "system_fingerprint", "choices", "usage", "timings"])
        self.assertRegex(j["id"], r"^chatcmpl-[0-9a-f]{24}$")
        self.assertEqual((j["object"], j["model"]), ("chat.completion", "fake"))
        self.assertIsInstance(j["created"], int)
        self.assertEqual(j["choices"], [{"index": 0, "message": {"role": "assistant", "content": "Hello world",
                                                                 "refusal": None},
                                         "logprobs": None, "finish_reason": "stop", "stop_reason": None}])
        self.assertEqual(r.headers["content-type"], "application/json")

    def test_completion(self):
        j = self.server.complete("[[say=Hello world]]").json
        self.assertEqual(list(j), ["id", "object", "created", "model", "system_fingerprint", "choices", "usage", "timings"])
        self.assertRegex(j["id"], r"^cmpl-[0-9a-f]{24}$")
        self.assertEqual(j["object"], "text_completion")
        self.assertEqual(j["choices"], [{"index": 0, "text": "Hello world", "logprobs": None, "finish_reason": "stop", "stop_reason": None}])

    def test_usage_and_timings(self):
        j = self.server.complete("[[say=Hello world]] [[prefill_ms=30]] [[step_ms=10]]").json
        u = j["usage"]
        self.assertEqual(u["total_tokens"], u["prompt_tokens"] + u["completion_tokens"])
        self.assertEqual(u["completion_tokens"], 2)
        self.assertEqual(u["prompt_tokens_details"], {"cached_tokens": 0})
        t = j["timings"]
        self.assertEqual(set(t), TIMINGS)
        self.assertGreaterEqual(t["prefill_ms"], 29)
        self.assertGreaterEqual(t["decode_ms"], 9)
        self.assertGreater(t["decode_tokens_per_second"], 0)
        self.assertGreater(t["prefill_tokens_per_second"], 0)

    def test_cached_tokens_are_those_of_the_same_tenant_and_salt(self):
        prompt = "[[say=x]]" + "abc" * 100
        cached = lambda **more: self.server.complete(prompt, **more).json["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached(), 0)
        self.assertEqual(cached(), 256)
        self.assertEqual(cached(cache_salt="a"), 0)
        self.assertEqual(cached(cache_salt="a"), 256)
        self.assertEqual(cached(cache_salt="b"), 0)
        self.assertEqual(self.server.complete(prompt).json["timings"]["cached_tokens"], 256)

    def test_finish_reasons(self):
        self.assertEqual(self.server.complete("x", max_tokens=5).json["choices"][0]["finish_reason"], "length")
        self.assertEqual(self.server.complete("[[say=x]]").json["choices"][0]["finish_reason"], "stop")
        j = self.server.complete("[[say=abc]]", stop_token_ids=[ord("b")]).json
        self.assertEqual((j["choices"][0]["text"], j["choices"][0]["finish_reason"]), ("a", "stop"))
        j = self.server.complete("[[say=ab]]", max_tokens=5, ignore_eos=True).json
        self.assertEqual((j["choices"][0]["text"], j["choices"][0]["finish_reason"]), ("abzzz", "length"))
        j = self.server.complete("[[say=ab]]", max_tokens=9, min_tokens=4).json
        self.assertEqual((j["choices"][0]["text"], j["choices"][0]["finish_reason"]), ("abzz", "stop"))

    def test_stop_strings_are_cut_also_across_tokens_and_usage_ends_there(self):
        for stop, text, n in (("STOP", "abc ", 6), (["zz", "OP"], "abc ST", 6), ("STOQ", "abc STOP def", 10),
                              ("def", "abc STOP ", 10), ("abc STOP def", "", 10), (["P d", "c STOP"], "ab", 6), ("a", "", 1)):
            j = self.server.complete("[[say=abc STOP def]]", stop=stop).json
            self.assertEqual(j["choices"][0]["text"], text, stop)
            self.assertEqual(j["choices"][0]["finish_reason"], "stop")
            self.assertEqual(j["usage"]["completion_tokens"], n, stop)

    def test_a_stop_string_ends_an_endless_answer_at_once(self):
        j = self.server.complete("x", stop=["quick"], max_tokens=4000).json
        self.assertEqual(j["choices"][0]["text"], "Hello world, the ")
        self.assertTrue(harness.wait_until(lambda: self.server.metric("num_requests_running") == 0))
        self.assertLess(j["usage"]["completion_tokens"], 10)

    def test_nothing_stops_below_min_tokens(self):
        j = self.server.complete("[[say=abab]]", stop="a", min_tokens=2).json
        self.assertEqual((j["choices"][0]["text"], j["usage"]["completion_tokens"]), ("ab", 3))

    def test_a_multi_byte_stop(self):
        j = self.server.complete("[[say=x 日本 y]]", stop="本").json
        self.assertEqual(j["choices"][0]["text"], "x 日")

    def test_several_choices(self):
        j = self.server.chat("[[say=abc]]", n=8).json
        self.assertEqual([c["index"] for c in j["choices"]], list(range(8)))
        self.assertEqual({c["message"]["content"] for c in j["choices"]}, {"abc"})
        self.assertEqual(j["usage"]["completion_tokens"], 24)
        one = self.server.chat("[[say=abc]]").json["usage"]["prompt_tokens"]
        self.assertEqual(j["usage"]["prompt_tokens"], one)

    def test_bytes_that_are_no_text_become_replacement_characters(self):
        ids = list(b"[[say=") + [0xE6, 0x97, 0x41, 0xFF] + list(b"]]")
        j = self.server.complete(ids).json
        self.assertTrue(j["choices"][0]["text"].startswith("\ufffd"))

    def test_control_characters_and_line_separators_are_escaped(self):
        r = self.server.chat("[[say=a\u2028b\u2029c\td\x01e\x7f\"\\]]")
        self.assertEqual(r.json["choices"][0]["message"]["content"], "a\u2028b\u2029c\td\x01e\x7f\"\\")
        self.assertIn(b"\\u2028", r.body)
        self.assertIn(b"\\u2029", r.body)
        self.assertNotIn("\u2028".encode(), r.body)

    def test_chat_logprobs(self):
        j = self.server.chat("[[say= 日本!]]", logprobs=True, top_logprobs=3).json
        content = j["choices"][0]["logprobs"]["content"]
        self.assertIsNone(j["choices"][0]["logprobs"]["refusal"])
        self.assertEqual(len(content), j["usage"]["completion_tokens"])
        for e in content:
            self.assertEqual(list(e), ["token", "logprob", "bytes", "top_logprobs"])
            self.assertLessEqual(e["logprob"], 0)
            self.assertEqual(len(e["top_logprobs"]), 3)
            for t in e["top_logprobs"]:
                self.assertEqual(list(t), ["token", "logprob", "bytes"])
            self.assertEqual(e["top_logprobs"][0]["bytes"], e["bytes"])
        self.assertEqual(bytes(b for e in content for b in e["bytes"]).decode(), " 日本!")
        for more, n in (({"top_logprobs": 0}, 0), ({}, 0)):
            j = self.server.chat("[[say=a]]", logprobs=True, **more).json
            self.assertEqual([len(e["top_logprobs"]) for e in j["choices"][0]["logprobs"]["content"]], [n])
        self.assertIsNone(self.server.chat("[[say=a]]", logprobs=False).json["choices"][0]["logprobs"])

    def test_completion_logprobs(self):
        j = self.server.complete("[[say=ab 日本é]]", logprobs=2).json
        lp = j["choices"][0]["logprobs"]
        self.assertEqual(list(lp), ["tokens", "token_logprobs", "top_logprobs", "text_offset"])
        n = j["usage"]["completion_tokens"]
        self.assertEqual({len(v) for v in lp.values()}, {n})
        self.assertEqual(lp["tokens"][:2], ["a", "b"])
        self.assertEqual(lp["tokens"][2], "bytes:\\x20\\xe6\\x97")
        self.assertEqual(lp["text_offset"], [0, 1, 2, 3, 5])
        for token, value, top in zip(lp["tokens"], lp["token_logprobs"], lp["top_logprobs"]):
            self.assertLessEqual(len(top), 3)
            self.assertEqual(top[token], value)
        lp = self.server.complete("[[say=ab]]", logprobs=0).json["choices"][0]["logprobs"]
        self.assertEqual([list(t) for t in lp["top_logprobs"]], [["a"], ["b"]])

    def test_echo(self):
        prompt = "[[say=yes]] \u2028é  x"
        self.assertEqual(self.server.complete(prompt, echo=True).json["choices"][0]["text"], prompt + "yes")
        ids = list(prompt.encode())
        self.assertEqual(self.server.complete([256, *ids], echo=True).json["choices"][0]["text"], prompt + "yes")
        j = self.server.complete(prompt, echo=True, max_tokens=0).json
        self.assertEqual((j["choices"][0]["text"], j["usage"]["completion_tokens"]), (prompt, 0))
        j = self.server.complete([prompt, "[[say=no]]"], echo=True, n=2).json
        self.assertEqual([c["text"] for c in j["choices"]], [prompt + "yes"] * 2 + ["[[say=no]]no"] * 2)
        j = self.server.complete("[[say=yes]] stop", echo=True, stop="stop").json  # the prompt's own text stops nothing
        self.assertEqual(j["choices"][0]["text"], "[[say=yes]] stopyes")

    def test_echo_with_logprobs_scores_the_prompt(self):
        prompt = "[[say=yé]] ab"
        j = self.server.complete(prompt, echo=True, logprobs=1).json
        lp = j["choices"][0]["logprobs"]
        n = j["usage"]["total_tokens"]
        self.assertEqual({len(v) for v in lp.values()}, {n})
        self.assertIsNone(lp["token_logprobs"][0])
        self.assertIsNone(lp["top_logprobs"][0])
        self.assertNotIn(None, lp["token_logprobs"][1:])
        self.assertEqual(lp["tokens"][0], "<s>")
        self.assertEqual(lp["text_offset"][:3], [0, 0, 1])
        self.assertEqual(lp["text_offset"][-1], len(prompt) + 1)
        j = self.server.complete(prompt, echo=True, logprobs=0, max_tokens=0).json
        self.assertEqual(len(j["choices"][0]["logprobs"]["tokens"]), j["usage"]["prompt_tokens"])

    def test_a_long_answer_is_whole(self):
        j = self.server.complete("x", max_tokens=4000).json
        self.assertEqual(j["usage"]["completion_tokens"], 4000)
        self.assertTrue(j["choices"][0]["text"].startswith("Hello world, the quick 日本 fox says été. Hello"))

    def test_many_requests_on_one_connection(self):
        c = self.server.connect()
        for i in range(200):
            self.assertEqual(self.server.post("/v1/completions", {"prompt": f"[[say={i}]]"}, connection=c)
                             .json["choices"][0]["text"], str(i))
        c.close()

    def test_http_1_0_gets_an_answer_and_the_end(self):
        body = b'{"prompt":"[[say=ok]]","stream":true}'
        with self.server.socket(b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                                % len(body) + body) as s:
            data = b""
            while got := s.recv(65536):
                data += got
        self.assertNotIn(b"Transfer-Encoding", data)
        self.assertTrue(data.endswith(b"data: [DONE]\n\n"))


if __name__ == "__main__":
    harness.main()
