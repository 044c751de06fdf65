#include "server/http/api/generation.h"

#include <stdio.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/text_memory.h"
#include "server/engine/engine.h"

enum {
    ECHO_PIECE_BYTES = 16 * 1024,
    SALT_BYTES = LF_SHA256_BYTES + LF_CACHE_SALT_BYTES,
    TOKEN_BYTES = 32 * 1024 * 1024,
    HEAD_BYTES = 64 * 1024
};

/* ---- starting ---- */

struct start {
    const struct lf_generation_params *params;
    struct lf_generation *gen;
    int64_t room; /* tokens of prompt and answer that one request may have */
    uint64_t seed;
    uint8_t salt[SALT_BYTES];
    int salt_bytes;
};

/* How many log-probabilities the prompt's tokens need, -1: none: for the echo, and for prompt_logprobs. */
static int n_prompt_logprobs(const struct lf_ask *ask)
{
    int64_t echo = ask->echo && ask->logprobs != LF_ABSENT ? ask->logprobs : -1;
    return (int)LF_MAX(echo, ask->prompt_logprobs == LF_ABSENT ? -1 : ask->prompt_logprobs);
}

/* Tokens of prompt and answer that may be had beside what is pinned. */
static int64_t room_beside_pins(const struct start *st, const struct lf_prompt *p)
{
    const struct lf_gen_params params = {.prompt = p->ids.ids,
                                         .n_prompt = (int)p->ids.n,
                                         .salt = st->salt,
                                         .salt_bytes = st->salt_bytes,
                                         .n_prompt_logprobs = n_prompt_logprobs(&st->gen->ask),
                                         .memory = st->gen->memory};
    return LF_MIN(st->room, lf_engine_most(st->params->engine, &params));
}

/* How many tokens the answer may have; refuses a prompt that leaves no room for what was asked. */
static enum lf_status answer_length(const struct start *st, const struct lf_prompt *p, int64_t *out,
                                    struct lf_api_err *err)
{
    const struct lf_ask *ask = &st->gen->ask;
    const struct lf_dialect *dialect = st->gen->dialect;
    int64_t room = room_beside_pins(st, p), left = room - (int64_t)p->ids.n, want = ask->max_tokens;
    if (want == LF_ABSENT) {
        int64_t most = dialect->fills_context ? left : LF_MIN(left, st->params->default_max_tokens);
        want = LF_MAX(most, 1);
    }
    if ((int64_t)p->ids.n + want > st->room)
        return lf_refuse_context(err, dialect->text_param, (int64_t)p->ids.n, want, st->room, false);
    if (want > left) return lf_refuse_beside_pins(err, dialect->text_param, (int64_t)p->ids.n + want, room);
    if (ask->min_tokens > want)
        return lf_refuse(err, 400, "min_tokens", "invalid_value", "min_tokens: more than the answer may have.");
    *out = want;
    return LF_OK;
}

static enum lf_status refuse_submit(enum lf_status status, const struct start *st, const struct lf_gen_params *p,
                                    int retry_after_s, const struct lf_err *why, struct lf_api_err *err)
{
    const char *param = st->gen->dialect->text_param;
    int64_t n_tokens = (int64_t)p->n_prompt + p->max_tokens, most = lf_engine_most(st->params->engine, p);
    switch (status) {
    case LF_LIMIT:
        if (n_tokens > most && n_tokens <= st->room) return lf_refuse_beside_pins(err, param, n_tokens, most);
        return lf_refuse_context(err, param, p->n_prompt, p->max_tokens, st->room, false);
    case LF_INVALID:
        return lf_refuse(err, 400, param, "invalid_value", "%s", why->message);
    case LF_UNSUPPORTED:
        return lf_refuse(err, 400, "allowed_token_ids", "invalid_value", "allowed_token_ids: %s.", why->message);
    default:
        return lf_refuse_submit(err, status, retry_after_s, why);
    }
}

/* As the request says, or else the server's option. Who says what will come wants it tried. */
static int proposals_of(const struct lf_ask *ask, int option)
{
    if (ask->speculate != LF_ABSENT) return (int)ask->speculate;
    return option == LF_SPECULATION_OFF && ask->n_prediction_ids > 0 ? LF_SPECULATION_AUTO : option;
}

static void fill_params(struct lf_gen_params *out, const struct start *st, int i, int64_t max_tokens)
{
    const struct lf_generation *gen = st->gen;
    const struct lf_ask *ask = &gen->ask;
    const struct lf_prompt *p = gen->choices[i].prompt;
    int first = i - i % (int)ask->n;
    *out = (struct lf_gen_params){
        .prompt = p->ids.ids,
        .n_prompt = (int)p->ids.n,
        .marks = p->marks,
        .n_marks = p->n_marks,
        .max_tokens = (int)max_tokens,
        .min_tokens = (int)ask->min_tokens,
        .ignore_eos = ask->ignore_eos,
        .stop_token_ids = ask->stop_tokens,
        .n_stop_token_ids = ask->n_stop_tokens,
        .allowed_ids = ask->allowed_tokens,
        .n_allowed_ids = ask->n_allowed_tokens,
        .bad_words = ask->bad_ids,
        .n_bad_words = ask->n_bad_ids,
        .sampling = ask->sampling,
        .grammar = st->params->grammar,
        .vocabulary = st->params->vocabulary,
        .speculate = proposals_of(ask, st->params->speculate),
        .prediction = ask->prediction_ids,
        .n_prediction = ask->n_prediction_ids,
        .n_prompt_logprobs = n_prompt_logprobs(ask),
        .priority = LF_MAX((int)ask->priority, LF_PRIORITY_FIRST + st->params->tenant->limits.held_back),
        .salt = st->salt,
        .salt_bytes = st->salt_bytes,
        .tenant = st->params->tenant->id,
        .limits = st->params->tenant->limits.requests,
        .deadline_ns = st->params->deadline_ns,
        .leader = i == first ? NULL : gen->choices[first].req,
        .n_group = i == 0 ? gen->n_choices : 0,
        .group_tokens = i == 0 ? gen->n_prompt_tokens * ask->n : 0,
        .first = i == 0 ? NULL : gen->choices[0].req,
        .notify = st->params->notify,
        .notify_ctx = st->params->notify_ctx,
        .memory = gen->memory,
    };
    out->sampling.n_logprobs = ask->logprobs == LF_ABSENT ? -1 : (int)ask->logprobs;
    out->sampling.seed = st->seed + (uint64_t)i;
}

static enum lf_status submit(const struct start *st, int i, struct lf_api_err *err)
{
    struct lf_gen_params params;
    struct lf_err why = {0};
    int64_t max_tokens = 0;
    int retry_after_s = 1;
    LF_TRY(answer_length(st, st->gen->choices[i].prompt, &max_tokens, err));
    fill_params(&params, st, i, max_tokens);
    enum lf_status status =
        lf_engine_submit(st->params->engine, &params, &st->gen->choices[i].req, &retry_after_s, &why);
    return status == LF_OK ? LF_OK : refuse_submit(status, st, &params, retry_after_s, &why, err);
}

/* The text as it was given; of ids, what they decode to (they were checked to be in the vocabulary). */
static void echo_prompt(const struct lf_generation *gen, struct lf_choice *c)
{
    const struct lf_prompt *p = c->prompt;
    if (p->is_text)
        lf_buf_str(&c->parts.text, p->text);
    else if (lf_tokenizer_decode(gen->tok, &c->parts.text, p->ids.ids, p->ids.n, !gen->ask.skip_special_tokens, NULL,
                                 NULL) != LF_OK)
        c->parts.text.status = LF_NO_MEMORY;
    c->offset = lf_utf8_count(lf_buf_view(&c->parts.text));
}

/* The assistant's last message, before the answer that goes on from it. */
static void echo_final(struct lf_choice *c)
{
    if (c->parser)
        lf_parts_add(&c->parts, LF_ANSWER_TEXT, c->prompt->text);
    else
        lf_buf_str(&c->parts.text, c->prompt->text);
}

void lf_choice_rewind(struct lf_generation *gen, struct lf_choice *c)
{
    const struct lf_ask *ask = &gen->ask;
    c->finish = NULL;
    c->n_read = c->n_echoed = 0;
    c->n_ids_shown = -1;
    c->n_reasoning = c->n_unplaced = 0;
    c->offset = c->echo_offset = 0;
    lf_detok_init(&c->detok, gen->tok, !ask->skip_special_tokens, lf_generation_continues(gen));
    lf_detok_init(&c->echo_detok, gen->tok, !ask->skip_special_tokens, false);
    lf_stop_init(&c->stop, ask->stops, ask->n_stops);
    if (c->parser) lf_answer_parser_restart(c->parser);
    lf_parts_restart(&c->parts, c->parser != NULL);
    lf_logprob_text_clear(&c->lp);
    c->echo_done = !ask->echo || ask->logprobs == LF_ABSENT || gen->quiet;
    if (ask->echo) echo_prompt(gen, c);
    if (ask->echo_final) echo_final(c);
}

/* Only an answer that may have something beside text is taken apart. */
static enum lf_status make_parser(const struct start *st, struct lf_choice *c)
{
    struct lf_generation *gen = st->gen;
    const struct lf_answer_format *format = st->params->format;
    const struct lf_ask *ask = &gen->ask;
    if (!gen->dialect->talks || !format) return LF_OK;
    bool calls = ask->n_tools && ask->tool_choice != LF_TOOL_CHOICE_NONE && lf_answer_format_has_tools(format);
    gen->has_reasoning = st->params->reasoning && lf_answer_format_has_reasoning(format);
    if (!calls && !gen->has_reasoning) return LF_OK;
    struct lf_answer_parser_params params = {.format = format,
                                             .reasoning = gen->has_reasoning,
                                             .prompt_end = c->prompt->end,
                                             .tools = calls ? ask->tools : NULL,
                                             .n_tools = calls ? ask->n_tools : 0,
                                             .memory = gen->memory};
    return lf_answer_parser_create(&c->parser, &params);
}

static enum lf_status init_choice(const struct start *st, struct lf_choice *c, const struct lf_prompt *prompt)
{
    struct lf_generation *gen = st->gen;
    int n_top = gen->ask.logprobs == LF_ABSENT ? 0 : (int)gen->ask.logprobs;
    c->prompt = prompt;
    lf_parts_init(&c->parts, gen->memory);
    lf_logprob_text_init(&c->lp, gen->tok, gen->dialect->logprobs, n_top, gen->memory);
    c->lp.as_ids = gen->ask.tokens_as_ids;
    LF_TRY(make_parser(st, c));
    lf_choice_rewind(gen, c);
    return LF_OK;
}

static enum lf_status count_choices(const struct start *st, struct lf_api_err *err)
{
    struct lf_generation *gen = st->gen;
    const struct lf_tenant *tenant = st->params->tenant;
    int64_t n = gen->prompts.n * gen->ask.n, most = tenant->by_key ? LF_IN_FLIGHT_PER_KEY_N : LF_PROMPTS_N;
    if (tenant->limits.requests.in_flight) most = tenant->limits.requests.in_flight;
    if (n > most)
        return lf_refuse(err, 400, "n", "too_many_choices", "%lld answers asked for at once, the most is %lld.",
                         (long long)n, (long long)most);
    gen->n_choices = (int)n;
    return LF_OK;
}

static enum lf_status start_choices(struct start *st, struct lf_api_err *err)
{
    struct lf_generation *gen = st->gen;
    LF_TRY(count_choices(st, err));
    gen->choices = lf_text_alloc_zeroed(gen->memory, (size_t)gen->n_choices * sizeof *gen->choices);
    if (!gen->choices) {
        gen->n_choices = 0;
        return lf_refuse_work(err, LF_NO_MEMORY);
    }
    for (int i = 0; i < gen->n_choices; i++) {
        enum lf_status status = init_choice(st, &gen->choices[i], &gen->prompts.items[i / gen->ask.n]);
        if (status != LF_OK) return lf_refuse_work(err, status);
    }
    for (int i = 0; i < gen->prompts.n; i++) gen->n_prompt_tokens += (int64_t)gen->prompts.items[i].ids.n;
    for (int i = 0; i < gen->n_choices; i++) LF_TRY(submit(st, i, err));
    bool shows_prompt = gen->ask.echo || gen->ask.return_ids || gen->ask.prompt_logprobs != LF_ABSENT;
    for (int i = 0; i < gen->prompts.n && !shows_prompt; i++) lf_ids_deinit(&gen->prompts.items[i].ids);
    return LF_OK;
}

/* The tenant's salt and the request's, in a form in which no two pairs look alike. */
static void mix_salt(struct start *st)
{
    struct lf_str extra = st->gen->ask.cache_salt;
    memcpy(st->salt, st->params->tenant->salt, LF_SHA256_BYTES);
    if (extra.len) memcpy(st->salt + LF_SHA256_BYTES, extra.ptr, extra.len);
    st->salt_bytes = LF_SHA256_BYTES + (int)extra.len;
}

static struct lf_generation *create(const struct lf_generation_params *params)
{
    struct lf_generation *gen = lf_text_alloc_zeroed(params->memory, sizeof *gen);
    if (!gen) return NULL;
    gen->dialect = params->dialect;
    gen->tok = params->tok;
    gen->memory = params->memory;
    gen->model = params->model;
    gen->created_s = lf_clock_unix_s();
    gen->tokenize_ns = params->tokenize_ns;
    snprintf(gen->id, sizeof gen->id, "%s", params->id);
    snprintf(gen->shown_id, sizeof gen->shown_id, "%s", params->client_id ? params->client_id : params->id);
    gen->fingerprint = params->fingerprint;
    lf_buf_init_in(&gen->head, HEAD_BYTES, params->memory);
    return gen;
}

enum lf_status lf_generation_start(struct lf_generation **out, const struct lf_generation_params *params,
                                   struct lf_ask *ask, struct lf_prompts *prompts, struct lf_api_err *err)
{
    struct lf_generation *gen = create(params);
    if (!gen) {
        lf_ask_deinit(ask);
        lf_prompts_deinit(prompts);
        return lf_refuse_work(err, LF_NO_MEMORY);
    }
    struct lf_engine_state engine;
    lf_engine_snapshot(params->engine, &engine);
    gen->ask = *ask;
    gen->prompts = *prompts;
    *ask = (struct lf_ask){0};
    *prompts = (struct lf_prompts){0};
    struct start st = {.params = params, .gen = gen};
    st.room = engine.most_tokens;
    st.seed = gen->ask.seed_given ? (uint64_t)gen->ask.seed : params->seed;
    mix_salt(&st);
    enum lf_status status = start_choices(&st, err);
    if (status == LF_OK)
        *out = gen;
    else
        lf_generation_destroy(gen);
    return status;
}

void lf_generation_destroy(struct lf_generation *gen)
{
    if (!gen) return;
    /* followers before the leader they refer to */
    for (int i = gen->n_choices - 1; i >= 0; i--) {
        struct lf_choice *c = &gen->choices[i];
        if (c->req) lf_request_put(c->req);
        lf_answer_parser_destroy(c->parser);
        lf_parts_deinit(&c->parts);
        lf_logprob_text_deinit(&c->lp);
    }
    if (gen->dialect->forget) gen->dialect->forget(gen);
    lf_text_free(gen->memory, gen->choices);
    lf_prompts_deinit(&gen->prompts);
    lf_ask_deinit(&gen->ask);
    lf_buf_deinit(&gen->head);
    lf_text_free(gen->memory, gen);
}

/* ---- pulling ---- */

static void finish(struct lf_choice *c, const char *reason)
{
    c->finish = reason;
    if (c->finished_ns == 0) c->finished_ns = lf_clock_ns();
}

static void fail(struct lf_generation *gen, int status, const char *code, const char *message)
{
    if (!gen->failed) (void)!lf_refuse(&gen->err, status, NULL, code, "%s", message);
    gen->failed = true;
}

/* As a request is refused for which there is no memory: the client is told when to come again. */
static void fail_for_memory(struct lf_generation *gen)
{
    if (!gen->failed) (void)!lf_refuse_work(&gen->err, LF_NO_MEMORY);
    gen->failed = true;
}

static void fail_as_bad_words(struct lf_generation *gen)
{
    if (!gen->failed) (void)!lf_refuse(&gen->err, 400, "bad_words", "invalid_value", "%s", LF_BAD_WORDS_NO_TOKEN);
    gen->failed = true;
}

/* The format of the answer cannot be followed any further: no defect here, and the same request would meet it again. */
static void fail_as_format(struct lf_generation *gen, const char *code, const char *message)
{
    if (!gen->failed) (void)!lf_refuse(&gen->err, 400, gen->ask.format.param, code, "%s", message);
    gen->failed = true;
}

static void fail_as(struct lf_generation *gen, const struct lf_request_state *st)
{
    if (st->finish == LF_FINISH_CANCELLED || st->status == LF_SHUTDOWN || st->status == LF_CANCELLED)
        fail(gen, 503, "draining", "The server is shutting down.");
    else if (st->status == LF_DEVICE)
        fail(gen, 500, "engine_failed", "The engine has failed.");
    else if (st->status == LF_CORRUPT)
        fail(gen, 500, "broken_logits", LF_BROKEN_LOGITS);
    else if (st->status == LF_LIMIT)
        fail_as_format(gen, "schema_too_large", st->message);
    else if (st->status == LF_UNSUPPORTED && gen->ask.n_bad_ids > 0)
        fail_as_bad_words(gen);
    else if (st->status == LF_UNSUPPORTED)
        fail_as_format(gen, "unsupported_schema", st->message);
    else if (st->status == LF_NO_MEMORY)
        fail_for_memory(gen);
    else
        fail(gen, 500, "internal_error", "The answer could not be finished.");
}

/* Text of one token that could not be kept must not go missing silently. */
static void note_loss(struct lf_choice *c, const struct lf_buf *piece)
{
    if (piece->status != LF_OK) c->parts.text.status = piece->status;
}

/* Log-probabilities of the prompt's own tokens, as far as they are known. */
static void pull_echo(const struct lf_generation *gen, struct lf_choice *c, const struct lf_request_state *st, bool one)
{
    const struct lf_ids *ids = &c->prompt->ids;
    struct lf_buf piece;
    lf_buf_init_in(&piece, TOKEN_BYTES, gen->memory);
    int known = LF_MIN(LF_MAX(st->n_prompt_logprobs, 1), (int)ids->n);
    for (; c->n_echoed < known && !(one && c->lp.list[0].len > ECHO_PIECE_BYTES); c->n_echoed++) {
        int i = c->n_echoed;
        lf_logprob_text_add(&c->lp, i ? lf_request_prompt_logprob(c->req, i) : NULL, ids->ids[i], c->echo_offset);
        lf_buf_clear(&piece);
        lf_detok_push(&c->echo_detok, ids->ids[i], &piece);
        note_loss(c, &piece);
        c->echo_offset += lf_utf8_count(lf_buf_view(&piece));
    }
    lf_buf_deinit(&piece);
    bool all = c->n_echoed == (int)ids->n;
    /* an engine that has gone on, or ended, publishes no more of them */
    c->echo_done = all || (c->n_echoed == known && (st->n_tokens > 0 || st->finish != LF_FINISH_NONE));
}

/* ---- taking apart ---- */

struct taking {
    const struct lf_generation *gen;
    struct lf_choice *c;
};

static void take_part(void *ctx, enum lf_answer_kind kind, struct lf_str bytes)
{
    const struct taking *t = ctx;
    struct lf_choice *c = t->c;
    if (kind == LF_ANSWER_REASONING) c->n_reasoning += c->n_unplaced;
    c->n_unplaced = 0;
    if (kind == LF_ANSWER_REASONING && !t->gen->ask.include_reasoning) return;
    lf_parts_add(&c->parts, kind, bytes);
}

static void take_apart(struct lf_generation *gen, struct lf_choice *c, struct lf_str text, bool is_control)
{
    struct taking taking = {gen, c};
    const struct lf_answer_sink sink = {take_part, &taking};
    if (text.len && lf_answer_parser_push(c->parser, text, is_control, &sink) != LF_OK) fail_for_memory(gen);
}

/* Nothing more comes. */
static void end_parts(struct lf_generation *gen, struct lf_choice *c)
{
    struct taking taking = {gen, c};
    const struct lf_answer_sink sink = {take_part, &taking};
    if (c->parser) {
        if (lf_answer_parser_flush(c->parser, &sink) != LF_OK) fail_for_memory(gen);
        lf_parts_end(&c->parts);
    }
    c->shape =
        (struct lf_answer_shape){c->parts.has_text, c->parts.has_reasoning, c->parts.n_calls, c->parts.n_whole_calls};
}

/* ---- token by token ---- */

/* Texts on their way: of a token, and what of it the stop strings let pass to the parser. */
struct pieces {
    struct lf_buf token, passed;
};

/* Where what the stop strings let pass goes. */
static struct lf_buf *way_out(struct lf_choice *c, struct pieces *p)
{
    return c->parser ? &p->passed : &c->parts.text;
}

static void hand_over(struct lf_generation *gen, struct lf_choice *c, struct pieces *p)
{
    if (!c->parser) return;
    note_loss(c, &p->passed);
    take_apart(gen, c, lf_buf_view(&p->passed), false);
    lf_buf_clear(&p->passed);
}

/* Shows text to the stop strings (not below min_tokens, where nothing stops); true when one was found. */
static bool show(struct lf_generation *gen, struct lf_choice *c, struct pieces *p)
{
    struct lf_str text = lf_buf_view(&p->token);
    bool stopped = false;
    if (gen->ask.n_stops && c->n_read > gen->ask.min_tokens)
        stopped = lf_stop_push(&c->stop, text, way_out(c, p));
    else
        lf_buf_str(way_out(c, p), text);
    if (stopped && gen->ask.include_stop) lf_buf_str(way_out(c, p), gen->ask.stops[c->stop.matched]);
    hand_over(gen, c, p);
    return stopped;
}

/* What was held back comes out; true when a stop string was found in it. */
static bool show_held(struct lf_generation *gen, struct lf_choice *c, struct pieces *p)
{
    lf_buf_clear(&p->token);
    lf_detok_flush(&c->detok, &p->token);
    note_loss(c, &p->token);
    if (show(gen, c, p)) return true;
    if (gen->ask.n_stops) lf_stop_flush(&c->stop, way_out(c, p));
    hand_over(gen, c, p);
    return false;
}

static void end_at_stop(struct lf_generation *gen, struct lf_choice *c)
{
    end_parts(gen, c);
    finish(c, "stop");
    lf_request_cancel(c->req);
}

/* A control token is no text, unless that was asked for, but an answer's format may know it. */
static bool take_control(struct lf_generation *gen, struct lf_choice *c, int32_t id, struct pieces *p)
{
    struct lf_token_info info;
    if (!c->parser || !lf_tokenizer_token(gen->tok, id, &info) || !info.special) return false;
    if (!gen->ask.skip_special_tokens && !lf_answer_parser_knows(c->parser, info.text)) return false;
    if (show_held(gen, c, p)) {
        end_at_stop(gen, c);
        return true;
    }
    take_apart(gen, c, info.text, true);
    return true;
}

static void take_token(struct lf_generation *gen, struct lf_choice *c, struct pieces *p)
{
    const struct lf_sampled *sampled = lf_request_token(c->req, c->n_read++);
    if (gen->ask.logprobs != LF_ABSENT && !gen->quiet) lf_logprob_text_add(&c->lp, sampled, sampled->id, c->offset);
    c->n_unplaced++;
    if (take_control(gen, c, sampled->id, p)) return;
    lf_buf_clear(&p->token);
    lf_detok_push(&c->detok, sampled->id, &p->token);
    note_loss(c, &p->token);
    c->offset += lf_utf8_count(lf_buf_view(&p->token));
    if (show(gen, c, p)) end_at_stop(gen, c);
}

/* The end as the engine saw it: what was held back comes out. */
static void take_end(struct lf_generation *gen, struct lf_choice *c, const struct lf_request_state *st,
                     struct pieces *p)
{
    if (st->finish != LF_FINISH_STOP && st->finish != LF_FINISH_LENGTH) {
        fail_as(gen, st);
        return;
    }
    bool stopped = show_held(gen, c, p);
    end_parts(gen, c);
    finish(c, stopped || st->finish == LF_FINISH_STOP ? "stop" : "length");
}

void lf_choice_pull(struct lf_generation *gen, struct lf_choice *c, bool one)
{
    struct lf_request_state st;
    struct pieces p;
    if (c->finish || gen->failed) return;
    lf_buf_init_in(&p.token, TOKEN_BYTES, gen->memory);
    lf_buf_init_in(&p.passed, TOKEN_BYTES, gen->memory);
    lf_request_snapshot(c->req, &st);
    if (!c->echo_done) pull_echo(gen, c, &st, one);
    while (c->echo_done && !c->finish && !gen->failed && c->n_read < st.n_tokens && !(one && lf_parts_any(&c->parts)))
        take_token(gen, c, &p);
    if (c->echo_done && !c->finish && !gen->failed && c->n_read == st.n_tokens && st.finish != LF_FINISH_NONE &&
        !(one && lf_parts_any(&c->parts)))
        take_end(gen, c, &st, &p);
    if (c->parts.text.status != LF_OK) fail_for_memory(gen);
    lf_buf_deinit(&p.token);
    lf_buf_deinit(&p.passed);
}

struct lf_call_id lf_call_id(const struct lf_generation *gen, int idx, int call)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { BASE = sizeof digits - 1 };
    struct lf_call_id out = {""};
    uint8_t hash[LF_SHA256_BYTES];
    uint64_t x;
    char name[64];
    int n = snprintf(name, sizeof name, "%s/%d/%d", gen->id, idx, call);
    lf_sha256(name, (size_t)n, hash);
    memcpy(&x, hash, sizeof x);
    for (size_t i = 0; i + 1 < sizeof out.text; i++, x /= BASE) out.text[i] = digits[x % BASE];
    return out;
}
