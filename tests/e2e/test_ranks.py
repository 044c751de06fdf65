"""--parallel tp=N on a CPU: the demo over 1, 2 and 4 ranks. Greedy answers are those of one rank; for a split the same bytes
come alone, in company, in chunks and from the cache; a rank that stands still ends the process in time."""
import concurrent.futures
import ctypes
import json
import os
import subprocess
import threading
import time
import unittest

import harness

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
FACTS = ("The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun. The director of the Silent River is Otto Krast. "
         "And it came to pass in those days that the people went up to the hill and sat there until the evening. ") * 6
SMALL = ("--ctx", "8192", "--kv-tokens", "64K", "--device", "cpu")
GREEDY = {"temperature": 0, "return_token_ids": True}


def questions():
    with open("demo/document.txt", encoding="utf-8") as f:
        document = f.read(12000)
    with open("demo/questions.json", encoding="utf-8") as f:
        asked = [q["question"] for q in json.load(f)[:3]]
    return [f"{document}\n\n{question}" for question in asked]


def asks():
    """Greedy ones, then some that draw: with a seed they are the same again, but another split may draw otherwise."""
    greedy = [(CHAT, {"messages": [{"role": "user", "content": FACTS + "\n\nWhat is the access code for Marrow Hill?"}],
                      "max_tokens": 40, "logprobs": True, "top_logprobs": 3, **GREEDY}),
              (TEXT, {"prompt": FACTS, "max_tokens": 60, "ignore_eos": True, "logprobs": 2, **GREEDY}),
              (TEXT, {"prompt": [FACTS, FACTS + "The access code", "In the"], "max_tokens": 30, "logprobs": 1, **GREEDY}),
              (CHAT, {"messages": [{"role": "user", "content": FACTS + "\n\nWhere does Anna Vell live?"}], "max_tokens": 40,
                      "guided_regex": "Anna Vell lives in [A-Z][a-z]+\\.", **GREEDY})]
    greedy += [(CHAT, {"messages": [{"role": "user", "content": text}], "max_tokens": 40, "logprobs": True, **GREEDY})
               for text in questions()]
    drawn = [(TEXT, {"prompt": FACTS, "max_tokens": 40, "ignore_eos": True, "temperature": 0.8, "seed": 5, "logprobs": 2}),
             (CHAT, {"messages": [{"role": "user", "content": FACTS + "Who?"}], "max_tokens": 30, "temperature": 0.7,
                     "seed": 9, "n": 2, "logprobs": True})]
    return greedy, drawn


def texts(reply):
    return [c["message"]["content"] if "message" in c else c["text"] for c in reply.json["choices"]]


def choices(reply):
    """Everything of them: texts, ids, and log-probabilities to the last digit."""
    return reply.json["choices"]


class Ranks(unittest.TestCase):
    def serve(self, n, *more):
        server = harness.Program(*SMALL, "--parallel", f"tp={n}", "--threads", str(n), *more)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def ask(self, server, path, body):
        reply = server.post(path, body, timeout=300)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply

    def check_same(self, server, all_asks, expected):
        """Again, now from the cache; then all at once, twice."""
        for (path, body), first in zip(all_asks, expected):
            self.assertEqual(choices(self.ask(server, path, body)), first)
        for _ in range(2):
            with concurrent.futures.ThreadPoolExecutor(len(all_asks)) as pool:
                together = list(pool.map(lambda a: choices(self.ask(server, *a)), all_asks))
            self.assertEqual(together, expected)

    def test_greedy_answers_of_splits_are_one_rank_s_and_bytes_those_of_any_company(self):
        greedy, drawn = asks()
        one = self.serve(1)
        expected = [texts(self.ask(one, *a)) for a in greedy]
        self.assertEqual(one.stop(), 0)
        self.assertIn("48213", expected[0][0])
        self.assertEqual(expected[3], ["Anna Vell lives in Dorrun."])
        for n in (2, 4):
            server = self.serve(n)
            replies = [self.ask(server, *a) for a in greedy + drawn]
            self.assertEqual([texts(r) for r in replies[:len(greedy)]], expected, f"{n} ranks")
            alone = [choices(r) for r in replies]
            self.check_same(server, greedy + drawn, alone)
            self.assertEqual(server.stop(), 0, server.stderr[-2000:])
            chunked = self.serve(n, "--chunk", "48", "--max-seqs", "4", "--speculate", "off", "--prefix-cache", "off")
            self.assertEqual([choices(self.ask(chunked, *a)) for a in greedy + drawn], alone)
            self.assertEqual(chunked.stop(), 0, chunked.stderr[-2000:])

    def test_what_is_resident_is_what_was_planned(self):
        if harness.SLOW > 1:
            self.skipTest("memory under a sanitizer is not what the plan says")
        for n in (2, 4):
            options = (*SMALL, "--parallel", f"tp={n}", "--threads", str(n))
            out = subprocess.run([harness.Program.program, "plan", "--model", "demo/model", "--json", *options],
                                 stdout=subprocess.PIPE, check=True).stdout
            plan = json.loads(out)
            self.assertEqual(plan["ranks"], n)
            parts = plan["weight_bytes"] + plan["workspace_bytes"] + plan["kv_bytes"]
            self.assertEqual(plan["total_bytes"],
                             n * parts + plan["ranks_shared_bytes"] + plan["host_bytes"] + plan["text_bytes"])
            server = self.serve(n)
            self.assertIn(f"on {n} ranks of ", server.ready)
            self.assertEqual(server.metric("ranks"), n)
            shares = server.get("/v1/capacity").json["plan"]
            self.assertEqual((shares["ranks"], shares["weights_bytes"], shares["workspace_bytes"], shares["kv_bytes"]),
                             (n, n * plan["weight_bytes"], n * plan["workspace_bytes"], n * plan["kv_bytes"]))
            self.ask(server, *asks()[0][0])
            planned = plan["total_bytes"] - plan["text_bytes"]
            self.assertLess(server.rss_bytes(), 1.02 * planned)
            self.assertGreater(server.rss_bytes(), 0.8 * planned)
            self.assertEqual(server.stop(), 0)

    def test_what_is_not_divided_is_refused_with_what_would_do(self):
        olmo = "tests/golden/model/data/olmo2-f32"
        for options, words in (
                (("--parallel", "tp=3"), "it has 4 query heads of model.layers.#.self_attn.q_proj; expected 1, 2, 4"),
                (("--parallel", "pp=2"), 'expected tp=N, N from 1 to 16 ranks, got "pp=2"'),
                (("--parallel", "tp=17"), 'expected tp=N, N from 1 to 16 ranks, got "tp=17"'),
                (("--parallel", "tp=2x"), 'got "tp=2x"'),
                (("--parallel", "4"), 'got "4" (how many requests run at once is --max-seqs)'),
                (("--parallel", "tp=2", "--model", olmo), "Olmo2ForCausalLM has norms of all heads at once, which are not divided"),
                (("--parallel", "tp=2", "--cache-dir", "/nowhere"), "--cache-dir is not implemented for several ranks yet")):
            model = () if "--model" in options else ("--model", "demo/model")
            run = subprocess.run([harness.Program.program, "plan", *model, *options], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=False)
            self.assertEqual(run.returncode, 2, options)
            self.assertIn(words, run.stderr.decode())


PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def stop_thread(pid, name):
    """One thread of a child stands still from now on: its id, or None where the system does not let us."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as f:
            if f.read().strip() != name:
                continue
        stopped = (libc.ptrace(PTRACE_SEIZE, int(tid), None, None) == 0
                   and libc.ptrace(PTRACE_INTERRUPT, int(tid), None, None) == 0)
        return int(tid) if stopped else None
    raise AssertionError(f"no thread {name}")


def thread_has_ended(tid):
    """Until its end is taken note of, the process that it was part of has not ended either."""
    ended, status = os.waitpid(tid, os.WNOHANG | WALL)
    return ended == tid and (os.WIFEXITED(status) or os.WIFSIGNALED(status))


class Stopped:
    """A server whose rank stands still from now on, in the middle of an answer, or (is_idle) with nothing to do."""

    def __init__(self, n_ranks, rank, thread, is_idle):
        self.n_ranks, self.rank, self.is_idle, self.replies, self.ended_s = n_ranks, rank, is_idle, [], None
        self.server = harness.Program(*SMALL, "--parallel", f"tp={n_ranks}", "--threads", str(n_ranks))
        body = {"prompt": FACTS, "max_tokens": 2000, "ignore_eos": True, "temperature": 0, "stream": True}
        self.client = threading.Thread(target=lambda: self.replies.append(self.server.post(TEXT, body)), daemon=True)
        if not is_idle:
            self.client.start()
            harness.wait_until(lambda: self.server.metric("generation_tokens_total") > 0)
        self.tid = stop_thread(self.server.process.pid, thread)
        self.began = time.monotonic()

    def look(self):
        if self.ended_s is None and thread_has_ended(self.tid):
            self.ended_s = time.monotonic() - self.began
        return self.ended_s is not None


class Faults(unittest.TestCase):
    def test_a_rank_that_stands_still_ends_the_process_in_time_and_an_idle_server_lives_on(self):
        idle = harness.Program(*SMALL, "--parallel", "tp=2", "--threads", "2")
        self.addCleanup(lambda: idle.process.poll() is None and idle.process.kill())
        began, all_stopped = time.monotonic(), []
        for case in ((2, 1, "lf-rank1", False), (4, 3, "lf-rank3", False), (2, 0, "lf-engine", False),
                     (2, 0, "lf-engine", True), (2, 1, "lf-rank1", True)):
            one = Stopped(*case)
            self.addCleanup(lambda one=one: one.server.process.poll() is None and one.server.process.kill())
            if one.tid is None:
                self.skipTest("this system does not let a process stop its child's thread")
            all_stopped.append(one)
        harness.wait_until(lambda: all([one.look() for one in all_stopped]), 30)
        for one in all_stopped:
            with self.subTest(rank=one.rank, n_ranks=one.n_ranks, is_idle=one.is_idle):
                self.assertEqual(one.server.stop(sig=None, timeout=20), 1, one.server.stderr[-2000:])
                self.assertLess(one.ended_s, 10)
                self.assertIn(f"waited 5000 ms for rank {one.rank}, in ", one.server.stderr.decode())
                if not one.is_idle:
                    one.client.join(20)
                    self.assertNotIn(b"[DONE]", one.replies[0].body if one.replies else b"")
        self.assertGreater(time.monotonic() - began, 8)
        self.assertEqual(idle.complete("In the").status, 200)
        self.assertEqual(idle.stop(), 0, idle.stderr[-2000:])


if __name__ == "__main__":
    harness.main()
