#include "tests/bench/gpu_ops/bench_timing.h"

#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#include "core/check.h"
#include "device/cuda/cuda.h"

void bench_check(struct lf_device *dev)
{
    struct lf_err err;
    if (lf_device_sync(dev, &err) == LF_OK) return;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double time_ms(struct lf_device *dev, struct lf_graph *graph, cudaEvent_t begin, cudaEvent_t end)
{
    float ms = 0.0f;
    cudaStream_t stream = lf_cuda_stream(dev);
    lf_cuda_check(dev, (int)cudaEventRecord(begin, stream), "timing");
    lf_graph_launch(dev, graph);
    lf_cuda_check(dev, (int)cudaEventRecord(end, stream), "timing");
    bench_check(dev);
    lf_cuda_check(dev, (int)cudaEventElapsedTime(&ms, begin, end), "timing");
    return (double)ms;
}

void bench_time(struct lf_device *dev, struct bench_candidate *candidates, int n)
{
    static double ms[BENCH_CANDIDATES_N][BENCH_ROUNDS];
    struct lf_graph *graphs[BENCH_CANDIDATES_N];
    cudaEvent_t begin, end;
    LF_ASSERT(n <= BENCH_CANDIDATES_N);
    LF_ASSERT(cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess);
    for (int i = 0; i < n; i++) {
        candidates[i].call(dev, candidates[i].ctx, 0); /* what a first call loads */
        LF_ASSERT(lf_graph_begin(dev));
        for (int c = 0; c < candidates[i].n_calls; c++) candidates[i].call(dev, candidates[i].ctx, c);
        graphs[i] = lf_graph_end(dev);
        bench_check(dev);
        (void)time_ms(dev, graphs[i], begin, end);
    }
    for (int r = 0; r < BENCH_ROUNDS; r++)
        for (int i = 0; i < n; i++) ms[i][r] = time_ms(dev, graphs[i], begin, end);
    for (int i = 0; i < n; i++) {
        qsort(ms[i], BENCH_ROUNDS, sizeof ms[i][0], compare);
        candidates[i].us = ms[i][BENCH_ROUNDS / 2] * 1e3 / candidates[i].n_calls;
        lf_graph_destroy(dev, graphs[i]);
    }
    (void)cudaEventDestroy(end);
    (void)cudaEventDestroy(begin);
}
