/* server/http/api/format.c: what requests ask their answers to be, in whose words ever. */
#include "tests/support/test.h"

#include "core/check.h"
#include "server/http/api/ask.h"
#include "server/http/api/openai_request.h"

static const struct lf_ask_limits limits = {.max_choices = 4, .n_vocab = 100};

/* A request, its document, and what is made of them. */
struct asked {
    struct lf_json json;
    struct lf_ask ask;
    struct lf_api_err err;
    enum lf_status status;
};

static struct asked *read_as(struct asked *a, enum lf_ask_kind kind, const char *text)
{
    *a = (struct asked){0};
    if (lf_json_parse(&a->json, lf_str_c(text), &lf_json_limits_request, NULL) != LF_OK) fail_msg("%s", text);
    a->status = lf_ask_read(&a->ask, kind, &a->json, &limits, &a->err);
    return a;
}

static void drop(struct asked *a)
{
    lf_ask_deinit(&a->ask);
    lf_json_deinit(&a->json);
}

static struct lf_vocabulary *vocabulary(void)
{
    static char bytes[256];
    struct lf_str tokens[257];
    struct lf_vocabulary *v = NULL;
    const int32_t end = 256;
    for (int i = 0; i < 256; i++) bytes[i] = (char)i;
    for (int i = 0; i < 256; i++) tokens[i] = lf_str_from(&bytes[i], 1);
    tokens[256] = LF_STR("");
    assert_int_equal(lf_vocabulary_create(&v, tokens, 257, &end, 1, 1 << 16, NULL), LF_OK);
    return v;
}

static bool takes(const struct lf_grammar *g, const char *text)
{
    struct lf_vocabulary *v = vocabulary();
    struct lf_matcher *m = NULL;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    bool ok = lf_matcher_accept_bytes(m, lf_str_c(text)) == LF_OK && lf_matcher_is_complete(m);
    lf_matcher_destroy(m);
    lf_vocabulary_destroy(v);
    return ok;
}

#define SCHEMA "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}"
#define QUOTED                                                                                                         \
    "\"{\\\"type\\\":\\\"object\\\",\\\"properties\\\":{\\\"a\\\":{\\\"type\\\":\\\"integer\\\"}},\\\"required\\\":["  \
    "\\\"a\\\"]}\""

static const struct {
    const char *body, *param;
    enum lf_format_kind kind;
    const char *good, *bad; /* answers; NULL: any will do */
} formats[] = {
    {"{}", NULL, LF_FORMAT_TEXT, NULL, NULL},
    {"{\"response_format\":null,\"guided_json\":null,\"structured_outputs\":{}}", NULL, LF_FORMAT_TEXT, NULL, NULL},
    {"{\"response_format\":{\"type\":\"text\"}}", NULL, LF_FORMAT_TEXT, NULL, NULL},
    {"{\"structured_outputs\":{\"json_object\":false,\"json\":null}}", NULL, LF_FORMAT_TEXT, NULL, NULL},
    {"{\"guided_whitespace_pattern\":\" \"}", NULL, LF_FORMAT_TEXT, NULL, NULL},
    {"{\"response_format\":{\"type\":\"json_object\"}}", "response_format", LF_FORMAT_JSON_OBJECT, "{\"x\":[1]}",
     "[1]"},
    {"{\"structured_outputs\":{\"json_object\":true}}", "structured_outputs.json_object", LF_FORMAT_JSON_OBJECT, "{}",
     "{ }"},
    {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":" SCHEMA "}}}",
     "response_format.json_schema.schema", LF_FORMAT_JSON_SCHEMA, "{\"a\":1,\"b\":2}", "{\"a\":\"1\"}"},
    {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"strict\":true,\"schema\":" SCHEMA "}}}",
     "response_format.json_schema.schema", LF_FORMAT_JSON_SCHEMA, "{\"a\":1}", "{\"a\":1,\"b\":2}"},
    {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"strict\":null,\"name\":null,\"schema\":" QUOTED
     "}}}",
     "response_format.json_schema.schema", LF_FORMAT_JSON_SCHEMA, "{\"a\":1,\"b\":2}", "{}"},
    {"{\"response_format\":{\"type\":\"json_schema\",\"schema\":" SCHEMA "}}", "response_format.schema",
     LF_FORMAT_JSON_SCHEMA, "{\"a\":1}", "{}"},
    {"{\"response_format\":{\"type\":\"json_object\",\"schema\":" SCHEMA "}}", "response_format.schema",
     LF_FORMAT_JSON_SCHEMA, "{\"a\":1}", "{}"},
    {"{\"guided_json\":" SCHEMA "}", "guided_json", LF_FORMAT_JSON_SCHEMA, "{\"a\":-12}", "{\"a\": 1}"},
    {"{\"guided_json\":" QUOTED "}", "guided_json", LF_FORMAT_JSON_SCHEMA, "{\"a\":-12}", "{\"a\":1.5}"},
    {"{\"json_schema\":" SCHEMA "}", "json_schema", LF_FORMAT_JSON_SCHEMA, "{\"a\":0}", "{\"a\":01}"},
    {"{\"guided_json\":true}", "guided_json", LF_FORMAT_JSON_SCHEMA, "[null]", "nil"},
    {"{\"structured_outputs\":{\"json\":" SCHEMA ",\"disable_additional_properties\":true,\"disable_any_whitespace\":"
     "true,\"disable_fallback\":true}}",
     "structured_outputs.json", LF_FORMAT_JSON_SCHEMA, "{\"a\":1}", "{\"a\":1,\"b\":2}"},
    {"{\"structured_outputs\":{\"whitespace_pattern\":\"[ \\\\n]?\",\"json\":" SCHEMA "}}", "structured_outputs.json",
     LF_FORMAT_JSON_SCHEMA, "{\n\"a\": 1 }", "{\"a\":  1}"},
    {"{\"guided_whitespace_pattern\":\" ?\",\"response_format\":{\"type\":\"json_object\"}}", "response_format",
     LF_FORMAT_JSON_OBJECT, "{ \"a\":1}", "{\n}"},
    {"{\"guided_regex\":\"a{2,3}\\\\d\"}", "guided_regex", LF_FORMAT_REGEX, "aa7", "a7"},
    {"{\"structured_outputs\":{\"regex\":\"(yes|no)\"}}", "structured_outputs.regex", LF_FORMAT_REGEX, "yes", "yesno"},
    {"{\"guided_choice\":[\"a\\u00e9\",\"b\"]}", "guided_choice", LF_FORMAT_CHOICE, "a\xc3\xa9", "a"},
    {"{\"structured_outputs\":{\"choice\":[\"x\"],\"future\":1}}", "structured_outputs.choice", LF_FORMAT_CHOICE, "x",
     "xx"},
};

static void every_way_to_ask(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        for (int k = 0; k < 2; k++) {
            struct asked a;
            struct lf_grammar *g = NULL;
            read_as(&a, k ? LF_ASK_CHAT : LF_ASK_COMPLETION, formats[i].body);
            if (a.status != LF_OK) fail_msg("%s: %s", formats[i].body, a.err.message);
            const struct lf_format *f = &a.ask.format;
            assert_int_equal(f->kind, formats[i].kind);
            assert_int_equal(lf_format_grammar(&g, f, NULL, NULL), LF_OK);
            assert_int_equal(g == NULL, f->kind == LF_FORMAT_TEXT);
            if (g) {
                assert_string_equal(f->param, formats[i].param);
                if (!takes(g, formats[i].good)) fail_msg("%s: not %s", formats[i].body, formats[i].good);
                if (takes(g, formats[i].bad)) fail_msg("%s: %s", formats[i].body, formats[i].bad);
            }
            lf_grammar_unref(g);
            drop(&a);
        }
    }
}

static void what_cannot_be_meant(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param, *code;
    } rows[] = {
        {"{\"response_format\":1}", "response_format", "invalid_value"},
        {"{\"response_format\":{}}", "response_format.type", "invalid_value"},
        {"{\"response_format\":{\"type\":\"grammar\"}}", "response_format.type", "invalid_value"},
        {"{\"response_format\":{\"type\":\"json_schema\"}}", "response_format.json_schema", "invalid_value"},
        {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}}", "response_format.json_schema.schema",
         "missing_parameter"},
        {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":5}}}",
         "response_format.json_schema.schema", "invalid_value"},
        {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":5,\"schema\":{}}}}",
         "response_format.json_schema.name", "invalid_value"},
        {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"strict\":1,\"schema\":{}}}}",
         "response_format.json_schema.strict", "invalid_value"},
        {"{\"response_format\":{\"type\":\"json_schema\",\"schema\":{},\"json_schema\":{\"schema\":{}}}}",
         "response_format.schema", "invalid_value"},
        {"{\"response_format\":{\"type\":\"json_object\",\"json_schema\":{\"schema\":{}}}}",
         "response_format.json_schema", "invalid_value"},
        {"{\"response_format\":{\"type\":\"text\",\"json_schema\":{\"schema\":{}}}}", "response_format.json_schema",
         "invalid_value"},
        {"{\"response_format\":{\"type\":\"text\",\"schema\":{}}}", "response_format.schema", "invalid_value"},
        {"{\"guided_json\":[1]}", "guided_json", "invalid_value"},
        {"{\"guided_json\":5}", "guided_json", "invalid_value"},
        {"{\"guided_json\":\"{\"}", "guided_json", "invalid_schema"},
        {"{\"guided_json\":\"\"}", "guided_json", "invalid_schema"},
        {"{\"guided_regex\":5}", "guided_regex", "invalid_value"},
        {"{\"guided_regex\":[\"a\"]}", "guided_regex", "invalid_value"},
        {"{\"guided_choice\":[]}", "guided_choice", "invalid_value"},
        {"{\"guided_choice\":\"a\"}", "guided_choice", "invalid_value"},
        {"{\"guided_choice\":[\"a\",1]}", "guided_choice", "invalid_value"},
        {"{\"guided_choice\":[1,2]}", "guided_choice", "invalid_value"},
        {"{\"guided_whitespace_pattern\":5}", "guided_whitespace_pattern", "invalid_value"},
        {"{\"guided_whitespace_pattern\":\" \",\"structured_outputs\":{\"whitespace_pattern\":\" \"}}",
         "structured_outputs.whitespace_pattern", "invalid_value"},
        {"{\"structured_outputs\":5}", "structured_outputs", "invalid_value"},
        {"{\"structured_outputs\":{\"json_shema\":{}}}", "structured_outputs", "invalid_value"},
        {"{\"structured_outputs\":{\"json_object\":1}}", "structured_outputs.json_object", "invalid_value"},
        {"{\"structured_outputs\":{\"disable_fallback\":1}}", "structured_outputs.disable_fallback", "invalid_value"},
        {"{\"structured_outputs\":{\"grammar\":\"x\"}}", "structured_outputs.grammar", "unsupported_parameter"},
        {"{\"structured_outputs\":{\"structural_tag\":\"x\"}}", "structured_outputs.structural_tag",
         "unsupported_parameter"},
        {"{\"guided_grammar\":\"x\"}", "guided_grammar", "unsupported_parameter"},
        /* more than one */
        {"{\"guided_regex\":\"a\",\"guided_choice\":[\"a\"]}", "guided_choice", "invalid_value"},
        {"{\"structured_outputs\":{\"json\":{},\"regex\":\"a\"}}", "structured_outputs.regex", "invalid_value"},
        {"{\"response_format\":{\"type\":\"json_object\"},\"guided_json\":{}}", "guided_json", "invalid_value"},
        {"{\"json_schema\":{},\"guided_json\":{}}", "guided_json", "invalid_value"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct asked a;
        read_as(&a, LF_ASK_CHAT, rows[i].body);
        if (a.status == LF_OK) fail_msg("%s was taken", rows[i].body);
        assert_int_equal(a.err.status, 400);
        assert_string_equal(a.err.param, rows[i].param);
        if (strcmp(a.err.code, rows[i].code) != 0) fail_msg("%s: %s", rows[i].body, a.err.code);
        drop(&a);
    }
}

static void words_that_nobody_knows_are_counted(void **state)
{
    (void)state;
    struct asked a;
    read_as(&a, LF_ASK_CHAT, "{\"structured_outputs\":{\"choice\":[\"x\"],\"future\":1,\"past\":null,\"json\":null}}");
    assert_int_equal(a.status, LF_OK);
    assert_int_equal(a.ask.n_unknown, 2);
    drop(&a);
    read_as(&a, LF_ASK_CHAT, "{\"structured_outputs\":{\"past\":null}}");
    assert_int_equal(a.status, LF_OK);
    drop(&a);
}

/* The text of a schema at the limit and one past it. */
static void the_text_of_a_schema_has_a_limit(void **state)
{
    (void)state;
    static const char head[] = "{\"guided_json\":\"{\\u0022title\\u0022:\\u0022", tail[] = "\\u0022}\"}";
    const size_t own = sizeof "{\\u0022title\\u0022:\\u0022" - 1 + sizeof "\\u0022}" - 1; /* as it is written */
    for (size_t past = 0; past < 2; past++) {
        size_t n = LF_GRAMMAR_SOURCE_BYTES - own + past;
        struct lf_buf body;
        struct asked a;
        lf_buf_init(&body, 2 << 20);
        lf_buf_cstr(&body, head);
        for (size_t i = 0; i < n; i++) lf_buf_char(&body, 'x');
        lf_buf_cstr(&body, tail);
        read_as(&a, LF_ASK_CHAT, lf_buf_view(&body).ptr);
        assert_int_equal(a.status == LF_OK, past == 0);
        if (past) assert_string_equal(a.err.code, "schema_too_large");
        drop(&a);
        lf_buf_deinit(&body);
    }
}

static void a_refusal_names_field_place_and_reason(void **state)
{
    (void)state;
    static const struct {
        const char *body, *code, *says;
    } rows[] = {
        {"{\"guided_json\":{\"properties\":{\"a\":{\"not\":{}}}}}", "unsupported_schema", "#/properties/a"},
        {"{\"guided_json\":{\"type\":\"foo\"}}", "invalid_schema", "\"type\""},
        {"{\"guided_json\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":1}}", "invalid_schema", "guided_json"},
        {"{\"guided_regex\":\"[\"}", "invalid_schema", "guided_regex: pattern"},
        {"{\"guided_regex\":\"(?=a)\"}", "unsupported_schema", "guided_regex"},
        {"{\"guided_regex\":\"((a{1,1000}){1,1000}){1,1000}\"}", "schema_too_large", "guided_regex"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct asked a;
        struct lf_grammar *g = NULL;
        struct lf_err why = {0};
        read_as(&a, LF_ASK_CHAT, rows[i].body);
        assert_int_equal(a.status, LF_OK);
        enum lf_status status = lf_format_grammar(&g, &a.ask.format, NULL, &why);
        assert_int_not_equal(status, LF_OK);
        assert_int_equal(lf_format_refuse(&a.err, &a.ask.format, status, &why), LF_INVALID);
        assert_int_equal(a.err.status, 400);
        if (strcmp(a.err.code, rows[i].code) != 0 || !strstr(a.err.message, rows[i].says))
            fail_msg("%s: %s, %s", rows[i].body, a.err.code, a.err.message);
        assert_null(g);
        drop(&a);
    }
}

static void what_stops_the_work_is_no_fault_of_the_schema(void **state)
{
    (void)state;
    static const struct {
        enum lf_status status;
        const char *code;
    } rows[] = {{LF_NO_MEMORY, "text_memory_full"}, {LF_TIMEOUT, "request_timeout"}, {LF_CANCELLED, "draining"}};
    const struct lf_format format = {.kind = LF_FORMAT_REGEX, .param = "guided_regex"};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct lf_api_err err = {0};
        struct lf_err why = {0};
        assert_int_equal(lf_format_refuse(&err, &format, rows[i].status, &why), LF_INVALID);
        assert_int_equal(err.status, 503);
        assert_string_equal(err.code, rows[i].code);
    }
}

/* As a part of a larger grammar: the same answers. */
static void a_format_may_be_a_part(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        struct asked a;
        struct lf_grammar_part part = {0};
        read_as(&a, LF_ASK_CHAT, formats[i].body);
        const struct lf_format *f = &a.ask.format;
        if (f->kind != LF_FORMAT_TEXT) {
            assert_int_equal(lf_format_part(&part, f, &a.ask.arena), LF_OK);
            assert_int_equal(part.kind, f->kind == LF_FORMAT_REGEX    ? LF_PART_REGEX
                                        : f->kind == LF_FORMAT_CHOICE ? LF_PART_ALTERNATIVE
                                                                      : LF_PART_SCHEMA);
            assert_int_equal(lf_json_type(part.schema) == LF_JSON_NONE, f->kind != LF_FORMAT_JSON_SCHEMA);
            assert_int_equal(part.options.strict, f->options.strict);
            assert_int_equal(part.n_parts, f->n_choices);
            for (size_t k = 0; k < part.n_parts; k++) assert_true(lf_str_eq(part.parts[k].text, f->choices[k]));
        }
        drop(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_ask),
        cmocka_unit_test(what_cannot_be_meant),
        cmocka_unit_test(words_that_nobody_knows_are_counted),
        cmocka_unit_test(the_text_of_a_schema_has_a_limit),
        cmocka_unit_test(a_refusal_names_field_place_and_reason),
        cmocka_unit_test(what_stops_the_work_is_no_fault_of_the_schema),
        cmocka_unit_test(a_format_may_be_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
