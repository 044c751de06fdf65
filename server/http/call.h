/* One HTTP request, from its head to the last byte of its answer.
 *
 * Life. libmicrohttpd's access handler makes a call when the head is there, feeds it the body, hands it to a worker
 * (the connection is suspended meanwhile), and then either sends the reply, or waits for the generation and sends its
 * answer, or streams. Its completion callback ends the call: engine requests are let go of, memory is freed.
 *
 * Waiting. A connection that has nothing to send is parked: suspended in libmicrohttpd until lf_call_wake. The rules,
 * all under the server's lock, keep a wake from being lost and a connection from being resumed twice:
 *   - only libmicrohttpd's thread parks, and it parks only if no wake came since it last looked (wake_pending);
 *   - a wake of a parked call resumes it once; of a call that is not parked it is remembered;
 *   - a call in a worker's hands (busy) is resumed by that worker alone.
 * While the server stops nothing parks any more, so libmicrohttpd is never stopped with suspended connections. */
#ifndef LF_SERVER_HTTP_CALL_H
#define LF_SERVER_HTTP_CALL_H

#include "core/list.h"
#include "server/http/headers.h"
#include "server/http/reply.h"
#include "server/http/server.h"

struct lf_route;
struct lf_generation;
struct lf_sse;

enum { LF_REQUEST_ID_BYTES = 64 };

struct lf_call {
    /* set from the head on */
    struct lf_http_server *server;
    struct MHD_Connection *mhd;
    struct lf_conn *conn;
    const struct lf_route *route; /* NULL: none matches */
    struct lf_str tail;           /* what follows the route's path, percent-decoded; owned by tail_buf */
    struct lf_buf tail_buf;
    char id[25];
    char request_id[LF_REQUEST_ID_BYTES + 1];
    struct lf_tenant tenant;
    const char *cors; /* for Access-Control-Allow-Origin; borrowed from the options, NULL: none */
    bool http_1_0;
    int64_t started_ns; /* when the head was there */

    /* the body, while it is read; the worker frees it when it has been read */
    struct lf_buf body;
    uint64_t body_charged; /* of the server's budget */
    bool discard;          /* the answer is known: the rest of the body is read and dropped */

    /* the answer: whoever has the call in hand */
    struct lf_reply reply;
    struct lf_generation *gen; /* owned; NULL: the reply is all */
    struct lf_sse *sse;        /* owned; a stream */
    bool handled, queued;
    bool answered; /* a stream was sent to its end */
    bool counted;  /* in n_in_flight */

    /* under the server's lock */
    struct lf_list in_calls, in_dirty, in_work;
    bool parked, busy, wake_pending;
    int64_t woken_ns;
    int64_t wake_at_ns;  /* parked: wake then at the latest; 0: no matter when */
    atomic_bool gone;    /* the client went away */
    atomic_bool patient; /* news may wait a little: an answer that is sent whole has nothing to show before its end */
};

/* libmicrohttpd's thread. Suspends the connection unless there was a wake, or the server stops, or the client is gone:
 * false then, and the caller looks again. wake_at_ns as in the struct. */
bool lf_call_park(struct lf_call *call, int64_t wake_at_ns);
/* libmicrohttpd's thread. Suspends and puts it before the workers; false when the server is stopping. */
bool lf_call_hand_over(struct lf_call *call);
/* A worker's thread: back to libmicrohttpd. The call must not be touched afterwards. */
void lf_call_hand_back(struct lf_call *call);
void lf_call_wake_locked(struct lf_call *call);
/* For lf_gen_params.notify: ctx is a call. Any thread; takes the lock, calls nobody. */
void lf_call_notify(void *ctx);

/* The reader of this call should give up: the client is gone or the server stops. */
bool lf_call_is_over(struct lf_call *call);
/* The body is of no further use: gives its memory back. */
void lf_call_drop_body(struct lf_call *call);

#endif
