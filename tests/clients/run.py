"""Runs every cell of the table of clients, prints it, and writes it as a page.

    run.py --venv DIR [--other DIR] [--guidellm DIR] [--families A,B] [--clients A,B] [--only TEXT] [--page docs/clients.md]

run.sh makes the environments and calls this. The demo model answers schemas and plain text; the scripted engine,
behind the template of each family, answers everything. Exits 1 where a cell failed.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import families
import proxy
import scenes

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MERGES_N = 200
# name, file, its second argument, environment
CLIENTS = [
    ("openai-python", "client_openai.py", [], "venv"),
    ("openai-python, 3.x", "client_openai.py", [], "other"),
    ("openai-python-responses", "client_openai_responses.py", [], "venv"),
    ("openai-python-responses-3.x", "client_openai_responses.py", [], "other"),
    ("anthropic", "client_anthropic.py", [], "venv"),
    ("anthropic, 0.x", "client_anthropic.py", [], "other"),
    ("langchain-openai", "client_langchain.py", [], "venv"),
    ("langchain-anthropic", "client_langchain.py", ["anthropic"], "venv"),
    ("litellm-openai", "client_litellm.py", [], "venv"),
    ("litellm-anthropic", "client_litellm.py", ["anthropic"], "venv"),
    ("pydantic-ai-openai", "client_pydantic_ai.py", [], "other"),
    ("pydantic-ai-anthropic", "client_pydantic_ai.py", ["anthropic"], "other"),
    ("instructor-openai", "client_instructor.py", [], "venv"),
    ("instructor-anthropic", "client_instructor.py", ["anthropic"], "venv"),
    ("smolagents", "client_smolagents.py", [], "venv"),
    ("openai-agents", "client_openai_agents.py", [], "venv"),
    ("openai-agents-responses", "client_openai_agents.py", ["responses"], "venv"),
    ("guidellm", "client_guidellm.py", [], "guidellm"),
]
PACKAGES = ["openai", "anthropic", "langchain-openai", "langchain-anthropic", "langchain-core", "langchain", "langgraph", "litellm",
            "pydantic-ai-slim", "instructor", "smolagents", "openai-agents", "guidellm", "pydantic"]


class Server:
    """A process that prints `ready PORT`, or answers /readyz on a port that is given."""

    def __init__(self, command, port=None):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE if port is None else subprocess.DEVNULL, cwd=ROOT)
        self.port = port
        if port is None:
            m = re.match(r"ready (\d+)", self.process.stdout.readline().decode())
            if not m:
                raise RuntimeError(f"did not start: {' '.join(command)}")
            self.port = int(m.group(1))
            return
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).read()
                return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError(f"is not ready: {' '.join(command)}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_demo(build):
    port = free_port()
    return Server([os.path.join(build, "longflash"), "serve", "--config", "configs/demo.json", "--port", str(port),
                   "--log-level", "warn"], port)


def start_family(build, folder, f):
    model = os.path.join(folder, f.name)
    families.make_model(model, f, [f.write(r.answer) for r in scenes.RULES], MERGES_N)
    script = os.path.join(folder, f.name + ".json")
    families.make_script(script, f, scenes.RULES)
    return Server([os.path.join(build, "tests/unit/server/http/scripted_server"), f"model={model}", f"script={script}",
                   *(f"ends={e}" for e in f.ends)])


def has(f):
    out = ["plain", "schema", "tools", "exact"]
    if f.parallel:
        out.append("parallel")
    if not f.alternates:
        out += ["asked again", "two systems"]
    if f.thinks:
        out += ["switched", "switched tools"] if f.switch else ["reason", "think"]
    return out


def start_all(args, folder):
    servers, targets = {}, []
    chosen = args.families.split(",") if args.families else None
    if not chosen or "demo" in chosen:
        servers["demo"] = start_demo(args.build)
        targets.append({"name": "demo", "exact": False, "has": ["plain", "schema", "two systems", "benchmark"], "model": "demo"})
    for f in families.FAMILIES:
        if chosen and f.name not in chosen:
            continue
        if families.template_of(f) is None:
            print(f"{f.name}: left out, its template is not in $LF_ASSETS/chat_templates", file=sys.stderr)
            continue
        servers[f.name] = start_family(args.build, folder, f)
        targets.append({"name": f.name, "exact": True, "has": has(f), "switch": f.switch, "model": "fake"})
    return servers, targets


def run_client(args, client, targets, port):
    name, file, extra, where = client
    venv = getattr(args, where)
    if not venv:
        return []
    plan = {"proxy": port, "targets": targets, "only": args.only.split(",") if args.only else [], "client": name}
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_AGENTS_DISABLE_TRACING": "1",
           "LANGSMITH_TRACING": "false", "HF_HUB_OFFLINE": "1", "PYDANTIC_DISABLE_PLUGINS": "1", "LF_VENV": venv}
    done = subprocess.run([os.path.join(venv, "bin", "python"), os.path.join(HERE, file), json.dumps(plan), *extra],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=HERE)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0:
        rows.append({"client": name, "feature": "the client itself", "stream": False, "target": targets[0]["name"],
                     "cell": name, "ok": False, "error": f"ended with {done.returncode}: {done.stderr[-1500:]}"})
    return rows


def versions(args):
    code = ("import importlib.metadata as m, json, sys\n"
            f"print(json.dumps({{d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name'] in {PACKAGES!r}}}))")
    out = {}
    for where in ("venv", "other", "guidellm"):
        if getattr(args, where):
            text = subprocess.run([os.path.join(getattr(args, where), "bin", "python"), "-c", code],
                                  stdout=subprocess.PIPE, text=True, check=True).stdout
            out[where] = json.loads(text)
    return out


def mark(row):
    return "–" if row is None else "n.a." if row.get("na") else "ok" if row["ok"] else "**FAIL**"


def table(rows, targets):
    """Lines of Markdown: a table for each client; in a field the whole answer, then the stream."""
    out = []
    for client in dict.fromkeys(r["client"] for r in rows):
        mine = [r for r in rows if r["client"] == client]
        out += ["", f"### {client}", "", "| | " + " | ".join(t["name"] for t in targets) + " |",
                "|---|" + "---|" * len(targets)]
        for feature in dict.fromkeys(r["feature"] for r in mine):
            fields = []
            for t in targets:
                pair = [next((r for r in mine if r["feature"] == feature and r["stream"] == stream
                              and r["target"] == t["name"]), None) for stream in (False, True)]
                marks = [mark(r) for r in pair]
                fields.append("n.a." if set(marks) <= {"n.a.", "–"} else " / ".join(marks))
            out.append(f"| {feature} | " + " | ".join(fields) + " |")
    return out


def one_line(text):
    return re.sub(r"[\s`|]+", " ", text)[:300]


def page(rows, targets, checked, found):
    ran = [r for r in rows if "ok" in r]
    failed = [r for r in ran if not r["ok"]]
    out = ["# Clients", "",
           "Made by `tests/clients/run.sh`: every cell is a call of the client, unchanged, against a server. Do not edit.", "",
           f"{datetime.date.today()}: {len(ran)} cells, {len(failed)} failed. A field has the whole answer, then the stream; "
           "`–`: the client has no such call, `n.a.`: the server or the family has not what it needs "
           "(the demo model calls no tools; Llama 3.2's template takes one call at a time, Mistral's neither a user behind a result nor two system messages).", "",
           "`demo` is `longflash serve` with the demo model, whose answers are held to schemas. The others are "
           "`scripted_server`: the server with the chat template of the family, and answers as its models write them, "
           f"token by token ([tests/clients](../tests/clients/README.md)). {checked['checked']:,} answers were validated with the SDKs' own "
           f"types in strict mode; {sum(w[2] for w in checked['wrong'])} did not pass.", "", "## Versions", ""]
    for where, title in (("venv", "the others: "), ("other", "openai-python 3.x, anthropic 0.x, pydantic-ai: "), ("guidellm", "guidellm: ")):
        if where in found:
            out.append(f"- {title}" + ", ".join(f"{k} {v}" for k, v in sorted(found[where].items())))
    out += ["", "## Cells"] + table(rows, targets)
    if failed:
        out += ["", "## What failed", ""]
        for r in failed:
            kind = ", stream" if r["stream"] else ""
            out.append(f"- {r['client']}, {r['feature']}{kind}, {r['target']}: `{one_line(r['error'])}`")
    if checked["wrong"]:
        out += ["", "## Answers that the SDKs' types refuse", ""]
        out += [f"- {n} times, as in {cells[0]}: `{one_line(text)}`" for text, cells, n in checked["wrong"]]
    out += ["", "## Members that the SDKs' types do not know", "", "They are ours, or vLLM's; clients pass over them.", ""]
    out += [f"- {kind}: {', '.join(f'`{n}`' for n in names)}" for kind, names in sorted(checked["extra"].items())]
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--venv", required=True)
    p.add_argument("--other")
    p.add_argument("--guidellm")
    p.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    p.add_argument("--families")
    p.add_argument("--clients")
    p.add_argument("--only")
    p.add_argument("--page")
    p.add_argument("--exchanges", help="where to keep what was asked and answered, a line of JSON each")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        servers, targets = start_all(args, folder)
        try:
            between = proxy.Proxy({k: s.port for k, s in servers.items()})
            clients = [c for c in CLIENTS if not args.clients or c[0] in args.clients.split(",")]
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                # from the last one, which takes longest
                jobs = [pool.submit(run_client, args, c, targets, between.port) for c in reversed(clients)]
                rows = [r for job in reversed(jobs) for r in job.result()]
        finally:
            for s in servers.values():
                s.stop()
        exchanges = args.exchanges or os.path.join(folder, "exchanges.jsonl")
        between.save(exchanges)
        checked = json.loads(subprocess.run([os.path.join(args.venv, "bin", "python"), os.path.join(HERE, "strict.py"),
                                             exchanges], stdout=subprocess.PIPE, text=True, check=True).stdout)
    text = page(rows, targets, checked, versions(args))
    print(text)
    if args.page:
        with open(args.page, "w", encoding="utf-8") as f:
            f.write(text)
    failed = [r for r in rows if "ok" in r and not r["ok"]]
    sys.exit(1 if failed or checked["wrong"] or not rows else 0)


if __name__ == "__main__":
    main()
