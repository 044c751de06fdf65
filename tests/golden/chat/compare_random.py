#!/usr/bin/env python3
"""Renders random templates with Jinja2 and with the project's interpreter and compares (opt-in; needs jinja2).

    compare_random.py build/release/tests/golden/chat/chat_driver [--n 10000] [--seed 1]

Two results are equal when both give the same text or both fail. Templates that the interpreter refuses as not
implemented, and texts that hold an address of Python's, are counted apart."""
import argparse
import json
import random
import re
import subprocess

from hf_jinja import NOW_UNIX, render
from make_cases import VARIABLES

STRINGS = ["'a'", "''", "'Hello World'", "' pad '", "'a,b,,c'", "'é日x'", "'line\\nline2'", "'<b>'", "'42'", "'3.5'", "'%s'",
           "'%d|%5.1f'", "'{}{}'", "\"it's\"", "'x' * 3", "s", "uni", "ws", "lines", "html", "long", "empty", "d.zz", "people[0].name"]
INTS = ["0", "1", "2", "3", "-1", "7", "10", "n", "neg", "zero", "nums|length", "loop.index", "loop.index0", "true", "d.b"]
FLOATS = ["1.5", "0.1", "2.0", "-2.5", "f", "1e20", "1e-5", "n / 2"]
LISTS = ["nums", "words", "nested", "people", "mixed", "[]", "[1, 2, 3]", "['b', 'a', 'C']", "(1, 'x')", "range(4)", "d.items()", "'abc'|list",
         "s.split()", "messages", "varargs"]
DICTS = ["d", "deep", "{}", "{'k': 1, 'a': 'z'}", "people[0]", "items_like", "kwargs"]
STR_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "e", "string", "safe", "indent", "indent(2, true)", "truncate(10)",
               "truncate(8, true, '~', 0)", "replace('l', 'L')", "replace('', '-')", "reverse", "urlencode", "center(20)", "tojson",
               "default('D')", "default('D', true)", "wordcount", "length", "list", "first", "last", "int", "float", "format(1, 2)", "forceescape"]
STR_METHODS = ["strip()", "lstrip()", "rstrip('o')", "upper()", "lower()", "title()", "capitalize()", "split()", "split(',')", "split('l', 1)",
               "rsplit(' ', 1)", "splitlines()", "startswith('H')", "endswith(('d', 'x'))", "replace('o', '0', 1)", "find('l')", "rfind('l')",
               "count('l')", "isdigit()", "isalpha()", "islower()", "isupper()", "isspace()", "isalnum()", "removeprefix('H')", "removesuffix('d')",
               "partition('l')", "rpartition(' ')", "zfill(6)", "center(9, '*')", "ljust(8)", "rjust(8, '.')", "swapcase()", "join(['x', 'y'])",
               "format(1, 'q')", "index('l')", "foo", "foo()"]
LIST_FILTERS = ["length", "join", "join(', ')", "first", "last", "list", "sort", "sort(reverse=true)", "reverse|list", "unique|list", "min", "max",
                "sum", "map('string')|list", "map('upper')|join('+')", "map(attribute='name')|list", "map(attribute='age', default=0)|list",
                "select|list", "reject|list", "select('string')|list", "select('number')|list", "select('odd')|list", "reject('none')|list",
                "selectattr('age')|list", "selectattr('age', 'gt', 26)|list|length", "rejectattr('name', 'equalto', 'bob')|list", "tojson",
                "tojson(indent=2)", "batch(2)|list", "slice(2)|list", "batch(2, 'f')|list", "groupby('age')", "sort(attribute='age')", "string",
                "map('length')|list", "map('int')|list", "random_missing", "default([])", "map('tojson')|join", "sort(attribute='name')|map(attribute='name')|join"]
DICT_FILTERS = ["items|list", "dictsort", "dictsort(by='value')", "dictsort(true)", "length", "list", "tojson", "tojson(sort_keys=true)",
                "tojson(separators=(',', ':'))", "tojson(indent=1)", "string", "first", "last", "urlencode", "join('/')", "sort", "map('upper')|list"]
DICT_PARTS = [".get('b')", ".get('zz', 3)", ".items()|list", ".keys()|list", ".values()|list", "['a']", ".b", ".zz", ".x.y", ".keys()", ".items()",
              ".name", ".copy()", ".update"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "odd", "even",
         "divisibleby 3", "eq 1", "ne 'a'", "gt 1", "lt 2.5", "in [1, 'a']", "sameas none", "true", "false", "lower", "upper", "callable", "escaped"]


class Maker:
    def __init__(self, rng):
        self.r = rng
        self.names = ["v0", "v1", "v2"]

    def pick(self, *choices):
        return self.r.choice(choices)

    def any(self, depth):
        kind = self.r.choice([self.string, self.string, self.integer, self.number, self.listing, self.mapping, self.boolean, self.name])
        return kind(depth)

    def name(self, depth):
        return self.r.choice(self.names + ["undefined_thing", "nil", "yes", "ns.x", "ns.y", "item", "k"])

    def string(self, d):
        if d <= 0 or self.r.random() < 0.25:
            return self.r.choice(STRINGS)
        c = self.r.random()
        if c < 0.3:
            return f"{self.atom(self.string(d - 1))}|{self.r.choice(STR_FILTERS)}"
        if c < 0.5:
            return f"{self.atom(self.string(d - 1))}.{self.r.choice(STR_METHODS)}"
        if c < 0.65:
            return f"{self.atom(self.any(d - 1))} {self.pick('~', '~', '+')} {self.atom(self.any(d - 1))}"
        if c < 0.75:
            return f"{self.atom(self.string(d - 1))}[{self.bounds(d)}]"
        if c < 0.85:
            return f"{self.any(d - 1)} if {self.boolean(d - 1)} else {self.any(d - 1)}"
        if c < 0.9:
            return f"{self.atom(self.string(d - 1))} % {self.pick('1', '(1, 2.5)', repr('q'), 'nums', '(1,)')}"
        return f"{self.atom(self.listing(d - 1))}|join({self.pick('', repr(', '), repr('-'))})"

    def bounds(self, d):
        i = lambda: self.pick("", "0", "1", "-1", "2", "-3", "99", "n")
        return self.pick(i() or "0", f"{i()}:{i()}", f"{i()}:{i()}:{self.pick('1', '2', '-1', '-2')}")

    def atom(self, e):
        return e if re.fullmatch(r"[\w.]+|'[^']*'", e) and self.r.random() < 0.95 else f"({e})"

    def integer(self, d):
        if d <= 0 or self.r.random() < 0.4:
            return self.r.choice(INTS)
        return f"{self.atom(self.integer(d - 1))} {self.pick('+', '-', '*', '//', '%')} {self.atom(self.integer(d - 1))}"

    def number(self, d):
        if d <= 0 or self.r.random() < 0.3:
            return self.r.choice(FLOATS + INTS)
        c = self.r.random()
        if c < 0.5:
            if self.r.random() < 0.1:  # not of a negative constant: Jinja folds it and then writes -1 ** 0
                return f"{self.pick('2', 'n', 'f', '10', 'neg')} ** {self.atom(self.integer(0))}"
            return f"{self.atom(self.number(d - 1))} {self.pick('+', '-', '*', '/', '//', '%')} {self.atom(self.number(d - 1))}"
        return f"{self.atom(self.number(d - 1))}|{self.pick('int', 'float', 'abs', 'round', 'round(1)', 'round(-1)', repr('string')[1:-1], 'tojson')}"

    def listing(self, d):
        if d <= 0 or self.r.random() < 0.35:
            return self.r.choice(LISTS)
        c = self.r.random()
        if c < 0.5:
            return f"{self.atom(self.listing(d - 1))}|{self.r.choice(LIST_FILTERS)}"
        if c < 0.65:
            return f"{self.atom(self.listing(d - 1))}[{self.bounds(d)}]"
        if c < 0.8:
            return "[" + ", ".join(self.any(d - 1) for _ in range(self.r.randrange(4))) + "]"
        if c < 0.9:
            return f"{self.atom(self.listing(d - 1))} + {self.atom(self.listing(d - 1))}"
        return "(" + ", ".join(self.any(d - 1) for _ in range(2)) + ")"

    def mapping(self, d):
        if d <= 0 or self.r.random() < 0.3:
            return self.r.choice(DICTS)
        c = self.r.random()
        if c < 0.4:
            return f"{self.atom(self.mapping(d - 1))}|{self.r.choice(DICT_FILTERS)}"
        if c < 0.7:
            return f"{self.atom(self.mapping(d - 1))}{self.r.choice(DICT_PARTS)}"
        return "{" + ", ".join(f"{self.pick(repr('a'), repr('b'), '1', 's')}: {self.any(d - 1)}" for _ in range(self.r.randrange(4))) + "}"

    def boolean(self, d):
        c = self.r.random()
        if d <= 0 or c < 0.2:
            return self.pick("yes", "no", "true", "false", "nil", "zero", "loop.first", "loop.last", "empty", "nums")
        if c < 0.4:
            return f"{self.atom(self.any(d - 1))} {self.pick('==', '!=', '<', '>', '<=', '>=', 'in', 'not in')} {self.atom(self.any(d - 1))}"
        if c < 0.65:
            return f"{self.atom(self.any(d - 1))} is {self.pick('', 'not ')}{self.r.choice(TESTS)}"
        if c < 0.85:
            return f"{self.boolean(d - 1)} {self.pick('and', 'or')} {self.boolean(d - 1)}"
        return f"not {self.boolean(d - 1)}"

    def tag(self, body):
        return "{%" + self.pick("", "", "-", "+") + " " + body + " " + self.pick("", "", "-", "+") + "%}"

    def text(self):
        return self.pick("", " ", "\n", "x", "  \n  ", "text\n", "\t", " y ", "\n\n", "{# c #}", "{#- c -#}\n", "é")

    def body(self, d):
        return "".join(self.text() + self.statement(d) for _ in range(self.r.randrange(1, 4))) + self.text()

    def small(self):
        """One or two expressions in a loop: most of these render."""
        kind = self.r.choice([self.any, self.string, self.listing, self.mapping, self.boolean, self.number])
        end = self.pick("", "{{ loop.index }}{{ loop.last }}", "{% if loop.first %}" + self.text() + "{% endif %}" + self.text())
        return "{% for item in [1, 'Two'] %}" + self.text() + "{{ " + kind(2) + " }}" + end + "{% endfor %}"

    def statement(self, d):
        c = self.r.random()
        if d <= 0 or c < 0.35:
            return "{{" + self.pick("", "-") + " " + self.any(2) + " " + self.pick("", "-") + "}}"
        if c < 0.5:
            target = self.pick(*self.names, "ns.x", "ns.y", "v0, v1")
            value = f"{self.any(1)}, {self.any(1)}" if "," in target else self.any(2)
            return self.tag(f"set {target} = {value}")
        if c < 0.65:
            s = self.tag(f"if {self.boolean(2)}") + self.body(d - 1)
            if self.r.random() < 0.3:
                s += self.tag(f"elif {self.boolean(2)}") + self.body(d - 1)
            if self.r.random() < 0.5:
                s += self.tag("else") + self.body(d - 1)
            return s + self.tag("endif")
        if c < 0.85:
            target, source = self.pick(("item", self.listing(1)), ("item", self.any(1)), ("k, v0", self.pick("d.items()", "d|items", "d|dictsort", "nested")))
            s = self.tag(f"for {target} in {source}" + (f" if {self.boolean(1)}" if self.r.random() < 0.2 else "")) + self.body(d - 1)
            if self.r.random() < 0.2:
                s += self.tag(f"if {self.boolean(1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif") + self.body(d - 1)
            if self.r.random() < 0.2:
                s += self.tag("else") + self.body(d - 1)
            return s + self.tag("endfor")
        if c < 0.9:
            name = self.pick("m0", "m1")
            s = self.tag(f"macro {name}({self.pick('', 'item', 'item, k=1', 'v0, v1=v0')})") + self.body(d - 1) + self.tag("endmacro")
            return s + "{{ " + name + "(" + self.pick("", self.any(1), f"{self.any(1)}, 2", "item=3", "4, k=5, z=6") + ") }}"
        if c < 0.93:
            return self.tag(f"set {self.r.choice(self.names)}{self.pick('', ' | upper', ' | trim')}") + self.body(d - 1) + self.tag("endset")
        if c < 0.95:
            return self.tag(f"with item = {self.any(1)}") + self.body(d - 1) + self.tag("endwith")
        if c < 0.97:
            return self.tag(f"filter {self.pick('upper', 'trim', 'indent', 'replace(1, 2)')}") + self.body(d - 1) + self.tag("endfilter")
        if c < 0.985:
            return self.tag("generation") + self.body(d - 1) + self.tag("endgeneration")
        return self.tag("raw") + self.text() + "{{ x }}" + self.text() + self.tag("endraw")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--n", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    messages = [{"role": "user", "content": "Hi <x>"}, {"role": "assistant", "content": "Yo"}]
    process = subprocess.Popen([options.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"TZ": "UTC"})
    counts = {"equal texts": 0, "both fail": 0, "not implemented": 0, "address": 0, "folded": 0, "different": 0}
    for _ in range(options.n):
        maker = Maker(rng)
        template = "{% set ns = namespace(x=1) %}" + (maker.body(3) if rng.random() < 0.3 else maker.small())
        expected = render(template, messages=messages, **VARIABLES)
        if expected is not None and re.search(r" at 0x[0-9a-f]+>| object>", expected):
            counts["address"] += 1
            continue
        request = {"template": template, "messages": messages, "extra": VARIABLES, "now": NOW_UNIX}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            print("the program ended at", repr(template))
            raise SystemExit(1)
        answer = json.loads(line)
        if answer.get("status") == "unsupported":
            counts["not implemented"] += 1
        elif "has no slices" in answer.get("error", "") and expected is not None:
            counts["folded"] += 1  # Jinja folds a slice of a constant that has none into an undefined
        elif answer.get("text") == expected:
            counts["equal texts" if expected is not None else "both fail"] += 1
        else:
            counts["different"] += 1
            if counts["different"] <= options.show:
                print("template:", repr(template), "\n  jinja2:", repr(expected), "\n  ours:  ", repr(answer.get("text")), answer.get("error"))
    print(counts)
    raise SystemExit(1 if counts["different"] else 0)


if __name__ == "__main__":
    main()
