/* Sums of products for gemm_quant_vec.h with AVX-512 VNNI: VPDPBUSD adds four products of u8 and s8 to each lane of 32
 * bits, without saturation. Up to 6 rows × 64 columns stand in 24 of the 32 registers. */
#ifndef LF_DEVICE_CPU_GEMM_QUANT_DOT_AVX512_H
#define LF_DEVICE_CPU_GEMM_QUANT_DOT_AVX512_H

#include "device/cpu/gemm_quant_codes.h"

enum { ROWS = 6, DIRECT_ROWS = 6, SUM_ZERO_I8 = LF_I8_ZERO };
#define STRIP_VECS(n_rows) PANEL_VECS
#define WIDE_ROWS          0

/* Four k. */
LF_KERNEL void dot_4(int n_rows, int n_vecs, const ivec u[PANEL_VECS], const int8_t *x, size_t x_stride,
                     ivec sums[ROWS][PANEL_VECS])
{
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        ivec four = ivec_set_bytes(x + (size_t)r * x_stride);
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], u[v], four);
    }
}

LF_KERNEL void dot(const struct group *g, struct kind kind, int n_rows, int n_vecs, const char *codes, const int8_t *x,
                   size_t x_stride, ivec sums[ROWS][PANEL_VECS])
{
    const int8_t *end = x + g->n;
    do {
        ivec u[PANEL_VECS];
        fetch_ahead(codes + g->ahead);
        if (kind.form == BYTES) fetch_ahead(codes + LF_QUANT_QUAD_BYTES + g->ahead);
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) u[v] = first_codes(kind.form, codes + v * LINE);
        dot_4(n_rows, n_vecs, u, x, x_stride, sums);
        /* There are no registers to keep the packed codes in: another address makes them loaded again. */
        if (n_rows > 4) __asm__("" : "+r"(codes));
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) u[v] = last_codes(kind.form, codes + v * LINE);
        dot_4(n_rows, n_vecs, u, x + 4, x_stride, sums);
        x += 8;
        codes += step_bytes(kind.form);
    } while (x < end);
}

#endif
