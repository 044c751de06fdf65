/* Attention for AVX2 with FMA: f32 pages, or bf16 pages widened in registers.
 *
 * Scores: 6 rows × 16 keys in 12 accumulators, four strips a page; for each channel 2 loads of K, 6 broadcasts of Q, 12
 * FMAs. Output: 6 rows × 16 channels in 12 accumulators; for each key 2 loads of V, 6 broadcasts of P, 12 FMAs. Sixteen
 * registers hold no more. */
#include "attention/cpu/attn_kernel.h"

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { VEC = 8, STRIP = 16 };

/* 2^x for x <= 0, as in attn_avx512.h: x = n + f with n = ⌊x⌋, a polynomial that is 1 at 0 for 2^f, then the exponent.
 * Below 2^−126 the result is 0. */
INLINE __m256 exp2_neg(__m256 x)
{
    __m256 lowest = _mm256_set1_ps(-126.0f);
    __m256 in_range = _mm256_cmp_ps(x, lowest, _CMP_GE_OQ);
    x = _mm256_max_ps(x, lowest);
    __m256 n = _mm256_floor_ps(x), f = _mm256_sub_ps(x, n), y = _mm256_set1_ps(0.0018671305f);
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.009017029f));
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.055799913f));
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.24016444f));
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.6931513f));
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), exponent));
    return _mm256_and_ps(y, in_range);
}

/* tanh |x| = −e / (2 + e) with e = 2^t − 1, t = −2·log2(e)·|x|, without cancellation near 0 (attn_avx512.h). */
INLINE __m256 tanh8(__m256 x)
{
    __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
    __m256 t = _mm256_mul_ps(_mm256_andnot_ps(sign, x), _mm256_set1_ps(-2.88539008177792681472f));
    t = _mm256_max_ps(t, _mm256_set1_ps(-100.0f)); /* tanh is 1 in float long before */
    __m256 n = _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 f = _mm256_sub_ps(t, n), y = _mm256_set1_ps(0.00015403512f);
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.0013390735f));
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.009618238f));
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.055503573f));
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.24022649f));
    y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.6931472f));
    __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    __m256 two_n = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(one), exponent));
    __m256 e = _mm256_fmadd_ps(_mm256_mul_ps(y, f), two_n, _mm256_sub_ps(two_n, one));
    y = _mm256_div_ps(e, _mm256_add_ps(_mm256_set1_ps(2.0f), e)); /* −tanh |x| */
    return _mm256_xor_ps(y, _mm256_andnot_ps(x, sign));
}

INLINE float max_of(__m256 x)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

INLINE float sum_of(__m256 x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* All bits of the lanes whose keys at .. at + 7 lie in lo <= j < hi. */
INLINE __m256 keys_mask(int at, int lo, int hi)
{
    __m256i j = _mm256_add_epi32(_mm256_set1_epi32(at), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32(lo), j), in = _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), j);
    return _mm256_castsi256_ps(_mm256_andnot_si256(before, in));
}

static void pack_q(struct lf_attn_block *b, int row_idx, const float *q)
{
    memcpy(b->q + (size_t)row_idx * LF_ATTN_Q_STRIDE, q, (size_t)b->head_dim * sizeof(float));
}

/* Two vectors at `at`: floats, or the first or second halves of pairs of bf16. */
INLINE void load_strip(bool bf16, bool second, const float *at, __m256 *x)
{
    UNROLL for (int v = 0; v < 2; v++)
    {
        x[v] = _mm256_loadu_ps(at + v * VEC);
        if (!bf16) continue;
        __m256i pairs = _mm256_castps_si256(x[v]);
        pairs = second ? _mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)) : _mm256_slli_epi32(pairs, 16);
        x[v] = _mm256_castsi256_ps(pairs);
    }
}

/* acc[r] += factor[r] · x for n rows whose factors are stride floats apart. */
INLINE void add_strip(int n, __m256 (*acc)[2], const float *factor, int stride, const __m256 *x)
{
    UNROLL for (int r = 0; r < n; r++)
    {
        __m256 f = _mm256_broadcast_ss(factor + r * stride);
        acc[r][0] = _mm256_fmadd_ps(f, x[0], acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(f, x[1], acc[r][1]);
    }
}

/* s[n rows][16 keys of a page at column strip] = q · k. */
INLINE void scores_strip(int n, bool bf16, const float *q, const float *page, const float *ahead, int d, float *s)
{
    __m256 acc[LF_ATTN_GROUP][2], k[2];
    UNROLL for (int r = 0; r < n; r++) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (int i = 0; i < d; i += 2) {
        size_t first = (size_t)(bf16 ? i / 2 : i) * LF_KV_BLOCK_TOKENS;
        size_t second = bf16 ? first : first + LF_KV_BLOCK_TOKENS;
        if (ahead) {
            _mm_prefetch((const char *)(ahead + first), _MM_HINT_T1);
            if (!bf16) _mm_prefetch((const char *)(ahead + second), _MM_HINT_T1);
        }
        load_strip(bf16, false, page + first, k);
        add_strip(n, acc, q + i, LF_ATTN_Q_STRIDE, k);
        load_strip(bf16, true, page + second, k);
        add_strip(n, acc, q + i + 1, LF_ATTN_Q_STRIDE, k);
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        _mm256_storeu_ps(s + r * LF_ATTN_TILE, acc[r][0]);
        _mm256_storeu_ps(s + r * LF_ATTN_TILE + VEC, acc[r][1]);
    }
}

INLINE void scores_page(int n, bool bf16, const float *q, const float *page, const float *ahead, int d, float *s)
{
    for (int at = 0; at < LF_KV_BLOCK_TOKENS; at += STRIP)
        scores_strip(n, bf16, q, page + at, ahead ? ahead + at : NULL, d, s + at);
}

/* Rows of a group, as a switch that makes a copy for each count. */
#define ROWS_SWITCH(fn, n, ...)                                                                                        \
    switch (n) {                                                                                                       \
    case 1:                                                                                                            \
        fn(1, __VA_ARGS__);                                                                                            \
        return;                                                                                                        \
    case 2:                                                                                                            \
        fn(2, __VA_ARGS__);                                                                                            \
        return;                                                                                                        \
    case 3:                                                                                                            \
        fn(3, __VA_ARGS__);                                                                                            \
        return;                                                                                                        \
    case 4:                                                                                                            \
        fn(4, __VA_ARGS__);                                                                                            \
        return;                                                                                                        \
    case 5:                                                                                                            \
        fn(5, __VA_ARGS__);                                                                                            \
        return;                                                                                                        \
    case 6:                                                                                                            \
        fn(6, __VA_ARGS__);                                                                                            \
        return;                                                                                                        \
    }

static void scores_float(int n, const float *q, const float *page, const float *ahead, int d, float *s)
{
    ROWS_SWITCH(scores_page, n, false, q, page, ahead, d, s)
}

static void scores_bf16(int n, const float *q, const float *page, const float *ahead, int d, float *s)
{
    ROWS_SWITCH(scores_page, n, true, q, page, ahead, d, s)
}

static void scores(struct lf_attn_block *b, int row0, int n, const void *page, const void *ahead, int first)
{
    (b->kv_dtype == LF_BF16 ? scores_bf16 : scores_float)(n, b->q + (size_t)row0 * LF_ATTN_Q_STRIDE, page, ahead,
                                                          b->head_dim, b->s + (size_t)row0 * LF_ATTN_TILE + first);
}

/* The largest of a row's visible scores, −∞ where there is none; softcap applied to the scores on the way. */
static float row_max(const struct lf_attn_block *b, const struct lf_attn_tile *t, int r)
{
    float *s = b->s + (size_t)r * LF_ATTN_TILE;
    int lo = t->full ? 0 : t->lo[r], hi = t->full ? LF_ATTN_TILE : t->hi[r];
    __m256 none = _mm256_set1_ps(-INFINITY), max = none;
    if (lo >= hi) return -INFINITY;
    for (int at = lo / VEC * VEC; at < hi; at += VEC) {
        __m256 x = _mm256_loadu_ps(s + at);
        if (b->softcap > 0.0f) {
            x = tanh8(_mm256_mul_ps(x, _mm256_set1_ps(b->softcap_arg)));
            x = _mm256_mul_ps(x, _mm256_set1_ps(b->softcap));
            _mm256_storeu_ps(s + at, x);
        }
        if (!t->full) x = _mm256_blendv_ps(none, x, keys_mask(at, lo, hi));
        max = _mm256_max_ps(max, x);
    }
    return max_of(max);
}

static void next_max(struct lf_attn_block *b, const struct lf_attn_tile *t)
{
    for (int r = 0; r < b->n_rows; r++) b->alpha[r] = row_max(b, t, r);
    for (int r = 0; r < b->n_rows; r += VEC) {
        __m256 old = _mm256_loadu_ps(b->m + r);
        __m256 m = _mm256_mul_ps(_mm256_loadu_ps(b->alpha + r), _mm256_set1_ps(b->log2_scale));
        m = _mm256_max_ps(old, m);
        _mm256_storeu_ps(b->m + r, m);
        /* A row that has seen no key yet keeps −∞; −∞ − −∞ would be NaN, −∞ − a finite number is 2^−∞ = 0. */
        m = _mm256_max_ps(m, _mm256_set1_ps(-FLT_MAX));
        _mm256_storeu_ps(b->alpha + r, exp2_neg(_mm256_sub_ps(old, m)));
    }
}

static void softmax(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi)
{
    for (int r = row0; r < row0 + n; r++) {
        float *s = b->s + (size_t)r * LF_ATTN_TILE, *lanes = b->lanes + (size_t)r * LF_ATTN_LANES;
        __m256 scale = _mm256_set1_ps(b->log2_scale), m = _mm256_set1_ps(b->m[r]);
        __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(lanes), _mm256_set1_ps(b->alpha[r]));
        for (int at = lo / VEC * VEC; at < hi; at += VEC) {
            __m256 p = exp2_neg(_mm256_fmsub_ps(_mm256_loadu_ps(s + at), scale, m));
            if (!t->full) p = _mm256_and_ps(p, keys_mask(at, t->lo[r], t->hi[r]));
            sum = _mm256_add_ps(sum, p);
            _mm256_storeu_ps(s + at, p);
        }
        _mm256_storeu_ps(lanes, sum);
    }
}

/* A group's o = o · alpha + Σ p · v over keys lo <= j < hi, 16 channels from offset. */
struct output_args {
    const struct lf_attn_tile *t;
    const float *p; /* [n][LF_ATTN_TILE] */
    float *o;       /* [n][d] */
    const float *alpha;
    int d, offset;
    int lo, hi;
    bool fetch; /* the pages that come next */
};

INLINE void output_strip(int n, bool bf16, const struct output_args *a)
{
    __m256 acc[LF_ATTN_GROUP][2], x[2];
    size_t d = (size_t)a->d, row_floats = bf16 ? d : 2 * d; /* of two keys */
    UNROLL for (int r = 0; r < n; r++)
    {
        __m256 alpha = _mm256_broadcast_ss(a->alpha + r);
        const float *o = a->o + (size_t)r * d + a->offset;
        acc[r][0] = _mm256_mul_ps(alpha, _mm256_loadu_ps(o));
        acc[r][1] = _mm256_mul_ps(alpha, _mm256_loadu_ps(o + VEC));
    }
    for (int page = a->lo / LF_KV_BLOCK_TOKENS; page * LF_KV_BLOCK_TOKENS < a->hi; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        int j = (a->lo > first ? a->lo - first : 0) & ~1; /* P of the key before an odd first one is 0 */
        int end = a->hi - first < LF_KV_BLOCK_TOKENS ? a->hi - first : LF_KV_BLOCK_TOKENS;
        const float *p = a->p + first, *v = (const float *)a->t->v[page] + a->offset;
        const float *ahead = a->fetch && a->t->v_ahead[page] ? (const float *)a->t->v_ahead[page] + a->offset : NULL;
        for (; j + 1 < end; j += 2) {
            size_t row = (size_t)(j / 2) * row_floats;
            if (ahead) {
                _mm_prefetch((const char *)(ahead + row), _MM_HINT_T1);
                if (!bf16) _mm_prefetch((const char *)(ahead + row + d), _MM_HINT_T1);
            }
            load_strip(bf16, false, v + row, x);
            add_strip(n, acc, p + j, LF_ATTN_TILE, x);
            load_strip(bf16, true, v + row + (bf16 ? 0 : d), x);
            add_strip(n, acc, p + j + 1, LF_ATTN_TILE, x);
        }
        if (j < end) {
            load_strip(bf16, false, v + (size_t)(j / 2) * row_floats, x);
            add_strip(n, acc, p + j, LF_ATTN_TILE, x);
        }
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        float *o = a->o + (size_t)r * d + a->offset;
        _mm256_storeu_ps(o, acc[r][0]);
        _mm256_storeu_ps(o + VEC, acc[r][1]);
    }
}

static void output_float(int n, const struct output_args *a)
{
    ROWS_SWITCH(output_strip, n, false, a)
}

static void output_bf16(int n, const struct output_args *a)
{
    ROWS_SWITCH(output_strip, n, true, a)
}

static void output(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi, bool fetch)
{
    struct output_args a = {.t = t,
                            .p = b->s + (size_t)row0 * LF_ATTN_TILE,
                            .o = b->o + (size_t)row0 * (size_t)b->head_dim,
                            .alpha = b->alpha + row0,
                            .d = b->head_dim,
                            .lo = lo,
                            .hi = hi,
                            .fetch = fetch};
    for (a.offset = 0; a.offset < b->head_dim; a.offset += STRIP)
        (b->kv_dtype == LF_BF16 ? output_bf16 : output_float)(n, &a);
}

static void close_split(struct lf_attn_block *b)
{
    for (int r = 0; r < b->n_rows; r++) b->l[r] = sum_of(_mm256_loadu_ps(b->lanes + (size_t)r * LF_ATTN_LANES));
}

static void combine(struct lf_attn_block *b)
{
    int d = b->head_dim;
    for (int r = 0; r < b->n_rows; r += VEC) {
        __m256 m0 = _mm256_loadu_ps(b->acc_m + r), m1 = _mm256_loadu_ps(b->m + r);
        __m256 m = _mm256_max_ps(m0, m1), top = _mm256_max_ps(m, _mm256_set1_ps(-FLT_MAX));
        __m256 alpha = exp2_neg(_mm256_sub_ps(m0, top)), beta = exp2_neg(_mm256_sub_ps(m1, top));
        __m256 l = _mm256_mul_ps(_mm256_loadu_ps(b->acc_l + r), alpha);
        _mm256_storeu_ps(b->acc_l + r, _mm256_fmadd_ps(_mm256_loadu_ps(b->l + r), beta, l));
        _mm256_storeu_ps(b->acc_m + r, m);
        _mm256_storeu_ps(b->alpha + r, alpha);
        _mm256_storeu_ps(b->beta + r, beta);
    }
    for (int r = 0; r < b->n_rows; r++) {
        __m256 alpha = _mm256_broadcast_ss(b->alpha + r), beta = _mm256_broadcast_ss(b->beta + r);
        float *acc = b->acc_o + (size_t)r * (size_t)d;
        const float *o = b->o + (size_t)r * (size_t)d;
        for (int i = 0; i < d; i += VEC) {
            __m256 x = _mm256_mul_ps(_mm256_loadu_ps(acc + i), alpha);
            _mm256_storeu_ps(acc + i, _mm256_fmadd_ps(_mm256_loadu_ps(o + i), beta, x));
        }
    }
}

const struct lf_attn_kernel lf_attn_kernel_avx2 = {.name = "avx2",
                                                   .group = LF_ATTN_GROUP,
                                                   .pack_q = pack_q,
                                                   .scores = scores,
                                                   .next_max = next_max,
                                                   .softmax = softmax,
                                                   .output = output,
                                                   .close = close_split,
                                                   .combine = combine};
