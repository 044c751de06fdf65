/* What the machine can do at most: loops that do nothing but multiply in registers, or read memory. */
#ifndef LF_TESTS_BENCH_ATTENTION_BENCH_PEAK_H
#define LF_TESTS_BENCH_ATTENTION_BENCH_PEAK_H

#include <stddef.h>

#include "device/device.h"

/* Floating-point operations of n_rounds rounds on one core: fp32 FMA at the widest width of isa, or VDPBF16PS. Returns
 * their number; 0 if the machine has no such instruction. */
double bench_peak_fma(enum lf_isa isa, long n_rounds);
double bench_peak_dpbf16(enum lf_isa isa, long n_rounds);
/* Reads n bytes; the value keeps the loads alive. */
double bench_read(enum lf_isa isa, const void *p, size_t n);

#endif
