/* What the AVX-512 kernels share: exp2, the softmax over a tile, the end of a split and the combine. Inside attention/
 * only, for files compiled with AVX-512 F, BW, DQ and VL.
 *
 * Rows are taken 16 at a time where a row has one number (maxima, factors) and one at a time where it has a vector of
 * keys or channels. */
#ifndef LF_ATTENTION_CPU_ATTN_AVX512_H
#define LF_ATTENTION_CPU_ATTN_AVX512_H

#include <float.h>
#include <immintrin.h>
#include <math.h>

#include "attention/cpu/attn_kernel.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { VEC = 16, TILE_VECS = LF_ATTN_TILE / VEC };

/* 2^x for x <= 0: x = n + f with n = ⌊x⌋, 2^f a polynomial on [0, 1] that is 1 at 0 (so 2^0 is exactly 1), then the
 * exponent. Coefficients: relative minimax under that condition. Degree 5: relative error 1.5e-7 with rounding; degree
 * 4: 3e-6, for probabilities that are rounded to bf16 next. −∞ gives 0. */
INLINE __m512 exp2_neg(__m512 x, int degree)
{
    __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 y;
    if (degree == 5) {
        y = _mm512_set1_ps(0.0018671305f);
        y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.009017029f));
        y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.055799913f));
        y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.24016444f));
        y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.6931513f));
    } else {
        y = _mm512_set1_ps(0.0134266885f);
        y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.052242465f));
        y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.24128021f));
        y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.69304484f));
    }
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(y, x); /* scalef takes ⌊x⌋ */
}

/* tanh |x| = −e / (2 + e) with e = 2^t − 1, t = −2·log2(e)·|x|; e without cancellation near 0: t = n + f with n the
 * nearest integer, 2^f − 1 = f · polynomial (relative minimax on [−½, ½], 1e-8), e = (2^f − 1)·2^n + (2^n − 1). */
INLINE __m512 tanh16(__m512 x)
{
    __m512 t = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(-2.88539008177792681472f));
    __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 f = _mm512_sub_ps(t, n), y = _mm512_set1_ps(0.00015403512f);
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.0013390735f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.009618238f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.055503573f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.24022649f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.6931472f));
    __m512 two_n = _mm512_scalef_ps(_mm512_set1_ps(1.0f), n);
    __m512 e = _mm512_fmadd_ps(_mm512_mul_ps(y, f), two_n, _mm512_sub_ps(two_n, _mm512_set1_ps(1.0f)));
    y = _mm512_div_ps(e, _mm512_add_ps(_mm512_set1_ps(2.0f), e)); /* −tanh |x| */
    __m512i sign = _mm512_andnot_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN));
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(y), sign));
}

/* Starts loads of n cache lines into the second-level cache. */
INLINE void fetch_ahead(int n_lines, const float *p)
{
    UNROLL for (int i = 0; i < n_lines; i++) _mm_prefetch((const char *)(p + i * VEC), _MM_HINT_T1);
}

/* Keys of the vector at key `at` that lie in lo <= j < hi. */
INLINE __mmask16 keys_mask(int at, int lo, int hi)
{
    int from = lo - at < 0 ? 0 : lo - at, to = hi - at > VEC ? VEC : hi - at;
    if (from >= to) return 0;
    return (__mmask16)((0xffffu >> (VEC - to)) & (0xffffu << from));
}

/* The largest of a row's visible scores, −∞ where there is none; softcap applied to the scores on the way. */
INLINE float row_max(const struct lf_attn_block *b, const struct lf_attn_tile *t, int r)
{
    float *s = b->s + (size_t)r * LF_ATTN_TILE;
    int lo = t->full ? 0 : t->lo[r], hi = t->full ? LF_ATTN_TILE : t->hi[r];
    if (lo >= hi) return -INFINITY;
    if (b->softcap > 0.0f) {
        __m512 cap = _mm512_set1_ps(b->softcap), arg = _mm512_set1_ps(b->softcap_arg);
        for (int v = lo / VEC; v * VEC < hi; v++) {
            __m512 x = _mm512_load_ps(s + v * VEC);
            _mm512_store_ps(s + v * VEC, _mm512_mul_ps(cap, tanh16(_mm512_mul_ps(x, arg))));
        }
    }
    __m512 max[4];
    if (lo == 0 && hi == LF_ATTN_TILE) {
        UNROLL for (int v = 0; v < 4; v++) max[v] = _mm512_load_ps(s + v * VEC);
        for (int v = 4; v < TILE_VECS; v++) max[v % 4] = _mm512_max_ps(max[v % 4], _mm512_load_ps(s + v * VEC));
        max[0] = _mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3]));
        return _mm512_reduce_max_ps(max[0]);
    }
    __m512 none = _mm512_set1_ps(-INFINITY);
    max[0] = none;
    for (int v = lo / VEC; v * VEC < hi; v++) {
        __m512 x = _mm512_mask_load_ps(none, keys_mask(v * VEC, lo, hi), s + v * VEC);
        max[0] = _mm512_max_ps(max[0], x);
    }
    return _mm512_reduce_max_ps(max[0]);
}

/* Maxima of all rows after this tile (b->m) and what the sums before it are to be multiplied with (b->alpha). */
static void next_max(struct lf_attn_block *b, const struct lf_attn_tile *t)
{
    for (int r = 0; r < b->n_rows; r++) b->alpha[r] = row_max(b, t, r);
    for (int r = 0; r < b->n_rows; r += VEC) {
        __m512 old = _mm512_load_ps(b->m + r);
        __m512 m = _mm512_max_ps(old, _mm512_mul_ps(_mm512_load_ps(b->alpha + r), _mm512_set1_ps(b->log2_scale)));
        _mm512_store_ps(b->m + r, m);
        /* A row that has seen no key yet keeps −∞; −∞ − −∞ would be NaN, −∞ − a finite number is 2^−∞ = 0. */
        m = _mm512_max_ps(m, _mm512_set1_ps(-FLT_MAX));
        _mm512_store_ps(b->alpha + r, exp2_neg(_mm512_sub_ps(old, m), 5));
    }
}

/* P of 16 keys, 0 where mask has none. */
INLINE __m512 probabilities(const float *s, __mmask16 mask, __m512 scale, __m512 m, int degree)
{
    __m512 x = _mm512_fmsub_ps(_mm512_load_ps(s), scale, m);
    return _mm512_maskz_mov_ps(mask, exp2_neg(x, degree));
}

/* A group's o = o · alpha + Σ p · v over keys lo <= j < hi, channels offset .. of n_vecs vectors. */
struct output_args {
    const struct lf_attn_tile *t;
    const float *p; /* [n][LF_ATTN_TILE] */
    float *o;       /* [n][d] */
    const float *alpha;
    int d, offset;
    int lo, hi;
    bool fetch; /* the pages that come next */
};

/* All channels of a group in chunks of 2 to 4 vectors, as equal as they come: 80 channels are 3 + 2. */
INLINE void output_chunks(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi,
                          bool fetch, void (*chunk)(int n, int n_vecs, const struct output_args *a))
{
    int n_vecs = b->head_dim / VEC, n_chunks = (n_vecs + 3) / 4;
    struct output_args a = {.t = t,
                            .p = b->s + (size_t)row0 * LF_ATTN_TILE,
                            .o = b->o + (size_t)row0 * (size_t)b->head_dim,
                            .alpha = b->alpha + row0,
                            .d = b->head_dim,
                            .lo = lo,
                            .hi = hi,
                            .fetch = fetch};
    for (int i = 0; i < n_chunks; i++) {
        int from = n_vecs * i / n_chunks, to = n_vecs * (i + 1) / n_chunks;
        a.offset = from * VEC;
        chunk(n, to - from, &a);
    }
}

/* One switch over (rows, vectors) makes a copy of `output` for each, every count a constant. */
#define OUTPUT_CASES(output, rows, ...)                                                                                \
    case (rows)*8 + 2:                                                                                                 \
        output(rows, 2, __VA_ARGS__);                                                                                  \
        return;                                                                                                        \
    case (rows)*8 + 3:                                                                                                 \
        output(rows, 3, __VA_ARGS__);                                                                                  \
        return;                                                                                                        \
    case (rows)*8 + 4:                                                                                                 \
        output(rows, 4, __VA_ARGS__);                                                                                  \
        return;
#define OUTPUT_SWITCH(output, n, n_vecs, ...)                                                                          \
    switch ((n)*8 + (n_vecs)) {                                                                                        \
        OUTPUT_CASES(output, 1, __VA_ARGS__)                                                                           \
        OUTPUT_CASES(output, 2, __VA_ARGS__)                                                                           \
        OUTPUT_CASES(output, 3, __VA_ARGS__)                                                                           \
        OUTPUT_CASES(output, 4, __VA_ARGS__)                                                                           \
        OUTPUT_CASES(output, 5, __VA_ARGS__)                                                                           \
        OUTPUT_CASES(output, 6, __VA_ARGS__)                                                                           \
    }

/* The same for the rows of a scores function. */
#define SCORES_SWITCH(scores, n, ...)                                                                                  \
    switch (n) {                                                                                                       \
    case 1:                                                                                                            \
        scores(1, __VA_ARGS__);                                                                                        \
        return;                                                                                                        \
    case 2:                                                                                                            \
        scores(2, __VA_ARGS__);                                                                                        \
        return;                                                                                                        \
    case 3:                                                                                                            \
        scores(3, __VA_ARGS__);                                                                                        \
        return;                                                                                                        \
    case 4:                                                                                                            \
        scores(4, __VA_ARGS__);                                                                                        \
        return;                                                                                                        \
    case 5:                                                                                                            \
        scores(5, __VA_ARGS__);                                                                                        \
        return;                                                                                                        \
    case 6:                                                                                                            \
        scores(6, __VA_ARGS__);                                                                                        \
        return;                                                                                                        \
    }

/* Combines the block's split with the splits before it. */
static void combine_split(struct lf_attn_block *b)
{
    int d = b->head_dim;
    for (int r = 0; r < b->n_rows; r += VEC) {
        __m512 m0 = _mm512_load_ps(b->acc_m + r), m1 = _mm512_load_ps(b->m + r);
        __m512 m = _mm512_max_ps(m0, m1), top = _mm512_max_ps(m, _mm512_set1_ps(-FLT_MAX));
        __m512 alpha = exp2_neg(_mm512_sub_ps(m0, top), 5), beta = exp2_neg(_mm512_sub_ps(m1, top), 5);
        __m512 l = _mm512_mul_ps(_mm512_load_ps(b->acc_l + r), alpha);
        _mm512_store_ps(b->acc_l + r, _mm512_fmadd_ps(_mm512_load_ps(b->l + r), beta, l));
        _mm512_store_ps(b->acc_m + r, m);
        _mm512_store_ps(b->alpha + r, alpha);
        _mm512_store_ps(b->beta + r, beta);
    }
    for (int r = 0; r < b->n_rows; r++) {
        __m512 alpha = _mm512_set1_ps(b->alpha[r]), beta = _mm512_set1_ps(b->beta[r]);
        float *acc = b->acc_o + (size_t)r * (size_t)d;
        const float *o = b->o + (size_t)r * (size_t)d;
        for (int i = 0; i < d; i += VEC) {
            __m512 x = _mm512_mul_ps(_mm512_load_ps(acc + i), alpha);
            _mm512_store_ps(acc + i, _mm512_fmadd_ps(_mm512_load_ps(o + i), beta, x));
        }
    }
}

static void close_split(struct lf_attn_block *b)
{
    for (int r = 0; r < b->n_rows; r++)
        b->l[r] = _mm512_reduce_add_ps(_mm512_load_ps(b->lanes + (size_t)r * LF_ATTN_LANES));
}

#endif
