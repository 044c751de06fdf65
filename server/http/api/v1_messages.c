/* /v1/messages: Anthropic's form of a chat, as far as it is text.
 *
 * The system prompt stands beside the messages and becomes the first of them. A stream has named events, and one
 * content block whose text comes in deltas. Input tokens are counted without those that came from the prefix cache; how
 * many did is known only once the request has been admitted, so a stream's first event counts all of them as input, and
 * its last corrects it. */
#include "core/check.h"
#include "core/json.h"
#include "server/http/api/messages.h"
#include "server/http/api/openai_json.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/shown.h"
#include "server/http/api/unsupported_fields.h"

/* ---- the request ---- */

static enum lf_status read_messages(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY || lf_json_len(v) == 0 || lf_json_len(v) > LF_MESSAGES_N)
        return lf_ask_expected(r, name, v, "an array with one message or more, 2,048 at most");
    struct lf_ask *ask = r->ask;
    LF_TRY(lf_messages_read(&ask->messages, &ask->n_messages, v, true, &ask->arena, r->err));
    for (size_t i = 0; i < ask->n_messages; i++) {
        struct lf_json_value role = lf_json_get(ask->messages[i].more, "role");
        bool user = lf_json_string_is(role, "user");
        if (!user && !lf_json_string_is(role, "assistant"))
            return lf_refuse(r->err, 400, name, "invalid_value",
                             "messages[%zu].role: expected user or assistant, got %s.", i, lf_shown_json(role).text);
        if (!user && i + 1 == ask->n_messages)
            return lf_refuse(r->err, 400, name, "unsupported_parameter",
                             "messages: the last one is the assistant's, and going on from it is not implemented.");
    }
    return LF_OK;
}

/* A string or an array of text blocks; read as a message's content is, and kept until the messages are there. */
static enum lf_status read_system(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_STRING && lf_json_type(v) != LF_JSON_ARRAY)
        return lf_ask_expected(r, name, v, "a string or an array of text blocks");
    r->ask->prompt = v;
    return LF_OK;
}

static enum lf_status read_thinking(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    return lf_json_string_is(lf_json_get(v, "type"), "disabled") ? LF_OK : lf_ask_unsupported(r, name);
}

static const struct lf_field fields[] = {
    {.name = "model",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = lf_ask_read_model,
     .type = "string",
     .help = "the model's id; there is one, and it may be left out"},
    {.name = "messages",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_messages,
     .range = {1, LF_MESSAGES_N},
     .type = "array of objects",
     .help = "the conversation: `role`, user or assistant, and `content`, a string or an array of text blocks; the "
             "last one is the user's; needed"},
    {.name = "system",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_system,
     .type = "string or array of text blocks",
     .help = "the system prompt"},
    {.name = "max_tokens",
     .asks = 1,
     .kind = LF_FIELD_INT,
     .at = LF_ASK_AT(max_tokens),
     .range = {1, LF_CONTEXT_TOKENS},
     .help = "longest answer; needed"},
    {.name = "stop_sequences",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = lf_ask_read_stop,
     .range = {1, LF_STOP_N},
     .type = "array of strings",
     .help = "the answer ends before the first of these"},
    {.name = "stream",
     .asks = 1,
     .kind = LF_FIELD_BOOL,
     .at = LF_ASK_AT(stream),
     .help = "the answer as server-sent events, as it is made"},
    {.name = "temperature",
     .asks = 1,
     .kind = LF_FIELD_FLOAT,
     .at = LF_ASK_AT(sampling.temperature),
     .range = {0, 1},
     .help = "0: the likeliest token each time"},
    {.name = "top_p",
     .asks = 1,
     .kind = LF_FIELD_FLOAT,
     .at = LF_ASK_AT(sampling.top_p),
     .range = {0, 1},
     .help = "only the likeliest tokens that together have this probability"},
    {.name = "top_k",
     .asks = 1,
     .kind = LF_FIELD_INT,
     .at = LF_ASK_AT(top_k),
     .range = {0, LF_VOCAB_N},
     .help = "only so many of the likeliest tokens; 0: all"},
    {.name = "thinking",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_thinking,
     .type = "object",
     .help = "only `{\"type\": \"disabled\"}`"},
};

static const struct lf_unsupported_field unsupported_rows[] = {
    {.name = "tools", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "tool_choice", .asks = 1},
    {.name = "output_config", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "output_format", .asks = 1},
    {.name = "mcp_servers", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "container", .asks = 1},
    {.name = "context_management", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "metadata", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "service_tier", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "cache_control", .asks = 1, .neutral = LF_NEUTRAL_ANY},

    /* what the chat of OpenAI's form has */
    {.name = "max_completion_tokens", .asks = 1, .instead = "max_tokens"},
    {.name = "stop", .asks = 1, .neutral = LF_NEUTRAL_EMPTY, .instead = "stop_sequences"},
    {.name = "n", .asks = 1, .neutral = LF_NEUTRAL_ONE},
    {.name = "best_of", .asks = 1, .neutral = LF_NEUTRAL_ONE},
    {.name = "seed", .asks = 1},
    {.name = "min_p", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "presence_penalty", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "frequency_penalty", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "repetition_penalty", .asks = 1, .neutral = LF_NEUTRAL_ONE},
    {.name = "logit_bias", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "min_tokens", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "ignore_eos", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "stop_token_ids", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "logprobs", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "top_logprobs", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "response_format", .asks = 1, .instead = "output_config"},
    {.name = "structured_outputs", .asks = 1, .neutral = LF_NEUTRAL_EMPTY, .instead = "output_config"},
    {.name = "guided_json", .asks = 1, .instead = "output_config"},
    {.name = "json_schema", .asks = 1, .instead = "output_config"},
    {.name = "guided_regex", .asks = 1},
    {.name = "guided_choice", .asks = 1},
    {.name = "guided_whitespace_pattern", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "modalities", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "function_call", .asks = 1},
    {.name = "chat_template_kwargs", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "add_generation_prompt", .asks = 1, .neutral = LF_NEUTRAL_TRUE},
    {.name = "return_progress", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "stream_options", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "cache_salt", .asks = 1},
    {.name = "priority", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
};

static const struct lf_unsupported_table unsupported = {unsupported_rows, (int)LF_N_ELEMS(unsupported_rows),
                                                        &lf_unsupported_openai, LF_ASK_CHAT};
static const struct lf_field_table table = {
    .title = "Anthropic", .fields = fields, .n_fields = (int)LF_N_ELEMS(fields), .unsupported = &unsupported};

/* Puts the system prompt before the messages. */
static enum lf_status add_system(struct lf_ask *ask, struct lf_json_value system, struct lf_api_err *err)
{
    struct lf_chat_message *all = lf_arena_array(&ask->arena, ask->n_messages + 1, sizeof *all);
    if (!all) return lf_refuse_work(err, LF_NO_MEMORY);
    memcpy(all + 1, ask->messages, ask->n_messages * sizeof *all);
    all[0].role = LF_STR("system");
    all[0].has_content = true;
    ask->messages = all;
    ask->n_messages++;
    if (lf_json_type(system) == LF_JSON_STRING) return lf_ask_text(ask, &all[0].content, system, "system", err);
    return lf_message_parts(&all[0].content, system, "system", &ask->arena, err);
}

static enum lf_status parse(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                            struct lf_api_err *err)
{
    struct lf_reading r = {ask, limits, err};
    lf_ask_init(ask, limits);
    LF_TRY(lf_ask_read_fields(&r, &table, 1, json));
    if (!ask->messages) return lf_refuse(err, 400, "messages", "missing_parameter", "messages: this field is needed.");
    if (ask->max_tokens == LF_ABSENT)
        return lf_refuse(err, 400, "max_tokens", "missing_parameter", "max_tokens: this field is needed.");
    ask->sampling.top_k = (int32_t)ask->top_k;
    struct lf_json_value system = ask->prompt;
    ask->prompt = (struct lf_json_value){0};
    return lf_json_type(system) == LF_JSON_NONE ? LF_OK : add_system(ask, system, err);
}

/* ---- what stream and whole have in common ---- */

static void write_message(struct lf_buf *out, const struct lf_generation *gen)
{
    lf_buf_printf(out, "{\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", gen->id);
    lf_json_write_string(out, lf_str_c(gen->model));
    lf_buf_cstr(out, ",\"content\":[");
}

static void write_stop(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    const struct lf_choice *c = &gen->choices[idx];
    bool length = strcmp(c->finish, "length") == 0;
    lf_buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":",
                  length                 ? "max_tokens"
                  : c->stop.matched >= 0 ? "stop_sequence"
                                         : "end_turn");
    if (c->stop.matched >= 0)
        lf_json_write_string(out, gen->ask.stops[c->stop.matched]);
    else
        lf_buf_cstr(out, "null");
}

static void write_usage(struct lf_buf *out, const struct lf_generation *gen)
{
    struct lf_totals t = lf_totals_of(gen);
    lf_buf_printf(out,
                  "\"usage\":{\"input_tokens\":%lld,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%lld,"
                  "\"output_tokens\":%lld}",
                  (long long)(t.n_prompt - t.n_cached), (long long)t.n_cached, (long long)t.n_completion);
}

static const char *error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

static void error(struct lf_buf *out, const struct lf_api_err *err)
{
    lf_buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", error_type(err->status));
    lf_json_write_string(out, lf_str_c(err->message));
    lf_buf_cstr(out, "}}");
}

/* ---- a stream ---- */

static void begin_stream(struct lf_buf *out, struct lf_generation *gen)
{
    lf_buf_cstr(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    write_message(out, gen);
    lf_buf_printf(out,
                  "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%lld,\"output_tokens\":0}}"
                  "}\n\n",
                  (long long)gen->n_prompt_tokens);
    lf_buf_cstr(out, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
                     "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
}

static void delta(struct lf_buf *out, const struct lf_generation *gen, int idx, struct lf_str text)
{
    (void)gen;
    (void)idx;
    lf_buf_cstr(out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
                     "\"delta\":{\"type\":\"text_delta\",\"text\":");
    lf_json_write_string(out, text);
    lf_buf_cstr(out, "}}\n\n");
}

static void finish(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    lf_buf_cstr(out, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
                     "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
    write_stop(out, gen, idx);
    lf_buf_cstr(out, "},");
    write_usage(out, gen);
    lf_buf_cstr(out, "}\n\n");
}

static void end_stream(struct lf_buf *out, const struct lf_generation *gen)
{
    (void)gen;
    lf_buf_cstr(out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void error_event(struct lf_buf *out, const struct lf_api_err *err)
{
    lf_buf_cstr(out, "event: error\ndata: ");
    error(out, err);
    lf_buf_cstr(out, "\n\n");
}

static void ping(struct lf_buf *out, const struct lf_generation *gen)
{
    (void)gen;
    lf_buf_cstr(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

/* ---- whole ---- */

static void begin_whole(struct lf_buf *out, struct lf_generation *gen)
{
    write_message(out, gen);
}

static void open(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    (void)gen;
    (void)idx;
    lf_buf_cstr(out, "{\"type\":\"text\",\"text\":\"");
}

static void shut(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    (void)gen;
    (void)idx;
    lf_buf_cstr(out, "\"}],");
}

static void end_whole(struct lf_buf *out, const struct lf_generation *gen)
{
    struct lf_totals t = lf_totals_of(gen);
    lf_buf_char(out, ',');
    write_usage(out, gen);
    lf_buf_char(out, ',');
    lf_openai_write_timings(out, gen, &t);
    lf_buf_char(out, '}');
}

static const struct lf_printer stream = {
    .begin = begin_stream,
    .delta = delta,
    .finish = finish,
    .end = end_stream,
    .error = error_event,
    .nothing = ping,
};
static const struct lf_printer whole = {
    .begin = begin_whole,
    .open = open,
    .delta = lf_openai_text,
    .shut = shut,
    .finish = write_stop,
    .end = end_whole,
    .error = error,
};

const struct lf_dialect lf_dialect_messages = {
    .fields = &table,
    .endpoint = 1,
    .text_param = "messages",
    .parse = parse,
    .stream = &stream,
    .whole = &whole,
};
