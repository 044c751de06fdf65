#!/usr/bin/env python3
"""Makes a long document with facts hidden in it, and the questions that ask for them.

    make_document.py --tokens 32000 --out demo          demo/document.txt and demo/questions.json
    make_document.py --tokens 128000 --out build/full   the same for the largest context

The text is public domain: the King James Bible as it stands in train/books.txt.gz, or any other file given with
--text (plain or .gz, one paragraph a line). The facts are sentences in the forms that the demo model was trained on
(train/facts.py), about people and places that do not exist, so no answer can be known but by reading. One question
asks for something that is not there. The same options give the same bytes.
"""
import argparse
import gzip
import json
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "train"))
import facts  # noqa: E402

BIBLE_BEGINS = "In the beginning God created the heaven and the earth."
CHARS_PER_TOKEN = 3.61  # of this text under the demo model's tokenizer
RELATIONS = ["code", "lives", "head", "price", "phone", "job", "capital", "founded", "meets", "kept", "pet", "owner"]


def read_paragraphs(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as f:
        lines = [line.strip() for line in f]
    lines = [line for line in lines if line]
    for i, line in enumerate(lines):
        if BIBLE_BEGINS in line:
            return lines[i:]
    return lines


def make_facts(rng, n, relations=RELATIONS):
    """n facts, by turns of these relations, whose subjects share no word, so that no two can be taken for each other."""
    out, words = [], set()
    while len(out) < n:
        fact = facts.Fact(rng, relations[len(out) % len(relations)])
        mine = set(re.findall(r"[A-Z][a-z]+", fact.s))
        if mine & words or fact.s in fact.v:
            continue
        words |= mine
        out.append(fact)
    return out


def make_document(paragraphs, hidden, n_chars):
    """Paragraphs up to n_chars with the facts between their sentences, evenly spread over the whole length."""
    out, length, n_placed = [], 0, 0
    places = [n_chars * (i + 0.5) / len(hidden) for i in range(len(hidden))]
    i = 0
    while length < n_chars:
        sentences = []
        for sentence in re.split(r"(?<=[.!?;])\s+", paragraphs[i % len(paragraphs)]):
            if n_placed < len(hidden) and length >= places[n_placed]:
                sentences.append(hidden[n_placed])
                length += len(hidden[n_placed]) + 1
                n_placed += 1
            sentences.append(sentence)
            length += len(sentence) + 1
            if length >= n_chars:
                break
        out.append(" ".join(sentences))
        i += 1
    return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tokens", type=int, default=32000, help="length of the document, about (default 32000)")
    ap.add_argument("--questions", type=int, default=9, help="facts to hide and ask for (default 9; one more asks in vain)")
    ap.add_argument("--seed", type=int, default=1, help="another seed gives other facts (default 1)")
    ap.add_argument("--text", default=os.path.join(HERE, "train", "books.txt.gz"), help="the text to hide them in")
    ap.add_argument("--out", default=HERE, help="folder for document.txt and questions.json")
    args = ap.parse_args()
    if args.tokens < 1 or args.questions < 1:
        ap.error("--tokens and --questions must be at least 1")

    rng = random.Random(args.seed)
    made = make_facts(rng, args.questions + 1)
    present, absent = made[:-1], made[-1]
    # The first statement of a relation names the subject first, the way the model knows best.
    hidden = [f.fill(facts.REL[f.rel][2][0]) for f in present]
    document = make_document(read_paragraphs(args.text), hidden, int(args.tokens * CHARS_PER_TOKEN))
    if not all(h in document for h in hidden):
        ap.error(f"{args.tokens} tokens are too few to hide {args.questions} facts in")

    questions = []
    for i, f in enumerate(present):
        questions.append({"question": f.fill(facts.REL[f.rel][3][0]), "answer": f.answer(),
                          "depth": round(document.index(hidden[i]) / len(document), 3)})
    rng.shuffle(questions)
    questions.insert(len(questions) // 2, {"question": absent.fill(facts.REL[absent.rel][3][0]), "answer": facts.NONE,
                                           "depth": None})

    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "document.txt"), "w", encoding="utf-8") as f:
        f.write(document)
    with open(os.path.join(args.out, "questions.json"), "w", encoding="utf-8") as f:
        json.dump(questions, f, indent=1, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()
