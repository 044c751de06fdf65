/* server/http/api/tools.c: how many tools, which of them may be called, and what their names may be. Refusals over the
 * socket are in tests/e2e/test_http_tools.py. */
#include "tests/support/test.h"

#include "core/check.h"
#include "server/http/api/openai_request.h"

static struct lf_ask ask;
static struct lf_api_err err;

static enum lf_status read_text(const char *text)
{
    struct lf_json json = {0};
    const struct lf_ask_limits limits = {.max_choices = 1,
                                         .n_vocab = 100,
                                         .template = {.has_tools = true, .has_calls = true},
                                         .answers = lf_answer_format_by_name(LF_STR("hermes"))};
    memset(&err, 0, sizeof err);
    assert_int_equal(lf_json_parse(&json, lf_str_c(text), &lf_json_limits_request, NULL), LF_OK);
    enum lf_status status = lf_ask_read(&ask, LF_ASK_CHAT, &json, &limits, &err);
    lf_json_deinit(&json);
    return status;
}

/* So many tools, t0, t1 … */
static void write_tools(struct lf_buf *out, int n)
{
    lf_buf_init(out, 1 << 22);
    lf_buf_cstr(out, "{\"tools\":[");
    for (int i = 0; i < n; i++)
        lf_buf_printf(out, "%s{\"type\":\"function\",\"function\":{\"name\":\"t%d\"}}", i ? "," : "", i);
    lf_buf_char(out, ']');
}

static void a_request_has_so_many_tools_at_most(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct lf_buf text;
        write_tools(&text, LF_TOOLS_N + more);
        lf_buf_char(&text, '}');
        assert_int_equal(read_text(text.ptr), more ? LF_INVALID : LF_OK);
        if (more) assert_string_equal(err.code, "too_many_tools");
        if (!more) assert_int_equal(ask.n_tools, LF_TOOLS_N);
        lf_ask_deinit(&ask);
        lf_buf_deinit(&text);
    }
}

static void a_name_has_so_many_bytes_at_most(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        char name[LF_TOOL_NAME_BYTES + 2] = "", text[LF_TOOL_NAME_BYTES + 128];
        memset(name, 'x', (size_t)(LF_TOOL_NAME_BYTES + more));
        snprintf(text, sizeof text, "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"%s\"}}]}", name);
        assert_int_equal(read_text(text), more ? LF_INVALID : LF_OK);
        if (more) assert_string_equal(err.param, "tools[0].function.name");
        lf_ask_deinit(&ask);
    }
}

/* What a choice makes of three tools: how, those that are left, and whether one call is all. */
static void check_choice(const char *choice, enum lf_tool_choice how, const char *names, bool parallel)
{
    struct lf_buf text;
    char got[64] = "";
    write_tools(&text, 3);
    lf_buf_printf(&text, "%s%s}", choice ? ",\"tool_choice\":" : "", choice ? choice : "");
    assert_int_equal(read_text(text.ptr), LF_OK);
    assert_int_equal(ask.tool_choice, how);
    for (size_t i = 0; i < ask.n_tools; i++) {
        size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, "%.*s ", (int)ask.tools[i].name.len, ask.tools[i].name.ptr);
    }
    assert_string_equal(got, names);
    assert_int_equal(ask.parallel_tool_calls, parallel);
    assert_int_equal(lf_json_type(ask.tool_choice_value), LF_JSON_NONE);
    lf_ask_deinit(&ask);
    lf_buf_deinit(&text);
}

#define FUNCTION(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define ALLOWED(mode, list)                                                                                            \
    "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"" mode "\",\"tools\":[" list "]}}"

static void a_choice_says_which_may_be_called(void **state)
{
    (void)state;
    check_choice(NULL, LF_TOOL_CHOICE_AUTO, "t0 t1 t2 ", true);
    check_choice("null", LF_TOOL_CHOICE_AUTO, "t0 t1 t2 ", true);
    check_choice("\"auto\"", LF_TOOL_CHOICE_AUTO, "t0 t1 t2 ", true);
    check_choice("\"none\"", LF_TOOL_CHOICE_NONE, "t0 t1 t2 ", true);
    check_choice("\"required\"", LF_TOOL_CHOICE_REQUIRED, "t0 t1 t2 ", true);
    check_choice(FUNCTION("t1"), LF_TOOL_CHOICE_REQUIRED, "t1 ", false);
    check_choice(ALLOWED("auto", FUNCTION("t2")), LF_TOOL_CHOICE_AUTO, "t2 ", true);
    check_choice(ALLOWED("required", FUNCTION("t2") "," FUNCTION("t0") "," FUNCTION("t2")), LF_TOOL_CHOICE_REQUIRED,
                 "t2 t0 ", true);
}

static void without_tools_there_is_no_choice(void **state)
{
    (void)state;
    assert_int_equal(read_text("{\"tools\":[],\"tool_choice\":\"auto\"}"), LF_OK);
    assert_int_equal(ask.tool_choice, LF_TOOL_CHOICE_NONE);
    lf_ask_deinit(&ask);
    assert_int_equal(read_text("{\"tool_choice\":" FUNCTION("t1") "}"), LF_INVALID);
    assert_string_equal(err.param, "tool_choice");
    lf_ask_deinit(&ask);
}

#define TOOL(members) "{\"tools\":[" FUNCTION("a") ",{\"type\":\"function\",\"function\":{\"name\":" members "}}]}"
#define ONE           "{\"tools\":[" FUNCTION("a") "],\"tool_choice\":"

static void a_refusal_names_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param, *message;
    } rows[] = {
        {TOOL("1"), "tools[1].function.name", "tools[1].function.name: expected a string, got 1."},
        {TOOL("\"a\""), "tools[1].function.name",
         "tools[1].function.name: expected a name that no tool before it has, got the string \"a\"."},
        {TOOL("\"b\",\"parameters\":[]"), "tools[1].function.parameters",
         "tools[1].function.parameters: expected an object, the schema of the arguments, got an array of 0."},
        {TOOL("\"b\",\"strict\":1"), "tools[1].function.strict",
         "tools[1].function.strict: expected true or false, got 1."},
        {TOOL("\"b\",\"description\":1"), "tools[1].function.description",
         "tools[1].function.description: expected a string, got 1."},
        {ONE FUNCTION("b") "}", "tool_choice.function.name",
         "tool_choice.function.name: expected the name of one of the tools, got the string \"b\"."},
        {ONE ALLOWED("auto", FUNCTION("b")) "}", "tool_choice.allowed_tools.tools[0].function.name",
         "tool_choice.allowed_tools.tools[0].function.name: expected the name of one of the tools, got the string "
         "\"b\"."},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        assert_int_equal(read_text(rows[i].body), LF_INVALID);
        assert_string_equal(err.param, rows[i].param);
        assert_string_equal(err.message, rows[i].message);
        lf_ask_deinit(&ask);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_so_many_tools_at_most), cmocka_unit_test(a_name_has_so_many_bytes_at_most),
        cmocka_unit_test(a_choice_says_which_may_be_called),   cmocka_unit_test(without_tools_there_is_no_choice),
        cmocka_unit_test(a_refusal_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
