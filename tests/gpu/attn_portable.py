"""Attention of prompt rows on a GPU by the portable kernel, attn_prefill_mma.cu, against float64 over the grid of shapes,
alone and in mixed batches with generated rows, with scores that grow along the keys, and bit for bit against itself:
alone, in a batch, in chunks, split and whole, repeated.

    python3 tests/gpu/attn_portable.py [--quick | --sanitize]"""
import itertools
import sys
import time

import torch

import attn_case as c

HEADS = [(4, 4), (8, 2), (8, 1), (7, 1), (16, 1)]
SHAPES = [(1, 1), (1, 339), (3, 799), (64, 128), (113, 203), (108, 256), (239, 239), (256, 512), (799, 799), (1023, 1024),
          (1024, 1024), (16, 20000)]
WAYS = [(0, 0.0, False), (64, 0.0, False), (0, 30.0, False), (4096, 0.0, True), (64, 30.0, True)]  # window, softcap, sinks


def entries_of(shapes, generated=()):
    return [(i, n, kv, i in generated) for i, (n, kv) in enumerate(shapes)]


def store_of(shapes, heads, d, dtype, **more):
    return c.Store([kv for _, kv in shapes], [n for n, _ in shapes], *heads, d, dtype, **more)


def grid(lib, quick):
    n = 0
    dims = (64, 128) if quick else (32, 64, 80, 96, 128, 160, 256)
    for dtype, d, heads in itertools.product((torch.bfloat16, torch.float16), dims, HEADS):
        if dtype == torch.float16 and heads != (8, 2):
            continue
        store = store_of(SHAPES, heads, d, dtype, seed=d + heads[0])
        for i, (window, softcap, sinks) in enumerate(WAYS):
            if quick and i % 2:
                continue
            s = torch.linspace(-2, 6, store.h, device="cuda") if sinks else None
            step = c.Step(lib, store, entries_of(SHAPES, {2, 11} if i % 2 else ()), window, softcap, s, overlaps=i > 2)
            c.check_step(step, sample=200, what=f"{dtype} d{d} {heads} window {window} softcap {softcap} sinks {sinks}")
            n += len(SHAPES)
    print(f"grid: {n} sequences", flush=True)


def large(lib):
    for d, heads in ((128, (32, 8)), (64, (8, 8)), (256, (8, 4))):
        shapes = [(2048, 3577), (4224, 4224), (1000, 65536), (512, 131072)]
        store = store_of(shapes, heads, d, torch.bfloat16, spare=3)
        for window in (0, 4096):
            c.check_step(c.Step(lib, store, entries_of(shapes), window), sample=24, verbose=window == 0, what=f"d{d} {heads}")
    store = store_of([(65536, 65536)], (8, 2), 128, torch.bfloat16)
    c.check_step(c.Step(lib, store, entries_of([(65536, 65536)])), sample=64, verbose=True, what="64K square")
    print("64K, 128K", flush=True)


def bits(lib):
    shapes = [(700, 20000), (1, 1), (300, 300), (130, 17000), (2000, 40000), (64, 16384)]
    for d, heads in ((128, (8, 2)), (64, (7, 1)), (256, (4, 2)), (80, (4, 4))):
        store = store_of(shapes, heads, d, torch.bfloat16)
        for window in (0, 500, 18000):
            step = c.Step(lib, store, entries_of(shapes), window)
            out, lse = (x.clone() for x in step.run())
            for way in (dict(split_prefill=True), dict(split_prefill=False), dict(n_sms=3), dict(n_partial=2000, split_prefill=True)):
                other = c.Step(lib, store, entries_of(shapes), window, **way).run()
                assert c.same_bits(out, other[0]) and c.same_bits(lse, other[1]), f"d{d} window {window}: {way} differs"
            for e, (n, kv) in enumerate(shapes):
                alone = c.Step(lib, store, [(e, n, kv, False)], window).run()
                assert c.same_bits(out[step.rows_of(e)], alone[0]), f"d{d}: {n}, {kv} alone differs"
                for chunk in (1, 37, 300):
                    for at in range(0, n, chunk) if chunk > 1 else (0, n // 2, n - 1):
                        m = min(chunk, n - at)
                        part = c.Step(lib, store, [(e, m, kv - n + at + m, False)], window).run()
                        rows = slice(step.rows_of(e).start + at, step.rows_of(e).start + at + m)
                        assert c.same_bits(out[rows], part[0]), f"d{d}: {n}, {kv}: rows {at} + {m} as a chunk differ"
                        assert c.same_bits(lse[rows], part[1]), f"d{d}: lse of {n}, {kv}: rows {at} + {m} differs"
    print("bits: alone, in a batch, in chunks, split, whole", flush=True)


def growth(lib):
    """Keys that get longer along the sequence, queries of which every third is long: references move in the middle of a
    span, each row's on its own."""
    shapes = [(300, 3000), (64, 20000), (257, 257)]
    for d, heads in ((128, (8, 2)), (64, (7, 1)), (256, (4, 2)), (80, (4, 4))):
        store = store_of(shapes, heads, d, torch.bfloat16, seed=d + 1)
        for i, (n, kv) in enumerate(shapes):
            store.q[i][::3] *= 8
            for b, block in enumerate(store.tables[i]):
                store.kv[block, store.layer, 0] *= 1 + 6 * b * c.PAGE / kv
        for window in (0, 500):
            step = c.Step(lib, store, entries_of(shapes), window)
            c.check_step(step, sample=100, what=f"growing keys, d{d} {heads} window {window}")
            out, lse = (x.clone() for x in step.run())
            for e, (n, kv) in enumerate(shapes):
                for at in range(0, n, 41):
                    m = min(41, n - at)
                    part = c.Step(lib, store, [(e, m, kv - n + at + m, False)], window).run()
                    rows = slice(step.rows_of(e).start + at, step.rows_of(e).start + at + m)
                    assert c.same_bits(out[rows], part[0]), f"growing keys, d{d}: {n}, {kv}: rows {at} + {m} differ"
                    assert c.same_bits(lse[rows], part[1]), f"growing keys, d{d}: lse of {n}, {kv}: rows {at} + {m} differ"
    print("growing keys", flush=True)


def repeats(lib, n=1000):
    store = c.Store([5000, 300, 33000], [700, 300, 200], 32, 8, 128, torch.bfloat16)
    step = c.Step(lib, store, [(0, 700, 5000, False), (1, 300, 300, False), (2, 200, 33000, False)])
    out, lse = (x.clone() for x in step.run())
    bad = torch.zeros((), device="cuda", dtype=torch.int64)
    for _ in range(n):
        step.poison()
        step.launch()
        bad += (step.out.view(torch.int16) != out.view(torch.int16)).any()
        bad += (step.lse.view(torch.int32) != lse.view(torch.int32)).any()
    assert bad.item() == 0, f"{bad.item()} of {n} repeats differ"
    print(f"{n} repeats: equal bits", flush=True)


def sanitize(lib):
    for d, heads in ((128, (8, 2)), (64, (7, 1)), (256, (4, 2)), (80, (4, 4))):
        shapes = [(3, 339), (130, 300), (200, 17000)]
        store = store_of(shapes, heads, d, torch.bfloat16)
        for window in (0, 64):
            c.Step(lib, store, entries_of(shapes), window, n_sms=2 if window else None).run()
    print("ran", flush=True)


def main():
    lib, start = c.library(), time.time()
    if "--sanitize" in sys.argv:
        return sanitize(lib)
    quick = "--quick" in sys.argv
    grid(lib, quick)
    bits(lib)
    growth(lib)
    if not quick:
        large(lib)
    repeats(lib, 100 if quick else 1000)
    print(f"attn_portable: passed in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
