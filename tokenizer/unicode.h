/* Properties of code points that tokenizers ask for; tables generated from the Unicode Character Database by
 * tests/golden/tokenizer/make_unicode_tables.py. Pure functions. */
#ifndef LF_TOKENIZER_UNICODE_H
#define LF_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/str.h"

bool lf_unicode_is_space(uint32_t cp);       /* White_Space */
bool lf_unicode_is_word(uint32_t cp);        /* alphabetic, mark, decimal digit, connector, joiner: \w of UTS 18 */
bool lf_unicode_is_numeric(uint32_t cp);     /* general category N* */
bool lf_unicode_is_punctuation(uint32_t cp); /* category P of Unicode 8, and the ASCII symbols */

/* Start of the code point that ends at `at` (valid UTF-8); at itself where at is 0. */
static inline size_t lf_utf8_before(struct lf_str text, size_t at)
{
    if (at == 0) return 0;
    do at--;
    while (at > 0 && ((uint8_t)text.ptr[at] & 0xc0) == 0x80);
    return at;
}

#endif
