"""Texts to compare tokenizers on: real prose, code, and what users and attackers type. Seeded."""
import random
import unicodedata

SCRIPTS = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x4ff), (0x590, 0x5ff), (0x600, 0x6ff), (0x900, 0x97f),
           (0xe00, 0xe7f), (0x1780, 0x17ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x218f), (0x2190, 0x23ff),
           (0x2460, 0x24ff), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xfaff), (0xff00, 0xffef),
           (0x10000, 0x103ff), (0x1d400, 0x1d7ff), (0x1f300, 0x1faff), (0x20000, 0x2a6df)]
EMOJI = ["😀", "👨‍👩‍👧", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "🦙", "✅", "1️⃣", "🤷‍♀️"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\u00a0", "\u3000", "\u2003", "\u200b", "\x0b", "\x85"]
CODE = ["def f(x):\n    return x**2\n", "for (int i = 0; i < n; i++) {\n\t\tsum += a[i];\n}\n", "#include <stdio.h>\n",
        "{\"key\": [1, 2.5e-3, null], \"s\": \"\\u00e9\\n\"}", "https://example.com/a?b=c&d=%20#frag", "x != y && z >= 10",
        "SELECT * FROM t WHERE id='42';", "<div class=\"a\">text</div>", "git commit -m 'it'll work'", "0x1F600 1_000_000"]
WORDS = ["I'm", "you're", "they'll", "we'd", "IT'S", "don't", "'S", "naïve", "Straße", "ﬁn", "①②", "e\u0301", "Å", "Å",
         "한국어", "中文字符", "日本語テスト", "ไทย", "हिन्दी", "العربية", "עברית", "Ελληνικά", "Русский", "İstanbul", "ΣΑΣ",
         "▁", "▁▁x", "<s>", "</s>", "<unk>", "<0x41>", "<|im_start|>", "<|endoftext|>", "3.14159", "1234567", "½", "²³",
         "ＡＢＣ", "ｶﾞ", "\u1100\u1161\u11a8", "\ufeff", "\u00ad", "\u0000", "\x01\x7f", "\ue000", "\U0001f9d1\u200d\U0001f680"]


def assigned(rng, low, high):
    for _ in range(20):
        c = chr(rng.randint(low, high))
        if unicodedata.category(c) not in ("Cn", "Cs"):
            return c
    return "x"


def random_script(rng):
    low, high = rng.choice(SCRIPTS)
    return "".join(assigned(rng, low, high) for _ in range(rng.randint(1, 12)))


def soup(rng, vocabulary):
    parts = []
    for _ in range(rng.randint(1, 12)):
        parts.append(rng.choice([
            lambda: rng.choice(WORDS), lambda: rng.choice(SPACES), lambda: rng.choice(EMOJI), lambda: rng.choice(CODE),
            lambda: random_script(rng), lambda: rng.choice(SPACES) * rng.randint(1, 9), lambda: rng.choice(vocabulary),
            lambda: " ", lambda: str(rng.randint(0, 10 ** rng.randint(1, 12))),
            lambda: "".join(assigned(rng, 0x20, 0x2ff) for _ in range(rng.randint(1, 20))),
            lambda: "".join(chr(rng.randint(0x20, 0x7e)) for _ in range(rng.randint(1, 30)))])())
    return "".join(parts)


def texts(n, prose, vocabulary, seed=1):
    """n texts; prose: a long text to cut from; vocabulary: token texts to throw in."""
    rng = random.Random(seed)
    vocabulary = [v.replace("▁", " ").replace("Ġ", " ") for v in vocabulary] or ["x"]
    out = ["", " ", "  ", "\n", "a", "é", "中", "▁", " ▁", "\u0301", "a" * 5000, " " * 3000, "\n" * 700, "中" * 900, "-" * 999,
           "<s>", " <s> ", "ab" * 2000, "x " * 1500] + EMOJI + CODE + WORDS + SPACES
    while len(out) < n:
        kind = rng.random()
        if kind < 0.3:
            at = rng.randrange(len(prose))
            out.append(prose[at:at + rng.choice([20, 80, 300, 2000])])
        elif kind < 0.45:
            out.append(" ".join(random_script(rng) for _ in range(rng.randint(1, 8))))
        else:
            out.append(soup(rng, vocabulary))
    return out[:n]
