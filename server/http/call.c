#include "server/http/call.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "server/http/access.h"
#include "server/http/generation.h"
#include "server/http/origin.h"
#include "server/http/routes.h"
#include "server/http/sse.h"

/* ---- the head ---- */

static bool is_plain_id(struct lf_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                     c == '_' || c == '-';
        if (!plain) return false;
    }
    return s.len > 0 && s.len <= LF_REQUEST_ID_BYTES;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Appends s with %xx decoded; false for a malformed escape and for %00. */
static bool percent_decode(struct lf_buf *out, struct lf_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] != '%') {
            lf_buf_char(out, s.ptr[i]);
            continue;
        }
        if (s.len - i < 3) return false;
        int hi = hex_digit(s.ptr[i + 1]), lo = hex_digit(s.ptr[i + 2]);
        if (hi < 0 || lo < 0 || (hi == 0 && lo == 0)) return false;
        lf_buf_char(out, (char)(hi * 16 + lo));
        i += 2;
    }
    return out->status == LF_OK;
}

static enum lf_status find_route(struct lf_call *call, const char *url, const char *method, struct lf_api_err *err)
{
    size_t tail_at = 0;
    const struct lf_route *route = lf_route_find(lf_str_c(url), &tail_at);
    if (!route || !percent_decode(&call->tail_buf, lf_str_c(url + tail_at)))
        return lf_refuse(err, 404, NULL, "unknown_route", "There is nothing at this path.");
    call->route = route;
    call->tail = lf_buf_view(&call->tail_buf);
    if (strcmp(method, "OPTIONS") == 0) {
        lf_reply_json(&call->reply, 204);
        call->reply.allow = route->allow;
        return LF_OK;
    }
    bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (get ? route->method[0] == 'G' : strcmp(method, route->method) == 0) return LF_OK;
    return lf_refuse(err, 405, NULL, "method_not_allowed", "This path answers %s.", route->allow);
}

static enum lf_status check_state(struct lf_call *call, struct lf_api_err *err)
{
    struct lf_http_server *s = call->server;
    if (!atomic_load(&s->ready) && !call->route->before_ready) {
        (void)!lf_refuse(err, 503, NULL, "loading", "The model is being loaded.");
        err->has_progress = true;
        err->progress = atomic_load(&s->progress_permille) / 1000.0;
        err->retry_after_s = 2;
        return LF_INVALID;
    }
    if (call->route->generates && atomic_load(&s->draining))
        return lf_refuse(err, 503, NULL, "draining", "The server is shutting down.");
    return LF_OK;
}

static enum lf_status check_body_head(struct lf_call *call, const struct lf_headers *h, struct lf_api_err *err)
{
    if (call->route->method[0] == 'P' && !lf_headers_is_json(h))
        return lf_refuse(err, 415, NULL, "unsupported_media_type", "Expected Content-Type: application/json.");
    if (lf_headers_is_encoded(h))
        return lf_refuse(err, 415, NULL, "unsupported_media_type",
                         "Content-Encoding is not implemented: send the body as it is.");
    if (lf_headers_body_bytes(h) > (int64_t)call->server->opts.max_body_bytes)
        return lf_refuse(err, 413, NULL, "body_too_large", "The body has more than %llu bytes.",
                         (unsigned long long)call->server->opts.max_body_bytes);
    return LF_OK;
}

/* Everything that can be said before the body, in the order in which it is said. */
static enum lf_status check_head(struct lf_call *call, const struct lf_headers *h, const char *url, const char *method,
                                 struct lf_api_err *err)
{
    struct lf_http_server *s = call->server;
    if (atomic_load(&call->conn->uri_bytes) > LF_URI_BYTES)
        return lf_refuse(err, 414, NULL, "uri_too_long", "The URI has more than %d bytes.", LF_URI_BYTES);
    if (!lf_host_allowed(&s->opts, s->loopback, h->host))
        return lf_refuse(err, 403, NULL, "host_not_allowed", "The Host header names another server.");
    LF_TRY(find_route(call, url, method, err));
    if (call->reply.status) return LF_OK; /* OPTIONS */
    if (call->route->auth != LF_AUTH_NONE && !lf_keys_admit(&s->keys, h->authorization, &call->tenant))
        return lf_refuse(err, 401, NULL, "invalid_api_key", "A valid API key is needed: Authorization: Bearer KEY.");
    LF_TRY(check_state(call, err));
    return check_body_head(call, h, err);
}

static void read_ids(struct lf_call *call, const struct lf_headers *h)
{
    lf_new_id(call->server, call->id);
    if (is_plain_id(h->request_id))
        snprintf(call->request_id, sizeof call->request_id, "%.*s", (int)h->request_id.len, h->request_id.ptr);
    else
        snprintf(call->request_id, sizeof call->request_id, "req-%s", call->id);
}

struct lf_call *lf_call_create(struct lf_http_server *s, struct lf_conn *conn, struct MHD_Connection *mhd)
{
    struct lf_call *call = calloc(1, sizeof *call);
    if (!call) return NULL;
    call->server = s;
    call->mhd = mhd;
    call->conn = conn;
    call->started_ns = lf_clock_ns();
    lf_buf_init(&call->body, s->opts.max_body_bytes);
    lf_buf_init(&call->tail_buf, LF_URI_BYTES);
    lf_reply_init(&call->reply);
    lf_list_init(&call->in_calls);
    lf_list_init(&call->in_dirty);
    lf_list_init(&call->in_work);
    lf_conn_enter(s, conn, LF_CONN_BODY, call);
    pthread_mutex_lock(&s->lock);
    lf_list_push_back(&s->calls, &call->in_calls);
    pthread_mutex_unlock(&s->lock);
    return call;
}

static enum MHD_Result send_reply(struct lf_call *call);

enum MHD_Result lf_call_head(struct lf_call *call, const char *url, const char *method, const char *version)
{
    struct lf_headers h;
    struct lf_api_err err = {0};
    lf_headers_read(&h, call->mhd);
    read_ids(call, &h);
    call->http_1_0 = strcmp(version, "HTTP/1.0") == 0;
    call->cors = lf_cors_allow(&call->server->opts, h.origin);
    enum lf_status status = lf_headers_check_framing(&h, version, &err);
    bool framed = status == LF_OK;
    if (framed) status = check_head(call, &h, url, method, &err);
    if (status != LF_OK) lf_reply_error(&call->reply, &err);
    if (err.status == 405) call->reply.allow = call->route->allow;
    if (!call->reply.status) return MHD_YES;
    /* The answer is known. A body that is on its way is read first, so that the client sees the answer and keeps its
     * connection; not if it waits for our word, is too long to wait for, or has no end that we could trust. */
    call->discard = true;
    bool too_long = lf_headers_body_bytes(&h) > (int64_t)call->server->opts.max_body_bytes * LF_DISCARD_FACTOR;
    return !framed || h.n_expect || too_long ? send_reply(call) : MHD_YES;
}

/* ---- the body ---- */

static void refuse_body(struct lf_call *call, int status, const char *code, const char *message)
{
    struct lf_api_err err;
    (void)!lf_refuse(&err, status, NULL, code, "%s", message);
    err.retry_after_s = status == 429 ? 1 : 0;
    lf_reply_error(&call->reply, &err);
    lf_call_drop_body(call);
    call->discard = true;
}

void lf_call_drop_body(struct lf_call *call)
{
    lf_buf_deinit(&call->body);
    atomic_fetch_sub(&call->server->body_bytes, call->body_charged);
    call->body_charged = 0;
}

enum MHD_Result lf_call_body(struct lf_call *call, const char *bytes, size_t n)
{
    struct lf_http_server *s = call->server;
    uint64_t so_far = atomic_fetch_add(&call->conn->body_bytes, n) + n;
    if (so_far > s->opts.max_body_bytes * LF_DISCARD_FACTOR) return MHD_NO;
    if (call->discard) return MHD_YES;
    if (so_far > s->opts.max_body_bytes) {
        refuse_body(call, 413, "body_too_large", "The body is larger than this server takes.");
        return MHD_YES;
    }
    call->body_charged += n;
    if (atomic_fetch_add(&s->body_bytes, n) + n > s->body_budget) {
        lf_counter_add(&s->metrics.refused_body_memory, 1);
        refuse_body(call, 429, "server_busy", "Too many large requests at once.");
        return MHD_YES;
    }
    lf_buf_append(&call->body, bytes, n);
    if (call->body.status != LF_OK) refuse_body(call, 503, "no_memory", "No memory for the body of this request.");
    return MHD_YES;
}

/* ---- the answer ---- */

void lf_call_add_headers(const struct lf_call *call, struct MHD_Response *response)
{
    (void)MHD_add_response_header(response, "x-request-id", call->request_id);
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (!call->cors) return;
    (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", call->cors);
    (void)MHD_add_response_header(response, "Access-Control-Expose-Headers", "x-request-id, retry-after");
    (void)MHD_add_response_header(response, "Vary", "Origin");
}

static void add_reply_headers(const struct lf_call *call, struct MHD_Response *response)
{
    const struct lf_reply *reply = &call->reply;
    lf_call_add_headers(call, response);
    if (reply->status != 204) (void)MHD_add_response_header(response, "Content-Type", reply->content_type);
    if (reply->allow) (void)MHD_add_response_header(response, "Allow", reply->allow);
    if (reply->status == 401) (void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (reply->retry_after_s > 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", reply->retry_after_s);
        (void)MHD_add_response_header(response, "Retry-After", text);
    }
    if (reply->status == 204 && call->cors) {
        (void)MHD_add_response_header(response, "Access-Control-Allow-Methods", reply->allow);
        (void)MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                      "authorization, content-type, x-request-id");
        (void)MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    }
}

void lf_call_count(struct lf_call *call, int status)
{
    int kind = status / 100;
    LF_ASSERT(kind >= 1 && kind <= 5);
    lf_counter_add(&call->server->metrics.requests[lf_route_idx(call->route)][kind], 1);
    call->reply.status = status;
    call->queued = true;
    lf_conn_enter(call->server, call->conn, LF_CONN_ANSWER, call);
}

/* The reply's bytes belong to the call, which outlives the sending. One that did not fit into memory is replaced by
 * words that need none. */
static enum MHD_Result send_reply(struct lf_call *call)
{
    static const char lost[] =
        "{\"error\":{\"message\":\"The answer does not fit into memory.\",\"type\":\"server_error\","
        "\"param\":null,\"code\":\"no_memory\"}}";
    struct lf_reply *reply = &call->reply;
    struct lf_str body = lf_buf_view(&reply->body);
    if (reply->body.status != LF_OK) {
        body = lf_str_from(lost, sizeof lost - 1);
        reply->status = 500;
        reply->content_type = "application/json";
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body.len, (void *)(uintptr_t)body.ptr, MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    add_reply_headers(call, response);
    int status = reply->status;
    lf_call_count(call, status);
    enum MHD_Result result = MHD_queue_response(call->mhd, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

/* The generation's part: true when there is a reply to send. */
static bool poll_generation(struct lf_call *call)
{
    atomic_store(&call->patient, call->gen->ask.n_stops == 0);
    while (!lf_call_is_over(call)) {
        if (lf_generation_poll(call->gen, &call->reply)) return true;
        if (lf_call_park(call, 0)) return false;
    }
    return false;
}

static enum MHD_Result first_advance(struct lf_call *call)
{
    call->handled = true;
    lf_conn_enter(call->server, call->conn, LF_CONN_ANSWER, call);
    if (call->route->method[0] == 'G') {
        call->route->handle(call);
        return send_reply(call);
    }
    if (call->route->generates) {
        call->counted = true;
        atomic_fetch_add(&call->server->n_in_flight, 1);
    }
    return lf_call_hand_over(call) ? MHD_YES : MHD_NO;
}

enum MHD_Result lf_call_advance(struct lf_call *call)
{
    if (call->queued) return MHD_YES;
    if (lf_call_is_over(call)) return MHD_NO;
    if (call->reply.status) return send_reply(call);
    if (!call->handled) return first_advance(call);
    if (call->sse) return lf_sse_send(call);
    if (call->gen && poll_generation(call)) return send_reply(call);
    return lf_call_is_over(call) || !call->gen ? MHD_NO : MHD_YES;
}

void lf_call_end(struct lf_call *call, bool finished)
{
    struct lf_http_server *s = call->server;
    finished = finished || call->answered;
    if (!finished) lf_counter_add(&s->metrics.clients_gone, 1);
    if (call->route && call->route->generates)
        LF_INFO("request id=%s route=%s status=%d finished=%d ms=%lld", call->request_id, call->route->path,
                call->reply.status, (int)finished, (long long)((lf_clock_ns() - call->started_ns) / LF_NS_PER_MS));
    lf_generation_destroy(call->gen); /* from here on nobody notifies */
    pthread_mutex_lock(&s->lock);
    LF_ASSERT(!call->parked && !call->busy);
    lf_list_remove(&call->in_calls);
    lf_list_remove(&call->in_dirty);
    pthread_mutex_unlock(&s->lock);
    lf_conn_enter(s, call->conn, LF_CONN_IDLE, NULL);
    if (call->counted) atomic_fetch_sub(&s->n_in_flight, 1);
    lf_sse_destroy(call->sse);
    lf_call_drop_body(call);
    lf_buf_deinit(&call->tail_buf);
    lf_reply_deinit(&call->reply);
    free(call);
}
