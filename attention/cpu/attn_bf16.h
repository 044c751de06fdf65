/* What the kernels that multiply bf16 pairs share: rounding of queries and of P. Inside attention/ only, for files
 * compiled with AVX-512 BF16. */
#ifndef LF_ATTENTION_CPU_ATTN_BF16_H
#define LF_ATTENTION_CPU_ATTN_BF16_H

#include "attention/cpu/attn_avx512.h"

/* Row row_idx of b->q: head_dim bf16 in order. */
static void pack_queries(struct lf_attn_block *b, int row_idx, const float *q)
{
    float *dst = b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE;
    for (int i = 0; i < b->head_dim; i += VEC)
        _mm256_storeu_si256((__m256i *)(void *)(dst + i / 2), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(q + i)));
}

/* Scores to P, rounded to bf16 and packed in order of keys into the first half of the row's scores, behind where
 * they are read; written for whole multiples of 32 keys around [lo, hi). The unrounded values are added to the row's
 * lanes. */
static void softmax_pairs(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi)
{
    for (int r = row0; r < row0 + n; r++) {
        float *s = b->s + (size_t)r * LF_ATTN_TILE, *lanes = b->lanes + (size_t)r * LF_ATTN_LANES;
        __m512 scale = _mm512_set1_ps(b->log2_scale), m = _mm512_set1_ps(b->m[r]);
        __m512 sum = _mm512_mul_ps(_mm512_load_ps(lanes), _mm512_set1_ps(b->alpha[r]));
        for (int v = lo / (2 * VEC) * 2; v * VEC < hi; v += 2) {
            __mmask16 first = 0xffff, second = 0xffff;
            if (!t->full) {
                first = keys_mask(v * VEC, t->lo[r], t->hi[r]);
                second = keys_mask((v + 1) * VEC, t->lo[r], t->hi[r]);
            }
            __m512 p0 = probabilities(s + v * VEC, first, scale, m, 4),
                   p1 = probabilities(s + (v + 1) * VEC, second, scale, m, 4);
            sum = _mm512_add_ps(_mm512_add_ps(sum, p0), p1);
            _mm512_store_si512(s + v * VEC / 2, (__m512i)_mm512_cvtne2ps_pbh(p1, p0));
        }
        _mm512_store_ps(lanes, sum);
    }
}

#endif
