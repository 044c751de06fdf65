/* What this machine can do at most, on the threads of a device: multiply-adds that touch registers only, and a plain
 * loop that reads memory. */
#ifndef LF_TESTS_BENCH_GEMM_CEILINGS_H
#define LF_TESTS_BENCH_GEMM_CEILINGS_H

#include <stdbool.h>

#include "device/device.h"

/* The clock of the whole benchmark: wall time, or the calling thread's CPU time, which on a busy machine leaves out
 * what others took (and means something with one thread only). */
struct bench_clock {
    bool cpu_time;
};
int64_t bench_clock_ns(struct bench_clock clock);

/* GFLOP/s of all threads; `pairs` asks for the bf16 pair instruction. 0 where the instruction set has none. */
double ceiling_gflops(struct lf_device *dev, struct bench_clock clock, bool pairs);
/* GB/s of reading a buffer once, all threads in pieces of 64 KiB. */
double ceiling_read_gbs(struct lf_device *dev, struct bench_clock clock, const struct lf_buffer *buf);

#endif
