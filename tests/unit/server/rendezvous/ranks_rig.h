/* Ranks of a test that meet over loopback, a thread or a process each, and what must hold behind a rendezvous. */
#ifndef LF_TESTS_UNIT_SERVER_RENDEZVOUS_RANKS_RIG_H
#define LF_TESTS_UNIT_SERVER_RENDEZVOUS_RANKS_RIG_H

#include "tests/support/test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "server/rendezvous/rendezvous.h"

#define RIG_SECRET   "sixteen bytes or more"
#define RIG_IDENTITY "longflash 1.2.3 model demo tp=2"

enum { RIG_TIMEOUT_MS = 60 * 1000 };

struct rig_rank {
    struct lf_rendezvous_opts opts;
    char address[64];
    int delay_ms;
    int sockets[LF_RANKS_N];
    struct lf_err err;
    enum lf_status status;
    pthread_t thread;
};

struct rig {
    int n_ranks, port;
    struct rig_rank ranks[LF_RANKS_N];
};

/* A port of loopback on which nobody listens. */
static inline int rig_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static inline int rig_count_fds(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

static inline struct lf_rendezvous_opts rig_opts(int rank, int n_ranks, const char *address)
{
    return (struct lf_rendezvous_opts){.rank = rank,
                                       .n_ranks = n_ranks,
                                       .address = address,
                                       .secret = (const uint8_t *)RIG_SECRET,
                                       .n_secret = sizeof RIG_SECRET - 1,
                                       .timeout_ms = RIG_TIMEOUT_MS,
                                       .identity = RIG_IDENTITY};
}

static inline void rig_make(struct rig *r, int n_ranks, const char *host)
{
    *r = (struct rig){.n_ranks = n_ranks, .port = rig_free_port()};
    lf_log_set_level(LF_LOG_ERROR);
    for (int i = 0; i < n_ranks; i++) {
        snprintf(r->ranks[i].address, sizeof r->ranks[i].address, "%s:%d", host, r->port);
        r->ranks[i].opts = rig_opts(i, n_ranks, r->ranks[i].address);
    }
}

static inline void *rig_run_rank(void *ctx)
{
    struct rig_rank *rank = ctx;
    lf_clock_sleep_ms(rank->delay_ms);
    rank->status = lf_rendezvous(rank->sockets, &rank->opts, &rank->err);
    return NULL;
}

static inline void rig_start_rank(struct rig *r, int rank)
{
    assert_int_equal(pthread_create(&r->ranks[rank].thread, NULL, rig_run_rank, &r->ranks[rank]), 0);
}

static inline void rig_join_rank(struct rig *r, int rank)
{
    assert_int_equal(pthread_join(r->ranks[rank].thread, NULL), 0);
}

static inline void rig_run(struct rig *r)
{
    for (int i = 0; i < r->n_ranks; i++) rig_start_rank(r, i);
    for (int i = 0; i < r->n_ranks; i++) rig_join_rank(r, i);
}

/* A socket as it is promised. */
static inline bool rig_is_plain(int fd)
{
    int on = 0;
    socklen_t n = sizeof on;
    return !(fcntl(fd, F_GETFL) & O_NONBLOCK) && (fcntl(fd, F_GETFD) & FD_CLOEXEC) &&
           getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &n) == 0 && on;
}

/* Says to each other rank who this one is. */
static inline bool rig_greet(const struct rig_rank *rank)
{
    for (int r = 0; r < LF_RANKS_N; r++) {
        const char mine = (char)rank->opts.rank;
        if ((rank->sockets[r] >= 0) != (r < rank->opts.n_ranks && r != rank->opts.rank)) return false;
        if (rank->sockets[r] < 0) continue;
        if (!rig_is_plain(rank->sockets[r]) || send(rank->sockets[r], &mine, 1, MSG_NOSIGNAL) != 1) return false;
    }
    return true;
}

/* Hears who the others are; nothing else was in the sockets. */
static inline bool rig_hear(const struct rig_rank *rank)
{
    for (int r = 0; r < rank->opts.n_ranks; r++) {
        char said = -1;
        if (r != rank->opts.rank && (recv(rank->sockets[r], &said, 1, 0) != 1 || said != r)) return false;
    }
    return true;
}

static inline void rig_close_rank(struct rig_rank *rank)
{
    for (int r = 0; r < LF_RANKS_N; r++)
        if (rank->sockets[r] >= 0) close(rank->sockets[r]);
}

/* All are in, and sockets[r] of each leads to r. */
static inline void rig_check(struct rig *r)
{
    for (int i = 0; i < r->n_ranks; i++) {
        if (r->ranks[i].status != LF_OK) fail_msg("rank %d: %s", i, r->ranks[i].err.message);
        assert_true(rig_greet(&r->ranks[i]));
    }
    for (int i = 0; i < r->n_ranks; i++) assert_true(rig_hear(&r->ranks[i]));
    for (int i = 0; i < r->n_ranks; i++) rig_close_rank(&r->ranks[i]);
}

/* All sockets of a rank that failed are −1. */
static inline void rig_check_failed(const struct rig_rank *rank, enum lf_status status, const char *words)
{
    if (rank->status != status || !strstr(rank->err.message, words))
        fail_msg("rank %d: expected %s with \"%s\", got %s: %s", rank->opts.rank, lf_status_name(status), words,
                 lf_status_name(rank->status), rank->err.message);
    for (int r = 0; r < LF_RANKS_N; r++) assert_int_equal(rank->sockets[r], -1);
}

#endif
