"""Gemma among the models of make.py: configurations as the hub has them and as transformers 5 writes them."""
import numpy as np

import make

EMBED_ROUND = {"float32": lambda x: np.float32(x), "float16": lambda x: np.float16(x),
               "bfloat16": lambda x: make.ENCODE["bfloat16"][2](make.to_bf16(np.array([x])))[0]}
# What transformers takes where a key is missing.
DEFAULTS = {"head_dim": 256, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 256, "sliding_window": 4096,
            "max_position_embeddings": 131072, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
            "sliding_window_pattern": 6, "tie_word_embeddings": True}


def models():
    common = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 24,
              "hidden_activation": "gelu_pytorch_tanh", "intermediate_size": 40, "num_attention_heads": 4,
              "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
              "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}
    # as the files on the hub have them
    old = {**common, "head_dim": 40, "num_hidden_layers": 7, "sliding_window": 20, "sliding_window_pattern": 3,
           "query_pre_attn_scalar": 28, "rope_theta": 100000.0, "rope_local_base_freq": 5000.0,
           "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "attn_logit_softcapping": None,
           "final_logit_softcapping": None, "attention_bias": False, "cache_implementation": "hybrid",
           "torch_dtype": "float32"}
    # as save_pretrained of transformers 5 writes them
    new = {**common, "head_dim": 24, "num_hidden_layers": 3, "sliding_window": 33, "query_pre_attn_scalar": 24,
           "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "attention_bias": True,
           "rope_parameters": {"full_attention": {"factor": 2.0, "rope_theta": 50000.0, "rope_type": "linear"},
                               "sliding_attention": {"rope_theta": 3000.0, "rope_type": "default"}},
           "final_logit_softcapping": 4.0, "tie_word_embeddings": False, "use_bidirectional_attention": False,
           "dtype": "bfloat16"}
    # what a text_config of the hub leaves out
    sparse = {k: common[k] for k in ("architectures", "model_type", "intermediate_size", "vocab_size")}
    sparse |= {"hidden_size": 16, "num_hidden_layers": 7, "num_attention_heads": 2, "num_key_value_heads": 1,
               "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 17, "eos_token_id": [1, 9],
               "torch_dtype": "bfloat16"}
    # without the parts that are not implemented
    dense = {**common, "architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "num_hidden_layers": 6,
             "sliding_window": 20, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "enable_moe_block": False,
             "use_bidirectional_attention": "vision", "use_double_wide_mlp": False, "final_logit_softcapping": 6.0}
    typed = {"full_attention": {"partial_rotary_factor": 0.3, "rope_theta": 50000.0, "rope_type": "proportional"},
             "sliding_attention": {"rope_theta": 3000.0, "rope_type": "default"}}
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]
    inputs = {"hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 64}
    return {
        "gemma3-f32": old,
        "gemma3-bf16": new,
        "gemma3-vision-bf16": sparse,
        "gemma3-vision-f32": {**new, "dtype": "float32", "final_logit_softcapping": None, "head_dim": 32},
        "gemma4-f32": {**dense, "head_dim": 40, "global_head_dim": 40, "attention_k_eq_v": True,
                       "num_global_key_value_heads": 2, "torch_dtype": "float32"},
        # the last layer has no window, whatever is said of it
        "gemma4-vision-bf16": {**dense, "head_dim": 64, "per_layer_config": {}, "num_hidden_layers": 4, "layer_types": kinds,
                               "rope_parameters": typed, "attention_bias": True, "tie_word_embeddings": False,
                               "final_logit_softcapping": None, "attention_k_eq_v": False, "dtype": "bfloat16"},
        "gemma4-experts-bf16": {**dense, "head_dim": 32, "global_head_dim": 32, "enable_moe_block": True, "num_experts": 5,
                                "top_k_experts": 2, "moe_intermediate_size": 12, "attention_k_eq_v": True,
                                "num_hidden_layers": 3, "torch_dtype": "bfloat16"},
        # in the form of the 26B-A4B on the hub
        "gemma4-global-bf16": {**dense, "head_dim": 24, "global_head_dim": 56, "num_global_key_value_heads": 1,
                               "attention_k_eq_v": True, "enable_moe_block": True, "num_experts": 5, "top_k_experts": 2,
                               "moe_intermediate_size": 12, "num_hidden_layers": 4, "layer_types": kinds,
                               "rope_parameters": typed, "num_kv_shared_layers": 0, "torch_dtype": "bfloat16"},
        # as transformers 5 writes it; layers 4 and 5 read the keys of 3 and 1
        "gemma4-shared-f32": {**dense, "head_dim": 40, "num_hidden_layers": 6, "num_kv_shared_layers": 2,
                              "use_double_wide_mlp": True, "dtype": "float32",
                              "layer_types": [*kinds, "sliding_attention", "full_attention"],
                              "per_layer_config": {n: {"head_dim": 24, "num_key_value_heads": 4} for n in ("1", "5")}},
        # in the form of E2B on the hub, whose files hold keys and values of layers that share others' (LEFT_OVER); an
        # epsilon so large that scales before norms count
        "gemma4-inputs-f32": {**dense, **inputs, "head_dim": 24, "global_head_dim": 40, "num_hidden_layers": 7,
                              "layer_types": [*kinds[:2] * 3, "full_attention"], "num_kv_shared_layers": 3,
                              "use_double_wide_mlp": True, "use_bidirectional_attention": None, "rms_norm_eps": 0.02,
                              "torch_dtype": "float32"},
        # as transformers 5 writes it; an odd number of channels, and more rows than there are tokens
        "gemma4-inputs-bf16": {**dense, "head_dim": 32, "num_hidden_layers": 4, "layer_types": kinds, "rope_parameters": typed,
                               "hidden_size_per_layer_input": 9, "vocab_size_per_layer_input": 70, "num_kv_shared_layers": 0,
                               "per_layer_config": {n: {"head_dim": 48} for n in ("1", "3")}, "enable_moe_block": True,
                               "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 12, "dtype": "bfloat16"},
        # in the form of E4B on the hub
        "gemma4-inputs-vision-bf16": {**dense, **inputs, "head_dim": 32, "global_head_dim": 64, "num_hidden_layers": 6,
                                      "layer_types": [*kinds, "sliding_attention", "full_attention"],
                                      "num_kv_shared_layers": 2, "rope_parameters": typed, "torch_dtype": "bfloat16"},
    }


# Models that also see, as make.NESTED.
NESTED = {"gemma3-vision-bf16": ("language_model.model.", "language_model."),
          "gemma3-vision-f32": ("model.language_model.", ""),
          "gemma4-vision-bf16": ("model.language_model.", ""),
          "gemma4-global-bf16": ("model.language_model.", ""),
          "gemma4-inputs-vision-bf16": ("model.language_model.", "")}
# Models whose files hold what transformers leaves unread: keys and values of layers that read those of others.
LEFT_OVER = {"gemma4-inputs-f32"}


def nest(folder, c, stored, inner, head):
    whole = {k: c[k] for k in ("torch_dtype", "dtype", "eos_token_id") if k in c}
    text = {k: v for k, v in c.items() if k != "architectures" and k not in whole}
    family = "Gemma4" if is_4(c) else "Gemma3"
    whole |= {"architectures": [family + "ForConditionalGeneration"], "model_type": family.lower(), "text_config": text,
              "image_token_index": 10, "mm_tokens_per_image": 4,
              "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 8, "num_attention_heads": 2}}
    names = {n: inner + n[len("model."):] if n.startswith("model.") else head + n for n in stored}
    one = next(iter(stored.values()))
    towers = {"vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight": one[:8],
              "multi_modal_projector.mm_input_projection_weight": one[:4]}
    write(folder, whole, {**{names[n]: a for n, a in stored.items()}, **towers}, dtype_of(c))


def write(folder, c, stored, dtype):
    """make.write_model, for a configuration that may say `dtype`."""
    make.write_model(folder, {**c, "torch_dtype": dtype}, stored, 1)
    make.write_config(folder, c)


def inputs_of(c):
    """Channels of the input that each layer has for each token."""
    return c.get("hidden_size_per_layer_input") if is_4(c) else 0


def left_over(c, rng):
    """Keys and values that no layer reads."""
    out = {}
    for n in range(c["num_hidden_layers"]):
        if source_of(c, n) != n:
            kv_heads, hd = heads_of(c, n)
            for name, shape in (("k_proj", (kv_heads * hd, c["hidden_size"])), ("v_proj", (kv_heads * hd, c["hidden_size"])),
                                ("k_norm", (hd,))):
                out[f"model.layers.{n}.self_attn.{name}.weight"] = make.ENCODE[dtype_of(c)][1](rng.standard_normal(shape))
    return out


def is_4(c):
    return c["model_type"] == "gemma4_text"


def dtype_of(c):
    return c.get("torch_dtype") or c["dtype"]


def value(c, key):
    return c.get(key, DEFAULTS.get(key))


def shapes(c):
    d, v = c["hidden_size"], c["vocab_size"]
    out = {"model.embed_tokens.weight": (v, d), "model.norm.weight": (d,)}
    if not value(c, "tie_word_embeddings"):
        out["lm_head.weight"] = (v, d)
    if inputs_of(c):
        wide = inputs_of(c) * c["num_hidden_layers"]
        out["model.embed_tokens_per_layer.weight"] = (c["vocab_size_per_layer_input"], wide)
        out["model.per_layer_model_projection.weight"] = (wide, d)
        out["model.per_layer_projection_norm.weight"] = (inputs_of(c),)
    for n in range(c["num_hidden_layers"]):
        p, (kv_heads, hd) = f"model.layers.{n}.", heads_of(c, n)
        q, kv, shares = c["num_attention_heads"] * hd, kv_heads * hd, source_of(c, n) != n
        i = c["intermediate_size"] * (2 if shares and c.get("use_double_wide_mlp") else 1)
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            out[p + name + "_layernorm.weight"] = (d,)
        if is_4(c):
            out[p + "layer_scalar"] = (1,)
        if inputs_of(c):
            out[p + "per_layer_input_gate.weight"], out[p + "per_layer_projection.weight"] = (inputs_of(c), d), (d, inputs_of(c))
            out[p + "post_per_layer_input_norm.weight"] = (d,)
        for name, rows, cols in (("q", q, d), ("k", kv, d), ("v", kv, d), ("o", d, q)):
            if name == "v" and v_is_k(c, n) or name in "kv" and shares:
                continue
            out[p + f"self_attn.{name}_proj.weight"] = (rows, cols)
            if c.get("attention_bias"):
                out[p + f"self_attn.{name}_proj.bias"] = (rows,)
        for name in ("q_norm",) if shares else ("q_norm", "k_norm"):
            out[p + f"self_attn.{name}.weight"] = (hd,)
        if c.get("enable_moe_block"):
            e, inner = c["num_experts"], c["moe_intermediate_size"]
            for name in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
                out[p + name + ".weight"] = (d,)
            out[p + "router.proj.weight"], out[p + "router.scale"], out[p + "router.per_expert_scale"] = (e, d), (d,), (e,)
            out[p + "experts.gate_up_proj"], out[p + "experts.down_proj"] = (e, 2 * inner, d), (e, d, inner)
        for name, rows, cols in (("gate", i, d), ("up", i, d), ("down", d, i)):
            out[p + f"mlp.{name}_proj.weight"] = (rows, cols)
    return out


def weights(c, rng):
    """Name -> array as stored."""
    out = {}
    for name, shape in shapes(c).items():
        a = rng.standard_normal(shape)
        if "norm" in name or name.endswith(("bias", "layer_scalar", "scale")):
            a = 0.3 * a + (is_4(c) and not name.endswith("bias"))
            if is_4(c) and ("q_norm" in name or "k_norm" in name):
                a = a / 2  # scores are not scaled
        elif "router" in name:
            a = 3 * a
        elif "embed" not in name:
            a = 1.3 * a / np.sqrt(shape[-1])
        out[name] = make.ENCODE[dtype_of(c)][1](a)
    return out


def layer_types(c):
    pattern = value(c, "sliding_window_pattern")
    kinds = c.get("layer_types") or ["full_attention" if (n + 1) % pattern == 0 else "sliding_attention"
                                     for n in range(c["num_hidden_layers"])]
    return kinds[:-1] + ["full_attention"] if is_4(c) else kinds


def v_is_k(c, layer):
    return bool(c.get("attention_k_eq_v")) and layer_types(c)[layer] == "full_attention"


def heads_of(c, layer):
    """KV heads of a layer, and how many channels each has."""
    alike = (c["num_key_value_heads"], value(c, "head_dim"))
    if "per_layer_config" in c:
        own = c["per_layer_config"].get(str(layer), {})
        return own.get("num_key_value_heads", alike[0]), own.get("head_dim", alike[1])
    if not is_4(c) or layer_types(c)[layer] != "full_attention":
        return alike
    return (c.get("num_global_key_value_heads") if v_is_k(c, layer) else None) or alike[0], c["global_head_dim"]


def source_of(c, layer):
    """The layer whose keys and values it reads: the last one of its type that has some."""
    first, kinds = c["num_hidden_layers"] - c.get("num_kv_shared_layers", 0), layer_types(c)
    return layer if layer < first else max(n for n in range(first) if kinds[n] == kinds[layer])


def inv_freq(c, kind, dim):
    own = c.get("rope_parameters", {}).get(kind, {})
    theta = own.get("rope_theta", value(c, "rope_theta" if kind == "full_attention" else "rope_local_base_freq"))
    scaling = c.get("rope_scaling", own) if kind == "full_attention" else {}
    if is_4(c) and kind == "full_attention":
        turned = int(own.get("partial_rotary_factor", 0.25) * dim // 2)
        return np.append(theta ** (-np.arange(0, 2 * turned, 2) / dim), np.zeros(dim // 2 - turned))
    return theta ** (-np.arange(0, dim, 2) / dim) / scaling.get("factor", 1.0)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def experts(c, t, p, x, norm, gaps):
    """What experts make of the residual stream. gaps: how near each row's routers were."""
    k, out = c["top_k_experts"], np.zeros_like(x)
    logits = norm(x, 1.0) * t[p + "router.scale"] / np.sqrt(c["hidden_size"]) @ t[p + "router.proj.weight"].T
    order = np.argsort(-logits, -1)
    top = np.take_along_axis(logits, order, -1)
    np.minimum(gaps, top[:, k - 1] - top[:, k], out=gaps)
    share = np.exp(top[:, :k] - top[:, :1])
    share /= share.sum(-1, keepdims=True)
    h = norm(x, t[p + "pre_feedforward_layernorm_2.weight"])
    for row in range(len(x)):
        for j, e in enumerate(order[row, :k]):
            gate, up = np.split(h[row] @ t[p + "experts.gate_up_proj"][e].T, 2)
            y = gelu(gate) * up @ t[p + "experts.down_proj"][e].T
            out[row] += share[row, j] * t[p + "router.per_expert_scale"][e] * y
    return out


def clear_ids(c, t, rng, n):
    """A prompt whose tokens no router is in two minds about: arithmetic that rounds chooses the same experts."""
    ids = []
    while len(ids) < n:
        ids.append(int(rng.integers(0, c["vocab_size"])))
        gaps = np.full(len(ids), np.inf)
        forward(c, t, ids, gaps)
        if gaps[-1] < 0.15:
            ids.pop()
    return ids


def forward(c, t, ids, gaps=None):
    """Logits [n, vocab] in float64, written as plainly as the architecture allows."""
    heads, n, kept = c["num_attention_heads"], len(ids), {}

    def norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + value(c, "rms_norm_eps")) * (w if is_4(c) else 1 + w)

    def linear(x, name):
        return x @ t[name + ".weight"].T + t.get(name + ".bias", 0.0)

    def rotate(x, inv):
        angle = np.arange(n)[:, None, None] * inv
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)

    def root(n):
        return float(EMBED_ROUND[dtype_of(c)](np.sqrt(n)))

    gap = np.arange(n)[:, None] - np.arange(n)[None]  # query position - key position
    x = t["model.embed_tokens.weight"][ids] * root(c["hidden_size"])
    if inputs_of(c):
        of_ids = t["model.embed_tokens_per_layer.weight"][ids].reshape(n, -1, inputs_of(c)) * root(inputs_of(c))
        of_x = linear(x, "model.per_layer_model_projection").reshape(of_ids.shape) / np.sqrt(c["hidden_size"])
        inputs = (norm(of_x, t["model.per_layer_projection_norm.weight"]) + of_ids) / np.sqrt(2)
    for layer, kind in enumerate(layer_types(c)):
        p, (kv_heads, hd) = f"model.layers.{layer}.", heads_of(c, layer)
        h = norm(x, t[p + "input_layernorm.weight"])
        turned = {}
        for s in "q" if source_of(c, layer) != layer else "qk":
            a = norm(linear(h, p + f"self_attn.{s}_proj").reshape(n, -1, hd), t[p + f"self_attn.{s}_norm.weight"])
            turned[s] = rotate(a, inv_freq(c, kind, hd))
        if source_of(c, layer) == layer:
            v = linear(h, p + f"self_attn.{'k' if v_is_k(c, layer) else 'v'}_proj").reshape(n, -1, hd)
            kept[layer] = turned["k"], norm(v, 1.0) if is_4(c) else v
        q, (k, v) = turned["q"], kept[source_of(c, layer)]
        k, v = (np.repeat(a, heads // kv_heads, 1) for a in (k, v))
        seen = (gap >= 0) & (gap < (value(c, "sliding_window") if kind == "sliding_attention" else n))
        s = np.einsum("qhd,khd->hqk", q, k) / (1 if is_4(c) else np.sqrt(value(c, "query_pre_attn_scalar")))
        s = np.where(seen, s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        y = linear(np.einsum("hqk,khd->qhd", s, v).reshape(n, -1), p + "self_attn.o_proj")
        x = x + norm(y, t[p + "post_attention_layernorm.weight"])
        h = norm(x, t[p + "pre_feedforward_layernorm.weight"])
        g, up = linear(h, p + "mlp.gate_proj"), linear(h, p + "mlp.up_proj")
        y = linear(gelu(g) * up, p + "mlp.down_proj")
        if c.get("enable_moe_block"):
            gaps = np.full(n, np.inf) if gaps is None else gaps
            other = norm(experts(c, t, p, x, norm, gaps), t[p + "post_feedforward_layernorm_2.weight"])
            y = norm(y, t[p + "post_feedforward_layernorm_1.weight"]) + other
        x = x + norm(y, t[p + "post_feedforward_layernorm.weight"])
        if inputs_of(c):
            gate = gelu(linear(x, p + "per_layer_input_gate")) * inputs[:, layer]
            x = x + norm(linear(gate, p + "per_layer_projection"), t[p + "post_per_layer_input_norm.weight"])
        x = x * t.get(p + "layer_scalar", 1.0)
    x = norm(x, t["model.norm.weight"])
    logits = x @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).T
    cap = c.get("final_logit_softcapping")
    return cap * np.tanh(logits / cap) if cap else logits


def oracle(folder, c, ids):
    """transformers' logits, the model in float64, but for what multiplies embeddings, which it rounds to the type of the
    weights."""
    import torch
    from transformers import AutoModelForCausalLM

    kept = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype_of(c))).model
    tables = [n for n in ("embed_tokens", "embed_tokens_per_layer") if hasattr(kept, n)]
    scales = [getattr(kept, n).embed_scale.to(getattr(kept, n).weight.dtype).double() for n in tables]
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", experts_implementation="eager",
                                                 dtype=torch.float32)
    model = model.double().eval()
    for name, scale in zip(tables, scales):
        getattr(model.model, name).embed_scale = scale
    with torch.no_grad():
        # which are wanted is named: see of_transformers.py
        return model(torch.tensor([ids]), logits_to_keep=torch.arange(len(ids))).logits[0].numpy()


def write_all(out, with_oracle):
    for seed, (name, c) in enumerate(models().items()):
        rng = np.random.default_rng(3000 + seed)
        stored = weights(c, rng)
        folder, decode = f"{out}/{name}", make.ENCODE[dtype_of(c)][2]
        if name in LEFT_OVER:
            stored |= left_over(c, rng)
        write(folder, c, stored, dtype_of(c))
        ids, t = rng.integers(0, c["vocab_size"], make.N_IDS).tolist(), {n: decode(a) for n, a in stored.items()}
        if c.get("enable_moe_block"):
            ids = clear_ids(c, t, rng, make.N_IDS)
        logits = forward(c, t, ids)
        note = ""
        if with_oracle:
            theirs = oracle(folder, c, ids)
            error = np.linalg.norm(theirs - logits) / np.linalg.norm(theirs)
            note = f"forward pass differs from transformers by {error:.1e}"
            assert error < 1e-5, (name, error)
            logits = theirs
        if name in NESTED:
            nest(folder, c, stored, *NESTED[name])
        make.write_expected(folder, c, ids, logits, note)
