"""serve --rank: ranks that are processes, here of one host, over loopback. Their answers have the bits of ranks that are threads;
one that dies or stands still ends all; what is not of the group is refused with a sentence on both sides. Not under a sanitizer."""
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import harness
from test_rank_faults import Client
from test_ranks import CHAT, GREEDY, SMALL, asks, choices

SPLITS = {"tp=2": 2, "cp=2": 2, "tp=4": 4, "tp=2,cp=2": 4}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Rank:
    """A process that is not rank 0; what it says is read all the time."""

    def __init__(self, *args, env=None):
        self.process = subprocess.Popen([harness.Program.program, "serve", "--model", "demo/model", "--port", "0", *args],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        self.said = b""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.said += line

    def end(self, timeout=40):
        """The exit status; None: it hangs."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        self.reader.join(5)
        return status


class Group:
    """The secret and the address of a group, and the options that its ranks have in common."""

    def __init__(self, test, split, *more):
        secret = tempfile.NamedTemporaryFile(mode="w")
        secret.write("a secret of sixteen bytes or more\n")
        secret.flush()
        test.addCleanup(secret.close)
        self.test, self.n = test, SPLITS.get(split, 2)
        self.common = ("--device", "cpu", "--threads", "1", "--parallel", split, "--ranks-address", f"127.0.0.1:{free_port()}",
                       "--ranks-secret-file", secret.name, "--ranks-timeout", "30", *more)

    def watch(self, process):
        self.test.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))

    def rank(self, rank, *more, env=None):
        made = Rank(*self.common, "--rank", str(rank), *more, env=env)
        self.watch(made.process)
        return made

    def serve(self, *more):
        """Rank 0, once all are there, and the others, which learn from it what the sizes are."""
        others = [self.rank(r) for r in range(1, self.n)]
        server = harness.Program(*SMALL, *self.common, "--rank", "0", *more)
        self.watch(server.process)
        return server, others


class RankProcesses(unittest.TestCase):
    def ask(self, server, path, body):
        reply = server.post(path, body, timeout=300)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return choices(reply)

    def test_answers_have_the_bits_of_ranks_that_are_threads_and_the_end_is_orderly(self):
        all_asks = asks()[0][:5] + asks()[1]
        for split, n in SPLITS.items():
            threads = harness.Program(*SMALL, "--parallel", split, "--threads", str(n))
            expected = [self.ask(threads, *a) for a in all_asks]
            self.assertEqual(threads.stop(), 0)
            server, others = Group(self, split).serve()
            self.assertIn(f" on {n} ranks " if "cp" not in split else f" on {n} ranks (tp=", server.ready)
            self.assertEqual([self.ask(server, *a) for a in all_asks], expected, split)
            self.assertEqual(server.stop(), 0, server.stderr[-2000:])
            self.assertEqual([o.end() for o in others], [0] * (n - 1), [o.said for o in others])
            self.assertIn(f"rank 1 of {n}, ".encode(), others[0].said)

    def test_a_signal_to_all_lets_an_answer_end(self):
        server, others = Group(self, "tp=4").serve()
        answers = []
        body = {"messages": [{"role": "user", "content": "Count!"}], "max_tokens": 300, "ignore_eos": True, **GREEDY}
        client = threading.Thread(target=lambda: answers.append(server.post(CHAT, body, timeout=120)))
        client.start()
        self.assertTrue(harness.wait_until(lambda: server.metric("generation_tokens_total") > 0))
        for process in [o.process for o in others] + [server.process]:
            process.send_signal(signal.SIGTERM)
        client.join(120)
        self.assertEqual(answers[0].status, 200, answers[0].body[:300])
        self.assertEqual(answers[0].json["usage"]["completion_tokens"], 300)
        self.assertEqual(server.stop(sig=None), 0, server.stderr[-2000:])
        self.assertEqual([o.end() for o in others], [0, 0, 0])
        self.assertIn(b"this rank ends when rank 0 does", others[0].said)

    def test_a_second_signal_ends_a_rank_and_all_others(self):
        server, others = Group(self, "tp=2").serve()
        for _ in range(2):
            time.sleep(0.3)
            self.assertIsNone(others[0].process.poll())
            others[0].process.send_signal(signal.SIGTERM)
        self.assertEqual(others[0].end(10), 1)
        self.assertEqual(server.stop(sig=None, timeout=10), 1)
        self.assertIn(b"rank 0 lost rank 1: its connection was closed", server.stderr)

    def check_all_end(self, processes, lost, sig):
        """Those that are not lost end in time, with a status that is not 0; one that was stopped does when it goes on."""
        sleeper, began = harness.Sleeper().start(), time.monotonic()
        for i, process in enumerate(processes):
            if i != lost:
                status = process.wait(60)
                self.assertEqual(status, 1, f"rank {i} of {len(processes)}")
        sleeper.stop()
        self.assertLess(time.monotonic() - began, sleeper.allowed(10))
        if sig == signal.SIGSTOP:
            processes[lost].send_signal(signal.SIGCONT)
            self.assertEqual(processes[lost].wait(10), 1)

    def test_a_process_that_is_killed_or_stopped_while_it_serves_ends_all_in_time(self):
        rng = random.Random(4)
        for split, sig, is_busy in (("tp=2", signal.SIGKILL, True), ("tp=2", signal.SIGSTOP, True), ("tp=4", signal.SIGKILL, False),
                                    ("tp=2,cp=2", signal.SIGKILL, True), ("cp=2", signal.SIGSTOP, False),
                                    ("tp=4", signal.SIGSTOP, True)):
            with self.subTest(split, sig=sig, is_busy=is_busy):
                server, others = Group(self, split).serve()
                client = Client(server) if is_busy else None
                if is_busy:
                    self.assertTrue(harness.wait_until(lambda: server.metric("generation_tokens_total") > 0))
                time.sleep(rng.random() * 0.5)
                processes = [server.process] + [o.process for o in others]
                lost = rng.randrange(1 if is_busy else 0, len(processes))
                processes[lost].send_signal(sig)
                self.check_all_end(processes, lost, sig)
                if is_busy:
                    client.join(20)
                    self.assertTrue(client.was_cut(), (client.error, client.reply and client.reply.body[-300:]))
                if lost != 0:
                    self.assertRegex(server.stop(sig=None) and server.stderr, rb"rank 0 ends: .*rank %d\b" % lost)

    def test_a_process_that_is_killed_or_stopped_while_it_starts_ends_all_in_time(self):
        rng = random.Random(7)
        for trial in range(8):
            group = Group(self, "tp=4", "--ranks-timeout", "4", *SMALL)
            with self.subTest(trial):
                ranks = [group.rank(r) for r in range(4)]
                lost, sig = rng.randrange(4), rng.choice((signal.SIGKILL, signal.SIGSTOP))
                time.sleep(rng.random() * 1.2)
                ranks[lost].process.send_signal(sig)
                self.check_all_end([r.process for r in ranks], lost, sig)

    def refused(self, group, first, second):
        """What ranks 0 and 1 say that are started with these: neither serves."""
        ranks = [group.rank(0, *SMALL, *first), group.rank(1, *SMALL, *second)]
        said = []
        for r in ranks:
            self.assertIn(r.end(30), (1, 2), r.said)
            self.assertNotIn(b"ready", r.said)
            said.append(r.said.decode())
        return said

    def test_what_is_not_of_the_group_is_refused_with_a_sentence_on_both_sides(self):
        with tempfile.NamedTemporaryFile(mode="w") as other_secret:
            other_secret.write("another secret of many bytes")
            other_secret.flush()
            for more, words in ((("--parallel", "cp=2"), "tp=1 cp=2"), (("--isa", "c"), "isa=c"), (("--kv-dtype", "f32"), "kv=f32"),
                                (("--quantize", "int8"), "quantize=int8"), (("--load", "dummy"), "load=dummy"),
                                (("--model", "tests/golden/model/data/llama-f32"), "model="),
                                (("--ranks-secret-file", other_secret.name), "secret")):
                with self.subTest(more):
                    zero, one = self.refused(Group(self, "tp=2", "--ranks-timeout", "3"), (), more)
                    self.assertIn(words, one)
                    self.assertIn("rank 1" if "secret" not in words else "secret", zero)
                    if "secret" not in words:
                        self.assertIn(words, zero)

    def test_another_fine_tune_of_the_same_shape_is_refused_too(self):
        with tempfile.TemporaryDirectory(prefix="lf_tuned_") as dir:
            shutil.copytree("demo/model", dir, dirs_exist_ok=True)
            path = os.path.join(dir, "model.safetensors")
            with open(path, "rb") as f:
                weights = bytearray(f.read())
            for i in range(len(weights) // 8, len(weights), 1024):  # behind the header
                weights[i] ^= 1
            with open(path, "wb") as f:
                f.write(weights)
            for more, words in ((("--model", dir), "model="), (("--no-fusion",), "fusion=0")):
                zero, one = self.refused(Group(self, "tp=2", "--ranks-timeout", "3"), (), more)
                self.assertIn(words, one)
                self.assertIn(words, zero)

    def test_a_rank_that_has_no_room_says_so_to_all(self):
        zero, one = self.refused(Group(self, "tp=2"), (), ("--memory", "20M"))
        for said in (zero, one):
            self.assertIn("what rank 0 has planned takes ", said)
        self.assertIn("longflash: rank 1: what rank 0", zero)

    def test_a_launcher_s_environment_says_which_rank_it_is(self):
        group = Group(self, "tp=2")
        env = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2"}
        other = Rank(*group.common, "--rank", "env", env={**env, "OMPI_COMM_WORLD_RANK": "1"})
        group.watch(other.process)
        zero = Rank(*group.common, *SMALL, "--rank", "env", env={**env, "OMPI_COMM_WORLD_RANK": "0"})
        group.watch(zero.process)
        self.assertTrue(harness.wait_until(lambda: b"http://" in zero.said), zero.said)
        zero.process.send_signal(signal.SIGTERM)
        self.assertEqual((zero.end(), other.end()), (0, 0))

    def test_options_that_contradict_each_other_are_refused(self):
        file = tempfile.NamedTemporaryFile(mode="w")
        self.addCleanup(file.close)
        file.write("0123456789abcdef")
        file.flush()
        secret = ("--ranks-secret-file", file.name)
        both = ("--ranks-address", "127.0.0.1:1", *secret)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "OMPI_", "PMI_", "SLURM_"))}
        for options, words in (
                (("--rank", "0", "--parallel", "auto", *both), "--parallel auto is not implemented with --rank"),
                (("--rank", "0", *both), "--rank 0 is one of several: expected --parallel with 2 ranks or more"),
                (("--rank", "0", "--parallel", "tp=1", *both), "--rank 0 is one of several"),
                (("--rank", "2", "--parallel", "tp=2", *both), "a number from 0 to 1 (--parallel has 2 ranks), got \"2\""),
                *((("--rank", r, "--parallel", "tp=2", *both), f'got "{r}"') for r in ("-1", "1x", "+1", "99999999999999999999")),
                (("--rank", "0", "--parallel", "tp=2", *secret), "expected --ranks-address, where rank 0 is"),
                (("--rank", "0", "--parallel", "tp=2", "--ranks-address", "a:1"), "expected --ranks-secret-file"),
                (("--parallel", "tp=2", *both), "expected --rank beside them"),
                (("--rank", "env", "--parallel", "tp=2", *both), "--rank env: no launcher has set RANK"),
                (("--rank", "0", "--parallel", "tp=2", "--ranks-address", "127.0.0.1", *secret), "HOST:PORT"),
                (("--rank", "0", "--parallel", "tp=2", "--cache-dir", "/nowhere", *both), "--cache-dir is not implemented")):
            run = subprocess.run([harness.Program.program, "serve", "--model", "demo/model", "--port", "0", "--device", "cpu",
                                  *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, env=env, timeout=60)
            self.assertEqual(run.returncode, 2, (options, run.stderr))
            self.assertIn(words, run.stderr.decode())


if __name__ == "__main__":
    harness.main()
