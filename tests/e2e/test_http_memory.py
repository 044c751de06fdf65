"""Memory: every allocation of ours fails once, then all of them do; and bodies have a budget in all."""
import json
import subprocess
import time

import harness
from test_http_disconnects import request

SCENARIOS = {
    "completion": ("/v1/completions", {"prompt": "[[say=Hello 日本]]", "max_tokens": 9}),
    "ids": ("/v1/completions", {"prompt": [[1, 2], [3]], "max_tokens": 2, "echo": True}),
    "scored": ("/v1/completions", {"prompt": "[[say=ab]]", "logprobs": 2, "echo": True, "n": 2, "stop": ["x", "b"]}),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "[[say=ok]]"}], "logprobs": True,
                                      "top_logprobs": 2, "cache_salt": "s"}),
    "parts": ("/v1/chat/completions", {"messages": [{"role": "developer", "content": [{"type": "text", "text": "[[say=ok]]"}]}]}),
    "stream": ("/v1/completions", {"prompt": "[[say=Hello 日本]]", "stream": True, "stream_options": {"include_usage": True}}),
    "chat stream": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "[[say=ok]]"}], "stream": True, "n": 2,
                                             "logprobs": True, "return_progress": True}),
    "failing stream": ("/v1/completions", {"prompt": "x [[fail_at=2]]", "stream": True}),
    "tokenize": ("/tokenize", {"prompt": "Hello é"}),
    "detokenize": ("/detokenize", {"tokens": [72, 105]}),
    "template": ("/apply-template", {"messages": [{"role": "user", "content": "x"}]}),
    "bad field": ("/v1/completions", {"prompt": "x", "temperature": 9}),
    "bad json": ("/v1/completions", b"{"),
    "document": ("PUT /v1/documents/a?wait=true", {"text": "x" * 300, "system": "y"}),
    "text": ("PUT /v1/documents/a", b"x" * 300),
    "another text": ("PUT /v1/documents/b", b"x" * 300),
    "the same text": ("PUT /v1/documents/b", b"x"),
    "no document": ("PUT /v1/documents/a", {"text": ""}),
    "a document": ("GET /v1/documents/b", None),
    "documents": ("/v1/documents", None),
    "a pin": ("POST /v1/documents/b/pin", {}),
    "no pin": ("POST /v1/documents/b/unpin", {}),
    "delete": ("DELETE /v1/documents/b", None),
    "document in a chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": [
        {"type": "document", "name": "b"}, {"type": "text", "text": "[[say=ok]]"}]}], "max_tokens": 5}),
    "document in messages": ("/v1/messages", {"messages": [{"role": "user", "content": [
        {"type": "document", "source": {"type": "file", "file_id": "b"}}, {"type": "text", "text": "[[say=ok]]"}]}], "max_tokens": 5}),
    "document in a response": ("/v1/responses", {"input": [{"role": "user", "content": [
        {"type": "input_file", "file_id": "b"}, {"type": "input_text", "text": "[[say=ok]]"}]}], "instructions": "x", "metadata": {"a": "b"}}),
    "response stream": ("/v1/responses", {"input": "[[say=ok]]", "stream": True}),
    "failing response": ("/v1/responses", {"input": "x [[fail_at=2]]", "stream": True}),
    "models": ("/v1/models", None),
    "metrics": ("/metrics", None),
    "capacity": ("/v1/capacity", None),
    "version": ("/version", None),
    "ping": ("/ping", {}),
    "page": ("/", None),
    "nothing": ("/nothing", None),
}


# What a scenario with documents finds: none is called a, and b is the text x.
BEFORE = (("DELETE /v1/documents/a", None), ("PUT /v1/documents/b", b"x"))


class Failing(harness.Server):
    def __init__(self, *args):
        popen = subprocess.Popen
        self.process = popen([self.program, "port=0", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[1])

    def fail(self, first, n):
        self.process.stdin.write(f"fail {first} {n}\n".encode())
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"ok\n"


class Memory(harness.Case):
    server_class = Failing
    args = ("n_connections_per_address=400",)

    def send(self, path, body):
        """The whole answer's bytes, None where the connection ended before one."""
        method, _, path = path.rpartition(" ")
        if body is None:
            data = f"{method or 'GET'} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        else:
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            kind = "text/plain" if text[:1] == b"x" else "application/json"
            data = (f"{method or 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(text)}\r\n\r\n").encode() + text
        out = b""
        with self.server.socket(data) as s:
            try:
                while got := s.recv(65536):
                    out += got
            except ConnectionResetError:
                pass
        return out

    def send_anew(self, name):
        path, body = SCENARIOS[name]
        self.prepare(name)
        return self.send(path, body)

    def prepare(self, name):
        if "document" not in name and "document" not in SCENARIOS[name][0]:
            return
        for path, body in BEFORE:
            self.send(path, body)

    def plain(self, data):
        """An answer without what differs each time."""
        head, _, body = data.partition(b"\r\n\r\n")
        return head.split(b"\r\n")[0], len(body) > 0

    def check_well_formed(self, data, name):
        if not data:
            return  # no memory for the request: the connection ends
        head, _, body = data.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        self.assertIn(status, harness.ALLOWED_STATUS, name)
        is_full = b'"text_memory_full"' in body or b'"overloaded_error"' in body
        self.assertEqual(is_full and status in (503, 529), b"\r\nRetry-After: 1" in head, name)
        if b"chunked" in head:
            return
        length = int([x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")][0].split(b":")[1])
        self.assertEqual(len(body), length, name)
        if body and b"application/json" in head:
            try:
                value = json.loads(body)
            except json.JSONDecodeError:
                self.fail(f"{name}: {data!r}")
            self.assertEqual(status >= 400, value.get("error") is not None, (name, body))

    def sweep(self, n_failures, most):
        for name, (path, body) in SCENARIOS.items():
            good = self.plain(self.send_anew(name))
            n_same = 0
            for first in range(1, most):
                self.prepare(name)
                self.server.fail(first, n_failures)
                data = self.send(path, body)
                self.server.fail(0, 0)
                self.check_well_formed(data, (name, first))
                self.assertEqual(self.plain(self.send_anew(name)), good, (name, first))
                n_same = n_same + 1 if self.plain(data) == good else 0
                if n_same == 6:  # past the last allocation of this request
                    break
            else:
                self.assertGreater(most, 5)
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_requests_open") == 1
                                           and self.server.metric("text_memory_used_bytes") < 3e6
                                           and self.server.metric("num_requests_running") == 0))

    def test_each_allocation_fails_once(self):
        self.sweep(1, 120)

    def test_all_allocations_fail_from_each_on(self):
        self.sweep(1000000, 60)


class Texts(harness.Case):
    """Bodies that wait use the budget up; who comes then is told to come again, and nobody is forgotten."""

    args = ("max_body_bytes=1000000", "text_bytes=16000000", "n_connections_per_address=100")

    def test_bodies_in_memory_have_a_budget_in_all(self):
        body = request("x", False)
        head = body[:body.index(b"Content-Length")] + b"Content-Length: 1000000\r\n\r\n"
        used = lambda: self.server.metric("text_memory_used_bytes")
        held = []
        while used() < 15e6 and len(held) < 40:
            held.append(self.server.socket(head + b" " * 999000))
            time.sleep(0.05)
        self.assertGreater(len(held), 12)
        self.assertTrue(harness.wait_until(lambda: used() >= 14.5e6))
        r = self.server.post("/v1/completions", {"prompt": "x", "user": "y" * 900000})
        self.assert_error(r, 503, "text_memory_full")
        self.assertEqual(r.headers["retry-after"], "1")
        self.assertEqual(self.server.get("/livez").status, 200)
        for s in held:
            s.close()
        self.assertTrue(harness.wait_until(lambda: used() < 3e6))
        self.assertEqual(self.server.post("/v1/completions", {"prompt": "x", "user": "y" * 900000}).status, 200)
        self.assertLessEqual(self.server.metric("text_memory_peak_bytes"), 16e6)


class LargeTexts(harness.Case):
    """Large bodies that wait hold all that large ones may have; small requests are answered all the same."""

    args = ("max_body_bytes=4000000", "text_bytes=40000000", "ctx=4000000", "n_connections_per_address=100")

    def test_large_bodies_keep_no_small_request_out(self):
        used = lambda: self.server.metric("text_memory_used_bytes")
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
               b"Content-Length: 3500000\r\n\r\n"
        data = json.dumps({"prompt": "[[tokenize_ms=60000]]" + "x" * 3400000}).encode()
        held = [self.server.socket(head.replace(b"3500000", b"%d" % len(data)) + data)]
        self.assertTrue(harness.wait_until(lambda: used() > 3.4e6))
        time.sleep(0.5)  # it is at work
        for _ in range(20):  # what has no room is read and dropped
            held.append(self.server.socket(head + b" " * 3499000))
        self.assertTrue(harness.wait_until(lambda: used() > 30e6))
        self.assert_error(self.server.post("/v1/completions", {"prompt": "x", "user": "y" * 3000000}), 503,
                          "text_memory_full")
        for _ in range(20):
            self.assertEqual(self.server.complete("x", max_tokens=2).status, 200)
            self.assertEqual(self.server.post("/tokenize", {"prompt": "x"}).status, 200)
        for s in held:
            s.close()


if __name__ == "__main__":
    harness.main()
