/* Filters over sequences and dicts. */
#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_iter.h"
#include "template/builtin/jinja_sort.h"
#include "template/builtin/jinja_str.h"

/* A generator that gives the elements of v, backwards if asked. */
static enum lf_status generator(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v, bool reversed)
{
    struct lf_jinja_iter *it;
    LF_TRY(lf_jinja_alloc(j, &it, 1, sizeof(*it)));
    it->source = v;
    it->reversed = reversed;
    *out = (struct lf_jinja_value){.type = LF_JINJA_ITER, .as.iter = it};
    return LF_OK;
}

static enum lf_status filter_length(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    size_t n;
    bool sized;
    LF_TRY(lf_jinja_length(j, &n, &sized, call->self));
    if (!sized) return lf_jinja_fail(j, LF_INVALID, "a '%s' has no length", lf_jinja_type_name(call->self));
    *out = lf_jinja_int((int64_t)n);
    return LF_OK;
}

static enum lf_status filter_list(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return lf_jinja_collect(j, out, call->self);
}

static enum lf_status filter_first(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_iter *it;
    LF_TRY(lf_jinja_iter_of(j, &it, call->self));
    LF_TRY(lf_jinja_iter_next(j, it, out));
    return lf_jinja_given(*out) ? LF_OK : lf_jinja_undefined(j, out, "No first item, sequence was empty.");
}

static enum lf_status filter_last(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value v = call->self, it;
    *out = (struct lf_jinja_value){0};
    if (v.type == LF_JINJA_STRING && v.as.s.len) {
        *out = v;
        out->as.s = lf_jinja_text_sub(v.as.s, lf_jinja_text_prev(v.as.s, v.as.s.len), v.as.s.len);
    } else if (v.type != LF_JINJA_STRING) {
        if (!lf_jinja_is_iterable(v) || v.type == LF_JINJA_ITER) {
            return lf_jinja_fail(j, LF_INVALID, "a '%s' cannot be read backwards", lf_jinja_type_name(v));
        }
        LF_TRY(generator(j, &it, v, true));
        LF_TRY(lf_jinja_iter_next(j, it.as.iter, out));
    }
    return lf_jinja_given(*out) ? LF_OK : lf_jinja_undefined(j, out, "No last item, sequence was empty.");
}

static enum lf_status filter_reverse(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value v = call->self;
    if (v.type == LF_JINJA_STRING) {
        const struct lf_jinja_value bounds[3] = {{0}, {0}, lf_jinja_int(-1)};
        return lf_jinja_slice(j, out, v, bounds);
    }
    if (v.type != LF_JINJA_ITER) {
        if (!lf_jinja_is_iterable(v)) return lf_jinja_fail(j, LF_INVALID, "reverse: expected something iterable");
        return generator(j, out, v, true);
    }
    LF_TRY(lf_jinja_collect(j, out, v));
    struct lf_jinja_list *list = out->as.list;
    for (size_t i = 0; i < list->n / 2; i++) {
        struct lf_jinja_value swap = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = swap;
    }
    return LF_OK;
}

static enum lf_status filter_join(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_iter *it;
    struct lf_jinja_value item;
    struct lf_jinja_text text;
    bool begun = false;
    LF_TRY(lf_jinja_iter_of(j, &it, call->self));
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    for (; w.status == LF_OK; begun = true) {
        LF_TRY(lf_jinja_iter_next(j, it, &item));
        if (!lf_jinja_given(item)) break;
        LF_TRY(lf_jinja_path(j, &item, item, call->arg[1], (struct lf_jinja_value){0}));
        if (begun) lf_jinja_print(&w, call->arg[0]);
        lf_jinja_print(&w, item);
    }
    LF_TRY(lf_jinja_writer_text(&w, &text));
    *out = lf_jinja_string(text);
    return LF_OK;
}

static enum lf_status filter_items(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value v = call->self;
    if (v.type == LF_JINJA_UNDEFINED) return generator(j, out, (struct lf_jinja_value){0}, false);
    if (v.type != LF_JINJA_DICT) {
        return lf_jinja_fail(j, LF_INVALID, "items: expected a dict, not '%s'", lf_jinja_type_name(v));
    }
    struct lf_jinja_view *view;
    LF_TRY(lf_jinja_alloc(j, &view, 1, sizeof(*view)));
    *view = (struct lf_jinja_view){v.as.dict, LF_JINJA_ITEMS};
    return generator(j, out, (struct lf_jinja_value){.type = LF_JINJA_VIEW, .as.view = view}, false);
}

/* -- Order -- */

/* What an element is compared by: its attribute, strings without case unless asked. */
static enum lf_status sort_key(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value item,
                               struct lf_jinja_value path, struct lf_jinja_value fallback, bool case_sensitive)
{
    LF_TRY(lf_jinja_path(j, out, item, path, fallback));
    if (case_sensitive || out->type != LF_JINJA_STRING) return LF_OK;
    return lf_jinja_case(j, &out->as.s, out->as.s, LF_JINJA_LOWER);
}

/* The same with several attributes, "a,b.c": a list of keys. */
static enum lf_status multi_key(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value item,
                                struct lf_jinja_value paths, bool case_sensitive)
{
    struct lf_jinja_value key, part = paths;
    LF_TRY(lf_jinja_list_new(j, out, LF_JINJA_LIST, 1));
    size_t first = 0, len = paths.type == LF_JINJA_STRING ? paths.as.s.len : 0;
    do {
        size_t end = len;
        if (paths.type == LF_JINJA_STRING) {
            const char *s = lf_jinja_text_ptr(paths.as.s), *comma = memchr(s + first, ',', len - first);
            if (comma) end = (size_t)(comma - s);
            part.as.s = lf_jinja_text_sub(paths.as.s, first, end);
        }
        LF_TRY(sort_key(j, &key, item, part, (struct lf_jinja_value){0}, case_sensitive));
        LF_TRY(lf_jinja_list_push(j, out->as.list, key));
        first = end + 1;
    } while (first <= len);
    return LF_OK;
}

/* The elements of `list` in the order of `keys`. */
static enum lf_status in_order(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_list *list,
                               const struct lf_jinja_list *keys, bool descending)
{
    size_t *order;
    struct lf_jinja_value sorted;
    LF_TRY(lf_jinja_sort_order(j, &order, keys, descending));
    LF_TRY(lf_jinja_list_new(j, &sorted, LF_JINJA_LIST, list->n));
    for (size_t i = 0; i < list->n; i++) LF_TRY(lf_jinja_list_push(j, sorted.as.list, list->items[order[i]]));
    *out = sorted;
    return LF_OK;
}

static enum lf_status filter_sort(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value list, keys, key;
    LF_TRY(lf_jinja_collect(j, &list, call->self));
    LF_TRY(lf_jinja_list_new(j, &keys, LF_JINJA_LIST, list.as.list->n));
    for (size_t i = 0; i < list.as.list->n; i++) {
        LF_TRY(multi_key(j, &key, list.as.list->items[i], call->arg[2], lf_jinja_truth(call->arg[1])));
        LF_TRY(lf_jinja_list_push(j, keys.as.list, key));
    }
    return in_order(j, out, list.as.list, keys.as.list, lf_jinja_truth(call->arg[0]));
}

static enum lf_status filter_dictsort(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value list, keys, key, pair;
    bool by_value = lf_jinja_is_text(call->arg[1], "value");
    if (call->self.type != LF_JINJA_DICT) {
        return lf_jinja_fail(j, LF_INVALID, "dictsort: expected a dict, not '%s'", lf_jinja_type_name(call->self));
    }
    if (!by_value && lf_jinja_given(call->arg[1]) && !lf_jinja_is_text(call->arg[1], "key")) {
        return lf_jinja_fail(j, LF_INVALID, "dictsort: expected by='key' or by='value'");
    }
    const struct lf_jinja_dict *dict = call->self.as.dict;
    LF_TRY(lf_jinja_list_new(j, &list, LF_JINJA_LIST, dict->n));
    LF_TRY(lf_jinja_list_new(j, &keys, LF_JINJA_LIST, dict->n));
    for (size_t i = 0; i < dict->n; i++) {
        LF_TRY(lf_jinja_pair_new(j, &pair, dict->pairs[i].key, dict->pairs[i].value));
        LF_TRY(lf_jinja_list_push(j, list.as.list, pair));
        LF_TRY(sort_key(j, &key, pair.as.list->items[by_value], (struct lf_jinja_value){0}, (struct lf_jinja_value){0},
                        lf_jinja_truth(call->arg[0])));
        LF_TRY(lf_jinja_list_push(j, keys.as.list, key));
    }
    return in_order(j, out, list.as.list, keys.as.list, lf_jinja_truth(call->arg[2]));
}

static enum lf_status extreme(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                              bool max)
{
    struct lf_jinja_iter *it;
    struct lf_jinja_value item, key, best = {0}, best_key = {0};
    bool case_sensitive = lf_jinja_truth(call->arg[0]);
    LF_TRY(lf_jinja_iter_of(j, &it, call->self));
    for (;;) {
        LF_TRY(lf_jinja_iter_next(j, it, &item));
        if (!lf_jinja_given(item)) break;
        LF_TRY(sort_key(j, &key, item, call->arg[1], (struct lf_jinja_value){0}, case_sensitive));
        bool better = true;
        if (lf_jinja_given(best)) {
            LF_TRY(max ? lf_jinja_less(j, &better, best_key, key) : lf_jinja_less(j, &better, key, best_key));
        }
        if (!better) continue;
        best = item;
        best_key = key;
    }
    *out = best;
    return lf_jinja_given(best) ? LF_OK : lf_jinja_undefined(j, out, "No aggregated item, sequence was empty.");
}

static enum lf_status filter_min(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return extreme(j, out, call, false);
}

static enum lf_status filter_max(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return extreme(j, out, call, true);
}

static enum lf_status filter_sum(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_iter *it;
    struct lf_jinja_value item, sum = lf_jinja_given(call->arg[1]) ? call->arg[1] : lf_jinja_int(0);
    if (sum.type == LF_JINJA_STRING) return lf_jinja_fail(j, LF_INVALID, "sum: strings are joined, not summed");
    LF_TRY(lf_jinja_iter_of(j, &it, call->self));
    for (;;) {
        LF_TRY(lf_jinja_iter_next(j, it, &item));
        if (!lf_jinja_given(item)) break;
        LF_TRY(lf_jinja_path(j, &item, item, call->arg[0], (struct lf_jinja_value){0}));
        LF_TRY(lf_jinja_binary(j, &sum, LF_JINJA_ADD, sum, item));
    }
    *out = sum;
    return LF_OK;
}

/* -- Groups -- */

static enum lf_status filter_batch(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value all, batches, batch;
    int64_t size;
    LF_TRY(lf_jinja_int_arg(j, &size, call->arg[0], 0));
    LF_TRY(lf_jinja_collect(j, &all, call->self));
    LF_TRY(lf_jinja_list_new(j, &batches, LF_JINJA_LIST, 0));
    LF_TRY(lf_jinja_list_new(j, &batch, LF_JINJA_LIST, 0));
    for (size_t i = 0; i < all.as.list->n; i++) {
        if ((int64_t)batch.as.list->n == size) {
            LF_TRY(lf_jinja_list_push(j, batches.as.list, batch));
            LF_TRY(lf_jinja_list_new(j, &batch, LF_JINJA_LIST, 0));
        }
        LF_TRY(lf_jinja_list_push(j, batch.as.list, all.as.list->items[i]));
    }
    bool fills = lf_jinja_given(call->arg[1]) && call->arg[1].type != LF_JINJA_NONE;
    while (fills && batch.as.list->n && (int64_t)batch.as.list->n < size) {
        LF_TRY(lf_jinja_list_push(j, batch.as.list, call->arg[1]));
    }
    if (batch.as.list->n) LF_TRY(lf_jinja_list_push(j, batches.as.list, batch));
    return generator(j, out, batches, false);
}

static enum lf_status filter_slice(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value all, slices, slice;
    int64_t n_slices;
    LF_TRY(lf_jinja_int_arg(j, &n_slices, call->arg[0], 0));
    if (n_slices == 0) return lf_jinja_fail(j, LF_INVALID, "slice: division by zero");
    LF_TRY(lf_jinja_collect(j, &all, call->self));
    LF_TRY(lf_jinja_list_new(j, &slices, LF_JINJA_LIST, 0));
    int64_t n = (int64_t)all.as.list->n, place = 0;
    bool fills = lf_jinja_given(call->arg[1]) && call->arg[1].type != LF_JINJA_NONE;
    for (int64_t s = 0; s < n_slices; s++) {
        bool longer = s < n % n_slices;
        LF_TRY(lf_jinja_list_new(j, &slice, LF_JINJA_LIST, 0));
        for (int64_t i = 0; i < n / n_slices + longer; i++) {
            LF_TRY(lf_jinja_list_push(j, slice.as.list, all.as.list->items[place++]));
        }
        if (fills && !longer) LF_TRY(lf_jinja_list_push(j, slice.as.list, call->arg[1]));
        LF_TRY(lf_jinja_list_push(j, slices.as.list, slice));
    }
    return generator(j, out, slices, false);
}

static enum lf_status filter_groupby(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value list, keys, key, groups, group = {0}, last = {0};
    bool case_sensitive = lf_jinja_truth(call->arg[2]);
    LF_TRY(lf_jinja_collect(j, &list, call->self));
    LF_TRY(lf_jinja_list_new(j, &keys, LF_JINJA_LIST, list.as.list->n));
    for (size_t i = 0; i < list.as.list->n; i++) {
        LF_TRY(sort_key(j, &key, list.as.list->items[i], call->arg[0], call->arg[1], case_sensitive));
        LF_TRY(lf_jinja_list_push(j, keys.as.list, key));
    }
    size_t *order;
    LF_TRY(lf_jinja_sort_order(j, &order, keys.as.list, false));
    LF_TRY(lf_jinja_list_new(j, &groups, LF_JINJA_LIST, 0));
    for (size_t i = 0; i < list.as.list->n; i++) {
        struct lf_jinja_value item = list.as.list->items[order[i]], pair;
        bool same = false;
        key = keys.as.list->items[order[i]];
        if (lf_jinja_given(last)) LF_TRY(lf_jinja_equal(j, &same, key, last));
        last = key;
        if (!same) {
            LF_TRY(lf_jinja_path(j, &key, item, call->arg[0], call->arg[1]));
            LF_TRY(lf_jinja_list_new(j, &group, LF_JINJA_LIST, 0));
            LF_TRY(lf_jinja_pair_new(j, &pair, key, group));
            pair.as.list->group = true;
            LF_TRY(lf_jinja_list_push(j, groups.as.list, pair));
        }
        LF_TRY(lf_jinja_list_push(j, group.as.list, item));
    }
    *out = groups;
    return LF_OK;
}

const struct lf_jinja_builtin *lf_jinja_list_filters(size_t *n)
{
    static const struct lf_jinja_builtin rows[] = {
        {"length", filter_length, 0, false, {NULL}},
        {"count", filter_length, 0, false, {NULL}},
        {"list", filter_list, 0, false, {NULL}},
        {"first", filter_first, 0, false, {NULL}},
        {"last", filter_last, 0, false, {NULL}},
        {"reverse", filter_reverse, 0, false, {NULL}},
        {"join", filter_join, 0, false, {"d", "attribute"}},
        {"items", filter_items, 0, false, {NULL}},
        {"sort", filter_sort, 0, false, {"reverse", "case_sensitive", "attribute"}},
        {"dictsort", filter_dictsort, 0, false, {"case_sensitive", "by", "reverse"}},
        {"min", filter_min, 0, false, {"case_sensitive", "attribute"}},
        {"max", filter_max, 0, false, {"case_sensitive", "attribute"}},
        {"sum", filter_sum, 0, false, {"attribute", "start"}},
        {"batch", filter_batch, 1, false, {"linecount", "fill_with"}},
        {"slice", filter_slice, 1, false, {"slices", "fill_with"}},
        {"groupby", filter_groupby, 1, false, {"attribute", "default", "case_sensitive"}},
    };
    *n = LF_N_ELEMS(rows);
    return rows;
}
