/* What the benchmarks of a GPU's ops share: their command line, and timing. In that each candidate is a graph of
 * several calls over memory that no cache holds, candidates are launched by turns, and the median of the rounds counts.
 */
#ifndef LF_TESTS_BENCH_GPU_OPS_BENCH_TIMING_H
#define LF_TESTS_BENCH_GPU_OPS_BENCH_TIMING_H

#include <stdio.h>

#include "device/device.h"

/* A run of a benchmark: what its command line says, and the device. */
struct bench_run {
    struct lf_device *dev;
    const char *own; /* the value of the option that it has beside the common ones; NULL: not given */
    const char *driver, *commit;
    char date[16];
    FILE *csv; /* or NULL */
};

/* PROGRAM [OWN VALUE] [--csv FILE] [--driver TEXT] [--commit TEXT]; exits with a usage, or 77 where there is no GPU. */
void bench_open(struct bench_run *out, int argc, char **argv, const char *program, const char *own, const char *values);
void bench_close(struct bench_run *run);
/* Exits where there is no memory. */
struct lf_buffer bench_alloc(struct lf_device *dev, size_t bytes, const char *what);

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
