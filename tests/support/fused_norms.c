#include "tests/support/fused_norms.h"

#include <math.h>
#include <stdlib.h>

#include "core/check.h"
#include "device/device_impl.h"

static struct lf_ops plain;
static struct fused_norms_counts counts;

static int n_parts(int n)
{
    return (n + LF_NORM_PART - 1) / LF_NORM_PART;
}

/* x divided by the root of its rows' mean squares; the caller's. */
static float *scaled(const struct lf_gemm_params *p)
{
    int n_in = p->w->n_in, parts = n_parts(n_in);
    float *x = malloc((size_t)p->n_tokens * (size_t)n_in * sizeof(*x));
    LF_ASSERT(x && p->x_stride == n_in);
    for (int t = 0; t < p->n_tokens; t++) {
        float sum = 0;
        for (int i = 0; i < parts; i++) sum += p->x_sum_squares[t * parts + i];
        float scale = 1.0f / sqrtf(sum / (float)n_in + p->x_eps);
        for (int i = 0; i < n_in; i++) x[t * n_in + i] = ((const float *)p->x)[t * n_in + i] * scale;
    }
    return x;
}

static void epilogue(const struct lf_gemm_params *p)
{
    int n = p->w->n_out, parts = n_parts(n);
    float *h = p->norm.h;
    for (int t = 0; t < p->n_tokens; t++) {
        const float *y = (const float *)p->y + (size_t)t * (size_t)n;
        for (int k = 0; k < parts; k++) p->norm.sum_squares[t * parts + k] = 0;
        for (int i = 0; i < n; i++) {
            h[t * n + i] = y[i] * p->norm.weight[i];
            p->norm.sum_squares[t * parts + i / LF_NORM_PART] += y[i] * y[i];
        }
    }
}

static void gemm(struct lf_device *dev, const struct lf_gemm_params *p)
{
    struct lf_gemm_params q = *p;
    float *x = NULL;
    LF_ASSERT((!p->x_sum_squares && !p->norm.h) || p->n_tokens <= LF_FUSED_NORM_TOKENS);
    if (p->x_sum_squares) q.x = x = scaled(p);
    q.x_sum_squares = NULL;
    q.norm.h = NULL;
    plain.gemm(dev, &q);
    free(x);
    if (p->norm.h) epilogue(p);
    counts.n_prologues += p->x_sum_squares != NULL;
    counts.n_epilogues += p->norm.h != NULL;
}

static void gemm_gate_mul(struct lf_device *dev, const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate)
{
    gemm(dev, p);
    plain.gate_mul(dev, gate);
}

static void rmsnorm(struct lf_device *dev, const struct lf_rmsnorm_params *p)
{
    plain.rmsnorm(dev, p);
    counts.n_plain++;
}

static void gemm_prepare(struct lf_device *dev, const struct lf_gemm_params *p)
{
    (void)dev;
    (void)p;
}

static int fused_norm_tokens(const struct lf_device *dev, const struct lf_gemm_params *p)
{
    (void)dev;
    (void)p;
    return LF_FUSED_NORM_TOKENS;
}

void fused_norms_add(struct lf_device *dev)
{
    plain = dev->ops;
    counts = (struct fused_norms_counts){0};
    dev->ops.gemm = gemm;
    dev->ops.gemm_gate_mul = gemm_gate_mul;
    dev->ops.rmsnorm = rmsnorm;
    dev->ops.gemm_prepare = gemm_prepare;
    dev->ops.fused_norm_tokens = fused_norm_tokens;
}

struct fused_norms_counts fused_norms_counts(void)
{
    return counts;
}
