/* From Ruby's syntax, as Oniguruma reads it, to PCRE2's. */
#ifndef LF_TOKENIZER_HF_REGEX_REWRITE_H
#define LF_TOKENIZER_HF_REGEX_REWRITE_H

#include "core/str.h"

enum { LF_REGEX_BYTES = 64 * 1024 };

/* Appends the rewritten pattern to out. LF_UNSUPPORTED names the construct. */
LF_MUST_CHECK enum lf_status lf_regex_rewrite(struct lf_buf *out, struct lf_str pattern, struct lf_err *err);

#endif
