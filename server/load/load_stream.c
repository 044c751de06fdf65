#include "server/load/load_stream.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/json.h"

void lf_load_stream_init(struct lf_load_stream *s, enum lf_load_dialect dialect, struct lf_buf *text)
{
    *s = (struct lf_load_stream){.dialect = dialect, .text = text};
}

/* The first thing that is wrong is what is said. */
static void complain(struct lf_load_stream *s, const char *fmt, ...) LF_PRINTF(2, 3);

static void complain(struct lf_load_stream *s, const char *fmt, ...)
{
    va_list args;
    if (s->wrong[0]) return;
    va_start(args, fmt);
    vsnprintf(s->wrong, sizeof s->wrong, fmt, args);
    va_end(args);
}

static bool is_object(struct lf_json_value v)
{
    return lf_json_type(v) == LF_JSON_OBJECT;
}

static void take_text(struct lf_load_stream *s, struct lf_json_value text)
{
    if (s->text && lf_json_type(text) == LF_JSON_STRING) (void)lf_json_string(text, s->text);
}

static void take_count(struct lf_load_stream *s, struct lf_json_value usage, const char *name, int64_t *out)
{
    int64_t n;
    if (!lf_json_int64(lf_json_get(usage, name), &n) || n < 0)
        complain(s, "%s without %s", s->dialect == LF_LOAD_DOCUMENT ? "a document" : "usage", name);
    else
        *out = n;
}

/* {"error": {"message": …}}, which all forms have in the middle of a stream. */
static bool take_error(struct lf_load_stream *s, struct lf_json_value root)
{
    struct lf_json_value error = lf_json_get(root, "error");
    struct lf_buf message;
    if (!is_object(error)) return false;
    lf_buf_init(&message, LF_LOAD_WRONG_BYTES - 32);
    bool said = lf_json_string(lf_json_get(error, "message"), &message);
    complain(s, "the stream broke off: %s", said ? lf_buf_view(&message).ptr : "an error");
    lf_buf_deinit(&message);
    return true;
}

/* ---- OpenAI's two ---- */

static void take_openai_usage(struct lf_load_stream *s, struct lf_json_value usage)
{
    int64_t n_cached;
    take_count(s, usage, "completion_tokens", &s->n_tokens);
    take_count(s, usage, "prompt_tokens", &s->n_prompt);
    if (lf_json_int64(lf_json_get(lf_json_get(usage, "prompt_tokens_details"), "cached_tokens"), &n_cached))
        s->n_cached = n_cached;
    s->counted = true;
}

/* A non-empty text, or a call. */
static bool has_part(struct lf_json_value delta)
{
    static const char *const texts[] = {"content", "reasoning_content", "reasoning", "refusal"};
    for (size_t i = 0; i < LF_N_ELEMS(texts); i++) {
        struct lf_json_value text = lf_json_get(delta, texts[i]);
        if (lf_json_type(text) == LF_JSON_STRING && !lf_json_string_is(text, "")) return true;
    }
    return lf_json_len(lf_json_get(delta, "tool_calls")) > 0;
}

static bool take_choice(struct lf_load_stream *s, struct lf_json_value choice)
{
    struct lf_json_value text = lf_json_get(choice, "text"), delta = lf_json_get(choice, "delta");
    bool chat = s->dialect == LF_LOAD_CHAT;
    if (chat ? !is_object(delta) : lf_json_type(text) != LF_JSON_STRING)
        complain(s, "a choice without %s", chat ? "delta" : "text");
    if (s->finished) complain(s, "a choice behind its finish_reason");
    s->finished = lf_json_type(lf_json_get(choice, "finish_reason")) == LF_JSON_STRING;
    s->cut = lf_json_string_is(lf_json_get(choice, "finish_reason"), "length");
    take_text(s, chat ? lf_json_get(delta, "content") : text);
    return chat ? has_part(delta) : true;
}

static bool take_openai(struct lf_load_stream *s, struct lf_json_value root)
{
    bool part = false;
    struct lf_json_value choices = lf_json_get(root, "choices"), usage = lf_json_get(root, "usage");
    if (take_error(s, root)) return false;
    if (lf_json_type(choices) != LF_JSON_ARRAY) complain(s, "an event without choices");
    for (struct lf_json_value it = lf_json_first(choices); lf_json_more(choices, it); it = lf_json_next(choices, it))
        part = take_choice(s, it) || part;
    if (is_object(usage)) take_openai_usage(s, usage);
    s->began = true;
    return part;
}

/* ---- OpenAI's responses, and Anthropic's: events with names ---- */

static bool has_names(const struct lf_load_stream *s)
{
    return s->dialect == LF_LOAD_RESPONSES || s->dialect == LF_LOAD_MESSAGES;
}

/* What the last event says of the whole response. */
static void take_response(struct lf_load_stream *s, struct lf_json_value response, bool cut)
{
    struct lf_json_value usage = lf_json_get(response, "usage");
    if (!is_object(usage)) complain(s, "an event without usage");
    take_count(s, usage, "output_tokens", &s->n_tokens);
    take_count(s, usage, "input_tokens", &s->n_prompt);
    (void)lf_json_int64(lf_json_get(lf_json_get(usage, "input_tokens_details"), "cached_tokens"), &s->n_cached);
    s->counted = s->finished = s->ended = true;
    s->cut = cut;
}

static void check_number(struct lf_load_stream *s, struct lf_json_value root)
{
    int64_t n;
    if (!lf_json_int64(lf_json_get(root, "sequence_number"), &n) || n != s->n_events)
        complain(s, "an event whose sequence_number is not %lld", (long long)s->n_events);
    s->n_events++;
}

static bool take_responses(struct lf_load_stream *s, struct lf_json_value root)
{
    static const char *const deltas[] = {"response.output_text.delta", "response.reasoning_text.delta",
                                         "response.function_call_arguments.delta"};
    struct lf_json_value type = lf_json_get(root, "type"), response = lf_json_get(root, "response"),
                         delta = lf_json_get(root, "delta");
    if (!lf_json_string_is(type, s->event)) complain(s, "data of another type than its event, %s", s->event);
    s->event[0] = '\0';
    if (take_error(s, root) || take_error(s, response)) return false;
    check_number(s, root);
    bool start = lf_json_string_is(type, "response.created"), whole = lf_json_string_is(type, "response.completed");
    if (start == s->began) complain(s, s->began ? "a second response.created" : "an event before response.created");
    s->began = true;
    if (whole || lf_json_string_is(type, "response.incomplete")) take_response(s, response, !whole);
    for (size_t i = 0; i < LF_N_ELEMS(deltas); i++) {
        if (!lf_json_string_is(type, deltas[i])) continue;
        if (lf_json_type(delta) != LF_JSON_STRING) complain(s, "a delta that is no text");
        if (i == 0) take_text(s, delta);
        return true;
    }
    return false;
}

static void take_messages_usage(struct lf_load_stream *s, struct lf_json_value usage, bool first)
{
    int64_t n_input, n_cached = 0, n_written = 0;
    if (!is_object(usage)) complain(s, "an event without usage");
    take_count(s, usage, "output_tokens", &s->n_tokens);
    bool says = lf_json_int64(lf_json_get(usage, "input_tokens"), &n_input);
    if (first && !says) complain(s, "usage without input_tokens");
    if (!says) return;
    (void)lf_json_int64(lf_json_get(usage, "cache_read_input_tokens"), &n_cached);
    (void)lf_json_int64(lf_json_get(usage, "cache_creation_input_tokens"), &n_written);
    s->n_prompt = n_input + n_cached + n_written;
    s->n_cached = n_cached;
}

static bool take_messages(struct lf_load_stream *s, struct lf_json_value root)
{
    struct lf_json_value type = lf_json_get(root, "type");
    if (!lf_json_string_is(type, s->event)) complain(s, "data of another type than its event, %s", s->event);
    s->event[0] = '\0';
    if (take_error(s, root)) return false;
    bool start = lf_json_string_is(type, "message_start");
    if (start == s->began) complain(s, s->began ? "a second message_start" : "an event before message_start");
    s->began = true;
    if (start) {
        take_messages_usage(s, lf_json_get(lf_json_get(root, "message"), "usage"), true);
    } else if (lf_json_string_is(type, "message_delta")) {
        take_messages_usage(s, lf_json_get(root, "usage"), false);
        s->counted = true;
        struct lf_json_value reason = lf_json_get(lf_json_get(root, "delta"), "stop_reason");
        s->finished = lf_json_type(reason) == LF_JSON_STRING;
        s->cut = lf_json_string_is(reason, "max_tokens");
    } else if (lf_json_string_is(type, "message_stop")) {
        s->ended = true;
    } else if (lf_json_string_is(type, "content_block_delta")) {
        if (!is_object(lf_json_get(root, "delta"))) complain(s, "a content_block_delta without delta");
        take_text(s, lf_json_get(lf_json_get(root, "delta"), "text"));
        return true;
    }
    return false;
}

/* ---- a document that is put ---- */

static void take_document(struct lf_load_stream *s, struct lf_json_value root)
{
    struct lf_json_value state = lf_json_get(root, "state");
    if (take_error(s, root)) return;
    if (s->finished) complain(s, "a state behind the last one");
    s->finished = lf_json_string_is(state, "ready");
    if (!s->finished && !lf_json_string_is(state, "reading")) complain(s, "an event without a state");
    take_count(s, root, "tokens", &s->n_prompt);
    s->counted = true;
}

/* ---- lines ---- */

static bool take_data(struct lf_load_stream *s, struct lf_str data)
{
    struct lf_json json = {0};
    bool part = false;
    if (s->ended) complain(s, "an event behind the last one");
    if (!has_names(s) && lf_str_eq(data, LF_STR("[DONE]"))) {
        s->ended = true;
        return false;
    }
    if (lf_json_parse(&json, data, &lf_json_limits_request, NULL) != LF_OK || !is_object(lf_json_root(&json))) {
        complain(s, "an event that is no JSON object");
    } else {
        struct lf_json_value root = lf_json_root(&json);
        if (s->dialect == LF_LOAD_DOCUMENT)
            take_document(s, root);
        else if (s->dialect == LF_LOAD_RESPONSES)
            part = take_responses(s, root);
        else
            part = s->dialect == LF_LOAD_MESSAGES ? take_messages(s, root) : take_openai(s, root);
    }
    lf_json_deinit(&json);
    return part;
}

static void take_event_name(struct lf_load_stream *s, struct lf_str name)
{
    if (!has_names(s)) complain(s, "an event with a name");
    if (name.len == 0 || name.len >= sizeof s->event) complain(s, "an event's name of %zu bytes", name.len);
    snprintf(s->event, sizeof s->event, "%.*s", (int)LF_MIN(name.len, sizeof s->event - 1), name.ptr);
}

/* What is behind a field's name and colon, and the one space that may follow. */
static bool has_field(struct lf_str line, struct lf_str name, struct lf_str *value)
{
    if (!lf_str_starts(line, name)) return false;
    size_t at = name.len;
    if (at < line.len && line.ptr[at] == ' ') at++;
    *value = lf_str_from(line.ptr + at, line.len - at);
    return true;
}

bool lf_load_stream_line(struct lf_load_stream *s, struct lf_str line)
{
    struct lf_str value;
    if (line.len > 0 && line.ptr[line.len - 1] == '\r') line.len--;
    if (line.len == 0 || line.ptr[0] == ':') return false; /* an event's end, a comment */
    if (has_field(line, LF_STR("data:"), &value)) return take_data(s, value);
    if (has_field(line, LF_STR("event:"), &value))
        take_event_name(s, value);
    else
        complain(s, "a line that is neither data nor an event's name");
    return false;
}

const char *lf_load_stream_end(struct lf_load_stream *s)
{
    if (!s->ended) complain(s, "the stream broke off");
    if (!s->finished) complain(s, "an answer without a reason for its end");
    if (!s->counted) complain(s, "a stream without usage");
    return s->wrong[0] ? s->wrong : NULL;
}
