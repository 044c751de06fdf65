/* Coded GEMM by vectors of columns, with the bits of gemm_quant_cpu.c. Included once for each instruction set, behind a
 * header that has its sums of products:
 *
 *     ROWS           rows of one pass over a group
 *     DIRECT_ROWS    rows up to which packed codes of four bits are read as they are
 *     STRIP_VECS(n)  vectors of a strip of columns for n rows
 *     SUM_ZERO_I8    what the sums of I8 count from: LF_I8_ZERO, or 0 where they are of signed weights
 *     WIDE_ROWS      rows from which I8 is multiplied in 16 bits, 0: never; where there is such a number,
 *                    widen_codes and widen_x make the form WIDE of codes and of rows of x
 *     dot            sums += x · u of a strip over a group
 *
 * For more rows than DIRECT_ROWS a group's codes are unpacked once to bytes in the order of I8, 8 KiB at most. Sums
 * begin at −z · Σ x, so the zero costs nothing behind them. A group that fits the L1 cache is the K block: strips and
 * passes of rows go over it, and the accumulators are loaded and stored for each group. */
#ifndef LF_DEVICE_CPU_GEMM_QUANT_VEC_H
#define LF_DEVICE_CPU_GEMM_QUANT_VEC_H

#include <string.h>

#include "device/cpu/gemm_quant.h"
#include "device/cpu/gemm_quant_codes.h"

/* Rows of one pass. */
struct rows {
    const int8_t *x;
    const struct lf_x_group *groups;
    float *acc;
    size_t x_stride, groups_stride;
};

/* What the sums of a row's VEC columns from col on begin at. */
LF_KERNEL ivec first_sum(const struct group *g, bool zeros, int zero, int col, const struct lf_x_group *x)
{
    if (zeros) return ivec_mul(ivec_widen(g->zeros + col), ivec_set(-x->sum));
    return ivec_set(-zero * x->sum);
}

/* acc = fma(s, x_scale · w_scale, acc) of a row's VEC columns from col on. */
LF_KERNEL void add_to(const struct group *g, int col, ivec s, float x_scale, float *acc)
{
    vec scale = vec_mul(vec_set(x_scale), vec_load(g->scales + col));
    vec_store(acc + col, vec_fma(ivec_float(s), scale, vec_load(acc + col)));
}

LF_KERNEL void run_strip(const struct group *g, struct kind kind, int n_rows, int n_vecs, int col,
                         const struct rows *rows)
{
    const int zero = kind.code == LF_CODE_I8 ? SUM_ZERO_I8 : lf_quant_zero(kind.code);
    ivec sums[ROWS][PANEL_VECS];
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++)
            sums[r][v] = first_sum(g, kind.zeros, zero, col + v * VEC, rows->groups + (size_t)r * rows->groups_stride);
    }
    dot(g, kind, n_rows, n_vecs, g->codes + col * 4, rows->x, rows->x_stride, sums);
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++)
            add_to(g, col + v * VEC, sums[r][v], rows->groups[(size_t)r * rows->groups_stride].scale,
                   rows->acc + (size_t)r * LF_PANEL_COLS);
    }
}

LF_KERNEL void run_pass(int n_rows, const struct group *g, struct kind kind, const struct rows *rows)
{
    if (n_rows > ROWS || ((kind.form == NIBBLES || kind.form == FP4) && n_rows > DIRECT_ROWS))
        return; /* never: no code for it */
    const int n_vecs = STRIP_VECS(n_rows);
    for (int col = 0; col < LF_PANEL_COLS; col += n_vecs * VEC) run_strip(g, kind, n_rows, n_vecs, col, rows);
}

LF_KERNEL struct rows rows_at(const struct lf_gemm_tile *t, int row, int group_idx)
{
    return (struct rows){.x = (const int8_t *)t->x + (size_t)row * t->x_stride + (size_t)(group_idx * t->order->group),
                         .groups = t->x_groups + (size_t)row * t->x_groups_stride + group_idx,
                         .acc = t->acc + (size_t)row * LF_PANEL_COLS,
                         .x_stride = t->x_stride,
                         .groups_stride = t->x_groups_stride};
}

/* All rows in passes of equal size. wide: their x in the form WIDE. */
LF_KERNEL void run_group(const struct lf_gemm_tile *t, const struct group *g, struct kind kind, int group_idx,
                         const int16_t *wide)
{
    int n_passes = (t->n_rows + ROWS - 1) / ROWS;
    for (int i = 0, row = 0; i < n_passes; i++) {
        struct rows rows = rows_at(t, row, group_idx);
        if (kind.form == WIDE) {
            rows.x = (const int8_t *)(wide + row * g->n);
            rows.x_stride = (size_t)g->n * sizeof *wide;
        }
        int n = (t->n_rows - row + n_passes - i - 1) / (n_passes - i);
        LF_ROWS_SWITCH(run_pass, n, g, kind, &rows)
        row += n;
    }
}

#if WIDE_ROWS > 0
static void run_wide(const struct lf_gemm_tile *t)
{
    _Alignas(64) int16_t codes[LF_QUANT_GROUP_MAX * LF_PANEL_COLS], x[LF_GEMM_ROWS_MAX * LF_QUANT_GROUP_MAX];
    _Alignas(64) float scales[LF_PANEL_COLS];
    const struct kind kind = {LF_CODE_I8, WIDE, false};
    for (int i = 0; i < t->n_k / t->order->group; i++) {
        struct group g = open_group(t, kind, i, scales);
        widen_codes(&g, codes);
        for (int r = 0; r < t->n_rows; r++) widen_x(rows_at(t, r, i).x, g.n, x + r * g.n);
        run_group(t, &g, kind, i, x);
    }
}
#endif

LF_KERNEL void run_groups(const struct lf_gemm_tile *t, struct kind kind)
{
    struct unpacked to;
    for (int i = 0; i < t->n_k / t->order->group; i++) {
        struct group g = open_group(t, kind, i, to.scales);
        struct kind here = kind;
        if (kind.form != BYTES && t->n_rows > DIRECT_ROWS) {
            unpack_codes(kind.form, &g, &to);
            here.form = BYTES;
            run_group(t, &g, here, i, NULL);
        } else {
            run_group(t, &g, kind, i, NULL);
        }
    }
}

LF_KERNEL void clear(const struct lf_gemm_tile *t)
{
    if (!t->load) memset(t->acc, 0, (size_t)t->n_rows * LF_PANEL_COLS * sizeof(float));
}

static void tile_i8(const struct lf_gemm_tile *t)
{
    clear(t);
#if WIDE_ROWS > 0
    if (t->n_rows >= WIDE_ROWS) {
        run_wide(t);
        return;
    }
#endif
    run_groups(t, (struct kind){LF_CODE_I8, BYTES, false});
}

static void tile_i4(const struct lf_gemm_tile *t)
{
    clear(t);
    if (t->order->zeros)
        run_groups(t, (struct kind){LF_CODE_I4, NIBBLES, true});
    else
        run_groups(t, (struct kind){LF_CODE_I4, NIBBLES, false});
}

static void tile_e2m1(const struct lf_gemm_tile *t)
{
    clear(t);
    run_groups(t, (struct kind){LF_CODE_E2M1, FP4, false});
}

#endif
