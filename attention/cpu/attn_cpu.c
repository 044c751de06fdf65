/* The reference: attention in plain C, for every machine, and what the faster files are compared with.
 *
 * Same splits, tiles and online softmax as they; nothing is rounded below float. Rows are taken one at a time, so a row
 * cannot depend on its neighbours. K and V are read in page order (kv_view.h), which leaves the inner loops over keys
 * and over channels for the compiler to vectorise. */
#include "attention/cpu/attn_kernel.h"

#include <math.h>
#include <string.h>

static void pack_q(struct lf_attn_block *b, int row_idx, const float *q)
{
    memcpy(b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE, q, (size_t)b->head_dim * sizeof(float));
}

/* s[64] += q · k[channel][64] of a page. */
static void add_channel(const struct lf_attn_block *b, const void *page, int channel, float q, float *s)
{
    if (b->kv_dtype == LF_F32) {
        const float *k = (const float *)page + (size_t)channel * LF_KV_BLOCK_TOKENS;
        for (int j = 0; j < LF_KV_BLOCK_TOKENS; j++) s[j] += q * k[j];
        return;
    }
    const uint16_t *k = (const uint16_t *)page + (size_t)(channel / 2) * LF_KV_BLOCK_TOKENS * 2 + (channel & 1);
    for (int j = 0; j < LF_KV_BLOCK_TOKENS; j++) s[j] += q * lf_f32_from_bf16(k[2 * j]);
}

/* o[i] += p · v[key][i] for all channels i. */
static void add_key(const struct lf_attn_block *b, const void *page, int key, float p, float *o)
{
    int d = b->head_dim;
    if (b->kv_dtype == LF_F32) {
        const float *v = (const float *)page + (size_t)key * (size_t)d;
        for (int i = 0; i < d; i++) o[i] += p * v[i];
        return;
    }
    const uint16_t *v = (const uint16_t *)page + (size_t)(key / 2) * (size_t)d * 2 + (key & 1);
    for (int i = 0; i < d; i++) o[i] += p * lf_f32_from_bf16(v[2 * i]);
}

static void scores(struct lf_attn_block *b, int row0, int n, const void *page, const void *ahead, int first, int lo,
                   int hi)
{
    (void)ahead;
    (void)lo;
    (void)hi;
    for (int r = row0; r < row0 + n; r++) {
        const float *q = b->q + (size_t)r * LF_ATTN_Q_STRIDE;
        float *s = b->s + (size_t)r * LF_ATTN_TILE + first;
        for (int j = 0; j < LF_KV_BLOCK_TOKENS; j++) s[j] = 0.0f;
        for (int i = 0; i < b->head_dim; i++) add_channel(b, page, i, q[i], s);
    }
}

static void next_max(struct lf_attn_block *b, const struct lf_attn_tile *t)
{
    for (int r = 0; r < b->n_rows; r++) {
        int lo = t->full ? 0 : t->lo[r], hi = t->full ? LF_ATTN_TILE : t->hi[r];
        float *s = b->s + (size_t)r * LF_ATTN_TILE, m = b->m[r];
        for (int j = lo; j < hi && b->softcap > 0.0f; j++) s[j] = b->softcap * tanhf(s[j] * b->softcap_arg);
        for (int j = lo; j < hi; j++) m = fmaxf(m, s[j] * b->log2_scale);
        b->alpha[r] = m == -INFINITY ? 1.0f : exp2f(b->m[r] - m);
        b->m[r] = m;
    }
}

static void softmax(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi)
{
    for (int r = row0; r < row0 + n; r++) {
        float *s = b->s + (size_t)r * LF_ATTN_TILE, sum = 0.0f;
        for (int j = lo; j < hi; j++) {
            bool seen = t->full || (j >= t->lo[r] && j < t->hi[r]);
            s[j] = seen ? exp2f(s[j] * b->log2_scale - b->m[r]) : 0.0f;
            sum += s[j];
        }
        b->lanes[(size_t)r * LF_ATTN_LANES] = b->lanes[(size_t)r * LF_ATTN_LANES] * b->alpha[r] + sum;
    }
}

static void output(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi, bool fetch)
{
    (void)fetch;
    for (int r = row0; r < row0 + n; r++) {
        float *o = b->o + (size_t)r * b->o_stride;
        const float *p = b->s + (size_t)r * LF_ATTN_TILE;
        for (int i = 0; i < b->head_dim; i++) o[i] *= b->alpha[r];
        for (int j = lo; j < hi; j++) add_key(b, t->v[j / LF_KV_BLOCK_TOKENS], j % LF_KV_BLOCK_TOKENS, p[j], o);
    }
}

static void close_split(struct lf_attn_block *b)
{
    for (int r = 0; r < b->n_rows; r++) b->l[r] = b->lanes[(size_t)r * LF_ATTN_LANES];
}

static void combine(struct lf_attn_block *b)
{
    int d = b->head_dim;
    for (int r = 0; r < b->n_rows; r++) {
        float m = fmaxf(b->acc_m[r], b->m[r]);
        if (b->m[r] == -INFINITY) continue;
        float alpha = exp2f(b->acc_m[r] - m), beta = exp2f(b->m[r] - m);
        float *acc = b->acc_o + (size_t)r * b->o_stride;
        const float *o = b->o + (size_t)r * b->o_stride;
        b->acc_m[r] = m;
        b->acc_l[r] = b->acc_l[r] * alpha + b->l[r] * beta;
        for (int i = 0; i < d; i++) acc[i] = acc[i] * alpha + o[i] * beta;
    }
}

const struct lf_attn_kernel lf_attn_kernel_c = {.name = "c",
                                                .group = 1,
                                                .pack_q = pack_q,
                                                .scores = scores,
                                                .next_max = next_max,
                                                .softmax = softmax,
                                                .output = output,
                                                .close = close_split,
                                                .combine = combine,
                                                .expand = lf_attn_expand_c};
