/* What the three dialects print, event by event and piece by piece: server/http/api/{openai_json,v1_*}.c. */
#include "core/check.h"
#include "server/http/api/openai_json.h"
#include "tests/support/stopped_clock.h"
#include "tests/unit/server/http/generation_rig.h"

static struct lf_buf out;

/* A piece of an answer that has only text. */
static const struct lf_part *text_of(const char *text)
{
    static struct lf_part part;
    part = (struct lf_part){.kind = LF_ANSWER_TEXT, .begins = true, .bytes = lf_str_c(text)};
    return &part;
}

static void prepare_all(const struct lf_dialect *dialect, int n, const char *const *prompts, int n_prompts)
{
    now_ns = ms(1000);
    puppet_reset(&engine);
    ask_for_all(dialect, n, prompts, n_prompts);
    lf_buf_init(&out, 1 << 20);
}

static void prepare(const struct lf_dialect *dialect, int n)
{
    const char *prompt = "abcde";
    prepare_all(dialect, n, &prompt, 1);
}

static void start_printing(void)
{
    start();
    gen->tokenize_ns = ms(3);
}

static void finish(void)
{
    end();
    lf_buf_deinit(&out);
}

/* The first choice's answer has this text, which is shown. */
static void show(const struct lf_printer *p, const char *text)
{
    struct lf_parts *parts = &gen->choices[0].parts;
    struct lf_part part;
    lf_buf_cstr(&parts->text, text);
    assert_true(lf_parts_next(parts, &part));
    p->delta(&out, gen, 0, &part);
    lf_parts_shown(parts, &part);
}

/* What has been printed since it was looked at last. */
static void printed(const char *want)
{
    lf_buf_char(&out, 0);
    assert_string_equal(out.ptr, want);
    lf_buf_clear(&out);
}

/* Request i: queued 10 ms, prefilled in 20, and so many ms of decoding for its tokens. */
static void runs(int i, const char *text, int n_cached, int64_t decode_ms, const char *reason)
{
    struct lf_request *r = &engine.requests[i];
    puppet_say(r, text);
    r->state.n_cached = n_cached;
    r->state.submitted_ns = ms(100);
    r->state.started_ns = ms(110);
    r->state.first_token_ns = ms(130);
    r->state.finished_ns = ms(130 + decode_ms);
    gen->choices[i].n_read = r->state.n_tokens;
    gen->choices[i].finish = reason;
    gen->n_finish_shown++;
}

/* ---- the OpenAI forms, as a stream ---- */

#define CMPL "data: {\"id\":\"cmpl-abc\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":["
#define CHAT                                                                                                           \
    "data: {\"id\":\"chatcmpl-abc\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":["
#define TIMINGS(decoded, rate)                                                                                         \
    "\"timings\":{\"queue_ms\":10.000,\"tokenize_ms\":3.000,\"prefill_ms\":20.000,\"cached_tokens\":2,\"decode_"       \
    "ms\":" decoded ",\"prefill_tokens_per_second\":150.000,\"decode_tokens_per_second\":" rate

static void completions_come_in_chunks(void **state)
{
    (void)state;
    const struct lf_printer *p = lf_dialect_completions.stream;
    prepare(&lf_dialect_completions, 1);
    start_printing();
    p->begin(&out, gen);
    p->begin(&out, gen); /* its head is made anew */
    printed("");
    p->delta(&out, gen, 0, text_of("say \"x\""));
    printed(CMPL "{\"index\":0,\"text\":\"say \\\"x\\\"\",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    p->nothing(&out, gen);
    printed(CMPL "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    runs(0, "xyz", 2, 40, "length");
    p->finish(&out, gen, 0);
    printed(CMPL
            "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}]," TIMINGS(
                "40.000", "50.000") "}}\n\n");
    p->end(&out, gen);
    printed("data: [DONE]\n\n");
    finish();
}

static void chat_comes_in_chunks_with_a_role_first(void **state)
{
    (void)state;
    const struct lf_printer *p = lf_dialect_chat.stream;
    prepare(&lf_dialect_chat, 2);
    start_printing();
    p->begin(&out, gen);
    printed(CHAT "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                 "\"finish_reason\":null}]}\n\n" CHAT
                 "{\"index\":1,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                 "\"finish_reason\":null}]}\n\n");
    p->delta(&out, gen, 1, text_of("x"));
    printed(CHAT "{\"index\":1,\"delta\":{\"content\":\"x\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    p->nothing(&out, gen);
    printed(CHAT "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    runs(1, "x", 2, 0, "stop");
    p->finish(&out, gen, 1);
    printed(
        CHAT
        "{\"index\":1,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null}]}\n\n"); /* not
                                                                                                                  the
                                                                                                                  last
                                                                                                                */
    runs(0, "x", 2, 0, "stop");
    p->finish(&out, gen, 0);
    printed(CHAT
            "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null}]," TIMINGS(
                "0.000", "0.000") "}}\n\n");
    finish();
}

static void usage_has_a_chunk_of_its_own(void **state)
{
    (void)state;
    const struct lf_printer *p = lf_dialect_completions.stream;
    prepare(&lf_dialect_completions, 1);
    ask.ask.include_usage = true;
    start_printing();
    p->begin(&out, gen);
    p->delta(&out, gen, 0, text_of("x"));
    printed(CMPL "{\"index\":0,\"text\":\"x\",\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n");
    runs(0, "x", 2, 40, "length");
    engine.requests[0].state.timed_out = true;
    p->finish(&out, gen, 0);
    printed(CMPL "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}],"
                 "\"usage\":null}\n\n");
    p->end(&out, gen);
    printed(CMPL
            "],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1,\"total_tokens\":6,"
            "\"prompt_tokens_details\":{\"cached_tokens\":2}}," TIMINGS("40.000", "0.000") ",\"timed_out\":true}}\n\n"
                                                                                           "data: [DONE]\n\n");
    finish();
}

static void progress_and_errors_are_events(void **state)
{
    (void)state;
    const struct lf_printer *p = lf_dialect_completions.stream;
    struct lf_request_state st = {
        .n_prompt = 50, .n_cached = 10, .n_processed = 20, .submitted_ns = ms(400), .eta_ns = ms(1500)};
    for (int usage = 0; usage < 2; usage++) {
        prepare(&lf_dialect_completions, 1);
        ask.ask.include_usage = usage;
        start_printing();
        p->begin(&out, gen);
        p->progress(&out, gen, &st);
        printed(usage ? CMPL "],\"prompt_progress\":{\"total\":50,\"cached\":10,\"processed\":20,\"time_ms\":600,"
                             "\"eta_ms\":1500},\"usage\":null}\n\n"
                      : CMPL "],\"prompt_progress\":{\"total\":50,\"cached\":10,\"processed\":20,\"time_ms\":600,"
                             "\"eta_ms\":1500}}\n\n");
        finish();
    }
    (void)!lf_refuse(&err, 500, NULL, "engine_failed", "No.");
    lf_buf_init(&out, 4096);
    p->error(&out, &err);
    printed(
        "data: "
        "{\"error\":{\"message\":\"No.\",\"type\":\"server_error\",\"param\":null,\"code\":\"engine_failed\"}}\n\n");
    lf_dialect_chat.whole->error(&out, &err);
    printed("{\"error\":{\"message\":\"No.\",\"type\":\"server_error\",\"param\":null,\"code\":\"engine_failed\"}}");
    lf_buf_deinit(&out);
}

static void log_probabilities_stand_in_the_chunk_of_their_text(void **state)
{
    (void)state;
    const struct lf_sampled s = {.id = 'x', .logprob = -0.5f};
    prepare(&lf_dialect_chat, 1);
    ask.ask.logprobs = 0;
    start_printing();
    lf_dialect_chat.stream->begin(&out, gen);
    lf_buf_clear(&out);
    lf_dialect_chat.stream->delta(&out, gen, 0, text_of("x"));
    printed(CHAT "{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    lf_logprob_text_add(&gen->choices[0].lp, &s, 'x', 0);
    lf_dialect_chat.stream->delta(&out, gen, 0, text_of("x"));
    printed(CHAT
            "{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":{\"content\":[{\"token\":\"x\",\"logprob\":-0.5,"
            "\"bytes\":[120],\"top_logprobs\":[]}],\"refusal\":null},\"finish_reason\":null}]}\n\n");
    finish();
}

/* ---- totals ---- */

/* Of several prompts and answers: what was cached counts once a prompt, times are from the first to the last. */
static void totals_are_of_all_choices(void **state)
{
    (void)state;
    const char *const prompts[] = {"abcde", "fgh"};
    prepare_all(&lf_dialect_completions, 2, prompts, 2);
    start_printing();
    runs(0, "x", 2, 40, "length");
    runs(1, "xy", 5, 90, "length");
    runs(2, "xyz", 3, 10, "length");
    runs(3, "xyzw", 1, 0, "stop");
    engine.requests[2].state.first_token_ns = ms(120);
    engine.requests[3].state.timed_out = true;
    struct lf_totals t = lf_totals_of(gen);
    assert_int_equal(t.n_prompt, 8);
    assert_int_equal(t.n_completion, 10);
    assert_int_equal(t.n_cached, 5);
    assert_true(t.timed_out);
    assert_true(t.queue_ms == 10 && t.prefill_ms == 20 && t.decode_ms == 100);
    lf_openai_write_timings(&out, gen, &t);
    printed("\"timings\":{\"queue_ms\":10.000,\"tokenize_ms\":3.000,\"prefill_ms\":20.000,\"cached_tokens\":5,"
            "\"decode_ms\":100.000,\"prefill_tokens_per_second\":150.000,\"decode_tokens_per_second\":60.000,"
            "\"timed_out\":true}");
    finish();
}

/* Of all choices together, in usage under OpenAI's names. */
static void proposed_tokens_are_counted_where_there_were_some(void **state)
{
    (void)state;
    prepare(&lf_dialect_completions, 2);
    start_printing();
    runs(0, "xyz", 2, 40, "length");
    runs(1, "xyz", 2, 40, "length");
    engine.requests[0].state.n_proposed = 4;
    engine.requests[0].state.n_accepted = 2;
    engine.requests[1].state.n_proposed = 3;
    lf_dialect_completions.whole->end(&out, gen);
    printed(",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6,\"total_tokens\":11,"
            "\"prompt_tokens_details\":{\"cached_tokens\":2},\"completion_tokens_details\":{\"reasoning_tokens\":0,"
            "\"accepted_prediction_tokens\":2,\"rejected_prediction_tokens\":5}}," TIMINGS(
                "40.000", "100.000") ",\"proposed_tokens\":7,\"accepted_tokens\":2}}");
    finish();
}

static void usage_has_no_predictions_where_nothing_was_proposed(void **state)
{
    (void)state;
    prepare(&lf_dialect_chat, 1);
    start_printing();
    gen->has_reasoning = true;
    runs(0, "xyz", 2, 40, "length");
    gen->choices[0].n_reasoning = 2;
    lf_dialect_chat.whole->end(&out, gen);
    printed(",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8,"
            "\"prompt_tokens_details\":{\"cached_tokens\":2},\"completion_tokens_details\":{\"reasoning_tokens\":2}}"
            "," TIMINGS("40.000", "50.000") "}}");
    finish();
}

/* A stop string ends an answer before the engine hears of it; without a token the end is all there is. */
static void an_end_is_the_engines_or_ours(void **state)
{
    (void)state;
    prepare(&lf_dialect_completions, 1);
    start_printing();
    runs(0, "xy", 0, 40, "stop");
    engine.requests[0].state.finished_ns = 0;
    gen->choices[0].finished_ns = ms(135);
    assert_true(lf_totals_of(gen).decode_ms == 5);
    engine.requests[0].state.first_token_ns = 0;
    struct lf_totals t = lf_totals_of(gen);
    assert_true(t.decode_ms == 0 && t.prefill_ms == 25);
    engine.requests[0].state.started_ns = 0; /* it never started */
    t = lf_totals_of(gen);
    assert_true(t.queue_ms == 0 && t.prefill_ms == 0);
    finish();
}

/* ---- Anthropic's form ---- */

static void messages_come_as_named_events(void **state)
{
    (void)state;
    const struct lf_printer *p = lf_dialect_messages.stream;
    prepare(&lf_dialect_messages, 1);
    start_printing();
    p->begin(&out, gen);
    printed(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_abc\",\"type\":\"message\","
        "\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
        "\"usage\":{\"input_tokens\":5,\"output_tokens\":0}}}\n\n"
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
        "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
    p->delta(&out, gen, 0, text_of("\"x\""));
    printed("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
            "\"delta\":{\"type\":\"text_delta\",\"text\":\"\\\"x\\\"\"}}\n\n");
    p->nothing(&out, gen);
    printed("event: ping\ndata: {\"type\":\"ping\"}\n\n");
    runs(0, "xyz", 2, 40, "length");
    p->finish(&out, gen, 0);
    printed("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\","
            "\"stop_sequence\":null},\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":0,"
            "\"cache_read_input_tokens\":2,\"output_tokens\":3}}\n\n");
    p->end(&out, gen);
    printed("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    assert_null(p->progress);
    finish();
}

static void a_whole_message_says_why_it_stopped(void **state)
{
    (void)state;
    const struct lf_printer *p = lf_dialect_messages.whole;
    static const struct {
        const char *finish;
        int matched;
        const char *want;
    } cases[] = {{"stop", -1, "\"stop_reason\":\"end_turn\",\"stop_sequence\":null"},
                 {"stop", 1, "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"b\""},
                 {"stop", 0, "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"a\""}};
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        char want[640];
        prepare(&lf_dialect_messages, 1);
        stop_at(LF_STR("a"));
        stop_at(LF_STR("b"));
        start_printing();
        runs(0, "x", 0, 1, cases[i].finish);
        gen->choices[0].stop.matched = cases[i].matched;
        p->begin(&out, gen);
        p->open(&out, gen, 0);
        show(p, "say \"x\"");
        p->shut(&out, gen, 0);
        p->finish(&out, gen, 0);
        p->end(&out, gen);
        snprintf(want, sizeof want,
                 "{\"id\":\"msg_abc\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":["
                 "{\"type\":\"text\",\"text\":\"say \\\"x\\\"\"}],%s,\"usage\":{\"input_tokens\":5,"
                 "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":1},\"timings\":{"
                 "\"queue_ms\":10.000,"
                 "\"tokenize_ms\":3.000,\"prefill_ms\":20.000,\"cached_tokens\":0,\"decode_ms\":1.000,"
                 "\"prefill_tokens_per_second\":250.000,\"decode_tokens_per_second\":0.000}}",
                 cases[i].want);
        printed(want);
        finish();
    }
}

static void errors_of_messages_have_their_types(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *type;
    } cases[] = {{400, "invalid_request_error"}, {401, "authentication_error"},  {403, "permission_error"},
                 {404, "not_found_error"},       {405, "invalid_request_error"}, {413, "request_too_large"},
                 {429, "rate_limit_error"},      {499, "invalid_request_error"}, {500, "api_error"},
                 {503, "overloaded_error"}};
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        char want[256];
        (void)!lf_refuse(&err, cases[i].status, NULL, "code", "a \"b\"");
        lf_buf_init(&out, 4096);
        lf_dialect_messages.whole->error(&out, &err);
        snprintf(want, sizeof want, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"a \\\"b\\\"\"}}",
                 cases[i].type);
        printed(want);
        lf_dialect_messages.stream->error(&out, &err);
        snprintf(want, sizeof want,
                 "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"a \\\"b\\\"\"}}\n\n",
                 cases[i].type);
        printed(want);
        lf_buf_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_come_in_chunks),
        cmocka_unit_test(chat_comes_in_chunks_with_a_role_first),
        cmocka_unit_test(usage_has_a_chunk_of_its_own),
        cmocka_unit_test(progress_and_errors_are_events),
        cmocka_unit_test(log_probabilities_stand_in_the_chunk_of_their_text),
        cmocka_unit_test(totals_are_of_all_choices),
        cmocka_unit_test(proposed_tokens_are_counted_where_there_were_some),
        cmocka_unit_test(usage_has_no_predictions_where_nothing_was_proposed),
        cmocka_unit_test(an_end_is_the_engines_or_ours),
        cmocka_unit_test(messages_come_as_named_events),
        cmocka_unit_test(a_whole_message_says_why_it_stopped),
        cmocka_unit_test(errors_of_messages_have_their_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
