"""What the GPU tests of attention compare with: float64, an unfused computation in the tensors' own type, and bits.

A step is right where, for each of its sequences, max|out - ref| <= 2 max|unfused - ref| + 2 ulp, the relative Frobenius
error within 2 ulp and 2 × the unfused one's + 1 ulp, the cosine 0.9999 or more, lse within 1e-4 (of 1 or of itself where
that is more), and nothing behind its rows was written."""
import itertools
import math
import sys
import time
from typing import NamedTuple

import torch

import attn_kernels as c
from attn_kernels import DEV

torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
VARIANTS = [(0, 0.0, False), (64, 0.0, False), (0, 30.0, False), (4096, 0.0, True), (64, 30.0, True)]  # window, softcap, sinks


def entries_of(shapes, decode=()):
    """Entries, a sequence for each shape (n_tokens, kv_len); decode: indices of those with decode tokens."""
    return [(i, n, kv, i in decode) for i, (n, kv) in enumerate(shapes)]


def store_of(shapes, heads, d, dtype=torch.bfloat16, **more):
    return c.Store([kv for _, kv in shapes], [n for n, _ in shapes], *heads, d, dtype, **more)


def sinks_of(store):
    return torch.linspace(-2, 6, store.h, device=DEV)


# ---- float64 ----


def some_rows(n, most):
    """Up to `most` of n rows: the ends, the edges of tiles, and random ones."""
    if n <= most:
        return torch.arange(n, device=DEV)
    edges = {0, 1, 15, 16, 31, 32, 63, 64, 127, 128, n - 1, n - 2, n - 33, n // 2}
    edges |= set(torch.randint(0, n, (max(0, most - len(edges)),)).tolist())
    return torch.tensor(sorted(x for x in edges if 0 <= x < n), device=DEV)


def attend(q, k, v, step, mask, sinks, wide):
    """q [rows, group, d] of one KV head, k and v [keys, d]; scores and P in q's type, sums in `wide`."""
    rows, group, d = q.shape
    s = (q.reshape(-1, d) @ k.T).view(rows, group, -1) * step.scale
    if step.softcap:
        s = step.softcap * torch.tanh(s / step.softcap)
    s = s.masked_fill(~mask[:, None], float("-inf")).to(wide)
    lse = torch.logsumexp(s, -1)
    total = lse if sinks is None else torch.logaddexp(lse, sinks.to(wide).expand_as(lse))
    p = torch.exp(s - total[..., None]).to(q.dtype)
    return (p.view(rows * group, -1) @ v).view(rows, group, d).double(), total


def reference(step, e, rows):
    """Of some rows of an entry: output and lse in float64, and the output of an unfused computation in the type itself."""
    i, n, kv_len, _ = step.entries[e]
    st, group = step.store, step.store.h // step.store.hk
    q, (k, v) = st.queries(i, kv_len, n)[rows], st.dense(i, kv_len)
    key, pos = torch.arange(kv_len, device=DEV), kv_len - n + rows
    mask = key[None] <= pos[:, None]
    if step.window:
        mask &= key[None] > pos[:, None] - step.window
    outs, lses, naives = [], [], []
    for head in range(st.hk):
        heads = slice(head * group, (head + 1) * group)
        sinks = None if step.sinks is None else step.sinks[heads]
        out, lse = attend(q[:, heads].double(), k[head].double(), v[head].double(), step, mask, sinks, torch.float64)
        naives.append(attend(q[:, heads], k[head], v[head], step, mask, sinks, torch.float32)[0])
        outs.append(out)
        lses.append(lse)
    return torch.cat(outs, 1), torch.cat(lses, 1), torch.cat(naives, 1)


class Verdict(NamedTuple):
    ok: bool
    share: float  # of the bound that is nearest to being passed
    text: str


def judge(out, lse, ref, ref_lse, naive, dtype):
    ulp = 2.0 ** (-8 if dtype == torch.bfloat16 else -11)
    out, norm = out.double(), ref.norm().item()
    worst, allowed = (out - ref).abs().max().item(), 2 * (naive - ref).abs().max().item() + 2 * ulp * ref.abs().max().item()
    rel = (out - ref).norm().item() / norm
    rel_allowed = min(2 * ulp, 2 * (naive - ref).norm().item() / norm + ulp)
    cosine = (out.flatten() @ ref.flatten() / out.norm() / ref.norm()).item()
    lse_err = 0.0 if lse is None else ((lse.double() - ref_lse).abs() / ref_lse.abs().clamp(min=1)).max().item()
    shares = (worst / allowed, rel / rel_allowed, (1 - cosine) / 1e-4, lse_err / 1e-4)
    text = f"max {worst:.2e} of {allowed:.2e}  fro {rel:.2e} of {rel_allowed:.2e}  cosine {cosine:.7f}  lse {lse_err:.1e}"
    return Verdict(all(x <= 1 for x in shares), max(shares), text)  # NaN is not


def judge_step(step, most=200):
    """Runs the step; verdicts on each entry, from up to `most` rows of it."""
    out, lse = step.run()
    verdicts = []
    for e, (_, n, _, _) in enumerate(step.entries):
        at, rows = step.rows_of(e), some_rows(n, most)
        v = judge(out[at][rows], None if lse is None else lse[at][rows], *reference(step, e, rows), step.store.dtype)
        if not torch.isfinite(out[at].float()).all() or lse is not None and not torch.isfinite(lse[at]).all():
            v = Verdict(False, math.inf, v.text + "  NOT ALL FINITE")
        verdicts.append(v)
    behind = [step.out_room[step.n_rows:]] + ([] if lse is None else [step.lse_room[step.n_rows:]])
    if not all(x.isnan().all() for x in behind):
        verdicts.append(Verdict(False, math.inf, "WROTE BEHIND THE END"))
    return verdicts


def check_step(step, most=200, verbose=False, what=""):
    """Raises, with the figures, where the step is wrong."""
    for e, v in enumerate(judge_step(step, most)):
        line = f"{what} entry {e} {step.entries[e] if e < len(step.entries) else ''}: {v.text}"
        if not v.ok:
            raise AssertionError(line)
        if verbose:
            print(line, flush=True)


def grid(make_step, shapes, heads, dims, quick):
    """Steps of make_step(store, i-th variant, options of Step) over types, head_dims, heads and VARIANTS, against float64."""
    n = 0
    for dtype, d, (h, hk) in itertools.product((torch.bfloat16, torch.float16), dims, heads):
        if dtype == torch.float16 and (h, hk) != (8, 2):
            continue
        store = store_of(shapes, (h, hk), d, dtype, seed=d + h)
        for i, (window, softcap, sinks) in enumerate(VARIANTS):
            if quick and i % 2:
                continue
            step = make_step(store, i, dict(window=window, softcap=softcap, sinks=sinks_of(store) if sinks else None))
            check_step(step, what=f"{dtype} d{d} {h}/{hk} window {window} softcap {softcap} sinks {sinks}")
            n += len(shapes)
    print(f"grid: {n} sequences", flush=True)


# ---- bits ----


def same_bits(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def expect_rows(whole, first, part, what):
    """The rows of step `part` are those of `whole`, an (output, lse), from `first` on."""
    rows = slice(first, first + part.n_rows)
    for name, a, b in zip(("output", "lse"), whole, part.run()):
        assert same_bits(a[rows], b), f"{what}: {name} differs"


def repeats(step, n):
    """Runs the step n times."""
    out, lse = (x.clone() for x in step.run())
    bad = torch.zeros((), device=DEV, dtype=torch.int64)
    for _ in range(n):
        step.poison()
        step.launch()
        bad += (step.out.view(torch.int16) != out.view(torch.int16)).any()
        bad += (step.lse.view(torch.int32) != lse.view(torch.int32)).any()
    assert bad.item() == 0, f"{bad.item()} of {n} repeats differ"
    print(f"{n} repeats: equal bits", flush=True)


def main(name, parts, long_parts, sanitize):
    """Runs all parts, functions of (library, quick); with --quick not the long ones, with --sanitize that one alone."""
    lib, start, quick = c.library(), time.time(), "--quick" in sys.argv
    if "--sanitize" in sys.argv:
        sanitize(lib)
        return print("ran", flush=True)
    for part in parts + ([] if quick else long_parts):
        part(lib, quick)
    return print(f"{name}: passed in {time.time() - start:.0f} s")
