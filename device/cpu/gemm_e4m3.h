/* GEMM with FP8 weights by vectors of columns: codes are widened in registers, x is float. Included once for each
 * instruction set.
 *
 * Of a code's byte moved to a lane's top, an arithmetic shift by 4 puts exponent and mantissa where a float has them,
 * and keeps the sign; the exponent's bias is off by 120, which a multiplication mends, of denormals too. 0x7f and
 * 0xff are ±480 here: the scale above them is NaN (lf_quant_pack_cols). */
#ifndef LF_DEVICE_CPU_GEMM_E4M3_H
#define LF_DEVICE_CPU_GEMM_E4M3_H

#include "device/cpu/gemm_quant_codes.h"

enum { E4M3_ROWS = VEC_REGS == 32 ? 6 : 4 };

/* Byte i of every lane as a number. */
LF_KERNEL vec e4m3_number(ivec four, int i)
{
    ivec bits = ivec_shift_right4(ivec_shift_left(four, 24 - 8 * i));
    return vec_mul(ivec_as_float(ivec_and(bits, ivec_set((int32_t)0x87f00000u))), vec_set(0x1p120f));
}

/* part += x · w of one k, the i-th of four. */
LF_KERNEL void e4m3_add(const char *four, int i, int n_rows, int n_vecs, const float *x, size_t x_stride,
                        vec part[E4M3_ROWS][PANEL_VECS])
{
    vec w[PANEL_VECS];
    LF_UNROLL
    for (int v = 0; v < n_vecs; v++) w[v] = e4m3_number(ivec_load(four + v * VEC * 4), i);
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        vec xr = vec_set(x[(size_t)r * x_stride]);
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) part[r][v] = vec_fma(xr, w[v], part[r][v]);
    }
}

/* acc = fma(Σ x · w, w_scale, acc) of n_vecs vectors of columns from col on, over n k. */
LF_KERNEL void e4m3_strip(const struct lf_gemm_tile *t, const char *group, int n_rows, int n_vecs, int col,
                          const float *x, int n, float *acc)
{
    const char *codes = group + t->order->codes_at + col * 4;
    vec part[E4M3_ROWS][PANEL_VECS];
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) part[r][v] = vec_set(0.0f);
    }
    for (int k = 0; k < n; k += 4, codes += LF_QUANT_QUAD_BYTES) {
        LF_UNROLL
        for (int i = 0; i < 4; i++) {
            if (k + i < n) e4m3_add(codes, i, n_rows, n_vecs, x + k + i, t->x_stride, part);
        }
    }
    LF_UNROLL
    for (int v = 0; v < n_vecs; v++) {
        vec scale = vec_load((const float *)(const void *)group + col + v * VEC);
        LF_UNROLL
        for (int r = 0; r < n_rows; r++) {
            float *at = acc + r * LF_PANEL_COLS + col + v * VEC;
            vec_store(at, vec_fma(part[r][v], scale, vec_load(at)));
        }
    }
}

LF_KERNEL void e4m3_rows(int n_rows, const struct lf_gemm_tile *t, const char *group, const float *x, int n, float *acc)
{
    if (n_rows > E4M3_ROWS) return; /* never: no code for it */
    const int n_vecs = VEC_REGS == 32 ? PANEL_VECS : n_rows == 1 ? 8 : n_rows == 2 ? 4 : 2;
    for (int col = 0; col < LF_PANEL_COLS; col += n_vecs * VEC) e4m3_strip(t, group, n_rows, n_vecs, col, x, n, acc);
}

static void tile_e4m3(const struct lf_gemm_tile *t)
{
    int n_passes = (t->n_rows + E4M3_ROWS - 1) / E4M3_ROWS;
    const char *group = t->panel;
    if (!t->load) memset(t->acc, 0, (size_t)t->n_rows * LF_PANEL_COLS * sizeof(float));
    for (int k = 0; k < t->n_k; k += t->order->group, group += t->order->group_bytes) {
        int n_k = t->n_k - k < t->order->group ? t->n_k - k : t->order->group;
        for (int i = 0, row = 0; i < n_passes; i++) {
            int n = (t->n_rows - row + n_passes - i - 1) / (n_passes - i);
            const float *x = (const float *)t->x + (size_t)row * t->x_stride + (size_t)k;
            LF_ROWS_SWITCH(e4m3_rows, n, t, group, x, n_k, t->acc + row * LF_PANEL_COLS)
            row += n;
        }
    }
}

#endif
