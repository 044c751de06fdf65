/* The reference of the row kernels: plain C, any machine. */
#include "device/cpu/row_kernels.h"

#include <math.h>
#include <string.h>

#include "device/cpu/gemm.h"

static void rmsnorm(float *out, const float *x, const float *weight, const float *residual, float eps, int dim)
{
    float sum = 0.0f;
    for (int i = 0; i < dim; i++) sum += x[i] * x[i];
    float scale = 1.0f / sqrtf(sum / (float)dim + eps);
    for (int i = 0; i < dim; i++) {
        float v = x[i] * scale;
        if (weight != NULL) v *= weight[i];
        if (residual != NULL) v += residual[i];
        out[i] = v;
    }
}

/* a / (1 + e^-by): a times the logistic function of by. */
static float sigmoid_times(float a, float by)
{
    return a / (1.0f + expf(-by));
}

static void silu_mul(float *out, const float *gate, const float *up, int dim, float limit)
{
    (void)limit;
    for (int i = 0; i < dim; i++) out[i] = sigmoid_times(gate[i], gate[i]) * up[i];
}

static void gelu_tanh_mul(float *out, const float *gate, const float *up, int dim, float limit)
{
    (void)limit;
    for (int i = 0; i < dim; i++) {
        float g = gate[i];
        out[i] = sigmoid_times(g, LF_GELU_TANH_1 * g + LF_GELU_TANH_3 * g * g * g) * up[i];
    }
}

static void gelu_mul(float *out, const float *gate, const float *up, int dim, float limit)
{
    const float root_half = 0.70710678f;
    (void)limit;
    /* below zero 1 + erf would cancel */
    for (int i = 0; i < dim; i++) out[i] = 0.5f * gate[i] * erfcf(-gate[i] * root_half) * up[i];
}

static void swiglu_oai_mul(float *out, const float *gate, const float *up, int dim, float limit)
{
    for (int i = 0; i < dim; i++) {
        float g = gate[i] > limit ? limit : gate[i];
        float u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        out[i] = sigmoid_times(g, LF_SWIGLU_OAI_SLOPE * g) * (u + 1.0f);
    }
}

static void softcap(float *x, int n, float cap)
{
    for (int i = 0; i < n; i++) x[i] = cap * tanhf(x[i] / cap);
}

static void scale(float *x, int n, float by)
{
    for (int i = 0; i < n; i++) x[i] *= by;
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

static void finish(float *y, const float *acc, float alpha, const float *bias, const float *residual, int n)
{
    for (int i = 0; i < n; i++) {
        float v = acc[i];
        if (bias != NULL) v += bias[i];
        v *= alpha;
        if (residual != NULL) v += residual[i];
        y[i] = v;
    }
}

static void weighted_sum(float *y, const float *residual, const float *const *x, const float *weights, int n_rows,
                         int n)
{
    for (int i = 0; i < n; i++) {
        float v = 0.0f;
        for (int j = 0; j < n_rows; j++) v += weights[j] * x[j][i];
        y[i] = residual == NULL ? v : v + residual[i];
    }
}

static void to_bf16(uint16_t *dst, const float *src, int n, int n_padded)
{
    for (int i = 0; i < n; i++) dst[i] = lf_bf16_from_f32(src[i]);
    memset(dst + n, 0, (size_t)(n_padded - n) * sizeof *dst);
}

const struct lf_row_kernels lf_rows_c = {.rmsnorm = rmsnorm,
                                         .gate_mul = {[LF_ACT_SILU] = silu_mul,
                                                      [LF_ACT_GELU_TANH] = gelu_tanh_mul,
                                                      [LF_ACT_GELU] = gelu_mul,
                                                      [LF_ACT_SWIGLU_OAI] = swiglu_oai_mul},
                                         .softcap = softcap,
                                         .scale = scale,
                                         .panel_col = panel_col,
                                         .finish = finish,
                                         .weighted_sum = weighted_sum,
                                         .to_bf16 = to_bf16};
