"""What compare.py runs through two configurations: windows of real text, and documents with questions about them.

A document is the King James Bible with facts between its sentences, as demo/make_document.py makes them: by turns a
needle (a code of somebody or something) and a fact of another kind, ten of each where there is room, evenly over its
length; and one question asks for what is not there. All of it is read once, and every question is asked behind it.
Questions have a value that a right answer holds, the name of a place, say. Same arguments, same tasks."""
import glob
import gzip
import os
import random
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "demo"))
import make_document  # noqa: E402

facts = make_document.facts
BOOKS = os.path.join(ROOT, "demo", "train", "books.txt.gz")
CHARS_PER_TOKEN_AT_MOST = 8  # a window is cut to its tokens by the model's tokenizer
TOKENS_PER_PLACE = 256       # at least, of each needle and the fact beside it
PLACES_N = 10                # at most


def read_text(name):
    """(what the table calls it, its text). "docs" is what this repository says about itself."""
    if name == "docs":
        paths = sorted(glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True))
        paths += [os.path.join(ROOT, "README.md"), os.path.join(ROOT, "ARCHITECTURE.md")]
        return name, "\n".join(open(p, encoding="utf-8").read() for p in paths)
    path = BOOKS if name == "books" else name
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as f:
        return os.path.basename(name), f.read()


def windows(text, n, tokens, scored):
    """n beginnings, evenly spread: the last `scored` of each one's tokens are measured."""
    length = tokens * CHARS_PER_TOKEN_AT_MOST
    if len(text) < length + n:
        raise ValueError(f"a text of {len(text)} characters is too short for {n} windows of {tokens} tokens")
    step = (len(text) - length) // n
    return [{"text": text[i * step:i * step + length], "tokens": tokens, "scored": scored} for i in range(n)]


class Question:
    """What is asked; the value that a right answer holds (None: that nothing is said); how deep it lies."""

    def __init__(self, kind, text, value=None, depth=None):
        self.kind, self.text, self.value, self.depth = kind, text, value, depth

    def is_right(self, answer):
        """The value as a whole word: "482" is not in "48213"."""
        if self.value is None:
            return answer.strip() == facts.NONE
        padded, value = " " + answer.lower() + " ", self.value.lower()
        at = padded.find(value)
        while at >= 0:
            if not padded[at - 1].isalnum() and not padded[at + len(value)].isalnum():
                return True
            at = padded.find(value, at + 1)
        return False


def hide(sentences, tokens, chars_per_token, rng):
    """The sentences in a document that begins anywhere in the text. A short one may end before all are in: then another
    beginning is taken."""
    paragraphs = make_document.read_paragraphs(BOOKS)
    for _ in range(64):
        first = rng.randrange(len(paragraphs))
        text = make_document.make_document(paragraphs[first:] + paragraphs[:first], sentences, int(tokens * chars_per_token))
        if all(s in text for s in sentences):
            return text
    raise ValueError(f"{tokens} tokens are too few to hide {len(sentences)} facts in")


def document(tokens, seed, chars_per_token):
    """A document of about so many tokens, and its questions."""
    rng = random.Random(f"{tokens} {seed}")
    kinds = [r for r in make_document.RELATIONS if r != "code"]
    order = [kind for i in range(max(1, min(PLACES_N, tokens // TOKENS_PER_PLACE))) for kind in ("code", kinds[i])]
    made = make_document.make_facts(rng, len(order) + 1, order)
    present, absent = made[:-1], made[-1]
    hidden = [f.fill(facts.REL[f.rel][2][0]) for f in present]
    text = hide(hidden, tokens, chars_per_token, rng)
    questions = [Question("needle" if f.rel == "code" else "fact", f.fill(facts.REL[f.rel][3][0]), f.v,
                          text.index(hidden[i]) / len(text)) for i, f in enumerate(present)]
    questions.append(Question("absent", absent.fill(facts.REL[absent.rel][3][0])))
    return {"document": text, "questions": [q.text for q in questions]}, questions
