/* Attention of which each GPU brings a part, and what they are to make of it (lf_comm_lse_combine). */
#ifndef LF_TESTS_GPU_COMM_COMBINE_H
#define LF_TESTS_GPU_COMM_COMBINE_H

#include <math.h>

#include "core/dtype.h"
#include "tests/gpu/comm_rig.h"

/* Of attention that has seen nothing of a head on some ranks, or on none: what those bring is not to be looked at. Now
 * and then the last rank has seen nothing at all. */
static inline float lse_of(const struct rank *r, int rank, int message, size_t head)
{
    uint64_t bits = lf_random64(31 + (uint64_t)rank, (uint64_t)message << 32 | head);
    bool sees_none = message % 5 == 3 && rank == r->n_ranks - 1;
    return sees_none || bits % 3 == 0 || head % 11 == 5 ? -INFINITY : (float)(bits % 1000) / 20 - 25;
}

static inline uint16_t part_of(int rank, int message, size_t i)
{
    float x = brought(rank, message, i);
    uint16_t rounded;
    lf_from_f32(&rounded, LF_BF16, &x, 1);
    return rounded;
}

struct combine {
    int message, n_rows, n_heads, dim;
    uint16_t *x, *all, *own;
    float *lse;
    struct lf_lse_combine_params p; /* of all rows to all */
};

static inline size_t n_heads_of(const struct combine *c)
{
    return (size_t)c->n_rows * (size_t)c->n_heads;
}

/* x, then lse, in b->x; what all get, then what this rank gets, in b->y. */
static inline struct combine make_combine(const struct buffers *b, int message, int n_rows, int n_heads, int dim)
{
    struct combine c = {.message = message, .n_rows = n_rows, .n_heads = n_heads, .dim = dim};
    size_t n = n_heads_of(&c) * (size_t)dim;
    c.x = malloc(3 * (n + 1) * sizeof(*c.x));
    c.lse = malloc((n_heads_of(&c) + 1) * sizeof(*c.lse));
    assert_true(c.x && c.lse);
    c.all = c.x + n;
    c.own = c.all + n;
    c.p = (struct lf_lse_combine_params){.out = b->y.ptr,
                                         .x = b->x.ptr,
                                         .lse = (float *)(void *)((uint16_t *)b->x.ptr + n),
                                         .dtype = LF_BF16,
                                         .n_rows = n_rows,
                                         .n_heads = n_heads,
                                         .dim = dim};
    return c;
}

static inline void end_combine(struct combine *c)
{
    free(c->x);
    free(c->lse);
}

static inline void bring_parts(const struct rank *r, struct combine *c, int message)
{
    size_t dim = (size_t)c->dim;
    c->message = message;
    for (size_t head = 0; head < n_heads_of(c); head++) {
        c->lse[head] = lse_of(r, r->rank, message, head);
        for (size_t i = head * dim; i < (head + 1) * dim; i++)
            c->x[i] = c->lse[head] == -INFINITY ? 0x7fc0 /* NaN */ : part_of(r->rank, message, i);
    }
    lf_upload(r->dev, (void *)(uintptr_t)c->p.x, c->x, n_heads_of(c) * dim * sizeof(*c->x));
    lf_upload(r->dev, (void *)(uintptr_t)c->p.lse, c->lse, n_heads_of(c) * sizeof(*c->lse));
}

/* By the formula in double: bf16 may round to either neighbour of it, floats before that within a hundred thousandth of
 * the largest part. */
static inline void expect_channel(const struct rank *r, const struct combine *c, size_t head, size_t i)
{
    double most = -INFINITY, sum = 0, out = 0, largest = 0;
    for (int k = 0; k < r->n_ranks; k++) most = fmax(most, (double)lse_of(r, k, c->message, head));
    for (int k = 0; k < r->n_ranks; k++) {
        double lse = (double)lse_of(r, k, c->message, head), x = (double)lf_f32_from_bf16(part_of(k, c->message, i));
        if (isinf(lse)) continue;
        sum += exp(lse - most);
        out += exp(lse - most) * x;
        largest = fmax(largest, fabs(x));
    }
    double expected = sum > 0 ? out / sum : 0, got = (double)lf_f32_from_bf16(c->all[i]);
    if (!(fabs(got - expected) <= 0x1.01p-8 * fabs(expected) + 1e-5 * largest))
        fail_msg("rank %d of %d, message %d of %d rows: channel %zu is %g, expected %g", r->rank, r->n_ranks,
                 c->message, c->n_rows, i, got, expected);
}

/* Where a rank's rows begin: even, or of every other rank none. */
static inline void set_first(const struct rank *r, const struct combine *c, int first[MOST_RANKS + 1])
{
    for (int k = 0; k <= r->n_ranks; k++) {
        int share = c->message % 2 || k == r->n_ranks ? k : k / 2 * 2;
        first[k] = (int)((int64_t)c->n_rows * share / r->n_ranks);
    }
}

/* What all get is right, and what each gets of its own has the same bits. */
static inline void expect_combined(const struct rank *r, struct combine *c, const void *own, const int *first)
{
    size_t n = n_heads_of(c) * (size_t)c->dim, row = (size_t)c->n_heads * (size_t)c->dim;
    size_t begin = (size_t)first[r->rank] * row, end = (size_t)first[r->rank + 1] * row;
    lf_download(r->dev, c->all, c->p.out, n * sizeof(*c->all));
    lf_download(r->dev, c->own, own, (end - begin) * sizeof(*c->own));
    for (size_t i = 0; i < n; i++) expect_channel(r, c, i / (size_t)c->dim, i);
    if (memcmp(c->own, c->all + begin, (end - begin) * sizeof(*c->own)) != 0)
        fail_msg("rank %d of %d, message %d of %d rows: its own rows have other bits", r->rank, r->n_ranks, c->message,
                 c->n_rows);
}

static inline void check_combine(struct rank *r, const struct buffers *b, int message, int n_rows, int n_heads, int dim)
{
    int first[MOST_RANKS + 1];
    struct combine c = make_combine(b, message, n_rows, n_heads, dim);
    struct lf_lse_combine_params own = c.p;
    own.first = first;
    own.out = (uint16_t *)b->y.ptr + n_heads_of(&c) * (size_t)dim;
    bring_parts(r, &c, message);
    set_first(r, &c, first);
    lf_comm_lse_combine(r->comm, &c.p);
    lf_comm_lse_combine(r->comm, &own);
    expect_combined(r, &c, own.out, first);
    end_combine(&c);
}

#endif
