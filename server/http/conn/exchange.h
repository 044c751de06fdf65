/* Exchanges: the one owner of an HTTP request and its answer, from the head to the last byte.
 *
 *     head ──▸ body ──▸ work ──▸ answer ──▸ end
 *       │        │        └─ a route's handler fills the reply, or sets an answer that is made while it is sent
 *       └────────┴─ refused: the reply is known, the rest of the body is read and dropped
 *
 * libmicrohttpd's callbacks make an exchange when the head is there, feed it the body, hand it to a worker (its
 * connection is suspended meanwhile), send what the handler left, and end it. In between it waits as wake.h says. One
 * thread has it at a time: libmicrohttpd's, or the worker's; what others may touch is in `wake`.
 *
 * Memory: the body, what is made of it and the answer come from the server's text memory. A worker begins only where
 * LF_WORK_FACTOR times the body can be set aside, which is what reading, rendering and tokenizing it may need; else, or
 * where the budget runs out on the way, the answer is 503 with Retry-After. */
#ifndef LF_SERVER_HTTP_CONN_EXCHANGE_H
#define LF_SERVER_HTTP_CONN_EXCHANGE_H

#include <microhttpd.h>

#include "core/work.h"
#include "server/http/conn/answer.h"
#include "server/http/conn/auth.h"
#include "server/http/conn/conn.h"
#include "server/http/conn/reply.h"
#include "server/http/conn/wake.h"
#include "server/http/conn/workers.h"

struct lf_http_server;
struct lf_route;

enum {
    LF_DISCARD_FACTOR = 4, /* a body is read and dropped up to so many times the largest one taken */
    LF_WORK_FACTOR = 5,
    LF_WORK_BYTES = 256 * 1024 /* beside that, of any work */
};

/* What the work is. A worker for short texts, for which others wait in line, is to be free again soon: a handler that
 * meets something costly there says so and leaves everything as it was, and a worker for long ones begins anew. */
enum lf_effort { LF_EFFORT_SHORT, LF_EFFORT_COSTLY, LF_EFFORT_LONG };

struct lf_exchange {
    struct lf_http_server *server;
    struct MHD_Connection *mhd;
    struct lf_conn *conn;
    struct lf_wake wake;
    struct lf_job job;
    struct lf_work work; /* of reading this request: for whoever loops over its texts */
    enum lf_effort effort;

    /* from the head on */
    const struct lf_route *route; /* NULL: none matches */
    struct lf_str tail;           /* what follows the route's path, percent-decoded; in tail_buf */
    struct lf_buf tail_buf;
    char id[25];
    bool client_id; /* request_id is the client's */
    char request_id[LF_REQUEST_ID_BYTES + 1];
    struct lf_tenant tenant;
    struct lf_address client; /* the peer, behind a trusted proxy its client */
    const char *cors;         /* for Access-Control-Allow-Origin; borrowed from the options, NULL: none */
    struct lf_str preflight;  /* Access-Control-Request-Headers, borrowed from libmicrohttpd */
    struct lf_str if_match;   /* of the header, borrowed from libmicrohttpd */
    bool is_text;             /* the body is a text and no JSON */
    bool wait;                /* ?wait=true, where the route has that */
    bool http_1_0;
    struct lf_str if_none_match; /* as if_match */

    uint64_t document_bytes; /* of the documents that the body names, where they are long */
    struct lf_buf body;      /* while it is read; the handler drops it when it has read it */
    bool discard;            /* the answer is known: the rest of the body is read and dropped */

    /* the answer */
    struct lf_reply reply;
    struct lf_answer *answer; /* owned; NULL: the reply is all */
    struct lf_buf window;     /* of the answer: made and not yet taken */
    size_t taken;
    bool ended, last; /* of the answer, with what is in the window; last: the connection is not read any more */
    bool handled, queued, counted;
    bool answered; /* it was sent to its end */
};

/* libmicrohttpd's callbacks, in the order of a request. NULL: no memory. */
struct lf_exchange *lf_exchange_begin(struct lf_http_server *s, struct lf_conn *conn, struct MHD_Connection *mhd);
/* The head is there: refuses, or lets the body come. */
enum MHD_Result lf_exchange_head(struct lf_exchange *x, const char *url, const char *method, const char *version);
enum MHD_Result lf_exchange_body(struct lf_exchange *x, const char *bytes, size_t n);
/* The body is complete, or there was a wake: does what is next. MHD_NO ends the connection. */
enum MHD_Result lf_exchange_advance(struct lf_exchange *x);
/* After the last byte, or the end of the connection (finished: the answer went out whole). Frees it. */
void lf_exchange_end(struct lf_exchange *x, bool finished);

/* The body is of no further use: gives its memory back. */
void lf_exchange_drop_body(struct lf_exchange *x);
#endif
