/* GEMM by vectors of columns: up to 6 rows of x times a panel of 64 columns. Included once for each instruction set, by
 * a file that makes a kernel for each type of weights with LF_GEMM_KERNEL.
 *
 * For each k a few registers of weights meet one broadcast of x a row; with 6 × 4 accumulators of 32 registers that is
 * 10 loads for 24 multiply-adds, so the FMA units are the bound. 16-bit weights are widened in registers. Fewer rows
 * run the same code with fewer accumulators, in the same order.
 *
 * Where the accumulators do not cover the panel, it is taken in strips of columns. A strip is only part of each 256
 * bytes of the panel, which no hardware prefetcher follows well: K goes in short blocks, and each strip asks for its
 * columns of the next block. A panel that is one strip is read in one go. */
#ifndef LF_DEVICE_CPU_GEMM_VEC_H
#define LF_DEVICE_CPU_GEMM_VEC_H

#include <string.h>

#include "device/cpu/gemm.h"
#include "device/cpu/vec.h"

enum {
    ROWS = 6,
    PANEL_VECS = LF_PANEL_COLS / VEC,
    K_STEP = 128,     /* of a strip */
    FAR_BYTES = 4096, /* what a whole panel asks for ahead */
    LINE = 64
};

/* Of weights. Products of pairs take two k at once, and x is bf16. */
enum cells { CELLS_F32, CELLS_F16, CELLS_BF16, CELLS_BF16_DOT };

/* Vectors of a strip for n rows: 12 accumulators in 16 registers, 24 in 32. */
LF_KERNEL int strip_vecs(int n_rows)
{
    int n = VEC_REGS == 32 ? 4 : n_rows == 1 ? 8 : n_rows == 2 ? 4 : 2;
    return n < PANEL_VECS ? n : PANEL_VECS;
}

/* A kernel tile's columns from col on, by n_vecs vectors. */
struct strip {
    const struct lf_gemm_tile *t;
    int col, n_vecs;
    bool whole; /* the panel */
};

/* Asks for this strip's weights one block of K further on. Of a whole panel only where it comes from memory (that
 * arrives 5% faster, what is in the caches 10% slower), and with AVX2's 16 registers not even then: a tenth slower. */
LF_KERNEL void prefetch(const struct strip *s, const char *panel, int cell_bytes, int k_per_cell)
{
    if (s->whole && (VEC_REGS == 16 || !s->t->from_memory)) return;
    const char *next = panel + (s->whole ? FAR_BYTES : K_STEP * LF_PANEL_COLS * cell_bytes / k_per_cell);
    LF_UNROLL
    for (int i = 0; i < s->n_vecs * VEC * cell_bytes; i += LINE) {
        if (s->whole)
            __builtin_prefetch(next + i, 0, 3);
        else
            __builtin_prefetch(next + i, 0, 2);
    }
}

/* One k's weights, or the pairs of two as they are. */
LF_KERNEL vec load_cells(enum cells cells, bool odd, const char *at)
{
    if (cells == CELLS_F16) return vec_load_f16(at);
    if (cells == CELLS_BF16) return odd ? vec_load_odd(at) : vec_load_even(at);
    return vec_load((const float *)(const void *)at);
}

/* acc[r] += x[r] · w for one k, or two; x points at row 0's four bytes, x_bytes separate rows. */
LF_KERNEL void multiply_add(enum cells cells, bool odd, const struct strip *s, int n_rows, vec acc[ROWS][PANEL_VECS],
                            const char *x, size_t x_bytes, const char *panel)
{
    int cell_bytes = cells == CELLS_F16 ? 2 : 4;
    vec w[PANEL_VECS];
    LF_UNROLL
    for (int c = 0; c < s->n_vecs; c++) w[c] = load_cells(cells, odd, panel + c * VEC * cell_bytes);
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        float xr;
        memcpy(&xr, x + (size_t)r * x_bytes, sizeof xr);
        LF_UNROLL
        for (int c = 0; c < s->n_vecs; c++) {
#ifdef VEC_DOT_BF16
            if (cells == CELLS_BF16_DOT) {
                acc[r][c] = vec_dot_bf16(acc[r][c], vec_set(xr), w[c]);
                continue;
            }
#endif
            acc[r][c] = vec_fma(vec_set(xr), w[c], acc[r][c]);
        }
    }
}

LF_KERNEL void run_strip(const struct strip *s, int n_rows, enum cells cells)
{
    const struct lf_gemm_tile *t = s->t;
    int cell_bytes = cells == CELLS_F16 ? 2 : 4, k_per_cell = cells >= CELLS_BF16 ? 2 : 1;
    size_t x_size = cells == CELLS_BF16_DOT ? 2 : 4, x_bytes = t->x_stride * x_size;
    const char *x = t->x, *panel = (const char *)t->panel + s->col * cell_bytes;
    float *out = t->acc + s->col;
    vec acc[ROWS][PANEL_VECS];
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int c = 0; c < s->n_vecs; c++)
            acc[r][c] = t->load ? vec_load(out + r * LF_PANEL_COLS + c * VEC) : vec_set(0.0f);
    }
    for (int k = 0; k < t->n_k; k += k_per_cell) {
        prefetch(s, panel, cell_bytes, k_per_cell);
        multiply_add(cells, false, s, n_rows, acc, x, x_bytes, panel);
        if (cells == CELLS_BF16) {
            if (k + 1 == t->n_k) break;
            /* Sixteen registers cannot keep the pairs for their odd halves: another address makes them loaded again. */
            if (VEC_REGS == 16) __asm__("" : "+r"(panel));
            multiply_add(cells, true, s, n_rows, acc, x + x_size, x_bytes, panel);
        }
        x += (size_t)k_per_cell * x_size;
        panel += LF_PANEL_COLS * cell_bytes;
    }
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int c = 0; c < s->n_vecs; c++) vec_store(out + r * LF_PANEL_COLS + c * VEC, acc[r][c]);
    }
}

/* The part of t from k on, one K step long. */
LF_KERNEL struct lf_gemm_tile step_at(const struct lf_gemm_tile *t, int k, enum cells cells)
{
    struct lf_gemm_tile s = *t;
    s.x = (const char *)t->x + (size_t)k * (cells == CELLS_BF16_DOT ? 2 : 4);
    s.panel = (const char *)t->panel + (size_t)k * LF_PANEL_COLS * (cells == CELLS_F32 ? 4 : 2);
    s.n_k = t->n_k - k < K_STEP ? t->n_k - k : K_STEP;
    s.load = t->load || k > 0;
    return s;
}

LF_KERNEL void run_rows(int n_rows, const struct lf_gemm_tile *t, enum cells cells)
{
    struct strip s = {.t = t, .n_vecs = strip_vecs(n_rows), .whole = strip_vecs(n_rows) == PANEL_VECS};
    if (s.whole) {
        run_strip(&s, n_rows, cells);
        return;
    }
    for (int k = 0; k < t->n_k; k += K_STEP) {
        struct lf_gemm_tile step = step_at(t, k, cells);
        s.t = &step;
        for (s.col = 0; s.col < LF_PANEL_COLS; s.col += s.n_vecs * VEC) run_strip(&s, n_rows, cells);
    }
}

#define LF_GEMM_KERNEL(kernel, cells)                                                                                  \
    static void run_##cells(const struct lf_gemm_tile *t)                                                              \
    {                                                                                                                  \
        LF_ROWS_SWITCH(run_rows, t->n_rows, t, cells)                                                                  \
    }                                                                                                                  \
    const struct lf_gemm_kernel kernel = {                                                                             \
        .tile = run_##cells, .max_rows = ROWS, .x = (cells) == CELLS_BF16_DOT ? LF_X_BF16 : LF_X_FLOAT};

#endif
