#include "tests/bench/gpu_ops/bench_timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include "core/check.h"
#include "device/cuda/cuda.h"

static bool parse(struct bench_run *out, int argc, char **argv, const char *own)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!value) return false;
        if (strcmp(argv[i], own) == 0)
            out->own = value;
        else if (strcmp(argv[i], "--driver") == 0)
            out->driver = value;
        else if (strcmp(argv[i], "--commit") == 0)
            out->commit = value;
        else if (strcmp(argv[i], "--csv") == 0)
            out->csv = fopen(value, "w");
        else
            return false;
    }
    return true;
}

void bench_open(struct bench_run *out, int argc, char **argv, const char *program, const char *own, const char *values)
{
    struct lf_device_opts opts = {.name = "cuda", .act_dtype = LF_BF16, .max_isa = -1};
    struct lf_err err;
    time_t now = time(NULL);
    struct tm tm;
    *out = (struct bench_run){.driver = "unknown", .commit = "unknown"};
    if (!parse(out, argc, argv, own)) {
        fprintf(stderr, "usage: %s [%s %s] [--csv FILE] [--driver TEXT] [--commit TEXT]\n", program, own, values);
        exit(2);
    }
    LF_ASSERT(gmtime_r(&now, &tm) != NULL && strftime(out->date, sizeof out->date, "%Y-%m-%d", &tm) > 0);
    if (lf_device_open(&out->dev, &opts, &err) == LF_OK) return;
    fprintf(stderr, "%s\n", err.message);
    exit(77);
}

void bench_close(struct bench_run *run)
{
    lf_device_close(run->dev);
    if (run->csv) (void)fclose(run->csv);
}

struct lf_buffer bench_alloc(struct lf_device *dev, size_t bytes, const char *what)
{
    struct lf_buffer buf = {0};
    struct lf_err err;
    if (lf_buffer_alloc(dev, &buf, bytes, what, &err) == LF_OK) return buf;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

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
