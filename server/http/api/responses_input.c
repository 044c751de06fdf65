#include "server/http/api/responses_input.h"

#include "core/check.h"
#include "core/work.h"
#include "server/http/api/document_parts.h"
#include "server/http/api/messages.h"
#include "server/http/api/place.h"
#include "server/http/api/response_store.h"
#include "server/http/api/shown.h"
#include "server/http/api/tools.h"

/* Items on their way into the form of templates. */
struct reader {
    struct lf_reading *r;
    struct lf_chat_message *all; /* [n], with room for one of each item */
    size_t n;
    bool in_turn;                        /* the last of them is the assistant's, and may go on */
    size_t content_room, reasoning_room; /* of its texts, where they are copies */
    struct lf_chat_call *calls;          /* [n_calls], with room for one of each item */
    size_t n_calls, next_call;           /* next_call: where the next output's is looked for first */
    const char *at;                      /* where the items stand, as refusals name it: "input" */
    int idx;                             /* of the item in hand, as it came */
};

static const struct lf_part_form parts = {
    .texts = {"input_text", "output_text", "text"},
    .file_type = "input_file",
    .known = "parts of type input_text and output_text and, in the user's messages, input_file and document",
};
static const struct lf_part_form reasoning_parts = {
    .texts = {"reasoning_text"}, .file_type = "", .known = "parts of type reasoning_text"};

/* ---- refusals ---- */

static struct lf_place place_of(const struct reader *rd, const char *member)
{
    return lf_place_at("%s[%d].%s", rd->at, rd->idx, member);
}

static enum lf_status expected(const struct reader *rd, const char *member, struct lf_json_value v, const char *what)
{
    return lf_place_expected(rd->r->err, place_of(rd, member).name, v, what);
}

/* ---- texts ---- */

static enum lf_status read_text(struct lf_str *out, struct reader *rd, struct lf_json_value item, const char *member)
{
    return lf_ask_text(rd->r->ask, out, lf_json_get(item, member), place_of(rd, member).name, rd->r->err);
}

/* A string, or an array of parts. message: as lf_message_parts_of has it. */
static enum lf_status read_content(struct lf_str *out, struct reader *rd, struct lf_json_value item, const char *member,
                                   int message)
{
    struct lf_json_value v = lf_json_get(item, member);
    struct lf_place at = place_of(rd, member);
    if (lf_json_type(v) == LF_JSON_STRING) return lf_ask_text(rd->r->ask, out, v, at.name, rd->r->err);
    if (lf_json_type(v) != LF_JSON_ARRAY) return expected(rd, member, v, "a string or an array of parts");
    return lf_message_parts_of(out, rd->r, v, at.name, message, &parts);
}

/* Puts a text behind another, in a line of its own. *room: of what it is copied to, which doubles, so that a turn of
 * many items takes memory in proportion to its text. */
static enum lf_status join(struct lf_str *text, struct lf_str more, struct reader *rd, size_t *room)
{
    if (!text->ptr || text->len == 0) {
        *text = more;
        return LF_OK;
    }
    size_t len = text->len + 1 + more.len;
    char *both = *room >= len ? (char *)text->ptr : lf_arena_alloc(&rd->r->ask->arena, 2 * len);
    if (!both) return lf_refuse_work(rd->r->err, LF_NO_MEMORY);
    if (*room < len) {
        memcpy(both, text->ptr, text->len);
        *room = 2 * len;
    }
    both[text->len] = '\n';
    if (more.len) memcpy(both + text->len + 1, more.ptr, more.len);
    *text = lf_str_from(both, len);
    return LF_OK;
}

/* ---- the assistant's turns ---- */

static struct lf_chat_message *next_message(struct reader *rd, const char *role)
{
    struct lf_chat_message *m = &rd->all[rd->n++];
    m->role = lf_str_c(role);
    m->content = LF_STR("");
    m->has_content = true;
    rd->in_turn = false;
    return m;
}

/* The one that goes on, or a new one. */
static struct lf_chat_message *turn(struct reader *rd)
{
    if (rd->in_turn) return &rd->all[rd->n - 1];
    struct lf_chat_message *m = next_message(rd, "assistant");
    m->calls = rd->calls + rd->n_calls;
    rd->content_room = rd->reasoning_room = 0;
    rd->in_turn = true;
    return m;
}

static enum lf_status read_call(struct reader *rd, struct lf_json_value item)
{
    struct lf_place at = place_of(rd, "type"), name = place_of(rd, "name"), arguments = place_of(rd, "arguments");
    struct lf_chat_message *m = turn(rd);
    struct lf_chat_call *call = &rd->calls[rd->n_calls];
    if (m->n_calls == LF_MESSAGE_CALLS_N)
        return lf_refuse(rd->r->err, 400, at.name, "too_many_tools", "%s: at most %d calls in one turn.", at.name,
                         LF_MESSAGE_CALLS_N);
    if (!rd->r->limits->template.has_calls)
        return lf_refuse(rd->r->err, 400, at.name, "unsupported_parameter",
                         "%s: this model's chat template has no calls of tools.", at.name);
    LF_TRY(read_text(&call->id, rd, item, "call_id"));
    LF_TRY(read_text(&call->name, rd, item, "name"));
    if (call->name.len == 0)
        return lf_place_expected(rd->r->err, name.name, lf_json_get(item, "name"), "a string that is not empty");
    if (lf_json_type(lf_json_get(item, "arguments")) != LF_JSON_STRING)
        return expected(rd, "arguments", lf_json_get(item, "arguments"), "the text of a JSON object");
    LF_TRY(lf_tools_arguments(&call->arguments, rd->r, lf_json_get(item, "arguments"), arguments.name));
    rd->n_calls++;
    m->n_calls++;
    return LF_OK;
}

/* The call that an output is of. Outputs usually come in the order of the calls. */
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

static enum lf_status read_output(struct reader *rd, struct lf_json_value item)
{
    struct lf_place at = place_of(rd, "call_id");
    struct lf_str id, text;
    LF_TRY(read_text(&id, rd, item, "call_id"));
    const struct lf_chat_call *call = find_call(rd, id);
    if (!call)
        return lf_refuse(rd->r->err, 400, at.name, "invalid_value", "%s: no function_call before it has this id, %s.",
                         at.name, lf_shown_json(lf_json_get(item, "call_id")).text);
    LF_TRY(read_content(&text, rd, item, "output", LF_NO_DOCUMENTS));
    struct lf_chat_message *m = next_message(rd, "tool");
    m->content = text;
    m->tool_call_id = id;
    m->name = call->name;
    return LF_OK;
}

/* What was thought and not shown says nothing to a model that did not write it: a summary, what is encrypted. */
static enum lf_status read_reasoning(struct reader *rd, struct lf_json_value item)
{
    struct lf_json_value content = lf_json_get(item, "content");
    struct lf_place at = place_of(rd, "content");
    struct lf_str text;
    if (lf_json_is_absent(content)) return LF_OK;
    if (lf_json_type(content) != LF_JSON_ARRAY) return expected(rd, "content", content, "an array of parts");
    if (lf_json_len(content) == 0) return LF_OK;
    LF_TRY(lf_message_parts_of(&text, rd->r, content, at.name, LF_NO_DOCUMENTS, &reasoning_parts));
    return join(&turn(rd)->reasoning_content, text, rd, &rd->reasoning_room);
}

/* ---- messages ---- */

static enum lf_status read_message(struct reader *rd, struct lf_json_value item)
{
    enum { USER, ASSISTANT, SYSTEM, DEVELOPER, ROLES_N };
    static const char *const roles[ROLES_N] = {"user", "assistant", "system", "developer"};
    struct lf_json_value v = lf_json_get(item, "role");
    struct lf_str text;
    int role = 0;
    while (role < ROLES_N && !lf_json_string_is(v, roles[role])) role++;
    if (role == ROLES_N) return expected(rd, "role", v, "user, assistant, system or developer");
    LF_TRY(read_content(&text, rd, item, "content", role == USER ? (int)rd->n : LF_NO_DOCUMENTS));
    if (role == ASSISTANT) return join(&turn(rd)->content, text, rd, &rd->content_room);
    if (role == DEVELOPER && !rd->r->limits->template.keep_developer) role = SYSTEM;
    next_message(rd, roles[role])->content = text;
    return LF_OK;
}

static enum lf_status read_item(struct reader *rd, struct lf_json_value item)
{
    struct lf_json_value type = lf_json_get(item, "type");
    struct lf_place at = place_of(rd, "type");
    if (lf_json_type(item) != LF_JSON_OBJECT)
        return lf_ask_expected(rd->r, lf_place_at("%s[%d]", rd->at, rd->idx).name, item, "an object");
    if (lf_json_is_absent(type) || lf_json_string_is(type, "message")) return read_message(rd, item);
    if (lf_json_string_is(type, "function_call")) return read_call(rd, item);
    if (lf_json_string_is(type, "function_call_output")) return read_output(rd, item);
    if (lf_json_string_is(type, "reasoning")) return read_reasoning(rd, item);
    return lf_refuse(rd->r->err, 400, at.name, "unsupported_content",
                     "%s: only message, function_call, function_call_output and reasoning are understood, got %s.",
                     at.name, lf_shown_json(type).text);
}

static enum lf_status read_items(struct reader *rd, const char *at, struct lf_json_value items)
{
    rd->at = at;
    rd->idx = 0;
    for (struct lf_json_value it = lf_json_first(items); lf_json_more(items, it);
         it = lf_json_next(items, it), rd->idx++)
        LF_TRY(read_item(rd, it));
    return LF_OK;
}

/* ---- what it goes on from ---- */

/* An array that was stored. It borrows the response, to which the ask has a reference. */
static enum lf_status parse_stored(struct lf_reading *r, struct lf_str text)
{
    struct lf_ask *ask = r->ask;
    struct lf_json_limits limits = lf_json_limits_request;
    struct lf_err why = {0};
    limits.max_nodes -= ask->n_argument_nodes; /* together no more than one body may have */
    struct lf_json *json = &ask->stored[ask->n_stored];
    enum lf_status status = lf_json_parse_in(json, text, &limits, r->limits->work, &why);
    if (status == LF_OK) {
        ask->n_stored++;
        ask->n_argument_nodes += json->n_nodes;
        return LF_OK;
    }
    *json = (struct lf_json){0};
    if (status == LF_NO_MEMORY || status == LF_CANCELLED || status == LF_TIMEOUT) return lf_refuse_work(r->err, status);
    return lf_refuse(r->err, 400, "previous_response_id", "too_many_messages",
                     "previous_response_id: the conversation has more values than one body may have.");
}

/* The conversation's inputs and outputs, from its beginning on. */
static enum lf_status parse_conversation(struct lf_reading *r)
{
    struct lf_ask *ask = r->ask;
    size_t n = 0, i;
    for (const struct lf_response *p = ask->previous; p; p = lf_response_previous(p)) n++;
    if (n == 0) return LF_OK;
    const struct lf_response **all = lf_arena_array(&ask->arena, n, sizeof *all);
    ask->stored = lf_arena_array(&ask->arena, 2 * n, sizeof *ask->stored);
    if (!all || !ask->stored) return lf_refuse_work(r->err, LF_NO_MEMORY);
    i = n;
    for (const struct lf_response *p = ask->previous; p; p = lf_response_previous(p)) all[--i] = p;
    for (i = 0; i < n; i++) {
        LF_TRY(parse_stored(r, lf_response_input(all[i])));
        LF_TRY(parse_stored(r, lf_response_output(all[i])));
    }
    return LF_OK;
}

static enum lf_status make_room(struct reader *rd, size_t n)
{
    struct lf_ask *ask = rd->r->ask;
    for (size_t i = 0; i < ask->n_stored; i++) n += lf_json_len(lf_json_root(&ask->stored[i]));
    if (n > LF_MESSAGES_N)
        return lf_refuse(rd->r->err, 400, "input", "too_many_messages", "input: at most %d items%s, got %zu.",
                         LF_MESSAGES_N, ask->n_stored ? " in a conversation" : "", n);
    rd->all = lf_arena_array(&ask->arena, n + 1, sizeof *rd->all);
    rd->calls = lf_arena_array(&ask->arena, n + 1, sizeof *rd->calls);
    ask->arguments = lf_arena_array(&ask->arena, n + 1, sizeof *ask->arguments);
    return rd->all && rd->calls && ask->arguments ? LF_OK : lf_refuse_work(rd->r->err, LF_NO_MEMORY);
}

enum lf_status lf_responses_input_read(struct lf_reading *r, struct lf_json_value input)
{
    struct reader rd = {.r = r};
    bool is_text = lf_json_type(input) == LF_JSON_STRING;
    if (!is_text && (lf_json_type(input) != LF_JSON_ARRAY || lf_json_len(input) == 0))
        return lf_ask_expected(r, "input", input, "a string or an array with at least one item");
    LF_TRY(parse_conversation(r));
    LF_TRY(make_room(&rd, is_text ? 1 : lf_json_len(input)));
    for (size_t i = 0; i < r->ask->n_stored; i++)
        LF_TRY(read_items(&rd, "previous_response_id", lf_json_root(&r->ask->stored[i])));
    if (is_text)
        LF_TRY(lf_ask_text(r->ask, &next_message(&rd, "user")->content, input, "input", r->err));
    else
        LF_TRY(read_items(&rd, "input", input));
    if (rd.n == 0)
        return lf_refuse(r->err, 400, "input", "invalid_value", "input: expected an item with something to say.");
    r->ask->messages = rd.all;
    r->ask->n_messages = rd.n;
    return LF_OK;
}

enum lf_status lf_responses_add_instructions(struct lf_reading *r, struct lf_json_value instructions)
{
    struct lf_chat_message *first = lf_document_parts_prepend(r->ask);
    if (!first) return lf_refuse_work(r->err, LF_NO_MEMORY);
    first->role = LF_STR("system");
    first->has_content = true;
    return lf_ask_text(r->ask, &first->content, instructions, "instructions", r->err);
}
