/* What a collective must leave is computed by each rank alone, in plain C, from what it knows that the others bring. */
#ifndef LF_TESTS_UNIT_DEVICE_COMM_CHECKS_H
#define LF_TESTS_UNIT_DEVICE_COMM_CHECKS_H

#include "tests/unit/device/comm_ranks.h"

/* A number that everybody knows: of element i that a rank brings to message `message`. Sums of such round. */
static inline float brought(int rank, int message, size_t i)
{
    uint64_t bits = lf_random64((uint64_t)message << 8 | (uint64_t)rank, i);
    return (float)((double)(int64_t)bits * 0x1p-63) * (float)(1 << (bits % 12));
}

/* None, one, and some on both sides of a slot's and a piece's size. */
static inline size_t size_of(int message)
{
    uint64_t random = lf_random64(99, (uint64_t)message);
    return message % 7 == 0 ? (size_t)(message % 3) : (size_t)(random % (message % 3 == 0 ? MOST_FLOATS : 3000));
}

static inline void fill(float *x, int rank, int message, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = brought(rank, message, i);
}

static inline void check_all_reduce(struct rank *r, int message, float *x, float *y)
{
    size_t n = size_of(message);
    bool in_place = message % 2 == 0, has_residual = message % 3 == 1;
    fill(x, r->rank, message, n);
    for (size_t i = 0; i < n; i++) y[i] = brought(MOST_RANKS, message, i);
    struct lf_all_reduce_params p = {.y = in_place ? x : y, .x = x, .residual = has_residual ? y : NULL, .n = n};
    lf_comm_all_reduce(r->comm, &p);
    for (size_t i = 0; i < n; i++) {
        float sum = brought(0, message, i);
        for (int k = 1; k < r->n_ranks; k++) sum += brought(k, message, i);
        if (has_residual) sum = brought(MOST_RANKS, message, i) + sum;
        if (memcmp(&p.y[i], &sum, sizeof(sum)) != 0)
            fail_msg("%d ranks, %zu floats: element %zu is %a, expected %a", r->n_ranks, n, i, (double)p.y[i],
                     (double)sum);
    }
}

/* Columns of ranks differ in width, and one may have none. */
static inline void check_all_gather(struct rank *r, int message, float *x, float *y)
{
    size_t first[MOST_RANKS + 1] = {0}, n_rows = 1 + (size_t)message % 5, n_columns = size_of(message) / 8, widths[8];
    for (int k = 0; k < r->n_ranks; k++) {
        int share = (message % 3 == 0 ? r->n_ranks - 1 - k : k) + message % 2; /* the first or the last has most */
        widths[k] = n_columns * (size_t)share / (size_t)r->n_ranks;
        first[k + 1] = first[k] + widths[k] * sizeof(float);
    }
    fill(x, r->rank, message, n_rows * widths[r->rank]);
    size_t n_all = first[r->n_ranks] / sizeof(float);
    struct lf_all_gather_params p = {.out = y, .x = x, .first = first, .n_rows = (int)n_rows};
    lf_comm_all_gather(r->comm, &p);
    for (size_t row = 0; row < n_rows; row++)
        for (int k = 0; k < r->n_ranks; k++)
            for (size_t i = 0; i < widths[k]; i++)
                assert_true(y[row * n_all + first[k] / sizeof(float) + i] == brought(k, message, row * widths[k] + i));
}

/* Heads of rows of which some ranks, or all, have seen no key: what they bring is not to be looked at. */
static inline float lse_of(int rank, int message, size_t head)
{
    uint64_t bits = lf_random64(31 + (uint64_t)rank, (uint64_t)message << 32 | head);
    return bits % 3 == 0 || head % 11 == 5 ? -INFINITY : (float)(bits % 1000) / 20 - 25;
}

static inline float part_of(int rank, int message, size_t head, size_t i)
{
    return lse_of(rank, message, head) == -INFINITY ? NAN : brought(rank, message, head * 1000 + i) / 1000;
}

static inline void expect_combined(const struct rank *r, int message, size_t head, size_t i, float got)
{
    double most = -INFINITY, sum = 0, out = 0;
    for (int k = 0; k < r->n_ranks; k++) most = fmax(most, (double)lse_of(k, message, head));
    for (int k = 0; k < r->n_ranks; k++) {
        if (lse_of(k, message, head) == -INFINITY) continue;
        double weight = exp((double)lse_of(k, message, head) - most);
        sum += weight;
        out += weight * (double)part_of(k, message, head, i);
    }
    double expected = sum > 0 ? out / sum : 0;
    if (!(fabs((double)got - expected) <= 1e-6 * LF_MAX(fabs(expected), 1)))
        fail_msg("message %d, head %zu, channel %zu: %g, expected %g", message, head, i, (double)got, expected);
}

/* Each rank's rows, of which it may get none, have the bits that they have where each gets all. */
static inline void check_lse_combine(struct rank *r, int message, float *x, float *y)
{
    int n_heads = 1 + message % 4, dim = 1 + message % 130, n_rows = (int)(lf_random64(98, (uint64_t)message) % 120);
    int first[MOST_RANKS + 1] = {0};
    size_t n = (size_t)n_rows * (size_t)n_heads, width = (size_t)dim;
    for (int k = 1; k < r->n_ranks; k++) first[k] = n_rows * (message % 2 ? k : k / 2 * 2) / r->n_ranks;
    first[r->n_ranks] = n_rows;
    float *lse = malloc((n + 1) * sizeof(*lse)), *own = malloc((n * width + 1) * sizeof(*own));
    assert_true(lse && own && n * width <= MOST_FLOATS);
    for (size_t head = 0; head < n; head++) {
        lse[head] = lse_of(r->rank, message, head);
        for (size_t i = 0; i < width; i++) x[head * width + i] = part_of(r->rank, message, head, i);
    }
    struct lf_lse_combine_params p = {.out = y, .x = x, .lse = lse, .n_rows = n_rows, .n_heads = n_heads, .dim = dim};
    lf_comm_lse_combine(r->comm, &p);
    for (size_t head = 0; head < n; head++)
        for (size_t i = 0; i < width; i++) expect_combined(r, message, head, i, y[head * width + i]);
    p.out = own;
    p.first = first;
    lf_comm_lse_combine(r->comm, &p);
    size_t begin = (size_t)first[r->rank] * (size_t)n_heads * width,
           end = (size_t)first[r->rank + 1] * (size_t)n_heads * width;
    assert_memory_equal(own, y + begin, (end - begin) * sizeof(float));
    free(lse);
    free(own);
}

#endif
