/* Ranks that are GPUs, a thread each: what a collective must leave is computed by each rank alone, in plain C, from
 * what it knows that the others bring. With 2 ranks, and with 4 and 8 where there are as many GPUs. */
#include "tests/gpu/comm_combine.h"
#include "tests/gpu/comm_rig.h"

#include "core/clock.h"

enum { MOST_FLOATS = 16 << 20 };

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
struct gathered {
    size_t first[MOST_RANKS + 1];
    struct lf_all_gather_params p;
    int message;
};

static void bring_columns(struct rank *r, struct buffers *b, struct gathered *g, int message, size_t n_columns,
                          size_t n_rows, size_t unit)
{
    *g = (struct gathered){.message = message};
    for (int k = 0; k < r->n_ranks; k++)
        g->first[k + 1] = g->first[k] + n_columns * (size_t)(k + message % 2) / (size_t)r->n_ranks * unit;
    g->p = (struct lf_all_gather_params){.out = b->y.ptr, .x = b->x.ptr, .first = g->first, .n_rows = (int)n_rows};
    bring(r, b, b->x, r->rank, message, (n_rows * (g->first[r->rank + 1] - g->first[r->rank]) + 3) / 4);
}

static void expect_columns(struct rank *r, const struct gathered *g)
{
    size_t n_rows = (size_t)g->p.n_rows, all = n_rows * g->first[r->n_ranks];
    char *got = malloc(all + 1), *theirs = malloc(all + 16);
    assert_true(got && theirs);
    lf_download(r->dev, got, g->p.out, all);
    for (int k = 0; k < r->n_ranks; k++) {
        size_t width = g->first[k + 1] - g->first[k];
        fill((float *)(void *)theirs, k, g->message, (n_rows * width + 3) / 4);
        for (size_t row = 0; row < n_rows; row++)
            if (memcmp(got + row * g->first[r->n_ranks] + g->first[k], theirs + row * width, width) != 0)
                fail_msg("rank %d of %d, message %d: row %zu of rank %d is wrong", r->rank, r->n_ranks, g->message, row,
                         k);
    }
    free(theirs);
    free(got);
}

static void check_gather(struct rank *r, struct buffers *b, int message, size_t n_columns, size_t n_rows, size_t unit)
{
    struct gathered g;
    bring_columns(r, b, &g, message, n_columns, n_rows, unit);
    lf_comm_all_gather(r->comm, &g.p);
    expect_columns(r, &g);
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

/* ---- combining ---- */

/* On both sides of what packets take; as many rows as a step has; none. */
static void combines(struct rank *r)
{
    static const int rows[] = {1, 2, 3, 8, 31, 32, 33, 0, 127, 600, 5000};
    struct buffers b = take(r, 6 << 20);
    for (int i = 0; i < (int)LF_N_ELEMS(rows); i++) {
        check_combine(r, &b, i, rows[i], 32 / (1 + i % 4), i < 8 ? 128 : 64);
        check_combine(r, &b, 100 + i, LF_MIN(rows[i], 200), 1 + i % 3, i % 2 ? 8 : 512);
    }
    for (int i = 0; i < 100; i++) /* one after another, of any size */
        check_combine(r, &b, 200 + i, (int)(lf_random64(12, (uint64_t)i) % (i % 10 == 0 ? 500 : 20)), 4, 64);
    give(r, &b);
}

static void parts_of_attention_are_combined(void **state)
{
    (void)state;
    run_all(combines, NULL);
}

/* ---- open memory ---- */

static void write_rows(const struct rank *r, const struct combine *c, const struct lf_buffer *rows, int owner,
                       const int *first, char *to, int parts_at)
{
    struct lf_gather_params p = {.out = to,
                                 .x = c->p.x,
                                 .rows = (const int32_t *)rows->ptr + first[owner],
                                 .n_rows = first[owner + 1] - first[owner],
                                 .dim = c->n_heads * c->dim,
                                 .dtype = LF_BF16};
    size_t n_heads = (size_t)p.n_rows * (size_t)c->n_heads, before = (size_t)r->rank * n_heads;
    if (p.n_rows == 0) return;
    p.out = to + before * (size_t)c->dim * 2;
    lf_device_ops(r->dev)->gather(r->dev, &p);
    p.out = to + parts_at + before * sizeof(float);
    p.x = c->p.lse;
    p.dim = c->n_heads;
    p.dtype = LF_F32;
    lf_device_ops(r->dev)->gather(r->dev, &p);
}

/* Each writes what it has of others' rows into their memory: combined there it has the bits of what is sent. */
static void check_here(struct rank *r, const struct buffers *b, const struct lf_buffer *open,
                       const struct lf_buffer *rows, int message)
{
    enum { PARTS = 4 << 20 };
    int first[MOST_RANKS + 1];
    struct combine c = make_combine(b, message, 40 + message * 37, 4, 64);
    struct lf_lse_combine_params here = c.p;
    bring_parts(r, &c, message);
    set_first(r, &c, first);
    lf_comm_lse_combine(r->comm, &c.p);
    lf_comm_barrier(r->comm); /* the last one's are combined */
    for (int k = 0; k < r->n_ranks; k++) write_rows(r, &c, rows, k, first, lf_comm_peer(r->comm, k, open->ptr), PARTS);
    here.is_here = true;
    here.n_rows = first[r->rank + 1] - first[r->rank];
    here.x = open->ptr;
    here.lse = (const float *)(const void *)((char *)open->ptr + PARTS);
    here.out = (uint16_t *)b->y.ptr + n_heads_of(&c) * (size_t)c.dim;
    lf_comm_lse_combine(r->comm, &here);
    expect_combined(r, &c, here.out, first);
    end_combine(&c);
}

static void open_and_write(struct rank *r)
{
    enum { N = 8 << 20, ROWS = 2000 };
    int32_t list[ROWS];
    struct buffers b = take(r, 2 << 20);
    struct lf_buffer open, other, rows;
    assert_int_equal(lf_buffer_alloc(r->dev, &open, N, "open", NULL), LF_OK);
    assert_int_equal(lf_buffer_alloc(r->dev, &other, 1024, "open", NULL), LF_OK);
    assert_int_equal(lf_buffer_alloc(r->dev, &rows, sizeof(list), "rows", NULL), LF_OK);
    for (int i = 0; i < ROWS; i++) list[i] = i;
    lf_upload(r->dev, rows.ptr, list, sizeof(list));
    assert_null(lf_comm_peer(r->comm, 0, open.ptr));
    assert_int_equal(lf_comm_open(r->comm, open.ptr, N, &r->err), LF_OK);
    assert_int_equal(lf_comm_open(r->comm, other.ptr, 1024, &r->err), LF_OK);
    assert_ptr_equal(lf_comm_peer(r->comm, r->rank, (char *)open.ptr + 10), (char *)open.ptr + 10);
    assert_ptr_equal(lf_comm_peer(r->comm, r->rank, (char *)other.ptr + 1023), (char *)other.ptr + 1023);
    assert_null(lf_comm_peer(r->comm, 0, (char *)open.ptr + N));
    assert_null(lf_comm_peer(r->comm, 0, b.x.ptr));
    for (int i = 0; i < 40; i++) check_here(r, &b, &open, &rows, i);
    give(r, &b);
    lf_buffer_free(r->dev, &rows);
    lf_buffer_free(r->dev, &other);
    lf_buffer_free(r->dev, &open);
}

static void what_ranks_write_into_open_memory_is_combined(void **state)
{
    (void)state;
    run_all(open_and_write, NULL);
}

/* As a step has them: to all, a sum beside it, and to their owners. */
static void queue_combines(struct rank *r, struct buffers *sums, const struct combine *c,
                           const struct lf_lse_combine_params *own)
{
    lf_comm_lse_combine(r->comm, &c->p);
    for (size_t n = 4096; n <= 100000; n += 95904)
        lf_comm_all_reduce(r->comm, &(struct lf_all_reduce_params){.y = sums->y.ptr, .x = sums->x.ptr, .n = n});
    lf_comm_lse_combine(r->comm, own);
}

static void replay_combines(struct rank *r)
{
    int first[MOST_RANKS + 1];
    struct buffers b = take(r, 1 << 20), sums = take(r, 100000);
    struct combine c = make_combine(&b, 1, 4, 32, 128);
    struct lf_lse_combine_params own = c.p;
    own.first = first;
    own.out = (uint16_t *)b.y.ptr + n_heads_of(&c) * (size_t)c.dim;
    set_first(r, &c, first);
    queue_combines(r, &sums, &c, &own);
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    lf_comm_meet(r->comm);
    assert_true(lf_graph_begin(r->dev));
    queue_combines(r, &sums, &c, &own);
    struct lf_graph *graph = lf_graph_end(r->dev);
    assert_non_null(graph);
    lf_comm_meet(r->comm);
    for (int i = 0; i < 60; i++) {
        bring_parts(r, &c, 400 + i);
        bring(r, &sums, sums.x, r->rank, i, 100000);
        lf_graph_launch(r->dev, graph);
        expect_combined(r, &c, own.out, first);
        expect_sums(r, &sums, sums.y.ptr, i, 100000, false);
    }
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    lf_graph_destroy(r->dev, graph);
    end_combine(&c);
    give(r, &sums);
    give(r, &b);
}

static void graphs_replay_combines_beside_sums(void **state)
{
    (void)state;
    run_all(replay_combines, NULL);
}

/* Several pieces of each block are on their way, of any number, and the next kernel, of any kind, comes at once: who is
 * quick writes while others still read. Megabytes, so that a rank is now ahead, now behind. */
static void follow_one_another(struct rank *r)
{
    enum { SUM = 3000001, MIB = 1 << 20 };
    struct buffers g = take(r, 24 * MIB), sums = take(r, SUM), parts = take(r, 12 * MIB);
    struct gathered columns;
    int first[MOST_RANKS + 1];
    for (int i = 0; i < 6; i++) {
        struct combine c = make_combine(&parts, 500 + i, 300 + 900 * (i % 3), 16, 128);
        struct lf_lse_combine_params own = c.p;
        own.first = first;
        own.out = (uint16_t *)parts.y.ptr + n_heads_of(&c) * (size_t)c.dim;
        bring_parts(r, &c, 500 + i);
        bring(r, &sums, sums.x, r->rank, i, SUM);
        bring_columns(r, &g, &columns, 600 + i, 70000 + 45001 * (size_t)i, 4, 16);
        set_first(r, &c, first);
        struct lf_all_reduce_params sum = {.y = sums.y.ptr, .x = sums.x.ptr, .n = SUM - (size_t)i * 400000};
        for (int again = 0; again < 3; again++) {
            lf_comm_all_gather(r->comm, &columns.p);
            if (i % 3 == 0) lf_comm_all_reduce(r->comm, &sum);
            lf_comm_lse_combine(r->comm, &c.p);
            if (i % 3 == 1) lf_comm_all_reduce(r->comm, &sum);
            lf_comm_lse_combine(r->comm, &own);
            if (i % 3 == 2) lf_comm_all_reduce(r->comm, &sum);
        }
        expect_columns(r, &columns);
        expect_combined(r, &c, own.out, first);
        expect_sums(r, &sums, sums.y.ptr, i, sum.n, false);
        end_combine(&c);
    }
    give(r, &parts);
    give(r, &sums);
    give(r, &g);
}

static void large_messages_of_all_kinds_follow_one_another(void **state)
{
    (void)state;
    run_all(follow_one_another, NULL);
}

/* ---- rows and columns ---- */

/* This rank among those of its row or column. */
static struct rank rank_along(const struct rank *r, enum lf_comm_axis axis, int n_columns)
{
    struct rank of = *r;
    struct lf_err err;
    if (lf_comm_along(&of.comm, r->comm, axis, n_columns, &err) != LF_OK) fail_msg("%s", err.message);
    of.rank = lf_comm_rank(of.comm);
    of.n_ranks = lf_comm_n_ranks(of.comm);
    return of;
}

/* Now along one axis, now along the other, now among all; each line has messages of its own. */
static void along_both_axes(struct rank *r)
{
    int n_columns = r->n_ranks / 2, n_axes = n_columns > 1 ? 3 : 2;
    struct rank of[3] = {*r, rank_along(r, LF_COMM_COLUMN, n_columns), *r};
    int lines[3] = {0, r->rank % n_columns, r->rank / n_columns};
    if (n_columns > 1) of[2] = rank_along(r, LF_COMM_ROW, n_columns);
    struct buffers b = take(r, 4 << 20);
    for (int i = 0; i < 200; i++) {
        int axis = (int)(lf_random64(8, (uint64_t)i) % (uint64_t)n_axes), message = i + 1000 * lines[axis];
        size_t n = 1 + lf_random64(3, (uint64_t)i) % (i % 8 == 0 ? 300000 : 20000);
        switch (i % 4) {
        case 0:
            check_sum(&of[axis], &b, message, n);
            break;
        case 1:
            check_gather(&of[axis], &b, message, 1 + n % 5000, 1 + n % 5, 4);
            break;
        case 2:
            check_broadcast(&of[axis], &b, message, n);
            break;
        default:
            check_combine(&of[axis], &b, message, (int)(n % 300), 4, 64);
        }
    }
    give(r, &b);
    lf_comm_destroy(of[1].comm);
    if (n_columns > 1) lf_comm_destroy(of[2].comm);
}

static void collectives_of_rows_and_columns_are_theirs_alone(void **state)
{
    (void)state;
    run_all(along_both_axes, NULL);
}

/* ---- failing ---- */

static void leave_a_column(struct rank *r)
{
    struct rank column = rank_along(r, LF_COMM_COLUMN, r->n_ranks / 2);
    struct buffers b = take(r, 8192);
    struct combine c = make_combine(&b, 0, 1, 32, 128);
    for (int i = 0; i < (r->rank == 1 ? 2 : 20); i++) lf_comm_lse_combine(column.comm, &c.p);
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    end_combine(&c);
    lf_comm_destroy(column.comm);
    lf_buffer_free(r->dev, &b.x);
    lf_buffer_free(r->dev, &b.y);
    free(b.host);
}

static void a_rank_that_does_not_come_to_its_column_is_named(void **state)
{
    (void)state;
    for (int n = 2; n <= LF_MIN(n_gpus, 4); n *= 2) {
        struct ranks ranks;
        int waiting = n == 2 ? 0 : 3;
        char expected[80];
        (void)snprintf(expected, sizeof(expected), "the GPU of rank %d waited 500 ms for that of rank 1", waiting);
        int64_t before = lf_clock_ns();
        start(&ranks, n, 500, leave_a_column, NULL);
        join(&ranks);
        assert_true(lf_clock_ns() - before < 60 * LF_NS_PER_S);
        assert_int_equal(ranks.of[waiting].status, LF_DEVICE);
        assert_string_equal(ranks.of[waiting].err.message, expected);
        end(&ranks);
    }
}

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

/* Of gathers whose pieces are in flight, and of combines: the same. */
static void leave_large_ones(struct rank *r)
{
    struct buffers b = take(r, 24 << 20);
    struct combine c = make_combine(&b, 0, 4000, 16, 128);
    size_t first[MOST_RANKS + 1];
    for (int k = 0; k <= r->n_ranks; k++) first[k] = (size_t)k * (12 << 20);
    struct lf_all_gather_params p = {.out = b.y.ptr, .x = b.x.ptr, .first = first, .n_rows = 1};
    for (int i = 0; i < (r->rank == 1 ? 2 : 9); i++) {
        lf_comm_all_gather(r->comm, &p);
        lf_comm_lse_combine(r->comm, &c.p);
    }
    assert_int_equal(lf_device_sync(r->dev, NULL), LF_OK);
    end_combine(&c);
    lf_buffer_free(r->dev, &b.x);
    lf_buffer_free(r->dev, &b.y);
    free(b.host);
}

static void a_rank_that_leaves_large_messages_is_named_in_time(void **state)
{
    (void)state;
    struct ranks ranks;
    start(&ranks, 2, 500, leave_large_ones, NULL);
    join(&ranks);
    assert_int_equal(ranks.of[0].status, LF_DEVICE);
    assert_string_equal(ranks.of[0].err.message, "the GPU of rank 0 waited 500 ms for that of rank 1");
    end(&ranks);
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
        cmocka_unit_test(parts_of_attention_are_combined),
        cmocka_unit_test(what_ranks_write_into_open_memory_is_combined),
        cmocka_unit_test(graphs_replay_combines_beside_sums),
        cmocka_unit_test(large_messages_of_all_kinds_follow_one_another),
        cmocka_unit_test(collectives_of_rows_and_columns_are_theirs_alone),
        cmocka_unit_test(a_rank_that_does_not_come_to_its_column_is_named),
        cmocka_unit_test(a_rank_that_does_not_come_is_named_in_time),
        cmocka_unit_test(a_rank_that_leaves_large_messages_is_named_in_time),
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
