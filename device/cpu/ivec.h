/* Vectors of whole numbers beside those of vec.h, as wide: the words of the kernels of coded weights.
 *
 *     ivec                      VEC lanes of 32 bits, or four times as many of 8
 *     ivec_load, ivec_store     at an address that is a multiple of the vector
 *     ivec_set, ivec_set8       every lane of 32, of 8 bits
 *     ivec_set_bytes            the four bytes at any address, in every lane
 *     ivec_widen, ivec_widen16  VEC bytes, VEC numbers of 16 bits at any address, each to a lane
 *     ivec_add, _mul, _max      lanes of 32 bits
 *     ivec_shift_left, _right4  the same, of signed numbers
 *     ivec_and                  bit by bit
 *     ivec_low4, ivec_high4     the low, the high four bits of every byte
 *     ivec_lookup               of a table of 16 bytes, at the indices in the bytes
 *     ivec_float                lanes as numbers; ivec_as_float: as bits */
#ifndef LF_DEVICE_CPU_IVEC_H
#define LF_DEVICE_CPU_IVEC_H

#include <stdint.h>
#include <string.h>

#include "device/cpu/vec.h"

#if defined(__AVX512BW__)
typedef __m512i ivec;
#define IVEC(name)      _mm512_##name
#define IVEC_BITS(name) _mm512_##name##_si512
#else
typedef __m256i ivec;
#define IVEC(name)      _mm256_##name
#define IVEC_BITS(name) _mm256_##name##_si256
#endif

LF_KERNEL ivec ivec_load(const void *p)
{
    return IVEC_BITS(load)(p);
}

LF_KERNEL void ivec_store(void *p, ivec x)
{
    IVEC_BITS(store)(p, x);
}

LF_KERNEL ivec ivec_set(int32_t x)
{
    return IVEC(set1_epi32)(x);
}

LF_KERNEL ivec ivec_set8(int x)
{
    return IVEC(set1_epi8)((char)x);
}

LF_KERNEL ivec ivec_set_bytes(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return ivec_set(four);
}

LF_KERNEL ivec ivec_widen(const uint8_t *p)
{
#if defined(__AVX512BW__)
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
#else
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
#endif
}

LF_KERNEL ivec ivec_widen16(const void *p)
{
#if defined(__AVX512BW__)
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
#else
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
#endif
}

LF_KERNEL ivec ivec_add(ivec a, ivec b)
{
    return IVEC(add_epi32)(a, b);
}

LF_KERNEL ivec ivec_mul(ivec a, ivec b)
{
    return IVEC(mullo_epi32)(a, b);
}

LF_KERNEL ivec ivec_max(ivec a, ivec b)
{
    return IVEC(max_epi32)(a, b);
}

LF_KERNEL ivec ivec_low4(ivec x)
{
    return IVEC_BITS(and)(x, ivec_set8(15));
}

LF_KERNEL ivec ivec_high4(ivec x)
{
    return IVEC_BITS(and)(IVEC(srli_epi16)(x, 4), ivec_set8(15));
}

LF_KERNEL ivec ivec_lookup(__m128i table, ivec indices)
{
#if defined(__AVX512BW__)
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), indices);
#else
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indices);
#endif
}

/* By n bits, lanes of 32; to the right the sign comes after. */
LF_KERNEL ivec ivec_shift_left(ivec x, int n)
{
#if defined(__AVX512BW__)
    return _mm512_slli_epi32(x, (unsigned)n);
#else
    return _mm256_slli_epi32(x, n);
#endif
}

LF_KERNEL ivec ivec_shift_right4(ivec x)
{
    return IVEC(srai_epi32)(x, 4);
}

LF_KERNEL ivec ivec_and(ivec a, ivec b)
{
    return IVEC_BITS(and)(a, b);
}

LF_KERNEL vec ivec_float(ivec x)
{
    return IVEC(cvtepi32_ps)(x);
}

#if defined(__AVX512BW__)
#define ivec_as_float(x) _mm512_castsi512_ps(x)
#else
#define ivec_as_float(x) _mm256_castsi256_ps(x)
#endif

#endif
