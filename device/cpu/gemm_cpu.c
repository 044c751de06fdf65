/* The reference kernels: plain C, any machine. Weights are widened to float, sums are float. */
#include "device/cpu/gemm.h"

#include <string.h>

enum { C_ROWS = LF_GEMM_ROWS_MAX };

/* 64 weights of one k, widened. k counts from the panel pointer, which stands at an even k. */
static void widen_f32(float *out, const void *panel, int k)
{
    memcpy(out, (const float *)panel + (size_t)k * LF_PANEL_COLS, LF_PANEL_COLS * sizeof(float));
}

static void widen_f16(float *out, const void *panel, int k)
{
    lf_to_f32(out, (const uint16_t *)panel + (size_t)k * LF_PANEL_COLS, LF_F16, LF_PANEL_COLS);
}

static void widen_bf16(float *out, const void *panel, int k)
{
    const uint16_t *w = (const uint16_t *)panel + lf_panel_index(LF_BF16, k, 0);
    for (int c = 0; c < LF_PANEL_COLS; c++) out[c] = lf_f32_from_bf16(w[2 * c]);
}

static inline void tile(const struct lf_gemm_tile *t, void (*widen)(float *, const void *, int))
{
    if (!t->load) memset(t->acc, 0, (size_t)t->n_rows * LF_PANEL_COLS * sizeof(float));
    for (int k = 0; k < t->n_k; k++) {
        float w[LF_PANEL_COLS];
        widen(w, t->panel, k);
        for (int r = 0; r < t->n_rows; r++) {
            float x = ((const float *)t->x)[(size_t)r * t->x_stride + (size_t)k];
            float *acc = t->acc + (size_t)r * LF_PANEL_COLS;
            for (int c = 0; c < LF_PANEL_COLS; c++) acc[c] += x * w[c];
        }
    }
}

static void tile_f32(const struct lf_gemm_tile *t)
{
    tile(t, widen_f32);
}

static void tile_f16(const struct lf_gemm_tile *t)
{
    tile(t, widen_f16);
}

static void tile_bf16(const struct lf_gemm_tile *t)
{
    tile(t, widen_bf16);
}

const struct lf_gemm_kernel lf_gemm_c_f32 = {.tile = tile_f32, .max_rows = C_ROWS};
const struct lf_gemm_kernel lf_gemm_c_f16 = {.tile = tile_f16, .max_rows = C_ROWS};
const struct lf_gemm_kernel lf_gemm_c_bf16 = {.tile = tile_bf16, .max_rows = C_ROWS};
