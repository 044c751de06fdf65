/* Whole messages over a non-blocking socket, until a deadline. Nothing raises SIGPIPE; signals interrupt no wait. */
#ifndef LF_SERVER_RENDEZVOUS_STREAM_H
#define LF_SERVER_RENDEZVOUS_STREAM_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "server/rendezvous/wire.h"

enum { LF_WAIT_TICK_MS = 50 }; /* how often a wait looks at stop */

/* What ends every wait. */
struct lf_wait {
    int64_t deadline_ns;
    const atomic_bool *stop; /* NULL: never */
    int watch_fd;            /* of who may say meanwhile that it is over; -1: nobody */
};

/* The milliseconds that a poll may take: a tick, or what is left; 0 past the deadline. */
int lf_wait_ms(const struct lf_wait *wait);
/* LF_OK, LF_CANCELLED, or LF_TIMEOUT. */
LF_MUST_CHECK enum lf_status lf_wait_check(const struct lf_wait *wait);
/* Until fd has one of these events (LF_OK, errors included), or LF_TIMEOUT, LF_CANCELLED; LF_SHUTDOWN where watch_fd
 * has something to read. With fd -1: sleeps until one of the others. */
LF_MUST_CHECK enum lf_status lf_wait_fd(const struct lf_wait *wait, int fd, short events);
/* Sleeps so long: LF_OK, or as lf_wait_fd. */
LF_MUST_CHECK enum lf_status lf_wait_sleep(const struct lf_wait *wait, int ms);

/* LF_IO where the connection is gone; else as lf_wait_fd. */
LF_MUST_CHECK enum lf_status lf_stream_put(int fd, const struct lf_message *m, const struct lf_wait *wait);
/* The next message. LF_IO where the connection is gone, LF_CORRUPT for what is no message, LF_UNSUPPORTED for one of
 * another version, which *version then is; else as lf_wait_fd. */
LF_MUST_CHECK enum lf_status lf_stream_take(int fd, struct lf_message *m, int *version, const struct lf_wait *wait);
/* Sends it if the socket takes it at once. */
bool lf_stream_put_now(int fd, const struct lf_message *m);
/* Whether the other side has closed, as far as is known here. */
bool lf_stream_is_gone(int fd);

#endif
