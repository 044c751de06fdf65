#!/usr/bin/env python3
"""Makes quantized models of tests/golden/model/data: small checkpoints in each format, what their matrices stand for, and the
logits of the model that has those matrices in place.

    quantized.py [--out DIR] [--only NAME]

compressed-tensors packs its own formats here, and says what they stand for; FP8, GPTQ, AWQ and ModelOpt are packed as their
programs do it (transformers' finegrained_fp8, GPTQModel's pack_original, AutoAWQ's WQLinear_GEMM). Each directory has config.json,
model.safetensors, expected.bin as make.py writes it (transformers computes the model in float64), and rows.txt: a line for each row
of a quantized matrix, its module, its number, and the first eight bytes of the SHA-256 of its values in float32.
"""
import argparse
import hashlib
import json
import os
import tempfile

import numpy as np
import torch
from safetensors.torch import save_file

import delta_net
import make

F8 = torch.float8_e4m3fn
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


# ---- formats: a matrix [rows, columns] in float32 and the model's type -> {suffix: tensor}, values in float32 ----


def rounded(values, dtype):
    return values.float().to(dtype).float()


def blocks(w, b):
    """Each element's block's number, and how many there are."""
    r, c = torch.arange(w.shape[0]) // b[0], torch.arange(w.shape[1]) // b[1]
    return r, c, int(r[-1]) + 1, int(c[-1]) + 1


def fp8(block=None, name="weight_scale_inv", scale_dtype=torch.float32, more=None):
    """block: (rows, columns), (1, None): a scale a row; None: one of all."""

    def quantize(w, dtype, rng):
        b = (block[0], block[1] or w.shape[1]) if block else w.shape
        r, c, n_r, n_c = blocks(w, b)
        most = torch.zeros(n_r, n_c)
        for i in range(n_r):
            for k in range(n_c):
                most[i, k] = w[r == i][:, c == k].abs().max()
        scale = (most / 448).to(scale_dtype)
        q = (w / scale.float()[r][:, c]).clamp(-448, 448).to(F8)
        values = rounded(q.float() * scale.float()[r][:, c], dtype)
        return {"weight": q, name: scale if block else scale.reshape(()), **{k: torch.tensor(v) for k, v in (more or {}).items()}}, values

    return quantize


def integers(w, bits, group, symmetric, rng):
    """Unsigned codes [rows, columns], scales and zero points [rows, groups] of groups of columns."""
    n, last = w.shape[1], (1 << bits) - 1
    g = torch.arange(n) // (group or n)
    scale, zero = torch.zeros(w.shape[0], int(g[-1]) + 1), torch.zeros(w.shape[0], int(g[-1]) + 1, dtype=torch.int32)
    for i in range(scale.shape[1]):
        part = w[:, g == i]
        if symmetric:
            scale[:, i] = part.abs().amax(1) / (last // 2)
            zero[:, i] = (last + 1) // 2
        else:
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scale[:, i] = (high - low) / last
            zero[:, i] = torch.round(-low / scale[:, i]).int()
            zero[0, i] = 0  # as of rows without a negative number
    return scale, zero, g


def codes_of(w, scale, zero, g, bits):
    return torch.round(w / scale.float()[:, g] + zero[:, g]).clamp(0, (1 << bits) - 1).int()


def words(codes, bits):
    """[..., n] -> [..., ceil(n · bits / 32)] int32, the lowest bits first."""
    per = 32 // bits
    pad = -codes.shape[-1] % per
    codes = torch.nn.functional.pad(codes, (0, pad)).long().reshape(*codes.shape[:-1], -1, per)
    word = (codes << (torch.arange(per) * bits)).sum(-1)
    return torch.where(word >= 1 << 31, word - (1 << 32), word).int()


def gptq(bits=4, group=128, symmetric=True, version=1, act_order=False):
    def quantize(w, dtype, rng):
        order = torch.from_numpy(rng.permutation(w.shape[1])) if act_order else torch.arange(w.shape[1])
        scale, zero, g = integers(w[:, order], bits, group, symmetric, rng)
        g_idx = torch.zeros(w.shape[1], dtype=torch.int32)
        g_idx[order] = g.int()
        scale = scale.half()
        codes = codes_of(w, scale, zero, g_idx.long(), bits)
        qzeros = words(zero.T.contiguous(), bits)
        if version == 1:  # one subtraction from each word, as GPTQModel's convert_gptq_v2_to_v1_format
            qzeros = qzeros - (0x11111111 if bits == 4 else 0x01010101)
        values = rounded(scale.float()[:, g_idx.long()] * (codes - zero[:, g_idx.long()]).float(), dtype)
        return {"qweight": words(codes.T.contiguous().T, bits).T.contiguous(), "qzeros": qzeros,
                "scales": scale.T.contiguous(), "g_idx": g_idx}, values

    return quantize


def awq(group=128):
    def quantize(w, dtype, rng):
        scale, zero, g = integers(w, 4, group, False, rng)
        scale = scale.half()
        codes = codes_of(w, scale, zero, g, 4)
        order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])

        def pack(a):
            return words(a.reshape(a.shape[0], -1, 8)[:, :, order].reshape(a.shape), 4)

        values = rounded(scale.float()[:, g] * (codes - zero[:, g]).float(), dtype)
        return {"qweight": pack(codes.T.contiguous()), "qzeros": pack(zero.T.contiguous()), "scales": scale.T.contiguous()}, values

    return quantize


def nvfp4_modelopt():
    def quantize(w, dtype, rng):
        g = torch.arange(w.shape[1]) // 16
        factor = w.abs().max() / (6 * 448)
        most = torch.stack([w[:, g == i].abs().amax(1) for i in range(int(g[-1]) + 1)], 1)
        scale = (most / 6 / factor).to(F8)
        wide = scale.float() * factor
        codes = (w[:, :, None] / wide[:, g][:, :, None] - E2M1).abs().argmin(-1).to(torch.uint8)
        values = rounded(E2M1[codes.long()] * wide[:, g], dtype)
        return {"weight": codes[:, ::2] | codes[:, 1::2] << 4, "weight_scale": scale, "weight_scale_2": factor.reshape(()),
                "input_scale": torch.tensor(0.25)}, values

    return quantize


def compressed(fmt, weights, activations=None, g_idx=False):
    """What compressed-tensors makes of it, and says of what it made."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights),
                                input_activations=QuantizationArgs(**activations) if activations else None)
    compressor = BaseCompressor.get_value_from_registry(fmt)

    def quantize(w, dtype, rng):
        strategy, bits = weights["strategy"], weights["num_bits"]
        group = weights.get("group_size")
        state = {"weight": w.to(dtype)}
        w = state["weight"].float()
        if weights["type"] == "int":
            per = w if strategy != "tensor" else w.reshape(1, -1)
            scale, zero, _ = integers(per, bits, group, weights.get("symmetric", True), rng)
            zero = (zero - (1 << (bits - 1))).to(torch.int8)
            if strategy == "tensor":
                scale, zero = scale.reshape(1), zero.reshape(1)
            if not weights.get("symmetric", True):
                state["weight_zero_point"] = zero
        elif bits == 8:
            b = {"tensor": w.shape, "channel": (1, w.shape[1]), "block": tuple(weights.get("block_structure") or (0, 0))}[strategy]
            r, c, n_r, n_c = blocks(w, b)
            scale = torch.stack([torch.stack([w[r == i][:, c == k].abs().max() for k in range(n_c)]) for i in range(n_r)]) / 448
            scale = scale.reshape(1) if strategy == "tensor" else scale
        else:
            most = torch.stack([p.abs().amax(1) for p in w.split(group, 1)], 1)
            if group == 32:
                scale = 2.0 ** torch.floor(torch.log2(most / 4))
            else:
                state["weight_global_scale"] = (6 * 448 / w.abs().max()).reshape(1)
                scale = (most / 6 * state["weight_global_scale"]).to(F8).float()
        state["weight_scale"] = scale.to(dtype) if group != 16 else scale
        out = compressor.compress(state, scheme)
        values = compressor.decompress({k: v.clone() for k, v in out.items()}, scheme)["weight"].float()
        if group == 16:  # of which decompress() says what bfloat16 leaves of it
            packed, wide = out["weight_packed"], out["weight_scale"].float() / out["weight_global_scale"]
            exact = E2M1[torch.stack([packed & 15, packed >> 4], -1).reshape(w.shape).long()] * wide.repeat_interleave(16, 1)
            assert torch.allclose(values, exact, rtol=2**-7, atol=0)
            values = exact
        if activations and activations.get("dynamic") is False:
            out["input_scale"] = torch.tensor([0.03])
        return out, rounded(values, dtype)

    return quantize


# ---- models ----


def config(name, dtype, quantization, **more):
    arch = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "phi3": "Phi3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}[name]
    sizes = {"hidden_size": 136, "intermediate_size": 144, "num_hidden_layers": 1, "num_attention_heads": 4, "head_dim": 40,
             "num_key_value_heads": 1, "rope_theta": 10000.0}
    return make.base(arch, name, dtype, **{**sizes, **more}), quantization


def ct(fmt, weights, ignore=("lm_head",), activations=None, **more):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None}
    return {"quant_method": "compressed-tensors", "format": fmt, "quantization_status": "compressed", "config_groups": {"group_0": group},
            "ignore": list(ignore), "kv_cache_scheme": None, "global_compression_ratio": None, **more}


def ct_case(fmt, weights, dtype="float32", activations=None, ignore=("lm_head",), **more):
    weights = {"symmetric": True, "dynamic": False, "group_size": None, "block_structure": None, "actorder": None, **weights}
    args = {k: v for k, v in weights.items() if v is not None}
    return (*config("llama", dtype, ct(fmt, weights, ignore, activations), **more), compressed(fmt, args, activations))


def cases():
    """Name -> config, its quantization_config, quantizer, modules that are left plain beside lm_head."""
    int4 = {"num_bits": 4, "type": "int", "strategy": "group"}
    float8 = {"num_bits": 8, "type": "float"}
    dynamic = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "symmetric": True}
    static = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
    ints = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True, "symmetric": True}
    gptq_config = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True, "checkpoint_format": "gptq"}
    awq_config = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}
    fp8_config = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}
    moe = {"num_hidden_layers": 1, "moe_intermediate_size": 32, "num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": True,
           "hidden_size": 64, "num_attention_heads": 2, "head_dim": 32}
    small = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "head_dim": 32}
    n128 = {"hidden_size": 128, "intermediate_size": 128, "num_attention_heads": 4, "head_dim": 32}
    return {
        "fp8-block-f32": (*config("llama", "float32", {**fp8_config, "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.down"
                          "_proj"]}), fp8((128, 128)), {"down_proj"}),
        "fp8-tensor-bf16": (*config("mistral", "bfloat16", {"quant_method": "fp8", "activation_scheme": "static"}, **small),
                            fp8(None, more={"activation_scale": 0.5})),
        "fp8-experts-f32": (*config("qwen3_moe", "float32", {**fp8_config, "weight_block_size": [16, 32], "modules_to_not_convert": [
                            "lm_head", "model.layers.0.mlp.gate", "model.layers.0.input_layernorm"]}, **moe), fp8((16, 32)), {"gate"}),
        "fp8-experts-whole-bf16": (*config("qwen3_moe", "bfloat16", {**fp8_config, "weight_block_size": [16, 32],
                                   "modules_to_not_convert": ["gate"]}, **moe), fp8((16, 32), scale_dtype=torch.bfloat16), {"gate"}),
        "fbgemm-fp8-bf16": (*config("llama", "bfloat16", {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0,
                            "modules_to_not_convert": ["lm_head"]}, **small), fp8((1, None), "weight_scale")),
        "ct-fp8-channel-bf16": ct_case("float-quantized", {**float8, "strategy": "channel"}, "bfloat16", dynamic, **small),
        "ct-fp8-tensor-f32": ct_case("float-quantized", {**float8, "strategy": "tensor"}, "float32", static, ["re:.*lm_head"], **small),
        "ct-fp8-block-f32": ct_case("float-quantized", {**float8, "strategy": "block", "block_structure": [128, 128]}, "float32",
                                    dynamic, **n128),
        "ct-int8-channel-f32": ct_case("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, "float32", ints, **small),
        "ct-int8-asym-bf16": ct_case("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False},
                                     "bfloat16", ints, **small),
        "ct-w4-group32-bf16": ct_case("pack-quantized", {**int4, "group_size": 32}, "bfloat16", **n128),
        "ct-w4-group64-asym-f32": ct_case("pack-quantized", {**int4, "group_size": 64, "symmetric": False}, "float32", **n128),
        "ct-w4-group128-asym-f16": ct_case("pack-quantized", {**int4, "group_size": 128, "symmetric": False}, "float16", **n128),
        "ct-w4-channel-f32": ct_case("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "channel"}, "float32"),
        "ct-w8-group32-f32": ct_case("pack-quantized", {"num_bits": 8, "type": "int", "strategy": "group", "group_size": 32}, "float32",
                                     **small),
        "ct-w8-channel-asym-f32": ct_case("pack-quantized", {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False},
                                          "float32", **{**small, "hidden_size": 68}),
        "ct-mxfp4-f32": ct_case("mxfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}, **small),
        "ct-nvfp4-f32": ct_case("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
                                **small),
        "gptq-f16": (*config("llama", "float16", gptq_config, **small), gptq(4, 32)),
        "gptq-asym-f32": (*config("llama", "float32", {**gptq_config, "sym": False, "group_size": 64}, **n128), gptq(4, 64, False)),
        "gptq-v2-order-f32": (*config("llama", "float32", {**gptq_config, "sym": False, "desc_act": True, "checkpoint_format": "gptq_v2"},
                              **small), gptq(4, 32, False, 2, True)),
        "gptq-8-order-f32": (*config("llama", "float32", {**gptq_config, "bits": 8, "desc_act": True}, **small),
                             gptq(8, 32, True, 1, True)),
        "gptq-8-asym-f32": (*config("llama", "float32", {**gptq_config, "bits": 8, "sym": False, "group_size": -1, "desc_act": True},
                            **small), gptq(8, None, False)),
        "gptq-dynamic-f32": (*config("llama", "float32", {**gptq_config, "dynamic": {"-:.*q_proj": {}, "+:.*\\.o_proj": {
                             "bits": 8, "group_size": 64}}}, **small), {"o_proj": gptq(8, 64), "": gptq(4, 32)}, {"q_proj"}),
        "awq-f16": (*config("llama", "float16", awq_config, **small), awq(32)),
        "awq-stacked-f32": (*config("phi3", "float32", {**awq_config, "modules_to_not_convert": ["o_proj"]}, pad_token_id=0, **small),
                            awq(32), {"o_proj"}),
        "awq-experts-f32": (*config("qwen3_moe", "float32", {**awq_config, "modules_to_not_convert": ["mlp.gate"]}, **moe), awq(32),
                            {"gate"}),
        "modelopt-fp8-bf16": (*config("llama", "bfloat16", {"producer": {"name": "modelopt"}, "quantization": {
                              "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}, **small),
                              fp8(None, "weight_scale", more={"input_scale": 0.5})),
        "modelopt-nvfp4-f32": (*config("llama", "float32", {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head*"]},
                               **small), nvfp4_modelopt()),
        "mixed-f32": (*config("llama", "float32", {
            "quant_method": "compressed-tensors", "format": "mixed-precision", "ignore": ["lm_head"], "config_groups": {
                "group_0": {"targets": ["re:.*(gate|up)_proj$"], "format": "pack-quantized", "weights": {**int4, "group_size": 32}},
                "group_1": {"targets": ["model.layers.0.mlp.down_proj"], "format": "float-quantized",
                            "weights": {**float8, "strategy": "channel"}},
                "group_2": {"targets": ["Linear"], "format": "pack-quantized", "weights": {
                    "num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}}}}, **small),
            {"down_proj": compressed("float-quantized", {**float8, "strategy": "channel"}, dynamic),
             "gate_proj": compressed("pack-quantized", {**int4, "group_size": 32}),
             "up_proj": compressed("pack-quantized", {**int4, "group_size": 32}),
             "": compressed("pack-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"})}),
        "qwen3.5-fp8-f32": (delta_config("qwen3.5-f32"), {**fp8_config, "weight_block_size": [16, 16], "modules_to_not_convert": [
                            "lm_head", "in_proj_a", "in_proj_b", "conv1d"]}, fp8((16, 16)), {"in_proj_a", "in_proj_b"}),
        "qwen3-next-fp8-f32": (delta_config("qwen3-next-f32"), {**fp8_config, "weight_block_size": [24, 16], "modules_to_not_convert": [
                               "in_proj_ba", "mlp.gate", "shared_expert_gate"]}, fp8((24, 16)), {"in_proj_ba", "gate", "shared_expert_gate"}),
    }


def delta_config(name):
    return {**delta_net.models()[name], "num_hidden_layers": 2, "full_attention_interval": 2}


# ---- directories ----


def is_matrix(name, a, plain):
    module = name.removesuffix(".weight")
    last = module.rsplit(".", 1)[-1]
    return name.endswith(".weight") and a.ndim == 2 and "embed" not in name and last != "lm_head" and last not in plain


def row_lines(module, values):
    for i, row in enumerate(values.numpy().astype("<f4")):
        yield f"{module} {i} {hashlib.sha256(row.tobytes()).hexdigest()[:16]}\n"


def join_experts(c, tensors):
    """transformers' form of all experts in one tensor, with scales beside it."""
    out = {k: v for k, v in tensors.items() if ".experts." not in k}
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}.mlp.experts."

        def of(m, s):
            return torch.stack([tensors[f"{p}{e}.{m}.{s}"] for e in range(c["num_experts"])])

        for s, name in (("weight", ""), ("weight_scale_inv", "_scale_inv")):
            out[p + "gate_up_proj" + name] = torch.cat([of("gate_proj", s), of("up_proj", s)], 1)
            out[p + "down_proj" + name] = of("down_proj", s)
    return out


def write(out, name, seed, c, quantization, quantizer, plain=()):
    rng = np.random.default_rng(seed)
    is_delta = "linear_num_key_heads" in c
    stored = delta_net.weights(c, rng) if is_delta else make.weights(c, rng)
    decode, dtype = make.ENCODE[c["torch_dtype"]][2], DTYPES[c["torch_dtype"]]
    tensors, decoded, lines = {}, {}, []
    for n, a in stored.items():
        w = torch.from_numpy(np.ascontiguousarray(decode(a))).float()
        module = n.removesuffix(".weight")
        if not is_matrix(n, a, plain):
            tensors[n], decoded[n] = w.to(dtype), w.double().numpy()
            continue
        of = quantizer if callable(quantizer) else quantizer.get(module.rsplit(".", 1)[-1], quantizer.get(""))
        made, values = of(w, dtype, rng)
        tensors |= {f"{module}.{s}": t.contiguous() for s, t in made.items()}
        decoded[n] = values.double().numpy()
        lines += row_lines(module, values)
    has_experts = make.n_experts(c) > 0
    if has_experts:
        ids = delta_net.clear_ids(c, decoded, rng, make.N_IDS) if is_delta else make.choose_ids(c, decoded, rng)
    else:
        ids = rng.integers(0, c["vocab_size"], make.N_IDS).tolist()
    with tempfile.TemporaryDirectory() as twin:
        wide = {k: v for k, v in c.items() if k not in ("torch_dtype", "dtype")} | {"torch_dtype": "float32"}
        make.write_model(twin, wide, {n: a.astype("<f4") for n, a in decoded.items()}, 1)
        logits = make.oracle(twin, ids)
    folder = f"{out}/{name}"
    os.makedirs(folder, exist_ok=True)
    apart = "quantization" in quantization
    with open(folder + "/config.json", "w") as f:
        json.dump(c if apart else {**c, "quantization_config": quantization}, f, indent=1)
        f.write("\n")
    if apart:
        with open(folder + "/hf_quant_config.json", "w") as f:
            json.dump(quantization, f, indent=1)
            f.write("\n")
    save_file(join_experts(c, tensors) if "whole" in name else tensors, folder + "/model.safetensors")
    with open(folder + "/rows.txt", "w") as f:
        f.writelines(lines)
    make.write_expected(folder, c, ids, logits, f"{len(lines)} rows")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/quantized"))
    ap.add_argument("--only", default="")
    args = ap.parse_args()
    torch.manual_seed(0)
    for seed, (name, case) in enumerate(cases().items()):
        if args.only in name:
            write(args.out, name, 9000 + seed, *case)


if __name__ == "__main__":
    main()
