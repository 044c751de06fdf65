/* The reference: attention in plain C, for every machine and as the yardstick of the faster files.
 *
 * Same spans, tiles and online softmax as they; nothing is rounded below float. Rows are taken one at a time, so a row
 * cannot depend on its neighbours. K and V are read in page order (kv_view.h), which leaves the inner loops over keys
 * and over channels for the compiler to vectorise. */
#include "attention/attn_kernel.h"

#include <math.h>
#include <string.h>

#define LOG2_E 1.44269504088896340736f

static void pack_q(struct lf_attn_block *b, int row_idx, const float *q)
{
    memcpy(b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE, q, (size_t)b->head_dim * sizeof(float));
}

/* s[j] += q · k[channel][j] for keys lo <= j < hi of a page. */
static void add_channel(const struct lf_attn_block *b, const void *page, int channel, float q, float *s, int lo, int hi)
{
    if (b->kv_dtype == LF_F32) {
        const float *k = (const float *)page + (size_t)channel * LF_KV_BLOCK_TOKENS;
        for (int j = lo; j < hi; j++) s[j] += q * k[j];
        return;
    }
    const uint16_t *k = (const uint16_t *)page + (size_t)(channel / 2) * LF_KV_BLOCK_TOKENS * 2 + (channel & 1);
    for (int j = lo; j < hi; j++) s[j] += q * lf_f32_from_bf16(k[2 * j]);
}

/* o[i] += w · v[key][i] for all channels i. */
static void add_key(const struct lf_attn_block *b, const void *page, int key, float w, float *o)
{
    int d = b->head_dim;
    if (b->kv_dtype == LF_F32) {
        const float *v = (const float *)page + (size_t)key * (size_t)d;
        for (int i = 0; i < d; i++) o[i] += w * v[i];
        return;
    }
    const uint16_t *v = (const uint16_t *)page + (size_t)(key / 2) * (size_t)d * 2 + (key & 1);
    for (int i = 0; i < d; i++) o[i] += w * lf_f32_from_bf16(v[2 * i]);
}

/* Scores of keys lo <= j < hi of the tile for one row. */
static void scores(const struct lf_attn_block *b, const struct lf_attn_tile *t, const float *q, float *s, int lo,
                   int hi)
{
    for (int j = lo; j < hi; j++) s[j] = 0.0f;
    for (int page = 0; page < LF_ATTN_TILE_PAGES; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        int from = lo > first ? lo - first : 0;
        int to = hi - first < LF_KV_BLOCK_TOKENS ? hi - first : LF_KV_BLOCK_TOKENS;
        for (int i = 0; i < b->head_dim && from < to; i++) add_channel(b, t->k[page], i, q[i], s + first, from, to);
    }
    for (int j = lo; j < hi && b->softcap > 0.0f; j++) s[j] = b->softcap * tanhf(s[j] * b->softcap_arg);
}

static void tile(struct lf_attn_block *b, const struct lf_attn_tile *t)
{
    int d = b->head_dim;
    for (int r = 0; r < b->n_rows; r++) {
        int lo = t->full ? 0 : t->lo[r], hi = t->full ? LF_ATTN_TILE : t->hi[r];
        if (lo >= hi) continue;
        float *s = b->s + (size_t)r * LF_ATTN_TILE;
        float *o = b->o + (size_t)r * (size_t)d;
        scores(b, t, b->q + (size_t)r * LF_ATTN_Q_STRIDE, s, lo, hi);

        float m = b->m[r];
        for (int j = lo; j < hi; j++) m = fmaxf(m, s[j] * b->log2_scale);
        float alpha = exp2f(b->m[r] - m); /* 0 for the first keys: their maximum before is −∞ */
        float sum = 0.0f;
        for (int j = lo; j < hi; j++) {
            s[j] = exp2f(s[j] * b->log2_scale - m);
            sum += s[j];
        }
        b->m[r] = m;
        b->lanes[(size_t)r * LF_ATTN_LANES] = b->lanes[(size_t)r * LF_ATTN_LANES] * alpha + sum;

        for (int i = 0; i < d; i++) o[i] *= alpha;
        for (int j = lo; j < hi; j++) add_key(b, t->v[j / LF_KV_BLOCK_TOKENS], j % LF_KV_BLOCK_TOKENS, s[j], o);
    }
}

static void close_span(struct lf_attn_block *b)
{
    for (int r = 0; r < b->n_rows; r++) b->l[r] = b->lanes[(size_t)r * LF_ATTN_LANES];
}

static void fold(struct lf_attn_block *b)
{
    int d = b->head_dim;
    for (int r = 0; r < b->n_rows; r++) {
        float m = fmaxf(b->acc_m[r], b->m[r]);
        if (b->m[r] == -INFINITY) continue;
        float alpha = exp2f(b->acc_m[r] - m), beta = exp2f(b->m[r] - m);
        float *acc = b->acc_o + (size_t)r * (size_t)d;
        const float *o = b->o + (size_t)r * (size_t)d;
        b->acc_m[r] = m;
        b->acc_l[r] = b->acc_l[r] * alpha + b->l[r] * beta;
        for (int i = 0; i < d; i++) acc[i] = acc[i] * alpha + o[i] * beta;
    }
}

const struct lf_attn_kernel lf_attn_kernel_c = {
    .name = "c", .pack_q = pack_q, .tile = tile, .close = close_span, .fold = fold};
