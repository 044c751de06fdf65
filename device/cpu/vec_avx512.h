/* The words of vec.h in AVX-512 (F, BW, DQ, VL) and, where compiled for it, AVX-512 BF16. Included by vec.h alone. */
#ifndef LF_DEVICE_CPU_VEC_AVX512_H
#define LF_DEVICE_CPU_VEC_AVX512_H

#include <immintrin.h>

typedef __m512 vec;
typedef __mmask16 vec_mask;
enum { VEC = 16, VEC_REGS = 32 };

LF_KERNEL vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}

LF_KERNEL vec vec_load(const float *p)
{
    return _mm512_load_ps(p);
}

LF_KERNEL vec vec_loadu(const float *p)
{
    return _mm512_loadu_ps(p);
}

LF_KERNEL void vec_store(float *p, vec x)
{
    _mm512_store_ps(p, x);
}

LF_KERNEL void vec_storeu(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}

LF_KERNEL vec_mask vec_lanes(int from, int to)
{
    from = from < 0 ? 0 : from;
    to = to > VEC ? VEC : to;
    if (from >= to) return 0;
    return (vec_mask)((0xffffu >> (VEC - to)) & (0xffffu << from));
}

LF_KERNEL vec vec_load_first(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(vec_lanes(0, n), p);
}

LF_KERNEL void vec_store_first(float *p, vec x, int n)
{
    _mm512_mask_storeu_ps(p, vec_lanes(0, n), x);
}

LF_KERNEL vec vec_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

LF_KERNEL vec vec_widen_even(vec pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
}

LF_KERNEL vec vec_widen_odd(vec pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32((int)0xffff0000)));
}

LF_KERNEL vec vec_load_even(const void *p)
{
    return vec_widen_even(vec_load(p));
}

LF_KERNEL vec vec_load_odd(const void *p)
{
    return vec_widen_odd(vec_load(p));
}

LF_KERNEL vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

LF_KERNEL vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

LF_KERNEL vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

LF_KERNEL vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

LF_KERNEL vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

LF_KERNEL vec vec_fms(vec a, vec b, vec c)
{
    return _mm512_fmsub_ps(a, b, c);
}

LF_KERNEL vec vec_fnma(vec a, vec b, vec c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

LF_KERNEL vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

LF_KERNEL vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

LF_KERNEL vec vec_abs(vec x)
{
    return _mm512_abs_ps(x);
}

/* bit by bit: the sign bit of x, the others of y */
LF_KERNEL vec vec_copysign(vec y, vec x)
{
    __m512i sign = _mm512_set1_epi32(INT32_MIN);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(sign, _mm512_castps_si512(x), _mm512_castps_si512(y), 0xca));
}

LF_KERNEL vec vec_round(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

LF_KERNEL vec vec_fraction(vec x)
{
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

LF_KERNEL vec vec_scale2(vec y, vec x)
{
    return _mm512_scalef_ps(y, x);
}

LF_KERNEL vec vec_ldexp(vec y, vec n)
{
    return _mm512_scalef_ps(y, n);
}

LF_KERNEL float vec_sum(vec x)
{
    return _mm512_reduce_add_ps(x);
}

LF_KERNEL float vec_largest(vec x)
{
    return _mm512_reduce_max_ps(x);
}

LF_KERNEL vec vec_keep(vec_mask lanes, vec x)
{
    return _mm512_maskz_mov_ps(lanes, x);
}

LF_KERNEL vec vec_select(vec_mask lanes, vec x, vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, lanes, x);
}

#ifdef __AVX512BF16__
#define VEC_DOT_BF16 1

/* acc + a's first halves · b's + a's second halves · b's, the bits of a and b taken as pairs of bf16 */
LF_KERNEL vec vec_dot_bf16(vec acc, vec a, vec b)
{
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
}

/* Pairs without their second halves. */
LF_KERNEL vec vec_first_halves(vec pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32(0xffff)));
}

/* VEC floats rounded to bf16, to any address */
LF_KERNEL void vec_store_bf16(void *p, vec x)
{
    _mm256_storeu_si256(p, (__m256i)_mm512_cvtneps_pbh(x));
}

/* The same of two vectors, to an aligned address */
LF_KERNEL void vec_store2_bf16(void *p, vec first, vec second)
{
    _mm512_store_si512(p, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}
#endif

#endif
