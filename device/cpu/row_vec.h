/* Row kernels by vectors, compiled once for each instruction set: the including file defines LF_ROWS_USE, the name of
 * the function that puts them into the table. A row's tail goes through the same instructions as its body, lanes past
 * it filled up with zeros, so a value does not depend on where in a vector it stood. */
#include <math.h>
#include <stddef.h>

#include "device/cpu/gemm.h"
#include "device/cpu/row_kernels.h"
#include "device/cpu/vec_math.h"

static void rmsnorm(float *out, const float *x, const float *weight, const float *residual, float eps, int dim)
{
    vec sum[4] = {vec_set(0.0f), vec_set(0.0f), vec_set(0.0f), vec_set(0.0f)};
    int i = 0;
    for (; i + 4 * VEC <= dim; i += 4 * VEC) {
        LF_UNROLL
        for (int j = 0; j < 4; j++) {
            vec v = vec_loadu(x + i + j * VEC);
            sum[j] = vec_fma(v, v, sum[j]);
        }
    }
    for (; i < dim; i += VEC) {
        vec v = i + VEC <= dim ? vec_loadu(x + i) : vec_load_first(x + i, dim - i);
        sum[0] = vec_fma(v, v, sum[0]);
    }
    float total = vec_sum(vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3])));
    float scale = 1.0f / sqrtf(total / (float)dim + eps);
    for (i = 0; i + VEC <= dim; i += VEC) {
        vec v = vec_mul(vec_loadu(x + i), vec_set(scale));
        if (weight != NULL) v = vec_mul(v, vec_loadu(weight + i));
        if (residual != NULL) v = vec_add(v, vec_loadu(residual + i));
        vec_storeu(out + i, v);
    }
    if (i == dim) return;
    vec v = vec_mul(vec_load_first(x + i, dim - i), vec_set(scale));
    if (weight != NULL) v = vec_mul(v, vec_load_first(weight + i, dim - i));
    if (residual != NULL) v = vec_add(v, vec_load_first(residual + i, dim - i));
    vec_store_first(out + i, v, dim - i);
}

LF_KERNEL vec gate_lanes(enum lf_act act, vec gate, vec up, vec limit)
{
    if (act == LF_ACT_GELU_TANH) {
        vec slope = vec_fma(vec_mul(gate, gate), vec_set(LF_GELU_TANH_3), vec_set(LF_GELU_TANH_1));
        return vec_mul(sigmoid_times(gate, vec_mul(gate, slope)), up);
    }
    if (act == LF_ACT_SWIGLU_OAI) { /* the limit first: NaN stays NaN */
        gate = vec_min(limit, gate);
        up = vec_max(vec_sub(vec_set(0.0f), limit), vec_min(limit, up));
        vec gated = sigmoid_times(gate, vec_mul(gate, vec_set(LF_SWIGLU_OAI_SLOPE)));
        return vec_mul(gated, vec_add(up, vec_set(1.0f)));
    }
    return vec_mul(sigmoid_times(gate, gate), up);
}

LF_KERNEL void gate_row(enum lf_act act, float *out, const float *gate, const float *up, int dim, float limit)
{
    vec most = vec_set(limit);
    int i = 0;
    for (; i + VEC <= dim; i += VEC) vec_storeu(out + i, gate_lanes(act, vec_loadu(gate + i), vec_loadu(up + i), most));
    if (i == dim) return;
    vec tail = gate_lanes(act, vec_load_first(gate + i, dim - i), vec_load_first(up + i, dim - i), most);
    vec_store_first(out + i, tail, dim - i);
}

static void silu_mul(float *out, const float *gate, const float *up, int dim, float limit)
{
    gate_row(LF_ACT_SILU, out, gate, up, dim, limit);
}

static void gelu_tanh_mul(float *out, const float *gate, const float *up, int dim, float limit)
{
    gate_row(LF_ACT_GELU_TANH, out, gate, up, dim, limit);
}

static void swiglu_oai_mul(float *out, const float *gate, const float *up, int dim, float limit)
{
    gate_row(LF_ACT_SWIGLU_OAI, out, gate, up, dim, limit);
}

static void softcap(float *x, int n, float cap)
{
    vec most = vec_set(cap);
    int i = 0;
    for (; i + VEC <= n; i += VEC) vec_storeu(x + i, vec_mul(most, tanh_lanes(vec_div(vec_loadu(x + i), most))));
    if (i == n) return;
    vec_store_first(x + i, vec_mul(most, tanh_lanes(vec_div(vec_load_first(x + i, n - i), most))), n - i);
}

static void scale(float *x, int n, float by)
{
    int i = 0;
    for (; i + VEC <= n; i += VEC) vec_storeu(x + i, vec_mul(vec_loadu(x + i), vec_set(by)));
    if (i < n) lf_rows_c.scale(x + i, n - i, by);
}

/* f16 is widened a vector at a time; the others are a copy or a shift and gain nothing. */
static void panel_col(float *out, const void *col, enum lf_dtype dtype, int n_in)
{
    if (dtype != LF_F16) {
        lf_rows_c.panel_col(out, col, dtype, n_in);
        return;
    }
    const uint16_t *w = col;
    for (int k = 0; k < n_in; k += VEC) {
        uint16_t halves[VEC] = {0};
        int n = n_in - k < VEC ? n_in - k : VEC;
        for (int i = 0; i < n; i++) halves[i] = w[(size_t)(k + i) * LF_PANEL_COLS];
        if (n == VEC)
            vec_storeu(out + k, vec_load_f16(halves));
        else
            vec_store_first(out + k, vec_load_f16(halves), n);
    }
}

static void finish(float *y, const float *acc, float alpha, const float *bias, const float *residual, int n)
{
    int i = 0;
    for (; i + VEC <= n; i += VEC) {
        vec v = vec_loadu(acc + i);
        if (bias != NULL) v = vec_add(v, vec_loadu(bias + i));
        v = vec_mul(v, vec_set(alpha));
        if (residual != NULL) v = vec_add(v, vec_loadu(residual + i));
        vec_storeu(y + i, v);
    }
    if (i < n)
        lf_rows_c.finish(y + i, acc + i, alpha, bias == NULL ? NULL : bias + i, residual == NULL ? NULL : residual + i,
                         n - i);
}

LF_KERNEL vec load_lanes(const float *p, int n)
{
    return n >= VEC ? vec_loadu(p) : vec_load_first(p, n);
}

static void weighted_sum(float *y, const float *residual, const float *const *x, const float *weights, int n_rows,
                         int n)
{
    for (int i = 0; i < n; i += VEC) {
        vec v = vec_set(0.0f);
        for (int j = 0; j < n_rows; j++) v = vec_fma(vec_set(weights[j]), load_lanes(x[j] + i, n - i), v);
        if (residual != NULL) v = vec_add(v, load_lanes(residual + i, n - i));
        if (n - i >= VEC)
            vec_storeu(y + i, v);
        else
            vec_store_first(y + i, v, n - i);
    }
}

void LF_ROWS_USE(struct lf_row_kernels *rows)
{
    rows->rmsnorm = rmsnorm;
    rows->gate_mul[LF_ACT_SILU] = silu_mul;
    rows->gate_mul[LF_ACT_GELU_TANH] = gelu_tanh_mul;
    rows->gate_mul[LF_ACT_SWIGLU_OAI] = swiglu_oai_mul;
    rows->softcap = softcap;
    rows->scale = scale;
    rows->panel_col = panel_col;
    rows->finish = finish;
    rows->weighted_sum = weighted_sum;
}
