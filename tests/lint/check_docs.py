#!/usr/bin/env python3
"""The documents that the program makes of its own tables are current: each file is what `longflash docs NAME` prints.

    check_docs.py BINARY [--write | --self-test]      --write makes them again
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = {
    "api": "docs/api.md",
    "options": "docs/options.md",
    "man": "share/man/man1/longflash.1",
    "bash": "share/bash-completion/completions/longflash",
    "zsh": "share/zsh/site-functions/_longflash",
    "fish": "share/fish/vendor_completions.d/longflash.fish",
}
# Documents that are written by hand and have a made part: between these two lines.
PARTS = {"metrics": "docs/operations.md"}
BEGIN, END = "<!-- begin: longflash docs {} -->\n", "<!-- end -->\n"


def made(binary, name):
    return subprocess.run([binary, "docs", name], stdout=subprocess.PIPE, check=True, text=True).stdout


def expected(name, text, old):
    """What a file should be, given what was made and what it is now."""
    if name in FILES:
        return text
    begin = BEGIN.format(name)
    if begin not in old:
        return old
    before, rest = old.split(begin, 1)
    if END not in rest:
        return old + "the end mark is missing\n"
    return before + begin + text + END + rest.split(END, 1)[1]


def stale(binary, root, write=False):
    found = []
    for name, path in {**FILES, **PARTS}.items():
        file = root / path
        if name in PARTS and not file.exists():
            continue
        old = file.read_text() if file.exists() else ""
        new = expected(name, made(binary, name), old)
        if new == old:
            continue
        found.append(path)
        if write:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(new)
    return found


def self_test(binary):
    import tempfile
    with tempfile.TemporaryDirectory() as d:
        root = pathlib.Path(d)
        part = root / PARTS["metrics"]
        part.parent.mkdir(parents=True)
        part.write_text("by hand\n" + BEGIN.format("metrics") + "old\n" + END + "behind\n")
        everything = sorted([*FILES.values(), *PARTS.values()])
        assert sorted(stale(binary, root, write=True)) == everything
        assert stale(binary, root) == []
        text = part.read_text()
        assert text.startswith("by hand\n") and text.endswith("behind\n") and "old\n" not in text and "| counter |" in text
        for path in everything:
            before = (root / path).read_text()
            (root / path).write_text(before[:-40] + "x" + before[-40:] if path in FILES.values()
                                     else before.replace("| counter |", "| gauge |", 1))
            assert stale(binary, root) == [path], path
            (root / path).write_text(before)
        assert stale(binary, root) == []


def main():
    binary = sys.argv[1]
    if "--self-test" in sys.argv:
        return self_test(binary)
    write = "--write" in sys.argv
    found = stale(binary, ROOT, write)
    for path in found:
        print(f"{path}: {'made again' if write else 'not current: cmake --build build/release --target docs'}")
    sys.exit(1 if found and not write else 0)


if __name__ == "__main__":
    main()
