/* Filters that apply another filter or test to each element, lazily; and the ones that choose a value. */
#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_iter.h"
#include "template/builtin/jinja_str.h"

/* -- map -- */

static enum lf_status map_step(struct lf_jinja *j, const struct lf_jinja_stage *stage, struct lf_jinja_value item,
                               struct lf_jinja_value *out, bool *keep)
{
    *keep = true;
    if (stage->fn) return lf_jinja_call_builtin(j, out, stage->fn, item, &stage->args);
    return lf_jinja_path(j, out, item, stage->attr, stage->fallback);
}

/* As Python's generators over nothing: what is false gives no elements, whatever it is. */
static enum lf_status lazily(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v,
                             const struct lf_jinja_stage *stage)
{
    struct lf_jinja_value none;
    LF_TRY(lf_jinja_list_new(j, &none, LF_JINJA_LIST, 0));
    return lf_jinja_lazy(j, out, lf_jinja_truth(v) ? v : none, stage);
}

/* The filter or test that pos[at] names, and the arguments behind it. */
static enum lf_status named(struct lf_jinja *j, struct lf_jinja_stage *stage, const struct lf_jinja_args *args,
                            size_t at, bool is_filter)
{
    struct lf_jinja_text name;
    LF_TRY(lf_jinja_text_arg(j, &name, args->pos[at]));
    struct lf_str s = lf_jinja_text_str(name);
    stage->fn = is_filter ? lf_jinja_find_filter(s) : lf_jinja_find_test(s);
    stage->args = *args;
    stage->args.pos += at + 1;
    stage->args.n_pos -= at + 1;
    if (stage->fn) return LF_OK;
    return lf_jinja_fail(j, LF_INVALID, "there is no %s '%.*s'", is_filter ? "filter" : "test", (int)LF_MIN(s.len, 64u),
                         s.ptr);
}

static enum lf_status filter_map(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_stage stage = {.step = map_step};
    const struct lf_jinja_args *args = call->raw;
    if (args->n_pos) {
        LF_TRY(named(j, &stage, args, 0, true));
        return lazily(j, out, call->self, &stage);
    }
    for (size_t i = 0; i < args->n_kw; i++) {
        struct lf_str name = lf_jinja_text_str(args->kw[i].name);
        if (lf_str_eq(name, LF_STR("attribute"))) {
            stage.attr = args->kw[i].value;
        } else if (lf_str_eq(name, LF_STR("default"))) {
            stage.fallback = args->kw[i].value;
        } else {
            return lf_jinja_fail(j, LF_INVALID, "map: no such argument: '%.*s'", (int)LF_MIN(name.len, 64u), name.ptr);
        }
    }
    if (!lf_jinja_given(stage.attr)) return lf_jinja_fail(j, LF_INVALID, "map: expected a filter or an attribute");
    return lazily(j, out, call->self, &stage);
}

/* -- select and its kin -- */

static enum lf_status select_step(struct lf_jinja *j, const struct lf_jinja_stage *stage, struct lf_jinja_value item,
                                  struct lf_jinja_value *out, bool *keep)
{
    struct lf_jinja_value v;
    LF_TRY(lf_jinja_path(j, &v, item, stage->attr, (struct lf_jinja_value){0}));
    if (stage->fn) LF_TRY(lf_jinja_call_builtin(j, &v, stage->fn, v, &stage->args));
    *out = item;
    *keep = lf_jinja_truth(v) != stage->negate;
    return LF_OK;
}

static enum lf_status select_by(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                                bool by_attr, bool negate)
{
    struct lf_jinja_stage stage = {.step = select_step, .negate = negate};
    const struct lf_jinja_args *args = call->raw;
    size_t at = 0;
    if (by_attr) {
        if (args->n_pos == 0) return lf_jinja_fail(j, LF_INVALID, "expected the name of an attribute");
        stage.attr = args->pos[at++];
    }
    if (args->n_pos > at) LF_TRY(named(j, &stage, args, at, false));
    return lazily(j, out, call->self, &stage);
}

static enum lf_status filter_select(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return select_by(j, out, call, false, false);
}

static enum lf_status filter_reject(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return select_by(j, out, call, false, true);
}

static enum lf_status filter_selectattr(struct lf_jinja *j, struct lf_jinja_value *out,
                                        const struct lf_jinja_call *call)
{
    return select_by(j, out, call, true, false);
}

static enum lf_status filter_rejectattr(struct lf_jinja *j, struct lf_jinja_value *out,
                                        const struct lf_jinja_call *call)
{
    return select_by(j, out, call, true, true);
}

static enum lf_status unique_step(struct lf_jinja *j, const struct lf_jinja_stage *stage, struct lf_jinja_value item,
                                  struct lf_jinja_value *out, bool *keep)
{
    struct lf_jinja_value key, seen;
    LF_TRY(lf_jinja_path(j, &key, item, stage->attr, (struct lf_jinja_value){0}));
    if (!stage->negate && key.type == LF_JINJA_STRING) {
        LF_TRY(lf_jinja_case(j, &key.as.s, key.as.s, LF_JINJA_LOWER));
    }
    LF_TRY(lf_jinja_dict_get(j, &seen, stage->seen, key));
    *out = item;
    *keep = !lf_jinja_given(seen);
    return *keep ? lf_jinja_dict_set(j, stage->seen, key, lf_jinja_bool(true)) : LF_OK;
}

static enum lf_status filter_unique(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_stage stage = {.step = unique_step, .attr = call->arg[1]};
    struct lf_jinja_value seen;
    LF_TRY(lf_jinja_dict_new(j, &seen));
    stage.seen = seen.as.dict;
    stage.negate = lf_jinja_truth(call->arg[0]); /* case counts */
    return lf_jinja_lazy(j, out, call->self, &stage);
}

/* -- Choosing -- */

static enum lf_status filter_default(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    bool missing = call->self.type == LF_JINJA_UNDEFINED;
    *out = call->self;
    if (!missing && !(lf_jinja_truth(call->arg[1]) && !lf_jinja_truth(call->self))) return LF_OK;
    *out = call->arg[0];
    return lf_jinja_given(*out) ? LF_OK : lf_jinja_string_c(j, out, "");
}

static enum lf_status filter_attr(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text name;
    LF_TRY(lf_jinja_text_arg(j, &name, call->arg[0]));
    /* An attribute only: the entries of a dict are not. */
    struct lf_jinja_value empty = call->self;
    if (call->self.type == LF_JINJA_DICT) LF_TRY(lf_jinja_dict_new(j, &empty));
    LF_TRY(lf_jinja_getattr(j, out, empty, name));
    if (out->type == LF_JINJA_METHOD) out->as.method->self = call->self;
    return LF_OK;
}

const struct lf_jinja_builtin *lf_jinja_pick_filters(size_t *n)
{
    static const struct lf_jinja_builtin rows[] = {
        {"map", filter_map, 0, true, {NULL}},
        {"select", filter_select, 0, true, {NULL}},
        {"reject", filter_reject, 0, true, {NULL}},
        {"selectattr", filter_selectattr, 0, true, {NULL}},
        {"rejectattr", filter_rejectattr, 0, true, {NULL}},
        {"unique", filter_unique, 0, false, {"case_sensitive", "attribute"}},
        {"default", filter_default, 0, false, {"default_value", "boolean"}},
        {"d", filter_default, 0, false, {"default_value", "boolean"}},
        {"attr", filter_attr, 1, false, {"name"}},
    };
    *n = LF_N_ELEMS(rows);
    return rows;
}
