/* Strict tools that are large, as grammars in forms of calls without JSON: what is compiled, and what is refused as too
 * much. */
#include "template/answer_format.h"
#include "tests/unit/grammar/rig.h"

/* The grammar of n tools whose schema is head, a number between two texts so often, and tail. */
static enum lf_status grammar_of_many(const char *format, size_t n, const char *head, const char *const unit[2],
                                      int times, const char *tail, const char *whole, struct lf_err *err)
{
    struct lf_buf text;
    struct lf_json json;
    struct lf_arena arena;
    struct lf_tool *many = calloc(n, sizeof(*many));
    char names[1024][24];
    struct lf_grammar *g = NULL;
    assert_non_null(many);
    lf_buf_init(&text, 1 << 24);
    lf_buf_cstr(&text, head);
    for (int i = 0; i < times; i++) {
        if (i) lf_buf_char(&text, ',');
        lf_buf_printf(&text, "%s%d%s", unit[0], i, unit[1]);
    }
    lf_buf_cstr(&text, tail);
    lf_arena_init(&arena, 1024, 1 << 26);
    assert_int_equal(lf_json_parse(&json, lf_buf_view(&text), &lf_json_limits_request, NULL), LF_OK);
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof(names[i]), "t%zu", i);
        assert_int_equal(lf_tool_init(&many[i], lf_str_c(names[i]), lf_json_root(&json), &arena), LF_OK);
        many[i].strict = true;
    }
    struct lf_answer_rules rules = {.tools = many, .n_tools = n, .choice = LF_TOOL_CHOICE_REQUIRED};
    const struct lf_answer_format *f = lf_answer_format_by_name(lf_str_c(format));
    enum lf_status status = lf_answer_format_grammar(&g, f, &rules, NULL, err);
    if (status == LF_OK && whole) {
        struct lf_vocabulary *v = vocabulary_of_bytes();
        assert_true(takes(g, v, whole));
        lf_vocabulary_destroy(v);
    }
    lf_grammar_unref(g);
    free(many);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
    lf_arena_deinit(&arena);
    return status;
}

/* Thousands of texts are one automaton, and what stands in them has no meaning in it. */
static void an_enum_may_be_large(void **state)
{
    static const char head[] = "{\"properties\":{\"a\":{\"enum\":[\"\",\"x.*[\",", tail[] = "]}},\"required\":[\"a\"]}";
    (void)state;
#define GLM(value)   "<tool_call>t0<arg_key>a</arg_key><arg_value>" value "</arg_value></tool_call>"
#define GEMMA(value) "<|tool_call>call:t0{a:<|\"|>" value "<|\"|>}<tool_call|>"
    static const char *const value[] = {"\"v", "\""};
    struct lf_err err = {0};
    static const char *const values[][2] = {
        {"glm", GLM("v4999")}, {"glm", GLM("x.*[")}, {"glm", GLM("")}, {"gemma4", GEMMA("v17")}, {"gemma4", GEMMA("")}};
    for (size_t i = 0; i < LF_N_ELEMS(values); i++)
        if (grammar_of_many(values[i][0], 1, head, value, 5000, tail, values[i][1], &err) != LF_OK)
            fail_msg("%s", err.message);
}

/* A tool with too many properties is refused at once, and so are tools that are too large together: neither is a lack
 * of memory, which would be tried again. */
static void tools_that_are_too_large_are_refused_as_such(void **state)
{
    static const char head[] = "{\"properties\":{", tail[] = "}}";
    static const char *const property[] = {"\"p", "\":{\"type\":\"string\"}"}, *const name[] = {"\"p", "\""};
    static const char *const formats[] = {"glm", "qwen3_xml", "lfm2", "gemma4"};
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        struct lf_err err = {0};
        assert_int_equal(grammar_of_many(formats[i], 1, head, property, LF_TOOL_VALUES_N + 1, tail, NULL, &err),
                         LF_UNSUPPORTED);
        if (!strstr(err.message, "too many")) fail_msg("%s", err.message);
    }
    struct lf_err err = {0};
    assert_int_equal(grammar_of_many("glm", 1, "{\"properties\":{\"a\":{\"type\":\"null\"}},\"required\":[\"a\",", name,
                                     LF_TOOL_VALUES_N, "]}", NULL, &err),
                     LF_UNSUPPORTED);
    if (!strstr(err.message, "too many")) fail_msg("%s", err.message);
    assert_int_equal(grammar_of_many("glm", LF_TOOLS_N, head, property, LF_TOOL_VALUES_N, tail, NULL, &err), LF_LIMIT);
    if (!strstr(err.message, "bytes")) fail_msg("%s", err.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_enum_may_be_large),
        cmocka_unit_test(tools_that_are_too_large_are_refused_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
