#!/usr/bin/env python3
"""Plants one fault at a time in the server's C source, and asks the tests whether they notice. A fault that no test
notices is a test that is missing.

    tests/mutate/mutate.py --faults 200                    goes on where the last run of these results stopped
    tests/mutate/mutate.py --faults 20 --groups kv,engine  parsers, grammar, kv, engine, http; or --files 'core/json*.c'
    tests/mutate/mutate.py --again survived                the survivors once more, after tests were added
    tests/mutate/mutate.py --faults 200 --lanes unit,fuzz  quick tests first; then --again survived asks the others
    tests/mutate/mutate.py --plant core/str.c:99:'0xC2':'0xC0'   one fault, chosen by hand
    tests/mutate/mutate.py --table                         what is known so far
    tests/mutate/mutate.py --self-test

It needs a finished build with tests (--build, default build/release), works in build/mutate (a copy of the tree and of
the build; the source tree is only read), and writes build/mutate/results.jsonl, a line a fault, as it goes.

A fault is one of: killed (a test failed or hung), survived, not compiled, or same (the compiler made the same code of
it). Faults that change nothing anybody could see are listed with the reason in equivalent.json and count as neither.
Tests go from near to far: those named after the file, those of its folder, then unit tests, replayed fuzz inputs and the
simulator; the whole program and what compares its numbers only with --far. Of those that are equally near the one that
has killed most in this file for its time is first. One that fails must pass without the fault. What fails over sockets
must fail twice, and it and what hangs must then pass without the fault at once, the latter in half of the time."""
import argparse
import collections
import fnmatch
import json
import os
import random
import sys
import time

import bench
import faults

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GROUPS = {
    "parsers": ["core/json*.c", "core/str.c", "model/safetensors.c", "model/hparams.c", "tokenizer/*.c", "template/*.c"],
    "grammar": ["grammar/*.c"],
    "kv": ["kv/*.c"],
    "engine": ["server/engine/*.c"],
    "http": ["server/http/**.c", "server/http/*.c"],
}
LEFT_OUT = ["tokenizer/unicode_tables.c"]


def files_of(patterns):
    names = sorted(os.path.relpath(os.path.join(where, n), ROOT) for top in ("core", "grammar", "kv", "model", "template", "tokenizer", "server")
                   for where, _, files in os.walk(os.path.join(ROOT, top)) for n in files)
    return [n for n in names if n not in LEFT_OUT and any(fnmatch.fnmatch(n, p) for p in patterns)]


def read_text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def in_random_order(groups, seed):
    """Faults without end of repetition: a group in turn, of it a line by chance, of that a fault by chance."""
    rng = random.Random(seed)
    lines = {}
    for name, patterns in groups.items():
        by_line = collections.defaultdict(list)
        for path in files_of(patterns):
            for f in faults.of_text(path, read_text(path)):
                by_line[path, f.line].append(f)
        lines[name] = [by_line[k] for k in sorted(by_line)]
        rng.shuffle(lines[name])
    while any(lines.values()):
        for name in groups:
            if lines[name]:
                yield rng.choice(lines[name].pop())


class Results:
    """One line a fault; the last line about a fault is the one that counts."""

    def __init__(self, path):
        self.path, self.rows, self.first = path, {}, {}
        if os.path.exists(path):
            for line in open(path, encoding="utf-8"):
                self.keep(json.loads(line))

    def keep(self, row):
        self.rows[row["id"]] = row
        self.first.setdefault(row["id"], row)

    def add(self, row):
        self.keep(row)
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(row) + "\n")


class Judge:
    def __init__(self, where, build, longest_s=30, far=False, rows=(), lanes=("",)):
        self.longest_s, self.far, self.lanes = longest_s, far, tuple(lanes)
        self.n_kills = collections.Counter((r["path"], r["by"].split(" ")[0]) for r in rows if r["state"] == "killed")
        self.bench = bench.Bench(ROOT, build, where)
        self.times_path = os.path.join(where, "took.json")
        self.times = {}     # of a test without a fault; None: fails even then
        if os.path.exists(self.times_path):
            with open(self.times_path, encoding="utf-8") as f:
                self.times = {name: bench.Took(*t) for name, t in json.load(f).items() if t}
        self.passed = set()  # tests that have passed in this run
        self.inside = {}  # programs: the code of the file in hand that they hold; not in it: no fault
        self.plain = {}   # objects without debug information, by source

    def relink(self, programs, code):
        """So that they hold this code of the file in hand; None: no fault, whatever the file."""
        for p in programs:
            if self.inside.get(p) == code:
                continue
            self.bench.link(p)
            if code is None:
                self.inside.pop(p, None)
            else:
                self.inside[p] = code

    def time_alone(self, test):
        """What the test takes without a fault; None where it fails or takes too long."""
        self.relink(test.programs, None)
        result, took = self.bench.run(test, self.longest())
        self.times[test.name] = took if result == "passed" else None
        if result == "passed":
            self.passed.add(test.name)
        else:
            print(f"  {test.name} {result} without a fault after {took.wall:.0f} s: not asked", file=sys.stderr)
        return self.times[test.name]

    def longest(self):
        """On the clock longer than on the processor: others use it too, and some tests wait."""
        return bench.Took(self.longest_s, 6 * self.longest_s)

    def notices(self, test, code):
        """How the test ended if it noticed, and what it may have taken."""
        self.relink(test.programs, code)
        alone = self.times.get(test.name)
        for _ in range(2 if test.name.startswith("e2e/") else 1):
            most = self.longest() if alone is None else bench.Took(2 + 3 * alone.cpu, 10 + 4 * alone.wall)
            result, took = self.bench.run(test, most)
            if result == "passed":
                self.times.setdefault(test.name, took)
                self.passed.add(test.name)
                return None, most
        return result, most

    def is_sure(self, test, result, most):
        """Whether it would not have ended so without the fault."""
        if test.name in self.passed and result == "failed" and not test.name.startswith("e2e/"):
            return True
        alone = self.time_alone(test)
        return alone is not None and (result == "failed" or 2 * alone.wall < most.wall)

    def plain_object(self, path):
        if path not in self.plain:
            out, _ = self.bench.object_of(path)
            if not self.bench.compile(path, out):
                raise RuntimeError(f"{path} does not compile without a fault")
            with open(out, "rb") as f:
                self.plain[path] = f.read()
        return self.plain[path]

    def asked(self, path):
        """The tests to ask about a file, near, short and successful ones first."""
        found = []
        for distance, t in self.bench.reaching(path):
            took = self.times.get(t.name, bench.Took(1, 1))
            if took is None or took.cpu > self.longest_s or not t.name.startswith(self.lanes):
                continue
            if self.far or distance < bench.FAR:
                found.append((distance, (0.05 + took.wall) / (1 + self.n_kills[path, t.name]), t))
        return [t for _, _, t in sorted(found, key=lambda x: x[:2])]

    def put(self, path, text, out, code):
        with open(os.path.join(self.bench.tree, path), "w", encoding="utf-8") as f:
            f.write(text)
        with open(out, "wb") as f:
            f.write(code)
        self.bench.archive(path)

    def judge(self, fault):
        """(state, by which test). A test that fails is then run without the fault, unless it has been before: one that
        fails by itself says nothing, is not asked again, and the next one decides."""
        b, path = self.bench, fault.path
        plain, text = self.plain_object(path), read_text(path)
        out, _ = b.object_of(path)
        faulty = text[:fault.begin] + fault.new + text[fault.end:]
        tests = self.asked(path)
        try:
            with open(os.path.join(b.tree, path), "w", encoding="utf-8") as f:
                f.write(faulty)
            if not b.compile(path, out):
                return "not compiled", ""
            with open(out, "rb") as f:
                code = f.read()
            if code == plain:
                return "same", ""
            for test in tests:
                self.put(path, faulty, out, code)
                result, most = self.notices(test, fault.id)
                if not result:
                    continue
                self.put(path, text, out, plain)
                if self.is_sure(test, result, most):
                    self.n_kills[path, test.name] += 1
                    return "killed", f"{test.name} {result}"
            return "survived", f"{len(tests)} tests"
        finally:
            self.put(path, text, out, plain)
            with open(self.times_path, "w", encoding="utf-8") as f:
                json.dump(self.times, f)


def equivalent():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "equivalent.json"), encoding="utf-8") as f:
        return json.load(f)


def group_of(path):
    return next((g for g, patterns in GROUPS.items() if any(fnmatch.fnmatch(path, p) for p in patterns)), "other")


def share_of(rows):
    """(judged, killed, in percent) of those that somebody could see."""
    known = equivalent()
    judged = [r for r in rows if r["state"] == "killed" or r["state"] == "survived" and r["id"] not in known]
    n_killed = sum(r["state"] == "killed" for r in judged)
    return len(judged), n_killed, 100 * n_killed / len(judged) if judged else 0


def table(rows, first):
    """Prints what is known of these rows, and of the first time they were judged; the share that was killed."""
    known = equivalent()
    counts = collections.defaultdict(collections.Counter)
    for r in rows:
        state = "equivalent" if r["state"] == "survived" and r["id"] in known else r["state"]
        counts[group_of(r["path"])][state] += 1
        counts["all"][state] += 1
    states = ["killed", "survived", "equivalent", "same", "not compiled"]
    print(f"\n{'':10}" + "".join(f"{s:>13}" for s in ["faults", *states, "killed first"]))
    for group in [g for g in [*GROUPS, "other", "all"] if g in counts]:
        c = counts[group]
        n_first = sum(first[r["id"]]["state"] == "killed" for r in rows if group in ("all", group_of(r["path"])))
        print(f"{group:10}{sum(c.values()):13}" + "".join(f"{c[s]:13}" for s in states) + f"{n_first:13}")
    for r in rows:
        if r["state"] == "survived" and r["id"] not in known:
            print(f"survived: {r['path']}:{r['line']}: {r['old']!r} -> {r['new']!r} ({r['kind']}; {r['by']}; id {r['id']})")
    judged, n_killed, share = share_of(rows)
    print(f"mutate: {judged} faults judged, {n_killed} killed ({share:.1f}%), {judged - n_killed} survived; "
          "the first time {1} of {0} ({2:.1f}%)".format(*share_of([first[r["id"]] for r in rows])))
    return judged, share


def by_hand(text):
    """path:line:'old':'new'"""
    path, line, old, new = text.split(":", 3)
    old, new = old.strip("'"), new.strip("'")
    whole = read_text(path)
    begin = sum(len(x) for x in whole.splitlines(keepends=True)[:int(line) - 1])
    at = whole.find(old, begin)
    if at < 0 or whole.count("\n", 0, at) + 1 != int(line):
        sys.exit(f"{path}:{line}: no {old!r} there")
    return faults.Fault(f"hand-{path}:{line}:{old}:{new}", path, int(line), at, at + len(old), old, new, "by hand")


def self_test(where, build):
    """That a fault is found which a test is known to find, that one without effect is told, and what is not planted in."""
    code = ("int f(int a)\n{\n    LF_ASSERT(a < 3);\n    /* a < 4 */\n    LF_INFO(\"a < 5\",\n            a < 6);\n"
            "    return a < 7 ? 0 : a;\n}\n")
    planted = {(f.line, f.old) for f in faults.of_text("x.c", code)}
    assert planted == {(7, "<"), (7, "7"), (7, "0")}, planted
    kinds = {f.kind for p in files_of(GROUPS["kv"]) for f in faults.of_text(p, read_text(p))}
    assert len(kinds) >= 6, kinds
    again = [[f.id for f, _ in zip(in_random_order({"kv": GROUPS["kv"]}, 7), range(20))] for _ in range(2)]
    assert again[0] == again[1] and len(set(again[0])) == 20
    judge = Judge(where, build)
    text = read_text("core/str.c")
    found = {f.old + "->" + f.new: f for f in faults.of_text("core/str.c", text)}
    state, by = judge.judge(found["true->false"])
    assert state == "killed" and by.startswith("unit/core/str "), (state, by)
    at = text.index("return s.len >= prefix.len")
    same = faults.Fault("same", "core/str.c", 8, at, at + 6, "return", "return 0 +", "by hand")
    assert judge.judge(same)[0] == "same"
    broken = same._replace(new="return (")
    assert judge.judge(broken)[0] == "not compiled"
    json_test = next(t for t in judge.bench.tests if t.name == "unit/core/json")
    assert judge.bench.run(json_test, bench.Took(60, 300))[0] == "passed"
    assert judge.bench.run(json_test, bench.Took(60, 0))[0] == "hung"
    assert open(os.path.join(judge.bench.tree, "core/str.c"), encoding="utf-8").read() == text
    print("mutate: self-test passed")


def wanted(args, results):
    """The faults to judge in this run."""
    if args.plant:
        return [by_hand(p) for p in args.plant]
    groups = {g: GROUPS[g] for g in args.groups.split(",")}
    if args.files:
        groups = {"files": args.files.split(",")}
    if args.again:
        ids = {r["id"] for r in results.rows.values() if r["state"] == args.again} - set(equivalent())
        paths = sorted({r["path"] for r in results.rows.values()} & set(files_of([p for g in GROUPS.values() for p in g])))
        return [f for p in paths for f in faults.of_text(p, read_text(p)) if f.id in ids]
    out, n_judged = [], 0
    for f in in_random_order(groups, args.seed):
        row = results.rows.get(f.id)
        if row is None:
            out.append(f)
        elif row["state"] in ("killed", "survived"):
            n_judged += 1
        if len(out) >= args.faults * 2:  # some will not compile or change nothing
            break
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--faults", type=int, default=20, help="how many to judge in this run")
    p.add_argument("--groups", default=",".join(GROUPS))
    p.add_argument("--files", help="instead of groups: patterns of files")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--build", default="build/release")
    p.add_argument("--where", default=os.path.join(ROOT, "build/mutate"))
    p.add_argument("--minutes", type=float, default=1e9, help="no further fault after this")
    p.add_argument("--longest", type=float, default=30,
                   help="a test that takes longer, in seconds of the processor, is not asked")
    p.add_argument("--lanes", default="", help="only tests whose names begin so: unit,fuzz is quick")
    p.add_argument("--far", action="store_true", help="also ask tests of the whole program about any file")
    p.add_argument("--require", type=float, default=0, help="exit status 1 below this share of killed, in percent")
    p.add_argument("--again", choices=["survived"])
    p.add_argument("--plant", action="append")
    p.add_argument("--table", action="store_true")
    p.add_argument("--self-test", action="store_true")
    args = p.parse_args()
    args.where = os.path.abspath(args.where)
    os.makedirs(args.where, exist_ok=True)
    results = Results(os.path.join(args.where, "results.jsonl"))
    if args.self_test:
        return self_test(args.where, args.build)
    if args.table:
        table(list(results.rows.values()), results.first)
        return None
    end, n_judged, rows, known = time.monotonic() + args.minutes * 60, 0, [], equivalent()
    judge = Judge(args.where, args.build, args.longest, args.far, results.rows.values(), args.lanes.split(","))
    for fault in wanted(args, results):
        if time.monotonic() > end or (n_judged >= args.faults and not args.again):
            break
        began = time.monotonic()
        state, by = ("survived", "listed as equivalent") if fault.id in known else judge.judge(fault)
        row = {**fault._asdict(), "state": state, "by": by, "seconds": round(time.monotonic() - began, 1)}
        results.add(row)
        rows.append(row)
        n_judged += state in ("killed", "survived") and fault.id not in known
        print(f"{state:12} {fault.path}:{fault.line}: {fault.old!r} -> {fault.new!r} {by} {row['seconds']} s", flush=True)
    judged, share = table(rows, results.first)
    return 1 if args.require and (share < args.require or judged < min(args.faults, 5)) else 0


if __name__ == "__main__":
    sys.exit(main())
