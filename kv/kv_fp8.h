/* The FP8 of a KV cache: E4M3 codes, and for each token and KV head, K and V apart, a power of two that they are
 * multiplied by. The plain C reference of whoever writes or reads such pages.
 *
 * A scale is of one token's head alone because a page fills over several steps: one of a page would follow from which
 * tokens came together. As it is, a token's bytes are the same alone, batched, chunked and restored. A power of two
 * loses nothing against any other number, since codes are floating point themselves, and E4M3 times a power of two is
 * exact in bf16 (4 of 8 bits): whoever expands a page to bf16 and whoever reads the codes see the same numbers.
 *
 *     number = code · 2^(scale − 127)       code: 1 sign, 4 exponent (bias 7), 3 mantissa bits (OCP FP8 1.0)
 *                                           scale: a byte, E8M0 (OCP MX 1.0), whose 0xff is NaN
 *
 * A head with an element that is not finite is NaN as a whole, by its scale, with codes of 0: who reads numbers need
 * not look at codes for it, and a K or V of a broken weight shows in every answer that reads it.
 *
 * No state; any thread. */
#ifndef LF_KV_KV_FP8_H
#define LF_KV_KV_FP8_H

#include <stdint.h>
#include <string.h>

#include "core/quant.h"
#include "kv/kv_view.h"

enum {
    LF_KV_FP8_LEAST = -100, /* exponents of scales: every product is a normal bf16 */
    LF_KV_FP8_MOST = 120,   /* the largest float is 256 · 2^120 at most */
    LF_KV_FP8_BIAS = 127,
    LF_KV_FP8_NAN = 0xff /* a scale */
};

static inline float lf_kv_fp8_power(int exponent) /* 2^exponent, of a normal float */
{
    uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* The bits of the largest magnitude, which are in the order of the numbers, infinities and NaN behind them. */
static inline uint32_t lf_kv_fp8_most(const float *x, int n)
{
    uint32_t most = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

/* The exponent of a head's scale: the smallest e with |x| <= 448 · 2^e for all x (448 = 1.75 · 2^8 is the largest
 * code), within LEAST and MOST. */
static inline int lf_kv_fp8_exponent(uint32_t most)
{
    int e = (int)(most >> 23) - 127 - 8 + ((most & 0x7fffffu) > 0x600000u);
    return e < LF_KV_FP8_LEAST ? LF_KV_FP8_LEAST : e > LF_KV_FP8_MOST ? LF_KV_FP8_MOST : e;
}

/* One head of one token: codes [n], the nearest, ties to even, and, returned, the scale's byte. Magnitudes too small
 * for a code become a zero with their sign. */
static inline uint8_t lf_kv_fp8_quantize(uint8_t *codes, const float *x, int n)
{
    uint32_t most = lf_kv_fp8_most(x, n);
    if (most >= 0x7f800000u) {
        memset(codes, 0, (size_t)n);
        return LF_KV_FP8_NAN;
    }
    int e = lf_kv_fp8_exponent(most);
    float factor = lf_kv_fp8_power(-e);
    for (int i = 0; i < n; i++) codes[i] = lf_e4m3_from_f32(x[i] * factor);
    return (uint8_t)(e + LF_KV_FP8_BIAS);
}

/* A code's number as bf16, exactly, for the codes and scales that quantize makes; others give anything. */
static inline uint16_t lf_kv_fp8_bf16(uint8_t code, uint8_t scale)
{
    if (scale == LF_KV_FP8_NAN) return 0x7fc0;
    /* The code's fields as a float's, whose exponent is then off by 120; subnormal ones too. */
    uint32_t bits = (code & 0x80u) << 24 | (code & 0x7fu) << 20;
    float number;
    memcpy(&number, &bits, 4);
    return lf_bf16_from_f32(number * 0x1p120f * lf_kv_fp8_power(scale - LF_KV_FP8_BIAS));
}

/* A whole page in the bf16 order of its part (kv_view.h): out [64 · head_dim]. Slots that hold nothing give anything.
 */
static inline void lf_kv_fp8_expand_page(const struct lf_kv_view *v, enum lf_kv_part part, const void *page,
                                         uint16_t *out)
{
    const uint8_t *codes = page, *scales = codes + lf_kv_page_elems(v);
    for (int t = 0; t < LF_KV_BLOCK_TOKENS; t++) {
        for (int i = 0; i < v->head_dim; i++) {
            size_t at = part == LF_KV_K ? lf_kv_k_index(v, t, i) : lf_kv_v_index(v, t, i);
            out[at] = lf_kv_fp8_bf16(codes[at], scales[t]);
        }
    }
}

#endif
