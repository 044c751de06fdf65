#!/usr/bin/env python3
"""Masks of the grammar library beside llguidance's and xgrammar's, in one run: the same schemas, the same answers, the same
tokens, one core, in processor time (so a busy machine does not count). Needs llguidance, tokenizers and numpy (xgrammar where it can be imported), in an environment of its own.

    compare.py build/release/tests/bench/grammar/bench_grammar build/release/tests/golden/grammar/grammar_check \\
               TOKENIZER.json SCHEMAS.json [--answers 8]

Answers are drawn at random by grammar_check, and texts of words stand in for the letters of its strings."""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

WORDS = ("the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you "
         "were her all she there would their we him been has when who will more no if out so said what up its about into than them can").split()


def byte_letters():
    """The letters of byte-level BPE."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, n = {chr(b): b for b in keep}, 0
    for b in range(256):
        if b not in keep:
            table[chr(256 + n)] = b
            n += 1
    return table


def read_vocabulary(path):
    model = json.load(open(path, encoding="utf-8"))
    letters, vocab = byte_letters(), model["model"]["vocab"]
    added = {t["id"] for t in model["added_tokens"]}
    n = max(max(vocab.values()), max(added)) + 1
    tokens = [b""] * n
    for text, i in vocab.items():
        if i not in added:
            tokens[i] = bytes(letters[ch] for ch in text)
    return tokens + [b""]  # an end of our own behind them


def ask(process, letter, text):
    process.stdin.write(f"{letter} {text}\n".encode())
    process.stdin.flush()
    return process.stdout.readline().decode("utf-8", "replace").rstrip("\n")


def answers(program, schemas, n):
    """(schema, text): random answers, then the same with words in their longer strings where that is an answer, too."""
    process, rng = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE), random.Random(7)
    for schema in schemas:
        if ask(process, "S", json.dumps(schema)) != "ok":
            continue
        for i in range(n):
            text = ask(process, "G", i)
            if text == "cut":
                continue
            worded = re.sub(r'(?<=[:\[,])"[^"\\]{3,}(?:\\.[^"\\]*)*"',
                            lambda m: '"' + " ".join(rng.choice(WORDS) for _ in range(rng.randrange(2, 20))) + '"', text)
            yield schema, worded if ask(process, "T", worded) == "1" else text


def show(name, what, seconds):
    us = sorted(s * 1e6 for s in seconds)
    n = len(us)
    if n:
        print(f"{name:10s} {what:8s} n {n:7d}  mean {statistics.fmean(us):9.2f}  p50 {us[n // 2]:9.2f}  p90 {us[n * 9 // 10]:9.2f}  "
              f"p99 {us[n * 99 // 100]:9.2f}  max {us[-1]:9.2f} us")


def run_llguidance(tokens, cases):
    import llguidance
    import llguidance.numpy

    class Tokenizer:
        eos_token_id = len(tokens) - 1
        bos_token_id = None
        special_token_ids = [len(tokens) - 1]

        def __init__(self):
            self.tokens = [t if t else b"\xff<%d>" % i for i, t in enumerate(tokens)]

        def __call__(self, text):
            return []

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer()))
    mask = llguidance.numpy.allocate_token_bitmask(1, len(tokens))
    compiles, masks, refused, n_left = [], [], 0, 0
    for schema, ids in cases:
        began = time.thread_time()
        grammar = llguidance.LLMatcher.grammar_from_json_schema(
            schema if isinstance(schema, dict) else {}, defaults={"whitespace_flexible": False})
        matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
        compiles.append(time.thread_time() - began)
        if matcher.is_error():
            refused += 1
            continue
        for i in ids:
            began = time.thread_time()
            llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
            masks.append(time.thread_time() - began)
            if not matcher.consume_token(i):
                n_left += 1
                break
    show("llguidance", "compile", compiles)
    show("llguidance", "mask", masks)
    print(f"llguidance: {refused} of {len(cases)} cases refused, {n_left} answers left before their end")


def run_xgrammar(tokens, cases):
    try:
        import xgrammar
    except ImportError as e:
        print(f"xgrammar: not compared, {e}")
        return
    info = xgrammar.TokenizerInfo(tokens, stop_token_ids=[len(tokens) - 1])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    mask = xgrammar.allocate_token_bitmask(1, len(tokens))
    compiles, masks, refused = [], [], 0
    for schema, ids in cases:
        began = time.thread_time()
        try:
            matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(json.dumps(schema), any_whitespace=False,
                                                                           separators=(",", ":"), strict_mode=False))
        except Exception:  # each release refuses with a class of its own
            refused += 1
            continue
        compiles.append(time.thread_time() - began)
        for i in ids:
            began = time.thread_time()
            matcher.fill_next_token_bitmask(mask)
            masks.append(time.thread_time() - began)
            if not matcher.accept_token(i):
                break
    show("xgrammar", "compile", compiles)
    show("xgrammar", "mask", masks)
    print(f"xgrammar: {refused} of {len(cases)} cases refused")


def with_calls(cases, encoder, n):
    """Text with a call in it, of the first n cases' answers."""
    rng = random.Random(9)
    for schema, text in cases[:n]:
        before, after = (" ".join(rng.choice(WORDS) for _ in range(rng.randrange(20, 120))) for _ in range(2))
        whole = f"{before}. <call>{text}</call> {after}\n"
        yield {"schema": schema, "begin": "<call>", "end": "</call>",
               "tokens": encoder.encode(whole, add_special_tokens=False).ids}


def write_cases(path, cases):
    with open(path, "w", encoding="utf-8") as f:
        for case in cases:
            f.write(json.dumps(case) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("checker")
    parser.add_argument("tokenizer")
    parser.add_argument("schemas")
    parser.add_argument("--answers", type=int, default=8)
    parser.add_argument("--keep", help="folder for what was asked")
    parser.add_argument("--skip", default="", help="peers to leave out, with commas")
    args = parser.parse_args()
    import tokenizers
    encoder = tokenizers.Tokenizer.from_file(args.tokenizer)
    tokens = read_vocabulary(args.tokenizer)
    texts = list(answers(args.checker, json.load(open(args.schemas, encoding="utf-8")), args.answers))
    cases = [(schema, encoder.encode(text, add_special_tokens=False).ids) for schema, text in texts]
    print(f"{len(tokens)} tokens, {len(cases)} answers of {sum(len(ids) for _, ids in cases)} tokens")
    with tempfile.TemporaryDirectory() as folder:
        folder = args.keep or folder
        vocabulary, lines, calls = (os.path.join(folder, name) for name in ("vocabulary", "cases", "calls"))
        with open(vocabulary, "wb") as f:
            for t in tokens:
                f.write(len(t).to_bytes(2, "little") + t)
        write_cases(lines, ({"schema": schema, "tokens": ids} for schema, ids in cases))
        write_cases(calls, with_calls(texts, encoder, 100))
        subprocess.run([args.program, vocabulary, lines], check=True)
        sys.stdout.flush()
        if "llguidance" not in args.skip:
            run_llguidance(tokens, cases)
        if "xgrammar" not in args.skip:
            run_xgrammar(tokens, cases)
        subprocess.run([args.program, vocabulary, lines], check=True)
        print("text with calls in it:")
        sys.stdout.flush()
        subprocess.run([args.program, vocabulary, calls], check=True)


if __name__ == "__main__":
    main()
