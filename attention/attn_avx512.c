/* Attention for AVX-512 in float: f32 pages, or bf16 pages widened in registers.
 *
 * Scores: 6 rows × 64 keys in 24 accumulators; for each channel 4 loads of K, 6 broadcasts of Q, 24 FMAs.
 * Output: 6 rows × up to 64 channels in 24 accumulators; for each key 4 loads of V, 6 broadcasts of weights, 24 FMAs.
 * All 8 groups of a block use a page before the next comes, so it is read from the first-level cache. What bounds it
 * is the FMA unit; the softmax adds about a twelfth at 64 channels. Fewer rows at the end of a block are the same code
 * with fewer accumulators. */
#include "attention/attn_avx512.h"

#include <string.h>

static void pack_q(struct lf_attn_block *b, int row_idx, const float *q)
{
    memcpy(b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE, q, (size_t)b->head_dim * sizeof(float));
}

/* n_vecs vectors of row `idx` of a page whose rows are `width` elements, in pairs of rows side by side where bf16.
 * second: idx is odd. The same place of the page ahead, if there is one, is fetched. */
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

/* Where a group's output goes on: o = o · alpha + Σ w · v over keys lo <= j < hi, channels offset .. of n_vecs vectors.
 */
struct output_args {
    const struct lf_attn_tile *t;
    const float *w; /* [n][LF_ATTN_TILE] */
    float *o;       /* [n][d] */
    const float *alpha;
    int d, offset;
    int lo, hi;
    bool ahead; /* fetch the pages that come next */
};

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
        int j = (a->lo > first ? a->lo - first : 0) & ~1; /* the weight of the key before an odd first one is 0 */
        int end = a->hi - first < LF_KV_BLOCK_TOKENS ? a->hi - first : LF_KV_BLOCK_TOKENS;
        const float *w = a->w + first;
        const void *ahead = a->ahead ? a->t->v_ahead[page] : NULL;
        for (; j + 1 < end; j += 2) {
            load_row(n_vecs, bf16, false, a->t->v[page], ahead, j, a->d, a->offset, v_row);
            add_row(n, n_vecs, acc, w + j, LF_ATTN_TILE, v_row);
            load_row(n_vecs, bf16, true, a->t->v[page], ahead, j + 1, a->d, a->offset, v_row);
            add_row(n, n_vecs, acc, w + j + 1, LF_ATTN_TILE, v_row);
        }
        if (j < end) {
            load_row(n_vecs, bf16, false, a->t->v[page], ahead, j, a->d, a->offset, v_row);
            add_row(n, n_vecs, acc, w + j, LF_ATTN_TILE, v_row);
        }
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int v = 0; v < n_vecs; v++)
            _mm512_store_ps(o + (size_t)r * (size_t)a->d + (size_t)(v * VEC), acc[r][v]);
    }
}

/* The switches below make one copy of each shape, with every count a constant. */
static void scores_group(int n, bool bf16, const float *q, const void *page, const void *ahead, int d, float *s)
{
#define SCORES_CASE(rows)                                                                                              \
    case rows:                                                                                                         \
        if (bf16)                                                                                                      \
            scores_page(rows, true, q, page, ahead, d, s);                                                             \
        else                                                                                                           \
            scores_page(rows, false, q, page, ahead, d, s);                                                            \
        return;
    switch (n) {
        SCORES_CASE(1)
        SCORES_CASE(2)
        SCORES_CASE(3)
        SCORES_CASE(4)
        SCORES_CASE(5)
        SCORES_CASE(6)
    }
#undef SCORES_CASE
}

static void output_chunk(int n, int n_vecs, bool bf16, const struct output_args *a)
{
#define OUTPUT_CASE(rows, vecs)                                                                                        \
    case rows * 8 + vecs:                                                                                              \
        if (bf16)                                                                                                      \
            output(rows, vecs, true, a);                                                                               \
        else                                                                                                           \
            output(rows, vecs, false, a);                                                                              \
        return;
#define OUTPUT_CASES(rows) OUTPUT_CASE(rows, 2) OUTPUT_CASE(rows, 3) OUTPUT_CASE(rows, 4)
    switch (n * 8 + n_vecs) {
        OUTPUT_CASES(1)
        OUTPUT_CASES(2)
        OUTPUT_CASES(3)
        OUTPUT_CASES(4)
        OUTPUT_CASES(5)
        OUTPUT_CASES(6)
    }
#undef OUTPUT_CASES
#undef OUTPUT_CASE
}

/* All channels of a group in chunks of 2 to 4 vectors, as equal as they come: 80 channels are 3 + 2. */
static void output_group(const struct lf_attn_block *b, int n, struct output_args *a)
{
    int n_vecs = b->head_dim / VEC, n_chunks = (n_vecs + 3) / 4;
    for (int i = 0; i < n_chunks; i++) {
        int from = n_vecs * i / n_chunks, to = n_vecs * (i + 1) / n_chunks;
        a->offset = from * VEC;
        output_chunk(n, to - from, b->kv_dtype == LF_BF16, a);
    }
}

/* Scores of a row to weights for the keys of [lo, hi), a group's extent; the row's lanes take them in. */
INLINE void softmax_row(struct lf_attn_block *b, const struct lf_attn_tile *t, int r, int lo, int hi)
{
    float *s = b->s + (size_t)r * LF_ATTN_TILE, *lanes = b->lanes + (size_t)r * LF_ATTN_LANES;
    __m512 scale = _mm512_set1_ps(b->log2_scale), m = _mm512_set1_ps(b->m[r]);
    __m512 sum = _mm512_mul_ps(_mm512_load_ps(lanes), _mm512_set1_ps(b->alpha[r]));
    if (t->full) {
        UNROLL for (int v = 0; v < TILE_VECS; v++)
        {
            __m512 w = weights(s + v * VEC, 0xffff, scale, m, 5);
            sum = _mm512_add_ps(sum, w);
            _mm512_store_ps(s + v * VEC, w);
        }
    } else {
        for (int v = lo / VEC; v * VEC < hi; v++) {
            __m512 w = weights(s + v * VEC, keys_mask(v * VEC, t->lo[r], t->hi[r]), scale, m, 5);
            sum = _mm512_add_ps(sum, w);
            _mm512_store_ps(s + v * VEC, w);
        }
    }
    _mm512_store_ps(lanes, sum);
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
            scores_group(n, b->kv_dtype == LF_BF16, b->q + (size_t)r * LF_ATTN_Q_STRIDE, t->k[page],
                         r == 0 ? t->k_ahead[page] : NULL, d, b->s + (size_t)r * LF_ATTN_TILE + first);
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

const struct lf_attn_kernel lf_attn_kernel_avx512 = {
    .name = "avx512", .pack_q = pack_q, .tile = tile, .close = close_span, .fold = fold_span};
