/* Formatting: "%d items" % n, and "{:>8}".format(x), for strings, integers and floats.
 *
 * Both ways read a field's wishes into one struct; a number is made into sign, prefix and digits and then padded. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_iter.h"
#include "template/builtin/jinja_str.h"

enum { NUMBER_BYTES = 800, FIELD_MAX = 2 * LF_TEMPLATE_OUTPUT_BYTES, PRECISION_MAX = 300 };

struct field {
    struct lf_jinja_text fill; /* len 0: a space, or a zero for numbers that ask for it */
    char align;                /* '<', '>', '^', '=' or 0: by kind */
    char sign;                 /* '+', ' ' or 0 */
    bool alternate, zero;
    char grouping;            /* ',' or '_' between thousands, or 0 */
    int64_t width, precision; /* precision -1: not given */
    char type;                /* 0: by kind */
};

struct number {
    char sign; /* 0: none */
    const char *prefix;
    char digits[NUMBER_BYTES];
};

/* -- Numbers to digits -- */

static void integer_digits(struct number *n, uint64_t size, char type)
{
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    const char *letters = type == 'X' ? upper : lower;
    char reversed[72];
    size_t len = 0;
    do {
        reversed[len++] = letters[size % base];
        size /= base;
    } while (size);
    for (size_t i = 0; i < len; i++) n->digits[i] = reversed[len - 1 - i];
    n->digits[len] = '\0';
}

static void float_digits(struct number *n, double x, char type, int precision)
{
    char *p = n->digits;
    switch (type) {
    case 'e':
        snprintf(p, NUMBER_BYTES, "%.*e", precision, x);
        break;
    case 'E':
        snprintf(p, NUMBER_BYTES, "%.*E", precision, x);
        break;
    case 'g':
        snprintf(p, NUMBER_BYTES, "%.*g", precision, x);
        break;
    case 'G':
        snprintf(p, NUMBER_BYTES, "%.*G", precision, x);
        break;
    case '%':
        snprintf(p, NUMBER_BYTES, "%.*f%%", precision, x * 100);
        break;
    default:
        snprintf(p, NUMBER_BYTES, "%.*f", precision, x);
        break;
    }
}

static enum lf_status make_number(struct lf_jinja *j, struct number *n, struct lf_jinja_value v, const struct field *f)
{
    bool is_float_type = f->type && strchr("eEfFgG%", f->type);
    bool as_float = is_float_type || (!f->type && v.type == LF_JINJA_FLOAT);
    *n = (struct number){.prefix = ""};
    if (as_float) {
        double x = lf_jinja_as_double(v);
        n->sign = signbit(x) ? '-' : f->sign;
        if (!f->type && f->precision < 0) {
            n->digits[lf_jinja_float_text(n->digits, fabs(x))] = '\0';
        } else if (!f->type) {
            return lf_jinja_fail(j, LF_UNSUPPORTED, "format: a precision without a type is not implemented");
        } else {
            float_digits(n, fabs(x), f->type, f->precision < 0 ? 6 : (int)f->precision);
        }
        return LF_OK;
    }
    int64_t i = v.type == LF_JINJA_FLOAT ? (int64_t)LF_MAX(LF_MIN(v.as.f, 9.2e18), -9.2e18) : v.as.i;
    n->sign = i < 0 ? '-' : f->sign;
    integer_digits(n, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, f->type);
    if (f->alternate)
        n->prefix = f->type == 'x' ? "0x" : f->type == 'X' ? "0X" : f->type == 'o' ? "0o" : f->type == 'b' ? "0b" : "";
    return LF_OK;
}

/* Thousands of the leading digits set apart. */
static void group_digits(struct number *n, char separator)
{
    char grouped[NUMBER_BYTES];
    size_t whole = strspn(n->digits, "0123456789"), at = 0, len = strlen(n->digits);
    if (len + whole / 3 + 1 >= sizeof(grouped)) return;
    for (size_t i = 0; i < len; i++) {
        if (i && i < whole && (whole - i) % 3 == 0) grouped[at++] = separator;
        grouped[at++] = n->digits[i];
    }
    memcpy(n->digits, grouped, at);
    n->digits[at] = '\0';
}

/* -- Padding -- */

static void write_padded(struct lf_jinja_writer *w, struct lf_jinja_text t, const struct field *f, char align)
{
    struct lf_jinja_value fill;
    struct lf_jinja_text padded;
    enum lf_jinja_sides sides = align == '>' ? LF_JINJA_LEFT : LF_JINJA_RIGHT;
    if (w->status == LF_OK) w->status = lf_jinja_string_c(w->j, &fill, f->zero ? "0" : " ");
    if (w->status != LF_OK) return;
    if (f->fill.len) fill.as.s = f->fill;
    if (align != '^') {
        w->status = lf_jinja_pad(w->j, &padded, t, f->width, fill.as.s, sides);
        lf_jinja_write_text(w, padded);
        return;
    }
    size_t n;
    w->status = lf_jinja_text_n_chars(w->j, &n, t);
    int64_t missing = LF_MAX(f->width - (int64_t)n, 0);
    lf_jinja_write_fill(w, fill.as.s, (size_t)(missing / 2));
    lf_jinja_write_text(w, t);
    lf_jinja_write_fill(w, fill.as.s, (size_t)(missing - missing / 2));
}

static enum lf_status write_number(struct lf_jinja *j, struct lf_jinja_writer *w, struct lf_jinja_value v,
                                   const struct field *f)
{
    struct number n;
    LF_TRY(make_number(j, &n, v, f));
    if (f->grouping) group_digits(&n, f->grouping);
    struct lf_jinja_writer part = lf_jinja_writer_of(j);
    struct lf_jinja_text text;
    char align = f->align ? f->align : f->zero ? '=' : '>';
    bool inner = align == '=';
    size_t n_front = (n.sign != 0) + strlen(n.prefix), n_digits = strlen(n.digits);
    if (n.sign) lf_jinja_write(&part, lf_str_from(&n.sign, 1), v.user);
    lf_jinja_write(&part, lf_str_c(n.prefix), v.user);
    if (inner && (int64_t)(n_front + n_digits) < f->width) {
        struct lf_jinja_value fill;
        LF_TRY(lf_jinja_string_c(j, &fill, f->zero ? "0" : " "));
        if (f->fill.len) fill.as.s = f->fill;
        lf_jinja_write_fill(&part, fill.as.s, (size_t)f->width - n_front - n_digits);
    }
    lf_jinja_write(&part, lf_str_c(n.digits), v.user);
    LF_TRY(lf_jinja_writer_text(&part, &text));
    write_padded(w, text, f, inner ? '>' : align);
    return w->status;
}

static enum lf_status write_string(struct lf_jinja *j, struct lf_jinja_writer *w, struct lf_jinja_text t,
                                   const struct field *f)
{
    size_t n;
    LF_TRY(lf_jinja_text_n_chars(j, &n, t));
    if (f->precision >= 0 && (int64_t)n > f->precision) {
        t = lf_jinja_text_sub(t, 0, lf_jinja_text_byte_of(t, (size_t)f->precision));
    }
    write_padded(w, t, f, f->align ? f->align : '<');
    return w->status;
}

/* A decimal at s[*i] into *out. */
static bool read_decimal(struct lf_str s, size_t *i, int64_t *out)
{
    size_t first = *i;
    *out = 0;
    for (; *i < s.len && s.ptr[*i] >= '0' && s.ptr[*i] <= '9'; (*i)++) {
        *out = LF_MIN(*out * 10 + (s.ptr[*i] - '0'), FIELD_MAX);
    }
    return *i > first;
}

/* -- % -- */

struct percent {
    struct lf_jinja *j;
    struct lf_jinja_writer w;
    struct lf_jinja_text format;
    struct lf_jinja_value values;
    size_t n_used;
    bool markup;
};

static enum lf_status next_value(struct percent *p, struct lf_jinja_value *out)
{
    bool is_tuple = p->values.type == LF_JINJA_TUPLE;
    size_t n = is_tuple ? p->values.as.list->n : 1;
    if (p->n_used >= n) return lf_jinja_fail(p->j, LF_INVALID, "not enough arguments for the format string");
    *out = is_tuple ? p->values.as.list->items[p->n_used] : p->values;
    p->n_used++;
    return LF_OK;
}

/* "(key)" at *i: the entry of the dict. */
static enum lf_status keyed_value(struct percent *p, size_t *i, struct lf_jinja_value *out)
{
    struct lf_str s = lf_jinja_text_str(p->format);
    size_t first = ++*i;
    while (*i < s.len && s.ptr[*i] != ')') (*i)++;
    if (*i == s.len) return lf_jinja_fail(p->j, LF_INVALID, "the format string has a key without ')'");
    if (p->values.type != LF_JINJA_DICT) return lf_jinja_fail(p->j, LF_INVALID, "the format string needs a dict");
    struct lf_jinja_value key = lf_jinja_string(lf_jinja_text_sub(p->format, first, *i));
    LF_TRY(lf_jinja_dict_get(p->j, out, p->values.as.dict, key));
    if (!lf_jinja_given(*out))
        return lf_jinja_fail(p->j, LF_INVALID, "the format string names a key that is not there");
    ++*i;
    p->n_used = 1;
    return LF_OK;
}

/* A number in the format, or "*": the next value. */
static enum lf_status percent_size(struct percent *p, size_t *i, int64_t *out, bool *given)
{
    struct lf_str s = lf_jinja_text_str(p->format);
    struct lf_jinja_value v;
    if (*i < s.len && s.ptr[*i] == '*') {
        ++*i;
        LF_TRY(next_value(p, &v));
        if (!lf_jinja_is_integral(v)) return lf_jinja_fail(p->j, LF_INVALID, "'*' needs an integer");
        *out = LF_MIN(v.as.i, FIELD_MAX);
        *given = true;
        return LF_OK;
    }
    *given = read_decimal(s, i, out);
    return LF_OK;
}

static enum lf_status percent_text(struct percent *p, struct lf_jinja_value v, const struct field *f)
{
    struct lf_jinja_text text;
    struct lf_jinja_writer w = lf_jinja_writer_of(p->j);
    if (f->type == 's' && p->markup) {
        LF_TRY(lf_jinja_escape(p->j, &v, v));
        text = v.as.s;
    } else if (f->type == 's') {
        LF_TRY(lf_jinja_to_text(p->j, &text, v));
    } else {
        lf_jinja_print_repr(&w, v);
        LF_TRY(lf_jinja_writer_text(&w, &text));
    }
    return write_string(p->j, &p->w, text, f);
}

static enum lf_status percent_char(struct percent *p, struct lf_jinja_value v, const struct field *f)
{
    size_t n = 0;
    struct lf_jinja_text text = v.as.s;
    if (lf_jinja_is_integral(v)) {
        bool valid = v.as.i >= 0 && v.as.i <= 0x10ffff && !(v.as.i >= 0xd800 && v.as.i <= 0xdfff);
        if (!valid) return lf_jinja_fail(p->j, LF_INVALID, "%%c needs a character's number");
        struct lf_jinja_writer w = lf_jinja_writer_of(p->j);
        lf_jinja_write_cp(&w, (uint32_t)v.as.i, v.user);
        LF_TRY(lf_jinja_writer_text(&w, &text));
    } else if (v.type == LF_JINJA_STRING) {
        LF_TRY(lf_jinja_text_n_chars(p->j, &n, text));
    }
    if (!lf_jinja_is_integral(v) && n != 1) return lf_jinja_fail(p->j, LF_INVALID, "%%c needs one character");
    return write_string(p->j, &p->w, text, f);
}

/* One field; *i is behind its "%". */
static enum lf_status percent_field(struct percent *p, size_t *i)
{
    struct lf_str s = lf_jinja_text_str(p->format);
    struct field f = {.precision = -1};
    struct lf_jinja_value v = {0};
    bool given;
    if (*i < s.len && s.ptr[*i] == '(') LF_TRY(keyed_value(p, i, &v));
    for (; *i < s.len && strchr("-+ #0", s.ptr[*i]); ++*i) {
        char c = s.ptr[*i];
        if (c == '-') f.align = '<';
        if (c == '+' || (c == ' ' && !f.sign)) f.sign = c;
        if (c == '#') f.alternate = true;
        if (c == '0') f.zero = true;
    }
    LF_TRY(percent_size(p, i, &f.width, &given));
    if (f.width < 0) {
        f.align = '<';
        f.width = -LF_MAX(f.width, -FIELD_MAX);
    }
    if (*i < s.len && s.ptr[*i] == '.') {
        ++*i;
        f.precision = 0;
        LF_TRY(percent_size(p, i, &f.precision, &given));
    }
    while (*i < s.len && (s.ptr[*i] == 'l' || s.ptr[*i] == 'h' || s.ptr[*i] == 'L')) ++*i;
    if (*i == s.len) return lf_jinja_fail(p->j, LF_INVALID, "the format string ends inside of a field");
    f.type = s.ptr[(*i)++];
    if (f.type == '%') {
        lf_jinja_write_c(&p->w, "%");
        return p->w.status;
    }
    if (!strchr("diuoxXeEfFgGcrsa", f.type)) {
        return lf_jinja_fail(p->j, LF_INVALID, "the format string has a field '%%%c'",
                             isprint((unsigned char)f.type) ? f.type : '?');
    }
    if (!lf_jinja_given(v)) LF_TRY(next_value(p, &v));
    if (f.align == '<') f.zero = false;
    if (strchr("rsac", f.type)) {
        f.align = f.align ? f.align : '>';
        f.zero = false;
        return f.type == 'c' ? percent_char(p, v, &f) : percent_text(p, v, &f);
    }
    if (!lf_jinja_is_number(v)) {
        return lf_jinja_fail(p->j, LF_INVALID, "%%%c needs a number, not '%s'", f.type, lf_jinja_type_name(v));
    }
    if (f.precision > PRECISION_MAX || (strchr("diuoxX", f.type) && f.precision >= 0)) {
        return lf_jinja_fail(p->j, LF_UNSUPPORTED, "this precision of %%%c is not implemented", f.type);
    }
    if (strchr("oxX", f.type) && v.type == LF_JINJA_FLOAT)
        return lf_jinja_fail(p->j, LF_INVALID, "%%%c needs an integer", f.type);
    if (strchr("diu", f.type)) f.type = 'd';
    return write_number(p->j, &p->w, v, &f);
}

enum lf_status lf_jinja_percent(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value format,
                                struct lf_jinja_value v)
{
    struct percent p = {j, lf_jinja_writer_of(j), format.as.s, v, 0, format.markup};
    struct lf_str s = lf_jinja_text_str(format.as.s);
    for (size_t i = 0; i < s.len && p.w.status == LF_OK;) {
        const char *mark = memchr(s.ptr + i, '%', s.len - i);
        size_t end = mark ? (size_t)(mark - s.ptr) : s.len;
        lf_jinja_write_text(&p.w, lf_jinja_text_sub(format.as.s, i, end));
        i = end;
        if (!mark) break;
        i++;
        LF_TRY(percent_field(&p, &i));
    }
    if (p.w.status != LF_OK) return p.w.status; /* it stopped early: that is no fault of the format */
    size_t n = v.type == LF_JINJA_TUPLE ? v.as.list->n : v.type == LF_JINJA_DICT || v.type == LF_JINJA_LIST ? 0 : 1;
    if (p.n_used < n) return lf_jinja_fail(j, LF_INVALID, "not all arguments are used by the format string");
    struct lf_jinja_text text;
    LF_TRY(lf_jinja_writer_text(&p.w, &text));
    *out = lf_jinja_string(text);
    out->markup = format.markup;
    return LF_OK;
}

/* -- str.format -- */

static enum lf_status read_spec(struct lf_jinja *j, struct field *f, struct lf_jinja_text spec)
{
    struct lf_str s = lf_jinja_text_str(spec);
    size_t i = 0;
    uint32_t cp;
    *f = (struct field){.precision = -1};
    size_t n_fill = s.len ? lf_jinja_text_char(spec, 0, &cp) : 0;
    if (n_fill < s.len && strchr("<>^=", s.ptr[n_fill])) {
        f->fill = lf_jinja_text_sub(spec, 0, n_fill);
        f->align = s.ptr[n_fill];
        i = n_fill + 1;
    } else if (s.len && strchr("<>^=", s.ptr[0])) {
        f->align = s.ptr[i++];
    }
    if (i < s.len && strchr("+- ", s.ptr[i])) f->sign = s.ptr[i++];
    if (f->sign == '-') f->sign = 0;
    if (i < s.len && s.ptr[i] == '#') f->alternate = true, i++;
    if (i < s.len && s.ptr[i] == '0') f->zero = true, i++;
    read_decimal(s, &i, &f->width);
    if (i < s.len && strchr(",_", s.ptr[i])) f->grouping = s.ptr[i++];
    if (i < s.len && s.ptr[i] == '.') {
        i++;
        if (!read_decimal(s, &i, &f->precision)) return lf_jinja_fail(j, LF_INVALID, "format: a precision is missing");
    }
    if (i < s.len) f->type = s.ptr[i++];
    if (i < s.len || f->precision > PRECISION_MAX || (f->grouping && f->zero) ||
        (f->type && !strchr("sbcdoxXneEfFgG%", f->type))) {
        return lf_jinja_fail(j, LF_UNSUPPORTED, "format: '%.*s' is not implemented", (int)LF_MIN(s.len, 40u), s.ptr);
    }
    return LF_OK;
}

static enum lf_status format_value(struct lf_jinja *j, struct lf_jinja_writer *w, struct lf_jinja_value v,
                                   struct lf_jinja_text spec)
{
    struct field f;
    LF_TRY(read_spec(j, &f, spec));
    if (spec.len == 0) {
        lf_jinja_print(w, v);
        return w->status;
    }
    bool is_text = v.type == LF_JINJA_STRING, is_integral = lf_jinja_is_integral(v);
    bool fits = is_text
                    ? !f.type || f.type == 's'
                    : lf_jinja_is_number(v) && f.type != 's' && (is_integral || !f.type || !strchr("bcdoxXn", f.type));
    if (is_text) fits = fits && !f.sign && !f.alternate && !f.grouping && f.align != '=';
    if (is_integral && f.precision >= 0 && !(f.type && strchr("eEfFgG%", f.type))) fits = false;
    if (f.type == 'n' || f.type == 'c')
        return lf_jinja_fail(j, LF_UNSUPPORTED, "format: '%c' is not implemented", f.type);
    if (!fits) {
        return lf_jinja_fail(j, LF_INVALID, "format: a '%s' cannot be formatted that way", lf_jinja_type_name(v));
    }
    return is_text ? write_string(j, w, v.as.s, &f) : write_number(j, w, v, &f);
}

/* What a field's name stands for: an argument, then attributes and items of it. */
static enum lf_status field_value(struct lf_jinja *j, const struct lf_jinja_args *args, struct lf_jinja_text name,
                                  int64_t *auto_idx, struct lf_jinja_value *out)
{
    struct lf_str s = lf_jinja_text_str(name);
    size_t i = 0, end;
    int64_t idx;
    while (i < s.len && s.ptr[i] != '.' && s.ptr[i] != '[') i++;
    end = i;
    i = 0;
    *out = (struct lf_jinja_value){0};
    if (end == 0 || (read_decimal(s, &i, &idx) && i == end)) {
        if (end == 0) idx = (*auto_idx)++;
        if (idx < (int64_t)args->n_pos) *out = args->pos[idx];
    } else {
        for (size_t k = 0; k < args->n_kw; k++) {
            if (lf_str_eq(lf_jinja_text_str(args->kw[k].name), lf_str_from(s.ptr, end))) *out = args->kw[k].value;
        }
    }
    if (!lf_jinja_given(*out)) return lf_jinja_fail(j, LF_INVALID, "format: an argument is missing");
    for (i = end; i < s.len;) {
        bool is_item = s.ptr[i] == '[';
        size_t first = i + 1;
        for (end = first; end < s.len && (is_item ? s.ptr[end] != ']' : s.ptr[end] != '.' && s.ptr[end] != '[');) end++;
        if (end == first || (is_item && end == s.len)) return lf_jinja_fail(j, LF_INVALID, "format: a malformed field");
        struct lf_jinja_value key = lf_jinja_string(lf_jinja_text_sub(name, first, end));
        i = first;
        if (is_item && read_decimal(s, &i, &idx) && i == end) key = lf_jinja_int(idx);
        LF_TRY(is_item ? lf_jinja_getitem(j, out, *out, key) : lf_jinja_getattr(j, out, *out, key.as.s));
        i = end + is_item;
    }
    return LF_OK;
}

/* One field: its text without the braces. */
static enum lf_status format_field(struct lf_jinja *j, struct lf_jinja_writer *w, const struct lf_jinja_args *args,
                                   struct lf_jinja_text field, int64_t *auto_idx)
{
    struct lf_str s = lf_jinja_text_str(field);
    const char *colon = memchr(s.ptr, ':', s.len);
    size_t end = colon ? (size_t)(colon - s.ptr) : s.len;
    struct lf_jinja_text spec = lf_jinja_text_sub(field, colon ? end + 1 : s.len, s.len);
    char conversion = '\0';
    if (end >= 2 && s.ptr[end - 2] == '!') {
        conversion = s.ptr[end - 1];
        end -= 2;
    }
    if (memchr(s.ptr, '{', s.len)) return lf_jinja_fail(j, LF_UNSUPPORTED, "format: nested fields are not implemented");
    if (conversion && conversion != 's' && conversion != 'r') {
        return lf_jinja_fail(j, LF_UNSUPPORTED, "format: the conversion '!%c' is not implemented", conversion);
    }
    struct lf_jinja_value v;
    struct lf_jinja_text text;
    LF_TRY(field_value(j, args, lf_jinja_text_sub(field, 0, end), auto_idx, &v));
    if (conversion) {
        struct lf_jinja_writer part = lf_jinja_writer_of(j);
        if (conversion == 'r') {
            lf_jinja_print_repr(&part, v);
        } else {
            lf_jinja_print(&part, v);
        }
        LF_TRY(lf_jinja_writer_text(&part, &text));
        v = lf_jinja_string(text);
    }
    return format_value(j, w, v, spec);
}

enum lf_status lf_jinja_str_format(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text t = call->self.as.s, text;
    struct lf_str s = lf_jinja_text_str(t);
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    int64_t auto_idx = 0;
    if (call->self.markup) return lf_jinja_fail(j, LF_UNSUPPORTED, "format of marked-up text is not implemented");
    for (size_t i = 0; i < s.len && w.status == LF_OK;) {
        size_t end = i;
        while (end < s.len && s.ptr[end] != '{' && s.ptr[end] != '}') end++;
        lf_jinja_write_text(&w, lf_jinja_text_sub(t, i, end));
        i = end;
        if (i == s.len) break;
        if (i + 1 < s.len && s.ptr[i + 1] == s.ptr[i]) {
            lf_jinja_write_text(&w, lf_jinja_text_sub(t, i, i + 1));
            i += 2;
            continue;
        }
        const char *close = memchr(s.ptr + i, '}', s.len - i);
        if (s.ptr[i] == '}' || !close)
            return lf_jinja_fail(j, LF_INVALID, "format: a single brace in the format string");
        end = (size_t)(close - s.ptr);
        LF_TRY(format_field(j, &w, call->raw, lf_jinja_text_sub(t, i + 1, end), &auto_idx));
        i = end + 1;
    }
    LF_TRY(lf_jinja_writer_text(&w, &text));
    *out = lf_jinja_string(text);
    return LF_OK;
}
