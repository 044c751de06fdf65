#include "template/chat_template.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_run.h"

enum { RENDER_CHUNK_BYTES = 64 * 1024 };

struct lf_chat_template {
    struct lf_jinja_program program;
};

enum lf_status lf_chat_template_create(struct lf_chat_template **out, struct lf_str source, struct lf_err *err)
{
    struct lf_chat_template *t = calloc(1, sizeof(*t));
    if (!t) return lf_fail(err, LF_NO_MEMORY, "no memory for the chat template");
    enum lf_status status = lf_jinja_parse(&t->program, source, err);
    if (status != LF_OK) {
        free(t);
        return lf_fail_within(err, status, "chat template");
    }
    *out = t;
    return LF_OK;
}

void lf_chat_template_destroy(struct lf_chat_template *t)
{
    if (!t) return;
    lf_jinja_program_deinit(&t->program);
    free(t);
}

void lf_chat_text_deinit(struct lf_chat_text *t)
{
    lf_buf_deinit(&t->text);
    lf_text_free(t->memory, t->user_spans);
    *t = (struct lf_chat_text){0};
}

bool lf_chat_template_uses(const struct lf_chat_template *t, const char *variable)
{
    uint32_t idx;
    return lf_jinja_find_name(&t->program, lf_str_c(variable), &idx);
}

/* -- The template's variables -- */

static void set_name(struct lf_jinja *j, const char *name, struct lf_jinja_value v)
{
    uint32_t idx;
    if (lf_jinja_find_name(j->program, lf_str_c(name), &idx)) j->root[idx] = v;
}

/* transformers 5 gives a message's reasoning under each name that templates read, whatever the request called it. */
static enum lf_status alias_reasoning(struct lf_jinja *j, struct lf_jinja_value *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    struct lf_jinja_value reasoning = {0}, all, key;
    if (message->type != LF_JINJA_DICT) return LF_OK;
    const struct lf_jinja_dict *from = message->as.dict;
    for (size_t i = 0; i < LF_N_ELEMS(names) && reasoning.type <= LF_JINJA_NONE; i++) {
        reasoning = lf_jinja_dict_get_c(from, names[i]);
    }
    if (reasoning.type <= LF_JINJA_NONE) return LF_OK;
    LF_TRY(lf_jinja_dict_new(j, &all));
    LF_TRY(lf_jinja_string_c(j, &key, "thinking"));
    LF_TRY(lf_jinja_dict_set(j, all.as.dict, key, reasoning));
    for (size_t i = 0; i < from->n; i++) {
        LF_TRY(lf_jinja_dict_set(j, all.as.dict, from->pairs[i].key, from->pairs[i].value));
    }
    LF_TRY(lf_jinja_string_c(j, &key, "reasoning_content"));
    LF_TRY(lf_jinja_dict_set(j, all.as.dict, key, reasoning));
    *message = all;
    return LF_OK;
}

static enum lf_status set_text(struct lf_jinja *j, struct lf_jinja_dict *dict, const char *name, struct lf_str text)
{
    struct lf_jinja_value key;
    struct lf_jinja_text value;
    LF_TRY(lf_jinja_charge(j, text.len));
    LF_TRY(lf_jinja_string_c(j, &key, name));
    if (!lf_jinja_text_borrow(&value, &j->arena, text, true))
        return lf_jinja_fail_memory(j, sizeof(struct lf_jinja_buf));
    return lf_jinja_dict_set(j, dict, key, lf_jinja_string(value));
}

/* The empty string, too, is set. */
static enum lf_status set_given(struct lf_jinja *j, struct lf_jinja_dict *dict, const char *name, struct lf_str text)
{
    return text.ptr ? set_text(j, dict, name, text) : LF_OK;
}

static enum lf_status set_value(struct lf_jinja *j, struct lf_jinja_dict *dict, const char *name,
                                struct lf_jinja_value value)
{
    struct lf_jinja_value key;
    LF_TRY(lf_jinja_string_c(j, &key, name));
    return lf_jinja_dict_set(j, dict, key, value);
}

/* The object as it came, or an empty one. */
static enum lf_status object_of(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_json_value v)
{
    return lf_json_is_absent(v) ? lf_jinja_dict_new(j, out) : lf_jinja_from_json(j, out, v);
}

static enum lf_status make_call(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_chat_call *c)
{
    struct lf_jinja_value function, arguments;
    struct lf_json_value made = lf_json_get(c->more, "function");
    LF_TRY(object_of(j, out, c->more));
    LF_TRY(object_of(j, &function, made));
    LF_TRY(object_of(j, &arguments, c->arguments));
    if (out->type != LF_JINJA_DICT || function.type != LF_JINJA_DICT) return LF_OK;
    LF_TRY(set_given(j, out->as.dict, "id", c->id));
    if (!c->more.json) LF_TRY(set_text(j, out->as.dict, "type", LF_STR("function")));
    LF_TRY(set_given(j, function.as.dict, "name", c->name));
    LF_TRY(set_value(j, function.as.dict, "arguments", arguments));
    return set_value(j, out->as.dict, "function", function);
}

static enum lf_status set_calls(struct lf_jinja *j, struct lf_jinja_dict *dict, const struct lf_chat_message *m)
{
    struct lf_jinja_value list, call;
    LF_TRY(lf_jinja_list_new(j, &list, LF_JINJA_LIST, m->n_calls));
    for (size_t i = 0; i < m->n_calls; i++) {
        LF_TRY(make_call(j, &call, &m->calls[i]));
        LF_TRY(lf_jinja_list_push(j, list.as.list, call));
    }
    return set_value(j, dict, "tool_calls", list);
}

static enum lf_status drop_calls(struct lf_jinja *j, struct lf_jinja_value *message)
{
    const struct lf_jinja_dict *from = message->as.dict;
    struct lf_jinja_value rest;
    LF_TRY(lf_jinja_dict_new(j, &rest));
    for (size_t i = 0; i < from->n; i++)
        if (!lf_jinja_is_text(from->pairs[i].key, "tool_calls"))
            LF_TRY(lf_jinja_dict_set(j, rest.as.dict, from->pairs[i].key, from->pairs[i].value));
    *message = rest;
    return LF_OK;
}

/* A key that is there keeps its place, so a template that prints the message sees its members as they came. */
static enum lf_status make_message(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_chat_message *m)
{
    bool whole = m->more.json != NULL;
    if (whole) LF_TRY(lf_jinja_from_json(j, out, m->more));
    if (!whole) LF_TRY(lf_jinja_dict_new(j, out));
    if (out->type != LF_JINJA_DICT) return LF_OK;
    if (m->without_calls) LF_TRY(drop_calls(j, out));
    if (m->role.ptr) LF_TRY(set_text(j, out->as.dict, "role", m->role));
    if (m->has_content) LF_TRY(set_text(j, out->as.dict, "content", m->content));
    LF_TRY(set_given(j, out->as.dict, "reasoning_content", m->reasoning_content));
    if (m->n_calls) LF_TRY(set_calls(j, out->as.dict, m));
    LF_TRY(set_given(j, out->as.dict, "tool_call_id", m->tool_call_id));
    LF_TRY(set_given(j, out->as.dict, "name", m->name));
    return alias_reasoning(j, out);
}

static enum lf_status set_messages(struct lf_jinja *j, const struct lf_chat_message *messages, size_t n)
{
    uint32_t idx;
    struct lf_jinja_value list, message;
    if (!lf_jinja_find_name(j->program, LF_STR("messages"), &idx)) return LF_OK;
    LF_TRY(lf_jinja_list_new(j, &list, LF_JINJA_LIST, n));
    for (size_t i = 0; i < n; i++) {
        LF_TRY(make_message(j, &message, &messages[i]));
        LF_TRY(lf_jinja_list_push(j, list.as.list, message));
    }
    j->root[idx] = list;
    return LF_OK;
}

static enum lf_status make_tool(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_chat_tool *t)
{
    struct lf_jinja_value function, parameters;
    LF_TRY(lf_jinja_dict_new(j, out));
    LF_TRY(lf_jinja_dict_new(j, &function));
    LF_TRY(set_text(j, out->as.dict, "type", LF_STR("function")));
    LF_TRY(set_text(j, function.as.dict, "name", t->name));
    LF_TRY(set_given(j, function.as.dict, "description", t->description));
    if (!lf_json_is_absent(t->parameters)) {
        LF_TRY(lf_jinja_from_json(j, &parameters, t->parameters));
        LF_TRY(set_value(j, function.as.dict, "parameters", parameters));
    }
    return set_value(j, out->as.dict, "function", function);
}

static enum lf_status set_tools(struct lf_jinja *j, const struct lf_chat_render_params *p)
{
    uint32_t idx;
    struct lf_jinja_value list, tool;
    if (!lf_jinja_find_name(j->program, LF_STR("tools"), &idx)) return LF_OK; /* the template does not look */
    if (!lf_json_is_absent(p->tools)) return lf_jinja_from_json(j, &j->root[idx], p->tools);
    if (p->n_made_tools == 0) return LF_OK;
    LF_TRY(lf_jinja_list_new(j, &list, LF_JINJA_LIST, p->n_made_tools));
    for (size_t i = 0; i < p->n_made_tools; i++) {
        LF_TRY(make_tool(j, &tool, &p->made_tools[i]));
        LF_TRY(lf_jinja_list_push(j, list.as.list, tool));
    }
    j->root[idx] = list;
    return LF_OK;
}

static enum lf_status set_variables(struct lf_jinja *j, const struct lf_chat_variable *variables, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct lf_chat_variable *v = &variables[i];
        struct lf_jinja_text text;
        if (!v->text.ptr) {
            set_name(j, v->name, lf_jinja_bool(v->on));
            continue;
        }
        if (!lf_jinja_text_borrow(&text, &j->arena, v->text, true))
            return lf_jinja_fail_memory(j, sizeof(struct lf_jinja_buf));
        set_name(j, v->name, lf_jinja_string(text));
    }
    return LF_OK;
}

static enum lf_status set_token(struct lf_jinja *j, const char *name, struct lf_str token)
{
    struct lf_jinja_text text;
    if (token.len == 0) return LF_OK; /* a model without this token leaves the name undefined */
    if (!lf_jinja_text_borrow(&text, &j->arena, token, false))
        return lf_jinja_fail_memory(j, sizeof(struct lf_jinja_buf));
    set_name(j, name, lf_jinja_string(text));
    return LF_OK;
}

const char *lf_chat_template_taken(struct lf_json_value extra)
{
    static const char *const taken[] = {"messages", "tools", "add_generation_prompt"};
    for (struct lf_json_value it = lf_json_first(extra); lf_json_more(extra, it); it = lf_json_next(extra, it))
        for (size_t i = 0; i < LF_N_ELEMS(taken); i++)
            if (lf_json_string_is(it, taken[i])) return taken[i];
    return NULL;
}

/* The caller's own variables. */
static enum lf_status set_extra(struct lf_jinja *j, struct lf_json_value extra)
{
    struct lf_buf name;
    enum lf_status status = LF_OK;
    const char *taken = lf_chat_template_taken(extra);
    if (taken) return lf_fail(j->err, LF_INVALID, "a template variable cannot be called '%s'", taken);
    lf_buf_init_in(&name, LF_BODY_BYTES, lf_work_memory(j->work));
    for (struct lf_json_value it = lf_json_first(extra); lf_json_more(extra, it); it = lf_json_next(extra, it)) {
        uint32_t idx;
        lf_buf_clear(&name);
        if (!lf_json_string(it, &name)) {
            status = lf_fail(j->err, LF_NO_MEMORY, "no memory for the name of a template variable");
            goto out;
        }
        if (!lf_jinja_find_name(j->program, lf_buf_view(&name), &idx)) continue;
        LF_TRY_GOTO(lf_jinja_from_json(j, &j->root[idx], lf_json_member(it)), out);
    }
out:
    lf_buf_deinit(&name);
    return status;
}

static enum lf_status set_names(struct lf_jinja *j, const struct lf_chat_render_params *p)
{
    LF_TRY(lf_jinja_alloc(j, &j->root, j->program->n_names, sizeof(*j->root)));
    for (uint32_t i = 0; i < j->program->n_names; i++) {
        const struct lf_jinja_builtin *fn = lf_jinja_find_global(j->program->names[i]);
        if (fn) j->root[i] = (struct lf_jinja_value){.type = LF_JINJA_FUNCTION, .as.function = fn};
    }
    LF_TRY(set_token(j, "bos_token", p->bos_token));
    LF_TRY(set_token(j, "eos_token", p->eos_token));
    /* Hugging Face passes these two even where there are none. */
    set_name(j, "documents", lf_jinja_none());
    set_name(j, "tools", lf_jinja_none());
    LF_TRY(set_variables(j, p->variables, p->n_variables));
    if (!lf_json_is_absent(p->extra)) LF_TRY(set_extra(j, p->extra));
    LF_TRY(set_messages(j, p->messages, p->n_messages));
    LF_TRY(set_tools(j, p));
    set_name(j, "add_generation_prompt", lf_jinja_bool(p->add_generation_prompt));
    return LF_OK;
}

static enum lf_status check_params(const struct lf_chat_render_params *p, struct lf_err *err)
{
    if (!lf_json_is_absent(p->tools) && lf_json_type(p->tools) != LF_JSON_ARRAY) {
        return lf_fail(err, LF_INVALID, "tools: expected an array, found %s", lf_json_type_name(p->tools));
    }
    if (!lf_json_is_absent(p->extra) && lf_json_type(p->extra) != LF_JSON_OBJECT) {
        return lf_fail(err, LF_INVALID, "template variables: expected an object, found %s",
                       lf_json_type_name(p->extra));
    }
    return LF_OK;
}

/* -- Rendering -- */

static enum lf_status take_text(struct lf_chat_text *out, struct lf_jinja_text text, struct lf_text_memory *memory,
                                struct lf_err *err)
{
    struct lf_chat_text result = {.memory = memory};
    struct lf_jinja_pieces it = lf_jinja_text_pieces(text);
    struct lf_jinja_piece piece;
    size_t n_runs = text.buf->n_runs, at = 0;
    lf_buf_init_in(&result.text, LF_TEMPLATE_OUTPUT_BYTES, memory);
    lf_buf_str(&result.text, lf_jinja_text_str(text));
    result.user_spans = lf_text_alloc(memory, (n_runs + 1) * sizeof(*result.user_spans));
    if (result.text.status != LF_OK || !result.user_spans) {
        lf_chat_text_deinit(&result);
        return lf_fail(err, LF_NO_MEMORY, "no memory for the rendered chat");
    }
    for (; lf_jinja_pieces_next(&it, &piece); at += piece.s.len) {
        if (piece.user) result.user_spans[result.n_user_spans++] = (struct lf_text_span){at, piece.s.len};
    }
    *out = result;
    return LF_OK;
}

enum lf_status lf_chat_template_render(const struct lf_chat_template *t, struct lf_chat_text *out,
                                       const struct lf_chat_render_params *p, struct lf_err *err)
{
    struct lf_jinja j = {.program = &t->program,
                         .err = err,
                         .budget = (uint64_t)LF_TEMPLATE_STEPS * LF_JINJA_STEP_COST,
                         .now_unix_s = p->now_unix_s,
                         .work = p->work};
    struct lf_jinja_text text;
    enum lf_status status;
    LF_TRY(check_params(p, err));
    lf_arena_init_in(&j.arena, RENDER_CHUNK_BYTES, LF_JINJA_MEMORY_BYTES, lf_work_memory(p->work));
    struct lf_jinja_writer w = lf_jinja_writer_of(&j);
    j.out = &w;
    LF_TRY_GOTO(set_names(&j, p), out);
    LF_TRY_GOTO(lf_jinja_run(&j), out);
    LF_TRY_GOTO(lf_jinja_writer_text(&w, &text), out);
    status = take_text(out, text, lf_work_memory(p->work), err);
out:
    lf_arena_deinit(&j.arena);
    return status;
}
