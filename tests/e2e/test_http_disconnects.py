"""Clients that go away, at every stage and in every way, leave nothing behind."""
import json
import random
import re
import socket
import struct
import threading
import time

import harness
from harness import read_response

HEAD = ("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n")


def request(prompt, stream, chat=False, **more):
    body = {"stream": stream, **more}
    if chat:
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body.update(prompt=prompt, max_tokens=more.get("max_tokens", 3000))
    text = json.dumps(body)
    return (HEAD.format("/v1/chat/completions" if chat else "/v1/completions", len(text)) + text).encode()


def leave(s, how):
    if how == "fin":
        s.close()
    elif how == "rst":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    else:  # half-close: nothing more will come, and the socket stays
        s.shutdown(socket.SHUT_WR)


class Disconnects(harness.Case):
    args = ("max_seqs=4", "n_connections_per_address=400", "n_blocks=2000")

    def idle(self):
        m = self.server.metric
        return (m("num_requests_running") == 0 and m("num_requests_waiting") == 0 and m("kv_blocks_used") == 0
                and m("http_requests_open") == 1 and m("http_requests_in_flight") == 0 and m("text_memory_used_bytes") < 2e6)

    def test_before_and_in_head_and_body(self):
        whole = request("x", False)
        for how in ("fin", "rst", "half"):
            for n in (0, 1, 20, whole.index(b"\r\n\r\n") + 4, len(whole) - 1):
                s = self.server.socket(whole[:n])
                time.sleep(0.02)
                leave(s, how)
                self.assertTrue(harness.wait_until(lambda: self.server.metric("http_connections") == 1), (how, n))
                s.close()
        self.assertTrue(harness.wait_until(self.idle))

    def test_who_ends_its_side_is_told_what_needs_no_work(self):
        """As shell tools do (nc -N). It looks like a client that is gone, so whether it is answered must not depend on
        which of the two the server sees first."""
        def post(path, body=b"{}"):
            return (HEAD.format(path, len(body))).encode() + body

        def get(path):
            return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

        for data, status in ((get("/livez"), 200), (get("/metrics"), 200), (get("/none"), 404), (post("/none"), 404),
                             (post("/livez"), 405), (post("/none", b" " * 100000), 404)):
            for i in range(60):
                s = self.server.socket(data)
                time.sleep(i % 3 * 0.001)
                leave(s, "half")
                r = read_response(s)
                self.assertIsNotNone(r, (data[:20], i))
                self.assertEqual(r.status, status)
                self.assertEqual(s.recv(1), b"")
                s.close()
        for stream in (False, True):  # what needs work is not begun, or ends
            s = self.server.socket(request("x [[prefill_ms=300]]", stream))
            leave(s, "half")
            try:
                got = s.recv(65536)
            except ConnectionResetError:
                got = b""
            self.assertNotIn(b"[DONE]", got)
            s.close()
        self.assertTrue(harness.wait_until(self.idle))

    def test_noticed_within_half_a_second_wherever_it_happens(self):
        cases = {"queue": "x [[prefill_ms=60000]]", "prefill": "x [[prefill_ms=60000]]", "decode": "x [[step_ms=50]]"}
        for stage, prompt in cases.items():
            for how in ("fin", "rst", "half"):
                for stream in (False, True):
                    for chat in (False, True):
                        fill = [self.server.socket(request("x [[prefill_ms=60000]]", False)) for _ in range(4 * (stage == "queue"))]
                        if fill:
                            self.assertTrue(harness.wait_until(lambda: self.server.metric("num_requests_running") == 4))
                        name = "num_requests_waiting" if fill else "num_requests_running"
                        s = self.server.socket(request(prompt, stream, chat))
                        self.assertTrue(harness.wait_until(lambda: self.server.metric(name) == 1))
                        leave(s, how)
                        with harness.within(0.5, f"noticing {(stage, how, stream, chat)}"):
                            self.assertTrue(harness.wait_until(lambda: self.server.metric(name) == 0, step=0.005))
                        for f in fill:
                            f.close()
                        s.close()
                        self.assertTrue(harness.wait_until(self.idle), (stage, how, stream, chat))

    def test_at_each_token_and_before_the_end(self):
        n_events = 8
        for k in range(n_events + 1):
            s = self.server.socket(request("[[say=abcdef]] [[step_ms=5]]", True))
            got = b""
            while got.count(b"data: ") < k:
                got += s.recv(4096)
            leave(s, "rst" if k % 2 else "fin")
        self.assertTrue(harness.wait_until(self.idle))

    def test_connections_end_although_an_older_one_lives(self):
        old = self.server.connect()
        count = lambda: float(re.search(rb":http_connections\{.*\} (\S+)", self.server.get("/metrics", connection=old).body)[1])
        stream = request("[[say=abcdef]] [[step_ms=5]]", True)
        for data, k in ((b"", 0), (b"G", 0), (stream[:-1], 0), (stream, 0), (stream, 1), (stream, 4), (stream, 8),
                        (stream.replace(b"HTTP/1.1", b"HTTP/1.0"), 8), (stream.replace(b"HTTP/1.1", b"HTTP/1.0"), 2)):
            for how in ("fin", "rst", "half"):
                socks = []
                for _ in range(10):
                    s, got = self.server.socket(data), b""
                    while got.count(b"data: ") < k:
                        got += s.recv(4096)
                    leave(s, how)
                    socks.append(s)
                with harness.within(0.7, f"noticing {(data[:1], k, how)}"):
                    self.assertTrue(harness.wait_until(lambda: count() == 1))
                for s in socks:
                    s.close()
        old.close()

    def test_pipelined_and_gone(self):
        for _ in range(10):
            s = self.server.socket(request("x", True) * 5)
            leave(s, "rst")
        self.assertTrue(harness.wait_until(self.idle))

    def test_with_several_choices(self):
        for stream in (False, True):
            s = self.server.socket(request("x [[step_ms=20]]", stream, n=8))
            self.assertTrue(harness.wait_until(lambda: self.server.metric("num_requests_running") > 0))
            leave(s, "rst")
            self.assertTrue(harness.wait_until(self.idle))

    def test_200_clients_of_which_60_vanish_leave_nothing(self):
        self.assertTrue(harness.wait_until(self.idle))
        base = self.server.n_descriptors()
        random.seed(7)
        vanish = set(random.sample(range(200), 60))
        results, lock = [], threading.Lock()
        quiet = self.server.complete("[[say=Hello the quick 日本 été]]").json["choices"][0]["text"]

        def client(i):
            stream = i % 2 == 0
            s = self.server.socket(request("[[say=Hello the quick 日本 été]] [[prefill_ms=%d]] [[step_ms=2]]" % (i % 5 * 10),
                                           stream, max_tokens=100), timeout=60)
            if i in vanish:
                time.sleep(random.Random(i).random() * 0.5)
                leave(s, ("fin", "rst")[i % 2])
                return
            if stream:
                data = b""
                while b"data: [DONE]" not in data:
                    got = s.recv(65536)
                    if not got:
                        break
                    data += got
                text = "".join(json.loads(line[6:])["choices"][0]["text"] for line in data.split(b"\n")
                               if line.startswith(b"data: {"))
            else:
                r = harness.read_response(s)
                text = r and r.json["choices"][0]["text"]
            s.close()
            with lock:
                results.append(text)

        threads = [threading.Thread(target=client, args=(i,)) for i in range(200)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, [quiet] * 140)
        self.assertTrue(harness.wait_until(self.idle))
        self.assertTrue(harness.wait_until(lambda: self.server.n_descriptors() <= base))
        self.assertEqual(self.server.metric("http_requests_suspended"), 0)

    def test_many_rounds_leave_memory_flat(self):
        def round_():
            for i in range(60):
                s = self.server.socket(request("x [[step_ms=1]]", i % 2 == 0))
                if i % 2 == 0 and i % 3:  # a stream that has begun
                    s.recv(1)
                leave(s, ("fin", "rst")[i % 2])
            self.assertTrue(harness.wait_until(self.idle))
        round_()
        before = self.server.rss_bytes()
        for _ in range(4):
            round_()
        self.assertLess(self.server.rss_bytes() - before, (8 if harness.SLOW == 1 else 300) * 1e6)


if __name__ == "__main__":
    harness.main()
