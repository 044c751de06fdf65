"""Prefill attention on a GPU: ours, cuDNN's and FlashAttention-2 (as PyTorch's SDPA calls them) and an unfused
computation, interleaved in one run; medians of TFLOP/s, only pairs that are not masked counted.

    python3 tests/bench/attention/attn_bench.py [--lib attn.so] [--kernel prefill_sm90] [--rounds 10] [--only d128] --csv out.csv

Inputs are N(0,1) in bf16. Ours reads a paged cache with shuffled blocks and is given its task lists; the others read
dense K and V. Events around a call on a busy stream, so host time does not count.
"""
import argparse
import csv
import os
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gpu"))
import attn_kernels as c  # noqa: E402

LENGTHS = [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]
# name, query heads, KV heads, head_dim, [(queries, keys)]
CASES = [
    ("d128", 32, 8, 128, [(n, n) for n in LENGTHS]),
    ("d64", 32, 32, 64, [(n, n) for n in LENGTHS]),
    ("d256", 8, 8, 256, [(n, n) for n in LENGTHS]),
    ("d96", 32, 8, 96, [(n, n) for n in (4096, 16384)]),
    ("chunk 32/8", 32, 8, 128, [(n, 131072) for n in (256, 512, 1024, 2048)]),
    ("chunk 8/1", 8, 1, 128, [(n, 131072) for n in (256, 512, 1024, 2048)]),
    ("short 28/4", 28, 4, 128, [(64, 50000)]),
    ("short 32/8", 32, 8, 128, [(n, 50000) for n in (16, 64, 256)] + [(64, n) for n in (4096, 16384, 32768, 131072)]),
    ("short 8/1", 8, 1, 128, [(64, 50000)]),
    ("short d64", 32, 32, 64, [(64, 50000)]),
    ("mha d128", 16, 16, 128, [(n, n) for n in (4096, 16384)]),
]


def sdpa(backend, q, k, v):
    square = q.shape[2] == k.shape[2]
    mask = None if square else causal_lower_right(q.shape[2], k.shape[2])

    def call():
        with sdpa_kernel(backend):
            torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=square, enable_gqa=True)
    return call


def unfused(q, k, v):
    group = q.shape[1] // k.shape[1]
    n, m = q.shape[2], k.shape[2]
    mask = torch.ones(n, m, device="cuda", dtype=torch.bool).tril(m - n)

    def call():
        kk, vv = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = (q @ kk.transpose(2, 3)) * q.shape[3] ** -0.5
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ vv
    return call


def time_ms(call):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(100_000)
    a.record()
    call()
    b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b)


def contestants(lib, kernel, n_heads, n_kv, dim, queries, keys):
    batch = max(1, 16384 // keys) if queries == keys else 1
    store = c.Store([keys] * batch, [queries] * batch, n_heads, n_kv, dim, n_layers=1, layer=0, plain=True)
    entries = [(i, queries, keys, False) for i in range(batch)]
    step = c.Step(lib, store, entries, lse=False, overlaps=True, prefill=kernel)
    calls = {"ours": step.launch}
    q = torch.randn(batch, n_heads, queries, dim, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(batch, n_kv, keys, dim, device="cuda", dtype=torch.bfloat16) for _ in (0, 1))
    calls["cudnn"] = sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v)
    calls["fa2"] = sdpa(SDPBackend.FLASH_ATTENTION, q, k, v)
    if batch * n_heads * queries * keys <= 1 << 33:
        calls["unfused"] = unfused(q, k, v)
    works = {}
    for name, call in calls.items():
        try:
            call()
            torch.cuda.synchronize()
            works[name] = call
        except (RuntimeError, torch.OutOfMemoryError) as e:
            if name == "ours":
                raise
            print("    %s: %s" % (name, str(e).split("\n")[0][:80]))
    return step.flops(), works


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", help="shared library of the kernels; else LF_ATTN_SO, or built")
    p.add_argument("--kernel", default="prefill_sm90")
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--only", default="")
    p.add_argument("--csv")
    p.add_argument("--commit", default="", help="for the CSV; else LF_COMMIT, or what git says")
    a = p.parse_args()
    lib, stamp, rows = c.library(a.lib), c.stamp(a.commit, torch=torch.__version__), []
    for name, n_heads, n_kv, dim, sizes in CASES:
        if a.only not in name or not c.supports(lib, a.kernel, dim):
            continue
        for queries, keys in sizes:
            flops, calls = contestants(lib, a.kernel, n_heads, n_kv, dim, queries, keys)
            times = {who: [] for who in calls}
            rounds = a.rounds if flops < 3e13 else max(3, a.rounds // 3)
            for r in range(rounds + 1):
                for who, call in calls.items():
                    if who == "unfused" and r > 3:
                        continue
                    ms = time_ms(call)
                    if r > 0:
                        times[who].append(ms)
            rate = {who: flops / sorted(t)[len(t) // 2] / 1e9 for who, t in times.items()}
            print("%-10s %2d/%d d%-3d %6d x %6d  " % (name, n_heads, n_kv, dim, queries, keys) +
                  "  ".join("%s %.0f" % x for x in rate.items()) +
                  ("  x%.2f cudnn" % (rate["ours"] / rate["cudnn"]) if "cudnn" in rate else ""), flush=True)
            rows += [[*stamp.values(), name, n_heads, n_kv, dim, queries, keys, who, "%.1f" % x] for who, x in rate.items()]
            torch.cuda.empty_cache()
    if a.csv:
        with open(a.csv, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow([*stamp, "case", "heads", "kv_heads", "head_dim", "queries", "keys", "implementation", "tflops"])
            w.writerows(rows)


if __name__ == "__main__":
    main()
