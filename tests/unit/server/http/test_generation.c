/* server/http/api/generation.c: what is submitted for a request, and how its tokens become text; the engine is a
 * puppet. */
#include "core/check.h"
#include "core/text_memory.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/unit/server/http/generation_rig.h"

static const struct lf_dialect fills = {.text_param = "messages", .fills_context = true, .logprobs = LF_LOGPROBS_CHAT};
static const struct lf_dialect goes_on = {
    .text_param = "prompt", .continues = true, .logprobs = LF_LOGPROBS_COMPLETION};

static int setup(void **state)
{
    (void)state;
    puppet_reset(&engine);
    memset(&err, 0, sizeof err);
    return 0;
}

static const struct lf_gen_params *submitted(int i)
{
    assert_true(i < engine.n_requests);
    return &engine.requests[i].params;
}

static void refused(int status, const char *param, const char *code)
{
    assert_int_equal(try_start(), LF_INVALID);
    assert_int_equal(err.status, status);
    assert_string_equal(err.param, param);
    assert_string_equal(err.code, code);
    assert_int_equal(puppet_n_held(&engine), 0);
}

/* ---- lengths ---- */

/* The max_tokens that is submitted for one prompt of so many tokens; -1: it is refused. */
static int64_t length_for(const struct lf_dialect *dialect, int n_prompt, int64_t max_tokens, int default_max_tokens)
{
    char text[256];
    memset(text, 'x', sizeof text);
    text[n_prompt] = 0;
    ask_for(dialect, 1, text);
    ask.ask.max_tokens = max_tokens;
    ask.params.default_max_tokens = default_max_tokens;
    if (try_start() != LF_OK) {
        assert_string_equal(err.code, "context_length_exceeded");
        assert_string_equal(err.param, dialect->text_param);
        assert_int_equal(err.status, 400);
        assert_int_equal(err.n_prompt_tokens, n_prompt);
        return -1;
    }
    int64_t n = submitted(engine.n_requests - 1)->max_tokens;
    end();
    return n;
}

static void an_answer_is_as_long_as_asked_for_or_as_there_is_room(void **state)
{
    (void)state;
    engine.ctx = 100;
    assert_int_equal(length_for(&fills, 10, LF_ABSENT, 50), 90);
    assert_int_equal(length_for(&goes_on, 10, LF_ABSENT, 50), 50);
    assert_int_equal(length_for(&goes_on, 10, LF_ABSENT, 500), 90);
    assert_int_equal(length_for(&goes_on, 10, LF_ABSENT, 0), 1); /* one at least */
    assert_int_equal(length_for(&fills, 99, LF_ABSENT, 50), 1);
    assert_int_equal(length_for(&fills, 100, LF_ABSENT, 50), -1);
    assert_int_equal(err.max_tokens_allowed, 0);
    assert_int_equal(length_for(&goes_on, 10, 0, 50), 0);
    assert_int_equal(length_for(&goes_on, 10, 90, 50), 90);
    assert_int_equal(length_for(&goes_on, 10, 91, 50), -1);
    assert_int_equal(err.n_ctx, 100);
    assert_int_equal(err.max_tokens_allowed, 90);
    engine.n_blocks = 1; /* a pool smaller than the context */
    assert_int_equal(length_for(&fills, 10, LF_ABSENT, 50), LF_KV_BLOCK_TOKENS - 10);
    assert_int_equal(length_for(&fills, LF_KV_BLOCK_TOKENS, 0, 50), 0);
    assert_int_equal(length_for(&fills, LF_KV_BLOCK_TOKENS + 1, 0, 50), -1);
    assert_int_equal(err.n_ctx, LF_KV_BLOCK_TOKENS);
}

static void no_more_tokens_than_the_answer_may_have_can_be_demanded(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "abc");
    ask.ask.max_tokens = ask.ask.min_tokens = 20;
    start();
    assert_int_equal(submitted(0)->min_tokens, 20);
    end();
    ask_for(&goes_on, 1, "abc");
    ask.ask.max_tokens = 20;
    ask.ask.min_tokens = 21;
    refused(400, "min_tokens", "invalid_value");
}

/* ---- what is submitted ---- */

static void nobody(void *ctx)
{
    (void)ctx;
}

static void each_choice_is_a_request_of_its_group(void **state)
{
    (void)state;
    const char *const prompts[] = {"abc", "defgh"};
    ask_for_all(&goes_on, 2, prompts, 2);
    ask.ask.logprobs = 3;
    ask.ask.priority = -2;
    ask.ask.ignore_eos = true;
    ask.ask.stop_tokens[0] = 77;
    ask.ask.n_stop_tokens = 1;
    ask.ask.sampling.top_k = 5;
    ask.ask.cache_salt = LF_STR("pepper");
    ask.tenant = (struct lf_tenant){.id = 9, .by_key = true};
    memset(ask.tenant.salt, 's', sizeof ask.tenant.salt);
    int32_t marks[] = {2, 3};
    ask.prompts.items[0].marks = marks;
    ask.prompts.items[0].n_marks = 2;
    ask.params.deadline_ns = 12345;
    ask.params.notify = nobody;
    ask.params.notify_ctx = &ask;
    start();
    assert_int_equal(engine.n_requests, 4);
    for (int i = 0; i < 4; i++) {
        const struct lf_gen_params *p = submitted(i);
        assert_int_equal(p->n_prompt, i < 2 ? 3 : 5);
        assert_ptr_equal(p->marks, i < 2 ? marks : NULL);
        assert_int_equal(p->n_marks, i < 2 ? 2 : 0);
        assert_ptr_equal(p->leader, i % 2 ? &engine.requests[i - 1] : NULL);
        assert_int_equal(p->n_group, i ? 0 : 4);
        assert_int_equal(p->group_tokens, i ? 0 : (3 + 5) * 2);
        assert_ptr_equal(p->first, i ? &engine.requests[0] : NULL);
        assert_int_equal(p->sampling.seed, 1000 + i);
        assert_int_equal(p->sampling.n_logprobs, 3);
        assert_int_equal(p->sampling.top_k, 5);
        assert_int_equal(p->n_prompt_logprobs, -1);
        assert_int_equal(p->priority, -2);
        assert_true(p->ignore_eos && p->n_stop_token_ids == 1 && p->tenant == 9 && p->deadline_ns == 12345);
        assert_true(p->notify == nobody && p->notify_ctx == &ask && p->memory == NULL);
        assert_int_equal(p->salt_bytes, LF_SHA256_BYTES + 6);
        assert_memory_equal(engine.requests[i].salt,
                            "ssssssssssssssssssssssssssssssss"
                            "pepper",
                            LF_SHA256_BYTES + 6);
        assert_int_equal(gen->prompts.items[i / 2].ids.n, 0); /* copied by the engine, and not needed any more */
    }
    assert_int_equal(gen->n_prompt_tokens, 8);
    assert_int_equal(gen->n_choices, 4);
    end();
    ask_for(&goes_on, 2, "abc");
    ask.ask.seed_given = true;
    ask.ask.seed = 5;
    start();
    assert_int_equal(submitted(4)->sampling.seed, 5);
    assert_int_equal(submitted(5)->sampling.seed, 6);
    assert_int_equal(submitted(4)->sampling.n_logprobs, -1);
    assert_int_equal(submitted(4)->salt_bytes, LF_SHA256_BYTES);
    end();
}

/* -8 is the soonest that a request can say; a key's own limit is counted from there. */
static void a_keys_limits_go_with_its_requests(void **state)
{
    (void)state;
    static const struct {
        int held_back, asked, given;
    } cases[] = {{0, -8, -8}, {0, 8, 8}, {6, -8, -2}, {6, -2, -2}, {6, -1, -1}, {16, 0, 8}};
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        puppet_reset(&engine);
        ask_for(&goes_on, 1, "abc");
        ask.tenant.limits = (struct lf_key_limits){.held_back = cases[i].held_back,
                                                   .requests = {.in_flight = 5, .tokens_per_minute = 9}};
        ask.ask.priority = cases[i].asked;
        start();
        assert_int_equal(submitted(0)->priority, cases[i].given);
        assert_int_equal(submitted(0)->limits.in_flight, 5);
        assert_int_equal(submitted(0)->limits.tokens_per_minute, 9);
        end();
    }
}

/* Where the request does not say, the server's option does. */
static void who_asks_for_proposed_tokens_is_heard_first(void **state)
{
    (void)state;
    static const struct {
        int64_t asked;
        int option, given, predicted; /* where the request predicts its answer */
    } cases[] = {{LF_ABSENT, 8, 8, 8},
                 {LF_ABSENT, LF_SPECULATION_OFF, LF_SPECULATION_OFF, LF_SPECULATION_AUTO},
                 {LF_ABSENT, LF_SPECULATION_AUTO, LF_SPECULATION_AUTO, LF_SPECULATION_AUTO},
                 {LF_SPECULATION_OFF, 8, LF_SPECULATION_OFF, LF_SPECULATION_OFF},
                 {LF_SPECULATION_AUTO, LF_SPECULATION_OFF, LF_SPECULATION_AUTO, LF_SPECULATION_AUTO},
                 {16, 8, 16, 16}};
    static const int32_t ids[] = {1, 2};
    for (size_t i = 0; i < 2 * LF_N_ELEMS(cases); i++) {
        int n_predicted = i % 2 ? 2 : 0, given = n_predicted ? cases[i / 2].predicted : cases[i / 2].given;
        puppet_reset(&engine);
        ask_for(&goes_on, 2, "abc");
        ask.ask.speculate = cases[i / 2].asked;
        ask.ask.prediction_ids = n_predicted ? ids : NULL;
        ask.ask.n_prediction_ids = n_predicted;
        ask.params.speculate = cases[i / 2].option;
        start();
        for (int k = 0; k < 2; k++) {
            assert_int_equal(submitted(k)->speculate, given);
            assert_int_equal(submitted(k)->n_prediction, n_predicted);
            assert_ptr_equal(submitted(k)->prediction, n_predicted ? ids : NULL);
        }
        end();
    }
}

static void an_echo_asks_for_the_prompts_own_probabilities_and_keeps_its_ids(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "abc");
    ask.ask.echo = true;
    start();
    assert_int_equal(submitted(0)->n_prompt_logprobs, -1);
    assert_int_equal(gen->prompts.items[0].ids.n, 3);
    end();
    ask_for(&goes_on, 1, "abc");
    ask.ask.echo = true;
    ask.ask.logprobs = 0;
    start();
    assert_int_equal(submitted(1)->n_prompt_logprobs, 0);
    assert_int_equal(submitted(1)->sampling.n_logprobs, 0);
    end();
}

static void a_request_has_so_many_answers_at_most(void **state)
{
    (void)state;
    const char *prompts[LF_PROMPTS_N];
    for (int i = 0; i < LF_PROMPTS_N; i++) prompts[i] = "x";
    for (int by_key = 0; by_key < 2; by_key++) {
        int most = by_key ? LF_IN_FLIGHT_PER_KEY_N : LF_PROMPTS_N;
        puppet_reset(&engine);
        ask_for_all(&goes_on, 2, prompts, most / 2);
        ask.tenant.by_key = by_key;
        start();
        assert_int_equal(engine.n_requests, most);
        end();
        puppet_reset(&engine);
        ask_for_all(&goes_on, most + 1, prompts, 1);
        ask.tenant.by_key = by_key;
        refused(400, "n", "too_many_choices");
        assert_int_equal(engine.n_requests, 0);
    }
}

/* What the engine says, and what the client hears. */
static void a_refusal_of_the_engine_has_its_status(void **state)
{
    (void)state;
    static const struct {
        enum lf_status why;
        int status;
        const char *param, *code;
        int retry_after_s;
    } cases[] = {{LF_LIMIT, 400, "prompt", "context_length_exceeded", 0},
                 {LF_INVALID, 400, "prompt", "invalid_value", 0},
                 {LF_UNSUPPORTED, 400, "allowed_token_ids", "invalid_value", 0},
                 {LF_FULL, 429, "", "queue_full", 7},
                 {LF_QUOTA, 429, "", "rate_limit_exceeded", 7},
                 {LF_SHUTDOWN, 503, "", "draining", 0},
                 {LF_DEVICE, 503, "", "engine_failed", 0},
                 {LF_NO_MEMORY, 503, "", "text_memory_full", 1},
                 {LF_CORRUPT, 500, "", "internal_error", 0}};
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        puppet_reset(&engine);
        engine.refusal = cases[i].why;
        engine.refuse_from = 1; /* the second of two choices: the first one goes too */
        ask_for(&goes_on, 2, "abc");
        refused(cases[i].status, cases[i].param, cases[i].code);
        assert_int_equal(engine.n_requests, 1);
        assert_int_equal(err.retry_after_s, cases[i].retry_after_s);
        if (cases[i].why == LF_INVALID) assert_string_equal(err.message, "the puppet says no");
    }
}

static void a_full_queue_is_tried_again_within_a_minute(void **state)
{
    (void)state;
    static const int said[] = {0, 1, 60, 61}, told[] = {1, 1, 60, 60};
    for (int i = 0; i < 4; i++) {
        engine.refusal = LF_FULL;
        engine.refuse_from = 0;
        engine.retry_after_s = said[i];
        ask_for(&goes_on, 1, "abc");
        refused(429, "", "queue_full");
        assert_int_equal(err.retry_after_s, told[i]);
    }
}

/* ---- pulling ---- */

static struct lf_request *running(void)
{
    start();
    return &engine.requests[engine.n_requests - 1];
}

/* All there is by now, shown. */
static void shows(const char *want)
{
    struct lf_choice *c = &gen->choices[0];
    char got[256] = "";
    lf_choice_pull(gen, c, false);
    size_t n = c->parts.text.len - c->parts.shown;
    assert_true(n < sizeof got);
    if (n) memcpy(got, c->parts.text.ptr + c->parts.shown, n);
    assert_string_equal(got, want);
    lf_parts_skip(&c->parts);
    assert_int_equal(c->parts.text.len, 0);
}

static void tokens_become_text_as_they_come(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "abc");
    struct lf_request *r = running();
    struct lf_choice *c = &gen->choices[0];
    shows("");
    puppet_say(r, "Hi \xC3");
    shows("Hi "); /* half a code point is kept */
    assert_int_equal(c->n_read, 4);
    assert_int_equal(c->offset, 3);
    puppet_say(r, "\xA9!");
    shows("\xC3\xA9!");
    assert_int_equal(c->offset, 5);
    assert_null(c->finish);
    puppet_say(r, "\xC3");
    puppet_end(r, LF_FINISH_LENGTH, LF_OK);
    shows("\xEF\xBF\xBD");
    assert_string_equal(c->finish, "length");
    assert_true(c->finished_ns > 0);
    int64_t at_ns = c->finished_ns;
    lf_choice_pull(gen, c, false);
    lf_choice_rewind(gen, c);
    shows("Hi \xC3\xA9!\xEF\xBF\xBD"); /* all of it once more */
    assert_true(c->finished_ns == at_ns);
    assert_false(r->cancelled);
    end();
}

static void one_piece_is_pulled_at_a_time_for_a_stream(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "abc");
    struct lf_request *r = running();
    struct lf_choice *c = &gen->choices[0];
    puppet_say(r, "\xC3\xA9x");
    puppet_end(r, LF_FINISH_STOP, LF_OK);
    lf_choice_pull(gen, c, true);
    assert_int_equal(c->n_read, 2);
    assert_int_equal(c->parts.text.len, 2);
    lf_choice_pull(gen, c, true);
    assert_int_equal(c->n_read, 2); /* not before that is shown */
    lf_parts_skip(&c->parts);
    lf_choice_pull(gen, c, true);
    assert_int_equal(c->n_read, 3);
    assert_null(c->finish); /* the end comes by itself */
    lf_parts_skip(&c->parts);
    lf_choice_pull(gen, c, true);
    assert_string_equal(c->finish, "stop");
    end();
}

static void a_stop_string_ends_the_request_and_is_not_shown(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "abc");
    stop_at(LF_STR("xyz"));
    struct lf_request *r = running();
    puppet_say(r, "abxy");
    shows("ab"); /* what may become a stop is held */
    puppet_say(r, "w");
    shows("xyw");
    puppet_say(r, "1xyz2");
    shows("1");
    assert_string_equal(gen->choices[0].finish, "stop");
    assert_int_equal(gen->choices[0].n_read, 9);
    assert_true(r->cancelled);
    end();
    ask_for(&goes_on, 1, "abc");
    stop_at(LF_STR("xyz"));
    r = running();
    puppet_say(r, "xy");
    shows("");
    puppet_end(r, LF_FINISH_LENGTH, LF_OK);
    shows("xy"); /* it did not become one */
    assert_string_equal(gen->choices[0].finish, "length");
    assert_false(r->cancelled);
    end();
}

/* Half a code point at the end is given out as a whole one, and that may be what was to stop at. */
static void a_stop_string_may_come_with_the_end(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "abc");
    stop_at(LF_STR("\xEF\xBF\xBD"));
    struct lf_request *r = running();
    puppet_say(r, "a\xC3");
    puppet_end(r, LF_FINISH_LENGTH, LF_OK);
    shows("a");
    assert_string_equal(gen->choices[0].finish, "stop");
    end();
}

static void below_min_tokens_nothing_stops(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "abc");
    stop_at(LF_STR("x"));
    ask.ask.min_tokens = 2;
    struct lf_request *r = running();
    puppet_say(r, "xxx");
    shows("xx");
    assert_string_equal(gen->choices[0].finish, "stop");
    assert_int_equal(gen->choices[0].n_read, 3);
    end();
}

static void what_ends_badly_fails_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        enum lf_finish finish;
        enum lf_status why;
        int status;
        const char *code;
    } cases[] = {{LF_FINISH_CANCELLED, LF_OK, 503, "draining"},
                 {LF_FINISH_ERROR, LF_SHUTDOWN, 503, "draining"},
                 {LF_FINISH_ERROR, LF_CANCELLED, 503, "draining"},
                 {LF_FINISH_ERROR, LF_DEVICE, 500, "engine_failed"},
                 {LF_FINISH_ERROR, LF_CORRUPT, 500, "broken_logits"},
                 {LF_FINISH_ERROR, LF_LIMIT, 400, "schema_too_large"},
                 {LF_FINISH_ERROR, LF_UNSUPPORTED, 400, "unsupported_schema"},
                 {LF_FINISH_ERROR, LF_NO_MEMORY, 503, "text_memory_full"},
                 {LF_FINISH_ERROR, LF_INVALID, 500, "internal_error"}};
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        puppet_reset(&engine);
        ask_for(&goes_on, 2, "abc");
        (void)running();
        says(0, "ok");
        puppet_end(&engine.requests[0], cases[i].finish, cases[i].why);
        lf_choice_pull(gen, &gen->choices[0], false);
        assert_true(gen->failed);
        assert_int_equal(gen->err.status, cases[i].status);
        assert_string_equal(gen->err.code, cases[i].code);
        assert_null(gen->choices[0].finish);
        ends(1, LF_FINISH_STOP);
        lf_choice_pull(gen, &gen->choices[1], false);
        assert_null(gen->choices[1].finish); /* the others are left */
        end();
    }
}

static void text_for_which_there_is_no_memory_fails_the_generation(void **state)
{
    (void)state;
    struct lf_text_memory *memory;
    ask_for(&goes_on, 1, "abc");
    struct lf_request *r = running();
    assert_int_equal(lf_text_memory_create(&memory, 1, NULL), LF_OK);
    gen->choices[0].parts.text.memory = memory;
    puppet_say(r, "x");
    lf_choice_pull(gen, &gen->choices[0], false);
    assert_true(gen->failed);
    assert_int_equal(gen->err.status, 503);
    assert_string_equal(gen->err.code, "text_memory_full");
    assert_int_equal(gen->err.retry_after_s, 1);
    end();
    lf_text_memory_destroy(memory);
}

/* It is large, so that the slabs which are kept for later do not count. */
static void a_text_that_nobody_has_seen_gives_its_memory_back(void **state)
{
    (void)state;
    static const char text[1 << 20];
    struct lf_text_memory *memory;
    struct lf_text_memory_state now;
    ask_for(&goes_on, 1, "abc");
    (void)running();
    assert_int_equal(lf_text_memory_create(&memory, 1 << 25, NULL), LF_OK);
    gen->choices[0].parts.text.memory = memory;
    lf_buf_append(&gen->choices[0].parts.text, text, sizeof text);
    lf_text_memory_snapshot(memory, &now);
    assert_true(now.used_bytes >= sizeof text);
    end();
    lf_text_memory_snapshot(memory, &now);
    assert_true(now.used_bytes < sizeof text);
    lf_text_memory_destroy(memory);
}

/* The text of an echoed token that cannot be kept does not go missing silently. */
static void an_echo_for_which_there_is_no_memory_fails_the_generation(void **state)
{
    (void)state;
    struct lf_text_memory *memory;
    ask_for(&goes_on, 1, "abc");
    ask.ask.echo = true;
    ask.ask.logprobs = 0;
    (void)running();
    assert_int_equal(lf_text_memory_create(&memory, 1, NULL), LF_OK);
    gen->memory = memory;
    lf_choice_pull(gen, &gen->choices[0], false);
    gen->memory = NULL;
    assert_true(gen->failed);
    assert_string_equal(gen->err.code, "text_memory_full");
    end();
    lf_text_memory_destroy(memory);
    lf_generation_destroy(NULL);
}

/* ---- echo ---- */

static void an_echo_begins_with_the_prompt_as_it_was_given(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "h\xC3\xA9");
    ask.ask.echo = true;
    struct lf_request *r = running();
    assert_int_equal(gen->choices[0].offset, 2);
    puppet_say(r, "!");
    shows("h\xC3\xA9!");
    end();
    ask_for(&goes_on, 1, "xy");
    ask.ask.echo = true;
    ask.prompts.items[0].is_text = false; /* ids: what they stand for */
    ask.prompts.items[0].text = LF_STR("");
    assert_int_equal(lf_ids_push(&ask.prompts.items[0].ids, FAKE_EOS), LF_OK); /* which is no text */
    r = running();
    puppet_end(r, LF_FINISH_LENGTH, LF_OK);
    shows("xy");
    assert_string_equal(gen->choices[0].finish, "length");
    end();
}

static const char *const marker_parts[] = {"text", "reasoning"};

static void shows_parts(struct lf_choice *c, const char *want)
{
    char got[256] = "";
    struct lf_part part;
    lf_choice_pull(gen, c, false);
    while (lf_parts_next(&c->parts, &part)) {
        snprintf(got + strlen(got), sizeof got - strlen(got), "[%s %.*s]", marker_parts[part.kind], (int)part.bytes.len,
                 part.bytes.ptr);
        lf_parts_shown(&c->parts, &part);
    }
    assert_string_equal(got, want);
}

/* Before what stop strings look at and before the model's reasoning, each time that the answer is gone through. */
static void an_answer_begins_with_the_assistant_s_last_message(void **state)
{
    (void)state;
    static const struct lf_dialect talks = {.text_param = "messages", .talks = true, .logprobs = LF_LOGPROBS_CHAT};
    for (int reasons = 0; reasons < 2; reasons++) {
        ask_for(&talks, 1, "the whole prompt");
        ask.ask.echo_final = true;
        ask.ask.logprobs = 0;
        ask.prompts.items[0].text = LF_STR("begun STOP ");
        ask.params.format = lf_answer_format_by_name(LF_STR("think"));
        ask.params.reasoning = reasons;
        stop_at(LF_STR("STOP"));
        struct lf_request *r = running();
        struct lf_choice *c = &gen->choices[0];
        assert_int_equal(r->params.n_prompt_logprobs, -1);
        assert_true(c->echo_done && lf_parts_any(&c->parts)); /* there before the engine has begun */
        puppet_say(r, "<think>so</think>end STOP");
        for (int pass = 0; pass < 2; pass++) {
            shows_parts(c, reasons ? "[text begun STOP ][reasoning so][text end ]"
                                   : "[text begun STOP <think>so</think>end ]");
            assert_int_equal(c->lp.n, 25);
            assert_string_equal(c->finish, "stop");
            lf_choice_rewind(gen, c);
        }
        end();
    }
}

/* The prompt's log-probabilities come first, as far as the engine has them. */
static void tokens_wait_for_the_echoed_prompts_probabilities(void **state)
{
    (void)state;
    ask_for(&goes_on, 1, "abcd");
    ask.ask.echo = true;
    ask.ask.logprobs = 0;
    struct lf_request *r = running();
    struct lf_choice *c = &gen->choices[0];
    assert_false(c->echo_done);
    shows("abcd");
    assert_int_equal(c->n_echoed, 1); /* the first one has none to wait for */
    assert_int_equal(c->lp.n, 1);
    assert_false(c->echo_done);
    r->state.n_prompt_logprobs = 3;
    shows("");
    assert_int_equal(c->n_echoed, 3);
    assert_int_equal(c->echo_offset, 3);
    assert_false(c->echo_done);
    r->state.n_prompt_logprobs = 4;
    puppet_say(r, "e");
    shows("e");
    assert_true(c->echo_done);
    assert_int_equal(c->lp.n, 5);
    struct lf_buf out;
    lf_buf_init(&out, 4096);
    lf_logprob_text_write(&out, &c->lp);
    assert_string_equal(out.ptr, "{\"tokens\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"token_logprobs\":[null,-1,-2,-3,-0.5],"
                                 "\"top_logprobs\":[null,{\"b\":-1},{\"c\":-2},{\"d\":-3},{\"e\":-0.5}],"
                                 "\"text_offset\":[0,1,2,3,4]}");
    lf_buf_deinit(&out);
    end();
}

/* An engine that has gone on, or ended, without them publishes no more. */
static void an_echo_ends_where_no_more_probabilities_come(void **state)
{
    (void)state;
    for (int ended = 0; ended < 2; ended++) {
        puppet_reset(&engine);
        ask_for(&goes_on, 1, "abcd");
        ask.ask.echo = true;
        ask.ask.logprobs = 0;
        struct lf_request *r = running();
        r->state.n_prompt_logprobs = 2;
        if (ended)
            puppet_end(r, LF_FINISH_LENGTH, LF_OK);
        else
            puppet_say(r, "e");
        shows(ended ? "abcd" : "abcde");
        assert_true(gen->choices[0].echo_done);
        assert_int_equal(gen->choices[0].n_echoed, 2);
        assert_int_equal(gen->choices[0].finish != NULL, ended);
        end();
    }
}

/* For a stream they come in portions. */
static void a_long_echo_is_pulled_in_portions(void **state)
{
    (void)state;
    static char prompt[4000];
    memset(prompt, 1, sizeof prompt - 1); /* each of them takes nine bytes in the list: "\\u0001", */
    engine.ctx = 5000;
    ask_for(&goes_on, 1, prompt);
    ask.ask.echo = true;
    ask.ask.logprobs = 0;
    ask.ask.max_tokens = 1;
    struct lf_request *r = running();
    struct lf_choice *c = &gen->choices[0];
    r->state.n_prompt_logprobs = (int)sizeof prompt - 1;
    puppet_say(r, "e");
    static const int portions[] = {1821, 1821, 3999 - 2 * 1821};
    for (int i = 0; i < 3; i++) {
        assert_false(c->echo_done);
        lf_choice_pull(gen, c, true);
        assert_int_equal(c->lp.n, portions[i]);
        lf_logprob_text_clear(&c->lp);
    }
    assert_true(c->echo_done && c->n_read == 0); /* the text of the prompt is to be shown first */
    assert_int_equal(c->n_echoed, sizeof prompt - 1);
    end();
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup(fn, setup)
    const struct CMUnitTest tests[] = {
        CASE(an_answer_is_as_long_as_asked_for_or_as_there_is_room),
        CASE(no_more_tokens_than_the_answer_may_have_can_be_demanded),
        CASE(each_choice_is_a_request_of_its_group),
        CASE(a_keys_limits_go_with_its_requests),
        CASE(who_asks_for_proposed_tokens_is_heard_first),
        CASE(an_echo_asks_for_the_prompts_own_probabilities_and_keeps_its_ids),
        CASE(a_request_has_so_many_answers_at_most),
        CASE(a_refusal_of_the_engine_has_its_status),
        CASE(a_full_queue_is_tried_again_within_a_minute),
        CASE(tokens_become_text_as_they_come),
        CASE(one_piece_is_pulled_at_a_time_for_a_stream),
        CASE(a_stop_string_ends_the_request_and_is_not_shown),
        CASE(a_stop_string_may_come_with_the_end),
        CASE(below_min_tokens_nothing_stops),
        CASE(what_ends_badly_fails_with_its_reason),
        CASE(text_for_which_there_is_no_memory_fails_the_generation),
        CASE(a_text_that_nobody_has_seen_gives_its_memory_back),
        CASE(an_echo_for_which_there_is_no_memory_fails_the_generation),
        CASE(an_echo_begins_with_the_prompt_as_it_was_given),
        CASE(an_answer_begins_with_the_assistant_s_last_message),
        CASE(tokens_wait_for_the_echoed_prompts_probabilities),
        CASE(an_echo_ends_where_no_more_probabilities_come),
        CASE(a_long_echo_is_pulled_in_portions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
