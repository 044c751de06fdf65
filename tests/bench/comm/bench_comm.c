/* An all-reduce between GPUs by its size: each as many times in a graph, as a step has them, and the median of many
 * launches. CSV: ranks, bytes, microseconds. nccl_reduce.py has the same of NCCL.
 *
 *     bench_comm N_RANKS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "device/comm.h"
#include "device/device.h"

enum { IN_GRAPH = 64, LAUNCHES = 25, WARM_UP = 5, TIMEOUT_MS = 6000 };

static const size_t sizes[] = {1 << 10,   4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10,
                               512 << 10, 1 << 20, 2 << 20,  4 << 20,  16 << 20, 64 << 20,  128 << 20};

struct rank {
    struct lf_comm *comm;
    int rank, n_ranks;
    pthread_t thread;
    struct lf_err err;
    enum lf_status status;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of one. */
static enum lf_status measure(struct rank *r, struct lf_device *dev, float *x, float *y, size_t bytes, double *us)
{
    double times[LAUNCHES];
    lf_comm_meet(r->comm);
    bool records = lf_graph_begin(dev);
    for (int i = 0; i < IN_GRAPH; i++) {
        struct lf_all_reduce_params p = {.y = y, .x = x, .n = bytes / sizeof(float)};
        lf_comm_all_reduce(r->comm, &p);
    }
    struct lf_graph *graph = lf_graph_end(dev);
    if (!records || !graph) return lf_fail(&r->err, LF_DEVICE, "no graph");
    lf_comm_meet(r->comm);
    for (int i = -WARM_UP; i < LAUNCHES; i++) {
        lf_comm_barrier(r->comm);
        LF_TRY(lf_device_sync(dev, &r->err));
        int64_t start = lf_clock_ns();
        lf_graph_launch(dev, graph);
        LF_TRY(lf_device_sync(dev, &r->err));
        if (i >= 0) times[i] = (double)(lf_clock_ns() - start) / 1e3 / IN_GRAPH;
    }
    lf_comm_meet(r->comm);
    lf_graph_destroy(dev, graph);
    qsort(times, LAUNCHES, sizeof(times[0]), by_size);
    *us = times[LAUNCHES / 2];
    return lf_comm_check(r->comm, &r->err);
}

static enum lf_status measure_all(struct rank *r, struct lf_device *dev, const struct lf_buffer *x,
                                  const struct lf_buffer *y)
{
    double us = 0;
    for (size_t i = 0; i < LF_N_ELEMS(sizes); i++) {
        LF_TRY(measure(r, dev, x->ptr, y->ptr, sizes[i], &us));
        if (r->rank == 0) printf("%d,%zu,%.2f\n", r->n_ranks, sizes[i], us);
    }
    return LF_OK;
}

static enum lf_status run(struct rank *r)
{
    char name[16];
    struct lf_device_opts opts = {.name = name, .n_ranks = r->n_ranks, .max_isa = -1};
    struct lf_device *dev;
    struct lf_buffer x = {0}, y = {0};
    size_t most = sizes[LF_N_ELEMS(sizes) - 1];
    (void)snprintf(name, sizeof(name), "cuda:%d", r->rank);
    LF_TRY(lf_device_open(&dev, &opts, &r->err));
    enum lf_status status = lf_comm_connect(r->comm, dev, &r->err);
    if (status == LF_OK) status = lf_buffer_alloc(dev, &x, most, "x", &r->err);
    if (status == LF_OK) status = lf_buffer_alloc(dev, &y, most, "y", &r->err);
    if (status == LF_OK) status = measure_all(r, dev, &x, &y);
    lf_buffer_free(dev, &y);
    lf_buffer_free(dev, &x);
    lf_device_close(dev);
    return status;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    r->status = run(r);
    return NULL;
}

int main(int argc, char **argv)
{
    struct rank ranks[LF_GPU_RANKS_N] = {0};
    struct lf_comm_group *group;
    int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 2, failed = 0;
    if (n < 2 || n > LF_GPU_RANKS_N || lf_comm_group_create(&group, n, TIMEOUT_MS, NULL) != LF_OK) return 2;
    printf("ranks,bytes,us\n");
    for (int i = 0; i < n; i++) {
        ranks[i].rank = i;
        ranks[i].n_ranks = n;
        if (lf_comm_create(&ranks[i].comm, group, i, NULL) != LF_OK) return 1;
    }
    for (int i = 0; i < n; i++)
        if (pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]) != 0) return 1;
    for (int i = 0; i < n; i++) (void)pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < n; i++) {
        if (ranks[i].status != LF_OK) fprintf(stderr, "rank %d: %s\n", i, ranks[i].err.message);
        failed |= ranks[i].status != LF_OK;
        lf_comm_destroy(ranks[i].comm);
    }
    lf_comm_group_destroy(group);
    return failed;
}
