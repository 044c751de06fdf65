#include "server/http/conn/head.h"

#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/mix.h"
#include "core/limits.h"
#include "server/http/conn/exchange.h"
#include "server/http/conn/headers.h"
#include "server/http/conn/origin.h"
#include "server/http/conn/refuse.h"
#include "server/http/api/routes.h"
#include "server/http/api/shown.h"
#include "server/http/conn/server.h"

static void read_ids(struct lf_exchange *x, const struct lf_headers *h)
{
    lf_new_id(x->server, x->id);
    x->client_id = lf_is_plain_id(h->request_id, LF_REQUEST_ID_BYTES);
    if (x->client_id)
        snprintf(x->request_id, sizeof x->request_id, "%.*s", (int)h->request_id.len, h->request_id.ptr);
    else
        snprintf(x->request_id, sizeof x->request_id, "req-%s", x->id);
}

/* ---- the route ---- */

/* Appends s with %xx decoded; false for a malformed escape and for %00. */
static bool percent_decode(struct lf_buf *out, struct lf_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] != '%') {
            lf_buf_char(out, s.ptr[i]);
            continue;
        }
        if (s.len - i < 3) return false;
        int hi = lf_digit(s.ptr[i + 1]), lo = lf_digit(s.ptr[i + 2]);
        if (hi >= 16 || lo >= 16 || (hi == 0 && lo == 0)) return false;
        lf_buf_char(out, (char)(hi * 16 + lo));
        i += 2;
    }
    return out->status == LF_OK;
}

static enum lf_status find_route(struct lf_exchange *x, const char *url, const char *method, struct lf_api_err *err)
{
    size_t tail_at = 0;
    const struct lf_route *route = lf_route_find(lf_str_c(url), &tail_at);
    if (route && route->is_page && x->server->opts.no_page) route = NULL;
    const char *elsewhere = route ? NULL : lf_route_not_offered(lf_str_c(url));
    if (elsewhere)
        return lf_refuse(err, 404, NULL, "unknown_route",
                         "There is nothing at this path: this server does not offer %s, only texts from texts.",
                         elsewhere);
    struct lf_str tail = lf_str_c(url + tail_at);
    if (route) tail.len -= lf_route_end_bytes(route);
    if (!route || !percent_decode(&x->tail_buf, tail))
        return lf_refuse(err, 404, NULL, "unknown_route", "There is nothing at this path.");
    x->route = route;
    x->tail = lf_buf_view(&x->tail_buf);
    if (strcmp(method, "OPTIONS") == 0) {
        lf_reply_json(&x->reply, 204);
        x->reply.allow = route->allow;
        return LF_OK;
    }
    const struct lf_route *row = lf_route_with_method(route, method);
    if (row) {
        x->route = row;
        return LF_OK;
    }
    return lf_refuse(err, 405, NULL, "method_not_allowed", "This path answers %s.", route->allow);
}

/* ---- what is refused ---- */

static enum lf_status check_state(const struct lf_exchange *x, struct lf_api_err *err)
{
    struct lf_http_server *s = x->server;
    if (!atomic_load(&s->ready) && !x->route->before_ready) {
        (void)!lf_refuse(err, 503, NULL, "loading", "The model is being loaded.");
        err->has_progress = true;
        err->progress = lf_http_server_progress_now(s);
        err->retry_after_s = 2;
        return LF_INVALID;
    }
    if (x->route->generates && atomic_load(&s->draining))
        return lf_refuse(err, 503, NULL, "draining", "The server is shutting down.");
    return LF_OK;
}

/* The slots beyond the table's limit are for the health routes. */
static enum lf_status check_slot(struct lf_exchange *x, struct lf_api_err *err)
{
    if (!x->conn->health_only) return LF_OK;
    x->reply.close = true;
    if (x->route->is_health) return LF_OK;
    (void)!lf_refuse(err, 503, NULL, "too_many_connections", "The server has no connection left.");
    err->retry_after_s = 1;
    return LF_INVALID;
}

/* Behind a trusted proxy: whose request it is, and whether that address has room for one more. Where nothing says
 * whose, it is the proxy's own, which has no such limit. */
static enum lf_status check_client(struct lf_exchange *x, const struct lf_headers *h, struct lf_api_err *err)
{
    struct lf_http_server *s = x->server;
    if (!x->conn->by_proxy || x->route->auth == LF_AUTH_NONE) return LF_OK;
    enum lf_forwarded forwarded = lf_proxies_client(&s->proxies, h->forwarded_for, h->n_forwarded_for, &x->client);
    if (forwarded == LF_FORWARDED_MALFORMED) lf_counter_add(&s->metrics.malformed_forwarded, 1);
    if (forwarded != LF_FORWARDED_CLIENT || lf_conn_of_client(x->conn, lf_address_key(&x->client))) return LF_OK;
    (void)!lf_refuse(err, 429, NULL, "too_many_connections_of_address", "Too many connections from this address.");
    err->retry_after_s = 1;
    return LF_INVALID;
}

/* Who asks, for fairness and limits: a key, else an address. */
static enum lf_status check_key(struct lf_exchange *x, const struct lf_headers *h, struct lf_api_err *err)
{
    if (x->route->auth == LF_AUTH_NONE) return LF_OK;
    if (!lf_keys_admit(&x->server->keys, h->authorization, h->api_key, &x->tenant))
        return lf_refuse(err, 401, NULL, "invalid_api_key",
                         "A valid API key is needed: Authorization: Bearer KEY, or x-api-key: KEY.");
    x->tenant.by_key = x->tenant.id != 0;
    if (!x->tenant.by_key) x->tenant.id = lf_mix64(lf_address_key(&x->client)) | 1;
    return LF_OK;
}

static enum lf_status check_body_head(const struct lf_exchange *x, const struct lf_headers *h, struct lf_api_err *err)
{
    bool is_text = x->route->takes_text && lf_headers_is_text(h);
    bool is_empty = x->route->may_be_empty && h->content_type.len == 0 && lf_headers_body_bytes(h) == 0;
    if (lf_route_has_body(x->route) && !is_text && !is_empty && !lf_headers_is_json(h))
        return lf_refuse(err, 415, NULL, "unsupported_media_type", "Expected Content-Type: application/json%s.",
                         x->route->takes_text ? " or text/plain" : "");
    if (lf_headers_is_encoded(h))
        return lf_refuse(err, 415, NULL, "unsupported_media_type",
                         "Content-Encoding is not implemented: send the body as it is.");
    if (lf_headers_body_bytes(h) > (int64_t)x->server->opts.max_body_bytes)
        return lf_refuse(err, 413, NULL, "body_too_large", "The body has more than %llu bytes.",
                         (unsigned long long)x->server->opts.max_body_bytes);
    return LF_OK;
}

/* What only some routes look at. */
static enum lf_status read_wishes(struct lf_exchange *x, const struct lf_headers *h, struct lf_api_err *err)
{
    const char *wait = NULL;
    x->if_match = h->if_match;
    x->if_none_match = h->if_none_match;
    if (!x->route->takes_text) return LF_OK;
    x->is_text = lf_headers_is_text(h);
    bool given =
        MHD_lookup_connection_value_n(x->mhd, MHD_GET_ARGUMENT_KIND, "wait", strlen("wait"), &wait, NULL) == MHD_YES;
    x->wait = given && (!wait || strcmp(wait, "true") == 0); /* ?wait alone too */
    if (x->wait || !given || strcmp(wait, "false") == 0) return LF_OK;
    return lf_refuse(err, 400, "wait", "invalid_value", "wait: expected true or false.");
}

static enum lf_status check(struct lf_exchange *x, const struct lf_headers *h, const char *url, const char *method,
                            struct lf_api_err *err)
{
    struct lf_http_server *s = x->server;
    if (atomic_load(&x->conn->uri_bytes) > LF_URI_BYTES)
        return lf_refuse(err, 414, NULL, "uri_too_long", "The URI has more than %d bytes.", LF_URI_BYTES);
    struct lf_str host = h->host;
    LF_TRY(lf_target_split(url, &url, &host, err));
    if (!lf_host_allowed(&s->opts, s->loopback, host)) return lf_refuse_host(err, host);
    LF_TRY(find_route(x, url, method, err));
    if (x->reply.status) return LF_OK; /* OPTIONS */
    LF_TRY(check_slot(x, err));
    LF_TRY(check_client(x, h, err));
    LF_TRY(check_key(x, h, err));
    LF_TRY(check_state(x, err));
    LF_TRY(read_wishes(x, h, err));
    return check_body_head(x, h, err);
}

struct lf_head_verdict lf_head_check(struct lf_exchange *x, const char *url, const char *method, const char *version)
{
    struct lf_headers h;
    struct lf_api_err err = {0};
    lf_headers_read(&h, x->mhd);
    read_ids(x, &h);
    x->http_1_0 = strcmp(version, "HTTP/1.0") == 0;
    x->cors = lf_cors_allow(&x->server->opts, h.origin);
    x->preflight = h.cors_request_headers;
    const struct lf_request_line line = {method, url, version, atomic_load(&x->conn->uri_bytes)};
    enum lf_status status = lf_headers_check_framing(&h, &line, &err);
    bool framed = status == LF_OK;
    if (!framed || lf_headers_end_connection(&h)) x->reply.close = true;
    if (framed) status = check(x, &h, url, method, &err);
    if (status != LF_OK) lf_exchange_refuse(x, &err);
    if (err.status == 405) x->reply.allow = x->route->allow;
    bool too_long = lf_headers_body_bytes(&h) > (int64_t)x->server->opts.max_body_bytes * LF_DISCARD_FACTOR;
    bool wrong_slot = x->conn->health_only && x->reply.status; /* the next one may be asking for health */
    return (struct lf_head_verdict){.answer_now = !framed || h.n_expect || too_long || wrong_slot};
}
