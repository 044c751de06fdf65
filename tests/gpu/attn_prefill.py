"""The prefill kernel against float64 and against itself, on a GPU.

    python3 tests/gpu/attn_prefill.py [--lib attn.so] [--kernel prefill_sm90] [--dims 64,128] [--only WORD] [--small]
                                         [--csv out.csv]

Accuracy: max|out - ref| <= 2 max|naive - ref| + 4 ulp, where naive is an unfused computation in the tensors' own type;
relative Frobenius error and cosine; lse. Bits: a row is the same alone, in a batch, in chunks, whole or split by spans,
and 1,000 times over. --small: one small case, for compute-sanitizer.
"""
import argparse
import csv
import datetime
import os
import subprocess
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attn_gpu as gpu  # noqa: E402

BF16, FP16 = torch.bfloat16, torch.float16
failures, results = [], []


def say(ok, name, text):
    if not ok:
        failures.append(name)
    results.append(["ok" if ok else "FAIL", name, text])
    print("%s %-58s %s" % ("ok  " if ok else "FAIL", name, text), flush=True)


def positions_of(first, n, most):
    """Up to `most` rows: the ends, the edges of tiles, and random ones."""
    if n <= most:
        return torch.arange(first, first + n, device="cuda")
    some = {0, 1, 15, 16, 31, 32, 63, 64, 127, 128, n - 1, n - 2, n - 33, n // 2}
    some |= set(torch.randint(0, n, (most - len(some),)).tolist())
    return torch.tensor(sorted(x for x in some if x < n), device="cuda") + first


def check(name, step, kernel, most=48, **kernels):
    out = step.result(prefill=kernel, **kernels)
    worst = naive_worst = num = den = dot = norm = lse_worst = 0.0
    row = 0
    for i, (s, p, n, _) in enumerate(step.rows):
        at = positions_of(p, n, max(4, min(most, 40_000_000 // (step.pool.n_heads * (p + n)))))
        ref, lse = gpu.reference(step, i, at)
        naive, _ = gpu.reference(step, i, at, naive=True)
        mine = out[row + at - p].double()
        worst = max(worst, (mine - ref).abs().max().item() if not mine.isnan().any() else float("inf"))
        naive_worst = max(naive_worst, (naive.double() - ref).abs().max().item())
        num += ((mine - ref) ** 2).sum().item()
        den += (ref ** 2).sum().item()
        dot += (mine * ref).sum().item()
        norm += (mine ** 2).sum().item()
        if step.lse is not None:
            error = (step.lse[row + at - p].double() - lse).abs() / lse.abs().clamp(min=1)
            lse_worst = max(lse_worst, error.max().item())
        row += n
    frobenius, cosine = (num / den) ** 0.5, dot / (den * norm) ** 0.5
    written = not out.isnan().any().item() and not (step.lse is not None and step.lse[:step.n_tokens].isnan().any().item())
    behind = step.out[step.n_tokens:].isnan().all().item()
    ulp = 2.0 ** -8 if step.pool.dtype == BF16 else 2.0 ** -11
    bound = 2 * naive_worst + 4 * ulp * max(1e-3, ref.abs().max().item())
    ok = written and behind and worst <= bound and frobenius < 2 * ulp and cosine > 1 - 1e-4 and lse_worst < 1e-4
    say(ok, name, "max %.2e (naive %.2e)  fro %.2e  lse %.1e%s%s" % (worst, naive_worst, frobenius, lse_worst,
                                                                  "" if written else "  NOT ALL WRITTEN",
                                                                  "" if behind else "  WROTE BEHIND THE END"))


# (queries, keys)
GRID = [(1, 1), (1, 128), (1, 339), (3, 799), (16, 20000), (64, 128), (113, 203), (108, 256), (239, 239), (256, 512),
        (1024, 1024), (2048, 3577), (4224, 4224)]
HEADS = [(8, 8), (16, 4), (8, 1), (14, 2), (12, 1)]


def accuracy(lib, kernel, dim):
    for dtype in (BF16, FP16):
        kind = "bf16" if dtype == BF16 else "fp16"
        for n_heads, n_kv in HEADS:
            pool = gpu.Pool([k for _, k in GRID], n_heads, n_kv, dim, dtype)
            steps = [(i, k - n, n) for i, (n, k) in enumerate(GRID)]
            check("d%d %s %d/%d grid, one batch" % (dim, kind, n_heads, n_kv),
                  gpu.Step(lib, pool, steps, lse=True, capacity=sum(r[2] for r in steps) + 5), kernel, most=40)
            if (n_heads, n_kv) != (16, 4):
                continue
            for rows in steps:
                check("d%d %s (%d, %d)" % (dim, kind, rows[2], rows[1] + rows[2]), gpu.Step(lib, pool, [rows]), kernel)
            sinks = torch.randn(n_heads, device="cuda") * 2
            for window, cap, sink in [(64, 0.0, None), (100, 0.0, sinks), (4096, 0.0, None), (0, 30.0, None),
                                      (0, 0.0, sinks), (1, 0.0, None), (4096, 30.0, sinks)]:
                check("d%d %s window %d softcap %g%s" % (dim, kind, window, cap, " sinks" if sink is not None else ""),
                      gpu.Step(lib, pool, steps, window=window, softcap=cap, sinks=sink, lse=True), kernel, most=40)
    pool = gpu.Pool([9000, 700, 20000], 16, 4, dim)
    pool.steepen(40)
    check("d%d maxima that grow" % dim, gpu.Step(lib, pool, [(0, 0, 9000), (1, 0, 700), (2, 19000, 1000)], lse=True), kernel)
    pool = gpu.Pool([700, 900, 130], 8, 2, dim, share=(0, 1, 6))
    check("d%d shared prefix blocks" % dim, gpu.Step(lib, pool, [(0, 0, 700), (1, 384, 516), (2, 0, 130)]), kernel)


def same(name, a, b):
    equal = torch.equal(a.view(torch.int16), b.view(torch.int16))
    say(equal, name, "same bits" if equal else "%d of %d values differ" % ((a != b).sum().item(), a.numel()))


def bits(lib, kernel, dim):
    for window, steep in ((0, 1), (0, 60), (3000, 20)):
        n = 40000
        pool = gpu.Pool([n, 1000, 17, 5000], 8, 2, dim)
        pool.steepen(steep)
        name = "d%d window %d%s: " % (dim, window, ", maxima that grow" if steep > 1 else "")
        opts = dict(window=window)
        whole = gpu.Step(lib, pool, [(0, 0, n)], **opts).result(prefill=kernel).clone()
        batch = gpu.Step(lib, pool, [(1, 0, 1000), (0, 0, n), (2, 3, 14), (3, 1234, 3000)], **opts)
        same(name + "in a batch", whole, batch.result(prefill=kernel)[1000:1000 + n])
        for p, rows in [(0, 4096), (16000, 777), (39990, 10), (33333, 1), (12345, 4096), (35904, 4096)]:
            step = gpu.Step(lib, pool, [(0, p, rows)], **opts)
            if step.n_merge and not hasattr(lib, "lf_attn_merge_cuda"):
                continue
            split = "%d spans' tasks" % step.n_prefill if step.n_merge else "whole"
            same(name + "rows %d to %d, %s" % (p, p + rows, split), whole[p:p + rows], step.result(prefill=kernel))
            if step.n_merge:
                same(name + "the same, not split", whole[p:p + rows],
                     gpu.Step(lib, pool, [(0, p, rows)], whole=True, **opts).result(prefill=kernel))
        step = gpu.Step(lib, pool, [(0, 30000, 2000), (3, 0, 5000)], **opts)
        first = step.result(prefill=kernel).clone()
        differ = 0
        for _ in range(1000 if steep == 1 else 20):
            step.run(prefill=kernel)
            differ += int(not torch.equal(first, step.out[:step.n_tokens]))
        say(differ == 0, name + "repeats", "%d differ" % differ)


def long(lib, kernel, dim):
    for n in (65536, 131072):
        pool = gpu.Pool([n], 8, 2, dim, n_layers=1, layer=0)
        check("d%d %d tokens, sampled rows" % (dim, n), gpu.Step(lib, pool, [(0, 0, n)], lse=True), kernel, most=32)
        check("d%d 100 tokens over %d" % (dim, n), gpu.Step(lib, pool, [(0, n - 100, 100)], lse=True), kernel, most=16)
    first = (1 << 31) // (2 * 8 * 64 * dim * 2) + 10
    pool = gpu.Pool([1000], 32, 8, dim, n_layers=1, layer=0, first_block=first)
    check("d%d blocks behind 2^31 bytes" % dim, gpu.Step(lib, pool, [(0, 0, 1000)]), kernel)


def small(lib, kernel, dim):
    pool = gpu.Pool([300, 77, 17000], 8, 2, dim)
    step = gpu.Step(lib, pool, [(0, 0, 300), (1, 70, 7), (2, 16900, 90)], whole=True, lse=True)
    check("d%d small" % dim, step, kernel)


def write_csv(path, commit):
    gpu_name = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True).stdout.strip().split(", ")
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["date", "gpu", "driver", "commit", "result", "case", "figures"])
        w.writerows([datetime.date.today().isoformat(), *gpu_name, commit, *r] for r in results)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", help="shared library of the kernels; built if not given")
    p.add_argument("--kernel", default="prefill_sm90")
    p.add_argument("--dims", default="64,80,96,112,128,256")
    p.add_argument("--only", default="", help="accuracy, bits or long")
    p.add_argument("--small", action="store_true")
    p.add_argument("--csv", help="where to write what was found")
    p.add_argument("--commit", default="", help="for the CSV")
    a = p.parse_args()
    torch.manual_seed(int(time.time()) % 100000)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    lib = gpu.load(a.lib or gpu.build(os.path.join(tempfile.gettempdir(), "lf_attn_gpu.so")))
    for dim in map(int, a.dims.split(",")):
        if not getattr(lib, "lf_attn_%s_supports" % a.kernel)(dim):
            continue
        for part in ([small] if a.small else [accuracy, bits, long]):
            if a.only in part.__name__:
                part(lib, a.kernel, dim)
    if a.csv:
        write_csv(a.csv, a.commit)
    print("%d failures" % len(failures), *failures, sep="\n  ")
    return 1 if failures else 0


sys.exit(main())
