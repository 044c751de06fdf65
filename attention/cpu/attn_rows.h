/* Scores and output of a group of rows by FMAs or products of bf16 pairs: the two matrix products of attention.
 *
 * K and V are walked two rows of a page at a time, two channels of K or two keys of V, which lie side by side where the
 * page is bf16. Each row of a page is loaded once for all query rows of the group, and each of their factors (a channel
 * of q, a P) is broadcast to it:
 *
 *     scores:  acc[6 rows][STRIP_VECS vectors of keys]      += q[row][channel] · k[channel][keys]
 *     output:  acc[6 rows][up to STRIP_VECS of channels]    += p[row][key] · v[key][channels]
 *
 * STRIP_VECS fills the registers: 6 × 4 accumulators, 4 loads, a broadcast in 32, where all 64 keys of a page are one
 * strip of AVX-512; 6 × 2 accumulators in 16. What bounds it is the FMA unit. Fewer rows at the end of a block are the
 * same code with fewer accumulators. */
#ifndef LF_ATTENTION_CPU_ATTN_ROWS_H
#define LF_ATTENTION_CPU_ATTN_ROWS_H

#include "attention/cpu/attn_softmax.h"

enum { STRIP_VECS = VEC_REGS == 32 ? 4 : 2 };

/* How two rows of a page lie and are multiplied. */
enum pages {
    PAGES_F32,      /* one behind the other */
    PAGES_BF16,     /* a row of pairs, widened in registers */
    PAGES_BF16_DOT, /* a row of pairs, multiplied as they are; the factors are pairs of bf16 too */
};

/* Columns of a page's rows, width floats (or pairs) from one row to the next, and the same of the page that is to be
 * prefetched meanwhile, or NULL. half: of the only vector the first half are columns, behind which a page may end. */
struct columns {
    const float *page, *ahead;
    size_t width;
    bool half;
};

/* n_vecs vectors of the first or the second row of a pair. */
LF_KERNEL void load_row(enum pages kind, int n_vecs, const struct columns *c, int pair, bool second, vec *x)
{
    size_t at = (size_t)pair * (kind == PAGES_F32 ? 2 * c->width : c->width);
    if (kind == PAGES_F32 && second) at += c->width;
    if (c->ahead && (kind == PAGES_F32 || !second))
        fetch_ahead((n_vecs * VEC + LINE_FLOATS - 1) / LINE_FLOATS, c->ahead + at);
    LF_UNROLL
    for (int v = 0; v < n_vecs; v++) {
        const float *from = c->page + at + v * VEC;
        x[v] = c->half ? vec_load_first(from, VEC / 2) : vec_loadu(from);
        if (kind == PAGES_BF16) x[v] = second ? vec_widen_odd(x[v]) : vec_widen_even(x[v]);
    }
}

/* acc[r] += factor[r] · x for n rows whose factors are stride floats apart. */
LF_KERNEL void add_row(enum pages kind, int n, int n_vecs, vec (*acc)[STRIP_VECS], const float *factor, int stride,
                       const vec *x)
{
    LF_UNROLL
    for (int r = 0; r < n; r++) {
        vec f = vec_set(factor[r * stride]);
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) {
#ifdef VEC_DOT_BF16
            if (kind == PAGES_BF16_DOT) {
                acc[r][v] = vec_dot_bf16(acc[r][v], f, x[v]);
                continue;
            }
#endif
            (void)kind;
            acc[r][v] = vec_fma(f, x[v], acc[r][v]);
        }
    }
}

/* acc[r] += factors[r] · both rows of a pair. A row's factors are two floats, or two bf16 in the place of one. */
LF_KERNEL void add_pair(enum pages kind, int n, int n_vecs, vec (*acc)[STRIP_VECS], const float *factors, int stride,
                        const struct columns *c, int pair)
{
    vec x[STRIP_VECS];
    load_row(kind, n_vecs, c, pair, false, x);
    add_row(kind, n, n_vecs, acc, factors, stride, x);
    if (kind == PAGES_BF16_DOT) return;
    load_row(kind, n_vecs, c, pair, true, x);
    add_row(kind, n, n_vecs, acc, factors + 1, stride, x);
}

/* acc[r] += factors[r] · the first row of a pair. The second may hold anything. */
LF_KERNEL void add_first(enum pages kind, int n, int n_vecs, vec (*acc)[STRIP_VECS], const float *factors, int stride,
                         const struct columns *c, int pair)
{
    vec x[STRIP_VECS];
    load_row(kind, n_vecs, c, pair, false, x);
#ifdef VEC_DOT_BF16
    LF_UNROLL
    for (int v = 0; v < n_vecs; v++) x[v] = kind == PAGES_BF16_DOT ? vec_first_halves(x[v]) : x[v];
#endif
    add_row(kind, n, n_vecs, acc, factors, stride, x);
}

/* A group's o = o · alpha + Σ p · v over keys lo <= j < hi, from channel `offset` on. */
struct output_args {
    const struct lf_attn_tile *t;
    const float *p; /* [n][LF_ATTN_TILE], of pairs of bf16 in the first half of each row */
    float *o;       /* [n][o_stride] */
    const float *alpha;
    int d, offset;
    size_t o_stride;
    int lo, hi;
    bool fetch; /* the pages that come next */
};

LF_KERNEL void output_strip(int n, int n_vecs, bool half, enum pages kind, const struct output_args *a)
{
    vec acc[LF_ATTN_GROUP][STRIP_VECS];
    int per_pair = kind == PAGES_BF16_DOT ? 1 : 2;
    size_t d = (size_t)a->d, o_stride = a->o_stride;
    float *o = a->o + a->offset;
    LF_UNROLL
    for (int r = 0; r < n; r++) {
        vec alpha = vec_set(a->alpha[r]);
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) acc[r][v] = vec_mul(alpha, vec_load(o + (size_t)r * o_stride + v * VEC));
    }
    for (int page = a->lo / LF_KV_BLOCK_TOKENS; page * LF_KV_BLOCK_TOKENS < a->hi; page++) {
        int first = page * LF_KV_BLOCK_TOKENS;
        int pair = (a->lo > first ? a->lo - first : 0) / 2; /* P of the key before an odd first one is 0 */
        int end = a->hi - first < LF_KV_BLOCK_TOKENS ? a->hi - first : LF_KV_BLOCK_TOKENS;
        const float *p = a->p + first / 2 * per_pair, *ahead = a->fetch ? a->t->v_ahead[page] : NULL;
        struct columns v = {(const float *)a->t->v[page] + a->offset, ahead ? ahead + a->offset : NULL, d, half};
        for (; pair < end / 2; pair++) add_pair(kind, n, n_vecs, acc, p + pair * per_pair, LF_ATTN_TILE, &v, pair);
        if (end % 2) add_first(kind, n, n_vecs, acc, p + pair * per_pair, LF_ATTN_TILE, &v, pair);
    }
    LF_UNROLL
    for (int r = 0; r < n; r++) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) vec_store(o + (size_t)r * o_stride + v * VEC, acc[r][v]);
    }
}

/* n_vecs vectors, or half a one where it is 0. */
LF_KERNEL void output_vecs(int n, int n_vecs, enum pages kind, const struct output_args *a)
{
    if ((int)VEC > (int)LF_HEAD_DIM_STEP && n_vecs == 0)
        output_strip(n, 1, true, kind, a);
    else if (n_vecs == 1)
        output_strip(n, 1, false, kind, a);
    else if (STRIP_VECS == 2 || n_vecs == 2)
        output_strip(n, 2, false, kind, a);
    else if (n_vecs == 3)
        output_strip(n, 3, false, kind, a);
    else
        output_strip(n, 4, false, kind, a);
}

/* All channels of a group in strips of up to STRIP_VECS vectors, as equal as they come: 80 channels of AVX-512 are
 * 2 + 3 vectors. An odd number of 8 ends in half a vector of AVX-512. strip(n, n_vecs, args) is output_vecs for one
 * kind of pages. */
LF_KERNEL void output_rows(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi,
                           bool fetch, void (*strip)(int n, int n_vecs, const struct output_args *a))
{
    int n_vecs = b->head_dim / VEC, n_strips = (n_vecs + STRIP_VECS - 1) / STRIP_VECS;
    struct output_args a = {.t = t,
                            .p = b->s + (size_t)row0 * LF_ATTN_TILE,
                            .o = b->o + (size_t)row0 * b->o_stride,
                            .alpha = b->alpha + row0,
                            .d = b->head_dim,
                            .o_stride = b->o_stride,
                            .lo = lo,
                            .hi = hi,
                            .fetch = fetch};
    for (int i = 0; i < n_strips; i++) {
        int from = n_vecs * i / n_strips, to = n_vecs * (i + 1) / n_strips;
        a.offset = from * VEC;
        strip(n, to - from, &a);
    }
    a.offset = n_vecs * VEC;
    if (a.offset < b->head_dim) strip(n, 0, &a);
}

#endif
