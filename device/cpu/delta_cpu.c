/* The reference of the kernels of gated delta nets: plain C, any machine, line by line as device/delta.h has it. */
#include "device/cpu/delta.h"

#include <math.h>
#include <string.h>

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static void conv(float *y, const float *const *rows, const float *w, int width, int n)
{
    for (int c = 0; c < n; c++) {
        float sum = 0.0f;
        for (int j = 0; j < width; j++) sum += w[j * LF_CONV_COLS + c] * rows[j][c];
        y[c] = sum / (1.0f + expf(-sum));
    }
}

static void unit(float *out, const float *x, float scale, int dim)
{
    float sum = 0.0f;
    for (int i = 0; i < dim; i++) sum += x[i] * x[i];
    float by = scale / sqrtf(sum + 1e-6f);
    for (int i = 0; i < dim; i++) out[i] = x[i] * by;
}

static float units(float *out, const float *k, const float *q, int k_dim)
{
    float kq = 0.0f;
    unit(out, k, 1.0f, k_dim);
    unit(out + k_dim, q, 1.0f / sqrtf((float)k_dim), k_dim);
    for (int i = 0; i < k_dim; i++) kq += out[i] * out[k_dim + i];
    return kq;
}

/* log(1 + e^x) is x long before e^x is too large. */
static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

static void gates(float *decay, float *beta, const float *b, const float *a, const float *a_log, const float *dt, int n)
{
    for (int i = 0; i < n; i++) {
        decay[i] = expf(-expf(a_log[i]) * softplus(a[i] + dt[i]));
        beta[i] = sigmoid(b[i]);
    }
}

static void token(const struct lf_delta_strip *s, const float *k, const struct lf_delta_gate *gate, const float *v,
                  float *y)
{
    const float *q = k + s->k_dim;
    for (int c = 0; c < s->n_cols; c++) {
        float *column = s->out + c, read = 0.0f, sum = 0.0f;
        size_t down = (size_t)s->v_dim;
        for (int i = 0; i < s->k_dim; i++) {
            column[(size_t)i * down] *= gate->decay;
            read += k[i] * column[(size_t)i * down];
        }
        float u = gate->beta * (v[c] - read);
        for (int i = 0; i < s->k_dim; i++) {
            column[(size_t)i * down] += k[i] * u;
            sum += q[i] * column[(size_t)i * down];
        }
        y[c] = sum;
    }
}

static void strip(const struct lf_delta_strip *s)
{
    size_t bytes = (size_t)s->n_cols * sizeof(float), down = (size_t)s->v_dim;
    for (size_t i = 0; i < (size_t)s->k_dim; i++) {
        if (s->in == NULL)
            memset(s->out + i * down, 0, bytes);
        else if (s->in != s->out)
            memcpy(s->out + i * down, s->in + i * down, bytes);
    }
    for (size_t t = 0; t < (size_t)s->n_tokens; t++)
        token(s, s->units + t * 2 * (size_t)s->k_dim, s->gates + t, s->v + t * s->v_stride, s->y + t * s->y_stride);
}

static void gated_norm(float *out, const float *x, const float *gate, const float *weight, float eps, int dim)
{
    float sum = 0.0f;
    for (int i = 0; i < dim; i++) sum += x[i] * x[i];
    float scale = 1.0f / sqrtf(sum / (float)dim + eps);
    for (int i = 0; i < dim; i++) out[i] = x[i] * scale * weight[i] * (gate[i] * sigmoid(gate[i]));
}

static void gate_sigmoid(float *out, const float *x, const float *gate, const float *residual, int n)
{
    for (int i = 0; i < n; i++) {
        float v = x[i] * sigmoid(gate[i]);
        out[i] = residual == NULL ? v : v + residual[i];
    }
}

const struct lf_delta_kernels lf_delta_c = {.conv = conv,
                                            .units = units,
                                            .gates = gates,
                                            .strip = strip,
                                            .gated_norm = gated_norm,
                                            .gate_sigmoid = gate_sigmoid,
                                            .strip_cols = 64,
                                            .step_cols = 64};
