#include "server/http/api/whole.h"

#include "core/check.h"
#include "core/text_memory.h"
#include "server/http/conn/reply.h"

enum stage { BEGIN, OPEN, PARTS, LOGPROBS, TOKENS, FINISH, BEHIND, END };
enum { IDS_N = 512 /* written in one go */ };
/* Lists about tokens, of those that were asked for: of the prompt and of the answer. */
enum tokens { PROMPT_LOGPROBS, PROMPT_IDS, TOKEN_IDS, TOKENS_N };

struct whole {
    struct lf_answer answer;
    struct lf_generation *gen; /* owned */
    enum stage stage;
    int idx; /* the choice in hand */
    /* its log-probabilities */
    int list;                     /* which list is being written; in TOKENS and BEHIND an enum tokens */
    int i, n_echoed;              /* tokens of it that are written; the first ones are the prompt's, if echoed */
    int64_t offset, first_offset; /* code points before the next token; before the first that was generated */
    struct lf_detok detok;
};

static struct whole *whole_of(struct lf_answer *answer)
{
    return (struct whole *)(void *)((char *)answer - offsetof(struct whole, answer));
}

static const struct lf_printer *printer_of(const struct whole *w)
{
    return w->gen->dialect->whole;
}

/* ---- waiting ---- */

/* Looks for stop strings in what there is by now, and which parts it has; they themselves are made again later. */
static void skim(struct lf_generation *gen, struct lf_choice *c)
{
    lf_choice_pull(gen, c, false);
    lf_parts_skip(&c->parts);
}

static bool has_ended(struct lf_generation *gen, struct lf_choice *c)
{
    struct lf_request_state st;
    bool must_see = gen->ask.n_stops || c->parser;
    if (c->finish) return true;
    lf_request_snapshot(c->req, &st);
    /* an end that is no good is found out by pulling it */
    if (must_see || (st.finish != LF_FINISH_NONE && st.finish != LF_FINISH_STOP && st.finish != LF_FINISH_LENGTH))
        skim(gen, c);
    return c->finish || (!must_see && st.finish != LF_FINISH_NONE);
}

static bool begin(struct lf_answer *answer, struct lf_reply *reply)
{
    struct lf_generation *gen = whole_of(answer)->gen;
    int n_ended = 0;
    for (int i = 0; i < gen->n_choices && !gen->failed; i++) n_ended += has_ended(gen, &gen->choices[i]);
    if (gen->failed) {
        printer_of(whole_of(answer))->error(lf_reply_json(reply, gen->err.status), &gen->err);
        reply->retry_after_s = gen->err.retry_after_s;
        return true;
    }
    if (n_ended < gen->n_choices) return false;
    for (int i = 0; i < gen->n_choices; i++) lf_choice_rewind(gen, &gen->choices[i]);
    lf_reply_json(reply, 200);
    return true;
}

/* ---- writing ---- */

/* One part, or the turn to the next pass; true where there is no more. */
static bool write_part(struct whole *w, struct lf_buf *out)
{
    struct lf_choice *c = &w->gen->choices[w->idx];
    const struct lf_printer *p = printer_of(w);
    struct lf_part part;
    if (!lf_parts_any(&c->parts)) lf_choice_pull(w->gen, c, true);
    if (w->gen->failed) {
        out->status = LF_NO_MEMORY;
        return true;
    }
    if (lf_parts_next(&c->parts, &part)) {
        p->delta(out, w->gen, w->idx, &part);
        lf_parts_shown(&c->parts, &part);
        return false;
    }
    if (!p->n_passes || c->pass + 1 >= p->n_passes(w->gen, w->idx)) return true;
    c->pass++;
    lf_choice_rewind(w->gen, c);
    p->turn(out, w->gen, w->idx);
    return false;
}

static void begin_list(struct whole *w)
{
    w->i = 0;
    w->offset = w->n_echoed ? 0 : w->first_offset;
    lf_detok_init(&w->detok, w->gen->tok, !w->gen->ask.skip_special_tokens,
                  w->n_echoed == 0 && lf_generation_continues(w->gen));
}

static void begin_lists(struct whole *w)
{
    const struct lf_choice *c = &w->gen->choices[w->idx];
    struct lf_request_state st;
    lf_request_snapshot(c->req, &st);
    w->list = 0;
    w->n_echoed = w->gen->ask.echo ? LF_MIN(LF_MAX(st.n_prompt_logprobs, 1), (int)c->prompt->ids.n) : 0;
    begin_list(w);
}

/* The next token of the list in hand. */
static void write_logprob(struct whole *w, struct lf_buf *out)
{
    struct lf_choice *c = &w->gen->choices[w->idx];
    int i = w->i++;
    bool echoed = i < w->n_echoed;
    const struct lf_sampled *sampled = !echoed ? lf_request_token(c->req, i - w->n_echoed)
                                       : i > 0 ? lf_request_prompt_logprob(c->req, i)
                                               : NULL;
    int32_t id = echoed ? c->prompt->ids.ids[i] : sampled->id;
    struct lf_buf piece;
    if (i > 0 && i == w->n_echoed) {
        lf_detok_init(&w->detok, w->gen->tok, !w->gen->ask.skip_special_tokens, lf_generation_continues(w->gen));
        w->offset = w->first_offset;
    }
    lf_logprob_text_clear(&c->lp);
    lf_logprob_text_add(&c->lp, sampled, id, w->offset);
    if (i > 0) lf_buf_char(out, ',');
    lf_buf_str(out, lf_buf_view(&c->lp.list[w->list]));
    if (c->lp.list[w->list].status != LF_OK) out->status = c->lp.list[w->list].status;
    lf_buf_init_in(&piece, LF_ANSWER_WINDOW_BYTES * 1024, w->gen->memory);
    lf_detok_push(&w->detok, id, &piece);
    w->offset += lf_utf8_count(lf_buf_view(&piece));
    if (piece.status != LF_OK) out->status = piece.status;
    lf_buf_deinit(&piece);
}

/* One token of one list, or what stands between lists; true where the last one is written. */
static bool write_logprobs(struct whole *w, struct lf_buf *out)
{
    struct lf_choice *c = &w->gen->choices[w->idx];
    int n = w->n_echoed + c->n_read, n_lists = lf_logprob_n_lists(c->lp.form);
    if (w->i == 0) lf_buf_cstr(out, lf_logprob_list_head(c->lp.form, w->list));
    if (w->i < n) {
        write_logprob(w, out);
        if (w->i < n) return false;
    }
    begin_list(w);
    if (++w->list < n_lists) return false;
    lf_buf_cstr(out, lf_logprob_end(c->lp.form));
    return true;
}

/* ---- lists about tokens ---- */

/* How many entries the list has; -1: there is none here. */
static int n_entries(const struct whole *w, enum tokens list, bool behind)
{
    const struct lf_ask *ask = &w->gen->ask;
    const struct lf_choice *c = &w->gen->choices[w->idx];
    struct lf_request_state st;
    int n_prompt = (int)c->prompt->ids.n;
    if ((list == TOKEN_IDS ? false : w->gen->dialect->prompt_beside) != behind) return -1;
    if (list != PROMPT_LOGPROBS) return !ask->return_ids ? -1 : list == PROMPT_IDS ? n_prompt : c->n_read;
    if (ask->prompt_logprobs == LF_ABSENT) return -1;
    lf_request_snapshot(c->req, &st);
    return LF_MIN(LF_MAX(st.n_prompt_logprobs, 1), n_prompt);
}

static void write_entry(struct whole *w, struct lf_buf *out, enum tokens list)
{
    const struct lf_choice *c = &w->gen->choices[w->idx];
    int i = w->i++;
    if (i > 0) lf_buf_char(out, ',');
    if (list == PROMPT_LOGPROBS)
        lf_prompt_logprob_write(out, w->gen->tok, i > 0 ? lf_request_prompt_logprob(c->req, i) : NULL,
                                (int)w->gen->ask.prompt_logprobs);
    else
        lf_buf_printf(out, "%d", (int)(list == PROMPT_IDS ? c->prompt->ids.ids[i] : lf_request_token(c->req, i)->id));
}

/* Some entries of the list in hand, at least one behind its head, for what has none yet gets its head again; true where
 * the last list is written. */
static bool write_tokens(struct whole *w, struct lf_buf *out, bool behind)
{
    static const char *const heads[] = {",\"prompt_logprobs\":[", ",\"prompt_token_ids\":[", ",\"token_ids\":["};
    enum tokens list = (enum tokens)w->list;
    int n = n_entries(w, list, behind);
    if (n >= 0 && w->i == 0) lf_buf_cstr(out, heads[list]);
    for (int k = 0; k < IDS_N && w->i < n && (k == 0 || out->len < LF_ANSWER_WINDOW_BYTES); k++)
        write_entry(w, out, list);
    if (w->i < n) return false;
    if (n >= 0) lf_buf_char(out, ']');
    w->i = 0;
    return ++w->list == TOKENS_N;
}

static void begin_tokens(struct whole *w, enum stage stage)
{
    w->stage = stage;
    w->list = w->i = 0;
}

static void next_choice(struct whole *w, struct lf_buf *out)
{
    const struct lf_printer *p = printer_of(w);
    w->stage = ++w->idx < w->gen->n_choices ? OPEN : END;
    if (w->stage == OPEN || !p->behind) return;
    p->behind(out, w->gen);
    w->idx = 0; /* the prompt's: there is one, where it is spoken of here */
    begin_tokens(w, BEHIND);
}

static void step(struct whole *w, struct lf_buf *out)
{
    const struct lf_printer *p = printer_of(w);
    switch (w->stage) {
    case BEGIN:
        p->begin(out, w->gen);
        w->stage = OPEN;
        break;
    case OPEN:
        p->open(out, w->gen, w->idx);
        w->first_offset = w->gen->choices[w->idx].offset;
        w->stage = PARTS;
        break;
    case PARTS:
        if (!write_part(w, out)) break;
        p->shut(out, w->gen, w->idx);
        begin_lists(w);
        if (w->gen->ask.logprobs == LF_ABSENT)
            begin_tokens(w, TOKENS);
        else
            w->stage = LOGPROBS;
        break;
    case LOGPROBS:
        if (write_logprobs(w, out)) begin_tokens(w, TOKENS);
        break;
    case TOKENS:
        if (write_tokens(w, out, false)) w->stage = FINISH;
        break;
    case FINISH:
        p->finish(out, w->gen, w->idx);
        next_choice(w, out);
        break;
    case BEHIND:
        if (write_tokens(w, out, true)) w->stage = END;
        break;
    case END:
        break;
    }
}

static enum lf_fill fill(struct lf_answer *answer, struct lf_buf *out, int64_t *wake_at_ns)
{
    struct whole *w = whole_of(answer);
    (void)wake_at_ns;
    while (w->stage != END && out->len < LF_ANSWER_WINDOW_BYTES && out->status == LF_OK) step(w, out);
    if (w->stage != END) return LF_FILL_SOME;
    printer_of(w)->end(out, w->gen);
    return LF_FILL_END;
}

static void destroy(struct lf_answer *answer)
{
    struct whole *w = whole_of(answer);
    struct lf_text_memory *memory = w->gen->memory;
    lf_generation_destroy(w->gen);
    lf_text_free(memory, w);
}

enum lf_status lf_whole_create(struct lf_answer **out, struct lf_generation *gen)
{
    struct whole *w = lf_text_alloc_zeroed(gen->memory, sizeof *w);
    if (!w) return LF_NO_MEMORY;
    w->answer = (struct lf_answer){.begin = begin, .fill = fill, .destroy = destroy, .patient = gen->ask.n_stops == 0};
    w->gen = gen;
    gen->quiet = true;
    for (int i = 0; i < gen->n_choices; i++) lf_choice_rewind(gen, &gen->choices[i]);
    *out = &w->answer;
    return LF_OK;
}
