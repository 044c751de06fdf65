#!/usr/bin/env python3
"""The table of error codes that docs/api.md is made from (server/http/api/error_codes.c) has the status and code of every
refusal in server/http, and no other."""
import re
import sys

import source

TABLE = "server/http/api/error_codes.c"
ROW = re.compile(r'^ *\{(\d+), "(\w+)",', re.M)
# Functions that are given a code: the argument that is its status (or the status itself), and the one that is the code.
CALLS = {"lf_refuse": ("arg", 1, 3)}
WRAPPERS = {"server/http/api/generation.c": {"fail": ("arg", 1, 2), "fail_as_format": ("is", 400, 1)}, "server/http/api/health.c": {"answer": ("is", 503, 1)}}
IN_TEXT = re.compile(r'\\"code\\":\\"(\w+)\\"')  # an error that is written out


def arguments(text, at):
    """The arguments of the call whose parenthesis is at `at`, as they are written."""
    out, depth, begin, in_string = [], 0, at + 1, False
    i = at
    while i < len(text):
        c = text[i]
        if in_string:
            i += c == "\\"
            in_string = c != '"'
        elif c == '"':
            in_string = True
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return out + [text[begin:i].strip()]
        elif c == "," and depth == 1:
            out.append(text[begin:i].strip())
            begin = i + 1
        i += 1
    return out


def pairs_of_call(kind, status, code, args):
    """The (status, code) that a call may refuse with; None where its code is not written there."""
    codes = re.findall(r'"(\w+)"', args[code]) if len(args) > code else []
    statuses = [status] if kind == "is" else [int(n) for n in re.findall(r"\b\d{3}\b", args[status])]
    if not codes or not statuses:
        return None
    if len(codes) == len(statuses):
        return list(zip(statuses, codes))
    return [(s, c) for s in statuses for c in codes]


def used(path, text):
    """The pairs that a file refuses with, and what is wrong with it."""
    text = source.blank(text, strings=False)
    wrappers = WRAPPERS.get(path, {})
    pairs, problems = set(), []
    for name, (kind, status, code) in {**CALLS, **wrappers}.items():
        for m in re.finditer(rf"(?<![\w.>]){name}\(", text):
            args = arguments(text, m.end() - 1)
            if args[0].startswith("struct "):
                continue  # its declaration
            if name in wrappers and args[code] == "NULL":
                continue  # no error
            found = pairs_of_call(kind, status, code, args)
            where = f"{path}:{text.count(chr(10), 0, m.start()) + 1}"
            if found:
                pairs.update(found)
            elif not (name == "lf_refuse" and wrappers and args[code] == "code"):
                problems.append(f"{where}: {name}() without a status and a code that are written there")
    return pairs, {c for c in IN_TEXT.findall(text)}, problems


def check(files, table):
    rows = [(int(s), c) for s, c in ROW.findall(table)]
    problems = [f"{TABLE}: {r[0]} {r[1]} stands there twice" for r in sorted(set(rows)) if rows.count(r) > 1]
    everywhere = set()
    for path, text in files.items():
        pairs, codes, wrong = used(path, text)
        everywhere |= pairs
        problems += wrong
        problems += [f"{path}: {s} {c} is not in {TABLE}" for s, c in sorted(pairs - set(rows))]
        problems += [f"{path}: {c} is not in {TABLE}" for c in sorted(codes - {c for _, c in rows})]
    problems += [f"{TABLE}: nothing refuses with {s} {c}" for s, c in sorted(set(rows) - everywhere)]
    return problems


def self_test():
    table = '    {400, "a", "x"},\n    {503, "b", "y"},\n    {429, "c",\n     "z"},\n'
    whole = {"x.c": 'r(lf_refuse(err, 400, f(1, "p"), "a", "%s, (", "x"));\n(void)!lf_refuse(&e, full ? 503 : 429, NULL, full ? "b" : "c", "m");'}
    source.expect("codes", check(whole, table), [])
    source.expect("codes", check({}, table), ["with 400 a", "with 503 b", "with 429 c"])
    source.expect("codes", check({**whole, "y.c": 'lf_refuse(err, 401, NULL, "a", "");'}, table), ["y.c: 401 a is not"])
    source.expect("codes", check({**whole, "y.c": 'lf_refuse(err, 400, "a", "d", "");'}, table), ["y.c: 400 d is not"])
    source.expect("codes", check({**whole, "y.c": "\nlf_refuse(err, 400, NULL, code, m);"}, table), ["y.c:2: lf_refuse() without"])
    source.expect("codes", check({**whole, "y.c": "lf_refuse(err, 400, NULL, NULL, m);"}, table), ["y.c:1: lf_refuse() without"])
    source.expect("codes", check({**whole, "y.c": r'"{\"code\":\"e\"}"'}, table), ["y.c: e is not"])
    source.expect("codes", check({**whole, "y.c": '/* lf_refuse(err, 400, NULL, "d", m) */ enum lf_status lf_refuse(struct x *e);'}, table), [])
    source.expect("codes", check(whole, table + '    {400, "a", "x"},\n'), ["400 a stands there twice"])
    path = "server/http/api/health.c"
    source.expect("codes", check({**whole, path: 'answer(x, NULL, NULL); answer(x, ok ? NULL : "f", "m");'}, table), ["503 f is not"])
    path = "server/http/api/generation.c"
    source.expect("codes", check({**whole, path: 'lf_refuse(e, status, NULL, code, m); fail(gen, 500, "f", m);'}, table), ["500 f is not"])


def main():
    if "--self-test" in sys.argv:
        return self_test()
    files = {path: source.read(path) for path in source.files(["server/http"], [".c"]) if path != TABLE}
    if sum(text.count("lf_refuse(") for text in files.values()) < 50:
        source.finish(["server/http: its refusals are not found"])
    source.finish(check(files, source.read(TABLE)))


if __name__ == "__main__":
    main()
