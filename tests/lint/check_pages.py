#!/usr/bin/env python3
"""Documents: README.md is short, a folder's README is its rules, ARCHITECTURE.md ends with a glossary, and links lead
somewhere; so do the source files that the documents of the root name."""
import os
import re
import sys

import source

README_MOST, FOLDER_MOST, GLOSSARY_MOST = 150, 99, 40

FENCE = re.compile(r"^```.*?^```", re.S | re.M)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:    [^\n]*\n)+")
CODE_SPAN = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SOURCE_PATH = re.compile(r"`([\w.-]+/[\w./-]+\.(?:c|h|cu|cuh|py|sh|md|txt))`")
HEADING = re.compile(r"^(#+) +(.*?) *$", re.M)


def is_folder_readme(path):
    return path.endswith("/README.md") and not path.startswith("docs/")


def n_lines(text):
    return text.count("\n") + (not text.endswith("\n"))


def without_code(text):
    """Code is blanked, so that lines keep their numbers."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return CODE_SPAN.sub(blank, INDENTED.sub(blank, FENCE.sub(blank, text)))


def anchors(text):
    """Of headings, as GitHub makes them: lower case, no punctuation, dashes for blanks, a number from the second on."""
    seen, out = {}, set()
    for _, title in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        out.add(slug if slug not in seen else f"{slug}-{seen[slug]}")
        seen[slug] = seen.get(slug, 0) + 1
    return out


def check_links(path, text, read):
    """read gives the text of a file (None: there is none), "" for what is no document."""
    shown = without_code(text)
    for m in LINK.finditer(shown):
        target, _, anchor = m.group(1).partition("#")
        where = f"{path}:{shown.count(chr(10), 0, m.start()) + 1}"
        if re.match(r"[a-z]+:", target):
            continue
        name = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        there = text if name == path else read(name)
        if there is None:
            yield f"{where}: the link to {m.group(1)} leads nowhere"
        elif anchor and anchor not in anchors(there):
            yield f"{where}: {name} has no heading #{anchor}"


def check_paths(path, text, read):
    """From the root, or from one of its folders where a table's rows have the folder in front."""
    for m in SOURCE_PATH.finditer(text):
        if not any(read(prefix + m.group(1)) is not None for prefix in ("", "tests/", "server/", "device/", "attention/")):
            yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: there is no {m.group(1)}"


def check_length(path, text):
    most = README_MOST if path == "README.md" else FOLDER_MOST if is_folder_readme(path) else None
    if most and n_lines(text) > most:
        yield f"{path}: {n_lines(text)} lines, expected at most {most}; figures and histories of them belong into docs/"


def check_glossary(path, text):
    at = text.rfind("\n## ")
    if not text.startswith("\n## Glossary\n", at):
        yield f"{path}: expected to end with ## Glossary"
    elif n_lines(text[at + 1:].rstrip("\n")) - 1 > GLOSSARY_MOST:
        yield f"{path}: the glossary has {n_lines(text[at + 1:].rstrip(chr(10))) - 1} lines, expected at most {GLOSSARY_MOST}"


def check_text(path, text, read):
    problems = list(check_length(path, text)) + list(check_links(path, text, read))
    if "/" not in path and path != "CHANGELOG.md":  # which is history
        problems += check_paths(path, text, read)
    if path == "ARCHITECTURE.md":
        problems += check_glossary(path, text)
    return problems


def self_test():
    def read(name):
        return {"a.md": "# One thing\n## One thing\n", "core": "", "core/a.h": ""}.get(name)

    lines = "word\n"
    found = check_text("README.md", lines * (README_MOST + 1), read) + check_text("README.md", lines * README_MOST, read)
    found += check_text("core/README.md", lines * (FOLDER_MOST + 1), read) + check_text("core/README.md", lines * FOLDER_MOST, read)
    found += check_text("docs/x/README.md", lines * 300, read)
    found += check_text("b.md", "[x](a.md) [x](a.md#one-thing-1) [x](core) [x](https://x.y/z)\n[x](no.md)\n", read)
    found += check_text("c.md", "[x](a.md#other)\n\n    [x](no.md)\n\n`[x](no.md)`\n```\n[x](no.md)\n```\n", read)
    found += check_text("docs/d.md", "# Here\n[x](#here) [x](../a.md#one-thing)\n![x](no.svg)\n", read)
    found += check_text("e.md", "`core/a.h` `core/gone.c` `a/b` `lf_x.c`\n", read) + check_text("docs/e.md", "`core/gone.c`\n", read)
    glossary = "# A\n\n## Glossary\n"
    found += check_text("ARCHITECTURE.md", glossary + lines * (GLOSSARY_MOST + 1), read)
    found += check_text("ARCHITECTURE.md", glossary + lines * GLOSSARY_MOST, read)
    found += check_text("ARCHITECTURE.md", glossary + "\n## Behind it\n", read)
    source.expect("pages", found, ["README.md: 151", "core/README.md: 100", "b.md:2: the link to no.md", "no heading #other",
                                   "docs/d.md:3: the link to no.svg", "e.md:1: there is no core/gone.c", "glossary has 41", "expected to end with"])


def read_target(name):
    path = os.path.join(source.ROOT, name)
    if not os.path.exists(path):
        return None
    return source.read(name) if name.endswith(".md") else ""


def main():
    if "--self-test" in sys.argv:
        return self_test()
    problems = []
    for path in source.files(["."], [".md"]):
        path = os.path.normpath(path)
        problems += check_text(path, source.read(path), read_target)
    source.finish(problems)


if __name__ == "__main__":
    main()
