/* Statements. The interpreter walks the tree; its recursion is counted in lf_jinja.depth. */
#include "template/jinja/jinja_run.h"

#include <stdio.h>

#include "template/jinja/jinja_iter.h"

/* -- Failing, paying, memory -- */

enum lf_status lf_jinja_fail(struct lf_jinja *j, enum lf_status status, const char *fmt, ...)
{
    char message[LF_ERR_MESSAGE_BYTES - 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    return lf_fail(j->err, status, "chat template, line %u: %s", j->line, message);
}

enum lf_status lf_jinja_fail_overflow(struct lf_jinja *j)
{
    return lf_jinja_fail(j, LF_UNSUPPORTED, "integers beyond 64 bits are not implemented");
}

enum lf_status lf_jinja_fail_budget(struct lf_jinja *j)
{
    return lf_jinja_fail(j, LF_LIMIT, "the template takes more than %d steps", LF_TEMPLATE_STEPS);
}

enum lf_status lf_jinja_fail_memory(struct lf_jinja *j, size_t n_bytes)
{
    bool full = n_bytes > j->arena.ceiling || j->arena.used_bytes > j->arena.ceiling - n_bytes;
    if (full) return lf_jinja_fail(j, LF_LIMIT, "the render needs more than %d bytes", LF_JINJA_MEMORY_BYTES);
    return lf_jinja_fail(j, LF_NO_MEMORY, "no memory for %zu bytes", n_bytes);
}

/* A step of the template is worth about a hundred nanoseconds, which is 64 of the work's. */
enum lf_status lf_jinja_report_steps(struct lf_jinja *j)
{
    uint64_t n = j->unreported / (LF_JINJA_STEP_COST / 64);
    j->unreported = 0;
    enum lf_status status = lf_work_step(j->work, (size_t)n);
    if (status == LF_OK) return LF_OK;
    return lf_jinja_fail(j, status, status == LF_TIMEOUT ? "there was no time to render it" : "nobody waits any more");
}

enum lf_status lf_jinja_enter(struct lf_jinja *j)
{
    if (j->depth >= LF_JINJA_RUN_DEPTH) {
        return lf_jinja_fail(j, LF_LIMIT, "calls and values nest deeper than %d", LF_JINJA_RUN_DEPTH);
    }
    j->depth++;
    return LF_OK;
}

enum lf_status lf_jinja_alloc(struct lf_jinja *j, void *out, size_t n, size_t size)
{
    void *piece = lf_arena_array(&j->arena, n, size);
    memcpy(out, &piece, sizeof(piece));
    if (piece) return LF_OK;
    size_t n_bytes;
    return lf_jinja_fail_memory(j, __builtin_mul_overflow(n, size, &n_bytes) ? SIZE_MAX : n_bytes);
}

/* -- Names -- */

enum lf_status lf_jinja_push_scope(struct lf_jinja *j, struct lf_jinja_scope *parent)
{
    struct lf_jinja_scope *scope;
    LF_TRY(lf_jinja_alloc(j, &scope, 1, sizeof(*scope)));
    scope->parent = parent;
    j->scope = scope;
    return LF_OK;
}

enum lf_status lf_jinja_bind(struct lf_jinja *j, uint32_t name, struct lf_jinja_value v)
{
    if (!j->scope) {
        j->root[name] = v;
        return LF_OK;
    }
    for (struct lf_jinja_binding *b = j->scope->first; b; b = b->next) {
        LF_TRY(lf_jinja_charge(j, 4));
        if (b->name != name) continue;
        b->value = v;
        return LF_OK;
    }
    struct lf_jinja_binding *b;
    LF_TRY(lf_jinja_alloc(j, &b, 1, sizeof(*b)));
    *b = (struct lf_jinja_binding){name, v, j->scope->first};
    j->scope->first = b;
    return LF_OK;
}

static enum lf_status assign_tuple(struct lf_jinja *j, const struct lf_jinja_node *target, struct lf_jinja_value v)
{
    struct lf_jinja_iter *it;
    LF_TRY(lf_jinja_iter_of(j, &it, v));
    struct lf_jinja_value item;
    size_t n = 0;
    for (const struct lf_jinja_node *t = target->a; t; t = t->next, n++) {
        LF_TRY(lf_jinja_iter_next(j, it, &item));
        if (!lf_jinja_given(item)) {
            return lf_jinja_fail(j, LF_INVALID, "there are only %zu values to unpack, more are expected", n);
        }
        LF_TRY(lf_jinja_assign(j, t, item));
    }
    LF_TRY(lf_jinja_iter_next(j, it, &item));
    if (!lf_jinja_given(item)) return LF_OK;
    return lf_jinja_fail(j, LF_INVALID, "there are more than the expected %zu values to unpack", n);
}

static enum lf_status assign_attr(struct lf_jinja *j, const struct lf_jinja_node *target, struct lf_jinja_value v)
{
    struct lf_jinja_node name = {.kind = LF_JINJA_N_NAME, .line = target->line, .name = target->name};
    struct lf_jinja_value object;
    LF_TRY(lf_jinja_eval(j, &object, &name));
    if (object.type != LF_JINJA_NAMESPACE) {
        return lf_jinja_fail(j, LF_INVALID, "cannot set an attribute of a '%s': only of a namespace",
                             lf_jinja_type_name(object));
    }
    if (lf_jinja_text_ptr(target->value.as.s)[0] == '_') {
        return lf_jinja_fail(j, LF_INVALID, "an attribute of a namespace cannot begin with an underscore");
    }
    return lf_jinja_dict_set(j, object.as.dict, target->value, v);
}

enum lf_status lf_jinja_assign(struct lf_jinja *j, const struct lf_jinja_node *target, struct lf_jinja_value v)
{
    if (target->kind == LF_JINJA_N_NAME) return lf_jinja_bind(j, target->name, v);
    if (target->kind == LF_JINJA_N_NSREF) return assign_attr(j, target, v);
    LF_TRY(lf_jinja_enter(j));
    LF_TRY(assign_tuple(j, target, v));
    lf_jinja_leave(j);
    return LF_OK;
}

/* -- Bodies -- */

/* A body in a scope of its own below the current one. */
static enum lf_status exec_scoped(struct lf_jinja *j, const struct lf_jinja_node *body)
{
    struct lf_jinja_scope *outer = j->scope;
    LF_TRY(lf_jinja_push_scope(j, outer));
    LF_TRY(lf_jinja_exec(j, body));
    j->scope = outer;
    return LF_OK;
}

enum lf_status lf_jinja_capture(struct lf_jinja *j, struct lf_jinja_text *out, const struct lf_jinja_node *body)
{
    struct lf_jinja_writer w = lf_jinja_writer_of(j), *outer = j->out;
    if (w.status != LF_OK) return w.status;
    j->out = &w;
    enum lf_status status = exec_scoped(j, body);
    j->out = outer; /* also on failure: the writer is of this frame */
    if (status != LF_OK) return status;
    return lf_jinja_writer_text(&w, out);
}

/* A body's text through the filters of the block, if any. */
static enum lf_status capture_filtered(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *body,
                                       const struct lf_jinja_node *filters)
{
    struct lf_jinja_text text;
    LF_TRY(lf_jinja_capture(j, &text, body));
    *out = lf_jinja_string(text);
    if (!filters || j->flow != LF_JINJA_FLOW_ON) return LF_OK;
    struct lf_jinja_value outer = j->captured;
    j->captured = *out;
    LF_TRY(lf_jinja_eval(j, out, filters));
    j->captured = outer;
    return LF_OK;
}

/* -- Statements -- */

static enum lf_status exec_if(struct lf_jinja *j, const struct lf_jinja_node *node)
{
    for (const struct lf_jinja_node *branch = node->a; branch; branch = branch->next) {
        struct lf_jinja_value test = lf_jinja_bool(true);
        if (branch->a) LF_TRY(lf_jinja_eval(j, &test, branch->a));
        if (lf_jinja_truth(test)) return lf_jinja_exec(j, branch->b);
    }
    return LF_OK;
}

/* `for … if test`: the element itself, kept if the test holds. */
static enum lf_status test_stage(struct lf_jinja *j, const struct lf_jinja_stage *stage, struct lf_jinja_value item,
                                 struct lf_jinja_value *out, bool *keep)
{
    struct lf_jinja_scope *outer = j->scope;
    struct lf_jinja_value test;
    LF_TRY(lf_jinja_push_scope(j, stage->scope));
    LF_TRY(lf_jinja_assign(j, stage->node->a, item));
    LF_TRY(lf_jinja_eval(j, &test, stage->node->c));
    j->scope = outer;
    *out = item;
    *keep = lf_jinja_truth(test);
    return LF_OK;
}

static enum lf_status open_loop(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_value source;
    struct lf_jinja_loop *loop;
    LF_TRY(lf_jinja_eval(j, &source, node->b));
    LF_TRY(lf_jinja_alloc(j, &loop, 1, sizeof(*loop)));
    if (node->c) {
        struct lf_jinja_stage stage = {.step = test_stage, .node = node, .scope = j->scope};
        LF_TRY(lf_jinja_lazy(j, &source, source, &stage));
    }
    j->line = node->line;
    LF_TRY(lf_jinja_iter_of(j, &loop->iter, source));
    bool sized;
    size_t n = 0;
    loop->index0 = -1;
    loop->n = -1;
    if (source.type != LF_JINJA_STRING) {
        LF_TRY(lf_jinja_length(j, &n, &sized, source));
        if (sized) loop->n = (int64_t)n;
    }
    *out = (struct lf_jinja_value){.type = LF_JINJA_LOOP, .as.loop = loop};
    return LF_OK;
}

static enum lf_status exec_for(struct lf_jinja *j, const struct lf_jinja_node *node)
{
    struct lf_jinja_scope *outer = j->scope;
    struct lf_jinja_value loop;
    LF_TRY(open_loop(j, &loop, node));
    bool more, finished = false, broken = false;
    while (!broken) {
        LF_TRY(lf_jinja_loop_next(j, loop.as.loop, &more));
        if (!more) break;
        LF_TRY(lf_jinja_push_scope(j, outer));
        LF_TRY(lf_jinja_bind(j, LF_JINJA_NAME_LOOP, loop));
        LF_TRY(lf_jinja_assign(j, node->a, loop.as.loop->current));
        LF_TRY(lf_jinja_exec(j, node->d));
        broken = j->flow == LF_JINJA_FLOW_BREAK;
        finished |= j->flow == LF_JINJA_FLOW_ON;
        j->flow = LF_JINJA_FLOW_ON;
        j->scope = outer;
    }
    /* As in Jinja, `else` runs unless some iteration came to the end of the body: `break` and `continue` do not. */
    return node->e && !finished ? exec_scoped(j, node->e) : LF_OK;
}

static enum lf_status exec_set(struct lf_jinja *j, const struct lf_jinja_node *node)
{
    struct lf_jinja_value v;
    if (node->kind == LF_JINJA_N_SET) {
        LF_TRY(lf_jinja_eval(j, &v, node->b));
    } else {
        LF_TRY(capture_filtered(j, &v, node->c, node->b));
        if (j->flow != LF_JINJA_FLOW_ON) return LF_OK; /* the loop around was left from within */
    }
    j->line = node->line;
    return lf_jinja_assign(j, node->a, v);
}

static enum lf_status make_macro(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_node *node)
{
    struct lf_jinja_macro *macro;
    LF_TRY(lf_jinja_alloc(j, &macro, 1, sizeof(*macro)));
    *macro = (struct lf_jinja_macro){.node = node, .scope = j->scope};
    if (node->value.type == LF_JINJA_STRING) macro->name = node->value.as.s;
    *out = (struct lf_jinja_value){.type = LF_JINJA_MACRO, .as.macro = macro};
    return LF_OK;
}

static enum lf_status exec_call_block(struct lf_jinja *j, const struct lf_jinja_node *node)
{
    /* The block is the call's `caller`: evaluated as a keyword argument whose value is there already. */
    struct lf_jinja_node value = {.kind = LF_JINJA_N_CONST, .line = node->line};
    struct lf_jinja_node keyword = {.kind = LF_JINJA_N_KEYWORD, .line = node->line, .a = &value};
    struct lf_jinja_value result;
    LF_TRY(make_macro(j, &value.value, node->b));
    LF_TRY(lf_jinja_string_c(j, &keyword.value, "caller"));
    struct lf_jinja_node call = *node->a, **tail = &call.b;
    /* Copies of the arguments, so that the shared tree stays as it is. */
    for (const struct lf_jinja_node *it = node->a->b; it; it = it->next) {
        LF_TRY(lf_jinja_alloc(j, tail, 1, sizeof(**tail)));
        **tail = *it;
        tail = &(*tail)->next;
    }
    *tail = &keyword;
    LF_TRY(lf_jinja_eval(j, &result, &call));
    lf_jinja_print(j->out, result);
    return j->out->status;
}

static enum lf_status exec_with(struct lf_jinja *j, const struct lf_jinja_node *node)
{
    struct lf_jinja_scope *outer = j->scope, *inner;
    LF_TRY(lf_jinja_push_scope(j, outer));
    inner = j->scope;
    for (const struct lf_jinja_node *set = node->a; set; set = set->next) {
        struct lf_jinja_value v;
        j->scope = outer;
        LF_TRY(lf_jinja_eval(j, &v, set->b));
        j->scope = inner;
        LF_TRY(lf_jinja_assign(j, set->a, v));
    }
    LF_TRY(lf_jinja_exec(j, node->b));
    j->scope = outer;
    return LF_OK;
}

/* {% generation %} is to Jinja a call of a macro without arguments. */
static enum lf_status exec_generation(struct lf_jinja *j, const struct lf_jinja_node *node)
{
    struct lf_jinja_scope *outer = j->scope;
    struct lf_jinja_value v;
    LF_TRY(lf_jinja_push_scope(j, outer));
    LF_TRY(lf_jinja_dict_new(j, &v));
    LF_TRY(lf_jinja_bind(j, LF_JINJA_NAME_KWARGS, v));
    LF_TRY(lf_jinja_list_new(j, &v, LF_JINJA_TUPLE, 0));
    LF_TRY(lf_jinja_bind(j, LF_JINJA_NAME_VARARGS, v));
    LF_TRY(lf_jinja_undefined(j, &v, "No caller defined"));
    LF_TRY(lf_jinja_bind(j, LF_JINJA_NAME_CALLER, v));
    LF_TRY(lf_jinja_exec(j, node->b));
    j->scope = outer;
    return LF_OK;
}

static enum lf_status exec_print(struct lf_jinja *j, const struct lf_jinja_node *list)
{
    for (; list; list = list->next) {
        struct lf_jinja_value v;
        LF_TRY(lf_jinja_eval(j, &v, list));
        lf_jinja_print(j->out, v);
        if (j->out->status != LF_OK) return j->out->status;
    }
    return LF_OK;
}

static enum lf_status exec_one(struct lf_jinja *j, const struct lf_jinja_node *node)
{
    struct lf_jinja_value v;
    switch (node->kind) {
    case LF_JINJA_N_DATA:
        lf_jinja_write_text(j->out, node->value.as.s);
        return j->out->status;
    case LF_JINJA_N_PRINT:
        return exec_print(j, node->a);
    case LF_JINJA_N_IF:
        return exec_if(j, node);
    case LF_JINJA_N_FOR:
        return exec_for(j, node);
    case LF_JINJA_N_SET:
    case LF_JINJA_N_SET_BLOCK:
        return exec_set(j, node);
    case LF_JINJA_N_MACRO:
        LF_TRY(make_macro(j, &v, node));
        return lf_jinja_bind(j, node->name, v);
    case LF_JINJA_N_CALL_BLOCK:
        return exec_call_block(j, node);
    case LF_JINJA_N_FILTER_BLOCK:
        LF_TRY(capture_filtered(j, &v, node->b, node->a));
        if (j->flow == LF_JINJA_FLOW_ON) lf_jinja_print(j->out, v);
        return j->out->status;
    case LF_JINJA_N_WITH:
        return exec_with(j, node);
    case LF_JINJA_N_SCOPE:
        return exec_generation(j, node);
    default:
        LF_ASSERT(node->kind == LF_JINJA_N_BREAK || node->kind == LF_JINJA_N_CONTINUE);
        j->flow = node->kind == LF_JINJA_N_BREAK ? LF_JINJA_FLOW_BREAK : LF_JINJA_FLOW_CONTINUE;
        return LF_OK;
    }
}

enum lf_status lf_jinja_exec(struct lf_jinja *j, const struct lf_jinja_node *node)
{
    LF_TRY(lf_jinja_enter(j));
    for (; node && j->flow == LF_JINJA_FLOW_ON; node = node->next) {
        LF_TRY(lf_jinja_charge(j, LF_JINJA_STEP_COST));
        j->line = node->line;
        LF_TRY(exec_one(j, node));
    }
    lf_jinja_leave(j);
    return LF_OK;
}

enum lf_status lf_jinja_run(struct lf_jinja *j)
{
    LF_TRY(lf_jinja_exec(j, j->program->body));
    return j->out->status;
}
