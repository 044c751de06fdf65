#!/usr/bin/env python3
"""Prefill and decode speed of llama.cpp, printed as tests/bench/model prints ours.

    llama_cpp_speed.py MODEL.gguf THREADS LENGTH…

Needs llama-cpp-python. Flash attention on, F16 KV cache, batches of 512, random token ids.
"""
import random
import sys
import time

import llama_cpp as L


def quiet(level, text, data):
    pass


def main():
    path, threads, lengths = sys.argv[1], int(sys.argv[2]), [int(x) for x in sys.argv[3:]]
    callback = L.llama_log_callback(quiet)
    L.llama_log_set(callback, None)
    L.llama_backend_init()
    mp = L.llama_model_default_params()
    mp.use_mmap = False
    model = L.llama_model_load_from_file(path.encode(), mp)
    n_decode = 64
    cp = L.llama_context_default_params()
    cp.n_ctx, cp.n_batch, cp.n_ubatch = max(lengths) + n_decode + 64, 512, 512
    cp.n_threads = cp.n_threads_batch = threads
    for name in ("flash_attn_type", "flash_attn"):
        if hasattr(cp, name):
            setattr(cp, name, 1)
    ctx = L.llama_init_from_model(model, cp)
    n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    rng = random.Random(7)
    batch = L.llama_batch_init(512, 0, 1)

    def step(ids, first, logits):
        batch.n_tokens = len(ids)
        for i, t in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = t, first + i, 1, 0
            batch.logits[i] = 1 if logits and i == len(ids) - 1 else 0
        start = time.perf_counter()
        assert L.llama_decode(ctx, batch) == 0
        L.llama_get_logits(ctx)
        return time.perf_counter() - start

    step([1] * 64, 0, True)
    print("#length  prefill/s   decode/s")
    for length in lengths:
        L.llama_memory_clear(L.llama_get_memory(ctx), True)
        prefill = sum(step([rng.randrange(n_vocab) for _ in range(min(512, length - at))], at, at + 512 >= length)
                      for at in range(0, length, 512))
        decode = sum(step([rng.randrange(n_vocab)], length + i, True) for i in range(n_decode))
        print(f"{length:7d} {length / prefill:10.1f} {n_decode / decode:10.1f}", flush=True)


main()
