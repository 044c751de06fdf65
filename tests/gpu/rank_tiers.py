#!/usr/bin/env python3
"""--cache-memory and --cache-dir over GPUs: documents that the caches of all ranks have no room for come back from the host's
memory, and from disk by the next server, with the answers that they had from the cache, to the last bit; a byte of any
rank's part that is wrong is computed again; a kill at any moment leaves nothing wrong.

    LF_LONGFLASH=BINARY rank_tiers.py [SPLIT…]            for instance tp=1 tp=2 cp=2

Exit status 77 where there are not as many GPUs as a split needs.
"""
import os
import random
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402
import ranks as of_ranks  # noqa: E402
from ranks import FAILED, expect  # noqa: E402

N_DOCUMENTS, KV_TOKENS = 5, 8192  # of two or so
# In small chunks the demo is read more slowly than a disk brings it: else it would be computed, as is sooner done.
OPTIONS = ("--ctx", "8192", "--kv-tokens", str(KV_TOKENS), "--max-seqs", "4", "--chunk", "32", "--device", "cuda")
SOURCE = 'source="external_kv_transfer"'


def body(seed):
    """Some 4,000 tokens that another one's does not begin with, and some that are asked about."""
    with open("demo/document.txt", encoding="utf-8") as f:
        whole = f.read()
    at = seed * 7919 % (len(whole) - 16000)
    return {"prompt": f"{seed}: {whole[at:at + 12000]}", "max_tokens": 24, "temperature": 0, "logprobs": 2, "ignore_eos": True}


class Asked:
    """An answer, what of its prompt was found, and where."""

    def __init__(self, server, seed):
        before = server.metric("prompt_tokens_by_source_total", SOURCE)
        start = time.monotonic()
        r = of_ranks.ask(server, "/v1/completions", {**body(seed), "return_token_ids": True}).json
        self.s = time.monotonic() - start
        self.ids, self.logprobs = r["choices"][0]["token_ids"], r["choices"][0]["logprobs"]
        self.n_cached = r["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.n_restored = int(server.metric("prompt_tokens_by_source_total", SOURCE) - before)


def start(split, folder, *more):
    return harness.Program(*OPTIONS, "--parallel", split, "--cache-dir", folder, "--cache-disk", "2G", *more)


def check(what, asked, truth):
    """As it was from the device's cache, where as much was found: else GEMMs of other sizes may end another way."""
    same = [a.ids == t.ids and a.logprobs == t.logprobs for a, t in zip(asked, truth) if a.n_cached == t.n_cached]
    n_restored = sum(a.n_restored for a in asked)
    expect(f"{what}: {len(same)} of {len(asked)} found whole, {sum(same)} of them the same to the bit, {n_restored} tokens from "
           f"below, {1e3 * sum(a.s for a in asked) / len(asked):.1f} ms each", all(same) and len(same) > 0 and n_restored > 0,
           [(a.n_cached, t.n_cached, a.n_restored) for a, t in zip(asked, truth)])


def ask_until_gone(server, seed):
    try:
        Asked(server, seed)
    except (OSError, RuntimeError, ValueError, harness.http.client.HTTPException):
        pass


def flip_one_of_each_rank(folder, block_bytes, n_ranks):
    identity, = (d for d in os.listdir(folder) if len(d) == 64)
    with open(os.path.join(folder, identity, "full.data"), "r+b") as f:
        for rank in range(n_ranks):
            f.seek((3 + 2 * rank) * block_bytes + rank * block_bytes // n_ranks + 4321)
            byte = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte ^ 16]))


def run(split, folder):
    n = of_ranks.n_ranks(split)
    server = start(split, folder, "--cache-memory", "1G")
    harness.wait_until(lambda: server.metric("memory_blocks") > 500, 30)  # pinned by then
    computed, truth = [], []
    for seed in range(N_DOCUMENTS):
        computed.append(Asked(server, seed))
        truth.append(Asked(server, seed))
    expect(f"{split}: each is computed, then in the cache, {1e3 * sum(a.s for a in computed[1:]) / (len(computed) - 1):.1f} and "
           f"{1e3 * sum(a.s for a in truth) / len(truth):.1f} ms each",
           all(c.n_cached == 0 and t.n_cached > 3000 for c, t in zip(computed, truth)), [t.n_cached for t in truth])
    check(f"{split}: from memory", [Asked(server, seed) for seed in range(N_DOCUMENTS)], truth)
    expect(f"{split}: blocks came from memory", server.metric("memory_blocks_loaded_total") > 0)
    plan = server.get("/v1/capacity").json
    block_bytes = plan["plan"]["kv_bytes"] // plan["blocks"]["total"]
    of_ranks.stop(server, split)
    server = start(split, folder)
    check(f"{split}: from disk", [Asked(server, seed) for seed in range(2)], truth)
    of_ranks.stop(server, split)
    flip_one_of_each_rank(folder, block_bytes, n)
    server = start(split, folder)
    asked = [Asked(server, seed) for seed in range(N_DOCUMENTS)]
    n_same = sum(a.ids[:8] == t.ids[:8] for a, t in zip(asked, truth))  # one that was computed again may end where it ties
    n_broken = server.metric("disk_blocks_broken_total")
    expect(f"{split}: a byte of each rank: {n_broken:.0f} blocks are broken, {n_same} of {N_DOCUMENTS} answers begin the same",
           1 <= n_broken <= n and n_same >= N_DOCUMENTS - 1, [(a.ids, t.ids) for a, t in zip(asked, truth)])
    threads = [threading.Thread(target=ask_until_gone, args=(server, 10 + i)) for i in range(4)]
    for t in threads:
        t.start()
    time.sleep(random.Random(split).uniform(0.01, 0.15))
    server.stop(signal.SIGKILL)
    for t in threads:
        t.join()
    server = start(split, folder)
    check(f"{split}: after a kill", [Asked(server, seed) for seed in (1, 0)], [truth[1], truth[0]])
    expect(f"{split}: nothing is broken", server.metric("disk_blocks_broken_total") == 0)
    of_ranks.stop(server, split)


def main():
    splits = sys.argv[1:] or ["tp=1", "tp=2", "cp=2"]
    most = max(map(of_ranks.n_ranks, splits))
    if of_ranks.n_gpus() < most:
        print(f"skipped: {of_ranks.n_gpus()} GPUs, ranks need {most}")
        return 77
    for split in splits:
        with tempfile.TemporaryDirectory(prefix="lf_rank_tiers_") as folder:
            try:
                run(split, os.path.join(folder, "cache"))
            except (RuntimeError, OSError, harness.http.client.HTTPException) as e:
                expect(f"{split}: runs to its end", False, e)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
