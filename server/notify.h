/* What a supervisor is told of a server: systemd's protocol (sd_notify(3)), a datagram of NAME=VALUE lines to the
 * socket that $NOTIFY_SOCKET names. Without that variable nothing is sent.
 *
 * READY=1 is sent when requests are served, STOPPING=1 when draining begins, and with $WATCHDOG_USEC (of this process,
 * if $WATCHDOG_PID says whose) WATCHDOG=1 twice in that time, as long as whoever looks after the engine comes by.
 * STATUS is a line for people. A supervisor that does not read holds up each of the first two for a second at most, and
 * what is told again and again for one second once. One thread's own. */
#ifndef LF_SERVER_NOTIFY_H
#define LF_SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/status.h"

struct lf_notify {
    int fd; /* -1: nobody listens */
    struct sockaddr_un to;
    socklen_t to_bytes;
    int64_t every_ns, next_ns; /* of WATCHDOG=1; every_ns 0: never */
    int percent;               /* that was told */
    bool failing;
};

/* From the environment. What is no socket's name is logged, and nobody is told anything. */
void lf_notify_open(struct lf_notify *n);
void lf_notify_close(struct lf_notify *n);
/* Lines, separated by '\n'. What does not arrive is lost; the first time in a row is logged. */
void lf_notify_tell(struct lf_notify *n, const char *fmt, ...) LF_PRINTF(2, 3);
/* Of loading, 0 to 1: told by the percent. */
void lf_notify_progress(struct lf_notify *n, double fraction);
/* Whoever looks after the engine comes by, at least ten times a second or twice in $WATCHDOG_USEC. What does not
 * arrive is told the next time. */
void lf_notify_alive(struct lf_notify *n);

#endif
