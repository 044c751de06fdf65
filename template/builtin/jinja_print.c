/* How Python prints values: str() and repr(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "template/builtin/jinja_char.h"
#include "template/jinja/jinja_run.h"

/* Digits of the shortest decimal that reads back as x (finite, not 0) as d.ddd × 10^*exponent; returns how many. */
static int shortest(double x, char digits[20], int *exponent)
{
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision, fabs(x));
        double back = strtod(text, NULL) - fabs(x);
        if (!(back < 0) && !(back > 0)) break;
    }
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    *exponent = *p ? (int)strtol(p + 1, NULL, 10) : 0;
    while (n > 1 && digits[n - 1] == '0') n--;
    return n;
}

size_t lf_jinja_float_text(char out[LF_JINJA_FLOAT_BYTES], double x)
{
    if (isnan(x)) return (size_t)snprintf(out, LF_JINJA_FLOAT_BYTES, "nan");
    const char *sign = signbit(x) ? "-" : "";
    if (isinf(x)) return (size_t)snprintf(out, LF_JINJA_FLOAT_BYTES, "%sinf", sign);
    if (fpclassify(x) == FP_ZERO) return (size_t)snprintf(out, LF_JINJA_FLOAT_BYTES, "%s0.0", sign);
    char digits[20];
    int exponent, n = shortest(x, digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        return (size_t)snprintf(out, LF_JINJA_FLOAT_BYTES, "%s%c%s%.*se%c%02d", sign, digits[0], n > 1 ? "." : "",
                                n - 1, digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0) {
        return (size_t)snprintf(out, LF_JINJA_FLOAT_BYTES, "%s0.%.*s%.*s", sign, -exponent - 1, "0000", n, digits);
    }
    int whole = exponent + 1;
    if (n <= whole) {
        return (size_t)snprintf(out, LF_JINJA_FLOAT_BYTES, "%s%.*s%.*s.0", sign, n, digits, whole - n,
                                "0000000000000000");
    }
    return (size_t)snprintf(out, LF_JINJA_FLOAT_BYTES, "%s%.*s.%.*s", sign, whole, digits, n - whole, digits + whole);
}

/* -- Strings -- */

static void repr_char(struct lf_jinja_writer *w, uint32_t cp, struct lf_str bytes, char quote, bool user)
{
    char text[16];
    if (w->status == LF_OK) w->status = lf_jinja_charge(w->j, LF_JINJA_CHAR_COST);
    const char *named = cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : cp == '\t' ? "\\t" : cp == '\\' ? "\\\\" : NULL;
    if (named) {
        lf_jinja_write(w, lf_str_c(named), user);
    } else if (cp == (unsigned char)quote) {
        snprintf(text, sizeof(text), "\\%c", quote);
        lf_jinja_write(w, lf_str_c(text), user);
    } else if (lf_jinja_is_printable(cp)) {
        lf_jinja_write(w, bytes, user);
    } else {
        if (cp < 0x100) {
            snprintf(text, sizeof(text), "\\x%02x", cp);
        } else if (cp < 0x10000) {
            snprintf(text, sizeof(text), "\\u%04x", cp);
        } else {
            snprintf(text, sizeof(text), "\\U%08x", cp);
        }
        lf_jinja_write(w, lf_str_c(text), user);
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '\'' && c != '"' && c != '\\';
}

static void repr_piece(struct lf_jinja_writer *w, struct lf_jinja_piece piece, char quote)
{
    const char *s = piece.s.ptr;
    for (size_t i = 0; i < piece.s.len && w->status == LF_OK;) {
        size_t end = i;
        while (end < piece.s.len && is_plain((unsigned char)s[end])) end++;
        lf_jinja_write(w, lf_str_from(s + i, end - i), piece.user);
        i = end;
        if (i == piece.s.len) break;
        uint32_t cp;
        int n = lf_utf8_decode(s + i, piece.s.len - i, &cp);
        if (n == 0) n = 1, cp = 0xfffd;
        repr_char(w, cp, lf_str_from(s + i, (size_t)n), quote, piece.user);
        i += (size_t)n;
    }
}

static void repr_text(struct lf_jinja_writer *w, struct lf_jinja_text t)
{
    const char *s = lf_jinja_text_ptr(t);
    char quote = memchr(s, '\'', t.len) && !memchr(s, '"', t.len) ? '"' : '\'';
    struct lf_str q = lf_str_from(&quote, 1);
    struct lf_jinja_pieces it = lf_jinja_text_pieces(t);
    struct lf_jinja_piece piece;
    lf_jinja_write(w, q, false);
    while (lf_jinja_pieces_next(&it, &piece)) repr_piece(w, piece, quote);
    lf_jinja_write(w, q, false);
}

/* -- Containers -- */

static void repr_items(struct lf_jinja_writer *w, const struct lf_jinja_list *list, const char *open, const char *close)
{
    lf_jinja_write_c(w, open);
    for (size_t i = 0; i < list->n && w->status == LF_OK; i++) {
        if (i) lf_jinja_write_c(w, ", ");
        lf_jinja_print_repr(w, list->items[i]);
    }
    lf_jinja_write_c(w, close);
}

static void repr_dict(struct lf_jinja_writer *w, const struct lf_jinja_dict *dict)
{
    lf_jinja_write_c(w, "{");
    for (size_t i = 0; i < dict->n && w->status == LF_OK; i++) {
        if (i) lf_jinja_write_c(w, ", ");
        lf_jinja_print_repr(w, dict->pairs[i].key);
        lf_jinja_write_c(w, ": ");
        lf_jinja_print_repr(w, dict->pairs[i].value);
    }
    lf_jinja_write_c(w, "}");
}

static void repr_view(struct lf_jinja_writer *w, const struct lf_jinja_view *view)
{
    static const char *const open[] = {"dict_keys([", "dict_values([", "dict_items(["};
    lf_jinja_write_c(w, open[view->kind]);
    for (size_t i = 0; i < view->dict->n && w->status == LF_OK; i++) {
        const struct lf_jinja_pair *pair = &view->dict->pairs[i];
        if (i) lf_jinja_write_c(w, ", ");
        if (view->kind == LF_JINJA_ITEMS) lf_jinja_write_c(w, "(");
        if (view->kind != LF_JINJA_VALUES) lf_jinja_print_repr(w, pair->key);
        if (view->kind == LF_JINJA_ITEMS) lf_jinja_write_c(w, ", ");
        if (view->kind != LF_JINJA_KEYS) lf_jinja_print_repr(w, pair->value);
        if (view->kind == LF_JINJA_ITEMS) lf_jinja_write_c(w, ")");
    }
    lf_jinja_write_c(w, "])");
}

static void repr_macro(struct lf_jinja_writer *w, const struct lf_jinja_macro *macro)
{
    lf_jinja_write_c(w, "<Macro ");
    if (macro->name.len) {
        repr_text(w, macro->name);
    } else {
        lf_jinja_write_c(w, "anonymous");
    }
    lf_jinja_write_c(w, ">");
}

static void repr_container(struct lf_jinja_writer *w, struct lf_jinja_value v)
{
    char text[96];
    switch (v.type) {
    case LF_JINJA_LIST:
        repr_items(w, v.as.list, "[", "]");
        break;
    case LF_JINJA_TUPLE:
        repr_items(w, v.as.list, "(", v.as.list->n == 1 ? ",)" : ")");
        break;
    case LF_JINJA_DICT:
        repr_dict(w, v.as.dict);
        break;
    case LF_JINJA_NAMESPACE:
        lf_jinja_write_c(w, "<Namespace ");
        repr_dict(w, v.as.dict);
        lf_jinja_write_c(w, ">");
        break;
    case LF_JINJA_VIEW:
        repr_view(w, v.as.view);
        break;
    case LF_JINJA_RANGE:
        if (v.as.range->step == 1) {
            snprintf(text, sizeof(text), "range(%" PRId64 ", %" PRId64 ")", v.as.range->start, v.as.range->stop);
        } else {
            snprintf(text, sizeof(text), "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", v.as.range->start,
                     v.as.range->stop, v.as.range->step);
        }
        lf_jinja_write_c(w, text);
        break;
    case LF_JINJA_MACRO:
        repr_macro(w, v.as.macro);
        break;
    default: /* Python prints an address here, which no template can mean */
        snprintf(text, sizeof(text), "<%s>", lf_jinja_type_name(v));
        lf_jinja_write_c(w, text);
        break;
    }
}

/* -- Any value -- */

static void print_number(struct lf_jinja_writer *w, struct lf_jinja_value v)
{
    char text[LF_JINJA_FLOAT_BYTES];
    size_t n;
    if (v.type == LF_JINJA_FLOAT) {
        n = lf_jinja_float_text(text, v.as.f);
    } else if (v.type == LF_JINJA_BOOL) {
        n = (size_t)snprintf(text, sizeof(text), "%s", v.as.i ? "True" : "False");
    } else {
        n = (size_t)snprintf(text, sizeof(text), "%" PRId64, v.as.i);
    }
    lf_jinja_write(w, lf_str_from(text, n), v.user);
}

void lf_jinja_print_repr(struct lf_jinja_writer *w, struct lf_jinja_value v)
{
    switch (v.type) {
    case LF_JINJA_MISSING:
    case LF_JINJA_UNDEFINED:
        lf_jinja_write_c(w, "Undefined");
        return;
    case LF_JINJA_STRING:
        if (v.markup) lf_jinja_write_c(w, "Markup(");
        repr_text(w, v.as.s);
        if (v.markup) lf_jinja_write_c(w, ")");
        return;
    case LF_JINJA_NONE:
    case LF_JINJA_BOOL:
    case LF_JINJA_INT:
    case LF_JINJA_BIGINT:
    case LF_JINJA_FLOAT:
        lf_jinja_print(w, v);
        return;
    default:
        break;
    }
    if (w->status == LF_OK) w->status = lf_jinja_enter(w->j);
    if (w->status != LF_OK) return;
    repr_container(w, v);
    lf_jinja_leave(w->j);
}

void lf_jinja_print(struct lf_jinja_writer *w, struct lf_jinja_value v)
{
    switch (v.type) {
    case LF_JINJA_MISSING:
    case LF_JINJA_UNDEFINED:
        break;
    case LF_JINJA_NONE:
        lf_jinja_write(w, LF_STR("None"), v.user);
        break;
    case LF_JINJA_BOOL:
    case LF_JINJA_INT:
    case LF_JINJA_FLOAT:
        print_number(w, v);
        break;
    case LF_JINJA_STRING:
    case LF_JINJA_BIGINT:
        lf_jinja_write_text(w, v.as.s);
        break;
    default:
        lf_jinja_print_repr(w, v);
        break;
    }
}

enum lf_status lf_jinja_to_text(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_value v)
{
    if (v.type == LF_JINJA_STRING) {
        *out = v.as.s;
        return LF_OK;
    }
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    lf_jinja_print(&w, v);
    return lf_jinja_writer_text(&w, out);
}
