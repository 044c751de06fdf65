/* /v1/responses: OpenAI's newer form of a chat. Items instead of messages, and an answer that is an array of them.
 *
 * A response repeats what it was asked, in each of a stream's events that have it: so that is written once, as JSON,
 * when the request is read, and kept with it. */
#include "core/check.h"
#include "core/clock.h"
#include "server/http/api/dialect.h"
#include "server/http/api/document_parts.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/place.h"
#include "server/http/api/response_store.h"
#include "server/http/api/responses_input.h"
#include "server/http/api/responses_json.h"
#include "server/http/api/routes.h"
#include "server/http/api/shown.h"
#include "server/http/api/prediction.h"
#include "server/http/api/speculate.h"
#include "server/http/api/tools.h"
#include "server/http/api/unsupported_fields.h"
#include "server/http/conn/exchange.h"
#include "server/http/conn/server.h"
#include "template/chat_template.h"

enum { METADATA_N = 16, METADATA_NAME_BYTES = 64, METADATA_VALUE_BYTES = 512, REPEATED_BYTES = 1024 * 1024 * 1024 };

/* Both are read once all fields are known: what they go on from may stand behind them. */
static enum lf_status check_input(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) == LF_JSON_STRING || lf_json_type(v) == LF_JSON_ARRAY) return LF_OK;
    return lf_ask_expected(r, name, v, "a string or an array with at least one item");
}

static enum lf_status check_instructions(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    return lf_json_type(v) == LF_JSON_STRING ? LF_OK : lf_ask_expected(r, name, v, "a string");
}

static enum lf_status read_previous(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    struct lf_str id;
    LF_TRY(lf_ask_text(ask, &id, v, name, r->err));
    ask->responses = r->limits->responses;
    if (ask->responses) ask->previous = lf_response_find(ask->responses, r->limits->tenant, id, lf_clock_unix_s());
    if (!ask->previous)
        return lf_refuse(r->err, 404, name, "previous_response_not_found",
                         "%s: there is no stored response of this id, %s.", name, lf_shown_json(v).text);
    if (lf_response_conversation_bytes(ask->previous) <= r->limits->document_bytes) return LF_OK;
    return lf_refuse(r->err, 413, name, "body_too_large",
                     "%s: the conversation has more bytes than a body may have (--max-body).", name);
}

/* ---- tools ---- */

/* Of a tool: what is run by others than who asked, and what else the model would be shown of it. */
static enum lf_status check_tool_extras(struct lf_reading *r, int idx, struct lf_json_value v)
{
    static const struct lf_unsupported_field members[] = {
        {.name = "allowed_callers", .neutral = LF_NEUTRAL_EMPTY},
        {.name = "async", .neutral = LF_NEUTRAL_FALSE},
        {.name = "defer_loading", .neutral = LF_NEUTRAL_FALSE},
        {.name = "output_schema", .neutral = LF_NEUTRAL_NONE},
    };
    struct lf_json_value callers = lf_json_get(v, "allowed_callers");
    bool is_direct = lf_json_len(callers) == 1 && lf_json_string_is(lf_json_first(callers), "direct");
    for (size_t i = 0; i < LF_N_ELEMS(members); i++) {
        struct lf_json_value member = lf_json_get(v, members[i].name);
        if (lf_unsupported_is_neutral(&members[i], member) || (is_direct && member.idx == callers.idx)) continue;
        return lf_unsupported_refuse(r->err, lf_place_at("tools[%d].%s", idx, members[i].name).name, false, NULL);
    }
    return LF_OK;
}

/* {"type": "function", "name", "description", "parameters", "strict"}; what has another type is run by OpenAI's
 * servers. */
static enum lf_status read_tool(struct lf_reading *r, struct lf_chat_tool *out, int idx, struct lf_json_value v)
{
    struct lf_json_value type = lf_json_get(v, "type"), text = lf_json_get(v, "description");
    struct lf_place at = lf_place_at("tools[%d]", idx), member = lf_place_at("%s.type", at.name);
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, at.name, v, "an object");
    if (!lf_json_string_is(type, "function"))
        return lf_refuse(r->err, 400, member.name, "unsupported_parameter",
                         "%s: only tools of your own (function) are implemented, got %s.", member.name,
                         lf_shown_json(type).text);
    LF_TRY(check_tool_extras(r, idx, v));
    LF_TRY(lf_tools_add(r, &(struct lf_tool_values){at.name, "parameters", v}));
    out->name = r->ask->tools[idx].name;
    if (!lf_json_is_absent(lf_json_get(v, "parameters"))) out->parameters = lf_json_get(v, "parameters");
    if (lf_json_is_absent(text)) return LF_OK;
    member = lf_place_at("%s.description", at.name);
    return lf_ask_text(r->ask, &out->description, text, member.name, r->err);
}

static enum lf_status read_tools(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    int n = 0;
    LF_TRY(lf_tools_begin(r, name, v));
    if (lf_json_len(v) == 0) return LF_OK;
    struct lf_chat_tool *made = lf_arena_array(&ask->arena, lf_json_len(v), sizeof *made);
    if (!made) return lf_refuse_work(r->err, LF_NO_MEMORY);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it), n++)
        LF_TRY(read_tool(r, &made[n], n, it));
    ask->made_tools = made;
    ask->n_made_tools = (size_t)n;
    return lf_tools_are_known(r->limits, name, r->err);
}

/* ---- reasoning and text ---- */

/* A summary is what OpenAI shows of reasoning that it does not show; here all of it is shown. */
static enum lf_status read_reasoning(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    static const struct lf_unsupported_field members[] = {{.name = "context"}, {.name = "mode"}};
    struct lf_json_value effort = lf_json_get(v, "effort");
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    for (size_t i = 0; i < LF_N_ELEMS(members); i++) {
        struct lf_json_value member = lf_json_get(v, members[i].name);
        bool is_default = lf_json_string_is(member, "auto") || lf_json_string_is(member, "standard");
        if (lf_json_is_absent(member) || is_default) continue;
        return lf_unsupported_refuse(r->err, lf_place_at("reasoning.%s", members[i].name).name, false, NULL);
    }
    return lf_json_is_absent(effort) ? LF_OK : lf_tools_read_effort(r, "reasoning.effort", effort);
}

static enum lf_status read_text(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_json_value format = lf_json_get(v, "format"), verbosity = lf_json_get(v, "verbosity");
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    if (!lf_json_is_absent(verbosity) && !lf_json_string_is(verbosity, "medium"))
        return lf_unsupported_refuse(r->err, "text.verbosity", false, NULL);
    return lf_json_is_absent(format) ? LF_OK : lf_format_read_text_format(r, "text.format", format);
}

/* ---- what does not touch the answer ---- */

static enum lf_status read_metadata(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object of strings");
    if (lf_json_len(v) > METADATA_N)
        return lf_refuse(r->err, 400, name, "invalid_value", "%s: at most %d members, got %u.", name, METADATA_N,
                         lf_json_len(v));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        struct lf_json_value value = lf_json_member(it);
        if (lf_json_type(value) != LF_JSON_STRING) return lf_ask_expected(r, name, value, "an object of strings");
        if (lf_json_raw(it).len > METADATA_NAME_BYTES || lf_json_raw(value).len > METADATA_VALUE_BYTES)
            return lf_refuse(r->err, 400, name, "invalid_value", "%s: at most %d bytes in a name and %d in a string.",
                             name, METADATA_NAME_BYTES, METADATA_VALUE_BYTES);
    }
    return LF_OK;
}

/* What else an answer could have is of tools that there are none of, but for log-probabilities. */
static enum lf_status read_include(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY) return lf_ask_expected(r, name, v, "an array of strings");
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        if (lf_json_type(it) != LF_JSON_STRING) return lf_ask_expected(r, name, it, "an array of strings");
        if (lf_json_string_is(it, "message.output_text.logprobs")) return lf_ask_unsupported(r, name);
    }
    return LF_OK;
}

static const struct lf_field fields[] = {
    {.name = "model",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = lf_ask_read_model,
     .type = "string",
     .help = "the model's id; there is one, and it may be left out"},
    {.name = "input",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = check_input,
     .range = {1, LF_MESSAGES_N},
     .type = "string or array of items",
     .help =
         "what is asked: a text of the user's, or items: messages (`role` user, assistant, system or developer, and "
         "`content`, a string or parts of type input_text and output_text and, of the user's, documents: "
         "`{\"type\": \"input_file\", \"file_id\": \"ID\"}` or `{\"type\": \"document\", \"name\": \"ID\"}`, as "
         "`/v1/chat/completions` has them), function_call, function_call_output and reasoning, as a response has them "
         "in its `output`; needed"},
    {.name = "instructions",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = check_instructions,
     .type = "string",
     .help = "a system prompt before the items; those of a previous response do not hold any more"},
    {.name = "previous_response_id",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_previous,
     .type = "string",
     .help = "the `id` of a stored response of the same key: its conversation, input and output, comes before `input`"},
    {.name = "store",
     .asks = 1,
     .kind = LF_FIELD_BOOL,
     .at = LF_ASK_AT(store),
     .help =
         "the response is kept for a day, for `GET` and `previous_response_id`, unless `--response-memory` needs its "
         "room for others; it is not where its `store` is false"},
    {.name = "max_output_tokens",
     .asks = 1,
     .kind = LF_FIELD_INT,
     .at = LF_ASK_AT(max_tokens),
     .range = {1, LF_CONTEXT_TOKENS},
     .help = "longest answer, with its reasoning; without it what is left of the context"},
    {.name = "stream",
     .asks = 1,
     .kind = LF_FIELD_BOOL,
     .at = LF_ASK_AT(stream),
     .help = "the response as server-sent events, as it is made"},
    {.name = "temperature",
     .asks = 1,
     .kind = LF_FIELD_FLOAT,
     .at = LF_ASK_AT(sampling.temperature),
     .range = {0, 2},
     .help = "0: the likeliest token each time"},
    {.name = "top_p",
     .asks = 1,
     .kind = LF_FIELD_FLOAT,
     .at = LF_ASK_AT(sampling.top_p),
     .range = {0, 1},
     .help = "only the likeliest tokens that together have this probability"},
    {.name = "text",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_text,
     .type = "object",
     .help =
         "`format`: `type` `text`, `json_object`, or `json_schema` with `name`, `schema` and `strict`: what the text "
         "of the answer is, as `response_format` of `/v1/chat/completions`; `verbosity`: only medium"},
    {.name = "reasoning",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_reasoning,
     .type = "object",
     .help =
         "`effort`: as `reasoning_effort` of `/v1/chat/completions`; `summary`: any, for what the model reasoned is "
         "in the answer whole"},
    {.name = "tools",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_tools,
     .range = {0, LF_TOOLS_N},
     .type = "array of objects",
     .help = "functions that the model may call: `type` function, `name`, `description`, `parameters`, `strict` (false "
             "unless given); the model's template writes them. Tools of other types are refused"},
    {.name = "tool_choice",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = lf_tools_read_choice,
     .type = "string or object",
     .help = "`\"auto\"` (the default beside tools), `\"none\"`, `\"required\"`, one tool: `{\"type\": \"function\", "
             "\"name\": …}`, or some: `{\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": […]}`"},
    {.name = "parallel_tool_calls",
     .asks = 1,
     .kind = LF_FIELD_BOOL,
     .at = LF_ASK_AT(parallel_tool_calls),
     .help = "an answer may call more than one tool"},
    {.name = "speculate",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = lf_speculate_read,
     .type = lf_speculate_type,
     .help = lf_speculate_help},
    {.name = "prediction",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = lf_prediction_read,
     .type = lf_prediction_type,
     .help = lf_prediction_help},
    {.name = "metadata",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_metadata,
     .type = "object of up to 16 strings",
     .help = "comes back in the response"},
    {.name = "include",
     .asks = 1,
     .kind = LF_FIELD_READ,
     .read = read_include,
     .type = "array of strings",
     .help = "what else the response has: nothing, and `message.output_text.logprobs` is refused"},
};

static const struct lf_unsupported_field unsupported_rows[] = {
    {.name = "truncation", .asks = 1, .neutral = LF_NEUTRAL_DISABLED},
    {.name = "background", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "background_options", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "conversation", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "context_management", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "prompt", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "image", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "access_programs", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "top_logprobs", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "max_tool_calls", .asks = 1, .neutral = LF_NEUTRAL_ANY}, /* of tools that are none here */
    {.name = "stream_options", .asks = 1, .neutral = LF_NEUTRAL_ANY}, /* obfuscation */
    {.name = "user", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "service_tier", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "safety_identifier", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "prompt_cache_key", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "prompt_cache_retention", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "prompt_cache_options", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "moderation", .asks = 1, .neutral = LF_NEUTRAL_ANY},

    /* what the chat of OpenAI's form has */
    {.name = "messages", .asks = 1, .neutral = LF_NEUTRAL_EMPTY, .instead = "input"},
    {.name = "max_tokens", .asks = 1, .instead = "max_output_tokens"},
    {.name = "max_completion_tokens", .asks = 1, .instead = "max_output_tokens"},
    {.name = "response_format", .asks = 1, .instead = "text"},
    {.name = "structured_outputs", .asks = 1, .neutral = LF_NEUTRAL_EMPTY, .instead = "text"},
    {.name = "guided_json", .asks = 1, .instead = "text"},
    {.name = "json_schema", .asks = 1, .instead = "text"},
    {.name = "guided_regex", .asks = 1},
    {.name = "guided_choice", .asks = 1},
    {.name = "guided_whitespace_pattern", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "reasoning_effort", .asks = 1, .instead = "reasoning"},
    {.name = "include_reasoning", .asks = 1, .neutral = LF_NEUTRAL_TRUE},
    {.name = "functions", .asks = 1, .neutral = LF_NEUTRAL_EMPTY, .instead = "tools"},
    {.name = "function_call", .asks = 1, .neutral = LF_NEUTRAL_DISABLED, .instead = "tool_choice"},
    {.name = "n", .asks = 1, .neutral = LF_NEUTRAL_ONE},
    {.name = "best_of", .asks = 1, .neutral = LF_NEUTRAL_ONE},
    {.name = "seed", .asks = 1},
    {.name = "stop", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "stop_token_ids", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "allowed_token_ids", .asks = 1},
    {.name = "bad_words", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "top_k", .asks = 1, .neutral = LF_NEUTRAL_ZERO | LF_NEUTRAL_MINUS_ONE},
    {.name = "min_p", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "presence_penalty", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "frequency_penalty", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "repetition_penalty", .asks = 1, .neutral = LF_NEUTRAL_ONE},
    {.name = "logit_bias", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "min_tokens", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
    {.name = "ignore_eos", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "logprobs", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "prompt_logprobs", .asks = 1},
    {.name = "modalities", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "chat_template_kwargs", .asks = 1, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "add_generation_prompt", .asks = 1, .neutral = LF_NEUTRAL_TRUE},
    {.name = "continue_final_message", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "skip_special_tokens", .asks = 1, .neutral = LF_NEUTRAL_TRUE},
    {.name = "echo", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "return_token_ids", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "return_tokens_as_token_ids", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "include_stop_str_in_output", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "return_progress", .asks = 1, .neutral = LF_NEUTRAL_FALSE},
    {.name = "request_id", .asks = 1, .neutral = LF_NEUTRAL_ANY},
    {.name = "cache_salt", .asks = 1},
    {.name = "priority", .asks = 1, .neutral = LF_NEUTRAL_ZERO},
};

static const struct lf_unsupported_table unsupported = {unsupported_rows, (int)LF_N_ELEMS(unsupported_rows),
                                                        &lf_unsupported_openai, LF_ASK_CHAT};
static const struct lf_field_table table = {
    .title = "OpenAI's responses", .fields = fields, .n_fields = (int)LF_N_ELEMS(fields), .unsupported = &unsupported};

/* ---- what a response repeats ---- */

/* A member as it came, or what holds without it. */
static void repeat(struct lf_buf *out, struct lf_json_value root, const char *name, const char *otherwise)
{
    struct lf_json_value v = lf_json_get(root, name);
    lf_buf_printf(out, "\"%s\":", name);
    if (lf_json_is_absent(v))
        lf_buf_cstr(out, otherwise);
    else
        lf_json_write_value(out, v);
    lf_buf_char(out, ',');
}

static void write_repeated(struct lf_buf *out, const struct lf_ask *ask, struct lf_json_value root)
{
    repeat(out, root, "instructions", "null");
    repeat(out, root, "max_output_tokens", "null");
    repeat(out, root, "metadata", "{}");
    repeat(out, root, "reasoning", "{\"effort\":null,\"summary\":null}");
    repeat(out, root, "text", "{\"format\":{\"type\":\"text\"}}");
    repeat(out, root, "tool_choice", "\"auto\"");
    repeat(out, root, "tools", "[]");
    lf_buf_printf(out, "\"temperature\":%g,\"top_p\":%g,\"parallel_tool_calls\":%s,", (double)ask->sampling.temperature,
                  (double)ask->sampling.top_p, ask->parallel_tool_calls ? "true" : "false");
    repeat(out, root, "previous_response_id", "null");
    lf_buf_printf(out, "\"store\":%s,\"truncation\":\"disabled\",\"background\":false",
                  ask->response ? "true" : "false");
}

static enum lf_status keep_repeated(struct lf_reading *r, struct lf_json_value root)
{
    struct lf_ask *ask = r->ask;
    struct lf_buf text;
    lf_buf_init_in(&text, REPEATED_BYTES, ask->arena.memory);
    write_repeated(&text, ask, root);
    char *copy = text.status == LF_OK ? lf_arena_strdup(&ask->arena, lf_buf_view(&text)) : NULL;
    ask->repeated = lf_str_from(copy, copy ? text.len : 0);
    lf_buf_deinit(&text);
    return copy ? LF_OK : lf_refuse_work(r->err, LF_NO_MEMORY);
}

/* ---- reading it all ---- */

/* What is stored is begun with its input, as long as that is there. Without room for it the response says so. */
static void begin_stored(struct lf_reading *r, struct lf_json_value input)
{
    enum { BESIDE_BYTES = 64 };
    struct lf_ask *ask = r->ask;
    ask->responses = r->limits->responses;
    if (!ask->store || !ask->responses) return;
    ask->response =
        lf_response_begin(ask->responses, r->limits->tenant, ask->previous, lf_json_raw(input).len + BESIDE_BYTES);
    if (!ask->response) return;
    bool is_text = lf_json_type(input) == LF_JSON_STRING;
    struct lf_buf *out = lf_response_input_buf(ask->response);
    if (is_text) lf_buf_cstr(out, "[{\"role\":\"user\",\"content\":");
    lf_json_write_value(out, input);
    if (is_text) lf_buf_cstr(out, "}]");
    if (out->status == LF_OK) return;
    lf_response_unref(ask->responses, ask->response);
    ask->response = NULL;
}

static enum lf_status parse(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                            struct lf_api_err *err)
{
    struct lf_reading r = {ask, limits, err};
    lf_ask_init(ask, limits);
    ask->messages_param = "input";
    LF_TRY(lf_ask_read_fields(&r, &table, 1, json));
    struct lf_json_value root = lf_json_root(json), input = lf_json_get(root, "input"),
                         instructions = lf_json_get(root, "instructions");
    if (lf_json_is_absent(input))
        return lf_refuse(err, 400, "input", "missing_parameter", "input: this field is needed.");
    LF_TRY(lf_responses_input_read(&r, input));
    begin_stored(&r, input);
    LF_TRY(keep_repeated(&r, root)); /* as it was asked: what follows settles what that means */
    LF_TRY(lf_tools_check(ask, true, err));
    ask->sampling.top_k = (int32_t)ask->top_k;
    if (!lf_json_is_absent(instructions)) LF_TRY(lf_responses_add_instructions(&r, instructions));
    return lf_document_parts_settle(ask, err);
}

/* ---- stored ones ---- */

static void reply_not_found(struct lf_exchange *x)
{
    struct lf_api_err err;
    (void)!lf_refuse(&err, 404, "response_id", "response_not_found", "There is no stored response of this id.");
    lf_reply_error(&x->reply, &err);
}

void lf_handle_response(struct lf_exchange *x)
{
    struct lf_response_store *store = x->server->responses;
    struct lf_response *r = lf_response_find(store, x->tenant.salt, x->tail, lf_clock_unix_s());
    if (!r) {
        reply_not_found(x);
        return;
    }
    lf_buf_str(lf_reply_json(&x->reply, 200), lf_response_text(r));
    lf_response_unref(store, r);
}

void lf_handle_response_delete(struct lf_exchange *x)
{
    if (!lf_response_remove(x->server->responses, x->tenant.salt, x->tail, lf_clock_unix_s())) {
        reply_not_found(x);
        return;
    }
    struct lf_buf *out = lf_reply_json(&x->reply, 200);
    lf_buf_cstr(out, "{\"id\":");
    lf_json_write_string(out, x->tail);
    lf_buf_cstr(out, ",\"object\":\"response\",\"deleted\":true}");
}

const struct lf_dialect lf_dialect_responses = {
    .fields = &table,
    .endpoint = 1,
    .text_param = "input",
    .fills_context = true,
    .talks = true,
    .parse = parse,
    .stream = &lf_responses_stream,
    .whole = &lf_responses_whole,
    .forget = lf_responses_forget,
};
