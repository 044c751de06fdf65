/* Arguments as a call in Python has them: (city="Rome", days=3, options={"a": [True, None]}): literals behind names.
 * They become the text of a JSON object.
 *
 * A call is certain at the = behind its first name, or where it ends without one: so a name with something else between
 * parentheses stays text. A quote ends its string only before what can follow one (a comma, a bracket, a colon), for
 * templates write texts between quotes as they are, apostrophes among them. A word is what it says where that is a
 * number or True, False, None, or JSON's own words, and a string where it is not. */
#include "core/check.h"
#include "template/answer/answer_impl.h"

enum { WORD_BYTES = 1024, NAME_BYTES = 256, ROOT = 1 };

static void put(struct lf_answer_parser *p, const char *text)
{
    lf_answer_put(&p->out, LF_ANSWER_ARGUMENTS, text, strlen(text));
}

static bool in_object(const struct lf_answer_python *g)
{
    return g->objects >> (g->depth - 1) & 1;
}

/* What closes that in which the next value stands. */
static char closing(const struct lf_answer_python *g)
{
    if (g->depth == ROOT) return ')';
    return in_object(g) ? '}' : ']';
}

static bool open_value(struct lf_answer_parser *p, bool is_object)
{
    struct lf_answer_python *g = &p->python;
    if (g->depth >= LF_JSON_DEPTH) return false;
    uint64_t bit = (uint64_t)1 << g->depth++;
    g->objects = is_object ? g->objects | bit : g->objects & ~bit;
    g->state = is_object ? LF_PYTHON_FIRST_KEY : LF_PYTHON_FIRST_VALUE;
    put(p, is_object ? "{" : "[");
    return true;
}

/* The end of the brackets in hand. */
static enum lf_answer_fit close_value(struct lf_answer_parser *p)
{
    struct lf_answer_python *g = &p->python;
    put(p, in_object(g) ? "}" : "]");
    g->state = LF_PYTHON_NEXT;
    if (--g->depth > 0) return LF_FIT_MORE;
    lf_answer_put_call_end(&p->out);
    return LF_FIT_DONE;
}

/* Behind a value: a comma, behind which the end may come as well, or the end. */
static enum lf_answer_fit next_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    if (c == closing(g)) return close_value(p);
    if (c != ',') return LF_FIT_NONE;
    g->state = in_object(g) ? LF_PYTHON_KEY : LF_PYTHON_VALUE;
    g->is_behind_comma = true;
    return LF_FIT_MORE;
}

/* A comma goes out when it is known that something follows it. */
static void put_comma(struct lf_answer_parser *p)
{
    if (p->python.is_behind_comma) put(p, ", ");
    p->python.is_behind_comma = false;
}

static void begin_held(struct lf_answer_parser *p, enum lf_answer_python_state state)
{
    p->python.state = state;
    lf_buf_clear(&p->held);
}

/* ---- names ---- */

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == '$' || (unsigned char)c >= 0x80;
}

/* The name of an argument, which is held: before the first one the call is not certain, and the rest of it is held as
 * well. */
static enum lf_answer_fit argument_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    bool is_over = g->name_at + g->n_name < p->held.len, is_space = lf_json_is_space(c);
    if (is_space || (is_name_byte(c) && !is_over)) {
        if (p->held.len - g->name_at >= NAME_BYTES) return LF_FIT_NONE;
        (void)lf_answer_hold(p, c);
        g->n_name += !is_space;
        return LF_FIT_MORE;
    }
    if (c != '=') return LF_FIT_NONE;
    char name[NAME_BYTES];
    size_t n = g->n_name;
    memcpy(name, p->held.ptr + g->name_at, n);
    lf_buf_clear(&p->held);
    if (!p->is_certain) {
        lf_answer_call_begin(p, p->tool);
        put(p, "{");
    }
    put_comma(p);
    put(p, "\"");
    lf_answer_put_escaped(p, name, n);
    put(p, "\": ");
    g->state = LF_PYTHON_VALUE;
    return LF_FIT_MORE;
}

/* A call without arguments. */
static enum lf_answer_fit end_empty(struct lf_answer_parser *p)
{
    lf_buf_clear(&p->held);
    lf_answer_call_begin(p, p->tool);
    put(p, "{");
    return close_value(p);
}

static enum lf_answer_fit begin_key(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    bool is_first = g->state == LF_PYTHON_FIRST_KEY;
    if (lf_json_is_space(c)) {
        if (p->is_certain) return LF_FIT_MORE;
        if (++g->n_space > LF_ANSWER_SPACE_N) return LF_FIT_NONE;
        (void)lf_answer_hold(p, c);
        return LF_FIT_MORE;
    }
    if (c == closing(g) && (is_first || g->is_behind_comma)) {
        g->is_behind_comma = false;
        return p->is_certain ? close_value(p) : end_empty(p);
    }
    if (g->depth == ROOT) {
        if (!is_name_byte(c)) return LF_FIT_NONE;
        g->state = LF_PYTHON_ARGUMENT;
        g->name_at = p->held.len;
        g->n_name = 1;
        (void)lf_answer_hold(p, c);
        return LF_FIT_MORE;
    }
    if (c != '"' && c != '\'') return LF_FIT_NONE;
    put_comma(p);
    put(p, "\"");
    g->quote = c;
    g->is_key = true;
    begin_held(p, LF_PYTHON_STRING);
    return LF_FIT_MORE;
}

/* ---- strings ---- */

static void put_point(struct lf_answer_parser *p, uint32_t point)
{
    char bytes[4];
    bool is_none = point > 0x10ffff || (point >= 0xd800 && point < 0xe000);
    int n = lf_utf8_encode(is_none ? 0xfffd : point, bytes);
    lf_answer_put_escaped(p, bytes, (size_t)n);
}

/* The half of a pair that JSON writes in two escapes, and which nothing completes. */
static void give_half(struct lf_answer_parser *p)
{
    if (p->python.high) put_point(p, 0xfffd);
    p->python.high = 0;
}

/* The byte behind a backslash. */
static void escape_byte(struct lf_answer_parser *p, char c)
{
    static const char letters[] = "ntrbfav0", values[] = "\n\t\r\b\f\a\v";
    struct lf_answer_python *g = &p->python;
    const char *letter = c ? strchr(letters, c) : NULL;
    g->state = LF_PYTHON_STRING;
    g->n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    g->point = 0;
    if (g->n_hex) {
        g->state = LF_PYTHON_HEX;
        return;
    }
    give_half(p);
    if (letter) {
        lf_answer_put_escaped(p, &values[letter - letters], 1);
    } else if (c != '\n') { /* a backslash at the end of a line joins it with the next */
        if (!strchr("\\'\"/", c)) lf_answer_put_escaped(p, "\\", 1);
        lf_answer_put_escaped(p, &c, 1);
    }
}

static enum lf_answer_fit hex_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    if (lf_digit(c) >= 16) return LF_FIT_NONE;
    g->point = g->point << 4 | (uint32_t)lf_digit(c);
    if (--g->n_hex > 0) return LF_FIT_MORE;
    g->state = LF_PYTHON_STRING;
    if (g->high && g->point >= 0xdc00 && g->point < 0xe000) {
        put_point(p, 0x10000 + ((g->high - 0xd800) << 10) + (g->point - 0xdc00));
        g->high = 0;
        return LF_FIT_MORE;
    }
    give_half(p);
    if (g->point >= 0xd800 && g->point < 0xdc00)
        g->high = g->point;
    else
        put_point(p, g->point);
    return LF_FIT_MORE;
}

static void end_string(struct lf_answer_parser *p)
{
    struct lf_answer_python *g = &p->python;
    lf_buf_clear(&p->held);
    put(p, "\"");
    g->state = g->is_key ? LF_PYTHON_COLON : LF_PYTHON_NEXT;
}

static enum lf_answer_fit string_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    if (c == '\\') {
        g->state = LF_PYTHON_ESCAPE;
        return LF_FIT_MORE;
    }
    give_half(p);
    if (c == g->quote) {
        (void)lf_answer_hold(p, c);
        g->state = LF_PYTHON_QUOTE;
    } else {
        lf_answer_put_escaped(p, &c, 1);
    }
    return LF_FIT_MORE;
}

static enum lf_answer_fit after_string(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    if (g->state == LF_PYTHON_NEXT) return next_byte(p, c);
    put(p, ": ");
    g->state = LF_PYTHON_VALUE;
    return LF_FIT_MORE;
}

/* Behind a quote, which is held with the white space behind it: the end of the string, or a part of it. */
static enum lf_answer_fit quote_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    if (lf_json_is_space(c)) {
        if (p->held.len > LF_ANSWER_SPACE_N) return LF_FIT_NONE;
        (void)lf_answer_hold(p, c);
        return LF_FIT_MORE;
    }
    if (g->is_key ? c == ':' : c == ',' || c == closing(g)) {
        end_string(p);
        return after_string(p, c);
    }
    lf_answer_put_escaped(p, p->held.ptr, p->held.len);
    begin_held(p, LF_PYTHON_STRING);
    return string_byte(p, c);
}

/* ---- values ---- */

static enum lf_answer_fit begin_value(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    bool may_end = g->depth > ROOT && !in_object(g) && (g->state == LF_PYTHON_FIRST_VALUE || g->is_behind_comma);
    if (lf_json_is_space(c)) return LF_FIT_MORE;
    if (c == ']' && may_end) {
        g->is_behind_comma = false;
        return close_value(p);
    }
    if (strchr(",:=(){}[]", c) && c != '{' && c != '[') return LF_FIT_NONE; /* NUL too */
    put_comma(p);
    if (c == '{' || c == '[') return open_value(p, c == '{') ? LF_FIT_MORE : LF_FIT_NONE;
    if (c == '"' || c == '\'') {
        put(p, "\"");
        g->quote = c;
        g->is_key = false;
        begin_held(p, LF_PYTHON_STRING);
        return LF_FIT_MORE;
    }
    begin_held(p, LF_PYTHON_WORD);
    (void)lf_answer_hold(p, c);
    return LF_FIT_MORE;
}

static enum lf_answer_fit word_byte(struct lf_answer_parser *p, char c)
{
    if (!strchr(",:=(){}[]\"'", c)) { /* NUL is among them */
        if (p->held.len >= WORD_BYTES) return LF_FIT_NONE;
        (void)lf_answer_hold(p, c);
        return LF_FIT_MORE;
    }
    if (c != ',' && c != closing(&p->python)) return LF_FIT_NONE;
    lf_answer_put_value(p, lf_str_trim(lf_buf_view(&p->held)), true);
    begin_held(p, LF_PYTHON_NEXT);
    return next_byte(p, c);
}

void lf_answer_python_begin(struct lf_answer_parser *p)
{
    p->python = (struct lf_answer_python){.state = LF_PYTHON_FIRST_KEY};
}

enum lf_answer_fit lf_answer_python_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_python *g = &p->python;
    if (g->depth == 0) {
        if (c != '(') return LF_FIT_NONE;
        g->depth = ROOT;
        g->objects = 1;
        (void)lf_answer_hold(p, c);
        return LF_FIT_MORE;
    }
    switch (g->state) {
    case LF_PYTHON_FIRST_KEY:
    case LF_PYTHON_KEY:
        return begin_key(p, c);
    case LF_PYTHON_ARGUMENT:
        return argument_byte(p, c);
    case LF_PYTHON_COLON:
        return lf_json_is_space(c) ? LF_FIT_MORE : LF_FIT_NONE;
    case LF_PYTHON_FIRST_VALUE:
    case LF_PYTHON_VALUE:
        return begin_value(p, c);
    case LF_PYTHON_STRING:
        return string_byte(p, c);
    case LF_PYTHON_ESCAPE:
        escape_byte(p, c);
        return LF_FIT_MORE;
    case LF_PYTHON_HEX:
        return hex_byte(p, c);
    case LF_PYTHON_QUOTE:
        return quote_byte(p, c);
    case LF_PYTHON_WORD:
        return word_byte(p, c);
    case LF_PYTHON_NEXT:
        return lf_json_is_space(c) ? LF_FIT_MORE : next_byte(p, c);
    }
    return LF_FIT_NONE;
}
