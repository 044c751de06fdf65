/* attn_expand.h in AVX2, in integers: a code's exponent and mantissa go where bf16 has them, and the scale is added to
 * the exponent.
 *
 *     code   s eeee mmm            bf16   s eeeeeeee mmmmmmm    exponent: e − 7 + 127 + (scale − 127)
 *
 * That is right for codes that are normal numbers, which almost all are: the largest of a head is at the top of the
 * range, and what is below it by 2^-14 is rare. 32 codes with a zero or a subnormal number among them take the longer
 * way, so those of a head that is NaN do: they are zeros. A page is rows of pairs: K's are 64 tokens long, each with a
 * scale, V's belong to two tokens. */
#include "attention/cpu/attn_expand.h"

#include <immintrin.h>

#include "kv/kv_fp8.h"

enum { LINE = 64, NORMAL = 8 };

/* What is added to a code's bits in place. */
static uint32_t bias_of(uint8_t scale)
{
    return (uint32_t)(scale - 7) << 7 & 0xffff;
}

/* Of a head that is NaN. */
enum { NAN_BIAS = (LF_KV_FP8_NAN - 7) << 7 };

/* Any 16 codes. A subnormal m · 2^-9 is looked up: what its bits are off by, in sixteenths. */
static inline void expand_any(const uint8_t *codes, __m256i bias, uint16_t *out)
{
    const __m128i off = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, -17, -10, -7, -4, -3, -2, -1);
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)codes);
    __m128i size = _mm_and_si128(c, _mm_set1_epi8(0x7f));
    /* 0 to 7 become 0x78 to 0x7f, which look up their low four bits; all others have the top bit and get 0. */
    __m128i at = _mm_adds_epu8(size, _mm_set1_epi8(0x78));
    __m128i bits = _mm_add_epi8(size, _mm_shuffle_epi8(off, at));
    __m256i zero = _mm256_cvtepi8_epi16(_mm_cmpeq_epi8(size, _mm_setzero_si128()));
    __m256i sign = _mm256_and_si256(_mm256_cvtepi8_epi16(c), _mm256_set1_epi16((int16_t)0x8000));
    __m256i x = _mm256_add_epi16(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bits), 4), bias);
    x = _mm256_or_si256(_mm256_andnot_si256(zero, x), sign);
    __m256i nan = _mm256_cmpeq_epi16(bias, _mm256_set1_epi16(NAN_BIAS));
    _mm256_store_si256((__m256i *)(void *)out, _mm256_blendv_epi8(x, _mm256_set1_epi16(0x7fc0), nan));
}

/* 16 normal codes. */
static inline void expand_normal(__m128i codes, __m256i bias, uint16_t *out)
{
    __m256i x = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 4); /* bits 11 to 15 are the sign */
    x = _mm256_and_si256(x, _mm256_set1_epi16((int16_t)0x87f0));
    _mm256_store_si256((__m256i *)(void *)out, _mm256_add_epi16(x, bias));
}

static inline void expand_32(const uint8_t *codes, __m256i bias0, __m256i bias1, uint16_t *out)
{
    __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)codes);
    __m256i size = _mm256_and_si256(c, _mm256_set1_epi8(0x7f));
    __m256i others = _mm256_cmpgt_epi8(_mm256_set1_epi8(NORMAL), size);
    if (_mm256_testz_si256(others, others)) {
        expand_normal(_mm256_castsi256_si128(c), bias0, out);
        expand_normal(_mm256_extracti128_si256(c, 1), bias1, out + 16);
        return;
    }
    expand_any(codes, bias0, out);
    expand_any(codes + 16, bias1, out + 16);
}

static inline void fetch(const uint8_t *ahead, int at, int n)
{
    for (int i = 0; ahead && i < n; i += LINE) __builtin_prefetch(ahead + at + i, 0, 2);
}

static void expand_k(int n_rows, const uint8_t *codes, const uint8_t *scales, const uint8_t *ahead, uint16_t *out)
{
    enum { ROW = 2 * LF_KV_BLOCK_TOKENS };
    _Alignas(32) uint32_t pairs[LF_KV_BLOCK_TOKENS];
    const __m256i *bias = (const __m256i *)(const void *)pairs;
    for (int t = 0; t < LF_KV_BLOCK_TOKENS; t++) pairs[t] = bias_of(scales[t]) * 0x00010001u;
    for (int row = 0; row < n_rows; row++) {
        fetch(ahead, row * ROW, ROW);
        for (int i = 0; i < ROW; i += 32)
            expand_32(codes + row * ROW + i, bias[i / 16], bias[i / 16 + 1], out + row * ROW + i);
    }
}

static void expand_v(int head_dim, const uint8_t *codes, const uint8_t *scales, const uint8_t *ahead, uint16_t *out)
{
    int row = 2 * head_dim;
    for (int pair = 0; pair < LF_KV_BLOCK_TOKENS / 2; pair++, codes += row, out += row) {
        uint32_t both = bias_of(scales[2 * pair]) | bias_of(scales[2 * pair + 1]) << 16;
        __m256i bias = _mm256_set1_epi32((int32_t)both);
        int i = 0;
        fetch(ahead, pair * row, row);
        for (; i + 32 <= row; i += 32) expand_32(codes + i, bias, bias, out + i);
        if (i < row) expand_any(codes + i, bias, out + i);
    }
}

void lf_attn_expand_avx2(int head_dim, enum lf_kv_part part, const uint8_t *page, const uint8_t *ahead, uint16_t *out)
{
    const uint8_t *scales = page + LF_KV_BLOCK_TOKENS * head_dim;
    fetch(ahead, LF_KV_BLOCK_TOKENS * head_dim, LINE);
    if (part == LF_KV_K)
        expand_k(head_dim / 2, page, scales, ahead, out);
    else
        expand_v(head_dim, page, scales, ahead, out);
}
