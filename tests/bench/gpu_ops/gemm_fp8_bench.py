#!/usr/bin/env python3
"""The FP8 GEMM on Hopper beside PyTorch's scaled GEMM and cuBLASLt in bf16, and the quantizing of activations.

    python3 tests/bench/gpu_ops/gemm_fp8_bench.py [--so fp8.so] [--csv OUT] [--commit C] [--seconds S] [--shapes N]
    python3 tests/bench/gpu_ops/gemm_fp8_bench.py --build fp8.so        builds the kernels, where there is no GPU too

Shapes are (n_out, n_in) of Llama's 8B and 70B. x is N(0, 1), w N(0, 0.02), both quantized: nearly zero data runs cooler and
faster. With 2,048 and 8,192 tokens everything of one shape runs in turn, tiles of 256 tokens alone and in pairs, each sustained for S seconds. With 1 to 64 it runs in
a graph over the weights of several layers, so that L2 has none of them, beside a copy of the same bytes. Medians of CUDA
events. Before that, how far the products of codes are from float64, ours and PyTorch's.
"""
import argparse
import csv
import ctypes as ct
import datetime
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SHAPES = [(4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (57344, 8192), (8192, 28672)]
P, I = ct.c_void_p, ct.c_int
BLOCKS, ROWS = 0, 1
FEW = [1, 8, 16, 32, 64]
TILES_256, TILES_PAIRS = 2, 3  # gemm_fp8_sm90.h
SOURCES = [("gemm_fp8_sm90.cu", "90a"), ("gemm_fp8_few_sm90.cu", "90a"), ("quant_rows.cu", "90")]


class Gemm(ct.Structure):
    _fields_ = [("y", P), ("y_float", ct.c_bool), ("by", I), ("x", P), ("x_scales", P), ("x_scale_stride", I), ("w", P),
                ("w_scales", P), ("bias", P), ("residual", P), ("alpha", ct.c_float), ("n_tokens", I), ("n_in", I),
                ("n_out", I), ("y_stride", I)]


class Quant(ct.Structure):
    _fields_ = [("codes", P), ("scales", P), ("scale_stride", I), ("by", I), ("x", P), ("n_tokens", I), ("n_in", I),
                ("x_stride", I)]


class Launch(ct.Structure):
    _fields_ = [("stream", P), ("fp16", ct.c_bool), ("overlaps", ct.c_bool)]


def build(out):
    with tempfile.TemporaryDirectory() as work:
        jobs, objects = [], []
        for name, arch in SOURCES:
            objects.append(os.path.join(work, name + ".o"))
            jobs.append(subprocess.Popen(["nvcc", "-std=c++17", "-O3", "-lineinfo", f"-gencode=arch=compute_{arch},code=sm_{arch}",
                                          "-Xcompiler=-fPIC", "-I" + ROOT, "-c", f"{ROOT}/device/cuda/{name}", "-o",
                                          objects[-1]]))
        if any([job.wait() for job in jobs]):
            raise SystemExit("the kernels do not compile")
        subprocess.check_call(["nvcc", "-shared", *objects, "-o", out])


def check(rc):
    if rc != 0:
        raise SystemExit(f"CUDA error {rc}")


def library(path):
    lib = ct.CDLL(path)
    for name in ("gemm_fp8", "quant_rows"):
        check(getattr(lib, f"lf_cuda_{name}_setup")())
    return lib


def launch(overlaps=False):
    return Launch(torch.cuda.current_stream().cuda_stream, False, overlaps)


class Operands:
    """x [m, k] and w [n, k] in bf16, and their codes and scales by blocks and by rows."""

    def __init__(self, lib, m, n, k, layers=1):
        self.lib, self.m, self.n, self.k = lib, m, n, k
        self.x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        self.w = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * 0.02 for _ in range(layers)]
        self.y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        self.stride, blocks = (m + 3) // 4 * 4, (k + 127) // 128
        self.xq = [torch.empty(m, k, device="cuda", dtype=torch.uint8) for _ in range(2)]
        self.xs = [torch.empty(blocks, self.stride, device="cuda"), torch.empty(m, device="cuda")]
        self.wq, self.ws = [[], []], [[], []]
        for w in self.w:
            scale = w.float().view(n // 128, 128, k // 128, 128).abs().amax((1, 3)) / 448
            by_rows = w.float().abs().amax(1, keepdim=True) / 448
            codes = (w.float().view(n // 128, 128, k // 128, 128) / scale[:, None, :, None]).to(torch.float8_e4m3fn)
            self.wq[BLOCKS].append(codes.view(n, k))
            self.ws[BLOCKS].append(scale)
            self.wq[ROWS].append((w.float() / by_rows).to(torch.float8_e4m3fn))
            self.ws[ROWS].append(by_rows)
        for by in (BLOCKS, ROWS):
            self.quantize(by)

    def quantize(self, by):
        p = Quant(self.xq[by].data_ptr(), self.xs[by].data_ptr(), self.stride, by, self.x.data_ptr(), self.m, self.k, self.k)
        check(self.lib.lf_cuda_quant_rows(ct.byref(p), launch()))

    def ours(self, by, layer=0, overlaps=False, tiles=-1):
        p = Gemm(self.y.data_ptr(), False, by, self.xq[by].data_ptr(), self.xs[by].data_ptr(), self.stride,
                 self.wq[by][layer].data_ptr(), self.ws[by][layer].data_ptr(), None, None, 1.0, self.m, self.k, self.n, self.n)
        check(self.lib.lf_cuda_gemm_fp8(ct.byref(p), N_SMS, tiles, launch(overlaps)))

    def torch_fp8(self, by):
        x = self.xq[by].view(torch.float8_e4m3fn)
        if by == BLOCKS:
            return torch._scaled_mm(x, self.wq[by][0].t(), scale_a=self.xs[by][:, :self.m].t(), scale_b=self.ws[by][0].t(),
                                    out_dtype=torch.bfloat16)
        return torch._scaled_mm(x, self.wq[by][0].t(), scale_a=self.xs[by][:, None], scale_b=self.ws[by][0].t(),
                                out_dtype=torch.bfloat16, use_fast_accum=True)

    def torch_bf16(self):
        return torch.nn.functional.linear(self.x, self.w[0])


def median_ms(call, seconds):
    call()
    torch.cuda.synchronize()
    times, begin = [], time.time()
    while time.time() - begin < seconds:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(11)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize()
        if time.time() - begin > seconds / 3:
            times += [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    return statistics.median(times)


def error_of(o, by, y):
    """Of some columns, against the products of codes and scales in float64."""
    x, w = o.xq[by].view(torch.float8_e4m3fn).double(), o.wq[by][0][:256].double()
    if by == BLOCKS:
        x = x * o.xs[by][:, :o.m].t().double().repeat_interleave(128, 1)
        w = w * o.ws[by][0].double().repeat_interleave(128, 0)[:256].repeat_interleave(128, 1)
    else:
        x, w = x * o.xs[by].double()[:, None], w * o.ws[by][0][:256].double()
    want = x @ w.t()
    return ((y[:, :256].double() - want).norm() / want.norm()).item()


def errors(lib, report):
    """Rounding to bf16 alone is some 1.7e-3."""
    o = Operands(lib, 512, 4096, 14336)
    for by, name in ((BLOCKS, "blocks"), (ROWS, "rows")):
        o.ours(by)
        report(what="error", who="longflash " + name, m=o.m, n=o.n, k=o.k, error=error_of(o, by, o.y))
        report(what="error", who="torch " + name, m=o.m, n=o.n, k=o.k, error=error_of(o, by, o.torch_fp8(by)))


def many(lib, report, m, shapes, seconds):
    for n, k in shapes:
        o = Operands(lib, m, n, k)
        for who, call in (("torch bf16", o.torch_bf16), ("torch blocks", lambda: o.torch_fp8(BLOCKS)),
                          ("longflash blocks 256", lambda: o.ours(BLOCKS, tiles=TILES_256)),
                          ("longflash blocks pairs", lambda: o.ours(BLOCKS, tiles=TILES_PAIRS)),
                          ("torch rows", lambda: o.torch_fp8(ROWS)),
                          ("longflash rows 256", lambda: o.ours(ROWS, tiles=TILES_256)),
                          ("longflash rows pairs", lambda: o.ours(ROWS, tiles=TILES_PAIRS))):
            ms = median_ms(call, seconds)
            report(what="gemm", who=who, m=m, n=n, k=k, us=ms * 1e3, tflops=2.0 * m * n * k / ms / 1e9)
        for who, by in (("longflash blocks", BLOCKS), ("longflash rows", ROWS)):
            ms = median_ms(lambda: o.quantize(by), seconds / 3)
            report(what="quantize", who=who, m=m, n=n, k=k, us=ms * 1e3, gbs=3.0 * m * k / ms / 1e6)
        del o


def graph_ms(call, n_layers, seconds):
    """Of one layer."""
    for layer in range(n_layers):
        call(layer)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer in range(n_layers):
            call(layer)
    return median_ms(graph.replay, seconds) / n_layers


def few(lib, report, shapes, seconds):
    for n, k in shapes:
        layers = 300000000 // (n * k) + 2
        for m in FEW:
            o = Operands(lib, m, n, k, layers)
            for who, by in (("longflash blocks", BLOCKS), ("longflash rows", ROWS)):
                ms = graph_ms(lambda layer: o.ours(by, layer, True), layers, seconds / 3)
                report(what="gemm", who=who, m=m, n=n, k=k, us=ms * 1e3, gbs=n * k / ms / 1e6)
            del o
        source = torch.empty(n * k * layers, device="cuda", dtype=torch.uint8)
        ms = median_ms(lambda: source.clone(), seconds / 3)
        report(what="copy", who="torch", n=n, k=k, us=ms * 1e3 / layers, gbs=2.0 * n * k * layers / ms / 1e6)
        del source


class Report:
    """Prints lines, and writes them where it should."""
    FIELDS = ["date", "gpu", "driver", "commit", "what", "m", "n", "k", "who", "us", "tflops", "gbs", "error"]

    def __init__(self, args):
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                                text=True).stdout.split("\n")[0]
        self.common = dict(date=datetime.date.today().isoformat(), gpu=torch.cuda.get_device_name(), driver=driver,
                           commit=args.commit)
        self.file = open(args.csv, "w", newline="") if args.csv else None
        self.writer = csv.DictWriter(self.file, self.FIELDS, lineterminator="\n") if args.csv else None
        if self.writer:
            self.writer.writeheader()

    def __call__(self, **row):
        row.update({f: round(row[f], 2) for f in ("us", "tflops", "gbs") if f in row})
        row.update({f: "%.3g" % row[f] for f in ("error",) if f in row})
        print(" ".join(f"{f} {row[f]:<22}" if f == "who" else f"{f} {row[f]:>8}" for f in self.FIELDS if f in row), flush=True)
        if self.writer:
            self.writer.writerow({**self.common, **row})
            self.file.flush()


def main():
    global torch, N_SMS
    ap = argparse.ArgumentParser()
    ap.add_argument("--build")
    ap.add_argument("--so")
    ap.add_argument("--csv")
    ap.add_argument("--commit", default="")
    ap.add_argument("--seconds", type=float, default=0.6)
    ap.add_argument("--shapes", type=int, default=len(SHAPES), help="the first N")
    args = ap.parse_args()
    if args.build:
        return build(args.build)
    import torch
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("no Hopper GPU")
        sys.exit(77)
    N_SMS = torch.cuda.get_device_properties(0).multi_processor_count
    with tempfile.TemporaryDirectory() as work:
        if not args.so:
            args.so = os.path.join(work, "fp8.so")
            build(args.so)
        lib = library(args.so)
    report, shapes = Report(args), SHAPES[:args.shapes]
    errors(lib, report)
    many(lib, report, 8192, shapes, args.seconds)
    many(lib, report, 2048, shapes[:3], args.seconds)
    few(lib, report, shapes[:4], args.seconds)


if __name__ == "__main__":
    main()
