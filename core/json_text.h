/* What the JSON parser and the getters share: reading an escape and a number from their text. Private to core. */
#ifndef LF_CORE_JSON_TEXT_H
#define LF_CORE_JSON_TEXT_H

#include "core/str.h"

/* Reads the escape at s (a backslash): its code point to *cp, its length (2, 6 or 12 bytes) returned. 0: not one, a
 * lone surrogate, or \u0000. */
int lf_json_unescape(const char *s, size_t len, uint32_t *cp);
/* Where the number at `at` ends, after the grammar and nothing else; NULL, or what is wrong with it, to *why. */
size_t lf_json_number_end(const char *text, size_t len, size_t at, const char **why);
/* Past the white space from `at` on. */
static inline size_t lf_json_space_end(const char *text, size_t len, size_t at)
{
    while (at < len && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) at++;
    return at;
}
/* A number's text as a double; false where it is longer than any sane number (then it is refused). */
bool lf_json_number_text(struct lf_str s, double *out);

#endif
