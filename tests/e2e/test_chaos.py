"""A thousand clients in a few seconds, good ones among all kinds of bad ones, and nothing is left of them.

The good ones must be served whatever the others do, each with the bytes of a quiet run. Afterwards no block, request,
connection, descriptor or thread is left, memory has not grown, and the same answers come again. LF_SEED repeats a run's
clients, in their order; what meets what is up to the machine.
"""
import concurrent.futures
import http.client
import json
import os
import random
import socket
import struct
import time

import harness

SEED = int(os.environ.get("LF_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
N_CLIENTS = int(1000 / harness.SLOW)
N_AT_ONCE = 120
WORDS = "And it came to pass in those days that the people went up to the hill. "
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def head(path, n_bytes, method="POST", more=""):
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
            f"Content-Length: {n_bytes}\r\n\r\n").encode()


def request(path, body, more=""):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(path, len(text), more=more) + text


def question(k):
    """One of forty good requests."""
    body = {"max_tokens": 8 + 4 * (k % 8), "temperature": (0, 1)[k % 2], "seed": k, "ignore_eos": True}
    if k % 4 == 0:
        return CHAT, {**body, "messages": [{"role": "user", "content": WORDS * (1 + k % 5)}]}
    return TEXT, {**body, "prompt": WORDS * (1 + k % 9)}


def text_of(path, choice, stream):
    if path == TEXT:
        return choice["text"]
    return choice["delta"].get("content", "") if stream else choice["message"]["content"]


def answer(path, r, stream):
    if r.status != 200:
        return f"{r.status}: {r.body[:200]!r}"
    if not stream:
        return text_of(path, r.json["choices"][0], False)
    got = harness.events(r.body)
    if got[-1] != "[DONE]":
        return f"unfinished: {got[-1]}"
    return "".join(text_of(path, json.loads(e)["choices"][0], True) for e in got[:-1])


class Client:
    """One of the thousand: what it does follows from its number alone."""

    def __init__(self, server, idx, quiet):
        self.server, self.idx, self.quiet, self.r = server, idx, quiet, random.Random(SEED * 1000003 + idx)
        self.wrong = None

    def address(self):
        """One of forty, for one address may have 64 connections."""
        return f"127.0.1.{self.r.randrange(1, 41)}", 0

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.server.port, 60 * harness.SLOW, self.address())

    def dial(self, receive_bytes=0):
        s = socket.socket()
        s.settimeout(60 * harness.SLOW)
        if receive_bytes:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        s.bind(self.address())
        s.connect(("127.0.0.1", self.server.port))
        return s

    def leave(self, s):
        if self.r.random() < 0.5:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()

    def read_all(self, s, piece=65536, pause=0.0):
        data = b""
        try:
            while got := s.recv(piece):
                data += got
                if pause:
                    time.sleep(pause)
        except ConnectionError:
            pass
        return data

    def expect(self, got, k):
        if got != self.quiet[k]:
            self.wrong = f"request {k}: {got!r} instead of {self.quiet[k]!r}"

    def expect_status(self, data, *statuses):
        status = int(data.split(b" ", 2)[1]) if data.startswith(b"HTTP/1.1 ") else None
        if status not in statuses:
            self.wrong = f"{data[:200]!r} instead of one of {statuses}"

    # ---- good ones ----

    def good(self):
        k, stream = self.r.randrange(40), self.r.random() < 0.6
        path, body = question(k)
        c = self.connect()
        self.expect(answer(path, self.server.post(path, {**body, "stream": stream}, connection=c), stream), k)
        c.close()

    def good_twice_on_one_connection(self):
        c = self.connect()
        for _ in range(2):
            k = self.r.randrange(40)
            path, body = question(k)
            self.expect(answer(path, self.server.post(path, body, connection=c), False), k)
        c.close()

    def pipelined(self):
        k = self.r.randrange(40)
        path, body = question(k)
        n = self.r.randrange(1, 6)
        with self.dial() as s:
            s.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" * n + request(path, body, "Connection: close\r\n"))
            data = self.read_all(s)
        parts = data.split(b"HTTP/1.1 200 OK\r\n")
        if len(parts) != n + 2:
            self.wrong = f"{len(parts) - 1} answers to {n + 1} requests: {data[:200]!r}"
            return
        self.expect(text_of(path, json.loads(parts[-1].partition(b"\r\n\r\n")[2])["choices"][0], False), k)

    # ---- slow ones ----

    def slow_reader(self):
        k = self.r.randrange(40)
        path, body = question(k)
        with self.dial(receive_bytes=2048) as s:
            s.sendall(request(path, body, "Connection: close\r\n"))
            data = self.read_all(s, 40, 0.01)
        self.expect_status(data, 200)
        if not self.wrong:
            self.expect(text_of(path, json.loads(data.partition(b"\r\n\r\n")[2])["choices"][0], False), k)

    def slow_sender(self):
        k = self.r.randrange(40)
        path, body = question(k)
        data = request(path, body, "Connection: close\r\n")
        step = max(1, len(data) // 12)
        with self.dial() as s:
            for i in range(0, len(data), step):
                s.sendall(data[i:i + step])
                time.sleep(self.r.random() * 0.1)
            data = self.read_all(s)
        self.expect_status(data, 200)
        if not self.wrong:
            self.expect(text_of(path, json.loads(data.partition(b"\r\n\r\n")[2])["choices"][0], False), k)

    # ---- those that go ----

    def vanish_in_request(self):
        data = request(*question(self.r.randrange(40)))
        s = self.dial()
        s.sendall(data[:self.r.randrange(len(data))])
        time.sleep(self.r.random() * 0.05)
        self.leave(s)

    def vanish_waiting(self):
        s = self.dial()
        s.sendall(request(TEXT, {"prompt": WORDS * self.r.randrange(1, 100), "max_tokens": 2000, "ignore_eos": True,
                                 "n": self.r.choice((1, 1, 4)), "stream": self.r.random() < 0.5}))
        time.sleep(self.r.random() * 0.3)
        self.leave(s)

    def vanish_in_stream(self):
        n_events = self.r.randrange(1, 40)
        s = self.dial()
        s.sendall(request(TEXT, {"prompt": WORDS, "max_tokens": 3000, "ignore_eos": True, "stream": True}))
        data = b""
        while data.count(b"data: ") < n_events and (got := s.recv(4096)):
            data += got
        self.leave(s)

    def half_closed(self):
        s = self.dial()
        s.sendall(request(TEXT, {"prompt": WORDS, "max_tokens": 3000, "ignore_eos": True, "stream": self.r.random() < 0.5}))
        s.shutdown(socket.SHUT_WR)
        self.read_all(s)  # whatever comes, it ends
        s.close()

    def silent(self):
        s = self.dial()
        time.sleep(self.r.random())
        self.leave(s)

    # ---- bad ones ----

    def garbage(self):
        s = self.dial()
        try:
            s.sendall(self.r.randbytes(self.r.randrange(1, 20000)) + self.r.choice((b"", b"\r\n\r\n")))
            s.settimeout(0.2)
            s.recv(65536)
        except OSError:
            pass
        self.leave(s)

    def damaged(self):
        """A good request with a few bytes changed: any status but our own fault."""
        data = bytearray(request(*question(self.r.randrange(40)), "Connection: close\r\n"))
        for _ in range(self.r.randrange(1, 4)):
            data[self.r.randrange(len(data))] = self.r.randrange(256)
        s = self.dial()
        s.settimeout(1)
        try:
            s.sendall(data)
            got = s.recv(65536)
            if got:
                self.expect_status(got.replace(b"HTTP/1.0", b"HTTP/1.1"), *(harness.ALLOWED_STATUS - {500}))
        except OSError:
            pass
        self.leave(s)

    def oversized(self):
        data, statuses = self.r.choice((
            (head(TEXT, 11 << 20), (413,)),
            (head(TEXT, 5, more="X: " + "x" * 60000 + "\r\n"), (400, 413, 431)),
            (b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 414, 431)),
            (request(TEXT, b"[" * 100 + b"]" * 100, "Connection: close\r\n"), (400,)),
            (request(TEXT, b"[" + b"1," * 300000 + b"1]", "Connection: close\r\n"), (400,)),
            (request(TEXT, {"prompt": WORDS * 2000}, "Connection: close\r\n"), (400,)),
            (request(TEXT, {"prompt": "x", "max_tokens": 100000}, "Connection: close\r\n"), (400,)),
            (request(TEXT, {"prompt": "x", "stop": ["x" * 300]}, "Connection: close\r\n"), (400,)),
        ))
        s = self.dial()
        try:
            s.sendall(data)
            got = s.recv(65536)
            if got:
                self.expect_status(got, *statuses)
        except ConnectionError:
            pass  # cut while we were still sending
        self.leave(s)

    def wrong_method(self):
        method, path, status = self.r.choice((("DELETE", TEXT, 405), ("GET", CHAT, 405), ("POST", "/v1/models", 405),
                                              ("PUT", "/metrics", 405), ("GET", "/v2/nothing", 404), ("POST", TEXT, 415),
                                              ("POST", "/tokenize", 400), ("POST", "/detokenize", 400)))
        c = self.connect()
        kind = "text/plain" if status == 415 else "application/json"
        r = self.server.request(method, path, b"{}" if method != "GET" else None, {"Content-Type": kind}, connection=c)
        if r.status != status or "error" not in r.json:
            self.wrong = f"{method} {path}: {r.status} {r.body[:200]!r} instead of {status}"
        c.close()

    KINDS = (("good", 30), ("good_twice_on_one_connection", 5), ("pipelined", 4), ("slow_reader", 4), ("slow_sender", 6),
             ("vanish_in_request", 9), ("vanish_waiting", 9), ("vanish_in_stream", 9), ("half_closed", 4), ("silent", 4),
             ("garbage", 4), ("damaged", 4), ("oversized", 4), ("wrong_method", 4))

    def run(self):
        kind = self.r.choices([k for k, _ in self.KINDS], [w for _, w in self.KINDS])[0]
        try:
            getattr(self, kind)()
        except Exception as e:
            self.wrong = f"{type(e).__name__}: {e}"
        return self.wrong and f"client {self.idx}, {kind}: {self.wrong}"


class Chaos(harness.Case):
    server_class = harness.Program
    args = ("--ctx", "16K", "--kv-tokens", "64K")

    def answers(self):
        out = []
        for k in range(40):
            path, body = question(k)
            out.append(answer(path, self.server.post(path, body), False))
        return out

    def n_threads(self):
        return len(os.listdir(f"/proc/{self.server.process.pid}/task"))

    def test_a_thousand_clients_leave_nothing(self):
        print(f"LF_SEED={SEED}", flush=True)
        quiet = self.answers()
        self.assertTrue(harness.wait_until(self.server.idle))
        before = self.server.n_descriptors(), self.n_threads()
        rss = self.server.rss_bytes()
        with concurrent.futures.ThreadPoolExecutor(N_AT_ONCE) as pool:
            wrong = [w for w in pool.map(lambda i: Client(self.server, i, quiet).run(), range(N_CLIENTS)) if w]
        self.assertFalse(wrong, f"{len(wrong)} of {N_CLIENTS}: " + "\n".join(wrong[:5]))
        self.assertTrue(harness.wait_until(self.server.idle, 12))
        for name, left in (("http_connections", 1), ("http_requests_suspended", 0)):
            self.assertTrue(harness.wait_until(lambda: self.server.metric(name) == left, 12), name)
        self.assertTrue(harness.wait_until(lambda: self.server.metric("text_memory_used_bytes") < 2e6, 12))
        self.assertTrue(harness.wait_until(lambda: self.server.n_descriptors() <= before[0]))
        self.assertEqual(self.n_threads(), before[1])
        b = self.server.get("/v1/capacity").json["blocks"]
        self.assertEqual((b["used"], b["free"] + b["cached"]), (0, b["total"]))
        if harness.SLOW == 1:
            self.assertLess(self.server.rss_bytes() - rss, 32e6)
        self.assertEqual(self.answers(), quiet)


if __name__ == "__main__":
    harness.main()
