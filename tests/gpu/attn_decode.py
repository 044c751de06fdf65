"""Attention of generated rows on a GPU: attn_decode_mma.cu and attn_merge.cu against float64 over the grid of shapes, and
bit for bit against themselves: alone and in a batch, one token a step and several, split and whole, repeated.

    python3 tests/gpu/attn_decode.py [--quick | --sanitize]"""
import itertools
import sys
import time

import torch

import attn_case as c

HEADS = [(4, 4), (8, 2), (8, 1), (7, 1), (32, 1)]
WAYS = [(0, 0.0, False), (64, 0.0, False), (0, 30.0, False), (4096, 0.0, True), (64, 30.0, True)]  # window, softcap, sinks

WAYS_TO_SPLIT = (None, True, False, "groups")


def entries_of(shapes):
    return [(i, n, kv, True) for i, (n, kv) in enumerate(shapes)]


def store_of(shapes, heads, d, dtype, **more):
    return c.Store([kv for _, kv in shapes], [n for n, _ in shapes], *heads, d, dtype, **more)


def sinks_of(store):
    return torch.linspace(-2, 6, store.h, device="cuda")


def grid(lib, quick):
    shapes = [(1, 1), (1, 64), (1, 128), (1, 339), (3, 799), (16, 20000), (2, 16385), (5, 4100), (1, 257)]
    n = 0
    dims = (64, 128) if quick else (32, 64, 80, 96, 112, 128, 192, 256)
    for dtype, d, heads in itertools.product((torch.bfloat16, torch.float16), dims, HEADS):
        if dtype == torch.float16 and heads != (8, 2):
            continue
        store = store_of(shapes, heads, d, dtype, seed=d + heads[0])
        for i, (window, softcap, sinks) in enumerate(WAYS):
            if quick and i % 2:
                continue
            step = c.Step(lib, store, entries_of(shapes), window, softcap, sinks_of(store) if sinks else None,
                          recorded=i % 2 == 1, overlaps=i > 2, split_decode=WAYS_TO_SPLIT[i % 4])
            c.check_step(step, what=f"{dtype} d{d} {heads} window {window} softcap {softcap} sinks {sinks}")
            n += len(shapes)
    print(f"grid: {n} sequences", flush=True)


def long_contexts(lib):
    for heads, d in (((32, 8), 128), ((8, 1), 128), ((8, 4), 256)):
        shapes = [(1, 131072), (4, 65536), (1, 1000), (16, 131071), (1, 16384)]
        store = store_of(shapes, heads, d, torch.bfloat16, n_layers=2, spare=3)
        for window in (0, 4096):
            c.check_step(c.Step(lib, store, entries_of(shapes), window), verbose=window == 0, what=f"d{d} {heads}")
    big = c.Store([70000, 40000], [2, 1], 8, 2, 128, torch.bfloat16, n_layers=40, layer=39, spare=300)
    assert big.kv.numel() * 2 > 2**32 and max(big.tables[0]) == big.n_blocks - 1
    c.check_step(c.Step(lib, big, [(0, 2, 70000, True), (1, 1, 40000, True)]), what="beyond 2^32 bytes")
    print("64K, 128K, a cache beyond 2^32 bytes", flush=True)


def bits(lib, dims=((128, (32, 8)), (64, (8, 1)), (256, (8, 4)), (96, (12, 3)))):
    shapes = [(16, 20000), (1, 1), (8, 300), (16, 1100), (4, 70000), (1, 16384), (3, 17000)]
    for d, heads in dims:
        store = store_of(shapes, heads, d, torch.bfloat16, shared=0)
        for window in (0, 300):
            step = c.Step(lib, store, entries_of(shapes), window)
            out, lse = (x.clone() for x in step.run())
            for _ in range(20):
                again = step.run()
                assert c.same_bits(out, again[0]) and c.same_bits(lse, again[1]), "repeats differ"
            ways = [dict(split_decode=False), dict(split_decode=True), dict(split_decode="groups"), dict(n_partial=999), dict(recorded=True, overlaps=True), dict(n_sms=7)]
            for way in ways:
                other = c.Step(lib, store, entries_of(shapes), window, **way).run()
                assert c.same_bits(out, other[0]) and c.same_bits(lse, other[1]), f"d{d}: {way} differs"
            step.args.max_decode, step.args.max_merge = 3, 1  # a grid smaller than the lists
            other = step.run()
            assert c.same_bits(out, other[0]) and c.same_bits(lse, other[1]), f"d{d}: a small grid differs"
            for e, (n, kv) in enumerate(shapes):
                alone = c.Step(lib, store, [(e, n, kv, True)], window).run()
                assert c.same_bits(out[step.rows_of(e)], alone[0]), f"d{d}: {n}, {kv} alone differs"
                assert c.same_bits(lse[step.rows_of(e)], alone[1]), f"d{d}: lse of {n}, {kv} alone differs"
                for i in range(n):  # one token a step
                    one = c.Step(lib, store, [(e, 1, kv - n + 1 + i, True)], window, split_decode=WAYS_TO_SPLIT[i % 4]).run()
                    at = step.rows_of(e).start + i
                    assert c.same_bits(out[at:at + 1], one[0]), f"d{d}: token {i} of {n}, {kv} by itself differs"
                    assert c.same_bits(lse[at:at + 1], one[1]), f"d{d}: lse of token {i} of {n}, {kv} differs"
    print("bits: alone, in a batch, a token at a time, split, whole, recorded", flush=True)


def shared_pages(lib):
    store = c.Store([1000, 1500, 2000], [1, 1, 2], 8, 2, 128, torch.bfloat16, shared=10)
    c.check_step(c.Step(lib, store, [(0, 1, 1000, True), (1, 1, 1500, True), (2, 2, 2000, True)]), what="shared pages")
    print("pages shared between sequences", flush=True)


def repeats(lib, n=1000):
    store = c.Store([5000, 300, 33000], [1, 4, 16], 32, 8, 128, torch.bfloat16)
    step = c.Step(lib, store, [(0, 1, 5000, True), (1, 4, 300, True), (2, 16, 33000, True)], overlaps=True)
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
    for d, heads in ((128, (8, 2)), (64, (7, 1)), (256, (4, 2)), (80, (32, 1))):
        shapes = [(1, 339), (3, 799), (16, 1100)]
        store = store_of(shapes, heads, d, torch.bfloat16)
        for window in (0, 64):
            c.Step(lib, store, entries_of(shapes), window, split_decode=window == 0, recorded=True).run()
    print("ran", flush=True)


def main():
    lib, start = c.library(), time.time()
    if "--sanitize" in sys.argv:
        return sanitize(lib)
    quick = "--quick" in sys.argv
    grid(lib, quick)
    shared_pages(lib)
    bits(lib)
    if not quick:
        long_contexts(lib)
    repeats(lib, 100 if quick else 1000)
    print(f"attn_decode: passed in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
