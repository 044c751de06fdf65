#include "server/http/messages.h"

#include <stdio.h>

#include "core/check.h"

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

static enum lf_status check_part(struct lf_json_value part, int idx, struct lf_api_err *err)
{
    struct place at = place_of(idx, ".content");
    struct lf_json_value type = lf_json_get(part, "type");
    if (lf_json_type(part) != LF_JSON_OBJECT || lf_json_type(type) != LF_JSON_STRING)
        return lf_refuse(err, 400, at.name, "invalid_value", "%s: expected parts that are objects with a type.",
                         at.name);
    if (!lf_json_string_is(type, "text"))
        return lf_refuse(err, 400, at.name, "unsupported_content", "%s: only parts of type text are understood.",
                         at.name);
    if (lf_json_type(lf_json_get(part, "text")) != LF_JSON_STRING)
        return lf_refuse(err, 400, at.name, "invalid_value", "%s: a text part needs a string named text.", at.name);
    return LF_OK;
}

static enum lf_status check_content(struct lf_json_value message, int idx, bool *rewrite, struct lf_api_err *err)
{
    struct lf_json_value content = lf_json_get(message, "content");
    struct place at = place_of(idx, ".content");
    if (lf_json_type(content) == LF_JSON_STRING) return LF_OK;
    if (lf_json_is_absent(content) && lf_json_string_is(lf_json_get(message, "role"), "assistant")) return LF_OK;
    if (lf_json_type(content) != LF_JSON_ARRAY)
        return lf_refuse(err, 400, at.name, "invalid_value", "%s: expected a string or an array of parts, got %s.",
                         at.name, lf_json_type_name(content));
    *rewrite = true;
    for (struct lf_json_value it = lf_json_first(content); lf_json_more(content, it); it = lf_json_next(content, it))
        LF_TRY(check_part(it, idx, err));
    return LF_OK;
}

static enum lf_status check_message(struct lf_json_value message, int idx, bool *rewrite, struct lf_api_err *err)
{
    struct place at = place_of(idx, ".role");
    struct lf_json_value role = lf_json_get(message, "role");
    bool known = false;
    for (size_t i = 0; i < LF_N_ELEMS(roles); i++) known = known || lf_json_string_is(role, roles[i]);
    if (!known)
        return lf_refuse(err, 400, at.name, "invalid_value", "%s: expected system, developer, user, assistant or tool.",
                         at.name);
    if (lf_json_string_is(role, "developer")) *rewrite = true;
    return check_content(message, idx, rewrite, err);
}

enum lf_status lf_messages_check(struct lf_json_value messages, bool *rewrite, struct lf_api_err *err)
{
    int idx = 0;
    *rewrite = false;
    for (struct lf_json_value it = lf_json_first(messages); lf_json_more(messages, it);
         it = lf_json_next(messages, it)) {
        struct place at = place_of(idx, "");
        if (lf_json_type(it) != LF_JSON_OBJECT)
            return lf_refuse(err, 400, at.name, "invalid_value", "%s: expected an object, got %s.", at.name,
                             lf_json_type_name(it));
        LF_TRY(check_message(it, idx, rewrite, err));
        idx++;
    }
    return LF_OK;
}

/* ---- writing ---- */

/* A value as it stood: raw text, with the quotes of strings back. */
static void copy_value(struct lf_buf *out, struct lf_json_value v)
{
    bool quoted = lf_json_type(v) == LF_JSON_STRING;
    if (quoted) lf_buf_char(out, '"');
    lf_buf_str(out, lf_json_raw(v));
    if (quoted) lf_buf_char(out, '"');
}

/* Joining works on the raw text: what was escaped stays so, and a line end is the escape \n. */
static void join_parts(struct lf_buf *out, struct lf_json_value content)
{
    bool first = true;
    lf_buf_char(out, '"');
    for (struct lf_json_value it = lf_json_first(content); lf_json_more(content, it); it = lf_json_next(content, it)) {
        if (!first) lf_buf_cstr(out, "\\n");
        lf_buf_str(out, lf_json_raw(lf_json_get(it, "text")));
        first = false;
    }
    lf_buf_char(out, '"');
}

static void write_message(struct lf_buf *out, struct lf_json_value message, bool keep_developer)
{
    bool first = true;
    lf_buf_char(out, '{');
    for (struct lf_json_value it = lf_json_first(message); lf_json_more(message, it); it = lf_json_next(message, it)) {
        struct lf_json_value v = lf_json_member(it);
        if (!first) lf_buf_char(out, ',');
        copy_value(out, it);
        lf_buf_char(out, ':');
        if (lf_json_string_is(it, "content") && lf_json_type(v) == LF_JSON_ARRAY)
            join_parts(out, v);
        else if (lf_json_string_is(it, "role") && !keep_developer && lf_json_string_is(v, "developer"))
            lf_buf_cstr(out, "\"system\"");
        else
            copy_value(out, v);
        first = false;
    }
    lf_buf_char(out, '}');
}

void lf_messages_write(struct lf_buf *out, struct lf_json_value messages, bool keep_developer)
{
    bool first = true;
    lf_buf_char(out, '[');
    for (struct lf_json_value it = lf_json_first(messages); lf_json_more(messages, it);
         it = lf_json_next(messages, it)) {
        if (!first) lf_buf_char(out, ',');
        write_message(out, it, keep_developer);
        first = false;
    }
    lf_buf_char(out, ']');
}
