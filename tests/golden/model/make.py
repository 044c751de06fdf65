#!/usr/bin/env python3
"""Makes the small random models of tests/golden/model/data and their expected logits.

    make.py [--out DIR] [--no-oracle]

Each model is a directory as Hugging Face transformers reads it, with seeded random weights, and `expected.bin`:
int32 n_ids, int32 n_vocab, int32 ids[n_ids], float32 logits[n_ids][n_vocab], little endian. The logits come from
transformers in float64 where torch and transformers are installed, and are checked against the float64 forward pass
below; with --no-oracle they are those of the forward pass.
"""
import argparse
import json
import os
import struct

import numpy as np

N_IDS = 80  # past one KV block of 64 and past every window below


def base(arch, model_type, dtype, **more):
    config = {
        "architectures": [arch],
        "model_type": model_type,
        "hidden_act": "silu",
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "vocab_size": 64,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": dtype,
    }
    config.update(more)
    return {key: value for key, value in config.items() if value is not None}


def models():
    llama, mistral = ("LlamaForCausalLM", "llama"), ("MistralForCausalLM", "mistral")
    qwen2, qwen3 = ("Qwen2ForCausalLM", "qwen2"), ("Qwen3ForCausalLM", "qwen3")
    phi3, smollm3 = ("Phi3ForCausalLM", "phi3"), ("SmolLM3ForCausalLM", "smollm3")
    qwen3_moe, mixtral = ("Qwen3MoeForCausalLM", "qwen3_moe"), ("MixtralForCausalLM", "mixtral")
    factors = {"short_factor": [1 + 0.1 * i for i in range(8)], "long_factor": [1.5 + i for i in range(8)]}
    return {
        "llama-f32": base(*llama, "float32", rope_theta=10000.0),
        "llama-bf16-tied": base(*llama, "bfloat16", rope_theta=10000.0, tie_word_embeddings=True,
                                num_key_value_heads=2),
        "llama-f16-sharded": base(*llama, "float16", rope_theta=500000.0, hidden_size=40, intermediate_size=24),
        "llama-biases-linear-f32": base(*llama, "float32", rope_theta=10000.0, attention_bias=True, mlp_bias=True,
                                        tie_word_embeddings=True,
                                        rope_scaling={"type": "linear", "factor": 3.0}),
        "llama3-f32": base(*llama, "float32", rope_theta=10000.0, tie_word_embeddings=True, num_attention_heads=4,
                           num_key_value_heads=2, hidden_size=20, intermediate_size=28,
                           rope_scaling={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
        "mistral-window-f32": base(*mistral, "float32", rope_theta=10000.0, sliding_window=24),
        "qwen2-yarn-f32": base(*qwen2, "float32", rms_norm_eps=1e-6, tie_word_embeddings=True,
                               rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                                "original_max_position_embeddings": 32}),
        "qwen2-windows-bf16": base(*qwen2, "bfloat16", rope_theta=1000000.0, num_hidden_layers=3,
                                   use_sliding_window=True, sliding_window=17, max_window_layers=1,
                                   head_dim=48, num_attention_heads=3, num_key_value_heads=1, hidden_size=16),
        "qwen3-f32": base(*qwen3, "float32", rope_theta=1000000.0, rms_norm_eps=1e-6, num_attention_heads=4,
                          num_key_value_heads=2, hidden_size=20),
        "qwen3-layer-types-bf16": base(*qwen3, "bfloat16", num_hidden_layers=3, tie_word_embeddings=True,
                                       attention_bias=True, use_sliding_window=True, sliding_window=30,
                                       layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                       rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
                                                        "original_max_position_embeddings": 16, "beta_fast": 8,
                                                        "beta_slow": 2, "mscale": 1.5, "mscale_all_dim": 0.5,
                                                        "truncate": False}),
        "phi3-window-f32": base(*phi3, "float32", hidden_size=64, rope_theta=10000.0, sliding_window=24, pad_token_id=0),
        # 80 ids, and a context of 128 in the test: longer than it was trained on
        "phi3-longrope-bf16": base(*phi3, "bfloat16", hidden_size=64, rope_theta=10000.0, pad_token_id=0,
                                   partial_rotary_factor=0.5, original_max_position_embeddings=32,
                                   rope_scaling={"type": "longrope", **factors}),
        "phi3-longrope-short-f32": base(*phi3, "float32", hidden_size=64, rope_theta=10000.0, pad_token_id=0,
                                        partial_rotary_factor=0.5, original_max_position_embeddings=128,
                                        tie_word_embeddings=True,
                                        rope_scaling={"type": "su", "original_max_position_embeddings": 128, **factors}),
        "smollm3-f32": base(*smollm3, "float32", num_hidden_layers=5, tie_word_embeddings=None, pad_token_id=0),
        "smollm3-list-bf16": base(*smollm3, "bfloat16", num_hidden_layers=3, num_attention_heads=4, hidden_size=40,
                                  no_rope_layers=[0, 1, 0], attention_bias=True, pad_token_id=0,
                                  rope_parameters={"rope_type": "default", "rope_theta": 50000.0}),
        "mistral3-f32": base(*mistral, "float32", rope_theta=1e6),
        "mistral3-renamed-bf16": base(*mistral, "bfloat16", rope_theta=1e6, sliding_window=30, num_key_value_heads=2),
        # the last of whose layers has no experts, and one in the middle neither
        "qwen3-moe-f32": base(*qwen3_moe, "float32", rope_theta=1000000.0, rms_norm_eps=1e-6, num_hidden_layers=4,
                              num_attention_heads=4, num_key_value_heads=2, hidden_size=20, moe_intermediate_size=13,
                              num_experts=7, num_experts_per_tok=3, norm_topk_prob=True, mlp_only_layers=[1, 3],
                              use_sliding_window=False, max_window_layers=1),
        "qwen3-moe-whole-bf16": base(*qwen3_moe, "bfloat16", num_hidden_layers=4, moe_intermediate_size=16,
                                     num_local_experts=5, num_experts_per_tok=2, norm_topk_prob=False,
                                     decoder_sparse_step=2, attention_bias=True, use_sliding_window=True,
                                     sliding_window=30, rope_parameters={"rope_type": "default", "rope_theta": 1e5}),
        "mixtral-window-f32": base(*mixtral, "float32", sliding_window=24, intermediate_size=28, num_local_experts=4,
                                   num_experts_per_tok=2, rope_theta=1e6),
        "mixtral-whole-bf16": base(*mixtral, "bfloat16", num_local_experts=6, num_experts_per_tok=2, rope_theta=1e6,
                                   num_key_value_heads=2, tie_word_embeddings=True),
    }


# Experts are stored as the hub has them, or all of a layer's in one tensor, as transformers keeps them in memory.
WHOLE = {"qwen3-moe-whole-bf16", "mixtral-whole-bf16"}
ROUTER_GAP = 0.08  # of logits: whoever rounds a little chooses the same experts


def n_experts(c):
    return c.get("num_experts", c.get("num_local_experts", 0))


def has_experts(c, layer):
    step = c.get("decoder_sparse_step", 1)
    return n_experts(c) > 0 and (layer + 1) % step == 0 and layer not in c.get("mlp_only_layers", [])


def expert_names(c):
    """Of the block, and of an expert's three matrices."""
    if c["model_type"] == "mixtral":
        return "block_sparse_moe", ("w1", "w3", "w2")
    return "mlp", ("gate_proj", "up_proj", "down_proj")


def expert_shapes(c, p):
    d, i, e = c["hidden_size"], c.get("moe_intermediate_size", c["intermediate_size"]), n_experts(c)
    block, (gate, up, down) = expert_names(c)
    out = {p + block + ".gate.weight": (e, d)}
    for n in range(e):
        for name, shape in ((gate, (i, d)), (up, (i, d)), (down, (d, i))):
            out[f"{p}{block}.experts.{n}.{name}.weight"] = shape
    return out


def join_experts(c, stored):
    """The same weights with all experts of a layer in one tensor."""
    block, (gate, up, down) = expert_names(c)
    out = {}
    for name, a in stored.items():
        layer, _, rest = name.partition("." + block + ".")
        if not rest or rest.startswith(("gate_proj", "up_proj", "down_proj")):
            out[name] = a
        elif rest == "gate.weight":
            experts = [[stored[f"{layer}.{block}.experts.{n}.{m}.weight"] for m in (gate, up, down)]
                       for n in range(n_experts(c))]
            out[layer + ".mlp.gate.weight"] = a
            out[layer + ".mlp.experts.gate_up_proj"] = np.stack([np.concatenate(e[:2]) for e in experts])
            out[layer + ".mlp.experts.down_proj"] = np.stack([e[2] for e in experts])
    return out


# Models that also see: their text part is one of those above, and is made and asked as such. Then its configuration
# becomes a text_config, and its names get what stands before them in the older files and in the newer ones.
NESTED = {"mistral3-f32": ("language_model.model.", "language_model."), "mistral3-renamed-bf16": ("model.language_model.", "")}


def nest(folder, c, stored, inner, head):
    text = {k: v for k, v in c.items() if k not in ("architectures", "torch_dtype", "eos_token_id")}
    whole = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "text_config": text,
             "torch_dtype": c["torch_dtype"], "eos_token_id": c["eos_token_id"], "image_token_index": 10,
             "vision_config": {"model_type": "pixtral", "hidden_size": 8, "num_attention_heads": 2}}
    names = {n: inner + n[len("model."):] if n.startswith("model.") else head + n for n in stored}
    tower = {"vision_tower.transformer.layers.0.attention.q_proj.weight": next(iter(stored.values()))[:8]}
    write_model(folder, whole, {**{names[n]: a for n, a in stored.items()}, **tower}, 1)


def is_tied(c):
    return c.get("tie_word_embeddings", c["model_type"] == "smollm3")


def rotary_dim(c):
    return int(c["head_dim"] * c.get("partial_rotary_factor", 1.0))


def rotates(c, layer):
    if c["model_type"] != "smollm3":
        return True
    return bool(c["no_rope_layers"][layer]) if "no_rope_layers" in c else (layer + 1) % 4 != 0


def shapes(c):
    d, i, v, hd = c["hidden_size"], c["intermediate_size"], c["vocab_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * hd, c["num_key_value_heads"] * hd
    arch = c["architectures"][0]
    bias = c.get("attention_bias", False)
    out = {"model.embed_tokens.weight": (v, d), "model.norm.weight": (d,)}
    if not is_tied(c):
        out["lm_head.weight"] = (v, d)
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        out[p + "input_layernorm.weight"] = out[p + "post_attention_layernorm.weight"] = (d,)
        stacked = arch == "Phi3ForCausalLM"
        qkv = (("qkv", q + 2 * kv, d),) if stacked else (("q", q, d), ("k", kv, d), ("v", kv, d))
        for name, rows, cols in (*qkv, ("o", d, q)):
            out[p + f"self_attn.{name}_proj.weight"] = (rows, cols)
            if bias or (arch == "Qwen2ForCausalLM" and name != "o"):
                out[p + f"self_attn.{name}_proj.bias"] = (rows,)
        if has_experts(c, n):
            out |= expert_shapes(c, p)
        gate_up = (("gate_up", 2 * i, d),) if stacked else (("gate", i, d), ("up", i, d))
        for name, rows, cols in () if has_experts(c, n) else (*gate_up, ("down", d, i)):
            out[p + f"mlp.{name}_proj.weight"] = (rows, cols)
            if c.get("mlp_bias"):
                out[p + f"mlp.{name}_proj.bias"] = (rows,)
        if arch in ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM"):
            out[p + "self_attn.q_norm.weight"] = out[p + "self_attn.k_norm.weight"] = (hd,)
    return out


def to_bf16(a):
    u = a.astype("<f4").view("<u4").astype(np.uint64)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("<u2")


ENCODE = {
    "float32": ("F32", lambda a: a.astype("<f4"), lambda b: b.astype(np.float64)),
    "float16": ("F16", lambda a: a.astype("<f2"), lambda b: b.astype(np.float64)),
    "bfloat16": ("BF16", to_bf16, lambda b: (b.astype("<u4") << 16).view("<f4").astype(np.float64)),
}


def weights(c, rng):
    """Name -> array as stored. Large enough that attention is not flat and logits differ by tenths."""
    out = {}
    for name, shape in shapes(c).items():
        a = rng.standard_normal(shape)
        if "norm" in name:
            a = 1 + 0.2 * a
        elif name.endswith("bias"):
            a = 0.3 * a
        elif "embed" not in name:
            a = 1.3 * a / np.sqrt(shape[-1])
        out[name] = ENCODE[c["torch_dtype"]][1](a)
    return out


def write_safetensors(path, tensors, dtype):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, a in tensors.items():
        kind = "U8" if a.dtype == np.uint8 else dtype
        header[name] = {"dtype": kind, "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(a.tobytes())


def write_config(folder, c):
    with open(folder + "/config.json", "w") as f:
        json.dump(c, f, indent=1)
        f.write("\n")


def write_model(folder, c, stored, n_shards):
    os.makedirs(folder, exist_ok=True)
    dtype = ENCODE[c.get("torch_dtype") or c.get("dtype", "bfloat16")][0]
    write_config(folder, c)
    if n_shards == 1:
        write_safetensors(folder + "/model.safetensors", stored, dtype)
        return
    names, index = list(stored), {}
    for i in range(n_shards):
        part = names[i::n_shards]
        file = f"model-{i + 1:05d}-of-{n_shards:05d}.safetensors"
        write_safetensors(f"{folder}/{file}", {n: stored[n] for n in part}, dtype)
        index |= {n: file for n in part}
    with open(folder + "/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {"total_size": sum(a.nbytes for a in stored.values())}, "weight_map": index}, f, indent=1)
        f.write("\n")


def inv_freq(c):
    """Inverse frequencies and the factor on cos and sin."""
    r = c.get("rope_scaling") or c.get("rope_parameters") or {}
    default = 2e6 if c["model_type"] == "smollm3" else 10000.0
    dim, theta = rotary_dim(c), r.get("rope_theta", c.get("rope_theta", default))
    inv = theta ** (-np.arange(0, dim, 2) / dim)
    kind = r.get("rope_type", r.get("type", "default"))
    if kind == "default":
        return inv, 1.0
    if kind in ("longrope", "su"):
        old = c["original_max_position_embeddings"]
        factor = c["max_position_embeddings"] / old
        return (inv / np.array(r["long_factor" if N_IDS > old else "short_factor"]),
                np.sqrt(1 + np.log(factor) / np.log(old)) if factor > 1 else 1.0)
    factor, old = r["factor"], r.get("original_max_position_embeddings")
    if kind == "linear":
        return inv / factor, 1.0
    if kind == "llama3":
        turns = old * inv / (2 * np.pi)  # rotations within the original context
        low, high = r["low_freq_factor"], r["high_freq_factor"]
        s = np.clip((turns - low) / (high - low), 0, 1)
        return (1 - s) * inv / factor + s * inv, 1.0
    assert kind == "yarn"

    def dim_of(rotations):
        return dim * np.log(old / (rotations * 2 * np.pi)) / (2 * np.log(theta))

    low, high = dim_of(r.get("beta_fast", 32)), dim_of(r.get("beta_slow", 1))
    if r.get("truncate", True):
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low if high != low else 0.001), 0, 1)

    def mscale(m):
        return 0.1 * m * np.log(factor) + 1

    factor_on_cos = mscale(r["mscale"]) / mscale(r["mscale_all_dim"]) if r.get("mscale") else mscale(1)
    return inv / factor * ramp + inv * (1 - ramp), factor_on_cos


def windows(c):
    n, w = c["num_hidden_layers"], c.get("sliding_window")
    if c["model_type"] in ("mistral", "mixtral", "phi3"):
        return [w] * n
    if not c.get("use_sliding_window"):
        return [None] * n
    if c["model_type"] == "qwen3_moe":
        return [w] * n
    kinds = c.get("layer_types")
    if kinds:
        return [w if k == "sliding_attention" else None for k in kinds]
    return [w if i >= c["max_window_layers"] else None for i in range(n)]


def experts(c, t, p, h, gaps):
    """What the experts of a layer make of h. gaps: of each token, what it takes to choose another one."""
    block, names = expert_names(c)
    k, out = c["num_experts_per_tok"], np.zeros_like(h)
    logits = h @ t[p + block + ".gate.weight"].T
    order = np.argsort(-logits, -1)
    ranked = np.take_along_axis(logits, order, -1)
    gaps.append(ranked[:, k - 1] - ranked[:, k])
    probs = np.exp(ranked - ranked[:, :1])
    probs /= probs.sum(-1, keepdims=True)
    if c.get("norm_topk_prob", c["model_type"] == "mixtral"):
        probs /= probs[:, :k].sum(-1, keepdims=True)
    for row in range(len(h)):
        for j in range(k):
            gate, up, down = (t[f"{p}{block}.experts.{order[row, j]}.{m}.weight"] for m in names)
            g = gate @ h[row]
            out[row] += probs[row, j] * (down @ (g / (1 + np.exp(-g)) * (up @ h[row])))
    return out


def choose_ids(c, t, rng):
    """Ids whose tokens choose their experts clearly, in every layer. What is before a token does not depend on it."""
    ids = []
    while len(ids) < N_IDS:
        gaps = []
        tried = int(rng.integers(0, c["vocab_size"]))
        forward(c, t, ids + [tried], gaps)
        if min(g[-1] for g in gaps) > ROUTER_GAP:
            ids.append(tried)
    return ids


def forward(c, t, ids, gaps=None):
    """Logits [n, vocab] in float64, written as plainly as the architecture allows."""
    gaps = [] if gaps is None else gaps
    heads, kv_heads, hd, n = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], len(ids)

    def norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w

    def linear(x, name):
        return x @ t[name + ".weight"].T + t.get(name + ".bias", 0.0)

    inv, on_cos = inv_freq(c)
    angle = np.arange(n)[:, None] * inv
    cos, sin = np.cos(angle)[:, None] * on_cos, np.sin(angle)[:, None] * on_cos

    def rotate(x):
        half = rotary_dim(c) // 2
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def split(x, name, stacked, sizes):
        """What tensors of these names make of x, or the one they are stacked in."""
        if stacked + ".weight" in t:
            return np.split(linear(x, stacked), np.cumsum(sizes)[:-1], -1)
        return [linear(x, n) for n in name]

    gap = np.arange(n)[:, None] - np.arange(n)[None]  # query position - key position
    x = t["model.embed_tokens.weight"][ids]
    for layer, window in enumerate(windows(c)):
        p = f"model.layers.{layer}."
        h = norm(x, t[p + "input_layernorm.weight"])
        q, k, v = split(h, [p + f"self_attn.{s}_proj" for s in "qkv"], p + "self_attn.qkv_proj",
                        [heads * hd, kv_heads * hd, kv_heads * hd])
        q, k, v = (a.reshape(n, -1, hd) for a in (q, k, v))
        if p + "self_attn.q_norm.weight" in t:
            q, k = norm(q, t[p + "self_attn.q_norm.weight"]), norm(k, t[p + "self_attn.k_norm.weight"])
        if rotates(c, layer):
            q, k = rotate(q), rotate(k)
        k, v = (np.repeat(a, heads // kv_heads, 1) for a in (k, v))
        seen = (gap >= 0) & (gap < (window or n))
        s = np.where(seen, np.einsum("qhd,khd->hqk", q, k) / np.sqrt(hd), -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        x = x + linear(np.einsum("hqk,khd->qhd", s, v).reshape(n, -1), p + "self_attn.o_proj")
        h = norm(x, t[p + "post_attention_layernorm.weight"])
        if has_experts(c, layer):
            x = x + experts(c, t, p, h, gaps)
            continue
        g, up = split(h, [p + "mlp.gate_proj", p + "mlp.up_proj"], p + "mlp.gate_up_proj", [c["intermediate_size"]] * 2)
        x = x + linear(g / (1 + np.exp(-g)) * up, p + "mlp.down_proj")
    x = norm(x, t["model.norm.weight"])
    return x @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).T


def oracle(folder, ids):
    """transformers' logits, the model in float64."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", experts_implementation="eager",
                                                 dtype=torch.float32)
    model = model.double().eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def write_expected(folder, c, ids, logits, note):
    with open(folder + "/expected.bin", "wb") as f:
        f.write(np.array([N_IDS, c["vocab_size"], *ids], "<i4").tobytes() + logits.astype("<f4").tobytes())
    top, name = np.sort(logits, -1), os.path.basename(folder)
    print(f"{name:24s} spread {logits.std():.2f}, median gap {np.median(top[:, -1] - top[:, -2]):.2f}  {note}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data"))
    ap.add_argument("--no-oracle", action="store_true")
    args = ap.parse_args()
    import delta_net  # which imports this file
    import gemma  # which imports this file
    import gpt_oss  # which imports this file

    for seed, (name, c) in enumerate(models().items()):
        rng = np.random.default_rng(1000 + seed)
        stored = weights(c, rng)
        folder = f"{args.out}/{name}"
        write_model(folder, c, join_experts(c, stored) if name in WHOLE else stored, 3 if "sharded" in name else 1)
        decoded = {n: ENCODE[c["torch_dtype"]][2](a) for n, a in stored.items()}
        ids = choose_ids(c, decoded, rng) if n_experts(c) else rng.integers(0, c["vocab_size"], N_IDS).tolist()
        logits = forward(c, decoded, ids)
        note = ""
        if not args.no_oracle:
            theirs = oracle(folder, ids)
            error = np.linalg.norm(theirs - logits) / np.linalg.norm(theirs)
            note = f"forward pass differs from transformers by {error:.1e}"
            assert error < 1e-5, (name, error)
            logits = theirs
        if name in NESTED:
            nest(folder, c, stored, *NESTED[name])
        write_expected(folder, c, ids, logits, note)
    gemma.write_all(args.out, not args.no_oracle)
    gpt_oss.write(args.out, not args.no_oracle)
    delta_net.write_all(args.out, not args.no_oracle)


if __name__ == "__main__":
    main()
