#!/usr/bin/env python3
"""Every fixture of every family on a GPU beside the CPU: the logits behind a prompt, in steps of several sizes, and the
greedy tokens that follow.

    tests/gpu/fixtures.py GREEDY_DRIVER [--device cuda:0] [--only WORD] [--bound 0.08]

A GPU computes in 16 bits, a CPU in what the files have: the bound is of the relative error of logits (Frobenius). Where
the first two logits are closer than that may move them, tokens may differ; they are counted, and judged only where the
gap is wide. Python's standard library only."""
import argparse
import glob
import json
import os
import subprocess
import sys

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "model", "data")
N_IDS, N_TOKENS, CHUNKS = 100, 8, (512, 64, 7, 1)


def config_of(path):
    config = json.load(open(os.path.join(path, "config.json")))
    return {**config, **config.get("text_config", {})}


def answer(driver, path, device, chunk, ids):
    """Tokens, their gaps, and the logits behind the prompt."""
    run = subprocess.run([driver, path, str(N_TOKENS), "--device", device, "--chunk", str(chunk), "--kv", "bf16", "--logits"],
                         input=ids, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip().split("\n")[-1])
    lines = run.stdout.strip().split("\n")
    pairs = [line.split() for line in lines[:N_TOKENS]]
    return [int(p[0]) for p in pairs], [float(p[1]) for p in pairs], [float(x) for x in lines[N_TOKENS].split()]


def n_alike(tokens, expected):
    """Behind the first that differs the prompts do."""
    return next((i for i, (a, b) in enumerate(zip(tokens, expected)) if a != b), len(expected))


def judge(driver, path, device, bound):
    """A line, and whether all is well."""
    n_vocab = config_of(path)["vocab_size"]
    ids = " ".join(str((i * 7919 + 13 * (i // 5)) % n_vocab) for i in range(N_IDS))
    expected, gaps, ref = answer(driver, path, "cpu", 512, ids)
    norm = sum(x * x for x in ref) ** 0.5
    worst, alike, ok = 0.0, [], True
    for chunk in CHUNKS:
        tokens, _, logits = answer(driver, path, device, chunk, ids)
        error = sum((a - b) ** 2 for a, b in zip(logits, ref)) ** 0.5 / norm
        worst, n = max(worst, error), n_alike(tokens, expected)
        alike.append(n)
        wide = n < N_TOKENS and gaps[n] > 2 * bound * max(map(abs, ref))
        ok = ok and error <= bound and len(logits) == len(ref) and not wide
    return ok, f"logits within {worst:.1e}, tokens alike {'/'.join(map(str, alike))} of {N_TOKENS}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("driver")
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--only", default="")
    p.add_argument("--bound", type=float, default=0.08)
    a = p.parse_args()
    found = glob.glob(os.path.join(DATA, "**", "config.json"), recursive=True)
    names = [n for n in sorted(os.path.relpath(os.path.dirname(f), DATA) for f in found) if a.only in n]
    failed = 0
    for name in names:
        try:
            ok, text = judge(a.driver, os.path.join(DATA, name), a.device, a.bound)
        except RuntimeError as e:
            ok, text = False, str(e)
        failed += not ok
        print("%s %-28s %s" % ("ok  " if ok else "FAIL", name, text), flush=True)
    print(f"{len(names)} fixtures, {failed} failed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
