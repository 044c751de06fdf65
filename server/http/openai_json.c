#include "server/http/openai_json.h"

#include "core/check.h"
#include "core/clock.h"
#include "core/json.h"

static bool is_chat(const struct lf_generation *gen)
{
    return gen->ask.kind == LF_ASK_CHAT;
}

void lf_openai_head(struct lf_generation *gen, const char *id, const char *model)
{
    const char *object = !is_chat(gen)     ? "text_completion"
                         : gen->ask.stream ? "chat.completion.chunk"
                                           : "chat.completion";
    lf_buf_init(&gen->head, LF_REPLY_BYTES);
    lf_buf_printf(&gen->head,
                  "{\"id\":\"%s-%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", is_chat(gen) ? "chatcmpl" : "cmpl",
                  id, object, (long long)lf_clock_unix_s());
    lf_json_write_string(&gen->head, lf_str_c(model));
    lf_buf_cstr(&gen->head, ",\"choices\":[");
}

/* ---- usage and timings ---- */

static double span_ms(int64_t from_ns, int64_t to_ns)
{
    return from_ns > 0 && to_ns > from_ns ? (double)(to_ns - from_ns) / LF_NS_PER_MS : 0;
}

struct totals {
    int64_t n_completion, n_cached;
    double queue_ms, prefill_ms, decode_ms;
};

/* The prompt's times are those of the first choice; decoding lasts from the first token to the last of any choice. */
static struct totals add_up(const struct lf_generation *gen)
{
    struct totals t = {0};
    int64_t first_ns = 0, last_ns = 0;
    for (int i = 0; i < gen->n_choices; i++) {
        const struct lf_choice *c = &gen->choices[i];
        struct lf_request_state st;
        lf_request_look(c->req, &st);
        t.n_completion += c->n_read;
        if (i % gen->ask.n == 0) t.n_cached += st.n_cached;
        /* a stop string ends an answer before the engine hears of it */
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

static void write_usage(struct lf_buf *out, const struct lf_generation *gen, const struct totals *t)
{
    lf_buf_printf(out,
                  "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
                  (long long)gen->n_prompt_tokens, (long long)t->n_completion,
                  (long long)(gen->n_prompt_tokens + t->n_completion), (long long)t->n_cached);
}

static double rate(double n, double ms)
{
    return ms > 0 && n > 0 ? n * 1000 / ms : 0;
}

static void write_timings(struct lf_buf *out, const struct lf_generation *gen, const struct totals *t)
{
    double computed = (double)(gen->n_prompt_tokens - t->n_cached);
    lf_buf_printf(out,
                  "\"timings\":{\"queue_ms\":%.3f,\"tokenize_ms\":%.3f,\"prefill_ms\":%.3f,\"cached_tokens\":%lld,"
                  "\"decode_ms\":%.3f,\"prefill_tokens_per_second\":%.3f,\"decode_tokens_per_second\":%.3f}",
                  t->queue_ms, (double)gen->tokenize_ns / LF_NS_PER_MS, t->prefill_ms, (long long)t->n_cached,
                  t->decode_ms, rate(computed, t->prefill_ms),
                  /* the first token belongs to the prefill */
                  rate((double)(t->n_completion - gen->n_choices), t->decode_ms));
}

/* ---- the whole answer ---- */

static void write_logprobs(struct lf_buf *out, const struct lf_generation *gen, const struct lf_choice *c)
{
    lf_buf_cstr(out, ",\"logprobs\":");
    if (gen->ask.logprobs == LF_ABSENT || (gen->ask.stream && c->lp.n == 0))
        lf_buf_cstr(out, "null");
    else
        lf_logprob_text_write(out, &c->lp);
}

static void write_choice(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_choice *c = &gen->choices[idx];
    lf_buf_printf(out, "%s{\"index\":%d,", idx ? "," : "", idx);
    lf_buf_cstr(out, is_chat(gen) ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
    lf_json_write_string(out, lf_buf_view(&c->text));
    if (is_chat(gen)) lf_buf_cstr(out, ",\"refusal\":null}");
    write_logprobs(out, gen, c);
    lf_buf_printf(out, ",\"finish_reason\":\"%s\"}", c->finish);
}

void lf_openai_write_answer(struct lf_buf *out, const struct lf_generation *gen)
{
    struct totals t = add_up(gen);
    lf_buf_str(out, lf_buf_view(&gen->head));
    for (int i = 0; i < gen->n_choices; i++) write_choice(out, gen, i);
    lf_buf_cstr(out, "],");
    write_usage(out, gen, &t);
    lf_buf_char(out, ',');
    write_timings(out, gen, &t);
    lf_buf_char(out, '}');
}

/* ---- chunks ---- */

static void end_chunk(struct lf_buf *out, const struct lf_generation *gen)
{
    lf_buf_cstr(out, gen->ask.include_usage ? "],\"usage\":null}" : "]}");
}

void lf_openai_write_role(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    lf_buf_str(out, lf_buf_view(&gen->head));
    lf_buf_printf(out,
                  "{\"index\":%d,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                  "\"finish_reason\":null}",
                  idx);
    end_chunk(out, gen);
}

void lf_openai_write_text(struct lf_buf *out, const struct lf_generation *gen, int idx, struct lf_str text)
{
    lf_buf_str(out, lf_buf_view(&gen->head));
    lf_buf_printf(out, "{\"index\":%d,%s", idx, is_chat(gen) ? "\"delta\":{\"content\":" : "\"text\":");
    lf_json_write_string(out, text);
    if (is_chat(gen)) lf_buf_char(out, '}');
    write_logprobs(out, gen, &gen->choices[idx]);
    lf_buf_cstr(out, ",\"finish_reason\":null}");
    end_chunk(out, gen);
}

void lf_openai_write_finish(struct lf_buf *out, const struct lf_generation *gen, int idx, bool last)
{
    lf_buf_str(out, lf_buf_view(&gen->head));
    lf_buf_printf(out, "{\"index\":%d,%s,\"logprobs\":null,\"finish_reason\":\"%s\"}", idx,
                  is_chat(gen) ? "\"delta\":{}" : "\"text\":\"\"", gen->choices[idx].finish);
    if (!last) {
        end_chunk(out, gen);
        return;
    }
    struct totals t = add_up(gen);
    lf_buf_cstr(out, "],");
    write_timings(out, gen, &t);
    lf_buf_char(out, '}');
}

void lf_openai_write_usage(struct lf_buf *out, const struct lf_generation *gen)
{
    struct totals t = add_up(gen);
    lf_buf_str(out, lf_buf_view(&gen->head));
    lf_buf_cstr(out, "],");
    write_usage(out, gen, &t);
    lf_buf_char(out, ',');
    write_timings(out, gen, &t);
    lf_buf_char(out, '}');
}

void lf_openai_write_progress(struct lf_buf *out, const struct lf_generation *gen, const struct lf_request_state *state)
{
    lf_buf_str(out, lf_buf_view(&gen->head));
    lf_buf_printf(out,
                  "],\"prompt_progress\":{\"total\":%d,\"cached\":%d,\"processed\":%d,\"time_ms\":%.0f,"
                  "\"eta_ms\":%.0f}",
                  state->n_prompt, state->n_cached, state->n_processed, span_ms(state->submitted_ns, lf_clock_ns()),
                  (double)state->eta_ns / LF_NS_PER_MS);
    lf_buf_cstr(out, gen->ask.include_usage ? ",\"usage\":null}" : "}");
}

void lf_openai_write_nothing(struct lf_buf *out, const struct lf_generation *gen)
{
    lf_buf_str(out, lf_buf_view(&gen->head));
    lf_buf_printf(out, "{\"index\":0,%s,\"logprobs\":null,\"finish_reason\":null}",
                  is_chat(gen) ? "\"delta\":{}" : "\"text\":\"\"");
    end_chunk(out, gen);
}
