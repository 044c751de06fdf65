"""Attention's CUDA kernels, called as attn_cuda.h says, on torch's memory: what the GPU tests and benches share.

build() compiles the kernels and the host's task map into one shared library; a Pool is a paged cache of random sequences
with their queries; a Step is a set of rows of it in one call, planned by attn_map.c.
"""
import ctypes as C
import math
import os
import subprocess
import sys

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = 64
CUDA_SOURCES = ["attention/attn_prefill_sm90.cu", "attention/attn_prefill_mma.cu",
                "attention/attn_decode_mma.cu", "attention/attn_merge.cu"]
C_SOURCES = ["attention/attn_map.c", "core/sort.c", "core/status.c", "core/check.c", "core/log.c", "core/clock.c"]


def build(out, flags=()):
    """Compiles what the tree has of the kernels into `out`; returns its path."""
    work = out + ".d"
    os.makedirs(work, exist_ok=True)
    jobs, objects = [], []
    for src in CUDA_SOURCES + C_SOURCES:
        path = os.path.join(ROOT, src)
        if not os.path.exists(path):
            continue
        obj = os.path.join(work, os.path.basename(src) + ".o")
        objects.append(obj)
        if os.path.exists(obj) and os.path.getmtime(obj) > os.path.getmtime(path) and not flags:
            continue
        if src.endswith(".cu"):
            arch = "90a" if "sm90" in src else "90"
            cmd = ["nvcc", "-O3", "-lineinfo", "-std=c++17", f"-gencode=arch=compute_{arch},code=sm_{arch}", "-Xcompiler=-fPIC",
                   *flags]
        else:
            cmd = ["gcc", "-O2", "-fPIC", "-std=c11", "-D_GNU_SOURCE"]
        jobs.append((src, subprocess.Popen(cmd + ["-I", ROOT, "-c", path, "-o", obj])))
    for src, job in jobs:
        if job.wait() != 0:
            sys.exit(f"{src} does not compile")
    subprocess.check_call(["nvcc", "-shared", "-o", out, *objects, "-lpthread"])
    return out


class Seq(C.Structure):
    _fields_ = [("table", C.c_int32), ("first_row", C.c_int32), ("n_rows", C.c_int32), ("kv_len", C.c_int32)]


class Task(C.Structure):
    _fields_ = [(n, C.c_int32) for n in ("seq_idx", "kv_head", "row", "n_rows", "key_lo", "key_hi", "slot", "n_spans")]


class Counts(C.Structure):
    _fields_ = [(n, C.c_int32) for n in ("n_prefill", "n_decode", "n_merge", "n_seqs")]


class Args(C.Structure):
    _fields_ = [("out", C.c_void_p), ("q", C.c_void_p), ("lse", C.c_void_p), ("sinks", C.c_void_p), ("kv", C.c_void_p),
                ("n_blocks", C.c_int64), ("n_layers", C.c_int32), ("layer", C.c_int32), ("n_tokens", C.c_int32),
                ("n_heads", C.c_int32), ("n_kv_heads", C.c_int32), ("head_dim", C.c_int32), ("fp16", C.c_bool),
                ("scale", C.c_float), ("softcap", C.c_float), ("window", C.c_int32), ("counts", C.c_void_p),
                ("seqs", C.c_void_p), ("tables", C.c_void_p), ("prefill", C.c_void_p), ("decode", C.c_void_p),
                ("merge", C.c_void_p), ("partial_o", C.c_void_p), ("partial_ml", C.c_void_p), ("fold", C.c_void_p),
                ("max_prefill", C.c_int32), ("max_decode", C.c_int32), ("max_merge", C.c_int32),
                ("decode_rows", C.c_int32), ("n_sms", C.c_int32), ("overlaps", C.c_bool)]


class KvSeq(C.Structure):
    _fields_ = [("blocks", C.POINTER(C.c_int32)), ("first_row", C.c_int), ("n_rows", C.c_int), ("kv_len", C.c_int),
                ("generated", C.c_bool)]


class Shape(C.Structure):
    _fields_ = [("n_heads", C.c_int), ("n_kv_heads", C.c_int), ("head_dim", C.c_int), ("kv_dtype", C.c_int),
                ("max_rows", C.c_int), ("max_seqs", C.c_int), ("max_kv_len", C.c_int)]


class Map(C.Structure):
    _fields_ = [("cap_seqs", C.c_int), ("cap_tables", C.c_int), ("cap_prefill", C.c_int), ("cap_decode", C.c_int),
                ("cap_merge", C.c_int), ("cap_partial_rows", C.c_int), ("n_heads", C.c_int), ("n_kv_heads", C.c_int),
                ("n_sms", C.c_int), ("counts", Counts), ("seqs", C.POINTER(Seq)), ("tables", C.POINTER(C.c_int32)),
                ("n_tables", C.c_int), ("prefill", C.POINTER(Task)), ("decode", C.POINTER(Task)),
                ("merge", C.POINTER(Task)), ("tiles", C.c_void_p), ("n_tiles_max", C.c_int)]


def load(path):
    lib = C.CDLL(path)
    lib.lf_attn_prefill_fold_bytes.restype = C.c_size_t
    for name in ("prefill_sm90", "prefill_mma", "decode_mma"):
        if hasattr(lib, "lf_attn_%s_setup" % name):
            status = getattr(lib, "lf_attn_%s_setup" % name)()
            assert status == 0, (name, status)
    return lib


def n_sms():
    return torch.cuda.get_device_properties(0).multi_processor_count


def random_values(shape, dtype, outliers=True):
    """N(0,1); one in a thousand N(0,10)."""
    x = torch.randn(shape, device="cuda", dtype=torch.float32)
    if outliers:
        x = torch.where(torch.rand(shape, device="cuda") < 0.001, x * 10, x)
    return x.to(dtype)


class Pool:
    """Sequences of the given lengths in shuffled blocks of one layer among n_layers; slots behind their ends are NaN, and
    so are the blocks of nobody. `share` = (a, b, n): sequence b begins with the first n blocks of a."""

    def __init__(self, lens, n_heads, n_kv_heads, head_dim, dtype=torch.bfloat16, n_layers=2, layer=1, share=None,
                 outliers=True, first_block=0, poison=True):
        self.lens, self.n_heads, self.n_kv_heads, self.head_dim, self.dtype = lens, n_heads, n_kv_heads, head_dim, dtype
        self.n_layers, self.layer = n_layers, layer
        counts = [(n + BLOCK - 1) // BLOCK for n in lens]
        self.n_blocks = first_block + sum(counts) + (2 if poison else 0)
        ids = (torch.randperm(self.n_blocks - first_block) + first_block).int().tolist()
        self.tables = []
        for i, n in enumerate(counts):
            self.tables.append(ids[:n])
            ids = ids[n:]
            if share and share[1] == i:
                self.tables[i][:share[2]] = self.tables[share[0]][:share[2]]
        shape = (self.n_blocks, n_layers, 2, n_kv_heads, BLOCK, head_dim)
        if poison:
            self.kv = torch.full(shape, float("nan"), device="cuda", dtype=dtype)
            for t in self.tables:
                for i in range(0, len(t), 256):
                    blocks = torch.tensor(t[i:i + 256], device="cuda")
                    self.kv[blocks, layer] = random_values((len(blocks), *shape[2:]), dtype, outliers)
            for t, n in zip(self.tables, lens):
                if n % BLOCK:
                    self.kv[t[-1], layer, :, :, n % BLOCK:] = float("nan")
        else:
            self.kv = torch.empty(shape, device="cuda", dtype=dtype)
            for i in range(0, self.n_blocks, 256):
                self.kv[i:i + 256] = random_values((len(self.kv[i:i + 256]), *shape[1:]), dtype, outliers)
        self.q = [random_values((n, n_heads, head_dim), dtype, outliers) for n in lens]

    def steepen(self, most):
        """Scales keys by `most` at a sequence's start, falling to 1 at its end: maxima grow from tile to tile."""
        for t in self.tables:
            for i, block in enumerate(t):
                self.kv[block, self.layer, 0] *= 1 + (most - 1) * (1 - i / len(t))

    def keys_values(self, seq, n):
        """[n_kv_heads, n, head_dim], twice."""
        blocks = torch.tensor(self.tables[seq][:(n + BLOCK - 1) // BLOCK], device="cuda")
        x = self.kv[blocks, self.layer]
        k, v = (x[:, part].transpose(0, 1).reshape(self.n_kv_heads, -1, self.head_dim)[:, :n] for part in (0, 1))
        return k, v


class Step:
    """rows: [(sequence, first position, rows, generated)]; generated may be left out."""

    def __init__(self, lib, pool, rows, window=0, softcap=0.0, sinks=None, lse=False, capacity=0, whole=False):
        self.lib, self.pool, self.window, self.softcap, self.sinks = lib, pool, window, softcap, sinks
        self.rows = [(r if len(r) == 4 else (*r, False)) for r in rows]
        self.scale = 1 / math.sqrt(pool.head_dim)
        n_tokens = sum(r[2] for r in self.rows)
        self.n_tokens, capacity = n_tokens, max(capacity, n_tokens)
        self.q = torch.full((capacity, pool.n_heads, pool.head_dim), float("nan"), device="cuda", dtype=pool.dtype)
        torch.cat([pool.q[s][p:p + n] for s, p, n, _ in self.rows], out=self.q[:n_tokens])
        self.out = torch.full_like(self.q, float("nan"))
        self.lse = torch.full((capacity, pool.n_heads), float("nan"), device="cuda") if lse else None
        self._plan(capacity, whole)

    def _plan(self, capacity, whole):
        pool = self.pool
        shape = Shape(pool.n_heads, pool.n_kv_heads, pool.head_dim, 0, capacity, len(self.rows),
                      max(p + n for _, p, n, _ in self.rows))
        m = Map()
        err = C.create_string_buffer(4096)
        assert self.lib.lf_attn_map_init(C.byref(m), C.byref(shape), n_sms(), err) == 0
        if whole:
            m.cap_partial_rows = 0
        seqs = (KvSeq * len(self.rows))()
        first, keep = 0, []
        for i, (s, p, n, generated) in enumerate(self.rows):
            keep.append((C.c_int32 * len(pool.tables[s]))(*pool.tables[s]))
            seqs[i] = KvSeq(keep[-1], first, n, p + n, generated)
            first += n
        self.lib.lf_attn_map_build(C.byref(m), seqs, len(self.rows), self.window)
        self.n_prefill, self.n_decode, self.n_merge = m.counts.n_prefill, m.counts.n_decode, m.counts.n_merge
        self.prefill = self._upload(m.prefill, m.counts.n_prefill, 8)
        self.decode = self._upload(m.decode, m.counts.n_decode, 8)
        self.merge = self._upload(m.merge, m.counts.n_merge, 8)
        self.seqs = self._upload(m.seqs, len(self.rows), 4)
        self.tables = self._upload(m.tables, m.n_tables, 1)
        self.counts = torch.tensor([m.counts.n_prefill, m.counts.n_decode, m.counts.n_merge, len(self.rows)],
                                   dtype=torch.int32, device="cuda")
        n_partial = max(1, m.cap_partial_rows)
        nan = float("nan")
        self.partial_o = torch.full((n_partial, pool.head_dim), nan, device="cuda")
        self.partial_ml = torch.full((n_partial, 2), nan, device="cuda")
        fold_bytes = self.lib.lf_attn_prefill_fold_bytes(pool.head_dim, n_sms())
        self.fold = torch.full((fold_bytes // 4,), nan, device="cuda")
        self.fold[:64] = 0
        self.lib.lf_attn_map_deinit(C.byref(m))

    @staticmethod
    def _upload(array, n, words):
        if n == 0:
            return torch.zeros((1, words), dtype=torch.int32, device="cuda")
        flat = C.cast(array, C.POINTER(C.c_int32 * (n * words))).contents
        return torch.frombuffer(bytearray(flat), dtype=torch.int32).view(n, words).to("cuda")

    def args(self):
        pool = self.pool

        def at(t):
            return t.data_ptr() if t is not None else None

        return Args(at(self.out), at(self.q), at(self.lse), at(self.sinks), at(pool.kv), pool.n_blocks, pool.n_layers,
                    pool.layer, self.q.shape[0], pool.n_heads, pool.n_kv_heads, pool.head_dim,
                    pool.dtype == torch.float16, self.scale, self.softcap, self.window, at(self.counts), at(self.seqs),
                    at(self.tables), at(self.prefill), at(self.decode), at(self.merge), at(self.partial_o),
                    at(self.partial_ml), at(self.fold), self.n_prefill, self.n_decode, self.n_merge, 64, n_sms(),
                    True)

    def run(self, prefill="prefill_sm90", decode="decode_mma"):
        stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        if not hasattr(self, "_args"):
            self._args = self.args()
        a = C.byref(self._args)
        status = getattr(self.lib, "lf_attn_" + prefill)(a, stream) if self.n_prefill else 0
        if status == 0 and self.n_decode:
            status = getattr(self.lib, "lf_attn_" + decode)(a, stream)
        if status == 0 and self.n_merge:
            status = self.lib.lf_attn_merge_cuda(a, stream)
        assert status == 0, "launch: cudaError %d" % status

    def result(self, **kernels):
        self.run(**kernels)
        torch.cuda.synchronize()
        return self.out[:self.n_tokens]

    def flops(self):
        """Of the pairs that are not masked."""
        pairs = 0
        for _, p, n, _ in self.rows:
            if self.window:
                pairs += sum(min(self.window, i + 1) for i in range(p, p + n))
            else:
                pairs += n * p + n * (n + 1) / 2
        return 4 * self.pool.head_dim * self.pool.n_heads * pairs


def reference(step, i, positions, naive=False):
    """Rows of sequence i of the step at `positions`, in float64, [n, n_heads, head_dim], and their log-sum-exp; or, naive,
    as an unfused computation in the tensors' own type gives them."""
    pool = step.pool
    s, p, n, _ = step.rows[i]
    top = int(positions.max()) + 1
    k, v = pool.keys_values(s, top)
    q = pool.q[s][positions].view(len(positions), pool.n_kv_heads, -1, pool.head_dim).permute(1, 2, 0, 3)
    kind = pool.dtype if naive else torch.float64
    k, v, q = k.to(kind), v.to(kind), q.to(kind)
    scores = torch.matmul(q * step.scale, k.unsqueeze(1).transpose(2, 3))
    if step.softcap:
        scores = step.softcap * torch.tanh(scores / step.softcap)
    keys = torch.arange(top, device="cuda")
    seen = keys[None, :] <= positions[:, None]
    if step.window:
        seen &= keys[None, :] > positions[:, None] - step.window
    scores = scores.masked_fill(~seen, float("-inf"))
    wide = scores.to(torch.float32) if naive else scores
    lse = torch.logsumexp(wide, -1)
    total = lse
    if step.sinks is not None:
        sink = step.sinks.to(wide.dtype).view(pool.n_kv_heads, -1, 1).expand_as(lse)
        total = torch.logaddexp(lse, sink)
    weights = torch.exp(wide - total.unsqueeze(-1)).to(kind)
    out = torch.matmul(weights, v.unsqueeze(1))
    shape = (len(positions), pool.n_heads, -1)
    return out.permute(2, 0, 1, 3).reshape(shape), lse.permute(2, 0, 1).reshape(shape[:2])
