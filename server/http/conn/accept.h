/* Accepting: sockets come in here, and go on to libmicrohttpd where the table of connections has room for them.
 *
 * libmicrohttpd does not listen itself: its own accept spins when descriptors run out. Here accepting pauses for a
 * moment instead, and longer where nothing can be given up for it: those that linger, silent connections. It pauses for
 * some milliseconds too where every place is taken and some by connections that are on their way out: who came waits
 * for one of theirs, unless the last one waited in vain. Who finds no room is told so before the socket is closed. The
 * watch thread's alone. */
#ifndef LF_SERVER_HTTP_CONN_ACCEPT_H
#define LF_SERVER_HTTP_CONN_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct lf_http_server;

enum { LF_REFUSED_N = 32 }; /* refused ones that are still told why */

/* A socket that came. */
struct lf_accepted {
    int fd; /* -1: none */
    struct sockaddr_storage addr;
    socklen_t addr_len;
};

/* Closing at once would reset the connection under the answer, so it lingers for a second. */
struct lf_refused {
    int fd; /* -1: free */
    int64_t until_ns;
};

struct lf_acceptor {
    int n_refused; /* places of `refused`; fixed from the server's start on */
    struct lf_refused refused[LF_REFUSED_N];
    struct lf_accepted held; /* while it pauses: who waits for a place, */
    int64_t held_until_ns;   /* and for how long */
    bool in_vain;            /* the last one that waited found none */
    bool paused;
    int64_t again_ns; /* while it pauses: when to go on */
};

void lf_acceptor_init(struct lf_acceptor *acceptor);
void lf_acceptor_deinit(struct lf_acceptor *acceptor); /* closes those that linger */
/* The listening socket is readable. */
void lf_acceptor_run(struct lf_http_server *s);
/* Goes on where the pause is over; returns when to come again at the latest (INT64_MAX: no matter when). */
int64_t lf_acceptor_resume(struct lf_http_server *s, int64_t now_ns);
void lf_acceptor_tick(struct lf_http_server *s, int64_t now_ns);

#endif
