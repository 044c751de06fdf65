/* The watch thread: one loop over everything that happens to sockets while nobody reads or writes them.
 *
 *     listening socket readable   accept.h
 *     a peer closed its side      conn.h: at once, whether its request waits, is worked on or is answered. One that
 *                                 ends only its own side looks the same and counts as gone too, as with most proxies
 *     news from the engine        wake.h
 *     every LF_TICK_MS            deadlines of connections, wakes that are due, refused ones that linger */
#ifndef LF_SERVER_HTTP_CONN_WATCH_H
#define LF_SERVER_HTTP_CONN_WATCH_H

#include "core/status.h"

struct lf_http_server;

LF_MUST_CHECK enum lf_status lf_watch_start(struct lf_http_server *s, struct lf_err *err);
/* Joins. The waker has been stopped, which is what ends the loop; no connection is accepted afterwards. */
void lf_watch_stop(struct lf_http_server *s);

#endif
