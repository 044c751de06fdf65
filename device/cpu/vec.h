/* A vector of floats: the few words that the kernels of one instruction set differ in.
 *
 * A kernel is written once, in a header (gemm_vec.h, row_vec.h, attention/cpu/attn_float.h), and compiled in a file for
 * each instruction set, whose flags choose the words here. The next instruction set is a file of words and those
 * files. Words are single instructions where there are such; what takes several stands beside its definition.
 *
 *     VEC              floats of a vector, a divisor of 16
 *     VEC_REGS         registers: 16 or 32
 *     VEC_DOT_BF16     1 where pairs of bf16 can be multiplied (vec_dot_bf16, vec_round_bf16)
 *     vec, vec_mask    a vector; a choice of its lanes
 *
 *     vec_load, vec_store            VEC floats at an aligned address; loadu and storeu: at any
 *     vec_load_first, vec_store_first    n < VEC of them; lanes past them are loaded as 0
 *     vec_load_f16                   VEC halves at any address, widened
 *     vec_load_even, vec_load_odd    the first or second halves of VEC pairs of bf16 at an aligned address, widened
 *     vec_fma, vec_fms, vec_fnma     a · b + c, a · b − c, c − a · b
 *     vec_max, vec_min               the second operand where one of the two is NaN
 *     vec_round, vec_fraction        to the nearest integer; x − ⌊x⌋
 *     vec_scale2                     y · 2^⌊x⌋ for 1/2 < y <= 2 and x <= 0, may be 0 where x < −126 and is where x is
 * −∞ vec_ldexp                      y · 2^n for whole −126 <= n <= 128, ∞ where that is too large vec_copysign |y| with
 * the sign of x vec_sum, vec_largest           over the lanes, in one order vec_lanes                      lanes i with
 * from <= i < to vec_keep, vec_select           lanes outside the mask: +0; of the other vector */
#ifndef LF_DEVICE_CPU_VEC_H
#define LF_DEVICE_CPU_VEC_H

#include "device/cpu/unroll.h"

/* fn(n, …) with n a constant in each call: a copy of fn for each number of rows. n is 1 to 6. */
#define LF_ROWS_SWITCH(fn, n, ...)                                                                                     \
    switch (n) {                                                                                                       \
    case 1:                                                                                                            \
        fn(1, __VA_ARGS__);                                                                                            \
        break;                                                                                                         \
    case 2:                                                                                                            \
        fn(2, __VA_ARGS__);                                                                                            \
        break;                                                                                                         \
    case 3:                                                                                                            \
        fn(3, __VA_ARGS__);                                                                                            \
        break;                                                                                                         \
    case 4:                                                                                                            \
        fn(4, __VA_ARGS__);                                                                                            \
        break;                                                                                                         \
    case 5:                                                                                                            \
        fn(5, __VA_ARGS__);                                                                                            \
        break;                                                                                                         \
    default:                                                                                                           \
        fn(6, __VA_ARGS__);                                                                                            \
        break;                                                                                                         \
    }

#if defined(__AVX512F__)
#include "device/cpu/vec_avx512.h"
#elif defined(__AVX2__)
#include "device/cpu/vec_avx2.h"
#endif

#endif
