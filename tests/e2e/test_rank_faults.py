"""--parallel where a rank stands still: the process ends in time, whatever it was doing, an idle server lives on, and what a
server waits for at its end is nobody's fault. Some 60 s, which are mostly waits; not under a sanitizer, which has unit/faults/ranks."""
import ctypes
import http.client
import json
import os
import signal
import subprocess
import threading
import time
import unittest

import harness
from test_ranks import SMALL, SPLITS, TEXT


PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000


def ptrace(request, tid):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    return libc.ptrace(request, tid, None, None) == 0


def stop_thread(pid, name):
    """One thread of a child stands still from now on: its id, or None where the system does not let us."""
    for tid in map(int, os.listdir(f"/proc/{pid}/task")):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as f:
            if f.read().strip() != name:
                continue
        if not ptrace(PTRACE_SEIZE, tid) or not ptrace(PTRACE_INTERRUPT, tid):
            return None
        return tid if os.WIFSTOPPED(os.waitpid(tid, WALL)[1]) else None
    raise AssertionError(f"no thread {name}")


class Watcher(threading.Thread):
    """Notes when a stopped thread ends, with its process, which has not ended before somebody has taken note; and how late
    a machine was meanwhile."""

    def __init__(self, tid):
        super().__init__(daemon=True)
        self.tid, self.ended_s, self.began, self.sleeper = tid, None, time.monotonic(), harness.Sleeper().start()
        self.start()

    def run(self):
        status = 0x7f  # stopped
        while not os.WIFEXITED(status) and not os.WIFSIGNALED(status):
            status = os.waitpid(self.tid, WALL)[1]
        self.ended_s = time.monotonic() - self.began
        self.sleeper.stop()

    def is_in_time(self, seconds):
        return self.ended_s is not None and self.ended_s < self.sleeper.allowed(seconds)


class Client(threading.Thread):
    """One long answer: what came of it, and what it broke off with, if it did."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.reply, self.error = server, None, None
        self.start()

    def run(self):
        body = {"prompt": "In the", "max_tokens": LONG, "ignore_eos": True, "temperature": 0, "stream": True}
        try:
            self.reply = self.server.post(TEXT, body)
        except (OSError, http.client.HTTPException) as e:
            self.error = e

    def was_cut(self):
        """Not whole, and told so: by an event, or by a stream that does not end as streams do."""
        if self.reply is None:
            return isinstance(self.error, (ConnectionError, http.client.IncompleteRead))
        return b"[DONE]" not in self.reply.body and any("error" in json.loads(e) for e in harness.events(self.reply.body))


LONG = 8000  # tokens, of a context of 8192


class Stopped:
    """A server whose thread stands still from now on, in the middle of an answer, or (is_idle) with nothing to do; sig: what
    it is sent behind that."""

    def __init__(self, split, rank, thread, is_idle, sig=None):
        self.rank, self.case = rank, f"{thread} of {split}, {'idle' if is_idle else 'busy'}, {sig}"
        self.process_args = ("--parallel", split, "--threads", str({**SPLITS, "cp=3": 3}[split]))
        self.server = harness.Program(*SMALL, *self.process_args)
        self.process, self.client = self.server.process, None if is_idle else Client(self.server)
        assert is_idle or harness.wait_until(lambda: self.server.metric("generation_tokens_total") > 0), self.case
        self.tid = stop_thread(self.process.pid, thread)
        assert is_idle or self.client.is_alive(), f"{self.case}: the answer has ended before the thread was stopped"
        if sig:
            self.process.send_signal(sig)

    def end(self):
        """The exit status and what was logged, of one that ends by itself."""
        return self.server.stop(sig=None, timeout=60 * harness.SLOW), self.server.stderr.decode()


class StoppedRun:
    """The same of `run`, in the middle of its answer."""

    def __init__(self, rank, thread):
        self.rank, self.case, self.client = rank, f"run, {thread}", None
        self.process = subprocess.Popen(
            [harness.Program.program, "run", "--model", "demo/model", "--ctx", "8192", "--device", "cpu", "--parallel", "tp=2",
             "--threads", "2", "--max-tokens", str(LONG), "--regex", f"[0-9]{{{LONG - 1}}}", "Count!"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.text = self.process.stdout.read(1)
        self.tid = stop_thread(self.process.pid, thread)

    def end(self):
        rest, log = self.process.communicate(timeout=60 * harness.SLOW)
        assert 0 < len(self.text + rest) < LONG - 1, f"{self.case}: the answer has ended before the thread was stopped"
        return self.process.returncode, log.decode()


TERM = signal.SIGTERM
PRELOAD = os.environ.get("LF_HANG_RANK_SO")


class Faults(unittest.TestCase):
    def stop(self, make, *case):
        """One that has been stopped, and is watched."""
        one = make(*case)
        self.addCleanup(lambda: one.process.poll() is None and one.process.kill())
        if one.tid is None:
            self.skipTest("this system does not let a process stop its child's thread")
        one.watcher = Watcher(one.tid)
        return one

    def check_end(self, one, seconds):
        """Status 1, in time, not too early, and no client takes what it has for a whole answer."""
        one.watcher.join(60 * harness.SLOW)
        status, log = one.end()
        self.assertEqual(status, 1, log[-2000:])
        self.assertTrue(one.watcher.is_in_time(seconds), (one.watcher.ended_s, one.watcher.sleeper.late))
        self.assertGreater(one.watcher.ended_s, 4)  # of five, from a moment behind the stop on
        if one.client:
            one.client.join(20 * harness.SLOW)
            self.assertFalse(one.client.is_alive())
            self.assertTrue(one.client.was_cut(), (one.client.error, one.client.reply and one.client.reply.body[-300:]))
        return log

    def test_a_rank_that_stands_still_ends_the_process_in_time_and_an_idle_server_lives_on(self):
        idle = harness.Program(*SMALL, "--parallel", "tp=2", "--threads", "2")
        self.addCleanup(lambda: idle.process.poll() is None and idle.process.kill())
        began = time.monotonic()
        alone = self.stop(Stopped, "tp=2", 1, "lf-rank1", True, TERM)  # nobody has missed it: the longest, so the first
        all_stopped = [self.stop(Stopped, *case) for case in (
            ("tp=2", 1, "lf-rank1", False), ("tp=4", 3, "lf-rank3", False), ("tp=2", 0, "lf-engine", False),
            ("tp=2", 0, "lf-engine", True), ("tp=2", 1, "lf-rank1", True), ("tp=2", 1, "lf-rank1", False, TERM),
            ("tp=2", 0, "lf-engine", False, TERM), ("cp=2", 1, "lf-rank1", False), ("tp=2,cp=2", 3, "lf-rank3", False),
            ("cp=2", 0, "lf-engine", True), ("cp=3", 2, "lf-rank2", True))]
        run, run_0 = self.stop(StoppedRun, 1, "lf-rank1"), self.stop(StoppedRun, 0, "lf-engine")
        for one in all_stopped + [run, run_0]:
            with self.subTest(one.case):
                log = self.check_end(one, 10)
                self.assertIn(f"waited 5000 ms for rank {one.rank}, in ", log)
                if one is run:  # of the other one nobody is left who could say it: an alarm ends the process
                    self.assertIn("longflash: the answer broke off: ", log)
        with self.subTest(alone.case):
            self.check_end(alone, 32)
        self.assertGreater(time.monotonic() - began, 8)
        self.assertEqual(idle.complete("In the").status, 200)
        self.assertEqual(idle.stop(), 0, idle.stderr[-2000:])

    def test_a_failure_at_loading_is_said_before_others_are_waited_for_and_signals_do_not_wait(self):
        for sig in (TERM, signal.SIGINT):
            for args, expected in ((("serve", "--port", "0"), 1), (("run", "In the"), -sig)):
                with self.subTest(args[0], sig=sig):
                    self.check_loading_fails(args, sig, expected)

    def check_loading_fails(self, args, sig, expected):
        process = subprocess.Popen([harness.Program.program, *args, "--model", "demo/model", *SMALL, "--parallel", "tp=2"],
                                   stderr=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": PRELOAD})
        patience = threading.Timer(60, process.kill)
        patience.start()
        line = next((line for line in process.stderr if line.startswith(b"longflash: ")), b"")
        self.assertIn(b"Input/output error", line)
        time.sleep(0.2)
        self.assertIsNone(process.poll(), "nobody is waited for")
        with harness.within(5, f"{args[0]}: ending at a signal"):
            process.send_signal(sig)
            self.assertEqual(process.wait(), expected)
        patience.cancel()
        process.stderr.close()

    def test_what_a_server_waits_for_at_its_end_is_no_rank_s_fault(self):
        server = harness.Program(*SMALL, "--parallel", "tp=2", "--threads", "2")
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        self.assertEqual(server.complete("In the").status, 200)
        tid = stop_thread(server.process.pid, "MHD-worker")
        if tid is None:
            self.skipTest("this system does not let a process stop its child's thread")
        server.process.send_signal(TERM)
        time.sleep(9)  # longer than ranks wait for one another, and than a process may live behind that
        self.assertIsNone(server.process.poll())
        self.assertTrue(ptrace(PTRACE_DETACH, tid))
        self.assertEqual(server.stop(sig=None), 0, server.stderr[-2000:])
        self.assertNotIn(b"rank", server.stderr)


if __name__ == "__main__":
    harness.main()
