/* An answer that is made while it is sent: what an exchange asks of it, and nothing of what it is.
 *
 * Bytes are made when the socket has room, into a window that is the exchange's: so an answer holds its window and what
 * its maker needs, however long it is, and a slow reader holds up nobody. All three run on libmicrohttpd's thread. */
#ifndef LF_SERVER_HTTP_CONN_ANSWER_H
#define LF_SERVER_HTTP_CONN_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"

struct lf_reply;

enum lf_fill {
    LF_FILL_SOME, /* out has bytes to send */
    LF_FILL_WAIT, /* nothing to say yet: again after a wake, or at wake_at_ns */
    LF_FILL_END,  /* out has the last bytes, if any */
    LF_FILL_LAST, /* the same, and no further request is read from this connection: the answer broke off */
    LF_FILL_BREAK /* it cannot go on: the connection ends */
};

struct lf_answer {
    /* Whether the head can be sent: fills reply with status and content type, and for an error with a body, which is
     * then all there is. False: not yet, again after a wake. */
    bool (*begin)(struct lf_answer *answer, struct lf_reply *reply);
    /* Appends to out, which is empty; about LF_ANSWER_WINDOW_BYTES at most. */
    enum lf_fill (*fill)(struct lf_answer *answer, struct lf_buf *out, int64_t *wake_at_ns);
    void (*destroy)(struct lf_answer *answer);
    bool is_stream; /* server-sent events: news are shown at once, and no proxy may keep them back */
    bool patient;   /* nothing to show before its end: its wakes may wait a little */
};

enum { LF_ANSWER_WINDOW_BYTES = 8 * 1024 };

#endif
