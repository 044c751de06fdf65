#include "server/http/conn/accept.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "core/check.h"
#include "core/clock.h"
#include "server/http/conn/last_reply.h"
#include "server/http/conn/server.h"

enum {
    ACCEPTS_N = 64,   /* in one go */
    MAKE_ROOM_MS = 5, /* until the descriptors of what was given up are free */
    HELD_MS = 250,    /* a starved machine needs more than a moment to close what is on its way out */
    PAUSE_MS = 200
};

void lf_acceptor_init(struct lf_acceptor *acceptor)
{
    *acceptor = (struct lf_acceptor){.n_refused = LF_REFUSED_N};
    for (int i = 0; i < LF_REFUSED_N; i++) acceptor->refused[i].fd = -1;
    acceptor->held.fd = -1;
}

/* Closes those that have lingered until then; how many. */
static int close_refused(struct lf_acceptor *acceptor, int64_t now_ns)
{
    int n = 0;
    for (int i = 0; i < LF_REFUSED_N; i++) {
        struct lf_refused *r = &acceptor->refused[i];
        if (r->fd < 0 || now_ns < r->until_ns) continue;
        close(r->fd);
        r->fd = -1;
        n++;
    }
    return n;
}

void lf_acceptor_deinit(struct lf_acceptor *acceptor)
{
    (void)close_refused(acceptor, INT64_MAX);
    if (acceptor->held.fd >= 0) close(acceptor->held.fd);
    acceptor->held.fd = -1;
}

static void tune(struct lf_http_server *s, int fd)
{
    int yes = 1, send_bytes = LF_SOCKET_SEND_BYTES, idle_s = 30, every_s = 10, n_probes = 3;
    unsigned unanswered_ms = (unsigned)s->opts.slow_reader_ms;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n_probes, sizeof n_probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

static void turn_away(struct lf_http_server *s, int fd, bool full)
{
    struct lf_api_err err;
    (void)!lf_refuse(&err, full ? 503 : 429, NULL, full ? "too_many_connections" : "too_many_connections_of_address",
                     full ? "The server has no connection left." : "Too many connections from this address.");
    err.retry_after_s = 1;
    lf_last_reply_refuse(fd, &err);
    (void)shutdown(fd, SHUT_WR);
    if (s->acceptor.n_refused == 0) {
        close(fd);
        return;
    }
    struct lf_refused *oldest = &s->acceptor.refused[0];
    for (int i = 0; i < s->acceptor.n_refused; i++) {
        struct lf_refused *r = &s->acceptor.refused[i];
        if (r->fd < 0 || (oldest->fd >= 0 && r->until_ns < oldest->until_ns)) oldest = r;
    }
    if (oldest->fd >= 0) close(oldest->fd);
    *oldest = (struct lf_refused){.fd = fd, .until_ns = lf_clock_ns() + LF_NS_PER_S};
}

static void admit(struct lf_http_server *s, const struct lf_accepted *a)
{
    bool full = false;
    tune(s, a->fd);
    struct lf_address peer = lf_address_of(&a->addr);
    uint64_t address = lf_proxies_have(&s->proxies, &peer) ? LF_CONN_OF_PROXY : lf_address_key(&peer);
    struct lf_conn *conn = lf_conn_admit(&s->conns, a->fd, address, &full);
    if (conn) conn->peer = peer;
    if (!conn)
        turn_away(s, a->fd, full);
    else if (MHD_add_connection(s->daemon, a->fd, (const struct sockaddr *)&a->addr, a->addr_len) != MHD_YES)
        lf_conn_discard(&s->conns, conn); /* libmicrohttpd has closed it */
}

static void listen_events(struct lf_http_server *s, bool on)
{
    struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.u64 = LF_WATCH_LISTEN};
    (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listen_fd, &ev);
    s->acceptor.paused = !on;
}

static void pause_for(struct lf_http_server *s, int64_t ms)
{
    s->acceptor.again_ns = lf_clock_ns() + ms * LF_NS_PER_MS;
    listen_events(s, false);
}

/* Whether it is worth while to wait for the places of those that are being closed. */
static bool waits_for_place(struct lf_http_server *s)
{
    bool soon = lf_conns_will_have_room(&s->conns);
    if (!soon) s->acceptor.in_vain = false;
    return soon && !s->acceptor.in_vain;
}

static void hold(struct lf_http_server *s, const struct lf_accepted *a)
{
    s->acceptor.held = *a;
    s->acceptor.held_until_ns = lf_clock_ns() + HELD_MS * LF_NS_PER_MS;
    pause_for(s, MAKE_ROOM_MS);
}

/* The one that waits comes in, or is turned away; false: it goes on waiting. */
static bool let_in_held(struct lf_http_server *s, int64_t now_ns)
{
    struct lf_accepted held = s->acceptor.held;
    if (held.fd < 0) return true;
    bool soon = waits_for_place(s);
    if (soon && now_ns < s->acceptor.held_until_ns) {
        s->acceptor.again_ns = now_ns + MAKE_ROOM_MS * LF_NS_PER_MS;
        return false;
    }
    s->acceptor.in_vain = soon;
    s->acceptor.held.fd = -1;
    admit(s, &held);
    return true;
}

/* No descriptors or no memory. Whether it is worth while to try again at once; else accepting pauses. */
static bool make_room(struct lf_http_server *s)
{
    lf_counter_add(&s->conns.metrics.failed, 1);
    if (close_refused(&s->acceptor, INT64_MAX) > 0) return true;
    pause_for(s, lf_conns_make_room(&s->conns) ? MAKE_ROOM_MS : PAUSE_MS);
    return false;
}

void lf_acceptor_run(struct lf_http_server *s)
{
    for (int i = 0; i < ACCEPTS_N; i++) {
        struct lf_accepted a = {.addr_len = sizeof a.addr};
        a.fd = accept4(s->listen_fd, (struct sockaddr *)&a.addr, &a.addr_len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (a.fd >= 0 && waits_for_place(s)) {
            hold(s, &a);
            return;
        }
        if (a.fd >= 0) {
            admit(s, &a);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (!make_room(s)) return;
    }
}

int64_t lf_acceptor_resume(struct lf_http_server *s, int64_t now_ns)
{
    if (s->acceptor.paused && now_ns >= s->acceptor.again_ns && let_in_held(s, now_ns)) listen_events(s, true);
    return s->acceptor.paused ? s->acceptor.again_ns : INT64_MAX;
}

void lf_acceptor_tick(struct lf_http_server *s, int64_t now_ns)
{
    (void)close_refused(&s->acceptor, now_ns);
}
