"""gpt-oss among the models of make.py: what MXFP4 groups are worth, and checkpoints with experts in them or in bfloat16.

Rounded arithmetic may choose other experts for a token than exact arithmetic does. So the prompts are made of ids whose
tokens are clear to every router: the last expert chosen is well before the first one that is not.
"""
import os

import numpy as np

import make

VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
CLEAR = 0.15  # between two router logits


def expand(blocks, scales):
    """[..., groups, 16] bytes and [..., groups] scales -> [..., 32 · groups] float64."""
    nibbles = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:-1], 32)
    values = VALUES[nibbles] * 2.0 ** (scales.astype(int) - 127)[..., None]
    return values.reshape(*values.shape[:-2], -1)


def write_groups(path, with_oracle):
    """Every scale that bfloat16 holds the products of, with all sixteen values in both halves of a byte."""
    rng = np.random.default_rng(77)
    scales = np.concatenate([np.arange(253), rng.integers(100, 140, 59)]).astype("u1")
    every = np.stack([np.arange(16) * 16 + np.roll(np.arange(16), s) for s in range(16)]).astype("u1")
    blocks = np.stack([every[i % 16] if i < 253 else rng.integers(0, 256, 16) for i in range(len(scales))]).astype("u1")
    wide = expand(blocks, scales).reshape(len(scales), 32)
    if with_oracle:
        import torch
        from transformers.integrations.mxfp4 import convert_moe_packed_tensors

        theirs = convert_moe_packed_tensors(torch.tensor(blocks)[None, :, None], torch.tensor(scales)[None, :, None],
                                            dtype=torch.bfloat16)[0].T
        assert np.array_equal(theirs.double().numpy(), wide)
        bits = theirs.contiguous().view(torch.int16).numpy().astype("<i2")
    else:
        bits = (wide.astype("<f4").view("<u4") >> 16).astype("<u2")
    with open(path, "wb") as f:
        f.write(blocks.tobytes() + scales.tobytes() + bits.tobytes())


def models():
    sizes = {"hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 32, "num_local_experts": 5, "vocab_size": 64}
    common = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_act": "silu", **sizes,
              "attention_bias": True, "attention_dropout": 0.0, "initializer_range": 0.02, "output_router_logits": False,
              "rms_norm_eps": 1e-5, "eos_token_id": 2, "pad_token_id": 0, "use_cache": True, "router_aux_loss_coef": 0.9,
              "tie_word_embeddings": False}
    # as the files on the hub have them
    old = {**common, "experts_per_token": 2, "num_experts_per_tok": 2, "initial_context_length": 16,
           "max_position_embeddings": 128, "sliding_window": 20, "swiglu_limit": 2.0, "rope_theta": 150000,
           "layer_types": ["sliding_attention", "full_attention"], "transformers_version": "4.55.0.dev0",
           "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0, "rope_type": "yarn", "truncate": False,
                            "original_max_position_embeddings": 16},
           "quantization_config": {"quant_method": "mxfp4",
                                   "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                              "model.embed_tokens", "lm_head"]}}
    # as save_pretrained of transformers 5 writes them
    new = {**common, "dtype": "float32", "num_experts_per_tok": 3, "max_position_embeddings": 128, "sliding_window": 17,
           "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "num_hidden_layers": 3,
           "swiglu_alpha": 1.702, "swiglu_limit": 1.0, "transformers_version": "5.23.0",
           "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "rope_type": "yarn", "truncate": False,
                               "original_max_position_embeddings": 32, "rope_theta": 10000.0}}
    plain = {k: v for k, v in new.items() if k not in ("layer_types", "swiglu_limit", "swiglu_alpha", "attention_bias")}
    return {
        "gpt-oss-mxfp4": old,
        "gpt-oss-f32": {**new, "hidden_size": 40, "intermediate_size": 24},
        # without what has a default; all alternates from a window on, limit 7, biases
        "gpt-oss-bf16": {**plain, "dtype": "bfloat16", "num_hidden_layers": 2, "hidden_size": 24,
                         "intermediate_size": 44, "num_key_value_heads": 1, "tie_word_embeddings": True},
    }


def dtype_of(c):
    return c.get("dtype", "bfloat16")


def shapes(c):
    d, i, v, hd, e = (c[k] for k in ("hidden_size", "intermediate_size", "vocab_size", "head_dim", "num_local_experts"))
    q, kv = c["num_attention_heads"] * hd, c["num_key_value_heads"] * hd
    out = {"model.embed_tokens.weight": (v, d), "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = (v, d)
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        out[p + "input_layernorm.weight"] = out[p + "post_attention_layernorm.weight"] = (d,)
        for name, rows, cols in (("q", q, d), ("k", kv, d), ("v", kv, d), ("o", d, q)):
            out[p + f"self_attn.{name}_proj.weight"], out[p + f"self_attn.{name}_proj.bias"] = (rows, cols), (rows,)
        out[p + "self_attn.sinks"] = (c["num_attention_heads"],)
        out[p + "mlp.router.weight"], out[p + "mlp.router.bias"] = (e, d), (e,)
        out[p + "mlp.experts.gate_up_proj"], out[p + "mlp.experts.gate_up_proj_bias"] = (e, d, 2 * i), (e, 2 * i)
        out[p + "mlp.experts.down_proj"], out[p + "mlp.experts.down_proj_bias"] = (e, i, d), (e, d)
    return out


def weights(c, rng):
    """Name -> array as stored."""
    encode, out = make.ENCODE[dtype_of(c)][1], {}
    for name, shape in shapes(c).items():
        is_expert = name.endswith("gate_up_proj") or name.endswith("down_proj")
        if is_expert and "quantization_config" in c:
            groups = (shape[0], shape[2], shape[1] // 32)
            out[name + "_blocks"] = rng.integers(0, 256, (*groups, 16)).astype("u1")
            out[name + "_scales"] = (127 - 3 - rng.integers(0, 3, groups)).astype("u1")
            continue
        a = rng.standard_normal(shape)
        if "norm" in name:
            a = 1 + 0.2 * a
        elif name.endswith("bias"):
            a = 0.3 * a
        elif name.endswith("sinks"):
            a = 1 + a
        elif "router" in name:
            a = 3 * a / np.sqrt(shape[-1])
        elif "embed" not in name:
            a = 1.3 * a / np.sqrt(shape[-2 if is_expert else -1])
        out[name] = encode(a)
    return out


def decoded(c, stored):
    """Name -> float64, experts as [E, in, out]."""
    decode, out = make.ENCODE[dtype_of(c)][2], {}
    for name, a in stored.items():
        if name.endswith("_blocks"):
            out[name[:-7]] = expand(a, stored[name[:-7] + "_scales"]).transpose(0, 2, 1)
        elif not name.endswith("_scales"):
            out[name] = decode(a)
    return out


def experts(c, t, p, h, seen):
    """The expert layer of rows h. seen: gets how near each row's routers were, and how often something was clamped."""
    k, limit = c["num_experts_per_tok"], c.get("swiglu_limit", 7.0)
    logits = h @ t[p + "router.weight"].T + t[p + "router.bias"]
    order = np.argsort(-logits, -1)
    top = np.take_along_axis(logits, order, -1)
    seen["gap"] = np.minimum(seen["gap"], top[:, k - 1] - top[:, k])
    share = np.exp(top[:, :k] - top[:, :1])
    share /= share.sum(-1, keepdims=True)
    out = np.zeros_like(h)
    for row in range(len(h)):
        for j in range(k):
            e = order[row, j]
            both = h[row] @ t[p + "experts.gate_up_proj"][e] + t[p + "experts.gate_up_proj_bias"][e]
            gate, up = np.minimum(both[::2], limit), np.clip(both[1::2], -limit, limit)
            seen["clamped"] += np.mean(both[::2] > limit) + np.mean(np.abs(both[1::2]) > limit)
            act = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
            out[row] += share[row, j] * (act @ t[p + "experts.down_proj"][e] + t[p + "experts.down_proj_bias"][e])
    return out


def forward(c, t, ids):
    """Logits [n, vocab] in float64, and each row's least gap between an expert that was chosen and one that was not."""
    heads, kv_heads, hd, n = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], len(ids)
    kinds = c.get("layer_types") or ["sliding_attention", "full_attention"] * c["num_hidden_layers"]
    seen = {"gap": np.full(n, np.inf), "clamped": 0.0}

    def norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w

    def linear(x, name):
        return x @ t[name + ".weight"].T + t[name + ".bias"]

    inv, on_cos = make.inv_freq(c)
    angle = np.arange(n)[:, None] * inv
    cos, sin = np.cos(angle)[:, None] * on_cos, np.sin(angle)[:, None] * on_cos

    def rotate(x):
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    gap = np.arange(n)[:, None] - np.arange(n)[None]  # query position - key position
    x = t["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = norm(x, t[p + "input_layernorm.weight"])
        q, k, v = (linear(h, p + f"self_attn.{s}_proj").reshape(n, -1, hd) for s in "qkv")
        q, k = rotate(q), rotate(k)
        k, v = (np.repeat(a, heads // kv_heads, 1) for a in (k, v))
        visible = (gap >= 0) & (gap < (c["sliding_window"] if kinds[layer] == "sliding_attention" else n))
        s = np.where(visible, np.einsum("qhd,khd->hqk", q, k) / np.sqrt(hd), -np.inf)
        sinks = t[p + "self_attn.sinks"][:, None, None]
        most = np.maximum(s.max(-1, keepdims=True), sinks)
        s = np.exp(s - most)
        s /= s.sum(-1, keepdims=True) + np.exp(sinks - most)
        x = x + linear(np.einsum("hqk,khd->qhd", s, v).reshape(n, -1), p + "self_attn.o_proj")
        x = x + experts(c, t, p + "mlp.", norm(x, t[p + "post_attention_layernorm.weight"]), seen)
    x = norm(x, t["model.norm.weight"])
    seen["clamped"] /= n * c["num_hidden_layers"] * c["num_experts_per_tok"]
    return x @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).T, seen


def clear_ids(c, t, rng):
    """A prompt whose tokens no router is in two minds about. A token does not see those behind it."""
    ids = []
    while len(ids) < make.N_IDS:
        ids.append(int(rng.integers(0, c["vocab_size"])))
        if forward(c, t, ids)[1]["gap"][-1] < CLEAR:
            ids.pop()
    return ids


def oracle(folder, c, ids):
    """transformers' logits, the model in float64; it reads the folder and expands MXFP4 itself."""
    import torch
    from transformers import AutoModelForCausalLM, Mxfp4Config

    more = {"quantization_config": Mxfp4Config(dequantize=True)} if "quantization_config" in c else {}
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", experts_implementation="eager",
                                                 dtype=torch.float32, **more)
    model = model.double().eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def write(out, with_oracle):
    write_groups(out + "/mxfp4.bin", with_oracle)
    for seed, (name, c) in enumerate(models().items()):
        rng = np.random.default_rng(5000 + seed)
        stored = weights(c, rng)
        folder, t = f"{out}/{name}", decoded(c, stored)
        make.write_model(folder, c, stored, 1)
        ids = clear_ids(c, t, rng)
        logits, seen = forward(c, t, ids)
        note = f"{50 * seen['clamped']:.0f}% clamped, least gap of a router {seen['gap'].min():.2f}"
        if with_oracle:
            theirs = oracle(folder, c, ids)
            error = np.linalg.norm(theirs - logits) / np.linalg.norm(theirs)
            assert error < 1e-5, (name, error)
            logits = theirs
            note += f"; forward pass differs from transformers by {error:.1e}"
        make.write_expected(folder, c, ids, logits, note)
