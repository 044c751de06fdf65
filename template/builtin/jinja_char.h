/* Letters and spaces of Unicode as far as templates need them. Pure functions.
 *
 * Case mapping covers ASCII, Latin-1, Latin Extended-A and Additional, the pairs of Extended-B, Greek, Cyrillic,
 * Armenian and full-width Latin; other scripts with case (Georgian, Cherokee, Deseret …), the final sigma and mappings
 * to several letters, but for the German sharp s, keep the letter as it is. Classes of other letters are ranges, not
 * the full tables. */
#ifndef LF_TEMPLATE_BUILTIN_JINJA_CHAR_H
#define LF_TEMPLATE_BUILTIN_JINJA_CHAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool lf_jinja_is_space(uint32_t cp);    /* str.isspace */
bool lf_jinja_is_line_end(uint32_t cp); /* where str.splitlines cuts */
bool lf_jinja_is_digit(uint32_t cp);
bool lf_jinja_is_alpha(uint32_t cp);
bool lf_jinja_is_printable(uint32_t cp);
uint32_t lf_jinja_upper(uint32_t cp); /* U+00DF gives itself: its upper case is two letters */
uint32_t lf_jinja_lower(uint32_t cp);

#endif
