#!/usr/bin/env python3
"""Answers under a JSON schema, with tokens proposed from prompt and answer (--speculate) and without, in turn, on one server.

    speculation_schema.py BINARY MODEL_DIR [--people 24] [--words 2000] [--pairs 3] [--ways auto,8] [--seed 1]
                          [-- SERVE_OPTION…]

Extraction: a text names people, where they live and how old they are, among other words; the answer is a list of them, an
object each, by a strict schema. What repeats are the members' names, the places, and what the model takes from the text. (The demo, which has never seen
JSON, makes names up; the schema holds it to their form.) Each pair asks the same
question once in each way; the answers must be the same to the byte. Printed are tokens a second behind the first, by the
server's own time, medians over pairs. Python's standard library only, beside tests/bench/serve/measure.py."""
import argparse
import json
import os
import random
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import TimedServer  # noqa: E402

FIRST, LAST = ("Anna", "Otto", "Mira", "Jon", "Lena", "Paul", "Vera", "Karl"), ("Vell", "Krast", "Holt", "Sarn", "Brandt", "Quill", "Moor", "Tarn")
PLACES = ("Dorrun", "Marrow Hill", "Silent River", "Ketterby", "Upper Lodd", "Fennmouth")
FILLER = "and it came to pass in those days that the people went up to the hill and sat there until the evening".split()
NAME = {"type": "string", "pattern": "^[A-Z][a-z]{2,8} [A-Z][a-z]{2,8}$"}
PERSON = {"type": "object", "properties": {"full_name": NAME, "place_of_residence": {"enum": list(PLACES)}, "age_in_years": {"type": "integer", "minimum": 1, "maximum": 120}},
          "required": ["full_name", "place_of_residence", "age_in_years"], "additionalProperties": False}


def body_of(seed, args):
    r = random.Random(seed)
    parts = []
    for _ in range(args.people):
        parts.append(f"{r.choice(FIRST)} {r.choice(LAST)} lives in {r.choice(PLACES)} and is {r.randint(18, 90)} years old.")
        parts.append(" ".join(r.choices(FILLER, k=args.words // args.people)) + ".")
    schema = {"type": "array", "items": PERSON, "minItems": args.people, "maxItems": args.people}
    return {"messages": [{"role": "user", "content": " ".join(parts) + "\n\nList all people with their places and ages."}],
            "temperature": 0, "max_tokens": 60 * args.people, "return_token_ids": True,
            "response_format": {"type": "json_schema", "json_schema": {"name": "people", "strict": True, "schema": schema}}}


def ask(server, body, way):
    reply = server.post("/v1/chat/completions", {**body, "speculate": int(way) if way.isdigit() else way})
    if reply.status != 200:
        sys.exit(f"no answer: {reply.body[:500]}")
    answer = json.loads(reply.body)
    t, n = answer["timings"], answer["usage"]["completion_tokens"]
    return (n - 1) * 1000 / (t["decode_ms"] or 1), t.get("proposed_tokens", 0), t.get("accepted_tokens", 0), n, answer["choices"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--people", type=int, default=24)
    p.add_argument("--words", type=int, default=2000)
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--ways", default="auto,8")
    p.add_argument("--seed", type=int, default=1)
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    args = p.parse_args(own)
    server = TimedServer(args.binary, args.model, *(sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []))
    ways, found = ["off", *args.ways.split(",")], {}
    try:
        for i in range(args.pairs):
            body = body_of(args.seed + i, args)
            ask(server, {**body, "max_tokens": 1}, "off")  # all that follow find the prompt in the cache
            got = {way: ask(server, body, way) for way in (ways if i % 2 == 0 else reversed(ways))}
            for way in ways:
                found.setdefault(way, []).append(got[way][:4])
                if got[way][4] != got["off"][4]:
                    sys.exit(f"seed {args.seed + i}, {way}: answers differ")
    finally:
        server.stop()
    off = statistics.median(f[0] for f in found["off"])
    print(f"{'way':>5} {'tokens/s':>9} {'way / off':>9} {'tokens':>7} {'proposed':>8} {'came':>6}")
    for way, rounds in found.items():
        rate, (proposed, came, n) = statistics.median(f[0] for f in rounds), (sum(f[k] for f in rounds) for k in (1, 2, 3))
        print(f"{way:>5} {rate:9.1f} {rate / off:9.2f} {n:7d} {proposed:8d} {came:6d}")


main()
