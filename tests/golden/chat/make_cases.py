#!/usr/bin/env python3
"""Makes cases.json: small templates and what Jinja2 renders them to (null: it fails). Run it from anywhere."""
import json
import os

from hf_jinja import NOW_UNIX, render

VARIABLES = {
    "s": "Hello, World", "empty": "", "uni": "Grüße – Ωμέγα Ёлка 日本", "ws": " \t padded \n ", "lines": "one\ntwo\n\nthree\r\nfour",
    "html": "<a href=\"x\">T'om & Jerry</a>", "n": 7, "neg": -3, "zero": 0, "f": 2.5, "big": 12345678901234567890, "yes": True,
    "no": False, "nil": None, "nums": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "nested": [[1, 2], [3], []],
    "d": {"b": 1, "a": 2, "C": 3}, "deep": {"x": {"y": [10, {"z": "end"}]}}, "items_like": {"items": "shadow", "keys": 5},
    "people": [{"name": "Ann", "age": 31, "city": "Rome"}, {"name": "bob", "age": 25, "city": "rome"},
               {"name": "Cid", "age": 31, "city": "Oslo"}],
    "mixed": [1, "a", None, True, 1.5], "long": "the quick brown fox jumps over the lazy dog",
}

TEMPLATES = open(os.path.join(os.path.dirname(__file__), "cases.txt"), encoding="utf-8", newline="").read().split("\n====\n")


def main():
    cases = [{"template": t, "expected": render(t, **VARIABLES)} for t in TEMPLATES]
    for c in cases:
        if not c["template"].startswith("{#fails#}"):
            assert c["expected"] is not None, c["template"]
        else:
            assert c["expected"] is None, c
    out = os.path.join(os.path.dirname(__file__), "cases.json")
    with open(out, "w", encoding="utf-8") as file:
        file.write('{"now": %d,\n"variables": %s,\n"cases": [\n' % (NOW_UNIX, json.dumps(VARIABLES, ensure_ascii=False)))
        file.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
        file.write("\n]}\n")
    print(len(cases), "cases,", sum(c["expected"] is None for c in cases), "of them fail")


if __name__ == "__main__":
    main()
