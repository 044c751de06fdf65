"""Slow and silent clients: deadlines of head, body and reading; descriptors.

What a busy machine does to these tests: nothing comes too early, so "not before" is asserted as it stands; "not after"
is asserted with harness.within; and what one client does to others is compared with a second server beside it."""
import json
import resource
import socket
import threading
import time

import harness

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
LATE = b"HTTP/1.1 408 Request Timeout\r\n"
GIVE_UP = 120  # seconds after which nothing will come any more


def cut_after(server, sent, slowly=b"", pause=0.05, told=b""):
    """Seconds from before the connection was made until the server had ended it. `slowly` is sent piece by piece. What
    came back begins with `told`, and is a whole answer that ends the connection if that is not empty.

    They are never fewer than the deadline, however busy the machine is: the server began to count later than we did."""
    began, got = time.monotonic(), b""
    with server.socket(sent, timeout=GIVE_UP) as s:
        try:
            for piece in slowly:
                s.sendall(piece)
                time.sleep(pause)
        except (ConnectionResetError, BrokenPipeError):
            pass
        try:
            while data := s.recv(65536):
                got += data
        except ConnectionResetError:
            pass
    took = time.monotonic() - began
    check_told(got, told)
    return took


def check_told(got, told):
    assert got.startswith(told) and bool(got) == bool(told), f"expected {told!r}, got {got!r}"
    if not told:
        return
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"\r\nConnection: close" in head and b"\r\nContent-Length: %d\r\n" % len(body) in head, got
    error = json.loads(body)["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", None), got


class Beside:
    """Two servers asked in turn, so that both meet the same load of the machine: the one under test, and one that has
    nothing else to do."""

    def __init__(self, server, ask):
        self.servers, self.ask = (server, harness.Server()), ask
        self.connections = [s.connect() for s in self.servers]
        self.times = [], []

    def once(self):
        for server, connection, times in zip(self.servers, self.connections, self.times):
            began = time.monotonic()
            self.ask(server, connection)
            times.append(time.monotonic() - began)

    def finish(self):
        """Sorted times of the one under test and of the other."""
        for c in self.connections:
            c.close()
        assert self.servers[1].stop() == 0
        return [sorted(t) for t in self.times]


def metric(server, connection, name):
    """As Server.metric, over a connection that is open already."""
    text = server.get("/metrics", connection=connection).body.decode()
    return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                 if line.split("{")[0].partition(":")[2] == name), 0.0)


class Heads(harness.Case):
    args = ("header_deadline_ms=1000",)

    def n_cut(self):
        return self.server.metric("http_connections_cut_total", 'deadline="head"')

    def test_silence_before_and_in_the_head(self):
        for sent in (b"", b"G", b"GET /livez HTTP/1.1\r\nHost: local"):
            before = self.n_cut()
            with harness.within(2.5, f"cutting off {sent!r}"):
                self.assertGreaterEqual(cut_after(self.server, sent, told=LATE if sent else b""), 0.99)
            self.assertEqual(self.n_cut(), before + 1)

    def test_a_head_that_drips_is_cut_all_the_same(self):
        drops = [bytes([b]) for b in b"GET /livez HTTP/1.1\r\nX: " + b"y" * 1000]
        before = self.n_cut()
        with harness.within(3, "cutting off a head that drips"):
            self.assertGreaterEqual(cut_after(self.server, b"", drops, told=LATE), 0.99)
        self.assertEqual(self.n_cut(), before + 1)

    def test_also_where_it_has_been_good_before(self):
        before = self.n_cut()
        with self.server.socket(timeout=GIVE_UP) as s:
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(harness.read_response(s).status, 200)
            began = time.monotonic()
            s.sendall(b"GET /livez HTT")
            with harness.within(2.5, "cutting off the second head"):
                late = harness.read_response(s)
            self.assertGreaterEqual(time.monotonic() - began, 0.99)
            self.assertEqual((late.status, late.error["code"], late.headers["connection"]), (408, "head_timeout", "close"))
            self.assertEqual(s.recv(1), b"")
        self.assertEqual(self.n_cut(), before + 1)

    def test_who_has_not_read_the_answer_before_gets_that_and_nothing_else(self):
        """An answer of which a part still waits, the next head behind it: 408 may not get between."""
        before = self.n_cut()
        s = small_reader(self.server, {"prompt": "x" * 7000}, path=b"/tokenize")
        time.sleep(0.5)
        s.sendall(b"GET /livez HTT")
        self.assertTrue(harness.wait_until(lambda: self.n_cut() == before + 1))
        data = b""
        try:
            while got := s.recv(65536):
                data += got
        except ConnectionResetError:
            pass
        s.close()
        self.assertEqual(data.count(b"HTTP/1.1 "), 1)


class SlowBodies(harness.Case):
    """A body must flow, whatever its deadline, which is far away here."""
    args = ("body_deadline_ms=200000",)

    def test_a_body_that_drips_is_cut(self):
        before = self.server.metric("http_connections_cut_total", 'deadline="body"')
        with harness.within(7, "cutting off a body that drips"):
            self.assertGreater(cut_after(self.server, HEAD % 10000, [b"x"] * 1000, told=LATE), 4)
        self.assertEqual(self.server.metric("http_connections_cut_total", 'deadline="body"'), before + 1)

    def test_one_that_was_refused_already_is_told_why(self):
        for path, told in ((b"/nothing", b"HTTP/1.1 404 Not Found\r\n"), (b"/livez", b"HTTP/1.1 405 Method Not Allowed\r\n")):
            sent = HEAD.replace(b"/v1/completions", path) % 10000 + b"x"
            with harness.within(7, "cutting off a body that nobody needs"):
                self.assertGreater(cut_after(self.server, sent, told=told), 4)


class LongBodies(harness.Case):
    args = ("body_deadline_ms=3000",)

    def test_a_body_that_flows_but_never_ends_is_cut_at_the_deadline(self):
        with harness.within(5, "cutting off a body that never ends"):  # before the five seconds after which flow counts
            self.assertGreaterEqual(cut_after(self.server, HEAD % 9000000, [b"x" * 5000] * 1000, told=LATE), 2.99)
        self.assertEqual(self.server.metric("http_connections_cut_total", 'deadline="body"'), 1)


def small_reader(server, body, path=b"/v1/completions"):
    """A client with a receive buffer as small as can be, that has asked."""
    data = json.dumps({**body, "stream": True}).encode()
    s = socket.socket()
    s.settimeout(GIVE_UP)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", server.port))
    s.sendall((HEAD % len(data)).replace(b"/v1/completions", path) + data)
    return s


class DeadReaders(harness.Case):
    args = ("slow_reader_ms=1500", "ctx=200000", "n_blocks=100000")

    def test_a_client_that_does_not_read_is_paused_and_cut_and_holds_up_nobody(self):
        c = self.server.connect()
        before = self.server.rss_bytes()
        began = time.monotonic()
        s = small_reader(self.server, {"prompt": "x" * 1000, "max_tokens": 60000, "logprobs": 5})
        self.assertTrue(harness.wait_until(lambda: metric(self.server, c, "http_connections") == 2))
        # By the watch, which counts it, or by the kernel, which has been given the same time: whoever comes first.
        with harness.within(5, "cutting off a client that does not read"):
            self.assertTrue(harness.wait_until(lambda: metric(self.server, c, "http_connections") == 1))
        self.assertGreater(time.monotonic() - began, 1.49)
        self.assertTrue(harness.wait_until(lambda: metric(self.server, c, "http_requests_open") == 1))
        # the engine lets go of it with its next step
        self.assertTrue(harness.wait_until(lambda: metric(self.server, c, "num_requests_running") == 0))
        self.assertLess(self.server.rss_bytes() - before, 40e6)
        self.assertEqual(self.server.get("/livez", connection=c).status, 200)
        s.close()
        c.close()


class LongTexts(harness.Case):
    args = ("n_threads=2", "ctx=1000000")

    def test_a_short_request_waits_behind_no_long_one(self):
        long = {"prompt": "[[tokenize_ms=60000]]" + "x" * 200000}
        data = json.dumps(long).encode()
        held = [self.server.socket(b"POST /tokenize" + (HEAD % len(data) + data)[20:]) for _ in range(8)]
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_requests_open") == 9))
        time.sleep(0.2)
        with harness.within(5, "short requests beside long ones"):
            for _ in range(20):
                self.assertEqual(self.server.complete("[[say=ok]]").status, 200)
        for s in held:
            s.close()
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_requests_open") == 1))


class LargeReplies(harness.Case):
    args = ("ctx=2000000",)

    def test_nobody_waits_for_delayed_acknowledgements(self):
        """Where a send buffer holds a single segment, more than half of the 60 of this reply wait for the receiver's
        40 ms. Pauses are counted, not their sum, which a busy machine makes as long."""
        n, n_pauses = 1000000, 0
        body = json.dumps({"prompt": "x" * n}).encode()
        with self.server.socket(b"POST /tokenize" + (HEAD % len(body) + body)[20:], timeout=120) as s:
            data = bytearray(s.recv(4096))
            while not data.endswith(b"]}"):
                began = time.monotonic()
                data += s.recv(65536)
                n_pauses += time.monotonic() - began > 0.035
        self.assertEqual(len(json.loads(data.split(b"\r\n\r\n")[1])["tokens"]), n + 1)  # BOS
        self.assertLess(n_pauses, 15)


class Others(harness.Case):
    """What slow clients must not do to good ones. All deadlines are far away."""
    args = ("n_connections_per_address=600", "ctx=200000", "n_blocks=100000", "header_deadline_ms=600000",
            "slow_reader_ms=600000")

    def test_a_slow_reader_gets_all_of_it(self):
        whole = self.server.complete("x", max_tokens=3000).json["choices"][0]["text"]
        s = small_reader(self.server, {"prompt": "x", "max_tokens": 3000})
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
        def ask(server, connection):
            r = server.post("/v1/completions", {"prompt": "[[say=ok]]"}, connection=connection)
            self.assertEqual((r.status, r.json["choices"][0]["text"]), (200, "ok"))

        beside, silent = Beside(self.server, ask), []
        for i in range(500):
            silent.append(self.server.socket(b"GET /livez HTTP/1.1\r\nX: y" if i % 2 else b""))
            if i % 4 == 0:
                beside.once()
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_connections") == 502))  # the good one, and this
        for _ in range(200):
            beside.once()
        busy, quiet = beside.finish()
        self.assertLess(busy[len(busy) // 2], 2 * quiet[len(quiet) // 2] + 0.005 * harness.SLOW)
        p99 = lambda times: times[int(len(times) * 0.99)]
        self.assertLess(p99(busy), 2 * p99(quiet) + 0.1 * harness.SLOW)
        for s in silent:
            s.close()
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_connections") <= 1))

    def test_a_long_document_being_tokenized_stalls_nobody(self):
        beside = Beside(self.server, lambda server, connection: self.assertEqual(
            server.get("/livez", connection=connection).status, 200))
        text = "a" * 190000
        threads = [threading.Thread(target=lambda: self.server.post("/tokenize", {"prompt": text})) for _ in range(8)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            beside.once()
        busy, quiet = beside.finish()
        self.assertLess(busy[-1], 1.0 + 4 * quiet[-1])


class Descriptors(harness.unittest.TestCase):
    ARGS = "n_connections_per_address=1000", "header_deadline_ms=60000"

    @staticmethod
    def limited(n):
        return harness.Server(*Descriptors.ARGS, limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))

    def seconds_of_livez(self, s):
        began = time.monotonic()
        with harness.within(1, "/livez"):
            self.assertEqual(s.get("/livez").status, 200)
        return time.monotonic() - began

    def assert_at_once(self, took):
        """In the median: one time a busy machine may be late in more threads than this one."""
        self.assertLess(sorted(took)[len(took) // 2], 0.1)

    def assert_alive(self, s, times):
        self.assert_at_once([self.seconds_of_livez(s) for _ in range(times)])

    def test_the_table_is_no_larger_than_the_limit(self):
        s = self.limited(64)
        held = [s.socket() for _ in range(100)]
        self.assert_alive(s, 20)
        held += [s.socket() for _ in range(100)]
        self.assert_alive(s, 20)
        time.sleep(0.5)
        self.assert_alive(s, 20)
        self.assertEqual(s.metric("http_accept_failures_total"), 0)
        for x in held:
            x.close()
        # busy ones fill it too
        head = HEAD % 100
        busy = [s.socket(head) for _ in range(100)]
        time.sleep(0.5)
        self.assert_alive(s, 20)
        for x in busy:
            x.close()
        self.assertTrue(harness.wait_until(lambda: s.metric("http_connections") == 1))
        self.assertEqual(s.metric("http_accept_failures_total"), 0)
        self.assertEqual(s.stop(), 0)
        self.assertRegex(s.stderr.decode(), r"warn descriptors limit=64 own=\d+: \d+ connections at once instead of 1024")

    def test_the_least_limit_serves_and_one_less_is_refused(self):
        least = next(n for n in range(8, 100) if self.starts(n))
        self.assertLess(least, 64)
        s = self.limited(least)
        held = [s.socket() for _ in range(20)]
        self.assert_alive(s, 20)
        for x in held:
            x.close()
        self.assertTrue(harness.wait_until(lambda: s.get("/metrics").status == 200))
        self.assertEqual(s.metric("http_accept_failures_total"), 0)
        self.assertEqual(s.stop(), 0)
        with self.assertRaisesRegex(RuntimeError, f"the limit of open files is {least - 1}, .*ulimit -n"):
            self.limited(least - 1)

    def starts(self, n):
        try:
            self.assertEqual(self.limited(n).stop(), 0)
            return True
        except RuntimeError:
            return False

    def shrunk(self, n_left):
        """A server that has fewer descriptors left than it found when it started."""
        s = harness.Server(*self.ARGS)
        limit = s.n_descriptors() + n_left
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        return s

    def test_out_of_descriptors_silent_ones_go(self):
        s = self.shrunk(20)
        held = [s.socket() for _ in range(60)]
        time.sleep(2.5)  # all of them have been accepted
        took = []
        for _ in range(5):
            took.append(self.seconds_of_livez(s))  # each finds a table of silent ones
            held += [s.socket() for _ in range(10)]
            time.sleep(1)
        self.assert_at_once(took)
        self.assertGreater(s.metric("http_accept_failures_total"), 0)
        for x in held:
            x.close()
        self.assertEqual(s.stop(), 0)

    def test_out_of_descriptors_accepting_waits_without_spinning(self):
        s = self.shrunk(20)
        held = [s.socket(HEAD % 100) for _ in range(40)]  # their bodies come: there is nobody to give up
        self.assertTrue(harness.wait_until(lambda: s.n_descriptors() >= 25))
        time.sleep(0.5)
        before = s.cpu_seconds()
        time.sleep(2)
        self.assertLess(s.cpu_seconds() - before, 0.3)
        for x in held:
            x.close()
        self.assertTrue(harness.wait_until(lambda: s.get("/livez").status == 200))
        self.assertTrue(5 < s.metric("http_accept_failures_total") < 60)  # every 200 ms, and while the bodies begin
        self.assertEqual(s.stop(), 0)

    def test_idle_costs_nothing(self):
        s = harness.Server()
        held = [s.socket() for _ in range(50)]
        self.assertTrue(harness.wait_until(lambda: s.metric("http_connections") == 51))
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
        r = self.server.complete("x [[prefill_ms=60000]]")
        self.assertEqual((r.status, r.json["choices"][0]["finish_reason"]), (200, "length"))
        self.assertEqual(r.json["usage"]["completion_tokens"], 0)
        self.assertTrue(r.json["timings"]["timed_out"])


if __name__ == "__main__":
    harness.main()
