/* The watch thread: accepts connections, keeps deadlines, notices vanished clients, wakes calls that have news.
 *
 * libmicrohttpd is given accepted sockets and does not listen itself. Its own accept spins when descriptors run out,
 * its timeout knows inactivity only, and while a connection is suspended it sees nothing of it. So all of that is here:
 *   accept    limits in all and per address; out of descriptors it pauses until the next tick instead of spinning
 *   hang-up   every socket is in our epoll set for EPOLLRDHUP: a client that closes is noticed at once, parked or not.
 *             One that ends only its own side looks the same and counts as gone too, as with most proxies
 *   deadlines a tick every LF_TICK_MS looks at each connection's phase; too late means shutdown(2), upon which
 *             libmicrohttpd ends the connection by its usual way
 *   news      the engine marks calls dirty; here they are woken
 * Progress is measured by the kernel's own counters (bytes received, bytes acknowledged), because libmicrohttpd reports
 * neither half a head nor half a buffer. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <microhttpd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "server/http/call.h"
#include "server/http/tcp_counters.h"

enum { EVENTS_N = 64, ACCEPTS_N = 64, PATIENCE_MS = 20, PATIENCE_SHARE = 8 };
#define DATA_LISTEN UINT64_MAX
#define DATA_EVENT  (UINT64_MAX - 1)

static int64_t ms(int n)
{
    return (int64_t)n * LF_NS_PER_MS;
}

/* ---- slots ---- */

static void free_slot_locked(struct lf_http_server *s, struct lf_conn *c)
{
    c->phase = LF_CONN_FREE;
    c->fd = -1;
    c->mhd = NULL;
    c->call = NULL;
    c->generation++;
    s->n_conns_used--;
}

static void enter_locked(struct lf_conn *c, enum lf_conn_phase phase)
{
    struct lf_tcp_counters k;
    c->phase = phase;
    c->since_ns = c->acked_ns = lf_clock_ns();
    if (phase == LF_CONN_IDLE && lf_tcp_counters(c->fd, &k)) c->received_bytes = k.bytes_received;
    if (phase == LF_CONN_ANSWER && lf_tcp_counters(c->fd, &k)) c->acked_bytes = k.bytes_acked;
    if (phase == LF_CONN_BODY) atomic_store(&c->body_bytes, 0);
}

/* NULL: the limit in all (*full) or of that address is reached. */
static struct lf_conn *take_slot(struct lf_http_server *s, int fd, uint64_t address, bool *full)
{
    struct lf_conn *slot = NULL;
    int n_same = 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_conns; i++) {
        struct lf_conn *c = &s->conns[i];
        /* libmicrohttpd closed this descriptor without telling (it had no memory for the connection) */
        if (c->phase != LF_CONN_FREE && c->fd == fd) free_slot_locked(s, c);
        if (c->phase == LF_CONN_FREE)
            slot = slot ? slot : c;
        else if (c->address == address)
            n_same++;
    }
    *full = !slot;
    if (n_same >= s->opts.n_connections_per_address) slot = NULL;
    if (slot) {
        slot->fd = fd;
        slot->address = address;
        slot->hung_up = false;
        enter_locked(slot, LF_CONN_HEAD);
        s->n_conns_used++;
    }
    pthread_mutex_unlock(&s->lock);
    return slot;
}

struct lf_conn *lf_conn_started(struct lf_http_server *s, int fd, struct MHD_Connection *mhd)
{
    struct lf_conn *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_conns && !found; i++)
        if (s->conns[i].phase != LF_CONN_FREE && s->conns[i].fd == fd) found = &s->conns[i];
    if (found) found->mhd = mhd;
    pthread_mutex_unlock(&s->lock);
    return found;
}

void lf_conn_closed(struct lf_http_server *s, struct lf_conn *conn)
{
    pthread_mutex_lock(&s->lock);
    (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    free_slot_locked(s, conn);
    pthread_mutex_unlock(&s->lock);
}

void lf_conn_enter(struct lf_http_server *s, struct lf_conn *conn, enum lf_conn_phase phase, struct lf_call *call)
{
    pthread_mutex_lock(&s->lock);
    enter_locked(conn, phase);
    conn->call = call;
    if (call && conn->hung_up) atomic_store(&call->gone, true);
    pthread_mutex_unlock(&s->lock);
}

/* ---- accepting ---- */

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

/* Says why before closing. Closing at once would reset the connection under the answer, so it lingers for a second. */
static void turn_away(struct lf_http_server *s, int fd, bool full)
{
    struct lf_api_err err;
    (void)!lf_refuse(&err, full ? 503 : 429, NULL, full ? "too_many_connections" : "too_many_connections_of_address",
                     full ? "The server has no connection left." : "Too many connections from this address.");
    struct lf_buf body, out;
    char id[25];
    lf_buf_init(&body, LF_REPLY_BYTES);
    lf_buf_init(&out, LF_REPLY_BYTES);
    lf_new_id(s, id);
    lf_api_err_write(&body, &err);
    lf_buf_printf(&out,
                  "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nRetry-After: 1\r\n"
                  "x-request-id: req-%s\r\nConnection: close\r\n\r\n",
                  full ? "503 Service Unavailable" : "429 Too Many Requests", body.len, id);
    lf_buf_str(&out, lf_buf_view(&body));
    if (out.status == LF_OK) (void)send(fd, out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    lf_buf_deinit(&body);
    lf_buf_deinit(&out);
    struct lf_refused *oldest = &s->refused[0];
    for (int i = 0; i < LF_REFUSED_N; i++) {
        struct lf_refused *r = &s->refused[i];
        if (r->fd < 0 || (oldest->fd >= 0 && r->until_ns < oldest->until_ns)) oldest = r;
    }
    if (oldest->fd >= 0) close(oldest->fd);
    *oldest = (struct lf_refused){.fd = fd, .until_ns = lf_clock_ns() + LF_NS_PER_S};
}

static void admit(struct lf_http_server *s, int fd, const struct sockaddr_storage *addr, socklen_t addr_len)
{
    bool full = false;
    struct lf_conn *slot = take_slot(s, fd, lf_peer_address(addr), &full);
    if (!slot) {
        lf_counter_add(full ? &s->metrics.refused_full : &s->metrics.refused_address, 1);
        turn_away(s, fd, full);
        return;
    }
    lf_counter_add(&s->metrics.connections, 1);
    tune(s, fd);
    uint64_t idx = (uint64_t)(slot - s->conns);
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = (uint64_t)slot->generation << 32 | idx};
    bool watched = epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
    if (!watched) close(fd);
    if (!watched || MHD_add_connection(s->daemon, fd, (const struct sockaddr *)addr, addr_len) != MHD_YES) {
        pthread_mutex_lock(&s->lock);
        free_slot_locked(s, slot);
        pthread_mutex_unlock(&s->lock);
        lf_counter_add(&s->metrics.accept_failed, 1);
    }
}

static void listen_events(struct lf_http_server *s, bool on)
{
    struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.u64 = DATA_LISTEN};
    (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listen_fd, &ev);
    s->accept_paused = !on;
}

static void accept_some(struct lf_http_server *s)
{
    for (int i = 0; i < ACCEPTS_N; i++) {
        struct sockaddr_storage addr = {0};
        socklen_t addr_len = sizeof addr;
        int fd = accept4(s->listen_fd, (struct sockaddr *)&addr, &addr_len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(s, fd, &addr, addr_len);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        if (errno == EINTR || errno == ECONNABORTED) continue;
        lf_counter_add(&s->metrics.accept_failed, 1);
        listen_events(s, false); /* no descriptors or no memory: again at the next tick */
        return;
    }
}

/* ---- deadlines ---- */

static void cut(struct lf_conn *c, struct lf_counter *why)
{
    lf_counter_add(why, 1);
    (void)shutdown(c->fd, SHUT_RDWR);
    c->since_ns = c->acked_ns = lf_clock_ns(); /* cut once, not at every tick until it is closed */
}

/* The first bytes of the next request's head start its deadline. */
static void check_idle(struct lf_http_server *s, struct lf_conn *c, int64_t now)
{
    struct lf_tcp_counters k;
    if (lf_tcp_counters(c->fd, &k) && k.bytes_received != c->received_bytes) {
        c->phase = LF_CONN_HEAD;
        c->since_ns = now;
    } else if (now - c->since_ns > ms(LF_IDLE_MS)) {
        cut(c, &s->metrics.cut_idle);
    }
}

static void check_body(struct lf_http_server *s, struct lf_conn *c, int64_t now)
{
    int64_t age = now - c->since_ns;
    uint64_t need = (uint64_t)(age / LF_NS_PER_MS) * LF_BODY_BYTES_PER_S / 1000;
    bool slow = age > ms(LF_BODY_GRACE_MS) && atomic_load(&c->body_bytes) < need;
    if (slow || age > ms(s->opts.body_deadline_ms)) cut(c, &s->metrics.cut_body);
}

/* A client that does not read: bytes wait in the kernel, and none was acknowledged for too long. */
static void check_reader(struct lf_http_server *s, struct lf_conn *c, int64_t now)
{
    struct lf_tcp_counters k;
    if (!lf_tcp_counters(c->fd, &k)) return;
    if (k.waiting_bytes == 0 || k.bytes_acked != c->acked_bytes) {
        c->acked_bytes = k.bytes_acked;
        c->acked_ns = now;
    } else if (now - c->acked_ns > ms(s->opts.slow_reader_ms)) {
        cut(c, &s->metrics.cut_reader);
        if (c->call) {
            atomic_store(&c->call->gone, true);
            lf_call_wake_locked(c->call);
        }
    }
}

/* libmicrohttpd takes a short read for the end of what is there, and misses an end of the stream that came with the
 * last bytes: no further event is due. Shutting down the reading side makes one, and what was received stays readable.
 */
static void nudge(const struct lf_conn *c)
{
    bool reads = c->phase == LF_CONN_HEAD || c->phase == LF_CONN_IDLE || c->phase == LF_CONN_BODY;
    if (c->hung_up && reads) (void)shutdown(c->fd, SHUT_RD);
}

static void check_connections(struct lf_http_server *s, int64_t now)
{
    for (int i = 0; i < s->n_conns; i++) {
        struct lf_conn *c = &s->conns[i];
        nudge(c);
        switch (c->phase) {
        case LF_CONN_FREE:
            break;
        case LF_CONN_HEAD:
            if (now - c->since_ns > ms(s->opts.header_deadline_ms)) cut(c, &s->metrics.cut_head);
            break;
        case LF_CONN_IDLE:
            check_idle(s, c, now);
            break;
        case LF_CONN_BODY:
            check_body(s, c, now);
            break;
        case LF_CONN_ANSWER:
            check_reader(s, c, now);
            break;
        }
    }
}

static void tick(struct lf_http_server *s)
{
    int64_t now = lf_clock_ns();
    pthread_mutex_lock(&s->lock);
    check_connections(s, now);
    LF_LIST_EACH(node, &s->calls)
    {
        struct lf_call *call = LF_LIST_ENTRY(node, struct lf_call, in_calls);
        if (call->parked && call->wake_at_ns && now >= call->wake_at_ns) lf_call_wake_locked(call);
    }
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < LF_REFUSED_N; i++) {
        struct lf_refused *r = &s->refused[i];
        if (r->fd < 0 || now < r->until_ns) continue;
        close(r->fd);
        r->fd = -1;
    }
    if (s->accept_paused) listen_events(s, true);
}

/* ---- the loop ---- */

/* When a call may be woken for news. One that is patient is woken the less often the longer it runs: looking at each
 * token of an answer that is sent whole would cost more than making it. */
static int64_t due_ns(const struct lf_call *call, int64_t now)
{
    if (!atomic_load(&call->patient)) return now;
    int64_t gap = LF_MIN((now - call->started_ns) / PATIENCE_SHARE, ms(PATIENCE_MS));
    return call->woken_ns + gap;
}

static void wake_if_due(struct lf_list *list, struct lf_list *later, int64_t now, int64_t *next_ns)
{
    LF_LIST_EACH_SAFE(node, list)
    {
        struct lf_call *call = LF_LIST_ENTRY(node, struct lf_call, in_dirty);
        int64_t due = due_ns(call, now);
        lf_list_remove(node);
        if (due <= now) {
            lf_call_wake_locked(call);
            continue;
        }
        lf_list_push_back(later, node);
        *next_ns = LF_MIN(*next_ns, due);
    }
}

/* Wakes the calls that have news; returns when the next of those that wait is due. */
static int64_t wake_dirty(struct lf_http_server *s)
{
    struct lf_list waiting;
    int64_t now = lf_clock_ns(), next_ns = INT64_MAX;
    lf_list_init(&waiting);
    pthread_mutex_lock(&s->lock);
    wake_if_due(&s->later, &waiting, now, &next_ns);
    wake_if_due(&s->dirty, &waiting, now, &next_ns);
    struct lf_list *node;
    while ((node = lf_list_first(&waiting))) {
        lf_list_remove(node);
        lf_list_push_back(&s->later, node);
    }
    pthread_mutex_unlock(&s->lock);
    return next_ns;
}

static void hang_up(struct lf_http_server *s, uint64_t data)
{
    uint32_t idx = (uint32_t)data, generation = (uint32_t)(data >> 32);
    if (idx >= (uint32_t)s->n_conns) return;
    struct lf_conn *c = &s->conns[idx];
    pthread_mutex_lock(&s->lock);
    if (c->phase != LF_CONN_FREE && c->generation == generation) {
        c->hung_up = true;
        nudge(c);
        if (c->call) {
            atomic_store(&c->call->gone, true);
            lf_call_wake_locked(c->call);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static void *watch(void *ctx)
{
    struct lf_http_server *s = ctx;
    int64_t next_tick = lf_clock_ns() + ms(LF_TICK_MS), next_wake = next_tick;
    while (!atomic_load(&s->stopping)) {
        struct epoll_event events[EVENTS_N];
        int64_t wait = LF_MIN(next_tick, next_wake) - lf_clock_ns();
        int n = epoll_wait(s->epoll_fd, events, EVENTS_N, wait > 0 ? (int)(wait / LF_NS_PER_MS) + 1 : 0);
        for (int i = 0; i < n; i++) {
            uint64_t data = events[i].data.u64, count;
            if (data == DATA_LISTEN)
                accept_some(s);
            else if (data == DATA_EVENT)
                (void)!read(s->event_fd, &count, sizeof count);
            else
                hang_up(s, data);
        }
        next_wake = wake_dirty(s);
        if (lf_clock_ns() < next_tick) continue;
        tick(s);
        next_tick = lf_clock_ns() + ms(LF_TICK_MS);
    }
    return NULL;
}

void lf_watch_wake(struct lf_http_server *s)
{
    uint64_t one = 1;
    (void)!write(s->event_fd, &one, sizeof one);
}

enum lf_status lf_watch_start(struct lf_http_server *s, struct lf_err *err)
{
    struct epoll_event listen_ev = {.events = EPOLLIN, .data.u64 = DATA_LISTEN};
    struct epoll_event event_ev = {.events = EPOLLIN, .data.u64 = DATA_EVENT};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listen_fd, &listen_ev) != 0 ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->event_fd, &event_ev) != 0)
        return lf_fail(err, LF_IO, "epoll refuses the listening socket");
    if (pthread_create(&s->watch_thread, NULL, watch, s) != 0)
        return lf_fail(err, LF_NO_MEMORY, "the watch thread does not start");
    return LF_OK;
}

void lf_watch_stop(struct lf_http_server *s)
{
    lf_watch_wake(s);
    pthread_join(s->watch_thread, NULL);
    for (int i = 0; i < LF_REFUSED_N; i++)
        if (s->refused[i].fd >= 0) close(s->refused[i].fd);
}
