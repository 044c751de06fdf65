/* The load client. One struct client a slot; a slot goes connect → send → receive → next request. Server-sent events
 * are cut at line ends; one that brings a part of the answer is a token's time (load_stream.h). */
#include "server/load/load_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/json.h"
#include "server/load/http_response.h"
#include "server/load/load_stream.h"

enum { REQUEST_BYTES = 256 * 1024 * 1024, EVENT_BYTES = 1024 * 1024, TICK_MS = 100, PROGRESS_MS = 500 };

struct loader;

struct client {
    struct loader *loader;
    int fd; /* -1: idle */
    struct lf_buf request;
    size_t n_sent;
    struct lf_response response;
    struct lf_buf line; /* of the event stream, or the whole body of an error */
    struct lf_buf text; /* of the answer, where it is to be JSON */
    int64_t started_ns, first_ns, last_ns;
    struct lf_load_stream stream;
    uint64_t idx; /* of the request */
    bool no_memory;
};

struct loader {
    const struct lf_load_spec *spec;
    struct lf_load_result *result;
    struct client *clients;
    int epoll_fd;
    int n_started, n_active;
    int64_t begin_ns, progress_ns;
    enum lf_status status;
};

static double ms_between(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) / LF_NS_PER_MS;
}

/* ---- events of a stream ---- */

static void take_token_time(struct client *c)
{
    int64_t now = lf_clock_ns();
    if (c->first_ns == 0)
        c->first_ns = now;
    else if (lf_samples_add(&c->loader->result->gaps, ms_between(c->last_ns, now)) != LF_OK)
        c->no_memory = true;
    c->last_ns = now;
}

/* Body bytes: an error's body is collected whole, a stream is cut into lines. */
static void on_body(void *ctx, const char *bytes, size_t n)
{
    struct client *c = ctx;
    if (c->response.status != 200 || c->loader->spec->body) {
        lf_buf_append(&c->line, bytes, n);
        return;
    }
    while (n > 0) {
        const char *end = memchr(bytes, '\n', n);
        size_t len = end ? (size_t)(end - bytes) : n;
        lf_buf_append(&c->line, bytes, len);
        if (!end) return;
        struct lf_str line = lf_buf_view(&c->line);
        if (lf_load_stream_line(&c->stream, line)) take_token_time(c);
        lf_buf_clear(&c->line);
        bytes += len + 1;
        n -= len + 1;
    }
}

/* ---- the end of a request ---- */

/* error.message of an error's body, else the status alone. */
static void describe(const struct client *c, const char *what, char out[LF_LOAD_MESSAGE_BYTES])
{
    struct lf_json json = {0};
    struct lf_buf message;
    lf_buf_init(&message, LF_LOAD_MESSAGE_BYTES - 64);
    if (c->response.status != 0 && c->response.status != 200 &&
        lf_json_parse(&json, lf_buf_view(&c->line), &lf_json_limits_request, NULL) == LF_OK)
        (void)lf_json_string(lf_json_get(lf_json_get(lf_json_root(&json), "error"), "message"), &message);
    if (c->response.status == 0 || c->response.status == 200)
        snprintf(out, LF_LOAD_MESSAGE_BYTES, "%s", what);
    else
        snprintf(out, LF_LOAD_MESSAGE_BYTES, "HTTP %d %.160s", c->response.status, lf_buf_view(&message).ptr);
    lf_buf_deinit(&message);
    lf_json_deinit(&json);
}

static void close_client(struct client *c)
{
    if (c->fd < 0) return;
    close(c->fd);
    c->fd = -1;
    c->loader->n_active--;
}

static void fail_request(struct client *c, const char *what)
{
    struct lf_load_result *r = c->loader->result;
    if (r->n_failed++ == 0) {
        r->first_bad_status = c->response.status == 200 ? 0 : c->response.status;
        describe(c, what, r->first_bad);
    }
    close_client(c);
}

static bool is_json(struct lf_str text)
{
    struct lf_json json = {0};
    bool ok = lf_json_parse(&json, text, &lf_json_limits_request, NULL) == LF_OK;
    lf_json_deinit(&json);
    return ok;
}

/* Whether the answer is what was asked for; one that was cut cannot be. */
static const char *wrong_text(struct client *c)
{
    if (c->text.status != LF_OK) c->no_memory = true;
    return c->stream.cut || is_json(lf_buf_view(&c->text)) ? NULL : "the answer does not parse as JSON";
}

static void end_request(struct client *c)
{
    const struct lf_load_spec *spec = c->loader->spec;
    struct lf_load_result *r = c->loader->result;
    int64_t now = lf_clock_ns();
    const char *wrong = c->response.status == 200 ? NULL : "refused";
    if (spec->body) {
        lf_buf_clear(spec->body);
        lf_buf_str(spec->body, lf_buf_view(&c->line));
    } else if (!wrong) {
        wrong = lf_load_stream_end(&c->stream);
        if (!wrong && spec->json) wrong = wrong_text(c);
    }
    if (wrong) {
        fail_request(c, wrong);
        return;
    }
    r->n_ok++;
    if (spec->json) r->n_cut += c->stream.cut;
    r->n_tokens += c->stream.n_tokens;
    r->n_prompt_tokens += c->stream.n_prompt;
    r->n_cached += c->stream.n_cached;
    if (spec->answered) spec->answered(spec->answered_ctx, c->idx, &c->stream);
    if (c->first_ns && lf_samples_add(&r->ttft, ms_between(c->started_ns, c->first_ns)) != LF_OK) c->no_memory = true;
    if (lf_samples_add(&r->e2e, ms_between(c->started_ns, now)) != LF_OK) c->no_memory = true;
    close_client(c);
}

/* ---- sockets ---- */

static void start_request(struct client *c)
{
    struct loader *l = c->loader;
    const struct lf_url *url = l->spec->url;
    lf_buf_clear(&c->request);
    lf_buf_clear(&c->line);
    lf_response_init(&c->response, on_body, c);
    c->n_sent = 0;
    c->first_ns = c->last_ns = 0;
    lf_buf_clear(&c->text);
    lf_load_stream_init(&c->stream, l->spec->dialect, l->spec->json ? &c->text : NULL);
    c->idx = (uint64_t)l->n_started++;
    l->spec->make(l->spec->make_ctx, &c->request, c->idx);
    if (c->request.status != LF_OK) c->no_memory = true;
    c->started_ns = lf_clock_ns();
    l->n_active++;
    c->fd = socket(url->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        l->n_active--;
        l->status = LF_IO;
        return;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) != 0) {
        fail_request(c, "epoll refused the socket");
        return;
    }
    if (connect(c->fd, (const struct sockaddr *)&url->address, url->address_len) != 0 && errno != EINPROGRESS)
        fail_request(c, strerror(errno));
}

static bool send_some(struct client *c)
{
    while (c->n_sent < c->request.len) {
        ssize_t n = send(c->fd, c->request.ptr + c->n_sent, c->request.len - c->n_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) return true;
        if (n < 0) return errno == EPIPE || errno == ECONNRESET; /* an early answer may still be read */
        c->n_sent += (size_t)n;
    }
    return true;
}

static void receive_some(struct client *c)
{
    char bytes[16 * 1024];
    for (;;) {
        ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) return;
        if (n < 0) {
            fail_request(c, strerror(errno));
            return;
        }
        if (n > 0) lf_response_feed(&c->response, bytes, (size_t)n);
        if (c->response.part == LF_RESPONSE_DONE || (n == 0 && lf_response_end(&c->response))) {
            end_request(c);
            return;
        }
        if (n == 0 || c->response.part == LF_RESPONSE_BROKEN) {
            fail_request(c, n == 0 ? "the connection was closed" : "the answer is not HTTP");
            return;
        }
    }
}

static void on_event(struct client *c, uint32_t events)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (c->fd < 0) return;
    if ((events & EPOLLERR) && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0 &&
        c->response.status == 0 && c->n_sent == 0) {
        fail_request(c, strerror(error));
        return;
    }
    if (!send_some(c)) {
        fail_request(c, strerror(errno));
        return;
    }
    receive_some(c);
}

/* ---- the loop ---- */

static void tick(struct loader *l)
{
    const struct lf_load_spec *spec = l->spec;
    int64_t now = lf_clock_ns();
    for (int i = 0; i < spec->n_clients; i++) {
        struct client *c = &l->clients[i];
        if (c->fd >= 0 && ms_between(c->started_ns, now) > spec->timeout_ms) fail_request(c, "no answer in time");
        if (c->no_memory) l->status = LF_NO_MEMORY;
        if (c->fd < 0 && l->n_started < spec->n_requests && l->status == LF_OK) start_request(c);
    }
    if (spec->progress && ms_between(l->progress_ns, now) >= PROGRESS_MS) {
        l->progress_ns = now;
        spec->progress(spec->progress_ctx, l->result->n_ok + l->result->n_failed, l->result->n_failed,
                       (int64_t)l->result->gaps.n);
    }
}

static enum lf_status run_loop(struct loader *l, struct lf_err *err)
{
    struct epoll_event events[256];
    l->begin_ns = l->progress_ns = lf_clock_ns();
    tick(l);
    while (l->n_active > 0 && l->status == LF_OK) {
        int n = epoll_wait(l->epoll_fd, events, (int)LF_N_ELEMS(events), TICK_MS);
        if (n < 0 && errno != EINTR) return lf_fail(err, LF_IO, "epoll_wait: %s", strerror(errno));
        for (int i = 0; i < n; i++) on_event(events[i].data.ptr, events[i].events);
        tick(l);
    }
    l->result->wall_ms = ms_between(l->begin_ns, lf_clock_ns());
    if (l->status == LF_IO) return lf_fail(err, LF_IO, "socket: %s", strerror(errno));
    if (l->status != LF_OK) return lf_fail(err, l->status, "out of memory");
    return LF_OK;
}

enum lf_status lf_load_run(struct lf_load_result *out, const struct lf_load_spec *spec, struct lf_err *err)
{
    struct lf_load_result result = {0};
    struct loader l = {.spec = spec, .result = &result, .epoll_fd = -1};
    enum lf_status status = LF_OK;
    if (spec->n_clients < 1 || spec->n_clients > LF_LOAD_CLIENTS_N)
        return lf_fail(err, LF_INVALID, "expected 1 to %d requests at once, got %d", LF_LOAD_CLIENTS_N,
                       spec->n_clients);
    l.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l.epoll_fd < 0) return lf_fail(err, LF_IO, "epoll_create1: %s", strerror(errno));
    l.clients = calloc((size_t)spec->n_clients, sizeof(*l.clients));
    if (!l.clients) status = lf_fail(err, LF_NO_MEMORY, "out of memory for %d clients", spec->n_clients);
    for (int i = 0; l.clients && i < spec->n_clients; i++) {
        struct client *c = &l.clients[i];
        c->loader = &l;
        c->fd = -1;
        lf_buf_init(&c->request, REQUEST_BYTES);
        lf_buf_init(&c->line, EVENT_BYTES);
        lf_buf_init(&c->text, REQUEST_BYTES);
    }
    if (status == LF_OK) status = run_loop(&l, err);
    for (int i = 0; l.clients && i < spec->n_clients; i++) {
        close_client(&l.clients[i]);
        lf_buf_deinit(&l.clients[i].request);
        lf_buf_deinit(&l.clients[i].line);
        lf_buf_deinit(&l.clients[i].text);
    }
    free(l.clients);
    close(l.epoll_fd);
    if (status == LF_OK)
        *out = result;
    else
        lf_load_result_deinit(&result);
    return status;
}

void lf_load_result_deinit(struct lf_load_result *r)
{
    lf_samples_deinit(&r->ttft);
    lf_samples_deinit(&r->gaps);
    lf_samples_deinit(&r->e2e);
}
