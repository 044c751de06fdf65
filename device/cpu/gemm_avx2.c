/* GEMM with AVX2 and FMA: 12 accumulators of 8 columns in the 16 registers.
 *
 * A panel of 64 columns is taken in strips: one row covers all 64, two rows 32, three to six rows 16. A strip of 16
 * columns of bf16 pairs or floats is one cache line a step, and the strips of a K block find the panel in the cache. */
#include "device/cpu/gemm.h"

#include <immintrin.h>

#include "device/cpu/unroll.h"

enum { ROWS = 6, REGS_MAX = LF_PANEL_COLS / 8, LANES = 8 };

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

LF_KERNEL void strip_f32(const struct lf_gemm_tile *t, int col, const int n_rows, const int n_regs)
{
    __m256 acc[ROWS][REGS_MAX], w[REGS_MAX];
    const float *x = t->x;
    const float *panel = (const float *)t->panel + col;
    load_acc(acc, t, col, n_rows, n_regs);
    for (int k = 0; k < t->n_k; k++, x++, panel += LF_PANEL_COLS) {
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

#define DISPATCH(name)                                                                                                 \
    LF_KERNEL void strips_##name(const struct lf_gemm_tile *t, const int n_rows, const int n_regs)                     \
    {                                                                                                                  \
        for (int col = 0; col < LF_PANEL_COLS; col += n_regs * LANES) strip_##name(t, col, n_rows, n_regs);            \
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

DISPATCH(f32)
DISPATCH(f16)
DISPATCH(bf16)
