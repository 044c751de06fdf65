"""The prefill kernel against float64 and against itself, on a GPU.

    python3 tests/gpu/attn_prefill.py [--lib attn.so] [--kernel prefill_sm90] [--dims 64,128] [--only WORD] [--small]
                                         [--seed N] [--csv out.csv]

Accuracy: as attn_checks.py says. Bits: a row is the same alone, in a batch, in chunks, whole or as tasks of single
splits, and 1,000 times over. --small: one small case, for compute-sanitizer. Runs to the end and lists what
failed; inputs differ from run to run unless --seed says which.
"""
import argparse
import csv
import itertools
import sys
import time

import torch

import attn_checks as t
import attn_kernels as c

BF16, FP16 = torch.bfloat16, torch.float16
failures, results = [], []


def say(ok, name, text):
    if not ok:
        failures.append(name)
    results.append(["ok" if ok else "FAIL", name, text])
    print("%s %-58s %s" % ("ok  " if ok else "FAIL", name, text), flush=True)


class Kernel:
    """The kernel under test, and the seeds of the next stores."""

    def __init__(self, lib, name, seed):
        self.lib, self.name, self.seeds = lib, name, itertools.count(seed)

    def store(self, lengths, n_heads, n_kv_heads, dim, dtype=BF16, **more):
        return c.Store(lengths, None, n_heads, n_kv_heads, dim, dtype, seed=next(self.seeds), **more)

    def step(self, store, rows, lse=False, **more):
        """rows: (sequence, first position, n_rows)."""
        entries = [(i, n, first + n, False) for i, first, n in rows]
        return c.Step(self.lib, store, entries, lse=lse, overlaps=True, prefill=self.name, **more)


def check(name, step, most=48):
    """The worst entry's figures."""
    worst = max(t.judge_step(step, most), key=lambda v: (not v.ok, v.share))
    say(worst.ok, name, worst.text)


# (queries, keys)
GRID = [(1, 1), (1, 128), (1, 339), (3, 799), (16, 20000), (64, 128), (113, 203), (108, 256), (239, 239), (256, 512),
        (1024, 1024), (2048, 3577), (4224, 4224)]
HEADS = [(8, 8), (16, 4), (8, 1), (14, 2), (12, 1)]


def accuracy(kernel, dim):
    for dtype, (n_heads, n_kv) in itertools.product((BF16, FP16), HEADS):
        what = "d%d %s" % (dim, "bf16" if dtype == BF16 else "fp16")
        store = kernel.store([k for _, k in GRID], n_heads, n_kv, dim, dtype)
        rows = [(i, k - n, n) for i, (n, k) in enumerate(GRID)]
        for lse in (False, True):
            check("%s %d/%d grid, one batch%s" % (what, n_heads, n_kv, ", lse" * lse), kernel.step(store, rows, lse=lse), most=40)
        if (n_heads, n_kv) != (16, 4):
            continue
        for i, first, n in rows:
            check("%s (%d, %d)" % (what, n, first + n), kernel.step(store, [(i, first, n)]))
        sinks = torch.randn(n_heads, device=c.DEV) * 2
        for window, cap, sink in [(64, 0.0, None), (100, 0.0, sinks), (4096, 0.0, None), (0, 30.0, None),
                                  (0, 0.0, sinks), (1, 0.0, None), (4096, 30.0, sinks)]:
            for lse in (False, True):  # a kernel each
                check("%s window %d softcap %g%s%s" % (what, window, cap, " sinks" if sink is not None else "", ", lse" * lse),
                      kernel.step(store, rows, window=window, softcap=cap, sinks=sink, lse=lse), most=40)
    for steep in (40, 400):
        store = kernel.store([9000, 700, 20000], 16, 4, dim)
        store.steepen(steep)
        for lse in (False, True):
            check("d%d maxima that grow, %d%s" % (dim, steep, ", lse" * lse),
                  kernel.step(store, [(0, 0, 9000), (1, 0, 700), (2, 19000, 1000)], lse=lse))
    store = kernel.store([700, 900, 130], 8, 2, dim, shared={1: 6})
    check("d%d shared prefix blocks" % dim, kernel.step(store, [(0, 0, 700), (1, 384, 516), (2, 0, 130)]))


def cliff(kernel, dim):
    """A key that outweighs any other 2^19 times and more, behind a split of keys that together still count beside it: what a
    row has so far may not be lost where its offset moves."""
    n, split, tile = 131072, 16384, 128 if dim <= 128 else 64
    store = kernel.store([n], 4, 1, dim, n_layers=1, layer=0)
    x = torch.full((n,), -200.0, device=c.DEV)
    x[-split:] = 185 if dim <= 128 else 188  # 47 in natural units: a tile's sums stay within the bound
    x[-tile:] = x[-split:tile - split] = 0
    x[-split] = 242
    store.kv[torch.tensor(store.tables[0], device=c.DEV), 0] = 0
    keys, values = (store.kv[:, 0, part, 0] for part in (0, 1))
    keys[store.tables[0], :, 0] = x.view(-1, c.PAGE).to(store.dtype)
    values[store.tables[0]] = torch.where(x == 242, 1.0, -1.0).view(-1, c.PAGE, 1).to(store.dtype).expand(-1, -1, dim)
    store.q[0].zero_()[..., 0] = dim ** 0.5 / 4
    for lse in (False, True):
        check("d%d cliff%s" % (dim, ", lse" if lse else ""), kernel.step(store, [(0, n - 1, 1)], lse=lse))


def same(name, a, b):
    text = "same bits" if t.same_bits(a, b) else "%d of %d values differ" % ((a != b).sum().item(), a.numel())
    say(text == "same bits", name, text)


def bits(kernel, dim):
    for window, steep in ((0, 1), (0, 60), (0, 400), (3000, 20)):
        n = 40000
        store = kernel.store([n, 1000, 17, 5000], 8, 2, dim)
        store.steepen(steep)
        name = "d%d window %d%s: " % (dim, window, ", maxima that grow, %d" % steep if steep > 1 else "")
        whole = kernel.step(store, [(0, 0, n)], window=window).run()[0]
        batch = kernel.step(store, [(1, 0, 1000), (0, 0, n), (2, 3, 14), (3, 1234, 3000)], window=window)
        same(name + "in a batch", whole, batch.run()[0][1000:1000 + n])
        for first, rows in [(0, 4096), (16000, 777), (39990, 10), (33333, 1), (12345, 4096), (35904, 4096), (32700, 200)]:
            step, part = kernel.step(store, [(0, first, rows)], window=window), whole[first:first + rows]
            n_split = step.args.max_prefill if step.args.n_combine_prefill else 0
            split = "%d tasks of parts" % n_split if n_split else "whole"
            same(name + "rows %d to %d, %s" % (first, first + rows, split), part, step.run()[0])
            if n_split:  # also each split a task, as on a larger GPU
                same(name + "the same, as tasks of single splits", part,
                     kernel.step(store, [(0, first, rows)], window=window, split=True).run()[0])
                same(name + "the same, as whole tasks", part,
                     kernel.step(store, [(0, first, rows)], window=window, split=False).run()[0])
        step = kernel.step(store, [(0, 30000, 2000), (3, 0, 5000)], window=window)
        first, differ = step.run()[0].clone(), 0
        for _ in range(1000 if steep == 1 else 20):
            step.launch()
            differ += int(not torch.equal(first, step.out))
        say(differ == 0, name + "repeats", "%d differ" % differ)


def long(kernel, dim):
    for n in (65536, 131072):
        store = kernel.store([n], 8, 2, dim, n_layers=1, layer=0)
        for lse in (False, True):
            check("d%d %d tokens, sampled rows%s" % (dim, n, ", lse" * lse), kernel.step(store, [(0, 0, n)], lse=lse), most=32)
            check("d%d 100 tokens over %d%s" % (dim, n, ", lse" * lse), kernel.step(store, [(0, n - 100, 100)], lse=lse), most=16)
    first = (1 << 31) // (2 * 8 * c.PAGE * dim * 2) + 10
    store = kernel.store([1000], 32, 8, dim, n_layers=1, layer=0, first_block=first)
    check("d%d blocks behind 2^31 bytes" % dim, kernel.step(store, [(0, 0, 1000)]))


def small(kernel, dim):
    store = kernel.store([300, 77, 17000], 8, 2, dim)
    for split, lse in itertools.product((False, True), repeat=2):
        check("d%d small" % dim, kernel.step(store, [(0, 0, 300), (1, 70, 7), (2, 16900, 90)], split=split, lse=lse))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", help="shared library of the kernels; else LF_ATTN_SO, or built")
    p.add_argument("--kernel", default="prefill_sm90")
    p.add_argument("--dims", default="64,80,96,112,128,256")
    p.add_argument("--only", default="", help="accuracy, cliff, bits or long")
    p.add_argument("--small", action="store_true")
    p.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    p.add_argument("--csv", help="where to write what was found")
    p.add_argument("--commit", default="", help="for the CSV")
    a = p.parse_args()
    print("seed %d" % a.seed)
    torch.manual_seed(a.seed)
    kernel = Kernel(c.library(a.lib), a.kernel, a.seed)
    for dim in map(int, a.dims.split(",")):
        if not c.supports(kernel.lib, a.kernel, dim):
            continue
        for part in ([small] if a.small else [accuracy, cliff, bits, long]):
            if a.only in part.__name__:
                part(kernel, dim)
    if a.csv:
        stamp = c.stamp(a.commit)
        with open(a.csv, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow([*stamp, "result", "case", "figures"])
            w.writerows([*stamp.values(), *r] for r in results)
    print("%d failures" % len(failures), *failures, sep="\n  ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
