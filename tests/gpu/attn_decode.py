"""Attention of decode tokens on a GPU: attn_decode_mma.cu, attn_wide.cu and attn_combine_decode.cu against float64 over the
grid of shapes, and bit for bit against themselves: alone and in a batch, one token a step and several, split and whole,
repeated, and with a predecessor that writes the step's tokens when decode and combine have long started.

    python3 tests/gpu/attn_decode.py [--quick | --sanitize]"""
import itertools

import attn_checks as t
import attn_kernels as c

HEADS = [(4, 4), (8, 2), (8, 1), (7, 1), (32, 1)]
SPLITS = (None, True, False, 8000)
EDGE = (16, 14343)  # with a window of 4,096 its last rows see no key of the first split


def step_of(lib, store, shapes, **more):
    return c.Step(lib, store, t.entries_of(shapes, range(len(shapes))), **more)


def grid(lib, quick):
    shapes = [(1, 1), (1, 64), (1, 128), (1, 339), (3, 799), (16, 20000), (2, 16385), (5, 4100), (1, 257), EDGE]

    def make(store, i, options):
        split = (8000, True, False, True, None)[i]
        return step_of(lib, store, shapes, recorded=i % 2 == 1, overlaps=i > 2, split=split, **options)
    t.grid(make, shapes, HEADS, (64, 128, 512) if quick else (8, 24, 32, 64, 80, 96, 112, 128, 192, 256, 264, 512), quick)


def fp8(lib, quick):
    """An FP8 cache: right, the same bits as a plain one of the same numbers, in any company, and with late tokens."""
    shapes = [(1, 1), (1, 64), (1, 339), (3, 799), (16, 20000), (2, 16385), (5, 4100), (1, 257), EDGE]
    late = [(3, 3), (2, 64), (8, 66), (1, 65), (16, 1100), (1, 128), (1, 129), (5, 4100), (1, 16385)]
    dims, n = (64, 128, 512) if quick else (16, 32, 64, 80, 96, 112, 128, 192, 256, 272, 512), 0
    for d, heads in itertools.product(dims, HEADS):
        store = t.store_of(shapes, heads, d, fp8=True)
        for window, softcap, sinks in t.VARIANTS:
            options = dict(window=window, softcap=softcap, sinks=t.sinks_of(store) if sinks else None)
            step = step_of(lib, store, shapes, split=8000, **options)
            t.check_step(step, what=f"fp8 d{d} {heads} {options}")
            whole = [x.clone() for x in step.run()]
            pages, store.pages = store.pages, None
            t.expect_rows(whole, 0, step_of(lib, store, shapes, **options), f"fp8 d{d} {heads} {options}: a plain cache")
            store.pages = pages
            for more in (dict(split=False), dict(split=True, recorded=True), dict(n_sms=7, overlaps=True)):
                t.expect_rows(whole, 0, step_of(lib, store, shapes, **options, **more), f"fp8 d{d} {heads}: {more}")
            n += 1
        store = t.store_of(late, heads, d, fp8=True)
        for window, rows in itertools.product((0, 64, 4096), (None, 1, 17)):
            whole = [x.clone() for x in step_of(lib, store, late, window=window).run()]
            for more in (dict(), dict(split=True), dict(n_sms=7), dict(split=8000, recorded=True)):
                step = c.LateStep(lib, store, t.entries_of(late, range(len(late))), window=window, **more)
                step.args.decode_rows = rows or step.args.decode_rows
                t.expect_rows(whole, 0, step, f"fp8 d{d} {heads}, window {window}, {more}: late tokens")
                n += 1
    print(f"fp8: {n} steps", flush=True)


def long_contexts(lib, _quick):
    for heads, d in (((32, 8), 128), ((8, 1), 128), ((8, 4), 256), ((8, 2), 512)):
        shapes = [(1, 131072), (4, 65536), (1, 1000), (16, 131071), (1, 16384)]
        store = t.store_of(shapes, heads, d)
        for window in (0, 4096):
            t.check_step(step_of(lib, store, shapes, window=window), verbose=window == 0, what=f"d{d} {heads}")
    shapes = [(2, 70000), (1, 40000)]
    big = t.store_of(shapes, (8, 2), 128, n_layers=40, layer=39, first_block=300)
    assert big.kv.numel() * 2 > 2**32 and max(big.tables[0]) == big.n_blocks - 1
    t.check_step(step_of(lib, big, shapes), what="beyond 2^32 bytes")
    print("64K, 128K, a cache beyond 2^32 bytes", flush=True)


def bits(lib, _quick):
    shapes = [(16, 20000), (1, 1), (8, 300), (16, 1100), (4, 70000), (1, 16384), (3, 17000), EDGE]
    for d, heads in ((128, (32, 8)), (64, (8, 1)), (256, (8, 4)), (96, (12, 3)), (512, (8, 2))):
        store = t.store_of(shapes, heads, d)
        for window in (0, 300, 4096):
            step = step_of(lib, store, shapes, window=window)
            whole = [x.clone() for x in step.run()]
            for _ in range(20):
                t.expect_rows(whole, 0, step, "a repeat")
            for options in (dict(split=False), dict(split=True), dict(split=8000), dict(n_partial=999), dict(n_sms=7),
                        dict(recorded=True, overlaps=True)):
                t.expect_rows(whole, 0, step_of(lib, store, shapes, window=window, **options), f"d{d}: {options}")
            step.args.max_decode, step.args.max_combine = 3, 1  # a grid smaller than the lists
            t.expect_rows(whole, 0, step, f"d{d}: a small grid")
            for e, (n, kv) in enumerate(shapes):
                first = step.rows_of(e).start
                t.expect_rows(whole, first, c.Step(lib, store, [(e, n, kv, True)], window), f"d{d}: {n}, {kv} alone")
                for i in range(n):  # one token a step
                    one = c.Step(lib, store, [(e, 1, kv - n + 1 + i, True)], window, split=SPLITS[i % 4])
                    t.expect_rows(whole, first + i, one, f"d{d}: token {i} of {n}, {kv} by itself")
    print("bits: alone, in a batch, a token at a time, split, whole, recorded", flush=True)


def late_tokens(lib, quick):
    """Of one token a sequence, a few, and many: the first of a page, the last, over two pages, with none before them."""
    ones = [(1, kv) for kv in (1, 2, 64, 65, 128, 129, 1000, 4100, 16385)]
    some = [(3, 3), (2, 64), (8, 66), (7, 67), (1, 65), (8, 4100)]
    many = [(16, 16), (16, 70), (1, 65), (16, 1100), (12, 64), (16, 17000)]
    variants = (dict(), dict(split=False), dict(split=True), dict(n_sms=7), dict(split=8000, recorded=True))
    n = 0
    for d, heads in ((128, (32, 8)), (64, (8, 1)), (256, (8, 4)), (96, (12, 3)), (128, (32, 1)), (80, (4, 4)), (512, (8, 2))):
        for shapes, window in itertools.product((ones, some, many), (0, 64, 4096)):
            store = t.store_of(shapes, heads, d)
            whole = [x.clone() for x in step_of(lib, store, shapes, window=window).run()]
            for options, rows in itertools.product(variants, (None, 1, 17)):  # rows: a wrong guess of the most of a task
                late = c.LateStep(lib, store, t.entries_of(shapes, range(len(shapes))), window=window, **options)
                late.args.decode_rows = rows or late.args.decode_rows
                for _ in range(1 if quick else 3):
                    t.expect_rows(whole, 0, late, f"d{d} {heads}, window {window}, {options}, {rows} rows: late tokens")
                    assert all(x.isnan().all() for x in late.early), f"d{d} {heads}, {options}: wrote too early"
                    n += 1
    print(f"late tokens: {n} steps", flush=True)


def shared_pages(lib, _quick):
    shapes = [(1, 1000), (1, 1500), (2, 2000)]
    store = t.store_of(shapes, (8, 2), 128, shared={1: 10, 2: 10})
    t.check_step(step_of(lib, store, shapes), what="shared pages")
    print("pages shared between sequences", flush=True)


def repeats(lib, quick):
    shapes = [(1, 5000), (4, 300), (16, 33000)]
    t.repeats(step_of(lib, t.store_of(shapes, (32, 8), 128), shapes, overlaps=True), 100 if quick else 1000)


def sanitize(lib):
    for d, heads in ((128, (8, 2)), (64, (7, 1)), (256, (4, 2)), (80, (32, 1)), (512, (4, 1))):
        shapes = [(1, 339), (3, 799), (16, 1100)]
        store = t.store_of(shapes, heads, d)
        for window in (0, 64):
            step_of(lib, store, shapes, window=window, split=window == 0, recorded=True).run()
            step_of(lib, store, shapes, window=window, split=window == 0, overlaps=True).run()
            if d % 16 == 0:
                coded = t.store_of(shapes, heads, d, fp8=True)
                step_of(lib, coded, shapes, window=window, split=window == 0, overlaps=True).run()


if __name__ == "__main__":
    t.main("attn_decode", [grid, shared_pages, bits, late_tokens, fp8, repeats], [long_contexts], sanitize)
