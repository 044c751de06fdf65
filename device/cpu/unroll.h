/* How a kernel keeps an array of accumulators in registers: the functions that touch it are inlined and the loops over
 * it have constant bounds and are unrolled whole, so that every element becomes a variable of its own. */
#ifndef LF_DEVICE_CPU_UNROLL_H
#define LF_DEVICE_CPU_UNROLL_H

#define LF_KERNEL static inline __attribute__((always_inline))

#ifdef __clang__
#define LF_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LF_UNROLL _Pragma("GCC unroll 64")
#endif

#endif
