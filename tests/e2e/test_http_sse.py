"""Streams, byte for byte."""
import json
import time

import harness
from harness import events

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


def text_of(path, chunks, idx=0):
    """What the pieces of a choice add up to."""
    out = ""
    for c in chunks:
        for choice in c["choices"]:
            if choice["index"] == idx:
                out += (choice["delta"].get("content") or "") if path == CHAT else choice["text"]
    return out


class Sse(harness.Case):
    args = ("ctx=4096", "keep_alive_ms=300")

    def body(self, path, prompt, **more):
        if path == CHAT:
            return {"messages": [{"role": "user", "content": prompt}], **more}
        return {"prompt": prompt, "max_tokens": 200, **more}

    def chunks(self, path, prompt, **more):
        r = self.server.stream(path, self.body(path, prompt, **more))
        self.assertEqual(r.status, 200, r.body[:300])
        got = events(r.body)
        self.assertEqual(got[-1], "[DONE]")
        self.assertTrue(r.body.endswith(b"data: [DONE]\n\n"))
        return [json.loads(e) for e in got[:-1]]

    def test_headers(self):
        r = self.server.stream(TEXT, {"prompt": "[[say=x]]"})
        self.assertEqual(r.headers["content-type"], "text/event-stream; charset=utf-8")
        self.assertEqual(r.headers["cache-control"], "no-cache")
        self.assertEqual(r.headers["x-accel-buffering"], "no")
        self.assertTrue(r.headers["x-request-id"])

    def test_only_data_lines_each_one_line_of_json(self):
        r = self.server.stream(CHAT, self.body(CHAT, "[[say=a\nb\rc\u2028d]]"))
        for line in r.body.decode().split("\n"):
            self.assertTrue(line == "" or line.startswith("data: "), line)
        self.assertNotIn("\u2028", r.body.decode())
        self.assertNotIn("\r", r.body.decode())

    def test_chat_chunks(self):
        chunks = self.chunks(CHAT, "[[say=Hello world]]")
        for c in chunks:
            self.assertEqual(list(c)[:6], ["id", "object", "created", "model", "system_fingerprint", "choices"])
            self.assertEqual((c["object"], c["id"], c["created"]), ("chat.completion.chunk", chunks[0]["id"], chunks[0]["created"]))
            self.assertNotIn("usage", c)
            for choice in c["choices"]:
                self.assertEqual(choice["index"], 0)
                self.assertIsInstance(choice["delta"], dict)
                self.assertIn("finish_reason", choice)
        first, last = chunks[0]["choices"][0], chunks[-1]["choices"][0]
        self.assertEqual(first["delta"], {"role": "assistant", "content": ""})
        self.assertEqual((last["delta"], last["finish_reason"]), ({}, "stop"))
        for c in chunks[:-1]:
            self.assertIsNone(c["choices"][0]["finish_reason"])
        for c in chunks[1:]:
            self.assertNotIn("role", c["choices"][0]["delta"])
        self.assertEqual(text_of(CHAT, chunks), "Hello world")
        self.assertIn("decode_ms", chunks[-1]["timings"])
        self.assertTrue(all("timings" not in c for c in chunks[:-1]))

    def test_roles_come_first_in_order_of_index(self):
        chunks = self.chunks(CHAT, "[[say=abcdef]]", n=4)
        self.assertEqual([c["choices"][0]["index"] for c in chunks[:4]], [0, 1, 2, 3])
        self.assertTrue(all("role" in c["choices"][0]["delta"] for c in chunks[:4]))
        self.assertTrue(all("role" not in c["choices"][0]["delta"] for c in chunks[4:]))
        for i in range(4):
            self.assertEqual(text_of(CHAT, chunks, i), "abcdef")
            self.assertEqual([c["choices"][0]["finish_reason"] for c in chunks if c["choices"][0]["index"] == i][-1], "stop")
        self.assertEqual(sum("timings" in c for c in chunks), 1)

    def test_completion_chunks(self):
        chunks = self.chunks(TEXT, "[[say=Hello world]]")
        self.assertTrue(all(c["object"] == "text_completion" and len(c["choices"]) == 1 for c in chunks))
        self.assertEqual(chunks[-1]["choices"][0], {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop",
                                                     "stop_reason": None})
        self.assertEqual(text_of(TEXT, chunks), "Hello world")

    def test_include_usage_is_one_more_chunk(self):
        for path in (CHAT, TEXT):
            chunks = self.chunks(path, "[[say=abc]]", stream_options={"include_usage": True})
            self.assertEqual(chunks[-1]["choices"], [])
            self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 3)
            self.assertIn("timings", chunks[-1])
            self.assertTrue(all(c["usage"] is None and c["choices"] for c in chunks[:-1]))
            self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "stop")
            chunks = self.chunks(path, "[[say=abc]]", stream_options={"include_usage": False})
            self.assertTrue(all("usage" not in c and c["choices"] for c in chunks))

    def test_a_stream_adds_up_to_the_answer(self):
        cases = [("[[say=Hello the quick world 日本 été STOP END]]", {}), ("x", {"max_tokens": 150}),
                 ("[[say=abc STOP def]]", {"stop": "STOP"}), ("[[say=abcSTOQ]]", {"stop": ["STOP", "cST"]}),
                 ("[[say=]]", {}), ("[[say=abc]]", {"n": 3}), ("[[say=é日]]", {"max_tokens": 1}),
                 ("[[say= 日本]]", {"max_tokens": 1}), ("[[say=\U0001f600 \U0001f9d1\u200d\U0001f680]]", {})]
        for path in (CHAT, TEXT):
            for prompt, more in cases:
                whole = self.server.post(path, self.body(path, prompt, **more)).json
                chunks = self.chunks(path, prompt, **more)
                for choice in whole["choices"]:
                    text = choice["message"]["content"] if path == CHAT else choice["text"]
                    self.assertEqual(text_of(path, chunks, choice["index"]), text, (path, prompt, more))
                    ends = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"][0]["index"] == choice["index"]]
                    self.assertEqual(ends[-1], choice["finish_reason"])

    def test_echo_streams_too(self):
        prompt = "é" * 3000 + "[[say=yes]]"
        whole = self.server.post(TEXT, {"prompt": prompt, "echo": True}).json["choices"][0]["text"]
        chunks = self.chunks(TEXT, prompt, echo=True)
        self.assertEqual(text_of(TEXT, chunks), whole)
        self.assertEqual(whole, prompt + "yes")

    def test_logprobs_add_up_as_well(self):
        say = "[[say=a 日本 é STOP b]]"
        for more in ({}, {"stop": "OP"}, {"echo": True}):
            whole = self.server.post(TEXT, self.body(TEXT, say, logprobs=2, **more)).json["choices"][0]["logprobs"]
            chunks = self.chunks(TEXT, say, logprobs=2, **more)
            for name in whole:
                got = [x for c in chunks if c["choices"][0]["logprobs"] for x in c["choices"][0]["logprobs"][name]]
                self.assertEqual(got, whole[name])
        whole = self.server.post(CHAT, self.body(CHAT, say, logprobs=True, top_logprobs=1)).json["choices"][0]["logprobs"]
        chunks = self.chunks(CHAT, say, logprobs=True, top_logprobs=1)
        got = [x for c in chunks if c["choices"][0]["logprobs"] for x in c["choices"][0]["logprobs"]["content"]]
        self.assertEqual(got, whole["content"])

    def test_a_refusal_is_a_real_status_not_a_stream(self):
        self.assert_error(self.server.stream(TEXT, {"prompt": "x", "temperature": 9}), 400)
        self.assert_error(self.server.stream(TEXT, {"prompt": "x" * 5000}), 400, "context_length_exceeded")

    def test_an_error_in_the_middle_ends_the_stream_without_done(self):
        for path in (CHAT, TEXT):
            r = self.server.stream(path, self.body(path, "x [[fail_at=3]]"))
            self.assertEqual(r.status, 200)
            got = events(r.body)
            error = json.loads(got[-1])["error"]
            self.assertEqual((error["type"], error["code"], error["param"]), ("server_error", "engine_failed", None))
            self.assertNotIn(b"[DONE]", r.body)
            self.assertEqual(text_of(path, [json.loads(e) for e in got[:-1]]), "Hello world,")

    def test_after_an_error_the_connection_ends(self):
        body = json.dumps(self.body(TEXT, "x [[fail_at=3]]", stream=True)).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        with self.server.socket(head % len(body) + body) as s:
            data = b""
            while got := s.recv(65536):
                data += got
        self.assertTrue(data.endswith(b"\r\n0\r\n\r\n"))

    def test_events_come_as_they_are_made(self):
        """None before it is made, and none waits for the next."""
        c = self.server.connect()
        began = time.monotonic()
        c.request("POST", TEXT, json.dumps({"prompt": "x [[step_ms=100]]", "max_tokens": 5, "stream": True}),
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        for i in range(5):
            with harness.within(0.3, f"event {i}"):
                while not r.readline().startswith(b"data: {"):
                    pass
            self.assertGreaterEqual(time.monotonic() - began, 0.1 * i)
        self.assertTrue(r.read().endswith(b"data: [DONE]\n\n"))
        c.close()

    def test_keep_alive_comments_fill_silence(self):
        r = self.server.stream(TEXT, {"prompt": "[[say=ab]] [[prefill_ms=1500]]"})
        self.assertTrue(2 <= r.body.count(b": keep-alive\n\n") <= 5)
        self.assertEqual(len(events(r.body)), 4)
        # a reader that takes whatever stands between two empty lines for one event finds all of them too
        blocks = r.body.decode().split("\n\n")
        self.assertEqual([b[len("data: "):] for b in blocks if b.startswith("data: ")], events(r.body))

    def test_progress_of_a_long_prefill(self):
        prompt = "a" * 1000 + "[[say=ab]] [[prefill_ms=2500]]"
        c = self.server.connect()
        c.request("POST", CHAT, json.dumps({**self.body(CHAT, prompt), "stream": True, "return_progress": True}),
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        seen = []
        with harness.within(60, "a prefill of 2.5 s") as machine:
            while line := r.readline():
                if line.startswith(b"data: {") and b"prompt_progress" in line:
                    chunk = json.loads(line[6:])
                    self.assertEqual(chunk["choices"], [])
                    self.assertEqual(chunk["object"], "chat.completion.chunk")
                    seen.append((time.monotonic(), chunk["prompt_progress"]))
        c.close()
        self.assertGreaterEqual(len(seen), 4)
        for _, p in seen:
            self.assertEqual(set(p), {"total", "cached", "processed", "time_ms", "eta_ms"})
            self.assertLessEqual(p["cached"], p["processed"])
            self.assertLessEqual(p["processed"], p["total"])
        for (a, p), (b, q) in zip(seen, seen[1:]):
            self.assertLess(b - a, 1.0 * max(1, harness.SLOW / 2) + machine.sleeper.TIMES * machine.sleeper.late)
            self.assertLessEqual(p["processed"], q["processed"])
        self.assertEqual(seen[-1][1]["processed"], seen[-1][1]["total"])
        r = self.server.stream(CHAT, self.body(CHAT, prompt.replace("2500", "600")))
        self.assertNotIn(b"prompt_progress", r.body)

    def test_a_long_stream_is_whole(self):
        chunks = self.chunks(TEXT, "x", max_tokens=3000)
        whole = self.server.complete("x", max_tokens=3000).json["choices"][0]["text"]
        self.assertEqual(text_of(TEXT, chunks), whole)


class KeepAliveChunks(harness.Case):
    args = ("keep_alive=chunk", "keep_alive_ms=200")

    def test_silence_is_filled_with_empty_chunks(self):
        r = self.server.stream(CHAT, {"messages": [{"role": "user", "content": "[[say=ab]] [[prefill_ms=1000]]"}]})
        chunks = [json.loads(e) for e in events(r.body)[:-1]]
        empty = [c for c in chunks if c["choices"][0]["delta"] == {} and c["choices"][0]["finish_reason"] is None]
        self.assertGreaterEqual(len(empty), 2)
        self.assertEqual(text_of(CHAT, chunks), "ab")


class KeepAliveOff(harness.Case):
    args = ("keep_alive=off", "keep_alive_ms=100")

    def test_silence_stays_silence(self):
        r = self.server.stream(TEXT, {"prompt": "[[say=ab]] [[prefill_ms=700]]"})
        self.assertEqual(len(events(r.body)), 4)
        self.assertNotIn(b"keep-alive", r.body)


if __name__ == "__main__":
    harness.main()
