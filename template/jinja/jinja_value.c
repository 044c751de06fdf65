#include "template/jinja/jinja_value.h"

#include <math.h>
#include <stdio.h>

#include "core/hash.h"
#include "core/mix.h"
#include "template/jinja/jinja_iter.h"
#include "template/jinja/jinja_run.h"
#include "template/builtin/jinja_str.h"

enum { SMALL_DICT_N = 8 };

const char *lf_jinja_type_name(struct lf_jinja_value v)
{
    static const char *const names[] = {"nothing",     "Undefined", "NoneType", "bool",      "int",
                                        "int",         "float",     "str",      "list",      "tuple",
                                        "dict",        "dict view", "range",    "generator", "Namespace",
                                        "LoopContext", "Macro",     "function", "method"};
    _Static_assert(LF_N_ELEMS(names) == LF_JINJA_METHOD + 1, "a name for each type");
    return names[v.type];
}

/* -- Making -- */

enum lf_status lf_jinja_string_c(struct lf_jinja *j, struct lf_jinja_value *out, const char *s)
{
    struct lf_jinja_text text;
    if (!lf_jinja_text_borrow(&text, &j->arena, lf_str_c(s), false)) {
        return lf_jinja_fail_memory(j, sizeof(struct lf_jinja_buf));
    }
    *out = lf_jinja_string(text);
    return LF_OK;
}

enum lf_status lf_jinja_undefined(struct lf_jinja *j, struct lf_jinja_value *out, const char *fmt, ...)
{
    char message[160];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    size_t len = LF_MIN((size_t)LF_MAX(n, 0), sizeof(message) - 1);
    struct lf_jinja_undefined *undefined;
    char *copy;
    LF_TRY(lf_jinja_alloc(j, &undefined, 1, sizeof(*undefined)));
    LF_TRY(lf_jinja_alloc(j, &copy, len + 1, 1));
    memcpy(copy, message, len);
    undefined->message = lf_str_from(copy, len);
    *out = (struct lf_jinja_value){.type = LF_JINJA_UNDEFINED, .as.undefined = undefined};
    return LF_OK;
}

enum lf_status lf_jinja_list_new(struct lf_jinja *j, struct lf_jinja_value *out, enum lf_jinja_type type, size_t cap)
{
    struct lf_jinja_list *list;
    LF_TRY(lf_jinja_alloc(j, &list, 1, sizeof(*list)));
    if (cap) LF_TRY(lf_jinja_alloc(j, &list->items, cap, sizeof(*list->items)));
    list->cap = cap;
    *out = (struct lf_jinja_value){.type = (uint8_t)type, .as.list = list};
    return LF_OK;
}

enum lf_status lf_jinja_list_push(struct lf_jinja *j, struct lf_jinja_list *list, struct lf_jinja_value v)
{
    LF_TRY(lf_jinja_charge(j, 64));
    if (list->n == list->cap) {
        size_t cap = list->cap * 2 + 4;
        struct lf_jinja_value *items;
        LF_TRY(lf_jinja_alloc(j, &items, cap, sizeof(*items)));
        if (list->n) memcpy(items, list->items, list->n * sizeof(*items));
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = v;
    return LF_OK;
}

enum lf_status lf_jinja_pair_new(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value a,
                                 struct lf_jinja_value b)
{
    LF_TRY(lf_jinja_list_new(j, out, LF_JINJA_TUPLE, 2));
    LF_TRY(lf_jinja_list_push(j, out->as.list, a));
    return lf_jinja_list_push(j, out->as.list, b);
}

/* -- Truth, length -- */

bool lf_jinja_is_text(struct lf_jinja_value v, const char *s)
{
    return v.type == LF_JINJA_STRING && lf_str_eq(lf_jinja_text_str(v.as.s), lf_str_c(s));
}

bool lf_jinja_truth(struct lf_jinja_value v)
{
    switch (v.type) {
    case LF_JINJA_MISSING:
    case LF_JINJA_UNDEFINED:
    case LF_JINJA_NONE:
        return false;
    case LF_JINJA_BOOL:
    case LF_JINJA_INT:
        return v.as.i != 0;
    case LF_JINJA_FLOAT:
        return fpclassify(v.as.f) != FP_ZERO;
    case LF_JINJA_STRING:
        return v.as.s.len > 0;
    case LF_JINJA_LIST:
    case LF_JINJA_TUPLE:
        return v.as.list->n > 0;
    case LF_JINJA_DICT:
        return v.as.dict->n > 0;
    case LF_JINJA_VIEW:
        return v.as.view->dict->n > 0;
    case LF_JINJA_RANGE:
        return v.as.range->n > 0;
    default:
        return true;
    }
}

enum lf_status lf_jinja_length(struct lf_jinja *j, size_t *out, bool *sized, struct lf_jinja_value v)
{
    *sized = true;
    *out = 0;
    switch (v.type) {
    case LF_JINJA_UNDEFINED:
        return LF_OK;
    case LF_JINJA_STRING:
        return lf_jinja_text_n_chars(j, out, v.as.s);
    case LF_JINJA_LIST:
    case LF_JINJA_TUPLE:
        *out = v.as.list->n;
        return LF_OK;
    case LF_JINJA_DICT:
        *out = v.as.dict->n;
        return LF_OK;
    case LF_JINJA_VIEW:
        *out = v.as.view->dict->n;
        return LF_OK;
    case LF_JINJA_RANGE:
        *out = (size_t)v.as.range->n;
        return LF_OK;
    default:
        *sized = false;
        return LF_OK;
    }
}

int64_t lf_jinja_range_at(const struct lf_jinja_range *r, int64_t idx)
{
    return r->start + idx * r->step;
}

/* -- Equality and order -- */

static bool is_list(struct lf_jinja_value v)
{
    return v.type == LF_JINJA_LIST || v.type == LF_JINJA_TUPLE;
}

static enum lf_status equal_lists(struct lf_jinja *j, bool *out, const struct lf_jinja_list *a,
                                  const struct lf_jinja_list *b)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) LF_TRY(lf_jinja_equal(j, out, a->items[i], b->items[i]));
    return LF_OK;
}

static enum lf_status equal_dicts(struct lf_jinja *j, bool *out, struct lf_jinja_dict *a, struct lf_jinja_dict *b)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        struct lf_jinja_value other;
        LF_TRY(lf_jinja_dict_get(j, &other, b, a->pairs[i].key));
        *out = lf_jinja_given(other);
        if (*out) LF_TRY(lf_jinja_equal(j, out, a->pairs[i].value, other));
    }
    return LF_OK;
}

static bool equal_ranges(const struct lf_jinja_range *a, const struct lf_jinja_range *b)
{
    if (a->n != b->n) return false;
    if (a->n == 0) return true;
    return a->start == b->start && (a->n == 1 || a->step == b->step);
}

static bool equal_numbers(struct lf_jinja_value a, struct lf_jinja_value b)
{
    if (lf_jinja_is_integral(a) && lf_jinja_is_integral(b)) return a.as.i == b.as.i;
    double x = lf_jinja_as_double(a), y = lf_jinja_as_double(b);
    return !(x < y) && !(x > y) && !isnan(x) && !isnan(y);
}

enum lf_status lf_jinja_equal(struct lf_jinja *j, bool *out, struct lf_jinja_value a, struct lf_jinja_value b)
{
    LF_TRY(lf_jinja_charge(j, 32));
    *out = false;
    if (lf_jinja_is_number(a) && lf_jinja_is_number(b)) {
        *out = equal_numbers(a, b);
        return LF_OK;
    }
    if (a.type != b.type) return LF_OK;
    enum lf_status status = LF_OK;
    LF_TRY(lf_jinja_enter(j));
    switch (a.type) {
    case LF_JINJA_UNDEFINED:
    case LF_JINJA_NONE:
        *out = true;
        break;
    case LF_JINJA_STRING:
    case LF_JINJA_BIGINT:
        *out = a.as.s.len == b.as.s.len;
        if (*out) status = lf_jinja_charge(j, a.as.s.len);
        if (*out && status == LF_OK) *out = lf_str_eq(lf_jinja_text_str(a.as.s), lf_jinja_text_str(b.as.s));
        break;
    case LF_JINJA_LIST:
    case LF_JINJA_TUPLE:
        status = equal_lists(j, out, a.as.list, b.as.list);
        break;
    case LF_JINJA_DICT:
        status = equal_dicts(j, out, a.as.dict, b.as.dict);
        break;
    case LF_JINJA_RANGE:
        *out = equal_ranges(a.as.range, b.as.range);
        break;
    case LF_JINJA_FUNCTION:
        *out = a.as.function == b.as.function;
        break;
    case LF_JINJA_VIEW: /* equal as sets in Python, and no template asks */
        status = lf_jinja_fail(j, LF_UNSUPPORTED, "comparing keys(), values() or items() is not implemented");
        break;
    default:
        *out = a.as.dict == b.as.dict;
        break; /* the same object; every other kind holds a pointer */
    }
    lf_jinja_leave(j);
    return status;
}

static enum lf_status less_lists(struct lf_jinja *j, bool *out, const struct lf_jinja_list *a,
                                 const struct lf_jinja_list *b)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        LF_TRY(lf_jinja_equal(j, &same, a->items[i], b->items[i]));
        if (!same) return lf_jinja_less(j, out, a->items[i], b->items[i]);
    }
    *out = a->n < b->n;
    return LF_OK;
}

enum lf_status lf_jinja_less(struct lf_jinja *j, bool *out, struct lf_jinja_value a, struct lf_jinja_value b)
{
    LF_TRY(lf_jinja_charge(j, 32));
    if (lf_jinja_is_number(a) && lf_jinja_is_number(b)) {
        *out = lf_jinja_is_integral(a) && lf_jinja_is_integral(b) ? a.as.i < b.as.i
                                                                  : lf_jinja_as_double(a) < lf_jinja_as_double(b);
        return LF_OK;
    }
    if (a.type == LF_JINJA_STRING && b.type == LF_JINJA_STRING) {
        /* The order of UTF-8 bytes is the order of code points. */
        size_t n = LF_MIN(a.as.s.len, b.as.s.len);
        LF_TRY(lf_jinja_charge(j, n));
        int order = memcmp(lf_jinja_text_ptr(a.as.s), lf_jinja_text_ptr(b.as.s), n);
        *out = order ? order < 0 : a.as.s.len < b.as.s.len;
        return LF_OK;
    }
    if (is_list(a) && a.type == b.type) {
        LF_TRY(lf_jinja_enter(j));
        LF_TRY(less_lists(j, out, a.as.list, b.as.list));
        lf_jinja_leave(j);
        return LF_OK;
    }
    if (a.type == LF_JINJA_UNDEFINED || b.type == LF_JINJA_UNDEFINED) {
        struct lf_str m = (a.type == LF_JINJA_UNDEFINED ? a : b).as.undefined->message;
        return lf_jinja_fail(j, LF_INVALID, "%.*s", (int)m.len, m.ptr);
    }
    if (a.type == LF_JINJA_VIEW && b.type == LF_JINJA_VIEW) {
        return lf_jinja_fail(j, LF_UNSUPPORTED, "the views of a dict as sets are not implemented");
    }
    return lf_jinja_fail(j, LF_INVALID, "'%s' and '%s' have no order", lf_jinja_type_name(a), lf_jinja_type_name(b));
}

/* -- Dicts -- */

static enum lf_status hash_of(struct lf_jinja *j, uint64_t *out, struct lf_jinja_value key)
{
    double number;
    switch (key.type) {
    case LF_JINJA_STRING:
    case LF_JINJA_BIGINT:
        LF_TRY(lf_jinja_charge(j, key.as.s.len));
        *out = lf_hash64(lf_jinja_text_ptr(key.as.s), key.as.s.len);
        return LF_OK;
    case LF_JINJA_BOOL:
    case LF_JINJA_INT:
    case LF_JINJA_FLOAT: /* 1, 1.0 and true are one key */
        number = lf_jinja_as_double(key) + 0.0;
        *out = lf_hash64(&number, sizeof(number));
        return LF_OK;
    case LF_JINJA_TUPLE:
        *out = key.as.list->n;
        LF_TRY(lf_jinja_enter(j));
        for (size_t i = 0; i < key.as.list->n; i++) {
            uint64_t h;
            LF_TRY(lf_jinja_charge(j, 32));
            LF_TRY(hash_of(j, &h, key.as.list->items[i]));
            *out = lf_mix64(*out ^ h);
        }
        lf_jinja_leave(j);
        return LF_OK;
    case LF_JINJA_LIST:
    case LF_JINJA_DICT:
    case LF_JINJA_VIEW:
        return lf_jinja_fail(j, LF_INVALID, "a '%s' cannot be a key", lf_jinja_type_name(key));
    default:
        *out = key.type;
        return LF_OK;
    }
}

enum lf_status lf_jinja_dict_new(struct lf_jinja *j, struct lf_jinja_value *out)
{
    struct lf_jinja_dict *dict;
    LF_TRY(lf_jinja_alloc(j, &dict, 1, sizeof(*dict)));
    *out = (struct lf_jinja_value){.type = LF_JINJA_DICT, .as.dict = dict};
    return LF_OK;
}

static enum lf_status build_index(struct lf_jinja *j, struct lf_jinja_dict *dict)
{
    size_t cap = 32;
    while (cap < dict->cap * 2) cap *= 2;
    LF_TRY(lf_jinja_charge(j, cap));
    LF_TRY(lf_jinja_alloc(j, &dict->index, cap, sizeof(*dict->index)));
    dict->index_cap = cap;
    for (size_t i = 0; i < dict->n; i++) {
        uint64_t h;
        LF_TRY(hash_of(j, &h, dict->pairs[i].key));
        size_t at = h & (cap - 1);
        while (dict->index[at]) at = (at + 1) & (cap - 1);
        dict->index[at] = (uint32_t)i + 1;
    }
    return LF_OK;
}

/* The place of key in pairs, or dict->n; with an index, *slot is where it would be entered. */
static enum lf_status find(struct lf_jinja *j, struct lf_jinja_dict *dict, struct lf_jinja_value key, size_t *place,
                           size_t *slot)
{
    bool same = false;
    uint64_t h;
    LF_TRY(hash_of(j, &h, key)); /* also refuses what is no key */
    if (!dict->index) {
        for (*place = 0; *place < dict->n; (*place)++) {
            LF_TRY(lf_jinja_equal(j, &same, dict->pairs[*place].key, key));
            if (same) return LF_OK;
        }
        return LF_OK;
    }
    for (*slot = h & (dict->index_cap - 1); dict->index[*slot]; *slot = (*slot + 1) & (dict->index_cap - 1)) {
        *place = dict->index[*slot] - 1;
        LF_TRY(lf_jinja_equal(j, &same, dict->pairs[*place].key, key));
        if (same) return LF_OK;
    }
    *place = dict->n;
    return LF_OK;
}

enum lf_status lf_jinja_dict_set(struct lf_jinja *j, struct lf_jinja_dict *dict, struct lf_jinja_value key,
                                 struct lf_jinja_value v)
{
    size_t place, slot = 0;
    LF_TRY(find(j, dict, key, &place, &slot));
    if (place < dict->n) {
        dict->pairs[place].value = v;
        return LF_OK;
    }
    if (dict->n == dict->cap) {
        size_t cap = dict->cap * 2 + 4;
        struct lf_jinja_pair *pairs;
        LF_TRY(lf_jinja_alloc(j, &pairs, cap, sizeof(*pairs)));
        if (dict->n) memcpy(pairs, dict->pairs, dict->n * sizeof(*pairs));
        dict->pairs = pairs;
        dict->cap = cap;
        dict->pairs[dict->n++] = (struct lf_jinja_pair){key, v};
        return dict->n > SMALL_DICT_N ? build_index(j, dict) : LF_OK;
    }
    if (dict->index) dict->index[slot] = (uint32_t)dict->n + 1;
    dict->pairs[dict->n++] = (struct lf_jinja_pair){key, v};
    return LF_OK;
}

enum lf_status lf_jinja_dict_get(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_dict *dict,
                                 struct lf_jinja_value key)
{
    size_t place, slot;
    LF_TRY(find(j, dict, key, &place, &slot));
    *out = place < dict->n ? dict->pairs[place].value : (struct lf_jinja_value){0};
    return LF_OK;
}

struct lf_jinja_value lf_jinja_dict_get_c(const struct lf_jinja_dict *dict, const char *key)
{
    for (size_t i = 0; i < dict->n; i++) {
        if (lf_jinja_is_text(dict->pairs[i].key, key)) return dict->pairs[i].value;
    }
    return (struct lf_jinja_value){0};
}

/* -- Membership -- */

static enum lf_status contains_text(struct lf_jinja *j, bool *out, struct lf_jinja_value hay,
                                    struct lf_jinja_value needle)
{
    if (needle.type != LF_JINJA_STRING) {
        return lf_jinja_fail(j, LF_INVALID, "'in' of a string needs a string, not '%s'", lf_jinja_type_name(needle));
    }
    ptrdiff_t place;
    LF_TRY(lf_jinja_find(j, &place, hay.as.s, needle.as.s, 0, false));
    *out = place >= 0;
    return LF_OK;
}

enum lf_status lf_jinja_contains(struct lf_jinja *j, bool *out, struct lf_jinja_value hay, struct lf_jinja_value needle)
{
    struct lf_jinja_value found;
    *out = false;
    if (hay.type == LF_JINJA_STRING) return contains_text(j, out, hay, needle);
    if (hay.type == LF_JINJA_DICT || (hay.type == LF_JINJA_VIEW && hay.as.view->kind == LF_JINJA_KEYS)) {
        LF_TRY(lf_jinja_dict_get(j, &found, hay.type == LF_JINJA_DICT ? hay.as.dict : hay.as.view->dict, needle));
        *out = lf_jinja_given(found);
        return LF_OK;
    }
    struct lf_jinja_iter *it;
    LF_TRY(lf_jinja_iter_of(j, &it, hay));
    while (!*out) {
        LF_TRY(lf_jinja_iter_next(j, it, &found));
        if (!lf_jinja_given(found)) break;
        LF_TRY(lf_jinja_equal(j, out, found, needle));
    }
    return LF_OK;
}
