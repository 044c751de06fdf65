/* An all-reduce between GPUs by its size: each as many times in a graph, as a step has them, and the median of many
 * launches. CSV: ranks, bytes, microseconds. nccl_reduce.py has the same of NCCL.
 *
 * With `context`, what a layer of Llama 3.1 8B whose contexts are divided needs, by the rows of a step: partial results
 * of attention combined (of many rows each rank gets its own, of few all), and q, k and v gathered. bytes: of what all
 * ranks together bring.
 *
 *     bench_comm N_RANKS [context] */
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

enum { MANY_ROWS = 8192, HEADS = 32, KV_HEADS = 8, DIM = 128, X_BYTES = 2 };
static const int rows[] = {1, 2, 4, 8, MANY_ROWS};

struct rank {
    struct lf_comm *comm;
    bool of_context;
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

/* What is measured: an all-reduce of so many bytes, or that of so many rows. */
struct message {
    struct rank *r;
    void *x, *y;
    size_t bytes;
    int n_rows;
};

static void reduce(const struct message *m)
{
    struct lf_all_reduce_params p = {.y = m->y, .x = m->x, .n = m->bytes / sizeof(float)};
    lf_comm_all_reduce(m->r->comm, &p);
}

/* The step's rows that a rank has. */
static void set_first(const struct message *m, int first[LF_GPU_RANKS_N + 1])
{
    for (int k = 0; k <= m->r->n_ranks; k++) first[k] = (int)((int64_t)m->n_rows * k / m->r->n_ranks);
}

/* lse is anything: the time does not depend on it. */
static void combine(const struct message *m)
{
    int first[LF_GPU_RANKS_N + 1];
    struct lf_lse_combine_params p = {.out = m->y,
                                      .x = m->x,
                                      .lse = (const float *)m->x + (size_t)m->n_rows * HEADS * DIM / 2,
                                      .dtype = LF_BF16,
                                      .first = m->n_rows == MANY_ROWS ? first : NULL,
                                      .n_rows = m->n_rows,
                                      .n_heads = HEADS,
                                      .dim = DIM};
    set_first(m, first);
    lf_comm_lse_combine(m->r->comm, &p);
}

static const size_t qkv_bytes = (size_t)(HEADS + 2 * KV_HEADS) * DIM * X_BYTES;

static void gather(const struct message *m)
{
    int rows_of[LF_GPU_RANKS_N + 1];
    size_t first[LF_GPU_RANKS_N + 1];
    set_first(m, rows_of);
    for (int k = 0; k <= m->r->n_ranks; k++) first[k] = (size_t)rows_of[k] * qkv_bytes;
    lf_comm_all_gather(m->r->comm, &(struct lf_all_gather_params){.out = m->y, .x = m->x, .first = first, .n_rows = 1});
}

/* Microseconds of one. */
static enum lf_status measure(struct lf_device *dev, void (*queue)(const struct message *m), const struct message *m,
                              double *us)
{
    struct rank *r = m->r;
    double times[LAUNCHES];
    lf_comm_meet(r->comm);
    bool records = lf_graph_begin(dev);
    for (int i = 0; i < IN_GRAPH; i++) queue(m);
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

static enum lf_status measure_context(struct lf_device *dev, struct message *m)
{
    double us = 0;
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        m->n_rows = rows[i];
        size_t n = (size_t)m->n_rows, ranks = (size_t)m->r->n_ranks;
        LF_TRY(measure(dev, combine, m, &us));
        if (m->r->rank == 0)
            printf("%zu,combine,%zu,%zu,%.2f\n", ranks, n, ranks * n * HEADS * (DIM * X_BYTES + sizeof(float)), us);
        LF_TRY(measure(dev, gather, m, &us));
        if (m->r->rank == 0) printf("%zu,gather,%zu,%zu,%.2f\n", ranks, n, n * qkv_bytes, us);
    }
    return LF_OK;
}

static enum lf_status measure_all(struct rank *r, struct lf_device *dev, const struct lf_buffer *x,
                                  const struct lf_buffer *y)
{
    double us = 0;
    struct message m = {.r = r, .x = x->ptr, .y = y->ptr};
    if (r->of_context) return measure_context(dev, &m);
    for (size_t i = 0; i < LF_N_ELEMS(sizes); i++) {
        m.bytes = sizes[i];
        LF_TRY(measure(dev, reduce, &m, &us));
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
    bool of_context = argc > 2 && strcmp(argv[2], "context") == 0;
    if (argc > 2 && !of_context) return 2;
    printf(of_context ? "ranks,what,rows,bytes,us\n" : "ranks,bytes,us\n");
    for (int i = 0; i < n; i++) {
        ranks[i].rank = i;
        ranks[i].n_ranks = n;
        ranks[i].of_context = of_context;
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
