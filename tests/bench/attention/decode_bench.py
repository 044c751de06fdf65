"""Speed of attention on a GPU beside torch's SDPA (cuDNN, FlashAttention-2) and the copy bandwidth of the same run.

    python3 tests/bench/attention/decode_bench.py [--out results/decode.csv] [decode] [tokens] [short] [fp8]
    python3 tests/bench/attention/decode_bench.py --out results/prefill_portable.csv prefill

Every figure is the median over replays of a CUDA graph, ours and the peer's in turn; decode and combine together count. A
replay goes through layers of different pages, so that the cache of the last one does not help."""
import csv
import os
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "gpu"))
import attn_kernels as c  # noqa: E402

ROWS = []


def graph_of(launches):
    for f in launches:
        f()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for f in launches:
            f()
    return g


def time_graphs(graphs, n_calls, budget_ms=150):
    """Median milliseconds of a call for each graph of n_calls, replayed in turn."""
    def once(g):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        g.replay()
        b.record()
        return a, b

    for g in graphs:
        once(g)
    torch.cuda.synchronize()
    a, b = once(graphs[0])
    torch.cuda.synchronize()
    repeats = int(min(200, max(7, budget_ms / max(a.elapsed_time(b), 1e-3))))
    events = [[] for _ in graphs]
    for _ in range(repeats):
        for i, g in enumerate(graphs):
            events[i].append(once(g))
    torch.cuda.synchronize()
    return [sorted(x.elapsed_time(y) for x, y in e)[len(e) // 2] / n_calls for e in events]


def copy_bandwidth():
    a = torch.empty(2 << 30, dtype=torch.uint8, device="cuda").random_(0, 255)
    b = torch.empty_like(a)
    events = []
    for _ in range(12):  # not as a graph: there the copy is slower
        events.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
        events[-1][0].record()
        b.copy_(a)
        events[-1][1].record()
    torch.cuda.synchronize()
    return 2 * a.numel() / sorted(x.elapsed_time(y) for x, y in events)[6] / 1e6  # GB/s


def sdpa(q, k, v, backend, causal=False):
    def call():
        with sdpa_kernel(backend):
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return call


def peers(batch, n_new, length, h, hk, d, n_layers, causal=False, fa2=False):
    """Graphs of cuDNN's and FlashAttention-2's calls over as many layers, or None where they refuse."""
    found = []
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        try:
            if backend == SDPBackend.FLASH_ATTENTION and not fa2:
                raise RuntimeError("not asked for")
            q = torch.randn(batch, h, n_new, d, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(n_layers, batch, hk, length, d, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            found.append((graph_of([sdpa(q, k[i], v[i], backend, causal) for i in range(n_layers)]), (q, k, v)))
        except RuntimeError as e:
            if "not asked" not in str(e):
                print(f"# {backend}: {str(e).splitlines()[0][:90]}")
            found.append(None)
    return found


def ours(lib, batch, n_new, length, h, hk, d, n_layers, is_decode=True, fp8=False, **more):
    store = c.Store([length] * batch, [n_new] * batch, h, hk, d, n_layers=n_layers, layer=0, plain=True, fp8=fp8)
    if fp8:
        store.kv = None  # the pages alone
    step = c.Step(lib, store, [(i, n_new, length, is_decode) for i in range(batch)], overlaps=True, **more)

    def layer_call(layer):
        def call():
            step.args.layer = layer
            step.launch()
        return call

    return graph_of([layer_call(i) for i in range(n_layers)]), step


def report(what, batch, n_new, length, h, hk, d, us, unit, value, share, peer_us, note=""):
    ROWS.append(dict(what=what, batch=batch, new_tokens=n_new, keys=length, heads=h, kv_heads=hk, head_dim=d,
                     us=f"{us:.2f}", unit=unit, value=f"{value:.0f}", share=f"{share:.3f}",
                     cudnn_us="" if not peer_us[0] else f"{peer_us[0]:.2f}",
                     fa2_us="" if not peer_us[1] else f"{peer_us[1]:.2f}", note=note))
    p = " ".join(f"{n} {u:.1f} us ({u / us:.2f}x)" for n, u in zip(("cudnn", "fa2"), peer_us) if u)
    print(f"{what:8} batch {batch:3} new {n_new:3} keys {length:6} {h}/{hk} d{d}: {us:9.2f} us {value:7.0f} {unit} "
          f"{share:6.3f} | {p} {note}", flush=True)


def time_beside(graph, others, n_layers):
    graphs = [graph] + [o[0] for o in others if o]
    ms = time_graphs(graphs, n_layers)
    rest = iter(ms[1:])
    return ms[0] * 1e3, [next(rest) * 1e3 if o else None for o in others]


def decode(lib, copy, shapes, what="decode", with_peers=True):
    """What "fp8": over an FP8 cache; its bytes are codes and scales."""
    base, fp8 = {}, what == "fp8"
    for batch, n_new, length, h, hk, d in shapes:
        kv_bytes = batch * 2 * length * hk * (d + 1 if fp8 else d * 2)
        n_layers = max(2, min(32, int(2e9 / kv_bytes) + 1))  # a graph's start is spread over them, as over a model's
        graph, step = ours(lib, batch, n_new, length, h, hk, d, n_layers, fp8=fp8)
        others = peers(batch, n_new, length, h, hk, d, n_layers) if with_peers else [None, None]
        us, peer_us = time_beside(graph, others, n_layers)
        rate = kv_bytes / us / 1e3
        base.setdefault((batch, length, h, hk, d), us)
        note = f"{us / base[batch, length, h, hk, d]:.3f} of {'one token' if what == 'tokens' else 'first'}"
        report(what, batch, n_new, length, h, hk, d, us, "GB/s", rate, rate / copy, peer_us, note if what == "tokens" else "")
        del graph, step, others
        torch.cuda.empty_cache()


def prefill(lib):
    shapes = [(n, h, hk, d) for h, hk, d in ((32, 8, 128), (32, 32, 64), (8, 8, 256)) for n in (4096, 8192, 16384, 32768)]
    for n, h, hk, d in shapes + [(8192, 16, 16, 128), (8192, 32, 8, 96)]:
        batch = max(1, 16384 // n)
        flops = 2 * n * n * d * h * batch
        graph, step = ours(lib, batch, n, n, h, hk, d, 1, is_decode=False)
        others = peers(batch, n, n, h, hk, d, 1, causal=True, fa2=True)
        us, peer_us = time_beside(graph, others, 1)
        report("prefill", batch, n, n, h, hk, d, us, "TFLOP/s", flops / us / 1e6, peer_us[1] / us if peer_us[1] else 0, peer_us)
        del graph, step, others
        torch.cuda.empty_cache()


def main():
    lib = c.library()
    argv = sys.argv[1:]
    out = argv[argv.index("--out") + 1] if "--out" in argv else None
    every = ["decode", "tokens", "short", "fp8", "prefill"]
    parts = [a for a in argv if a in every] or every
    copy = copy_bandwidth()
    print(f"copy: {copy:.0f} GB/s", flush=True)
    if "decode" in parts:
        decode(lib, copy, [(b, 1, 131072, 32, 8, 128) for b in (1, 2, 4, 8)] + [(16, 1, 32768, 32, 8, 128)] +
               [(b, 1, 131072, 8, 1, 128) for b in (1, 8)] + [(1, 1, 32768, 32, 8, 128), (1, 1, 16384, 32, 8, 128),
               (1, 1, 131072, 32, 32, 64), (1, 1, 131072, 32, 1, 64), (1, 1, 131072, 32, 1, 128),
               (1, 1, 131072, 8, 4, 256)])
    if "tokens" in parts:
        decode(lib, copy, [(1, n, 131072, 32, 8, 128) for n in (1, 2, 4, 8, 16)] +
               [(1, n, 131072, 8, 1, 128) for n in (1, 4, 8, 16)], "tokens")
    if "short" in parts:
        decode(lib, copy, [(b, 1, n, 32, 8, 128) for n in (128, 1024, 2048) for b in (1, 4, 16, 64)] + [(1, 1, 8192, 32, 8, 128)],
               "short")
    if "fp8" in parts:
        decode(lib, copy, [(b, 1, 131072, 32, 8, 128) for b in (1, 4, 8)] + [(16, 1, 32768, 32, 8, 128), (8, 1, 20480, 32, 8, 128),
               (64, 1, 2048, 32, 8, 128)] + [(1, n, 131072, 32, 8, 128) for n in (2, 4, 8, 16)] +
               [(1, 1, 131072, 8, 1, 128), (1, 1, 131072, 32, 1, 128), (1, 1, 131072, 32, 32, 64), (1, 1, 131072, 8, 4, 256),
               (1, 1, 131072, 16, 2, 256)], "fp8", with_peers=False)
    if "prefill" in parts:
        prefill(lib)
    if out:
        env = c.stamp()
        with open(out, "w", newline="") as f:
            w = csv.DictWriter(f, list(env) + ["copy_GBs"] + list(ROWS[0]))
            w.writeheader()
            for r in ROWS:
                w.writerow({**env, "copy_GBs": f"{copy:.0f}", **r})


if __name__ == "__main__":
    main()
