"""Ten thousand malformed requests: each gets an allowed status, or the end of its connection where HTTP itself is broken,
and a good client beside them is served as if they were not there. Seeded: a failure can be had again."""
import concurrent.futures
import json
import os
import random
import re
import socket
import threading
import time
import unittest

import harness

N_JSON, N_HTTP, BATCH = 8000, 3000, 20
ROUTES = ["POST /v1/completions", "POST /v1/chat/completions", "POST /v1/responses", "POST /tokenize", "POST /detokenize", "POST /apply-template",
          "PUT /v1/documents/a", "POST /v1/documents/a/pin", "POST /v1/documents/a/unpin"]
SEEDS = [
    {"prompt": "[[say=ok]]", "max_tokens": 5, "temperature": 0.5, "stop": ["a"], "logit_bias": {"5": 1}, "seed": 1},
    {"messages": [{"role": "user", "content": "[[say=ok]]"}], "max_tokens": 5, "n": 2, "logprobs": True, "top_logprobs": 2},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "[[say=ok]]"}]}], "max_completion_tokens": 3},
    {"prompt": [[97, 98], [99]], "max_tokens": 2, "echo": True, "logprobs": 3},
    {"messages": [{"role": "user", "content": [{"type": "document", "name": "a"}, {"type": "text", "text": "[[say=ok]]"}]}]},
    {"text": "[[say=ok]]", "system": "s", "ttl": 5},
    {"tokens": [1, 2, 3]},
    {"prompt": "x", "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}},
]
ODD = [None, True, False, 0, -1, 1, 1.5, 1e308, -1e308, 2**31, 2**63, -2**63, 2**64, 10**30, "", "x", "\u2028", "é" * 100, [], {},
       [[]], [None], {"": None}, "[[say=ok]]", ["x", 1], [[1], "x"], -0.0, 1e-320, "0", [1e99], "<s>", "a" * 3000]
WORDS = [b"{", b"}", b"[", b"]", b":", b",", b'"', b"\\", b"\\u0000", b"\\ud800", b"\\udc00\\ud800", b"NaN", b"Infinity", b"-", b"+1",
         b"01", b"1.", b".5", b"1e", b"1e999", b"tru", b"nul", b"\x00", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
         b"\xef\xbb\xbf", b"//", b"/*", b"'", b"\t", b"\n", b"\r", b" " * 50, b"[" * 70, b'{"a":' * 70, b'"prompt":', b'"n":999']
HEADERS = [b"Content-Length: 5", b"Content-Length: -1", b"Transfer-Encoding: chunked", b"Transfer-Encoding: x", b"Host: a",
           b"Host:", b"Host : localhost", b": x", b"X", b"\x00: y", b"X: \x00", b"X: " + b"y" * 9000, b" folded", b"\tfolded",
           b"Expect: 100-continue", b"Expect: x", b"Connection: close", b"Connection: upgrade", b"Upgrade: h2c", b"Content-Type: x",
           b"Authorization: Basic x", b"Accept-Encoding: gzip", b"Cookie: a=b; c", b"X-Request-Id: \xff", b"Range: bytes=0-",
           b"Content-Length: 99999999999999999999999", b"TE: trailers", b"Origin: http://evil", b"X\r: y"]


def mutate_value(rng, value, depth=0):
    """The same JSON value with something in it replaced, dropped, doubled or added."""
    if rng.random() < 0.25 or not isinstance(value, (dict, list)) or not value or depth > 3:
        return rng.choice(ODD)
    if isinstance(value, dict):
        out = dict(value)
        key = rng.choice(list(out))
        kind = rng.random()
        if kind < 0.15:
            del out[key]
        elif kind < 0.3:
            out[rng.choice(["temperature", "n", "stop", "top_p", "tools", "suffix", "model", "x", "", "top_k", "seed"])] = rng.choice(ODD)
        else:
            out[key] = mutate_value(rng, out[key], depth + 1)
        return out
    out = list(value)
    i = rng.randrange(len(out))
    out[i] = mutate_value(rng, out[i], depth + 1)
    if rng.random() < 0.2:
        out = out * rng.randrange(0, 5)
    return out


def mutate_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randrange(1, 9)]
        elif kind == 2:
            data[at:at] = rng.choice(WORDS)
        elif kind == 3:
            data = data[:at]
        else:
            data[at:at] = data[:rng.randrange(1, 30)]
    return bytes(data)


def bad_json(rng):
    value = rng.choice(SEEDS)
    for _ in range(rng.randrange(0, 3)):
        value = mutate_value(rng, value)
    body = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()
    if rng.random() < 0.6:
        body = mutate_bytes(rng, body)
    return body


def bad_http(rng):
    """A request whose head is wrong in some way; it may also happen to be right."""
    method = rng.choice([b"GET", b"POST", b"POST", b"PUT", b"get", b"", b"G\x00T", b"X" * 300, b"HEAD", b"OPTIONS", b"CONNECT", b"DELETE"])
    path = rng.choice([b"/livez", b"/v1/completions", b"/v1/models/x", b"*", b"", b"x", b"//", b"/%", b"/%00", b"/\xff", b"/" + b"a" * 9000,
                       b"/livez?" + b"b" * 3000, b"http://localhost/livez", b"/livez#x", b"/../..", b"/v1/models/%e9", b"/v1/documents/a", b"/v1/documents/%2e%2e%2f"])
    version = rng.choice([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP", b"", b"HTTP/1.1 x", b"HTTQ/1.1"])
    lines = [rng.choice([b" ", b" ", b" ", b"  ", b"\t"]).join([method, path, version]), b"Host: localhost"]
    lines += [rng.choice(HEADERS) for _ in range(rng.randrange(0, 4))]
    body = rng.choice([b"", b"", b"{}", b"x" * 50, b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n", b"ffffffffffffffffff\r\n", b"-1\r\n", b"0\r\n"])
    if rng.random() < 0.3:
        lines.append(b"Content-Length: %d" % len(body))
    end = rng.choice([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r"])
    data = end.join(lines) + end + end + body
    return mutate_bytes(rng, data) if rng.random() < 0.3 else data


def read_answers(stream, n):
    """Statuses of up to n answers; chunked ones (streams) are read through."""
    out = []
    while len(out) < n:
        line = stream.readline()
        if not line:
            break
        status, length, chunked = int(line.split()[1]), 0, False
        while (head := stream.readline()) not in (b"\r\n", b""):
            name, _, value = head.lower().partition(b":")
            if name == b"content-length":
                length = int(value)
            chunked = chunked or (name == b"transfer-encoding" and b"chunked" in value)
        while chunked and (size := int(stream.readline(), 16)) >= 0:
            stream.read(size + 2)
            if size == 0:
                break
        body = stream.read(length)
        if status >= 400 and body[:1] == b"{":
            error = json.loads(body)["error"]
            assert {"message", "type", "param", "code"} <= set(error), body
        out.append(status)
    return out


class Malformed(harness.Case):
    args = ("ctx=256", "n_connections_per_address=400", "max_seqs=256", "queue_n=4096", "header_deadline_ms=700",
            "body_deadline_ms=1500")

    def good_client(self, stop, out):
        c = self.server.connect()
        i = 0
        while not stop.is_set():
            stream = i % 2 == 1
            r = self.server.post("/v1/completions", {"prompt": f"[[say=good {i}]]", "stream": stream}, connection=c)
            text = r.json["choices"][0]["text"] if not stream else "".join(
                json.loads(e)["choices"][0]["text"] for e in harness.events(r.body)[:-1])
            out.append(r.status == 200 and text == f"good {i}")
            i += 1
        c.close()

    def setUp(self):
        self.good, self.stop = [], threading.Event()
        self.client = threading.Thread(target=self.good_client, args=(self.stop, self.good))
        self.client.start()

    def tearDown(self):
        self.stop.set()
        self.client.join()
        self.assertTrue(self.good and all(self.good), f"{self.good.count(False)} of {len(self.good)}")
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_requests_open") == 1
                                           and self.server.metric("kv_blocks_used") == 0, 10))

    def batch(self, seed):
        rng = random.Random(seed)
        bodies = [(rng.choice(ROUTES), bad_json(rng)) for _ in range(BATCH)]
        s = self.server.socket()
        s.sendall(b"".join(b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                           % (path.encode(), len(body), body) for path, body in bodies))
        stream = s.makefile("rb")
        got = read_answers(stream, BATCH)
        stream.close()
        s.close()
        return seed, got

    def test_json(self):
        counts = {}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for seed, got in pool.map(self.batch, range(N_JSON // BATCH)):
                self.assertEqual(len(got), BATCH, f"seed {seed}")
                for status in got:
                    counts[status] = counts.get(status, 0) + 1
        self.assertLessEqual(set(counts), {200, 202, 400, 404, 409, 413}, counts)
        self.assertGreater(counts[400], N_JSON // 2)
        self.assertGreater(counts[200], 20)

    def one(self, seed):
        rng = random.Random(seed)
        data = bad_http(rng)
        s = self.server.socket()
        out = b""
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR) if rng.random() < 0.5 else None
            s.settimeout(0.05)
            while got := s.recv(65536):
                out += got
        except OSError:
            pass
        s.close()
        return seed, [int(x) for x in re.findall(rb"HTTP/1\.[01] (\d{3}) ", out)]

    def test_http(self):
        counts = {}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for seed, got in pool.map(self.one, range(N_HTTP)):
                for status in got:
                    self.assertIn(status, harness.ALLOWED_STATUS | {100, 413}, f"seed {seed}")
                    counts[status] = counts.get(status, 0) + 1
        self.assertGreater(sum(counts.values()), N_HTTP // 4, counts)
        self.assertNotIn(500, counts)


class JsonSuite(harness.Case):
    """JSONTestSuite, where it is at hand: as the value of a field that nobody looks at."""

    # valid, and refused by promise: names twice, and the character U+0000
    stricter = ("y_object_duplicated_key", "y_object_escaped_null_in_key", "y_string_null_escape")
    folder = os.path.join(os.environ.get("LF_ASSETS", "../shared/assets"), "json")

    @unittest.skipUnless(os.path.isdir(folder), "no JSONTestSuite at hand")
    def test_every_file_has_the_right_verdict(self):
        c = self.server.connect()
        n = 0
        for name in sorted(os.listdir(self.folder)):
            if not name.endswith(".json"):
                continue
            body = open(os.path.join(self.folder, name), "rb").read()
            r = self.server.request("POST", "/tokenize", body, {"Content-Type": "application/json"}, connection=c)
            n += 1
            if name.startswith(self.stricter):
                self.assert_error(r, 400, "invalid_json")
            elif name.startswith("y_"):
                self.assertIn(r.status, (200, 400), name)
                self.assertTrue(r.status == 200 or r.error["code"] != "invalid_json"
                                or r.error["message"].startswith("The body must be"), (name, r.body))
            elif name.startswith("n_"):
                self.assert_error(r, 400, "invalid_json")
                self.assertFalse(r.error["message"].startswith("The body must be"), name)
            else:
                self.assertIn(r.status, (200, 400), name)
        c.close()
        self.assertGreater(n, 300)


if __name__ == "__main__":
    harness.main()
