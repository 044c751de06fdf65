"""Starting and ending, fifty times: signals at every moment, in every order, and what clients see of it.

SIGTERM and SIGINT drain: no new requests, those in flight are answered, exit status 0. A second one ends the process at
once with status 1. Whatever happens, the port is free for the next start: all servers here listen on the same one.
LF_SEED repeats a run.
"""
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
import unittest

import harness

SEED = int(os.environ.get("LF_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
R = random.Random(SEED)
SMALL = ("--ctx", "8192", "--kv-tokens", "64K")
PATIENT = ("--drain-timeout", "300")
ENDING = (signal.SIGTERM, signal.SIGINT)
WORDS = "And it came to pass in those days that the people went up to the hill. "


def quiet_port():
    """A free port below those that the system hands out, so that no other program gets it between two starts."""
    while True:
        port = R.randrange(20000, 32000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def fewer(n):
    """So many tokens or words, or fewer under sanitizers."""
    return int(n / harness.SLOW)


def rounds(n):
    """So many starts, or many fewer."""
    return range(max(1, int(n / harness.SLOW**1.5)))


class Client(threading.Thread):
    """One streaming request; `text` is None where the stream ended without [DONE]."""

    def __init__(self, server, prompt, n_tokens, stream=True):
        super().__init__(daemon=True)
        self.server, self.stream, self.text, self.status, self.data = server, stream, None, None, b""
        self.body = {"prompt": prompt, "max_tokens": n_tokens, "temperature": 0, "ignore_eos": True, "stream": stream}
        self.start()

    def run(self):
        try:
            c = self.server.connect(60)
            c.request("POST", "/v1/completions", json.dumps(self.body), {"Content-Type": "application/json"})
            r = c.getresponse()
            self.status = r.status
            while got := r.read1(65536):
                self.data += got
            c.close()
        except (OSError, harness.http.client.HTTPException):
            return
        if not self.stream:
            self.text = json.loads(self.data)["choices"][0]["text"] if self.status == 200 else None
        elif b"data: [DONE]\n\n" in self.data:
            self.text = "".join(json.loads(e)["choices"][0]["text"] for e in harness.events(self.data)[:-1])


class Lifecycle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not harness.Program.program:
            raise unittest.SkipTest("no program in the environment")
        cls.port = quiet_port()
        print(f"LF_SEED={SEED} port {cls.port}", flush=True)

    def serve(self, *more):
        s = harness.Program("--port", str(self.port), *SMALL, *(more or PATIENT))
        self.addCleanup(lambda: s.process.poll() is None and s.process.kill())  # only where the test has failed
        return s

    def ends(self, s, status, within_s=5):
        with harness.within(within_s, "ending"):
            got = s.stop(sig=0, timeout=60 * harness.SLOW)
        self.assertEqual(got, status, s.stderr[-2000:])

    def running(self, s, n):
        self.assertTrue(harness.wait_until(lambda: s.metric("num_requests_running") == n, 10, 0.005))

    def test_while_starting(self):
        """Until main has blocked them, a signal ends the process as it does any other; from then on the status is 0."""
        for i in rounds(18):
            p = subprocess.Popen([harness.Program.program, "serve", "--port", str(self.port), "--ctx", ("128K", "8K")[i % 2]],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(R.random() * 0.1 * harness.SLOW)
            sig = R.choice(ENDING)
            p.send_signal(sig)
            _, err = p.communicate(timeout=20 * harness.SLOW)
            self.assertIn(p.returncode, (0, -sig), err[-2000:])

    def test_a_process_that_is_stopped_is_not_taken_for_hung(self):
        watchdog_s = round(harness.SLOW)
        s = self.serve("--watchdog", str(watchdog_s))
        client = Client(s, WORDS * 5, fewer(1500))
        self.running(s, 1)
        s.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5 * watchdog_s)
        s.process.send_signal(signal.SIGCONT)
        client.join(60 * harness.SLOW)
        self.assertIsNotNone(client.text)
        self.assertIsNone(s.process.poll())
        s.process.send_signal(signal.SIGTERM)
        self.ends(s, 0)

    def test_while_idle_with_all_sorts_of_connections_open(self):
        for _ in rounds(8):
            s = self.serve()
            socks = [s.socket(R.choice((b"", b"GET", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n\r\n{")))
                     for _ in range(R.randrange(5))]
            if R.random() < 0.5:
                keep = s.connect()
                self.assertEqual(s.get("/readyz", connection=keep).status, 200)
            time.sleep(R.random() * 0.05)
            s.process.send_signal(R.choice(ENDING))
            self.ends(s, 0)
            for x in socks:
                x.close()

    def test_while_prefilling(self):
        for i in rounds(6):
            s = self.serve()
            c = Client(s, WORDS * fewer(380) + str(i), 4, stream=i % 2 == 0)
            self.running(s, 1)
            time.sleep(R.random() * 0.1 * harness.SLOW)
            s.process.send_signal(R.choice(ENDING))
            c.join(60 * harness.SLOW)
            self.assertTrue(c.text)
            self.ends(s, 0)

    def test_while_streaming_to_several(self):
        quiet = None
        for _ in rounds(8):
            s = self.serve()
            if quiet is None:
                quiet = s.complete(WORDS, max_tokens=fewer(600), temperature=0, ignore_eos=True).json["choices"][0]["text"]
            clients = [Client(s, WORDS, fewer(600), stream=k % 3 > 0) for k in range(6)]
            self.running(s, 6)
            keep = s.connect()
            s.get("/livez", connection=keep)
            time.sleep(R.random() * 0.1)
            s.process.send_signal(R.choice(ENDING))
            for path in ("/readyz", "/v1/completions"):  # a new request is refused, as long as there is somebody to ask
                try:
                    r = s.get(path, connection=keep) if path == "/readyz" else s.complete("x")
                    self.assertIn(r.status, (503, 200))
                except (OSError, harness.http.client.HTTPException):
                    break
            for c in clients:
                c.join(60 * harness.SLOW)
            self.assertEqual([c.text == quiet for c in clients], [True] * 6)
            self.ends(s, 0)

    def test_draining_is_told(self):
        s = self.serve()
        c = Client(s, WORDS, fewer(4000))
        self.running(s, 1)
        keep = s.connect()
        self.assertEqual(s.get("/readyz", connection=keep).status, 200)
        s.process.send_signal(signal.SIGTERM)
        self.assertTrue(harness.wait_until(lambda: s.get("/readyz", connection=keep).status == 503))
        self.assertEqual(s.get("/livez", connection=keep).status, 200)
        r = s.post("/v1/completions", {"prompt": "x"}, connection=keep)
        self.assertEqual((r.status, r.error["code"]), (503, "draining"))
        c.join(60 * harness.SLOW)
        self.assertTrue(c.text)
        self.ends(s, 0)

    def test_a_second_signal_ends_it_now(self):
        for _ in rounds(5):
            s = self.serve()
            clients = [Client(s, WORDS, 7000, stream=k % 2 == 0) for k in range(5)]
            self.running(s, 5)
            s.process.send_signal(R.choice(ENDING))
            time.sleep(0.05 + R.random() * 0.1)
            s.process.send_signal(R.choice(ENDING))
            self.ends(s, 1, 2)
            for c in clients:
                c.join(20)
            self.assertEqual([c.text for c in clients], [None] * 5)

    def test_the_time_to_drain_is_bounded_and_those_in_flight_are_told(self):
        s = self.serve("--drain-timeout", "1")
        stream, whole = Client(s, WORDS, 7000), Client(s, WORDS, 7000, stream=False)
        self.running(s, 2)
        began = time.monotonic()
        s.process.send_signal(signal.SIGTERM)
        self.ends(s, 0)
        self.assertGreater(time.monotonic() - began, 0.9)
        for c in (stream, whole):
            c.join(20)
            self.assertIsNone(c.text)
            self.assertIn(b'"code":"draining"', c.data)
        self.assertEqual((stream.status, whole.status), (200, 503))

    def test_many_signals_at_once(self):
        for _ in rounds(2):
            s = self.serve()
            for _ in range(20):
                s.process.send_signal(R.choice((*ENDING, signal.SIGHUP)))
            s.stop(sig=0, timeout=20 * harness.SLOW)
            self.assertIn(s.process.returncode, (0, 1))

    def test_hup_and_killed_clients_change_nothing(self):
        s = self.serve()
        clients = [Client(s, WORDS, fewer(300)) for _ in range(4)]
        self.running(s, 4)
        gone = s.socket(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(10):
            s.process.send_signal(signal.SIGHUP)
            time.sleep(0.01)
        gone.close()
        for c in clients:
            c.join(60 * harness.SLOW)
        self.assertEqual(len({c.text for c in clients}), 1)
        self.assertTrue(clients[0].text)
        s.process.send_signal(signal.SIGTERM)
        self.ends(s, 0)

    def test_killed_the_port_is_free_at_once(self):
        for _ in rounds(3):
            s = self.serve()
            clients = [Client(s, WORDS, 7000) for _ in range(3)]
            self.running(s, 3)
            s.process.kill()
            self.ends(s, -signal.SIGKILL)
            for c in clients:
                c.join(20)
        s = self.serve()
        self.assertEqual(s.get("/readyz").status, 200)
        self.assertEqual(s.stop(), 0)


if __name__ == "__main__":
    harness.main()
