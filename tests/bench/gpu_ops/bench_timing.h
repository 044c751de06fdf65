/* Timing of a GPU's work: each candidate is a graph of several calls over memory that no cache holds, candidates are
 * launched by turns, and the median of the rounds counts. */
#ifndef LF_TESTS_BENCH_GPU_OPS_BENCH_TIMING_H
#define LF_TESTS_BENCH_GPU_OPS_BENCH_TIMING_H

#include "device/device.h"

enum { BENCH_ROUNDS = 15, BENCH_CANDIDATES_N = 16 };

struct bench_candidate {
    void (*call)(struct lf_device *dev, const void *ctx, int call_idx); /* queues one call */
    const void *ctx;
    int n_calls; /* in the graph */
    double us;   /* of one call: the result */
};

/* Says why and exits unless the device is sound. */
void bench_check(struct lf_device *dev);
void bench_time(struct lf_device *dev, struct bench_candidate *candidates, int n);

#endif
