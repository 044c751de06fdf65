/* Ranks that are GPUs, a thread each, and numbers that they bring to one another, which everybody knows. */
#ifndef LF_TESTS_GPU_COMM_RIG_H
#define LF_TESTS_GPU_COMM_RIG_H

#include "tests/support/test.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/mix.h"
#include "device/comm.h"
#include "device/device.h"

enum { MOST_RANKS = 8, PATIENCE_MS = 20 * 1000 };

struct rank {
    struct lf_comm *comm;
    struct lf_device *dev;
    int rank, n_ranks;
    void *ctx;
    void (*run)(struct rank *rank);
    pthread_t thread;
    struct lf_err err; /* after run */
    enum lf_status status;
};

static int n_gpus; /* of this machine; main counts them */

static inline enum lf_status open_gpu(struct lf_device **dev, int rank, int n_ranks, struct lf_err *err)
{
    char name[16];
    struct lf_device_opts opts = {.name = name, .n_ranks = n_ranks, .max_isa = -1};
    (void)snprintf(name, sizeof(name), "cuda:%d", rank);
    return lf_device_open(dev, &opts, err);
}

static inline void *rank_main(void *arg)
{
    struct rank *r = arg;
    r->status = open_gpu(&r->dev, r->rank, r->n_ranks, &r->err);
    if (r->status == LF_OK) r->status = lf_comm_connect(r->comm, r->dev, &r->err);
    if (r->status != LF_OK) return NULL;
    r->run(r);
    r->status = lf_device_sync(r->dev, &r->err);
    if (r->status == LF_OK) r->status = lf_comm_check(r->comm, &r->err);
    return NULL;
}

struct ranks {
    struct lf_comm_group *group;
    struct rank of[MOST_RANKS];
    int n;
};

static inline void start(struct ranks *ranks, int n, int timeout_ms, void (*run)(struct rank *rank), void *ctx)
{
    memset(ranks, 0, sizeof(*ranks));
    ranks->n = n;
    assert_int_equal(lf_comm_group_create(&ranks->group, n, timeout_ms, NULL), LF_OK);
    for (int i = 0; i < n; i++) {
        struct rank *r = &ranks->of[i];
        *r = (struct rank){.rank = i, .n_ranks = n, .run = run, .ctx = ctx};
        assert_int_equal(lf_comm_create(&r->comm, ranks->group, i, NULL), LF_OK);
    }
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&ranks->of[i].thread, NULL, rank_main, &ranks->of[i]), 0);
}

static inline void join(struct ranks *ranks)
{
    for (int i = 0; i < ranks->n; i++) assert_int_equal(pthread_join(ranks->of[i].thread, NULL), 0);
}

static inline void end(struct ranks *ranks)
{
    for (int i = 0; i < ranks->n; i++) lf_comm_destroy(ranks->of[i].comm);
    for (int i = 0; i < ranks->n; i++) lf_device_close(ranks->of[i].dev);
    lf_comm_group_destroy(ranks->group);
}

/* With 2 ranks, with 4, with 8: as many as there are. */
static inline void run_all(void (*run)(struct rank *rank), void *ctx)
{
    for (int n = 2; n <= LF_MIN(n_gpus, (int)MOST_RANKS); n *= 2) {
        struct ranks ranks;
        start(&ranks, n, PATIENCE_MS, run, ctx);
        join(&ranks);
        for (int i = 0; i < n; i++)
            if (ranks.of[i].status != LF_OK) fail_msg("rank %d of %d: %s", i, n, ranks.of[i].err.message);
        end(&ranks);
    }
}

/* ---- what is brought ---- */

/* A number that everybody knows: of element i that a rank brings to message `message`. Sums of such round. */
static inline float brought(int rank, int message, size_t i)
{
    uint64_t bits = lf_random64((uint64_t)message << 8 | (uint64_t)rank, i);
    return (float)((double)(int64_t)bits * 0x1p-63) * (float)(1 << (bits % 12));
}

static inline void fill(float *x, int rank, int message, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = brought(rank, message, i);
}

/* Buffers of a rank: two in its GPU's memory, one in the host's. */
struct buffers {
    struct lf_buffer x, y;
    float *host;
};

static inline struct buffers take(struct rank *r, size_t n)
{
    struct buffers b = {.host = malloc(n * sizeof(float))};
    assert_non_null(b.host);
    assert_int_equal(lf_buffer_alloc(r->dev, &b.x, n * sizeof(float), "x", NULL), LF_OK);
    assert_int_equal(lf_buffer_alloc(r->dev, &b.y, n * sizeof(float), "y", NULL), LF_OK);
    lf_comm_meet(r->comm); /* what is allocated here may wait for the others' kernels */
    return b;
}

static inline void give(struct rank *r, struct buffers *b)
{
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    lf_comm_meet(r->comm);
    lf_buffer_free(r->dev, &b->x);
    lf_buffer_free(r->dev, &b->y);
    free(b->host);
}

static inline void bring(struct rank *r, const struct buffers *b, struct lf_buffer to, int as, int message, size_t n)
{
    fill(b->host, as, message, n);
    lf_upload(r->dev, to.ptr, b->host, n * sizeof(float));
}

static inline float sum_of(const struct rank *r, int message, size_t i)
{
    float sum = brought(0, message, i);
    for (int k = 1; k < r->n_ranks; k++) sum += brought(k, message, i);
    return sum;
}

static inline void expect_sums(struct rank *r, struct buffers *b, const void *y, int message, size_t n,
                               bool has_residual)
{
    lf_download(r->dev, b->host, y, n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        float sum = sum_of(r, message, i);
        if (has_residual) sum = brought(MOST_RANKS, message, i) + sum;
        if (memcmp(&b->host[i], &sum, sizeof(sum)) != 0)
            fail_msg("rank %d of %d, message %d of %zu floats: element %zu is %a, expected %a", r->rank, r->n_ranks,
                     message, n, i, (double)b->host[i], (double)sum);
    }
}

#endif
