/* JSON byte by byte: whether what has come so far may still become one JSON value, and when it has.
 *
 * As core/json.h refuses, with what needs the whole value left out: \u0000 and lone surrogates in strings, numbers past
 * a double, nesting past LF_JSON_DEPTH. A name that comes twice, and the number of values, are not looked at. Strings
 * are UTF-8 because answers are. A scan is plain data of fixed size; the objects and arrays it is in are a stack of
 * bits, so nothing recurses. */
#ifndef LF_TEMPLATE_ANSWER_JSON_SCAN_H
#define LF_TEMPLATE_ANSWER_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

enum lf_json_scan_state {
    LF_SCAN_VALUE,       /* a value must come */
    LF_SCAN_FIRST_VALUE, /* behind [ */
    LF_SCAN_FIRST_KEY,   /* behind { */
    LF_SCAN_KEY,         /* behind a comma in an object */
    LF_SCAN_COLON,       /* behind a name */
    LF_SCAN_NEXT,        /* behind a value inside of something */
    LF_SCAN_STRING,      /* in a string, or in a name */
    LF_SCAN_ESCAPE,      /* behind its backslash */
    LF_SCAN_HEX,         /* in \uXXXX */
    LF_SCAN_WORD,        /* in true, false, null */
    LF_SCAN_MINUS,       /* numbers: behind each of their parts */
    LF_SCAN_ZERO,
    LF_SCAN_INTEGER,
    LF_SCAN_POINT,
    LF_SCAN_FRACTION,
    LF_SCAN_E,
    LF_SCAN_E_SIGN,
    LF_SCAN_EXPONENT,
    LF_SCAN_END /* the value is whole; white space may follow */
};

struct lf_json_scan {
    enum lf_json_scan_state state;
    uint64_t objects; /* bit d: what is open at depth d is an object, else an array */
    uint32_t depth;   /* objects and arrays that are open */
    bool in_key;      /* the string is a name */
    bool is_negative; /* the exponent */
    const char *word; /* what is left of true, false, null */
    uint32_t hex, n_hex, high;
    uint32_t n_number, n_integer, exponent; /* bytes of a number, digits before its point, its exponent */
};

void lf_json_scan_init(struct lf_json_scan *scan);
/* The next byte; false: it cannot come here, and the scan is as it was, or is not to be used any more. */
bool lf_json_scan_byte(struct lf_json_scan *scan, char c);
/* Whether the bytes so far are a whole value: a number at the root ends with its text only. */
bool lf_json_scan_is_whole(const struct lf_json_scan *scan);
static inline bool lf_json_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

#endif
