/* A stream of server-sent events: a generation's chunks as the socket takes them.
 *
 * libmicrohttpd asks for bytes when the socket has room; then, and only then, tokens become text. With nothing to say
 * the call parks. So a slow reader holds up nothing and costs the bytes in flight: LF_SSE_BACKLOG_BYTES here at most,
 * as much again in the kernel. */
#ifndef LF_SERVER_HTTP_SSE_H
#define LF_SERVER_HTTP_SSE_H

#include <microhttpd.h>

#include "server/http/generation.h"

struct lf_sse {
    struct lf_call *call;
    struct lf_buf out; /* events not yet taken */
    size_t taken;
    struct lf_buf line; /* one chunk being written */
    bool began, done;
    bool failed; /* an error was the last event */
    bool broken; /* no memory for an event: the connection ends */
    int next;    /* the choice to look at first, so that none starves */
    int n_finish_sent;
    bool prefill_over; /* no more progress to show */
    int64_t last_ns, last_progress_ns;
};

/* Makes a started generation a stream. */
LF_MUST_CHECK enum lf_status lf_sse_create(struct lf_call *call, struct lf_api_err *err);
void lf_sse_destroy(struct lf_sse *sse); /* accepts NULL */
/* libmicrohttpd's thread: queues the response whose body is the stream. */
enum MHD_Result lf_sse_send(struct lf_call *call);

#endif
