/* GEMM with AVX2 and FMA: 12 accumulators of 8 columns in the 16 registers.
 *
 * A panel of 64 columns is taken in strips: one row covers all 64, two rows 32, three to six rows 16. A strip is only
 * part of each 256 bytes of the panel, which no hardware prefetcher follows well: K goes in short blocks, and each
 * strip asks for its columns of the next block. */
#include "device/cpu/gemm.h"

#include <immintrin.h>

#include "device/cpu/unroll.h"

enum { ROWS = 6, REGS_MAX = LF_PANEL_COLS / 8, LANES = 8, K_STEP = 128, LINE = 64 };

LF_KERNEL void load_acc(__m256 acc[ROWS][REGS_MAX], const struct lf_gemm_tile *t, int col, const int n_rows,
                        const int n_regs)
{
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int c = 0; c < n_regs; c++)
            acc[r][c] = t->load ? _mm256_load_ps(t->acc + r * LF_PANEL_COLS + col + c * LANES) : _mm256_setzero_ps();
    }
}

LF_KERNEL void store_acc(__m256 acc[ROWS][REGS_MAX], const struct lf_gemm_tile *t, int col, const int n_rows,
                         const int n_regs)
{
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int c = 0; c < n_regs; c++) _mm256_store_ps(t->acc + r * LF_PANEL_COLS + col + c * LANES, acc[r][c]);
    }
}

/* acc[r] += x[r] · w, one k; x points at row 0's element. */
LF_KERNEL void multiply_add(__m256 acc[ROWS][REGS_MAX], const float *x, size_t stride, const __m256 w[REGS_MAX],
                            const int n_rows, const int n_regs)
{
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        __m256 xr = _mm256_broadcast_ss(x + (size_t)r * stride);
        LF_UNROLL
        for (int c = 0; c < n_regs; c++) acc[r][c] = _mm256_fmadd_ps(xr, w[c], acc[r][c]);
    }
}

/* Asks for this strip's n_regs registers of weights one block of K further on. A cell of the panel has cell_bytes and
 * holds k_per_cell weights. */
LF_KERNEL void prefetch(const void *panel, const int n_regs, const int cell_bytes, const int k_per_cell)
{
    if (n_regs == REGS_MAX) return;
    const char *next = (const char *)panel + (size_t)K_STEP * LF_PANEL_COLS * (size_t)cell_bytes / (size_t)k_per_cell;
    LF_UNROLL
    for (int i = 0; i < n_regs * LANES * cell_bytes; i += LINE) _mm_prefetch(next + i, _MM_HINT_T1);
}

LF_KERNEL void strip_f32(const struct lf_gemm_tile *t, int col, const int n_rows, const int n_regs)
{
    __m256 acc[ROWS][REGS_MAX], w[REGS_MAX];
    const float *x = t->x;
    const float *panel = (const float *)t->panel + col;
    load_acc(acc, t, col, n_rows, n_regs);
    for (int k = 0; k < t->n_k; k++, x++, panel += LF_PANEL_COLS) {
        prefetch(panel, n_regs, 4, 1);
        LF_UNROLL
        for (int c = 0; c < n_regs; c++) w[c] = _mm256_load_ps(panel + c * LANES);
        multiply_add(acc, x, t->x_stride, w, n_rows, n_regs);
    }
    store_acc(acc, t, col, n_rows, n_regs);
}

LF_KERNEL void strip_f16(const struct lf_gemm_tile *t, int col, const int n_rows, const int n_regs)
{
    __m256 acc[ROWS][REGS_MAX], w[REGS_MAX];
    const float *x = t->x;
    const uint16_t *panel = (const uint16_t *)t->panel + col;
    load_acc(acc, t, col, n_rows, n_regs);
    for (int k = 0; k < t->n_k; k++, x++, panel += LF_PANEL_COLS) {
        prefetch(panel, n_regs, 2, 1);
        LF_UNROLL
        for (int c = 0; c < n_regs; c++)
            w[c] = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(panel + c * LANES)));
        multiply_add(acc, x, t->x_stride, w, n_rows, n_regs);
    }
    store_acc(acc, t, col, n_rows, n_regs);
}

LF_KERNEL __m256i load_pairs(const uint32_t *panel)
{
    return _mm256_load_si256((const __m256i *)(const void *)panel);
}

LF_KERNEL void strip_bf16(const struct lf_gemm_tile *t, int col, const int n_rows, const int n_regs)
{
    __m256 acc[ROWS][REGS_MAX], w[REGS_MAX];
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    const float *x = t->x;
    const uint32_t *panel = (const uint32_t *)t->panel + col;
    load_acc(acc, t, col, n_rows, n_regs);
    for (int k = 0; k < t->n_k; k += 2, x += 2, panel += LF_PANEL_COLS) {
        prefetch(panel, n_regs, 4, 2);
        LF_UNROLL
        for (int c = 0; c < n_regs; c++)
            w[c] = _mm256_castsi256_ps(_mm256_slli_epi32(load_pairs(panel + c * LANES), 16));
        multiply_add(acc, x, t->x_stride, w, n_rows, n_regs);
        if (k + 1 == t->n_k) break;
        LF_UNROLL
        for (int c = 0; c < n_regs; c++)
            w[c] = _mm256_castsi256_ps(_mm256_and_si256(load_pairs(panel + c * LANES), upper));
        multiply_add(acc, x + 1, t->x_stride, w, n_rows, n_regs);
    }
    store_acc(acc, t, col, n_rows, n_regs);
}

/* The part of t from k on, one K step long. */
LF_KERNEL struct lf_gemm_tile step_at(const struct lf_gemm_tile *t, int k, size_t k_bytes)
{
    struct lf_gemm_tile s = *t;
    s.x = (const float *)t->x + k;
    s.panel = (const char *)t->panel + (size_t)k * k_bytes;
    s.n_k = t->n_k - k < K_STEP ? t->n_k - k : K_STEP;
    s.load = t->load || k > 0;
    return s;
}

#define DISPATCH(name, weight_bytes)                                                                                   \
    LF_KERNEL void strips_##name(const struct lf_gemm_tile *t, const int n_rows, const int n_regs)                     \
    {                                                                                                                  \
        for (int k = 0; k < t->n_k; k += K_STEP) {                                                                     \
            struct lf_gemm_tile s = step_at(t, k, LF_PANEL_COLS * (weight_bytes));                                     \
            for (int col = 0; col < LF_PANEL_COLS; col += n_regs * LANES) strip_##name(&s, col, n_rows, n_regs);       \
        }                                                                                                              \
    }                                                                                                                  \
    static void run_##name(const struct lf_gemm_tile *t)                                                               \
    {                                                                                                                  \
        switch (t->n_rows) {                                                                                           \
        case 1:                                                                                                        \
            strips_##name(t, 1, 8);                                                                                    \
            break;                                                                                                     \
        case 2:                                                                                                        \
            strips_##name(t, 2, 4);                                                                                    \
            break;                                                                                                     \
        case 3:                                                                                                        \
            strips_##name(t, 3, 2);                                                                                    \
            break;                                                                                                     \
        case 4:                                                                                                        \
            strips_##name(t, 4, 2);                                                                                    \
            break;                                                                                                     \
        case 5:                                                                                                        \
            strips_##name(t, 5, 2);                                                                                    \
            break;                                                                                                     \
        default:                                                                                                       \
            strips_##name(t, 6, 2);                                                                                    \
            break;                                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    const struct lf_gemm_kernel lf_gemm_avx2_##name = {.tile = run_##name, .max_rows = ROWS};

DISPATCH(f32, 4)
DISPATCH(f16, 2)
DISPATCH(bf16, 2)
