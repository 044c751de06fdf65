/* The getters: each reads the text under its node again. An element of a packed array has no node and is read from
 * where its number begins; the one behind the last begins at the closing bracket. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/json.h"
#include "core/json_text.h"

static const struct lf_json_node none = {.type = LF_JSON_NONE}, number = {.type = LF_JSON_NUMBER};
enum { NONE_IDX = 0xffffffffu >> 1 };

static const struct lf_json_node *node_of(struct lf_json_value v)
{
    if (v.number_off) return v.json->text[v.number_off] == ']' ? &none : &number;
    return v.json && v.idx < v.json->n_nodes ? &v.json->nodes[v.idx] : &none;
}

static struct lf_json_value none_of(struct lf_json_value v)
{
    return (struct lf_json_value){.json = v.json, .idx = NONE_IDX};
}

struct lf_json_value lf_json_root(const struct lf_json *json)
{
    return (struct lf_json_value){.json = json};
}

enum lf_json_type lf_json_type(struct lf_json_value v)
{
    return (enum lf_json_type)node_of(v)->type;
}

const char *lf_json_type_name(struct lf_json_value v)
{
    static const char *const names[] = {"nothing",  "null",     "a boolean", "a boolean",
                                        "a number", "a string", "an array",  "an object"};
    return names[node_of(v)->type];
}

bool lf_json_is_absent(struct lf_json_value v)
{
    return node_of(v)->type <= LF_JSON_NULL;
}

uint32_t lf_json_len(struct lf_json_value v)
{
    const struct lf_json_node *n = node_of(v);
    return n->type >= LF_JSON_ARRAY ? n->n_children : 0;
}

/* The element of the packed array v that begins at `at` or after white space. */
static struct lf_json_value element_at(struct lf_json_value v, size_t at)
{
    v.number_off = (uint32_t)lf_json_space_end(v.json->text, v.json->text_len, at);
    return v;
}

static size_t element_end(struct lf_json_value it)
{
    const char *why;
    return lf_json_number_end(it.json->text, it.json->text_len, it.number_off, &why);
}

struct lf_json_value lf_json_first(struct lf_json_value v)
{
    const struct lf_json_node *n = node_of(v);
    if (n->packed) return element_at(v, n->text_off + 1);
    return (struct lf_json_value){.json = v.json, .idx = v.idx + 1};
}

bool lf_json_more(struct lf_json_value v, struct lf_json_value it)
{
    const struct lf_json_node *n = node_of(v);
    if (n->packed) return v.json->text[it.number_off] != ']';
    return n->type >= LF_JSON_ARRAY && it.idx < n->next;
}

struct lf_json_value lf_json_next(struct lf_json_value v, struct lf_json_value it)
{
    if (node_of(v)->packed) {
        if (!lf_json_more(v, it)) return it;
        it = element_at(it, element_end(it));
        return lf_json_more(v, it) ? element_at(it, it.number_off + 1) : it; /* over the comma */
    }
    uint32_t next = node_of(it)->next;
    if (node_of(v)->type == LF_JSON_OBJECT) next = v.json->nodes[next].next; /* over the member's value */
    return (struct lf_json_value){.json = v.json, .idx = next};
}

struct lf_json_value lf_json_member(struct lf_json_value name)
{
    return (struct lf_json_value){.json = name.json, .idx = name.idx + 1};
}

struct lf_json_value lf_json_get(struct lf_json_value v, const char *name)
{
    if (lf_json_type(v) != LF_JSON_OBJECT) return none_of(v);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        if (lf_json_string_is(it, name)) return lf_json_member(it);
    return none_of(v);
}

bool lf_json_bool(struct lf_json_value v, bool *out)
{
    enum lf_json_type t = lf_json_type(v);
    if (t != LF_JSON_TRUE && t != LF_JSON_FALSE) return false;
    *out = t == LF_JSON_TRUE;
    return true;
}

struct lf_str lf_json_raw(struct lf_json_value v)
{
    const struct lf_json_node *n = node_of(v);
    if (n == &number) return lf_str_from(v.json->text + v.number_off, element_end(v) - v.number_off);
    return n->type == LF_JSON_NONE ? lf_str_from("", 0) : lf_str_from(v.json->text + n->text_off, n->text_len);
}

static size_t digits_end(const char *text, size_t len, size_t at)
{
    while (at < len && text[at] >= '0' && text[at] <= '9') at++;
    return at;
}

size_t lf_json_number_end(const char *text, size_t len, size_t at, const char **why)
{
    size_t first = at < len && text[at] == '-' ? at + 1 : at, end = digits_end(text, len, first);
    *why = NULL;
    if (end == first) {
        *why = "expected a value";
        return at;
    }
    if (text[first] == '0' && end > first + 1) *why = "a number with a leading zero";
    if (end < len && text[end] == '.') {
        first = end + 1;
        end = digits_end(text, len, first);
        if (end == first && !*why) *why = "a number without digits behind its point";
    }
    if (end < len && (text[end] == 'e' || text[end] == 'E')) {
        first = end + 1;
        if (first < len && (text[first] == '+' || text[first] == '-')) first++;
        end = digits_end(text, len, first);
        if (end == first && !*why) *why = "a number without digits in its exponent";
    }
    return end;
}

bool lf_json_number_text(struct lf_str s, double *out)
{
    char text[LF_JSON_NUMBER_BYTES + 1];
    if (s.len > LF_JSON_NUMBER_BYTES) return false;
    memcpy(text, s.ptr, s.len);
    text[s.len] = 0;
    *out = strtod(text, NULL); /* the program never calls setlocale, so the point is a point */
    return true;
}

bool lf_json_double(struct lf_json_value v, double *out)
{
    double x = 0;
    if (lf_json_type(v) != LF_JSON_NUMBER) return false;
    bool ok = lf_json_number_text(lf_json_raw(v), &x) && isfinite(x);
    LF_ASSERT(ok); /* the parser refuses any other number */
    *out = x;
    return true;
}

/* Digits of an integer without fraction or exponent, exactly; false on overflow of int64 or another character. */
static bool plain_int64(struct lf_str s, int64_t *out)
{
    bool minus = s.ptr[0] == '-'; /* no number is empty */
    int64_t x = 0;
    for (size_t i = minus; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') return false;
        int digit = s.ptr[i] - '0';
        if (__builtin_mul_overflow(x, (int64_t)10, &x)) return false;
        if (minus ? __builtin_sub_overflow(x, (int64_t)digit, &x) : __builtin_add_overflow(x, (int64_t)digit, &x))
            return false;
    }
    *out = x;
    return true;
}

/* Whether the number in s, whose nearest double is x, has the digits of x. If not, it was rounded. */
static bool has_digits_of(struct lf_str s, int64_t x)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, x < 0 ? -x : x), at = 0;
    for (size_t i = 0; i < s.len && s.ptr[i] != 'e' && s.ptr[i] != 'E'; i++) {
        char c = s.ptr[i];
        if (c == '-' || c == '.' || (c == '0' && at == 0)) continue;
        if (c != (at < n ? digits[at] : '0')) return false;
        at++;
    }
    while (at < n && digits[at] == '0') at++;
    return at >= n;
}

bool lf_json_int64(struct lf_json_value v, int64_t *out)
{
    if (lf_json_type(v) != LF_JSON_NUMBER) return false;
    if (plain_int64(lf_json_raw(v), out)) return true;
    /* "1.0" and "1e3": whole as doubles up to 2^53, refused beyond and where the double is not what was written */
    double x = 0;
    (void)lf_json_double(v, &x);
    if (x != floor(x) || fabs(x) > 9007199254740992.0 || !has_digits_of(lf_json_raw(v), (int64_t)x)) return false;
    *out = (int64_t)x;
    return true;
}

static int hex4(const char *s)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int d = lf_digit(s[i]);
        if (d >= 16) return -1;
        v = v * 16 + d;
    }
    return v;
}

static int unescape_unicode(const char *s, size_t len, uint32_t *cp)
{
    int hi = len >= 6 ? hex4(s + 2) : -1;
    if (hi <= 0 || (hi >= 0xDC00 && hi <= 0xDFFF)) return 0;
    if (hi < 0xD800 || hi > 0xDFFF) {
        *cp = (uint32_t)hi;
        return 6;
    }
    int lo = len >= 12 && s[6] == '\\' && s[7] == 'u' ? hex4(s + 8) : -1;
    if (lo < 0xDC00 || lo > 0xDFFF) return 0;
    *cp = 0x10000u + (((uint32_t)hi - 0xD800u) << 10) + ((uint32_t)lo - 0xDC00u);
    return 12;
}

int lf_json_unescape(const char *s, size_t len, uint32_t *cp)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (len < 2) return 0;
    if (s[1] == 'u') return unescape_unicode(s, len, cp);
    const char *hit = s[1] ? strchr(from, s[1]) : NULL;
    if (!hit) return 0;
    *cp = (uint32_t)to[hit - from];
    return 2;
}

bool lf_json_borrow(struct lf_json_value v, struct lf_str *out)
{
    const struct lf_json_node *n = node_of(v);
    if (n->type != LF_JSON_STRING || n->escaped) return false;
    *out = lf_json_raw(v);
    return true;
}

bool lf_json_string(struct lf_json_value v, struct lf_buf *out)
{
    if (lf_json_type(v) != LF_JSON_STRING) return false;
    struct lf_str s = lf_json_raw(v);
    size_t i = 0;
    while (i < s.len) {
        const char *slash = memchr(s.ptr + i, '\\', s.len - i);
        size_t plain = slash ? (size_t)(slash - (s.ptr + i)) : s.len - i;
        lf_buf_append(out, s.ptr + i, plain);
        i += plain;
        if (!slash) break;
        uint32_t cp;
        char utf8[4];
        int n = lf_json_unescape(s.ptr + i, s.len - i, &cp);
        LF_ASSERT(n > 0); /* the parser has seen every escape */
        lf_buf_append(out, utf8, (size_t)lf_utf8_encode(cp, utf8));
        i += (size_t)n;
    }
    if (s.len == 0) lf_buf_append(out, "", 0);
    return out->status == LF_OK;
}

bool lf_json_string_is(struct lf_json_value v, const char *want)
{
    if (lf_json_type(v) != LF_JSON_STRING) return false;
    struct lf_str s = lf_json_raw(v);
    size_t n_want = strlen(want), i = 0, at = 0;
    while (i < s.len) {
        char utf8[4] = {s.ptr[i]};
        int n_utf8 = 1, n = 1;
        if (s.ptr[i] == '\\') {
            uint32_t cp;
            n = lf_json_unescape(s.ptr + i, s.len - i, &cp);
            LF_ASSERT(n > 0);
            n_utf8 = lf_utf8_encode(cp, utf8);
        }
        if ((size_t)n_utf8 > n_want - at || memcmp(want + at, utf8, (size_t)n_utf8) != 0) return false;
        at += (size_t)n_utf8;
        i += (size_t)n;
    }
    return at == n_want;
}
