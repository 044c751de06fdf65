#!/usr/bin/env python3
"""The server on a GPU, end to end: time to the first token, time between tokens and throughput by context and
concurrency, on the shape of a model with dummy weights.

    gpu_e2e.py BINARY SHAPE_DIR [--device cuda:0] [--out FILE.csv] [--commit NAME] [--only a,b]
                 [--lengths 32768,130000] [--batches 8,32] [--parallel tp=2,cp=2] [-- SERVE_OPTION…]

Parts: ready, ttft, itl, document, batch, many, mixed, full. Each prints a line a figure; --out collects them as CSV with date, GPU, driver
and commit. Python's standard library only, beside tests/bench/serve/measure.py.
"""
import argparse
import datetime
import json
import math
import os
import re
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
from measure import TimedServer, ids, percentile, together  # noqa: E402

ROWS = []
N_GPUS = 1


def split(text):
    if not all(re.fullmatch(r"(tp|cp)=[1-9][0-9]?", part) for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected tp=N, cp=N or tp=N,cp=M, got {text!r}")
    return text


def n_gpus(parallel):
    return math.prod(int(part.split("=")[1]) for part in parallel.split(",")) if parallel else 1


def note(name, value, unit):
    ROWS.append((name, value, unit))
    print(f"{name:44s} {value:12.4f} {unit}", flush=True)


def smi(query, gpu=0):
    """One field of nvidia-smi of a GPU, '' without it."""
    try:
        out = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", str(gpu)],
                             capture_output=True, text=True, check=True).stdout
        return out.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def ttft(r):
    return r["times"][0] - r["sent"]


def itl(r):
    return (r["times"][-1] - r["times"][0]) / (len(r["times"]) - 1)


def gaps(r):
    return [b - a for a, b in zip(r["times"], r["times"][1:])]


def note_plan(binary, shape, options):
    out = subprocess.run([binary, "plan", "--model", shape, "--json", *options], capture_output=True, check=True).stdout
    plan = json.loads(out)
    note("planned, of each GPU", (plan["total_bytes"] + plan["context_bytes"]) / 2**20, "MiB")


def part_ready(server, _):
    note("ready", server.ready_s, "s")
    for gpu in range(N_GPUS):
        if smi("memory.used", gpu):
            note("GPU memory when ready" + (f", GPU {gpu}" if N_GPUS > 1 else ""), float(smi("memory.used", gpu)), "MiB")


LENGTHS, BATCHES = [128, 1024, 8192, 32768, 65536, 130000], [2, 4, 8, 16, 32]


def part_ttft(server, longest):
    for n in (1024, 8192, 32768, 65536, 130000):
        if n < longest and n in LENGTHS:
            times = [ttft(server.generate(ids(n, 100 * n + i), 1)) for i in range(3 if n <= 65536 else 2)]
            note(f"TTFT, {n} tokens", statistics.median(times), "s")


def part_itl(server, longest):
    for n, k in ((128, 256), (8192, 128), (32768, 128), (130000, 128)):
        if n < longest and n in LENGTHS:
            note(f"ITL of one, behind {n} tokens", 1e3 * itl(server.generate(ids(n, n), k)), "ms")
    for n in BATCHES:
        rs = together(*[lambda i=i: server.generate(ids(512, 7000 + i), 256) for i in range(n)])
        first, last = max(r["times"][0] for r in rs), min(r["times"][-1] for r in rs)
        note(f"ITL of {n}, behind 512 tokens", 1e3 * statistics.median(itl(r) for r in rs), "ms")
        note(f"decode, {n} at once", sum(sum(first < t <= last for t in r["times"]) for r in rs) / (last - first), "tok/s")


def part_document(server, longest):
    """Both of the same request, once: for documents of which a second one takes minutes."""
    for n in LENGTHS:
        if n < longest:
            r = server.generate(ids(n, 300 + n), 65)
            note(f"document of {n} tokens, TTFT", ttft(r), "s")
            note(f"document of {n} tokens, ITL", 1e3 * itl(r), "ms")


def part_batch(server, _):
    n = 8
    start = time.monotonic()
    rs = together(*[lambda i=i: server.generate(ids(20000, 8000 + i), 2000) for i in range(n)])
    took = max(r["times"][-1] for r in rs) - start
    note("20000 in, 2000 out, 8 at once", sum(r["usage"]["completion_tokens"] for r in rs) / took, "output tok/s")
    note("20000 in, 2000 out, 8 at once, median TTFT", statistics.median(map(ttft, rs)), "s")


def part_many(server, _):
    n = 256
    start = time.monotonic()
    rs = together(*[lambda i=i: server.generate(ids(2000, 8500 + i), 256) for i in range(n)])
    took = max(r["times"][-1] for r in rs) - start
    note(f"2000 in, 256 out, {n} requests", sum(r["usage"]["completion_tokens"] for r in rs) / took, "output tok/s")


def part_mixed(server, longest):
    """A prefill of 128K alone; then beside four decoders and a short request every half second."""
    n = min(130000, longest - 2048)
    alone = ttft(server.generate(ids(n, 1), 1))
    decoders, stop = [None] * 4, threading.Event()

    def decode(i):
        decoders[i] = server.generate(ids(256, 9000 + i), 1500)

    threads = [threading.Thread(target=decode, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    time.sleep(1)
    shorts = []

    def short_requests():
        i = 0
        while not stop.is_set():
            t = threading.Thread(target=lambda i=i: shorts.append(server.generate(ids(200, 9100 + i), 4)))
            t.start()
            waiting.append(t)
            i += 1
            time.sleep(0.5)

    waiting = []
    source = threading.Thread(target=short_requests)
    source.start()
    long = server.generate(ids(n, 2), 1)
    stop.set()
    for t in [source] + waiting + threads:
        t.join()
    begin, end = long["sent"], long["times"][0]
    beside = [b - a for d in decoders for a, b in zip(d["times"], d["times"][1:]) if begin < b < end]
    note(f"{n} tokens alone, TTFT", alone, "s")
    note(f"{n} tokens beside others, TTFT", ttft(long), "s")
    note("the long one, beside others / alone", ttft(long) / alone, "")
    note("short requests meanwhile, TTFT p99", percentile([ttft(r) for r in shorts], 99), "s")
    note("decoders meanwhile, ITL p50", 1e3 * percentile(beside, 50), "ms")
    note("decoders meanwhile, ITL p99", 1e3 * percentile(beside, 99), "ms")


def part_full(server, longest):
    """One more document of the longest context at once than fit by what the server says: how many run and how many wait for
    room or are refused, as its metrics count them, and what the GPU's memory is then."""
    blocks = server.get("/v1/capacity").json["blocks"]
    n = max(1, blocks["tokens"] * blocks["total"] // longest) + 1
    before, seen = smi("memory.used"), []

    def look():
        for _ in range(16):
            time.sleep(0.5)
            seen.append([server.metric(f"num_requests_{name}") for name in ("running", "waiting")])

    rs = together(look, *[lambda i=i: server.generate(ids(longest - 64, 9500 + i), 8) for i in range(n)])[1:]
    refused = server.metric("admission_rejections_total", 'reason="queue_tokens"')
    rs = [r for r in rs if r]
    note(f"documents of {longest} tokens that fit by blocks", n - 1, "")
    note(f"documents of {longest} tokens that run at once", max(seen)[0], f"of {n}")
    note("and wait for room", max(seen)[1], "")
    note("and are refused, as the wait would be long", refused, "")
    note(f"documents of {longest} tokens, answered", sum(r["usage"]["completion_tokens"] == 8 for r in rs), f"of {n}")
    note("the last one's TTFT", max(map(ttft, rs)), "s")
    if before:
        note("GPU memory before", float(before), "MiB")
        note("GPU memory after", float(smi("memory.used")), "MiB")


PARTS = {"ready": part_ready, "ttft": part_ttft, "itl": part_itl, "document": part_document, "batch": part_batch, "many": part_many,
         "mixed": part_mixed, "full": part_full}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("binary")
    ap.add_argument("shape")
    ap.add_argument("--device", default="cuda:0")
    ap.add_argument("--parallel", type=split, metavar="SPLIT",
                    help="tp=N, cp=N or tp=N,cp=M: over so many GPUs, and what was planned beside what is taken")
    ap.add_argument("--ctx", type=int, default=131072)
    ap.add_argument("--out")
    ap.add_argument("--commit", default="")
    ap.add_argument("--only", default=",".join(p for p in PARTS if p != "document"))
    ap.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="of ttft and itl, of these")
    ap.add_argument("--batches", default=",".join(map(str, BATCHES)), help="of itl: how many at once")
    n_own = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args = ap.parse_args(sys.argv[1:n_own])
    LENGTHS[:], BATCHES[:] = map(int, args.lengths.split(",")), map(int, filter(None, args.batches.split(",")))
    unknown = [name for name in args.only.split(",") if name not in PARTS]
    if unknown:
        ap.error(f"--only: no part is called {', '.join(unknown)} (there are: {', '.join(PARTS)})")
    options = ["--load", "dummy", "--device", args.device, "--ctx", str(args.ctx), *sys.argv[n_own + 1:]]
    if args.parallel:
        options += ["--parallel", args.parallel]
        note_plan(args.binary, args.shape, options)
    globals()["N_GPUS"] = n_gpus(args.parallel)
    server = TimedServer(args.binary, args.shape, *options)
    try:
        for name in args.only.split(","):
            PARTS[name](server, args.ctx)
    finally:
        server.stop()
    if args.out:
        head = f"{datetime.date.today()},{smi('name')},{smi('driver_version')},{args.commit}"
        with open(args.out, "w") as f:
            f.write("date,gpu,driver,commit,shape,what,value,unit\n")
            of = f"{args.parallel}: " if args.parallel else ""
            for name, value, unit in ROWS:
                f.write(f'{head},{os.path.basename(args.shape.rstrip("/"))},"{of}{name}",{value:.6g},{unit}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
