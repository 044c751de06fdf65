#!/usr/bin/env python3
"""Proportions: files, headers and functions stay short, and nesting shallow.

A function that is one sequence may be longer if the comment right above it says so with the words "one sequence".
"""
import re
import sys

import source

FILE_WARN, FILE_MOST, HEADER_MOST, FUNCTION_MOST, KERNEL_MOST, NESTING_MOST = 700, 800, 200, 100, 200, 4
FUNCTION = re.compile(r"^[A-Za-z_][^;{}#=]*\)\s*(?:__attribute__\s*\(\(.*?\)\)\s*)*$", re.S)


def functions(text):
    """(name, first line, last line, deepest nesting inside) of each function; text is blanked. Works by braces: a
    definition's brace stands in the first column, as the format has it."""
    lines = text.split("\n")
    start = None
    for i, line in enumerate(lines):
        if line.startswith("{") and start is None:
            head = []
            j = i - 1
            while j >= 0 and lines[j].strip() and not lines[j].startswith(("}", "#")):
                head.insert(0, lines[j])
                j -= 1
            head_text = "\n".join(head)
            if FUNCTION.match(head_text):
                m = re.search(r"(\w+)\s*\(", head_text)
                start, name, first, depth, deepest = i, m.group(1) if m else "?", j + 1, 0, 0
        elif start is not None:
            if line.startswith("}"):
                yield name, first, i, deepest
                start = None
                continue
            if line.lstrip().startswith("#"):
                continue
            for c in line:
                if c == "{":
                    depth += 1
                    deepest = max(deepest, depth)
                elif c == "}":
                    depth -= 1


def is_kernel(path):
    return path.endswith((".cu", ".cuh")) or re.search(r"_(avx2|avx512|avx512_bf16|bf16|amx|kernel)[^/]*\.[ch]$", path)


def check_text(path, text):
    problems, warnings = [], []
    n_lines = text.count("\n") + (not text.endswith("\n"))
    most = HEADER_MOST if path.endswith((".h", ".cuh")) else FILE_MOST
    if is_kernel(path):
        most = FILE_MOST
    if n_lines > most:
        problems.append(f"{path}: {n_lines} lines, expected at most {most}")
    elif n_lines > FILE_WARN:
        warnings.append(f"{path}: {n_lines} lines, expected about {FILE_WARN} at most")
    raw_lines = text.split("\n")
    for name, first, last, deepest in functions(source.blank(text)):
        limit = KERNEL_MOST if is_kernel(path) else FUNCTION_MOST
        above = "\n".join(raw_lines[max(0, first - 12):first + 1])
        comment = above[above.rfind("/*"):] if "/*" in above else ""
        if last - first + 1 > limit and "one sequence" not in comment:
            problems.append(f"{path}:{first + 1}: {name} has {last - first + 1} lines, expected at most {limit}")
        if deepest > NESTING_MOST:
            problems.append(f"{path}:{first + 1}: {name} nests {deepest} deep, expected at most {NESTING_MOST}")
    return problems, warnings


def self_test():
    long_function = "static int long_one(int a)\n{\n" + "    a++;\n" * 100 + "}\n"
    found = check_text("core/a.c", long_function)[0]
    found += check_text("core/b.c", "/* Stays whole: one sequence. */\n" + long_function)[0]
    found += check_text("core/c.c", "int deep(void)\n{\n" + "if (1) {\n" * 5 + "}\n".rjust(4) * 5 + "}\n")[0]
    found += check_text("core/d.c", "int x;\n" * 801)[0]
    found += check_text("core/e.h", "int x;\n" * 201)[0]
    found += check_text("core/f_avx512.c", long_function)[0]
    found += check_text("core/g.c", 'int brace(void)\n{\n    puts("{{{{{{"); /* {{{{{{ */\n}\n')[0]
    source.expect("sizes", found, ["long_one has", "deep nests 5", "d.c: 801", "e.h: 201"])
    if len(check_text("core/h.c", "int x;\n" * 701)[1]) != 1:
        sys.exit("self-test sizes: no warning at 701 lines")


def main():
    if "--self-test" in sys.argv:
        return self_test()
    problems, warnings = [], []
    for path in source.files(source.FOLDERS + ["tests"], [".c", ".h", ".cc", ".cu", ".cuh"]):
        p, w = check_text(path, source.read(path))
        problems += p
        warnings += w
    source.finish(problems, warnings)


if __name__ == "__main__":
    main()
