/* Attention for AVX-512 BF16: bf16 pages are the B operand of VDPBF16PS as they lie.
 *
 * The instruction multiplies pairs of bf16 and adds both products to a float: twice the arithmetic of an FMA. Queries
 * are rounded to bf16 once, weights after the sum of the unrounded ones has been taken; sums are float.
 *
 * Scores: 6 rows × 64 keys in 24 accumulators; for each pair of channels 4 loads of K, 6 broadcasts of Q, 24 VDPBF16PS.
 * Output: 6 rows × up to 64 channels; for each pair of keys 4 loads of V, 6 broadcasts of weights, 24 VDPBF16PS. The
 * softmax costs about a fifth beside them at 64 channels, so its exp2 is one degree shorter: its error vanishes in the
 * rounding to bf16. */
#include "attention/attn_avx512.h"

/* Row row_idx of b->q: head_dim / 2 pairs of bf16. */
static void pack_q(struct lf_attn_block *b, int row_idx, const float *q)
{
    float *dst = b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE;
    for (int i = 0; i < b->head_dim; i += VEC)
        _mm256_storeu_si256((__m256i *)(void *)(dst + i / 2), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(q + i)));
}

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

/* Where a group's output goes on: o = o · alpha + Σ w · v over keys lo <= j < hi, channels offset .. of n_vecs vectors.
 */
struct output_args {
    const struct lf_attn_tile *t;
    const float *w; /* [n][LF_ATTN_TILE], of which the first half holds pairs of bf16 */
    float *o;       /* [n][d] */
    const float *alpha;
    int d, offset;
    int lo, hi;
    bool ahead; /* fetch the pages that come next */
};

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
        int pair = (a->lo > first ? a->lo - first : 0) / 2; /* the weight of the key before an odd first one is 0 */
        int end = a->hi - first < LF_KV_BLOCK_TOKENS ? a->hi - first : LF_KV_BLOCK_TOKENS;
        const float *w = a->w + first / 2, *rows = (const float *)a->t->v[page] + a->offset;
        const float *ahead = a->ahead ? a->t->v_ahead[page] : NULL;
        for (; pair < end / 2; pair++) {
            size_t row = (size_t)pair * (size_t)a->d;
            UNROLL for (int v = 0; v < n_vecs; v++) x[v] = _mm512_loadu_si512(rows + row + v * VEC);
            if (ahead) fetch_ahead(n_vecs, ahead + a->offset + row);
            add_pairs(n, n_vecs, acc, w + pair, LF_ATTN_TILE, x);
        }
        if (end % 2) { /* the second half of the last pair may hold anything */
            size_t row = (size_t)(end / 2) * (size_t)a->d;
            __m512i first_half = _mm512_set1_epi32(0xffff);
            UNROLL for (int v = 0; v < n_vecs; v++) x[v] =
                _mm512_and_si512(first_half, _mm512_loadu_si512(rows + row + v * VEC));
            add_pairs(n, n_vecs, acc, w + end / 2, LF_ATTN_TILE, x);
        }
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int v = 0; v < n_vecs; v++)
            _mm512_store_ps(o + (size_t)r * (size_t)a->d + (size_t)(v * VEC), acc[r][v]);
    }
}

/* The switches below make one copy of each shape, with every count a constant. */
static void scores_group(int n, const float *q, const void *page, const void *ahead, int d, float *s)
{
    switch (n) {
    case 1:
        scores_page(1, q, page, ahead, d, s);
        return;
    case 2:
        scores_page(2, q, page, ahead, d, s);
        return;
    case 3:
        scores_page(3, q, page, ahead, d, s);
        return;
    case 4:
        scores_page(4, q, page, ahead, d, s);
        return;
    case 5:
        scores_page(5, q, page, ahead, d, s);
        return;
    case 6:
        scores_page(6, q, page, ahead, d, s);
        return;
    }
}

static void output_chunk(int n, int n_vecs, const struct output_args *a)
{
#define OUTPUT_CASES(rows)                                                                                             \
    case rows * 8 + 2:                                                                                                 \
        output(rows, 2, a);                                                                                            \
        return;                                                                                                        \
    case rows * 8 + 3:                                                                                                 \
        output(rows, 3, a);                                                                                            \
        return;                                                                                                        \
    case rows * 8 + 4:                                                                                                 \
        output(rows, 4, a);                                                                                            \
        return;
    switch (n * 8 + n_vecs) {
        OUTPUT_CASES(1)
        OUTPUT_CASES(2)
        OUTPUT_CASES(3)
        OUTPUT_CASES(4)
        OUTPUT_CASES(5)
        OUTPUT_CASES(6)
    }
#undef OUTPUT_CASES
}

/* Scores of a row to weights for the keys of [lo, hi), a group's extent: rounded to bf16 and packed into the first half
 * of the row's scores, behind where they are read. The row's lanes take the unrounded ones in. */
INLINE void softmax_row(struct lf_attn_block *b, const struct lf_attn_tile *t, int r, int lo, int hi)
{
    float *s = b->s + (size_t)r * LF_ATTN_TILE, *lanes = b->lanes + (size_t)r * LF_ATTN_LANES;
    __m512 scale = _mm512_set1_ps(b->log2_scale), m = _mm512_set1_ps(b->m[r]);
    __m512 sum = _mm512_mul_ps(_mm512_load_ps(lanes), _mm512_set1_ps(b->alpha[r]));
    int row_lo = t->full ? 0 : t->lo[r], row_hi = t->full ? LF_ATTN_TILE : t->hi[r];
    for (int v = lo / (2 * VEC) * 2; v * VEC < hi; v += 2) {
        __mmask16 first = 0xffff, second = 0xffff;
        if (!t->full) {
            first = keys_mask(v * VEC, row_lo, row_hi);
            second = keys_mask((v + 1) * VEC, row_lo, row_hi);
        }
        __m512 w0 = weights(s + v * VEC, first, scale, m, 4), w1 = weights(s + (v + 1) * VEC, second, scale, m, 4);
        sum = _mm512_add_ps(_mm512_add_ps(sum, w0), w1);
        _mm512_store_si512(s + v * VEC / 2, (__m512i)_mm512_cvtne2ps_pbh(w1, w0));
    }
    _mm512_store_ps(lanes, sum);
}

/* All channels of a group in chunks of 2 to 4 vectors, as equal as they come: 80 channels are 3 + 2. */
static void output_group(const struct lf_attn_block *b, int n, struct output_args *a)
{
    int n_vecs = b->head_dim / VEC, n_chunks = (n_vecs + 3) / 4;
    for (int i = 0; i < n_chunks; i++) {
        int from = n_vecs * i / n_chunks, to = n_vecs * (i + 1) / n_chunks;
        a->offset = from * VEC;
        output_chunk(n, to - from, a);
    }
}

static void tile(struct lf_attn_block *b, const struct lf_attn_tile *t)
{
    int lo, hi, d = b->head_dim;
    for (int page = 0; page < LF_ATTN_TILE_PAGES; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        for (int r = 0; r < b->n_rows; r += LF_ATTN_GROUP) {
            int n = b->n_rows - r < LF_ATTN_GROUP ? b->n_rows - r : LF_ATTN_GROUP;
            lf_attn_tile_extent(t, r, n, &lo, &hi);
            if (lo >= first + LF_KV_BLOCK_TOKENS || hi <= first) continue;
            scores_group(n, b->q + (size_t)r * LF_ATTN_Q_STRIDE, t->k[page], r == 0 ? t->k_ahead[page] : NULL, d,
                         b->s + (size_t)r * LF_ATTN_TILE + first);
        }
    }
    next_max(b, t);
    for (int r = 0; r < b->n_rows; r += LF_ATTN_GROUP) {
        int n = b->n_rows - r < LF_ATTN_GROUP ? b->n_rows - r : LF_ATTN_GROUP;
        lf_attn_tile_extent(t, r, n, &lo, &hi);
        if (lo >= hi) continue;
        for (int i = r; i < r + n; i++) softmax_row(b, t, i, lo, hi);
        struct output_args a = {.t = t,
                                .w = b->s + (size_t)r * LF_ATTN_TILE,
                                .o = b->o + (size_t)r * (size_t)d,
                                .alpha = b->alpha + r,
                                .d = d,
                                .lo = lo,
                                .hi = hi,
                                .ahead = r == 0};
        output_group(b, n, &a);
    }
}

const struct lf_attn_kernel lf_attn_kernel_avx512bf16 = {
    .name = "avx512-bf16", .pack_q = pack_q, .tile = tile, .close = close_span, .fold = fold_span};
