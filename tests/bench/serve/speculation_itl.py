#!/usr/bin/env python3
"""Time between tokens with tokens proposed from the prompt (--speculate) beside the same without, in turn, on one server.

    speculation_itl.py BINARY MODEL_DIR [--streams 1,8] [--tokens 256] [--prompt 1000] [--pairs 3] [--ways auto,8]
                       [--may-differ] [--out FILE.csv] [-- SERVE_OPTION…]

How often a proposal is right is made, so that any model will do, dummy weights too: an answer may consist of K ids alone,
drawn at temperature 2 with one of them favoured by a bias, behind a prompt of the same; then what came before is what
comes next in about that part of the cases. K = 1 is always right, K = 20 hardly ever; "free" may say anything. The rate that is
printed is what was measured. Each round asks N times at once, off first or last in turn; what counts is the server's own
decode time by tokens behind the first, the median over rounds. That the answers are the same is checked as well, but
with --may-differ: several at once on a GPU, where a step that reads prompts beside answers has more than 16 tokens.
Python's standard library only, beside tests/bench/serve/measure.py.
"""
import argparse
import csv
import json
import math
import os
import random
import statistics
import sys
from functools import partial

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import TimedServer, together  # noqa: E402

# Name, ids, and the part that the first of them is to have.
KINDS = (("free", 0, 0), ("20 ids", 20, 0.05), ("2 ids, 0.50", 2, 0.5), ("2 ids, 0.70", 2, 0.816),
         ("2 ids, 0.90", 2, 0.947), ("1 id", 1, 1))
FIRST_ID = 100


def body_of(kind, seed, args):
    _, n_ids, part = kind
    r = random.Random(seed)
    some = list(range(FIRST_ID, FIRST_ID + (n_ids or 1000)))
    weights = [part] + [(1 - part) / max(n_ids - 1, 1)] * (n_ids - 1) if n_ids else None
    body = {"prompt": r.choices(some, weights, k=args.prompt), "max_tokens": args.tokens, "temperature": 2, "seed": seed,
            "ignore_eos": True, "return_token_ids": True}
    if n_ids:
        body["allowed_token_ids"] = some
    if n_ids == 2:
        body["logit_bias"] = {str(FIRST_ID): 2 * math.log(part / (1 - part))}
    return body


def ask(server, body, way):
    reply = server.post("/v1/completions", {**body, "speculate": int(way) if way.isdigit() else way})
    answer = json.loads(reply.body)
    if reply.status != 200:
        sys.exit(f"no answer: {reply.body[:500]}")
    t = answer["timings"]
    return (t["decode_ms"] / max(body["max_tokens"] - 1, 1), t.get("proposed_tokens", 0), t.get("accepted_tokens", 0),
            answer["choices"][0]["token_ids"])


def round_of(server, kind, n, seed, way, args, max_tokens=None):
    more = {"max_tokens": max_tokens or args.tokens}
    out = together(*(partial(ask, server, {**body_of(kind, seed + i, args), **more}, way) for i in range(n)))
    if None in out:
        sys.exit("a request failed")
    return out


def compare(server, kind, n, args):
    """{way: [(ms, proposed, accepted) of each round]}"""
    ways, found = ["off", *args.ways.split(",")], {}
    for i in range(args.pairs):
        answers = {}
        round_of(server, kind, n, 1000 * i + 1, "off", args, 1)  # all that follow find the prompt in the cache
        for way in ways if i % 2 == 0 else reversed(ways):
            got = round_of(server, kind, n, 1000 * i + 1, way, args)
            found.setdefault(way, []).append((statistics.median(g[0] for g in got), sum(g[1] for g in got),
                                              sum(g[2] for g in got)))
            answers[way] = [g[3] for g in got]
        if any(a != answers["off"] for a in answers.values()) and not args.may_differ:
            sys.exit(f"{kind[0]}: answers differ")
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--streams", default="1,8")
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--prompt", type=int, default=1000)
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--ways", default="auto,8")
    p.add_argument("--may-differ", action="store_true")
    p.add_argument("--out")
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    args = p.parse_args(own)
    options = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []
    rows = []
    server = TimedServer(args.binary, args.model, *options)
    print(f"{'streams':>7} {'answers':12} {'way':>5} {'ms/token':>9} {'off / way':>9} {'right':>6} {'a step':>7}")
    try:
        for n in (int(x) for x in args.streams.split(",")):
            for kind in KINDS:
                found = compare(server, kind, n, args)
                off_ms = statistics.median(f[0] for f in found["off"])
                for way, rounds in found.items():
                    ms, proposed, accepted = statistics.median(f[0] for f in rounds), *(sum(f[i] for f in rounds) for i in (1, 2))
                    n_steps = n * args.tokens * len(rounds) - accepted
                    right = accepted / proposed if proposed else 0
                    rows.append((n, kind[0], way, round(ms, 4), round(off_ms / ms, 3), round(right, 3),
                                 round(proposed / n_steps, 2)))
                    print(f"{n:7d} {kind[0]:12} {way:>5} {ms:9.3f} {off_ms / ms:9.2f} {right:6.2f} {proposed / n_steps:7.2f}",
                          flush=True)
    finally:
        server.stop()
    if args.out:
        with open(args.out, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(("streams", "answers", "way", "ms_per_token", "off_by_way", "right", "proposed_per_step"))
            w.writerows(rows)


main()
