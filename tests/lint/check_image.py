#!/usr/bin/env python3
"""The image is built from all folders that CMakeLists.txt adds whatever is asked for: each is copied by the Dockerfile,
and none is held back by .dockerignore."""
import re
import sys

import source

ALWAYS = re.compile(r"^add_subdirectory\((\w+)\)", re.M)  # not indented: under no condition


def check_texts(cmake, dockerfile, ignored):
    problems = []
    for folder in ALWAYS.findall(cmake):
        if f"COPY {folder} {folder}\n" not in dockerfile:
            problems.append(f"Dockerfile: {folder}/ is not copied, and the build needs it")
        if f"!{folder}\n" not in ignored:
            problems.append(f".dockerignore: {folder}/ is held back, and the build needs it")
    return problems


def self_test():
    cmake = "add_subdirectory(a)\nadd_subdirectory(b)\nif(X)\n  add_subdirectory(c)\nendif()\n"
    source.expect("image", check_texts(cmake, "COPY a a\n", "*\n!a\n!b\n"), ["b/ is not copied"])
    source.expect("image", check_texts(cmake, "COPY a a\nCOPY b b\n", "*\n!b\n"), ["a/ is held back"])
    source.expect("image", check_texts(cmake, "COPY a a\nCOPY b b\n", "*\n!a\n!b\n"), [])


def main():
    if "--self-test" in sys.argv:
        return self_test()
    texts = [source.read(name) for name in ("CMakeLists.txt", "Dockerfile", ".dockerignore")]
    if len(ALWAYS.findall(texts[0])) < 5:
        source.finish(["CMakeLists.txt: its folders are not found"])
    source.finish(check_texts(*texts))


if __name__ == "__main__":
    main()
