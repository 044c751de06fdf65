/* Quantizing activations (gemm_quant.h) with AVX2: the codes, scales and sums of lf_quant_x_c. */
#include <immintrin.h>
#include <string.h>

#include "device/cpu/gemm_quant.h"
#include "device/cpu/unroll.h"

/* The bits of the largest magnitude of n floats, a multiple of 8. */
LF_KERNEL uint32_t largest(const float *x, int n)
{
    __m256i most = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 8) {
        __m256i bits = _mm256_and_si256(_mm256_loadu_si256((const void *)(x + i)), _mm256_set1_epi32(0x7fffffff));
        most = _mm256_max_epi32(most, bits);
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

LF_KERNEL __m256i nearest_8(const float *x, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

/* Codes of n floats, a multiple of 32; returns their sum. */
LF_KERNEL int32_t encode(int8_t *codes, const float *x, int n, float scale)
{
    __m256 inverse = _mm256_set1_ps(scale);
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 32) {
        __m256i a = _mm256_packs_epi32(nearest_8(x + i, inverse), nearest_8(x + i + 8, inverse));
        __m256i b = _mm256_packs_epi32(nearest_8(x + i + 16, inverse), nearest_8(x + i + 24, inverse));
        __m256i c = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((void *)(codes + i), c);
        __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), c);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static struct lf_x_group quantize_group(int8_t *codes, const float *x, int n, float unit)
{
    uint32_t bits = largest(x, n);
    float most;
    memcpy(&most, &bits, sizeof most);
    if (bits >= 0x7f800000u || most < LF_X_TINY) {
        memset(codes, 0, (size_t)n);
        return (struct lf_x_group){.scale = bits >= 0x7f800000u ? __builtin_nanf("") : 0};
    }
    struct lf_x_group g = {.scale = most / 127.0f * unit};
    g.sum = encode(codes, x, n, 127.0f / most);
    return g;
}

void lf_quant_x_avx2(int8_t *codes, struct lf_x_group *groups, const float *x, int n, int group, float unit)
{
    float last[LF_QUANT_GROUP_MAX] = {0};
    for (int k = 0; k < n; k += group) {
        const float *from = x + k;
        if (n - k < group) from = memcpy(last, from, (size_t)(n - k) * sizeof(float));
        *groups++ = quantize_group(codes + k, from, group, unit);
    }
}
