/* A vector of floats: the few words that the kernels of one instruction set differ in.
 *
 * A kernel is written once, in a header (gemm_vec.h, row_vec.h, attention/cpu/attn_float.h), and compiled in a file for
 * each instruction set, whose flags choose the words here. The next instruction set is a file of words and those
 * files. Not written in these words are the plain C kernels, which must not share a fault with what they judge, and
 * those of AMX, whose tiles are no vectors (their softmax is). vec_math.h has e^x and tanh in them.
 *
 *     VEC                       floats of a vector, a divisor of 16
 *     VEC_REGS                  registers: 16 or 32
 *     vec, vec_mask             a vector; a choice of its lanes
 *     vec_load, vec_store       VEC floats at an aligned address; loadu and storeu: at any
 *     vec_load_first            n < VEC floats at any address, 0 in the other lanes
 *     vec_store_first           the first n < VEC lanes
 *     vec_load_f16              VEC halves at any address, widened
 *     vec_widen_even, _odd      the first, the second halves of VEC pairs of bf16, widened
 *     vec_load_even, _odd       the same of pairs at an aligned address
 *     vec_fma, _fms, _fnma      a · b + c, a · b − c, c − a · b
 *     vec_max, vec_min          the second operand where one of the two is NaN
 *     vec_round, vec_fraction   the nearest integer; x − ⌊x⌋
 *     vec_scale2                y · 2^⌊x⌋ for 1 <= y <= 2 and x <= 0; below x = −126 it may be 0, at −∞ it is
 *     vec_ldexp                 y · 2^n for whole −126 <= n <= 128, ∞ where that is too large
 *     vec_copysign              |y| with the sign of x
 *     vec_sum, vec_largest      over the lanes, in one order
 *     vec_lanes                 the lanes i with from <= i < to
 *     vec_keep, vec_select      x in the mask's lanes; in the others +0, or the other vector's
 *
 * and where VEC_DOT_BF16 is defined: vec_dot_bf16, vec_first_halves, vec_store_bf16, vec_store2_bf16. */
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
