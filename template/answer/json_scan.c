#include "template/answer/json_scan.h"

#include "core/check.h"
#include "core/str.h"

enum { LARGEST_EXPONENT = 308 }; /* of a double, in decimal */

void lf_json_scan_init(struct lf_json_scan *scan)
{
    *scan = (struct lf_json_scan){.state = LF_SCAN_VALUE};
}

static bool in_object(const struct lf_json_scan *s)
{
    return s->depth > 0 && (s->objects >> (s->depth - 1) & 1);
}

/* Behind a value, wherever it stood. */
static bool end_value(struct lf_json_scan *s)
{
    s->state = s->depth > 0 ? LF_SCAN_NEXT : LF_SCAN_END;
    return true;
}

static bool open_value(struct lf_json_scan *s, bool is_object)
{
    _Static_assert(LF_JSON_DEPTH <= 64, "a bit for each");
    if (s->depth >= LF_JSON_DEPTH) return false;
    uint64_t bit = (uint64_t)1 << s->depth++;
    s->objects = is_object ? s->objects | bit : s->objects & ~bit;
    s->state = is_object ? LF_SCAN_FIRST_KEY : LF_SCAN_FIRST_VALUE;
    return true;
}

static bool close_value(struct lf_json_scan *s, char c)
{
    if (s->depth == 0 || c != (in_object(s) ? '}' : ']')) return false;
    s->depth--;
    return end_value(s);
}

static bool open_string(struct lf_json_scan *s, bool is_key)
{
    s->state = LF_SCAN_STRING;
    s->in_key = is_key;
    s->high = 0;
    return true;
}

static bool open_word(struct lf_json_scan *s, const char *rest)
{
    s->state = LF_SCAN_WORD;
    s->word = rest;
    return true;
}

static bool open_number(struct lf_json_scan *s, char c)
{
    s->n_number = 1;
    s->n_integer = c == '-' ? 0 : 1;
    s->exponent = 0;
    s->is_negative = false;
    s->state = c == '-' ? LF_SCAN_MINUS : c == '0' ? LF_SCAN_ZERO : LF_SCAN_INTEGER;
    return true;
}

static bool begin_value(struct lf_json_scan *s, char c)
{
    switch (c) {
    case '{':
        return open_value(s, true);
    case '[':
        return open_value(s, false);
    case '"':
        return open_string(s, false);
    case 't':
        return open_word(s, "rue");
    case 'f':
        return open_word(s, "alse");
    case 'n':
        return open_word(s, "ull");
    default:
        return (c == '-' || lf_digit(c) < 10) && open_number(s, c);
    }
}

/* Between values: everything that is no string, word or number. */
static bool take_between(struct lf_json_scan *s, char c)
{
    if (lf_json_is_space(c)) return true;
    switch (s->state) {
    case LF_SCAN_VALUE:
        return begin_value(s, c);
    case LF_SCAN_FIRST_VALUE:
        return c == ']' ? close_value(s, c) : begin_value(s, c);
    case LF_SCAN_FIRST_KEY:
        return c == '}' ? close_value(s, c) : c == '"' && open_string(s, true);
    case LF_SCAN_KEY:
        return c == '"' && open_string(s, true);
    case LF_SCAN_COLON:
        s->state = LF_SCAN_VALUE;
        return c == ':';
    case LF_SCAN_NEXT:
        if (c != ',') return close_value(s, c);
        s->state = in_object(s) ? LF_SCAN_KEY : LF_SCAN_VALUE;
        return true;
    default:
        return false; /* END */
    }
}

static bool take_in_string(struct lf_json_scan *s, char c)
{
    if ((unsigned char)c < 0x20 || (s->high && c != '\\')) return false;
    if (c == '\\') s->state = LF_SCAN_ESCAPE;
    if (c != '"') return true;
    if (!s->in_key) return end_value(s);
    s->state = LF_SCAN_COLON;
    return true;
}

static bool take_escape(struct lf_json_scan *s, char c)
{
    if (c == 'u') {
        s->state = LF_SCAN_HEX;
        s->hex = s->n_hex = 0;
        return true;
    }
    s->state = LF_SCAN_STRING;
    return !s->high && c != 0 && strchr("\"\\/bfnrt", c);
}

static bool take_hex(struct lf_json_scan *s, char c)
{
    if (lf_digit(c) >= 16) return false;
    s->hex = s->hex * 16 + (uint32_t)lf_digit(c);
    if (++s->n_hex < 4) return true;
    bool is_low = s->hex >= 0xdc00 && s->hex <= 0xdfff, is_high = s->hex >= 0xd800 && s->hex < 0xdc00;
    s->state = LF_SCAN_STRING;
    if (s->hex == 0 || is_low != (s->high != 0)) return false;
    s->high = is_high;
    return true;
}

static bool take_word(struct lf_json_scan *s, char c)
{
    if (*s->word != c) return false;
    return *++s->word != 0 || end_value(s);
}

static bool is_number_end(enum lf_json_scan_state state)
{
    return state == LF_SCAN_ZERO || state == LF_SCAN_INTEGER || state == LF_SCAN_FRACTION || state == LF_SCAN_EXPONENT;
}

/* Too large for a double, by its digits alone: what is a little below that is refused with it. */
static bool is_too_large(const struct lf_json_scan *s)
{
    return s->n_number > LF_JSON_NUMBER_BYTES || (!s->is_negative && s->n_integer + s->exponent > LARGEST_EXPONENT) ||
           s->n_integer > LARGEST_EXPONENT;
}

static bool take_digit(struct lf_json_scan *s, char c)
{
    switch (s->state) {
    case LF_SCAN_MINUS:
        s->state = c == '0' ? LF_SCAN_ZERO : LF_SCAN_INTEGER; /* fall through */
    case LF_SCAN_INTEGER:
        s->n_integer++;
        return true;
    case LF_SCAN_POINT:
    case LF_SCAN_FRACTION:
        s->state = LF_SCAN_FRACTION;
        return true;
    case LF_SCAN_E:
    case LF_SCAN_E_SIGN:
    case LF_SCAN_EXPONENT:
        s->state = LF_SCAN_EXPONENT;
        s->exponent = LF_MIN(s->exponent * 10 + (uint32_t)lf_digit(c), 100000U);
        return true;
    default:
        return false; /* ZERO */
    }
}

static bool take_in_number(struct lf_json_scan *s, char c)
{
    bool is_whole = is_number_end(s->state);
    s->n_number++;
    if (is_too_large(s)) return false;
    if (lf_digit(c) < 10) return take_digit(s, c) && !is_too_large(s);
    if (c == '.' && (s->state == LF_SCAN_ZERO || s->state == LF_SCAN_INTEGER)) {
        s->state = LF_SCAN_POINT;
        return true;
    }
    if ((c == 'e' || c == 'E') && is_whole && s->state != LF_SCAN_EXPONENT) {
        s->state = LF_SCAN_E;
        return true;
    }
    if ((c == '+' || c == '-') && s->state == LF_SCAN_E) {
        s->state = LF_SCAN_E_SIGN;
        s->is_negative = c == '-';
        return true;
    }
    return is_whole && end_value(s) && take_between(s, c);
}

bool lf_json_scan_byte(struct lf_json_scan *scan, char c)
{
    switch (scan->state) {
    case LF_SCAN_STRING:
        return take_in_string(scan, c);
    case LF_SCAN_ESCAPE:
        return take_escape(scan, c);
    case LF_SCAN_HEX:
        return take_hex(scan, c);
    case LF_SCAN_WORD:
        return take_word(scan, c);
    case LF_SCAN_MINUS:
    case LF_SCAN_ZERO:
    case LF_SCAN_INTEGER:
    case LF_SCAN_POINT:
    case LF_SCAN_FRACTION:
    case LF_SCAN_E:
    case LF_SCAN_E_SIGN:
    case LF_SCAN_EXPONENT:
        return take_in_number(scan, c);
    default:
        return take_between(scan, c);
    }
}

bool lf_json_scan_is_whole(const struct lf_json_scan *scan)
{
    return scan->depth == 0 && (scan->state == LF_SCAN_END || is_number_end(scan->state));
}
