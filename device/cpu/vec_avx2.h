/* The words of vec.h in AVX2, FMA and F16C. Included by vec.h alone. */
#ifndef LF_DEVICE_CPU_VEC_AVX2_H
#define LF_DEVICE_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <string.h>

typedef __m256 vec;
typedef __m256 vec_mask; /* all bits of a lane, or none */
enum { VEC = 8, VEC_REGS = 16 };

LF_KERNEL vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}

LF_KERNEL vec vec_load(const float *p)
{
    return _mm256_load_ps(p);
}

LF_KERNEL vec vec_loadu(const float *p)
{
    return _mm256_loadu_ps(p);
}

LF_KERNEL void vec_store(float *p, vec x)
{
    _mm256_store_ps(p, x);
}

LF_KERNEL void vec_storeu(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}

LF_KERNEL vec_mask vec_lanes(int from, int to)
{
    __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32(from), i), in = _mm256_cmpgt_epi32(_mm256_set1_epi32(to), i);
    return _mm256_castsi256_ps(_mm256_andnot_si256(before, in));
}

LF_KERNEL vec vec_load_first(const float *p, int n)
{
    return _mm256_maskload_ps(p, _mm256_castps_si256(vec_lanes(0, n)));
}

LF_KERNEL void vec_store_first(float *p, vec x, int n)
{
    _mm256_maskstore_ps(p, _mm256_castps_si256(vec_lanes(0, n)), x);
}

LF_KERNEL vec vec_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

LF_KERNEL vec vec_widen_even(vec pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}

LF_KERNEL vec vec_widen_odd(vec pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(pairs), _mm256_set1_epi32((int)0xffff0000)));
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
    return _mm256_add_ps(a, b);
}

LF_KERNEL vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

LF_KERNEL vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

LF_KERNEL vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

LF_KERNEL vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

LF_KERNEL vec vec_fms(vec a, vec b, vec c)
{
    return _mm256_fmsub_ps(a, b, c);
}

LF_KERNEL vec vec_fnma(vec a, vec b, vec c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

LF_KERNEL vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

LF_KERNEL vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

LF_KERNEL vec vec_abs(vec x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

LF_KERNEL vec vec_copysign(vec y, vec x)
{
    return _mm256_or_ps(vec_abs(y), _mm256_and_ps(_mm256_set1_ps(-0.0f), x));
}

LF_KERNEL vec vec_round(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

LF_KERNEL vec vec_fraction(vec x)
{
    return _mm256_sub_ps(x, _mm256_floor_ps(x));
}

/* ⌊x⌋ is added to the exponent of y; below −126 there is none, and the result is 0. NaN stays NaN. */
LF_KERNEL vec vec_scale2(vec y, vec x)
{
    __m256i n = _mm256_slli_epi32(_mm256_cvtps_epi32(_mm256_floor_ps(x)), 23);
    vec scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), n));
    return _mm256_and_ps(scaled, _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ));
}

LF_KERNEL vec vec_power_of_2(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* 2¹²⁸ is past the exponents of float while y · 2¹²⁸ may not be: the power in two halves. */
LF_KERNEL vec vec_ldexp(vec y, vec n)
{
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(y, vec_power_of_2(half)), vec_power_of_2(_mm256_sub_epi32(whole, half)));
}

LF_KERNEL float vec_sum(vec x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

LF_KERNEL float vec_largest(vec x)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

LF_KERNEL vec vec_keep(vec_mask lanes, vec x)
{
    return _mm256_and_ps(lanes, x);
}

LF_KERNEL vec vec_select(vec_mask lanes, vec x, vec otherwise)
{
    return _mm256_blendv_ps(otherwise, x, lanes);
}

#endif
