#!/usr/bin/env python3
"""A long document that comes back from the host's memory to a GPU's, beside reading it again, and what others wait for
meanwhile.

    below.py BINARY MODEL_DIR [--tokens 128K] [--rounds 3] [--spare-tokens 4K] [--cache-memory 40G]
             [--long-out 2000] [--out FILE.csv] [-- SERVE_OPTION…]

The cache holds one such document and --spare-tokens, --cache-memory two. They are asked for in turns, so each takes the
other's place and comes back from memory: its first token as the client sees it (a request of so many ids is 700 KB of
JSON), from admission to first token (restore_s), how many of its tokens were not computed, and how many of those came
from memory, by the server's count. Then the same while short
requests are asked one after the other beside long answers (of --long-out tokens): the first token of the ones, and the
time between tokens of the others, from the restore's beginning to its end; and for some seconds without a restore. How fast this machine copies
says bench_memory_tier (tests/bench/kv). Standard library only, beside measure.py.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import TimedServer, ids, percentile  # noqa: E402

SOURCE = 'source="external_kv_transfer"'
SHORT_TOKENS, SHORT_OUT, ALONE_S = 64, 16, 3


def count(text):
    return int(text[:-1]) * 1024 if text[-1] in "kK" else int(text)


def ask(server, prompt):
    """What it took; with the tokens that were not computed, and those of them that came from below the cache."""
    before = server.metric("prompt_tokens_by_source_total", SOURCE)
    r = server.generate(prompt, 4)
    return {"first_token_s": round(r["times"][0] - r["sent"], 3), "restore_s": round(r["timings"]["prefill_ms"] / 1e3, 3),
            "cached_tokens": r["usage"]["prompt_tokens_details"]["cached_tokens"],
            "restored_tokens": int(server.metric("prompt_tokens_by_source_total", SOURCE) - before)}


def wait_until_kept(server, n, what):
    """Until the tier has had n blocks saved in all: else what is measured is what has not left the cache yet."""
    until = time.monotonic() + 120
    while server.metric("memory_blocks_saved_total") < n:
        if time.monotonic() > until:
            sys.exit(f"{what}: {server.metric('memory_blocks_saved_total')} blocks in memory after 120 s, expected {n}")
        time.sleep(0.01)


class Others:
    """What short requests and one long answer see of a server, from start to stop."""

    def __init__(self, server, long_out):
        self.server, self.long_out, self.waits, self.over = server, long_out, [], False
        self.long_times = []
        self.threads = [threading.Thread(target=self.short), threading.Thread(target=self.long)]
        for t in self.threads:
            t.start()

    def short(self):
        seed = 1
        while not self.over:
            seed += 1
            r = self.server.generate(ids(SHORT_TOKENS, 10**6 + seed), SHORT_OUT)
            self.waits.append((r["sent"], r["times"][0]))

    def long(self):
        while not self.over:
            r = self.server.generate(ids(SHORT_TOKENS, 999), self.long_out)
            self.long_times.append(r["times"])

    def end(self, first, last):
        """Milliseconds to first tokens, and between the tokens of long answers: those that had a part in first to last."""
        self.over = True
        for t in self.threads:
            t.join()
        pairs = [(a, b) for times in self.long_times for a, b in zip(times, times[1:])]
        return tuple([1e3 * (b - a) for a, b in spans if b >= first and a <= last] for spans in (self.waits, pairs))


def spread(name, values):
    if not values:
        return {f"{name}_n": 0}
    return {f"{name}_n": len(values), f"{name}_p50_ms": round(percentile(values, 50), 2),
            f"{name}_p99_ms": round(percentile(values, 99), 2), f"{name}_max_ms": round(max(values), 2)}


def measure_others(server, long_out, restore):
    """With a restore in the middle, or for a while without one."""
    others = Others(server, long_out)
    time.sleep(0.5)
    began = time.monotonic()
    result = restore() if restore else time.sleep(ALONE_S)
    waits, gaps = others.end(began, time.monotonic())
    return result, waits, gaps


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--tokens", default="128K")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--spare-tokens", default="4K")
    p.add_argument("--cache-memory", default="40G")
    p.add_argument("--long-out", type=int, default=2000)
    p.add_argument("--out")
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    args = p.parse_args(own)
    more = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []
    n = count(args.tokens) - 64
    options = ["--load", "dummy", "--kv-tokens", str(n + 64 + count(args.spare_tokens)), "--cache-memory", args.cache_memory, *more]
    first, second = ids(n, 1), ids(n, 2)
    rows = []
    plan = subprocess.run([args.binary, "plan", "--json", "--model", args.model, *options], capture_output=True, text=True)
    if plan.returncode != 0:
        sys.exit(plan.stderr or plan.stdout)
    n_blocks = (n - 1) // (64 * json.loads(plan.stdout)["context_ranks"])
    server = TimedServer(args.binary, args.model, *options)
    try:
        read_s = ask(server, first)["restore_s"]
        wait_until_kept(server, n_blocks, "the first document")
        ask(server, second)
        wait_until_kept(server, 2 * n_blocks, "the second document")
        for r in range(args.rounds):
            restores = [ask(server, d) for d in (first, second)]
            rows += [{"what": "alone", **took} for took in restores]
        _, waits, gaps = measure_others(server, args.long_out, None)
        rows.append({"what": "others alone", **spread("others_first", waits), **spread("others_gap", gaps)})
        all_waits, all_gaps = [], []
        for r in range(args.rounds):
            took, waits, gaps = measure_others(server, args.long_out, lambda: ask(server, (first, second)[r % 2]))
            all_waits += waits
            all_gaps += gaps
            rows.append({"what": "with others", **took, **spread("others_first", waits), **spread("others_gap", gaps)})
        rows.append({"what": "with others, all", **spread("others_first", all_waits), **spread("others_gap", all_gaps)})
        n_failed = server.metric("memory_failures_total", 'way="load"')
    finally:
        server.stop()
    for row in rows:
        print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    alone = [row["restore_s"] for row in rows if row["what"] == "alone"]
    print(f"{n} tokens: read in {read_s:.3f} s, back in {statistics.median(alone):.3f} s (median), failed loads {n_failed}")
    if args.out:
        names = sorted({k for row in rows for k in row}, key=lambda k: (k != "what", k))
        with open(args.out, "w", newline="") as f:
            out = csv.DictWriter(f, names)
            out.writeheader()
            out.writerows(rows)


if __name__ == "__main__":
    main()
