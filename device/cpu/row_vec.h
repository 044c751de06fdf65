/* Row kernels by vectors, compiled once for each instruction set: the including file defines LF_ROWS_USE, the name of
 * the function that puts them into the table. A row's tail goes through the same instructions as its body, lanes past
 * it filled up with zeros, so a value does not depend on where in a vector it stood. */
#include <math.h>
#include <stddef.h>

#include "device/cpu/gemm.h"
#include "device/cpu/row_kernels.h"
#include "device/cpu/vec.h"

static void rmsnorm(float *out, const float *x, const float *weight, float eps, int dim)
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
    for (i = 0; i + VEC <= dim; i += VEC)
        vec_storeu(out + i, vec_mul(vec_mul(vec_loadu(x + i), vec_set(scale)), vec_loadu(weight + i)));
    for (; i < dim; i++) out[i] = x[i] * scale * weight[i];
}

/* e^x = 2^n · e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r by its series up to r⁶ / 6!, whose remainder is
 * under 1.3e-7 of the value. x is clamped to where the result is a normal number or infinity; NaN stays NaN. */
LF_KERNEL vec exp_lanes(vec x)
{
    x = vec_max(vec_set(-87.3f), vec_min(vec_set(88.8f), x));
    vec n = vec_round(vec_mul(x, vec_set(1.44269504f)));
    /* ln 2 in two parts: the first has few bits, so that n times it is exact */
    vec r = vec_fnma(n, vec_set(0.693145752f), x);
    r = vec_fnma(n, vec_set(1.42860677e-6f), r);
    vec p = vec_set(1.0f / 720);
    p = vec_fma(p, r, vec_set(1.0f / 120));
    p = vec_fma(p, r, vec_set(1.0f / 24));
    p = vec_fma(p, r, vec_set(1.0f / 6));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_ldexp(p, n);
}

LF_KERNEL vec silu_lanes(vec gate, vec up)
{
    vec e = exp_lanes(vec_sub(vec_set(0.0f), gate));
    return vec_mul(vec_div(gate, vec_add(vec_set(1.0f), e)), up);
}

static void silu_mul(float *out, const float *gate, const float *up, int dim)
{
    int i = 0;
    for (; i + VEC <= dim; i += VEC) vec_storeu(out + i, silu_lanes(vec_loadu(gate + i), vec_loadu(up + i)));
    if (i == dim) return;
    vec tail = silu_lanes(vec_load_first(gate + i, dim - i), vec_load_first(up + i, dim - i));
    vec_store_first(out + i, tail, dim - i);
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

static void finish(float *y, const float *acc, const float *bias, const float *residual, int n)
{
    int i = 0;
    for (; i + VEC <= n; i += VEC) {
        vec v = vec_loadu(acc + i);
        if (bias != NULL) v = vec_add(v, vec_loadu(bias + i));
        if (residual != NULL) v = vec_add(v, vec_loadu(residual + i));
        vec_storeu(y + i, v);
    }
    if (i < n)
        lf_rows_c.finish(y + i, acc + i, bias == NULL ? NULL : bias + i, residual == NULL ? NULL : residual + i, n - i);
}

void LF_ROWS_USE(struct lf_row_kernels *rows)
{
    rows->rmsnorm = rmsnorm;
    rows->silu_mul = silu_mul;
    rows->panel_col = panel_col;
    rows->finish = finish;
}
