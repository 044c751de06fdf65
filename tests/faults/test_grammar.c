/* The allocation sweep over grammars: compiling each kind, a vocabulary, a matcher and its masks. */
#include "grammar/grammar.h"
#include "tests/faults/sweep.h"

enum { TOKENS_N = 256 + 5 };

static enum lf_status make_vocabulary(struct lf_vocabulary **out, struct lf_err *err)
{
    static const char *const pieces[] = {"\":\"", "\"},", "aaa", "\xff<1>", ""};
    char bytes[256];
    struct lf_str tokens[TOKENS_N];
    int32_t end = TOKENS_N - 1;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = lf_str_from(&bytes[i], 1);
    }
    for (int i = 256; i < TOKENS_N; i++) tokens[i] = lf_str_c(pieces[i - 256]);
    return lf_vocabulary_create(out, tokens, TOKENS_N, &end, 1, 1 << 14, err);
}

static enum lf_status vocabulary(const void *ctx)
{
    struct lf_vocabulary *v = NULL;
    struct lf_err err = {0};
    enum lf_status status = make_vocabulary(&v, &err);
    (void)ctx;
    lf_vocabulary_destroy(v);
    return status == LF_NO_MEMORY && !err.message[0] ? LF_CORRUPT : status;
}

struct kind {
    const char *schema, *pattern, *choice, *whitespace;
    const char *answer; /* that is read with it */
    bool parts;
};

static enum lf_status compile_schema(struct lf_grammar **out, const struct kind *k, struct lf_err *err)
{
    struct lf_json doc = {0};
    struct lf_grammar_options options = {.whitespace = lf_str_c(k->whitespace ? k->whitespace : "")};
    LF_TRY(lf_json_parse(&doc, lf_str_c(k->schema), &lf_json_limits_request, err));
    struct lf_grammar_part marker[] = {{.kind = LF_PART_TEXT, .text = LF_STR("<a>")},
                                       {.kind = LF_PART_CONTROL, .text = LF_STR("<1>")}};
    struct lf_grammar_part call[] = {{.kind = LF_PART_UNTIL, .parts = marker, .n_parts = 2},
                                     {.kind = LF_PART_SCHEMA, .schema = lf_json_root(&doc)},
                                     {.kind = LF_PART_REGEX, .text = LF_STR(" ?")}};
    struct lf_grammar_part whole = {.kind = LF_PART_SEQUENCE, .parts = call, .n_parts = 3};
    struct lf_grammar_part list[] = {{.kind = LF_PART_REPEAT, .parts = &whole, .n_parts = 1, .min = 1, .max = 2},
                                     {.kind = LF_PART_FREE, .parts = marker, .n_parts = 2}};
    struct lf_grammar_part root = {.kind = LF_PART_SEQUENCE, .parts = list, .n_parts = 2};
    enum lf_status status = k->parts ? lf_grammar_of_parts(out, &root, NULL, err)
                                     : lf_grammar_of_schema(out, lf_json_root(&doc), &options, NULL, err);
    lf_json_deinit(&doc);
    return status;
}

static enum lf_status compile(struct lf_grammar **out, const struct kind *k, struct lf_err *err)
{
    struct lf_str choices[] = {lf_str_c(k->choice ? k->choice : ""), LF_STR("other")};
    if (k->schema) return compile_schema(out, k, err);
    if (k->pattern) return lf_grammar_of_regex(out, lf_str_c(k->pattern), NULL, err);
    if (k->choice) return lf_grammar_of_choice(out, choices, 2, NULL, err);
    return lf_grammar_of_json_object(out, NULL, NULL, err);
}

static enum lf_status compile_alone(const void *ctx)
{
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    enum lf_status status = compile(&g, ctx, &err);
    lf_grammar_unref(g);
    return status == LF_NO_MEMORY && !err.message[0] ? LF_CORRUPT : status;
}

/* A mask before each byte of the answer. What is refused has changed nothing, so it can be asked again. */
struct reading {
    const struct kind *kind;
    const struct lf_grammar *grammar;
    struct lf_vocabulary *vocabulary;
};

static enum lf_status read_answer(const void *ctx)
{
    const struct reading *r = ctx;
    struct lf_matcher *m = NULL;
    uint32_t mask[(TOKENS_N + 31) / 32];
    enum lf_status status = lf_matcher_create(&m, r->grammar, r->vocabulary, NULL), asked = LF_OK;
    for (const char *p = r->kind->answer; *p && status == LF_OK; p++) {
        for (int i = 0; i < 3; i++) { /* the second time where the first was refused; all refused: given up */
            asked = lf_matcher_mask(m, mask, NULL);
            if (asked == LF_OK && !(mask[(uint8_t)*p / 32] >> (uint8_t)*p % 32 & 1)) status = LF_CORRUPT;
            if (asked == LF_OK) asked = lf_matcher_accept(m, (uint8_t)*p);
            if (asked != LF_NO_MEMORY) break;
        }
        if (asked != LF_OK) status = asked;
    }
    if (status == LF_OK && !lf_matcher_is_complete(m)) status = LF_CORRUPT;
    lf_matcher_destroy(m);
    return status;
}

static const struct kind kinds[] = {
    {.schema =
         "{\"$defs\":{\"s\":{\"type\":\"string\",\"pattern\":\"^a+$\"}},\"type\":\"object\",\"properties\":{\"a\":{"
         "\"$ref\":\"#/$defs/s\"},\"b\":{\"oneOf\":[{\"const\":1},{\"type\":\"array\",\"items\":{\"type\":\"number\","
         "\"minimum\":2}}]}},\"patternProperties\":{\"^x\":{\"format\":\"date\"}},\"propertyNames\":{\"maxLength\":3},"
         "\"required\":[\"a\"]}",
     .whitespace = " ?",
     .answer = "{\"a\": \"aa\",\"b\":[2.5,3],\"x\":\"2020-01-01\"}"},
    {.pattern = "(a|b)*c{2,3}|\\d+", .answer = "abcc"},
    {.choice = "yes", .answer = "yes"},
    {.answer = "{\"a\":[1,{\"b\":null}]}"},
    {.schema = "{\"enum\":[1,\"a\"]}", .parts = true, .answer = "free <a>1 text<a>\"a\" and so on"},
};

static void vocabularies(void **state)
{
    (void)state;
    sweep("a vocabulary", vocabulary, NULL, 5);
}

static void compiling(void **state)
{
    (void)state;
    static const char *const names[] = {"a schema", "a pattern", "a choice", "any object", "parts"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) sweep(names[i], compile_alone, &kinds[i], 3);
}

static void reading(void **state)
{
    (void)state;
    static const char *const names[] = {"masks of a schema", "masks of a pattern", "masks of a choice",
                                        "masks of any object", "masks of parts"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct lf_err err = {0};
        struct lf_grammar *g = NULL;
        struct reading r = {.kind = &kinds[i]};
        if (compile(&g, &kinds[i], &err) != LF_OK) fail_msg("%s", err.message);
        assert_int_equal(make_vocabulary(&r.vocabulary, &err), LF_OK);
        r.grammar = g;
        sweep(names[i], read_answer, &r, 2);
        lf_grammar_unref(g);
        lf_vocabulary_destroy(r.vocabulary);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabularies),
        cmocka_unit_test(compiling),
        cmocka_unit_test(reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
