/* Filters over text: case, trimming, replacing, escaping, indenting, formatting. */
#include "template/builtin/jinja_builtin.h"
#include "template/builtin/jinja_char.h"
#include "template/jinja/jinja_iter.h"
#include "template/builtin/jinja_str.h"

static enum lf_status filter_trim(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text chars;
    bool has_chars = lf_jinja_given(call->arg[0]) && call->arg[0].type != LF_JINJA_NONE;
    if (has_chars) LF_TRY(lf_jinja_text_arg(j, &chars, call->arg[0]));
    LF_TRY(lf_jinja_soft_str(j, out, call->self));
    return lf_jinja_strip(j, &out->as.s, out->as.s, has_chars ? &chars : NULL, LF_JINJA_BOTH);
}

static enum lf_status filter_upper(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    LF_TRY(lf_jinja_soft_str(j, out, call->self));
    return lf_jinja_case(j, &out->as.s, out->as.s, LF_JINJA_UPPER);
}

static enum lf_status filter_lower(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    LF_TRY(lf_jinja_soft_str(j, out, call->self));
    return lf_jinja_case(j, &out->as.s, out->as.s, LF_JINJA_LOWER);
}

static enum lf_status filter_capitalize(struct lf_jinja *j, struct lf_jinja_value *out,
                                        const struct lf_jinja_call *call)
{
    LF_TRY(lf_jinja_soft_str(j, out, call->self));
    return lf_jinja_case(j, &out->as.s, out->as.s, LF_JINJA_CAPITALIZE);
}

static bool ends_word(uint32_t cp)
{
    return lf_jinja_is_space(cp) || cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<';
}

/* Jinja's own rule: a word begins behind white space, a dash or an opening bracket. */
static enum lf_status filter_title(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    LF_TRY(lf_jinja_soft_str(j, out, call->self));
    struct lf_jinja_text t = out->as.s, piece;
    LF_TRY(lf_jinja_charge(j, (uint64_t)t.len * LF_JINJA_CHAR_COST));
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    for (size_t pos = 0; pos < t.len && w.status == LF_OK;) {
        uint32_t cp;
        size_t first = pos, letter = lf_jinja_text_char(t, pos, &cp);
        bool between = ends_word(cp);
        for (; pos < t.len; pos += lf_jinja_text_char(t, pos, &cp)) {
            lf_jinja_text_char(t, pos, &cp);
            if (ends_word(cp) != between) break;
        }
        LF_TRY(lf_jinja_case(j, &piece, lf_jinja_text_sub(t, first, first + letter), LF_JINJA_UPPER));
        lf_jinja_write_text(&w, piece);
        LF_TRY(lf_jinja_case(j, &piece, lf_jinja_text_sub(t, first + letter, pos), LF_JINJA_LOWER));
        lf_jinja_write_text(&w, piece);
    }
    return lf_jinja_writer_text(&w, &out->as.s);
}

static enum lf_status filter_replace(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text s, old, with;
    int64_t count;
    LF_TRY(lf_jinja_to_text(j, &s, call->self));
    LF_TRY(lf_jinja_to_text(j, &old, call->arg[0]));
    LF_TRY(lf_jinja_to_text(j, &with, call->arg[1]));
    LF_TRY(lf_jinja_int_arg(j, &count, call->arg[2], -1));
    LF_TRY(lf_jinja_replace(j, &s, s, old, with, count));
    *out = lf_jinja_string(s);
    return LF_OK;
}

static enum lf_status filter_string(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return lf_jinja_soft_str(j, out, call->self);
}

static enum lf_status filter_safe(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    LF_TRY(lf_jinja_soft_str(j, out, call->self));
    out->markup = true;
    return LF_OK;
}

enum lf_status lf_jinja_escape(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v)
{
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    static const char chars[] = "&<>\"'";
    bool done = v.type == LF_JINJA_STRING && v.markup;
    LF_TRY(lf_jinja_soft_str(j, out, v));
    out->markup = true;
    if (done) return LF_OK;
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    struct lf_jinja_pieces it = lf_jinja_text_pieces(out->as.s);
    struct lf_jinja_piece piece;
    while (w.status == LF_OK && lf_jinja_pieces_next(&it, &piece)) {
        size_t first = 0;
        for (size_t i = 0; i < piece.s.len; i++) {
            const char *special = piece.s.ptr[i] ? strchr(chars, piece.s.ptr[i]) : NULL;
            if (!special) continue;
            lf_jinja_write(&w, lf_str_from(piece.s.ptr + first, i - first), piece.user);
            lf_jinja_write(&w, lf_str_c(names[special - chars]), piece.user);
            first = i + 1;
        }
        lf_jinja_write(&w, lf_str_from(piece.s.ptr + first, piece.s.len - first), piece.user);
    }
    return lf_jinja_writer_text(&w, &out->as.s);
}

static enum lf_status filter_escape(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return lf_jinja_escape(j, out, call->self);
}

static enum lf_status filter_forceescape(struct lf_jinja *j, struct lf_jinja_value *out,
                                         const struct lf_jinja_call *call)
{
    struct lf_jinja_value plain = call->self;
    if (plain.type == LF_JINJA_STRING) plain.markup = false;
    return lf_jinja_escape(j, out, plain);
}

static enum lf_status indent_text(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_value width)
{
    if (width.type == LF_JINJA_STRING) {
        *out = width.as.s;
        return LF_OK;
    }
    int64_t n;
    struct lf_jinja_value space;
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    if (width.type == LF_JINJA_NONE) return lf_jinja_fail(j, LF_INVALID, "indent: the width is None");
    LF_TRY(lf_jinja_int_arg(j, &n, width, 4));
    LF_TRY(lf_jinja_string_c(j, &space, " "));
    lf_jinja_write_fill(&w, space.as.s, (size_t)LF_MAX(n, 0));
    return lf_jinja_writer_text(&w, out);
}

static enum lf_status filter_indent(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text indent, text, line;
    struct lf_jinja_value newline;
    bool first = lf_jinja_truth(call->arg[1]), blank = lf_jinja_truth(call->arg[2]), begun = false;
    LF_TRY(lf_jinja_text_arg(j, &text, call->self));
    LF_TRY(indent_text(j, &indent, call->arg[0]));
    LF_TRY(lf_jinja_string_c(j, &newline, "\n"));
    LF_TRY(lf_jinja_text_cat(j, &text, text, newline.as.s));
    LF_TRY(lf_jinja_charge(j, (uint64_t)text.len * 4));
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    for (size_t pos = 0; w.status == LF_OK && lf_jinja_next_line(text, &pos, &line, false); begun = true) {
        if (begun) lf_jinja_write_c(&w, "\n");
        if (begun ? blank || line.len : first) lf_jinja_write_text(&w, indent);
        lf_jinja_write_text(&w, line);
    }
    LF_TRY(lf_jinja_writer_text(&w, &text));
    *out = lf_jinja_string(text);
    out->markup = call->self.markup;
    return LF_OK;
}

static enum lf_status filter_truncate(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    int64_t length, leeway;
    size_t n, n_end;
    struct lf_jinja_value end = call->arg[2];
    struct lf_jinja_text text;
    bool sized;
    *out = call->self;
    LF_TRY(lf_jinja_int_arg(j, &length, call->arg[0], 255));
    LF_TRY(lf_jinja_int_arg(j, &leeway, call->arg[3], 5));
    if (!lf_jinja_given(end)) LF_TRY(lf_jinja_string_c(j, &end, "..."));
    LF_TRY(lf_jinja_text_arg(j, &end.as.s, end));
    LF_TRY(lf_jinja_length(j, &n, &sized, call->self));
    LF_TRY(lf_jinja_text_n_chars(j, &n_end, end.as.s));
    if (!sized) LF_TRY(lf_jinja_text_arg(j, &text, call->self)); /* fails */
    if (length < (int64_t)n_end || leeway < 0) {
        return lf_jinja_fail(j, LF_INVALID, "truncate: expected a length of at least %zu and a leeway of at least 0",
                             n_end);
    }
    if ((int64_t)n <= length || (int64_t)n - length <= leeway) return LF_OK;
    LF_TRY(lf_jinja_text_arg(j, &text, call->self));
    text = lf_jinja_text_sub(text, 0, lf_jinja_text_byte_of(text, (size_t)length - n_end));
    struct lf_jinja_value space;
    ptrdiff_t place;
    LF_TRY(lf_jinja_string_c(j, &space, " "));
    LF_TRY(lf_jinja_find(j, &place, text, space.as.s, 0, true));
    if (place >= 0 && !lf_jinja_truth(call->arg[1])) text = lf_jinja_text_sub(text, 0, (size_t)place);
    LF_TRY(lf_jinja_text_cat(j, &text, text, end.as.s));
    *out = lf_jinja_string(text);
    return LF_OK;
}

static enum lf_status filter_wordcount(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text t;
    int64_t n = 0;
    bool inside = false;
    LF_TRY(lf_jinja_to_text(j, &t, call->self));
    LF_TRY(lf_jinja_charge(j, (uint64_t)t.len * LF_JINJA_CHAR_COST));
    for (size_t pos = 0; pos < t.len;) {
        uint32_t cp;
        pos += lf_jinja_text_char(t, pos, &cp);
        bool word = cp == '_' || lf_jinja_is_alpha(cp) || lf_jinja_is_digit(cp);
        n += word && !inside;
        inside = word;
    }
    *out = lf_jinja_int(n);
    return LF_OK;
}

static enum lf_status filter_center(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    int64_t width;
    struct lf_jinja_value space;
    LF_TRY(lf_jinja_int_arg(j, &width, call->arg[0], 80));
    LF_TRY(lf_jinja_string_c(j, &space, " "));
    LF_TRY(lf_jinja_soft_str(j, out, call->self));
    return lf_jinja_pad(j, &out->as.s, out->as.s, width, space.as.s, LF_JINJA_BOTH);
}

/* "%s" % arguments; a dict of the named ones where there are any. */
static enum lf_status filter_format(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value format, values;
    if (call->raw->n_pos && call->raw->n_kw) {
        return lf_jinja_fail(j, LF_INVALID, "format: takes arguments with names or without, not both");
    }
    LF_TRY(lf_jinja_soft_str(j, &format, call->self));
    if (call->raw->n_kw) {
        LF_TRY(lf_jinja_dict_new(j, &values));
        LF_TRY(lf_jinja_dict_of(j, values.as.dict, call->raw));
    } else {
        LF_TRY(lf_jinja_list_new(j, &values, LF_JINJA_TUPLE, 0));
        for (size_t i = 0; i < call->raw->n_pos; i++) {
            LF_TRY(lf_jinja_list_push(j, values.as.list, call->raw->pos[i]));
        }
    }
    return lf_jinja_percent(j, out, format, values);
}

/* -- URLs -- */

static void quote(struct lf_jinja_writer *w, struct lf_jinja_text t, bool in_query)
{
    static const char hex[] = "0123456789ABCDEF";
    struct lf_jinja_pieces it = lf_jinja_text_pieces(t);
    struct lf_jinja_piece piece;
    while (w->status == LF_OK && lf_jinja_pieces_next(&it, &piece)) {
        for (size_t i = 0; i < piece.s.len && w->status == LF_OK; i++) {
            unsigned char c = (unsigned char)piece.s.ptr[i];
            bool plain = (c < 0x80 && (lf_jinja_is_alpha(c) || lf_jinja_is_digit(c))) || (c && strchr("_.-~", c)) ||
                         (c == '/' && !in_query);
            char code[3] = {'%', hex[c >> 4], hex[c & 15]};
            if (plain) {
                lf_jinja_write(w, lf_str_from(piece.s.ptr + i, 1), piece.user);
            } else if (c == ' ' && in_query) {
                lf_jinja_write(w, LF_STR("+"), piece.user);
            } else {
                lf_jinja_write(w, lf_str_from(code, 3), piece.user);
            }
        }
    }
}

static enum lf_status quote_pairs(struct lf_jinja *j, struct lf_jinja_writer *w, struct lf_jinja_value v)
{
    struct lf_jinja_view view = {.kind = LF_JINJA_ITEMS};
    if (v.type == LF_JINJA_DICT) {
        view.dict = v.as.dict;
        v = (struct lf_jinja_value){.type = LF_JINJA_VIEW, .as.view = &view};
    }
    LF_TRY(lf_jinja_collect(j, &v, v));
    for (size_t i = 0; i < v.as.list->n; i++) {
        struct lf_jinja_value pair;
        LF_TRY(lf_jinja_collect(j, &pair, v.as.list->items[i]));
        if (pair.as.list->n != 2) return lf_jinja_fail(j, LF_INVALID, "urlencode: expected pairs");
        if (i) lf_jinja_write_c(w, "&");
        for (size_t k = 0; k < 2; k++) {
            struct lf_jinja_text text;
            if (k) lf_jinja_write_c(w, "=");
            LF_TRY(lf_jinja_to_text(j, &text, pair.as.list->items[k]));
            quote(w, text, true);
        }
    }
    return w->status;
}

static enum lf_status filter_urlencode(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    struct lf_jinja_text text;
    if (call->self.type == LF_JINJA_STRING || !lf_jinja_is_iterable(call->self)) {
        LF_TRY(lf_jinja_to_text(j, &text, call->self));
        quote(&w, text, false);
    } else {
        LF_TRY(quote_pairs(j, &w, call->self));
    }
    LF_TRY(lf_jinja_writer_text(&w, &text));
    *out = lf_jinja_string(text);
    return LF_OK;
}

const struct lf_jinja_builtin *lf_jinja_text_filters(size_t *n)
{
    static const struct lf_jinja_builtin rows[] = {
        {"trim", filter_trim, 0, false, {"chars"}},
        {"upper", filter_upper, 0, false, {NULL}},
        {"lower", filter_lower, 0, false, {NULL}},
        {"capitalize", filter_capitalize, 0, false, {NULL}},
        {"title", filter_title, 0, false, {NULL}},
        {"replace", filter_replace, 2, false, {"old", "new", "count"}},
        {"string", filter_string, 0, false, {NULL}},
        {"safe", filter_safe, 0, false, {NULL}},
        {"escape", filter_escape, 0, false, {NULL}},
        {"e", filter_escape, 0, false, {NULL}},
        {"forceescape", filter_forceescape, 0, false, {NULL}},
        {"indent", filter_indent, 0, false, {"width", "first", "blank"}},
        {"truncate", filter_truncate, 0, false, {"length", "killwords", "end", "leeway"}},
        {"wordcount", filter_wordcount, 0, false, {NULL}},
        {"center", filter_center, 0, false, {"width"}},
        {"format", filter_format, 0, true, {NULL}},
        {"urlencode", filter_urlencode, 0, false, {NULL}},
        {"tojson", lf_jinja_tojson, 0, false, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    };
    *n = LF_N_ELEMS(rows);
    return rows;
}
