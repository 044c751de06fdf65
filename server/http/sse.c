#include "server/http/sse.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "core/check.h"
#include "core/clock.h"
#include "server/http/access.h"
#include "server/http/openai_json.h"

enum {
    BLOCK_BYTES = 4096,            /* libmicrohttpd's own buffer; it reads into its connection's memory instead */
    ENOUGH_BYTES = 8 * 1024,       /* no further event is made while so much waits */
    PIECE_BYTES = 4 * 1024,        /* text in one event */
    LINE_BYTES = 16 * 1024 * 1024, /* one event: a piece of text with its log-probabilities */
    PROGRESS_MS = 500              /* a chunk at least every second, with a tick's delay to spare */
};

enum lf_status lf_sse_create(struct lf_call *call, struct lf_api_err *err)
{
    struct lf_sse *sse = calloc(1, sizeof *sse);
    if (!sse) return lf_refuse(err, 503, NULL, "no_memory", "No memory for this request.");
    sse->call = call;
    lf_buf_init(&sse->out, LF_SSE_BACKLOG_BYTES + LINE_BYTES);
    lf_buf_init(&sse->line, LINE_BYTES);
    sse->last_ns = lf_clock_ns();
    call->sse = sse;
    return LF_OK;
}

void lf_sse_destroy(struct lf_sse *sse)
{
    if (!sse) return;
    lf_buf_deinit(&sse->out);
    lf_buf_deinit(&sse->line);
    free(sse);
}

/* ---- events ---- */

static struct lf_buf *begin(struct lf_sse *sse)
{
    lf_buf_clear(&sse->line);
    return &sse->line;
}

/* data: {one line of JSON}\n\n */
static void end(struct lf_sse *sse)
{
    lf_buf_cstr(&sse->out, "data: ");
    lf_buf_str(&sse->out, lf_buf_view(&sse->line));
    lf_buf_cstr(&sse->out, "\n\n");
    sse->last_ns = lf_clock_ns();
    if (sse->line.status != LF_OK) sse->broken = true;
}

static void send_error(struct lf_sse *sse, const struct lf_generation *gen)
{
    lf_api_err_write(begin(sse), &gen->err);
    end(sse);
    sse->done = true;
    sse->failed = true;
}

static void send_roles(struct lf_sse *sse, const struct lf_generation *gen)
{
    for (int i = 0; i < gen->n_choices && gen->ask.kind == LF_ASK_CHAT; i++) {
        lf_openai_write_role(begin(sse), gen, i);
        end(sse);
    }
    sse->began = true;
}

/* The first PIECE_BYTES of what is unsent, cut between code points. */
static struct lf_str next_piece(const struct lf_choice *c)
{
    size_t n = c->text.len - c->text_sent;
    const char *at = c->text.ptr + c->text_sent;
    if (n <= PIECE_BYTES) return lf_str_from(at, n);
    n = PIECE_BYTES;
    while (n > PIECE_BYTES - 4 && ((unsigned char)at[n] & 0xc0) == 0x80) n--;
    return lf_str_from(at, n);
}

static void send_text(struct lf_sse *sse, struct lf_generation *gen, int idx)
{
    struct lf_choice *c = &gen->choices[idx];
    struct lf_str piece = c->text.len ? next_piece(c) : LF_STR("");
    lf_openai_write_text(begin(sse), gen, idx, piece);
    end(sse);
    lf_logprob_text_clear(&c->lp);
    c->text_sent += piece.len;
    if (c->text_sent < c->text.len) return;
    lf_buf_clear(&c->text);
    c->text_sent = 0;
}

static void send_finish(struct lf_sse *sse, struct lf_generation *gen, int idx)
{
    bool last = ++sse->n_finish_sent == gen->n_choices && !gen->ask.include_usage;
    lf_openai_write_finish(begin(sse), gen, idx, last);
    end(sse);
    gen->choices[idx].finish_sent = true;
}

/* One event of this choice, if it has one. */
static bool send_of_choice(struct lf_sse *sse, struct lf_generation *gen, int idx)
{
    struct lf_choice *c = &gen->choices[idx];
    if (c->finish_sent) return false;
    if (c->text_sent == c->text.len) lf_choice_pull(gen, c, true);
    if (gen->failed) return false;
    bool text = c->text_sent < c->text.len;
    /* log-probabilities of tokens that show nothing yet wait for the text, but not for ever */
    bool logprobs = c->lp.n && (c->finish || c->lp.list[0].len > PIECE_BYTES || !c->echo_done);
    if (text || logprobs)
        send_text(sse, gen, idx);
    else if (c->finish)
        send_finish(sse, gen, idx);
    else
        return false;
    return true;
}

static void send_end(struct lf_sse *sse, const struct lf_generation *gen)
{
    if (gen->ask.include_usage) {
        lf_openai_write_usage(begin(sse), gen);
        end(sse);
    }
    lf_buf_cstr(&sse->out, "data: [DONE]\n\n");
    sse->done = true;
}

/* A long prefill shows how far it is: at once, then every PROGRESS_MS, and once when it is over. */
static void send_progress(struct lf_sse *sse, struct lf_generation *gen, int64_t now)
{
    struct lf_request_state st;
    if (!gen->ask.return_progress || sse->prefill_over) return;
    lf_request_look(gen->choices[0].req, &st);
    sse->prefill_over = st.n_tokens > 0 || st.finish != LF_FINISH_NONE;
    bool due = now - sse->last_progress_ns >= (int64_t)PROGRESS_MS * LF_NS_PER_MS;
    if (!due && !sse->prefill_over) return;
    lf_openai_write_progress(begin(sse), gen, &st);
    end(sse);
    sse->last_progress_ns = now;
}

static void send_keep_alive(struct lf_sse *sse, const struct lf_generation *gen, int64_t now)
{
    const struct lf_http_opts *opts = &sse->call->server->opts;
    if (opts->keep_alive == LF_KEEP_ALIVE_OFF) return;
    if (now - sse->last_ns < (int64_t)opts->keep_alive_ms * LF_NS_PER_MS) return;
    if (opts->keep_alive == LF_KEEP_ALIVE_CHUNK) {
        lf_openai_write_nothing(begin(sse), gen);
        end(sse);
    } else {
        lf_buf_cstr(&sse->out, ": keep-alive\n");
    }
    sse->last_ns = now;
}

/* Makes events until enough wait; false when there is nothing to say. */
static bool make_events(struct lf_sse *sse)
{
    struct lf_generation *gen = sse->call->gen;
    int64_t now = lf_clock_ns();
    size_t before = sse->out.len;
    if (!sse->began) send_roles(sse, gen);
    send_progress(sse, gen, now);
    for (int idle = 0; idle < gen->n_choices && sse->out.len < ENOUGH_BYTES && !gen->failed;) {
        idle = send_of_choice(sse, gen, sse->next) ? 0 : idle + 1;
        sse->next = (sse->next + 1) % gen->n_choices;
    }
    if (gen->failed)
        send_error(sse, gen);
    else if (sse->n_finish_sent == gen->n_choices)
        send_end(sse, gen);
    else if (sse->out.len == before)
        send_keep_alive(sse, gen, now);
    if (sse->out.status != LF_OK) sse->broken = true;
    return sse->out.len > before || sse->broken;
}

/* ---- the socket's side ---- */

static int64_t wake_at(const struct lf_sse *sse)
{
    const struct lf_http_opts *opts = &sse->call->server->opts;
    int64_t at = 0;
    if (opts->keep_alive != LF_KEEP_ALIVE_OFF) at = sse->last_ns + (int64_t)opts->keep_alive_ms * LF_NS_PER_MS;
    if (!sse->call->gen->ask.return_progress || sse->prefill_over) return at;
    int64_t progress = sse->last_progress_ns + (int64_t)PROGRESS_MS * LF_NS_PER_MS;
    return at ? LF_MIN(at, progress) : progress;
}

static ssize_t take(struct lf_sse *sse, char *dst, size_t n)
{
    size_t left = sse->out.len - sse->taken;
    n = LF_MIN(n, left);
    memcpy(dst, sse->out.ptr + sse->taken, n);
    sse->taken += n;
    if (sse->taken == sse->out.len) {
        lf_buf_clear(&sse->out);
        sse->taken = 0;
    }
    return (ssize_t)n;
}

/* Ends the connection from inside the reader: what was sent before still arrives, and the one byte given here cannot be
 * sent any more. That makes libmicrohttpd close and clean up. Its own ways to end from a reader (END_WITH_ERROR, and
 * END_OF_STREAM where the length is not known and there are no chunks) close the connection but do not clean it up
 * until its thread happens to come by: 0.9.75 then holds the descriptor for as long as an older connection lives. */
static ssize_t end_connection(const struct lf_sse *sse, char *dst)
{
    (void)shutdown(sse->call->conn->fd, SHUT_WR);
    dst[0] = '\n';
    return 1;
}

static ssize_t read_stream(void *ctx, uint64_t pos, char *dst, size_t n)
{
    (void)pos;
    struct lf_sse *sse = ctx;
    for (;;) {
        if (sse->broken || lf_call_is_over(sse->call)) return end_connection(sse, dst);
        if (sse->taken < sse->out.len) return take(sse, dst, n);
        if (sse->done) break;
        if (make_events(sse)) continue;
        if (lf_call_park(sse->call, wake_at(sse))) return 0;
    }
    sse->call->answered = true;
    if (sse->call->http_1_0) return end_connection(sse, dst);
    /* after an error the connection ends with the stream: no further request is read from it */
    if (sse->failed) (void)shutdown(sse->call->conn->fd, SHUT_RD);
    return MHD_CONTENT_READER_END_OF_STREAM;
}

enum MHD_Result lf_sse_send(struct lf_call *call)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, call->sse, NULL);
    if (!response) return MHD_NO;
    lf_call_add_headers(call, response);
    (void)MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
    (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
    lf_call_count(call, 200);
    enum MHD_Result result = MHD_queue_response(call->mhd, 200, response);
    MHD_destroy_response(response);
    return result;
}
