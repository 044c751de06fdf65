#!/usr/bin/env python3
"""Time between tokens under a schema, beside the same without one, in turn in one run; and what a schema adds before the
first token.

    tests/bench/e2e/structured.py [--rounds 20] [--tokens 128] [--model DIR]

Each round asks plain, schema, plain, schema (ABAB), one request at a time and then eight at once. The figure of a request is
timings.decode_ms by its tokens behind the first; of a round at eight the mean. Medians and minima over rounds are printed,
and the median of the ratios of neighbours. Runs build/release/longflash; standard library only.
"""
import argparse
import concurrent.futures
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
os.environ.setdefault("LF_LONGFLASH", os.path.join(ROOT, "build", "release", "longflash"))
import harness  # noqa: E402

# long enough that no answer ends before its length
SCHEMA = {"type": "array", "minItems": 200, "items": {"type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
          "properties": {"name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                         "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
                         "note": {"type": "string"}}}}


def ask(server, n_tokens, seed, schema):
    body = {"prompt": "In the beginning", "max_tokens": n_tokens, "temperature": 1, "seed": seed}
    body.update({"guided_json": SCHEMA} if schema else {"ignore_eos": True})
    r = server.post("/v1/completions", body)
    if r.status != 200 or r.json["usage"]["completion_tokens"] != n_tokens:
        raise RuntimeError(r.body[:300])
    t = r.json["timings"]
    return t["decode_ms"] / (n_tokens - 1), t["tokenize_ms"], t["queue_ms"] + t["prefill_ms"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--model", default=os.path.join(ROOT, "demo/model"))
    args = parser.parse_args()
    server = harness.Program("--model", args.model, "--ctx", "4096", "--kv-tokens", "64K", "--log-level", "error")
    for n in (1, 8):
        seen = {False: [], True: []}
        first = {False: [], True: []}
        with concurrent.futures.ThreadPoolExecutor(n) as pool:
            for i in range(2 * args.rounds):
                for schema in (False, True):
                    got = list(pool.map(lambda k: ask(server, args.tokens, i * 8 + k, schema), range(n)))
                    seen[schema].append(statistics.mean(g[0] for g in got))
                    first[schema] += [g[1] for g in got]
        ratios = [b / a for a, b in zip(seen[False], seen[True])]
        print(f"{n} at once: ms a token, plain median {statistics.median(seen[False]):.3f} least {min(seen[False]):.3f}, schema median "
              f"{statistics.median(seen[True]):.3f} least {min(seen[True]):.3f}; ratio of neighbours, median {statistics.median(ratios):.3f}; "
              f"before the first token, plain median {statistics.median(first[False]):.3f} ms, schema {statistics.median(first[True]):.3f} ms")
    server.stop()


if __name__ == "__main__":
    main()
