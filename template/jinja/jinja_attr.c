/* Attributes, items and slices, with the sandbox's rules: what begins with an underscore, and every method that would
 * change a list or a dict, looks undefined and fails when it is used. */
#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_iter.h"
#include "template/jinja/jinja_run.h"

static bool is_one_of(struct lf_str name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lf_str_eq(name, lf_str_c(names[i]))) return true;
    }
    return false;
}

static bool is_forbidden(enum lf_jinja_type type, struct lf_str name)
{
    static const char *const of_list[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    if (name.len >= 2 && name.ptr[0] == '_' && name.ptr[1] == '_') return true;
    if (type == LF_JINJA_LIST) return is_one_of(name, of_list, LF_N_ELEMS(of_list));
    if (type == LF_JINJA_DICT) return is_one_of(name, of_dict, LF_N_ELEMS(of_dict));
    return false;
}

static enum lf_status fail_undefined(struct lf_jinja *j, struct lf_jinja_value v)
{
    struct lf_str m = v.as.undefined->message;
    return lf_jinja_fail(j, LF_INVALID, "%.*s", (int)m.len, m.ptr);
}

static enum lf_status unsafe(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                             struct lf_str name)
{
    return lf_jinja_undefined(j, out, "the attribute '%.*s' of a '%s' is not safe", (int)LF_MIN(name.len, 60u),
                              name.ptr, lf_jinja_type_name(obj));
}

/* What Python's getattr finds; MISSING where there is nothing. */
static enum lf_status find_attr(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                                struct lf_jinja_text name)
{
    struct lf_str s = lf_jinja_text_str(name);
    *out = (struct lf_jinja_value){0};
    if (obj.type == LF_JINJA_LOOP) return lf_jinja_loop_attr(j, out, obj.as.loop, s);
    if (obj.type == LF_JINJA_NAMESPACE) {
        LF_TRY(lf_jinja_dict_get(j, out, obj.as.dict, lf_jinja_string(name)));
        return lf_jinja_given(*out) && s.len && s.ptr[0] == '_' ? unsafe(j, out, obj, s) : LF_OK;
    }
    if (obj.type == LF_JINJA_MACRO && lf_str_eq(s, LF_STR("name"))) {
        *out = obj.as.macro->name.len ? lf_jinja_string(obj.as.macro->name) : lf_jinja_none();
        return LF_OK;
    }
    if (obj.type == LF_JINJA_TUPLE && obj.as.list->group) {
        if (lf_str_eq(s, LF_STR("grouper"))) *out = obj.as.list->items[0];
        if (lf_str_eq(s, LF_STR("list"))) *out = obj.as.list->items[1];
        if (lf_jinja_given(*out)) return LF_OK;
    }
    if (is_forbidden(obj.type, s)) return unsafe(j, out, obj, s);
    const struct lf_jinja_builtin *fn = lf_jinja_find_method(obj.type, s);
    if (!fn) return LF_OK;
    LF_TRY(lf_jinja_alloc(j, &out->as.method, 1, sizeof(*out->as.method)));
    out->type = LF_JINJA_METHOD;
    *out->as.method = (struct lf_jinja_method){obj, fn};
    return LF_OK;
}

/* What Python's obj[key] finds; MISSING where it fails. */
static enum lf_status find_item(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                                struct lf_jinja_value key)
{
    *out = (struct lf_jinja_value){0};
    if (obj.type == LF_JINJA_DICT) {
        if (key.type == LF_JINJA_LIST || key.type == LF_JINJA_DICT || key.type == LF_JINJA_VIEW) return LF_OK;
        return lf_jinja_dict_get(j, out, obj.as.dict, key);
    }
    bool indexable = obj.type == LF_JINJA_STRING || obj.type == LF_JINJA_LIST || obj.type == LF_JINJA_TUPLE ||
                     obj.type == LF_JINJA_RANGE;
    if (!indexable || !lf_jinja_is_integral(key)) return LF_OK;
    size_t n;
    bool sized;
    LF_TRY(lf_jinja_length(j, &n, &sized, obj));
    int64_t idx = key.as.i < 0 ? key.as.i + (int64_t)n : key.as.i;
    if (idx < 0 || idx >= (int64_t)n) return LF_OK;
    if (obj.type != LF_JINJA_STRING) {
        *out = lf_jinja_at(obj, (size_t)idx);
        return LF_OK;
    }
    uint32_t cp;
    LF_TRY(lf_jinja_charge(j, obj.as.s.buf->ascii ? 1 : obj.as.s.len));
    size_t pos = lf_jinja_text_byte_of(obj.as.s, (size_t)idx);
    *out = lf_jinja_string(lf_jinja_text_sub(obj.as.s, pos, pos + lf_jinja_text_char(obj.as.s, pos, &cp)));
    out->markup = obj.markup;
    return LF_OK;
}

static enum lf_status nothing(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                              struct lf_jinja_value key)
{
    if (key.type != LF_JINJA_STRING) {
        return lf_jinja_undefined(j, out, "a '%s' has no element at that '%s'", lf_jinja_type_name(obj),
                                  lf_jinja_type_name(key));
    }
    struct lf_str name = lf_jinja_text_str(key.as.s);
    if (obj.type == LF_JINJA_NONE) {
        return lf_jinja_undefined(j, out, "'None' has no attribute '%.*s'", (int)LF_MIN(name.len, 60u), name.ptr);
    }
    return lf_jinja_undefined(j, out, "'%s object' has no attribute '%.*s'", lf_jinja_type_name(obj),
                              (int)LF_MIN(name.len, 60u), name.ptr);
}

enum lf_status lf_jinja_getattr(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                                struct lf_jinja_text name)
{
    struct lf_jinja_value key = lf_jinja_string(name);
    if (obj.type == LF_JINJA_UNDEFINED) return fail_undefined(j, obj);
    LF_TRY(find_attr(j, out, obj, name));
    if (!lf_jinja_given(*out)) LF_TRY(find_item(j, out, obj, key));
    return lf_jinja_given(*out) ? LF_OK : nothing(j, out, obj, key);
}

enum lf_status lf_jinja_getitem(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                                struct lf_jinja_value key)
{
    if (obj.type == LF_JINJA_UNDEFINED) return fail_undefined(j, obj);
    LF_TRY(find_item(j, out, obj, key));
    if (!lf_jinja_given(*out) && key.type == LF_JINJA_STRING) LF_TRY(find_attr(j, out, obj, key.as.s));
    return lf_jinja_given(*out) ? LF_OK : nothing(j, out, obj, key);
}

/* -- Slices -- */

static int64_t clamp(int64_t i, int64_t n, int64_t step)
{
    if (i < 0) {
        i += n;
        return i >= 0 ? i : step < 0 ? -1 : 0;
    }
    return i < n ? i : step < 0 ? n - 1 : n;
}

/* The elements that a slice of n elements picks, as a range. */
static enum lf_status slice_range(struct lf_jinja *j, struct lf_jinja_range *out, const struct lf_jinja_value bounds[3],
                                  int64_t n)
{
    for (int i = 0; i < 3; i++) {
        bool absent = !lf_jinja_given(bounds[i]) || bounds[i].type == LF_JINJA_NONE;
        if (absent || lf_jinja_is_integral(bounds[i])) continue;
        return lf_jinja_fail(j, LF_INVALID, "the bounds of a slice must be integers, not '%s'",
                             lf_jinja_type_name(bounds[i]));
    }
    int64_t step = lf_jinja_is_integral(bounds[2]) ? bounds[2].as.i : 1;
    if (step == 0) return lf_jinja_fail(j, LF_INVALID, "the step of a slice cannot be 0");
    step = LF_MAX(LF_MIN(step, INT32_MAX), -INT32_MAX);
    int64_t start = step > 0 ? 0 : n - 1, stop = step > 0 ? n : -1;
    if (lf_jinja_is_integral(bounds[0])) start = clamp(bounds[0].as.i, n, step);
    if (lf_jinja_is_integral(bounds[1])) stop = clamp(bounds[1].as.i, n, step);
    int64_t span = step > 0 ? stop - start : start - stop, size = step > 0 ? step : -step;
    *out = (struct lf_jinja_range){start, stop, step, span > 0 ? (span + size - 1) / size : 0};
    return LF_OK;
}

static enum lf_status slice_text(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v,
                                 const struct lf_jinja_range *r)
{
    struct lf_jinja_text t = v.as.s;
    LF_TRY(lf_jinja_charge(j, t.buf->ascii ? 1 : t.len));
    *out = v;
    if (r->step == 1 || r->n == 0) {
        size_t first = r->n ? lf_jinja_text_byte_of(t, (size_t)r->start) : 0, end = first;
        if (r->n) end = first + lf_jinja_text_byte_of(lf_jinja_text_sub(t, first, t.len), (size_t)r->n);
        out->as.s = lf_jinja_text_sub(t, first, end);
        return LF_OK;
    }
    size_t n_chars, at = 0;
    uint32_t *offsets, cp;
    LF_TRY(lf_jinja_text_n_chars(j, &n_chars, t));
    LF_TRY(lf_jinja_charge(j, n_chars * 16));
    LF_TRY(lf_jinja_alloc(j, &offsets, n_chars + 1, sizeof(*offsets)));
    for (size_t pos = 0; pos < t.len; pos += lf_jinja_text_char(t, pos, &cp)) offsets[at++] = (uint32_t)pos;
    offsets[at] = t.len;
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    for (int64_t i = 0; i < r->n && w.status == LF_OK; i++) {
        int64_t idx = lf_jinja_range_at(r, i);
        lf_jinja_write_text(&w, lf_jinja_text_sub(t, offsets[idx], offsets[idx + 1]));
    }
    return lf_jinja_writer_text(&w, &out->as.s);
}

static enum lf_status slice_of_range(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_range *of,
                                     const struct lf_jinja_range *r)
{
    struct lf_jinja_range *range;
    struct lf_jinja_range all = {.n = r->n};
    bool overflow = __builtin_mul_overflow(of->step, r->step, &all.step);
    overflow |= __builtin_mul_overflow(of->step, r->start, &all.start);
    overflow |= __builtin_add_overflow(of->start, all.start, &all.start);
    overflow |= __builtin_mul_overflow(of->step, r->stop, &all.stop);
    overflow |= __builtin_add_overflow(of->start, all.stop, &all.stop);
    if (overflow) return lf_jinja_fail(j, LF_UNSUPPORTED, "integers beyond 64 bits are not implemented");
    LF_TRY(lf_jinja_alloc(j, &range, 1, sizeof(*range)));
    *range = all;
    *out = (struct lf_jinja_value){.type = LF_JINJA_RANGE, .as.range = range};
    return LF_OK;
}

enum lf_status lf_jinja_slice(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                              const struct lf_jinja_value bounds[3])
{
    if (obj.type == LF_JINJA_UNDEFINED) return fail_undefined(j, obj);
    bool is_list = obj.type == LF_JINJA_LIST || obj.type == LF_JINJA_TUPLE;
    if (!is_list && obj.type != LF_JINJA_STRING && obj.type != LF_JINJA_RANGE) {
        return lf_jinja_fail(j, LF_INVALID, "a '%s' has no slices", lf_jinja_type_name(obj));
    }
    size_t n;
    bool sized;
    struct lf_jinja_range r;
    LF_TRY(lf_jinja_length(j, &n, &sized, obj));
    LF_TRY(slice_range(j, &r, bounds, (int64_t)n));
    if (obj.type == LF_JINJA_STRING) return slice_text(j, out, obj, &r);
    if (obj.type == LF_JINJA_RANGE) return slice_of_range(j, out, obj.as.range, &r);
    struct lf_jinja_value list;
    LF_TRY(lf_jinja_list_new(j, &list, obj.type, (size_t)r.n));
    for (int64_t i = 0; i < r.n; i++) {
        LF_TRY(lf_jinja_list_push(j, list.as.list, obj.as.list->items[lf_jinja_range_at(&r, i)]));
    }
    *out = list;
    return LF_OK;
}
