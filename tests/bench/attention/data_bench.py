"""Whether prefill attention's rate depends on the data: the same shapes over inputs of many kinds, ours and cuDNN's (as
PyTorch's SDPA calls it) interleaved in one run; medians of TFLOP/s, and errors beside float64.

    python3 tests/bench/attention/data_bench.py [--lib attn.so] [--base other.so …] [--kinds sharp,rising] [--dims 64,128]
            [--tokens 4096,16384] [--rounds 5] [--real IDS.bin] [--search] --csv out.csv

Kinds are functions below; scores are in natural units behind the scale head_dim^-½. --real: token ids (uint16) of a
text, of which the demo's own queries and keys are made (layer by layer). --base: further libraries of ours, in the
same run. --search: instead of the kinds, an adversary, SECONDS for each shape: inputs that the kernel's design says are
its worst, then random and guided steps among mixtures of all kinds, for the input that is slowest."""
import argparse
import csv
import json
import math
import os
import random
import sys
import time

import torch
from torch.nn.attention import SDPBackend

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
sys.path.insert(0, HERE)
import attn_kernels as c  # noqa: E402
from attn_bench import sdpa, time_ms  # noqa: E402

HEADS = {64: (32, 32), 128: (32, 8), 256: (8, 8)}
DEV, BF16 = "cuda", torch.bfloat16


# ---- data: q [H, n, d], k [Hk, n, d], float ----

def along(q, k, factor, of_key):
    """Adds factor · of_key[key] to every query's score of a key, by a channel of its own (the last)."""
    d = q.shape[-1]
    q[..., -1] = factor * math.sqrt(d)
    k[..., -1] = of_key


def sharp(q, k, deviation):
    q *= deviation


def outlier(q, k, times):
    k[..., 3] *= times


def sink(q, k, height):
    along(q, k, 1.0, 0.0)
    k[:, 0, -1] = height


def rising(q, k, per_64):
    """Later keys score higher, so much for each 64 of them; below 0: earlier ones."""
    n = k.shape[1]
    along(q, k, 64.0, torch.arange(n, device=DEV) * (per_64 / 64 / 64.0))


def growing(q, k, times):
    n = k.shape[1]
    k *= torch.linspace(1, times, n, device=DEV)[:, None]


def smooth(q, k, width):
    """Neighbouring keys are alike."""
    x = torch.nn.functional.avg_pool1d(k.transpose(1, 2), width, 1, width // 2, count_include_pad=False)[..., :k.shape[1]]
    k.copy_(x.transpose(1, 2) * math.sqrt(width))


def zeros(q, k, _):
    q.zero_()


def normal(q, k, _):
    pass


def bursts(q, k, height):
    """Each tile of keys has one that towers over all that were seen, from either end: heights at random."""
    n = k.shape[1]
    along(q, k, 1.0, 0.0)
    at = torch.randint(0, 64, (n // 64,), device=DEV) + torch.arange(0, n // 64, device=DEV) * 64
    k[:, at, -1] = torch.rand(n // 64, device=DEV) * height


KINDS = {
    "normal": (normal, 0), "zeros": (zeros, 0), "outlier": (outlier, 10), "sink": (sink, 40), "sharp 4": (sharp, 4),
    "sharp 16": (sharp, 16), "sharp 64": (sharp, 64), "rising 1": (rising, 1), "rising 8": (rising, 8),
    "rising 64": (rising, 64), "falling 1": (rising, -1), "falling 8": (rising, -8), "falling 64": (rising, -64),
    "growing": (growing, 16), "smooth": (smooth, 128), "bursts": (bursts, 200),
}


def make(kind, amount, d, n, seed=1):
    torch.manual_seed(seed)
    h, hk = HEADS[d]
    q, k = torch.randn(h, n, d, device=DEV), torch.randn(hk, n, d, device=DEV)
    kind(q, k, amount)
    return q.to(BF16), k.to(BF16)


# ---- the demo's own ----

def demo_queries_and_keys(ids_path):
    """[(q [4, n, 64], k [2, n, 64])] of each layer, behind RoPE."""
    from safetensors.torch import load_file
    path = os.path.join(ROOT, "demo", "model")
    hp = json.load(open(os.path.join(path, "config.json")))
    w = {name: t.to(DEV).float() for name, t in load_file(os.path.join(path, "model.safetensors")).items()}
    ids = torch.frombuffer(bytearray(open(ids_path, "rb").read()), dtype=torch.uint16).to(torch.int64).to(DEV)
    d, heads, kv, eps = hp["head_dim"], hp["num_attention_heads"], hp["num_key_value_heads"], hp["rms_norm_eps"]
    x, n, out = w["model.embed_tokens.weight"][ids], len(ids), []
    angle = torch.arange(n, device=DEV)[:, None] * hp["rope_theta"] ** (-torch.arange(0, d, 2, device=DEV) / d)
    cos, sin = torch.cat([angle.cos()] * 2, 1), torch.cat([angle.sin()] * 2, 1)

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w[name]

    def rope(x):
        return x * cos + torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1) * sin

    for i in range(hp["num_hidden_layers"]):
        at = f"model.layers.{i}."
        h = norm(x, at + "input_layernorm.weight")
        q, k, v = ((h @ w[f"{at}self_attn.{p}_proj.weight"].T).view(n, -1, d).transpose(0, 1) for p in "qkv")
        q, k = rope(q).to(BF16), rope(k).to(BF16)
        out.append((q, k))
        a = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v.to(BF16)[None], is_causal=True, enable_gqa=True)
        x = x + a[0].transpose(0, 1).reshape(n, -1).float() @ w[at + "self_attn.o_proj.weight"].T
        h = norm(x, at + "post_attention_layernorm.weight")
        gate = torch.nn.functional.silu(h @ w[at + "mlp.gate_proj.weight"].T)
        x = x + (gate * (h @ w[at + "mlp.up_proj.weight"].T)) @ w[at + "mlp.down_proj.weight"].T
    return out


def widen(q, k, d, n):
    """The demo's heads side by side until they are as wide and as many as the shape's."""
    h, hk = HEADS[d]
    times = d // 64
    q = torch.cat([q.roll(i, 0) for i in range(times)], -1)[:, :n] * math.sqrt(times)  # so that scores are sums
    k = torch.cat([k.roll(i, 0) for i in range(times)], -1)[:, :n]
    return q.repeat(h // 4, 1, 1)[:h], k.repeat(max(hk // 2, 1), 1, 1)[:hk]


# ---- a cell of the table ----

class Cell:
    def __init__(self, libs, kernel, q, k):
        (self.h, n, self.d), hk = q.shape, k.shape[0]
        self.batch = max(1, 16384 // n)
        v = torch.randn(hk, n, self.d, device=DEV, dtype=BF16)
        self.q, self.k, self.v = q, k, v
        store = c.Store([n] * self.batch, None, self.h, hk, self.d, n_layers=1, layer=0, plain=True)
        for i in range(self.batch):
            blocks = torch.tensor(store.tables[i], device=DEV)
            for part, x in ((0, k), (1, v)):
                store.kv[blocks, 0, part] = x.view(hk, -1, c.PAGE, self.d).transpose(0, 1)
            store.q[i] = q.transpose(0, 1).contiguous()
        entries = [(i, n, n, False) for i in range(self.batch)]
        self.steps = {who: c.Step(lib, store, entries, lse=False, overlaps=True, prefill=kernel) for who, lib in libs.items()}
        self.calls = {who: step.launch for who, step in self.steps.items()}
        dense = [x[None].expand(self.batch, -1, -1, -1).contiguous() for x in (q, k, v)]
        self.calls["cudnn"] = sdpa(SDPBackend.CUDNN_ATTENTION, *dense)
        self.flops = self.steps["ours"].flops()

    def rates(self, rounds, who=None):
        calls = {name: call for name, call in self.calls.items() if not who or name in who}
        times = {name: [] for name in calls}
        for r in range(rounds + 1):
            for name, call in calls.items():
                ms = time_ms(call)
                if r:
                    times[name].append(ms)
        return {name: self.flops / sorted(t)[len(t) // 2] / 1e9 for name, t in times.items()}

    def errors(self):
        """Of some rows of the first sequence, relative to float64's norm: ours and cuDNN's."""
        n = self.q.shape[1]
        rows = torch.linspace(0, n - 1, 24, device=DEV).long()
        group = self.h // self.k.shape[0]
        q, k, v = self.q[:, rows].double(), self.k.double().repeat_interleave(group, 0), self.v.double().repeat_interleave(group, 0)
        s = q @ k.transpose(1, 2) * self.d ** -0.5
        ref = torch.softmax(s.masked_fill(torch.arange(n, device=DEV) > rows[:, None], -math.inf), -1) @ v
        out = {who: step.run()[0][:n].transpose(0, 1)[:, rows] for who, step in self.steps.items()}
        with torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out["cudnn"] = torch.nn.functional.scaled_dot_product_attention(
                self.q[None], self.k[None], self.v[None], is_causal=True, enable_gqa=True)[0][:, rows]
        return {who: ((x.double() - ref).norm() / ref.norm()).item() for who, x in out.items()}


# ---- an adversary ----

MOVES = {"deviation": (0.1, 300), "slope": (-400, 200), "spread": (0.01, 4), "times": (1, 100), "height": (0.01, 2000),
         "every": (64, 4096)}
PLAIN = {"deviation": 1, "slope": 0.0, "spread": 0.01, "times": 1, "height": 0.01, "every": 4096}


def starts(d):
    """What the design is slowest on (attn_prefill_sm90.cu). Tiles of 128 keys, or 64 at 256: scores that pass the bound by
    what is raised and, of every other row or of all, by what is found; and rows that pass it one after the other."""
    per_64 = 128 / 64 if d <= 128 else 1.0
    lost, raised = 140 / per_64, 80 / per_64
    yield dict(PLAIN, slope=-lost)
    yield dict(PLAIN, slope=-raised)
    yield dict(PLAIN, slope=-raised, spread=lost / raised - 1)
    yield dict(PLAIN, slope=-raised / 4, spread=3)
    yield dict(PLAIN, deviation=64)
    yield dict(PLAIN, deviation=64, slope=-raised)
    yield dict(PLAIN, height=1000, every=64)


def mixture(p, d, n):
    """slope: of scores, in a step of 64 keys; rows one behind the other have it up to 1 + spread times."""
    def kind(q, k, _):
        sharp(q, k, p["deviation"])
        growing(q, k, p["times"])
        ramp = torch.arange(n, device=DEV) * (p["slope"] / 64)
        at = torch.arange(0, n, int(p["every"]), device=DEV)
        ramp[at] += torch.rand(len(at), device=DEV) * p["height"]
        coarse = ramp.to(BF16).float()  # and what is left of it, so that it does not go in stairs
        q[..., -2:] = (math.sqrt(d) * (1 + p["spread"] * (torch.arange(n, device=DEV) % 8) / 7))[:, None]
        k[..., -1], k[..., -2] = coarse, ramp - coarse
    return make(kind, 0, d, n)


def draw(rng, name):
    low, high = MOVES[name]
    return rng.uniform(low, high) if low < 0 else math.exp(rng.uniform(math.log(low), math.log(high)))


def step_from(rng, worst):
    p = dict(worst)
    for name in rng.sample(list(MOVES), rng.choice((1, 2))):
        near = min(max(p[name] * rng.uniform(0.6, 1.6), MOVES[name][0]), MOVES[name][1])
        p[name] = draw(rng, name) if rng.random() < 0.2 else near
    return p


def search(libs, kernel, d, n, seconds, seed):
    """The slowest input found: parameters of a mixture. What seems slower than all before is timed again."""
    rng, end, worst, n_tried, first = random.Random(seed), time.time() + seconds, (math.inf, None), 0, list(starts(d))
    n_first, n_random = len(first), 40
    while time.time() < end:
        if n_tried < n_first + n_random:
            p = first[n_tried] if n_tried < n_first else {name: draw(rng, name) for name in MOVES}
        else:
            p = {name: draw(rng, name) for name in MOVES} if rng.random() < 0.15 else step_from(rng, worst[1])
        cell = Cell(libs, kernel, *mixture(p, d, n))
        rate = cell.rates(3, ["ours"])["ours"]
        if rate < worst[0]:
            rate = max(rate, cell.rates(5, ["ours"])["ours"])
        n_tried += 1
        if n_tried <= n_first:
            print("  d%d %d start %s: %.0f" % (d, n, said(p), rate), flush=True)
        if rate < worst[0]:
            worst = (rate, p)
    print(f"adversary d{d} {n}: {n_tried} inputs, worst {worst[0]:.0f}: {said(worst[1])}", flush=True)
    return worst[1]


def said(p):
    return " ".join("%s %.3g" % (name, x) for name, x in p.items() if x != PLAIN[name])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib")
    p.add_argument("--base", action="append", default=[])
    p.add_argument("--kernel", default="prefill_sm90")
    p.add_argument("--kinds", default="")
    p.add_argument("--dims", default="64,128,256")
    p.add_argument("--tokens", default="4096,16384,65536")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--real")
    p.add_argument("--search", type=float, default=0, metavar="SECONDS")
    p.add_argument("--csv")
    p.add_argument("--commit", default="")
    a = p.parse_args()
    libs = {"ours": c.library(a.lib)}
    for path in a.base:
        libs[os.path.basename(path).split(".")[0]] = c.library(path)
    stamp, rows = c.stamp(a.commit, torch=torch.__version__), []
    real = demo_queries_and_keys(a.real) if a.real else []
    wanted = [name for name in KINDS if not a.kinds or any(x in name for x in a.kinds.split(","))]

    def measure(name, q, k):
        d, n = q.shape[2], q.shape[1]
        cell = Cell(libs if n <= 16384 else {"ours": libs["ours"]}, a.kernel, q, k)
        rate = cell.rates(a.rounds if n <= 16384 else 3)
        errors = cell.errors() if n <= 16384 else {}
        print("%-12s d%-3d %6d  " % (name, d, n) + "  ".join("%s %.0f" % x for x in rate.items()) +
              "  x%.2f cudnn  " % (rate["ours"] / rate["cudnn"]) + "  ".join("err %s %.1e" % x for x in errors.items()), flush=True)
        rows.append([*stamp.values(), name, d, "%d/%d" % HEADS[d], n, "%.1f" % rate["ours"], "%.1f" % rate["cudnn"],
                     "%.3f" % (rate["ours"] / rate["cudnn"]), "%.2e" % errors.get("ours", math.nan), "%.2e" % errors.get("cudnn", math.nan)])

    for d in map(int, a.dims.split(",")):
        for n in map(int, a.tokens.split(",")):
            if a.search:
                worst = search(libs, a.kernel, d, n, a.search, d + n)
                measure("adversary: " + said(worst), *mixture(worst, d, n))
                continue
            for name in wanted:
                measure(name, *make(*KINDS[name], d, n))
            for i, (q, k) in list(enumerate(real))[::2]:
                if q.shape[1] >= n:
                    measure(f"real {i}", *widen(q, k, d, n))
            torch.cuda.empty_cache()
    if a.csv:
        with open(a.csv, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow([*stamp, "data", "head_dim", "heads", "tokens", "tflops", "cudnn_tflops", "ratio_cudnn", "error", "cudnn_error"])
            w.writerows(rows)


if __name__ == "__main__":
    main()
