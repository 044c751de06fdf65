/* server/http/api/openai_request.c: from JSON to what was asked. The ranges of all fields are gone through over the
 * socket, in tests/e2e/test_http_requests.py; here are the values that come out. */
#include "tests/support/test.h"

#include <time.h>

#include "core/check.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/unsupported_fields.h"

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

/* What a request says wins, one by one. */
static void defaults_of_the_model(void **state)
{
    (void)state;
    static const char *const keys[] = {"temperature", "top_p", "min_p", "repetition_penalty", "top_k"};
    const struct lf_sampling_defaults own = {
        .temperature = 0.5, .top_p = 0.25, .min_p = 0.125, .repetition_penalty = 1.5, .top_k = 7};
    const struct lf_ask_limits with = {.max_choices = 4, .n_vocab = 100, .sampling = &own};
    for (int said = -1; said < 5; said++) {
        struct lf_json json = {0};
        struct lf_ask ask;
        struct lf_api_err err;
        char text[64] = "{}";
        if (said >= 0) snprintf(text, sizeof text, "{\"%s\":1}", keys[said]);
        assert_int_equal(lf_json_parse(&json, lf_str_c(text), &lf_json_limits_request, NULL), LF_OK);
        assert_int_equal(lf_ask_read(&ask, LF_ASK_CHAT, &json, &with, &err), LF_OK);
        const struct lf_sampling *s = &ask.sampling;
        const double got[] = {(double)s->temperature, (double)s->top_p, (double)s->min_p, (double)s->repetition_penalty,
                              s->top_k};
        const double want[] = {0.5, 0.25, 0.125, 1.5, 7};
        for (int i = 0; i < 5; i++) assert_true(got[i] == (i == said ? 1 : want[i]));
        lf_ask_deinit(&ask);
        lf_json_deinit(&json);
    }
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
    assert_false(ask.stream || ask.echo || ask.ignore_eos || ask.seed_given);
    assert_true(ask.add_special_tokens && ask.parse_special && ask.add_generation_prompt);
    assert_int_equal(ask.n_stops + ask.n_stop_tokens + ask.n_unknown + ask.sampling.n_bias, 0);
    lf_ask_deinit(&ask);
}

static void a_refusal_says_what_came(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\"n\":1000}", "n: expected an integer from 1 to 128, got 1000."},
        {"{\"n\":1.5}", "got 1.5."},
        {"{\"n\":\"1\"}", "got the string \"1\"."},
        {"{\"n\":[1,2]}", "got an array of 2."},
        {"{\"n\":{}}", "got an object."},
        {"{\"speculate\":17}", "speculate: expected auto, off, true, false or an integer from 0 to 16, got 17."},
        {"{\"n\":true}", "got true."},
        {"{\"stream\":1}", "stream: expected true or false, got 1."},
        {"{\"model\":17}", "model: expected a string, got 17."},
        {"{\"seed\":1e30}", "seed: expected an integer of 64 bits, got 1e30."},
        {"{\"stop_token_ids\":[1,-2]}", "expected a token id from 0 to 99, got -2."},
        {"{\"logit_bias\":{\"x\":1}}", "expected token ids from 0 to 99, got the string \"x\"."},
        {"{\"logit_bias\":{\"1\":101}}", "numbers from -100 to 100, got 101."},
        {"{\"messages\":[{\"role\":\"user\",\"content\":7}]}",
         "messages[0].content: expected a string or an array of text "
         "parts, got 7."},
        {"{\"messages\":[{\"role\":\"bot\",\"content\":\"\"}]}", "assistant or tool, got the string \"bot\"."},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[5]}]}", "objects with a type, got 5."},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "document and file are understood, got the string \"image_url\"."},
        {"{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"document\",\"name\":\"a\"}]}]}",
         "document and file are understood, got the string \"document\"."},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"document\",\"name\":\"a\"}]}]}",
         "There is no document \"a\""},
        {"[1,2,3]", "The body must be a JSON object, got an array of 3."},
        {"12", "The body must be a JSON object, got 12."},
        {"{\"temperature\":2.00000000000000000000000000000001}", ""}, /* which is 2 */
        {"{\"temperature\":200000000000000000000000000000000}", "from 0 to 2, got 200000000000000000000000000000000."},
        {"{\"tools\":[1]}", "tools: this model's chat template has no tools."},
        {"{\"tool_choice\":\"required\"}", "tool_choice: only together with tools."},
        {"{\"functions\":[1]}", "functions: not implemented; here that is tools."},
        {"{\"function_call\":\"auto\"}", "function_call: not implemented; here that is tool_choice."},
        {"{\"num_predict\":5}",
         "num_predict: not implemented, and ignoring it would change the answer; here that is max_tokens."},
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
        "\"logprobs\":true,\"top_logprobs\":4,\"stream\":true,\"stream_options\":{\"include_usage\":true,"
        "\"continuous_usage_stats\":true,\"include_obfuscation\":false},"
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

static void tokens_are_proposed_as_a_request_says(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int64_t expected; /* LF_ABSENT: as the server's option has it; INT64_MAX: refused */
    } cases[] = {
        {"\"auto\"", LF_SPECULATION_AUTO},
        {"true", LF_SPECULATION_AUTO},
        {"\"off\"", LF_SPECULATION_OFF},
        {"false", LF_SPECULATION_OFF},
        {"0", LF_SPECULATION_OFF},
        {"1", 1},
        {"16", 16},
        {"null", LF_ABSENT},
        {"17", INT64_MAX},
        {"-1", INT64_MAX},
        {"2.5", INT64_MAX},
        {"\"on\"", INT64_MAX},
        {"\"\"", INT64_MAX},
        {"\"8\"", INT64_MAX},
        {"[8]", INT64_MAX},
        {"{}", INT64_MAX},
    };
    for (size_t i = 0; i < 2 * LF_N_ELEMS(cases); i++) {
        struct lf_ask ask;
        struct lf_api_err err = {0};
        char text[64];
        int64_t expected = cases[i / 2].expected;
        snprintf(text, sizeof text, "{\"speculate\":%s}", cases[i / 2].value);
        enum lf_status status = read_as(&ask, i % 2 ? LF_ASK_CHAT : LF_ASK_COMPLETION, text, &err);
        assert_int_equal(status, expected == INT64_MAX ? LF_INVALID : LF_OK);
        if (status == LF_OK)
            assert_true(ask.speculate == expected);
        else
            assert_string_equal(err.param, "speculate");
        lf_ask_deinit(&ask);
    }
}

static void a_prediction_is_a_text_or_parts_of_one(void **state)
{
    (void)state;
    static const struct {
        const char *value, *text; /* NULL: refused … */
        const char *param;        /* … as this */
    } cases[] = {
        {"{\"type\":\"content\",\"content\":\"\\u00e9x\"}", "\xC3\xA9x", NULL},
        {"{\"type\":\"content\",\"content\":\"\"}", "", NULL},
        {"{\"type\":\"content\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}",
         "a\nb", NULL},
        {"null", "", NULL},
        {"{\"type\":\"content\"}", NULL, "prediction.content"},
        {"{\"type\":\"content\",\"content\":5}", NULL, "prediction.content"},
        {"{\"type\":\"content\",\"content\":[{\"type\":\"document\",\"name\":\"a\"}]}", NULL, "prediction.content"},
        {"{\"type\":\"text\",\"content\":\"a\"}", NULL, "prediction"},
        {"{\"content\":\"a\"}", NULL, "prediction"},
        {"\"a\"", NULL, "prediction"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_ask ask;
        struct lf_api_err err = {0};
        char text[160];
        snprintf(text, sizeof text, "{\"prediction\":%s}", cases[i].value);
        enum lf_status status = read_as(&ask, LF_ASK_CHAT, text, &err);
        assert_int_equal(status, cases[i].text ? LF_OK : LF_INVALID);
        if (cases[i].text) {
            assert_int_equal(ask.prediction.len, strlen(cases[i].text));
            assert_memory_equal(ask.prediction.len ? ask.prediction.ptr : "", cases[i].text, ask.prediction.len);
        } else {
            assert_string_equal(err.param, cases[i].param);
        }
        lf_ask_deinit(&ask);
    }
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
        {LF_ASK_COMPLETION, "{\"allowed_token_ids\":[1,100]}", "allowed_token_ids", "invalid_token_id"},
        {LF_ASK_CHAT, "{\"allowed_token_ids\":[]}", "allowed_token_ids", "invalid_value"},
        {LF_ASK_CHAT, "{\"allowed_token_ids\":[5],\"guided_choice\":[\"a\"]}", "allowed_token_ids", "invalid_value"},
        {LF_ASK_CHAT, "{\"bad_words\":\"a\"}", "bad_words", "invalid_value"},
        {LF_ASK_CHAT, "{\"bad_words\":[\"\"]}", "bad_words", "invalid_value"},
        {LF_ASK_COMPLETION, "{\"bad_words\":[\"a\",5]}", "bad_words", "invalid_value"},
        {LF_ASK_CHAT, "{\"logit_bias\":{\"1\":101}}", "logit_bias", "invalid_value"},
        {LF_ASK_CHAT, "{\"logit_bias\":{\"\\u0031\":1}}", "logit_bias", "invalid_token_id"},
        {LF_ASK_CHAT, "{\"logit_bias\":{\"\":1}}", "logit_bias", "invalid_token_id"},
        {LF_ASK_CHAT, "{\"logit_bias\":{\"0000000001\":1}}", "logit_bias", "invalid_token_id"},
        {LF_ASK_CHAT, "{\"logit_bias\":{\"18446744073709551617\":1}}", "logit_bias", "invalid_token_id"}, /* 2^64 + 1 */
        {LF_ASK_CHAT, "{\"tools\":[1]}", "tools", "unsupported_parameter"},
        {LF_ASK_CHAT, "{\"guided_grammar\":\"x\"}", "guided_grammar", "unsupported_parameter"},
        {LF_ASK_CHAT, "{\"chat_template\":\"x\"}", "chat_template", "unsupported_parameter"},
        {LF_ASK_COMPLETION, "{\"suffix\":\"x\"}", "suffix", "unsupported_parameter"},
        {LF_ASK_COMPLETION, "{\"best_of\":2}", "best_of", "unsupported_parameter"},
        {LF_ASK_CHAT, "{\"best_of\":2}", "best_of", "unsupported_parameter"},
        {LF_ASK_CHAT, "{\"n\":2,\"best_of\":1}", "best_of", "unsupported_parameter"},
        {LF_ASK_CHAT, "{\"logit_bias\":[[1,-1]]}", "logit_bias", "invalid_value"},
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

/* They are not copied: the request's JSON has to stay. */
static void lists_of_tokens_stay_in_the_request(void **state)
{
    (void)state;
    struct lf_json json = {0};
    struct lf_ask ask;
    struct lf_api_err err;
    int64_t id = 0;
    assert_int_equal(lf_json_parse(&json, LF_STR("{\"tokens\":[7,99]}"), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_ask_read(&ask, LF_ASK_DETOKENIZE, &json, &limits, &err), LF_OK);
    assert_int_equal(lf_json_type(ask.tokens), LF_JSON_ARRAY);
    assert_int_equal(lf_json_len(ask.tokens), 2);
    assert_true(lf_json_int64(lf_json_first(ask.tokens), &id));
    assert_int_equal(id, 7);
    lf_ask_deinit(&ask);
    lf_json_deinit(&json);
}

static const enum lf_ask_kind kinds[] = {LF_ASK_COMPLETION, LF_ASK_CHAT, LF_ASK_TOKENIZE, LF_ASK_DETOKENIZE};

/* Reads {"name":value}; a refusal must be the one that names the field. */
static bool is_taken(enum lf_ask_kind kind, const char *name, const char *value)
{
    char text[256];
    struct lf_ask ask;
    struct lf_api_err err = {0};
    snprintf(text, sizeof text, "{\"%s\":%s}", name, value);
    bool taken = read_as(&ask, kind, text, &err) == LF_OK;
    if (!taken && (err.status != 400 || strcmp(err.param, name) != 0 || strcmp(err.code, "unsupported_parameter") != 0))
        fail_msg("%s: %d %s %s", text, err.status, err.param, err.code);
    if (taken && ask.n_unknown) fail_msg("%s: nobody knows it", text);
    lf_ask_deinit(&ask);
    return taken;
}

static void a_field_without_effect_here_is_refused_unless_it_asks_for_none(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        unsigned neutral;
    } values[] = {
        {"null", ~0u},
        {"false", LF_NEUTRAL_FALSE},
        {"true", LF_NEUTRAL_TRUE},
        {"0", LF_NEUTRAL_ZERO},
        {"0.0", LF_NEUTRAL_ZERO},
        {"1", LF_NEUTRAL_ONE},
        {"1.0", LF_NEUTRAL_ONE},
        {"-1", LF_NEUTRAL_MINUS_ONE},
        {"\"\"", LF_NEUTRAL_EMPTY},
        {"[]", LF_NEUTRAL_EMPTY},
        {"{}", LF_NEUTRAL_EMPTY},
        {"\"none\"", LF_NEUTRAL_DISABLED},
        {"\"disabled\"", LF_NEUTRAL_DISABLED},
        {"5", 0},
        {"0.5", 0},
        {"1e300", 0},
        {"\"x\"", 0},
        {"[1]", 0},
        {"[[]]", 0},
        {"{\"a\":null}", 0},
    };
    assert_true(lf_unsupported_openai.n > 150);
    for (int i = 0; i < lf_unsupported_openai.n; i++) {
        const struct lf_unsupported_field *f = &lf_unsupported_openai.rows[i];
        assert_true(f->asks != 0);
        for (size_t k = 0; k < LF_N_ELEMS(kinds); k++) {
            for (size_t v = 0; (f->asks & kinds[k]) && v < LF_N_ELEMS(values); v++) {
                bool expected = values[v].value[0] == 'n' || (f->neutral & (values[v].neutral | LF_NEUTRAL_ANY));
                if (is_taken(kinds[k], f->name, values[v].value) != expected)
                    fail_msg("%s: %s was %s", f->name, values[v].value, expected ? "refused" : "taken");
            }
        }
    }
}

/* What clients have met; the table must not lose one of these. */
static void fields_that_would_change_the_answer_are_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned asks;
        const char *name, *refused, *taken;
    } rows[] = {
        {LF_ASK_CHAT, "prompt", "\"x\"", "\"\""},
        {LF_ASK_COMPLETION, "messages", "[{}]", "[]"},
        {LF_ASK_CHAT | LF_ASK_COMPLETION, "enable_thinking", "false", "null"},
        {LF_ASK_CHAT, "thinking", "{\"type\":\"enabled\"}", "null"},
        {LF_ASK_CHAT, "think", "true", "null"},
        {LF_ASK_CHAT, "reasoning", "{\"effort\":\"high\"}", "{}"},
        {LF_ASK_CHAT, "include_reasoning", "null", "false"},
        {LF_ASK_CHAT | LF_ASK_COMPLETION, "num_predict", "5", "null"},
        {LF_ASK_CHAT, "system", "\"be brief\"", "\"\""},
        {LF_ASK_CHAT | LF_ASK_COMPLETION, "lora", "[{\"id\":0}]", "[]"},
        {LF_ASK_CHAT | LF_ASK_COMPLETION, "adapter", "\"x\"", "\"\""},
        {LF_ASK_TOKENIZE, "with_pieces", "true", "false"},
        {LF_ASK_TOKENIZE, "return_token_strs", "true", "false"},
        {LF_ASK_CHAT, "format", "\"json\"", "\"\""},
        {LF_ASK_CHAT, "options", "{\"num_predict\":1}", "{}"},
        {LF_ASK_CHAT, "kv_transfer_params", "{\"a\":1}", "{}"},
        {LF_ASK_CHAT | LF_ASK_COMPLETION, "cache_prompt", "null", "false"},
        {LF_ASK_CHAT | LF_ASK_COMPLETION, "keep_alive", "null", "\"5m\""},
        {LF_ASK_COMPLETION, "truncate", "100", "false"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        for (size_t k = 0; k < LF_N_ELEMS(kinds); k++) {
            if (!(rows[i].asks & kinds[k])) continue;
            if (strcmp(rows[i].refused, "null") != 0 && is_taken(kinds[k], rows[i].name, rows[i].refused))
                fail_msg("%s: %s was taken", rows[i].name, rows[i].refused);
            assert_true(is_taken(kinds[k], rows[i].name, rows[i].taken));
        }
    }
}

/* A field that one endpoint implements is not refused there by the table, and no row is written twice. */
static void no_field_is_in_two_rows(void **state)
{
    (void)state;
    for (int i = 0; i < lf_unsupported_openai.n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(lf_unsupported_openai.rows[i].name, lf_unsupported_openai.rows[k].name) == 0)
                assert_int_equal(lf_unsupported_openai.rows[i].asks & lf_unsupported_openai.rows[k].asks, 0);
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

static void a_name_counts_after_unescaping(void **state)
{
    (void)state;
    struct lf_ask ask;
    struct lf_api_err err;
    const char *text =
        "{\"\\u006e\":3,\"n\\u0075\":5,\"\":1,\"m\":{},\"ma\":1,\"max_tokens_\":1,\"\\u006d\\u0061x_tokens\":7}";
    assert_int_equal(read_as(&ask, LF_ASK_CHAT, text, &err), LF_OK);
    assert_int_equal(ask.n, 3);
    assert_int_equal(ask.max_tokens, 7);
    assert_int_equal(ask.n_unknown, 5);
    lf_ask_deinit(&ask);
    char *escaped = list_of("{\"", "\\u0061", 300, "\":1}"); /* longer than any field's name */
    assert_int_equal(read_as(&ask, LF_ASK_CHAT, escaped, &err), LF_OK);
    assert_int_equal(ask.n_unknown, 1);
    lf_ask_deinit(&ask);
    free(escaped);
    assert_int_equal(read_as(&ask, LF_ASK_CHAT, "{\"num_pr\\u0065dict\":5}", &err), LF_INVALID);
    lf_ask_deinit(&ask);
}

/* Each is compared with every row of two tables, and that must not take much longer than parsing them. */
static void as_many_unknown_fields_as_fit_are_read_in_time(void **state)
{
    (void)state;
    struct lf_buf text;
    struct lf_json json = {0};
    struct lf_ask ask;
    struct lf_api_err err;
    enum { N = LF_JSON_NODES / 2 - 1 };
    lf_buf_init(&text, 1 << 24);
    for (int i = 0; i < N; i++) lf_buf_printf(&text, "%s\"max_%06d\":0", i ? "," : "{", i);
    lf_buf_char(&text, '}');
    clock_t start = clock();
    assert_int_equal(lf_json_parse(&json, lf_buf_view(&text), &lf_json_limits_request, NULL), LF_OK);
    clock_t parsed = clock();
    assert_int_equal(lf_ask_read(&ask, LF_ASK_CHAT, &json, &limits, &err), LF_OK);
    clock_t read = clock();
    print_message("parsed in %ld, read in %ld\n", (long)(parsed - start), (long)(read - parsed));
    assert_true(read - parsed < 10 * (parsed - start));
    assert_int_equal(ask.n_unknown, N);
    lf_ask_deinit(&ask);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
}

static void at_each_limit_and_one_past_it(void **state)
{
    (void)state;
    static const struct {
        const char *before, *element, *after;
        int most;
    } cases[] = {
        {"{\"messages\":[", "{\"role\":\"user\",\"content\":\"x\"}", "]}", LF_MESSAGES_N},
        {"{\"stop\":[", "\"5\"", "]}", LF_STOP_N},
        {"{\"stop_token_ids\":[", "5", "]}", LF_STOP_TOKENS_N},
        {"{\"allowed_token_ids\":[", "5", "]}", 100}, /* the vocabulary's */
        {"{\"bad_words\":[", "\"a\"", "]}", LF_BAD_WORDS_N},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int more = 0; more < 2; more++) {
            struct lf_ask ask;
            struct lf_api_err err;
            char *text = list_of(cases[i].before, cases[i].element, cases[i].most + more, cases[i].after);
            assert_int_equal(read_as(&ask, LF_ASK_CHAT, text, &err), more ? LF_INVALID : LF_OK);
            if (more) assert_int_equal(err.status, 400);
            lf_ask_deinit(&ask);
            free(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(defaults_of_the_model),
        cmocka_unit_test(a_refusal_says_what_came),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(tokens_are_proposed_as_a_request_says),
        cmocka_unit_test(a_prediction_is_a_text_or_parts_of_one),
        cmocka_unit_test(refusals_name_the_field),
        cmocka_unit_test(lists_of_tokens_stay_in_the_request),
        cmocka_unit_test(a_field_without_effect_here_is_refused_unless_it_asks_for_none),
        cmocka_unit_test(fields_that_would_change_the_answer_are_refused),
        cmocka_unit_test(no_field_is_in_two_rows),
        cmocka_unit_test(a_name_counts_after_unescaping),
        cmocka_unit_test(as_many_unknown_fields_as_fit_are_read_in_time),
        cmocka_unit_test(at_each_limit_and_one_past_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
