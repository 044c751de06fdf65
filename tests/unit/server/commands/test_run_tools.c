/* server/run_tools.c: definitions from a file, and calls out of the tokens of an answer, as lines of JSON. */
#include "server/run_tools.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

#define TEMPLATE "{% if tools %}<tool_call>{\"name\": …, \"arguments\": …}</tool_call>{% endif %}"

static struct lf_tokenizer *tok;

static int open_tokenizer(void **state)
{
    struct lf_err err;
    (void)state;
    return lf_tokenizer_open(&tok, "demo/model", &err) == LF_OK ? 0 : -1;
}

static int close_tokenizer(void **state)
{
    (void)state;
    lf_tokenizer_close(tok);
    return 0;
}

/* What is printed of an answer. */
static void print(struct lf_run_tools *t, struct lf_buf *out, const char *answer)
{
    struct lf_ids ids = {0};
    struct lf_detok detok;
    struct lf_err err;
    lf_detok_init(&detok, tok, false, false);
    assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_str_c(answer), NULL, 0, 0, 0, NULL, &err), LF_OK);
    for (size_t i = 0; i < ids.n; i++) assert_int_equal(lf_run_tools_take(t, &detok, ids.ids[i], out), LF_OK);
    assert_int_equal(lf_run_tools_end(t, &detok, out), LF_OK);
    lf_ids_deinit(&ids);
}

static void calls_are_lines_of_json(void **state)
{
    static const struct {
        const char *answer, *printed;
        bool is_cut, in_line;
    } cases[] = {
        {"Rome is warm.", "Rome is warm.", false, true},
        {"Let me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
         "Let me look.\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n", false, false},
        {"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\n \"city\": \"a\\nb\"\n}}\n</tool_call>\n"
         "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"x\"}}\n</tool_call>",
         "{\"name\": \"weather\", \"arguments\": {  \"city\": \"a\\nb\" }}\n"
         "{\"name\": \"weather\", \"arguments\": {\"city\": \"x\"}}\n",
         false, false},
        {"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"R",
         "{\"name\": \"weather\", \"arguments\": {\"city\": \"R", true, true},
        {"<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
         "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>", false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lf_run_tools t;
        struct lf_grammar *g = NULL;
        struct lf_err err;
        struct lf_buf out;
        lf_buf_init(&out, 4096);
        assert_int_equal(lf_run_tools_read(&t, "examples/tools.json", NULL, &err), LF_OK);
        assert_int_equal(t.n_tools, 1);
        assert_true(t.tools[0].strict && lf_str_eq(t.tools[0].name, LF_STR("weather")));
        assert_int_equal(lf_run_tools_begin(&t, &g, LF_STR(TEMPLATE), LF_STR("user: Why?"), &err), LF_OK);
        assert_non_null(g);
        print(&t, &out, cases[i].answer);
        assert_string_equal(lf_buf_view(&out).ptr, cases[i].printed);
        assert_true(t.in_call == cases[i].is_cut && t.in_line == cases[i].in_line);
        lf_grammar_unref(g);
        lf_run_tools_deinit(&t);
        lf_buf_deinit(&out);
    }
}

/* Masks begin where a call does: the tool and its strict arguments. */
static void a_call_that_has_begun_is_one(void **state)
{
    struct lf_run_tools t;
    struct lf_grammar *g = NULL;
    struct lf_vocabulary *v = NULL;
    struct lf_matcher *m = NULL;
    struct lf_err err;
    static const struct lf_str a = {"a", 1};
    (void)state;
    assert_int_equal(lf_run_tools_read(&t, "examples/tools.json", NULL, &err), LF_OK);
    assert_int_equal(lf_run_tools_begin(&t, &g, LF_STR(TEMPLATE), LF_STR(""), &err), LF_OK);
    assert_int_equal(lf_vocabulary_create(&v, &a, 1, NULL, 0, 0, &err), LF_OK);
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(
        lf_matcher_accept_bytes(m, LF_STR("free <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"R")),
        LF_OK);
    assert_false(lf_matcher_is_complete(m));
    assert_int_equal(lf_matcher_accept_bytes(m, LF_STR("\",\"hours\"")), LF_INVALID);
    assert_int_equal(lf_matcher_accept_bytes(m, LF_STR("\",\"days\":14}}\n</tool_call>")), LF_OK);
    assert_true(lf_matcher_is_complete(m));
    lf_matcher_destroy(m);
    lf_vocabulary_destroy(v);
    lf_grammar_unref(g);
    lf_run_tools_deinit(&t);
}

static void what_is_no_tool_is_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "expected an array of 1 to 1024 tools"},
        {"[]", "expected an array of 1 to 1024 tools"},
        {"[1]", "tools[0].type"},
        {"[{\"type\":\"custom\"}]", "tools[0].type"},
        {"[{\"type\":\"function\"}]", "tools[0].function.name"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"\"}}]", "tools[0].function.name"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]",
         "tools[0].function.name: expected a name of 1 to 256"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\",\"function\":{\"name\":\"a\"}}"
         "]",
         "tools[1].function.name: expected a name that no tool before it has"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"strict\":1}}]",
         "tools[0].function.strict: expected true or false"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":[]}}]", "tools[0].function.parameters"},
        {"[", "invalid JSON at byte 1"},
    };
    struct temp_dir dir = temp_dir_make();
    char path[512];
    (void)state;
    temp_dir_path(&dir, "tools.json", path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lf_run_tools t;
        struct lf_err err;
        temp_dir_write(&dir, "tools.json", cases[i].text, strlen(cases[i].text));
        assert_true(lf_run_tools_read(&t, path, NULL, &err) != LF_OK);
        if (!strstr(err.message, cases[i].message) || !strstr(err.message, "--tools: ")) fail_msg("%s", err.message);
        lf_run_tools_deinit(&t);
    }
    temp_dir_remove(&dir);
}

static void a_model_without_calls_is_refused(void **state)
{
    struct lf_run_tools t;
    struct lf_grammar *g = NULL;
    struct lf_err err;
    (void)state;
    assert_int_equal(lf_run_tools_read(&t, "examples/tools.json", NULL, &err), LF_OK);
    assert_int_equal(lf_run_tools_begin(&t, &g, LF_STR("{{ messages }}"), LF_STR(""), &err), LF_UNSUPPORTED);
    assert_null(g);
    lf_run_tools_deinit(&t);
}

/* Where the template shows another form of calls than the one that is named, or none. */
static void a_form_that_is_named_goes_before_the_templates(void **state)
{
    static const char *const templates[] = {"{{ messages }}", TEMPLATE};
    (void)state;
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        struct lf_run_tools t;
        struct lf_grammar *g = NULL;
        struct lf_err err;
        struct lf_buf out;
        lf_buf_init(&out, 4096);
        assert_int_equal(lf_run_tools_read(&t, "examples/tools.json", "llama3", &err), LF_OK);
        assert_int_equal(lf_run_tools_begin(&t, &g, lf_str_c(templates[i]), LF_STR(""), &err), LF_OK);
        print(&t, &out, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}");
        assert_string_equal(lf_buf_view(&out).ptr, "{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n");
        lf_grammar_unref(g);
        lf_run_tools_deinit(&t);
        lf_buf_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_lines_of_json),
        cmocka_unit_test(a_call_that_has_begun_is_one),
        cmocka_unit_test(what_is_no_tool_is_refused),
        cmocka_unit_test(a_model_without_calls_is_refused),
        cmocka_unit_test(a_form_that_is_named_goes_before_the_templates),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
