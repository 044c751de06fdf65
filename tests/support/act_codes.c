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

static void gemm(struct lf_device *dev, const struct lf_gemm_params *p)
{
    struct lf_gemm_params q = *p;
    enum lf_fp8_scales by;
    bool takes = quantizes_x(dev, p->w, &by) && p->n_tokens > 0;
    LF_ASSERT(p->x_stride == p->w->n_in && (takes || !p->x_codes.codes));
    float *x = floats(p->n_tokens, p->w->n_in);
    if (p->x_codes.codes) expand(x, &p->x_codes, p->n_tokens, p->w->n_in);
    if (takes && !p->x_codes.codes) round_to_codes(x, p->x, p->n_tokens, p->w->n_in, by);
    if (takes) q.x = x;
    q.x_codes.codes = NULL;
    plain.gemm(dev, &q);
    free(x);
    counts.n_given += p->x_codes.codes != NULL;
    counts.n_own += takes && !p->x_codes.codes;
}

static void expert_gemm(struct lf_device *dev, const struct lf_expert_gemm_params *p)
{
    struct lf_expert_gemm_params q = *p;
    enum lf_fp8_scales by;
    int n_rows = p->x_by_token ? p->n_tokens : p->n_tokens * p->k;
    bool takes = quantizes_x(dev, p->w, &by) && n_rows > 0;
    LF_ASSERT(takes || !p->x_codes.codes);
    float *x = floats(n_rows, p->w->n_in);
    if (p->x_codes.codes) expand(x, &p->x_codes, n_rows, p->w->n_in);
    if (takes && !p->x_codes.codes) round_to_codes(x, p->x, n_rows, p->w->n_in, by);
    if (takes) q.x = x;
    q.x_codes.codes = NULL;
    plain.expert_gemm(dev, &q);
    free(x);
    counts.n_given += p->x_codes.codes != NULL;
    counts.n_own += takes && !p->x_codes.codes;
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
