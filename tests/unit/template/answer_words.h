/* What the tests of grammars of answers share: a vocabulary of bytes, the markers of a format and its control tokens.
 */
#ifndef LF_TESTS_UNIT_TEMPLATE_ANSWER_WORDS_H
#define LF_TESTS_UNIT_TEMPLATE_ANSWER_WORDS_H

#include "template/answer_format.h"
#include "tests/support/answer_parts.h"
#include "tests/support/test.h"

enum { TOKENS_MAX = 400 };

struct words {
    struct lf_str tokens[TOKENS_MAX];
    int n, n_controls, end; /* bytes, control tokens, markers as text, the end */
    char bytes[256];
    char controls[32][64];
    struct lf_vocabulary *v;
};

static inline void add_text(struct words *w, const char *text)
{
    if (text && text[0] && text[1]) w->tokens[w->n++] = lf_str_c(text);
}

static inline void words_init(struct words *w, const struct lf_answer_format *f)
{
    *w = (struct words){0};
    for (; w->n < 256; w->n++) {
        w->bytes[w->n] = (char)w->n;
        w->tokens[w->n] = lf_str_from(&w->bytes[w->n], 1);
    }
    for (size_t i = 0; i < LF_N_ELEMS(f->controls) && f->controls[i]; i++, w->n_controls++) {
        snprintf(w->controls[i], sizeof(w->controls[i]), "%c%s", LF_GRAMMAR_CONTROL, f->controls[i]);
        w->tokens[w->n++] = lf_str_c(w->controls[i]);
    }
    add_text(w, f->think_end);
    add_text(w, f->open);
    add_text(w, f->close);
    add_text(w, f->parameters.value_close);
    add_text(w, f->parameters.end);
    add_text(w, "\"}");
    add_text(w, "\",");
    add_text(w, "<|\"|>");
    add_text(w, "<|end|>");
    w->end = w->n;
    w->tokens[w->n++] = LF_STR("");
    int32_t end = w->end;
    assert_int_equal(lf_vocabulary_create(&w->v, w->tokens, w->n, &end, 1, 1 << 16, NULL), LF_OK);
}

/* Whether the bytes may begin an answer, and whether they may be all of it. */
static inline void check_takes(const struct lf_grammar *g, struct lf_vocabulary *v, const char *text, bool begins,
                               bool whole)
{
    struct lf_matcher *m = NULL;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    bool fits = lf_matcher_accept_bytes(m, lf_str_c(text)) == LF_OK;
    if (fits != begins || (fits && lf_matcher_is_complete(m) != whole)) fail_msg("%s", text);
    lf_matcher_destroy(m);
}

#endif
