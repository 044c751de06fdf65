/* Regular expressions of tokenizer.json, matched by PCRE2.
 *
 * Hugging Face runs them with Oniguruma in Ruby's syntax. A pattern is rewritten into PCRE2's words first, so that both
 * mean the same: white space, word letters and digits by Unicode properties, no constructs that the two read
 * differently. What is not understood is refused by name. Text given to a match is known to be valid UTF-8. */
#ifndef LF_TOKENIZER_REGEX_H
#define LF_TOKENIZER_REGEX_H

#include "core/str.h"

struct lf_regex; /* a compiled pattern: read-only, any thread */

/* LF_UNSUPPORTED: the construct that is not implemented; LF_CORRUPT: no pattern. */
LF_MUST_CHECK enum lf_status lf_regex_compile(struct lf_regex **out, struct lf_str pattern, struct lf_err *err);
/* A pattern that matches text as it is written. */
LF_MUST_CHECK enum lf_status lf_regex_literal(struct lf_regex **out, struct lf_str text, struct lf_err *err);
void lf_regex_free(struct lf_regex *regex); /* accepts NULL */
uint64_t lf_regex_bytes(const struct lf_regex *regex);

/* Scratch of one thread; zero it first. */
struct lf_regex_work {
    void *match; /* owned */
    void *context;
    void *stack;
};
void lf_regex_work_deinit(struct lf_regex_work *work);

/* A walk over the matches in a text, in order, as Oniguruma's iterator goes: an empty match does not follow directly
 * on another match. */
struct lf_regex_walk {
    struct lf_str text;
    size_t from;
    size_t last_end;   /* of the last match; SIZE_MAX before */
    size_t first, end; /* the match */
};
static inline struct lf_regex_walk lf_regex_walk_init(struct lf_str text)
{
    return (struct lf_regex_walk){.text = text, .last_end = SIZE_MAX};
}
/* *found: whether there is a next match, which is then in walk. LF_LIMIT: the pattern tries too much; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_regex_next(const struct lf_regex *regex, struct lf_regex_work *work,
                                           struct lf_regex_walk *walk, bool *found);

#endif
