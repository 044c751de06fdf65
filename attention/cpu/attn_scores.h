/* Scores of a group of rows with a page of keys (attn_rows.h has the idea). Of a page that the group sees a part of,
 * only the vectors that hold such keys. */
#ifndef LF_ATTENTION_CPU_ATTN_SCORES_H
#define LF_ATTENTION_CPU_ATTN_SCORES_H

#include "attention/cpu/attn_rows.h"

/* What the scores of a group with a page are made of. */
struct scores_args {
    const float *q; /* [n][LF_ATTN_Q_STRIDE], of pairs of bf16 where they are multiplied as they are */
    const float *page, *ahead;
    int d;
    float *s; /* [n][LF_ATTN_TILE] */
};

/* s = q · k for n_vecs vectors of keys from key `at` of the page on. */
LF_KERNEL void scores_strip(int n, int n_vecs, enum pages kind, const struct scores_args *a, int at)
{
    int per_pair = kind == PAGES_BF16_DOT ? 1 : 2;
    struct columns k = {a->page + at, a->ahead ? a->ahead + at : NULL, LF_KV_BLOCK_TOKENS, false};
    vec acc[LF_ATTN_GROUP][STRIP_VECS];
    LF_UNROLL
    for (int r = 0; r < n; r++) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) acc[r][v] = vec_set(0.0f);
    }
    for (int pair = 0; pair < a->d / 2; pair++)
        add_pair(kind, n, n_vecs, acc, a->q + pair * per_pair, LF_ATTN_Q_STRIDE, &k, pair);
    LF_UNROLL
    for (int r = 0; r < n; r++) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) vec_store(a->s + r * LF_ATTN_TILE + at + v * VEC, acc[r][v]);
    }
}

/* s[n rows][keys] = q · k for the vectors that hold keys lo .. hi - 1 of a page, a strip of keys at a time: at the
 * causal edge a group sees but a part of a page. All of it where the page ahead is fetched on the way. */
LF_KERNEL void scores_page(int n, enum pages kind, const float *q, const float *page, const float *ahead, int d,
                           float *s, int lo, int hi)
{
    struct scores_args a = {q, page, ahead, d, s};
    int at = ahead ? 0 : lo / VEC * VEC, end = ahead ? LF_KV_BLOCK_TOKENS : hi;
    for (; at + (STRIP_VECS - 1) * VEC < end; at += STRIP_VECS * VEC) scores_strip(n, STRIP_VECS, kind, &a, at);
    if (STRIP_VECS > 2 && at + 2 * VEC < end)
        scores_strip(n, 3, kind, &a, at);
    else if (STRIP_VECS > 2 && at + VEC < end)
        scores_strip(n, 2, kind, &a, at);
    else if (at < end)
        scores_strip(n, 1, kind, &a, at);
}

#endif
