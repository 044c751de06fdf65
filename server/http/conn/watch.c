#include "server/http/conn/watch.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "server/http/api/response_store.h"
#include "server/http/conn/server.h"

enum { EVENTS_N = 64, TICK_MS = 200 };

static void tick(struct lf_http_server *s)
{
    int64_t now_ns = lf_clock_ns();
    lf_conns_tick(&s->conns, now_ns);
    lf_waker_tick(&s->waker, now_ns);
    lf_acceptor_tick(s, now_ns);
    lf_readings_tick(&s->readings);
    if (!s->keeper.dir) lf_keeper_expire(&s->keeper, lf_clock_unix_s()); /* else `returns`: it waits for the disk */
    lf_response_store_expire(s->responses, lf_clock_unix_s());
}

static void handle_event(struct lf_http_server *s, uint64_t data)
{
    uint64_t count;
    if (data == LF_WATCH_LISTEN)
        lf_acceptor_run(s);
    else if (data == LF_WATCH_NEWS)
        (void)!read(s->waker.event_fd, &count, sizeof count);
    else
        lf_conns_hang_up(&s->conns, data);
}

static void *watch(void *ctx)
{
    struct lf_http_server *s = ctx;
    int64_t tick_ns = TICK_MS * LF_NS_PER_MS, next_tick = lf_clock_ns() + tick_ns, next = next_tick;
    while (!atomic_load(&s->waker.stopping)) {
        struct epoll_event events[EVENTS_N];
        int64_t wait = LF_MIN(next_tick, next) - lf_clock_ns();
        int n = epoll_wait(s->epoll_fd, events, EVENTS_N, wait > 0 ? (int)(wait / LF_NS_PER_MS) + 1 : 0);
        for (int i = 0; i < n; i++) handle_event(s, events[i].data.u64);
        int64_t again = lf_acceptor_resume(s, lf_clock_ns());
        next = LF_MIN(lf_waker_run(&s->waker), again);
        if (lf_clock_ns() < next_tick) continue;
        tick(s);
        next_tick = lf_clock_ns() + tick_ns;
    }
    return NULL;
}

enum lf_status lf_watch_start(struct lf_http_server *s, struct lf_err *err)
{
    struct epoll_event listen_ev = {.events = EPOLLIN, .data.u64 = LF_WATCH_LISTEN};
    struct epoll_event news_ev = {.events = EPOLLIN, .data.u64 = LF_WATCH_NEWS};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listen_fd, &listen_ev) != 0 ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->waker.event_fd, &news_ev) != 0)
        return lf_fail(err, LF_IO, "epoll refuses the listening socket");
    if (pthread_create(&s->watch_thread, NULL, watch, s) != 0)
        return lf_fail(err, LF_NO_MEMORY, "the watch thread does not start");
    return LF_OK;
}

void lf_watch_stop(struct lf_http_server *s)
{
    pthread_join(s->watch_thread, NULL);
    lf_acceptor_deinit(&s->acceptor);
}
