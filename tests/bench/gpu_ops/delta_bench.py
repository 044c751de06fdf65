#!/usr/bin/env python3
"""Gated delta nets on a GPU, beside flash-linear-attention where it is installed, and copies of the same bytes.

    python3 tests/bench/gpu_ops/delta_bench.py [--so delta.so] [--csv OUT] [--commit C] [--models A,B] [--tokens N,N]
    python3 tests/bench/gpu_ops/delta_bench.py --build delta.so        builds the kernels, where there is no GPU too

One layer of the shapes of Qwen3.6-27B and 35B-A3B in bf16. Prefill: one sequence of so many tokens, all of q, k, v random
as behind the convolution; ours takes b and a and computes gates, norms, outputs and the state in place; fla's
chunk_gated_delta_rule gets its g and β ready and normalizes q and k in its kernels. Decode: a token of each of so many
sequences, whose states are those of several layers by turns. Medians of CUDA events. Before that, how far outputs and
state are from float64, token by token, for both, on 2,048 tokens. Ours are launched as device/cuda/delta_cuda.c does.
"""
import argparse
import csv
import ctypes as ct
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
MODELS = {"qwen3.6-27b": (16, 48), "qwen3.6-35b-a3b": (16, 32)}  # heads of k, of v
DIM, CHUNK, SHORT, SEGMENT, RECORD, KEY_RECORD = 128, 64, 16, 64, 41984, 32768  # delta.h, delta_cuda.h
WIDTH = 4
P, I = ct.c_void_p, ct.c_int


class Shape(ct.Structure):
    _fields_ = [(n, I) for n in ("n_k_heads", "n_v_heads", "k_dim", "v_dim", "conv_width")]


class View(ct.Structure):
    _fields_ = [("base", P), ("slot_bytes", ct.c_uint64), ("offset", ct.c_uint64)]


class Step(ct.Structure):
    _fields_ = [("seqs", P), ("marks", P), ("n_seqs", I), ("chunks", P), ("long_seqs", P), ("first_chunks", P),
                ("n_chunks", I), ("n_long", I)]


class Delta(ct.Structure):
    _fields_ = [("out", P), ("qkv", P), ("ba", P), ("a_log", P), ("dt", P), ("n_tokens", I), ("shape", Shape),
                ("state", View), ("step", ct.POINTER(Step)), ("scratch", P)]


class Conv(ct.Structure):
    _fields_ = [("y", P), ("x", P), ("x_stride", I), ("w", P), ("n_tokens", I), ("shape", Shape), ("state", View),
                ("step", ct.POINTER(Step))]


class Norm(ct.Structure):
    _fields_ = [("out", P), ("x", P), ("gate", P), ("gate_stride", I), ("weight", P), ("eps", ct.c_float),
                ("n_tokens", I), ("n_heads", I), ("dim", I)]


class Launch(ct.Structure):
    _fields_ = [("stream", P), ("fp16", ct.c_bool), ("overlaps", ct.c_bool)]


def build(out):
    with tempfile.TemporaryDirectory() as work:
        jobs, objects = [], []
        for name, arch in (("conv", "90"), ("rows", "90"), ("step", "90"), ("prepare", "90"), ("scan_sm90", "90a")):
            objects.append(os.path.join(work, name + ".o"))
            jobs.append(subprocess.Popen(["nvcc", "-std=c++17", "-O3", "-lineinfo", f"-gencode=arch=compute_{arch},code=sm_{arch}",
                                          "-Xcompiler=-fPIC", "-I" + ROOT, "-c", f"{ROOT}/device/cuda/delta_{name}.cu", "-o",
                                          objects[-1]]))
        if any([job.wait() for job in jobs]):
            raise SystemExit("the kernels do not compile")
        subprocess.check_call(["nvcc", "-shared", *objects, "-o", out])


def library(path):
    lib = ct.CDLL(path)
    for name in ("conv", "delta_rows", "delta_step", "delta_prepare", "delta_scan_sm90"):
        check(getattr(lib, f"lf_cuda_{name}_setup")())
    return lib


def check(rc):
    if rc != 0:
        raise SystemExit(f"CUDA error {rc}")


class Layer:
    """One layer and a step of it: sequences of these lengths, each in a slot of its own."""

    def __init__(self, lib, heads, lengths, position=0, n_sets=1, seed=0):
        gen = torch.Generator(device="cuda").manual_seed(seed)
        draw = lambda *shape: torch.randn(*shape, device="cuda", generator=gen)
        (nk, nv), t, self.lib, self.lengths = heads, sum(lengths), lib, lengths
        self.nk, self.nv, self.t, self.c, self.n_sets = nk, nv, t, (2 * nk + nv) * DIM, n_sets
        self.x = draw(t, self.c).to(torch.bfloat16)
        self.qkv = torch.empty_like(self.x)
        for at in range(0, t, 8192):
            self.qkv[at:at + 8192] = torch.nn.functional.silu(draw(min(8192, t - at), self.c)).to(torch.bfloat16)
        self.ba, self.w = draw(t, 2 * nv), draw(self.c, WIDTH) * 0.5
        self.a_log = torch.rand(nv, device="cuda", generator=gen) * 5.5 - 3
        self.dt = torch.rand(nv, device="cuda", generator=gen) * 4 - 4
        self.z, self.norm_weight = draw(t, nv * DIM).to(torch.bfloat16), draw(DIM)
        self.out = torch.empty(t, nv * DIM, device="cuda", dtype=torch.bfloat16)
        self.y = torch.empty_like(self.x)
        s_bytes = nv * DIM * DIM * 4
        self.slot_bytes = -(-(s_bytes + (WIDTH - 1) * self.c * 2) // 256) * 256
        self.slots = torch.zeros(n_sets * len(lengths) * self.slot_bytes // 4, device="cuda")
        self.scratch = torch.empty(SEGMENT * (nv * RECORD + nk * KEY_RECORD) if max(lengths) > SHORT else 256, device="cuda", dtype=torch.uint8)
        seqs, chunks, longs, firsts, at = [], [], [], [0], 0
        for i, n in enumerate(lengths):
            seqs += [at, n, position, -1 if position == 0 else i, i, 0, 0]
            if n > SHORT:
                longs.append(i)
                for first in range(0, n, CHUNK):
                    chunks += [i, at + first, min(CHUNK, n - first)]
                firsts.append(len(chunks) // 3)
            at += n
        ints = lambda values: torch.tensor(values or [0], dtype=torch.int32, device="cuda")
        self.lists = [ints(x) for x in (seqs, [], chunks, longs, firsts)]
        address = [x.data_ptr() for x in self.lists]
        self.step = Step(address[0], address[1], len(lengths), *address[2:], len(chunks) // 3, len(longs))
        self.shape = Shape(nk, nv, DIM, DIM, WIDTH)

    def view(self, i):
        return View(self.slots.data_ptr() + i % self.n_sets * len(self.lengths) * self.slot_bytes, self.slot_bytes, 0)

    def launch(self, overlaps=True):
        return Launch(torch.cuda.current_stream().cuda_stream, False, overlaps)

    def conv(self, i=0):
        p = Conv(self.y.data_ptr(), self.x.data_ptr(), self.c, self.w.data_ptr(), self.t, self.shape, self.view(i), ct.pointer(self.step))
        check(self.lib.lf_cuda_conv(ct.byref(p), self.launch()))

    def gated_norm(self, i=0):
        p = Norm(self.out.data_ptr(), self.out.data_ptr(), self.z.data_ptr(), self.nv * DIM, self.norm_weight.data_ptr(), 1e-6,
                 self.t, self.nv, DIM)
        check(self.lib.lf_cuda_gated_norm(ct.byref(p), self.launch()))

    def params(self, i=0):
        return Delta(self.out.data_ptr(), self.qkv.data_ptr(), self.ba.data_ptr(), self.a_log.data_ptr(), self.dt.data_ptr(), self.t,
                     self.shape, self.view(i), ct.pointer(self.step), self.scratch.data_ptr())

    def delta(self, i=0, parts=("step", "prepare", "scan_sm90"), segment=SEGMENT):
        p, how = self.params(i), self.launch()
        if self.step.n_seqs > self.step.n_long and "step" in parts:
            check(self.lib.lf_cuda_delta_step(ct.byref(p), SHORT, how))
        for first in range(0, self.step.n_chunks, segment):
            n = min(self.step.n_chunks - first, segment)
            for name in ("prepare", "scan_sm90"):
                if name in parts:
                    check(getattr(self.lib, "lf_cuda_delta_" + name)(ct.byref(p), first, n, how))

    def state(self, i):
        at = i * self.slot_bytes // 4
        return self.slots[at:at + self.nv * DIM * DIM].view(self.nv, DIM, DIM)

    # ---- what others take ----

    def heads(self):
        n = self.nk * DIM
        return (self.qkv[:, :n].view(1, self.t, self.nk, DIM), self.qkv[:, n:2 * n].view(1, self.t, self.nk, DIM),
                self.qkv[:, 2 * n:].view(1, self.t, self.nv, DIM))

    def gates(self, dtype):
        ba = self.ba.to(dtype)
        beta = torch.sigmoid(ba[:, :self.nv])
        g = -torch.exp(self.a_log.to(dtype)) * torch.nn.functional.softplus(ba[:, self.nv:] + self.dt.to(dtype))
        return g, beta


def median_us(call, rounds=15, calls=1):
    for i in range(3):
        call(i)
    times = []
    for r in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for i in range(calls):
            call(r * calls + i)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times)


def graph_us(call, n_calls, rounds=15):
    """Of one of n_calls calls in a replayed graph."""
    call(0)
    torch.cuda.synchronize()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):
            call(i)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for i in range(n_calls):
            call(i)
    return median_us(lambda i: graph.replay(), rounds) / n_calls


def reference(layer):
    """Outputs and state in float64, token by token."""
    q, k, v = (x[0].double() for x in layer.heads())
    group = layer.nv // layer.nk
    q, k = (torch.repeat_interleave(x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt(), group, 1) for x in (q, k))
    g, beta = layer.gates(torch.float64)
    s, outs = torch.zeros(layer.nv, DIM, DIM, device="cuda", dtype=torch.float64), []
    for t in range(layer.t):
        s *= g[t].exp().view(-1, 1, 1)
        u = beta[t].unsqueeze(1) * (v[t] - torch.einsum("hkv,hk->hv", s, k[t]))
        s += k[t].unsqueeze(2) * u.unsqueeze(1)
        outs.append(torch.einsum("hkv,hk->hv", s, q[t]) * DIM ** -0.5)
    return torch.stack(outs), s


def error(x, expected):
    return ((x.double() - expected).norm() / expected.norm()).item()


def fla_calls(layer):
    """What runs flash-linear-attention on a layer's tensors, or None; its version."""
    try:
        import fla
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    except ImportError as e:
        print("no flash-linear-attention:", e)
        return None, ""
    return (chunk_gated_delta_rule, fused_recurrent_gated_delta_rule), fla.__version__


def compare(lib, model, row):
    layer = Layer(lib, MODELS[model], [2048], seed=1)
    layer.delta()
    torch.cuda.synchronize()
    out, state = reference(layer)
    row(model, "error", 2048, "longflash", error_out=error(layer.out.view_as(out), out), error_state=error(layer.state(0), state))
    calls, version = fla_calls(layer)
    if calls is None:
        return
    q, k, v = layer.heads()
    g, beta = (x.unsqueeze(0) for x in layer.gates(torch.float32))
    with torch.inference_mode():
        o, s = calls[0](q, k, v, g, beta.to(torch.bfloat16), output_final_state=True, use_qk_l2norm_in_kernel=True)
    row(model, "error", 2048, "fla " + version, error_out=error(o[0], out), error_state=error(s[0], state))


def prefill(lib, model, n_tokens, row, segments):
    layer = Layer(lib, MODELS[model], [n_tokens], seed=2)
    ours = median_us(lambda i: layer.delta())
    row(model, "prefill", n_tokens, "longflash", us=ours)
    for part in ("prepare", "scan_sm90"):
        row(model, "prefill", n_tokens, "longflash: " + part, us=median_us(lambda i: layer.delta(parts=(part,))))
    for segment in segments:
        layer.scratch = torch.empty(segment * (layer.nv * RECORD + layer.nk * KEY_RECORD), device="cuda", dtype=torch.uint8)
        row(model, "prefill", n_tokens, f"longflash: segments of {segment}", us=median_us(lambda i: layer.delta(segment=segment)))
    row(model, "conv", n_tokens, "longflash", us=median_us(layer.conv), gb=4e-9 * layer.t * layer.c)
    row(model, "gated norm", n_tokens, "longflash", us=median_us(layer.gated_norm), gb=6e-9 * layer.t * layer.nv * DIM)
    calls, version = fla_calls(layer)
    if calls is None:
        return
    q, k, v = (x.contiguous() for x in layer.heads())
    g, beta = (x.unsqueeze(0) for x in layer.gates(torch.float32))
    beta = beta.to(torch.bfloat16)
    with torch.inference_mode():
        theirs = median_us(lambda i: calls[0](q, k, v, g, beta, output_final_state=True, use_qk_l2norm_in_kernel=True))
    row(model, "prefill", n_tokens, "fla " + version, us=theirs, ratio=theirs / ours)
    again = median_us(lambda i: layer.delta())
    row(model, "prefill", n_tokens, "longflash, again", us=again, ratio=theirs / again)


def decode(lib, model, batch, row):
    n_sets = max(2, min(16, 256 // batch))
    layer = Layer(lib, MODELS[model], [1] * batch, position=64, n_sets=n_sets, seed=3)
    layer.slots.normal_(0, 0.1)
    n_bytes = batch * layer.nv * DIM * DIM * 8
    ours = graph_us(lambda i: layer.delta(i), 2 * n_sets)
    row(model, "decode", batch, "longflash", us=ours, gb=n_bytes * 1e-9)
    row(model, "decode conv", batch, "longflash", us=graph_us(lambda i: layer.conv(i), 2 * n_sets))
    source = torch.randn(n_sets, n_bytes // 8, device="cuda")
    target = torch.empty_like(source)
    row(model, "decode", batch, "copy", us=graph_us(lambda i: target[i % n_sets].copy_(source[i % n_sets]), 2 * n_sets), gb=n_bytes * 1e-9)
    del source, target
    calls, version = fla_calls(layer)
    if calls is None:
        return
    q, k, v = (x.view(batch, 1, x.shape[2], DIM).contiguous() for x in layer.heads())
    g, beta = (x.view(batch, 1, -1) for x in layer.gates(torch.float32))
    states = torch.randn(n_sets, batch, layer.nv, DIM, DIM, device="cuda") * 0.1
    with torch.inference_mode():
        theirs = graph_us(lambda i: calls[1](q, k, v, g=g, beta=beta.to(torch.bfloat16), initial_state=states[i % n_sets],
                                             output_final_state=True, use_qk_l2norm_in_kernel=True), 2 * n_sets)
    row(model, "decode", batch, "fla " + version, us=theirs, gb=n_bytes * 1e-9, ratio=theirs / ours)


def stamp(commit):
    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(smi, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    import datetime
    return dict(date=datetime.date.today().isoformat(), gpu=gpu, driver=driver, commit=commit)


FIELDS = ["date", "gpu", "driver", "commit", "model", "what", "n", "who", "us", "gbs", "ratio", "error_out", "error_state"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--so")
    ap.add_argument("--csv")
    ap.add_argument("--commit", default="")
    ap.add_argument("--models", default=",".join(MODELS))
    ap.add_argument("--tokens", default="8192,32768,131072")
    ap.add_argument("--batches", default="1,8,32,128")
    ap.add_argument("--segments", default="", help="other numbers of chunks whose records are in the scratch at once")
    args = ap.parse_args()
    if args.build:
        build(args.build)
        return 0
    if not torch.cuda.is_available():
        print("no GPU")
        return 77
    path = args.so or os.path.join(tempfile.mkdtemp(), "delta.so")
    if not args.so:
        build(path)
    lib, first, rows = library(path), stamp(args.commit), []

    def row(model, what, n, who, us=None, gb=None, **more):
        r = dict(first, model=model, what=what, n=n, who=who, us=us and round(us, 3), gbs=gb and round(gb / us * 1e6, 1))
        r.update({k: float("%.4g" % v) for k, v in more.items()})
        rows.append(r)
        print(f"{model:16} {what:11} {n:6} {who:28}", *(f"{k}={r[k]}" for k in FIELDS[8:] if r.get(k) is not None), flush=True)
        if args.csv:
            with open(args.csv, "w", newline="") as f:
                w = csv.DictWriter(f, FIELDS, lineterminator="\n")
                w.writeheader()
                w.writerows(rows)

    numbers = lambda text: [int(x) for x in text.split(",") if x]
    for model in args.models.split(","):
        compare(lib, model, row)
        for n in numbers(args.tokens):
            prefill(lib, model, n, row, numbers(args.segments))
            torch.cuda.empty_cache()
        for n in numbers(args.batches):
            decode(lib, model, n, row)
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    if "--build" not in sys.argv:
        import torch
    sys.exit(main())
