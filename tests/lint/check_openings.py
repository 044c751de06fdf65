#!/usr/bin/env python3
"""Each source file opens with a comment that says what it is for. A .c file may leave that to the header of its name,
and a unit test to its own name: it says which file it is about."""
import os
import re
import sys

import source

ENDINGS = [".c", ".h", ".cc", ".cu", ".cuh", ".py"]
LEAST_CHARS = 20  # of the comment: fewer say nothing
OPENING = {".py": re.compile(r'(?:#![^\n]*\n)?"""(.+?)"""', re.S), "": re.compile(r"/\*(.+?)\*/", re.S)}


def says_what_it_is_for(path, text):
    m = OPENING.get(os.path.splitext(path)[1], OPENING[""]).match(text)
    return bool(m) and len(m.group(1).strip()) >= LEAST_CHARS


def check_text(path, text, read):
    """read gives the text of a file, None where there is none."""
    name, ending = os.path.splitext(path)
    if says_what_it_is_for(path, text):
        return []
    if ending in (".c", ".cc"):
        header = read(name + ".h")
        if header and says_what_it_is_for(name + ".h", header):
            return []
        if path.startswith("tests/unit/") and os.path.basename(path).startswith("test_"):
            return []
    return [f"{path}:1: expected a comment that says what the file is for"]


def self_test():
    opening, short = "/* What is here, and why. */\n", "/* Here. */\n"

    def read(name):
        return {"core/b.h": opening, "core/c.h": short}.get(name)

    found = check_text("core/a.c", "#include <math.h>\n", read) + check_text("core/a.c", opening, read)
    found += check_text("core/b.c", "#include <math.h>\n", read) + check_text("core/c.c", "int x;\n", read)
    found += check_text("core/d.h", short, read) + check_text("core/e.cuh", opening, read)
    found += check_text("tests/unit/core/test_f.c", "int x;\n", read) + check_text("tests/unit/core/rig.c", "int x;\n", read)
    found += check_text("tests/g.py", '#!/usr/bin/env python3\n"""What it checks, and how."""\n', read)
    found += check_text("tests/h.py", "import sys\n", read)
    source.expect("openings", found, ["core/a.c", "core/c.c", "core/d.h", "core/rig.c", "tests/h.py"])


def read_if_there(path):
    return source.read(path) if os.path.exists(os.path.join(source.ROOT, path)) else None


def main():
    if "--self-test" in sys.argv:
        return self_test()
    problems = []
    for path in source.files(source.FOLDERS + ["tests", "demo", "examples"], ENDINGS):
        problems += check_text(path, source.read(path), read_if_there)
    source.finish(problems)


if __name__ == "__main__":
    main()
