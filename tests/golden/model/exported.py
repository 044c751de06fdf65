#!/usr/bin/env python3
"""Whether what `longflash quantize` writes is what others read: transformers and compressed-tensors open it, and every
matrix is, bit by bit, what the rule of core/quant.h makes of the original one, by other code.

    exported.py PROGRAM [MODEL]      PROGRAM: build/release/longflash; MODEL: a plain Llama or Qwen, else the demo

Needs torch, transformers, compressed-tensors and safetensors from PyPI."""
import os
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
GROUP = 32


def rounded(weight, to):
    """The matrix in bfloat16, as dequantizing what was quantized makes it."""
    x = weight.float()
    if to == "fp8":
        scale = (x.abs().amax(1, keepdim=True) / 448).bfloat16()
        return (x / scale.float()).clamp(-448, 448).to(torch.float8_e4m3fn).bfloat16() * scale
    groups = x.view(x.shape[0], -1, GROUP)
    most = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    scale = (most.abs() / 127 if to == "int8" else most / -8).bfloat16()
    low, high = (-127, 127) if to == "int8" else (-8, 7)
    codes = torch.round(groups / scale.float()).clamp(low, high)
    return (codes.bfloat16() * scale).view(x.shape)


def check(program, model, to, folder):
    out = os.path.join(folder, to)
    subprocess.run([program, "quantize", "--model", model, "--to", to, "--out", out], check=True)
    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)
    theirs = AutoModelForCausalLM.from_pretrained(out, dtype=torch.bfloat16)
    ids = torch.arange(5, 45)[None]
    with torch.no_grad():
        logits = theirs(ids).logits  # which expands the matrices
        have, n = dict(theirs.named_parameters()), 0
        for name, weight in plain.named_parameters():
            if ".layers." in name and weight.dim() == 2:
                weight.data = rounded(weight.data, to)
                assert torch.equal(have[name], weight), f"{to}: {name}"
                n += 1
            else:
                assert torch.equal(have[name], weight), f"{to}: {name}"
        differ = (plain(ids).logits - logits).abs().max().item()
    assert to == "fp8" or differ == 0, f"{to}: logits differ by {differ}"  # with fp8 they quantize activations, too
    print(f"{to}: {n} matrices are as they should be")


def main():
    program = sys.argv[1]
    model = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "demo/model")
    with tempfile.TemporaryDirectory(prefix="lf_exported_") as folder:
        for to in ("int4", "int8", "fp8"):
            check(program, model, to, folder)


if __name__ == "__main__":
    main()
