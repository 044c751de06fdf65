#!/usr/bin/env python3
"""The image is built from all folders that CMakeLists.txt adds whatever is asked for: each is copied by the Dockerfile,
and none is held back by .dockerignore. The libraries that CMakeLists.txt needs are installed by quickstart.sh and in the
image that builds, from the packages that its message names."""
import re
import sys

import source

ALWAYS = re.compile(r"^add_subdirectory\((\w+)\)", re.M)  # not indented: under no condition

NEEDED = re.compile(r'^lf_needs\(\w+ ([^\s<>=]+)\S* "?([^")]+)"?\)', re.M)
INSTALL = re.compile(r"apt-get install .*?(?=&&|^\w)", re.M | re.S)


def check_libraries(cmake, dockerfile, quickstart):
    problems = []
    for library, packages in NEEDED.findall(cmake):
        if f"\n{library} {packages}\n" not in quickstart:
            problems.append(f"quickstart.sh: no line \"{library} {packages}\", and CMakeLists.txt needs it")
        installed = INSTALL.search(dockerfile).group().split()
        problems += [f"Dockerfile: {p} is not installed, and the build needs it" for p in packages.split() if p not in installed]
    return problems


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
    cmake = 'lf_needs(A liba>=1.2 a-dev)\nlf_needs(B b "b-dev c-dev")\n'
    docker = "RUN apt-get install -y a-dev \\\n    b-dev{}\nCOPY a a\nRUN apt-get install c-dev\n"
    source.expect("image", check_libraries(cmake, docker.format(""), "\nliba a-dev\nb b-dev\n"),
                  ["quickstart.sh: no line \"b b-dev c-dev\"", "Dockerfile: c-dev"])
    source.expect("image", check_libraries(cmake, docker.format(" c-dev"), "\nliba a-dev\nb b-dev c-dev\n"), [])


def main():
    if "--self-test" in sys.argv:
        return self_test()
    texts = [source.read(name) for name in ("CMakeLists.txt", "Dockerfile", ".dockerignore")]
    if len(ALWAYS.findall(texts[0])) < 5:
        source.finish(["CMakeLists.txt: its folders are not found"])
    if len(NEEDED.findall(texts[0])) < 4:
        source.finish(["CMakeLists.txt: the libraries that it needs are not found"])
    source.finish(check_texts(*texts) + check_libraries(texts[0], texts[1], source.read("quickstart.sh")))


if __name__ == "__main__":
    main()
