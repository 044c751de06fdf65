#include "server/http/api/messages.h"

#include <stdio.h>

#include "core/check.h"
#include "server/http/api/document_parts.h"
#include "server/http/api/place.h"
#include "server/http/api/shown.h"
#include "server/http/api/tools.h"

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};

/* A member of a message: "messages[3].content". */
static struct lf_place place_of(int idx, const char *member)
{
    return lf_place_at("messages[%d]%s", idx, member);
}

const struct lf_part_form lf_part_form_chat = {
    .texts = {"text"},
    .file_type = "file",
    .known = "parts of type text and, in the user's messages, document and file",
};

static bool is_text(struct lf_json_value part, const struct lf_part_form *form)
{
    struct lf_json_value type = lf_json_get(part, "type");
    for (const char *const *t = form->texts; *t; t++)
        if (lf_json_string_is(type, *t)) return true;
    return false;
}

static enum lf_status check_part(struct lf_reading *r, struct lf_json_value part, const char *name, int message,
                                 const struct lf_part_form *form)
{
    struct lf_json_value type = lf_json_get(part, "type");
    if (lf_json_type(part) != LF_JSON_OBJECT || lf_json_type(type) != LF_JSON_STRING)
        return lf_place_expected(r->err, name, part, "parts that are objects with a type");
    if (message != LF_NO_DOCUMENTS && lf_document_part_is(part, form->file_type))
        return lf_document_part_read(r, part, name);
    if (!is_text(part, form))
        return lf_refuse(r->err, 400, name, "unsupported_content", "%s: only %s are understood, got %s.", name,
                         form->known, lf_shown_json(type).text);
    if (lf_json_type(lf_json_get(part, "text")) != LF_JSON_STRING)
        return lf_refuse(r->err, 400, name, "invalid_value", "%s: a text part needs a string named text, got %s.", name,
                         lf_shown_json(lf_json_get(part, "text")).text);
    return LF_OK;
}

/* The parts' texts with line ends between them; as long as the raw ones at most, for unescaping never lengthens. */
enum lf_status lf_message_parts_of(struct lf_str *out, struct lf_reading *r, struct lf_json_value content,
                                   const char *name, int message, const struct lf_part_form *form)
{
    struct lf_ask *ask = r->ask;
    struct lf_buf text;
    size_t n_bytes = 0, i = ask->n_documents;
    bool first = true;
    for (struct lf_json_value it = lf_json_first(content); lf_json_more(content, it); it = lf_json_next(content, it)) {
        LF_TRY(check_part(r, it, name, message, form));
        n_bytes += is_text(it, form) ? lf_json_raw(lf_json_get(it, "text")).len + 1
                                     : ask->documents[ask->n_documents - 1].text.len + 1;
    }
    lf_buf_init_in(&text, n_bytes, ask->arena.memory);
    for (struct lf_json_value it = lf_json_first(content); lf_json_more(content, it); it = lf_json_next(content, it)) {
        if (!first) lf_buf_char(&text, '\n');
        first = false;
        if (is_text(it, form))
            (void)lf_json_string(lf_json_get(it, "text"), &text);
        else
            lf_document_part_append(ask, i++, &text, (size_t)message);
    }
    char *copy = text.status == LF_OK ? lf_arena_strdup(&ask->arena, lf_buf_view(&text)) : NULL;
    *out = lf_str_from(copy, text.len);
    lf_buf_deinit(&text);
    return copy ? LF_OK : lf_refuse_work(r->err, LF_NO_MEMORY);
}

static bool is_assistant(struct lf_json_value message)
{
    return lf_json_string_is(lf_json_get(message, "role"), "assistant");
}

static bool calls_tools(struct lf_json_value message)
{
    return is_assistant(message) && lf_json_type(lf_json_get(message, "tool_calls")) == LF_JSON_ARRAY;
}

static enum lf_status read_content(struct lf_chat_message *out, int idx, struct lf_reading *r)
{
    struct lf_api_err *err = r->err;
    bool is_users = lf_json_string_is(lf_json_get(out->more, "role"), "user");
    struct lf_json_value content = lf_json_get(out->more, "content");
    struct lf_place at = place_of(idx, ".content");
    if (lf_json_type(content) == LF_JSON_STRING) return LF_OK;
    if (lf_json_is_absent(content) && calls_tools(out->more)) {
        out->content = LF_STR(""); /* some templates write the word None where there is none */
        out->has_content = true;
        return LF_OK;
    }
    if (lf_json_is_absent(content))
        return lf_refuse(err, 400, at.name, "invalid_value",
                         "%s: expected a string or an array of text parts, got %s; only an assistant's message with "
                         "tool_calls goes without.",
                         at.name, lf_shown_json(content).text);
    if (lf_json_type(content) != LF_JSON_ARRAY)
        return lf_place_expected(err, at.name, content, "a string or an array of text parts");
    out->has_content = true;
    return lf_message_parts(&out->content, r, content, at.name, is_users ? idx : LF_NO_DOCUMENTS);
}

/* A member that templates print as text where it is there. */
static enum lf_status check_text(struct lf_json_value message, int idx, const char *member, struct lf_api_err *err)
{
    struct lf_json_value v = lf_json_get(message, member);
    if (lf_json_is_absent(v) || lf_json_type(v) == LF_JSON_STRING) return LF_OK;
    return lf_place_expected(err, lf_place_at("messages[%d].%s", idx, member).name, v, "a string");
}

/* {"id", "type": "function", "function": {"name", "arguments"}} */
static enum lf_status read_call(struct lf_chat_call *out, struct lf_reading *r, int idx, int call,
                                struct lf_json_value v)
{
    struct lf_json_value type = lf_json_get(v, "type"), function = lf_json_get(v, "function"),
                         id = lf_json_get(v, "id"), name = lf_json_get(function, "name");
    struct lf_place whole = lf_place_at("messages[%d].tool_calls[%d]", idx, call), at;
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_place_expected(r->err, whole.name, v, "an object");
    at = lf_place_at("%s.type", whole.name);
    if (!lf_json_is_absent(type) && !lf_json_string_is(type, "function"))
        return lf_place_expected(r->err, at.name, type, "function");
    at = lf_place_at("%s.id", whole.name);
    if (!lf_json_is_absent(id) && lf_json_type(id) != LF_JSON_STRING)
        return lf_place_expected(r->err, at.name, id, "a string");
    at = lf_place_at("%s.function", whole.name);
    if (lf_json_type(function) != LF_JSON_OBJECT) return lf_place_expected(r->err, at.name, function, "an object");
    at = lf_place_at("%s.function.name", whole.name);
    if (lf_json_type(name) != LF_JSON_STRING || lf_json_raw(name).len == 0)
        return lf_place_expected(r->err, at.name, name, "a string that is not empty");
    out->more = v;
    at = lf_place_at("%s.function.arguments", whole.name);
    return lf_tools_arguments(&out->arguments, r, lf_json_get(function, "arguments"), at.name);
}

static enum lf_status read_calls(struct lf_chat_message *out, struct lf_reading *r, int idx)
{
    struct lf_json_value list = lf_json_get(out->more, "tool_calls");
    struct lf_place at = place_of(idx, ".tool_calls");
    int n = 0;
    out->without_calls = lf_json_is_absent(list) || (lf_json_type(list) == LF_JSON_ARRAY && lf_json_len(list) == 0);
    if (out->without_calls) return LF_OK;
    if (lf_json_type(list) != LF_JSON_ARRAY || !is_assistant(out->more))
        return lf_place_expected(r->err, at.name, list, "an array, in an assistant's message,");
    if (lf_json_len(list) > LF_MESSAGE_CALLS_N)
        return lf_refuse(r->err, 400, at.name, "too_many_tools", "%s: at most %d, got %u.", at.name, LF_MESSAGE_CALLS_N,
                         lf_json_len(list));
    if (!r->limits->template.has_calls)
        return lf_refuse(r->err, 400, at.name, "unsupported_parameter",
                         "%s: this model's chat template has no calls of tools.", at.name);
    struct lf_chat_call *calls = lf_arena_array(&r->ask->arena, lf_json_len(list), sizeof *calls);
    if (!calls) return lf_refuse_work(r->err, LF_NO_MEMORY);
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it), n++)
        LF_TRY(read_call(&calls[n], r, idx, n, it));
    out->calls = calls;
    out->n_calls = (size_t)n;
    return LF_OK;
}

static enum lf_status check_members(const struct lf_chat_message *m, int idx, struct lf_api_err *err)
{
    static const char *const texts[] = {"reasoning_content", "reasoning", "thinking", "name", "tool_call_id"};
    struct lf_place at = place_of(idx, ".function_call"), audio = place_of(idx, ".audio");
    for (size_t i = 0; i < LF_N_ELEMS(texts); i++) LF_TRY(check_text(m->more, idx, texts[i], err));
    if (!lf_json_is_absent(lf_json_get(m->more, "audio")))
        return lf_refuse(err, 400, audio.name, "unsupported_content", "%s: only texts are understood.", audio.name);
    if (lf_json_is_absent(lf_json_get(m->more, "function_call"))) return LF_OK;
    return lf_refuse(err, 400, at.name, "unsupported_parameter", "%s: not implemented; here that is tool_calls.",
                     at.name);
}

static enum lf_status read_message(struct lf_chat_message *out, int idx, struct lf_reading *r)
{
    struct lf_place whole = place_of(idx, ""), at = place_of(idx, ".role");
    struct lf_json_value role = lf_json_get(out->more, "role");
    bool known = false;
    if (lf_json_type(out->more) != LF_JSON_OBJECT) return lf_place_expected(r->err, whole.name, out->more, "an object");
    for (size_t i = 0; i < LF_N_ELEMS(roles); i++) known = known || lf_json_string_is(role, roles[i]);
    if (!known) return lf_place_expected(r->err, at.name, role, "system, developer, user, assistant or tool");
    if (!r->limits->template.keep_developer && lf_json_string_is(role, "developer")) out->role = LF_STR("system");
    LF_TRY(check_members(out, idx, r->err));
    LF_TRY(read_content(out, idx, r));
    return read_calls(out, r, idx);
}

static size_t count_calls(struct lf_json_value messages)
{
    size_t n = 0;
    for (struct lf_json_value it = lf_json_first(messages); lf_json_more(messages, it); it = lf_json_next(messages, it))
        n += lf_json_len(lf_json_get(it, "tool_calls"));
    return n;
}

enum lf_status lf_messages_read(struct lf_reading *r, struct lf_json_value messages)
{
    struct lf_ask *ask = r->ask;
    size_t n = lf_json_len(messages);
    struct lf_chat_message *all = lf_arena_array(&ask->arena, n + 1, sizeof *all);
    struct lf_json_value it = lf_json_first(messages);
    ask->arguments = lf_arena_array(&ask->arena, count_calls(messages) + 1, sizeof *ask->arguments);
    if (!all || !ask->arguments) return lf_refuse_work(r->err, LF_NO_MEMORY);
    for (size_t i = 0; i < n; i++, it = lf_json_next(messages, it)) {
        all[i].more = it;
        LF_TRY(read_message(&all[i], (int)i, r));
    }
    ask->messages = all;
    ask->n_messages = n;
    return lf_document_parts_settle(ask, r->err);
}
