/* GEMM with AVX-512 FMA: 6 rows × 64 columns in 24 of the 32 registers.
 *
 * For each k four registers of weights meet one broadcast of x a row: 10 loads for 24 multiply-adds, so the FMA units
 * are the bound. 16-bit weights are widened in registers; a pair of bf16 gives the even k by a shift and the odd one by
 * a mask. Fewer rows run the same code with fewer accumulators, in the same order. */
#include "device/cpu/gemm.h"

#include <immintrin.h>

#include "device/cpu/unroll.h"

enum { ROWS = 6, REGS = LF_PANEL_COLS / 16, PREFETCH_BYTES = 4096 };

LF_KERNEL void load_acc(__m512 acc[ROWS][REGS], const struct lf_gemm_tile *t, const int n_rows)
{
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int c = 0; c < REGS; c++)
            acc[r][c] = t->load ? _mm512_load_ps(t->acc + r * LF_PANEL_COLS + c * 16) : _mm512_setzero_ps();
    }
}

LF_KERNEL void store_acc(__m512 acc[ROWS][REGS], const struct lf_gemm_tile *t, const int n_rows)
{
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int c = 0; c < REGS; c++) _mm512_store_ps(t->acc + r * LF_PANEL_COLS + c * 16, acc[r][c]);
    }
}

/* acc[r] += x[r] · w, one k; x points at row 0's element. */
LF_KERNEL void multiply_add(__m512 acc[ROWS][REGS], const float *x, size_t stride, const __m512 w[REGS],
                            const int n_rows)
{
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        __m512 xr = _mm512_set1_ps(x[(size_t)r * stride]);
        LF_UNROLL
        for (int c = 0; c < REGS; c++) acc[r][c] = _mm512_fmadd_ps(xr, w[c], acc[r][c]);
    }
}

/* Weights that come from memory arrive 5% faster when asked for early; from the caches they arrive 10% slower. */
LF_KERNEL void prefetch(const void *panel, bool from_memory)
{
    if (!from_memory) return;
    LF_UNROLL
    for (int i = 0; i < 4; i++) _mm_prefetch((const char *)panel + PREFETCH_BYTES + i * 64, _MM_HINT_T0);
}

LF_KERNEL void tile_f32(const struct lf_gemm_tile *t, const int n_rows)
{
    __m512 acc[ROWS][REGS], w[REGS];
    const float *x = t->x;
    const float *panel = t->panel;
    load_acc(acc, t, n_rows);
    for (int k = 0; k < t->n_k; k++, x++, panel += LF_PANEL_COLS) {
        prefetch(panel, t->from_memory);
        LF_UNROLL
        for (int c = 0; c < REGS; c++) w[c] = _mm512_load_ps(panel + c * 16);
        multiply_add(acc, x, t->x_stride, w, n_rows);
    }
    store_acc(acc, t, n_rows);
}

LF_KERNEL void tile_f16(const struct lf_gemm_tile *t, const int n_rows)
{
    __m512 acc[ROWS][REGS], w[REGS];
    const float *x = t->x;
    const uint16_t *panel = t->panel;
    load_acc(acc, t, n_rows);
    for (int k = 0; k < t->n_k; k++, x++, panel += LF_PANEL_COLS) {
        if (k % 2 == 0) prefetch(panel, t->from_memory);
        LF_UNROLL
        for (int c = 0; c < REGS; c++)
            w[c] = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)(panel + c * 16)));
        multiply_add(acc, x, t->x_stride, w, n_rows);
    }
    store_acc(acc, t, n_rows);
}

LF_KERNEL void tile_bf16(const struct lf_gemm_tile *t, const int n_rows)
{
    __m512 acc[ROWS][REGS], w[REGS];
    __m512i raw[REGS];
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
    const float *x = t->x;
    const uint32_t *panel = t->panel;
    load_acc(acc, t, n_rows);
    for (int k = 0; k < t->n_k; k += 2, x += 2, panel += LF_PANEL_COLS) {
        prefetch(panel, t->from_memory);
        LF_UNROLL
        for (int c = 0; c < REGS; c++) {
            raw[c] = _mm512_load_si512(panel + c * 16);
            w[c] = _mm512_castsi512_ps(_mm512_slli_epi32(raw[c], 16));
        }
        multiply_add(acc, x, t->x_stride, w, n_rows);
        if (k + 1 == t->n_k) break;
        LF_UNROLL
        for (int c = 0; c < REGS; c++) w[c] = _mm512_castsi512_ps(_mm512_and_si512(raw[c], upper));
        multiply_add(acc, x + 1, t->x_stride, w, n_rows);
    }
    store_acc(acc, t, n_rows);
}

#define DISPATCH(name)                                                                                                 \
    static void run_##name(const struct lf_gemm_tile *t)                                                               \
    {                                                                                                                  \
        switch (t->n_rows) {                                                                                           \
        case 1:                                                                                                        \
            tile_##name(t, 1);                                                                                         \
            break;                                                                                                     \
        case 2:                                                                                                        \
            tile_##name(t, 2);                                                                                         \
            break;                                                                                                     \
        case 3:                                                                                                        \
            tile_##name(t, 3);                                                                                         \
            break;                                                                                                     \
        case 4:                                                                                                        \
            tile_##name(t, 4);                                                                                         \
            break;                                                                                                     \
        case 5:                                                                                                        \
            tile_##name(t, 5);                                                                                         \
            break;                                                                                                     \
        default:                                                                                                       \
            tile_##name(t, 6);                                                                                         \
            break;                                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    const struct lf_gemm_kernel lf_gemm_avx512_##name = {.tile = run_##name, .max_rows = ROWS};

DISPATCH(f32)
DISPATCH(f16)
DISPATCH(bf16)
