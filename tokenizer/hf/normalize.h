/* Normalizers of tokenizer.json: a list of steps, each from text to text. */
#ifndef LF_TOKENIZER_HF_NORMALIZE_H
#define LF_TOKENIZER_HF_NORMALIZE_H

#include "core/arena.h"
#include "core/json.h"
#include "tokenizer/encode.h"
#include "tokenizer/marked.h"
#include "tokenizer/hf/regex.h"

enum lf_normal_form { LF_NFC, LF_NFD, LF_NFKC, LF_NFKD };

enum lf_normalize_kind {
    LF_NORMALIZE_FORM,
    LF_NORMALIZE_PREPEND,
    LF_NORMALIZE_REPLACE,
    LF_NORMALIZE_LOWERCASE,
    LF_NORMALIZE_STRIP
};

enum { LF_NORMALIZE_STEPS_N = 16 };

struct lf_normalize_step {
    enum lf_normalize_kind kind;
    enum lf_normal_form form;
    struct lf_regex *pattern; /* owned */
    struct lf_str text;       /* to prepend, to put in place; in the arena */
    bool left, right;         /* to strip */
};

struct lf_normalizer {
    struct lf_normalize_step steps[LF_NORMALIZE_STEPS_N];
    int n_steps;
};

/* From the value of "normalizer", null for none; place: its name, for messages. Zero it first. LF_UNSUPPORTED names a
 * kind that is not implemented. */
LF_MUST_CHECK enum lf_status lf_normalizer_open(struct lf_normalizer *normalizer, struct lf_arena *arena,
                                                struct lf_json_value v, const char *place, struct lf_err *err);
void lf_normalizer_deinit(struct lf_normalizer *normalizer); /* accepts a zeroed one */

/* Normalizes text, in place; other is scratch with the same track; place: of the text. LF_LIMIT: it grows too much;
 * LF_NO_MEMORY; what lf_regex_next and the work say. */
LF_MUST_CHECK enum lf_status lf_normalizer_run(const struct lf_normalizer *normalizer, struct lf_regex_work *work,
                                               struct lf_marked *text, struct lf_marked *other, enum lf_place place);

/* The normal form of from (valid UTF-8), appended to to, in to's memory. The status of to, or of the work. */
LF_MUST_CHECK enum lf_status lf_unicode_normalize(struct lf_marked *to, const struct lf_marked *from,
                                                  enum lf_normal_form form, struct lf_work *work);
/* Small letters of each code point. */
LF_MUST_CHECK enum lf_status lf_unicode_lowercase(struct lf_marked *to, const struct lf_marked *from,
                                                  struct lf_work *work);

/* For other parts of tokenizer.json: {"String": …} or {"Regex": …}, and a member that must be a string. */
LF_MUST_CHECK enum lf_status lf_pattern_open(struct lf_regex **out, struct lf_arena *arena, struct lf_json_value v,
                                             const char *place, struct lf_err *err);

#endif
