"""guidellm: a short benchmark from its command line, which is how it is used."""
import json
import os
import subprocess
import tempfile

import families
from cell import LIMIT_S, cell, main

PROMPTS = ["What is the capital of Laigburd?", "Who signed the treaty?", "How many rivers are there?"]


def prompts(folder):
    path = os.path.join(folder, "data.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"prompt": p, "output_tokens_count": 8}) + "\n" for p in PROMPTS * 4)
    return ["--data", f"kind=json_file,path={path}"]


def synthetic(folder):
    """Prompts that it makes itself, counted with a tokenizer of ours: it would fetch one."""
    families.make_model(folder, families.FAMILIES[0], PROMPTS, 20)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, f)
    return ["--data", "kind=synthetic_text,prompt_tokens=40,output_tokens=8", "--tokenizer",
            f"kind=huggingface_auto,model={folder}"]


def benchmark(t, request_format, profile, stream=True, data=prompts):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        done = subprocess.run(
            [os.path.join(os.environ["LF_VENV"], "bin", "guidellm"), "run", "--disable-console",
             "--backend", f"kind=openai_http,target={t.base},model={t.model},request_format={request_format},"
             f"stream={str(stream).lower()}", "--profile", profile, "--constraint", "kind=max_requests,count=6",
             *data(folder), "--output", f"kind=json,path={out}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S * 2)
        assert done.returncode == 0, done.stdout[-1500:]
        with open(out, encoding="utf-8") as f:
            for b in json.load(f)["benchmarks"]:
                totals = b["metrics"]["request_totals"]
                assert totals["successful"] >= 3 and totals["errored"] == 0, totals


@cell("chat completions, one after the other", "benchmark", stream=True)
def synchronous(t):
    benchmark(t, "/v1/chat/completions", "kind=synchronous")


@cell("chat completions, one after the other", "benchmark")
def synchronous_whole(t):
    benchmark(t, "/v1/chat/completions", "kind=synchronous", stream=False)


@cell("chat completions, synthetic prompts", "benchmark", stream=True)
def synthetic_prompts(t):
    benchmark(t, "/v1/chat/completions", "kind=synchronous", data=synthetic)


@cell("chat completions, concurrent", "benchmark", stream=True)
def concurrent(t):
    benchmark(t, "/v1/chat/completions", "kind=concurrent,streams=3")


@cell("completions, one after the other", "benchmark", stream=True)
def completions(t):
    benchmark(t, "/v1/completions", "kind=synchronous")


@cell("completions, one after the other", "benchmark")
def completions_whole(t):
    benchmark(t, "/v1/completions", "kind=synchronous", stream=False)


if __name__ == "__main__":
    main("guidellm")
