/* The inside of the HTTP server: what it is put together from. Nobody outside server/http/ includes this.
 *
 *     http_server.c   starts and stops it all; libmicrohttpd's callbacks
 *     accept, watch   sockets come in; deadlines, vanished clients, news
 *     conn            a connection and its states; descriptors: how many there may be
 *     proxy           whose request it is behind one
 *     auth, key_line  which keys there are, and what each may do
 *     exchange        a request and its answer; head, respond: their beginning and their end
 *     last_reply      a refusal that we send ourselves, where libmicrohttpd cannot: too late, no room, malformed
 *     wake, workers   waiting, and the threads that work on texts
 *     routes          which path is answered by whom; generate and the other handlers
 *     dialect         the APIs in which a generation is asked for and answered
 *     generation      the engine's requests and the parts they become; stream, whole: as it is made, at once
 *     v1_documents    texts with names (server/documents/): put, shown, deleted; document_reading, readings: on their
 *                     way into the cache; returns: there again after a restart; document_parts, boundaries: in messages
 *     tools           definitions of tools, and calls in messages; anthropic_messages, anthropic_json: Anthropic's
 *                     form; responses_input, responses_json: that of OpenAI's responses
 *
 * Threads: libmicrohttpd's pool (sockets, text for the socket), the workers (JSON, templates, tokenizing), the watch
 * thread, the one that brings documents back, and the engine's, which only calls lf_wake_notify. Locks: the table of
 * connections, the waker, the workers' queue, the list of readings, the keeper of documents, their table, the stored
 * responses, the text memory; they are taken in this order, mostly alone, and none is held while the engine is called.
 * The engine may hold its own when it notifies. */
#ifndef LF_SERVER_HTTP_CONN_SERVER_H
#define LF_SERVER_HTTP_CONN_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/metrics.h"
#include "server/documents/keeper.h"
#include "server/http/api/ask.h"
#include "server/http/api/readings.h"
#include "server/http/api/returns.h"
#include "server/http/conn/accept.h"
#include "server/http/conn/auth.h"
#include "server/http/conn/conn.h"
#include "server/http/conn/http_server.h"
#include "server/http/conn/proxy.h"
#include "server/http/conn/wake.h"
#include "server/http/conn/workers.h"

enum {
    LF_ROUTES_N = 32,
    LF_SHORT_BODY_BYTES = 64 * 1024,
    LF_SOCKET_SEND_BYTES = 32 * 1024 /* the kernel doubles it: 64 KiB, where a client that does not read is paused */
};

/* What epoll says of a descriptor that is no connection. */
#define LF_WATCH_LISTEN UINT64_MAX
#define LF_WATCH_NEWS   (UINT64_MAX - 1)

struct MHD_Daemon;
struct lf_text_memory;
struct lf_response_store;

struct lf_http_metrics {
    struct lf_counter requests[LF_ROUTES_N + 1][6]; /* [route, or no route][status / 100] */
    struct lf_counter clients_gone, unknown_fields, refused_text_memory, malformed_forwarded;
    struct lf_histogram n_choices; /* n of a generation request */
};

struct lf_http_server {
    /* fixed from create on */
    struct lf_http_opts opts; /* with the defaults filled in */
    struct MHD_Daemon *daemon;
    int listen_fd, epoll_fd;
    int port;
    bool loopback;
    uint64_t id_seed;
    struct lf_text_memory *text_memory, *document_memory; /* owned */
    struct lf_documents *documents;                       /* owned */
    struct lf_response_store *responses;                  /* owned */
    struct lf_readings readings;
    struct lf_keeper keeper;
    struct lf_returns returns;
    struct lf_keys keys;
    struct lf_proxies proxies; /* that are trusted */
    pthread_t watch_thread;

    struct lf_conns conns;
    struct lf_waker waker;
    struct lf_workers workers, long_workers; /* long_workers: of bodies above LF_SHORT_BODY_BYTES */
    struct lf_acceptor acceptor;             /* the watch thread's own */
    struct lf_http_metrics metrics;

    /* written once by lf_http_server_ready, before `ready` is */
    const struct lf_tokenizer *tok;
    const struct lf_chat_template *chat;
    struct lf_engine *engine;
    const struct lf_answer_format *answers; /* how they are taken apart */
    bool thinks; /* the template shows it: where any format is held to, reasoning may come first */
    struct lf_template_traits traits;
    atomic_bool ready;

    atomic_bool draining;
    atomic_int progress_permille;
    atomic_int n_in_flight;
    _Atomic uint64_t id_counter;
};

/* listen.c */
LF_MUST_CHECK enum lf_status lf_listen(int *fd, int *port, bool *loopback, const char *host, int want_port,
                                       struct lf_err *err);

/* server.c: a fresh id, 24 hex digits and a terminator. Others do not follow from it: it may be all that is needed to
 * read a response. */
void lf_new_id(struct lf_http_server *s, char out[25]);
/* Of loading, 0 to 0.999: it is not ready before it is. */
double lf_http_server_progress_now(struct lf_http_server *s);

#endif
