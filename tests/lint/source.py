"""What the lint rules share: which files there are, and C text without its comments and strings."""
import os
import re
import sys

FOLDERS = ["core", "device", "tokenizer", "template", "grammar", "kv", "attention", "model", "server"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(folders, endings):
    """Paths below the folders, relative to the root, with one of the endings; sorted."""
    out = []
    for folder in folders:
        for where, dirs, names in os.walk(os.path.join(ROOT, folder)):
            dirs[:] = sorted(d for d in dirs if d not in ("__pycache__", "build", ".git"))
            out += [os.path.relpath(os.path.join(where, n), ROOT) for n in sorted(names) if n.endswith(tuple(endings))]
    return out


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def blank(text, strings=True):
    """The text with comments (and the insides of strings) blanked, so that lines and columns stay."""
    def hide(m):
        s = m.group(0)
        if s[0] in "\"'":
            if not strings:
                return s
            return s[0] + "".join(c if c == "\n" else " " for c in s[1:-1]) + s[-1]
        return "".join(c if c == "\n" else " " for c in s)
    return TOKEN.sub(hide, text)


def finish(problems, warnings=()):
    for line in warnings:
        print("warning:", line)
    for line in problems:
        print("error:", line)
    print(f"{len(problems)} problems, {len(warnings)} warnings")
    sys.exit(1 if problems else 0)


def expect(name, found, wanted):
    """For self-tests: found must contain a message with each of the wanted words, and nothing beside them."""
    missing = [w for w in wanted if not any(w in line for line in found)]
    if missing or len(found) != len(wanted):
        print(f"self-test {name}: wanted {wanted}, found {found}")
        sys.exit(1)
