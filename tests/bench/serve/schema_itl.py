#!/usr/bin/env python3
"""Time between tokens under a JSON schema beside the same without one, in turn, on one server; and what is done before
the prompt is read, which is where a schema is compiled.

    schema_itl.py BINARY MODEL_DIR [--streams 1,8,32] [--tokens 256] [--pairs 5] [--out FILE.csv] [-- SERVE_OPTION…]

Each round asks N times at once, first without and then with a schema (the order changes every round), at temperature 1
with a seed of its own; what counts is the server's own decode time by tokens behind the first, the median over rounds.
The schema's answers are longer than is asked for, so all have the same number of tokens. Python's standard library
only, beside tests/bench/serve/measure.py.
"""
import argparse
import csv
import json
import os
import statistics
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import TimedServer, ids  # noqa: E402

SCHEMA = {"type": "array", "minItems": 400, "items": {
    "type": "object", "required": ["name", "kind", "amount", "ready", "tags"], "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 40},
        "kind": {"enum": ["invoice", "contract", "letter"]},
        "amount": {"type": "integer", "minimum": 0, "maximum": 100000},
        "ready": {"type": "boolean"},
        "tags": {"type": "array", "maxItems": 4, "items": {"type": "string", "maxLength": 12}},
    }}}


def ask(server, seed, n_tokens, with_schema, out):
    body = {"prompt": ids(64, seed), "max_tokens": n_tokens, "temperature": 1, "seed": seed}
    if with_schema:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "list", "schema": SCHEMA}}
    else:
        body["ignore_eos"] = True
    reply = server.post("/v1/completions", body)
    answer = json.loads(reply.body)
    if reply.status != 200 or answer["usage"]["completion_tokens"] != n_tokens:
        sys.exit(f"no answer of {n_tokens} tokens: {reply.body[:500]}")
    out.append((answer["timings"]["decode_ms"] / (n_tokens - 1), answer["timings"]["tokenize_ms"]))


def round_of(server, n, seed, n_tokens, with_schema):
    out = []
    threads = [threading.Thread(target=ask, args=(server, seed + i, n_tokens, with_schema, out)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if len(out) < n:
        sys.exit("a request failed")
    return [statistics.median(x) for x in zip(*out)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--streams", default="1,8,32")
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--out")
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    args = p.parse_args(own)
    options = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []
    rows = []
    server = TimedServer(args.binary, args.model, *options)
    try:
        for n in (int(x) for x in args.streams.split(",")):
            times = {False: [], True: []}
            for with_schema in (False, True):
                round_of(server, n, 7, 32, with_schema)
            for r in range(args.pairs):
                for with_schema in ((False, True) if r % 2 == 0 else (True, False)):
                    times[with_schema].append(round_of(server, n, 1000 * (r + 1), args.tokens, with_schema))
            (plain, before_plain), (schema, before_schema) = [[statistics.median(x) for x in zip(*times[w])] for w in (False, True)]
            ratio = statistics.median(b[0] / a[0] for a, b in zip(times[False], times[True]))
            print(f"{n:4d} streams: {plain:8.3f} ms without, {schema:8.3f} ms with a schema, ratio {ratio:.4f}; "
                  f"before the prompt {before_plain:.3f} and {before_schema:.3f} ms", flush=True)
            rows.append((n, plain, schema, ratio, before_plain, before_schema))
    finally:
        server.stop()
    if args.out:
        with open(args.out, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["streams", "ms_without", "ms_with_schema", "ratio", "before_ms_without", "before_ms_with_schema"])
            w.writerows(rows)


if __name__ == "__main__":
    main()
