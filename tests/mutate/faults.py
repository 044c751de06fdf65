"""What can be planted: small faults of the kinds that people make, at every place of a C source where one fits.

A file is read as text, with comments, string literals and preprocessor lines blanked out in place, so that offsets stay
those of the file. Only bodies of functions are looked at. Not planted in: assertions, log lines and counters (their
effect is no behaviour that a test should depend on), comments, texts."""
import collections
import hashlib
import re

Fault = collections.namedtuple("Fault", "id path line begin end old new kind")

SKIPPED_LINE = re.compile(r"LF_ASSERT|_Static_assert|LF_(INFO|WARN|ERROR|DEBUG_LOG)\(|lf_log\(|metric|counters?[.\[]|n_dropped|"
                          r"\bassert\(|__builtin_|__attribute__|va_end\(")
BLANKED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*", re.S | re.M)
SAYS = re.compile(r"\b(?:LF_ASSERT|LF_INFO|LF_WARN|LF_ERROR|LF_DEBUG_LOG)\([^;]*\n[^;]*;")  # over several lines
TOKEN = re.compile(r"0[xX][0-9a-fA-F]+[uUlL]*|\d+\.\d*(?:[eE][-+]?\d+)?[fF]?|\d+[eE][-+]?\d+[fF]?|\d+[uUlL]*|[A-Za-z_]\w*|"
                   r"<<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w]")

SWAPS = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
         "&&": ["||"], "||": ["&&"], "<<": [">>"], ">>": ["<<"], "++": ["--"], "--": ["++"],
         "+=": ["-="], "-=": ["+="], "*=": ["/="], "|=": ["&="], "&=": ["|="], "true": ["false"], "false": ["true"]}
BINARY = {"+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"], "&": ["|"], "|": ["&"]}  # with a value on both sides


def blank(text):
    """The text with everything that is no code replaced by spaces; as long as before."""
    def spaces(m):
        inner = m.group(0)
        if inner[0] in "\"'":
            return inner[0] + "_" * (len(inner) - 2) + inner[-1]
        return re.sub(r"[^\n]", " ", inner)
    return BLANKED.sub(spaces, text)


def bodies(code):
    """(begin, end) of the functions' bodies: a brace in column 0 opens, the next one closes."""
    for m in re.finditer(r"^\{\n(.*?)^\}", code, re.S | re.M):
        yield m.start(1), m.end(1)


def numbers(text):
    """What a constant is changed to: one off, twice, half; a float by two and by a thousand."""
    m = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", text)
    if not m:
        value = float(text.rstrip("fF"))
        suffix = "f" if text[-1] in "fF" else ""
        return [f"{v!r}{suffix}" for v in ((value * 2, value * 1000) if value else (1.0,))]
    if re.fullmatch(r"0\d+", m.group(1)):
        return []  # octal: the mode of a file
    n, suffix = int(m.group(1), 0), m.group(2)
    values = {n + 1, n - 1, n * 2, n // 2} - {n} if n > 1 else {1 - n, n + 1}
    return [f"{v}{suffix}" for v in sorted(v for v in values if v >= 0)]


def statements(code, begin, end):
    """Faults that take a whole statement of one line away: calls and assignments, early ends, error checks."""
    for m in re.compile(r"(?<=[;{}):\n])(?P<gap>\s*)(?P<text>[^\s;{}][^;{}\n]*;)").finditer(code, begin, end):
        text, at = m.group("text"), m.start("text")
        head = re.match(r"((?:if|while|for) ?\(.*\) |else |case [^:]*: |default: )+(?=[^;]*;$)", text)
        if head and text.count("(") == text.count(")"):
            at, text = at + len(head.group(0)), text[len(head.group(0)):]
        if text.count("(") != text.count(")"):
            continue
        stop = at + len(text)
        if text.startswith(("LF_TRY(", "LF_TRY_GOTO(")):
            inner = text[text.index("(") + 1:text.rindex(",") if "GOTO" in text else text.rindex(")")]
            yield at, stop, f"(void)({inner});", "error ignored"
        elif text in ("break;", "continue;", "return;") or text.startswith("goto "):
            yield at, stop, ";", "jump left out"
        elif text.startswith("return ") and head:
            yield at, stop, ";", "early return left out"
        elif re.match(r"[*(]*[a-z_]\w*(?:->|\.|\[|\(|\)| ?[-+*/|&]?= |\+\+|--)", text) and not text.startswith("return"):
            yield at, stop, ";", "statement left out"


def conditions(code, begin, end):
    for m in re.compile(r"\b(if|while) \(").finditer(code, begin, end):
        depth, at = 1, m.end()
        while depth and at < end:
            depth += {"(": 1, ")": -1}.get(code[at], 0)
            at += 1
        inner = code[m.end():at - 1]
        if not depth and "\n" not in inner:
            yield m.end(), at - 1, f"!({inner})", "condition negated"


def operators(code, begin, end):
    tokens = list(TOKEN.finditer(code, begin, end))
    for i, m in enumerate(tokens):
        text, before = m.group(0), tokens[i - 1].group(0) if i else ";"
        spaced = code[m.start() - 1] == " " and code[m.end()] == " "
        if text in SWAPS:
            for new in SWAPS[text]:
                yield m.start(), m.end(), new, "operator"
        elif text in BINARY and spaced and re.fullmatch(r"[\w)\].]+", before) and before not in ("return", "case"):
            for new in BINARY[text]:
                yield m.start(), m.end(), new, "operator"
        elif text == "!" and before not in ("!",):
            yield m.start(), m.end(), "", "negation left out"
        elif text[0].isdigit() and code[m.start() - 1:m.end() + 1] != "{0}":
            for new in numbers(text):
                yield m.start(), m.end(), new, "constant"


def of_text(path, text):
    """Every fault that could be planted in this file."""
    code = blank(text)
    starts = [0] + [m.end() for m in re.finditer("\n", text)]
    lines = text.splitlines()
    out, seen = [], collections.Counter()
    said = [m.span() for m in SAYS.finditer(code)]
    for begin, end in bodies(code):
        for source in (operators, conditions, statements):
            for at, stop, new, kind in source(code, begin, end):
                line = text.count("\n", 0, at) + 1
                if SKIPPED_LINE.search(lines[line - 1]) or (new and new == text[at:stop]):
                    continue
                if any(a <= at < b for a, b in said):
                    continue
                # From the text and not from the number of the line: a result stays good when lines above it change.
                key = f"{path}|{lines[line - 1].strip()}|{at - starts[line - 1]}|{new}|{kind}"
                seen[key] += 1
                name = hashlib.sha256(f"{key}|{seen[key]}".encode()).hexdigest()[:12]
                # "(void)(f(…))" was made from blanked text: take the real one.
                real = new
                if kind == "error ignored":
                    inner = text[at:stop]
                    inner = inner[inner.index("(") + 1:inner.rindex(",") if "_GOTO" in inner else inner.rindex(")")]
                    real = f"(void)({inner});"
                elif kind == "condition negated":
                    real = f"!({text[at:stop]})"
                out.append(Fault(name, path, line, at, stop, text[at:stop], real, kind))
    return out
