#!/usr/bin/env python3
"""No cycle of calls between the files of a library: of two files at most one calls the other, through others too.

Read from what the compiler made of them: which functions an object defines (nm), and which of another object's its code
names (the relocations of its .text sections, objdump). A table of functions is data, so a call through a declared one
does not count: that is how a route reaches its handler, and a dialect its printers.

    check_cycles.py build/release/core/liblf_core.a …         archives; other arguments are objects of one library more
    check_cycles.py --self-test cc"""
import os
import re
import subprocess
import sys
import tempfile

import source

# Cycles that there are, by archive: the list only gets shorter. A file that is in no cycle of its entry any more must
# be taken out, an entry of one file goes altogether.
KNOWN = [
    # recursive descent: an expression calls what is written in it
    ("template", "jinja_parse jinja_parse_expr"),
    # evaluation: values, filters and tests evaluate expressions, and expressions apply them
    ("template", "jinja_attr jinja_call jinja_eval jinja_filter_list jinja_filter_number jinja_filter_pick "
                  "jinja_filter_text jinja_format jinja_global jinja_iter jinja_method jinja_ops jinja_print jinja_run "
                  "jinja_sort jinja_str jinja_test jinja_text jinja_value"),
]
OBJECT = re.compile(r"\.(c|cc|cu)\.o$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def file_of(path):
    """Of an object, or of an archive's member as nm names it."""
    return OBJECT.sub("", os.path.basename(path.rpartition(":")[2]))


def defined_functions(paths):
    """{function: file}"""
    out = {}
    for line in run("nm", "-A", "--defined-only", "-g", *paths).splitlines():
        where, _, symbol = line.rpartition(":")
        kind, name = symbol.split()[-2:]
        if kind in "TW":
            out.setdefault(name, file_of(where))
    return out


def calls(paths):
    """{file: {file: functions}}: what the code of a file names of another's functions."""
    defined, out, file, code = defined_functions(paths), {}, None, False
    for line in run("objdump", "-r", *paths).splitlines():
        words = line.split()
        if "file format" in line:
            file = file_of(words[0].rstrip(":"))
            if file in out:
                raise SystemExit(f"two objects are called {file}: calls cannot be told apart")
            out[file], code = {}, False
        elif line.startswith("RELOCATION RECORDS FOR"):
            code = words[-1].startswith("[.text")
        elif code and len(words) == 3:
            name = re.sub(r"[-+]0x[0-9a-f]+$", "", words[2])
            callee = defined.get(name, file)
            if callee != file:
                out[file].setdefault(callee, set()).add(name)
    return out


def reachable(graph, first):
    seen, todo = set(), [first]
    while todo:
        for callee in graph.get(todo.pop(), ()):
            if callee not in seen:
                seen.add(callee)
                todo.append(callee)
    return seen


def cycles(graph):
    """Sets of files that all reach one another."""
    reach = {file: reachable(graph, file) for file in graph}
    found = []
    for file in sorted(graph):
        cycle = {other for other in reach[file] if file in reach.get(other, ())}
        if len(cycle) > 1 and cycle not in found:
            found.append(cycle)
    return found


def check(name, graph, known):
    """Problems of one library. known: its entries, as sets of files."""
    problems, found = [], cycles(graph)
    for cycle in found:
        if any(cycle <= entry for entry in known):
            continue
        problems.append(f"{name}: {' '.join(sorted(cycle))} call one another:")
        for file in sorted(cycle):
            for callee in sorted(cycle & set(graph[file])):
                problems.append(f"{name}:     {file} calls {callee}: {' '.join(sorted(graph[file][callee]))}")
    for entry in known:
        gone = entry - set().union(*(cycle for cycle in found if cycle <= entry))
        if gone:
            problems.append(f"{name}: in no cycle any more, take them out of KNOWN: {' '.join(sorted(gone))}")
    return problems


def self_test(compiler):
    """Files a and b call each other, c calls what is in its table, which is a's and d's, and d calls c."""
    texts = {
        "a": "int b(void); int a(void); int a(void) { return b() + 1; }",
        "b": "int a(void); int b(void); int b(void) { return a() + 1; }",
        "c": "int d(void); int a(void); int (*const table[])(void) = {a, d}; int c(int i); int c(int i) { return table[i](); }",
        "d": "int c(int i); int d(void); int d(void) { return c(0) + 1; }",
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, text in texts.items():
            with open(os.path.join(folder, name + ".c"), "w", encoding="utf-8") as f:
                f.write(text)
            paths.append(os.path.join(folder, name + ".c.o"))
            run(compiler, "-O2", "-fPIC", "-c", os.path.join(folder, name + ".c"), "-o", paths[-1])
        graph = calls(paths)
    source.expect("cycles", check("x", graph, []), ["a b call one another", "a calls b: b", "b calls a: a"])
    source.expect("cycles", check("x", graph, [{"a", "b"}]), [])
    source.expect("cycles", check("x", graph, [{"a", "b", "c"}, {"d"}]), ["KNOWN: c", "KNOWN: d"])
    ring = {"a": {"b": {"f"}}, "b": {"c": {"g"}}, "c": {"a": {"h"}}, "e": {"a": {"f"}}}
    source.expect("cycles", check("y", ring, [{"a", "b"}]), ["a b c call one another", "a calls b", "b calls c",
                                                             "c calls a", "KNOWN: a b"])


def main():
    if sys.argv[1] == "--self-test":
        return self_test(sys.argv[2])
    archives = [path for path in sys.argv[1:] if path.endswith(".a")]
    groups = [(re.sub(r"^liblf_|\.a$", "", os.path.basename(path)), [path]) for path in archives]
    groups.append(("program", [path for path in sys.argv[1:] if path not in archives]))
    known = [(name, set(files.split())) for name, files in KNOWN]
    problems = [f"KNOWN names the library {name}, which there is not" for name, _ in known
                if name not in dict(groups)]
    for name, paths in groups:
        problems += check(name, calls(paths), [files for of, files in known if of == name])
    source.finish(problems)


if __name__ == "__main__":
    main()
