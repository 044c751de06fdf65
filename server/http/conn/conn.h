/* Connections: the one owner of a socket's life, from its acceptance to its end.
 *
 *              room in the table?                      head there          body there
 *     accept ──────────────────▸ HEAD ───────────────▸ BODY ─────────────▸ WORK ──▸ ANSWER ──▸ IDLE
 *        │ no: another's room,     ▴                   a refusal goes straight to ANSWER ▴         │
 *        │ or turned away          └───────────── first bytes of the next request ────────────────┘
 *        ▾
 *     any state ── too late, or its room is needed ──▸ CUT ── libmicrohttpd closes it ──▸ FREE
 *
 * A state is also a deadline (struct lf_conn_deadlines). It is measured with the kernel's own counters of bytes
 * received and acknowledged, because libmicrohttpd reports neither half a head nor half a buffer. Too late means
 * shutdown(2), upon which libmicrohttpd ends the connection by its usual way and tells us. A request that had begun is
 * told so before, with 408 or what else there is to say of it. Those bytes cannot get into an answer: whoever begins
 * one enters ANSWER first, which takes the table's lock; in HEAD and BODY the answers to earlier requests have gone to
 * the kernel, and the kernel's counters say that the client has them. A client that does not even read those is cut
 * without a word.
 *
 * Room. The table has `n` connections, and so many of one address. Where there is no room the connection makes some
 * that has been silent the longest: one between two requests, or one whose head does not come. Where none has been
 * silent for long, an address that has LF_CONN_MANY times as many gives up one that said nothing. Else the new one gets
 * one of LF_CONN_HEALTH_N further places, in which only the health routes are answered: whoever asks for health does so
 * at once, so of those in these places one that has said nothing yet makes room for the next. Connections that were cut
 * keep their places until libmicrohttpd has closed them: the places for health are not given to others meanwhile, and a
 * quarter of those for closing (LF_CONN_CUT_N) to no address that has LF_CONN_MANY. All of them together are no more
 * than there are descriptors for (descriptors.h); where the system has none left all the same, silent ones are cut.
 *
 * A trusted proxy's connections are many clients': they count for nobody, and while a request is on one for its client,
 * who is refused it past the limit.
 *
 * Every function takes the table's lock; it is taken before the waker's, and after nothing. */
#ifndef LF_SERVER_HTTP_CONN_CONN_H
#define LF_SERVER_HTTP_CONN_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/metrics.h"
#include "core/status.h"
#include "server/http/conn/proxy.h"

struct lf_api_err;
struct lf_conns;
struct lf_reply;
struct lf_wake;
struct MHD_Connection;

/* As an address: of a trusted proxy, which counts for nobody. (As a network it would be one of multicast.) */
#define LF_CONN_OF_PROXY UINT64_MAX

enum {
    LF_CONN_HEALTH_N = 8,    /* places kept for the health routes */
    LF_CONN_CUT_N = 128,     /* places of connections that are being closed */
    LF_CONN_SILENT_MS = 250, /* a head that has not come by then may lose its place to a newer connection */
    LF_CONN_MANY = 4,
    LF_IDLE_MS = 75 * 1000,  /* between two requests on one connection */
    LF_BODY_GRACE_MS = 5000, /* the body's least rate counts from here */
    LF_BODY_BYTES_PER_S = 1024,
    LF_READER_BYTES_PER_S = 8 * 1024 /* on average, of a reader that is behind for longer than its deadline */
};

enum lf_conn_state {
    LF_CONN_FREE,
    LF_CONN_HEAD,   /* a request's head is awaited, and began: head_ms */
    LF_CONN_BODY,   /* body_ms, and a least rate */
    LF_CONN_WORK,   /* a worker has it: the work has a deadline of its own */
    LF_CONN_ANSWER, /* reader_ms without a byte acknowledged, and a least rate */
    LF_CONN_IDLE,   /* between requests: LF_IDLE_MS */
    LF_CONN_CUT     /* shut down by us */
};

struct lf_conn {
    struct lf_conns *conns; /* its table; fixed */
    enum lf_conn_state state;
    bool health_only; /* in one of the places kept for the health routes; fixed while it lives */
    int fd;
    uint32_t generation;           /* tells this tenant of the place from the one before, in epoll's data */
    struct MHD_Connection *mhd;    /* NULL until libmicrohttpd has taken it */
    struct lf_wake *wake;          /* of the request on it; NULL between requests */
    const struct lf_reply *answer; /* to it, while its body still comes and the answer is known; borrowed */
    const char *request_id;        /* with answer */
    struct lf_address peer;
    bool by_proxy;    /* the peer is a trusted one; fixed while it lives */
    uint64_t address; /* whom it counts for: the peer, behind a trusted proxy its client (lf_address_key) */
    int64_t since_ns; /* when the state began */
    _Atomic uint64_t body_bytes;
    uint64_t acked_bytes;    /* the kernel's counter at the last look */
    uint64_t received_bytes; /* the same when the answer began: what came since is of the next request */
    int64_t acked_ns;
    uint64_t behind_acked_bytes; /* acknowledged when it fell behind: … */
    int64_t behind_ns;           /* … since then bytes have been waiting for it at every look */
    bool hung_up;                /* the peer closed its side */
    _Atomic size_t uri_bytes;
};

struct lf_conn_deadlines {
    int head_ms, body_ms, reader_ms;
};

struct lf_conn_metrics {
    struct lf_counter accepted, refused_full, refused_address, failed, made_room;
    struct lf_counter cut_head, cut_idle, cut_body, cut_reader;
};

struct lf_conns {
    int n, n_per_address; /* the limits; n_per_address 0: none */
    int n_cut;            /* of places of connections that are being closed: LF_CONN_CUT_N, or what there is room for */
    struct lf_conn_deadlines deadlines;
    struct lf_conn_metrics metrics;
    int epoll_fd; /* borrowed: sockets are watched there for the peer's closing */
    pthread_mutex_t lock;
    struct lf_conn *places; /* [n_places], owned */
    int n_places;
};

LF_MUST_CHECK enum lf_status lf_conns_init(struct lf_conns *conns, int n, int n_cut, int n_per_address,
                                           struct lf_conn_deadlines deadlines, int epoll_fd, struct lf_err *err);
void lf_conns_deinit(struct lf_conns *conns); /* accepts a zeroed one */
int lf_conns_n_open(struct lf_conns *conns);
/* Frees the places of those whose sockets libmicrohttpd closed without telling, as it does where it has no memory for a
 * connection. */
void lf_conns_drop_lost(struct lf_conns *conns);
/* There are no descriptors left, or no memory: cuts a few of those that are silent, the longest ones first, unless some
 * are being closed already. False: nothing will be free soon. */
bool lf_conns_make_room(struct lf_conns *conns);
/* Every place is taken, some by connections that are being closed: in a moment there will be one. */
bool lf_conns_will_have_room(struct lf_conns *conns);
/* Cuts all of them. None may be admitted from here on. */
void lf_conns_cut_all(struct lf_conns *conns);

/* A place for a socket that was accepted, watched for its peer's closing. NULL: *full says whether the table is full
 * or the address has too many; or the socket cannot be watched (fd is not closed). */
struct lf_conn *lf_conn_admit(struct lf_conns *conns, int fd, uint64_t address, bool *full);
/* The request on a trusted proxy's connection is of this client, for whom it counts until the next one. False: it has
 * as many as an address may have. */
bool lf_conn_of_client(struct lf_conn *conn, uint64_t address);
/* libmicrohttpd would not have it. */
void lf_conn_discard(struct lf_conns *conns, struct lf_conn *conn);
/* libmicrohttpd took the socket; NULL where it is none of ours. */
struct lf_conn *lf_conn_started(struct lf_conns *conns, int fd, struct MHD_Connection *mhd);
/* libmicrohttpd is about to close the socket. */
void lf_conn_closed(struct lf_conns *conns, struct lf_conn *conn);
/* libmicrohttpd refuses what is on it: tells the client why and cuts it, unless it was cut before. */
void lf_conn_end(struct lf_conn *conn, const struct lf_api_err *err);
/* The request whose body comes will be refused with this: a client whose body is too late gets it. Both are borrowed
 * until the state changes, and do not change. */
void lf_conn_answer_known(struct lf_conn *conn, const struct lf_reply *reply, const char *request_id);
/* Goes to another state. wake: of the request on it, told when the peer goes away. */
void lf_conn_enter(struct lf_conns *conns, struct lf_conn *conn, enum lf_conn_state state, struct lf_wake *wake);

/* The watch thread: what epoll said of a socket (data as given to it), and the deadlines, every now and then. */
void lf_conns_hang_up(struct lf_conns *conns, uint64_t data);
void lf_conns_tick(struct lf_conns *conns, int64_t now_ns);

#endif
