/* server/http/openai_request.c: from JSON to what was asked. The ranges of all fields are gone through over the socket,
 * in tests/e2e/test_http_requests.py; here are the values that come out. */
#include "tests/support/test.h"

#include "server/http/openai_request.h"

static const struct lf_ask_limits limits = {.max_choices = 4, .n_vocab = 100};

static enum lf_status read_as(struct lf_ask *ask, enum lf_ask_kind kind, const char *text, struct lf_api_err *err)
{
    struct lf_json json = {0};
    struct test_guarded copy = test_guarded_copy(text, strlen(text));
    assert_int_equal(lf_json_parse(&json, lf_str_from(copy.ptr, strlen(text)), &lf_json_limits_request, NULL), LF_OK);
    enum lf_status status = lf_ask_read(ask, kind, &json, &limits, err);
    lf_json_deinit(&json);
    test_guarded_free(&copy);
    return status;
}

static void defaults(void **state)
{
    (void)state;
    struct lf_ask ask;
    struct lf_api_err err;
    assert_int_equal(read_as(&ask, LF_ASK_CHAT, "{}", &err), LF_OK);
    assert_int_equal(ask.n, 1);
    assert_true(ask.max_tokens == LF_ABSENT && ask.logprobs == LF_ABSENT);
    assert_true(ask.sampling.temperature == 1 && ask.sampling.top_p == 1 && ask.sampling.min_p == 0);
    assert_true(ask.sampling.repetition_penalty == 1 && ask.sampling.presence_penalty == 0);
    assert_int_equal(ask.sampling.top_k, 0);
    assert_false(ask.stream || ask.echo || ask.ignore_eos || ask.seed_given || ask.parse_special);
    assert_true(ask.add_special_tokens && ask.add_generation_prompt);
    assert_int_equal(ask.n_stops + ask.n_stop_tokens + ask.n_unknown + ask.sampling.n_bias, 0);
    lf_ask_deinit(&ask);
}

static void a_refusal_says_what_came(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\"n\":1000}", "n: expected an integer from 1 to 128, got 1000."},
        {"{\"n\":1.5}", "got 1.5."},
        {"{\"n\":\"1\"}", "got a string."},
        {"{\"temperature\":2.00000000000000000000000000000001}", ""}, /* which is 2 */
        {"{\"temperature\":200000000000000000000000000000000}", "from 0 to 2, got another number."},
        {"{\"tools\":[1]}", "tools: not implemented, and ignoring it would change the answer."},
        {"{\"tool_choice\":\"auto\"}", "tool_choice: not implemented with this value, and"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lf_ask ask;
        struct lf_api_err err = {0};
        enum lf_status status = read_as(&ask, LF_ASK_CHAT, rows[i][0], &err);
        assert_true((status == LF_OK) == (rows[i][1][0] == '\0'));
        if (!strstr(err.message, rows[i][1])) fail_msg("\"%s\" lacks \"%s\"", err.message, rows[i][1]);
        lf_ask_deinit(&ask);
    }
}

static void values_arrive(void **state)
{
    (void)state;
    struct lf_ask ask;
    struct lf_api_err err;
    const char *text =
        "{\"temperature\":0.25,\"top_p\":0.5,\"top_k\":-1,\"n\":3,\"seed\":-9223372036854775808,"
        "\"stop\":[\"\\u00e9\",\"b\"],\"stop_token_ids\":[7,99],\"logit_bias\":{\"5\":-1.5,\"0\":100},"
        "\"max_completion_tokens\":12,\"min_tokens\":2,\"cache_salt\":\"s\\\"\",\"priority\":-3,"
        "\"logprobs\":true,\"top_logprobs\":4,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"what\":{\"deep\":[1]}}";
    assert_int_equal(read_as(&ask, LF_ASK_CHAT, text, &err), LF_OK);
    assert_true(ask.sampling.temperature == 0.25f && ask.sampling.top_p == 0.5f);
    assert_int_equal(ask.sampling.top_k, 0);
    assert_int_equal(ask.n, 3);
    assert_true(ask.seed_given && ask.seed == INT64_MIN);
    assert_int_equal(ask.n_stops, 2);
    assert_string_equal(ask.stops[0].ptr, "\xC3\xA9");
    assert_int_equal(ask.n_stop_tokens, 2);
    assert_int_equal(ask.stop_tokens[1], 99);
    assert_int_equal(ask.sampling.n_bias, 2);
    assert_int_equal(ask.sampling.bias[0].id, 5);
    assert_true(ask.sampling.bias[0].bias == -1.5f && ask.sampling.bias[1].bias == 100);
    assert_int_equal(ask.max_tokens, 12);
    assert_int_equal(ask.min_tokens, 2);
    assert_string_equal(ask.cache_salt.ptr, "s\"");
    assert_int_equal(ask.priority, -3);
    assert_int_equal(ask.logprobs, 4);
    assert_true(ask.stream && ask.include_usage);
    assert_int_equal(ask.n_unknown, 1);
    lf_ask_deinit(&ask);
}

static void refusals_name_the_field(void **state)
{
    (void)state;
    static const struct {
        enum lf_ask_kind kind;
        const char *text, *param, *code;
    } cases[] = {
        {LF_ASK_CHAT, "{\"temperature\":2.5}", "temperature", "invalid_value"},
        {LF_ASK_CHAT, "{\"temperature\":\"1\"}", "temperature", "invalid_value"},
        {LF_ASK_CHAT, "{\"n\":1.5}", "n", "invalid_value"},
        {LF_ASK_CHAT, "{\"n\":5}", "n", "invalid_value"},
        {LF_ASK_CHAT, "{\"seed\":9223372036854775808}", "seed", "invalid_value"},
        {LF_ASK_CHAT, "{\"stop_token_ids\":[100]}", "stop_token_ids", "invalid_token_id"},
        {LF_ASK_CHAT, "{\"logit_bias\":{\"100\":1}}", "logit_bias", "invalid_token_id"},
        {LF_ASK_CHAT, "{\"logit_bias\":{\"1\":101}}", "logit_bias", "invalid_value"},
        {LF_ASK_CHAT, "{\"logit_bias\":{\"\\u0031\":1}}", "logit_bias", "invalid_token_id"},
        {LF_ASK_CHAT, "{\"tools\":[1]}", "tools", "unsupported_parameter"},
        {LF_ASK_CHAT, "{\"response_format\":{\"type\":\"json_object\"}}", "response_format", "unsupported_parameter"},
        {LF_ASK_CHAT, "{\"chat_template\":\"x\"}", "chat_template", "unsupported_parameter"},
        {LF_ASK_COMPLETION, "{\"suffix\":\"x\"}", "suffix", "unsupported_parameter"},
        {LF_ASK_COMPLETION, "{\"best_of\":2}", "best_of", "unsupported_parameter"},
        {LF_ASK_COMPLETION, "{\"logprobs\":true}", "logprobs", "invalid_value"},
        {LF_ASK_COMPLETION, "{\"min_tokens\":5,\"max_tokens\":4}", "min_tokens", "invalid_value"},
        {LF_ASK_COMPLETION, "[]", "", "invalid_json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lf_ask ask;
        struct lf_api_err err = {0};
        assert_int_equal(read_as(&ask, cases[i].kind, cases[i].text, &err), LF_INVALID);
        assert_int_equal(err.status, 400);
        assert_string_equal(err.param, cases[i].param);
        assert_string_equal(err.code, cases[i].code);
        lf_ask_deinit(&ask);
    }
}

/* A list of n times the same element, in brackets. */
static char *list_of(const char *before, const char *element, int n, const char *after)
{
    struct lf_buf out;
    lf_buf_init(&out, 1 << 20);
    lf_buf_cstr(&out, before);
    for (int i = 0; i < n; i++) {
        lf_buf_cstr(&out, i ? "," : "");
        lf_buf_cstr(&out, element);
    }
    lf_buf_cstr(&out, after);
    return out.ptr;
}

static void at_each_limit_and_one_past_it(void **state)
{
    (void)state;
    static const struct {
        const char *before, *element, *after;
        int most;
    } cases[] = {
        {"{\"messages\":[", "5", "]}", LF_MESSAGES_N},
        {"{\"stop\":[", "\"5\"", "]}", LF_STOP_N},
        {"{\"stop_token_ids\":[", "5", "]}", LF_STOP_TOKENS_N},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int more = 0; more < 2; more++) {
            struct lf_ask ask;
            struct lf_api_err err;
            char *text = list_of(cases[i].before, cases[i].element, cases[i].most + more, cases[i].after);
            assert_int_equal(read_as(&ask, LF_ASK_CHAT, text, &err), more ? LF_INVALID : LF_OK);
            lf_ask_deinit(&ask);
            free(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(a_refusal_says_what_came),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(refusals_name_the_field),
        cmocka_unit_test(at_each_limit_and_one_past_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
