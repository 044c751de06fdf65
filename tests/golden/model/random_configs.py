#!/usr/bin/env python3
"""Compares random small models of every family with Hugging Face transformers.

    random_configs.py DRIVER [--n 200] [--seed 0] [--keep DIR] [FAMILY ...]

DRIVER is build/…/tests/golden/model/logits_driver. For each family N configurations are drawn: sizes, heads, windows,
which layers have them, RoPE in the old style and in the new one, lengths at the ends of windows and blocks, steps of any
size, and a tail that is decoded token by token. A model of random weights in float32 is made of each; transformers computes
its logits in float64. Ours must be within 1e-3 of them (what differs, over what there is, root mean square), and the largest
of a row the same one unless its distance to the second is less than that error allows. Needs torch and transformers; skipped
(exit 77) where they are missing.

A family is a row of FAMILIES: its names, and a function that says what it has beyond the sizes that all have. One with a router
says so: where two experts are as good as each other float32 chooses another one than float64, and nothing follows from
what comes out. Rows in which transformers' own float32 is off by more than a tenth of what is allowed are left out then.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Callable, NamedTuple

import numpy as np

TOLERANCE = 1e-3
CLEAR_GAP = 1e-3  # of the logits' spread: below it two of them may change places
BLOCK = 64
AT_ONCE = 20  # models in a run of the driver


def pick(rng, *values):
    return values[rng.integers(len(values))]


def chance(rng, p=0.5):
    return bool(rng.random() < p)


# ---- what a configuration has ----


def activation(rng):
    return pick(rng, "silu", "silu", "swish", "gelu", "gelu_python", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_new",
                "gelu_fast", "gelu_accurate")


def sizes(rng):
    """What every family has."""
    kv_heads = int(rng.integers(1, 4))
    heads = kv_heads * int(rng.integers(1, 4))
    return {
        "hidden_act": activation(rng),
        "hidden_size": heads * int(rng.integers(3, 12)),
        "intermediate_size": int(rng.integers(5, 60)),
        "num_hidden_layers": int(rng.integers(1, 7)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": pick(rng, 32, 48, 64, 80),
        "vocab_size": int(rng.integers(40, 150)),
        "max_position_embeddings": 512,
        "rms_norm_eps": pick(rng, 1e-5, 1e-6),
        "tie_word_embeddings": chance(rng),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "torch_dtype": "float32",
    }


def scaling(rng, kinds=("default", "linear", "llama3", "yarn")):
    """Parameters of RoPE but for its base; None: it is not scaled."""
    kind = pick(rng, None, *kinds)
    old = pick(rng, 16, 32, 100)
    if kind in (None, "default"):
        return kind and {"rope_type": kind}
    if kind == "linear":
        return {"rope_type": kind, "factor": pick(rng, 2.0, 3.5)}
    if kind == "llama3":
        return {"rope_type": kind, "factor": pick(rng, 2.0, 8.0), "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": old}
    more = pick(rng, {}, {"truncate": False}, {"beta_fast": 8, "beta_slow": 2}, {"attention_factor": 1.1},
                {"mscale": 1.3, "mscale_all_dim": 0.7})
    # so that the context is as long as every prompt here
    return {"rope_type": kind, "factor": 512.0 / old, "original_max_position_embeddings": old, **more}


def theta(rng):
    return pick(rng, 500.0, 1e4, 5e5, 1e6)


def rope(rng):
    """As older files have it, or as newer ones."""
    scaled, base = scaling(rng), theta(rng)
    if chance(rng):
        return {"rope_theta": base, **({"rope_scaling": scaled} if scaled else {})}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base, **(scaled or {})}}


def window(rng):
    return int(pick(rng, 1, 2, 17, 63, 64, 65, 100, int(rng.integers(3, 150))))


def layer_types(rng, c):
    return [pick(rng, "sliding_attention", "full_attention") for _ in range(c["num_hidden_layers"])]


# ---- families ----


def llama(rng, c):
    return {**rope(rng), "attention_bias": chance(rng), "mlp_bias": chance(rng)}


def mistral(rng, c):
    return {**rope(rng), "sliding_window": window(rng) if chance(rng, 0.7) else None}


def qwen(rng, c):
    more = {"use_sliding_window": chance(rng, 0.7), "sliding_window": window(rng),
            "max_window_layers": int(rng.integers(0, c["num_hidden_layers"] + 1))}
    if more["use_sliding_window"] and chance(rng):
        more["layer_types"] = layer_types(rng, c)
    return {**rope(rng), **more}


def qwen3(rng, c):
    return {**qwen(rng, c), "attention_bias": chance(rng)}


def experts(rng, count):
    n = int(rng.integers(1, 12))
    return {count: n, "num_experts_per_tok": int(rng.integers(1, n + 1))}


def qwen3_moe(rng, c):
    dense = [i for i in range(c["num_hidden_layers"] + 1) if chance(rng, 0.2)]
    return {**rope(rng), **experts(rng, pick(rng, "num_experts", "num_local_experts")),
            "attention_bias": chance(rng), "norm_topk_prob": chance(rng), "moe_intermediate_size": int(rng.integers(5, 40)),
            "decoder_sparse_step": pick(rng, 1, 1, 2), "mlp_only_layers": dense,
            "use_sliding_window": chance(rng), "sliding_window": window(rng)}


def mixtral(rng, c):
    return {**rope(rng), **experts(rng, "num_local_experts"), "sliding_window": window(rng) if chance(rng) else None}


def phi3(rng, c):
    part = pick(rng, 1.0, 0.5)
    more = {"sliding_window": window(rng) if chance(rng) else None, "rope_theta": theta(rng),
            "hidden_size": c["head_dim"] * c["num_attention_heads"], "partial_rotary_factor": part}
    if chance(rng):
        n = int(c["head_dim"] * part) // 2
        more["original_max_position_embeddings"] = pick(rng, 16, 60)
        more["rope_scaling"] = {"type": "longrope", "short_factor": (1 + rng.random(n)).tolist(),
                                "long_factor": (1 + 5 * rng.random(n)).tolist()}
    return more


def smollm3(rng, c):
    more = {**rope(rng), "attention_bias": chance(rng), "mlp_bias": chance(rng)}
    if chance(rng):
        more["no_rope_layers"] = [int(chance(rng)) for _ in range(c["num_hidden_layers"])]
    else:
        more["no_rope_layer_interval"] = int(rng.integers(1, 5))
    if chance(rng):
        more |= {"use_sliding_window": True, "sliding_window": window(rng)}
        if chance(rng):
            more["layer_types"] = layer_types(rng, c)
    return more


def olmo2(rng, c):
    return {**rope(rng), "attention_bias": chance(rng)}


def typed_scaling(rng):
    """Of one type of layers: without `truncate`, which transformers 5.23 then looks for beside the types, not in them."""
    return {k: v for k, v in (scaling(rng) or {}).items() if k != "truncate"}


def olmo3(rng, c):
    more = {"sliding_window": window(rng), "attention_bias": chance(rng)}
    if chance(rng):
        more["layer_types"] = layer_types(rng, c)
    if chance(rng):  # transformers' own default for the other layers, which it does not read rope_theta for
        scaled = typed_scaling(rng)
        return {**more, "rope_theta": 500000.0, **({"rope_scaling": scaled} if scaled else {})}
    full = {"rope_type": "default", "rope_theta": theta(rng), **typed_scaling(rng)}
    local = {"rope_type": "default", "rope_theta": theta(rng), **typed_scaling(rng)}
    return {**more, "rope_parameters": {"full_attention": full, "sliding_attention": local}}


def glm4(rng, c):
    more = {**rope(rng), "attention_bias": chance(rng)}
    if chance(rng):
        more["partial_rotary_factor"] = pick(rng, 0.25, 0.5, 1.0)
    return more


def granite(rng, c):
    return {**llama(rng, c), "embedding_multiplier": pick(rng, 0.5, 2.0, 12.0), "logits_scaling": pick(rng, 0.7, 8.0),
            "residual_multiplier": pick(rng, 0.22, 1.0), "attention_multiplier": pick(rng, 0.02, 0.1, 0.2)}


def ministral3(rng, c):
    scaled = scaling(rng, ("yarn",)) or {"rope_type": "default", "original_max_position_embeddings": pick(rng, 16, 50)}
    return {"sliding_window": window(rng) if chance(rng, 0.3) else None,
            "rope_parameters": {"rope_theta": theta(rng), "llama_4_scaling_beta": pick(rng, 0.1, 0.7), **scaled}}


def gpt_oss(rng, c):
    more = {**experts(rng, "num_local_experts"), "hidden_act": "silu", "sliding_window": window(rng), "attention_bias": chance(rng, 0.8), "swiglu_limit": pick(rng, 0.3, 1.0, 7.0)}
    if chance(rng):
        more["layer_types"] = layer_types(rng, c)
    if chance(rng):  # as the hub has it
        return {**more, "rope_theta": theta(rng), "rope_scaling": scaling(rng) or {"rope_type": "default"}}
    return {**more, "rope_parameters": {"rope_type": "default", "rope_theta": theta(rng), **(scaling(rng) or {})}}
def gemma(rng, c):
    """What both have: layers of two types, with RoPE by type, heads of any size."""
    more = {"hidden_act": None, "hidden_activation": activation(rng), "head_dim": int(8 * rng.integers(1, 20)), "sliding_window": window(rng),
            "attention_bias": chance(rng, 0.3), "pad_token_id": 0}
    if chance(rng):
        more["layer_types"] = layer_types(rng, c)
    if chance(rng, 0.3):
        more["final_logit_softcapping"] = pick(rng, 5.0, 30.0)
    return more


def gemma3(rng, c):
    more = {**gemma(rng, c), "query_pre_attn_scalar": pick(rng, 100, 256, 1000)}
    if "layer_types" not in more and chance(rng):
        more["sliding_window_pattern"] = int(rng.integers(1, 5))
    scaled = scaling(rng, ("default", "linear"))
    if chance(rng):
        return {**more, "rope_theta": theta(rng), "rope_local_base_freq": theta(rng),
                **({"rope_scaling": scaled} if scaled else {})}
    full = {"rope_type": "default", "rope_theta": theta(rng), **(scaled or {})}
    return {**more, "rope_parameters": {"full_attention": full,
                                        "sliding_attention": {"rope_type": "default", "rope_theta": theta(rng)}}}


def gemma4_types(c, of):
    types = of.get("layer_types") or ["full_attention" if i % 6 == 5 else "sliding_attention"
                                      for i in range(c["num_hidden_layers"])]
    return types[:-1] + ["full_attention"]


def gemma4_shapes(rng, c, of):
    """Heads of layers without a window, as the hub has them, or each layer's as transformers 5 writes them."""
    heads = c["num_attention_heads"]
    dim = pick(rng, of["head_dim"], int(8 * rng.integers(1, 65)))
    kv_heads = int(pick(rng, *[n for n in range(1, heads + 1) if heads % n == 0]))
    if chance(rng):
        return {"global_head_dim": dim, "num_global_key_value_heads": pick(rng, None, kv_heads)}
    full = [i for i, kind in enumerate(gemma4_types(c, of)) if kind == "full_attention"]
    return {"per_layer_config": {str(i): {"head_dim": dim, "num_key_value_heads": kv_heads} for i in full}}


def gemma4(rng, c):
    more = {**gemma(rng, c), "hidden_size_per_layer_input": 0, "attention_k_eq_v": chance(rng)}
    if chance(rng):
        more |= {"hidden_size_per_layer_input": int(rng.integers(1, 50)),
                 "vocab_size_per_layer_input": c["vocab_size"] + pick(rng, 0, 7)}
    more |= gemma4_shapes(rng, c, more)
    types = gemma4_types(c, more)
    n_shared = [n for n in range(len(types)) if set(types[:len(types) - n]) == set(types)]
    if chance(rng):
        more |= {"num_kv_shared_layers": pick(rng, *n_shared), "use_double_wide_mlp": chance(rng)}
    if chance(rng, 0.3):
        n = int(rng.integers(1, 12))
        more |= {"enable_moe_block": True, "num_experts": n, "top_k_experts": int(rng.integers(1, n + 1)),
                 "moe_intermediate_size": int(rng.integers(5, 40))}
    if chance(rng):
        full = {"rope_type": "proportional", "rope_theta": theta(rng), "partial_rotary_factor": pick(rng, 0.25, 0.6, 1.0)}
        more["rope_parameters"] = {"full_attention": full,
                                   "sliding_attention": {"rope_type": "default", "rope_theta": theta(rng)}}
    return more


def delta_net(rng, c):
    """Gated delta nets and the layers that are none; at least one is."""
    n, k_heads = c["num_hidden_layers"], int(rng.integers(1, 4))
    more = {"linear_num_key_heads": k_heads, "linear_num_value_heads": k_heads * int(rng.integers(1, 4)),
            "linear_key_head_dim": int(8 * rng.integers(1, 9)), "linear_value_head_dim": int(8 * rng.integers(1, 9)),
            "linear_conv_kernel_dim": pick(rng, 4, 4, 4, 2, 3, 8), "attention_bias": chance(rng, 0.3), "hidden_act": "silu"}
    if chance(rng):
        types = [pick(rng, "linear_attention", "linear_attention", "full_attention") for _ in range(n)]
        types[rng.integers(n)] = "full_attention"
        more["layer_types"] = types
    else:
        more["full_attention_interval"] = int(rng.integers(1, n + 1))
    part = pick(rng, None, 0.25, 0.5, 1.0)
    how = rope(rng)
    if part:
        how.get("rope_parameters", how)["partial_rotary_factor"] = part
    return {**more, **how}


def shared_expert(rng):
    return {**experts(rng, "num_experts"), "moe_intermediate_size": int(rng.integers(5, 40)),
            "shared_expert_intermediate_size": int(rng.integers(5, 40))}


def qwen3_next(rng, c):
    dense = [i for i in range(c["num_hidden_layers"] + 1) if chance(rng, 0.2)]
    return {**delta_net(rng, c), **shared_expert(rng), "norm_topk_prob": chance(rng),
            "decoder_sparse_step": pick(rng, 1, 1, 2), "mlp_only_layers": dense}


def qwen3_5(rng, c):
    more = {**delta_net(rng, c), "attn_output_gate": True}
    if "rope_parameters" in more and chance(rng):
        more["rope_parameters"] |= {"mrope_interleaved": True, "mrope_section": [3, 2, 1]}
    return more


def qwen3_5_moe(rng, c):
    return {**qwen3_5(rng, c), **shared_expert(rng)}


class Family(NamedTuple):
    architecture: str
    model_type: str
    more: Callable
    has_router: bool = False


FAMILIES = {
    "llama": Family("LlamaForCausalLM", "llama", llama),
    "mistral": Family("MistralForCausalLM", "mistral", mistral),
    "qwen2": Family("Qwen2ForCausalLM", "qwen2", qwen),
    "qwen3": Family("Qwen3ForCausalLM", "qwen3", qwen3),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", "qwen3_moe", qwen3_moe, has_router=True),
    "mixtral": Family("MixtralForCausalLM", "mixtral", mixtral, has_router=True),
    "gpt_oss": Family("GptOssForCausalLM", "gpt_oss", gpt_oss, has_router=True),
    "phi3": Family("Phi3ForCausalLM", "phi3", phi3),
    "smollm3": Family("SmolLM3ForCausalLM", "smollm3", smollm3),
    "olmo2": Family("Olmo2ForCausalLM", "olmo2", olmo2),
    "olmo3": Family("Olmo3ForCausalLM", "olmo3", olmo3),
    "glm4": Family("Glm4ForCausalLM", "glm4", glm4),
    "granite": Family("GraniteForCausalLM", "granite", granite),
    "ministral3": Family("Ministral3ForCausalLM", "ministral3", ministral3),
    "gemma3": Family("Gemma3ForCausalLM", "gemma3_text", gemma3),
    "gemma4": Family("Gemma4ForCausalLM", "gemma4_text", gemma4, has_router=True),
    "qwen3_next": Family("Qwen3NextForCausalLM", "qwen3_next", qwen3_next, has_router=True),
    "qwen3_5": Family("Qwen3_5ForCausalLM", "qwen3_5_text", qwen3_5),
    "qwen3_5_moe": Family("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", qwen3_5_moe, has_router=True),
}


def draw(rng, family):
    row, c = FAMILIES[family], sizes(rng)
    return {"architectures": [row.architecture], "model_type": row.model_type, **c, **row.more(rng, c)}


def draw_length(rng, c):
    """At the end of a block, or of the window, or anything."""
    ends = [BLOCK, 2 * BLOCK, c.get("sliding_window") or BLOCK, (c.get("sliding_window") or 0) + BLOCK]
    n = pick(rng, *ends) + int(rng.integers(-1, 3)) if chance(rng, 0.7) else int(rng.integers(2, 300))
    return max(n, 2)


# ---- comparing ----


def chooses(c):
    """Whether some experts compute a token and others do not."""
    n = c.get("num_experts", c.get("num_local_experts"))
    return n is not None and c.get("num_experts_per_tok", c.get("top_k_experts")) < n


class Case:
    """A model in a folder, the ids it is asked with, and what transformers says."""

    def __init__(self, rng, family, folder):
        import of_transformers

        self.folder, self.config = folder, draw(rng, family)
        of_transformers.write(folder, self.config, rng)
        ids = rng.integers(0, self.config["vocab_size"], draw_length(rng, self.config))
        ids.astype("<i4").tofile(folder + "/ids.bin")
        self.n_decode = int(rng.integers(0, min(8, len(ids))))
        self.chunk = int(pick(rng, 1, 7, 16, 33, BLOCK, 200))
        self.theirs = of_transformers.logits(folder, ids.tolist())
        self.counts = np.ones(len(ids), bool)
        if FAMILIES[family].has_router and chooses(self.config):
            off = np.linalg.norm(of_transformers.logits(folder, ids.tolist(), double=False) - self.theirs, axis=-1)
            self.counts = off < TOLERANCE / 10 * np.linalg.norm(self.theirs, axis=-1)

    def line(self):
        return f"{self.folder} {self.chunk} {self.n_decode}\n"

    def error(self):
        """Relative, of the logits that the driver wrote; what is wrong, or None."""
        ours = np.fromfile(self.folder + "/logits.bin", "<f4").reshape(self.theirs.shape)[self.counts]
        theirs = self.theirs[self.counts]
        if len(theirs) < 0.9 * len(self.theirs):
            return 0.0, f"{len(self.theirs) - len(theirs)} rows of {len(self.theirs)} are unclear"
        error = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
        if not error < TOLERANCE:
            return error, f"relative error {error:.1e}"
        best = np.sort(theirs, -1)
        clear = best[:, -1] - best[:, -2] > CLEAR_GAP * theirs.std()
        differs = clear & (ours.argmax(-1) != theirs.argmax(-1))
        return error, f"another greedy token at {np.flatnonzero(differs)[:5]}" if differs.any() else None


def compare(driver, cases):
    """Relative errors of the cases, and a line for each that is wrong."""
    done = subprocess.run([driver], input="".join(c.line() for c in cases), capture_output=True, text=True, check=True)
    said, errors, wrong = done.stdout.splitlines(), [], []
    assert len(said) == len(cases), done.stderr
    for case, answer in zip(cases, said):
        error, what = case.error() if answer == "ok" else (0.0, answer)
        errors.append(error)
        if what:
            wrong.append(f"{case.line().strip()}: {what}")
    return errors, wrong


def run_family(args, family, n_family):
    errors, wrong = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for first in range(0, args.n, AT_ONCE):
            cases = []
            for i in range(first, min(first + AT_ONCE, args.n)):
                rng = np.random.default_rng([args.seed, n_family, i])
                cases.append(Case(rng, family, f"{scratch}/{family}-{i}"))
            some_errors, some_wrong = compare(args.driver, cases)
            errors += some_errors
            wrong += some_wrong
            for case in cases:
                if args.keep and any(line.startswith(case.folder + " ") for line in some_wrong):
                    shutil.copytree(case.folder, f"{args.keep}/{os.path.basename(case.folder)}", dirs_exist_ok=True)
                shutil.rmtree(case.folder)
    print(f"{family:12s} {args.n} configurations, {len(wrong)} wrong, worst relative error {max(errors):.1e}, "
          f"median {np.median(errors):.1e}", flush=True)
    for line in wrong[:10]:
        print("  " + line, flush=True)
    return len(wrong)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("driver")
    ap.add_argument("--n", type=int, default=200)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--keep", help="where directories of those that are wrong are left")
    ap.add_argument("families", nargs="*", metavar="FAMILY")
    args = ap.parse_intermixed_args()
    try:
        import torch
        import transformers
    except ImportError:
        print("torch or transformers is missing")
        return 77
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    n_wrong = 0
    for n_family, family in enumerate(FAMILIES):
        if not args.families or family in args.families:
            n_wrong += run_family(args, family, n_family)
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
