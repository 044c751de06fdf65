/* Regular expressions of tokenizer.json, matched by PCRE2.
 *
 * Hugging Face runs them with Oniguruma in Ruby's syntax. A pattern is rewritten into PCRE2's words first, so that both
 * mean the same: white space, word letters and digits by Unicode properties, no constructs that the two read
 * differently. What is not understood is refused by name. Text given to a match is known to be valid UTF-8. */
#ifndef LF_TOKENIZER_HF_REGEX_H
#define LF_TOKENIZER_HF_REGEX_H

#include "core/str.h"

struct lf_work;

enum { LF_REGEX_PLACE_BYTES = 96 };

struct lf_regex; /* a compiled pattern: read-only, any thread */

/* LF_UNSUPPORTED: the construct that is not implemented; LF_CORRUPT: no pattern. */
LF_MUST_CHECK enum lf_status lf_regex_compile(struct lf_regex **out, struct lf_str pattern, struct lf_err *err);
/* A pattern that matches text as it is written. */
LF_MUST_CHECK enum lf_status lf_regex_literal(struct lf_regex **out, struct lf_str text, struct lf_err *err);
void lf_regex_free(struct lf_regex *regex); /* accepts NULL */

/* Where in tokenizer.json it stands, for messages; cut where it is too long. */
void lf_regex_place_set(struct lf_regex *regex, const char *place);

/* Scratch of one text, and what patterns may still cost on it: steps are counted where a match takes more than a few
 * looks (regex.c), in bytes and parts of a pattern, so the same text always costs the same. */
struct lf_regex_work {
    struct lf_work *work; /* borrowed */
    uint64_t budget;      /* steps left */

    const struct lf_regex *costly; /* that needed more than there was */
    const struct lf_regex *current;
    size_t last; /* the byte that the match was last heard of at */
    enum lf_status status;
    void *general, *match, *context, *stack; /* owned */
};
/* For a text of n_bytes. work may be NULL. */
void lf_regex_work_init(struct lf_regex_work *rw, struct lf_work *work, size_t n_bytes);
void lf_regex_work_deinit(struct lf_regex_work *rw);
/* Says which pattern it was, where status is lf_regex_next's for one that costs too much. Returns status. */
enum lf_status lf_regex_explain(const struct lf_regex_work *rw, enum lf_status status, struct lf_err *err);

/* A walk over the matches in a text, in order, as Oniguruma's iterator goes: an empty match does not follow directly
 * on another match. */
struct lf_regex_walk {
    struct lf_str text;
    size_t from;
    size_t last_end;   /* of the last match; SIZE_MAX before */
    size_t first, end; /* the match */
    size_t exact_end;  /* up to here matches are not searched for but tried one by one */
};
static inline struct lf_regex_walk lf_regex_walk_init(struct lf_str text)
{
    return (struct lf_regex_walk){.text = text, .last_end = SIZE_MAX};
}
/* *found: whether there is a next match, which is then in walk. LF_UNSUPPORTED: the pattern costs more than the text's
 * budget; LF_NO_MEMORY; LF_CANCELLED and LF_TIMEOUT of the work. */
LF_MUST_CHECK enum lf_status lf_regex_next(const struct lf_regex *regex, struct lf_regex_work *rw,
                                           struct lf_regex_walk *walk, bool *found);

#endif
