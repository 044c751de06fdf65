"""What the end-to-end tests share: starting a server, and talking to it over real sockets. Standard library only.

$LF_FAKE_SERVER is server/http on doubles of the engine and tokenizer (tests/support/fake_server.c): answers are scripted
by the prompt, so every case can be brought about. $LF_LONGFLASH is the program itself.
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

SLOW = float(os.environ.get("LF_SLOW", "1"))  # how much slower than a release build, for sanitizers
ALLOWED_STATUS = {200, 202, 204, 400, 401, 403, 404, 405, 408, 409, 411, 412, 413, 414, 415, 429, 431, 500, 501, 503, 505, 507}


class Response:
    """An answer read whole: status, headers (names in lower case), body bytes."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Server:
    """A server process. Arguments are `name=value`, see fake_server.c."""

    program = os.environ.get("LF_FAKE_SERVER", "")

    def __init__(self, *args, limits=None):
        self.process = subprocess.Popen([self.program, "port=0", *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, preexec_fn=limits)
        line = self.process.stdout.readline().decode()
        m = re.match(r"ready (\d+)", line)
        if not m:
            raise RuntimeError(f"the server did not start: {line!r} {self.process.stderr.read()!r}")
        self.port = int(m.group(1))

    def stop(self, sig=signal.SIGTERM, timeout=40):
        """Ends it in order; the exit status, which is 4 where a request was left behind."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            _, self.stderr = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW)

    def socket(self, data=b"", timeout=30):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout * SLOW)
        if data:
            s.sendall(data)
        return s

    def request(self, method, path, body=None, headers=None, timeout=60, connection=None):
        """One request. A body that is not bytes goes as JSON."""
        c = connection or self.connect(timeout)
        head = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            head.setdefault("Content-Type", "application/json")
        c.request(method, path, body, head)
        r = c.getresponse()
        out = Response(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
        if connection is None:
            c.close()
        return out

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def complete(self, prompt, **more):
        return self.post("/v1/completions", {"prompt": prompt, "max_tokens": 64, **more})

    def chat(self, content, **more):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **more})

    def stream(self, path, body, headers=None):
        """All bytes of an SSE answer, the chunked encoding taken off; and the response's head."""
        return self.post(path, {**body, "stream": True}, headers=headers)

    def metric(self, name, labels=""):
        """The value of a sample, by its name without prefix and a part of its labels; 0 if it is not there. Its family
        must be: a name that is none is a mistake of the test."""
        r = self.get("/metrics")
        text = r.body.decode()
        if r.status == 200 and not re.search(rf"^# TYPE [a-z]+:{name} ", text, re.M):
            raise AssertionError(f"no metric is called {name}: {text[:200]!r}")
        for line in text.splitlines():
            m = re.match(r"[a-z]+:(\w+)(?:\{(.*)\})? (\S+)$", line)
            if m and m.group(1) == name and labels in (m.group(2) or ""):
                return float(m.group(3))
        return 0.0

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self):
        return int(open(f"/proc/{self.process.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Program(Server):
    """The program itself. Arguments are options of serve; without --model the demo is served."""

    program = os.environ.get("LF_LONGFLASH", "")

    def __init__(self, *args):
        defaults = [x for option in (("--model", "demo/model"), ("--port", "0")) if option[0] not in args for x in option]
        self.process = subprocess.Popen([self.program, "serve", *defaults, *args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.log = []
        line = self.process.stdout.readline().decode()
        self.ready = line
        m = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not m:
            raise RuntimeError(f"the program did not start: {line!r} {self.process.stderr.read()!r}")
        self.port = int(m.group(1))
        # the log goes on all the time: a pipe that nobody reads would fill
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def stop(self, sig=signal.SIGTERM, timeout=40):
        if sig and self.process.poll() is None:
            self.process.send_signal(sig)
        self.process.wait(timeout)
        self.reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        self.stderr = b"".join(self.log)
        return self.process.returncode

    def idle(self):
        """Nothing is left of any request but the one that asks."""
        m = self.metric
        return (m("num_requests_running") == 0 and m("num_requests_waiting") == 0 and m("kv_blocks_used") == 0
                and m("http_requests_open") == 1 and m("http_requests_in_flight") == 0)


class Sleeper:
    """A thread that sleeps again and again from start() to stop(): what it oversleeps is time that others had. allowed() is
    how long a machine that has time for us would have seconds; a busy one gets that time several times over, because the
    server has lost it too; on a quiet one it is a few milliseconds in a second."""

    SLEEP, TIMES = 0.005, 6

    def __init__(self):
        self.late, self.ended = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.sleep_again_and_again, daemon=True)

    def sleep_again_and_again(self):
        while not self.ended.is_set():
            began = time.monotonic()
            time.sleep(self.SLEEP)
            self.late += max(0.0, time.monotonic() - began - self.SLEEP)

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.ended.set()
        self.thread.join()

    def allowed(self, seconds):
        return seconds * SLOW + self.TIMES * self.late


class within:
    """`with within(0.5): …` fails where that took longer, in seconds of a machine that has time for us."""

    def __init__(self, seconds, what=""):
        self.seconds, self.what, self.sleeper = seconds, what, Sleeper()

    def __enter__(self):
        self.sleeper.start()
        self.began = time.monotonic()
        return self

    def __exit__(self, kind, *_):
        took = time.monotonic() - self.began
        self.sleeper.stop()
        if kind is None and took >= self.sleeper.allowed(self.seconds):
            raise AssertionError(f"{self.what} took {took:.3f} s; {self.seconds * SLOW} s are allowed, and the machine was late by "
                                 f"{self.sleeper.late:.3f} s")


def wait_until(condition, seconds=20.0, step=0.02):
    """Whether the condition came true before we gave up (sanitizers get more time). No measure of speed: see within."""
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(step)
    return bool(condition())


def events(body):
    """The events of an SSE body, each checked to be exactly `data: …\\n\\n` or a keep-alive comment."""
    text, at = body.decode("utf-8"), 0
    out = []
    event = re.compile(r"data: ([^\n]*)\n\n")
    while at < len(text):
        if text.startswith(": keep-alive\n\n", at):
            at += len(": keep-alive\n\n")
            continue
        m = event.match(text, at)
        if not m:
            raise AssertionError(f"not an event: {text[at:at + 80]!r}")
        out.append(m.group(1))
        at = m.end()
    return out


def read_response(sock):
    """Reads one response off a raw socket; None where the connection ends before a whole one."""
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            got = sock.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return None
        if not got:
            return None
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
    need = int(headers.get("content-length", 0))
    while len(body) < need:
        got = sock.recv(65536)
        if not got:
            return None
        body += got
    return Response(int(lines[0].split()[1]), headers, body[:need])


class Case(unittest.TestCase):
    """A test case with one server for all its tests, which must end with nothing left behind and nothing reported."""

    args = ()
    server_class = Server

    @classmethod
    def setUpClass(cls):
        if not cls.server_class.program:
            raise unittest.SkipTest("no server program in the environment")
        cls.server = cls.server_class(*cls.args)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        assert status == 0, f"the server ended with {status}: {cls.server.stderr.decode()[-4000:]}"

    def assert_error(self, r, status, code=None, param=...):
        """A refusal in the one shape that errors have."""
        self.assertEqual(r.status, status, r.body[:300])
        self.assertEqual(r.headers["content-type"], "application/json")
        self.assertEqual(list(r.json), ["error"])
        e = r.error
        for key in ("message", "type", "param", "code"):
            self.assertIn(key, e)
        self.assertTrue(e["message"] and isinstance(e["message"], str))
        self.assertIsInstance(e["type"], str)
        self.assertIsInstance(e["param"], (str, type(None)))
        self.assertIsInstance(e["code"], (str, type(None)))
        if code is not None:
            self.assertEqual(e["code"], code)
        if param is not ...:
            self.assertEqual(e["param"], param)
        self.assertTrue(r.headers["x-request-id"])


def main():
    unittest.main(verbosity=1)
