/* A compilation that is stopped after its 1st, 2nd, 3rd … step, wherever that is, comes to its end and says why: the
 * way of a client that has gone and of a schema past LF_GRAMMAR_STEPS. The same for each of its
 * bytes of memory. */
#include "grammar/parts.h"
#include "grammar/regex.h"
#include "grammar/schema_impl.h"
#include "tests/unit/grammar/rig.h"

static const char *const schemas[] = {
    "{\"$defs\":{\"n\":{\"$anchor\":\"x\",\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"number\"},\"next\":{\"$"
    "ref\":\"#x\"}},"
    "\"required\":[\"v\"]}},\"$ref\":\"#/$defs/n\"}",
    "{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"null\"},\"b$\":true},\"propertyNames\":{\"enum\":["
    "\"a\",\"ab\"]},"
    "\"minProperties\":1,\"maxProperties\":2,\"additionalProperties\":false}",
    "{\"type\":\"array\",\"prefixItems\":[{\"const\":[1,{\"a\":null}]},{\"enum\":[\"x\",2.0]}],\"items\":{\"type\":"
    "\"boolean\"},"
    "\"minItems\":1,\"maxItems\":4}",
    "{\"oneOf\":[{\"type\":\"integer\",\"minimum\":-5,\"maximum\":300},{\"type\":\"string\",\"minLength\":1,"
    "\"maxLength\":3,"
    "\"pattern\":\"a|b\"},{\"type\":\"number\",\"exclusiveMinimum\":400.5,\"exclusiveMaximum\":500}]}",
    "{\"allOf\":[{\"anyOf\":[{\"type\":\"integer\",\"multipleOf\":7},{\"format\":\"date\",\"type\":\"string\"}]},{"
    "\"minimum\":3}]}",
    "{\"type\":\"string\",\"enum\":[\"ab\",\"c\"],\"pattern\":\"^a\",\"maxLength\":2}",
    "{\"type\":\"string\",\"pattern\":\"^(a{2}|b{3})*$\",\"minLength\":9,\"maxLength\":20}",
    "{\"type\":\"integer\",\"enum\":[1,2,30],\"minimum\":2}",
};
static const char *const patterns[] = {"^(?:a|[^b-d]{1,3})*(x|y$)\\.$", "\\u00e9+?\\d{2,}", "(a(b(c)?)*)|[\\w-]"};

struct source {
    const char *schema, *pattern;
    const struct lf_grammar_part *parts;
    bool spaced;
};

/* With so many steps or bytes left. */
static enum lf_status compile(const struct source *source, uint64_t n_left, bool of_bytes)
{
    struct lf_arena keep;
    struct lf_compilation c;
    struct lf_network net = {0};
    struct lf_schema_terminals terminals = {0};
    struct lf_json doc = {0};
    struct lf_err err = {0};
    lf_arena_init(&keep, 4096, LF_GRAMMAR_BYTES);
    lf_compilation_init(&c, &keep, NULL, &err);
    c.n_steps = of_bytes ? 0 : LF_GRAMMAR_STEPS - n_left;
    if (of_bytes) c.scratch.ceiling = n_left;
    if (source->schema) {
        assert_int_equal(lf_json_parse(&doc, lf_str_c(source->schema), &lf_json_limits_request, NULL), LF_OK);
        struct lf_str space = source->spaced ? LF_STR("[ \\n]?") : LF_STR("");
        const struct lf_json_value whole = {0};
        const struct lf_grammar_options options = {.whitespace = space};
        net.start = lf_schema_compile(&c, &net, lf_json_root(&doc), whole, &options, &terminals);
    } else if (source->pattern) {
        struct lf_dfa dfa = lf_grammar_regex(&c, lf_str_c(source->pattern), LF_REGEX_ANYWHERE);
        struct lf_terminal t = lf_terminal_of_dfa(&c, &dfa);
        (void)t;
    } else {
        lf_parts_compile(&c, &net, source->parts);
    }
    lf_network_keep(&net, &c);
    if (c.status != LF_OK && !strstr(err.message, of_bytes ? "bytes" : "steps"))
        fail_msg("%llu left: %s", (unsigned long long)n_left, err.message);
    lf_json_deinit(&doc);
    lf_compilation_deinit(&c);
    lf_arena_deinit(&keep);
    return c.status;
}

static void stop_everywhere(const struct source *source)
{
    for (int of_bytes = 0; of_bytes < 2; of_bytes++) {
        enum lf_status status = LF_LIMIT;
        uint64_t n_stopped = 0;
        for (uint64_t n = 1; status == LF_LIMIT; n += of_bytes ? 16 + n / 96 : 1 + n / 48, n_stopped++)
            status = compile(source, n, of_bytes);
        assert_int_equal(status, LF_OK);
        assert_true(n_stopped > 10);
    }
}

static void schemas_stop_at_any_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        for (int spaced = 0; spaced < 2; spaced++)
            stop_everywhere(&(struct source){.schema = schemas[i], .spaced = spaced});
}

static void patterns_stop_at_any_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        stop_everywhere(&(struct source){.pattern = patterns[i]});
}

static void parts_stop_at_any_step(void **state)
{
    (void)state;
    const struct lf_grammar_part markers[] = {{.kind = LF_PART_TEXT, .text = LF_STR("<a>")},
                                              {.kind = LF_PART_TEXT, .text = LF_STR("a<b")},
                                              {.kind = LF_PART_CONTROL, .text = LF_STR("<1>")}};
    const struct lf_grammar_part call[] = {{.kind = LF_PART_UNTIL, .parts = markers, .n_parts = 3},
                                           {.kind = LF_PART_SCHEMA},
                                           {.kind = LF_PART_REGEX, .text = LF_STR("a?")}};
    const struct lf_grammar_part whole = {.kind = LF_PART_SEQUENCE, .parts = call, .n_parts = 3};
    const struct lf_grammar_part list[] = {{.kind = LF_PART_REPEAT, .parts = &whole, .n_parts = 1, .min = 1, .max = 3},
                                           {.kind = LF_PART_FREE, .parts = markers, .n_parts = 2}};
    const struct lf_grammar_part some[] = {{.kind = LF_PART_SEQUENCE, .parts = list, .n_parts = 2}, list[1], list[0]};
    const struct lf_grammar_part root = {.kind = LF_PART_ALTERNATIVE, .parts = some, .n_parts = 3};
    stop_everywhere(&(struct source){.parts = &root});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_stop_at_any_step),
        cmocka_unit_test(patterns_stop_at_any_step),
        cmocka_unit_test(parts_stop_at_any_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
