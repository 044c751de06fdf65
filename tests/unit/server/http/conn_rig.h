/* A table of connections to be tested. Sockets and epoll are real; the clock and the kernel's counters of bytes are set
 * by the test, so every deadline is tried at its limit and one past it. */
#ifndef LF_TESTS_UNIT_SERVER_HTTP_CONN_RIG_H
#define LF_TESTS_UNIT_SERVER_HTTP_CONN_RIG_H

#include "tests/support/test.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/conn/conn.h"
#include "server/http/conn/tcp_counters.h"
#include "tests/support/lock_depth.h"
#include "tests/support/stopped_clock.h"

enum { HEAD_MS = 10000, BODY_MS = 30000, READER_MS = 20000, SOCKETS_N = 300, FD_N = 1024 };

struct lf_wake {
    int n_gone;
};

static struct lf_tcp_counters counters[FD_N];
static bool no_counters;

void __wrap_lf_wake_gone(struct lf_wake *wake);
void __wrap_lf_wake_gone(struct lf_wake *wake)
{
    wake->n_gone++;
}

bool __wrap_lf_tcp_counters(int fd, struct lf_tcp_counters *out);
bool __wrap_lf_tcp_counters(int fd, struct lf_tcp_counters *out)
{
    assert_true(fd >= 0 && fd < FD_N);
    *out = counters[fd];
    return !no_counters;
}

/* ---- a table, and sockets to put into it ---- */

struct rig {
    struct lf_conns conns;
    int epoll_fd, n_sockets;
    int ours[SOCKETS_N], peers[SOCKETS_N];
};

static inline void open_rig_of(struct rig *r, int n, int n_cut, int n_per_address)
{
    struct lf_err err;
    memset(r, 0, sizeof *r);
    memset(counters, 0, sizeof counters);
    no_counters = false;
    now_ns = 1000 * (int64_t)LF_NS_PER_S;
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(r->epoll_fd >= 0);
    struct lf_conn_deadlines deadlines = {.head_ms = HEAD_MS, .body_ms = BODY_MS, .reader_ms = READER_MS};
    assert_int_equal(lf_conns_init(&r->conns, n, n_cut, n_per_address, deadlines, r->epoll_fd, &err), LF_OK);
}

static inline void open_rig(struct rig *r, int n, int n_per_address)
{
    open_rig_of(r, n, LF_CONN_CUT_N, n_per_address);
}

static inline void close_rig(struct rig *r)
{
    lf_conns_deinit(&r->conns);
    for (int i = 0; i < r->n_sockets; i++) {
        close(r->ours[i]);
        if (r->peers[i] >= 0) close(r->peers[i]);
    }
    close(r->epoll_fd);
}

static inline int socket_of(struct rig *r)
{
    int pair[2];
    assert_true(r->n_sockets < SOCKETS_N);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    r->ours[r->n_sockets] = pair[0];
    r->peers[r->n_sockets++] = pair[1];
    return pair[0];
}

static inline struct lf_conn *admit(struct rig *r, uint64_t address, bool *full)
{
    return lf_conn_admit(&r->conns, socket_of(r), address, full);
}

/* One that is served, and so makes room for nobody. */
static inline struct lf_conn *admit_busy(struct rig *r, uint64_t address)
{
    bool full;
    struct lf_conn *c = admit(r, address, &full);
    assert_non_null(c);
    lf_conn_enter(&r->conns, c, LF_CONN_WORK, NULL);
    return c;
}

static inline void pass(int64_t ns)
{
    now_ns += ns;
}

/* Whether the socket's reading side has ended: its peer is still there, so we must have ended it. */
static inline bool reads_end(int fd)
{
    char c;
    return recv(fd, &c, 1, MSG_DONTWAIT) == 0;
}

static inline bool writes_end(int fd)
{
    return send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0;
}

#endif
