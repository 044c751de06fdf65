#!/usr/bin/env python3
"""Compares greedy answers of the demo model with those of Hugging Face transformers, token by token.

    demo_oracle.py DRIVER [--model demo/model] [--lengths 1024,8192,32768] [--tokens 24] [--kv bf16,f32]
                   [--device cpu] [--torch-device cpu] [--dtype bfloat16]
    demo_oracle.py --write-prompts FILE [--lengths …]
    demo_oracle.py DRIVER --prompts FILE …

The second form only makes the prompts, for the third on a machine without sentencepiece.

DRIVER is build/…/tests/golden/model/greedy_driver. A document is filler text with facts between its sentences; the
questions are put as chat turns. Needs sentencepiece, torch and transformers; skipped (exit 77) where they are missing.
An answer counts as equal where every token is, or where the first that differs has a gap under 0.02 between the two
largest logits on either side. With --dtype the weights are rounded to another type first, for both sides; transformers
computes in float32.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

CLEAR_GAP = 0.02
FACTS = [("The access code for Marrow Hill is 48213.", "What is the access code for Marrow Hill?"),
         ("Anna Vell lives in Dorrun.", "Where does Anna Vell live?"),
         ("The director of the Silent River is Otto Krast.", "Who is the director of the Silent River?"),
         (None, "What is the access code for Tall Oak?")]
WORDS = ("the of and to in he was that his her with had not at but as on for is she him they all by which said from "
         "have this one were who when so there been out up what will man house day time hand old way night room "
         "looked came went saw took gave made knew heard left found told asked thought felt stood turned began").split()


def document(sp, length, rng):
    """Sentences of common words up to length tokens, the facts spread between them."""
    facts = [f for f, _ in FACTS if f]
    sentences, n = [], 0
    while n < length - 40:
        words = [rng.choice(WORDS) for _ in range(rng.randint(6, 16))]
        s = " ".join(words).capitalize() + "."
        n += len(sp.encode(s))
        sentences.append(s)
    for i, fact in enumerate(facts):
        sentences.insert(int(len(sentences) * (i + 0.5) / len(facts)), fact)
    return " ".join(sentences)


def prompt_ids(sp, doc, question):
    """<s><|im_start|>user\\n…<|im_end|>\\n<|im_start|>assistant\\n, the pieces of text as they stand inside a text."""
    start, end = sp.piece_to_id("<|im_start|>"), sp.piece_to_id("<|im_end|>")

    def inside(text):  # no word-boundary mark in front
        mark = sp.encode("\u00a7")
        ids = sp.encode("\u00a7" + text)
        assert ids[: len(mark)] == mark
        return ids[len(mark):]

    user = inside("user\n" + doc + "\n\n" + question)
    return [1, start, *user, end, *inside("\n"), start, *inside("assistant\n")]


def prompts(model, lengths):
    """The ids of every question behind the document of every length."""
    import sentencepiece

    sp, made = sentencepiece.SentencePieceProcessor(model_file=model + "/tokenizer.model"), []
    for length in lengths:
        doc = document(sp, length, random.Random(length))
        made += [prompt_ids(sp, doc, question) for _, question in FACTS]
    return made


def rounded(model, dtype, directory):
    """A copy of the model in `directory`, of that type."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, directory)
    for name in os.listdir(model):
        if name.endswith(".safetensors"):
            weights = {k: w.to(getattr(torch, dtype)) for k, w in load_file(f"{model}/{name}").items()}
            save_file(weights, f"{directory}/{name}", metadata={"format": "pt"})
    config = json.load(open(model + "/config.json"))
    config["torch_dtype"] = dtype
    json.dump(config, open(directory + "/config.json", "w"))
    return directory


def ours(driver, model, ids, n, kv, args):
    args = [driver, model, str(n), "--kv", kv, "--device", args.device] + (["--isa", args.isa] if args.isa else [])
    run = subprocess.run(args, input=" ".join(map(str, ids)), capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{driver}: {run.stderr.strip()}")
    out = run.stdout
    rows = [line.split() for line in out.strip().split("\n")]
    return [int(r[0]) for r in rows], [float(r[1]) for r in rows]


def theirs(model, ids, n, eos, device):
    import torch
    from transformers import DynamicCache

    cache, out, gaps, logits = DynamicCache(config=model.config), [], [], None
    with torch.no_grad():
        for first in range(0, len(ids), 512):
            part = torch.tensor([ids[first : first + 512]], device=device)
            logits = model(part, past_key_values=cache, logits_to_keep=1).logits[0, -1].float()
        for _ in range(n):
            top = torch.topk(logits, 2)
            out.append(int(top.indices[0]))
            gaps.append(float(top.values[0] - top.values[1]))
            if out[-1] in eos:
                break
            logits = model(torch.tensor([[out[-1]]], device=device), past_key_values=cache, logits_to_keep=1).logits[0, -1].float()
    return out, gaps


def compare(a, a_gaps, b, b_gaps):
    """Equal tokens, and the verdict; a may be longer (it does not stop at the end)."""
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return i, a_gaps[i] < CLEAR_GAP or b_gaps[i] < CLEAR_GAP
    return len(b), True


def options():
    ap = argparse.ArgumentParser()
    ap.add_argument("driver", nargs="?")
    ap.add_argument("--model", default="demo/model")
    ap.add_argument("--lengths", default="1024,8192,32768")
    ap.add_argument("--tokens", type=int, default=24)
    ap.add_argument("--kv", default="bf16,f32")
    ap.add_argument("--isa", default="")
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--torch-device", default="cpu")
    ap.add_argument("--prompts")
    ap.add_argument("--write-prompts")
    ap.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    args = ap.parse_args()
    if not args.driver and not args.write_prompts:
        ap.error("expected the greedy_driver, or --write-prompts")
    if args.tokens < 1:
        ap.error("--tokens must be at least 1")
    return args


def differing(args, all_ids):
    """How many answers are not equal."""
    import torch
    from transformers import AutoModelForCausalLM

    eos = json.load(open(args.model + "/config.json"))["eos_token_id"]
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32, attn_implementation="sdpa")
    model = model.eval().to(args.torch_device)
    bad = 0
    for ids in all_ids:
        start = time.time()
        b, b_gaps = theirs(model, ids, args.tokens, eos, args.torch_device)
        took = time.time() - start
        for kv in args.kv.split(","):
            a, a_gaps = ours(args.driver, args.model, ids, args.tokens, kv, args)
            n, good = compare(a, a_gaps, b, b_gaps)
            bad += not good
            print(f"{len(ids):6d} tokens, KV {kv:4s}: {n:2d} of {len(b):2d} tokens equal, "
                  f"{'ok' if good else 'DIFFERS'}, least gap {min(b_gaps):.3f} ({took:.0f} s theirs)", flush=True)
    return bad


def main():
    args = options()
    lengths = list(map(int, args.lengths.split(",")))
    try:
        if args.write_prompts:
            json.dump(prompts(args.model, lengths), open(args.write_prompts, "w"))
            return 0
        import torch
        import transformers  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 77
    torch.set_num_threads(2)
    all_ids = json.load(open(args.prompts)) if args.prompts else prompts(args.model, lengths)
    all_ids = [ids for ids in all_ids if len(ids) <= max(lengths) + 100]
    if not all_ids:
        sys.exit(f"{args.prompts} has no prompt of up to {max(lengths)} tokens: nothing was compared")
    with tempfile.TemporaryDirectory() as scratch:
        if args.dtype != "bfloat16":
            args.model = rounded(args.model, args.dtype, scratch + "/model")
        bad = differing(args, all_ids)
    print("all equal" if bad == 0 else f"{bad} answers differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
