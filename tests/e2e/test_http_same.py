"""An answer that is sent whole is made while it is sent, from the tokens, a second time. It must be what the stream of
the same request adds up to: each text as it is written, each number as it is written, usage, and how each choice ended.
And it must be the same over every version of HTTP, in one piece or in chunks."""
import itertools
import json
import re

import harness
from harness import events

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
CHUNKED = 8 * 1024  # an answer that is longer goes out in chunks (LF_ANSWER_WINDOW_BYTES)

STRING = r'"((?:[^"\\]|\\.)*)"'


def numbers_as_text(body):
    """Parsed, but numbers stay as they were written."""
    return json.loads(body, parse_float=str, parse_int=str)


def texts_as_written(body, path):
    """The JSON of all texts of an answer, escapes and all, in the order of its choices."""
    name = "content" if path == CHAT else "text"
    return re.findall(rf'"{name}":{STRING}', body.decode())


def listed(logprobs):
    """None for lists of nothing: a stream has no event for them."""
    return logprobs if logprobs and any(logprobs.values()) else None


def same_but_for_the_moment(body):
    """Without what differs between two answers to one request: its id, when, how fast, and what was cached."""
    body = re.sub(rb'"timings":\{[^}]*\}', b'"timings":{}', body)
    body = re.sub(rb'"cached_tokens":\d+', b'"cached_tokens":0', body)
    return re.sub(rb'"id":"[^"]*","object":"([^"]*)","created":\d+', rb'"object":"\1"', body)


class Sum:
    """What a stream adds up to, choice by choice."""

    def __init__(self, path, body, n):
        self.choices = [{"text": "", "written": "", "logprobs": None, "finish": None} for _ in range(n)]
        got = events(body)
        assert got[-1] == "[DONE]", got[-1]
        for text in got[:-1]:
            event = numbers_as_text(text)
            for choice in event["choices"]:
                self.add(path, choice, text)
            self.usage = event["usage"]

    def add(self, path, choice, event):
        mine = self.choices[int(choice["index"])]
        assert mine["finish"] is None, "something comes behind the end of a choice"
        text = choice["delta"].get("content") if path == CHAT else choice["text"]
        if text:
            mine["text"] += text
            mine["written"] += re.search(rf'"{"content" if path == CHAT else "text"}":{STRING}', event).group(1)
        if choice.get("logprobs"):
            mine["logprobs"] = mine["logprobs"] or {}
            for name, values in choice["logprobs"].items():
                mine["logprobs"][name] = (mine["logprobs"].get(name) or []) + values if values is not None else None
        mine["finish"] = choice["finish_reason"]


class Same(harness.Case):
    args = ("ctx=131072", "n_blocks=65536")

    def body(self, path, prompt, **more):
        if path == CHAT:
            if "logprobs" in more:
                more["top_logprobs"] = more["logprobs"]
                more["logprobs"] = True
            begun = [{"role": "assistant", "content": "Begun STOP \u00e9"}] if more.get("echo") else []
            return {"messages": [{"role": "user", "content": prompt}, *begun], "max_tokens": 300, **more}
        return {"prompt": prompt, "max_tokens": 300, **more}

    def check(self, path, prompt, **more):
        body = self.body(path, prompt, **more)
        r = self.server.post(path, body)
        self.assertEqual(r.status, 200, r.body[:300])
        self.assertEqual(r.headers["content-type"], "application/json")
        self.assertEqual("content-length" in r.headers, "transfer-encoding" not in r.headers)
        whole = numbers_as_text(r.body)
        stream = self.server.stream(path, {**body, "stream_options": {"include_usage": True}})
        self.assertEqual(stream.status, 200)
        total = Sum(path, stream.body, len(whole["choices"]))
        what = (path, prompt[:60], more)
        self.assertEqual([c["index"] for c in whole["choices"]], [str(i) for i in range(len(whole["choices"]))])
        self.assertEqual([self.text_of(path, c) for c in whole["choices"]], [c["text"] for c in total.choices], what)
        self.assertEqual(texts_as_written(r.body, path), [c["written"] for c in total.choices], what)
        self.assertEqual([listed(c["logprobs"]) for c in whole["choices"]], [c["logprobs"] for c in total.choices], what)
        self.assertEqual([c["finish_reason"] for c in whole["choices"]], [c["finish"] for c in total.choices], what)
        for usage in (whole["usage"], total.usage):
            usage.pop("prompt_tokens_details")  # the second one finds what the first one left
        self.assertEqual(whole["usage"], total.usage, what)
        return r, whole

    @staticmethod
    def text_of(path, choice):
        return choice["message"]["content"] if path == CHAT else choice["text"]

    def test_everything_that_can_be_asked_for_with_everything(self):
        says = ("[[say=]]", "[[say=Hello world 日本 été STOP END\u2028\"\\\n\x01]]", "x")
        options = {"n": (1, 3), "stop": (None, ["STOP"], ["zz", "w"], ["日"]), "logprobs": (None, 0, 2), "echo": (False, True)}
        for path in (CHAT, TEXT):
            for say, *values in itertools.product(says, *options.values()):
                more = {k: v for k, v in zip(options, values) if v not in (None, False)}
                self.check(path, say, max_tokens=12, **more)

    def test_several_prompts_and_choices(self):
        body = {"prompt": ["[[say=one STOP]]a", "[[say=zwei]]é", "[[say=]]"], "n": 2, "echo": True, "logprobs": 1,
                "stop": "STOP"}
        whole = numbers_as_text(self.server.post(TEXT, body).body)
        total = Sum(TEXT, self.server.stream(TEXT, {**body, "stream_options": {"include_usage": True}}).body, 6)
        self.assertEqual([c["text"] for c in whole["choices"]], [c["text"] for c in total.choices])
        self.assertEqual([c["text"] for c in total.choices][::2], ["[[say=one STOP]]aone ", "[[say=zwei]]ézwei", "[[say=]]"])
        self.assertEqual([listed(c["logprobs"]) for c in whole["choices"]], [c["logprobs"] for c in total.choices])
        self.assertEqual(whole["usage"]["completion_tokens"], total.usage["completion_tokens"])

    def test_a_token_that_was_cut_off(self):
        for path in (CHAT, TEXT):
            for n in (1, 2, 3):
                self.check(path, "[[say= 日本 日本]]", max_tokens=n, logprobs=1)

    def test_a_long_answer_goes_out_in_chunks(self):
        r, _ = self.check(TEXT, "[[say=Hello]]", logprobs=1)
        self.assertEqual(int(r.headers["content-length"]), len(r.body))
        self.assertLess(len(r.body), CHUNKED)
        for path in (CHAT, TEXT):
            r, whole = self.check(path, "x", n=3, logprobs=5, stop="NEVER")
            self.assertGreater(len(r.body), 64 * 1024)
            self.assertEqual(r.headers["transfer-encoding"], "chunked")
            self.assertEqual({c["finish_reason"] for c in whole["choices"]}, {"length"})

    def test_a_long_text_in_pieces_is_cut_between_code_points(self):
        for unit in ("a", "é", "日", "\U0001f600"):
            for before in ("", "x", "xx", "xxx"):
                prompt = "[[say=yes]]" + before + unit * 6000
                r, whole = self.check(TEXT, prompt, echo=True)
                self.assertEqual(whole["choices"][0]["text"], prompt + "yes")

    def test_an_echo_that_is_long_with_its_log_probabilities(self):
        prompt = "[[say=yes 日本]]" + "é b" * 600
        r, whole = self.check(TEXT, prompt, echo=True, logprobs=2, n=2)
        self.assertGreater(len(r.body), 64 * 1024)
        for c in whole["choices"]:
            self.assertEqual({len(v) for v in c["logprobs"].values()}, {int(whole["usage"]["prompt_tokens"]) + 5})

    def raw(self, version, path, body, head=b""):
        data = json.dumps(body).encode()
        text = (b"POST %s HTTP/%s\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
                % (path.encode(), version, head, len(data)))
        with self.server.socket(text + data) as s:
            got = b""
            while part := s.recv(65536):
                got += part
        return got.split(b"\r\n\r\n", 1)

    def test_http_1_0_gets_the_same_bytes(self):
        for path in (CHAT, TEXT):
            for more in ({}, {"n": 3, "logprobs": 5}, {"stream": True, "max_tokens": 20}):
                body = self.body(path, "x", **more)
                want = self.server.post(path, body)
                head, got = self.raw(b"1.0", path, body)
                self.assertIn(b" 200 ", head.split(b"\r\n")[0])
                self.assertNotIn(b"transfer-encoding", head.lower())
                if "stream" in more:  # how events fall into pieces depends on the moment
                    self.assertTrue(got.endswith(b"data: [DONE]\n\n"))
                    continue
                self.assertEqual(same_but_for_the_moment(got), same_but_for_the_moment(want.body))

    def test_a_connection_goes_on_after_a_long_answer(self):
        c = self.server.connect()
        for i in range(3):
            for more in ({"n": 3, "logprobs": 5}, {"max_tokens": 3}, {"stream": True, "max_tokens": 3}):
                r = self.server.post(TEXT, self.body(TEXT, "x", **more), connection=c)
                self.assertEqual(r.status, 200)
                if "stream" not in more:
                    self.assertEqual(len(r.json["choices"]), more.get("n", 1))
        c.close()

    def test_head_has_the_head_of_get_and_no_body(self):
        c = self.server.connect()
        for path in ("/livez", "/v1/models", "/v1/models/fake"):
            get = self.server.get(path, connection=c)
            head = self.server.request("HEAD", path, connection=c)
            self.assertEqual((head.status, head.body), (200, b""))
            self.assertEqual(head.headers["content-length"], get.headers["content-length"])
            self.assertEqual(head.headers["content-type"], get.headers["content-type"])
        for path in (CHAT, TEXT):
            self.assertEqual(self.server.request("HEAD", path, connection=c).status, 405)
        c.close()

    def test_head_leaves_nothing_behind_on_the_wire(self):
        with self.server.socket(b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as s:
            got = b""
            while part := s.recv(65536):
                got += part
        self.assertEqual([m.start() for m in re.finditer(rb"HTTP/1\.1 200", got)],
                         [0, got.index(b"\r\n\r\n") + 4])


if __name__ == "__main__":
    harness.main()
