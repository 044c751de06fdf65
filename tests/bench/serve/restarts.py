#!/usr/bin/env python3
"""The first token after a restart, where the document is on disk, beside reading it again; and what others wait for
meanwhile.

    restarts.py BINARY MODEL_DIR [--lengths 32K,64K,126K] [--rounds 3] [--dir DIR] [--cache-disk 16G] [--out FILE.csv]
                [--ids-may-differ] [-- SERVE_OPTION…]

For each length: a server with an empty --cache-dir reads a document of so many tokens (the time to its first token),
ends, and then, some times, another one is asked for the same: its first token, and how many blocks came from disk. The
page cache is emptied in between where we may. Beside that, in the same run: a plain read of the same file, one thread,
O_DIRECT, 1 MiB at a time. In one more round short requests are asked all the time while the document comes back, and
the same without one. The answers must be the same ids, unless --ids-may-differ: on a GPU a prompt's last tokens may be
computed in another chunk than before. How many tokens came from disk is shown, since what is sooner computed is. Python's standard library only, beside measure.py.
"""
import argparse
import contextlib
import csv
import glob
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure import TimedServer, ids  # noqa: E402

SHORT_TOKENS, SHORT_OUT = 64, 8


def ask(server, prompt, n_out=8):
    """(seconds from sending to the end, ids, usage, timings)"""
    began = time.monotonic()
    reply = server.post("/v1/completions", {"prompt": prompt, "max_tokens": n_out, "temperature": 0, "ignore_eos": True,
                                            "return_token_ids": True}, timeout=900)
    if reply.status != 200:
        sys.exit(f"no answer: {reply.body[:500]}")
    answer = json.loads(reply.body)
    return time.monotonic() - began, answer["choices"][0]["token_ids"], answer["usage"], answer["timings"]


def first_token_s(server, prompt):
    _, answer, usage, t = ask(server, prompt)
    return (t["queue_ms"] + t["prefill_ms"]) / 1e3, answer, usage["prompt_tokens_details"]["cached_tokens"]


def forget_pages():
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")
    except OSError:
        pass  # not ours to empty; the blocks are read past it anyway


def plain_read(path, n_bytes):
    """Bytes a second."""
    buffer = mmap.mmap(-1, 1 << 20)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    began, done = time.monotonic(), 0
    while done < n_bytes:
        n = os.preadv(fd, [buffer], done)
        if n == 0:
            break
        done += n
    os.close(fd)
    return done / (time.monotonic() - began)


def short_waits(server, until):
    """Milliseconds of short requests to their first token, one after the other, until it says so."""
    waits, seed = [], 1
    while not until():
        seed += 1
        _, _, _, t = ask(server, ids(SHORT_TOKENS, 1000 + seed), SHORT_OUT)
        waits.append(t["queue_ms"] + t["prefill_ms"])
    return waits


def p99(values):
    return sorted(values)[max(0, int(len(values) * 0.99) - 1)]


def others_meanwhile(server, prompt):
    thread = threading.Thread(target=ask, args=(server, prompt))
    thread.start()
    waits = short_waits(server, lambda: not thread.is_alive())
    thread.join()
    began = time.monotonic()
    alone = short_waits(server, lambda: time.monotonic() - began > 1)
    return p99(waits), len(waits), p99(alone), len(alone)


@contextlib.contextmanager
def serving(args, options):
    server = TimedServer(args.binary, args.model, *options)
    try:
        yield server
    finally:
        server.stop()


def bytes_of_64(args, options):
    """Tokens, on all ranks."""
    if "--cache-meet" in options:  # of serve alone
        at = options.index("--cache-meet")
        options = options[:at] + options[at + 2:]
    r = subprocess.run([args.binary, "plan", "--model", args.model, "--json", *options], capture_output=True, check=True)
    p = json.loads(r.stdout)
    return p["kv_block_bytes"] * p["ranks"] // p["context_ranks"]


def measure(args, options, n_tokens):
    folder = tempfile.mkdtemp(prefix="restarts_", dir=args.dir)
    options = options + ["--cache-dir", folder, "--cache-disk", args.cache_disk]
    prompt, restores = ids(n_tokens, n_tokens), []
    try:
        with serving(args, options) as server:
            prefill_s, truth, _ = first_token_s(server, prompt)
        for _ in range(args.rounds):
            forget_pages()
            with serving(args, options) as server:
                restore_s, answer, cached = first_token_s(server, prompt)
            if answer != truth and not args.ids_may_differ:
                sys.exit("another answer than before the restart")
            restores.append(restore_s)
        n_bytes = max(cached // 64, 1) * bytes_of_64(args, options)
        forget_pages()
        plain = plain_read(glob.glob(os.path.join(folder, "*", "full.data"))[0], n_bytes)
        with serving(args, options) as server:
            during, n_during, alone, n_alone = others_meanwhile(server, prompt)
    finally:
        shutil.rmtree(folder)
    restore_s = statistics.median(restores)
    return {"tokens": n_tokens, "cached_tokens": cached, "mbytes": round(n_bytes / 1e6, 1),
            "prefill_s": round(prefill_s, 3), "restore_s": round(restore_s, 3),
            "times_faster": round(prefill_s / restore_s, 1), "restore_mb_s": round(n_bytes / 1e6 / restore_s, 1),
            "plain_read_mb_s": round(plain / 1e6, 1), "short_p99_ms": round(during, 1), "n_short": n_during,
            "short_alone_p99_ms": round(alone, 1), "n_alone": n_alone}


def count(text):
    return int(text[:-1]) * 1024 if text[-1] in "kK" else int(text)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--lengths", default="32K,64K,126K")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--dir")
    p.add_argument("--cache-disk", default="16G")
    p.add_argument("--out")
    p.add_argument("--ids-may-differ", action="store_true")
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    args = p.parse_args(own)
    options = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []
    rows = []
    for length in args.lengths.split(","):
        rows.append(measure(args, options, count(length)))
        print("  ".join(f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    if args.out:
        with open(args.out, "w", newline="") as f:
            out = csv.DictWriter(f, rows[0].keys())
            out.writeheader()
            out.writerows(rows)


if __name__ == "__main__":
    main()
