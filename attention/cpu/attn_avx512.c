/* Attention for AVX-512 in float: f32 pages, or bf16 pages widened in registers.
 *
 * Scores: 6 rows × 64 keys in 24 accumulators; for each channel 4 loads of K, 6 broadcasts of Q, 24 FMAs.
 * Output: 6 rows × up to 64 channels in 24 accumulators; for each key 4 loads of V, 6 broadcasts of P, 24 FMAs.
 * All 8 groups of a block use a page before the next comes, so it is read from the first-level cache. What bounds it
 * is the FMA unit; the softmax adds about a twelfth at 64 channels. Fewer rows at the end of a block are the same code
 * with fewer accumulators. */
#include "attention/cpu/attn_avx512.h"

#include <string.h>

static void pack_q(struct lf_attn_block *b, int row_idx, const float *q)
{
    memcpy(b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE, q, (size_t)b->head_dim * sizeof(float));
}

/* n_vecs vectors of row `idx` of a page whose rows are `width` elements, in pairs of rows side by side where bf16.
 * second: idx is odd. The same row of the page ahead, if there is one, is prefetched. */
INLINE void load_row(int n_vecs, bool bf16, bool second, const void *page, const void *ahead, int idx, int width,
                     int offset, __m512 *x)
{
    size_t row = (size_t)(bf16 ? idx / 2 : idx) * (size_t)width + (size_t)offset;
    const float *at = (const float *)page + row;
    if (ahead && !(bf16 && second)) fetch_ahead(n_vecs, (const float *)ahead + row);
    UNROLL for (int v = 0; v < n_vecs; v++)
    {
        if (!bf16) {
            x[v] = _mm512_loadu_ps(at + v * VEC);
            continue;
        }
        __m512i pairs = _mm512_loadu_si512(at + v * VEC);
        pairs = second ? _mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)) : _mm512_slli_epi32(pairs, 16);
        x[v] = _mm512_castsi512_ps(pairs);
    }
}

/* acc[r] += factor[r] · x for n rows whose factors are stride floats apart. */
INLINE void add_row(int n, int n_vecs, __m512 (*acc)[4], const float *factor, int stride, const __m512 *x)
{
    UNROLL for (int r = 0; r < n; r++)
    {
        __m512 f = _mm512_set1_ps(factor[r * stride]);
        UNROLL for (int v = 0; v < n_vecs; v++) acc[r][v] = _mm512_fmadd_ps(f, x[v], acc[r][v]);
    }
}

/* s[n rows][64 keys of a page] = q · k. */
INLINE void scores_page(int n, bool bf16, const float *q, const void *page, const void *ahead, int d, float *s)
{
    __m512 acc[LF_ATTN_GROUP][4], k[4];
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int v = 0; v < 4; v++) acc[r][v] = _mm512_setzero_ps();
    }
    for (int i = 0; i < d; i += 2) {
        load_row(4, bf16, false, page, ahead, i, LF_KV_BLOCK_TOKENS, 0, k);
        add_row(n, 4, acc, q + i, LF_ATTN_Q_STRIDE, k);
        load_row(4, bf16, true, page, ahead, i + 1, LF_KV_BLOCK_TOKENS, 0, k);
        add_row(n, 4, acc, q + i + 1, LF_ATTN_Q_STRIDE, k);
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int v = 0; v < 4; v++) _mm512_store_ps(s + r * LF_ATTN_TILE + v * VEC, acc[r][v]);
    }
}

/* o = o · alpha + Σ p · v for n rows and n_vecs vectors of channels. */
INLINE void output(int n, int n_vecs, bool bf16, const struct output_args *a)
{
    __m512 acc[LF_ATTN_GROUP][4], v_row[4];
    float *o = a->o + a->offset;
    UNROLL for (int r = 0; r < n; r++)
    {
        __m512 alpha = _mm512_set1_ps(a->alpha[r]);
        UNROLL for (int v = 0; v < n_vecs; v++) acc[r][v] =
            _mm512_mul_ps(alpha, _mm512_load_ps(o + (size_t)r * (size_t)a->d + (size_t)(v * VEC)));
    }
    for (int page = a->lo / LF_KV_BLOCK_TOKENS; page * LF_KV_BLOCK_TOKENS < a->hi; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        int j = (a->lo > first ? a->lo - first : 0) & ~1; /* P of the key before an odd first one is 0 */
        int end = a->hi - first < LF_KV_BLOCK_TOKENS ? a->hi - first : LF_KV_BLOCK_TOKENS;
        const float *p = a->p + first;
        const void *ahead = a->fetch ? a->t->v_ahead[page] : NULL;
        for (; j + 1 < end; j += 2) {
            load_row(n_vecs, bf16, false, a->t->v[page], ahead, j, a->d, a->offset, v_row);
            add_row(n, n_vecs, acc, p + j, LF_ATTN_TILE, v_row);
            load_row(n_vecs, bf16, true, a->t->v[page], ahead, j + 1, a->d, a->offset, v_row);
            add_row(n, n_vecs, acc, p + j + 1, LF_ATTN_TILE, v_row);
        }
        if (j < end) {
            load_row(n_vecs, bf16, false, a->t->v[page], ahead, j, a->d, a->offset, v_row);
            add_row(n, n_vecs, acc, p + j, LF_ATTN_TILE, v_row);
        }
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int v = 0; v < n_vecs; v++)
            _mm512_store_ps(o + (size_t)r * (size_t)a->d + (size_t)(v * VEC), acc[r][v]);
    }
}

static void scores_float(int n, const float *q, const void *page, const void *ahead, int d, float *s)
{
    SCORES_SWITCH(scores_page, n, false, q, page, ahead, d, s)
}

static void scores_bf16(int n, const float *q, const void *page, const void *ahead, int d, float *s)
{
    SCORES_SWITCH(scores_page, n, true, q, page, ahead, d, s)
}

static void scores(struct lf_attn_block *b, int row0, int n, const void *page, const void *ahead, int first)
{
    (b->kv_dtype == LF_BF16 ? scores_bf16 : scores_float)(n, b->q + (size_t)row0 * LF_ATTN_Q_STRIDE, page, ahead,
                                                          b->head_dim, b->s + (size_t)row0 * LF_ATTN_TILE + first);
}

static void output_float(int n, int n_vecs, const struct output_args *a)
{
    OUTPUT_SWITCH(output, n, n_vecs, false, a)
}

static void output_bf16(int n, int n_vecs, const struct output_args *a)
{
    OUTPUT_SWITCH(output, n, n_vecs, true, a)
}

static void output_group(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi,
                         bool fetch)
{
    output_chunks(b, t, row0, n, lo, hi, fetch, b->kv_dtype == LF_BF16 ? output_bf16 : output_float);
}

static void softmax(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi)
{
    for (int r = row0; r < row0 + n; r++) {
        float *s = b->s + (size_t)r * LF_ATTN_TILE, *lanes = b->lanes + (size_t)r * LF_ATTN_LANES;
        __m512 scale = _mm512_set1_ps(b->log2_scale), m = _mm512_set1_ps(b->m[r]);
        __m512 sum = _mm512_mul_ps(_mm512_load_ps(lanes), _mm512_set1_ps(b->alpha[r]));
        for (int v = lo / VEC; v * VEC < hi; v++) {
            __mmask16 seen = t->full ? 0xffff : keys_mask(v * VEC, t->lo[r], t->hi[r]);
            __m512 p = probabilities(s + v * VEC, seen, scale, m, 5);
            sum = _mm512_add_ps(sum, p);
            _mm512_store_ps(s + v * VEC, p);
        }
        _mm512_store_ps(lanes, sum);
    }
}

const struct lf_attn_kernel lf_attn_kernel_avx512 = {.name = "avx512",
                                                     .group = LF_ATTN_GROUP,
                                                     .pack_q = pack_q,
                                                     .scores = scores,
                                                     .next_max = next_max,
                                                     .softmax = softmax,
                                                     .output = output_group,
                                                     .close = close_split,
                                                     .combine = combine_split};
