#!/usr/bin/env python3
"""Measures what docs/performance.md says of the server: start, memory, and how requests share the machine.

    measure.py BINARY MODEL_DIR [--only NAME] [--step-ms N] [--idle SECONDS]

Starts servers of its own on a free loopback port, with random token ids as documents. Prints one line a figure. Beside
tests/e2e/harness.py Python's standard library only.
"""
import argparse
import ctypes
import json
import mmap
import os
import random
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "e2e"))
import harness  # noqa: E402


class TimedServer(harness.Program):
    """The program, and what is measured of it: when it was ready, its memory, when each token came."""

    def __init__(self, binary, model, *options):
        self.program = binary
        start = time.monotonic()
        try:
            super().__init__("--model", model, *options)
        except RuntimeError as e:
            sys.exit(str(e))
        while self.get("/readyz").status != 200:
            time.sleep(0.005)
        self.ready_s = time.monotonic() - start
        self.ready_rss = self.memory("VmRSS")

    def memory(self, row):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith(row + ":"):
                return int(line.split()[1]) * 1024
        return 0

    def generate(self, ids, n, **more):
        """One streamed completion: list of arrival times of its chunks, and its last usage and timings."""
        body = {"prompt": ids, "max_tokens": n, "temperature": 0, "stream": True, "ignore_eos": True,
                "stream_options": {"include_usage": True}, **more}
        c = self.connect(timeout=600)
        sent = time.monotonic()
        c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        times, text, last = [], "", {}
        for line in r:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if "error" in event:
                    sys.exit(str(event))
                if event.get("choices"):
                    times.append(time.monotonic())
                    text += event["choices"][0].get("text", "")
                last.update({k: event[k] for k in ("usage", "timings") if event.get(k)})
        if r.status != 200 or not times:
            sys.exit(f"status {r.status}: nothing came")
        return {"sent": sent, "times": times, "text": text, **last}


def ids(n, seed):
    r = random.Random(seed)
    return [r.randrange(300, 4000) for _ in range(n)]


def together(*calls):
    results = [None] * len(calls)

    def run(i):
        results[i] = calls[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def percentile(xs, p):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(len(xs) * p / 100))]


class Gaps:
    """The server's own histogram of the time between tokens, between two looks at /metrics."""

    NAME = ":inter_token_latency_seconds_bucket{"

    def __init__(self, server):
        self.server = server

    def look(self):
        """Upper bound in seconds → observations up to it, of everything so far."""
        out = {}
        for line in self.server.get("/metrics").body.decode().splitlines():
            if self.NAME in line:
                out[float(re.search(r'le="([^"]+)"', line).group(1).replace("+Inf", "inf"))] = int(line.split()[-1])
        return out

    def begin(self):
        self.before = self.look()

    def end(self):
        self.counts = sorted((bound, n - self.before[bound]) for bound, n in self.look().items())

    def percentile(self, p):
        """As Prometheus' histogram_quantile: linear inside the bucket. The bucket is (above, at most), in ms."""
        rank, below, n_below = self.counts[-1][1] * p / 100, 0.0, 0
        for bound, n in self.counts:
            if n >= rank and n > n_below:
                inside = below + (bound - below) * (rank - n_below) / (n - n_below) if bound < float("inf") else below
                return f"{inside * 1e3:.1f} ({below * 1e3:g}–{bound * 1e3:g}]"
            below, n_below = bound, n
        return "none"


def touch_s(n_bytes, n_threads=2):
    """What the system alone takes for so many bytes of huge pages: no server starts faster than this."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    start = time.monotonic()
    at = libc.mmap(None, n_bytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    libc.madvise(at, n_bytes, mmap.MADV_HUGEPAGE)
    part = n_bytes // n_threads // 4096 * 4096
    populate_write = 23
    together(*[lambda i=i: libc.madvise(at + i * part, part, populate_write) for i in range(n_threads)])
    took = time.monotonic() - start
    libc.munmap(at, n_bytes)
    return took


def ready(a):
    """Start to ready, in turn with the bare making of as many bytes of memory: caches dropped where we may, and warm.
    --idle lets the machine rest before each start, in which a virtual machine may hand its free pages back."""
    plan = json.loads(subprocess.run([a.binary, "plan", "--model", a.model, "--json", *a.serve], capture_output=True,
                                     text=True, check=True).stdout)
    for kind in ("cold", "warm"):
        rows = []
        for _ in range(5):
            row = []
            for measure in (lambda: start_s(a), lambda: touch_s(plan["total_bytes"])):
                time.sleep(a.idle)
                if kind == "cold":
                    os.sync()
                    try:
                        with open("/proc/sys/vm/drop_caches", "w") as f:
                            f.write("3")
                    except OSError:
                        print("cold: /proc/sys/vm/drop_caches cannot be written")
                        return
                row.append(measure())
            rows.append(row)
        show = lambda i: " ".join(f"{r[i]:.2f}" for r in rows)
        print(f"ready_{kind}_s {show(0)}; {plan['total_bytes'] / 1e6:.0f} MB of bare pages {show(1)}")


def start_s(a):
    s = TimedServer(a.binary, a.model, *a.serve)
    s.stop()
    return s.ready_s


def start_and_memory(a):
    plan = json.loads(subprocess.run([a.binary, "plan", "--model", a.model, "--json"], capture_output=True, text=True,
                                     check=True).stdout)
    s = TimedServer(a.binary, a.model)
    print(f"ready_s {s.ready_s:.3f}")
    together(*[lambda i=i: s.generate(ids(32000, 100 + i), 32) for i in range(3)])
    together(*[lambda i=i: s.generate(ids(500, 200 + i), 64) for i in range(16)])
    peak = s.memory("VmHWM")
    planned = plan["total_bytes"]
    print(f"idle_rss_mb {s.ready_rss / 1e6:.1f} peak_rss_mb {peak / 1e6:.1f} plan_mb {planned / 1e6:.1f} "
          f"peak/plan {peak / planned:.4f} idle/plan {s.ready_rss / planned:.4f}")
    s.stop()


def short_during_long(a):
    s = TimedServer(a.binary, a.model, "--step-ms", str(a.step_ms))
    s.generate(ids(2000, 1), 8)
    worst = 0
    for round_idx in range(3):
        def short():
            time.sleep(0.5)
            r = s.generate(ids(64, 1000 + round_idx), 8)
            return r["times"][0] - r["sent"]
        long, ttft = together(lambda: s.generate(ids(32000, 10 + round_idx), 1), short)
        worst = max(worst, ttft)
        print(f"32K prefill {long['times'][0] - long['sent']:.2f} s; short request's first token after {ttft:.3f} s")
    print(f"short_ttft_during_32k_s {worst:.3f}")
    s.stop()


def decoders_during_long(a):
    s = TimedServer(a.binary, a.model, "--step-ms", str(a.step_ms))
    s.generate(ids(2000, 1), 8)

    def decode(i):
        return s.generate(ids(256, 50 + i), 3000)

    own = Gaps(s)

    def long():
        time.sleep(0.3)
        own.begin()
        r = s.generate(ids(32000, 77), 1)
        own.end()
        return r

    *streams, doc = together(*[lambda i=i: decode(i) for i in range(4)], long)
    gaps = []
    for r in streams:
        inside = [t for t in r["times"] if doc["sent"] <= t <= doc["times"][0]]
        gaps += [b - x for x, b in zip(inside, inside[1:])]
    print(f"decoders_itl_ms p50 {percentile(gaps, 50) * 1e3:.1f} p99 {percentile(gaps, 99) * 1e3:.1f} "
          f"step budget {a.step_ms} n {len(gaps)}")
    print(f"the server's own histogram: p50 {own.percentile(50)} p90 {own.percentile(90)} p99 {own.percentile(99)} "
          f"n {own.counts[-1][1]}")
    s.stop()


def two_documents(a):
    s = TimedServer(a.binary, a.model, "--step-ms", str(a.step_ms))
    s.generate(ids(2000, 1), 8)
    for round_idx in range(2):
        start = time.monotonic()
        for i in range(2):
            s.generate(ids(16000, 300 + 10 * round_idx + i), 1)
        one_by_one = time.monotonic() - start
        start = time.monotonic()
        together(*[lambda i=i: s.generate(ids(16000, 400 + 10 * round_idx + i), 1) for i in range(2)])
        at_once = time.monotonic() - start
        print(f"two 16K documents: one after the other {one_by_one:.2f} s, at once {at_once:.2f} s, "
              f"ratio {at_once / one_by_one:.3f}")
    s.stop()


def same_bytes(a):
    """The answer to one document alone, among 16 others, in other chunks, and from the prefix cache."""
    doc = ids(3000, 5)
    answers = {}

    def ask(s, **more):
        r = s.generate(doc, 48, logprobs=3, **more)
        return r["text"]

    s = TimedServer(a.binary, a.model)
    answers["alone"] = ask(s)
    answers["cached"] = ask(s)
    others = [lambda i=i: s.generate(ids(200 + 150 * i, 600 + i), 64) for i in range(16)]
    answers["among 16"] = together(*others, lambda: ask(s, cache_salt="other"))[-1]
    s.stop()
    for chunk in (64, 192, 1024):
        s = TimedServer(a.binary, a.model, "--chunk", str(chunk))
        answers[f"chunk {chunk}"] = ask(s)
        s.stop()
    equal = len(set(answers.values())) == 1
    print(f"same_bytes {'yes' if equal else 'NO: ' + str(answers)} ({', '.join(answers)})")


PARTS = ready, start_and_memory, same_bytes, short_during_long, decoders_during_long, two_documents


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--only", choices=[f.__name__ for f in PARTS])
    p.add_argument("--step-ms", type=int, default=50)
    p.add_argument("--idle", type=float, default=0, help="ready: seconds of rest before each start")
    p.add_argument("--serve", nargs="*", default=[], help="ready: more options, as --serve=--config=FILE")
    a = p.parse_args()
    for f in PARTS:
        if a.only in (None, f.__name__):
            f(a)


if __name__ == "__main__":
    main()
