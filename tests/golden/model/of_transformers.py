"""Random models of transformers' classes: their weights, and the logits that transformers computes in float64."""
import json
import os

import numpy as np

from make import ENCODE, write_model


def shapes(config):
    """Name -> shape of what a checkpoint of this configuration holds."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    known = {k: v for k, v in config.items() if k not in ("architectures", "torch_dtype")}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**json.loads(json.dumps(known))))
    tied = set(model.all_tied_weights_keys)
    return {name: tuple(t.shape) for name, t in model.state_dict().items() if name not in tied}


def weights(config, rng, widen=1.0):
    """Name -> array as stored. Large enough that attention is not flat and logits differ by tenths."""
    out = {}
    for name, shape in shapes(config).items():
        a = rng.standard_normal(shape)
        if "norm" in name:
            a = 1 + 0.2 * a
            if config["model_type"] == "gemma4_text" and name.endswith(("q_norm.weight", "k_norm.weight")):
                a = a / 2  # scores are not scaled
        elif name.endswith("bias"):
            a = 0.3 * a
        elif "embed" not in name:
            a = 1.3 * widen * a / np.sqrt(shape[-1])
        out[name] = ENCODE[config["torch_dtype"]][1](a)
    return out


def logits(folder, ids, double=True):
    """Of the model in a folder, in float64 or in float32; every position's, which are named: layers of Gemma 4 that share keys
    look for inputs of each layer, which need not be there, where they are a number."""
    import torch
    from transformers import AutoModelForCausalLM

    with open(folder + "/config.json") as f:
        has_experts = "expert" in f.read()
    how = {"experts_implementation": "eager"} if has_experts else {}  # the grouped one has no float64
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, **how).eval()
    if double:
        model = model.double()
    with torch.no_grad():
        return model(torch.tensor([ids]), logits_to_keep=torch.arange(len(ids))).logits[0].numpy()


def write(folder, config, rng, widen=1.0):
    """The model as a directory; its weights as stored."""
    stored = weights(config, rng, widen)
    os.makedirs(folder, exist_ok=True)
    write_model(folder, config, stored, 1)
    return stored
