#!/usr/bin/env python3
"""Makes those models of tests/golden/model/data whose logits are transformers' alone.

    make_decoders.py [--out DIR] [NAME ...]

As make.py, but the tensors are those of transformers' class, and there is no forward pass here to compare its logits with.
The seed of a model is its name's.
"""
import argparse
import os
import shutil
import zlib

import numpy as np

import of_transformers
from make import N_IDS, base, nest


# Text parts of models that also see, and what stands before their names (make.py).
NESTED = {"ministral3-nested-bf16": ("model.language_model.", "")}


def models():
    olmo2, olmo3 = ("Olmo2ForCausalLM", "olmo2"), ("Olmo3ForCausalLM", "olmo3")
    glm4, granite = ("Glm4ForCausalLM", "glm4"), ("GraniteForCausalLM", "granite")
    smollm3 = ("SmolLM3ForCausalLM", "smollm3")
    ministral3 = ("Ministral3ForCausalLM", "ministral3")
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    scaled = {"type": "yarn", "rope_theta": 1e6, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5, **yarn}
    return {
        "llama-gelu-f32": base("LlamaForCausalLM", "llama", "float32", rope_theta=10000.0, hidden_act="gelu"),
        "olmo2-f32": base(*olmo2, "float32", rope_theta=500000.0, num_attention_heads=4, num_key_value_heads=2,
                          hidden_size=40, intermediate_size=28, attention_bias=False),
        "olmo2-yarn-bf16": base(*olmo2, "bfloat16", num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=3,
                                head_dim=48, attention_bias=True, tie_word_embeddings=True,
                                rope_parameters={"rope_theta": 50000.0, **yarn}),
        # as older files have it: rope_scaling is that of the full layers, each fourth by default
        "olmo3-f32": base(*olmo3, "float32", num_hidden_layers=5, rope_theta=500000.0, sliding_window=20, hidden_size=16,
                          intermediate_size=20, rope_scaling={"attention_factor": 1.2, **yarn}),
        "olmo3-typed-bf16": base(*olmo3, "bfloat16", num_hidden_layers=3, sliding_window=33, num_attention_heads=4,
                                 num_key_value_heads=2,
                                 layer_types=["full_attention", "sliding_attention", "full_attention"],
                                 rope_parameters={"full_attention": {"rope_theta": 50000.0, **yarn},
                                                  "sliding_attention": {"rope_type": "default", "rope_theta": 700.0}}),
        "glm4-f32": base(*glm4, "float32", rope_theta=10000.0, attention_bias=False, num_attention_heads=4,
                         num_key_value_heads=2, hidden_size=20, intermediate_size=28, pad_token_id=0,
                         partial_rotary_factor=0.5),
        # biases and half of the channels by default
        "glm4-biases-bf16": base(*glm4, "bfloat16", num_hidden_layers=3, head_dim=48, num_key_value_heads=1,
                                 pad_token_id=0, tie_word_embeddings=True,
                                 rope_parameters={"rope_type": "default", "rope_theta": 50000.0,
                                                  "partial_rotary_factor": 0.75}),
        "granite-f32": base(*granite, "float32", rope_theta=10000.0, num_attention_heads=4, num_key_value_heads=2,
                            hidden_size=20, intermediate_size=28, embedding_multiplier=6.0, logits_scaling=0.5,
                            residual_multiplier=0.6, attention_multiplier=0.03),
        "granite-biases-bf16": base(*granite, "bfloat16", num_hidden_layers=3, attention_bias=True, mlp_bias=True,
                                    tie_word_embeddings=True, num_key_value_heads=None, head_dim=48, hidden_size=40,
                                    embedding_multiplier=0.5, logits_scaling=3, residual_multiplier=0.3,
                                    attention_multiplier=0.2,
                                    rope_parameters={"rope_type": "default", "rope_theta": 50000.0}),
        "smollm3-windows-f32": base(*smollm3, "float32", num_hidden_layers=5, pad_token_id=0, use_sliding_window=True,
                                    sliding_window=19),
        "ministral3-f32": base(*ministral3, "float32", num_attention_heads=4, num_key_value_heads=2, hidden_size=20,
                               rope_parameters={"max_position_embeddings": 128, **scaled}),
        "ministral3-nested-bf16": base(*ministral3, "bfloat16", num_hidden_layers=3, sliding_window=41,
                                       tie_word_embeddings=True, rope_parameters=scaled),
    }


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data"))
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    for name, c in models().items():
        if args.names and name not in args.names:
            continue
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        folder = f"{args.out}/{name}"
        shutil.rmtree(folder, ignore_errors=True)
        stored = of_transformers.write(folder, c, rng)
        ids = rng.integers(0, c["vocab_size"], N_IDS).tolist()
        logits = of_transformers.logits(folder, ids)
        if name in NESTED:
            nest(folder, c, stored, *NESTED[name])
        with open(folder + "/expected.bin", "wb") as f:
            f.write(np.array([N_IDS, c["vocab_size"], *ids], "<i4").tobytes() + logits.astype("<f4").tobytes())
        top = np.sort(logits, -1)
        print(f"{name:24s} spread {logits.std():.2f}, median gap {np.median(top[:, -1] - top[:, -2]):.2f}")


if __name__ == "__main__":
    main()
