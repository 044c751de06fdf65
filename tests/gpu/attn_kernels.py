"""Attention's CUDA kernels, called as attention/cuda/attn_cuda.h says, on torch's memory: what the GPU tests and benches share.

build() compiles the kernels and the host's attn_map.c into one shared library; a Store is a paged cache of random sequences
with their queries; a Step is one call over rows of it, with the lists that attn_map.c makes; a LateStep one whose own
tokens are written when it has already started. Structures, constants and task lists are attn_lists.py's. Where there is no
GPU a Step can be made, not launched.

    python3 tests/gpu/attn_kernels.py attn.so [SM]     builds, for LF_ATTN_SO; SM: 90 and the like, else this GPU's
"""
import ctypes as ct
import datetime
import os
import shutil
import subprocess
import sys
import tempfile

import torch

from attn_lists import HOST, ROOT, E, S, check, task_lists

PORTABLE = ["attention/cuda/attn_prefill_mma.cu", "attention/cuda/attn_decode_mma.cu", "attention/cuda/attn_decode_fp8.cu",
            "attention/cuda/attn_wide.cu", "attention/cuda/attn_combine_decode.cu", "attention/cuda/attn_combine_prefill.cu",
            "attention/cuda/attn_expand.cu"]
TESTS = ["tests/gpu/attn_late.cu"]
HOPPER = ["attention/cuda/attn_prefill_sm90.cu"]
DEV = "cuda" if torch.cuda.is_available() else "cpu"
BEHIND = 5         # rows of the tensors behind the step's, which nobody may touch


PAGE = E["LF_KV_BLOCK_TOKENS"]
SCRATCH_KERNELS = ("prefill_sm90", "prefill_mma", "decode_mma", "wide")  # who may want a `scratch`


def build(out=None, sm=None):
    """Compiles everything for GPUs of compute capability sm ("90"); returns the library's path."""
    sm = sm or "%d%d" % torch.cuda.get_device_capability()
    out = out or os.path.join(tempfile.mkdtemp(), "attn.so")
    with tempfile.TemporaryDirectory() as work:
        jobs, objects = [], []
        for src in PORTABLE + TESTS + (HOPPER if sm == "90" else []) + HOST:
            objects.append(os.path.join(work, os.path.basename(src) + ".o"))
            arch = sm + "a" if src in HOPPER else sm
            gpu = f"-gencode=arch=compute_{arch},code=sm_{arch}"
            how = ["gcc", "-std=c11", "-O2", "-fPIC", "-D_GNU_SOURCE"]
            if src.endswith(".cu"):
                how = ["nvcc", "-std=c++17", "-O3", "-lineinfo", gpu, "-Xcompiler=-fPIC"]
            jobs.append(subprocess.Popen([*how, "-I" + ROOT, "-c", os.path.join(ROOT, src), "-o", objects[-1]]))
        if any([job.wait() for job in jobs]):
            raise SystemExit("attention's kernels do not compile")
        subprocess.check_call(["nvcc", "-shared", "-Xlinker=-z,defs", *objects, "-o", out])
    return out


def library(path=None):
    """The kernels, ready to launch: of `path`, or of what LF_ATTN_SO names, or built."""
    lib = ct.CDLL(path or os.environ.get("LF_ATTN_SO") or build())
    for name in ("prefill_mma", "decode_mma", "decode_fp8", "expand", "wide", "combine_decode", "prefill_sm90"):
        is_for_this = name != "prefill_sm90" or DEV == "cuda" and torch.cuda.get_device_capability() == (9, 0)
        if DEV == "cuda" and is_for_this and has(lib, name + "_setup"):
            check(launcher(lib, name + "_setup")(), name + "_setup")
    return lib


def has(lib, name):
    return hasattr(lib, "lf_attn_" + name)


def launcher(lib, name):
    return getattr(lib, "lf_attn_" + name)


def scratch_bytes(lib, head_dim, n_sms):
    """What the greediest of the kernels wants."""
    most = 0
    for name in (x + "_scratch_bytes" for x in SCRATCH_KERNELS if has(lib, x + "_scratch_bytes")):
        launcher(lib, name).restype = ct.c_size_t
        most = max(most, launcher(lib, name)(head_dim, n_sms))
    return most


def supports(lib, kernel, head_dim):
    if not has(lib, kernel):
        raise SystemExit(f"the library has no {kernel}: was it built for another GPU?")
    return takes(lib, kernel, head_dim)


def takes(lib, name, head_dim):
    f = launcher(lib, name + "_supports")
    f.restype = ct.c_bool
    return f(head_dim)


def n_sms_here():
    return torch.cuda.get_device_properties(0).multi_processor_count if DEV == "cuda" else 132


def stamp(commit="", **more):
    """Date, GPU, driver, what else, and commit (else LF_COMMIT, or what git says): the first columns of a CSV."""
    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(smi, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    commit = commit or os.environ.get("LF_COMMIT", "")
    if not commit and shutil.which("git"):
        git = ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    return dict(date=datetime.date.today().isoformat(), gpu=gpu, driver=driver, **more, commit=commit)


# ---- data ----


def noise(*shape, dtype, gen):
    """N(0, 1), and with probability 0.001 N(0, 10)."""
    x = torch.randn(*shape, device=DEV, generator=gen)
    rare = torch.rand(*shape, device=DEV, generator=gen) < 0.001
    return torch.where(rare, x * 10, x).to(dtype)


class Store:
    """Sequences of the given lengths in shuffled blocks of a paged cache, in one layer; what belongs to no sequence is NaN.
    The last tails[i] positions of sequence i have queries (all of them if not given).

    first_block: where the cache's used part begins; the last block is the first of sequence 0. shared: {i: n}, sequence i
    begins with the first n blocks of sequence 0. plain: N(0, 1) in every slot of every layer, for timing. fp8: an FP8 cache,
    in `pages`; kv is then what its codes say."""

    def __init__(self, lengths, tails, n_heads, n_kv_heads, head_dim, dtype=torch.bfloat16, n_layers=2, layer=1, seed=0,
                 first_block=0, shared=None, plain=False, fp8=False):
        gen = torch.Generator(device=DEV).manual_seed(seed)
        self.h, self.hk, self.d, self.dtype, self.n_layers, self.layer = n_heads, n_kv_heads, head_dim, dtype, n_layers, layer
        self.lengths, tails = lengths, tails or lengths
        n = [-(-x // PAGE) for x in lengths]
        n_used = sum(n) + (0 if plain else 2)
        self.n_blocks = first_block + n_used
        ids = (torch.randperm(n_used, generator=torch.Generator().manual_seed(seed)) + first_block).tolist()
        ids.remove(self.n_blocks - 1)
        ids.insert(0, self.n_blocks - 1)
        self.tables = [ids[sum(n[:i]):sum(n[:i + 1])] for i in range(len(n))]
        for i, n_shared in (shared or {}).items():
            self.tables[i][:n_shared] = self.tables[0][:n_shared]
        self.kv = torch.empty(self.n_blocks, n_layers, 2, n_kv_heads, PAGE, head_dim, device=DEV, dtype=dtype)
        if plain:
            self.kv.normal_(generator=gen)
        else:
            self.kv.view(torch.int16).fill_(-1)
            for i, length in enumerate(lengths):
                self._fill(i, length, (shared or {}).get(i, 0), gen)
        self.pages = None
        if fp8:
            self._quantize()
        draw = (lambda *shape: torch.randn(*shape, device=DEV, generator=gen).to(dtype)) if plain else (
            lambda *shape: noise(*shape, dtype=dtype, gen=gen))
        self.q = [draw(t, n_heads, head_dim) for t in tails]
        self.base = [length - t for length, t in zip(lengths, tails)]

    def _fill(self, i, length, n_shared, gen):
        blocks = torch.tensor(self.tables[i][n_shared:], device=DEV)
        x = torch.full((2, self.hk, len(blocks) * PAGE, self.d), float("nan"), device=DEV, dtype=self.dtype)
        own = length - n_shared * PAGE
        x[:, :, :own] = noise(2, self.hk, own, self.d, dtype=self.dtype, gen=gen)
        self.kv[blocks, self.layer] = x.view(2, self.hk, -1, PAGE, self.d).permute(2, 0, 1, 3, 4)

    def _quantize(self):
        """As kv/kv_fp8.h: codes of a page, then a byte a token."""
        bias, n_scales = 127, -(-self.d // 256)
        self.pages = torch.full((*self.kv.shape[:4], PAGE * (self.d + n_scales)), 0xff, device=DEV, dtype=torch.uint8)
        for x, to in zip(self.kv, self.pages):  # a block at a time
            most = x.float().abs().nan_to_num(0.0).amax(-1)
            mantissa, e = torch.frexp(most)
            e = torch.where(most > 0, e - 9 + (mantissa > 0.875), -100).clamp(-100, 120)
            codes = (x.float() * torch.exp2(-e.float())[..., None]).to(torch.float8_e4m3fn)
            to[..., :PAGE * self.d] = codes.view(torch.uint8).flatten(-2)
            to[..., PAGE * self.d:PAGE * (self.d + 1)] = torch.where(x[..., 0].isnan(), 0xff, e + bias).to(torch.uint8)
            x.copy_(codes.float() * torch.exp2(e.float())[..., None])

    def steepen(self, most):
        """Scales keys by `most` at a sequence's start, falling to 1 at its end: maxima grow from tile to tile."""
        for table in self.tables:
            blocks = torch.tensor(table, device=DEV)
            factors = 1 + (most - 1) * (1 - torch.arange(len(table), device=DEV) / len(table))
            keys = self.kv[blocks, self.layer, 0]
            self.kv[blocks, self.layer, 0] = (keys * factors.view(-1, 1, 1, 1)).to(self.dtype)

    def dense(self, i, length):
        """K and V [n_kv_heads, length, d]."""
        blocks = torch.tensor(self.tables[i][:-(-length // PAGE)], device=DEV)
        x = self.kv[blocks, self.layer].permute(1, 2, 0, 3, 4).reshape(2, self.hk, -1, self.d)[:, :, :length]
        return x[0], x[1]

    def queries(self, i, kv_len, n_rows):
        at = kv_len - n_rows - self.base[i]
        assert at >= 0
        return self.q[i][at:at + n_rows]


def to_device(data):
    return torch.frombuffer(bytearray(data) or bytearray(64), dtype=torch.uint8).to(DEV)


def poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, float("nan"), device=DEV, dtype=dtype)


# ---- a step ----


class Step:
    """One call over a store: entries are (sequence, n_tokens, kv_len, is_decode). n_sms, n_partial, split: see task_lists();
    recorded: with ceilings far above the lists, as in a graph; prefill: which kernel takes the prefill tokens, where that
    for wide heads does not take all."""

    def __init__(self, lib, store, entries, window=0, softcap=0.0, sinks=None, lse=True, overlaps=False, n_sms=None,
                 n_partial=None, split=None, recorded=False, prefill="prefill_mma"):
        self.lib, self.store, self.entries = lib, store, entries
        self.window, self.softcap, self.sinks = window, softcap, sinks
        wide = takes(lib, "wide", store.d)
        narrow = "decode_mma" if store.pages is None else "decode_fp8"
        self.prefill_kernel, self.decode_kernel = ("prefill_wide", "decode_wide") if wide else (prefill, narrow)
        self.scale = store.d ** -0.5
        n_sms = n_sms or n_sms_here()
        lists = task_lists(lib, store, entries, window, n_sms, n_partial, split)
        self.n_rows = sum(e[1] for e in entries)
        n = self.n_rows + BEHIND
        self.q_room, self.out_room = (poisoned(n, store.h, store.d, dtype=store.dtype) for _ in range(2))
        self.lse_room = poisoned(n, store.h) if lse else None
        torch.cat([store.queries(i, kv_len, n_rows) for i, n_rows, kv_len, _ in entries], out=self.q_room[:self.n_rows])
        self.out, self.lse = self.out_room[:self.n_rows], self.lse_room[:self.n_rows] if lse else None
        self.partial_o, self.partial_ml = poisoned(max(lists.n_partial, 1), store.d), poisoned(max(lists.n_partial, 1), 2)
        self.scratch = poisoned(-(-scratch_bytes(lib, store.d, n_sms) // 4))
        self.scratch[:E["LF_ATTN_SCRATCH_HEAD"] // 4] = 0
        self.counts, self.seqs, self.tables, self.prefill, self.decode, self.combine = (
            to_device(x) for x in (lists.counts, lists.seqs, lists.tables, lists.prefill, lists.decode, lists.combine))
        more = 5000 if recorded else 0
        n_combine = lists.counts.n_combine
        values = dict(
            out=self.out_room, q=self.q_room, lse=self.lse_room, sinks=sinks,
            kv=store.kv if store.pages is None else store.pages, n_blocks=store.n_blocks,
            fp8_page_bytes=0 if store.pages is None else store.pages.shape[-1],
            block_pages=store.n_layers * 2 * store.hk, layer=store.layer, n_tokens=n, n_heads=store.h, n_kv_heads=store.hk, head_dim=store.d,
            fp16=store.dtype == torch.float16, scale=self.scale, softcap=softcap, window=window, counts=self.counts,
            seqs=self.seqs, tables=self.tables, prefill=self.prefill, decode=self.decode, combine=self.combine,
            partial_o=self.partial_o, partial_ml=self.partial_ml, scratch=self.scratch, max_prefill=len(lists.prefill),
            max_decode=len(lists.decode) + more, max_combine=n_combine + more,
            combine_prefill=self.combine.data_ptr() + n_combine * ct.sizeof(S["attn_cuda_combine"]),
            n_combine_prefill=lists.n_combine_prefill, n_sms=n_sms, overlaps=overlaps,
            decode_rows=max((t.n_rows for t in lists.decode), default=0), all_combine_rows=self.n_rows * store.h)
        self.args = S["attn_cuda_args"](**{k: x.data_ptr() if torch.is_tensor(x) else x for k, x in values.items()})

    def poison(self):
        self.out_room.view(torch.int16).fill_(-1)
        if self.lse is not None:
            self.lse_room.fill_(float("nan"))

    def launch(self):
        stream, args = ct.c_void_p(torch.cuda.current_stream().cuda_stream), ct.byref(self.args)
        for n, name in ((self.args.max_prefill, self.prefill_kernel), (self.args.max_decode, self.decode_kernel),
                        (self.args.n_combine_prefill, "combine_prefill"), (self.args.max_combine, "combine_decode")):
            if n:
                check(launcher(self.lib, name)(args, stream), name)

    def run(self):
        """Output [n_rows, n_heads, d] and lse [n_rows, n_heads]."""
        self.poison()
        self.launch()
        torch.cuda.synchronize()
        return self.out, self.lse

    def slots(self):
        """Block and slot of each row's token."""
        slots = [(self.store.tables[i][pos // PAGE], pos % PAGE)
                  for i, n_rows, kv_len, _ in self.entries for pos in range(kv_len - n_rows, kv_len)]
        return torch.tensor(slots, device=DEV).unbind(1)

    def rows_of(self, e):
        at = sum(x[1] for x in self.entries[:e])
        return slice(at, at + self.entries[e][1])

    def flops(self):
        """Of the pairs that are not masked."""
        pairs = 0
        for _, n, kv_len, _ in self.entries:
            if self.window:
                pairs += sum(min(self.window, i + 1) for i in range(kv_len - n, kv_len))
            else:
                pairs += n * (kv_len - n) + n * (n + 1) / 2
        return 4 * self.store.d * self.store.h * pairs


class LateStep(Step):
    """A step of decode tokens that may start before its predecessor is complete, behind one that writes its queries, keys
    and values late; until then they are NaN. `early` is what there was of output and partial rows just before that."""

    WAIT = 300000  # cycles: longer than a launch takes, and what a kernel does ahead of its predecessor

    def __init__(self, lib, store, entries, **more):
        super().__init__(lib, store, entries, overlaps=True, **more)
        self.queries = self.q_room.clone()
        self.written = [x for x in (self.out_room, self.lse_room, self.partial_o, self.partial_ml) if x is not None]
        self.early = [torch.empty_like(x) for x in self.written]
        self.cache = (store.kv if store.pages is None else store.pages).view(torch.uint8).view(-1)
        rows, n_bytes, scales = self.late_bytes()
        spread = rows[:, None] + torch.arange(n_bytes, device=DEV)
        self.late = torch.cat([spread.flatten(), scales])
        words = (scales // 4 * 4).unique()[:, None] + torch.arange(4, device=DEV)  # with other tokens' scales, unchanged
        self.saved = [self.cache[x] for x in (spread, words)]
        copies = [(self.cache.data_ptr() + at, new.data_ptr() + i * n, n // 4)
                  for new, x, n in zip(self.saved, (spread, words), (n_bytes, 4)) for i, at in enumerate(x[:, 0].tolist())]
        copies += [(x.data_ptr(), y.data_ptr(), x.numel() * x.element_size() // 4)
                   for x, y in ((self.q_room, self.queries), *zip(self.early, self.written))]
        self.copies = torch.tensor(copies, device=DEV)

    def late_bytes(self):
        """Of the step's tokens in the cache: where the rows of heads are, bytes of a row; where the scales are, of FP8."""
        st, (blocks, slots) = self.store, self.slots()
        page_bytes = len(self.cache) // (st.n_blocks * st.n_layers * 2 * st.hk)
        heads = (blocks[:, None] * st.n_layers + st.layer) * 2 * st.hk + torch.arange(2 * st.hk, device=DEV)
        row_bytes, slots = st.d * (2 if st.pages is None else 1), slots[:, None]
        rows, scales = heads * page_bytes + slots * row_bytes, heads * page_bytes + PAGE * st.d + slots
        return rows.flatten(), row_bytes, scales.flatten()[:0 if st.pages is None else None]

    def launch(self):
        self.cache[self.late] = 0xff  # NaN
        for x in (self.q_room, *self.written):
            x.fill_(float("nan"))
        stream = ct.c_void_p(torch.cuda.current_stream().cuda_stream)
        copies = ct.c_void_p(self.copies.data_ptr())
        check(launcher(self.lib, "late_copies")(copies, len(self.copies), ct.c_int64(self.WAIT), stream), "late_copies")
        super().launch()


if __name__ == "__main__":
    print(build(*sys.argv[1:]))
