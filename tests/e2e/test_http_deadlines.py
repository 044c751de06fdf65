"""Slow and silent clients: deadlines of head, body and reading; connections in all and per address; descriptors."""
import json
import resource
import socket
import threading
import time

import harness

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def closed_after(sock, limit):
    """Seconds until the server ends the connection; None if it does not within the limit."""
    began = time.monotonic()
    sock.settimeout(limit)
    try:
        while sock.recv(65536):
            pass
    except (ConnectionResetError, BrokenPipeError):
        pass
    except socket.timeout:
        return None
    return time.monotonic() - began


class GoodClient(threading.Thread):
    """Asks all the time, and notes how long each answer took."""

    def __init__(self, server):
        super().__init__()
        self.server, self.times, self.bad, self.ended = server, [], 0, False

    def run(self):
        c = self.server.connect()
        while not self.ended:
            began = time.monotonic()
            r = self.server.post("/v1/completions", {"prompt": "[[say=ok]]"}, connection=c)
            self.times.append(time.monotonic() - began)
            self.bad += r.status != 200 or r.json["choices"][0]["text"] != "ok"
            time.sleep(0.005)
        c.close()

    def finish(self):
        self.ended = True
        self.join()
        return sorted(self.times)


class Deadlines(harness.Case):
    args = ("header_deadline_ms=1000", "body_deadline_ms=7000", "slow_reader_ms=1500", "n_connections_per_address=600",
            "ctx=200000", "n_blocks=100000")

    def test_silence_before_and_in_the_head(self):
        for sent in (b"", b"G", b"GET /livez HTTP/1.1\r\nHost: local"):
            with self.server.socket(sent) as s:
                took = closed_after(s, 5 * harness.SLOW)
                self.assertTrue(took and 0.9 < took < 2.5, (sent, took))

    def test_a_head_that_drips_is_cut_all_the_same(self):
        for warm in (False, True):
            with self.server.socket(timeout=5) as s:
                if warm:  # also on a connection that has been good before
                    s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    s.recv(65536)
                began = time.monotonic()
                with self.assertRaises(OSError):
                    for byte in b"GET /livez HTTP/1.1\r\nX: " + b"y" * 1000:
                        s.sendall(bytes([byte]))
                        time.sleep(0.05)
                self.assertTrue(0.9 < time.monotonic() - began < 3 * harness.SLOW)
        self.assertGreater(self.server.metric("http_connections_cut_total", 'deadline="head"'), 0)

    def test_a_body_that_drips_is_cut(self):
        with self.server.socket(HEAD % 10000) as s:
            began = time.monotonic()
            with self.assertRaises(OSError):
                for _ in range(1000):
                    s.sendall(b"x")
                    time.sleep(0.05)
            self.assertTrue(4 < time.monotonic() - began < 7 * harness.SLOW)
        self.assertGreater(self.server.metric("http_connections_cut_total", 'deadline="body"'), 0)

    def test_a_body_that_flows_but_never_ends_is_cut_at_the_deadline(self):
        with self.server.socket(HEAD % 9000000) as s:
            began = time.monotonic()
            with self.assertRaises(OSError):
                for _ in range(1000):
                    s.sendall(b"x" * 500)
                    time.sleep(0.05)
            self.assertTrue(6.5 < time.monotonic() - began < 9 * harness.SLOW)

    def test_a_client_that_does_not_read_is_paused_and_cut_and_holds_up_nobody(self):
        c = self.server.connect()
        body = json.dumps({"prompt": "x" * 1000, "max_tokens": 60000, "stream": True, "logprobs": 5}).encode()
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", self.server.port))
        s.sendall(HEAD % len(body) + body)
        before = self.server.rss_bytes()
        began = time.monotonic()
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_connections_cut_total", 'deadline="reader"') > 0, 10))
        self.assertGreater(time.monotonic() - began, 1.3)
        self.assertTrue(harness.wait_until(lambda: self.server.metric("num_requests_running") == 0))
        self.assertLess(self.server.rss_bytes() - before, 40e6)
        self.assertEqual(self.server.get("/livez", connection=c).status, 200)
        s.close()
        c.close()

    def test_a_slow_reader_gets_all_of_it(self):
        body = json.dumps({"prompt": "x", "max_tokens": 3000, "stream": True}).encode()
        whole = self.server.complete("x", max_tokens=3000).json["choices"][0]["text"]
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", self.server.port))
        s.sendall(HEAD % len(body) + body)
        data = b""
        while b"[DONE]" not in data:
            got = s.recv(30000)
            self.assertTrue(got)
            data += got
            time.sleep(0.05)
        s.close()
        text = ""
        for line in data.split(b"\n"):
            if line.startswith(b"data: {"):
                text += json.loads(line[6:])["choices"][0]["text"]
        self.assertEqual(text, whole)

    def test_500_silent_connections_disturb_nobody(self):
        good = GoodClient(self.server)
        good.start()
        time.sleep(1)
        quiet, good.times = sorted(good.times), []
        silent = [self.server.socket(b"GET /livez HTTP/1.1\r\nX: y" if i % 2 else b"") for i in range(500)]
        time.sleep(1)
        busy = good.finish()
        self.assertEqual(good.bad, 0)
        p99 = lambda times: times[int(len(times) * 0.99)]
        self.assertLess(p99(busy), max(2 * p99(quiet), 0.1) * harness.SLOW)
        for s in silent:
            s.close()
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_connections") <= 1))

    def test_a_long_document_being_tokenized_stalls_nobody(self):
        text = "a" * 190000
        threads = [threading.Thread(target=lambda: self.server.post("/tokenize", {"prompt": text})) for _ in range(8)]
        for t in threads:
            t.start()
        times = []
        while any(t.is_alive() for t in threads):
            began = time.monotonic()
            self.assertEqual(self.server.get("/livez").status, 200)
            times.append(time.monotonic() - began)
        self.assertLess(max(times), 1.0)


class Descriptors(harness.unittest.TestCase):
    def test_out_of_descriptors_accepting_waits_without_spinning(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        s = harness.Server("n_connections_per_address=1000", "header_deadline_ms=60000", limits=limit)
        good = s.connect()
        self.assertEqual(s.get("/livez", connection=good).status, 200)
        held = [s.socket() for _ in range(100)]
        time.sleep(0.5)
        before = s.cpu_seconds()
        time.sleep(2)
        self.assertLess(s.cpu_seconds() - before, 0.3)
        self.assertEqual(s.get("/livez", connection=good).status, 200)
        for x in held:
            x.close()
        self.assertTrue(harness.wait_until(lambda: s.get("/livez").status == 200, 10))
        self.assertGreater(s.metric("http_accept_failures_total"), 0)
        good.close()
        self.assertEqual(s.stop(), 0)

    def test_idle_costs_nothing(self):
        s = harness.Server()
        held = [s.socket() for _ in range(50)]
        time.sleep(0.3)
        before = s.cpu_seconds()
        time.sleep(2)
        self.assertLess(s.cpu_seconds() - before, 0.1 * harness.SLOW + 0.1)
        for x in held:
            x.close()
        self.assertEqual(s.stop(), 0)


class RequestDeadline(harness.Case):
    args = ("request_deadline_ms=400",)

    def test_the_whole_request_has_a_deadline_too(self):
        r = self.server.complete("x [[prefill_ms=3000]]")
        self.assertEqual((r.status, r.json["choices"][0]["finish_reason"]), (200, "length"))
        self.assertEqual(r.json["usage"]["completion_tokens"], 0)


if __name__ == "__main__":
    harness.main()
