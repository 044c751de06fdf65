#!/usr/bin/env python3
"""PyTorch's grouped GEMM in the shapes of bench_gpu_experts.

    python3 tests/bench/gpu_ops/grouped_mm.py

The same random experts for each token, rows gathered by an index first, which is timed apart. Weights of several layers
by turns. Medians of CUDA events; microseconds a call.
"""
import statistics
import sys

import torch

SHAPES = [("qwen3-30b-a3b", 2048, 128, 8, 768), ("gpt-oss-20b", 2880, 32, 4, 2880)]
TOKENS = [1, 8, 16, 32, 512, 2048, 8192]
LAYERS, ROUNDS = 4, 15


def median_us(call):
    for i in range(LAYERS):
        call(i)
    times = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for i in range(LAYERS):
            call(i)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / LAYERS)
    return statistics.median(times)


def grouped(x, w, offsets):
    """x [rows, n_in] · w [experts, n_out, n_in]ᵀ by groups of rows that end at offsets."""
    function = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    return function(x, w.transpose(1, 2), offs=offsets)


def bench(name, hidden, n_experts, k, width, n_tokens):
    offsets, order = [], []
    for _ in range(LAYERS):
        chosen = torch.rand(n_tokens, n_experts, device="cuda").topk(k, dim=1).indices.flatten()
        order.append(torch.argsort(chosen, stable=True) // k)
        offsets.append(torch.bincount(chosen, minlength=n_experts).cumsum(0).to(torch.int32))
    x = torch.rand(n_tokens, hidden, device="cuda", dtype=torch.bfloat16) * 0.05
    us = median_us(lambda i: x.index_select(0, order[i]))
    print(f"{name:14} {n_tokens:5} gather   torch      {us:10.2f} us")
    for what, n_in, n_out in (("gate_up", hidden, 2 * width), ("down", width, hidden)):
        w = torch.empty(LAYERS, n_experts, n_out, n_in, device="cuda", dtype=torch.bfloat16).uniform_(-0.025, 0.025)
        rows = torch.rand(n_tokens * k, n_in, device="cuda", dtype=torch.bfloat16) * 0.05
        us = median_us(lambda i: grouped(rows, w[i], offsets[i]))
        tflops = 2.0 * n_tokens * k * n_in * n_out / us * 1e-6
        print(f"{name:14} {n_tokens:5} {what:8} torch      {us:10.2f} us {tflops:7.1f} TFLOP/s")
        del w


def main():
    if not torch.cuda.is_available():
        print("no GPU")
        sys.exit(77)
    if not (hasattr(torch.nn.functional, "grouped_mm") or hasattr(torch, "_grouped_mm")):
        print(f"PyTorch {torch.__version__} has no grouped GEMM")
        sys.exit(77)
    for shape in SHAPES:
        for n_tokens in TOKENS:
            bench(*shape, n_tokens)


if __name__ == "__main__":
    main()
