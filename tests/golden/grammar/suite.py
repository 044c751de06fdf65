#!/usr/bin/env python3
"""The JSON-Schema-Test-Suite against the grammar library, both ways: a valid instance must be reachable in some order of its
members, an invalid one in none. Opt-in: the suite comes in the source distribution of jsonschema on PyPI.

    pip download --no-binary :all: --no-deps jsonschema && tar xf jsonschema-*.tar.gz
    suite.py build/release/tests/golden/grammar/grammar_check jsonschema-*/json/tests/draft2020-12

With --answers N also draws N answers at random, over all schemas that are compiled and those of schemas.json, and asks jsonschema
(with the extra format-nongpl) about each.
Ends with 1 where one case is wrong."""
import argparse
import collections
import itertools
import json
import os
import subprocess
import sys

# What the suite calls valid and is out of reach by design: file, words of the case's description, why.
BY_DESIGN = [
    ("format.json", "is only an annotation by default", "a format that is compiled is enforced"),
    ("date-time.json", "leap second", "readers disagree about them"),
    ("time.json", "leap second", "readers disagree about them"),
    ("date-time.json", "case-insensitive", "one spelling is enough"),
    ("time.json", "case-insensitive", "one spelling is enough"),
    ("email.json", "quoted string", "no quoted local parts"),
    ("email.json", "address-literal", "no addresses as literals"),
]


class Checker:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, letter, text):
        self.process.stdin.write(f"{letter} {text}\n".encode("utf-8"))
        self.process.stdin.flush()
        return self.process.stdout.readline().decode("utf-8", "replace").rstrip("\n")


def dumps(x):
    return json.dumps(x, ensure_ascii=False, separators=(",", ":"))


def spellings(x):
    """Compact texts of the value: every order of members, a float that is an integer as one."""
    if isinstance(x, float) and x == int(x):
        yield str(int(x))
    elif isinstance(x, list):
        for parts in itertools.product(*[list(spellings(e)) for e in x]):
            yield "[" + ",".join(parts) + "]"
    elif isinstance(x, dict):
        for names in itertools.permutations(x):
            for parts in itertools.product(*[list(spellings(x[n])) for n in names]):
                yield "{" + ",".join(f"{dumps(n)}:{p}" for n, p in zip(names, parts)) + "}"
    else:
        yield dumps(x)


def reachable(checker, instance):
    return any(checker.ask("T", text) == "1" for text in itertools.islice(spellings(instance), 2000))


def files_of(folder):
    for where, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith(".json"):
                yield os.path.join(where, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--answers", type=int, default=0)
    parser.add_argument("--refused", action="store_true", help="list the reasons, most frequent first")
    args = parser.parse_args()
    checker, wrong, refused, compiled = Checker(args.program), [], collections.Counter(), []
    n_groups = n_valid = n_invalid = n_by_design = 0
    for path in files_of(args.folder):
        for group in json.load(open(path, encoding="utf-8")):
            n_groups += 1
            answer = checker.ask("S", dumps(group["schema"]))
            unsatisfiable = "nothing can match" in answer
            if answer != "ok" and not unsatisfiable:
                refused[answer.split(" ", 2)[2].split("\": ", 1)[-1][:70]] += 1
                continue
            if not unsatisfiable and "ecmascript" not in path:  # whose patterns Python's re reads as others
                compiled.append(group["schema"])
            for case in group["tests"]:
                n_valid += case["valid"]
                n_invalid += not case["valid"]
                got = not unsatisfiable and reachable(checker, case["data"])
                name = os.path.basename(path)
                if case["valid"] and not got and any(f == name and words in case["description"] for f, words, _ in BY_DESIGN):
                    n_by_design += 1
                elif got != case["valid"]:
                    wrong.append(f"{name}: {group['description']}: {case['description']}: "
                                 f"{dumps(group['schema'])[:200]} {dumps(case['data'])[:80]} reachable {got}")
    print(f"{n_groups} schemas: {n_groups - sum(refused.values())} compiled or without values, {sum(refused.values())} refused; "
          f"{n_valid} valid and {n_invalid} invalid instances, "
          f"{n_by_design} out of reach by design, {len(wrong)} wrong")
    if args.refused:
        for reason, n in refused.most_common():
            print(f"{n:5d}  {reason}")
    for line in wrong:
        print("wrong:", line)
    if args.answers:
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "schemas.json"), encoding="utf-8") as f:
            for schema in json.load(f):
                answer = checker.ask("S", dumps(schema))
                if answer != "ok":
                    wrong.append(f"{dumps(schema)[:200]} {answer}")
                compiled.append(schema)
        wrong += check_answers(checker, compiled, args.answers)
    sys.exit(1 if wrong else 0)


def check_answers(checker, schemas, n):
    import jsonschema
    wrong, n_cut = [], 0
    for i in range(n):
        schema = schemas[i % len(schemas)]
        checker.ask("S", dumps(schema))
        text = checker.ask("G", i)
        if text == "cut":
            n_cut += 1
            continue
        try:
            validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
            problems = [e.message[:100] for e in validator.iter_errors(json.loads(text))]
        except ValueError as e:
            problems = [str(e)]
        if problems:
            wrong.append(f"{dumps(schema)[:200]} {text[:100]}: {problems[0]}")
    print(f"{n} answers under {len(schemas)} schemas: {len(wrong)} do not validate, {n_cut} did not end")
    for line in wrong[:20]:
        print("wrong:", line)
    return wrong


if __name__ == "__main__":
    main()
