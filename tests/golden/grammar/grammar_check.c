/* Asks the grammar library line by line, for suite.py: over a vocabulary of the 256 bytes and an end.
 *
 *     S {schema}     compiles it: "ok", or "refused N message"
 *     s {schema}     the same, strict
 *     T text         1 or 0: whether the text is a whole answer of the last schema
 *     G seed         an answer drawn at random, as one line; "cut" where it did not end within 20,000 bytes
 *
 * G prefers what closes something for two of five bytes, else uniform draws would hardly ever leave a string. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/mix.h"
#include "grammar/grammar.h"

enum { END = 256, ANSWER_BYTES = 20000 };

static struct lf_vocabulary *bytes_and_an_end(void)
{
    static char bytes[256];
    struct lf_str tokens[257];
    int32_t end = END;
    struct lf_vocabulary *v = NULL;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = lf_str_from(&bytes[i], 1);
    }
    tokens[END] = LF_STR("");
    LF_ASSERT(lf_vocabulary_create(&v, tokens, 257, &end, 1, 0, NULL) == LF_OK);
    return v;
}

static struct lf_grammar *compile(const char *text, bool strict)
{
    struct lf_json doc = {0};
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    struct lf_grammar_options options = {.strict = strict};
    enum lf_status status = lf_json_parse(&doc, lf_str_c(text), &lf_json_limits_request, &err);
    if (status == LF_OK) status = lf_grammar_of_schema(&g, lf_json_root(&doc), &options, NULL, &err);
    lf_json_deinit(&doc);
    if (status == LF_OK)
        puts("ok");
    else
        printf("refused %d %s\n", (int)status, err.message);
    return g;
}

static bool has(const uint32_t *mask, int i)
{
    return mask[i / 32] >> i % 32 & 1;
}

/* The masks are asked as well: what they say must be what happens. */
static bool takes(struct lf_matcher *m, const char *text)
{
    uint32_t mask[9];
    lf_matcher_restart(m);
    for (; *text; text++) {
        LF_ASSERT(lf_matcher_mask(m, mask, NULL) == LF_OK);
        bool taken = lf_matcher_accept(m, (uint8_t)*text) == LF_OK;
        LF_ASSERT(taken == has(mask, (uint8_t)*text));
        if (!taken) return false;
    }
    return lf_matcher_is_complete(m);
}

static int pick(const uint32_t *mask, uint32_t n_allowed, uint64_t *seed, bool hurry)
{
    static const char closing[] = "\"}]";
    *seed = lf_mix64(*seed + 1);
    if (has(mask, END) && (hurry || *seed % 3 == 0)) return END;
    for (const char *p = closing; *p && (hurry || *seed % 5 < 2); p++)
        if (has(mask, *p)) return *p;
    uint32_t k = (uint32_t)(lf_mix64(*seed) % n_allowed);
    for (int i = 0; i <= END; i++)
        if (has(mask, i) && k-- == 0) return i;
    return END;
}

static void draw(struct lf_matcher *m, uint64_t seed)
{
    char text[ANSWER_BYTES + 1];
    uint32_t mask[9], n_allowed;
    size_t n = 0;
    lf_matcher_restart(m);
    while (n < ANSWER_BYTES) {
        LF_ASSERT(lf_matcher_mask(m, mask, &n_allowed) == LF_OK);
        LF_ASSERT(n_allowed > 0);
        int token = pick(mask, n_allowed, &seed, n > 400);
        LF_ASSERT(lf_matcher_accept(m, token) == LF_OK);
        if (token == END) break;
        text[n++] = (char)token;
    }
    text[n] = 0;
    puts(n < ANSWER_BYTES ? text : "cut");
}

int main(void)
{
    struct lf_vocabulary *v = bytes_and_an_end();
    struct lf_grammar *g = NULL;
    struct lf_matcher *m = NULL;
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        if (line[n - 1] == '\n') line[n - 1] = 0;
        if (line[0] == 'S' || line[0] == 's') {
            lf_matcher_destroy(m);
            lf_grammar_unref(g);
            m = NULL;
            g = compile(line + 2, line[0] == 's');
            if (g) LF_ASSERT(lf_matcher_create(&m, g, v, NULL) == LF_OK);
        } else if (m && line[0] == 'T') {
            puts(takes(m, line + 2) ? "1" : "0");
        } else if (m && line[0] == 'G') {
            draw(m, strtoull(line + 2, NULL, 10));
        }
        fflush(stdout);
    }
    free(line);
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
    return 0;
}
