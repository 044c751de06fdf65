#!/usr/bin/env python3
"""What 10,000 documents cost a server: its start with them on disk beside one without, and their list.

    tests/bench/serve/many_documents.py [--n 10000] [--starts 5]      (build/release/longflash, or $LF_LONGFLASH)

The demo model, documents of a sentence each in a throw-away --cache-dir; a start is from exec to "ready", a list one GET
of /v1/documents on a kept connection, read whole."""
import argparse
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
os.environ.setdefault("LF_LONGFLASH", os.path.join(ROOT, "build/release/longflash"))
import harness  # noqa: E402

SIZES = ("--ctx", "4K", "--kv-tokens", "16K", "--device", "cpu")


def put_all(server, n):
    connection = server.connect(120)
    for i in range(n):
        text = f"Note {i}. The access code for Marrow Hill is {i}.".encode()
        while (r := server.request("PUT", f"/v1/documents/d{i:05d}", text, {"Content-Type": "text/plain"}, connection=connection)).status == 429:
            time.sleep(0.02)
        if r.status != 202:
            sys.exit(f"document {i}: {r.status} {r.body[:200]!r}")


def list_ms(server, n, times):
    connection, took = server.connect(60), []
    for _ in range(times):
        began = time.perf_counter()
        r = server.request("GET", "/v1/documents", connection=connection)
        took.append(1000 * (time.perf_counter() - began))
        if len(r.json["data"]) != n:
            sys.exit(f"{len(r.json['data'])} documents of {n} are listed")
    return sorted(took)


def started(*args):
    began = time.perf_counter()
    server = harness.Program(*args)
    return server, time.perf_counter() - began


def show(what, values, unit):
    values = sorted(values)
    print(f"{what}: {values[len(values) // 2]:.3g} {unit} (median of {len(values)}, {values[0]:.3g} to {values[-1]:.3g})")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--n", type=int, default=10000)
    p.add_argument("--starts", type=int, default=5)
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="lf_many_") as folder:
        keeps = ("--cache-dir", os.path.join(folder, "cache"), "--cache-disk", "2G", "--document-memory", "256M")
        server, _ = started(*SIZES, *keeps)
        put_all(server, a.n)
        show(f"list of {a.n}", list_ms(server, a.n, 21), "ms")
        server.stop()
        full, lists = [], []
        for _ in range(a.starts):
            server, took = started(*SIZES, *keeps)
            full.append(took)
            lists += list_ms(server, a.n, 3)
            server.stop()
        show(f"start with {a.n}", full, "s")
        show("list right after the start, while they return", lists, "ms")
        empty = []
        for _ in range(a.starts):
            server, took = started(*SIZES)
            empty.append(took)
            server.stop()
        show("start without any", empty, "s")


if __name__ == "__main__":
    main()
