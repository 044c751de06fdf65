/* Ranks that are GPUs, a thread each: what a collective must leave is computed by each rank alone, in plain C, from
 * what it knows that the others bring. With 2 ranks, and with 4 and 8 where there are as many GPUs. */
#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "device/comm.h"
#include "device/device.h"

enum { MOST_RANKS = 8, PATIENCE_MS = 20 * 1000, MOST_FLOATS = 16 << 20 };

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

static int n_gpus;

static enum lf_status open_gpu(struct lf_device **dev, int rank, int n_ranks, struct lf_err *err)
{
    char name[16];
    struct lf_device_opts opts = {.name = name, .n_ranks = n_ranks, .max_isa = -1};
    (void)snprintf(name, sizeof(name), "cuda:%d", rank);
    return lf_device_open(dev, &opts, err);
}

static void *rank_main(void *arg)
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

static void start(struct ranks *ranks, int n, int timeout_ms, void (*run)(struct rank *rank), void *ctx)
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

static void join(struct ranks *ranks)
{
    for (int i = 0; i < ranks->n; i++) assert_int_equal(pthread_join(ranks->of[i].thread, NULL), 0);
}

static void end(struct ranks *ranks)
{
    for (int i = 0; i < ranks->n; i++) lf_comm_destroy(ranks->of[i].comm);
    for (int i = 0; i < ranks->n; i++) lf_device_close(ranks->of[i].dev);
    lf_comm_group_destroy(ranks->group);
}

/* With 2 ranks, with 4, with 8: as many as there are. */
static void run_all(void (*run)(struct rank *rank), void *ctx)
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
static float brought(int rank, int message, size_t i)
{
    uint64_t bits = lf_random64((uint64_t)message << 8 | (uint64_t)rank, i);
    return (float)((double)(int64_t)bits * 0x1p-63) * (float)(1 << (bits % 12));
}

static void fill(float *x, int rank, int message, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = brought(rank, message, i);
}

/* Buffers of a rank: two in its GPU's memory, one in the host's. */
struct buffers {
    struct lf_buffer x, y;
    float *host;
};

static struct buffers take(struct rank *r, size_t n)
{
    struct buffers b = {.host = malloc(n * sizeof(float))};
    assert_non_null(b.host);
    assert_int_equal(lf_buffer_alloc(r->dev, &b.x, n * sizeof(float), "x", NULL), LF_OK);
    assert_int_equal(lf_buffer_alloc(r->dev, &b.y, n * sizeof(float), "y", NULL), LF_OK);
    lf_comm_meet(r->comm); /* what is allocated here may wait for the others' kernels */
    return b;
}

static void give(struct rank *r, struct buffers *b)
{
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    lf_comm_meet(r->comm);
    lf_buffer_free(r->dev, &b->x);
    lf_buffer_free(r->dev, &b->y);
    free(b->host);
}

static void bring(struct rank *r, const struct buffers *b, struct lf_buffer to, int as, int message, size_t n)
{
    fill(b->host, as, message, n);
    lf_upload(r->dev, to.ptr, b->host, n * sizeof(float));
}

static float sum_of(const struct rank *r, int message, size_t i)
{
    float sum = brought(0, message, i);
    for (int k = 1; k < r->n_ranks; k++) sum += brought(k, message, i);
    return sum;
}

static void expect_sums(struct rank *r, struct buffers *b, const void *y, int message, size_t n, bool has_residual)
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

/* ---- sums ---- */

/* Pushed and in pieces, on both sides of the borders between them, of blocks and of vectors; 64 MiB. */
static const size_t sizes[] = {1,     2,     3,     4,         5,      127,    512,    513,    4096,    4097,
                               16384, 65535, 65536, 64 * 1025, 131072, 131073, 524288, 524291, 1 << 20, MOST_FLOATS};

static void check_sum(struct rank *r, struct buffers *b, int message, size_t n)
{
    bool has_residual = message % 3 == 1, in_place = message % 2 == 0;
    bring(r, b, b->y, MOST_RANKS, message, n);
    bring(r, b, b->x, r->rank, message, n);
    struct lf_all_reduce_params p = {.y = b->y.ptr, .x = b->x.ptr, .n = n};
    if (in_place) p.y = b->x.ptr;
    if (has_residual) p.residual = b->y.ptr;
    lf_comm_all_reduce(r->comm, &p);
    expect_sums(r, b, p.y, message, n, has_residual);
}

static void all_sizes(struct rank *r)
{
    struct buffers b = take(r, MOST_FLOATS);
    for (int i = 0; i < (int)LF_N_ELEMS(sizes); i++) check_sum(r, &b, i, sizes[i]);
    for (int i = 0; i < 300; i++) /* one after another, of any size */
        check_sum(r, &b, 100 + i, 1 + lf_random64(1, (uint64_t)i) % (i % 10 == 0 ? 300000 : 20000));
    give(r, &b);
}

static void sums_are_in_the_order_of_ranks_to_the_bit(void **state)
{
    (void)state;
    run_all(all_sizes, NULL);
}

/* Messages of several kinds and sizes behind one another, as a step has them: y = x, then y += Σ x again and again. */
static void queue_steps(struct rank *r, const struct buffers *b, size_t n)
{
    static const size_t others[] = {100, 5000, 70000, 200000};
    struct lf_all_reduce_params first = {.y = b->y.ptr, .x = b->x.ptr, .n = n};
    lf_comm_all_reduce(r->comm, &first);
    for (size_t i = 0; i < LF_N_ELEMS(others); i++) {
        float *scratch = (float *)b->y.ptr + n;
        struct lf_all_reduce_params p = {.y = scratch, .x = b->x.ptr, .n = others[i]};
        lf_comm_all_reduce(r->comm, &p);
        lf_comm_broadcast(r->comm, (int)i % r->n_ranks, scratch, 40 + 400 * i);
    }
    lf_comm_barrier(r->comm);
}

static void replay(struct rank *r)
{
    enum { N = 4096, ALL = 300000 };
    struct buffers b = take(r, ALL);
    bring(r, &b, b.x, r->rank, 0, ALL);
    queue_steps(r, &b, N);
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    lf_comm_meet(r->comm);
    assert_true(lf_graph_begin(r->dev));
    queue_steps(r, &b, N);
    struct lf_graph *graph = lf_graph_end(r->dev);
    assert_non_null(graph);
    lf_comm_meet(r->comm);
    for (int i = 1; i < 200; i++) {
        bring(r, &b, b.x, r->rank, i, N);
        lf_graph_launch(r->dev, graph);
        if (i % 3 == 0) check_sum(r, &b, 1000 + i, 3000); /* between them, at once */
        if (i % 3 != 0) expect_sums(r, &b, b.y.ptr, i, N, false);
    }
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    lf_graph_destroy(r->dev, graph);
    give(r, &b);
}

static void graphs_replay_them(void **state)
{
    (void)state;
    run_all(replay, NULL);
}

/* ---- norms ---- */

static void check_norm(struct rank *r, int width, int n_rows, int message)
{
    size_t n = (size_t)width * (size_t)n_rows, n_parts = n / LF_NORM_PART;
    struct buffers b = take(r, n), norm = take(r, n);
    uint16_t *h = malloc(n * sizeof(*h));
    float *parts = malloc(n_parts * sizeof(*parts)), *got = malloc(n * sizeof(*got));
    assert_true(h && parts && got);
    bring(r, &b, b.x, r->rank, message, n);
    bring(r, &norm, norm.x, MOST_RANKS + 1, message, (size_t)width); /* weights */
    struct lf_all_reduce_params p = {.y = b.y.ptr, .x = b.x.ptr, .n = n, .width = width};
    p.norm = (struct lf_fused_norm){
        .h = norm.y.ptr, .weight = norm.x.ptr, .sum_squares = (float *)(void *)((uint16_t *)norm.y.ptr + n)};
    lf_comm_all_reduce(r->comm, &p);
    expect_sums(r, &b, b.y.ptr, message, n, false);
    lf_download(r->dev, h, p.norm.h, n * sizeof(*h));
    lf_download(r->dev, parts, p.norm.sum_squares, n_parts * sizeof(*parts));
    lf_to_f32(got, h, LF_BF16, n);
    for (size_t i = 0; i < n; i++) {
        double expected = (double)b.host[i] * (double)brought(MOST_RANKS + 1, message, i % (size_t)width);
        if (fabs((double)got[i] - expected) > fabs(expected) / 200 + 1e-30) fail_msg("h[%zu]: %g", i, (double)got[i]);
    }
    for (size_t part = 0; part < n_parts; part++) {
        double expected = 0;
        for (size_t i = 0; i < LF_NORM_PART; i++) expected += pow((double)b.host[part * LF_NORM_PART + i], 2);
        if (fabs((double)parts[part] - expected) > expected * 1e-5) fail_msg("part %zu: %g", part, (double)parts[part]);
    }
    free(got);
    free(parts);
    free(h);
    give(r, &norm);
    give(r, &b);
}

static void norms(struct rank *r)
{
    assert_int_equal(lf_comm_norm_tokens(r->comm, 4096), LF_FUSED_NORM_TOKENS);
    assert_int_equal(lf_comm_norm_tokens(r->comm, 8192), LF_FUSED_NORM_TOKENS);
    assert_int_equal(lf_comm_norm_tokens(r->comm, 16384), 0);
    assert_int_equal(lf_comm_norm_tokens(r->comm, 100), 0);
    check_norm(r, 64, 1, 0);
    check_norm(r, 4096, 1, 1);
    check_norm(r, 4096, 16, 2);
    check_norm(r, 2048 + 16, 5, 3);
    check_norm(r, 8192, 16, 4);
}

static void half_a_norm_is_made_on_the_way(void **state)
{
    (void)state;
    run_all(norms, NULL);
}

/* ---- gathering ---- */

/* Columns of ranks differ in width, and one may have none; of bytes, of words and of sixteen bytes. */
static void check_gather(struct rank *r, struct buffers *b, int message, size_t n_columns, size_t n_rows, size_t unit)
{
    size_t first[MOST_RANKS + 1] = {0};
    for (int k = 0; k < r->n_ranks; k++)
        first[k + 1] = first[k] + n_columns * (size_t)(k + message % 2) / (size_t)r->n_ranks * unit;
    size_t mine = n_rows * (first[r->rank + 1] - first[r->rank]), all = n_rows * first[r->n_ranks];
    bring(r, b, b->x, r->rank, message, (mine + 3) / 4);
    struct lf_all_gather_params p = {.out = b->y.ptr, .x = b->x.ptr, .first = first, .n_rows = (int)n_rows};
    lf_comm_all_gather(r->comm, &p);
    char *got = malloc(all + 1), *theirs = malloc(all + 16);
    assert_true(got && theirs);
    lf_download(r->dev, got, b->y.ptr, all);
    for (int k = 0; k < r->n_ranks; k++) {
        size_t width = first[k + 1] - first[k];
        fill((float *)(void *)theirs, k, message, (n_rows * width + 3) / 4);
        for (size_t row = 0; row < n_rows; row++)
            if (memcmp(got + row * first[r->n_ranks] + first[k], theirs + row * width, width) != 0)
                fail_msg("rank %d of %d, message %d: row %zu of rank %d is wrong", r->rank, r->n_ranks, message, row,
                         k);
    }
    free(theirs);
    free(got);
}

static void check_broadcast(struct rank *r, struct buffers *b, int message, size_t n)
{
    int root = message % r->n_ranks;
    bring(r, b, b->x, r->rank, message, n);
    lf_comm_broadcast(r->comm, root, b->x.ptr, n * sizeof(float));
    lf_download(r->dev, b->host, b->x.ptr, n * sizeof(float));
    for (size_t i = 0; i < n; i++) assert_true(b->host[i] == brought(root, message, i));
}

static void gathers(struct rank *r)
{
    static const size_t units[] = {1, 4, 16};
    struct buffers b = take(r, 8 << 20);
    for (int i = 0; i < 60; i++) {
        size_t n = 1 + lf_random64(3, (uint64_t)i) % 5000;
        check_gather(r, &b, i, n, 1 + (size_t)i % 5, units[i % 3]);
        check_broadcast(r, &b, i, n);
    }
    check_gather(r, &b, 100, 128256, 1, 4); /* logits */
    check_gather(r, &b, 101, 128256, 16, 4);
    give(r, &b);
}

static void columns_come_together_and_broadcasts_reach_all(void **state)
{
    (void)state;
    run_all(gathers, NULL);
}

/* ---- failing ---- */

static void leave_after_some(struct rank *r)
{
    int n = r->rank == 1 ? 3 : 40; /* rank 1 is gone then */
    struct buffers b = take(r, 4096);
    for (int i = 0; i < n; i++)
        lf_comm_all_reduce(r->comm, &(struct lf_all_reduce_params){.y = b.y.ptr, .x = b.x.ptr, .n = 4096});
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK); /* kernels give up, the device goes on */
    lf_buffer_free(r->dev, &b.x);
    lf_buffer_free(r->dev, &b.y);
    free(b.host);
}

static void a_rank_that_does_not_come_is_named_in_time(void **state)
{
    (void)state;
    for (int n = 2; n <= LF_MIN(n_gpus, 4); n *= 2) {
        struct ranks ranks;
        start(&ranks, n, 500, leave_after_some, NULL);
        join(&ranks);
        for (int i = 0; i < n; i++) {
            if (i == 1) continue; /* it may have left before the group failed */
            assert_int_equal(ranks.of[i].status, LF_DEVICE);
            assert_non_null(strstr(ranks.of[i].err.message, "waited 500 ms for that of rank"));
        }
        end(&ranks);
    }
}

struct abortion {
    _Atomic int n_waiting;
    _Atomic int64_t ended_ns;
};

static void wait_for_nobody(struct rank *r)
{
    struct abortion *a = r->ctx;
    a->n_waiting++;
    if (r->rank == 1) return;
    for (int i = 0; i < 10; i++) lf_comm_barrier(r->comm);
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    a->ended_ns = lf_clock_ns();
}

static void an_abort_ends_kernels_that_wait(void **state)
{
    (void)state;
    struct abortion a = {0};
    struct ranks ranks;
    start(&ranks, 2, 60 * 1000, wait_for_nobody, &a);
    while (a.n_waiting < 2) lf_clock_sleep_ms(1);
    lf_clock_sleep_ms(200);
    assert_int_equal(a.ended_ns, 0);
    int64_t before = lf_clock_ns();
    lf_comm_group_abort(ranks.group, LF_DEVICE, "the reason");
    join(&ranks);
    assert_true(a.ended_ns - before < LF_NS_PER_S);
    assert_string_equal(ranks.of[0].err.message, "the reason");
    end(&ranks);
}

static void gpus_that_are_not_there_are_refused(void **state)
{
    (void)state;
    struct lf_device *dev;
    struct lf_err err;
    char expected[80];
    (void)snprintf(expected, sizeof(expected), "%d ranks need as many GPUs, this machine has %d", n_gpus + 1, n_gpus);
    assert_int_equal(open_gpu(&dev, 0, n_gpus + 1, &err), LF_NOT_FOUND);
    assert_non_null(strstr(err.message, expected));
}

static int count_gpus(void)
{
    struct lf_device *dev;
    struct lf_err err;
    int n = 0;
    while (n < MOST_RANKS && open_gpu(&dev, n, 1, &err) == LF_OK) {
        lf_device_close(dev);
        n++;
    }
    return n;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_in_the_order_of_ranks_to_the_bit),
        cmocka_unit_test(graphs_replay_them),
        cmocka_unit_test(half_a_norm_is_made_on_the_way),
        cmocka_unit_test(columns_come_together_and_broadcasts_reach_all),
        cmocka_unit_test(a_rank_that_does_not_come_is_named_in_time),
        cmocka_unit_test(an_abort_ends_kernels_that_wait),
        cmocka_unit_test(gpus_that_are_not_there_are_refused),
    };
    n_gpus = count_gpus();
    if (n_gpus < 2) {
        printf("%d GPUs: ranks need two\n", n_gpus);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
