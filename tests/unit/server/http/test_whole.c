/* server/http/api/whole.c: when a whole answer begins, and what is in it, in the forms of both OpenAI endpoints. */
#include "core/check.h"
#include "core/json.h"
#include "core/text_memory.h"
#include "server/http/api/whole.h"
#include "tests/unit/server/http/generation_rig.h"

static struct lf_reply reply;

/* How the detokenizers began, in order: c where the text goes on, - where it is one of its own. */
static char began[64];
void __real_lf_detok_init(struct lf_detok *detok, const struct lf_tokenizer *tok, bool with_specials, bool continues);
void __wrap_lf_detok_init(struct lf_detok *detok, const struct lf_tokenizer *tok, bool with_specials, bool continues);
void __wrap_lf_detok_init(struct lf_detok *detok, const struct lf_tokenizer *tok, bool with_specials, bool continues)
{
    size_t n = strlen(began);
    assert_true(n + 1 < sizeof began);
    if (!with_specials) began[n] = continues ? 'c' : '-';
    __real_lf_detok_init(detok, tok, with_specials, continues);
}

static void prepare(const struct lf_dialect *dialect, int n, const char *prompt)
{
    puppet_reset(&engine);
    memset(began, 0, sizeof began);
    ask_for(dialect, n, prompt);
    lf_reply_init(&reply);
}

static void start_whole(void)
{
    start();
    assert_int_equal(lf_whole_create(&answer, gen), LF_OK);
    assert_false(answer->is_stream);
}

static void finish(void)
{
    end_answer();
    lf_reply_deinit(&reply);
}

static bool begins(void)
{
    return answer->begin(answer, &reply);
}

/* The whole text is this, up to usage and timings; it comes in windows. */
static void answers(const char *want)
{
    struct lf_buf all;
    struct lf_json json;
    enum lf_fill state;
    lf_buf_init(&all, 1 << 20);
    do {
        state = fill_window();
        lf_buf_str(&all, lf_buf_view(&window));
        assert_true(window.len < LF_ANSWER_WINDOW_BYTES + 8192);
    } while (state == LF_FILL_SOME);
    assert_int_equal(state, LF_FILL_END);
    assert_int_equal(lf_json_parse(&json, lf_buf_view(&all), &lf_json_limits_request, NULL), LF_OK);
    lf_json_deinit(&json);
    size_t n = strlen(want);
    assert_true(all.len >= n);
    all.ptr[n] = 0;
    assert_string_equal(all.ptr, want);
    lf_buf_deinit(&all);
}

static void it_begins_when_every_choice_has_ended(void **state)
{
    (void)state;
    prepare(&lf_dialect_completions, 2, "abc");
    start_whole();
    assert_true(answer->patient);
    assert_false(begins());
    runs_to_its_length(0, "x\"y");
    assert_false(begins());
    ends(1, LF_FINISH_STOP);
    assert_true(begins());
    assert_int_equal(reply.status, 200);
    answers("{\"id\":\"cmpl-abc\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":["
            "{\"index\":0,\"text\":\"x\\\"y\",\"logprobs\":null,\"finish_reason\":\"length\"},"
            "{\"index\":1,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"}],"
            "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":3,\"total_tokens\":6,"
            "\"prompt_tokens_details\":{\"cached_tokens\":0}},\"timings\":{");
    finish();
}

/* The engine does not know of stop strings: they are looked for while it runs. */
static void a_stop_string_ends_it_while_the_engine_goes_on(void **state)
{
    (void)state;
    prepare(&lf_dialect_chat, 1, "abc");
    stop_at(LF_STR("END"));
    start_whole();
    assert_false(answer->patient); /* each token may be the last */
    says(0, "wait for the E");
    assert_false(begins());
    assert_int_equal(gen->choices[0].parts.text.len, 0); /* what was looked at is not held */
    says(0, "ND and more");
    assert_true(begins());
    assert_true(engine.requests[0].cancelled);
    answers("{\"id\":\"chatcmpl-abc\",\"object\":\"chat.completion\",\"created\":7,\"model\":\"m\",\"choices\":["
            "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"wait for the \",\"refusal\":null},"
            "\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":16,");
    finish();
}

/* One that has ended by its stop string stays so while others go on. */
static void choices_end_one_after_the_other(void **state)
{
    (void)state;
    prepare(&lf_dialect_chat, 2, "abc");
    stop_at(LF_STR("END"));
    start_whole();
    says(0, "aEND");
    assert_false(begins());
    says(1, "b");
    assert_false(begins());
    says(1, "END");
    assert_true(begins());
    finish();
}

static void stop_strings_do_not_end_it_before_the_engine_does(void **state)
{
    (void)state;
    prepare(&lf_dialect_chat, 1, "abc");
    stop_at(LF_STR("END"));
    start_whole();
    says(0, "no such thing, EN");
    assert_false(begins());
    ends(0, LF_FINISH_LENGTH);
    assert_true(begins());
    answers("{\"id\":\"chatcmpl-abc\",\"object\":\"chat.completion\",\"created\":7,\"model\":\"m\",\"choices\":["
            "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"no such thing, EN\",\"refusal\":null},"
            "\"logprobs\":null,\"finish_reason\":\"length\"}],");
    finish();
}

static void an_end_that_is_no_good_is_an_error_with_a_status(void **state)
{
    (void)state;
    static const struct {
        enum lf_finish finish;
        enum lf_status why;
        int status;
        const char *code;
    } cases[] = {{LF_FINISH_CANCELLED, LF_OK, 503, "draining"}, {LF_FINISH_ERROR, LF_DEVICE, 500, "engine_failed"}};
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        prepare(&lf_dialect_completions, 2, "abc");
        start_whole();
        says(1, "x");
        puppet_end(&engine.requests[1], cases[i].finish, cases[i].why);
        assert_true(begins()); /* whatever the other one does */
        assert_int_equal(reply.status, cases[i].status);
        assert_int_equal(reply.retry_after_s, 0);
        lf_buf_char(&reply.body, 0);
        assert_non_null(strstr(reply.body.ptr, cases[i].code));
        finish();
    }
}

static void log_probabilities_are_lists_beside_the_text(void **state)
{
    (void)state;
    prepare(&lf_dialect_completions, 1, "abc");
    ask.ask.logprobs = 0;
    start_whole();
    runs_to_its_length(0, "x\xC3\xA9y");
    assert_true(begins());
    answers("{\"id\":\"cmpl-abc\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":["
            "{\"index\":0,\"text\":\"x\xC3\xA9y\",\"logprobs\":{\"tokens\":[\"x\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\","
            "\"y\"],\"token_logprobs\":[-0.5,-0.5,-0.5,-0.5],\"top_logprobs\":[{\"x\":-0.5},{\"bytes:\\\\xc3\":-0.5},"
            "{\"bytes:\\\\xa9\":-0.5},{\"y\":-0.5}],\"text_offset\":[0,1,1,2]},\"finish_reason\":\"length\"}],");
    finish();
    prepare(&lf_dialect_chat, 2, "abc");
    ask.ask.logprobs = 0;
    start_whole();
    runs_to_its_length(0, "x");
    ends(1, LF_FINISH_STOP);
    assert_true(begins());
    answers("{\"id\":\"chatcmpl-abc\",\"object\":\"chat.completion\",\"created\":7,\"model\":\"m\",\"choices\":["
            "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"x\",\"refusal\":null},\"logprobs\":"
            "{\"content\":[{\"token\":\"x\",\"logprob\":-0.5,\"bytes\":[120],\"top_logprobs\":[]}],\"refusal\":null},"
            "\"finish_reason\":\"length\"},"
            "{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":"
            "{\"content\":[],\"refusal\":null},\"finish_reason\":\"stop\"}],");
    finish();
}

/* The prompt's first, of which the first has none; offsets are of the whole text. */
static void an_echo_has_the_prompts_log_probabilities_too(void **state)
{
    (void)state;
    prepare(&lf_dialect_completions, 1, "a\xC3\xA9");
    ask.ask.logprobs = 0;
    ask.ask.echo = true;
    start_whole();
    engine.requests[0].state.n_prompt_logprobs = 3;
    runs_to_its_length(0, "xy");
    assert_true(begins());
    answers("{\"id\":\"cmpl-abc\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":["
            "{\"index\":0,\"text\":\"a\xC3\xA9xy\",\"logprobs\":{\"tokens\":[\"a\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\","
            "\"x\",\"y\"],\"token_logprobs\":[null,-1,-2,-0.5,-0.5],\"top_logprobs\":[null,{\"bytes:\\\\xc3\":-1},"
            "{\"bytes:\\\\xa9\":-2},{\"x\":-0.5},{\"y\":-0.5}],\"text_offset\":[0,1,1,2,3]},"
            "\"finish_reason\":\"length\"}],");
    finish();
    prepare(&lf_dialect_completions, 1, "ab"); /* an engine that had no more of them */
    ask.ask.logprobs = 0;
    ask.ask.echo = true;
    start_whole();
    runs_to_its_length(0, "x");
    assert_true(begins());
    answers("{\"id\":\"cmpl-abc\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":["
            "{\"index\":0,\"text\":\"abx\",\"logprobs\":{\"tokens\":[\"a\",\"x\"],\"token_logprobs\":[null,-0.5],"
            "\"top_logprobs\":[null,{\"x\":-0.5}],\"text_offset\":[0,2]},\"finish_reason\":\"length\"}],");
    finish();
}

/* Control tokens are no text, so offsets do not count them; each list begins as the text did. */
static void offsets_are_those_of_the_text(void **state)
{
    (void)state;
    prepare(&lf_dialect_completions, 1, "ab");
    ask.ask.logprobs = 0;
    start_whole();
    says(0, "x");
    puppet_say_id(&engine.requests[0], 257);
    runs_to_its_length(0, "y");
    assert_true(begins());
    memset(began, 0, sizeof began);
    answers("{\"id\":\"cmpl-abc\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":["
            "{\"index\":0,\"text\":\"xy\",\"logprobs\":{\"tokens\":[\"x\",\"</s>\",\"y\"],"
            "\"token_logprobs\":[-0.5,-0.5,-0.5],\"top_logprobs\":[{\"x\":-0.5},{\"</s>\":-0.5},{\"y\":-0.5}],"
            "\"text_offset\":[0,1,1]},\"finish_reason\":\"length\"}],");
    assert_string_equal(began, "ccccc"); /* of four lists, and behind the last */
    finish();
    prepare(&lf_dialect_completions, 1, "a");
    ask.ask.logprobs = 0;
    ask.ask.echo = true;
    start_whole();
    runs_to_its_length(0, "x");
    assert_true(begins());
    memset(began, 0, sizeof began);
    answers("{\"id\"");
    assert_string_equal(began, "-c-c-c-c-"); /* the prompt is a text of its own, what follows it goes on */
    finish();
}

/* Whoever sends it is told by the buffer's status. */
static void memory_that_runs_out_on_the_way_is_told(void **state)
{
    (void)state;
    for (int in_list = 0; in_list < 2; in_list++) {
        struct lf_text_memory *memory;
        assert_int_equal(lf_text_memory_create(&memory, 1, NULL), LF_OK);
        prepare(&lf_dialect_completions, 1, "ab");
        if (in_list) ask.ask.logprobs = 0;
        start_whole();
        runs_to_its_length(0, "x");
        assert_true(begins());
        if (in_list) {
            lf_choice_pull(gen, &gen->choices[0], true); /* the text is there, a token of a list is not */
            gen->memory = memory;
        } else {
            lf_buf_deinit(&gen->choices[0].parts.text);
            gen->choices[0].parts.text.memory = memory;
        }
        (void)fill_window();
        assert_int_equal(window.status, LF_NO_MEMORY);
        gen->memory = NULL;
        finish();
        lf_text_memory_destroy(memory);
    }
}

static void a_long_answer_comes_in_windows(void **state)
{
    (void)state;
    static char prompt[4000], want[4100 + 300];
    memset(prompt, 'x', sizeof prompt - 1);
    prepare(&lf_dialect_completions, 3, prompt);
    ask.ask.echo = true;
    start_whole();
    for (int i = 0; i < 3; i++) ends(i, LF_FINISH_LENGTH);
    assert_true(begins());
    assert_int_equal(fill_window(), LF_FILL_SOME);
    assert_in_range(window.len, LF_ANSWER_WINDOW_BYTES, LF_ANSWER_WINDOW_BYTES + 4096);
    assert_int_equal(fill_window(), LF_FILL_END);
    finish();
    prepare(&lf_dialect_completions, 1, prompt);
    ask.ask.echo = true;
    start_whole();
    ends(0, LF_FINISH_LENGTH);
    assert_true(begins());
    snprintf(want, sizeof want,
             "{\"id\":\"cmpl-abc\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"choices\":["
             "{\"index\":0,\"text\":\"%s\",\"logprobs\":null,\"finish_reason\":\"length\"}],",
             prompt);
    answers(want);
    finish();
}

/* Answers that differ by a byte, around those whose last piece but one fills it: one of them must be cut just there. */
static void a_window_that_is_just_full_is_given_out(void **state)
{
    (void)state;
    static char prompt[4096];
    int n_just_full = 0;
    for (int n = 2 * 3990; n < 2 * 4090; n++) {
        memset(prompt, 'x', sizeof prompt);
        prompt[n / 2] = 0;
        prepare(&lf_dialect_completions, 2, prompt);
        ask.ask.echo = true;
        start_whole();
        if (n % 2) says(1, "y");
        for (int i = 0; i < 2; i++) ends(i, LF_FINISH_LENGTH);
        assert_true(begins());
        if (fill_window() == LF_FILL_SOME) n_just_full += window.len == LF_ANSWER_WINDOW_BYTES;
        finish();
    }
    assert_true(n_just_full > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_begins_when_every_choice_has_ended),
        cmocka_unit_test(a_stop_string_ends_it_while_the_engine_goes_on),
        cmocka_unit_test(choices_end_one_after_the_other),
        cmocka_unit_test(stop_strings_do_not_end_it_before_the_engine_does),
        cmocka_unit_test(an_end_that_is_no_good_is_an_error_with_a_status),
        cmocka_unit_test(log_probabilities_are_lists_beside_the_text),
        cmocka_unit_test(an_echo_has_the_prompts_log_probabilities_too),
        cmocka_unit_test(offsets_are_those_of_the_text),
        cmocka_unit_test(memory_that_runs_out_on_the_way_is_told),
        cmocka_unit_test(a_long_answer_comes_in_windows),
        cmocka_unit_test(a_window_that_is_just_full_is_given_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
