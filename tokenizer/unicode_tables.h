/* The generated tables behind unicode.c and normalize.c; every list ascends by code point. */
#ifndef LF_TOKENIZER_UNICODE_TABLES_H
#define LF_TOKENIZER_UNICODE_TABLES_H

#include <stdint.h>

enum lf_unicode_category {
    LF_UNICODE_CN,
    LF_UNICODE_LU,
    LF_UNICODE_LL,
    LF_UNICODE_LT,
    LF_UNICODE_LM,
    LF_UNICODE_LO,
    LF_UNICODE_MN,
    LF_UNICODE_MC,
    LF_UNICODE_ME,
    LF_UNICODE_ND,
    LF_UNICODE_NL,
    LF_UNICODE_NO,
    LF_UNICODE_PC,
    LF_UNICODE_PD,
    LF_UNICODE_PS,
    LF_UNICODE_PE,
    LF_UNICODE_PI,
    LF_UNICODE_PF,
    LF_UNICODE_PO,
    LF_UNICODE_SM,
    LF_UNICODE_SC,
    LF_UNICODE_SK,
    LF_UNICODE_SO,
    LF_UNICODE_ZS,
    LF_UNICODE_ZL,
    LF_UNICODE_ZP,
    LF_UNICODE_CC,
    LF_UNICODE_CF,
    LF_UNICODE_CS,
    LF_UNICODE_CO
};

struct lf_unicode_entry {
    uint32_t cp, value;
};
struct lf_unicode_pair {
    uint32_t first, second, composed;
};

extern const uint32_t lf_unicode_categories[], lf_unicode_categories_n;
extern const uint32_t lf_unicode_classes[], lf_unicode_classes_n;
extern const struct lf_unicode_entry lf_unicode_canonical[], lf_unicode_compatible[], lf_unicode_lower[];
extern const uint32_t lf_unicode_canonical_n, lf_unicode_compatible_n, lf_unicode_lower_n;
extern const uint32_t lf_unicode_pool[], lf_unicode_pool_n;
extern const struct lf_unicode_pair lf_unicode_pairs[];
extern const uint32_t lf_unicode_pairs_n;

#endif
