/* How a model is divided over ranks (device/comm.h): which part of what is one rank's. Pure functions. */
#ifndef LF_MODEL_SPLIT_H
#define LF_MODEL_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "device/delta.h"

/* One rank of so many. Zeroed: there is one, and it has everything. A model is divided along two axes. Of weights a
 * rank has the part that is rank's of n_ranks; of a sequence's keys and values, and of a step's tokens, that of cp_rank
 * of n_cp. */
struct lf_split {
    int rank, n_ranks; /* of weights */
    int cp_rank, n_cp; /* of contexts */
    int rows_least;    /* of a step whose rows are divided each rank has so many (device.h); 0: LF_SPLIT_ROWS_LEAST */
};

static inline int lf_split_n_ranks(const struct lf_split *s)
{
    return s->n_ranks > 1 ? s->n_ranks : 1;
}

static inline int lf_split_n_cp(const struct lf_split *s)
{
    return s->n_cp > 1 ? s->n_cp : 1;
}

/* Ranks of both axes together, and which of them it is: those that share a part of the contexts stand side by side. */
static inline int lf_split_world(const struct lf_split *s)
{
    return lf_split_n_ranks(s) * lf_split_n_cp(s);
}
static inline int lf_split_world_rank(const struct lf_split *s)
{
    return s->cp_rank * lf_split_n_ranks(s) + s->rank;
}

/* Whether the rows of a step of so many tokens are divided over the ranks of a context, each of which has some of them
 * in a row then (lf_split_first). Of few tokens each has all rows: weights are read for one as for another, and a
 * gather costs more than a share of so few saves. Decided by the tokens alone, so all ranks agree. */
enum { LF_SPLIT_ROWS_LEAST = 8 };
static inline int lf_split_rows_least(const struct lf_split *s)
{
    return s->rows_least > 0 ? s->rows_least : LF_SPLIT_ROWS_LEAST;
}
static inline bool lf_split_divides(int n_tokens, const struct lf_split *s)
{
    return lf_split_n_cp(s) > 1 && n_tokens >= lf_split_rows_least(s) * lf_split_n_cp(s);
}

/* Of n things that are cut anywhere, where the part of a rank begins; that of rank n_ranks is n. No part is longer than
 * that of rank 0, and none is shorter by more than one. */
static inline int lf_split_first(int n, int rank, int n_ranks)
{
    return (int)(((int64_t)n * rank + n_ranks - 1) / n_ranks);
}

/* The rows of a step's tokens that a rank has: the first, and how many. */
static inline int lf_split_first_row(int n_tokens, const struct lf_split *s)
{
    return lf_split_divides(n_tokens, s) ? lf_split_first(n_tokens, s->cp_rank, s->n_cp) : 0;
}
static inline int lf_split_n_rows(int n_tokens, const struct lf_split *s)
{
    if (!lf_split_divides(n_tokens, s)) return n_tokens;
    return lf_split_first(n_tokens, s->cp_rank + 1, s->n_cp) - lf_split_first(n_tokens, s->cp_rank, s->n_cp);
}

/* The most of any rank, in steps of up to so many tokens. */
static inline int lf_split_most_rows(int n_tokens, const struct lf_split *s)
{
    if (!lf_split_divides(n_tokens, s)) return n_tokens;
    int undivided = lf_split_rows_least(s) * s->n_cp - 1, divided = lf_split_first(n_tokens, 1, s->n_cp);
    return undivided > divided ? undivided : divided;
}

/* Heads are divided evenly. Where there are fewer than ranks, each is that of several ranks, as many for each: KV heads
 * whose queries are divided. */
static inline bool lf_split_heads_fit(int n_heads, int n_ranks)
{
    return n_heads % n_ranks == 0 || n_ranks % n_heads == 0;
}

/* How many a rank has. */
static inline int lf_split_n_heads(int n_heads, const struct lf_split *s)
{
    int n_ranks = lf_split_n_ranks(s);
    return n_heads > n_ranks ? n_heads / n_ranks : 1;
}

/* The first of them. */
static inline int lf_split_first_head(int n_heads, const struct lf_split *s)
{
    return (int)((int64_t)n_heads * s->rank / lf_split_n_ranks(s));
}

/* Of a gated delta net its value heads, and the key heads that go with them. */
static inline struct lf_delta_shape lf_split_delta(const struct lf_delta_shape *d, const struct lf_split *s)
{
    struct lf_delta_shape of_rank = *d;
    of_rank.n_k_heads /= lf_split_n_ranks(s);
    of_rank.n_v_heads /= lf_split_n_ranks(s);
    return of_rank;
}

#endif
