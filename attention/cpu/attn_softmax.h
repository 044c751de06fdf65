/* What the kernels of all vector instruction sets share: exp2, the online softmax over a tile, the end of a split and
 * the combine. Inside attention/ only, for files compiled for an instruction set that device/cpu/vec.h knows.
 *
 * Rows are taken VEC at a time where a row has one number (maxima, factors) and one at a time where it has a vector of
 * keys or channels. */
#ifndef LF_ATTENTION_CPU_ATTN_SOFTMAX_H
#define LF_ATTENTION_CPU_ATTN_SOFTMAX_H

#include <float.h>
#include <math.h>

#include "attention/cpu/attn_kernel.h"
#include "device/cpu/vec_math.h"

enum { TILE_VECS = LF_ATTN_TILE / VEC, LINE_FLOATS = 16 /* of a cache line */ };

/* 2^x for x <= 0: x = n + f with n = ⌊x⌋, 2^f a polynomial on [0, 1] that is 1 at 0 (so 2^0 is exactly 1), then the
 * exponent. Coefficients: relative minimax under that condition. Degree 5: relative error 1.5e-7 with rounding; degree
 * 4: 3e-6, for probabilities that are rounded to bf16 next. −∞ gives 0. */
LF_KERNEL vec exp2_neg(vec x, int degree)
{
    vec f = vec_fraction(x);
    vec y;
    if (degree == 5) {
        y = vec_set(0.0018671305f);
        y = vec_fma(y, f, vec_set(0.009017029f));
        y = vec_fma(y, f, vec_set(0.055799913f));
        y = vec_fma(y, f, vec_set(0.24016444f));
        y = vec_fma(y, f, vec_set(0.6931513f));
    } else {
        y = vec_set(0.0134266885f);
        y = vec_fma(y, f, vec_set(0.052242465f));
        y = vec_fma(y, f, vec_set(0.24128021f));
        y = vec_fma(y, f, vec_set(0.69304484f));
    }
    y = vec_fma(y, f, vec_set(1.0f));
    return vec_scale2(y, x);
}

/* Starts loads of n cache lines into the second-level cache. */
LF_KERNEL void fetch_ahead(int n_lines, const float *p)
{
    LF_UNROLL
    for (int i = 0; i < n_lines; i++) __builtin_prefetch(p + i * LINE_FLOATS, 0, 2);
}

/* The largest of a row's visible scores, −∞ where there is none; softcap applied to the scores on the way. */
LF_KERNEL float row_max(const struct lf_attn_block *b, const struct lf_attn_tile *t, int r)
{
    float *s = b->s + (size_t)r * LF_ATTN_TILE;
    int lo = t->full ? 0 : t->lo[r], hi = t->full ? LF_ATTN_TILE : t->hi[r];
    if (lo >= hi) return -INFINITY;
    if (b->softcap > 0.0f) {
        vec cap = vec_set(b->softcap), arg = vec_set(b->softcap_arg);
        for (int v = lo / VEC; v * VEC < hi; v++)
            vec_store(s + v * VEC, vec_mul(cap, tanh_lanes(vec_mul(vec_load(s + v * VEC), arg))));
    }
    vec max[4];
    if (lo == 0 && hi == LF_ATTN_TILE) {
        LF_UNROLL
        for (int v = 0; v < 4; v++) max[v] = vec_load(s + v * VEC);
        LF_UNROLL
        for (int v = 4; v < TILE_VECS; v++) max[v % 4] = vec_max(max[v % 4], vec_load(s + v * VEC));
        return vec_largest(vec_max(vec_max(max[0], max[1]), vec_max(max[2], max[3])));
    }
    vec none = vec_set(-INFINITY);
    max[0] = none;
    for (int v = lo / VEC; v * VEC < hi; v++) {
        vec_mask seen = vec_lanes(lo - v * VEC, hi - v * VEC);
        max[0] = vec_max(max[0], vec_select(seen, vec_load(s + v * VEC), none));
    }
    return vec_largest(max[0]);
}

/* Maxima of all rows after this tile (b->m) and what the sums before it are to be multiplied with (b->alpha). */
static void next_max(struct lf_attn_block *b, const struct lf_attn_tile *t)
{
    for (int r = 0; r < b->n_rows; r++) b->alpha[r] = row_max(b, t, r);
    for (int r = 0; r < b->n_rows; r += VEC) {
        vec old = vec_load(b->m + r);
        vec m = vec_max(old, vec_mul(vec_load(b->alpha + r), vec_set(b->log2_scale)));
        vec_store(b->m + r, m);
        /* A row that has seen no key yet keeps −∞; −∞ − −∞ would be NaN, −∞ − a finite number is 2^−∞ = 0. */
        m = vec_max(m, vec_set(-FLT_MAX));
        vec_store(b->alpha + r, exp2_neg(vec_sub(old, m), 5));
    }
}

/* What the scores of row r become P with, and the keys of the tile that it sees. */
struct row_scale {
    int lo, hi;
    vec scale, max;
};

LF_KERNEL struct row_scale row_scale(const struct lf_attn_block *b, const struct lf_attn_tile *t, int r)
{
    return (struct row_scale){.lo = t->full ? 0 : t->lo[r],
                              .hi = t->full ? LF_ATTN_TILE : t->hi[r],
                              .scale = vec_set(b->log2_scale),
                              .max = vec_set(b->m[r])};
}

/* P of VEC keys from key `at` of the tile, 0 for those the row does not see. */
LF_KERNEL vec probabilities(const float *s, int at, const struct row_scale *row, int degree)
{
    if (at >= row->hi) return vec_set(0.0f);
    vec p = exp2_neg(vec_fms(vec_load(s + at), row->scale, row->max), degree);
    if (at >= row->lo && at + VEC <= row->hi) return p;
    return vec_keep(vec_lanes(row->lo - at, row->hi - at), p);
}

static void close_split(struct lf_attn_block *b)
{
    for (int r = 0; r < b->n_rows; r++) b->l[r] = vec_sum(vec_load(b->lanes + (size_t)r * LF_ATTN_LANES));
}

/* Combines the block's split with the splits before it. */
static void combine_split(struct lf_attn_block *b)
{
    size_t d = b->o_stride;
    for (int r = 0; r < b->n_rows; r += VEC) {
        vec m0 = vec_load(b->acc_m + r), m1 = vec_load(b->m + r);
        vec m = vec_max(m0, m1), top = vec_max(m, vec_set(-FLT_MAX));
        vec alpha = exp2_neg(vec_sub(m0, top), 5), beta = exp2_neg(vec_sub(m1, top), 5);
        vec l = vec_mul(vec_load(b->acc_l + r), alpha);
        vec_store(b->acc_l + r, vec_fma(vec_load(b->l + r), beta, l));
        vec_store(b->acc_m + r, m);
        vec_store(b->alpha + r, alpha);
        vec_store(b->beta + r, beta);
    }
    for (int r = 0; r < b->n_rows; r++) {
        vec alpha = vec_set(b->alpha[r]), beta = vec_set(b->beta[r]);
        float *acc = b->acc_o + (size_t)r * d;
        const float *o = b->o + (size_t)r * d;
        for (size_t i = 0; i < d; i += VEC) {
            vec x = vec_mul(vec_load(acc + i), alpha);
            vec_store(acc + i, vec_fma(vec_load(o + i), beta, x));
        }
    }
}

#endif
