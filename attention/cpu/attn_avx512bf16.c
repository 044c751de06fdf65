/* Attention for AVX-512 BF16: bf16 pages are the B operand of VDPBF16PS as they lie.
 *
 * The instruction multiplies pairs of bf16 and adds both results to a float: twice the arithmetic of an FMA. Queries
 * are rounded to bf16 once, P after the sum of the unrounded values has been taken; sums are float.
 *
 * Scores: 6 rows × 64 keys in 24 accumulators; for each pair of channels 4 loads of K, 6 broadcasts of Q, 24 VDPBF16PS.
 * Output: 6 rows × up to 64 channels; for each pair of keys 4 loads of V, 6 broadcasts of P, 24 VDPBF16PS. The softmax
 * costs about a fifth beside them at 64 channels, so its exp2 is one degree shorter: its error vanishes in the rounding
 * to bf16. */
#include "attention/cpu/attn_bf16.h"

/* acc[r] += pair[r] · x for n rows whose pairs are stride floats apart. */
INLINE void add_pairs(int n, int n_vecs, __m512 (*acc)[4], const float *pair, int stride, const __m512i *x)
{
    UNROLL for (int r = 0; r < n; r++)
    {
        __m512 f = _mm512_set1_ps(pair[r * stride]); /* the bits of two bf16 */
        UNROLL for (int v = 0; v < n_vecs; v++) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], (__m512bh)f, (__m512bh)x[v]);
    }
}

/* s[n rows][64 keys of a page] = q · k. */
INLINE void scores_page(int n, const float *q, const void *page, const void *ahead, int d, float *s)
{
    __m512 acc[LF_ATTN_GROUP][4];
    __m512i k[4];
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int v = 0; v < 4; v++) acc[r][v] = _mm512_setzero_ps();
    }
    for (int i = 0; i < d / 2; i++) {
        size_t row = (size_t)i * LF_KV_BLOCK_TOKENS;
        UNROLL for (int v = 0; v < 4; v++) k[v] = _mm512_loadu_si512((const float *)page + row + v * VEC);
        if (ahead) fetch_ahead(4, (const float *)ahead + row);
        add_pairs(n, 4, acc, q + i, LF_ATTN_Q_STRIDE, k);
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int v = 0; v < 4; v++) _mm512_store_ps(s + r * LF_ATTN_TILE + v * VEC, acc[r][v]);
    }
}

/* o = o · alpha + Σ p · v for n rows and n_vecs vectors of channels. P is pairs of bf16 in the first half of its
 * row. */
INLINE void output(int n, int n_vecs, const struct output_args *a)
{
    __m512 acc[LF_ATTN_GROUP][4];
    __m512i x[4];
    float *o = a->o + a->offset;
    UNROLL for (int r = 0; r < n; r++)
    {
        __m512 alpha = _mm512_set1_ps(a->alpha[r]);
        UNROLL for (int v = 0; v < n_vecs; v++) acc[r][v] =
            _mm512_mul_ps(alpha, _mm512_load_ps(o + (size_t)r * (size_t)a->d + (size_t)(v * VEC)));
    }
    for (int page = a->lo / LF_KV_BLOCK_TOKENS; page * LF_KV_BLOCK_TOKENS < a->hi; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        int pair = (a->lo > first ? a->lo - first : 0) / 2; /* P of the key before an odd first one is 0 */
        int end = a->hi - first < LF_KV_BLOCK_TOKENS ? a->hi - first : LF_KV_BLOCK_TOKENS;
        const float *p = a->p + first / 2, *rows = (const float *)a->t->v[page] + a->offset;
        const float *ahead = a->fetch ? a->t->v_ahead[page] : NULL;
        for (; pair < end / 2; pair++) {
            size_t row = (size_t)pair * (size_t)a->d;
            UNROLL for (int v = 0; v < n_vecs; v++) x[v] = _mm512_loadu_si512(rows + row + v * VEC);
            if (ahead) fetch_ahead(n_vecs, ahead + a->offset + row);
            add_pairs(n, n_vecs, acc, p + pair, LF_ATTN_TILE, x);
        }
        if (end % 2) { /* the second half of the last pair may hold anything */
            size_t row = (size_t)(end / 2) * (size_t)a->d;
            __m512i first_half = _mm512_set1_epi32(0xffff);
            UNROLL for (int v = 0; v < n_vecs; v++) x[v] =
                _mm512_and_si512(first_half, _mm512_loadu_si512(rows + row + v * VEC));
            add_pairs(n, n_vecs, acc, p + end / 2, LF_ATTN_TILE, x);
        }
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int v = 0; v < n_vecs; v++)
            _mm512_store_ps(o + (size_t)r * (size_t)a->d + (size_t)(v * VEC), acc[r][v]);
    }
}

static void scores(struct lf_attn_block *b, int row0, int n, const void *page, const void *ahead, int first)
{
    const float *q = b->q + (size_t)row0 * LF_ATTN_Q_STRIDE;
    float *s = b->s + (size_t)row0 * LF_ATTN_TILE + first;
    SCORES_SWITCH(scores_page, n, q, page, ahead, b->head_dim, s)
}

static void output_pairs(int n, int n_vecs, const struct output_args *a)
{
    OUTPUT_SWITCH(output, n, n_vecs, a)
}

static void output_group(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi,
                         bool fetch)
{
    output_chunks(b, t, row0, n, lo, hi, fetch, output_pairs);
}

const struct lf_attn_kernel lf_attn_kernel_avx512bf16 = {.name = "avx512-bf16",
                                                         .group = LF_ATTN_GROUP,
                                                         .pack_q = pack_queries,
                                                         .scores = scores,
                                                         .next_max = next_max,
                                                         .softmax = softmax_pairs,
                                                         .output = output_group,
                                                         .close = close_split,
                                                         .combine = combine_split};
