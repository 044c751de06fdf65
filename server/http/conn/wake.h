/* Suspending a connection while there is nothing to do on it, and waking it when there is.
 *
 *     RUNNING ──suspend──▸ SUSPENDED ──news, its time, or the client's leaving──▸ RUNNING
 *        └──────lend─────▸ LENT ───────the worker that has it returns it────────▸ RUNNING
 *
 * RUNNING: libmicrohttpd's thread is in our callbacks or will come by. In the other two the connection is
 * suspended.
 * Three rules, all under the waker's lock, keep a wake from being lost and a connection from being resumed twice:
 *   - only libmicrohttpd's thread suspends, and only where no news came since it last looked (pending);
 *   - news resume a suspended one once; at any other time they are remembered;
 *   - one that is lent is resumed by the worker that has it, and by nobody else.
 * While the server stops nothing is suspended any more, so libmicrohttpd never ends with suspended connections.
 *
 * News come from the engine's thread, which must not be held up: lf_wake_notify puts the wake on a list, and the watch
 * thread resumes what is on it. Lock order: the waker's lock is taken before libmicrohttpd's own, and nothing else is
 * taken under it. */
#ifndef LF_SERVER_HTTP_CONN_WAKE_H
#define LF_SERVER_HTTP_CONN_WAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"

struct MHD_Connection;

struct lf_waker {
    int event_fd; /* owned; readable when there are news */
    atomic_bool stopping;
    pthread_mutex_t lock;
    struct lf_list wakes;       /* all there are */
    struct lf_list news, later; /* with news; later: those whose wake waits a little */
    int n_suspended;
};

enum lf_wake_state { LF_WAKE_RUNNING, LF_WAKE_SUSPENDED, LF_WAKE_LENT };

/* One a request, in its exchange. */
struct lf_wake {
    struct lf_waker *waker;
    struct MHD_Connection *mhd;
    int64_t began_ns;
    atomic_bool gone;    /* the client went away */
    atomic_bool patient; /* news may wait a little: an answer that is sent whole has nothing to show before its end */
    /* under the waker's lock */
    enum lf_wake_state state;
    bool pending;
    int64_t woken_ns, at_ns; /* at_ns: wake then at the latest; 0: no matter when */
    struct lf_list in_wakes, in_news;
};

bool lf_waker_init(struct lf_waker *waker); /* false: no descriptor left */
void lf_waker_deinit(struct lf_waker *waker);
/* From now on nothing is suspended, and everything is over; what was is resumed. */
void lf_waker_stop(struct lf_waker *waker);
/* The watch thread. Wakes what has news; returns when to come again at the latest (INT64_MAX: no matter when). */
int64_t lf_waker_run(struct lf_waker *waker);
/* The watch thread, at each tick: wakes what was suspended until now. */
void lf_waker_tick(struct lf_waker *waker, int64_t now_ns);
/* How many there are and how many of them are suspended. */
void lf_waker_count(struct lf_waker *waker, int *n_wakes, int *n_suspended);

void lf_wake_init(struct lf_wake *wake, struct lf_waker *waker, struct MHD_Connection *mhd);
/* Nobody may notify any more. */
void lf_wake_deinit(struct lf_wake *wake);

/* libmicrohttpd's thread. Suspends the connection; false where there were news meanwhile, or it is over: look again. */
bool lf_wake_suspend(struct lf_wake *wake, int64_t at_ns);
/* libmicrohttpd's thread. Suspends it for a worker; false when the server is stopping. */
bool lf_wake_lend(struct lf_wake *wake);
/* The worker's thread. What belongs to the connection must not be touched afterwards. */
void lf_wake_return(struct lf_wake *wake);

/* There are news. ctx is a wake. Any thread; takes the waker's lock, calls nobody. */
void lf_wake_notify(void *ctx);
/* The client has gone: marks it, and resumes what is suspended. Any thread. */
void lf_wake_gone(struct lf_wake *wake);
/* Whoever works for this request should give up: its client is gone or the server stops. ctx is a wake. */
bool lf_wake_is_over(void *ctx);

#endif
