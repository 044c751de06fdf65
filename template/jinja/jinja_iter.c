#include "template/jinja/jinja_iter.h"

bool lf_jinja_is_iterable(struct lf_jinja_value v)
{
    switch (v.type) {
    case LF_JINJA_UNDEFINED:
    case LF_JINJA_STRING:
    case LF_JINJA_LIST:
    case LF_JINJA_TUPLE:
    case LF_JINJA_DICT:
    case LF_JINJA_VIEW:
    case LF_JINJA_RANGE:
    case LF_JINJA_ITER:
    case LF_JINJA_LOOP:
        return true;
    default:
        return false;
    }
}

enum lf_status lf_jinja_iter_of(struct lf_jinja *j, struct lf_jinja_iter **out, struct lf_jinja_value v)
{
    if (v.type == LF_JINJA_ITER) {
        *out = v.as.iter;
        return LF_OK;
    }
    if (!lf_jinja_is_iterable(v) || v.type == LF_JINJA_LOOP) {
        return lf_jinja_fail(j, LF_INVALID, "a '%s' cannot be iterated over", lf_jinja_type_name(v));
    }
    LF_TRY(lf_jinja_alloc(j, out, 1, sizeof(**out)));
    (*out)->source = v;
    return LF_OK;
}

struct lf_jinja_value lf_jinja_at(struct lf_jinja_value v, size_t idx)
{
    if (v.type == LF_JINJA_RANGE) return lf_jinja_int(lf_jinja_range_at(v.as.range, (int64_t)idx));
    return v.as.list->items[idx];
}

static enum lf_status view_at(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_dict *dict,
                              enum lf_jinja_view_kind kind, size_t idx)
{
    const struct lf_jinja_pair *pair = &dict->pairs[idx];
    if (kind == LF_JINJA_ITEMS) return lf_jinja_pair_new(j, out, pair->key, pair->value);
    *out = kind == LF_JINJA_KEYS ? pair->key : pair->value;
    return LF_OK;
}

/* The next element of a plain source. */
static enum lf_status source_next(struct lf_jinja *j, struct lf_jinja_iter *it, struct lf_jinja_value *out)
{
    struct lf_jinja_value v = it->source;
    *out = (struct lf_jinja_value){0};
    if (v.type == LF_JINJA_STRING) {
        if (it->pos >= v.as.s.len) return LF_OK;
        uint32_t cp;
        size_t n = lf_jinja_text_char(v.as.s, it->pos, &cp);
        *out = lf_jinja_string(lf_jinja_text_sub(v.as.s, it->pos, it->pos + n));
        it->pos += n; /* Python gives the characters of marked-up text as plain ones */
        return LF_OK;
    }
    size_t n;
    bool sized;
    LF_TRY(lf_jinja_length(j, &n, &sized, v));
    if (!sized || it->pos >= n) return LF_OK;
    size_t idx = it->reversed ? n - 1 - it->pos : it->pos;
    it->pos++;
    if (v.type == LF_JINJA_DICT) return view_at(j, out, v.as.dict, LF_JINJA_KEYS, idx);
    if (v.type == LF_JINJA_VIEW) return view_at(j, out, v.as.view->dict, v.as.view->kind, idx);
    *out = lf_jinja_at(v, idx);
    return LF_OK;
}

enum lf_status lf_jinja_iter_next(struct lf_jinja *j, struct lf_jinja_iter *it, struct lf_jinja_value *out)
{
    LF_TRY(lf_jinja_charge(j, 64));
    if (!it->stage) return source_next(j, it, out);
    bool keep = false;
    LF_TRY(lf_jinja_enter(j));
    while (!keep) {
        struct lf_jinja_value item;
        LF_TRY(lf_jinja_iter_next(j, it->inner, &item));
        *out = item;
        if (!lf_jinja_given(item)) break;
        LF_TRY(it->stage->step(j, it->stage, item, out, &keep));
    }
    lf_jinja_leave(j);
    return LF_OK;
}

enum lf_status lf_jinja_collect(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v)
{
    struct lf_jinja_value list, item;
    struct lf_jinja_iter *it;
    LF_TRY(lf_jinja_iter_of(j, &it, v));
    LF_TRY(lf_jinja_list_new(j, &list, LF_JINJA_LIST, 0));
    for (;;) {
        LF_TRY(lf_jinja_iter_next(j, it, &item));
        if (!lf_jinja_given(item)) break;
        LF_TRY(lf_jinja_list_push(j, list.as.list, item));
    }
    *out = list;
    return LF_OK;
}

enum lf_status lf_jinja_lazy(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v,
                             const struct lf_jinja_stage *stage)
{
    struct lf_jinja_iter *it;
    LF_TRY(lf_jinja_alloc(j, &it, 1, sizeof(*it)));
    LF_TRY(lf_jinja_alloc(j, &it->stage, 1, sizeof(*it->stage)));
    *it->stage = *stage;
    LF_TRY(lf_jinja_iter_of(j, &it->inner, v));
    *out = (struct lf_jinja_value){.type = LF_JINJA_ITER, .as.iter = it};
    return LF_OK;
}

/* -- Loops -- */

static enum lf_status look_ahead(struct lf_jinja *j, struct lf_jinja_loop *loop)
{
    if (loop->has_next) return LF_OK;
    LF_TRY(lf_jinja_iter_next(j, loop->iter, &loop->next));
    loop->has_next = true;
    return LF_OK;
}

enum lf_status lf_jinja_loop_next(struct lf_jinja *j, struct lf_jinja_loop *loop, bool *more)
{
    LF_TRY(look_ahead(j, loop));
    *more = lf_jinja_given(loop->next);
    if (!*more) return LF_OK;
    loop->prev = loop->current;
    loop->current = loop->next;
    loop->has_next = false;
    loop->index0++;
    return LF_OK;
}

/* Elements in all; reads a generator to its end, as Jinja does. */
static enum lf_status count(struct lf_jinja *j, struct lf_jinja_loop *loop)
{
    if (loop->n >= 0) return LF_OK;
    struct lf_jinja_value source = {.type = LF_JINJA_ITER, .as.iter = loop->iter}, rest;
    LF_TRY(lf_jinja_collect(j, &rest, source));
    LF_TRY(lf_jinja_iter_of(j, &loop->iter, rest));
    bool ahead = loop->has_next && lf_jinja_given(loop->next);
    loop->n = loop->index0 + 1 + ahead + (int64_t)rest.as.list->n;
    return LF_OK;
}

static enum lf_status neighbour(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v,
                                const char *which)
{
    *out = v;
    return lf_jinja_given(v) ? LF_OK : lf_jinja_undefined(j, out, "there is no %s item", which);
}

static enum lf_status loop_cycle(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    if (call->raw->n_pos == 0) return lf_jinja_fail(j, LF_INVALID, "loop.cycle needs at least one argument");
    *out = call->raw->pos[(size_t)call->self.as.loop->index0 % call->raw->n_pos];
    return LF_OK;
}

static enum lf_status loop_changed(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_loop *loop = call->self.as.loop;
    struct lf_jinja_value seen;
    LF_TRY(lf_jinja_list_new(j, &seen, LF_JINJA_TUPLE, 0));
    for (size_t i = 0; i < call->raw->n_pos; i++) LF_TRY(lf_jinja_list_push(j, seen.as.list, call->raw->pos[i]));
    bool same = false;
    if (lf_jinja_given(loop->seen)) LF_TRY(lf_jinja_equal(j, &same, loop->seen, seen));
    loop->seen = seen;
    *out = lf_jinja_bool(!same);
    return LF_OK;
}

static enum lf_status loop_method(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_loop *loop,
                                  const struct lf_jinja_builtin *fn)
{
    LF_TRY(lf_jinja_alloc(j, &out->as.method, 1, sizeof(*out->as.method)));
    out->type = LF_JINJA_METHOD;
    out->as.method->fn = fn;
    out->as.method->self = (struct lf_jinja_value){.type = LF_JINJA_LOOP, .as.loop = loop};
    return LF_OK;
}

enum lf_status lf_jinja_loop_attr(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_loop *loop,
                                  struct lf_str name)
{
    static const struct lf_jinja_builtin cycle = {.name = "cycle", .run = loop_cycle, .varargs = true},
                                         changed = {.name = "changed", .run = loop_changed, .varargs = true};
    static const char *const names[] = {"index",    "index0",   "first", "last",    "length", "revindex", "revindex0",
                                        "previtem", "nextitem", "cycle", "changed", "depth",  "depth0"};
    enum { INDEX, INDEX0, FIRST, LAST, LENGTH, REVINDEX, REVINDEX0, PREVITEM, NEXTITEM, CYCLE, CHANGED, DEPTH, DEPTH0 };
    size_t which = 0;
    while (which < LF_N_ELEMS(names) && !lf_str_eq(name, lf_str_c(names[which]))) which++;
    *out = (struct lf_jinja_value){0};
    if (which == LAST || which == NEXTITEM) LF_TRY(look_ahead(j, loop));
    if (which == LENGTH || which == REVINDEX || which == REVINDEX0) LF_TRY(count(j, loop));
    switch (which) {
    case INDEX:
        *out = lf_jinja_int(loop->index0 + 1);
        break;
    case INDEX0:
        *out = lf_jinja_int(loop->index0);
        break;
    case FIRST:
        *out = lf_jinja_bool(loop->index0 == 0);
        break;
    case LAST:
        *out = lf_jinja_bool(!lf_jinja_given(loop->next));
        break;
    case LENGTH:
        *out = lf_jinja_int(loop->n);
        break;
    case REVINDEX:
        *out = lf_jinja_int(loop->n - loop->index0);
        break;
    case REVINDEX0:
        *out = lf_jinja_int(loop->n - loop->index0 - 1);
        break;
    case PREVITEM:
        return neighbour(j, out, loop->prev, "previous");
    case NEXTITEM:
        return neighbour(j, out, loop->next, "next");
    case CYCLE:
        return loop_method(j, out, loop, &cycle);
    case CHANGED:
        return loop_method(j, out, loop, &changed);
    case DEPTH:
        *out = lf_jinja_int(1);
        break;
    case DEPTH0:
        *out = lf_jinja_int(0);
        break;
    default:
        break; /* MISSING: no such attribute */
    }
    return LF_OK;
}

/* -- Attribute paths -- */

/* One part of a path: an integer where it is all digits. */
static struct lf_jinja_value path_part(struct lf_jinja_text part)
{
    const char *s = lf_jinja_text_ptr(part);
    bool digits = part.len > 0 && part.len < 18;
    int64_t i = 0;
    for (size_t k = 0; digits && k < part.len; k++) {
        digits = s[k] >= '0' && s[k] <= '9';
        i = i * 10 + (s[k] - '0');
    }
    return digits ? lf_jinja_int(i) : lf_jinja_string(part);
}

enum lf_status lf_jinja_path(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value item,
                             struct lf_jinja_value path, struct lf_jinja_value fallback)
{
    bool has_fallback = lf_jinja_given(fallback) && fallback.type != LF_JINJA_NONE;
    *out = item;
    if (!lf_jinja_given(path) || path.type == LF_JINJA_NONE) return LF_OK;
    if (path.type != LF_JINJA_STRING) {
        LF_TRY(lf_jinja_getitem(j, out, item, path));
        if (has_fallback && out->type == LF_JINJA_UNDEFINED) *out = fallback;
        return LF_OK;
    }
    const char *s = lf_jinja_text_ptr(path.as.s);
    size_t first = 0, len = path.as.s.len;
    while (first <= len) {
        const char *dot = memchr(s + first, '.', len - first);
        size_t end = dot ? (size_t)(dot - s) : len;
        struct lf_jinja_value key = path_part(lf_jinja_text_sub(path.as.s, first, end));
        LF_TRY(lf_jinja_getitem(j, out, *out, key));
        if (has_fallback && out->type == LF_JINJA_UNDEFINED) *out = fallback;
        first = end + 1;
    }
    return LF_OK;
}
