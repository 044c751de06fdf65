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

/* Hugging Face's punctuation is that of Unicode 8: the category P of code points assigned later does not count, and two
 * that have left the category still do. Ranges hold no other punctuation. */
static bool is_late_punctuation(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } late[] = {{0x61d, 0x61d},     {0x9fd, 0xa76},     {0xc77, 0xc84},     {0x1b7d, 0x1b7e},
                {0x2e43, 0x2e5d},   {0x10ead, 0x10f89}, {0x1144b, 0x1145d}, {0x11660, 0x116b9},
                {0x1183b, 0x11fff}, {0x12ff1, 0x12ff2}, {0x16e97, 0x16fe2}, {0x1e95e, 0x1e95f}};
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        if (cp >= late[i].first && cp <= late[i].last) return true;
    }
    return false;
}

bool lf_unicode_is_punctuation(uint32_t cp)
{
    if (cp < 0x80) return cp > ' ' && cp < 0x7f && !((cp | 32) - 'a' < 26 || cp - '0' < 10);
    if (cp == 0x166d || cp == 0x111c9) return true;
    enum lf_unicode_category c = category(cp);
    return c >= LF_UNICODE_PC && c <= LF_UNICODE_PO && !is_late_punctuation(cp);
}
