#!/usr/bin/env python3
"""What people do with documents (`load --workload`), with tokens proposed from the prompt and without: two servers side by
side, one with --speculate off and one with auto, asked the same in turn, one request at a time.

    speculation_workloads.py BINARY MODEL_DIR [--lengths 32K,128K] [--workloads extract,qa,summary,chat] [--rounds 4]
                             [--pairs 3] [--seed 1] [--out FILE.csv] [-- SERVE_OPTION…]

Every document is read before it is asked about for the record. Printed are tokens a second of decoding (all tokens but
each answer's first, by the server's own time between its first and last), medians over pairs, what was proposed and came,
and how long the device had nothing to do where a step waited for the one before. Python's standard library only, beside
tests/bench/serve/measure.py."""
import argparse
import csv
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import TimedServer  # noqa: E402

COUNTERS = ("generation_tokens_total", "request_decode_time_seconds_count", "request_decode_time_seconds_sum",
            "speculative_tokens_proposed_total", "speculative_tokens_accepted_total", "speculative_waits_total",
            "speculative_wait_seconds_total")


def counters(server):
    """By name; those of histograms stand under their family's."""
    out = dict.fromkeys(COUNTERS, 0.0)
    for line in server.get("/metrics").body.decode().splitlines():
        name = line.split(" ")[0].partition(":")[2].partition("{")[0]
        if name in out and not line.startswith("#"):
            out[name] = float(line.split()[-1])
    return out


def load(server, args, workload, length, n_rounds):
    """The counters' growth while it runs."""
    before = counters(server)
    run = subprocess.run([args.binary, "load", "--url", f"http://127.0.0.1:{server.port}", "--workload", workload, "--lengths",
                          length, "--concurrency", "1", "--rounds", str(n_rounds), "--seed", str(args.seed)],
                         capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"load: {run.stderr or run.stdout}")
    after = counters(server)
    return {name: after[name] - before[name] for name in COUNTERS}


def rate(c):
    return (c["generation_tokens_total"] - c["request_decode_time_seconds_count"]) / c["request_decode_time_seconds_sum"]


def measure(servers, args, workload, length):
    found = {way: [] for way in servers}
    for server in servers.values():
        load(server, args, workload, length, args.rounds)
    for i in range(args.pairs):
        for way in list(servers) if i % 2 == 0 else reversed(list(servers)):
            found[way].append(load(servers[way], args, workload, length, args.rounds))
    off, auto = (statistics.median(map(rate, found[way])) for way in ("off", "auto"))
    total = {name: sum(c[name] for c in found["auto"]) for name in COUNTERS}
    n_waits = total["speculative_waits_total"]
    return {"length": length, "workload": workload, "tokens_an_answer": total["generation_tokens_total"] / (args.rounds * args.pairs),
            "off_tok_s": off, "auto_tok_s": auto, "auto_by_off": auto / off,
            "proposed": int(total["speculative_tokens_proposed_total"]), "came": int(total["speculative_tokens_accepted_total"]),
            "waits": int(n_waits), "wait_us": 1e6 * total["speculative_wait_seconds_total"] / n_waits if n_waits else 0}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--lengths", default="32K,128K")
    p.add_argument("--workloads", default="extract,qa,summary,chat")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out")
    n_own = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args = p.parse_args(sys.argv[1:n_own])
    servers, rows = {}, []
    try:
        for way in ("off", "auto"):
            servers[way] = TimedServer(args.binary, args.model, "--speculate", way, *sys.argv[n_own + 1:])
        for length in args.lengths.split(","):
            for workload in args.workloads.split(","):
                rows.append(measure(servers, args, workload, length))
                print(" ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    finally:
        for server in servers.values():
            server.stop()
    if args.out:
        with open(args.out, "w", newline="") as f:
            w = csv.DictWriter(f, rows[0])
            w.writeheader()
            w.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
