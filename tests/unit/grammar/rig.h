/* What the tests of grammars share: a vocabulary of the 256 bytes and an end, grammars from C strings, and whether a
 * grammar takes a text. */
#ifndef LF_TESTS_UNIT_GRAMMAR_RIG_H
#define LF_TESTS_UNIT_GRAMMAR_RIG_H

#include "core/check.h"
#include "grammar/grammar.h"
#include "tests/support/test.h"

static inline struct lf_vocabulary *vocabulary_of_bytes(void)
{
    static char bytes[256];
    struct lf_str tokens[257];
    int32_t end = 256;
    struct lf_vocabulary *v = NULL;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = lf_str_from(&bytes[i], 1);
    }
    tokens[256] = LF_STR("");
    assert_int_equal(lf_vocabulary_create(&v, tokens, 257, &end, 1, 1 << 16, NULL), LF_OK);
    return v;
}

static inline enum lf_status try_schema(struct lf_grammar **out, const char *schema,
                                        const struct lf_grammar_options *options, struct lf_err *err)
{
    struct lf_json doc = {0};
    enum lf_status status = lf_json_parse(&doc, lf_str_c(schema), &lf_json_limits_request, err);
    if (status == LF_OK) status = lf_grammar_of_schema(out, lf_json_root(&doc), options, NULL, err);
    lf_json_deinit(&doc);
    return status;
}

static inline struct lf_grammar *grammar_of(const char *schema, const struct lf_grammar_options *options)
{
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    if (try_schema(&g, schema, options, &err) != LF_OK) fail_msg("%s: %.200s", err.message, schema);
    return g;
}

/* Whether the text is a whole answer; every byte must be in the mask before it, too. */
static inline bool takes(const struct lf_grammar *g, struct lf_vocabulary *v, const char *text)
{
    struct lf_matcher *m = NULL;
    uint32_t mask[9];
    bool alive = true;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    for (const char *p = text; *p && alive; p++) {
        uint8_t byte = (uint8_t)*p;
        assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
        alive = lf_matcher_accept(m, byte) == LF_OK;
        assert_int_equal(alive, mask[byte / 32] >> byte % 32 & 1);
    }
    assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
    bool whole = alive && lf_matcher_is_complete(m);
    if (alive) assert_int_equal(whole, mask[8] & 1);
    lf_matcher_destroy(m);
    return whole;
}

#endif
