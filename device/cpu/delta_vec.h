/* Kernels of gated delta nets by vectors, compiled once for each instruction set: the including file defines
 * LF_DELTA_USE, the name of the function that puts them into the table. The recurrence is in delta_strip.h; here is
 * what goes row by row. */
#include "device/cpu/delta_strip.h"

static void conv(float *y, const float *const *rows, const float *w, int width, int n)
{
    for (int c = 0; c < n; c += VEC) {
        vec sum = vec_mul(load_lanes(w + c, n - c), load_lanes(rows[0] + c, n - c));
        for (int j = 1; j < width; j++)
            sum = vec_fma(load_lanes(w + j * LF_CONV_COLS + c, n - c), load_lanes(rows[j] + c, n - c), sum);
        store_lanes(y + c, sigmoid_times(sum, sum), n - c);
    }
}

LF_KERNEL void unit(float *out, const float *x, float scale, int dim)
{
    vec sum[2] = {vec_set(0.0f), vec_set(0.0f)};
    for (int i = 0, j = 0; i < dim; i += VEC, j ^= 1) {
        vec v = load_lanes(x + i, dim - i);
        sum[j] = vec_fma(v, v, sum[j]);
    }
    vec by = vec_set(scale / sqrtf(vec_sum(vec_add(sum[0], sum[1])) + 1e-6f));
    for (int i = 0; i < dim; i += VEC) store_lanes(out + i, vec_mul(by, load_lanes(x + i, dim - i)), dim - i);
}

static float units(float *out, const float *k, const float *q, int k_dim)
{
    vec sum = vec_set(0.0f);
    unit(out, k, 1.0f, k_dim);
    unit(out + k_dim, q, 1.0f / sqrtf((float)k_dim), k_dim);
    for (int i = 0; i < k_dim; i += VEC)
        sum = vec_fma(load_lanes(out + i, k_dim - i), load_lanes(out + k_dim + i, k_dim - i), sum);
    return vec_sum(sum);
}

static void gates(float *decay, float *beta, const float *b, const float *a, const float *a_log, const float *dt, int n)
{
    for (int i = 0; i < n; i += VEC) {
        vec soft = softplus_lanes(vec_add(load_lanes(a + i, n - i), load_lanes(dt + i, n - i)));
        vec fast = exp_lanes(load_lanes(a_log + i, n - i));
        store_lanes(decay + i, exp_lanes(vec_sub(vec_set(0.0f), vec_mul(fast, soft))), n - i);
        store_lanes(beta + i, sigmoid_times(vec_set(1.0f), load_lanes(b + i, n - i)), n - i);
    }
}

static void gated_norm(float *out, const float *x, const float *gate, const float *weight, float eps, int dim)
{
    vec sum[2] = {vec_set(0.0f), vec_set(0.0f)};
    for (int i = 0, j = 0; i < dim; i += VEC, j ^= 1) {
        vec v = load_lanes(x + i, dim - i);
        sum[j] = vec_fma(v, v, sum[j]);
    }
    vec by = vec_set(1.0f / sqrtf(vec_sum(vec_add(sum[0], sum[1])) / (float)dim + eps));
    for (int i = 0; i < dim; i += VEC) {
        vec g = load_lanes(gate + i, dim - i), v = vec_mul(load_lanes(x + i, dim - i), by);
        v = vec_mul(v, load_lanes(weight + i, dim - i));
        store_lanes(out + i, vec_mul(v, sigmoid_times(g, g)), dim - i);
    }
}

static void gate_sigmoid(float *out, const float *x, const float *gate, const float *residual, int n)
{
    for (int i = 0; i < n; i += VEC) {
        vec v = sigmoid_times(load_lanes(x + i, n - i), load_lanes(gate + i, n - i));
        if (residual != NULL) v = vec_add(v, load_lanes(residual + i, n - i));
        store_lanes(out + i, v, n - i);
    }
}

void LF_DELTA_USE(struct lf_delta_kernels *delta)
{
    *delta = (struct lf_delta_kernels){.conv = conv,
                                       .units = units,
                                       .gates = gates,
                                       .strip = strip,
                                       .gated_norm = gated_norm,
                                       .gate_sigmoid = gate_sigmoid,
                                       .strip_cols = STRIP_COLS,
                                       .step_cols = STEP_COLS};
}
