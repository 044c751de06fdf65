/* The body of rope.c's work on a run of tokens, compiled once for each instruction set.
 *
 * The including file defines LF_ROPE_ROWS_FN, the name of the function made here. The loops are plain C over contiguous
 * floats; what differs between the files is the width the compiler may give them. A token's values do not depend on the
 * run it is in. */
#include <math.h>
#include <string.h>

#include "attention/cpu/rope_run.h"
#include "kv/kv_fp8.h"

enum { NORM_LANES = 16 };

/* 1 / √(mean x² + eps). Sixteen sums, added in order; the last half round goes to the first eight. */
static float norm_factor(const float *x, float eps, int n)
{
    float lanes[NORM_LANES] = {0};
    int whole = n / NORM_LANES * NORM_LANES;
    for (int i = 0; i < whole; i += NORM_LANES)
        for (int lane = 0; lane < NORM_LANES; lane++) lanes[lane] += x[i + lane] * x[i + lane];
    for (int i = whole; i < n; i++) lanes[i - whole] += x[i] * x[i];
    float sum = 0.0f;
    for (int lane = 0; lane < NORM_LANES; lane++) sum += lanes[lane];
    return 1.0f / sqrtf(sum / (float)n + eps);
}

/* One head: norm where there is one, rotation of the first rotary_dim channels, the others as they are. y and x do not
 * overlap. row_factor: norm_factor of the row where the norm is over all of it. cos_sin is the table's row of the
 * position. */
static void rotate_head(const struct lf_rope_append_params *p, float *restrict y, const float *restrict x,
                        const float *norm, int head, float row_factor, const float *restrict cos_sin)
{
    float normed[LF_HEAD_DIM];
    int d = p->kv->head_dim, half = p->rotary_dim / 2;
    if (norm) {
        float factor = p->norm_whole_row ? row_factor : norm_factor(x, p->norm_eps, d);
        if (p->norm_whole_row) norm += (size_t)head * (size_t)d;
        for (int i = 0; i < d; i++) normed[i] = x[i] * factor * norm[i];
        x = normed;
    }
    for (int i = 0; i < half; i++) {
        float c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        y[i] = x[i] * c - x[i + half] * s;
        y[i + half] = x[i + half] * c + x[i] * s;
    }
    for (int i = p->rotary_dim; i < d; i++) y[i] = x[i];
}

static uint32_t bf16_pair(float first, float second)
{
    return (uint32_t)lf_bf16_from_f32(first) | (uint32_t)lf_bf16_from_f32(second) << 16;
}

/* n tokens of one head's K or V, rows stride floats apart, into slots slot .. slot + n - 1 of their page of fp8. */
static void store_fp8(const struct lf_kv_view *kv, enum lf_kv_part part, uint8_t *page, int slot, int n, const float *x,
                      size_t stride)
{
    for (int t = 0; t < n; t++) {
        uint8_t codes[LF_HEAD_DIM];
        lf_kv_scales(kv, page)[slot + t] = lf_kv_fp8_quantize(codes, x + (size_t)t * stride, kv->head_dim);
        for (int i = 0; i < kv->head_dim; i++)
            page[part == LF_KV_K ? lf_kv_k_index(kv, slot + t, i) : lf_kv_v_index(kv, slot + t, i)] = codes[i];
    }
}

/* n tokens of one head's K, [n][LF_HEAD_DIM], into slots slot .. slot + n - 1 of its page. */
static void store_k(const struct lf_kv_view *kv, void *page, int slot, int n, float (*k)[LF_HEAD_DIM])
{
    int d = kv->head_dim;
    if (kv->dtype == LF_E4M3) {
        store_fp8(kv, LF_KV_K, page, slot, n, k[0], LF_HEAD_DIM);
        return;
    }
    if (kv->dtype == LF_F32) {
        float *dst = (float *)page + slot;
        for (int i = 0; i < d; i++)
            for (int t = 0; t < n; t++) dst[(size_t)i * LF_KV_BLOCK_TOKENS + (size_t)t] = k[t][i];
        return;
    }
    uint32_t pairs[LF_ROPE_RUN][LF_HEAD_DIM / 2];
    for (int t = 0; t < n; t++)
        for (int i = 0; i < d / 2; i++) pairs[t][i] = bf16_pair(k[t][2 * i], k[t][2 * i + 1]);
    uint32_t *dst = (uint32_t *)page + slot;
    for (int i = 0; i < d / 2; i++)
        for (int t = 0; t < n; t++) dst[(size_t)i * LF_KV_BLOCK_TOKENS + (size_t)t] = pairs[t][i];
}

/* n tokens of one head's V, rows stride floats apart. */
static void store_v(const struct lf_kv_view *kv, void *page, int slot, int n, const float *v, size_t stride)
{
    size_t d = (size_t)kv->head_dim;
    if (kv->dtype == LF_E4M3) {
        store_fp8(kv, LF_KV_V, page, slot, n, v, stride);
        return;
    }
    if (kv->dtype == LF_F32) {
        for (int t = 0; t < n; t++)
            memcpy((float *)page + (size_t)(slot + t) * d, v + (size_t)t * stride, d * sizeof(float));
        return;
    }
    for (int t = 0; t < n;) {
        const float *x = v + (size_t)t * stride;
        size_t pair = (size_t)(slot + t) / 2 * d;
        if ((slot + t) % 2 == 0 && t + 1 < n) {
            uint32_t *dst = (uint32_t *)page + pair;
            for (size_t i = 0; i < d; i++) dst[i] = bf16_pair(x[i], x[i + stride]);
            t += 2;
            continue;
        }
        uint16_t *dst = (uint16_t *)page + pair * 2 + (size_t)((slot + t) % 2);
        for (size_t i = 0; i < d; i++) dst[2 * i] = lf_bf16_from_f32(x[i]);
        t++;
    }
}

/* The run's rows of one head's V, stride floats apart, with their norm where they have one. */
static void append_v(const struct lf_rope_append_params *p, const struct lf_rope_run *run, int head, const float *v,
                     size_t stride)
{
    const struct lf_kv_view *kv = p->kv;
    float normed[LF_ROPE_RUN][LF_HEAD_DIM];
    for (int t = 0; t < run->n && p->v_norm; t++) {
        const float *x = v + (size_t)t * stride;
        float factor = norm_factor(x, p->norm_eps, kv->head_dim);
        for (int i = 0; i < kv->head_dim; i++) normed[t][i] = x[i] * factor;
    }
    store_v(kv, lf_kv_page(kv, run->block, p->layer, LF_KV_V, head), run->pos % LF_KV_BLOCK_TOKENS, run->n,
            p->v_norm ? normed[0] : v, p->v_norm ? LF_HEAD_DIM : stride);
}

void LF_ROPE_ROWS_FN(const struct lf_rope_append_params *p, const struct lf_rope_run *run)
{
    const struct lf_kv_view *kv = p->kv;
    size_t d = (size_t)kv->head_dim;
    int n_kv_heads = p->q_only ? 0 : kv->n_kv_heads;
    size_t stride = ((size_t)p->n_heads + (p->v_of_k ? 1 : 2) * (size_t)n_kv_heads) * d;
    const float *qkv = (const float *)p->qkv + (size_t)run->row * stride;
    const float *table = p->table + (size_t)run->pos * (size_t)p->rotary_dim;
    int slot = run->pos % LF_KV_BLOCK_TOKENS;

    float k_factor[LF_ROPE_RUN];
    bool whole = p->q_norm && p->norm_whole_row;

    for (int t = 0; t < run->n; t++) {
        float *q_out = (float *)p->q_out + (size_t)(run->row + t) * (size_t)p->n_heads * d;
        const float *q = qkv + (size_t)t * stride;
        float factor = whole ? norm_factor(q, p->norm_eps, p->n_heads * kv->head_dim) : 1.0f;
        k_factor[t] = whole && !p->q_only
                          ? norm_factor(q + (size_t)p->n_heads * d, p->norm_eps, kv->n_kv_heads * kv->head_dim)
                          : 1;
        for (int h = 0; h < p->n_heads; h++)
            rotate_head(p, q_out + (size_t)h * d, q + (size_t)h * d, p->q_norm, h, factor,
                        table + (size_t)t * (size_t)p->rotary_dim);
        for (size_t i = 0; p->q_scale && i < (size_t)p->n_heads * d; i++) q_out[i] *= p->q_scale[run->pos + t];
    }
    for (int h = 0; run->is_kept && h < n_kv_heads; h++) {
        const float *k = qkv + ((size_t)p->n_heads + (size_t)h) * d;
        float rotated[LF_ROPE_RUN][LF_HEAD_DIM];
        for (int t = 0; t < run->n; t++)
            rotate_head(p, rotated[t], k + (size_t)t * stride, p->k_norm, h, k_factor[t],
                        table + (size_t)t * (size_t)p->rotary_dim);
        store_k(kv, lf_kv_page(kv, run->block, p->layer, LF_KV_K, h), slot, run->n, rotated);
        append_v(p, run, h, p->v_of_k ? k : k + (size_t)kv->n_kv_heads * d, stride);
    }
}
