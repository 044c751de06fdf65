#include "server/http/conn/exchange.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/text_memory.h"
#include "server/http/conn/head.h"
#include "server/http/conn/refuse.h"
#include "server/http/conn/respond.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"

/* The exchange itself, its head and a refusal are small, bounded by the number of connections, and not of the text
 * memory: what a full text memory refuses must still be told, and the health routes answer whatever is full. */
struct lf_exchange *lf_exchange_begin(struct lf_http_server *s, struct lf_conn *conn, struct MHD_Connection *mhd)
{
    struct lf_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->server = s;
    x->mhd = mhd;
    x->conn = conn;
    x->client = conn->peer;
    lf_list_init(&x->job.node);
    lf_buf_init_in(&x->body, s->opts.max_body_bytes, s->text_memory);
    lf_buf_init(&x->tail_buf, LF_URI_BYTES);
    lf_buf_init_in(&x->window, LF_REPLY_BYTES, s->text_memory);
    lf_reply_init(&x->reply);
    lf_wake_init(&x->wake, &s->waker, mhd);
    x->work = (struct lf_work){.memory = s->text_memory, .is_over = lf_wake_is_over, .ctx = &x->wake};
    if (s->opts.request_deadline_ms > 0)
        x->work.deadline_ns = x->wake.began_ns + s->opts.request_deadline_ms * LF_NS_PER_MS;
    lf_conn_enter(&s->conns, conn, LF_CONN_BODY, &x->wake);
    return x;
}

/* ---- the head ---- */

/* The answer is known, and the rest of the body is read and dropped. */
static void drop_rest(struct lf_exchange *x)
{
    x->discard = true;
    if (x->reply.status >= 400 && x->reply.body.status == LF_OK)
        lf_conn_answer_known(x->conn, &x->reply, x->request_id);
}

enum MHD_Result lf_exchange_head(struct lf_exchange *x, const char *url, const char *method, const char *version)
{
    struct lf_head_verdict verdict = lf_head_check(x, url, method, version);
    if (!x->reply.status) {
        x->discard = x->route->posts;
        return MHD_YES;
    }
    /* The answer is known. A body that is on its way is read first, so that the client sees the answer and keeps its
     * connection; not if it waits for our word, is too long to wait for, or has no end that we could trust. */
    if (verdict.answer_now) {
        x->discard = true;
        return lf_respond(x);
    }
    drop_rest(x);
    return MHD_YES;
}

/* ---- the body ---- */

void lf_exchange_drop_body(struct lf_exchange *x)
{
    lf_buf_deinit(&x->body);
}

static void refuse_body(struct lf_exchange *x, const struct lf_api_err *err)
{
    lf_exchange_refuse(x, err);
    lf_exchange_drop_body(x);
    drop_rest(x);
}

enum MHD_Result lf_exchange_body(struct lf_exchange *x, const char *bytes, size_t n)
{
    struct lf_http_server *s = x->server;
    struct lf_api_err err;
    uint64_t so_far = atomic_fetch_add(&x->conn->body_bytes, n) + n;
    if (so_far > s->opts.max_body_bytes * LF_DISCARD_FACTOR) return MHD_NO;
    if (x->discard) return MHD_YES;
    if (lf_wake_is_over(&x->wake)) return MHD_NO;
    lf_buf_append(&x->body, bytes, n);
    if (x->body.status == LF_LIMIT) {
        (void)!lf_refuse(&err, 413, NULL, "body_too_large", "The body is larger than this server takes: %llu bytes.",
                         (unsigned long long)s->opts.max_body_bytes);
        refuse_body(x, &err);
    } else if (x->body.status != LF_OK) {
        lf_counter_add(&s->metrics.refused_text_memory, 1);
        (void)!lf_refuse_work(&err, LF_NO_MEMORY);
        refuse_body(x, &err);
    }
    return MHD_YES;
}

/* ---- work ---- */

static void handle(struct lf_exchange *x)
{
    struct lf_http_server *s = x->server;
    struct lf_api_err err;
    uint64_t need = (x->body.len + x->document_bytes) * LF_WORK_FACTOR + LF_WORK_BYTES;
    if (lf_wake_is_over(&x->wake)) return;
    if (!lf_text_reserve(s->text_memory, need)) {
        lf_counter_add(&s->metrics.refused_text_memory, 1);
        (void)!lf_refuse_work(&err, LF_NO_MEMORY);
        refuse_body(x, &err);
        return;
    }
    lf_reply_use_memory(&x->reply, s->text_memory);
    x->route->handle(x);
    lf_text_unreserve(s->text_memory, need);
}

static void run_job(struct lf_job *job);

static void enqueue(struct lf_exchange *x)
{
    struct lf_http_server *s = x->server;
    x->job.run = run_job;
    lf_workers_enqueue(x->effort == LF_EFFORT_LONG ? &s->long_workers : &s->workers, &x->job);
}

static void run_job(struct lf_job *job)
{
    struct lf_exchange *x = LF_LIST_ENTRY(job, struct lf_exchange, job);
    handle(x);
    if (x->effort == LF_EFFORT_COSTLY) {
        x->effort = LF_EFFORT_LONG;
        enqueue(x);
        return;
    }
    lf_wake_return(&x->wake);
}

static enum MHD_Result first_advance(struct lf_exchange *x)
{
    struct lf_http_server *s = x->server;
    x->handled = true;
    if (!lf_route_has_body(x->route) && !x->route->may_wait) {
        if (x->route->auth != LF_AUTH_NONE) lf_reply_use_memory(&x->reply, s->text_memory);
        x->route->handle(x);
        return lf_respond(x);
    }
    if (x->route->generates) {
        x->counted = true;
        atomic_fetch_add(&s->n_in_flight, 1);
    }
    lf_conn_enter(&s->conns, x->conn, LF_CONN_WORK, &x->wake);
    if (!lf_wake_lend(&x->wake)) return MHD_NO;
    x->effort = x->body.len > LF_SHORT_BODY_BYTES ? LF_EFFORT_LONG : LF_EFFORT_SHORT;
    enqueue(x);
    return MHD_YES;
}

/* ---- the answer ---- */

/* Waits until the answer can begin; what is then in the reply says with what. */
static enum MHD_Result begin_answer(struct lf_exchange *x)
{
    atomic_store(&x->wake.patient, x->answer->patient);
    while (!lf_wake_is_over(&x->wake)) {
        if (x->answer->begin(x->answer, &x->reply)) return lf_respond(x);
        if (lf_wake_suspend(&x->wake, 0)) return MHD_YES;
    }
    return MHD_NO;
}

/* A client that has ended its side of the connection may be gone or may still read: the two look the same until
 * something is sent. So it is told what is known or needs no work, and no work is done for it. */
static bool is_known(const struct lf_exchange *x)
{
    return x->reply.status || (!x->handled && !lf_route_has_body(x->route));
}

enum MHD_Result lf_exchange_advance(struct lf_exchange *x)
{
    if (x->queued) return MHD_YES;
    if (atomic_load(&x->server->waker.stopping)) return MHD_NO;
    if (lf_wake_is_over(&x->wake) && !is_known(x)) return MHD_NO;
    if (x->reply.status) return lf_respond(x);
    if (!x->handled) return first_advance(x);
    return x->answer ? begin_answer(x) : MHD_NO;
}

/* Where proxies are trusted somebody asks which clients come through them. */
static void log_end(const struct lf_exchange *x, bool finished)
{
    char client[sizeof " client=" + LF_ADDRESS_TEXT_BYTES] = "", address[LF_ADDRESS_TEXT_BYTES];
    if (x->server->proxies.n > 0) {
        lf_address_print(address, &x->client);
        snprintf(client, sizeof client, " client=%s", address);
    }
    LF_INFO("request id=%s route=%s status=%d finished=%d ms=%lld%s", x->request_id, x->route->path, x->reply.status,
            (int)finished, (long long)((lf_clock_ns() - x->wake.began_ns) / LF_NS_PER_MS), client);
}

void lf_exchange_end(struct lf_exchange *x, bool finished)
{
    struct lf_http_server *s = x->server;
    finished = finished || x->answered;
    if (!finished) lf_counter_add(&s->metrics.clients_gone, 1);
    if (x->route && x->route->generates) log_end(x, finished);
    if (x->answer) x->answer->destroy(x->answer); /* from here on nobody notifies */
    lf_conn_enter(&s->conns, x->conn, LF_CONN_IDLE, NULL);
    lf_wake_deinit(&x->wake);
    if (x->counted) atomic_fetch_sub(&s->n_in_flight, 1);
    lf_exchange_drop_body(x);
    lf_buf_deinit(&x->tail_buf);
    lf_buf_deinit(&x->window);
    lf_reply_deinit(&x->reply);
    free(x);
}
