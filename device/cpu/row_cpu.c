/* The reference of the row kernels: plain C, any machine. */
#include "device/cpu/row_kernels.h"

#include <math.h>
#include <string.h>

#include "device/cpu/gemm.h"

static void rmsnorm(float *out, const float *x, const float *weight, float eps, int dim)
{
    float sum = 0.0f;
    for (int i = 0; i < dim; i++) sum += x[i] * x[i];
    float scale = 1.0f / sqrtf(sum / (float)dim + eps);
    for (int i = 0; i < dim; i++) out[i] = x[i] * scale * weight[i];
}

static void silu_mul(float *out, const float *gate, const float *up, int dim)
{
    for (int i = 0; i < dim; i++) out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static void panel_col(float *out, const void *col, enum lf_dtype dtype, int n_in)
{
    if (dtype == LF_F32) {
        const float *w = col;
        for (int k = 0; k < n_in; k++) out[k] = w[(size_t)k * LF_PANEL_COLS];
    } else if (dtype == LF_F16) {
        const uint16_t *w = col;
        for (int k = 0; k < n_in; k++) out[k] = lf_f32_from_f16(w[(size_t)k * LF_PANEL_COLS]);
    } else {
        const uint16_t *w = col;
        for (int k = 0; k < n_in; k += 2, w += 2 * LF_PANEL_COLS) {
            out[k] = lf_f32_from_bf16(w[0]);
            if (k + 1 < n_in) out[k + 1] = lf_f32_from_bf16(w[1]);
        }
    }
}

static void finish(float *y, const float *acc, const float *bias, const float *residual, int n)
{
    for (int i = 0; i < n; i++) {
        float v = acc[i];
        if (bias != NULL) v += bias[i];
        if (residual != NULL) v += residual[i];
        y[i] = v;
    }
}

static void to_bf16(uint16_t *dst, const float *src, int n, int n_padded)
{
    for (int i = 0; i < n; i++) dst[i] = lf_bf16_from_f32(src[i]);
    memset(dst + n, 0, (size_t)(n_padded - n) * sizeof *dst);
}

const struct lf_row_kernels lf_rows_c = {
    .rmsnorm = rmsnorm, .silu_mul = silu_mul, .panel_col = panel_col, .finish = finish, .to_bf16 = to_bf16};
