/* The FP8 of a KV cache on a GPU (kv/kv_fp8.h, the plain C reference, says what it is): codes from elements, elements
 * from codes, and where both lie. For every GPU from sm_80 on, with integer operations and no conversion instruction;
 * the codes are the reference's.
 *
 * What is quantized is the element that a bf16 cache would have kept, rounded: bf16, not the float before it. A code's
 * element, code times power of two, is exact in bf16, so every kernel reads the same numbers. The scale of a head that
 * is NaN is an infinity here, in bf16 and as a float, and times its codes, which are 0, that is NaN. */
#ifndef LF_ATTENTION_CUDA_KV_FP8_CUH
#define LF_ATTENTION_CUDA_KV_FP8_CUH

#include "core/limits.h"
#include "device/cuda/codes.cuh"

enum { KV_EXPONENT_LEAST = -100, KV_EXPONENT_MOST = 120, KV_EXPONENT_BIAS = 127, KV_SCALE_NAN = 0xff };

enum : uint32_t { FLOAT_MAGNITUDE = 0x7fffffffu, FLOAT_INFINITY = 0x7f800000u };

/* ---- codes from elements ---- */

/* Bits that are in the order of magnitudes, infinities and NaN behind them. */
LF_GPU_FN uint32_t magnitude(float x)
{
    return __float_as_uint(x) & FLOAT_MAGNITUDE;
}

/* The exponent of a finite head's scale from the most of these bits: numbers are at most 1.75 · 2^8 times it. */
LF_GPU_FN int kv_exponent(uint32_t most)
{
    int e = (int)(most >> 23) - 127 - 8 + ((most & 0x7fffffu) > 0x600000u);
    return min(max(e, (int)KV_EXPONENT_LEAST), (int)KV_EXPONENT_MOST);
}

LF_GPU_FN float power_of_two(int exponent)
{
    return __uint_as_float((uint32_t)(exponent + 127) << 23);
}

/* The nearest code, ties to even, of a finite number that has been divided by its scale. */
LF_GPU_FN uint32_t kv_code(float x)
{
    uint32_t bits = __float_as_uint(x), sign = bits >> 24 & 0x80u, a = bits & FLOAT_MAGNITUDE;
    /* Below 2^-6 a step is 2^-9: adding 2^14 leaves the rounded number of steps in the low bits. */
    uint32_t small = __float_as_uint(__uint_as_float(a) + 0x1p14f) - 0x46800000u;
    uint32_t large = (a - 0x3c000000u + 0x7ffffu + (a >> 20 & 1u)) >> 20;
    return sign | (a < 0x3c800000u ? small : large);
}

/* ---- elements from codes ---- */

/* The scale of a byte, twice in a word. */
LF_GPU_FN uint32_t kv_scale_pair(uint32_t byte)
{
    return byte * 0x00800080u;
}

/* Sixteen neighbouring codes of a token. */
struct kv_elements {
    uint4 low, high;
};

LF_GPU_FN uint32_t scale_pair(uint32_t pair, uint32_t scale)
{
    return fma_rn_x2<bf16>(pair, scale, MINUS);
}

LF_GPU_FN uint4 kv_scaled(const uint4 &x, uint32_t scale)
{
    return make_uint4(scale_pair(x.x, scale), scale_pair(x.y, scale), scale_pair(x.z, scale), scale_pair(x.w, scale));
}

LF_GPU_FN kv_elements kv_expand(const uint4 &codes, uint32_t scale_byte)
{
    uint32_t scale = kv_scale_pair(scale_byte);
    return {kv_scaled(e4m3_elements<bf16>(codes.x, codes.y), scale),
            kv_scaled(e4m3_elements<bf16>(codes.z, codes.w), scale)};
}

/* ---- pages ---- */

/* The scales of a page of this address. */
template <class Byte> LF_GPU_FN Byte *kv_scales(Byte *page, int head_dim)
{
    return page + (size_t)LF_KV_BLOCK_TOKENS * head_dim;
}

#endif
