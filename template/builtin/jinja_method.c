/* Methods of strings, dicts, lists and tuples. The ones that would change a list or a dict are not here: the sandbox
 * hides them (jinja_attr.c). */
#include "template/builtin/jinja_builtin.h"
#include "template/builtin/jinja_char.h"
#include "template/jinja/jinja_iter.h"
#include "template/builtin/jinja_str.h"

static enum lf_status not_implemented(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    (void)out;
    return lf_jinja_fail(j, LF_UNSUPPORTED, "this method of a '%s' is not implemented", lf_jinja_type_name(call->self));
}

static bool is_absent(struct lf_jinja_value v)
{
    return !lf_jinja_given(v) || v.type == LF_JINJA_NONE;
}

/* -- Strings to strings -- */

static enum lf_status strip_sides(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                                  enum lf_jinja_sides sides)
{
    struct lf_jinja_text chars;
    bool has_chars = !is_absent(call->arg[0]);
    if (has_chars) LF_TRY(lf_jinja_text_arg(j, &chars, call->arg[0]));
    *out = call->self;
    return lf_jinja_strip(j, &out->as.s, call->self.as.s, has_chars ? &chars : NULL, sides);
}

static enum lf_status recase(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                             enum lf_jinja_casing casing)
{
    *out = call->self;
    return lf_jinja_case(j, &out->as.s, call->self.as.s, casing);
}

static enum lf_status pad(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                          enum lf_jinja_sides sides)
{
    int64_t width;
    size_t n = 1;
    struct lf_jinja_value fill = call->arg[1];
    LF_TRY(lf_jinja_int_arg(j, &width, call->arg[0], 0));
    if (!lf_jinja_given(fill)) LF_TRY(lf_jinja_string_c(j, &fill, " "));
    LF_TRY(lf_jinja_text_arg(j, &fill.as.s, fill));
    LF_TRY(lf_jinja_text_n_chars(j, &n, fill.as.s));
    if (n != 1) return lf_jinja_fail(j, LF_INVALID, "the fill must be one character");
    *out = call->self;
    return lf_jinja_pad(j, &out->as.s, call->self.as.s, width, fill.as.s, sides);
}

static enum lf_status split_from(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                                 bool from_right)
{
    struct lf_jinja_text sep;
    int64_t max;
    bool has_sep = !is_absent(call->arg[0]);
    if (has_sep) LF_TRY(lf_jinja_text_arg(j, &sep, call->arg[0]));
    LF_TRY(lf_jinja_int_arg(j, &max, call->arg[1], -1));
    return lf_jinja_split(j, out, call->self, has_sep ? &sep : NULL, max, from_right);
}

#define METHOD(NAME, EXPRESSION)                                                                                       \
    static enum lf_status str_##NAME(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call) \
    {                                                                                                                  \
        return EXPRESSION;                                                                                             \
    }

METHOD(strip, strip_sides(j, out, call, LF_JINJA_BOTH))
METHOD(lstrip, strip_sides(j, out, call, LF_JINJA_LEFT))
METHOD(rstrip, strip_sides(j, out, call, LF_JINJA_RIGHT))
METHOD(upper, recase(j, out, call, LF_JINJA_UPPER))
METHOD(lower, recase(j, out, call, LF_JINJA_LOWER))
METHOD(title, recase(j, out, call, LF_JINJA_TITLE))
METHOD(capitalize, recase(j, out, call, LF_JINJA_CAPITALIZE))
METHOD(swapcase, recase(j, out, call, LF_JINJA_SWAPCASE))
METHOD(center, pad(j, out, call, LF_JINJA_BOTH))
METHOD(rjust, pad(j, out, call, LF_JINJA_LEFT))
METHOD(ljust, pad(j, out, call, LF_JINJA_RIGHT))
METHOD(split, split_from(j, out, call, false))
METHOD(rsplit, split_from(j, out, call, true))

static enum lf_status str_zfill(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    int64_t width;
    struct lf_jinja_value zero;
    struct lf_jinja_text t = call->self.as.s, sign, digits;
    LF_TRY(lf_jinja_int_arg(j, &width, call->arg[0], 0));
    LF_TRY(lf_jinja_string_c(j, &zero, "0"));
    char first = t.len ? lf_jinja_text_ptr(t)[0] : '\0';
    bool has_sign = first == '-' || first == '+';
    sign = lf_jinja_text_sub(t, 0, has_sign);
    digits = lf_jinja_text_sub(t, has_sign, t.len);
    LF_TRY(lf_jinja_pad(j, &digits, digits, LF_MAX(width, 1) - has_sign, zero.as.s, LF_JINJA_LEFT));
    *out = call->self;
    return lf_jinja_text_cat(j, &out->as.s, sign, digits);
}

static enum lf_status str_replace(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text old, with;
    int64_t count;
    LF_TRY(lf_jinja_text_arg(j, &old, call->arg[0]));
    LF_TRY(lf_jinja_text_arg(j, &with, call->arg[1]));
    LF_TRY(lf_jinja_int_arg(j, &count, call->arg[2], -1));
    *out = call->self;
    return lf_jinja_replace(j, &out->as.s, call->self.as.s, old, with, count);
}

static enum lf_status str_removeprefix(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text t = call->self.as.s, prefix;
    LF_TRY(lf_jinja_text_arg(j, &prefix, call->arg[0]));
    *out = call->self;
    if (lf_str_starts(lf_jinja_text_str(t), lf_jinja_text_str(prefix))) {
        out->as.s = lf_jinja_text_sub(t, prefix.len, t.len);
    }
    return LF_OK;
}

static enum lf_status str_removesuffix(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text t = call->self.as.s, suffix;
    LF_TRY(lf_jinja_text_arg(j, &suffix, call->arg[0]));
    *out = call->self;
    if (lf_str_ends(lf_jinja_text_str(t), lf_jinja_text_str(suffix))) {
        out->as.s = lf_jinja_text_sub(t, 0, t.len - suffix.len);
    }
    return LF_OK;
}

static enum lf_status str_join(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_iter *it;
    struct lf_jinja_value item;
    bool begun = false, markup = call->self.markup;
    LF_TRY(lf_jinja_iter_of(j, &it, call->arg[0]));
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    for (; w.status == LF_OK; begun = true) {
        LF_TRY(lf_jinja_iter_next(j, it, &item));
        if (!lf_jinja_given(item)) break;
        if (markup) LF_TRY(lf_jinja_escape(j, &item, item));
        LF_TRY(lf_jinja_text_arg(j, &item.as.s, item));
        if (begun) lf_jinja_write_text(&w, call->self.as.s);
        lf_jinja_write_text(&w, item.as.s);
    }
    *out = call->self;
    return lf_jinja_writer_text(&w, &out->as.s);
}

/* -- Strings to lists -- */

static enum lf_status str_splitlines(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value list, line = call->self;
    size_t pos = 0;
    LF_TRY(lf_jinja_list_new(j, &list, LF_JINJA_LIST, 0));
    LF_TRY(lf_jinja_charge(j, (uint64_t)call->self.as.s.len * 4));
    while (lf_jinja_next_line(call->self.as.s, &pos, &line.as.s, lf_jinja_truth(call->arg[0]))) {
        LF_TRY(lf_jinja_list_push(j, list.as.list, line));
    }
    *out = list;
    return LF_OK;
}

static enum lf_status partition(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                                bool last)
{
    struct lf_jinja_text t = call->self.as.s, sep;
    ptrdiff_t place;
    LF_TRY(lf_jinja_text_arg(j, &sep, call->arg[0]));
    if (sep.len == 0) return lf_jinja_fail(j, LF_INVALID, "partition: the separator is empty");
    LF_TRY(lf_jinja_find(j, &place, t, sep, 0, last));
    size_t first = place >= 0 ? (size_t)place : last ? 0 : t.len, end = place >= 0 ? first + sep.len : first;
    const size_t cuts[4] = {0, first, end, t.len};
    LF_TRY(lf_jinja_list_new(j, out, LF_JINJA_TUPLE, 3));
    for (size_t i = 0; i < 3; i++) {
        struct lf_jinja_value part = call->self;
        part.as.s = lf_jinja_text_sub(t, cuts[i], cuts[i + 1]);
        LF_TRY(lf_jinja_list_push(j, out->as.list, part));
    }
    return LF_OK;
}

METHOD(partition, partition(j, out, call, false))
METHOD(rpartition, partition(j, out, call, true))

/* -- Looking into strings -- */

/* The window [start, end) in code points that the last two arguments name, and how many code points lie before it.
 * *valid false where it begins behind the end. */
static enum lf_status window(struct lf_jinja *j, const struct lf_jinja_call *call, struct lf_jinja_text *out,
                             int64_t *before, bool *valid)
{
    size_t n;
    int64_t first, end;
    struct lf_jinja_text t = call->self.as.s;
    *out = t;
    *before = 0;
    *valid = true;
    if (is_absent(call->arg[1]) && is_absent(call->arg[2])) return LF_OK;
    LF_TRY(lf_jinja_text_n_chars(j, &n, t));
    LF_TRY(lf_jinja_int_arg(j, &first, call->arg[1], 0));
    LF_TRY(lf_jinja_int_arg(j, &end, call->arg[2], (int64_t)n));
    first = first < 0 ? LF_MAX(first + (int64_t)n, 0) : first;
    end = end < 0 ? LF_MAX(end + (int64_t)n, 0) : LF_MIN(end, (int64_t)n);
    *valid = first <= end;
    if (!*valid) return LF_OK;
    *before = first;
    LF_TRY(lf_jinja_charge(j, t.buf->ascii ? 1 : t.len));
    *out = lf_jinja_text_sub(t, lf_jinja_text_byte_of(t, (size_t)first), lf_jinja_text_byte_of(t, (size_t)end));
    return LF_OK;
}

/* Place in code points, or -1. */
static enum lf_status find_place(struct lf_jinja *j, int64_t *out, const struct lf_jinja_call *call, bool last)
{
    struct lf_jinja_text needle, t;
    ptrdiff_t place = -1;
    size_t n;
    bool valid;
    LF_TRY(lf_jinja_text_arg(j, &needle, call->arg[0]));
    LF_TRY(window(j, call, &t, out, &valid));
    if (valid) LF_TRY(lf_jinja_find(j, &place, t, needle, 0, last));
    if (place < 0) {
        *out = -1;
        return LF_OK;
    }
    LF_TRY(lf_jinja_text_n_chars(j, &n, lf_jinja_text_sub(t, 0, (size_t)place)));
    *out += (int64_t)n;
    return LF_OK;
}

static enum lf_status find_or_fail(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                                   bool last, bool fails)
{
    int64_t place;
    LF_TRY(find_place(j, &place, call, last));
    if (place < 0 && fails) return lf_jinja_fail(j, LF_INVALID, "index: the substring is not there");
    *out = lf_jinja_int(place);
    return LF_OK;
}

METHOD(find, find_or_fail(j, out, call, false, false))
METHOD(rfind, find_or_fail(j, out, call, true, false))
METHOD(index, find_or_fail(j, out, call, false, true))
METHOD(rindex, find_or_fail(j, out, call, true, true))

static enum lf_status str_count(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text needle, t;
    int64_t n = 0, before;
    size_t n_chars;
    bool valid;
    LF_TRY(lf_jinja_text_arg(j, &needle, call->arg[0]));
    LF_TRY(window(j, call, &t, &before, &valid));
    if (valid && needle.len == 0) {
        LF_TRY(lf_jinja_text_n_chars(j, &n_chars, t));
        n = (int64_t)n_chars + 1;
    }
    ptrdiff_t place = 0;
    while (valid && needle.len && place >= 0) {
        LF_TRY(lf_jinja_find(j, &place, t, needle, 0, false));
        if (place >= 0) t = lf_jinja_text_sub(t, (size_t)place + needle.len, t.len);
        n += place >= 0;
    }
    *out = lf_jinja_int(n);
    return LF_OK;
}

static enum lf_status begins_or_ends(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                                     bool begins)
{
    struct lf_jinja_text t, part;
    int64_t before;
    bool valid, holds = false;
    LF_TRY(window(j, call, &t, &before, &valid));
    const struct lf_jinja_value *parts = call->arg;
    size_t n = 1;
    if (call->arg[0].type == LF_JINJA_TUPLE) {
        parts = call->arg[0].as.list->items;
        n = call->arg[0].as.list->n;
    }
    struct lf_str s = lf_jinja_text_str(t);
    for (size_t i = 0; i < n && !holds; i++) {
        LF_TRY(lf_jinja_text_arg(j, &part, parts[i]));
        LF_TRY(lf_jinja_charge(j, 32u + part.len));
        holds = valid && (begins ? lf_str_starts(s, lf_jinja_text_str(part)) : lf_str_ends(s, lf_jinja_text_str(part)));
    }
    *out = lf_jinja_bool(holds);
    return LF_OK;
}

METHOD(startswith, begins_or_ends(j, out, call, true))
METHOD(endswith, begins_or_ends(j, out, call, false))

/* -- Kinds of characters -- */

static enum lf_status all_are(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_text t,
                              bool (*is)(uint32_t cp))
{
    bool all = t.len > 0;
    uint32_t cp;
    LF_TRY(lf_jinja_charge(j, (uint64_t)t.len * LF_JINJA_CHAR_COST));
    for (size_t pos = 0; all && pos < t.len;) {
        pos += lf_jinja_text_char(t, pos, &cp);
        all = is(cp);
    }
    *out = lf_jinja_bool(all);
    return LF_OK;
}

static bool is_alnum(uint32_t cp)
{
    return lf_jinja_is_alpha(cp) || lf_jinja_is_digit(cp);
}

static enum lf_status all_cased(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_text t, bool upper)
{
    bool holds;
    LF_TRY(lf_jinja_is_cased(j, &holds, t, upper));
    *out = lf_jinja_bool(holds);
    return LF_OK;
}

METHOD(isdigit, all_are(j, out, call->self.as.s, lf_jinja_is_digit))
METHOD(isalpha, all_are(j, out, call->self.as.s, lf_jinja_is_alpha))
METHOD(isalnum, all_are(j, out, call->self.as.s, is_alnum))
METHOD(isspace, all_are(j, out, call->self.as.s, lf_jinja_is_space))
METHOD(isupper, all_cased(j, out, call->self.as.s, true))
METHOD(islower, all_cased(j, out, call->self.as.s, false))

static enum lf_status str_isascii(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text t = call->self.as.s;
    bool ascii = true;
    LF_TRY(lf_jinja_charge(j, t.len));
    for (size_t i = 0; i < t.len; i++) ascii &= (unsigned char)lf_jinja_text_ptr(t)[i] < 0x80;
    *out = lf_jinja_bool(ascii);
    return LF_OK;
}

const struct lf_jinja_builtin *lf_jinja_string_methods(size_t *n)
{
    static const struct lf_jinja_builtin rows[] = {
        {"strip", str_strip, 0, false, {"chars"}},
        {"lstrip", str_lstrip, 0, false, {"chars"}},
        {"rstrip", str_rstrip, 0, false, {"chars"}},
        {"upper", str_upper, 0, false, {NULL}},
        {"lower", str_lower, 0, false, {NULL}},
        {"casefold", str_lower, 0, false, {NULL}},
        {"title", str_title, 0, false, {NULL}},
        {"capitalize", str_capitalize, 0, false, {NULL}},
        {"swapcase", str_swapcase, 0, false, {NULL}},
        {"center", str_center, 1, false, {"width", "fillchar"}},
        {"ljust", str_ljust, 1, false, {"width", "fillchar"}},
        {"rjust", str_rjust, 1, false, {"width", "fillchar"}},
        {"zfill", str_zfill, 1, false, {"width"}},
        {"replace", str_replace, 2, false, {"old", "new", "count"}},
        {"removeprefix", str_removeprefix, 1, false, {"prefix"}},
        {"removesuffix", str_removesuffix, 1, false, {"suffix"}},
        {"join", str_join, 1, false, {"iterable"}},
        {"format", lf_jinja_str_format, 0, true, {NULL}},
        {"split", str_split, 0, false, {"sep", "maxsplit"}},
        {"rsplit", str_rsplit, 0, false, {"sep", "maxsplit"}},
        {"splitlines", str_splitlines, 0, false, {"keepends"}},
        {"partition", str_partition, 1, false, {"sep"}},
        {"rpartition", str_rpartition, 1, false, {"sep"}},
    };
    *n = LF_N_ELEMS(rows);
    return rows;
}

const struct lf_jinja_builtin *lf_jinja_string_tests(size_t *n)
{
    static const struct lf_jinja_builtin rows[] = {
        {"find", str_find, 1, false, {"sub", "start", "end"}},
        {"rfind", str_rfind, 1, false, {"sub", "start", "end"}},
        {"index", str_index, 1, false, {"sub", "start", "end"}},
        {"rindex", str_rindex, 1, false, {"sub", "start", "end"}},
        {"count", str_count, 1, false, {"sub", "start", "end"}},
        {"startswith", str_startswith, 1, false, {"prefix", "start", "end"}},
        {"endswith", str_endswith, 1, false, {"suffix", "start", "end"}},
        {"isdigit", str_isdigit, 0, false, {NULL}},
        {"isalpha", str_isalpha, 0, false, {NULL}},
        {"isalnum", str_isalnum, 0, false, {NULL}},
        {"isspace", str_isspace, 0, false, {NULL}},
        {"isupper", str_isupper, 0, false, {NULL}},
        {"islower", str_islower, 0, false, {NULL}},
        {"isascii", str_isascii, 0, false, {NULL}},
        {"encode", not_implemented, 0, true, {NULL}},
        {"expandtabs", not_implemented, 0, true, {NULL}},
        {"format_map", not_implemented, 0, true, {NULL}},
        {"isdecimal", not_implemented, 0, true, {NULL}},
        {"isidentifier", not_implemented, 0, true, {NULL}},
        {"isnumeric", not_implemented, 0, true, {NULL}},
        {"isprintable", not_implemented, 0, true, {NULL}},
        {"istitle", not_implemented, 0, true, {NULL}},
        {"maketrans", not_implemented, 0, true, {NULL}},
        {"translate", not_implemented, 0, true, {NULL}},
    };
    *n = LF_N_ELEMS(rows);
    return rows;
}

/* -- Dicts and lists -- */

static enum lf_status dict_get(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    LF_TRY(lf_jinja_dict_get(j, out, call->self.as.dict, call->arg[0]));
    if (!lf_jinja_given(*out)) *out = lf_jinja_given(call->arg[1]) ? call->arg[1] : lf_jinja_none();
    return LF_OK;
}

static enum lf_status dict_view(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                                enum lf_jinja_view_kind kind)
{
    struct lf_jinja_view *view;
    LF_TRY(lf_jinja_alloc(j, &view, 1, sizeof(*view)));
    *view = (struct lf_jinja_view){call->self.as.dict, kind};
    *out = (struct lf_jinja_value){.type = LF_JINJA_VIEW, .as.view = view};
    return LF_OK;
}

static enum lf_status dict_items(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return dict_view(j, out, call, LF_JINJA_ITEMS);
}

static enum lf_status dict_keys(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return dict_view(j, out, call, LF_JINJA_KEYS);
}

static enum lf_status dict_values(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return dict_view(j, out, call, LF_JINJA_VALUES);
}

/* A copy may be the original: neither can change. */
static enum lf_status copy(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    (void)j;
    *out = call->self;
    return LF_OK;
}

static enum lf_status list_count(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    const struct lf_jinja_list *list = call->self.as.list;
    int64_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        bool same;
        LF_TRY(lf_jinja_equal(j, &same, list->items[i], call->arg[0]));
        n += same;
    }
    *out = lf_jinja_int(n);
    return LF_OK;
}

static enum lf_status list_index(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    const struct lf_jinja_list *list = call->self.as.list;
    int64_t first, end, n = (int64_t)list->n;
    LF_TRY(lf_jinja_int_arg(j, &first, call->arg[1], 0));
    LF_TRY(lf_jinja_int_arg(j, &end, call->arg[2], n));
    first = first < 0 ? LF_MAX(first + n, 0) : first;
    end = end < 0 ? end + n : LF_MIN(end, n);
    for (int64_t i = first; i < end; i++) {
        bool same;
        LF_TRY(lf_jinja_equal(j, &same, list->items[i], call->arg[0]));
        if (!same) continue;
        *out = lf_jinja_int(i);
        return LF_OK;
    }
    return lf_jinja_fail(j, LF_INVALID, "index: the value is not in the list");
}

const struct lf_jinja_builtin *lf_jinja_container_methods(enum lf_jinja_type type, size_t *n)
{
    static const struct lf_jinja_builtin of_dict[] = {
        {"get", dict_get, 1, false, {"key", "default"}},
        {"items", dict_items, 0, false, {NULL}},
        {"keys", dict_keys, 0, false, {NULL}},
        {"values", dict_values, 0, false, {NULL}},
        {"copy", copy, 0, false, {NULL}},
        {"fromkeys", not_implemented, 0, true, {NULL}},
    };
    static const struct lf_jinja_builtin of_list[] = {
        {"count", list_count, 1, false, {"value"}},
        {"index", list_index, 1, false, {"value", "start", "stop"}},
        {"copy", copy, 0, false, {NULL}},
    };
    *n = type == LF_JINJA_DICT ? LF_N_ELEMS(of_dict) : type == LF_JINJA_LIST ? LF_N_ELEMS(of_list) : 0;
    if (type == LF_JINJA_TUPLE) *n = LF_N_ELEMS(of_list) - 1; /* all but copy */
    return type == LF_JINJA_DICT ? of_dict : of_list;
}
