"""What those who run the program do to it: descriptors closed, logs that take nothing, files at their limit, empty keys."""
import fcntl
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
import unittest

import harness

PROGRAM = harness.Program.program
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
WAIT = 30 * harness.SLOW


def run(*args, **more):
    return subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=more.pop("capture", True), timeout=WAIT * 4, **more)


def connections(server, n):
    """So many that say nothing, whether they are accepted or not."""
    out = [socket.socket() for _ in range(n)]
    for c in out:
        c.setblocking(False)
        c.connect_ex(("127.0.0.1", server.port))
    return out


def is_open(client):
    try:
        return client.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


class Running(harness.Program):
    """serve, with streams and limits of the test's own."""

    def __init__(self, *args, **popen):
        self.process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--ctx", "1K", *args], stdout=subprocess.PIPE, **popen)
        line = self.process.stdout.readline().decode()
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", line).group(1))

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        try:
            return self.process.wait(WAIT)
        finally:
            self.process.kill()
            self.process.stdout.close()

    def answers(self, n=1):
        for _ in range(n):
            r = self.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, timeout=WAIT)
            if r.status != 200:
                return False
        return True


@unittest.skipUnless(PROGRAM, "no server program in the environment")
class Operating(unittest.TestCase):
    def test_an_empty_key_variable_does_not_open_the_server(self):
        for keys in ("", ",", " "):
            r = run("serve", "--host", "0.0.0.0", "--port", "0", env={**os.environ, "LONGFLASH_API_KEYS": keys})
            self.assertEqual(r.returncode, 2, (keys, r.stderr))
            self.assertEqual(r.stderr.count(b"\n"), 1, r.stderr)

    def test_the_first_name_that_is_one_names_the_model(self):
        for given, listed, taken in (("*,first,second", ["first", "second"], "any"), ("*", ["demo"], "any"),
                                     ("a" * 255, ["a" * 255], "a" * 255)):
            s = Running("--served-model-name", given, stderr=subprocess.DEVNULL)
            self.assertEqual([m["id"] for m in s.get("/v1/models").json["data"]], listed)
            self.assertEqual(s.complete("a", max_tokens=1, model=taken).json["model"], listed[0])
            self.assertEqual(s.get("/version").json["version"].count("."), 2)
            self.assertEqual(s.stop(), 0)
        s = Running("--config", "configs/demo.json", "--kv-tokens", "1K", "--served-model-name", "gpt-4", stderr=subprocess.DEVNULL, cwd=ROOT)
        self.assertEqual([m["id"] for m in s.get("/v1/models").json["data"]], ["demo", "gpt-4"])
        self.assertEqual(s.complete("a", max_tokens=1, model="gpt-4").json["model"], "demo")
        self.assertEqual(s.stop(), 0)
        self.assertEqual(run("serve", "--port", "0", "--served-model-name", "a" * 256).returncode, 2)

    def test_the_log_names_the_client_of_a_trusted_proxy(self):
        ask = {"prompt": "a", "max_tokens": 1}
        with tempfile.TemporaryDirectory() as folder:
            for option, clients in ((("--trusted-proxy", "10.0.0.0/8,127.0.0.1"), ["2001:db8::7", "127.0.0.1"]), ((), [])):
                log = os.path.join(folder, f"log{len(clients)}")
                server = Running("--log-file", log, *option, stderr=subprocess.DEVNULL)
                for forwarded in ("198.51.100.9, 2001:DB8::7, 10.0.0.2", "unknown"):
                    r = server.post("/v1/completions", ask, headers={"X-Forwarded-For": forwarded})
                    self.assertEqual(r.status, 200)
                self.assertEqual(server.stop(), 0)
                with open(log) as f:
                    text = f.read()
                self.assertEqual(text.count("route=/v1/completions"), 2)
                self.assertEqual(re.findall(r"route=/v1/completions .* client=(\S+)", text), clients)
                self.assertNotIn("198.51.100.9", text)
        r = run("serve", "--trusted-proxy", "10.0.0.1/8")
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn(b"--trusted-proxy", r.stderr)

    def test_a_log_pipe_that_nobody_reads_holds_up_nobody(self):
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, 1031, 4096)  # F_SETPIPE_SZ
        s = Running(stderr=write_end)
        os.close(write_end)
        self.assertTrue(s.answers(100))  # a line each: more than the pipe holds
        self.assertGreater(s.metric("log_lines_dropped_total"), 0)
        self.assertEqual(s.stop(), 0)
        os.close(read_end)

    def test_a_log_that_became_a_fifo_holds_up_nobody(self):
        with tempfile.TemporaryDirectory() as d:
            log = os.path.join(d, "log")
            s = Running("--log-file", log, stderr=subprocess.DEVNULL)
            os.unlink(log)
            os.mkfifo(log)
            s.process.send_signal(signal.SIGHUP)
            self.assertTrue(s.answers())
            self.assertEqual(s.stop(), 0)
            self.assertEqual(run("serve", "--port", "0", "--log-file", log).returncode, 2)

    def test_a_log_at_the_limit_of_a_file_loses_lines(self):
        with tempfile.TemporaryDirectory() as d:
            s = Running("--log-file", os.path.join(d, "log"), stderr=subprocess.DEVNULL,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
            self.assertTrue(s.answers(3))
            self.assertGreater(s.metric("log_lines_dropped_total"), 0)
            self.assertEqual(s.stop(), 0)

    def test_closed_standard_descriptors_are_given_to_no_socket(self):
        s = Running(preexec_fn=lambda: (os.close(0), os.close(2)))
        self.assertTrue(s.answers(3))
        for fd in (0, 2):
            self.assertEqual(os.readlink(f"/proc/{s.process.pid}/fd/{fd}"), "/dev/null")
        self.assertEqual(s.stop(), 0)

    def test_output_that_is_lost_is_no_success(self):
        with open("/dev/full", "wb") as full:
            for args in (["--help"], ["--version"], ["tokenize", "a"], ["plan", "--ctx", "1K"], ["run", "--max-tokens", "2", "a"]):
                r = run(*args, capture=False, stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(r.returncode, 1, args)
                self.assertIn(b"standard output", r.stderr)

    def test_a_question_that_is_no_text_is_refused(self):
        r = run("run", b"\xff\xfe")
        self.assertEqual((r.returncode, r.stdout), (2, b""))
        self.assertIn(b"UTF-8", r.stderr)

    def test_a_directory_that_may_not_be_read_says_so(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0)
            r = run("plan", "--model", d, preexec_fn=lambda: (os.setgid(65534), os.setuid(65534)))
            self.assertEqual(r.returncode, 2)
            self.assertIn(b"Permission denied", r.stderr)

    def test_a_stack_that_is_too_small_says_so(self):
        def with_stack(kib):
            return lambda: resource.setrlimit(resource.RLIMIT_STACK, (kib << 10, kib << 10))

        for args in (["serve", "--port", "0"], ["plan"], ["tokenize", "a"]):
            r = run(*args, preexec_fn=with_stack(64))
            self.assertEqual((r.returncode, r.stdout, r.stderr.count(b"\n")), (2, b"", 1), (args, r.stderr))
            self.assertIn(b"64 KiB", r.stderr)
            self.assertIn(b"ulimit -s 1024", r.stderr)
        own = 1024 if harness.SLOW > 1 else 0  # a sanitizer keeps what it knows of a thread on the thread's stack
        s = Running(stderr=subprocess.DEVNULL, preexec_fn=with_stack(1024 + own))
        self.assertTrue(s.answers(3))
        self.assertEqual(s.stop(), 0)

    def test_without_addresses_connections_end_and_so_does_the_server(self):
        """libmicrohttpd closes those that it has no memory for without telling: they hold no place, and no end up."""
        if harness.SLOW > 1:
            return  # a sanitizer allocates by itself, and ends the process where it cannot
        s = Running("--connections-per-address", "0", stderr=subprocess.DEVNULL)
        self.assertTrue(s.answers(1))
        n_bytes = int(open(f"/proc/{s.process.pid}/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.prlimit(s.process.pid, resource.RLIMIT_AS, (n_bytes, resource.RLIM_INFINITY))
        clients = connections(s, 100)
        self.assertTrue(harness.wait_until(lambda: s.n_descriptors() < 60))  # most have been closed
        resource.prlimit(s.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        # those have places that are open, and the one that asks
        self.assertTrue(harness.wait_until(lambda: s.metric("http_connections") == 1 + sum(map(is_open, clients))))
        resource.prlimit(s.process.pid, resource.RLIMIT_AS, (n_bytes, resource.RLIM_INFINITY))
        clients += connections(s, 100)
        with harness.within(2, "ending without addresses"):
            self.assertEqual(s.stop(), 0)
        for c in clients:
            c.close()

    def test_many_choices_of_a_long_prompt_enter_an_idle_queue(self):
        s = Running("--kv-tokens", "4K", "--queue", "4", stderr=subprocess.DEVNULL)
        ids = [[300 + (i * 7 + k) % 3000 for i in range(900)] for k in range(8)]
        for body in ({"prompt": ids[0], "n": 8}, {"prompt": ids}):
            r = s.request("POST", "/v1/completions", {**body, "max_tokens": 2}, timeout=WAIT)
            self.assertEqual(r.status, 200, r.body[:200])
            self.assertEqual(len(r.json["choices"]), 8)
        self.assertEqual(s.stop(), 0)


if __name__ == "__main__":
    harness.main()
