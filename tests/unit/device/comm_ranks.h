/* Ranks as threads, of one group, or (ranks_on_wire) each with a group of its own and a socket to each other one, as
 * processes have. */
#ifndef LF_TESTS_UNIT_DEVICE_COMM_RANKS_H
#define LF_TESTS_UNIT_DEVICE_COMM_RANKS_H

#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/check.h"
#include "core/mix.h"
#include "device/comm.h"

/* SHORT_MS: a timeout that is to pass, and that a rank which others keep from running does not reach. */
enum { MOST_RANKS = 8, PATIENCE_MS = 60 * 1000, SHORT_MS = 1000, MOST_FLOATS = 100 * 1000 };

static bool ranks_on_wire;

struct rank {
    struct lf_comm_group *group;
    struct lf_comm *comm;
    int rank, n_ranks;
    void *ctx;
    void (*run)(struct rank *rank);
    pthread_t thread;
    pthread_barrier_t *all_run;
    struct lf_err err; /* after run */
    enum lf_status status;
};

static inline void *rank_main(void *arg)
{
    struct rank *r = arg;
    (void)pthread_barrier_wait(r->all_run); /* what time it takes to start them is nobody's fault */
    r->run(r);
    r->status = lf_comm_check(r->comm, &r->err);
    return NULL;
}

struct ranks {
    struct lf_comm_group *group; /* rank 0's */
    struct rank of[MOST_RANKS];
    pthread_barrier_t all_run;
    int n;
};

/* A socket between each two ranks. */
static inline void make_mesh(int sockets[MOST_RANKS][MOST_RANKS], int n)
{
    for (int a = 0; a < n; a++) {
        sockets[a][a] = -1;
        for (int b = 0; b < a; b++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            sockets[a][b] = pair[0];
            sockets[b][a] = pair[1];
        }
    }
}

static inline void make_groups(struct ranks *ranks, int timeout_ms)
{
    struct lf_err err;
    int sockets[MOST_RANKS][MOST_RANKS];
    if (ranks_on_wire) make_mesh(sockets, ranks->n);
    for (int i = 0; i < ranks->n; i++) {
        struct lf_comm_group **group = &ranks->of[i].group;
        enum lf_status status = LF_OK;
        if (ranks_on_wire)
            status = lf_comm_group_create_wire(group, ranks->n, i, sockets[i], timeout_ms, &err);
        else if (i == 0)
            status = lf_comm_group_create(group, ranks->n, timeout_ms, &err);
        else
            *group = ranks->of[0].group;
        if (status != LF_OK) fail_msg("%s", err.message);
    }
    ranks->group = ranks->of[0].group;
}

static inline void start(struct ranks *ranks, int n, int timeout_ms, void (*run)(struct rank *rank), void *ctx)
{
    struct lf_err err;
    memset(ranks, 0, sizeof(*ranks));
    ranks->n = n;
    make_groups(ranks, timeout_ms);
    assert_int_equal(pthread_barrier_init(&ranks->all_run, NULL, (unsigned)n), 0);
    for (int i = 0; i < n; i++) {
        struct rank *r = &ranks->of[i];
        r->rank = i;
        r->n_ranks = n;
        r->run = run;
        r->ctx = ctx;
        r->all_run = &ranks->all_run;
        assert_int_equal(lf_comm_create(&r->comm, r->group, i, &err), LF_OK);
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
    for (int i = 0; i < ranks->n; i++)
        if (i == 0 || ranks_on_wire) lf_comm_group_destroy(ranks->of[i].group);
    (void)pthread_barrier_destroy(&ranks->all_run);
}

static inline void run_all(int n, void (*run)(struct rank *rank), void *ctx)
{
    struct ranks ranks;
    start(&ranks, n, PATIENCE_MS, run, ctx);
    join(&ranks);
    for (int i = 0; i < n; i++)
        if (ranks.of[i].status != LF_OK) fail_msg("rank %d: %s", i, ranks.of[i].err.message);
    end(&ranks);
}

/* The same tests over the wire. */
static inline int use_wire(void **state)
{
    (void)state;
    ranks_on_wire = true;
    return 0;
}

#endif
