/* JSON numbers under bounds, as byte automata over their decimal spelling.
 *
 * A bound is a decimal, compared digit by digit as text, so nothing is rounded. Numbers that are bounded
 * are spelled without an exponent and without a minus before zero; there are at most LF_GRAMMAR_DIGITS_N digits before
 * the point and behind it (18 of a multiple), so that an answer cannot consist of digits for ever and no reader
 * overflows. */
#ifndef LF_GRAMMAR_NUMBER_H
#define LF_GRAMMAR_NUMBER_H

#include "grammar/dfa.h"

/* A decimal: digits, of which the first n_int stand before the point; no zeros in front (but a single one before the
 * point) and none at the end behind the point. */
struct lf_decimal {
    char digits[2 * LF_GRAMMAR_BOUND_DIGITS_N];
    int n, n_int;
    bool negative;
};

struct lf_number_bounds {
    bool integer;
    bool any_length; /* as many digits as a value has, none of them an exponent's */
    bool has_min, has_max, min_exclusive, max_exclusive;
    struct lf_decimal min, max;
    int multiple_of; /* 1 to LF_GRAMMAR_MULTIPLE; 0: none. Makes it an integer */
};

/* Of a JSON number's text. False where it has more digits than LF_GRAMMAR_BOUND_DIGITS_N on a side. */
bool lf_decimal_read(struct lf_decimal *out, struct lf_str text);
/* -1, 0, 1 */
int lf_decimal_compare(const struct lf_decimal *a, const struct lf_decimal *b);

/* Whether the value is within the bounds. */
bool lf_decimal_within(const struct lf_decimal *d, const struct lf_number_bounds *bounds);

struct lf_dfa lf_grammar_number(struct lf_compilation *c, const struct lf_number_bounds *bounds);

#endif
