/* What the parts of bench_gpu_ops share. */
#ifndef LF_TESTS_BENCH_GPU_OPS_BENCH_GPU_OPS_H
#define LF_TESTS_BENCH_GPU_OPS_BENCH_GPU_OPS_H

#include "device/device.h"
#include "tests/bench/gpu_ops/bench_timing.h"

struct bench {
    struct lf_device *dev;
    struct lf_buffer pool, x, y, act, ids; /* y is float, act are activations */
    double copy_gbs;                       /* read plus written */
    struct bench_run run;
};

/* A line of the table, and of the file. */
void bench_report(struct bench *b, const char *op, const char *variant, int n_rows, double us, double bytes);

#endif
