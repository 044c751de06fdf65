/* Names in lists of modules, as the programs that write them read them. */
#include "model/formats/modules.h"

#include "core/check.h"
#include "core/limits.h"
#include "tests/support/test.h"

struct list {
    struct lf_json json;
    struct lf_arena arena;
    struct lf_modules modules;
};

static enum lf_status read_list(struct list *l, enum lf_modules_kind kind, const char *text, struct lf_err *err)
{
    assert_int_equal(lf_json_parse(&l->json, lf_str_c(text), &lf_json_limits_file, err), LF_OK);
    lf_arena_init(&l->arena, 1024, 1 << 20);
    return lf_modules_read(&l->modules, kind, lf_json_root(&l->json), "ignore", &l->arena, err);
}

static void close_list(struct list *l)
{
    lf_modules_deinit(&l->modules);
    lf_arena_deinit(&l->arena);
    lf_json_deinit(&l->json);
}

static void check(enum lf_modules_kind kind, const char *text, const char *module, bool want)
{
    struct list l;
    struct lf_err err;
    bool got;
    if (read_list(&l, kind, text, &err) != LF_OK) fail_msg("%s: %s", text, err.message);
    assert_int_equal(lf_modules_match(&got, &l.modules, lf_str_c(module), &err), LF_OK);
    if (got != want) fail_msg("%s, %s", text, module);
    close_list(&l);
}

/* What should_convert_module() of transformers 5.24 says of the same. */
static void parts_are_beginnings_up_to_a_dot_ends_and_expressions(void **state)
{
    (void)state;
    static const struct {
        const char *text, *module;
        bool is_in;
    } rows[] = {
        {"[\"model.layers.1\"]", "model.layers.1.mlp.gate", true},
        {"[\"model.layers.1\"]", "model.layers.11.mlp.gate", false},
        {"[\"model.layers.1\"]", "model.layers.1", true},
        {"[\"model.layers.1.\"]", "model.layers.1.mlp", true},
        {"[\"lm_head\"]", "lm_head", true},
        {"[\"mlp.gate\"]", "model.layers.3.mlp.gate", true},
        {"[\"mlp.gate\"]", "model.layers.3.mlp.gate_proj", false},
        {"[\"gate\"]", "model.layers.3.mlp.shared_expert_gate", true},
        {"[\"model.layers.*.self_attn\"]", "model.layers.7.self_attn.q_proj", true},
        {"[\"model.layers.*.self_attn\"]", "model.layers.7.mlp.up_proj", false},
        {"[\"model\\\\.layers\\\\.\\\\d+\\\\.mlp\\\\.gate\"]", "model.layers.17.mlp.gate", true},
        {"[\"model\\\\.layers\\\\.\\\\d+\\\\.mlp\\\\.gate\"]", "model.layers.17.mlp.gate_proj", false},
        {"[\"a|b.c\"]", "b.c.d", true},
        {"[\"a|b.c\"]", "ab", false},
        {"[]", "lm_head", false},
        {"null", "lm_head", false},
        {"[\"x\", \"y\", \"lm_head\"]", "lm_head", true},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) check(LF_MODULES_PARTS, rows[i].text, rows[i].module, rows[i].is_in);
}

static void names_are_exact_or_expressions_of_the_beginning(void **state)
{
    (void)state;
    check(LF_MODULES_NAMES, "[\"lm_head\"]", "lm_head", true);
    check(LF_MODULES_NAMES, "[\"lm_head\"]", "model.lm_head", false);
    check(LF_MODULES_NAMES, "[\"re:.*lm_head\"]", "model.lm_head", true);
    check(LF_MODULES_NAMES, "[\"re:lm_head\"]", "model.lm_head", false);
    check(LF_MODULES_NAMES, "[\"re:model.*gate\"]", "model.layers.0.mlp.gate_proj", true);
    check(LF_MODULES_NAMES, "[\"re:.*mlp.gate$\"]", "model.layers.0.mlp.gate_proj", false);
    check(LF_MODULES_NAMES, "[\"re:^(?!.*experts).*\"]", "model.layers.0.mlp.experts.1.up_proj", false);
    check(LF_MODULES_NAMES, "[\"re:^(?!.*experts).*\"]", "model.layers.0.mlp.up_proj", true);
}

static void globs_have_stars_and_question_marks(void **state)
{
    (void)state;
    check(LF_MODULES_GLOBS, "[\"lm_head\"]", "lm_head", true);
    check(LF_MODULES_GLOBS, "[\"*mlp.gate\"]", "model.layers.0.mlp.gate", true);
    check(LF_MODULES_GLOBS, "[\"*mlp.gate\"]", "model.layers.0.mlp.gate_proj", false);
    check(LF_MODULES_GLOBS, "[\"model.layers.?.*\"]", "model.layers.7.mlp", true);
    check(LF_MODULES_GLOBS, "[\"model.layers.?.*\"]", "model.layers.17.mlp", false);
    check(LF_MODULES_GLOBS, "[\"*a*a*a*a*a*b\"]", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false);
    check(LF_MODULES_GLOBS, "[\"**\"]", "", true);
    check(LF_MODULES_GLOBS, "[\"?\"]", "", false);
}

static void refused(const char *text, enum lf_status want, const char *says)
{
    struct list l;
    struct lf_err err;
    assert_int_equal(read_list(&l, LF_MODULES_NAMES, text, &err), want);
    if (!strstr(err.message, says)) fail_msg("\"%s\" lacks \"%s\"", err.message, says);
    close_list(&l);
}

static void lists_that_are_none_are_refused(void **state)
{
    (void)state;
    refused("{}", LF_CORRUPT, "ignore is an object");
    refused("\"lm_head\"", LF_CORRUPT, "ignore is a string");
    refused("[1]", LF_CORRUPT, "ignore has a number");
    refused("[\"a\", null]", LF_CORRUPT, "ignore has null");
    refused("[\"a\", \"\"]", LF_CORRUPT, "an empty name");
    refused("[\"re:[\"]", LF_UNSUPPORTED, "is no pattern that is implemented");
    refused("[\"a\", \"re:(?P<x>\"]", LF_UNSUPPORTED, "is no pattern that is implemented");
}

static void an_entry_may_be_as_long_as_the_limit_and_no_longer(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct list l;
        struct lf_err err;
        struct lf_buf text;
        lf_buf_init(&text, 1 << 20);
        lf_buf_cstr(&text, "[\"");
        for (int i = 0; i < LF_MODULE_PATTERN_BYTES + more; i++) lf_buf_char(&text, 'a');
        lf_buf_cstr(&text, "\"]");
        assert_int_equal(read_list(&l, LF_MODULES_NAMES, text.ptr, &err), more ? LF_LIMIT : LF_OK);
        close_list(&l);
        lf_buf_deinit(&text);
    }
}

static void a_list_may_be_as_long_as_the_limit_and_no_longer(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct list l;
        struct lf_err err;
        struct lf_buf text;
        lf_buf_init(&text, 1 << 20);
        for (int i = 0; i < LF_MODULE_PATTERNS_N + more; i++) lf_buf_cstr(&text, i ? ",\"a\"" : "[\"a\"");
        lf_buf_cstr(&text, "]");
        assert_int_equal(lf_json_parse(&l.json, lf_buf_view(&text), &lf_json_limits_file, &err), LF_OK);
        lf_arena_init(&l.arena, 1 << 16, 1 << 26);
        assert_int_equal(lf_modules_read(&l.modules, LF_MODULES_GLOBS, lf_json_root(&l.json), "ignore", &l.arena, &err),
                         more ? LF_LIMIT : LF_OK);
        close_list(&l);
        lf_buf_deinit(&text);
    }
}

static void an_expression_that_takes_too_long_is_an_error(void **state)
{
    (void)state;
    struct list l;
    struct lf_err err;
    bool got;
    assert_int_equal(read_list(&l, LF_MODULES_NAMES, "[\"re:((((a*)*)*)*)*b\"]", &err), LF_OK);
    assert_int_equal(lf_modules_match(&got, &l.modules, LF_STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaXb"), &err), LF_LIMIT);
    assert_non_null(strstr(err.message, "takes too long"));
    close_list(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_beginnings_up_to_a_dot_ends_and_expressions),
                                       cmocka_unit_test(names_are_exact_or_expressions_of_the_beginning),
                                       cmocka_unit_test(globs_have_stars_and_question_marks),
                                       cmocka_unit_test(lists_that_are_none_are_refused),
                                       cmocka_unit_test(an_entry_may_be_as_long_as_the_limit_and_no_longer),
                                       cmocka_unit_test(a_list_may_be_as_long_as_the_limit_and_no_longer),
                                       cmocka_unit_test(an_expression_that_takes_too_long_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
