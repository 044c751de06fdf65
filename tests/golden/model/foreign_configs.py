#!/usr/bin/env python3
"""Asks what is made of the configuration of every class that transformers makes text with.

    foreign_configs.py BINARY [--all] [--keep DIR]

BINARY is longflash. The classes are those that transformers' auto classes know for text, for text of images, and for text of
several kinds of input; each stands in a directory with the configuration that its own class makes by default, as
save_pretrained writes it. `plan --load dummy` must open it, or refuse it within a second by a message that names the class,
or a key of the configuration. Prints how many are which, the opened ones and every answer that is neither (--all: every
answer). Needs torch and transformers; skipped (exit 77) where they are missing.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

MOST_S = 1.0
PLAN = ["plan", "--load", "dummy", "--device", "cpu", "--ctx", "1024"]


def classes():
    """{class: model type}, in the order of their names."""
    from transformers.models.auto import modeling_auto as auto

    found = {}
    for names in (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
                  auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES):
        for model_type, name in names.items():
            for one in [name] if isinstance(name, str) else name:
                own = one.lower().startswith(model_type.replace("_", ""))  # others borrow the class
                if own or one not in found:
                    found[one] = model_type
    return dict(sorted(found.items()))


def write(folder, name, model_type):
    """The configuration as a file; what it holds, or None where the class makes none by default."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.for_model(model_type)
    except Exception:  # some want to be told what they are made of
        return None
    config.architectures = [name]
    os.makedirs(folder)
    config.save_pretrained(folder)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        return json.load(f)


def keys_of(config):
    for key, value in config.items():
        yield key
        if isinstance(value, dict):
            yield from keys_of(value)


class Answer:
    def __init__(self, binary, folder):
        begin = time.monotonic()
        done = subprocess.run([binary, *PLAN, "--model", folder], capture_output=True, text=True)
        self.seconds = time.monotonic() - begin
        self.status, self.plan, self.said = done.returncode, done.stdout, done.stderr.strip()

    def judge(self, name, config):
        """opened (whether it fits this machine or not), refused, or what is wrong."""
        if self.status in (0, 2) and "KV cache" in self.plan:
            return "opened"
        before, _, why = self.said.partition("/config.json: ")
        named = name in why or any(len(key) > 3 and key in why for key in keys_of(config))
        if self.status != 1 and self.status != 2 or "\n" in before or not named:
            return f"status {self.status}, and nothing is named"
        return "refused" if self.seconds < MOST_S else f"refused after {self.seconds:.1f} s"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("binary")
    ap.add_argument("--all", action="store_true", help="every answer is printed")
    ap.add_argument("--keep", help="where the directories are left")
    args = ap.parse_args()
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError:
        print("torch or transformers is missing")
        return 77
    transformers.logging.set_verbosity_error()
    verdicts = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, model_type in classes().items():
            folder = os.path.join(args.keep or scratch, name)
            config = write(folder, name, model_type)
            if config is None:
                verdicts.setdefault("made no configuration by default", []).append(name)
                continue
            answer = Answer(args.binary, folder)
            verdict = answer.judge(name, config)
            verdicts.setdefault(verdict, []).append(name)
            if args.all or verdict not in ("opened", "refused"):
                print(f"{name}: {verdict}: {answer.said}", flush=True)
    for verdict, names in verdicts.items():
        print(f"{len(names):4d} {verdict}" + ("" if verdict == "refused" else ": " + ", ".join(names)))
    right = {"opened", "refused", "made no configuration by default"}
    return 0 if set(verdicts) <= right else 1


if __name__ == "__main__":
    sys.exit(main())
