/* JSON both ways: the request's values as template values, and the filter `tojson` as json.dumps writes.
 *
 * Text that came from the request keeps its mark inside of JSON; quotes, brackets, commas and indentation are the
 * template's. An escape belongs to who wrote the character it stands for. */
#include <math.h>
#include <stdio.h>

#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_run.h"
#include "template/builtin/jinja_sort.h"

/* -- From JSON -- */

static enum lf_status string_from_json(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_json_value v)
{
    struct lf_str s;
    LF_TRY(lf_jinja_charge(j, lf_json_raw(v).len));
    if (!lf_json_borrow(v, &s)) {
        size_t cap = lf_json_raw(v).len; /* unescaping never lengthens */
        struct lf_buf buf;
        char *copy;
        lf_buf_init_in(&buf, cap + 1, lf_work_memory(j->work));
        bool ok = lf_json_string(v, &buf);
        enum lf_status status = ok ? lf_jinja_alloc(j, &copy, buf.len + 1, 1)
                                   : lf_jinja_fail(j, LF_NO_MEMORY, "no memory for a string of the request");
        if (status == LF_OK) {
            memcpy(copy, buf.ptr ? buf.ptr : "", buf.len);
            s = lf_str_from(copy, buf.len);
        }
        lf_buf_deinit(&buf);
        LF_TRY(status);
    }
    struct lf_jinja_text text;
    if (!lf_jinja_text_borrow(&text, &j->arena, s, true)) {
        return lf_jinja_fail_memory(j, sizeof(struct lf_jinja_buf));
    }
    *out = lf_jinja_string(text);
    return LF_OK;
}

/* A number is an integer exactly where it is written as one. */
static enum lf_status number_from_json(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_json_value v)
{
    struct lf_str raw = lf_json_raw(v);
    bool is_float = false;
    for (size_t i = 0; i < raw.len; i++) is_float |= raw.ptr[i] == '.' || (raw.ptr[i] | 0x20) == 'e';
    int64_t i;
    double f;
    if (is_float && lf_json_double(v, &f)) {
        *out = lf_jinja_float(f);
    } else if (!is_float && lf_json_int64(v, &i)) {
        *out = lf_jinja_int(i);
    } else {
        struct lf_jinja_text text;
        if (!lf_jinja_text_borrow(&text, &j->arena, raw, true)) {
            return lf_jinja_fail_memory(j, sizeof(struct lf_jinja_buf));
        }
        *out = (struct lf_jinja_value){.type = LF_JINJA_BIGINT, .as.s = text};
    }
    out->user = true;
    return LF_OK;
}

static enum lf_status children_from_json(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_json_value v)
{
    bool is_array = lf_json_type(v) == LF_JSON_ARRAY;
    struct lf_jinja_value all, key, value;
    LF_TRY(is_array ? lf_jinja_list_new(j, &all, LF_JINJA_LIST, lf_json_len(v)) : lf_jinja_dict_new(j, &all));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        if (is_array) {
            LF_TRY(lf_jinja_from_json(j, &value, it));
            LF_TRY(lf_jinja_list_push(j, all.as.list, value));
        } else {
            LF_TRY(string_from_json(j, &key, it));
            LF_TRY(lf_jinja_from_json(j, &value, lf_json_member(it)));
            LF_TRY(lf_jinja_dict_set(j, all.as.dict, key, value));
        }
    }
    *out = all;
    return LF_OK;
}

enum lf_status lf_jinja_from_json(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_json_value v)
{
    *out = lf_jinja_none();
    switch (lf_json_type(v)) {
    case LF_JSON_NONE:
    case LF_JSON_NULL:
        break;
    case LF_JSON_FALSE:
    case LF_JSON_TRUE:
        *out = lf_jinja_bool(lf_json_type(v) == LF_JSON_TRUE);
        break;
    case LF_JSON_NUMBER:
        return number_from_json(j, out, v);
    case LF_JSON_STRING:
        return string_from_json(j, out, v);
    case LF_JSON_ARRAY:
    case LF_JSON_OBJECT:
        LF_TRY(lf_jinja_enter(j));
        LF_TRY(children_from_json(j, out, v));
        lf_jinja_leave(j);
        return LF_OK;
    }
    out->user = true;
    return LF_OK;
}

/* -- To JSON -- */

struct dump {
    struct lf_jinja *j;
    struct lf_jinja_writer w;
    bool ascii, pretty, sorted;
    struct lf_jinja_text indent, item_separator, key_separator;
    size_t level;
};

static void dump_escape(struct dump *d, uint32_t cp, bool user)
{
    char text[16];
    if (d->w.status == LF_OK) d->w.status = lf_jinja_charge(d->j, LF_JINJA_CHAR_COST);
    const char *named = cp == '"'    ? "\\\""
                        : cp == '\\' ? "\\\\"
                        : cp == '\n' ? "\\n"
                        : cp == '\r' ? "\\r"
                        : cp == '\t' ? "\\t"
                        : cp == '\b' ? "\\b"
                        : cp == '\f' ? "\\f"
                                     : NULL;
    if (named) {
        lf_jinja_write(&d->w, lf_str_c(named), user);
        return;
    }
    if (cp < 0x10000) {
        snprintf(text, sizeof(text), "\\u%04x", cp);
    } else {
        snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10), 0xdc00 + (cp & 0x3ff));
    }
    lf_jinja_write(&d->w, lf_str_c(text), user);
}

static void dump_piece(struct dump *d, struct lf_jinja_piece piece)
{
    const char *s = piece.s.ptr;
    for (size_t i = 0; i < piece.s.len && d->w.status == LF_OK;) {
        size_t end = i;
        while (end < piece.s.len && (unsigned char)s[end] >= 0x20 && s[end] != '"' && s[end] != '\\' &&
               (!d->ascii || (unsigned char)s[end] < 0x80)) {
            end++;
        }
        lf_jinja_write(&d->w, lf_str_from(s + i, end - i), piece.user);
        i = end;
        if (i == piece.s.len) break;
        uint32_t cp;
        int n = lf_utf8_decode(s + i, piece.s.len - i, &cp);
        dump_escape(d, n ? cp : 0xfffd, piece.user);
        i += (size_t)LF_MAX(n, 1);
    }
}

static void dump_string(struct dump *d, struct lf_jinja_text t)
{
    struct lf_jinja_pieces it = lf_jinja_text_pieces(t);
    struct lf_jinja_piece piece;
    lf_jinja_write_c(&d->w, "\"");
    while (lf_jinja_pieces_next(&it, &piece)) dump_piece(d, piece);
    lf_jinja_write_c(&d->w, "\"");
}

static void dump_newline(struct dump *d)
{
    if (!d->pretty) return;
    lf_jinja_write_c(&d->w, "\n");
    lf_jinja_write_fill(&d->w, d->indent, d->level);
}

/* A number, a boolean or null; false for anything else. */
static bool dump_scalar(struct dump *d, struct lf_jinja_value v)
{
    switch (v.type) {
    case LF_JINJA_NONE:
        lf_jinja_write(&d->w, LF_STR("null"), v.user);
        return true;
    case LF_JINJA_BOOL:
        lf_jinja_write(&d->w, v.as.i ? LF_STR("true") : LF_STR("false"), v.user);
        return true;
    case LF_JINJA_FLOAT:
        if (!isfinite(v.as.f)) {
            lf_jinja_write_c(&d->w, isnan(v.as.f) ? "NaN" : v.as.f < 0 ? "-Infinity" : "Infinity");
            return true;
        }
        lf_jinja_print(&d->w, v);
        return true;
    case LF_JINJA_INT:
    case LF_JINJA_BIGINT:
        lf_jinja_print(&d->w, v);
        return true;
    default:
        return false;
    }
}

static enum lf_status dump_value(struct dump *d, struct lf_jinja_value v);

static enum lf_status dump_list(struct dump *d, const struct lf_jinja_list *list)
{
    lf_jinja_write_c(&d->w, "[");
    d->level++;
    for (size_t i = 0; i < list->n; i++) {
        if (i) lf_jinja_write_text(&d->w, d->item_separator);
        dump_newline(d);
        LF_TRY(dump_value(d, list->items[i]));
    }
    d->level--;
    if (list->n) dump_newline(d);
    lf_jinja_write_c(&d->w, "]");
    return d->w.status;
}

static enum lf_status dump_key(struct dump *d, struct lf_jinja_value key)
{
    if (key.type == LF_JINJA_STRING) {
        dump_string(d, key.as.s);
        return d->w.status;
    }
    lf_jinja_write_c(&d->w, "\"");
    bool ok = dump_scalar(d, key);
    lf_jinja_write_c(&d->w, "\"");
    return ok ? d->w.status
              : lf_jinja_fail(d->j, LF_INVALID, "tojson: a key cannot be a '%s'", lf_jinja_type_name(key));
}

static enum lf_status dump_dict(struct dump *d, const struct lf_jinja_dict *dict)
{
    size_t *order = NULL;
    if (d->sorted) {
        struct lf_jinja_value keys;
        LF_TRY(lf_jinja_list_new(d->j, &keys, LF_JINJA_LIST, dict->n));
        for (size_t i = 0; i < dict->n; i++) LF_TRY(lf_jinja_list_push(d->j, keys.as.list, dict->pairs[i].key));
        LF_TRY(lf_jinja_sort_order(d->j, &order, keys.as.list, false));
    }
    lf_jinja_write_c(&d->w, "{");
    d->level++;
    for (size_t i = 0; i < dict->n; i++) {
        const struct lf_jinja_pair *pair = &dict->pairs[order ? order[i] : i];
        if (i) lf_jinja_write_text(&d->w, d->item_separator);
        dump_newline(d);
        LF_TRY(dump_key(d, pair->key));
        lf_jinja_write_text(&d->w, d->key_separator);
        LF_TRY(dump_value(d, pair->value));
    }
    d->level--;
    if (dict->n) dump_newline(d);
    lf_jinja_write_c(&d->w, "}");
    return d->w.status;
}

static enum lf_status dump_value(struct dump *d, struct lf_jinja_value v)
{
    LF_TRY(lf_jinja_charge(d->j, 64));
    if (v.type == LF_JINJA_STRING) {
        dump_string(d, v.as.s);
        return d->w.status;
    }
    if (dump_scalar(d, v)) return d->w.status;
    LF_TRY(lf_jinja_enter(d->j));
    if (v.type == LF_JINJA_LIST || v.type == LF_JINJA_TUPLE) {
        LF_TRY(dump_list(d, v.as.list));
    } else if (v.type == LF_JINJA_DICT) {
        LF_TRY(dump_dict(d, v.as.dict));
    } else {
        return lf_jinja_fail(d->j, LF_INVALID, "tojson: a '%s' cannot be written as JSON", lf_jinja_type_name(v));
    }
    lf_jinja_leave(d->j);
    return LF_OK;
}

static enum lf_status literal(struct lf_jinja *j, struct lf_jinja_text *out, const char *s)
{
    struct lf_jinja_value v;
    LF_TRY(lf_jinja_string_c(j, &v, s));
    *out = v.as.s;
    return LF_OK;
}

static enum lf_status set_indent(struct dump *d, struct lf_jinja_value indent)
{
    d->pretty = lf_jinja_given(indent) && indent.type != LF_JINJA_NONE;
    if (!d->pretty) return literal(d->j, &d->indent, "");
    if (indent.type == LF_JINJA_STRING) {
        d->indent = indent.as.s;
        return LF_OK;
    }
    if (!lf_jinja_is_integral(indent)) {
        return lf_jinja_fail(d->j, LF_INVALID, "tojson: indent is a '%s'", lf_jinja_type_name(indent));
    }
    struct lf_jinja_writer w = lf_jinja_writer_of(d->j);
    struct lf_jinja_text space;
    LF_TRY(literal(d->j, &space, " "));
    lf_jinja_write_fill(&w, space, (size_t)LF_MAX(indent.as.i, 0));
    return lf_jinja_writer_text(&w, &d->indent);
}

static enum lf_status set_separators(struct dump *d, struct lf_jinja_value v)
{
    if (!lf_jinja_given(v) || v.type == LF_JINJA_NONE) {
        LF_TRY(literal(d->j, &d->item_separator, d->pretty ? "," : ", "));
        return literal(d->j, &d->key_separator, ": ");
    }
    bool ok = (v.type == LF_JINJA_TUPLE || v.type == LF_JINJA_LIST) && v.as.list->n == 2 &&
              v.as.list->items[0].type == LF_JINJA_STRING && v.as.list->items[1].type == LF_JINJA_STRING;
    if (!ok) return lf_jinja_fail(d->j, LF_INVALID, "tojson: separators must be two strings");
    d->item_separator = v.as.list->items[0].as.s;
    d->key_separator = v.as.list->items[1].as.s;
    return LF_OK;
}

enum lf_status lf_jinja_tojson(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct dump d = {.j = j, .w = lf_jinja_writer_of(j)};
    d.ascii = lf_jinja_truth(call->arg[0]);
    d.sorted = lf_jinja_truth(call->arg[3]);
    LF_TRY(set_indent(&d, call->arg[1]));
    LF_TRY(set_separators(&d, call->arg[2]));
    LF_TRY(dump_value(&d, call->self));
    struct lf_jinja_text text;
    LF_TRY(lf_jinja_writer_text(&d.w, &text));
    *out = lf_jinja_string(text);
    return LF_OK;
}
