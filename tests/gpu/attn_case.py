"""Cases for the CUDA kernels of attention: paged KV with poisoned slots, the task lists of attention/attn_map.c, calls of
the launchers, float64 references, and the tolerance of the tests. Needs torch, a GPU, and the kernels as a shared
library: LF_ATTN_SO names one, else nvcc builds it."""
import ctypes as ct
import os
import re
import subprocess
import tempfile

import torch

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PAGE = 64
FOLD_KEYS, GROUP_QUARTERS = 512, 3  # of attn_map.c
PORTABLE = ["attn_decode_mma.cu", "attn_merge.cu", "attn_prefill_mma.cu"]


def header_enums():
    text = open(os.path.join(ROOT, "attention", "attn_cuda.h")).read()
    return {m[1]: int(m[2]) for m in re.finditer(r"(LF_ATTN_\w+) = (\d+)", text)}


E = header_enums()
DEV = "cuda"


class Seq(ct.Structure):
    _fields_ = [(n, ct.c_int32) for n in ("table", "first_row", "n_rows", "kv_len")]


class Task(ct.Structure):
    _fields_ = [(n, ct.c_int32) for n in ("seq_idx", "kv_head", "row", "n_rows", "key_lo", "key_hi", "slot", "n_spans")]


class Merge(ct.Structure):
    _fields_ = [(n, ct.c_int32) for n in ("seq_idx", "kv_head", "row", "n_rows", "slot", "n_parts", "n_first", "n_group")]


class Args(ct.Structure):
    _fields_ = ([(n, ct.c_void_p) for n in ("out", "q", "lse", "sinks", "kv")] + [("n_blocks", ct.c_int64)] +
                [(n, ct.c_int32) for n in ("n_layers", "layer", "n_tokens", "n_heads", "n_kv_heads", "head_dim")] +
                [("fp16", ct.c_bool), ("scale", ct.c_float), ("softcap", ct.c_float), ("window", ct.c_int32)] +
                [(n, ct.c_void_p) for n in ("counts", "seqs", "tables", "prefill", "decode", "merge", "partial_o",
                                            "partial_ml", "fold")] +
                [(n, ct.c_int32) for n in ("max_prefill", "max_decode", "max_merge", "decode_rows", "n_sms")] +
                [("overlaps", ct.c_bool)])


def build(sources=PORTABLE, arch=None, out=None):
    arch = arch or "%d%d" % torch.cuda.get_device_capability()
    out = out or os.path.join(tempfile.mkdtemp(), "attn.so")
    objects, jobs = [], []
    for s in sources:
        objects.append(f"{out}.{s}.o")
        jobs.append(subprocess.Popen(["nvcc", "-std=c++17", "-O3", "-lineinfo", "-Xcompiler=-fPIC", "-I" + ROOT,
                                      f"-gencode=arch=compute_{arch},code=sm_{arch}", "-c",
                                      os.path.join(ROOT, "attention", s), "-o", objects[-1]]))
    if any(j.wait() for j in jobs):
        raise SystemExit("nvcc failed")
    subprocess.check_call(["nvcc", "-shared", *objects, "-o", out])
    return out


def library(path=None):
    lib = ct.CDLL(path or os.environ.get("LF_ATTN_SO") or build())
    lib.lf_attn_prefill_mma_fold_bytes.restype = lib.lf_attn_decode_mma_fold_bytes.restype = ct.c_size_t
    for setup in ("lf_attn_decode_mma_setup", "lf_attn_prefill_mma_setup", "lf_attn_merge_cuda_setup"):
        check(getattr(lib, setup)(), setup)
    return lib


def check(rc, what):
    if rc != 0:
        raise RuntimeError(f"{what}: CUDA error {rc}")


# ---- data ----


def noise(*shape, dtype, gen):
    """N(0, 1), and with probability 0.001 N(0, 10)."""
    x = torch.randn(*shape, device=DEV, generator=gen)
    rare = torch.rand(*shape, device=DEV, generator=gen) < 0.001
    return torch.where(rare, x * 10, x).to(dtype)


class Store:
    """Sequences of the given lengths in a paged cache; the last `tails` positions of each have queries. What belongs to
    no sequence is NaN. shared: the first so many blocks of all sequences are those of sequence 0."""

    def __init__(self, lengths, tails, n_heads, n_kv_heads, head_dim, dtype=torch.bfloat16, n_layers=2, layer=1, seed=0,
                 shared=0, spare=0, like_random=True):
        gen = torch.Generator(device=DEV).manual_seed(seed)
        self.h, self.hk, self.d, self.dtype, self.n_layers, self.layer = n_heads, n_kv_heads, head_dim, dtype, n_layers, layer
        n = [-(-x // PAGE) for x in lengths]
        self.n_blocks = sum(n) + spare
        order = torch.randperm(self.n_blocks, generator=torch.Generator().manual_seed(seed)).tolist()
        if spare > 2:  # sequence 0 begins in the last block: offsets past 2^31
            order.remove(self.n_blocks - 1)
            order.insert(0, self.n_blocks - 1)
        self.tables, at = [], 0
        for i, blocks in enumerate(n):
            own = order[at:at + blocks]
            if i > 0 and shared:
                own[:shared] = self.tables[0][:shared]
            self.tables.append(own)
            at += blocks
        self.kv = torch.empty(self.n_blocks, n_layers, 2, n_kv_heads, PAGE, head_dim, device=DEV, dtype=dtype)
        self.kv.view(torch.int16).fill_(-1)
        self.q, self.base, self.lengths = [], [], lengths
        for i, length in enumerate(lengths):
            first = shared * PAGE if i > 0 else 0
            x = noise(2, n_kv_heads, length - first, head_dim, dtype=dtype, gen=gen)
            for b in range(first // PAGE, n[i]):
                rows = min(PAGE, length - b * PAGE)
                part = x[:, :, b * PAGE - first:b * PAGE - first + rows]
                self.kv[self.tables[i][b], layer, :, :, :rows] = part
            self.q.append(noise(tails[i], n_heads, head_dim, dtype=dtype, gen=gen))
            self.base.append(length - tails[i])

    def dense(self, i, length):
        """K and V [n_kv_heads, length, d]."""
        blocks = torch.tensor(self.tables[i][:-(-length // PAGE)], device=DEV)
        x = self.kv[blocks, self.layer].permute(1, 2, 0, 3, 4).reshape(2, self.hk, -1, self.d)[:, :, :length]
        return x[0], x[1]

    def queries(self, i, kv_len, n_rows):
        at = kv_len - n_rows - self.base[i]
        assert at >= 0
        return self.q[i][at:at + n_rows]


# ---- task lists, as attn_map.c makes them ----


def span_length(generated, key):
    if not generated:
        return E["LF_ATTN_PREFILL_SPAN"]
    length = E["LF_ATTN_DECODE_SPAN_MIN"]
    while length < E["LF_ATTN_DECODE_SPAN_MAX"] and 2 * length <= key // E["LF_ATTN_DECODE_SPAN_SHARE"]:
        length *= 2
    return length


def span_begin(generated, key):
    return key - key % span_length(generated, key)


def span_end(generated, key):
    return span_begin(generated, key) + span_length(generated, key)


def group_length(key):
    return E["LF_ATTN_DECODE_GROUP"] * span_length(True, key)


def parts_of(generated, lo, hi, by_groups):
    """The parts, (begin, end), that a split tile of keys lo .. hi - 1 has."""
    parts, key, first_end = [], lo, group_length(hi - 1) if by_groups else 0
    while key < hi:
        end = key - key % group_length(key) + group_length(key) if by_groups else span_end(generated, key)
        parts.append((key, min(max(end, first_end), hi)))
        key = parts[-1][1]
    return parts


def task_lists(seqs, n_heads, n_kv_heads, window, n_sms, n_partial, split_prefill=None, split_decode=None):
    """seqs: (n_rows, kv_len, generated). Returns prefill and decode lists of Task, the list of Merge, and the partial rows
    used. split_decode: None as attn_map.c has it, False not at all, True into spans, "groups" into groups."""
    group, used, merge, lists = n_heads // n_kv_heads, 0, [], {}
    for generated in (True, False):
        tile_rows = E["LF_ATTN_DECODE_ROWS"] if generated else E["LF_ATTN_PREFILL_ROWS"] // group * group
        tiles = []
        for i, (n_rows, kv_len, is_generated) in enumerate(seqs):
            if is_generated != generated:
                continue
            pos0 = kv_len - n_rows
            for row in range(0, n_rows * group, tile_rows):
                n = min(tile_rows, n_rows * group - row)
                first, last = pos0 + row // group, pos0 + (row + n - 1) // group
                lo = first - window + 1 if window > 0 and first >= window else 0
                tiles.append((i, row, n, span_begin(generated, lo), last + 1))
        tiles.sort(key=lambda t: (t[3] - t[4], t[0], t[1]))
        share = sum(t[4] - t[3] for t in tiles) * n_kv_heads // n_sms
        split = len(tiles) * n_kv_heads < 2 * n_sms if split_prefill is None else split_prefill
        records = []
        for i, row, n, lo, hi in tiles:
            ways = [False] if split else []  # by groups or not, the first for which there is room
            if generated:
                by_groups = 4 * group_length(hi - 1) <= GROUP_QUARTERS * share
                ways = [True] if by_groups else [False, True]
                if split_decode is not None:
                    ways = {False: [], True: [False, True], "groups": [True]}[split_decode]
                elif hi - lo <= share + FOLD_KEYS:
                    ways = []
            slot, spans, by_groups = -1, [(lo, hi)], False
            for by_groups in ways:
                parts = parts_of(generated, lo, hi, by_groups)
                if len(parts) > 1 and used + n_kv_heads * len(parts) * n <= n_partial:
                    slot, spans = used, parts
                    used += n_kv_heads * len(parts) * n
                    grouped = generated and not by_groups
                    missing = lo % group_length(lo) // span_length(True, lo) if grouped else 0
                    n_group = E["LF_ATTN_DECODE_GROUP"] if grouped else 1
                    merge += [Merge(i, head, row, n, slot + head * len(parts) * n, len(parts), n_group - missing, n_group)
                              for head in range(n_kv_heads)]
                    break
            records.append((i, row, n, lo, hi, spans, slot, by_groups))
        tasks = []
        for head in range(n_kv_heads):
            for i, row, n, lo, hi, spans, slot, _ in records:
                if slot < 0:
                    tasks.append(Task(i, head, row, n, lo, hi, -1, 1))
                for s, (a, b) in enumerate(spans if slot >= 0 else ()):
                    tasks.append(Task(i, head, row, n, a, b, slot + (head * len(spans) + s) * n, 1))
        if generated:  # sequence by sequence, the first of groups and then the last parts first, heads and tiles side by side
            place = {r[0]: k for k, r in reversed(list(enumerate(records)))}
            begins = {r[6] + head * len(r[5]) * r[2] for r in records for head in range(n_kv_heads) if r[6] >= 0 and r[7]}
            tasks.sort(key=lambda t: (place[t.seq_idx], t.slot >= 0, t.slot not in begins, -t.key_lo, t.kv_head, t.row))
        lists[generated] = tasks
    return lists[False], lists[True], merge, used


def to_device(items, kind):
    data = b"".join(bytes(x) for x in items) or bytes(ct.sizeof(kind))
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).to(DEV)


# ---- a step ----


class Step:
    """One call over a store: entries are (sequence, n_rows, kv_len, generated)."""

    def __init__(self, lib, store, entries, window=0, softcap=0.0, sinks=None, overlaps=False, n_sms=None, n_partial=None,
                 split_prefill=None, split_decode=None, recorded=False, out=None):
        self.lib, self.store, self.entries = lib, store, entries
        self.window, self.softcap, self.sinks = window, softcap, sinks
        self.scale = store.d ** -0.5
        n_sms = n_sms or torch.cuda.get_device_properties(0).multi_processor_count
        n_partial = 5 * n_sms * E["LF_ATTN_PREFILL_ROWS"] if n_partial is None else n_partial
        seqs, tables, at = [], [], 0
        for i, n_rows, kv_len, _ in entries:
            seqs.append(Seq(len(tables), at, n_rows, kv_len))
            tables += store.tables[i][:-(-kv_len // PAGE)]
            at += n_rows
        prefill, decode, merge, used = task_lists([e[1:] for e in entries], store.h, store.hk, window, n_sms, n_partial,
                                                  split_prefill, split_decode)
        self.n_rows = at
        self.q = torch.cat([store.queries(i, kv_len, n) for i, n, kv_len, _ in entries])
        self.out = torch.empty(at, store.h, store.d, device=DEV, dtype=store.dtype)
        self.lse = torch.empty(at, store.h, device=DEV)
        self.partial_o = torch.full((max(used, 1), store.d), float("nan"), device=DEV)
        self.partial_ml = torch.full((max(used, 1), 2), float("nan"), device=DEV)
        fold = max(f(store.d, n_sms) for f in (lib.lf_attn_prefill_mma_fold_bytes, lib.lf_attn_decode_mma_fold_bytes))
        self.fold = torch.empty(fold, device=DEV, dtype=torch.uint8)
        self.counts = torch.tensor([len(prefill), len(decode), len(merge), len(seqs)], device=DEV, dtype=torch.int32)
        self.tables = torch.tensor(tables, device=DEV, dtype=torch.int32)
        self.seqs, self.prefill = to_device(seqs, Seq), to_device(prefill, Task)
        self.decode, self.merge = to_device(decode, Task), to_device(merge, Merge)
        n = [len(prefill), len(decode), len(merge)]
        if recorded:  # as in a graph: ceilings far above what there is
            n = [n[0], n[1] + 5000, n[2] + 5000]
        rows = max((t.n_rows for t in decode), default=0)
        p = lambda x: x.data_ptr() if x is not None else None
        self.args = Args(p(self.out), p(self.q), p(self.lse), p(sinks), p(store.kv), store.n_blocks, store.n_layers,
                         store.layer, at, store.h, store.hk, store.d, store.dtype == torch.float16, self.scale, softcap,
                         window, p(self.counts), p(self.seqs), p(self.tables), p(self.prefill), p(self.decode),
                         p(self.merge), p(self.partial_o), p(self.partial_ml), p(self.fold), *n, rows, n_sms, overlaps)

    def poison(self):
        self.out.view(torch.int16).fill_(-1)
        self.lse.fill_(float("nan"))

    def launch(self):
        stream = ct.c_void_p(torch.cuda.current_stream().cuda_stream)
        a = ct.byref(self.args)
        for n, name in ((self.args.max_prefill, "lf_attn_prefill_mma"), (self.args.max_decode, "lf_attn_decode_mma"),
                        (self.args.max_merge, "lf_attn_merge_cuda")):
            if n:
                check(getattr(self.lib, name)(a, stream), name)

    def run(self):
        self.poison()
        self.launch()
        torch.cuda.synchronize()
        return self.out, self.lse

    def rows_of(self, e):
        at = sum(x[1] for x in self.entries[:e])
        return slice(at, at + self.entries[e][1])


# ---- references ----


def scores_mask(pos, length, window):
    key = torch.arange(length, device=DEV)
    sees = key[None] <= pos[:, None]
    return sees & (key[None] > pos[:, None] - window) if window else sees


def exact(step, e, rows=None):
    """float64 output and lse of an entry (of some of its rows), and the output of an unfused computation in the type
    itself: scores and weights rounded to it."""
    i, n, kv_len, _ = step.entries[e]
    st = step.store
    rows = torch.arange(n, device=DEV) if rows is None else rows
    q = st.queries(i, kv_len, n)[rows]
    k, v = st.dense(i, kv_len)
    group = st.h // st.hk
    mask = scores_mask(kv_len - n + rows, kv_len, step.window)[None]
    outs, lses, naives = [], [], []
    for head in range(st.h):
        kh, vh = k[head // group], v[head // group]
        s = (q[:, head].double() @ kh.double().T) * step.scale
        low = (q[:, head] @ kh.T) * step.scale
        if step.softcap:
            s = step.softcap * torch.tanh(s / step.softcap)
            low = step.softcap * torch.tanh(low / step.softcap)
        s = s.masked_fill(~mask[0], float("-inf"))
        low = low.masked_fill(~mask[0], float("-inf"))
        lse = torch.logsumexp(s, -1)
        den, low_den = lse, torch.logsumexp(low.float(), -1)
        if step.sinks is not None:
            den = torch.logaddexp(lse, step.sinks[head].double())
            low_den = torch.logaddexp(low_den, step.sinks[head])
        outs.append(torch.exp(s - den[:, None]) @ vh.double())
        naives.append((torch.exp(low.float() - low_den[:, None]).to(st.dtype) @ vh).double())
        lses.append(lse)
    return torch.stack(outs, 1), torch.stack(lses, 1), torch.stack(naives, 1)


def errors(out, ref, naive, dtype):
    """Whether out is within 2 × the error of the unfused computation + 2 ulp; the figures."""
    ulp = 2.0 ** (-8 if dtype == torch.bfloat16 else -11)
    out = out.double()
    worst, allowed = (out - ref).abs().max().item(), 2 * (naive - ref).abs().max().item() + 2 * ulp * ref.abs().max().item()
    norm = ref.norm().item()
    rel, rel_allowed = (out - ref).norm().item() / norm, 2 * (naive - ref).norm().item() / norm + ulp
    cosine = (out.flatten() @ ref.flatten() / out.norm() / ref.norm()).item()
    ok = worst <= allowed and rel <= rel_allowed and cosine > 0.9999  # NaN fails each
    return ok, f"max {worst:.2e} of {allowed:.2e}, frobenius {rel:.2e} of {rel_allowed:.2e}, cosine {cosine:.7f}"


def check_step(step, sample=0, verbose=False, what=""):
    """Runs the step and compares every entry; raises with the figures."""
    out, lse = step.run()
    for e, (i, n, kv_len, generated) in enumerate(step.entries):
        rows = None
        if sample and n > sample:
            rows = torch.cat([torch.tensor([0, n - 1]), torch.randint(0, n, (sample,))]).to(DEV)
        ref, ref_lse, naive = exact(step, e, rows)
        got, got_lse = out[step.rows_of(e)], lse[step.rows_of(e)]
        if rows is not None:
            got, got_lse = got[rows], got_lse[rows]
        if not torch.isfinite(out[step.rows_of(e)].float()).all():
            raise AssertionError(f"{what} entry {e} {step.entries[e]}: output that is not finite")
        ok, figures = errors(got, ref, naive, step.store.dtype)
        lse_err = (got_lse.double() - ref_lse).abs().max().item()
        lse_ok = lse_err <= 2e-3 + 1e-5 * ref_lse.abs().max().item()
        if verbose or not (ok and lse_ok):
            print(f"{what} entry {e} {step.entries[e]}: {figures}, lse {lse_err:.1e}", flush=True)
        if not (ok and lse_ok):
            raise AssertionError(f"{what} entry {e} {step.entries[e]}: {figures}, lse {lse_err:.1e}")


def same_bits(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
