"""Qwen3-Next and Qwen3.5 among the models of make.py: configurations as the hub has them and as transformers 5 writes
them, and a forward pass in float64 whose delta rule is token by token.

transformers computes that rule in float32, whatever the model is in, and in chunks. So its logits are off by what
float32 leaves (printed); they are what ours are compared with all the same, for they come from nothing of ours."""
import numpy as np

import make

TYPES = {"n": "linear_attention", "a": "full_attention"}
ROUTER_GAP = 0.35  # of logits whose spread is about 3: a state carries a choice to all tokens behind it


def models():
    common = {"hidden_act": "silu", "hidden_size": 24, "intermediate_size": 28, "vocab_size": 64, "num_attention_heads": 4,
              "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "bos_token_id": 1,
              "eos_token_id": 2, "pad_token_id": 0}
    delta = {"linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 16,
             "linear_value_head_dim": 24, "linear_conv_kernel_dim": 4}
    experts = {"num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 12,
               "shared_expert_intermediate_size": 20}
    mrope = {"rope_type": "default", "rope_theta": 1e5, "partial_rotary_factor": 0.25, "mrope_interleaved": True,
             "mrope_section": [2, 1, 1]}
    next_ = {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", **common, **experts}
    dense = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", **common}
    moe = {"architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text", **common, **experts}
    del moe["intermediate_size"]
    return {
        # as the hub has it; the last layer is a delta net
        "qwen3-next-f32": {**next_, **delta, "num_hidden_layers": 4, "head_dim": 32, "full_attention_interval": 3,
                           "rope_theta": 1e5, "rope_scaling": None, "mlp_only_layers": [1], "decoder_sparse_step": 1,
                           "norm_topk_prob": True, "tie_word_embeddings": False, "torch_dtype": "float32"},
        # as transformers 5 writes it
        "qwen3-next-bf16": {**next_, **delta, "num_hidden_layers": 3, "head_dim": 40, "linear_num_key_heads": 1,
                            "linear_num_value_heads": 2, "linear_conv_kernel_dim": 3, "decoder_sparse_step": 2,
                            "layer_types": [TYPES[t] for t in "ana"], "norm_topk_prob": False, "attention_bias": True,
                            "rope_parameters": {"rope_type": "default", "rope_theta": 5e4, "partial_rotary_factor": 0.5},
                            "tie_word_embeddings": True, "mlp_only_layers": [], "dtype": "bfloat16"},
        "qwen3.5-f32": {**dense, **delta, "num_hidden_layers": 5, "head_dim": 32, "rope_parameters": mrope,
                        "tie_word_embeddings": True, "attn_output_gate": True, "torch_dtype": "float32"},
        "qwen3.5-bf16": {**dense, **delta, "num_hidden_layers": 4, "head_dim": 48, "linear_num_value_heads": 2,
                         "linear_key_head_dim": 32, "linear_value_head_dim": 8, "rope_parameters": mrope,
                         "layer_types": [TYPES[t] for t in "nnan"], "tie_word_embeddings": False, "dtype": "bfloat16"},
        "qwen3.5-moe-f32": {**moe, **delta, "num_hidden_layers": 3, "head_dim": 32, "rope_parameters": mrope,
                            "layer_types": [TYPES[t] for t in "nna"], "tie_word_embeddings": False, "dtype": "float32"},
        # few layers: the norm of a head stretches what bf16 leaves of a short read
        "qwen3.5-moe-bf16": {**moe, **delta, "num_hidden_layers": 2, "head_dim": 64, "rope_parameters": mrope,
                             "full_attention_interval": 2, "tie_word_embeddings": False, "torch_dtype": "bfloat16"},
    }


# Models that also see, as make.NESTED; each of those of the hub has the others' tensors beside it.
NESTED = {"qwen3.5-bf16": "Qwen3_5", "qwen3.5-moe-bf16": "Qwen3_5Moe"}


def nest(folder, c, stored, family):
    kept = ("architectures", "torch_dtype", "tie_word_embeddings")
    text = {k: v for k, v in c.items() if k not in kept}
    kind = c["model_type"].removesuffix("_text")
    whole = {"architectures": [family + "ForConditionalGeneration"], "model_type": kind, "text_config": text,
             "tie_word_embeddings": c["tie_word_embeddings"], "image_token_id": 60, "video_token_id": 61,
             "vision_start_token_id": 62, "vision_end_token_id": 63,
             "vision_config": {"model_type": kind, "hidden_size": 8, "depth": 1, "num_heads": 2}}
    if "torch_dtype" in c:
        whole["torch_dtype"] = c["torch_dtype"]
    names = {n: "model.language_model." + n[len("model."):] if n.startswith("model.") else n for n in stored}
    one = next(iter(stored.values()))
    others = {"model.visual.blocks.0.attn.qkv.weight": one[:8], "model.visual.merger.norm.weight": one[0],
              "mtp.fc.weight": one[:4], "mtp.layers.0.self_attn.q_proj.weight": one[:6], "mtp.norm.weight": one[0]}
    write(folder, whole, {**{names[n]: a for n, a in stored.items()}, **others}, dtype_of(c))


def write(folder, c, stored, dtype):
    """make.write_model, for a configuration that may say `dtype`."""
    make.write_model(folder, {**c, "torch_dtype": dtype}, stored, 1)
    make.write_config(folder, c)


def dtype_of(c):
    return c.get("torch_dtype") or c["dtype"]


def is_delta(c, layer):
    kinds = c.get("layer_types")
    return kinds[layer] == TYPES["n"] if kinds else (layer + 1) % c.get("full_attention_interval", 4) != 0


def has_experts(c, layer):
    if "num_experts" not in c:
        return False
    return (layer + 1) % c.get("decoder_sparse_step", 1) == 0 and layer not in c.get("mlp_only_layers", [])


def delta_shape(c):
    return [c[f"linear_{k}"] for k in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim",
                                       "conv_kernel_dim")]


def delta_shapes(c, p):
    d, (k_heads, v_heads, k_dim, v_dim, width) = c["hidden_size"], delta_shape(c)
    n_qkv, n_v = 2 * k_heads * k_dim + v_heads * v_dim, v_heads * v_dim
    out = {"conv1d.weight": (n_qkv, 1, width), "dt_bias": (v_heads,), "A_log": (v_heads,), "norm.weight": (v_dim,),
           "out_proj.weight": (d, n_v)}
    if c["model_type"] == "qwen3_next":
        out |= {"in_proj_qkvz.weight": (n_qkv + n_v, d), "in_proj_ba.weight": (2 * v_heads, d)}
    else:
        out |= {"in_proj_qkv.weight": (n_qkv, d), "in_proj_z.weight": (n_v, d), "in_proj_b.weight": (v_heads, d),
                "in_proj_a.weight": (v_heads, d)}
    return {p + "linear_attn." + name: shape for name, shape in out.items()}


def attention_shapes(c, p):
    d, hd = c["hidden_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * hd, c["num_key_value_heads"] * hd
    out = {p + "self_attn.q_norm.weight": (hd,), p + "self_attn.k_norm.weight": (hd,)}
    for name, rows, cols in (("q", 2 * q, d), ("k", kv, d), ("v", kv, d), ("o", d, q)):
        out[p + f"self_attn.{name}_proj.weight"] = (rows, cols)
        if c.get("attention_bias"):
            out[p + f"self_attn.{name}_proj.bias"] = (rows,)
    return out


def mlp_shapes(d, p, n):
    return {p + "gate_proj.weight": (n, d), p + "up_proj.weight": (n, d), p + "down_proj.weight": (d, n)}


def shapes(c):
    d, v = c["hidden_size"], c["vocab_size"]
    out = {"model.embed_tokens.weight": (v, d), "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = (v, d)
    for n in range(c["num_hidden_layers"]):
        p = f"model.layers.{n}."
        out[p + "input_layernorm.weight"] = out[p + "post_attention_layernorm.weight"] = (d,)
        out |= delta_shapes(c, p) if is_delta(c, n) else attention_shapes(c, p)
        if not has_experts(c, n):
            out |= mlp_shapes(d, p + "mlp.", c["intermediate_size"])
            continue
        e, i = c["num_experts"], c["moe_intermediate_size"]
        out |= {p + "mlp.gate.weight": (e, d), p + "mlp.shared_expert_gate.weight": (1, d),
                p + "mlp.experts.gate_up_proj": (e, 2 * i, d), p + "mlp.experts.down_proj": (e, d, i)}
        out |= mlp_shapes(d, p + "mlp.shared_expert.", c["shared_expert_intermediate_size"])
    return out


def weights(c, rng):
    """Name -> array as stored. Of the decays some forget within tokens and some over hundreds."""
    out = {}
    for name, shape in shapes(c).items():
        a = rng.standard_normal(shape)
        if name.endswith("linear_attn.norm.weight"):
            a = 1 + 0.2 * a
        elif "norm" in name or name.endswith("bias"):
            a = 0.3 * a
        elif name.endswith("A_log"):
            a = np.log(rng.uniform(0.01, 3, shape))
        elif name.endswith("mlp.gate.weight"):
            a = 3 * a / np.sqrt(shape[-1])
        elif "embed" not in name:
            a = 1.3 * a / np.sqrt(shape[-1])
        out[name] = make.ENCODE[dtype_of(c)][1](a)
    return out


def part_experts(c, stored):
    """The same weights with a tensor for each expert's matrix, as the hub has Qwen3-Next."""
    out = {}
    for name, a in stored.items():
        block, _, rest = name.partition(".experts.")
        if rest == "gate_up_proj":
            for e, (gate, up) in enumerate(np.split(x, 2) for x in a):
                out[f"{block}.experts.{e}.gate_proj.weight"], out[f"{block}.experts.{e}.up_proj.weight"] = gate, up
        elif rest == "down_proj":
            out |= {f"{block}.experts.{e}.down_proj.weight": x for e, x in enumerate(a)}
        else:
            out[name] = a
    return out


# ---- the forward pass ----


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rms(x, c):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"])


def delta_inputs(c, t, p, h):
    """Of each token q, k and v of all heads side by side, z, b and a."""
    k_heads, v_heads, k_dim, v_dim, _ = delta_shape(c)
    if c["model_type"] != "qwen3_next":
        return [h @ t[p + f"in_proj_{name}.weight"].T for name in ("qkv", "z", "b", "a")]
    each, n = v_heads // k_heads, len(h)
    mixed = (h @ t[p + "in_proj_qkvz.weight"].T).reshape(n, k_heads, -1)
    q, k, v, z = np.split(mixed, np.cumsum([k_dim, k_dim, each * v_dim]), -1)
    b, a = np.split((h @ t[p + "in_proj_ba.weight"].T).reshape(n, k_heads, -1), 2, -1)
    return [np.concatenate([x.reshape(n, -1) for x in (q, k, v)], -1), *(x.reshape(n, -1) for x in (z, b, a))]


def delta_net(c, t, p, h):
    k_heads, v_heads, k_dim, v_dim, width = delta_shape(c)
    n, each = len(h), v_heads // k_heads
    qkv, z, b, a = delta_inputs(c, t, p, h)
    padded = np.concatenate([np.zeros((width - 1, qkv.shape[1])), qkv])
    taps = t[p + "conv1d.weight"][:, 0]
    qkv = silu(sum(padded[j : j + n] * taps[:, j] for j in range(width)))
    q, k, v = np.split(qkv, [k_heads * k_dim, 2 * k_heads * k_dim], -1)
    q, k = (x.reshape(n, k_heads, k_dim) for x in (q, k))
    q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    q, k, v = np.repeat(q, each, 1) / np.sqrt(k_dim), np.repeat(k, each, 1), v.reshape(n, v_heads, v_dim)
    decay = np.exp(-np.exp(t[p + "A_log"]) * np.log1p(np.exp(a + t[p + "dt_bias"])))
    state, out = np.zeros((v_heads, k_dim, v_dim)), np.zeros((n, v_heads, v_dim))
    for i in range(n):
        state = state * decay[i][:, None, None]
        u = sigmoid(b[i])[:, None] * (v[i] - np.einsum("hkv,hk->hv", state, k[i]))
        state = state + np.einsum("hk,hv->hkv", k[i], u)
        out[i] = np.einsum("hkv,hk->hv", state, q[i])
    y = rms(out, c) * t[p + "norm.weight"] * silu(z.reshape(n, v_heads, v_dim))
    return y.reshape(n, -1) @ t[p + "out_proj.weight"].T


def attention(c, t, p, h):
    heads, kv_heads, hd, n = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], len(h)
    r = c.get("rope_parameters") or {}
    dim = int(hd * r.get("partial_rotary_factor", 0.25))
    inv = r.get("rope_theta", c.get("rope_theta", 1e4)) ** (-np.arange(0, dim, 2) / dim)
    angle = np.arange(n)[:, None, None] * inv

    def linear(name):
        return h @ t[p + name + ".weight"].T + t.get(p + name + ".bias", 0.0)

    def rotate(x):
        x1, x2, rest = x[..., : dim // 2], x[..., dim // 2 : dim], x[..., dim:]
        return np.concatenate([x1 * np.cos(angle) - x2 * np.sin(angle), x2 * np.cos(angle) + x1 * np.sin(angle), rest], -1)

    q, gate = np.split(linear("q_proj").reshape(n, heads, 2 * hd), 2, -1)
    q = rotate(rms(q, c) * (1 + t[p + "q_norm.weight"]))
    k = rotate(rms(linear("k_proj").reshape(n, kv_heads, hd), c) * (1 + t[p + "k_norm.weight"]))
    k, v = (np.repeat(x, heads // kv_heads, 1) for x in (k, linear("v_proj").reshape(n, kv_heads, hd)))
    s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(hd)
    s = np.where(np.tri(n, dtype=bool), s, -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    y = (np.einsum("hqk,khd->qhd", s, v) * sigmoid(gate)).reshape(n, -1)
    return y @ t[p + "o_proj.weight"].T + t.get(p + "o_proj.bias", 0.0)


def mlp(t, p, h):
    return (silu(h @ t[p + "gate_proj.weight"].T) * (h @ t[p + "up_proj.weight"].T)) @ t[p + "down_proj.weight"].T


def experts(c, t, p, h, gaps):
    """gaps: how near each row's routers were."""
    k = c["num_experts_per_tok"]
    logits = h @ t[p + "gate.weight"].T
    order = np.argsort(-logits, -1)
    ranked = np.take_along_axis(logits, order, -1)
    np.minimum(gaps, ranked[:, k - 1] - ranked[:, k], out=gaps)
    share = np.exp(ranked - ranked[:, :1])
    share /= share[:, : k if c.get("norm_topk_prob", True) else None].sum(-1, keepdims=True)
    out = sigmoid(h @ t[p + "shared_expert_gate.weight"].T) * mlp(t, p + "shared_expert.", h)
    for row in range(len(h)):
        for j, e in enumerate(order[row, :k]):
            gate, up = np.split(h[row] @ t[p + "experts.gate_up_proj"][e].T, 2)
            out[row] += share[row, j] * (silu(gate) * up @ t[p + "experts.down_proj"][e].T)
    return out


def forward(c, t, ids, gaps=None):
    """Logits [n, vocab] in float64."""
    gaps = np.full(len(ids), np.inf) if gaps is None else gaps
    x = t["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = rms(x, c) * (1 + t[p + "input_layernorm.weight"])
        x = x + (delta_net(c, t, p + "linear_attn.", h) if is_delta(c, layer) else attention(c, t, p + "self_attn.", h))
        h = rms(x, c) * (1 + t[p + "post_attention_layernorm.weight"])
        x = x + (experts(c, t, p + "mlp.", h, gaps) if has_experts(c, layer) else mlp(t, p + "mlp.", h))
    x = rms(x, c) * (1 + t["model.norm.weight"])
    return x @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).T


def clear_ids(c, t, rng, n):
    """A prompt whose tokens no router is in two minds about: arithmetic that rounds chooses the same experts."""
    ids = []
    while len(ids) < n:
        ids.append(int(rng.integers(0, c["vocab_size"])))
        gaps = np.full(len(ids), np.inf)
        forward(c, t, ids, gaps)
        if gaps[-1] < ROUTER_GAP:
            ids.pop()
    return ids


def write_all(out, with_oracle):
    for seed, (name, c) in enumerate(models().items()):
        rng = np.random.default_rng(5000 + seed)
        stored = weights(c, rng)
        folder, decode = f"{out}/{name}", make.ENCODE[dtype_of(c)][2]
        t = {n: decode(a) for n, a in stored.items()}
        ids = rng.integers(0, c["vocab_size"], make.N_IDS).tolist()
        if "num_experts" in c:
            ids = clear_ids(c, t, rng, make.N_IDS)
        is_parted = c["model_type"] == "qwen3_next" and "torch_dtype" in c
        write(folder, c, part_experts(c, stored) if is_parted else stored, dtype_of(c))
        logits = forward(c, t, ids)
        note = ""
        if with_oracle:
            theirs = make.oracle(folder, ids)
            error = np.linalg.norm(theirs - logits) / np.linalg.norm(theirs)
            note = f"forward pass differs from transformers by {error:.1e}"
            assert error < 1e-5, (name, error)
            logits = theirs
        if name in NESTED:
            nest(folder, c, stored, NESTED[name])
        make.write_expected(folder, c, ids, logits, note)
