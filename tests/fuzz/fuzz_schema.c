/* Fuzzing the compiler of schemas: a letter (j, strict: s, with white space: w), and a schema. What is compiled is
 * answered at random (use_grammar.h), and a whole answer is JSON. */
#include "core/json.h"
#include "tests/fuzz/use_grammar.h"

/* A name that no schema lists may come twice, which is JSON, and which this reader refuses. */
static void check_whole(void *ctx, struct lf_str answer)
{
    struct lf_json doc = {0};
    struct lf_err err = {0};
    (void)ctx;
    enum lf_status status = lf_json_parse(&doc, answer, &(struct lf_json_limits){LF_JSON_DEPTH, LF_JSON_NODES}, &err);
    LF_ASSERT(status == LF_OK || strstr(err.message, "twice") != NULL);
    lf_json_deinit(&doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lf_grammar *g = NULL;
    struct lf_json doc = {0};
    struct lf_err err = {0};
    if (size == 0) return 0;
    struct lf_str text = lf_str_from((const char *)data + 1, size - 1);
    struct lf_grammar_options options = {.strict = data[0] == 's'};
    if (data[0] == 'w') options.whitespace = LF_STR("[ \\n]{0,3}");
    if (lf_json_parse(&doc, text, &lf_json_limits_request, &err) != LF_OK) return 0;
    struct lf_work work = fuzz_work(data, size);
    enum lf_status status = lf_grammar_of_schema(&g, lf_json_root(&doc), &options, &work, &err);
    lf_json_deinit(&doc);
    fuzz_check_compiled(status, &err);
    for (uint64_t seed = 0; seed < 2 && status == LF_OK; seed++)
        fuzz_answer_at_random(g, &work, size * 7 + seed, false, check_whole, NULL);
    lf_grammar_unref(g);
    return 0;
}
