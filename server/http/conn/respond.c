#include "server/http/conn/respond.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/text_memory.h"
#include "server/http/conn/exchange.h"
#include "server/http/conn/origin.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"

enum {
    BLOCK_BYTES = 4096,      /* libmicrohttpd's own buffer; it reads into its connection's memory instead */
    PIECE_BYTES = 64 * 1024, /* of memory that is there before anything is made */
    NO_MEMORY_RETRY_MS = 50
};

/* ---- headers ---- */

static void add(struct MHD_Response *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

static void add_cors(const struct lf_exchange *x, struct MHD_Response *response)
{
    if (!x->cors) return;
    add(response, "Access-Control-Allow-Origin", x->cors);
    add(response, "Access-Control-Expose-Headers", "x-request-id, retry-after");
    bool preflight = x->reply.status == 204;
    add(response, "Vary", preflight ? "Origin, Access-Control-Request-Headers" : "Origin");
    if (!preflight) return;
    char allowed[LF_CORS_HEADERS_BYTES];
    lf_cors_headers(allowed, x->preflight);
    add(response, "Access-Control-Allow-Methods", x->reply.allow);
    if (allowed[0]) add(response, "Access-Control-Allow-Headers", allowed);
    add(response, "Access-Control-Max-Age", "600");
}

/* Of what browsers show. */
static void add_policy(const struct lf_reply *reply, struct MHD_Response *response)
{
    add(response, "Content-Security-Policy", reply->policy);
    add(response, "Referrer-Policy", "no-referrer");
    add(response, "Cross-Origin-Resource-Policy", "same-origin");
    add(response, "Cache-Control", "no-cache");
}

static void add_headers(const struct lf_exchange *x, struct MHD_Response *response)
{
    const struct lf_reply *reply = &x->reply;
    add(response, "x-request-id", x->request_id);
    add(response, "X-Content-Type-Options", "nosniff");
    add_cors(x, response);
    if (reply->status != 204) add(response, "Content-Type", reply->content_type);
    if (reply->allow) add(response, "Allow", reply->allow);
    if (reply->etag[0]) add(response, "ETag", reply->etag);
    if (reply->location[0]) add(response, "Location", reply->location);
    if (reply->policy) add_policy(reply, response);
    if (reply->status == 401) add(response, "WWW-Authenticate", "Bearer");
    if (reply->close) add(response, "Connection", "close");
    if (reply->retry_after_s > 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", reply->retry_after_s);
        add(response, "Retry-After", text);
    }
    if (!x->answer || !x->answer->is_stream || reply->status != 200) return;
    add(response, "Cache-Control", "no-cache");
    add(response, "X-Accel-Buffering", "no");
}

static enum MHD_Result queue(struct lf_exchange *x, struct MHD_Response *response)
{
    if (!response) return MHD_NO;
    int status = x->reply.status, kind = status / 100;
    LF_ASSERT(kind >= 1 && kind <= 5);
    lf_counter_add(&x->server->metrics.requests[lf_route_idx(x->route)][kind], 1);
    add_headers(x, response);
    x->queued = true;
    lf_conn_enter(&x->server->conns, x->conn, LF_CONN_ANSWER, &x->wake);
    enum MHD_Result result = MHD_queue_response(x->mhd, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- whole ---- */

/* The bytes belong to the exchange, which outlives the sending. */
static enum MHD_Result send_bytes(struct lf_exchange *x, struct lf_str body)
{
    void *bytes = (void *)(uintptr_t)body.ptr;
    return queue(x, MHD_create_response_from_buffer(body.len, bytes, MHD_RESPMEM_PERSISTENT));
}

/* A reply that did not fit into memory is replaced by words that need none. */
static enum MHD_Result send_reply(struct lf_exchange *x)
{
    static const char lost[] =
        "{\"error\":{\"message\":\"No memory for the text of this answer right now: try again in a moment.\","
        "\"type\":\"server_error\",\"param\":null,\"code\":\"text_memory_full\"}}";
    struct lf_reply *reply = &x->reply;
    if (reply->bytes.ptr) return send_bytes(x, reply->bytes);
    if (reply->body.status == LF_OK) return send_bytes(x, lf_buf_view(&reply->body));
    reply->status = 503;
    reply->content_type = "application/json";
    reply->retry_after_s = 1;
    return send_bytes(x, lf_str_from(lost, sizeof lost - 1));
}

/* ---- in pieces ---- */

/* Whether the budget has room for the window, and for a piece of an answer that turns out large. */
static bool has_budget(const struct lf_exchange *x)
{
    bool there = lf_text_reserve(x->server->text_memory, PIECE_BYTES);
    if (there) lf_text_unreserve(x->server->text_memory, PIECE_BYTES);
    return there;
}

/* Fills the window, which is empty. Where the budget for texts is used up the answer pauses. */
static enum lf_fill fill(struct lf_exchange *x, int64_t *wake_at_ns)
{
    lf_buf_clear(&x->window);
    x->taken = 0;
    if (!has_budget(x)) {
        *wake_at_ns = lf_clock_ns() + NO_MEMORY_RETRY_MS * LF_NS_PER_MS;
        return LF_FILL_WAIT;
    }
    if (lf_buf_reserve(&x->window, LF_ANSWER_WINDOW_BYTES - 1) != LF_OK) return LF_FILL_BREAK;
    enum lf_fill state = x->answer->fill(x->answer, &x->window, wake_at_ns);
    if (x->window.status != LF_OK) return LF_FILL_BREAK;
    x->ended = state == LF_FILL_END || state == LF_FILL_LAST;
    x->last = state == LF_FILL_LAST;
    return state;
}

static ssize_t take(struct lf_exchange *x, char *dst, size_t n)
{
    n = LF_MIN(n, x->window.len - x->taken);
    memcpy(dst, x->window.ptr + x->taken, n);
    x->taken += n;
    return (ssize_t)n;
}

/* Ends the connection from inside the reader: what was sent before still arrives, and the one byte given here cannot be
 * sent any more. That makes libmicrohttpd close and clean up. Its own ways to end from a reader (END_WITH_ERROR, and
 * END_OF_STREAM where the length is not known and there are no chunks) close the connection but do not clean it up
 * until its thread happens to come by: 0.9.75 then holds the descriptor for as long as an older connection lives. */
static ssize_t end_connection(const struct lf_exchange *x, char *dst)
{
    (void)shutdown(x->conn->fd, SHUT_WR);
    dst[0] = '\n';
    return 1;
}

static ssize_t end_answer(struct lf_exchange *x, char *dst)
{
    x->answered = true;
    if (x->http_1_0) return end_connection(x, dst);
    if (x->last) (void)shutdown(x->conn->fd, SHUT_RD);
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static ssize_t read_answer(void *ctx, uint64_t pos, char *dst, size_t n)
{
    (void)pos;
    struct lf_exchange *x = ctx;
    for (;;) {
        int64_t wake_at_ns = 0;
        if (lf_wake_is_over(&x->wake)) return end_connection(x, dst);
        if (x->taken < x->window.len) return take(x, dst, n);
        if (x->ended) return end_answer(x, dst);
        enum lf_fill state = fill(x, &wake_at_ns);
        if (state == LF_FILL_BREAK) return end_connection(x, dst);
        if (state == LF_FILL_WAIT && lf_wake_suspend(&x->wake, wake_at_ns)) return 0;
    }
}

static enum MHD_Result send_in_pieces(struct lf_exchange *x)
{
    return queue(x, MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_answer, x, NULL));
}

enum MHD_Result lf_respond(struct lf_exchange *x)
{
    if (!x->answer || x->reply.status != 200) return send_reply(x);
    if (x->answer->is_stream) return send_in_pieces(x);
    int64_t wake_at_ns = 0;
    switch (fill(x, &wake_at_ns)) {
    case LF_FILL_END:
        return send_bytes(x, lf_buf_view(&x->window));
    case LF_FILL_BREAK:
        x->reply.body.status = LF_NO_MEMORY;
        return send_reply(x);
    default:
        return send_in_pieces(x);
    }
}
