/* Free text around markers: "any text that has none of these in it", "any text up to the first of these".
 *
 * The automaton of Aho and Corasick (1975) finds all markers in one pass: its states are the prefixes of markers, and
 * where no marker goes on, it falls back to the longest suffix that one begins with. Taken as a DFA, and together with
 * what valid UTF-8 is, it is a terminal like any other, so an answer never stands in the middle of a character. */
#ifndef LF_GRAMMAR_FREE_TEXT_H
#define LF_GRAMMAR_FREE_TEXT_H

#include "grammar/dfa.h"

enum lf_free_text_kind {
    LF_FREE_TEXT_WITHOUT, /* texts that have no marker in them; the empty one, too */
    LF_FREE_TEXT_UP_TO    /* texts that end with the first end of a marker in them */
};

/* markers: valid UTF-8, none of them empty. In the scratch. LF_LIMIT: they need more than LF_GRAMMAR_STATES_N. */
struct lf_dfa lf_free_text(struct lf_compilation *c, const struct lf_str *markers, size_t n,
                           enum lf_free_text_kind kind);

#endif
