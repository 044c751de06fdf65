#include "server/http/api/returns.h"

#include <stdlib.h>
#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "server/engine/engine.h"
#include "server/http/api/document_reading.h"
#include "server/http/conn/server.h"

enum { LOOK_MS = 50, RETRY_MS = 1000, EXPIRE_MS = 1000 };

static bool is_stopped(void *ctx)
{
    struct lf_returns *r = ctx;
    pthread_mutex_lock(&r->lock);
    bool stops = r->stops;
    pthread_mutex_unlock(&r->lock);
    return stops;
}

/* Whether to go on. */
static bool wait_ms(struct lf_returns *r, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ms * LF_NS_PER_MS;
    until.tv_sec += (time_t)(ns / LF_NS_PER_S);
    until.tv_nsec = (long)(ns % LF_NS_PER_S);
    pthread_mutex_lock(&r->lock);
    while (!r->stops && pthread_cond_timedwait(&r->wake, &r->lock, &until) == 0) {
    }
    bool stops = r->stops;
    pthread_mutex_unlock(&r->lock);
    return !stops;
}

/* Until it has been read, or will not be. */
static void wait_read(struct lf_http_server *s, struct lf_document *doc)
{
    struct lf_document_view view;
    do {
        lf_keeper_expire(&s->keeper, lf_clock_unix_s());
        lf_document_look(s->documents, doc, &view);
    } while (view.state == LF_DOCUMENT_READING && !lf_document_is_gone(doc) && wait_ms(&s->returns, LOOK_MS));
}

/* As far as it is pinned nowhere, or on disk alone, what is there is not touched. */
static bool is_on_disk(struct lf_http_server *s, const struct lf_gen_params *params)
{
    struct lf_engine_state e;
    lf_engine_snapshot(s->engine, &e);
    return lf_engine_n_kept(s->engine, params) == params->n_prompt / e.block_tokens * e.block_tokens;
}

/* What there is no room for any more is read all the same, if need be. */
static enum lf_status submit(struct lf_http_server *s, struct lf_document *doc, struct lf_gen_params *params,
                             struct lf_request **req, struct lf_api_err *err)
{
    enum lf_status status = lf_document_submit(s, params, req, err);
    if (status == LF_OK || params->pin == LF_PIN_NONE || err->status != 507) return status;
    struct lf_document_view view;
    int64_t pinning;
    lf_document_look(s->documents, doc, &view);
    LF_WARN("document %.*s is not pinned any more: %s", (int)view.name.len, view.name.ptr, err->message);
    (void)lf_document_pin(s->documents, doc, LF_PIN_NONE, &pinning);
    params->pin = LF_PIN_NONE;
    return lf_document_submit(s, params, req, err);
}

/* Whether that is all; false: to be tried again. */
static bool read_again(struct lf_http_server *s, struct lf_document *doc, struct lf_gen_params *params)
{
    struct lf_request *req = NULL;
    struct lf_api_err err = {0};
    struct lf_document_view view;
    int64_t pinning = lf_document_pinning(s->documents, doc);
    lf_document_look(s->documents, doc, &view);
    params->pin = view.pin;
    if (params->pin == LF_PIN_NONE && is_on_disk(s, params)) {
        lf_document_end(s->documents, doc, NULL);
        return true;
    }
    if (submit(s, doc, params, &req, &err) != LF_OK) {
        if (err.status == 429 || err.status == 503) return false;
        lf_document_end(s->documents, doc,
                        err.status == 400 ? "It has more tokens than the context." : "It could not be queued.");
        return true;
    }
    struct lf_document *again = lf_document_ref(s->documents, doc);
    if (lf_readings_add(&s->readings, again, req, LF_READING_READS, params->pin ? pinning : -1) == LF_OK) return true;
    lf_document_unref(s->documents, again);
    lf_request_put(req);
    return false;
}

static void note_keys(struct lf_http_server *s, struct lf_document *doc, const struct lf_gen_params *params)
{
    int n;
    uint8_t *keys = lf_document_keys(s, params, &n);
    if (keys) lf_document_set_keys(s->documents, doc, keys, n);
    lf_text_free(s->text_memory, keys);
}

/* false: to be tried again. */
static bool bring_back(struct lf_http_server *s, struct lf_document *doc)
{
    struct lf_work work = {.memory = s->text_memory, .is_over = is_stopped, .ctx = &s->returns};
    struct lf_document_beginning b;
    struct lf_api_err err = {0};
    bool is_done = true;
    if (lf_document_begin_again(&b, s, doc, &work, &err) == LF_OK) {
        lf_document_recount(s->documents, doc, b.params.n_prompt);
        note_keys(s, doc, &b.params);
        is_done = read_again(s, doc, &b.params);
        lf_document_beginning_deinit(&b);
    } else if (err.status == 503) {
        is_done = false;
    } else {
        lf_document_end(
            s->documents, doc,
            "This model's template cannot begin a conversation with it, or it has more tokens than the context.");
    }
    return is_done;
}

static void *run(void *ctx)
{
    struct lf_http_server *s = ctx;
    struct lf_returns *r = &s->returns;
    int next = 0;
    bool goes_on = true;
    while (goes_on && !atomic_load(&s->ready)) goes_on = wait_ms(r, LOOK_MS);
    while (goes_on) {
        lf_keeper_expire(&s->keeper, lf_clock_unix_s());
        if (next == r->n) {
            goes_on = wait_ms(r, EXPIRE_MS);
            continue;
        }
        struct lf_document *doc = r->documents[next];
        if (lf_document_is_gone(doc) || bring_back(s, doc)) {
            if (next + 1 == r->n_pinned) lf_engine_guard(s->engine, false);
            if (next >= r->n_pinned) wait_read(s, doc); /* the others only wait in the queue */
            lf_document_unref(s->documents, doc);
            if (++next == r->n) LF_INFO("documents returned n=%d", next);
            goes_on = !is_stopped(r);
        } else {
            goes_on = wait_ms(r, RETRY_MS);
        }
    }
    while (next < r->n) lf_document_unref(s->documents, r->documents[next++]);
    return NULL;
}

static void add(void *ctx, struct lf_document *doc)
{
    struct lf_returns *r = ctx;
    r->documents[r->n++] = doc;
}

/* Until they have been named nothing on disk makes room for another (lf_returns_guard). */
static void put_pinned_first(struct lf_http_server *s)
{
    struct lf_returns *r = &s->returns;
    struct lf_document_view view;
    r->n_pinned = 0;
    for (int i = 0; i < r->n; i++) {
        struct lf_document *doc = r->documents[i];
        lf_document_look(s->documents, doc, &view);
        if (view.pin == LF_PIN_NONE) continue;
        r->documents[i] = r->documents[r->n_pinned];
        r->documents[r->n_pinned++] = doc;
    }
}

void lf_returns_guard(struct lf_http_server *s)
{
    if (s->returns.n_pinned > 0) lf_engine_guard(s->engine, true);
}

enum lf_status lf_returns_start(struct lf_http_server *s, struct lf_err *err)
{
    struct lf_returns *r = &s->returns;
    pthread_condattr_t attr;
    if (!s->keeper.dir) return LF_OK;
    r->documents = calloc(LF_DOCUMENTS_N, sizeof *r->documents);
    if (!r->documents) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of documents");
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &attr);
    pthread_condattr_destroy(&attr);
    lf_documents_each(s->documents, add, r);
    put_pinned_first(s);
    r->is_running = pthread_create(&r->thread, NULL, run, s) == 0;
    if (r->is_running) return LF_OK;
    for (int i = 0; i < r->n; i++) lf_document_unref(s->documents, r->documents[i]);
    free(r->documents);
    return lf_fail(err, LF_NO_MEMORY, "the thread of documents does not start");
}

void lf_returns_stop(struct lf_http_server *s)
{
    struct lf_returns *r = &s->returns;
    if (!r->is_running) return;
    pthread_mutex_lock(&r->lock);
    r->stops = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r->documents);
    r->is_running = false;
}
