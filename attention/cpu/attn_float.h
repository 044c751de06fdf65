/* Attention in float: f32 pages, or bf16 pages widened in registers. Compiled once for each instruction set.
 *
 * The including file defines LF_ATTN_KERNEL, the name of the table made here, and LF_ATTN_NAME, what it is called. The
 * softmax adds about a twelfth to the products at 64 channels of AVX-512. */
#include <string.h>

#include "attention/cpu/attn_rows.h"
#include "attention/cpu/attn_scores.h"

static void pack_q(struct lf_attn_block *b, int row_idx, const float *q)
{
    memcpy(b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE, q, (size_t)b->head_dim * sizeof(float));
}

static void scores_f32(int n, const float *q, const void *page, const void *ahead, int d, float *s, int lo, int hi)
{
    LF_ROWS_SWITCH(scores_page, n, PAGES_F32, q, page, ahead, d, s, lo, hi)
}

static void scores_bf16(int n, const float *q, const void *page, const void *ahead, int d, float *s, int lo, int hi)
{
    LF_ROWS_SWITCH(scores_page, n, PAGES_BF16, q, page, ahead, d, s, lo, hi)
}

static void scores(struct lf_attn_block *b, int row0, int n, const void *page, const void *ahead, int first, int lo,
                   int hi)
{
    const float *q = b->q + (size_t)row0 * LF_ATTN_Q_STRIDE;
    float *s = b->s + (size_t)row0 * LF_ATTN_TILE + first;
    (b->kv_dtype == LF_BF16 ? scores_bf16 : scores_f32)(n, q, page, ahead, b->head_dim, s, lo, hi);
}

static void softmax(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi)
{
    for (int r = row0; r < row0 + n; r++) {
        float *s = b->s + (size_t)r * LF_ATTN_TILE, *lanes = b->lanes + (size_t)r * LF_ATTN_LANES;
        struct row_scale row = row_scale(b, t, r);
        vec sum = vec_mul(vec_load(lanes), vec_set(b->alpha[r]));
        for (int at = lo / VEC * VEC; at < hi; at += VEC) {
            vec p = probabilities(s, at, &row, 5);
            sum = vec_add(sum, p);
            vec_store(s + at, p);
        }
        vec_store(lanes, sum);
    }
}

static void output_f32(int n, int n_vecs, const struct output_args *a)
{
    LF_ROWS_SWITCH(output_vecs, n, n_vecs, PAGES_F32, a)
}

static void output_bf16(int n, int n_vecs, const struct output_args *a)
{
    LF_ROWS_SWITCH(output_vecs, n, n_vecs, PAGES_BF16, a)
}

static void output(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi, bool fetch)
{
    output_rows(b, t, row0, n, lo, hi, fetch, b->kv_dtype == LF_BF16 ? output_bf16 : output_f32);
}

const struct lf_attn_kernel LF_ATTN_KERNEL = {.name = LF_ATTN_NAME,
                                              .group = LF_ATTN_GROUP,
                                              .pack_q = pack_q,
                                              .scores = scores,
                                              .next_max = next_max,
                                              .softmax = softmax,
                                              .output = output,
                                              .close = close_split,
                                              .combine = combine_split,
                                              .expand = lf_attn_expand_avx2};
