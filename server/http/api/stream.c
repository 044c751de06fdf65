#include "server/http/api/stream.h"

#include "core/check.h"
#include "core/clock.h"
#include "core/list.h"
#include "core/text_memory.h"
#include "server/http/conn/reply.h"

enum {
    LOGPROBS_ENOUGH_BYTES = 4 * 1024, /* log-probabilities without text wait for it until there are so many */
    PROGRESS_MS = 500                 /* an event at least every second, with a tick's delay to spare */
};

struct stream {
    struct lf_answer answer;
    struct lf_generation *gen; /* owned */
    enum lf_keep_alive keep_alive;
    int64_t keep_alive_ns;
    bool began, prefill_over; /* prefill_over: no more progress to show */
    int next;                 /* the choice to look at first, so that none starves */
    int64_t event_ns, progress_ns;
};

static struct stream *stream_of(struct lf_answer *answer)
{
    return (struct stream *)(void *)((char *)answer - offsetof(struct stream, answer));
}

static const struct lf_printer *printer_of(const struct stream *s)
{
    return s->gen->dialect->stream;
}

/* ---- events ---- */

/* Log-probabilities go with the next part; without one they stand beside an empty text. */
static void show_part(const struct stream *s, struct lf_choice *c, int idx, struct lf_buf *out)
{
    struct lf_part part = {.kind = LF_ANSWER_TEXT, .bytes = LF_STR("")};
    bool any = lf_parts_next(&c->parts, &part);
    size_t len = out->len;
    printer_of(s)->delta(out, s->gen, idx, &part);
    if (out->len > len) {
        lf_logprob_text_clear(&c->lp);
        c->n_ids_shown = c->n_read;
    }
    if (any) lf_parts_shown(&c->parts, &part);
}

static void show_finish(struct stream *s, int idx, struct lf_buf *out)
{
    s->gen->choices[idx].finish_shown = true;
    s->gen->n_finish_shown++;
    printer_of(s)->finish(out, s->gen, idx);
}

/* One event of this choice, if it has one. */
static bool show_choice(struct stream *s, int idx, struct lf_buf *out)
{
    struct lf_choice *c = &s->gen->choices[idx];
    if (c->finish_shown) return false;
    if (!lf_parts_any(&c->parts)) lf_choice_pull(s->gen, c, true);
    if (s->gen->failed) return false;
    bool logprobs = c->lp.n && (c->finish || c->lp.list[0].len > LOGPROBS_ENOUGH_BYTES || !c->echo_done);
    if (lf_parts_any(&c->parts) || logprobs)
        show_part(s, c, idx, out);
    else if (c->finish)
        show_finish(s, idx, out);
    else
        return false;
    return true;
}

/* A long prefill shows how far it is: at once, then every PROGRESS_MS, and once when it is over. */
static void show_progress(struct stream *s, struct lf_buf *out, int64_t now_ns)
{
    struct lf_request_state st;
    if (!s->gen->ask.return_progress || s->prefill_over || !printer_of(s)->progress) return;
    lf_request_snapshot(s->gen->choices[0].req, &st);
    s->prefill_over = st.n_tokens > 0 || st.finish != LF_FINISH_NONE;
    bool due = now_ns - s->progress_ns >= PROGRESS_MS * LF_NS_PER_MS;
    if (!due && !s->prefill_over) return;
    printer_of(s)->progress(out, s->gen, &st);
    s->progress_ns = now_ns;
}

static void show_failure(const struct stream *s, struct lf_buf *out)
{
    if (printer_of(s)->fail)
        printer_of(s)->fail(out, s->gen);
    else
        printer_of(s)->error(out, &s->gen->err);
}

static void keep_alive(struct stream *s, struct lf_buf *out, int64_t now_ns)
{
    if (s->keep_alive == LF_KEEP_ALIVE_OFF || now_ns - s->event_ns < s->keep_alive_ns) return;
    if (s->keep_alive == LF_KEEP_ALIVE_CHUNK)
        printer_of(s)->nothing(out, s->gen);
    else
        lf_buf_cstr(out, ": keep-alive\n\n"); /* the empty line is for readers that split events at it */
}

/* Whether there is room and use for one event more. A window without memory takes nothing: what is due stays due. */
static bool goes_on(const struct stream *s, const struct lf_buf *out)
{
    return out->status == LF_OK && out->len < LF_ANSWER_WINDOW_BYTES && !s->gen->failed;
}

static void show_choices(struct stream *s, struct lf_buf *out)
{
    int n = s->gen->n_choices;
    for (int n_idle = 0; n_idle < n && goes_on(s, out);) {
        n_idle = show_choice(s, s->next, out) ? 0 : n_idle + 1;
        s->next = (s->next + 1) % n;
    }
}

/* ---- as an answer ---- */

static bool begin(struct lf_answer *answer, struct lf_reply *reply)
{
    (void)answer;
    lf_reply_json(reply, 200);
    reply->content_type = "text/event-stream; charset=utf-8";
    return true;
}

/* When there is something to say even without news; 0: never. */
static int64_t wake_at(const struct stream *s)
{
    int64_t at = s->keep_alive == LF_KEEP_ALIVE_OFF ? 0 : s->event_ns + s->keep_alive_ns;
    if (!s->gen->ask.return_progress || s->prefill_over) return at;
    int64_t progress = s->progress_ns + PROGRESS_MS * LF_NS_PER_MS;
    return at ? LF_MIN(at, progress) : progress;
}

static enum lf_fill fill(struct lf_answer *answer, struct lf_buf *out, int64_t *wake_at_ns)
{
    struct stream *s = stream_of(answer);
    int64_t now_ns = lf_clock_ns();
    enum lf_fill state = LF_FILL_SOME;
    if (!s->began) printer_of(s)->begin(out, s->gen);
    s->began = true;
    show_progress(s, out, now_ns);
    show_choices(s, out);
    if (s->gen->failed) {
        show_failure(s, out);
        state = LF_FILL_LAST;
    } else if (s->gen->n_finish_shown == s->gen->n_choices) {
        printer_of(s)->end(out, s->gen);
        state = LF_FILL_END;
    } else if (out->len == 0) {
        keep_alive(s, out, now_ns);
        if (out->len == 0) state = LF_FILL_WAIT;
    }
    if (out->len) s->event_ns = now_ns;
    *wake_at_ns = wake_at(s);
    return state;
}

static void destroy(struct lf_answer *answer)
{
    struct stream *s = stream_of(answer);
    struct lf_text_memory *memory = s->gen->memory;
    lf_generation_destroy(s->gen);
    lf_text_free(memory, s);
}

enum lf_status lf_stream_create(struct lf_answer **out, struct lf_generation *gen, enum lf_keep_alive keep_alive_kind,
                                int keep_alive_ms)
{
    struct stream *s = lf_text_alloc_zeroed(gen->memory, sizeof *s);
    if (!s) return LF_NO_MEMORY;
    s->answer = (struct lf_answer){.begin = begin, .fill = fill, .destroy = destroy, .is_stream = true};
    s->gen = gen;
    s->keep_alive = keep_alive_kind;
    s->keep_alive_ns = keep_alive_ms * LF_NS_PER_MS;
    s->event_ns = lf_clock_ns();
    *out = &s->answer;
    return LF_OK;
}
