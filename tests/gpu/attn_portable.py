"""Attention of prefill tokens on a GPU by the portable kernels, attn_prefill_mma.cu and attn_wide.cu, against float64 over the
grid of shapes, alone and in mixed batches with decode tokens, with scores that grow along the keys, and bit for bit against itself:
alone, in a batch, in chunks, split and whole, repeated.

    python3 tests/gpu/attn_portable.py [--quick | --sanitize]"""
import attn_checks as t
import attn_kernels as c

HEADS = [(4, 4), (8, 2), (8, 1), (7, 1), (16, 1)]
SHAPES = [(1, 1), (1, 339), (3, 799), (64, 128), (113, 203), (108, 256), (239, 239), (256, 512), (799, 799), (1023, 1024),
          (1024, 1024), (16, 20000)]


def step_of(lib, store, shapes, decode=(), **more):
    return c.Step(lib, store, t.entries_of(shapes, decode), **more)


def grid(lib, quick):
    def make(store, i, options):
        return step_of(lib, store, SHAPES, {2, 11} if i % 2 else (), overlaps=i > 2, **options)
    t.grid(make, SHAPES, HEADS, (64, 128, 512) if quick else (8, 24, 32, 64, 80, 96, 128, 160, 256, 264, 512), quick)


def large(lib, _quick):
    for d, heads in ((128, (32, 8)), (64, (8, 8)), (256, (8, 4)), (512, (8, 2))):
        shapes = [(2048, 3577), (4224, 4224), (1000, 65536), (512, 131072)]
        store = t.store_of(shapes, heads, d)
        for window in (0, 4096):
            t.check_step(step_of(lib, store, shapes, window=window), most=26, verbose=window == 0, what=f"d{d} {heads}")
    shapes = [(65536, 65536)]
    t.check_step(step_of(lib, t.store_of(shapes, (8, 2), 128), shapes), most=66, verbose=True, what="64K square")
    print("64K, 128K", flush=True)


def bits(lib, _quick):
    shapes = [(700, 20000), (1, 1), (300, 300), (130, 17000), (2000, 40000), (64, 16384)]
    for d, heads in ((128, (8, 2)), (64, (7, 1)), (256, (4, 2)), (80, (4, 4)), (512, (4, 2))):
        store = t.store_of(shapes, heads, d)
        for window in (0, 500, 18000):
            step = step_of(lib, store, shapes, window=window)
            whole = [x.clone() for x in step.run()]
            for options in (dict(split=True), dict(split=False), dict(n_sms=3), dict(split=True, n_partial=2000)):
                other = step_of(lib, store, shapes, window=window, **options)
                t.expect_rows(whole, 0, other, f"d{d} window {window}: {options}")
            for e, (n, kv) in enumerate(shapes):
                first = step.rows_of(e).start
                t.expect_rows(whole, first, c.Step(lib, store, [(e, n, kv, False)], window), f"d{d}: {n}, {kv} alone")
                for chunk in (1, 37, 300):
                    for at in range(0, n, chunk) if chunk > 1 else (0, n // 2, n - 1):
                        m = min(chunk, n - at)
                        part = c.Step(lib, store, [(e, m, kv - n + at + m, False)], window)
                        t.expect_rows(whole, first + at, part, f"d{d}: {n}, {kv}: rows {at} + {m} as a chunk")
    print("bits: alone, in a batch, in chunks, split, whole", flush=True)


def growth(lib, _quick):
    """Keys that get longer along the sequence, queries of which every third is long: offsets move in the middle of a
    split, each row's on its own."""
    shapes = [(300, 3000), (64, 20000), (257, 257)]
    for d, heads in ((128, (8, 2)), (64, (7, 1)), (256, (4, 2)), (80, (4, 4)), (512, (4, 2))):
        store = t.store_of(shapes, heads, d, seed=d + 1)
        for i, (n, kv) in enumerate(shapes):
            store.q[i][::3] *= 8
            for b, block in enumerate(store.tables[i]):
                store.kv[block, store.layer, 0] *= 1 + 6 * b * c.PAGE / kv
        for window in (0, 500):
            step = step_of(lib, store, shapes, window=window)
            t.check_step(step, most=100, what=f"growing keys, d{d} {heads} window {window}")
            whole = [x.clone() for x in step.run()]
            for e, (n, kv) in enumerate(shapes):
                for at in range(0, n, 41):
                    m = min(41, n - at)
                    part = c.Step(lib, store, [(e, m, kv - n + at + m, False)], window)
                    t.expect_rows(whole, step.rows_of(e).start + at, part, f"growing keys, d{d}: {n}, {kv}: rows {at} + {m}")
    print("growing keys", flush=True)


def repeats(lib, quick):
    shapes = [(700, 5000), (300, 300), (200, 33000)]
    t.repeats(step_of(lib, t.store_of(shapes, (32, 8), 128), shapes), 100 if quick else 1000)


def sanitize(lib):
    for d, heads in ((128, (8, 2)), (64, (7, 1)), (256, (4, 2)), (80, (4, 4)), (512, (4, 2))):
        shapes = [(3, 339), (130, 300), (200, 17000)]
        store = t.store_of(shapes, heads, d)
        for window in (0, 64):
            step_of(lib, store, shapes, window=window, n_sms=2 if window else None).run()


if __name__ == "__main__":
    t.main("attn_portable", [grid, bits, growth, repeats], [large], sanitize)
