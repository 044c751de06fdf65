#include "tests/support/act_codes.h"

#include <math.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/quant.h"
#include "device/device_impl.h"

enum { LEAST_COLUMNS = 24 /* from here on codes and scales fit where the floats would be */, LARGEST = 448 };

static struct lf_ops plain;
static struct act_codes_counts counts;

static float *floats(int n_rows, int dim)
{
    float *x = malloc((size_t)n_rows * (size_t)dim * sizeof(*x) + 1);
    LF_ASSERT(x);
    return x;
}

/* Some matrices take codes and others do not, by blocks or by rows: layers are of several kinds. */
static bool quantizes_x(const struct lf_device *dev, const struct lf_weight *w, enum lf_fp8_scales *by)
{
    (void)dev;
    *by = w->n_out % 16 == 0 ? LF_FP8_BLOCKS : LF_FP8_ROWS;
    return w->n_in >= LEAST_COLUMNS && (w->n_experts > 0 || w->n_out % 3 != 0);
}

static float value_of(uint8_t code)
{
    int e = code >> 3 & 15, m = code & 7;
    float v = e == 0 ? ldexpf((float)m, -9) : ldexpf((float)(8 + m), e - 10);
    return code & 0x80 ? -v : v;
}

static float *scale_at(const struct lf_x_codes *c, int row, int group)
{
    return c->by == LF_FP8_ROWS ? &c->scales[row] : &c->scales[(size_t)group * (size_t)c->scale_stride + (size_t)row];
}

static int group_of(const struct lf_x_codes *c, int dim)
{
    return c->by == LF_FP8_ROWS ? dim : LF_FP8_BLOCK;
}

static void quantize(const struct lf_x_codes *c, const float *x, int n_rows, int dim)
{
    for (int row = 0; row < n_rows; row++)
        for (int first = 0; first < dim; first += group_of(c, dim)) {
            int end = LF_MIN(dim, first + group_of(c, dim));
            float most = 0;
            for (int i = first; i < end; i++) most = fmaxf(most, fabsf(x[(size_t)row * (size_t)dim + (size_t)i]));
            float scale = fmaxf(most / LARGEST, 0x1p-126f);
            *scale_at(c, row, first / LF_FP8_BLOCK) = scale;
            for (int i = first; i < end; i++) {
                size_t at = (size_t)row * (size_t)dim + (size_t)i;
                c->codes[at] = lf_e4m3_from_f32(x[at] * (1.0f / scale));
            }
        }
}

static void expand(float *x, const struct lf_x_codes *c, int n_rows, int dim)
{
    for (int row = 0; row < n_rows; row++)
        for (int i = 0; i < dim; i++) {
            size_t at = (size_t)row * (size_t)dim + (size_t)i;
            x[at] = value_of(c->codes[at]) * *scale_at(c, row, c->by == LF_FP8_ROWS ? 0 : i / LF_FP8_BLOCK);
        }
}

/* x as codes of its own, and back. */
static void round_to_codes(float *out, const float *x, int n_rows, int dim, enum lf_fp8_scales by)
{
    void *room = aligned_alloc(64, (size_t)LF_ROUND_UP(lf_x_codes_bytes(n_rows, dim), 64));
    LF_ASSERT(room);
    struct lf_x_codes c = lf_x_codes_at(room, n_rows, dim, by);
    quantize(&c, x, n_rows, dim);
    expand(out, &c, n_rows, dim);
    free(room);
}

/* What x's codes stand for: those that are given, or x's own; NULL where w takes none. The caller frees it. */
static float *values_of(struct lf_device *dev, const struct lf_weight *w, const struct lf_x_codes *given,
                        const float *x, int n_rows)
{
    enum lf_fp8_scales by;
    if (!quantizes_x(dev, w, &by) || n_rows == 0) {
        LF_ASSERT(!given->codes);
        return NULL;
    }
    float *values = floats(n_rows, w->n_in);
    if (given->codes)
        expand(values, given, n_rows, w->n_in);
    else
        round_to_codes(values, x, n_rows, w->n_in, by);
    counts.n_given += given->codes != NULL;
    counts.n_own += !given->codes;
    return values;
}

static void gemm(struct lf_device *dev, const struct lf_gemm_params *p)
{
    struct lf_gemm_params q = *p;
    LF_ASSERT(p->x_stride == p->w->n_in);
    float *x = values_of(dev, p->w, &p->x_codes, p->x, p->n_tokens);
    if (x) q.x = x;
    q.x_codes.codes = NULL;
    plain.gemm(dev, &q);
    free(x);
}

static void expert_gemm(struct lf_device *dev, const struct lf_expert_gemm_params *p)
{
    struct lf_expert_gemm_params q = *p;
    float *x = values_of(dev, p->w, &p->x_codes, p->x, p->x_by_token ? p->n_tokens : p->n_tokens * p->k);
    if (x) q.x = x;
    q.x_codes.codes = NULL;
    plain.expert_gemm(dev, &q);
    free(x);
    counts.n_experts += p->x_codes.codes != NULL;
}

static void gate_mul(struct lf_device *dev, const struct lf_gate_mul_params *p)
{
    struct lf_gate_mul_params q = *p;
    if (!p->codes.codes) {
        plain.gate_mul(dev, p);
        return;
    }
    float *y = floats(p->n_tokens, p->dim);
    q.out = y;
    plain.gate_mul(dev, &q);
    quantize(&p->codes, y, p->n_tokens, p->dim);
    free(y);
    counts.n_gates++;
}

static void gemm_gate_mul(struct lf_device *dev, const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate)
{
    gemm(dev, p);
    gate_mul(dev, gate);
}

static void rmsnorm(struct lf_device *dev, const struct lf_rmsnorm_params *p)
{
    struct lf_rmsnorm_params q = *p;
    if (!p->codes.codes) {
        plain.rmsnorm(dev, p);
        return;
    }
    float *y = floats(p->n_tokens, p->dim);
    q.out = y;
    plain.rmsnorm(dev, &q);
    quantize(&p->codes, y, p->n_tokens, p->dim);
    free(y);
    counts.n_norms++;
}

void act_codes_add(struct lf_device *dev)
{
    plain = dev->ops;
    counts = (struct act_codes_counts){0};
    dev->ops.gemm = gemm;
    dev->ops.gemm_gate_mul = gemm_gate_mul;
    dev->ops.expert_gemm = expert_gemm;
    dev->ops.gate_mul = gate_mul;
    dev->ops.rmsnorm = rmsnorm;
    dev->ops.quantizes_x = quantizes_x;
}

struct act_codes_counts act_codes_counts(void)
{
    return counts;
}
