#include "server/http/api/messages.h"

#include <stdio.h>

#include "core/check.h"
#include "server/http/api/shown.h"

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};

/* What a member's refusal is called: "messages[3].content". */
struct place {
    char name[LF_PARAM_BYTES];
};

static struct place place_of(int idx, const char *member)
{
    struct place p;
    snprintf(p.name, sizeof p.name, "messages[%d]%s", idx, member);
    return p;
}

static enum lf_status check_part(struct lf_json_value part, const char *name, struct lf_api_err *err)
{
    struct lf_json_value type = lf_json_get(part, "type");
    if (lf_json_type(part) != LF_JSON_OBJECT || lf_json_type(type) != LF_JSON_STRING)
        return lf_refuse(err, 400, name, "invalid_value", "%s: expected parts that are objects with a type, got %s.",
                         name, lf_shown_json(part).text);
    if (!lf_json_string_is(type, "text"))
        return lf_refuse(err, 400, name, "unsupported_content", "%s: only parts of type text are understood, got %s.",
                         name, lf_shown_json(type).text);
    if (lf_json_type(lf_json_get(part, "text")) != LF_JSON_STRING)
        return lf_refuse(err, 400, name, "invalid_value", "%s: a text part needs a string named text, got %s.", name,
                         lf_shown_json(lf_json_get(part, "text")).text);
    return LF_OK;
}

/* The parts' texts with line ends between them; as long as the raw ones at most, for unescaping never lengthens. */
enum lf_status lf_message_parts(struct lf_str *out, struct lf_json_value content, const char *name,
                                struct lf_arena *arena, struct lf_api_err *err)
{
    struct lf_buf text;
    size_t n_bytes = 0;
    bool first = true;
    for (struct lf_json_value it = lf_json_first(content); lf_json_more(content, it); it = lf_json_next(content, it)) {
        LF_TRY(check_part(it, name, err));
        n_bytes += lf_json_raw(lf_json_get(it, "text")).len + 1;
    }
    lf_buf_init_in(&text, n_bytes, arena->memory);
    for (struct lf_json_value it = lf_json_first(content); lf_json_more(content, it); it = lf_json_next(content, it)) {
        if (!first) lf_buf_char(&text, '\n');
        first = false;
        (void)lf_json_string(lf_json_get(it, "text"), &text);
    }
    char *copy = text.status == LF_OK ? lf_arena_strdup(arena, lf_buf_view(&text)) : NULL;
    *out = lf_str_from(copy, text.len);
    lf_buf_deinit(&text);
    return copy ? LF_OK : lf_refuse_work(err, LF_NO_MEMORY);
}

static bool calls_tools(struct lf_json_value message)
{
    return lf_json_string_is(lf_json_get(message, "role"), "assistant") &&
           (lf_json_type(lf_json_get(message, "tool_calls")) == LF_JSON_ARRAY ||
            lf_json_type(lf_json_get(message, "function_call")) == LF_JSON_OBJECT);
}

static enum lf_status read_content(struct lf_chat_message *out, int idx, struct lf_arena *arena, struct lf_api_err *err)
{
    struct lf_json_value content = lf_json_get(out->more, "content");
    struct place at = place_of(idx, ".content");
    if (lf_json_type(content) == LF_JSON_STRING) return LF_OK;
    if (lf_json_is_absent(content) && calls_tools(out->more)) return LF_OK;
    if (lf_json_is_absent(content))
        return lf_refuse(err, 400, at.name, "invalid_value",
                         "%s: expected a string or an array of text parts, got %s; only an assistant's message with "
                         "tool_calls goes without.",
                         at.name, lf_shown_json(content).text);
    if (lf_json_type(content) != LF_JSON_ARRAY)
        return lf_refuse(err, 400, at.name, "invalid_value", "%s: expected a string or an array of text parts, got %s.",
                         at.name, lf_shown_json(content).text);
    out->has_content = true;
    return lf_message_parts(&out->content, content, at.name, arena, err);
}

static enum lf_status read_message(struct lf_chat_message *out, int idx, bool keep_developer, struct lf_arena *arena,
                                   struct lf_api_err *err)
{
    struct place whole = place_of(idx, ""), at = place_of(idx, ".role");
    struct lf_json_value role = lf_json_get(out->more, "role");
    bool known = false;
    if (lf_json_type(out->more) != LF_JSON_OBJECT)
        return lf_refuse(err, 400, whole.name, "invalid_value", "%s: expected an object, got %s.", whole.name,
                         lf_shown_json(out->more).text);
    for (size_t i = 0; i < LF_N_ELEMS(roles); i++) known = known || lf_json_string_is(role, roles[i]);
    if (!known)
        return lf_refuse(err, 400, at.name, "invalid_value",
                         "%s: expected system, developer, user, assistant or tool, got %s.", at.name,
                         lf_shown_json(role).text);
    if (!keep_developer && lf_json_string_is(role, "developer")) out->role = LF_STR("system");
    return read_content(out, idx, arena, err);
}

enum lf_status lf_messages_read(const struct lf_chat_message **out, size_t *n, struct lf_json_value messages,
                                bool keep_developer, struct lf_arena *arena, struct lf_api_err *err)
{
    size_t n_messages = lf_json_len(messages);
    struct lf_chat_message *all = lf_arena_array(arena, n_messages + 1, sizeof *all);
    struct lf_json_value it = lf_json_first(messages);
    if (!all) return lf_refuse_work(err, LF_NO_MEMORY);
    for (size_t i = 0; i < n_messages; i++, it = lf_json_next(messages, it)) {
        all[i].more = it;
        LF_TRY(read_message(&all[i], (int)i, keep_developer, arena, err));
    }
    *out = all;
    *n = n_messages;
    return LF_OK;
}
