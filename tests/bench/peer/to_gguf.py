#!/usr/bin/env python3
"""Writes a Llama model directory as GGUF without a tokenizer, so that llama.cpp can be timed on the same weights.

    to_gguf.py MODEL_DIR OUT.gguf [f16|bf16|f32|q8_0|q4_0|q4_k_m]

Needs numpy and gguf, and for the last three llama-cpp-python, whose own rounding they are. llama.cpp rotates neighbouring channels where the Hugging Face layout rotates halves, so the rows
of Q and K are interleaved head by head.
"""
import json
import struct
import sys
import tempfile

import numpy as np
import gguf


def tensors(directory):
    with open(directory + "/model.safetensors", "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        a, b = entry["data_offsets"]
        raw = data[8 + n + a : 8 + n + b]
        if entry["dtype"] == "BF16":
            x = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            x = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]).astype("<f4")
        yield name, x.reshape(entry["shape"])


def interleave(w, n_heads):
    return w.reshape(n_heads, 2, w.shape[0] // n_heads // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name):
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, _, layer, part = name.split(".", 3)
    return f"blk.{layer}.{NAMES[part.removesuffix('.weight')]}.weight"


def encode(x, kind):
    if x.ndim == 1 or kind == "f32":
        return x.astype(np.float32), gguf.GGMLQuantizationType.F32
    if kind == "f16":
        return x.astype(np.float16), gguf.GGMLQuantizationType.F16
    return gguf.quants.quantize(x, gguf.GGMLQuantizationType.BF16), gguf.GGMLQuantizationType.BF16


def round_as(kind, plain, out):
    import llama_cpp as L

    p = L.llama_model_quantize_default_params()
    p.ftype = {"q8_0": L.LLAMA_FTYPE_MOSTLY_Q8_0, "q4_0": L.LLAMA_FTYPE_MOSTLY_Q4_0,
               "q4_k_m": L.LLAMA_FTYPE_MOSTLY_Q4_K_M}[kind]
    if L.llama_model_quantize(plain.encode(), out.encode(), p) != 0:
        sys.exit(f"llama.cpp cannot make {kind} of {plain}")


def main():
    directory, out, kind = sys.argv[1], sys.argv[2], (sys.argv[3:] or ["bf16"])[0]
    if kind.startswith("q"):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as plain:
            write(directory, plain.name, "f16")
            round_as(kind, plain.name, out)
    else:
        write(directory, out, kind)


def write(directory, out, kind):
    c = json.load(open(directory + "/config.json"))
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    head_dim = c.get("head_dim", c["hidden_size"] // heads)
    w = gguf.GGUFWriter(out, "llama")
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    w.add_rope_dimension_count(head_dim)
    w.add_rope_freq_base(c["rope_theta"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("no_vocab")
    for name, x in tensors(directory):
        if "q_proj" in name:
            x = interleave(x, heads)
        if "k_proj" in name:
            x = interleave(x, kv_heads)
        data, dtype = encode(x, kind)
        w.add_tensor(gguf_name(name), data, raw_dtype=dtype)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
