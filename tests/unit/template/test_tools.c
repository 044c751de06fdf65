/* Tools: of which types their parameters may be. */
#include "tests/support/test.h"

#include "core/check.h"
#include "template/tools.h"

static void parameters_are_strings_by_their_schema(void **state)
{
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {"
        "\"y_type\": {\"type\": \"string\"}, \"y_list\": {\"type\": [\"string\"]}, \"y_enum\": {\"enum\": [\"a\", "
        "\"b\"]},"
        "\"y_const\": {\"const\": \"a\"}, \"y_ref\": {\"$ref\": \"#/$defs/S\"}, \"y_old_ref\": {\"$ref\": "
        "\"#/definitions/T\"},"
        "\"y_any\": {\"anyOf\": [{\"type\": \"string\"}, {\"const\": \"z\"}]}, \"y_one\": {\"oneOf\": [{\"type\": "
        "\"string\"}]},"
        "\"y_\\u00e9\\\"\": {\"type\": \"string\"},"
        "\"n_number\": {\"type\": \"number\"}, \"n_two\": {\"type\": [\"string\", \"null\"]}, \"n_none\": {\"type\": "
        "[]},"
        "\"n_any\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}, \"n_empty\": {}, \"n_true\": true,"
        "\"n_enum\": {\"enum\": [\"a\", 1]}, \"n_no_enum\": {\"enum\": []}, \"n_ref\": {\"$ref\": \"#/$defs/N\"},"
        "\"n_nowhere\": {\"$ref\": \"#/$defs/X\"}, \"n_other\": {\"$ref\": \"x.json\"}, \"n_const\": {\"const\": 1},"
        "\"n_list\": {\"anyOf\": []}, \"n_object\": {\"anyOf\": {\"type\": \"string\"}}},"
        "\"$defs\": {\"S\": {\"type\": \"string\"}, \"N\": {\"type\": \"integer\"}}, \"definitions\": {\"T\": "
        "{\"type\": \"string\"}}}";
    struct lf_json json;
    struct lf_arena arena;
    struct lf_tool tool;
    (void)state;
    lf_arena_init(&arena, 1024, 1 << 20);
    assert_int_equal(lf_json_parse(&json, lf_str_c(schema), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_tool_init(&tool, LF_STR("t"), lf_json_root(&json), &arena), LF_OK);
    assert_true(lf_str_eq(tool.name, LF_STR("t")));
    assert_int_equal(tool.n_parameters, 23);
    assert_false(tool.strict);
    lf_json_deinit(&json); /* the names are copies */
    for (size_t i = 0; i < tool.n_parameters; i++) {
        const struct lf_tool_parameter *p = &tool.parameters[i];
        if ((p->types == LF_TOOL_STRING) != (p->name.ptr[0] == 'y')) fail_msg("%.*s", (int)p->name.len, p->name.ptr);
    }
    assert_true(lf_str_eq(tool.parameters[8].name, LF_STR("y_é\"")));
    lf_arena_deinit(&arena);
}

static void types_are_those_of_the_keywords_together(void **state)
{
    static const struct {
        const char *schema;
        int types;
    } cases[] = {
        {"{\"type\": \"integer\"}", LF_TOOL_NUMBER},
        {"{\"type\": \"number\"}", LF_TOOL_NUMBER},
        {"{\"type\": \"boolean\"}", LF_TOOL_BOOL},
        {"{\"type\": \"null\"}", LF_TOOL_NULL},
        {"{\"type\": \"array\"}", LF_TOOL_ARRAY},
        {"{\"type\": \"object\"}", LF_TOOL_OBJECT},
        {"{\"type\": [\"string\", \"null\"]}", LF_TOOL_STRING_OR_NULL},
        {"{\"type\": [\"string\", \"null\"], \"enum\": [\"a\", null]}", LF_TOOL_STRING_OR_NULL},
        {"{\"type\": [\"string\", \"null\"], \"enum\": [\"a\"]}", LF_TOOL_STRING},
        {"{\"enum\": [true, [1], {}]}", LF_TOOL_BOOL | LF_TOOL_ARRAY | LF_TOOL_OBJECT},
        {"{\"const\": null}", LF_TOOL_NULL},
        {"{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}", LF_TOOL_STRING_OR_NULL},
        {"{\"oneOf\": [{\"$ref\": \"#/$defs/E\"}, {\"type\": \"null\"}]}", LF_TOOL_STRING_OR_NULL},
        {"{\"type\": \"string\", \"anyOf\": [{\"minLength\": 1}, {\"const\": \"\"}]}", LF_TOOL_STRING},
        /* what contradicts itself is as it says first */
        {"{\"type\": \"string\", \"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"null\"}]}", LF_TOOL_STRING},
        {"{\"anyOf\": [{}, {\"type\": \"null\"}]}", LF_TOOL_ANY},
        {"{\"type\": \"text\"}", LF_TOOL_ANY},
        {"{\"type\": \"number\", \"const\": \"a\"}", LF_TOOL_ANY}, /* nothing meets it */
        {"{}", LF_TOOL_ANY},
        {"true", LF_TOOL_ANY},
    };
    static const char root[] = "{\"$defs\": {\"E\": {\"enum\": [\"a\", \"b\"]}}}";
    struct lf_json document;
    (void)state;
    assert_int_equal(lf_json_parse(&document, lf_str_c(root), &lf_json_limits_request, NULL), LF_OK);
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_json json;
        assert_int_equal(lf_json_parse(&json, lf_str_c(cases[i].schema), &lf_json_limits_request, NULL), LF_OK);
        int types = lf_tool_types(lf_json_root(&document), lf_json_root(&json));
        if (types != cases[i].types) fail_msg("%s: %d", cases[i].schema, types);
        lf_json_deinit(&json);
    }
    lf_json_deinit(&document);
}

static void a_tool_may_have_no_parameters(void **state)
{
    static const char *const schemas[] = {"{}", "{\"properties\": {}}", "{\"properties\": [1]}", "true", "null"};
    struct lf_arena arena;
    struct lf_tool tool;
    (void)state;
    lf_arena_init(&arena, 1024, 1 << 20);
    assert_int_equal(lf_tool_init(&tool, LF_STR("t"), (struct lf_json_value){0}, &arena), LF_OK);
    assert_int_equal(tool.n_parameters, 0);
    for (size_t i = 0; i < LF_N_ELEMS(schemas); i++) {
        struct lf_json json;
        assert_int_equal(lf_json_parse(&json, lf_str_c(schemas[i]), &lf_json_limits_request, NULL), LF_OK);
        assert_int_equal(lf_tool_init(&tool, LF_STR("t"), lf_json_root(&json), &arena), LF_OK);
        assert_int_equal(tool.n_parameters, 0);
        lf_json_deinit(&json);
    }
    lf_arena_deinit(&arena);
}

static void an_arena_that_is_full_is_said(void **state)
{
    static const char schema[] = "{\"properties\": {\"a\": {\"type\": \"string\"}, \"bcdefghijklmnopqrstuvwxyz\": {}}}";
    struct lf_json json;
    (void)state;
    assert_int_equal(lf_json_parse(&json, lf_str_c(schema), &lf_json_limits_request, NULL), LF_OK);
    enum lf_status status = LF_NO_MEMORY;
    size_t ceiling = 0;
    for (; status != LF_OK; ceiling += 8) {
        struct lf_arena arena;
        struct lf_tool tool;
        lf_arena_init(&arena, 64, ceiling);
        status = lf_tool_init(&tool, LF_STR("t"), lf_json_root(&json), &arena);
        assert_true(status == LF_OK || status == LF_NO_MEMORY);
        assert_true(ceiling < 1024);
        lf_arena_deinit(&arena);
    }
    assert_true(ceiling > 64);
    lf_json_deinit(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_strings_by_their_schema),
        cmocka_unit_test(types_are_those_of_the_keywords_together),
        cmocka_unit_test(a_tool_may_have_no_parameters),
        cmocka_unit_test(an_arena_that_is_full_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
