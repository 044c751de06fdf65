/* Sums of products for gemm_quant_vec.h with AVX2. VPMADDUBSW multiplies u8 by s8 and adds neighbours in 16 bits, where
 * 255 · 127 · 2 does not fit. So
 *
 *     I8      |w| · (x with w's sign): 128 · 127 · 2 < 2^15; neighbours are added to 32 bits at once. Of many rows both
 *             are widened to 16 bits once, and VPMADDWD adds to 32 bits by itself: 16 products in two operations
 *             rather than 32 in four and a half, of which three go to the same two ports
 *     I4      15 · 127 · 2 = 3,810: eight of them fit, 32 k, before they are added to 32 bits
 *     E2M1    24 · 127 · 2 = 6,096: four fit */
#ifndef LF_DEVICE_CPU_GEMM_QUANT_DOT_AVX2_H
#define LF_DEVICE_CPU_GEMM_QUANT_DOT_AVX2_H

#include "device/cpu/gemm_quant_codes.h"

enum { ROWS = 4, DIRECT_ROWS = 2, SUM_ZERO_I8 = 0 };
#define STRIP_VECS(n_rows) ((n_rows) == 1 ? 8 : (n_rows) == 2 ? 4 : 2)
#define WIDE_ROWS          20

LF_KERNEL void dot_i8(const struct group *g, int n_rows, int n_vecs, const char *codes, const int8_t *x,
                      size_t x_stride, ivec sums[ROWS][PANEL_VECS])
{
    const ivec ones = _mm256_set1_epi16(1), flip = ivec_set8(LF_I8_ZERO);
    const int8_t *end = x + g->n;
    do { /* a group is not empty, and a loop that may not run takes registers */
        if (n_rows == 1) fetch_ahead(codes + g->ahead);
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) {
            ivec w = _mm256_xor_si256(ivec_load(codes + v * 32), flip), magnitude = _mm256_abs_epi8(w);
            LF_UNROLL
            for (int r = 0; r < n_rows; r++) {
                ivec xs = _mm256_sign_epi8(ivec_set_bytes(x + (size_t)r * x_stride), w);
                sums[r][v] = ivec_add(sums[r][v], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, xs), ones));
            }
        }
        x += 4;
        codes += LF_QUANT_QUAD_BYTES;
    } while (x < end);
}

/* Codes of two k of a column side by side, 16 bits each and signed: [group/2][64 columns][2 k]. */
LF_KERNEL void widen_codes(struct group *g, int16_t *to)
{
    const ivec flip = ivec_set8(LF_I8_ZERO);
    const ivec first = _mm256_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1, 0, -1, 1, -1, 4,
                                        -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
    const ivec last = _mm256_add_epi8(first, _mm256_set1_epi16(0x0200)); /* two bytes further on */
    const char *from = g->codes;
    for (int k = 0; k < g->n; k += 4, from += LF_QUANT_QUAD_BYTES, to += 4 * LF_PANEL_COLS) {
        LF_UNROLL
        for (int v = 0; v < PANEL_VECS; v++) {
            ivec w = _mm256_xor_si256(ivec_load(from + v * 32), flip);
            ivec_store(to + v * 16, _mm256_srai_epi16(_mm256_shuffle_epi8(w, first), 8));
            ivec_store(to + 2 * LF_PANEL_COLS + v * 16, _mm256_srai_epi16(_mm256_shuffle_epi8(w, last), 8));
        }
    }
    g->codes = (const char *)(to - g->n * LF_PANEL_COLS);
    g->ahead = 0;
}

LF_KERNEL void widen_x(const int8_t *x, int n, int16_t *to)
{
    for (int k = 0; k < n; k += 16) ivec_store(to + k, _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(x + k))));
}

LF_KERNEL void dot_wide(const struct group *g, int n_rows, int n_vecs, const char *codes, const int8_t *x,
                        size_t x_stride, ivec sums[ROWS][PANEL_VECS])
{
    const int8_t *end = x + 2 * g->n;
    do {
        ivec w[PANEL_VECS];
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) w[v] = ivec_load(codes + v * 32);
        LF_UNROLL
        for (int r = 0; r < n_rows; r++) {
            ivec two = ivec_set_bytes(x + (size_t)r * x_stride);
            LF_UNROLL
            for (int v = 0; v < n_vecs; v++) sums[r][v] = ivec_add(sums[r][v], _mm256_madd_epi16(w[v], two));
        }
        x += 4;
        codes += LF_QUANT_QUAD_BYTES;
    } while (x < end);
}

/* Eight k: pairs[r][v] += x · u in 16 bits. */
LF_KERNEL void dot_8(enum form form, int n_rows, int n_vecs, const char *codes, const int8_t *x, size_t x_stride,
                     ivec pairs[ROWS][PANEL_VECS])
{
    LF_UNROLL
    for (int v = 0; v < n_vecs; v++) {
        ivec first = first_codes(form, codes + v * 32), last = last_codes(form, codes + v * 32);
        LF_UNROLL
        for (int r = 0; r < n_rows; r++) {
            const int8_t *at = x + (size_t)r * x_stride;
            pairs[r][v] = _mm256_add_epi16(pairs[r][v], _mm256_maddubs_epi16(first, ivec_set_bytes(at)));
            pairs[r][v] = _mm256_add_epi16(pairs[r][v], _mm256_maddubs_epi16(last, ivec_set_bytes(at + 4)));
        }
    }
}

/* fits: how many k 16 bits hold. */
LF_KERNEL void dot_u4(const struct group *g, enum form form, int fits, int n_rows, int n_vecs, const char *codes,
                      const int8_t *x, size_t x_stride, ivec sums[ROWS][PANEL_VECS])
{
    const int8_t *end = x + g->n;
    do {
        ivec pairs[ROWS][PANEL_VECS];
        LF_UNROLL
        for (int r = 0; r < n_rows; r++) {
            LF_UNROLL
            for (int v = 0; v < n_vecs; v++) pairs[r][v] = ivec_set(0);
        }
        const int8_t *part = x + fits;
        do {
            if (n_rows == 1) fetch_ahead(codes + g->ahead);
            dot_8(form, n_rows, n_vecs, codes, x, x_stride, pairs);
            x += 8;
            codes += step_bytes(form);
        } while (x < part);
        LF_UNROLL
        for (int r = 0; r < n_rows; r++) {
            LF_UNROLL
            for (int v = 0; v < n_vecs; v++)
                sums[r][v] = ivec_add(sums[r][v], _mm256_madd_epi16(pairs[r][v], _mm256_set1_epi16(1)));
        }
    } while (x < end);
}

LF_KERNEL void dot(const struct group *g, struct kind kind, int n_rows, int n_vecs, const char *codes, const int8_t *x,
                   size_t x_stride, ivec sums[ROWS][PANEL_VECS])
{
    if (kind.form == WIDE)
        dot_wide(g, n_rows, n_vecs, codes, x, x_stride, sums);
    else if (kind.code == LF_CODE_I8)
        dot_i8(g, n_rows, n_vecs, codes, x, x_stride, sums);
    else
        dot_u4(g, kind.form, kind.code == LF_CODE_I4 ? 32 : 16, n_rows, n_vecs, codes, x, x_stride, sums);
}

#endif
