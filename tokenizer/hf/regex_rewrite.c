/* One pass over the pattern; what both dialects read alike is copied, the rest is spelt out or refused.
 *
 *   \s \d \w \h      Unicode classes as Oniguruma defines them (PCRE2's differ between its versions; its \h are spaces)
 *   \b \B            edges of that \w
 *   \v               one character, U+000B (in PCRE2: any vertical space)
 *   \uHHHH           \x{HHHH}
 *   \p{Han}          the script itself (in PCRE2: also what is used with it)
 *   {,n}             {0,n}
 *   (?i) (?i:        kept; other options mean different things and are refused
 *   {n,m}+           a repeated repetition in Ruby, possessive in PCRE2: refused
 *   [a[b]] [a&&b]    sets within sets: refused */
#include "tokenizer/hf/regex_rewrite.h"

#include "core/check.h"

#define SPACE_SET "\\p{Z}\\x{9}-\\x{d}\\x{85}"
#define WORD_SET                                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"                   \
    "\\x{1f170}-\\x{1f189}"
#define HEX_SET "0-9a-fA-F"

struct rewrite {
    struct lf_buf *out;
    struct lf_str in;
    size_t at;
    struct lf_err *err;
};

static enum lf_status refuse(const struct rewrite *r, const char *what)
{
    return lf_fail(r->err, LF_UNSUPPORTED, "in the pattern \"%.*s\": %s at byte %zu is not implemented",
                   (int)LF_MIN(r->in.len, 200u), r->in.ptr, what, r->at);
}

static char peek(const struct rewrite *r, size_t ahead)
{
    return r->at + ahead < r->in.len ? r->in.ptr[r->at + ahead] : 0;
}

static struct lf_str rest_of(const struct rewrite *r)
{
    return lf_str_from(r->in.ptr + r->at, r->in.len - r->at);
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || ((char)(c | 32) >= 'a' && (char)(c | 32) <= 'z');
}

/* \s and its like, outside a set or, the set's content alone, inside. */
static enum lf_status emit_class(struct rewrite *r, const char *set, bool negated, bool in_set)
{
    if (in_set && negated) return refuse(r, "a negated class inside a set");
    if (!in_set) lf_buf_cstr(r->out, negated ? "[^" : "[");
    lf_buf_cstr(r->out, set);
    if (!in_set) lf_buf_char(r->out, ']');
    r->at += 2;
    return LF_OK;
}

/* General categories have one or two letters, and PCRE2 knows them; of the long names, scripts and a few more. */
static const char *property_prefix(struct lf_str name)
{
    static const char *const scripts[] = {"Han",      "Hiragana", "Katakana",   "Hangul",  "Latin", "Cyrillic",
                                          "Greek",    "Arabic",   "Hebrew",     "Thai",    "Lao",   "Khmer",
                                          "Armenian", "Georgian", "Devanagari", "Bengali", "Tamil", "Tibetan"};
    if (name.len <= 2) return "";
    for (size_t i = 0; i < LF_N_ELEMS(scripts); i++) {
        if (lf_str_eq(name, lf_str_c(scripts[i]))) return "sc:";
    }
    return NULL;
}

/* \p{Name}, \P{Name}, \p{^Name}. */
static enum lf_status emit_property(struct rewrite *r)
{
    static const struct {
        const char *name, *category;
    } aliases[] = {{"Letter", "L"}, {"Mark", "M"},      {"Number", "N"}, {"Punctuation", "P"},
                   {"Symbol", "S"}, {"Separator", "Z"}, {"Other", "C"}};
    struct lf_str rest = rest_of(r);
    bool negated = rest.ptr[1] == 'P';
    ptrdiff_t close = lf_str_find(rest, LF_STR("}"));
    if (rest.len < 4 || rest.ptr[2] != '{' || close < 4) return refuse(r, "this form of \\p");
    struct lf_str name = lf_str_from(rest.ptr + 3, (size_t)close - 3);
    if (name.ptr[0] == '^') {
        negated = !negated;
        name = lf_str_from(name.ptr + 1, name.len - 1);
    }
    for (size_t i = 0; i < LF_N_ELEMS(aliases); i++) {
        if (lf_str_eq(name, lf_str_c(aliases[i].name))) name = lf_str_c(aliases[i].category);
    }
    const char *prefix = property_prefix(name);
    if (!prefix || name.len == 0) return refuse(r, "this property");
    lf_buf_printf(r->out, "\\%c{%s%.*s}", negated ? 'P' : 'p', prefix, (int)name.len, name.ptr);
    r->at += (size_t)close + 1;
    return LF_OK;
}

/* \xHH, \x{H…}, \uHHHH. */
static enum lf_status emit_code(struct rewrite *r)
{
    struct lf_str rest = rest_of(r);
    bool braces = rest.ptr[1] == 'x' && peek(r, 2) == '{';
    size_t first = braces ? 3 : 2, max = braces ? 8 : rest.ptr[1] == 'u' ? 4 : 2, n = 0;
    while (n < max && is_alnum(peek(r, first + n)) && (char)(peek(r, first + n) | 32) <= 'f') n++;
    if (n == 0 || (rest.ptr[1] == 'u' && n != 4) || (braces && peek(r, first + n) != '}'))
        return refuse(r, "this code point");
    lf_buf_printf(r->out, "\\x{%.*s}", (int)n, rest.ptr + first);
    r->at += first + n + (braces ? 1 : 0);
    return LF_OK;
}

static enum lf_status emit_escape(struct rewrite *r, bool in_set)
{
    char c = peek(r, 1);
    switch (c) {
    case 's':
    case 'S':
        return emit_class(r, SPACE_SET, c == 'S', in_set);
    case 'w':
    case 'W':
        return emit_class(r, WORD_SET, c == 'W', in_set);
    case 'h':
    case 'H':
        return emit_class(r, HEX_SET, c == 'H', in_set);
    case 'd':
        return emit_class(r, "\\p{Nd}", false, in_set);
    case 'D':
        return emit_class(r, "\\p{Nd}", true, in_set);
    case 'p':
    case 'P':
        return emit_property(r);
    case 'x':
    case 'u':
        return emit_code(r);
    case 'v':
        lf_buf_cstr(r->out, "\\x{b}");
        break;
    case 'b':
        if (in_set) return refuse(r, "\\b inside a set");
        lf_buf_cstr(r->out, "(?:(?<=[" WORD_SET "])(?![" WORD_SET "])|(?<![" WORD_SET "])(?=[" WORD_SET "]))");
        break;
    case 'B':
        if (in_set) return refuse(r, "\\B inside a set");
        lf_buf_cstr(r->out, "(?:(?<=[" WORD_SET "])(?=[" WORD_SET "])|(?<![" WORD_SET "])(?![" WORD_SET "]))");
        break;
    case 'A':
    case 'z':
    case 'Z':
        if (in_set) return refuse(r, "an anchor inside a set");
        /* fall through */
    case 'n':
    case 'r':
    case 't':
    case 'f':
    case 'a':
    case 'e':
        lf_buf_printf(r->out, "\\%c", c);
        break;
    default:
        if (c == 0 || is_alnum(c)) return refuse(r, "this escape");
        if ((uint8_t)c < 0x80) lf_buf_char(r->out, '\\');
        lf_buf_char(r->out, c);
        break;
    }
    r->at += 2;
    return LF_OK;
}

static enum lf_status emit_set(struct rewrite *r)
{
    lf_buf_char(r->out, '[');
    r->at++;
    if (peek(r, 0) == '^') {
        lf_buf_char(r->out, '^');
        r->at++;
    }
    if (peek(r, 0) == ']') return refuse(r, "a set that begins with ]");
    while (r->at < r->in.len && peek(r, 0) != ']') {
        char c = peek(r, 0);
        if (c == '[') return refuse(r, "a set within a set");
        if (c == '&' && peek(r, 1) == '&') return refuse(r, "an intersection of sets");
        if (c == '\\') {
            LF_TRY(emit_escape(r, true));
            continue;
        }
        lf_buf_char(r->out, c);
        r->at++;
    }
    if (r->at >= r->in.len) return refuse(r, "a set without an end");
    lf_buf_char(r->out, ']');
    r->at++;
    return LF_OK;
}

static enum lf_status emit_group(struct rewrite *r)
{
    static const char *const heads[] = {"(?:", "(?i:", "(?i)", "(?-i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    struct lf_str rest = rest_of(r);
    if (peek(r, 1) == '*') return refuse(r, "a verb");
    if (peek(r, 1) != '?') {
        lf_buf_cstr(r->out, "(?:");
        r->at++;
        return LF_OK;
    }
    for (size_t i = 0; i < LF_N_ELEMS(heads); i++) {
        if (!lf_str_starts(rest, lf_str_c(heads[i]))) continue;
        lf_buf_cstr(r->out, heads[i]);
        r->at += strlen(heads[i]);
        return LF_OK;
    }
    return refuse(r, "this kind of group");
}

static size_t digits_at(const struct rewrite *r, size_t ahead)
{
    size_t n = 0;
    while (peek(r, ahead + n) >= '0' && peek(r, ahead + n) <= '9') n++;
    return n;
}

/* {n}, {n,}, {,m}, {n,m}; any other brace is a letter. */
static enum lf_status emit_brace(struct rewrite *r)
{
    size_t low = digits_at(r, 1), end = 1 + low, high = 0;
    bool comma = peek(r, end) == ',';
    if (comma) high = digits_at(r, ++end), end += high;
    if (peek(r, end) != '}' || (low == 0 && high == 0)) {
        lf_buf_cstr(r->out, "\\{");
        r->at++;
        return LF_OK;
    }
    if (peek(r, end + 1) == '+') return refuse(r, "a repeated repetition");
    struct lf_str text = lf_str_from(r->in.ptr + r->at + 1, end - 1);
    lf_buf_printf(r->out, "{%s%.*s}", low == 0 ? "0" : "", (int)text.len, text.ptr);
    r->at += end + 1;
    return LF_OK;
}

enum lf_status lf_regex_rewrite(struct lf_buf *out, struct lf_str pattern, struct lf_err *err)
{
    struct rewrite r = {out, pattern, 0, err};
    while (r.at < pattern.len) {
        switch (peek(&r, 0)) {
        case 0:
            return refuse(&r, "a NUL");
        case '\\':
            LF_TRY(emit_escape(&r, false));
            break;
        case '[':
            LF_TRY(emit_set(&r));
            break;
        case '(':
            LF_TRY(emit_group(&r));
            break;
        case '{':
            LF_TRY(emit_brace(&r));
            break;
        default:
            lf_buf_char(out, pattern.ptr[r.at++]);
            break;
        }
    }
    if (out->status != LF_OK) return lf_fail(err, out->status, "a pattern of %zu bytes is too long", pattern.len);
    return LF_OK;
}
