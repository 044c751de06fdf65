#!/usr/bin/env python3
"""Writes regex.json: random patterns and texts, and what Python's re says of each. Python's $ also matches before a
last line end, so it is written as \\Z for it; classes are ASCII's on both sides."""
import json
import os
import random
import re

R = random.Random(12)
LETTERS = "ab1_ -é€😀\n\"\\"
ATOMS = ["a", "b", "1", "é", "€", "😀", ".", r"\d", r"\D", r"\w", r"\W", "[ab]", "[^a]", "[a-c1]", "[^é€]", r"[\d_-]",
         r"[^\w\n]", r"\"", r"\\", r"\u00e9", "[é-€]", r"\n", " ", "-", r"\-", r"[\]a]", "[^\\\\]"]


def pattern(depth):
    def atom():
        kind = R.random()
        if depth and kind < 0.25:
            return R.choice(["(", "(?:"]) + pattern(depth - 1) + ")"
        return R.choice(ATOMS)

    def repeated():
        return atom() + R.choice([""] * 6 + ["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?", "+?", "{0}"] if depth < 2 or R.random() < 0.5 else ["", "*", "?"])

    def sequence():
        parts = [repeated() for _ in range(R.randrange(0 if depth < 2 else 1, 4))]
        if R.random() < 0.2:
            parts.insert(0, "^")
        if R.random() < 0.2:
            parts.append("$")
        if R.random() < 0.03:
            parts.insert(R.randrange(len(parts) + 1), R.choice("^$"))
        return "".join(parts)
    return "|".join(sequence() for _ in range(R.choice([1, 1, 1, 2, 3])))


def text():
    return "".join(R.choice(LETTERS) for _ in range(R.choice([0, 1, 1, 2, 2, 3, 4, 6])))


def python_form(p):
    p = re.sub(r"(\\.|\[(?:\\.|[^\]\\])*\])|\$", lambda m: m.group(1) or r"\Z", p)
    p = re.sub(r"(?<!\\)((?:\\\\)*)\.", r"\1[^\\n\\r\\u2028\\u2029]", p)
    return re.compile(p, re.ASCII)


def main():
    cases = []
    while len(cases) < 400:
        p = pattern(2)
        if p.count("{") > 2 or len(p) > 40:
            continue
        compiled = python_form(p)
        texts = sorted({text() for _ in range(25)} | {"", "a"})
        cases.append({"pattern": p, "texts": texts,
                      "whole": "".join("01"[bool(compiled.fullmatch(t))] for t in texts),
                      "anywhere": "".join("01"[bool(compiled.search(t))] for t in texts)})
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "regex.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
