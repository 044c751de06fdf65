"""guidellm: a short benchmark from its command line, which is how it is used."""
import json
import os
import subprocess
import tempfile

from cell import LIMIT_S, cell, main

PROMPTS = ["What is the capital of Laigburd?", "Who signed the treaty?", "How many rivers are there?"]


def benchmark(t, request_format, *more):
    with tempfile.TemporaryDirectory() as folder:
        data, out = os.path.join(folder, "data.jsonl"), os.path.join(folder, "out.json")
        with open(data, "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"prompt": p, "output_tokens_count": 8}) + "\n" for p in PROMPTS * 4)
        done = subprocess.run(
            [os.path.join(os.environ["LF_VENV"], "bin", "guidellm"), "run", "--disable-console",
             "--backend", f"kind=openai_http,target={t.base},model={t.model},request_format={request_format}",
             "--constraint", "kind=max_requests,count=6", "--data", f"kind=json_file,path={data}",
             "--output", f"kind=json,path={out}", *more],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S * 2)
        assert done.returncode == 0, done.stdout[-1500:]
        with open(out, encoding="utf-8") as f:
            for b in json.load(f)["benchmarks"]:
                totals = b["metrics"]["request_totals"]
                assert totals["successful"] >= 3 and totals["errored"] == 0, totals


@cell("chat completions, one after the other", "benchmark", stream=True)
def synchronous(t):
    benchmark(t, "/v1/chat/completions", "--profile", "kind=synchronous")


@cell("chat completions, concurrent", "benchmark", stream=True)
def concurrent(t):
    benchmark(t, "/v1/chat/completions", "--profile", "kind=concurrent,streams=3")


@cell("completions, one after the other", "benchmark", stream=True)
def completions(t):
    benchmark(t, "/v1/completions", "--profile", "kind=synchronous")


if __name__ == "__main__":
    main("guidellm")
