#!/usr/bin/env python3
"""NCCL's all-reduce of floats by its size, as bench_comm.c measures ours: many in a CUDA graph, the median of many
launches. CSV: ranks, bytes, microseconds. Needs PyTorch.

    nccl_reduce.py N_RANKS
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = [1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20,
         16 << 20, 64 << 20, 128 << 20]
IN_GRAPH, LAUNCHES, WARM_UP = 64, 25, 5


def measure(n_bytes):
    x = torch.zeros(n_bytes // 4, device="cuda")
    for _ in range(2):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(IN_GRAPH):
            dist.all_reduce(x)
    times = []
    for _ in range(WARM_UP + LAUNCHES):
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / IN_GRAPH)
    return 1e6 * statistics.median(times[WARM_UP:])


def rank_main(rank, n_ranks):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=n_ranks, device_id=torch.device("cuda", rank))
    for n_bytes in SIZES:
        us = measure(n_bytes)
        if rank == 0:
            print(f"{n_ranks},{n_bytes},{us:.2f}", flush=True)
    os._exit(0)  # graphs hold NCCL's communicator: taking it down in order may wait for ever


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")
    n_ranks = int(sys.argv[1])
    print("ranks,bytes,us", flush=True)
    mp.spawn(rank_main, args=(n_ranks,), nprocs=n_ranks)


if __name__ == "__main__":
    main()
