/* Fuzzing the compilers of grammars: the first byte says which, the rest is a schema or a pattern. What is compiled is
 * answered at random over a vocabulary of bytes and some pieces of JSON: some token is allowed until the answer ends,
 * what the mask allows is accepted and nothing else, and a whole answer of a schema is JSON. */
#include "core/json.h"
#include "core/mix.h"
#include "grammar/grammar.h"
#include "tests/fuzz/fuzz.h"

enum { PIECES_N = 12, TOKENS_N = 256 + PIECES_N + 1, END = TOKENS_N - 1, STEPS_N = 60 };

static struct lf_vocabulary *the_vocabulary(void)
{
    static const char *const pieces[PIECES_N] = {"\"}", "\",\"",     "\":\"", "{\"",  "[[",    "],",
                                                 "aa",  "\xc3\xa9x", "12",    "null", "\\u00", "\"]"};
    static struct lf_vocabulary *v;
    static char bytes[256];
    struct lf_str tokens[TOKENS_N];
    int32_t end = END;
    if (v) return v;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = lf_str_from(&bytes[i], 1);
    }
    for (int i = 0; i < PIECES_N; i++) tokens[256 + i] = lf_str_c(pieces[i]);
    tokens[END] = LF_STR("");
    LF_ASSERT(lf_vocabulary_create(&v, tokens, TOKENS_N, &end, 1, 1 << 16, NULL) == LF_OK);
    return v;
}

static void answer(const struct lf_grammar *g, uint64_t seed, bool is_json)
{
    static const char *const pieces[PIECES_N] = {"\"}", "\",\"",     "\":\"", "{\"",  "[[",    "],",
                                                 "aa",  "\xc3\xa9x", "12",    "null", "\\u00", "\"]"};
    struct lf_matcher *m = NULL;
    struct lf_buf text;
    uint32_t mask[(TOKENS_N + 31) / 32], n_allowed;
    lf_buf_init(&text, 1 << 16);
    LF_ASSERT(lf_matcher_create(&m, g, the_vocabulary(), NULL) == LF_OK);
    for (int step = 0; step < STEPS_N; step++) {
        enum lf_status status = lf_matcher_mask(m, mask, &n_allowed);
        if (status == LF_LIMIT) break;
        LF_ASSERT(status == LF_OK && n_allowed > 0);
        seed = lf_mix64(seed);
        int other = (int)(seed % TOKENS_N), token = other;
        while (!(mask[token / 32] >> token % 32 & 1)) token = (token + 1) % TOKENS_N;
        if (other != token) LF_ASSERT(lf_matcher_accept(m, other) == LF_INVALID);
        status = lf_matcher_accept(m, token);
        if (status == LF_LIMIT) break;
        LF_ASSERT(status == LF_OK);
        if (token == END) break;
        if (token < 256)
            lf_buf_char(&text, (char)token);
        else
            lf_buf_cstr(&text, pieces[token - 256]);
        struct lf_json doc = {0};
        if (is_json && lf_matcher_is_complete(m)) {
            struct lf_json_limits limits = {LF_JSON_DEPTH, LF_JSON_NODES};
            status = lf_json_parse(&doc, lf_buf_view(&text), &limits, NULL);
            /* a name that no schema lists may come twice, which is JSON, and which this reader refuses */
            LF_ASSERT(status == LF_OK || memchr(text.ptr, '{', text.len) != NULL);
            lf_json_deinit(&doc);
        }
    }
    lf_matcher_destroy(m);
    lf_buf_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    enum lf_status status;
    if (size == 0) return 0;
    struct lf_str text = lf_str_from((const char *)data + 1, size - 1);
    bool is_json = data[0] != 'r';
    if (!is_json) {
        if (!lf_utf8_valid(text)) return 0;
        status = lf_grammar_of_regex(&g, text, NULL, &err);
    } else {
        struct lf_json doc = {0};
        struct lf_grammar_options options = {.strict = data[0] == 's'};
        if (data[0] == 'w') options.whitespace = LF_STR("[ \\n]{0,3}");
        if (lf_json_parse(&doc, text, &lf_json_limits_request, NULL) != LF_OK) return 0;
        status = lf_grammar_of_schema(&g, lf_json_root(&doc), &options, NULL, &err);
        lf_json_deinit(&doc);
    }
    LF_ASSERT(status == LF_OK || err.message[0] != 0);
    LF_ASSERT(status == LF_OK || status == LF_INVALID || status == LF_UNSUPPORTED || status == LF_LIMIT);
    if (status == LF_OK)
        for (uint64_t seed = 0; seed < 2; seed++) answer(g, size * 7 + seed, is_json);
    lf_grammar_unref(g);
    return 0;
}
