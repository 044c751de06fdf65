/* The inside of the HTTP server: what its files share. Nobody outside server/http/ includes this.
 *
 * Threads: libmicrohttpd's pool (sockets, text for the socket), the workers (JSON, templates, tokenizing: workers.c),
 * the watch thread (accepting, deadlines, vanished clients, waking: watch.c), and the engine's, which only calls
 * lf_call_notify. There is one lock. It is never held while the engine is called, and the engine may hold its own
 * locks when it takes ours: so the order is engine, server, libmicrohttpd. */
#ifndef LF_SERVER_HTTP_SERVER_INTERNAL_H
#define LF_SERVER_HTTP_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "core/list.h"
#include "core/metrics.h"
#include "server/http/auth.h"
#include "server/http/http_server.h"

enum {
    LF_ROUTES_N = 16,
    LF_REFUSED_N = 32,                /* connections refused at accept that are still told why */
    LF_CONN_POOL_BYTES = 96 * 1024,   /* libmicrohttpd's memory of one connection: head, parsed fields, body window */
    LF_SOCKET_SEND_BYTES = 32 * 1024, /* the kernel doubles it: 64 KiB, where a client that does not read is paused */
    LF_IDLE_MS = 75 * 1000,           /* between two requests on one connection */
    LF_BODY_GRACE_MS = 5 * 1000,      /* the body's least rate counts from here */
    LF_BODY_BYTES_PER_S = 1024,
    LF_TICK_MS = 200 /* between two looks at deadlines */
};

struct lf_call;
struct MHD_Connection;
struct MHD_Daemon;

/* What a connection is doing, which decides the deadline that it is under. */
enum lf_conn_phase {
    LF_CONN_FREE,
    LF_CONN_HEAD,  /* a request's head is awaited, and began: header_deadline_ms */
    LF_CONN_IDLE,  /* between requests */
    LF_CONN_BODY,  /* body_deadline_ms and a least rate */
    LF_CONN_ANSWER /* being worked on or answered: slow_reader_ms without a byte acknowledged */
};

/* A slot of the fixed table of connections. Fields under the server's lock unless atomic. */
struct lf_conn {
    enum lf_conn_phase phase;
    int fd;
    uint32_t generation;        /* tells this tenant of the slot from the one before, in epoll's data */
    struct MHD_Connection *mhd; /* NULL until libmicrohttpd has taken it */
    struct lf_call *call;
    uint64_t address; /* of the peer, for the limit per address */
    int64_t since_ns; /* when the phase began */
    _Atomic uint64_t body_bytes;
    uint64_t acked_bytes, received_bytes; /* the kernel's counters at the last look */
    int64_t acked_ns;
    bool hung_up; /* the peer closed its side */
    _Atomic size_t uri_bytes;
};

/* A connection that was refused at accept: its answer is on the way, it is closed a moment later. */
struct lf_refused {
    int fd; /* -1: free */
    int64_t until_ns;
};

struct lf_http_metrics {
    struct lf_counter requests[LF_ROUTES_N + 1][6]; /* [route, or no route][status / 100] */
    struct lf_counter connections, refused_full, refused_address, accept_failed;
    struct lf_counter cut_head, cut_idle, cut_body, cut_reader;
    struct lf_counter clients_gone, unknown_fields, refused_body_memory;
};

struct lf_http_server {
    /* fixed from create on */
    struct lf_http_opts opts; /* with the defaults filled in */
    struct MHD_Daemon *daemon;
    int listen_fd, event_fd, epoll_fd;
    int port;
    bool loopback;
    uint64_t id_seed;
    struct lf_keys keys;
    pthread_t watch_thread;
    pthread_t *worker_threads; /* [n_workers] */
    int n_workers;
    uint64_t body_budget;
    struct lf_http_metrics metrics;

    /* written once by lf_http_server_ready, before `ready` is */
    const struct lf_tokenizer *tok;
    const struct lf_chat_template *chat;
    struct lf_engine *engine;
    atomic_bool ready;

    atomic_bool draining, stopping;
    atomic_int progress_permille;
    atomic_int n_in_flight;
    _Atomic uint64_t id_counter, body_bytes;

    /* lock */
    pthread_mutex_t lock;
    pthread_cond_t work_cond;
    struct lf_list calls, dirty, later, work; /* later: dirty calls whose wake waits a little */
    struct lf_conn *conns;                    /* [n_conns], owned */
    int n_conns;                              /* table size: the limit */
    int n_conns_used;
    int n_parked;

    /* the watch thread's own */
    struct lf_refused refused[LF_REFUSED_N];
    bool accept_paused;
};

/* watch.c */
LF_MUST_CHECK enum lf_status lf_watch_start(struct lf_http_server *s, struct lf_err *err);
void lf_watch_stop(struct lf_http_server *s); /* joins; no connection is accepted after it */
void lf_watch_wake(struct lf_http_server *s); /* any thread */
/* libmicrohttpd took a connection, or is about to close its descriptor. */
struct lf_conn *lf_conn_started(struct lf_http_server *s, int fd, struct MHD_Connection *mhd);
void lf_conn_closed(struct lf_http_server *s, struct lf_conn *conn);
void lf_conn_enter(struct lf_http_server *s, struct lf_conn *conn, enum lf_conn_phase phase, struct lf_call *call);

/* workers.c */
LF_MUST_CHECK enum lf_status lf_workers_start(struct lf_http_server *s, struct lf_err *err);
void lf_workers_stop(struct lf_http_server *s); /* joins; calls that still wait are answered 503 by stopping */

/* listen.c */
LF_MUST_CHECK enum lf_status lf_listen(int *fd, int *port, bool *loopback, const char *host, int want_port,
                                       struct lf_err *err);
uint64_t lf_peer_address(const struct sockaddr_storage *addr); /* IPv4 whole, IPv6 by its /64 */

/* A fresh id, 24 hex digits and a terminator. */
void lf_new_id(struct lf_http_server *s, char out[25]);

#endif
