/* Calls: of macros, with Jinja's rules for arguments, and of builtins through their rows. Also the lookups of rows. */
#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_iter.h"
#include "template/jinja/jinja_run.h"

/* -- Builtins -- */

static enum lf_status fail_call(struct lf_jinja *j, const struct lf_jinja_builtin *fn, const char *what,
                                struct lf_str name)
{
    return lf_jinja_fail(j, LF_INVALID, "%s: %s%s%.*s%s", fn->name, what, name.len ? " '" : "",
                         (int)LF_MIN(name.len, 64u), name.ptr, name.len ? "'" : "");
}

enum lf_status lf_jinja_call_builtin(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_builtin *fn,
                                     struct lf_jinja_value self, const struct lf_jinja_args *args)
{
    struct lf_jinja_call call = {.self = self, .raw = args};
    size_t n_params = 0;
    while (n_params < LF_JINJA_PARAMS_N && fn->params[n_params]) n_params++;
    if (!fn->varargs && args->n_pos > n_params) return fail_call(j, fn, "too many arguments", LF_STR(""));
    for (size_t i = 0; !fn->varargs && i < args->n_pos; i++) call.arg[i] = args->pos[i];
    for (size_t k = 0; !fn->varargs && k < args->n_kw; k++) {
        struct lf_str name = lf_jinja_text_str(args->kw[k].name);
        size_t i = 0;
        while (i < n_params && !lf_str_eq(name, lf_str_c(fn->params[i]))) i++;
        if (i == n_params) return fail_call(j, fn, "no such argument:", name);
        if (lf_jinja_given(call.arg[i])) return fail_call(j, fn, "given twice:", name);
        call.arg[i] = args->kw[k].value;
    }
    for (size_t i = 0; i < fn->n_required; i++) {
        if (!lf_jinja_given(call.arg[i])) return fail_call(j, fn, "missing argument:", lf_str_c(fn->params[i]));
    }
    LF_TRY(lf_jinja_enter(j));
    LF_TRY(fn->run(j, out, &call));
    lf_jinja_leave(j);
    return LF_OK;
}

/* -- Macros -- */

/* The keyword argument of that name, marked as taken; MISSING where there is none. */
static struct lf_jinja_value take_keyword(const struct lf_jinja_args *args, bool *taken, struct lf_str name)
{
    for (size_t i = 0; i < args->n_kw; i++) {
        if (!lf_str_eq(lf_jinja_text_str(args->kw[i].name), name)) continue;
        taken[i] = true;
        return args->kw[i].value;
    }
    return (struct lf_jinja_value){0};
}

/* Parameters from positions, then keywords; what is left stays MISSING until the defaults. */
static enum lf_status bind_params(struct lf_jinja *j, const struct lf_jinja_node *macro,
                                  const struct lf_jinja_args *args, bool *taken, size_t *n_params)
{
    *n_params = 0;
    for (const struct lf_jinja_node *p = macro->a; p; p = p->next) {
        size_t idx = (*n_params)++;
        struct lf_jinja_value v =
            idx < args->n_pos ? args->pos[idx] : take_keyword(args, taken, lf_jinja_text_str(p->value.as.s));
        LF_TRY(lf_jinja_bind(j, p->name, v));
    }
    return LF_OK;
}

/* `caller`, `kwargs` and `varargs`, for a macro that mentions them. */
static enum lf_status bind_special(struct lf_jinja *j, const struct lf_jinja_macro *macro,
                                   const struct lf_jinja_args *args, bool *taken, size_t n_params)
{
    uint8_t uses = macro->node->uses;
    struct lf_jinja_value v;
    if (uses & LF_JINJA_USES_CALLER) {
        v = take_keyword(args, taken, LF_STR("caller"));
        if (!lf_jinja_given(v)) LF_TRY(lf_jinja_undefined(j, &v, "No caller defined"));
        LF_TRY(lf_jinja_bind(j, LF_JINJA_NAME_CALLER, v));
    }
    LF_TRY(lf_jinja_dict_new(j, &v));
    for (size_t i = 0; i < args->n_kw; i++) {
        if (taken[i]) continue;
        LF_TRY(lf_jinja_dict_set(j, v.as.dict, lf_jinja_string(args->kw[i].name), args->kw[i].value));
        if (uses & LF_JINJA_USES_KWARGS) continue;
        return lf_jinja_fail(j, LF_INVALID, "macro '%.*s' takes no keyword argument '%.*s'",
                             (int)LF_MIN(macro->name.len, 64u), macro->name.len ? lf_jinja_text_ptr(macro->name) : "",
                             (int)LF_MIN(args->kw[i].name.len, 64u), lf_jinja_text_ptr(args->kw[i].name));
    }
    if (uses & LF_JINJA_USES_KWARGS) LF_TRY(lf_jinja_bind(j, LF_JINJA_NAME_KWARGS, v));
    if (args->n_pos > n_params && !(uses & LF_JINJA_USES_VARARGS)) {
        return lf_jinja_fail(j, LF_INVALID, "macro '%.*s' takes not more than %zu arguments",
                             (int)LF_MIN(macro->name.len, 64u), macro->name.len ? lf_jinja_text_ptr(macro->name) : "",
                             n_params);
    }
    if (!(uses & LF_JINJA_USES_VARARGS)) return LF_OK;
    LF_TRY(lf_jinja_list_new(j, &v, LF_JINJA_TUPLE, 0));
    for (size_t i = n_params; i < args->n_pos; i++) LF_TRY(lf_jinja_list_push(j, v.as.list, args->pos[i]));
    return lf_jinja_bind(j, LF_JINJA_NAME_VARARGS, v);
}

static enum lf_status fill_defaults(struct lf_jinja *j, const struct lf_jinja_node *macro)
{
    for (const struct lf_jinja_node *p = macro->a; p; p = p->next) {
        const struct lf_jinja_binding *b = j->scope->first;
        while (b->name != p->name) b = b->next;
        if (lf_jinja_given(b->value)) continue;
        struct lf_jinja_value v;
        if (p->a) {
            LF_TRY(lf_jinja_eval(j, &v, p->a));
        } else {
            struct lf_str name = lf_jinja_text_str(p->value.as.s);
            LF_TRY(
                lf_jinja_undefined(j, &v, "parameter '%.*s' was not provided", (int)LF_MIN(name.len, 64u), name.ptr));
        }
        LF_TRY(lf_jinja_bind(j, p->name, v));
    }
    return LF_OK;
}

static enum lf_status call_macro(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_macro *macro,
                                 const struct lf_jinja_args *args)
{
    struct lf_jinja_scope *outer = j->scope;
    bool *taken;
    size_t n_params;
    struct lf_jinja_text text;
    LF_TRY(lf_jinja_enter(j));
    LF_TRY(lf_jinja_alloc(j, &taken, args->n_kw + 1, sizeof(*taken)));
    LF_TRY(lf_jinja_push_scope(j, macro->scope));
    LF_TRY(bind_params(j, macro->node, args, taken, &n_params));
    LF_TRY(bind_special(j, macro, args, taken, n_params));
    LF_TRY(fill_defaults(j, macro->node));
    LF_TRY(lf_jinja_capture(j, &text, macro->node->b));
    j->scope = outer;
    *out = lf_jinja_string(text);
    lf_jinja_leave(j);
    return LF_OK;
}

enum lf_status lf_jinja_call_value(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value fn,
                                   const struct lf_jinja_args *args)
{
    switch (fn.type) {
    case LF_JINJA_MACRO:
        return call_macro(j, out, fn.as.macro, args);
    case LF_JINJA_FUNCTION:
        return lf_jinja_call_builtin(j, out, fn.as.function, (struct lf_jinja_value){0}, args);
    case LF_JINJA_METHOD:
        return lf_jinja_call_builtin(j, out, fn.as.method->fn, fn.as.method->self, args);
    case LF_JINJA_UNDEFINED:
        return lf_jinja_fail(j, LF_INVALID, "%.*s", (int)fn.as.undefined->message.len, fn.as.undefined->message.ptr);
    default:
        return lf_jinja_fail(j, LF_INVALID, "a '%s' cannot be called", lf_jinja_type_name(fn));
    }
}

/* -- Making dicts from arguments -- */

enum lf_status lf_jinja_dict_of(struct lf_jinja *j, struct lf_jinja_dict *dict, const struct lf_jinja_args *args)
{
    if (args->n_pos > 1) return lf_jinja_fail(j, LF_INVALID, "a dict takes at most one argument without a name");
    if (args->n_pos == 1 && args->pos[0].type == LF_JINJA_DICT) {
        const struct lf_jinja_dict *from = args->pos[0].as.dict;
        for (size_t i = 0; i < from->n; i++)
            LF_TRY(lf_jinja_dict_set(j, dict, from->pairs[i].key, from->pairs[i].value));
    } else if (args->n_pos == 1) {
        struct lf_jinja_iter *it;
        LF_TRY(lf_jinja_iter_of(j, &it, args->pos[0]));
        for (;;) {
            struct lf_jinja_value pair;
            LF_TRY(lf_jinja_iter_next(j, it, &pair));
            if (!lf_jinja_given(pair)) break;
            LF_TRY(lf_jinja_collect(j, &pair, pair));
            if (pair.as.list->n != 2) return lf_jinja_fail(j, LF_INVALID, "a dict is made of pairs");
            LF_TRY(lf_jinja_dict_set(j, dict, pair.as.list->items[0], pair.as.list->items[1]));
        }
    }
    for (size_t i = 0; i < args->n_kw; i++) {
        LF_TRY(lf_jinja_dict_set(j, dict, lf_jinja_string(args->kw[i].name), args->kw[i].value));
    }
    return LF_OK;
}

/* -- Rows by name -- */

static const struct lf_jinja_builtin *find_row(const struct lf_jinja_builtin *rows, size_t n, struct lf_str name)
{
    for (size_t i = 0; i < n; i++) {
        if (lf_str_eq(name, lf_str_c(rows[i].name))) return &rows[i];
    }
    return NULL;
}

const struct lf_jinja_builtin *lf_jinja_find_filter(struct lf_str name)
{
    const struct lf_jinja_builtin *(*const tables[])(size_t *) = {lf_jinja_text_filters, lf_jinja_list_filters,
                                                                  lf_jinja_pick_filters, lf_jinja_number_filters};
    for (size_t i = 0; i < LF_N_ELEMS(tables); i++) {
        size_t n;
        const struct lf_jinja_builtin *rows = tables[i](&n), *row = find_row(rows, n, name);
        if (row) return row;
    }
    return NULL;
}

const struct lf_jinja_builtin *lf_jinja_find_test(struct lf_str name)
{
    size_t n;
    const struct lf_jinja_builtin *rows = lf_jinja_tests(&n);
    return find_row(rows, n, name);
}

const struct lf_jinja_builtin *lf_jinja_find_global(struct lf_str name)
{
    size_t n;
    const struct lf_jinja_builtin *rows = lf_jinja_globals(&n);
    return find_row(rows, n, name);
}

const struct lf_jinja_builtin *lf_jinja_find_method(enum lf_jinja_type type, struct lf_str name)
{
    size_t n;
    const struct lf_jinja_builtin *rows, *row = NULL;
    if (type == LF_JINJA_STRING) {
        rows = lf_jinja_string_methods(&n);
        row = find_row(rows, n, name);
        if (row) return row;
        rows = lf_jinja_string_tests(&n);
    } else {
        rows = lf_jinja_container_methods(type, &n);
    }
    return find_row(rows, n, name);
}

bool lf_jinja_is_left_out(struct lf_str name)
{
    static const char *const names[] = {"filesizeformat", "pprint",   "random", "striptags",
                                        "urlize",         "wordwrap", "xmlattr"};
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        if (lf_str_eq(name, lf_str_c(names[i]))) return true;
    }
    return false;
}
