/* An exchange without a network: libmicrohttpd, the routes and the workers' threads are the test's. The connection's
 * socket is a real one, so that its ends can be seen. */
#ifndef LF_TESTS_UNIT_SERVER_HTTP_EXCHANGE_RIG_H
#define LF_TESTS_UNIT_SERVER_HTTP_EXCHANGE_RIG_H

#include "tests/unit/server/http/mhd_head.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "core/text_memory.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"
#include "tests/support/stopped_clock.h"

enum { MAX_BODY = 1000, RESPONSE_HEADERS_N = 16 };

struct MHD_Response {
    struct lf_str bytes; /* of a buffer */
    MHD_ContentReaderCallback read;
    void *ctx;
    char names[RESPONSE_HEADERS_N][40], values[RESPONSE_HEADERS_N][256];
    int n_headers;
};

struct rig {
    struct lf_http_server server;
    struct MHD_Connection mhd;
    struct lf_conn *conn;
    struct lf_exchange *x;
    int epoll_fd, ours, theirs;
    /* what libmicrohttpd was told */
    struct MHD_Response response;
    unsigned status; /* 0: nothing was queued */
    int n_suspended, n_resumed;
    /* what the workers were given */
    struct lf_job *job;
    bool long_job;
};

static struct rig rig;

/* ---- libmicrohttpd ---- */

struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t n, void *bytes, enum MHD_ResponseMemoryMode mode);
struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t n, void *bytes, enum MHD_ResponseMemoryMode mode)
{
    assert_int_equal(mode, MHD_RESPMEM_PERSISTENT);
    rig.response = (struct MHD_Response){.bytes = lf_str_from(bytes ? bytes : "", n)};
    return &rig.response;
}

struct MHD_Response *__wrap_MHD_create_response_from_callback(uint64_t n, size_t block, MHD_ContentReaderCallback read,
                                                              void *ctx, MHD_ContentReaderFreeCallback done);
struct MHD_Response *__wrap_MHD_create_response_from_callback(uint64_t n, size_t block, MHD_ContentReaderCallback read,
                                                              void *ctx, MHD_ContentReaderFreeCallback done)
{
    assert_true(n == MHD_SIZE_UNKNOWN && block > 0 && !done);
    rig.response = (struct MHD_Response){.read = read, .ctx = ctx};
    return &rig.response;
}

enum MHD_Result __wrap_MHD_add_response_header(struct MHD_Response *r, const char *name, const char *value);
enum MHD_Result __wrap_MHD_add_response_header(struct MHD_Response *r, const char *name, const char *value)
{
    assert_true(r->n_headers < RESPONSE_HEADERS_N);
    snprintf(r->names[r->n_headers], sizeof r->names[0], "%s", name);
    snprintf(r->values[r->n_headers++], sizeof r->values[0], "%s", value);
    return MHD_YES;
}

enum MHD_Result __wrap_MHD_queue_response(struct MHD_Connection *mhd, unsigned status, struct MHD_Response *r);
enum MHD_Result __wrap_MHD_queue_response(struct MHD_Connection *mhd, unsigned status, struct MHD_Response *r)
{
    assert_true(mhd == &rig.mhd && r == &rig.response && rig.status == 0);
    rig.status = status;
    return MHD_YES;
}

void __wrap_MHD_destroy_response(struct MHD_Response *r);
void __wrap_MHD_destroy_response(struct MHD_Response *r)
{
    assert_ptr_equal(r, &rig.response);
}

void __wrap_MHD_suspend_connection(struct MHD_Connection *mhd);
void __wrap_MHD_suspend_connection(struct MHD_Connection *mhd)
{
    assert_ptr_equal(mhd, &rig.mhd);
    rig.n_suspended++;
}

void __wrap_MHD_resume_connection(struct MHD_Connection *mhd);
void __wrap_MHD_resume_connection(struct MHD_Connection *mhd)
{
    assert_ptr_equal(mhd, &rig.mhd);
    rig.n_resumed++;
}

void __wrap_lf_workers_enqueue(struct lf_workers *workers, struct lf_job *job);
void __wrap_lf_workers_enqueue(struct lf_workers *workers, struct lf_job *job)
{
    assert_null(rig.job);
    rig.job = job;
    rig.long_job = workers == &rig.server.long_workers;
    assert_true(rig.long_job || workers == &rig.server.workers);
}

/* ---- a server that answers nobody but the test ---- */

static const char *const origins[] = {"http://page.example", NULL};

static inline void open_rig(uint64_t text_bytes)
{
    struct lf_err err;
    int pair[2];
    bool full;
    now_ns = 1000 * (int64_t)LF_NS_PER_S;
    memset(&rig, 0, sizeof rig);
    struct lf_http_server *s = &rig.server;
    s->opts = (struct lf_http_opts){.max_body_bytes = MAX_BODY, .cors_origins = origins, .model_id = "m"};
    s->loopback = true;
    atomic_store(&s->ready, true);
    assert_true(lf_waker_init(&s->waker));
    assert_int_equal(lf_text_memory_create(&s->text_memory, text_bytes, &err), LF_OK);
    assert_int_equal(lf_keys_init(&s->keys, NULL, NULL, &err), LF_OK);
    rig.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(lf_conns_init(&s->conns, 4, 4, 0, (struct lf_conn_deadlines){1, 1, 1}, rig.epoll_fd, &err), LF_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    rig.ours = pair[0];
    rig.theirs = pair[1];
    rig.conn = lf_conn_admit(&s->conns, rig.ours, 7, &full);
    assert_non_null(rig.conn);
}

static inline void end_exchange(bool finished)
{
    if (rig.x) lf_exchange_end(rig.x, finished);
    rig.x = NULL;
    assert_int_equal(rig.conn->state, LF_CONN_IDLE);
    assert_int_equal(atomic_load(&rig.server.n_in_flight), 0);
    assert_int_equal(rig.n_suspended, rig.n_resumed);
}

static inline void close_rig(void)
{
    struct lf_http_server *s = &rig.server;
    if (rig.x) end_exchange(true);
    lf_conns_deinit(&s->conns);
    lf_waker_deinit(&s->waker);
    lf_keys_deinit(&s->keys);
    struct lf_text_memory_state st;
    lf_text_memory_snapshot(s->text_memory, &st);
    assert_int_equal(st.reserved_bytes, 0);
    lf_text_memory_destroy(s->text_memory);
    close(rig.epoll_fd);
    close(rig.ours);
    close(rig.theirs);
}

/* A head comes in; whether the connection goes on. */
static inline bool head_n(const char *head, size_t n)
{
    if (rig.x) end_exchange(true);
    rig.status = 0;
    memset(&rig.response, 0, sizeof rig.response);
    parse(&rig.mhd, head, n);
    atomic_store(&rig.conn->uri_bytes, rig.mhd.line.uri_bytes);
    rig.x = lf_exchange_begin(&rig.server, rig.conn, &rig.mhd);
    assert_non_null(rig.x);
    return lf_exchange_head(rig.x, rig.mhd.line.url, rig.mhd.line.method, rig.mhd.line.version) == MHD_YES;
}

static inline bool head(const char *text)
{
    return head_n(text, strlen(text));
}

static inline const char *header(const char *name)
{
    for (int i = 0; i < rig.response.n_headers; i++)
        if (strcmp(rig.response.names[i], name) == 0) return rig.response.values[i];
    return NULL;
}

#define HOST "Host: localhost\r\n"
#define JSON "Content-Type: application/json\r\n"

#endif
