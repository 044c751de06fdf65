/* Evaluates expressions: the value of each kind of node (jinja_ast.h). */
#include "template/jinja/jinja_iter.h"
#include "template/jinja/jinja_run.h"

static enum lf_status eval_name(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    for (const struct lf_jinja_scope *scope = j->scope; scope; scope = scope->parent) {
        for (const struct lf_jinja_binding *b = scope->first; b; b = b->next) {
            LF_TRY(lf_jinja_charge(j, 4));
            if (b->name != node->name) continue;
            *out = b->value;
            return lf_jinja_given(*out) ? LF_OK : lf_jinja_undefined(j, out, "an undefined argument");
        }
        LF_TRY(lf_jinja_charge(j, 16));
    }
    *out = j->root[node->name];
    if (lf_jinja_given(*out)) return LF_OK;
    struct lf_str name = j->program->names[node->name];
    return lf_jinja_undefined(j, out, "'%.*s' is undefined", (int)LF_MIN(name.len, 100u), name.ptr);
}

static enum lf_status eval_list(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    enum lf_jinja_type type = node->kind == LF_JINJA_N_LIST ? LF_JINJA_LIST : LF_JINJA_TUPLE;
    struct lf_jinja_value list, item;
    LF_TRY(lf_jinja_list_new(j, &list, type, 0));
    for (const struct lf_jinja_node *it = node->a; it; it = it->next) {
        LF_TRY(lf_jinja_eval(j, &item, it));
        LF_TRY(lf_jinja_list_push(j, list.as.list, item));
    }
    *out = list;
    return LF_OK;
}

static enum lf_status eval_dict(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value dict, key, value;
    LF_TRY(lf_jinja_dict_new(j, &dict));
    for (const struct lf_jinja_node *it = node->a; it; it = it->next) {
        LF_TRY(lf_jinja_eval(j, &key, it->a));
        LF_TRY(lf_jinja_eval(j, &value, it->b));
        LF_TRY(lf_jinja_dict_set(j, dict.as.dict, key, value));
    }
    *out = dict;
    return LF_OK;
}

static enum lf_status eval_concat(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_text all = {0};
    for (const struct lf_jinja_node *it = node->a; it; it = it->next) {
        struct lf_jinja_value v;
        struct lf_jinja_text text;
        LF_TRY(lf_jinja_eval(j, &v, it));
        LF_TRY(lf_jinja_to_text(j, &text, v));
        if (it == node->a) {
            all = text;
        } else {
            LF_TRY(lf_jinja_text_cat(j, &all, all, text));
        }
    }
    *out = lf_jinja_string(all);
    return LF_OK;
}

/* `and`, `or`: the operand that decides, as Python has it. */
static enum lf_status eval_logic(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    LF_TRY(lf_jinja_eval(j, out, node->a));
    if (lf_jinja_truth(*out) == (node->kind == LF_JINJA_N_OR)) return LF_OK;
    return lf_jinja_eval(j, out, node->b);
}

static enum lf_status eval_compare(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value left, right;
    bool holds = true;
    LF_TRY(lf_jinja_eval(j, &left, node->a));
    for (const struct lf_jinja_node *it = node->b; it && holds; it = it->next) {
        LF_TRY(lf_jinja_eval(j, &right, it->a));
        j->line = node->line;
        LF_TRY(lf_jinja_compare(j, &holds, (enum lf_jinja_op)it->op, left, right));
        left = right;
    }
    *out = lf_jinja_bool(holds);
    return LF_OK;
}

static enum lf_status eval_cond(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value test;
    LF_TRY(lf_jinja_eval(j, &test, node->a));
    if (lf_jinja_truth(test)) return lf_jinja_eval(j, out, node->b);
    if (node->c) return lf_jinja_eval(j, out, node->c);
    return lf_jinja_undefined(j, out, "an inline if without else was false");
}

static enum lf_status eval_item(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value object, key;
    LF_TRY(lf_jinja_eval(j, &object, node->a));
    if (node->b->kind != LF_JINJA_N_SLICE) {
        LF_TRY(lf_jinja_eval(j, &key, node->b));
        j->line = node->line;
        return lf_jinja_getitem(j, out, object, key);
    }
    const struct lf_jinja_node *const parts[3] = {node->b->a, node->b->b, node->b->c};
    struct lf_jinja_value bounds[3] = {{0}, {0}, {0}};
    for (int i = 0; i < 3; i++) {
        if (parts[i]) LF_TRY(lf_jinja_eval(j, &bounds[i], parts[i]));
    }
    j->line = node->line;
    return lf_jinja_slice(j, out, object, bounds);
}

/* -- Calls -- */

static enum lf_status push_keyword(struct lf_jinja *j, struct lf_jinja_args *args, size_t *cap,
                                   struct lf_jinja_text name, struct lf_jinja_value v)
{
    for (size_t i = 0; i < args->n_kw; i++) {
        if (!lf_str_eq(lf_jinja_text_str(args->kw[i].name), lf_jinja_text_str(name))) continue;
        return lf_jinja_fail(j, LF_INVALID, "the argument '%.*s' is given twice", (int)LF_MIN(name.len, 64u),
                             lf_jinja_text_ptr(name));
    }
    LF_TRY(lf_jinja_charge(j, 16 * args->n_kw));
    if (args->n_kw == *cap) {
        struct lf_jinja_keyword *kw;
        *cap = *cap * 2 + 4;
        LF_TRY(lf_jinja_alloc(j, &kw, *cap, sizeof(*kw)));
        if (args->n_kw) memcpy(kw, args->kw, args->n_kw * sizeof(*kw));
        args->kw = kw;
    }
    args->kw[args->n_kw++] = (struct lf_jinja_keyword){name, v};
    return LF_OK;
}

static enum lf_status unpack_keywords(struct lf_jinja *j, struct lf_jinja_args *args, size_t *cap,
                                      struct lf_jinja_value v)
{
    if (v.type != LF_JINJA_DICT) {
        return lf_jinja_fail(j, LF_INVALID, "'**' needs a dict, not '%s'", lf_jinja_type_name(v));
    }
    for (size_t i = 0; i < v.as.dict->n; i++) {
        struct lf_jinja_pair pair = v.as.dict->pairs[i];
        if (pair.key.type != LF_JINJA_STRING) return lf_jinja_fail(j, LF_INVALID, "'**' needs keys that are strings");
        LF_TRY(push_keyword(j, args, cap, pair.key.as.s, pair.value));
    }
    return LF_OK;
}

static enum lf_status eval_args(struct lf_jinja *j, struct lf_jinja_args *out, const struct lf_jinja_node *arg)
{
    struct lf_jinja_list pos = {0};
    size_t kw_cap = 0;
    *out = (struct lf_jinja_args){0};
    for (; arg; arg = arg->next) {
        struct lf_jinja_value v;
        LF_TRY(lf_jinja_eval(j, &v, arg->a));
        if (arg->kind == LF_JINJA_N_ARG) {
            LF_TRY(lf_jinja_list_push(j, &pos, v));
        } else if (arg->kind == LF_JINJA_N_KEYWORD) {
            LF_TRY(push_keyword(j, out, &kw_cap, arg->value.as.s, v));
        } else if (arg->kind == LF_JINJA_N_KWARGS_UNPACK) {
            LF_TRY(unpack_keywords(j, out, &kw_cap, v));
        } else {
            LF_TRY(lf_jinja_collect(j, &v, v));
            for (size_t i = 0; i < v.as.list->n; i++) LF_TRY(lf_jinja_list_push(j, &pos, v.as.list->items[i]));
        }
    }
    out->pos = pos.items;
    out->n_pos = pos.n;
    return LF_OK;
}

static enum lf_status eval_call(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value fn;
    struct lf_jinja_args args;
    LF_TRY(lf_jinja_eval(j, &fn, node->a));
    LF_TRY(eval_args(j, &args, node->b));
    j->line = node->line;
    return lf_jinja_call_value(j, out, fn, &args);
}

/* A filter or a test. */
static enum lf_status eval_builtin(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value self = j->captured;
    struct lf_jinja_args args;
    if (node->a) LF_TRY(lf_jinja_eval(j, &self, node->a));
    LF_TRY(eval_args(j, &args, node->b));
    j->line = node->line;
    if (!node->builtin) {
        struct lf_str name = lf_jinja_text_str(node->value.as.s);
        return lf_jinja_fail(j, LF_INVALID, "there is no %s '%.*s'",
                             node->kind == LF_JINJA_N_FILTER ? "filter" : "test", (int)LF_MIN(name.len, 64u), name.ptr);
    }
    return lf_jinja_call_builtin(j, out, node->builtin, self, &args);
}

static enum lf_status eval_unary(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value a;
    LF_TRY(lf_jinja_eval(j, &a, node->a));
    if (node->kind == LF_JINJA_N_NOT) {
        *out = lf_jinja_bool(!lf_jinja_truth(a));
        return LF_OK;
    }
    return lf_jinja_negate(j, out, a, node->kind == LF_JINJA_N_NEG);
}

static enum lf_status eval_binary(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value a, b;
    LF_TRY(lf_jinja_eval(j, &a, node->a));
    LF_TRY(lf_jinja_eval(j, &b, node->b));
    j->line = node->line;
    return lf_jinja_binary(j, out, (enum lf_jinja_op)node->op, a, b);
}

static enum lf_status eval_attr(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value object;
    LF_TRY(lf_jinja_eval(j, &object, node->a));
    j->line = node->line;
    return lf_jinja_getattr(j, out, object, node->value.as.s);
}

static enum lf_status eval_kind(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    switch (node->kind) {
    case LF_JINJA_N_CONST:
        *out = node->value;
        return LF_OK;
    case LF_JINJA_N_NAME:
        return eval_name(j, out, node);
    case LF_JINJA_N_LIST:
    case LF_JINJA_N_TUPLE:
        return eval_list(j, out, node);
    case LF_JINJA_N_DICT:
        return eval_dict(j, out, node);
    case LF_JINJA_N_CONCAT:
        return eval_concat(j, out, node);
    case LF_JINJA_N_NOT:
    case LF_JINJA_N_NEG:
    case LF_JINJA_N_POS:
        return eval_unary(j, out, node);
    case LF_JINJA_N_AND:
    case LF_JINJA_N_OR:
        return eval_logic(j, out, node);
    case LF_JINJA_N_BINARY:
        return eval_binary(j, out, node);
    case LF_JINJA_N_COMPARE:
        return eval_compare(j, out, node);
    case LF_JINJA_N_COND:
        return eval_cond(j, out, node);
    case LF_JINJA_N_ATTR:
        return eval_attr(j, out, node);
    case LF_JINJA_N_ITEM:
        return eval_item(j, out, node);
    case LF_JINJA_N_CALL:
        return eval_call(j, out, node);
    default:
        LF_ASSERT(node->kind == LF_JINJA_N_FILTER || node->kind == LF_JINJA_N_TEST);
        return eval_builtin(j, out, node);
    }
}

enum lf_status lf_jinja_eval(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    LF_TRY(lf_jinja_charge(j, LF_JINJA_STEP_COST));
    LF_TRY(lf_jinja_enter(j));
    LF_TRY(eval_kind(j, out, node));
    lf_jinja_leave(j);
    return LF_OK;
}
