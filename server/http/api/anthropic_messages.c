#include "server/http/api/anthropic_messages.h"

#include <stdio.h>
#include <strings.h>

#include "core/check.h"
#include "server/http/api/document_parts.h"
#include "server/http/api/messages.h"
#include "server/http/api/place.h"
#include "server/http/api/shown.h"
#include "server/http/api/tools.h"

/* Messages on their way into the form of templates. */
struct reader {
    struct lf_reading *r;
    struct lf_chat_message *all; /* [n], with room for all that the blocks may become */
    size_t n;
    const struct lf_chat_call *calls; /* [n_calls]: of the last assistant's message that has any */
    size_t n_calls, next_call;        /* next_call: where the next result's is looked for first */
    int idx;                          /* of the message in hand, as it came */
    int block;                        /* … and of its block */
};

/* The texts of a message's blocks of one kind, which become one. */
struct texts {
    struct lf_buf text;
    bool any;
};

static void begin_texts(struct texts *t, const struct reader *rd)
{
    *t = (struct texts){0};
    lf_buf_init_in(&t->text, LF_TEMPLATE_OUTPUT_BYTES, rd->r->ask->arena.memory);
}

/* A copy in the arena; out->ptr NULL: there is no text. */
static enum lf_status end_texts(struct lf_str *out, struct texts *t, struct reader *rd)
{
    const char *copy =
        t->any && t->text.status == LF_OK ? lf_arena_strdup(&rd->r->ask->arena, lf_buf_view(&t->text)) : NULL;
    bool any = t->any;
    *out = lf_str_from(copy, copy ? t->text.len : 0);
    lf_buf_deinit(&t->text);
    t->any = false;
    return copy || !any ? LF_OK : lf_refuse_work(rd->r->err, LF_NO_MEMORY);
}

/* ---- refusals ---- */

static struct lf_place place_of(const struct reader *rd, const char *member)
{
    if (rd->block < 0) return lf_place_at("messages[%d].%s", rd->idx, member);
    return lf_place_at("messages[%d].content[%d].%s", rd->idx, rd->block, member);
}

static enum lf_status expected(const struct reader *rd, const char *member, struct lf_json_value v, const char *what)
{
    return lf_place_expected(rd->r->err, place_of(rd, member).name, v, what);
}

/* ---- blocks ---- */

static enum lf_status add_text(struct texts *t, const struct reader *rd, struct lf_json_value block, const char *member)
{
    struct lf_json_value v = lf_json_get(block, member);
    if (lf_json_type(v) != LF_JSON_STRING) return expected(rd, member, v, "a string");
    if (t->any) lf_buf_char(&t->text, '\n');
    t->any = true;
    (void)lf_json_string(v, &t->text);
    return LF_OK;
}

static struct lf_chat_message *next_message(struct reader *rd, const char *role)
{
    struct lf_chat_message *m = &rd->all[rd->n++];
    m->role = lf_str_c(role);
    m->content = LF_STR("");
    m->has_content = true;
    return m;
}

/* What the user says, as far as it was collected. */
static enum lf_status end_user(struct reader *rd, struct texts *t)
{
    struct lf_str text;
    LF_TRY(end_texts(&text, t, rd));
    if (text.ptr) next_message(rd, "user")->content = text;
    return LF_OK;
}

/* A result's content: nothing, a string, or text blocks. */
static enum lf_status read_result_text(struct lf_str *out, struct reader *rd, struct lf_json_value content)
{
    struct lf_place at = place_of(rd, "content");
    *out = LF_STR("");
    if (lf_json_is_absent(content)) return LF_OK;
    if (lf_json_type(content) == LF_JSON_STRING) return lf_ask_text(rd->r->ask, out, content, at.name, rd->r->err);
    if (lf_json_type(content) != LF_JSON_ARRAY) return expected(rd, "content", content, "a string or text blocks");
    return lf_message_parts(out, rd->r, content, at.name, LF_NO_DOCUMENTS);
}

/* The call that a result is of. Results usually come in the order of the calls. */
static const struct lf_chat_call *find_call(struct reader *rd, struct lf_str id)
{
    for (size_t i = 0; i < rd->n_calls; i++) {
        size_t at = (rd->next_call + i) % rd->n_calls;
        if (!lf_str_eq(rd->calls[at].id, id)) continue;
        rd->next_call = at + 1;
        return &rd->calls[at];
    }
    return NULL;
}

/* Templates have no member for a call that failed, so its text says it, where it does not begin so by itself. */
static enum lf_status mark_error(struct lf_str *text, struct reader *rd, struct lf_json_value flag)
{
    static const char head[] = "Error: ";
    enum { WORD_BYTES = 5, HEAD_BYTES = sizeof head - 1 };
    bool is_error = false;
    if (!lf_json_is_absent(flag) && !lf_json_bool(flag, &is_error))
        return expected(rd, "is_error", flag, "true or false");
    if (!is_error || (text->len >= WORD_BYTES && strncasecmp(text->ptr, head, WORD_BYTES) == 0)) return LF_OK;
    size_t n = text->len ? HEAD_BYTES : WORD_BYTES;
    char *copy = lf_arena_alloc(&rd->r->ask->arena, n + text->len);
    if (!copy) return lf_refuse_work(rd->r->err, LF_NO_MEMORY);
    memcpy(copy, head, n);
    if (text->len) memcpy(copy + n, text->ptr, text->len);
    *text = lf_str_from(copy, n + text->len);
    return LF_OK;
}

static enum lf_status read_result(struct reader *rd, struct lf_json_value block)
{
    struct lf_json_value of = lf_json_get(block, "tool_use_id");
    struct lf_place at = place_of(rd, "tool_use_id");
    struct lf_str id, text;
    LF_TRY(lf_ask_text(rd->r->ask, &id, of, at.name, rd->r->err));
    const struct lf_chat_call *call = find_call(rd, id);
    if (!call)
        return lf_refuse(rd->r->err, 400, at.name, "invalid_value",
                         "%s: no tool_use of the assistant's message before it has this id, %s.", at.name,
                         lf_shown_json(of).text);
    LF_TRY(read_result_text(&text, rd, lf_json_get(block, "content")));
    LF_TRY(mark_error(&text, rd, lf_json_get(block, "is_error")));
    struct lf_chat_message *m = next_message(rd, "tool");
    m->content = text;
    m->tool_call_id = id;
    m->name = call->name;
    return LF_OK;
}

static enum lf_status refuse_block(const struct reader *rd, struct lf_json_value type, const char *known)
{
    struct lf_place at = place_of(rd, "type");
    return lf_refuse(rd->r->err, 400, at.name, "unsupported_content", "%s: only %s are understood, got %s.", at.name,
                     known, lf_shown_json(type).text);
}

static enum lf_status add_document(struct texts *t, struct reader *rd, struct lf_json_value block)
{
    struct lf_ask *ask = rd->r->ask;
    struct lf_place at = lf_place_at("messages[%d].content[%d]", rd->idx, rd->block);
    LF_TRY(lf_document_part_read(rd->r, block, at.name));
    if (t->any) lf_buf_char(&t->text, '\n');
    t->any = true;
    lf_document_part_append(ask, ask->n_documents - 1, &t->text, rd->n);
    return LF_OK;
}

static enum lf_status read_user_block(struct reader *rd, struct texts *t, struct lf_json_value block)
{
    struct lf_json_value type = lf_json_get(block, "type");
    if (lf_json_string_is(type, "text")) return add_text(t, rd, block, "text");
    if (lf_json_string_is(type, "document")) return add_document(t, rd, block);
    if (!lf_json_string_is(type, "tool_result"))
        return refuse_block(rd, type, "text blocks and, in the user's messages, document and tool_result");
    LF_TRY(end_user(rd, t));
    LF_TRY(read_result(rd, block));
    begin_texts(t, rd);
    return LF_OK;
}

static enum lf_status read_user(struct reader *rd, struct lf_json_value content)
{
    struct texts t;
    enum lf_status status = LF_OK;
    begin_texts(&t, rd);
    for (struct lf_json_value it = lf_json_first(content); status == LF_OK && lf_json_more(content, it);
         it = lf_json_next(content, it), rd->block++)
        status = read_user_block(rd, &t, it);
    if (status == LF_OK) status = end_user(rd, &t);
    lf_buf_deinit(&t.text);
    return status;
}

/* What an assistant's message has. */
struct turn {
    struct texts text, thinking;
    struct lf_chat_call *calls;
    size_t n_calls;
};

static enum lf_status read_call(struct reader *rd, struct turn *turn, struct lf_json_value block)
{
    struct lf_ask *ask = rd->r->ask;
    struct lf_json_value input = lf_json_get(block, "input");
    struct lf_place at = place_of(rd, "type"), id = place_of(rd, "id"), name = place_of(rd, "name");
    struct lf_chat_call *call = &turn->calls[turn->n_calls];
    if (turn->n_calls == LF_MESSAGE_CALLS_N)
        return lf_refuse(rd->r->err, 400, at.name, "too_many_tools", "%s: at most %d tool_use in one message.", at.name,
                         LF_MESSAGE_CALLS_N);
    if (!rd->r->limits->template.has_calls)
        return lf_refuse(rd->r->err, 400, at.name, "unsupported_parameter",
                         "%s: this model's chat template has no calls of tools.", at.name);
    struct lf_json_value caller = lf_json_get(lf_json_get(block, "caller"), "type");
    if (!lf_json_is_absent(caller) && !lf_json_string_is(caller, "direct"))
        return expected(rd, "caller.type", caller, "direct: no tools of other servers are run here");
    LF_TRY(lf_ask_text(ask, &call->id, lf_json_get(block, "id"), id.name, rd->r->err));
    LF_TRY(lf_ask_text(ask, &call->name, lf_json_get(block, "name"), name.name, rd->r->err));
    if (call->name.len == 0) return expected(rd, "name", lf_json_get(block, "name"), "a string that is not empty");
    if (lf_json_type(input) != LF_JSON_OBJECT) return expected(rd, "input", input, "an object");
    call->arguments = input;
    turn->n_calls++;
    return LF_OK;
}

/* What was thought and not shown comes back as it went out, and says nothing to a model that did not write it. */
static enum lf_status read_assistant_block(struct reader *rd, struct turn *turn, struct lf_json_value block)
{
    struct lf_json_value type = lf_json_get(block, "type");
    if (lf_json_string_is(type, "text")) return add_text(&turn->text, rd, block, "text");
    if (lf_json_string_is(type, "thinking")) return add_text(&turn->thinking, rd, block, "thinking");
    if (lf_json_string_is(type, "redacted_thinking")) return LF_OK;
    if (lf_json_string_is(type, "tool_use")) return read_call(rd, turn, block);
    return refuse_block(rd, type, "text, thinking, redacted_thinking and tool_use blocks");
}

static enum lf_status end_turn(struct reader *rd, struct turn *turn)
{
    struct lf_str text, thinking;
    LF_TRY(end_texts(&text, &turn->text, rd));
    LF_TRY(end_texts(&thinking, &turn->thinking, rd));
    struct lf_chat_message *m = next_message(rd, "assistant");
    if (text.ptr) m->content = text;
    m->reasoning_content = thinking;
    m->calls = turn->calls;
    m->n_calls = turn->n_calls;
    if (turn->n_calls == 0) return LF_OK;
    rd->calls = turn->calls;
    rd->n_calls = turn->n_calls;
    rd->next_call = 0;
    return LF_OK;
}

static enum lf_status read_assistant(struct reader *rd, struct lf_json_value content)
{
    struct turn turn = {0};
    enum lf_status status = LF_OK;
    turn.calls =
        lf_arena_array(&rd->r->ask->arena, LF_MIN(lf_json_len(content), LF_MESSAGE_CALLS_N) + 1, sizeof *turn.calls);
    if (!turn.calls) return lf_refuse_work(rd->r->err, LF_NO_MEMORY);
    begin_texts(&turn.text, rd);
    begin_texts(&turn.thinking, rd);
    for (struct lf_json_value it = lf_json_first(content); status == LF_OK && lf_json_more(content, it);
         it = lf_json_next(content, it), rd->block++)
        status = read_assistant_block(rd, &turn, it);
    if (status == LF_OK) status = end_turn(rd, &turn);
    lf_buf_deinit(&turn.text.text);
    lf_buf_deinit(&turn.thinking.text);
    return status;
}

/* ---- messages ---- */

static enum lf_status read_message(struct reader *rd, struct lf_json_value v)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    struct lf_json_value role = lf_json_get(v, "role"), content = lf_json_get(v, "content");
    struct lf_place at = place_of(rd, "content");
    if (lf_json_type(v) != LF_JSON_OBJECT)
        return lf_ask_expected(rd->r, lf_place_at("messages[%d]", rd->idx).name, v, "an object");
    size_t i = 0;
    while (i < LF_N_ELEMS(roles) && !lf_json_string_is(role, roles[i])) i++;
    if (i == LF_N_ELEMS(roles)) return expected(rd, "role", role, "user, assistant or system");
    if (lf_json_type(content) == LF_JSON_STRING)
        return lf_ask_text(rd->r->ask, &next_message(rd, roles[i])->content, content, at.name, rd->r->err);
    if (lf_json_type(content) != LF_JSON_ARRAY || lf_json_len(content) == 0)
        return expected(rd, "content", content, "a string or an array of blocks");
    if (i == 2) return lf_message_parts(&next_message(rd, roles[i])->content, rd->r, content, at.name, LF_NO_DOCUMENTS);
    rd->block = 0;
    return i == 0 ? read_user(rd, content) : read_assistant(rd, content);
}

/* A user's message becomes as many as it has blocks, at most. */
static size_t count_messages(struct lf_json_value messages)
{
    size_t n = 1;
    for (struct lf_json_value it = lf_json_first(messages); lf_json_more(messages, it); it = lf_json_next(messages, it))
        n += LF_MAX(lf_json_len(lf_json_get(it, "content")), 1u);
    return n;
}

/* The answer goes on from a last message of the assistant's. */
static enum lf_status go_on_from(struct lf_reading *r, const struct lf_chat_message *last)
{
    if (!lf_str_eq(last->role, LF_STR("assistant"))) return LF_OK;
    r->ask->continue_final_message = true;
    if (last->n_calls == 0 && lf_str_trim(last->content).len > 0) return LF_OK;
    return lf_refuse(r->err, 400, "messages", "invalid_value",
                     "messages: the last one is the assistant's, and has no text to go on from, or calls tools.");
}

enum lf_status lf_anthropic_messages_read(struct lf_reading *r, struct lf_json_value messages)
{
    struct reader rd = {.r = r};
    rd.all = lf_arena_array(&r->ask->arena, count_messages(messages), sizeof *rd.all);
    if (!rd.all) return lf_refuse_work(r->err, LF_NO_MEMORY);
    for (struct lf_json_value it = lf_json_first(messages); lf_json_more(messages, it);
         it = lf_json_next(messages, it), rd.idx++) {
        rd.block = -1;
        LF_TRY(read_message(&rd, it));
    }
    r->ask->messages = rd.all;
    r->ask->n_messages = rd.n;
    return go_on_from(r, &rd.all[rd.n - 1]);
}

enum lf_status lf_anthropic_add_system(struct lf_reading *r, struct lf_json_value system)
{
    struct lf_chat_message *first = lf_document_parts_prepend(r->ask);
    if (!first) return lf_refuse_work(r->err, LF_NO_MEMORY);
    first->role = LF_STR("system");
    first->has_content = true;
    if (lf_json_type(system) == LF_JSON_STRING) return lf_ask_text(r->ask, &first->content, system, "system", r->err);
    return lf_message_parts(&first->content, r, system, "system", LF_NO_DOCUMENTS);
}
