/* Strict tools of formats with a syntax of their own: what the grammar takes meets the schema when the parser has read
 * it, and what nothing would enforce is refused. */
#include "tests/support/test.h"

#include "core/arena.h"
#include "tests/unit/template/answer_words.h"

static struct lf_arena arena;

/* What a format's grammar takes of a call of one strict tool, and what the parser reads there; parts NULL: not taken.
 */
struct strict_case {
    const char *format, *answer, *parts;
};

static void check_strict_case(const struct strict_case *c, const struct lf_tool *tool)
{
    struct words *w = malloc(sizeof(*w));
    struct lf_answer_rules rules = {.tools = tool, .n_tools = 1, .choice = LF_TOOL_CHOICE_REQUIRED};
    struct lf_answer_parser_params params = {
        .format = lf_answer_format_by_name(lf_str_c(c->format)), .tools = tool, .n_tools = 1};
    struct lf_grammar *g = NULL;
    struct lf_answer_parser *p = NULL;
    struct answer_parts parts;
    struct lf_err err = {0};
    assert_non_null(w);
    words_init(w, params.format);
    if (lf_answer_format_grammar(&g, params.format, &rules, NULL, &err) != LF_OK) fail_msg("%s", err.message);
    check_takes(g, w->v, c->answer, c->parts != NULL, true);
    assert_int_equal(lf_answer_parser_create(&p, &params), LF_OK);
    answer_parts_of(&parts, p, lf_str_c(c->answer), NULL, NULL);
    if (c->parts) assert_string_equal(parts.text.ptr, c->parts);
    lf_buf_deinit(&parts.text);
    lf_answer_parser_destroy(p);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(w->v);
    free(w);
}

static void check_strict(const char *schema, const struct strict_case *cases, size_t n)
{
    struct lf_json json;
    struct lf_tool tool;
    lf_arena_init(&arena, 1024, 1 << 20);
    assert_int_equal(lf_json_parse(&json, lf_str_c(schema), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_tool_init(&tool, LF_STR("get"), lf_json_root(&json), &arena), LF_OK);
    tool.strict = true;
    for (size_t i = 0; i < n; i++) check_strict_case(&cases[i], &tool);
    lf_json_deinit(&json);
    lf_arena_deinit(&arena);
}

/* A strict schema's properties come in their order, Gemma's as its template sorts them: by name, capitals and small
 * letters alike. */
static void properties_come_as_the_template_writes_them(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"unit\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"},"
        "\"Days\":{\"type\":\"integer\"},\"d\":{\"type\":\"integer\"},\"a_b\":{\"type\":\"boolean\"}},"
        "\"required\":[\"unit\",\"Days\",\"d\",\"a_b\"],\"additionalProperties\":false}";
    static const struct strict_case cases[] = {
        {"gemma4", "<|tool_call>call:get{a_b:true,b:1,d:2,Days:3,unit:<|\"|>C<|\"|>}<tool_call|>",
         "C(get)A({\"a_b\":true,\"b\":1,\"d\":2,\"Days\":3,\"unit\":\"C\"})E"},
        {"gemma4", "<|tool_call>call:get{a_b:true,d:2,Days:3,unit:<|\"|>C<|\"|>}<tool_call|>",
         "C(get)A({\"a_b\":true,\"d\":2,\"Days\":3,\"unit\":\"C\"})E"},
        {"gemma4", "<|tool_call>call:get{unit:<|\"|>C<|\"|>,b:1,Days:3,d:2,a_b:true}<tool_call|>", NULL},
        {"gemma4", "<|tool_call>call:get{a_b:true,b:1,Days:3,d:2,unit:<|\"|>C<|\"|>}<tool_call|>", NULL},
        {"glm",
         "<tool_call>get<arg_key>unit</arg_key><arg_value>C</arg_value><arg_key>Days</arg_key><arg_value>3</arg_value>"
         "<arg_key>d</arg_key><arg_value>2</arg_value><arg_key>a_b</arg_key><arg_value>true</arg_value></tool_call>",
         "C(get)A({\"unit\": \"C\", \"Days\": 3, \"d\": 2, \"a_b\": true})E"},
        {"glm", "<tool_call>get<arg_key>a_b</arg_key>", NULL},
    };
    (void)state;
    check_strict(schema, cases, LF_N_ELEMS(cases));
}

/* Arguments of a call in Python: JSON of the whole of each schema, truths in Python's words. */
static void arguments_of_python_meet_their_schemas(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"o\":{\"type\":\"integer\"},\"s\":{\"type\":\"string\",\"pattern\":\"^["
        "a-z' ]+$\"},"
        "\"ok\":{\"type\":\"boolean\"},\"l\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"maxItems\":2},"
        "\"n\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},\"t\":{\"type\":[\"boolean\",\"integer\"]},"
        "\"u\":{\"anyOf\":[{\"type\":\"boolean\",\"const\":false},{\"type\":\"integer\"}]},"
        "\"e\":{\"type\":\"boolean\",\"enum\":[true]}},"
        "\"required\":[\"s\",\"ok\"],\"additionalProperties\":false}";
    static const struct strict_case cases[] = {
        {"pythonic", "[get(s=\"it's\", ok=True)]", "C(get)A({\"s\": \"it's\", \"ok\": true})E"},
        {"pythonic", "[get(o=5, s=\"a\", ok=False, l=[true, false])]",
         "C(get)A({\"o\": 5, \"s\": \"a\", \"ok\": false, \"l\": [true, false]})E"},
        {"pythonic", "[get(s=\"A", NULL},
        {"pythonic", "[get(s='a'", NULL},
        {"pythonic", "[get(ok=True", NULL},
        {"pythonic", "[get(s=\"a\", ok=true)]", "C(get)A({\"s\": \"a\", \"ok\": true})E"},
        {"pythonic", "[get(s=\"a\", ok=None", NULL},
        {"pythonic", "[get(s=\"a\", ok=True, n=None, t=True, e=true)]",
         "C(get)A({\"s\": \"a\", \"ok\": true, \"n\": null, \"t\": true, \"e\": true})E"},
        {"pythonic", "[get(s=\"a\", ok=True, n=True", NULL},
        {"pythonic", "[get(s=\"a\", ok=True, t=None", NULL},
        {"pythonic", "[get(s=\"a\", ok=True, e=True", NULL},
        {"pythonic", "[get(s=\"a\", ok=True, u=True", NULL},
        {"pythonic", "[get(s=\"a\", ok=True, l=[true,true,true", NULL},
        {"pythonic", "[get(s=\"a\")", NULL},
        {"lfm2", "<|tool_call_start|>[get(s=\"a\", ok=True)]<|tool_call_end|>",
         "C(get)A({\"s\": \"a\", \"ok\": true})E"},
    };
    (void)state;
    check_strict(schema, cases, LF_N_ELEMS(cases));
}

/* A string that may be null is written as any other, without quotes, in one schema or in branches of anyOf. */
static void strings_that_may_be_null_stand_without_quotes(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},\"b\":{"
        "\"type\":["
        "\"string\",\"null\"],\"enum\":[\"x\",null]},\"c\":{\"oneOf\":[{\"$ref\":\"#/$defs/E\"},{\"type\":\"null\"}]},"
        "\"d\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}},\"required\":[\"a\"],\"$defs\":{\"E\":{"
        "\"enum\":["
        "\"y\",\"z\"]}}}";
#define OPEN        "<tool_call>\n<function=get>\n"
#define VALUE(p, v) "<parameter=" p ">\n" v "\n</parameter>\n"
#define CLOSE       "</function>\n</tool_call>"
    static const struct strict_case cases[] = {
        {"qwen3_xml", OPEN VALUE("a", "Rome") VALUE("b", "x") VALUE("c", "z") CLOSE,
         "C(get)A({\"a\": \"Rome\", \"b\": \"x\", \"c\": \"z\"})E"},
        {"qwen3_xml", OPEN VALUE("a", "null") VALUE("b", "null") VALUE("c", "null") CLOSE,
         "C(get)A({\"a\": null, \"b\": null, \"c\": null})E"},
        {"qwen3_xml", OPEN VALUE("a", "\"5\"") VALUE("d", "\"5\"") CLOSE,
         "C(get)A({\"a\": \"\\\"5\\\"\", \"d\": \"5\"})E"},
        {"qwen3_xml", OPEN VALUE("a", "") VALUE("b", "z"), NULL},
        {"qwen3_xml", OPEN VALUE("a", "") VALUE("b", "\"x\""), NULL},
        {"qwen3_xml", OPEN VALUE("a", "") VALUE("c", "x"), NULL},
        {"qwen3_xml", OPEN VALUE("a", "") VALUE("d", "x"), NULL}, /* as it may be a number, a string has quotes */
        {"glm", "<tool_call>get<arg_key>a</arg_key><arg_value>5</arg_value></tool_call>", "C(get)A({\"a\": \"5\"})E"},
    };
#undef OPEN
#undef VALUE
#undef CLOSE
    (void)state;
    check_strict(schema, cases, LF_N_ELEMS(cases));
}

/* What a reference below a property names stands in the tool's whole schema. */
static void references_below_a_property_are_found(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"l\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/P\"}}},"
        "\"required\":[\"l\"],\"$defs\":{\"P\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},"
        "\"required\":[\"n\"],\"additionalProperties\":false}}}";
    static const struct strict_case cases[] = {
        {"glm", "<tool_call>get<arg_key>l</arg_key><arg_value>[{\"n\": 1}, {\"n\": 2}]</arg_value></tool_call>",
         "C(get)A({\"l\": [{\"n\": 1}, {\"n\": 2}]})E"},
        {"glm", "<tool_call>get<arg_key>l</arg_key><arg_value>[{\"n\": true", NULL},
        {"hermes", "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"l\": [{\"n\": 1}]}}\n</tool_call>",
         "C(get)A({\"l\": [{\"n\": 1}]})E"},
    };
    (void)state;
    check_strict(schema, cases, LF_N_ELEMS(cases));
}

/* Gemma's arguments nest: objects sorted too, lists, one of several types or schemas. */
static void arguments_of_gemma_nest(void **state)
{
    static const char schema[] =
        "{\"properties\":{\"z\":{\"$ref\":\"#/$defs/P\"},\"l\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/P\"}},"
        "\"o\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},\"t\":{\"type\":[\"integer\",\"string\","
        "\"boolean\"]}},"
        "\"required\":[\"z\",\"l\",\"o\",\"t\"],\"$defs\":{\"P\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":"
        "\"string\"},\"a\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"n\",\"a\"],\"additionalProperties\":false}}}";
#define Q  "<|\"|>"
#define AT "<|tool_call>call:get"
    static const struct strict_case cases[] = {
        {"gemma4",
         AT "{l:[{a:" Q "x" Q ",n:" Q "b" Q "},{a:" Q "y" Q ",n:" Q Q "}],o:null,t:-7,z:{a:" Q "x" Q ",n:" Q
            "c, \"d\"}" Q "}}<tool_call|>",
         "C(get)A({\"l\":[{\"a\":\"x\",\"n\":\"b\"},{\"a\":\"y\",\"n\":\"\"}],\"o\":null,\"t\":-7,\"z\":{\"a\":\"x\","
         "\"n\":"
         "\"c, \\\"d\\\"}\"}})E"},
        {"gemma4", AT "{l:[],o:" Q "null" Q ",t:true,z:{a:" Q "y" Q ",n:" Q "c" Q "}}<tool_call|>",
         "C(get)A({\"l\":[],\"o\":\"null\",\"t\":true,\"z\":{\"a\":\"y\",\"n\":\"c\"}})E"},
        {"gemma4", AT "{l:[{n:", NULL},
        {"gemma4", AT "{l:[{a:" Q "z", NULL},
        {"gemma4", AT "{l:[],o:1", NULL},
        {"gemma4", AT "{l:[],o:null,t:null", NULL},
        {"gemma4", AT "{l:[],o:null,t:1.5", NULL},
        {"gemma4", AT "{l:[],o:null,t:1}", NULL},
    };
#undef Q
#undef AT
    (void)state;
    check_strict(schema, cases, LF_N_ELEMS(cases));
}

static enum lf_status status_of_strict(const char *schema)
{
    struct lf_json json;
    struct lf_tool tool;
    struct lf_err err = {0};
    struct lf_grammar *g = NULL;
    lf_arena_init(&arena, 1024, 1 << 20);
    assert_int_equal(lf_json_parse(&json, lf_str_c(schema), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_tool_init(&tool, LF_STR("get"), lf_json_root(&json), &arena), LF_OK);
    tool.strict = true;
    struct lf_answer_rules rules = {.tools = &tool, .n_tools = 1, .choice = LF_TOOL_CHOICE_REQUIRED, .parallel = true};
    enum lf_status status =
        lf_answer_format_grammar(&g, lf_answer_format_by_name(LF_STR("gemma4")), &rules, NULL, &err);
    lf_grammar_unref(g);
    lf_json_deinit(&json);
    lf_arena_deinit(&arena);
    return status;
}

static void arguments_of_gemma_have_bounds(void **state)
{
    static char text[64 * LF_TOOL_VALUES_N];
    (void)state;
    for (int more = 0; more < 2; more++) {
        enum lf_status want = more ? LF_UNSUPPORTED : LF_OK;
        int n = snprintf(text, sizeof text, "{\"required\":[\"p0\"],\"properties\":{");
        for (int i = 0; i < LF_TOOL_VALUES_N + more; i++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s\"p%d\":{\"type\":\"null\"}", i ? "," : "", i);
        snprintf(text + n, sizeof text - (size_t)n, "}}");
        assert_int_equal(status_of_strict(text), want);
        n = snprintf(text, sizeof text, "{\"required\":[\"p\"],\"properties\":{\"p\":");
        for (int i = 0; i < LF_TOOL_DEPTH + more; i++)
            n += snprintf(text + n, sizeof text - (size_t)n, "{\"type\":\"array\",\"items\":");
        n += snprintf(text + n, sizeof text - (size_t)n, "{\"type\":[\"integer\",\"null\"]}");
        for (int i = 0; i < LF_TOOL_DEPTH + more + 2; i++) n += snprintf(text + n, sizeof text - (size_t)n, "}");
        assert_int_equal(status_of_strict(text), want);
    }
}

/* What no grammar of the format would enforce is refused, with the tool's name. */
static void what_would_not_be_enforced_is_refused(void **state)
{
    static const struct {
        const char *format, *schema, *word;
    } cases[] = {
        {"hermes", "{\"type\":\"object\",\"properties\":{\"a\":{\"uniqueItems\":true}}}", "uniqueItems"},
        {"qwen3_xml", "{\"type\":\"object\",\"patternProperties\":{}}", "patternProperties"},
        {"glm", "{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"x\"}}}", "pattern"},
        {"glm", "{\"properties\":{\"a\":{\"enum\":[\"b</arg_value>\"]}}}", "enum"},
        {"qwen3_xml", "{\"properties\":{\"a\":{\"type\":[\"string\",\"null\"],\"format\":\"date\"}}}", "format"},
        {"qwen3_xml",
         "{\"properties\":{\"a\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"x\"},{\"type\":\"null\"}]}}}",
         "pattern"},
        {"qwen3_xml",
         "{\"properties\":{\"a\":{\"oneOf\":[{\"type\":\"string\"},{\"const\":\"a\"},{\"type\":\"null\"}]}}}", "oneOf"},
        {"minimax_m2", "{\"properties\":{},\"required\":[\"a\"]}", "required"},
        {"gemma4", "{\"properties\":{\"a\":{}},\"required\":[\"a\"]}", "properties"},
        {"gemma4", "{\"properties\":{\"a:b\":{\"type\":\"null\"}},\"required\":[\"a:b\"]}", "a:b"},
        {"gemma4", "{\"properties\":{\"a\":{\"type\":\"array\"}},\"required\":[\"a\"]}", "items"},
        {"gemma4", "{\"properties\":{\"a\":{\"type\":[\"array\"]}},\"required\":[\"a\"]}", "type"},
        {"gemma4", "{\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":1}}}",
         "minItems"},
        {"gemma4", "{\"properties\":{\"a\":{\"type\":\"object\",\"additionalProperties\":{}}}}",
         "additionalProperties"},
        {"gemma4",
         "{\"properties\":{\"a\":{\"$ref\":\"#/$defs/A\"}},\"$defs\":{\"A\":{\"anyOf\":[{\"$ref\":\"#/$defs/A\"}]}}}",
         "too many"},
        {"gemma4", "{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "required"},
        {"lfm2", "{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "required"},
        {"lfm2", "{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\",\"b\"]}", "required"},
        {"pythonic", "{\"properties\":{\"a-b\":{\"type\":\"null\"}},\"required\":[\"a-b\"]}", "a-b"},
        {"pythonic", "{\"properties\":{\"1\":{\"type\":\"null\"}},\"required\":[\"1\"]}", "1"},
        {"pythonic", "{\"patternProperties\":{}}", "patternProperties"},
        {"gemma4", "{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\",\"b\"]}", "required"},
    };
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_json json;
        struct lf_tool tool;
        struct lf_err err = {0};
        struct lf_grammar *g = NULL;
        lf_arena_init(&arena, 1024, 1 << 20);
        assert_int_equal(lf_json_parse(&json, lf_str_c(cases[i].schema), &lf_json_limits_request, NULL), LF_OK);
        assert_int_equal(lf_tool_init(&tool, LF_STR("my_tool"), lf_json_root(&json), &arena), LF_OK);
        tool.strict = true;
        struct lf_answer_rules rules = {.tools = &tool, .n_tools = 1, .choice = LF_TOOL_CHOICE_REQUIRED};
        const struct lf_answer_format *f = lf_answer_format_by_name(lf_str_c(cases[i].format));
        assert_int_equal(lf_answer_format_grammar(&g, f, &rules, NULL, &err), LF_UNSUPPORTED);
        if (!strstr(err.message, cases[i].word) || !strstr(err.message, "my_tool")) fail_msg("%s", err.message);
        lf_json_deinit(&json);
        lf_arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(properties_come_as_the_template_writes_them),
        cmocka_unit_test(strings_that_may_be_null_stand_without_quotes),
        cmocka_unit_test(references_below_a_property_are_found),
        cmocka_unit_test(arguments_of_python_meet_their_schemas),
        cmocka_unit_test(arguments_of_gemma_nest),
        cmocka_unit_test(arguments_of_gemma_have_bounds),
        cmocka_unit_test(what_would_not_be_enforced_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
