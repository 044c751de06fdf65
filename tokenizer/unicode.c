#include "tokenizer/unicode.h"

#include "tokenizer/unicode_tables.h"

static enum lf_unicode_category category(uint32_t cp)
{
    uint32_t low = 0, high = lf_unicode_categories_n; /* the run that holds cp is in [low, high) */
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (lf_unicode_categories[mid] >> 8 <= cp)
            low = mid;
        else
            high = mid;
    }
    return (enum lf_unicode_category)(lf_unicode_categories[low] & 0xff);
}

bool lf_unicode_is_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

/* Circled and squared letters are alphabetic though their category is So. */
static bool is_letter_symbol(uint32_t cp)
{
    return (cp >= 0x24b6 && cp <= 0x24e9) || (cp >= 0x1f130 && cp <= 0x1f149) || (cp >= 0x1f150 && cp <= 0x1f169) ||
           (cp >= 0x1f170 && cp <= 0x1f189);
}

bool lf_unicode_is_word(uint32_t cp)
{
    if (cp < 0x80) return (cp | 32) - 'a' < 26 || cp - '0' < 10 || cp == '_';
    if (cp == 0x200c || cp == 0x200d) return true;
    enum lf_unicode_category c = category(cp);
    return (c >= LF_UNICODE_LU && c <= LF_UNICODE_NL) || c == LF_UNICODE_PC || is_letter_symbol(cp);
}

bool lf_unicode_is_numeric(uint32_t cp)
{
    if (cp < 0x80) return cp - '0' < 10;
    enum lf_unicode_category c = category(cp);
    return c == LF_UNICODE_ND || c == LF_UNICODE_NL || c == LF_UNICODE_NO;
}

bool lf_unicode_is_punctuation(uint32_t cp)
{
    if (cp < 0x80) return cp > ' ' && cp < 0x7f && !((cp | 32) - 'a' < 26 || cp - '0' < 10);
    enum lf_unicode_category c = category(cp);
    return c >= LF_UNICODE_PC && c <= LF_UNICODE_PO;
}
