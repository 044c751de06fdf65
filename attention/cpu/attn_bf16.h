/* What the kernels that multiply bf16 pairs share: rounding of queries and of P. Inside attention/ only, for files
 * compiled with AVX-512 BF16. */
#ifndef LF_ATTENTION_CPU_ATTN_BF16_H
#define LF_ATTENTION_CPU_ATTN_BF16_H

#include "attention/cpu/attn_softmax.h"

/* Row row_idx of b->q: head_dim bf16 in order. */
static void pack_queries(struct lf_attn_block *b, int row_idx, const float *q)
{
    float *dst = b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE;
    int i = 0;
    for (; i + VEC <= b->head_dim; i += VEC) vec_store_bf16(dst + i / 2, vec_loadu(q + i));
    if (i < b->head_dim) vec_store_bf16(dst + i / 2, vec_load_first(q + i, b->head_dim - i));
}

/* Scores to P, rounded to bf16 and packed in order of keys into the first half of the row's scores, behind where
 * they are read; written for whole multiples of 2 VEC keys around [lo, hi). The unrounded values are added to the row's
 * lanes. */
static void softmax_pairs(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi)
{
    for (int r = row0; r < row0 + n; r++) {
        float *s = b->s + (size_t)r * LF_ATTN_TILE, *lanes = b->lanes + (size_t)r * LF_ATTN_LANES;
        struct row_scale row = row_scale(b, t, r);
        vec sum = vec_mul(vec_load(lanes), vec_set(b->alpha[r]));
        for (int at = lo / (2 * VEC) * 2 * VEC; at < hi; at += 2 * VEC) {
            vec p0 = probabilities(s, at, &row, 4), p1 = probabilities(s, at + VEC, &row, 4);
            sum = vec_add(vec_add(sum, p0), p1);
            vec_store2_bf16(s + at / 2, p0, p1);
        }
        vec_store(lanes, sum);
    }
}

#endif
