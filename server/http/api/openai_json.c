#include "server/http/api/openai_json.h"

#include "core/check.h"
#include "core/clock.h"
#include "core/json.h"

const struct lf_member_doc lf_openai_timings[LF_TIMINGS_N] = {
    {"queue_ms", "from the request's being queued to its first step"},
    {"tokenize_ms", "template, tokenizer, and what the answer must be"},
    {"prefill_ms", "from the first step to the first token"},
    {"cached_tokens", "tokens of the prompt that the prefix cache had"},
    {"decode_ms", "from the first token to the last of any choice"},
    {"prefill_tokens_per_second", "tokens of the prompt that were computed, by `prefill_ms`"},
    {"decode_tokens_per_second", "tokens of the answer behind the first, by `decode_ms`"},
    {"proposed_tokens", "tokens that steps tried beside the next one (`speculate`); not there where there were none"},
    {"accepted_tokens", "of these, what came; the same"},
    {"timed_out", "`true` where `--request-timeout` ended the answer, else not there"},
};

const struct lf_member_doc lf_openai_progress_members[LF_PROGRESS_N] = {
    {"total", "tokens of the prompt"},
    {"cached", "of these, found in the prefix cache"},
    {"processed", "of these, in the KV cache by now, with those that were found"},
    {"time_ms", "since the request was queued"},
    {"eta_ms", "until the prompt will have been read, as the cost of steps so far predicts it"},
};

static const struct lf_openai_form *form_of(const struct lf_generation *gen)
{
    return gen->dialect->form;
}

/* Writes what every object of the answer begins with into gen->head: `{"id":…,"object":…,"created":…,"model":…,` */
static void prepare(struct lf_generation *gen, const char *object)
{
    lf_buf_clear(&gen->head);
    lf_buf_printf(&gen->head,
                  "{\"id\":\"%s-%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", form_of(gen)->id_prefix,
                  gen->shown_id, object, (long long)gen->created_s);
    lf_json_write_string(&gen->head, lf_str_c(gen->model));
    if (gen->fingerprint) lf_buf_printf(&gen->head, ",\"system_fingerprint\":\"%s\"", gen->fingerprint);
    lf_buf_char(&gen->head, ',');
}

/* The head, and the beginning of `choices`. */
static void begin_object(struct lf_buf *out, const struct lf_generation *gen)
{
    lf_buf_str(out, lf_buf_view(&gen->head));
    lf_buf_cstr(out, "\"choices\":[");
    if (gen->head.status != LF_OK) out->status = gen->head.status;
}

/* ---- usage and timings ---- */

static double span_ms(int64_t from_ns, int64_t to_ns)
{
    return from_ns > 0 && to_ns > from_ns ? (double)(to_ns - from_ns) / LF_NS_PER_MS : 0;
}

struct lf_totals lf_totals_of(const struct lf_generation *gen)
{
    struct lf_totals t = {.n_prompt = gen->n_prompt_tokens};
    int64_t first_ns = 0, last_ns = 0;
    for (int i = 0; i < gen->n_choices; i++) {
        const struct lf_choice *c = &gen->choices[i];
        struct lf_request_state st;
        lf_request_snapshot(c->req, &st);
        t.n_completion += c->n_read;
        t.n_reasoning += c->n_reasoning;
        t.n_proposed += st.n_proposed;
        t.n_accepted +=
            LF_MIN(st.n_accepted, c->n_read); /* a stop string ends an answer before the engine hears of it */
        t.timed_out = t.timed_out || st.timed_out;
        if (i % gen->ask.n == 0) t.n_cached += st.n_cached;
        int64_t end_ns = st.finished_ns > 0 ? st.finished_ns : c->finished_ns;
        int64_t token_ns = st.first_token_ns > 0 ? st.first_token_ns : end_ns;
        if (i == 0) {
            t.queue_ms = span_ms(st.submitted_ns, st.started_ns);
            t.prefill_ms = span_ms(st.started_ns, token_ns);
            first_ns = token_ns;
        }
        first_ns = LF_MIN(first_ns, token_ns);
        last_ns = LF_MAX(last_ns, end_ns);
    }
    t.decode_ms = span_ms(first_ns, last_ns);
    return t;
}

static void write_usage(struct lf_buf *out, const struct lf_generation *gen, const struct lf_totals *t)
{
    lf_buf_printf(out,
                  "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%lld}",
                  (long long)t->n_prompt, (long long)t->n_completion, (long long)(t->n_prompt + t->n_completion),
                  (long long)t->n_cached);
    if (gen->has_reasoning || t->n_proposed)
        lf_buf_printf(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%lld", (long long)t->n_reasoning);
    if (t->n_proposed)
        lf_buf_printf(out, ",\"accepted_prediction_tokens\":%lld,\"rejected_prediction_tokens\":%lld",
                      (long long)t->n_accepted, (long long)(t->n_proposed - t->n_accepted));
    if (gen->has_reasoning || t->n_proposed) lf_buf_char(out, '}');
    lf_buf_char(out, '}');
}

static double rate(double n, double ms)
{
    return ms > 0 && n > 0 ? n * 1000 / ms : 0;
}

void lf_openai_write_timings(struct lf_buf *out, const struct lf_generation *gen, const struct lf_totals *t)
{
    double computed = (double)(t->n_prompt - t->n_cached);
    lf_buf_printf(out,
                  "\"timings\":{\"queue_ms\":%.3f,\"tokenize_ms\":%.3f,\"prefill_ms\":%.3f,\"cached_tokens\":%lld,"
                  "\"decode_ms\":%.3f,\"prefill_tokens_per_second\":%.3f,\"decode_tokens_per_second\":%.3f",
                  t->queue_ms, (double)gen->tokenize_ns / LF_NS_PER_MS, t->prefill_ms, (long long)t->n_cached,
                  t->decode_ms, rate(computed, t->prefill_ms),
                  /* the first token belongs to the prefill */
                  rate((double)(t->n_completion - gen->n_choices), t->decode_ms));
    if (t->n_proposed)
        lf_buf_printf(out, ",\"proposed_tokens\":%lld,\"accepted_tokens\":%lld", (long long)t->n_proposed,
                      (long long)t->n_accepted);
    lf_buf_cstr(out, t->timed_out ? ",\"timed_out\":true}" : "}");
}

/* ,"logprobs":… of what has been gathered for a choice, or null. */
static void write_logprobs(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_logprob_text *lp = &gen->choices[idx].lp;
    lf_buf_cstr(out, ",\"logprobs\":");
    if (gen->ask.logprobs == LF_ABSENT || lp->n == 0)
        lf_buf_cstr(out, "null");
    else
        lf_logprob_text_write(out, lp);
}

/* ---- a stream's chunks ---- */

/* Up to the elements of `choices`. */
static void begin_chunk(struct lf_buf *out, const struct lf_generation *gen)
{
    lf_buf_cstr(out, "data: ");
    begin_object(out, gen);
}

/* Behind them; idx: the choice. */
static void end_chunk(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_choice *c = &gen->choices[idx];
    struct lf_request_state st;
    if (!gen->ask.include_usage || !gen->ask.continuous_usage) {
        lf_buf_cstr(out, gen->ask.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
        return;
    }
    lf_request_snapshot(c->req, &st);
    lf_buf_printf(out,
                  "],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\n",
                  st.n_prompt, c->n_read, st.n_prompt + c->n_read, st.n_cached);
}

static void write_ids(struct lf_buf *out, const char *name, const int32_t *ids, size_t n)
{
    lf_buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) lf_buf_printf(out, "%s%d", i ? "," : "", (int)ids[i]);
    lf_buf_char(out, ']');
}

/* In a choice of a chunk: the ids of what it shows, and of the prompt in its first, unless the head of a stream had
 * them. */
static void write_chunk_ids(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_choice *c = &gen->choices[idx];
    if (!gen->ask.return_ids) return;
    if (c->n_ids_shown < 0 && !form_of(gen)->chunk_first)
        write_ids(out, "prompt_token_ids", c->prompt->ids.ids, c->prompt->ids.n);
    lf_buf_cstr(out, ",\"token_ids\":[");
    for (int first = LF_MAX(c->n_ids_shown, 0), i = first; i < c->n_read; i++)
        lf_buf_printf(out, "%s%d", i > first ? "," : "", (int)lf_request_token(c->req, i)->id);
    lf_buf_char(out, ']');
}

/* What ended a choice beside the model's own end: the stop string, the stop token that was asked for, else null. */
static void write_stop_reason(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_choice *c = &gen->choices[idx];
    const struct lf_ask *ask = &gen->ask;
    struct lf_request_state st;
    bool asked = false;
    lf_buf_cstr(out, ",\"stop_reason\":");
    if (c->stop.matched >= 0) {
        lf_json_write_string(out, ask->stops[c->stop.matched]);
        return;
    }
    lf_request_snapshot(c->req, &st);
    for (int i = 0; i < ask->n_stop_tokens; i++) asked = asked || ask->stop_tokens[i] == st.stop_token;
    if (asked && st.finish == LF_FINISH_STOP)
        lf_buf_printf(out, "%d", (int)st.stop_token);
    else
        lf_buf_cstr(out, "null");
}

/* Of a chunk with a finish_reason: the last one carries the timings where no chunk with the usage follows. */
static void end_finish_chunk(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    if (gen->ask.include_usage || gen->n_finish_shown < gen->n_choices) {
        end_chunk(out, gen, idx);
        return;
    }
    struct lf_totals t = lf_totals_of(gen);
    lf_buf_cstr(out, "],");
    lf_openai_write_timings(out, gen, &t);
    lf_buf_cstr(out, "}\n\n");
}

/* A choice without text that goes on: what stands for it. */
static void write_no_text(struct lf_buf *out, int idx, const char *member)
{
    lf_buf_printf(out, "{\"index\":%d,%s,\"logprobs\":null,\"finish_reason\":null}", idx, member);
}

static void begin_stream(struct lf_buf *out, struct lf_generation *gen)
{
    const struct lf_openai_form *form = form_of(gen);
    prepare(gen, form->chunk_object);
    for (int i = 0; form->chunk_first && i < gen->n_choices; i++) {
        begin_chunk(out, gen);
        write_no_text(out, i, form->chunk_first);
        if (i == 0 && gen->ask.return_ids) {
            const struct lf_ids *ids = &gen->prompts.items[0].ids;
            lf_buf_char(out, ']');
            write_ids(out, "prompt_token_ids", ids->ids, ids->n);
            lf_buf_cstr(out, gen->ask.include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
        } else
            end_chunk(out, gen, i);
    }
}

/* The beginning of a call, up to its arguments' text. */
static void begin_call(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    lf_buf_printf(out,
                  "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", lf_call_id(gen, idx, part->call).text);
    lf_json_write_string(out, part->bytes);
    lf_buf_cstr(out, ",\"arguments\":\"");
}

/* The delta of a part that only conversations have. */
static void write_talk(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    lf_buf_cstr(out, "\"delta\":{");
    if (part->kind == LF_ANSWER_REASONING) {
        lf_buf_cstr(out, "\"reasoning_content\":");
        lf_json_write_string(out, part->bytes);
        lf_buf_cstr(out, ",\"reasoning\":");
        lf_json_write_string(out, part->bytes);
        lf_buf_char(out, '}');
        return;
    }
    lf_buf_printf(out, "\"tool_calls\":[{\"index\":%d,", part->call);
    if (part->kind == LF_ANSWER_CALL) {
        begin_call(out, gen, idx, part);
        lf_buf_cstr(out, "\"}}]}");
        return;
    }
    lf_buf_cstr(out, "\"function\":{\"arguments\":");
    lf_json_write_string(out, part->bytes);
    lf_buf_cstr(out, "}}]}");
}

static void delta(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    const struct lf_openai_form *form = form_of(gen);
    if (part->kind == LF_ANSWER_CALL_END) return;
    begin_chunk(out, gen);
    lf_buf_printf(out, "{\"index\":%d,", idx);
    if (part->kind == LF_ANSWER_TEXT) {
        lf_buf_cstr(out, form->chunk_text[0]);
        lf_json_write_string(out, part->bytes);
        lf_buf_cstr(out, form->chunk_text[1]);
    } else
        write_talk(out, gen, idx, part);
    write_logprobs(out, gen, idx);
    write_chunk_ids(out, gen, idx);
    lf_buf_cstr(out, ",\"finish_reason\":null}");
    end_chunk(out, gen, idx);
}

static const char *finish_of(const struct lf_choice *c)
{
    return lf_choice_called(c) ? "tool_calls" : c->finish;
}

static void finish(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    begin_chunk(out, gen);
    lf_buf_printf(out, "{\"index\":%d,%s,\"logprobs\":null", idx, form_of(gen)->chunk_no_text);
    write_chunk_ids(out, gen, idx);
    lf_buf_printf(out, ",\"finish_reason\":\"%s\"", finish_of(&gen->choices[idx]));
    write_stop_reason(out, gen, idx);
    lf_buf_char(out, '}');
    end_finish_chunk(out, gen, idx);
}

static void nothing(struct lf_buf *out, const struct lf_generation *gen)
{
    begin_chunk(out, gen);
    write_no_text(out, 0, form_of(gen)->chunk_no_text);
    end_chunk(out, gen, 0);
}

static void end_stream(struct lf_buf *out, const struct lf_generation *gen)
{
    if (gen->ask.include_usage) {
        struct lf_totals t = lf_totals_of(gen);
        begin_chunk(out, gen);
        lf_buf_cstr(out, "],");
        write_usage(out, gen, &t);
        lf_buf_char(out, ',');
        lf_openai_write_timings(out, gen, &t);
        lf_buf_cstr(out, "}\n\n");
    }
    lf_buf_cstr(out, "data: [DONE]\n\n");
}

static void progress(struct lf_buf *out, const struct lf_generation *gen, const struct lf_request_state *state)
{
    begin_chunk(out, gen);
    lf_buf_printf(out,
                  "],\"prompt_progress\":{\"total\":%d,\"cached\":%d,\"processed\":%d,\"time_ms\":%.0f,"
                  "\"eta_ms\":%.0f}",
                  state->n_prompt, state->n_cached, state->n_processed, span_ms(state->submitted_ns, lf_clock_ns()),
                  (double)state->eta_ns / LF_NS_PER_MS);
    lf_buf_cstr(out, gen->ask.include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void error_event(struct lf_buf *out, const struct lf_api_err *err)
{
    lf_buf_cstr(out, "data: ");
    lf_api_err_write(out, err);
    lf_buf_cstr(out, "\n\n");
}

const struct lf_printer lf_openai_stream = {
    .begin = begin_stream,
    .delta = delta,
    .finish = finish,
    .end = end_stream,
    .error = error_event,
    .progress = progress,
    .nothing = nothing,
};

/* ---- a whole answer ---- */

static void begin_whole(struct lf_buf *out, struct lf_generation *gen)
{
    prepare(gen, form_of(gen)->object);
    begin_object(out, gen);
}

/* A message's members stand apart, however their parts came: each pass writes one of them. */
enum member { CONTENT, REASONING_CONTENT, REASONING, CALLS };

/* Which one a choice's pass writes; past the last one: CALLS + 1. */
static enum member member_of(const struct lf_choice *c, int pass)
{
    enum member member = (enum member)pass;
    if (member > CONTENT && !c->shape.has_reasoning) member += 2;
    if (member == CALLS && c->shape.n_calls == 0) member++;
    return member;
}

static int n_passes(const struct lf_generation *gen, int idx)
{
    int n = 1;
    while (member_of(&gen->choices[idx], n) <= CALLS) n++;
    return n;
}

/* There is no text, and something else. */
static bool content_is_null(const struct lf_choice *c)
{
    return !c->shape.has_text && (c->shape.has_reasoning || c->shape.n_calls);
}

static void open_member(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    static const char *const heads[] = {"", ",\"reasoning_content\":\"", ",\"reasoning\":\"", ",\"tool_calls\":["};
    lf_buf_cstr(out, heads[member_of(&gen->choices[idx], gen->choices[idx].pass)]);
}

static void shut_member(struct lf_buf *out, const struct lf_generation *gen, int idx, int pass)
{
    const struct lf_choice *c = &gen->choices[idx];
    switch (member_of(c, pass)) {
    case CONTENT:
        lf_buf_cstr(out, content_is_null(c) ? "null" : "\"");
        lf_buf_cstr(out, form_of(gen)->text[1]);
        return;
    case CALLS:
        lf_buf_char(out, ']');
        return;
    default:
        lf_buf_char(out, '"');
    }
}

static void open(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    lf_buf_printf(out, "%s{\"index\":%d,%s%s", idx ? "," : "", idx, form_of(gen)->text[0],
                  content_is_null(&gen->choices[idx]) ? "" : "\"");
}

static void turn(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    shut_member(out, gen, idx, gen->choices[idx].pass - 1);
    open_member(out, gen, idx);
}

static void write_call(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    switch (part->kind) {
    case LF_ANSWER_CALL:
        lf_buf_cstr(out, part->call ? ",{" : "{");
        begin_call(out, gen, idx, part);
        return;
    case LF_ANSWER_ARGUMENTS:
        lf_json_write_escaped(out, part->bytes);
        return;
    case LF_ANSWER_CALL_END:
        lf_buf_cstr(out, "\"}}");
        return;
    default:
        return;
    }
}

/* What belongs to the member in hand. */
static void write_part(struct lf_buf *out, const struct lf_generation *gen, int idx, const struct lf_part *part)
{
    enum member member = member_of(&gen->choices[idx], gen->choices[idx].pass);
    if (member == CALLS)
        write_call(out, gen, idx, part);
    else if (part->kind == (member == CONTENT ? LF_ANSWER_TEXT : LF_ANSWER_REASONING))
        lf_json_write_escaped(out, part->bytes);
}

static void shut(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    shut_member(out, gen, idx, gen->choices[idx].pass);
    lf_buf_printf(out, "%s,\"logprobs\":", form_of(gen)->text[2]);
    if (gen->ask.logprobs == LF_ABSENT) lf_buf_cstr(out, "null");
}

static void finish_whole(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    lf_buf_printf(out, ",\"finish_reason\":\"%s\"", finish_of(&gen->choices[idx]));
    write_stop_reason(out, gen, idx);
    lf_buf_char(out, '}');
}

static void end_choices(struct lf_buf *out, const struct lf_generation *gen)
{
    (void)gen;
    lf_buf_char(out, ']');
}

static void end_whole(struct lf_buf *out, const struct lf_generation *gen)
{
    struct lf_totals t = lf_totals_of(gen);
    lf_buf_char(out, ',');
    write_usage(out, gen, &t);
    lf_buf_char(out, ',');
    lf_openai_write_timings(out, gen, &t);
    lf_buf_char(out, '}');
}

const struct lf_printer lf_openai_whole = {
    .begin = begin_whole,
    .n_passes = n_passes,
    .open = open,
    .delta = write_part,
    .turn = turn,
    .shut = shut,
    .finish = finish_whole,
    .behind = end_choices,
    .end = end_whole,
    .error = lf_api_err_write,
};
