/* JSON strings whose content is constrained: from an automaton over their characters to one over their spelling.
 *
 * Each such string has one spelling: characters stand for themselves but for the quote, the backslash and the controls,
 * which are escaped as short as can be. So a set of contents and its complement stay apart when they are spelled, which
 * names of properties rely on. (Strings without constraints take any spelling: lf_terminal_of_string.) */
#ifndef LF_GRAMMAR_JSON_STRING_H
#define LF_GRAMMAR_JSON_STRING_H

#include "grammar/dfa.h"

/* The quoted spellings of the contents, each followed by `behind`; not minimized. */
struct lf_dfa lf_json_string_spelled(struct lf_compilation *c, const struct lf_dfa *content, const char *behind);
/* The contents of min to max characters (UINT32_MAX: no end), U+0000 left out. */
struct lf_dfa lf_json_string_of_length(struct lf_compilation *c, uint32_t min, uint32_t max);
/* Just these contents. */
struct lf_dfa lf_json_string_any_of(struct lf_compilation *c, const struct lf_str *texts, size_t n);

#endif
