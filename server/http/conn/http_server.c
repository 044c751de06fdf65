/* Putting it together: libmicrohttpd's daemon without a listening socket of its own, the watch thread that feeds it,
 * the workers, and the order in which all of them start and stop. */
#include "server/http/conn/http_server.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/text_memory.h"
#include "server/documents/documents.h"
#include "server/http/api/response_store.h"
#include "server/http/conn/descriptors.h"
#include "server/http/conn/exchange.h"
#include "server/http/conn/server.h"
#include "server/http/conn/watch.h"
#include "template/chat_template.h"

enum { THREADS_MIN = 2, THREADS_MAX = 64, KEEP_ALIVE_MS = 10 * 1000, LONG_NICENESS = 10, END_MS = 5000 };

/* ---- libmicrohttpd's callbacks ---- */

static struct lf_conn *conn_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void on_connection(void *ctx, struct MHD_Connection *mhd, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode what)
{
    struct lf_http_server *s = ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_ctx = info ? lf_conn_started(&s->conns, info->connect_fd, mhd) : NULL;
    } else if (*socket_ctx) {
        lf_conn_closed(&s->conns, *socket_ctx);
        *socket_ctx = NULL;
    }
}

static void *on_uri(void *ctx, const char *uri, struct MHD_Connection *mhd)
{
    (void)ctx;
    struct lf_conn *conn = conn_of(mhd);
    if (conn) atomic_store(&conn->uri_bytes, strlen(uri));
    return NULL; /* becomes the first value of the request's context */
}

static enum MHD_Result on_access(void *ctx, struct MHD_Connection *mhd, const char *url, const char *method,
                                 const char *version, const char *upload, size_t *upload_bytes, void **exchange)
{
    struct lf_http_server *s = ctx;
    struct lf_exchange *x = *exchange;
    if (!x) {
        struct lf_conn *conn = conn_of(mhd);
        x = conn ? lf_exchange_begin(s, conn, mhd) : NULL;
        if (!x) return MHD_NO;
        *exchange = x;
        return lf_exchange_head(x, url, method, version);
    }
    if (*upload_bytes == 0) return lf_exchange_advance(x);
    size_t n = *upload_bytes;
    *upload_bytes = 0;
    return lf_exchange_body(x, upload, n);
}

static void on_completed(void *ctx, struct MHD_Connection *mhd, void **exchange, enum MHD_RequestTerminationCode why)
{
    (void)ctx;
    (void)mhd;
    if (*exchange) lf_exchange_end(*exchange, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    *exchange = NULL;
}

/* Paths stay as they came: routes are compared raw, and what follows a route is decoded by us, once. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *mhd, char *s)
{
    (void)ctx;
    (void)mhd;
    return strlen(s);
}

/* ---- starting ---- */

static int or_default(int value, int fallback)
{
    return value > 0 ? value : fallback;
}

static void fill_defaults(struct lf_http_opts *o)
{
    if (!o->host) o->host = "127.0.0.1";
    if (o->max_body_bytes == 0) o->max_body_bytes = LF_BODY_BYTES;
    o->n_connections = or_default(o->n_connections, LF_CONNECTIONS_N);
    if (o->n_connections_per_address < 0) o->n_connections_per_address = 0;
    if (o->max_document_bytes == 0) o->max_document_bytes = o->max_body_bytes;
    if (o->document_memory_bytes == 0) o->document_memory_bytes = LF_DOCUMENT_MEMORY_BYTES;
    if (o->text_bytes == 0) o->text_bytes = lf_http_text_bytes(o->max_body_bytes, 0);
    o->n_threads = LF_MIN(LF_MAX(o->n_threads, THREADS_MIN), THREADS_MAX);
    o->max_choices = LF_MIN(or_default(o->max_choices, LF_CHOICES_N), LF_CHOICES_N);
    if (!o->metrics_prefix) o->metrics_prefix = "longflash:";
    if (!o->model_id) o->model_id = "model";
    if (!o->version) o->version = "unknown";
    if (!o->commit) o->commit = "unknown";
    o->default_max_tokens = or_default(o->default_max_tokens, 16);
    o->header_deadline_ms = or_default(o->header_deadline_ms, LF_HEADER_DEADLINE_MS);
    o->body_deadline_ms = or_default(o->body_deadline_ms, LF_BODY_DEADLINE_MS);
    o->slow_reader_ms = or_default(o->slow_reader_ms, LF_SLOW_READER_MS);
    o->keep_alive_ms = or_default(o->keep_alive_ms, KEEP_ALIVE_MS);
}

static enum lf_status start_daemon(struct lf_http_server *s, struct lf_err *err)
{
    const unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, s},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, s},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_uri, s},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)keep_escapes, s},
        {MHD_OPTION_THREAD_POOL_SIZE, s->opts.n_threads, NULL},
        /* our own table is the limit: no thread's share of it may be smaller */
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)s->conns.n_places * s->opts.n_threads, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, LF_CONN_POOL_BYTES, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, 0, NULL}, /* conn.c keeps the deadlines */
#if MHD_VERSION >= 0x00097705
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
#endif
        {MHD_OPTION_END, 0, NULL},
    };
    s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_access, s, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    return s->daemon ? LF_OK : lf_fail(err, LF_IO, "libmicrohttpd does not start");
}

static enum lf_status make_documents(struct lf_http_server *s, struct lf_err *err)
{
    uint64_t bytes = s->opts.document_memory_bytes;
    LF_TRY(lf_text_memory_create(&s->document_memory, bytes, err));
    const struct lf_documents_opts opts = {LF_DOCUMENTS_N, s->document_memory, bytes, s->opts.document_tokens};
    LF_TRY(lf_documents_create(&s->documents, &opts, err));
    lf_readings_init(&s->readings, s->documents, s->text_memory);
    lf_keeper_init(&s->keeper, s->documents, s->opts.documents_dir);
    return LF_OK;
}

static enum lf_status allocate(struct lf_http_server *s, struct lf_err *err)
{
    struct lf_conn_deadlines deadlines = {s->opts.header_deadline_ms, s->opts.body_deadline_ms, s->opts.slow_reader_ms};
    struct lf_descriptors fit;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll_fd < 0 || !lf_waker_init(&s->waker)) return lf_fail(err, LF_IO, "no descriptors for the HTTP server");
    if (!lf_random_bytes(&s->id_seed, sizeof s->id_seed)) return lf_fail(err, LF_IO, "no random numbers");
    LF_TRY(lf_text_memory_create(&s->text_memory, s->opts.text_bytes, err));
    LF_TRY(make_documents(s, err));
    LF_TRY(lf_response_store_create(&s->responses, s->opts.response_memory_bytes, err));
    LF_TRY(lf_descriptors_fit(&fit, s->opts.n_connections, s->opts.n_threads, err));
    s->acceptor.n_refused = fit.n_refused;
    return lf_conns_init(&s->conns, fit.n_connections, fit.n_cut, s->opts.n_connections_per_address, deadlines,
                         s->epoll_fd, err);
}

static void set_up(struct lf_http_server *s, const struct lf_http_opts *opts)
{
    s->opts = *opts;
    fill_defaults(&s->opts);
    s->listen_fd = s->epoll_fd = s->waker.event_fd = -1;
    lf_acceptor_init(&s->acceptor);
    lf_histogram_init(&s->metrics.n_choices, lf_bounds_choices, lf_bounds_choices_n);
}

static void tear_down(struct lf_http_server *s)
{
    if (s->daemon) MHD_stop_daemon(s->daemon);
    if (s->listen_fd >= 0) close(s->listen_fd);
    if (s->epoll_fd >= 0) close(s->epoll_fd);
    lf_waker_deinit(&s->waker);
    lf_conns_deinit(&s->conns);
    lf_keys_deinit(&s->keys);
    lf_readings_deinit(&s->readings);
    lf_keeper_deinit(&s->keeper);
    lf_documents_destroy(s->documents);
    lf_response_store_destroy(s->responses);
    lf_text_memory_destroy(s->document_memory);
    lf_text_memory_destroy(s->text_memory);
    free(s);
}

enum lf_status lf_http_server_create(struct lf_http_server **out, const struct lf_http_opts *opts, struct lf_err *err)
{
    struct lf_http_server *s = calloc(1, sizeof *s);
    if (!s) return lf_fail(err, LF_NO_MEMORY, "no memory for the HTTP server");
    enum lf_status status;
    set_up(s, opts);
    LF_TRY_GOTO(lf_keys_init(&s->keys, opts->api_keys_file, opts->api_keys_env, err), fail);
    LF_TRY_GOTO(lf_proxies_init(&s->proxies, opts->trusted_proxies, err), fail);
    LF_TRY_GOTO(lf_listen(&s->listen_fd, &s->port, &s->loopback, s->opts.host, s->opts.port, err), fail);
    LF_TRY_GOTO(allocate(s, err), fail);
    LF_TRY_GOTO(start_daemon(s, err), fail);
    LF_TRY_GOTO(lf_workers_start(&s->workers, s->opts.n_threads, 0, err), fail);
    LF_TRY_GOTO(lf_workers_start(&s->long_workers, s->opts.n_threads, LONG_NICENESS, err), fail);
    LF_TRY_GOTO(lf_watch_start(s, err), fail);
    *out = s;
    return LF_OK;
fail:
    lf_workers_stop(&s->workers);
    lf_workers_stop(&s->long_workers);
    tear_down(s);
    return status;
}

uint64_t lf_http_text_bytes_least(uint64_t max_body_bytes)
{
    /* a body may take twice its size while it grows */
    return LF_MAX((LF_WORK_FACTOR + 2) * max_body_bytes + LF_TEXT_SPARE_BYTES, LF_TEXT_BYTES_MIN);
}

uint64_t lf_http_text_bytes(uint64_t max_body_bytes, uint64_t memory_bytes)
{
    uint64_t least = lf_http_text_bytes_least(max_body_bytes);
    uint64_t usual = LF_TEXT_BODIES_N * max_body_bytes + LF_TEXT_SPARE_BYTES;
    if (memory_bytes == 0) return LF_MAX(usual, least);
    return LF_MAX(LF_MIN(usual, memory_bytes / LF_TEXT_SHARE), least);
}

uint64_t lf_http_host_bytes(uint64_t text_bytes, uint64_t kept_bytes, int n_connections)
{
    int n = n_connections + LF_CONN_HEALTH_N + LF_CONN_CUT_N;
    return text_bytes + kept_bytes +
           (uint64_t)n * (LF_CONN_POOL_BYTES + sizeof(struct lf_exchange) + sizeof(struct lf_conn));
}

void lf_http_server_progress(struct lf_http_server *s, double fraction)
{
    if (!(fraction > 0)) fraction = 0;
    atomic_store(&s->progress_permille, (int)(LF_MIN(fraction, 1.0) * 1000));
}

enum lf_status lf_http_server_load_documents(struct lf_http_server *s, struct lf_err *err)
{
    LF_TRY(lf_keeper_load(&s->keeper, s->text_memory, lf_clock_unix_s(), err));
    return lf_returns_start(s, err);
}

void lf_http_server_ready(struct lf_http_server *s, const struct lf_tokenizer *tok, const struct lf_chat_template *chat,
                          struct lf_engine *engine)
{
    struct lf_str source = chat ? lf_tokenizer_chat_template(tok) : LF_STR("");
    s->tok = tok;
    s->chat = chat;
    s->engine = engine;
    s->answers = s->opts.tool_parser ? lf_answer_format_by_name(lf_str_c(s->opts.tool_parser))
                                     : lf_answer_format_of_template(source);
    s->thinks = s->answers && (s->opts.tool_parser ? lf_answer_format_has_reasoning(s->answers)
                                                   : lf_answer_format_shows_reasoning(s->answers, source));
    s->traits = (struct lf_template_traits){.keep_developer = lf_str_find(source, LF_STR("developer")) >= 0,
                                            .has_tools = chat && lf_chat_template_uses(chat, "tools"),
                                            .has_calls = lf_str_find(source, LF_STR("tool_calls")) >= 0,
                                            .has_thinking = chat && lf_chat_template_uses(chat, "enable_thinking")};
    lf_returns_guard(s);
    atomic_store(&s->ready, true);
}

void lf_http_server_drain(struct lf_http_server *s)
{
    atomic_store(&s->draining, true);
}

int lf_http_server_n_in_flight(struct lf_http_server *s)
{
    return atomic_load(&s->n_in_flight);
}

enum lf_status lf_http_server_reload_keys(struct lf_http_server *s, struct lf_err *err)
{
    return lf_keys_reload(&s->keys, err);
}

int lf_http_server_port(const struct lf_http_server *s)
{
    return s->port;
}

/* Until libmicrohttpd has closed every connection. It is not told that it stops before: from then on its
 * MHD_queue_response says yes and queues nothing (0.9.75), and a request that it refuses by itself would have it send
 * the response that is not there. It may take END_MS. */
static void end_connections(struct lf_http_server *s)
{
    int64_t until_ns = lf_clock_ns() + END_MS * LF_NS_PER_MS;
    lf_conns_cut_all(&s->conns);
    while (lf_clock_ns() < until_ns) {
        lf_conns_drop_lost(&s->conns);
        if (lf_conns_n_open(&s->conns) == 0) return;
        lf_clock_sleep_ms(1);
    }
}

/* Until the workers have returned what was lent to them. Some of it may not be in their queue yet: a connection is lent
 * before libmicrohttpd's thread puts it there, and a queue without workers would keep it suspended for ever. */
static void wait_returned(struct lf_http_server *s)
{
    int n_wakes, n_suspended;
    for (;;) {
        lf_waker_count(&s->waker, &n_wakes, &n_suspended);
        if (n_suspended == 0) return;
        lf_clock_sleep_ms(1);
    }
}

/* Everything suspended is resumed before libmicrohttpd is stopped, and nothing is suspended again: such connections
 * at MHD_stop_daemon would be a panic. */
void lf_http_server_destroy(struct lf_http_server *s)
{
    if (!s) return;
    lf_returns_stop(s);
    lf_waker_stop(&s->waker);
    lf_watch_stop(s);
    wait_returned(s);
    lf_workers_stop(&s->workers);
    lf_workers_stop(&s->long_workers);
    end_connections(s);
    tear_down(s);
}
