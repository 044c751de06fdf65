/* /v1/messages: Anthropic's form of a chat, and /v1/messages/count_tokens, its length before it is asked.
 *
 * The system prompt stands beside the messages and becomes the first of them. */
#include <stdio.h>

#include "core/check.h"
#include "core/json.h"
#include "server/http/api/anthropic_json.h"
#include "server/http/api/anthropic_messages.h"
#include "server/http/api/dialect.h"
#include "server/http/api/document_parts.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/place.h"
#include "server/http/api/shown.h"
#include "server/http/api/prediction.h"
#include "server/http/api/speculate.h"
#include "server/http/api/tools.h"
#include "server/http/api/unsupported_fields.h"
#include "template/chat_template.h"

/* ---- the request ---- */

enum { MESSAGES = 1, COUNT = 2, BOTH = MESSAGES | COUNT };

static enum lf_status read_messages(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY || lf_json_len(v) == 0 || lf_json_len(v) > LF_MESSAGES_N)
        return lf_ask_expected(r, name, v, "an array with one message or more, 2,048 at most");
    return lf_anthropic_messages_read(r, v);
}

/* A string or an array of text blocks; read as a message's content is, and kept until the messages are there. */
static enum lf_status read_system(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_STRING && lf_json_type(v) != LF_JSON_ARRAY)
        return lf_ask_expected(r, name, v, "a string or an array of text blocks");
    r->ask->prompt = v;
    return LF_OK;
}

/* ---- thinking ---- */

/* A wish, as it is at Anthropic: the model ends its thinking by itself, within max_tokens. */
static enum lf_status check_budget(struct lf_reading *r, struct lf_json_value v)
{
    int64_t n;
    if (lf_json_int64(v, &n) && n >= 1) return LF_OK;
    return lf_ask_expected(r, "thinking.budget_tokens", v, "an integer of at least 1");
}

static enum lf_status read_display(struct lf_reading *r, struct lf_json_value v)
{
    if (lf_json_string_is(v, "omitted"))
        r->ask->include_reasoning = false;
    else if (!lf_json_is_absent(v) && !lf_json_string_is(v, "summarized"))
        return lf_ask_expected(r, "thinking.display", v, "omitted or summarized");
    return LF_OK;
}

static enum lf_status refuse_thinking(struct lf_reading *r, const char *name, const char *why)
{
    return lf_refuse(r->err, 400, name, "unsupported_parameter", "%s: %s", name, why);
}

static enum lf_status read_thinking(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_json_value type = lf_json_get(v, "type");
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    bool reasons = lf_ask_reasons(r->limits), has_switch = r->limits->template.has_thinking;
    bool enabled = lf_json_string_is(type, "enabled"), now_and_then = lf_json_string_is(type, "between_tools");
    if (lf_json_string_is(type, "disabled")) {
        if (reasons && !has_switch)
            return refuse_thinking(r, name, "this model always thinks, its chat template has no switch for it.");
        r->ask->thinking = LF_SWITCH_OFF;
        return LF_OK;
    }
    if (!enabled && !now_and_then && !lf_json_string_is(type, "adaptive"))
        return lf_ask_expected(r, "thinking.type", type, "enabled, adaptive, between_tools or disabled");
    if (!reasons) return refuse_thinking(r, name, "this model's answers have no thinking.");
    if (enabled) LF_TRY(check_budget(r, lf_json_get(v, "budget_tokens")));
    r->ask->thinking = LF_SWITCH_ON;
    return read_display(r, lf_json_get(v, "display"));
}

/* ---- tools ---- */

/* Of a tool: who else may call it, what else the model is shown of it, and whether it is shown at all. */
static enum lf_status check_tool_extras(struct lf_reading *r, int idx, struct lf_json_value v)
{
    static const struct lf_unsupported_field members[] = {
        {.name = "input_examples", .neutral = LF_NEUTRAL_EMPTY},
        {.name = "defer_loading", .neutral = LF_NEUTRAL_FALSE},
        {.name = "allowed_callers", .neutral = LF_NEUTRAL_EMPTY},
    };
    struct lf_json_value callers = lf_json_get(v, "allowed_callers");
    bool is_direct = false;
    for (struct lf_json_value it = lf_json_first(callers); lf_json_more(callers, it); it = lf_json_next(callers, it))
        is_direct = is_direct || lf_json_string_is(it, "direct");
    for (size_t i = 0; i < LF_N_ELEMS(members); i++) {
        struct lf_json_value member = lf_json_get(v, members[i].name);
        if (lf_unsupported_is_neutral(&members[i], member) || (is_direct && member.idx == callers.idx)) continue;
        return lf_unsupported_refuse(r->err, lf_place_at("tools[%d].%s", idx, members[i].name).name, false, NULL);
    }
    return LF_OK;
}

/* {"name", "description", "input_schema", "strict"}; what has another type is run by Anthropic's servers. */
static enum lf_status read_tool(struct lf_reading *r, struct lf_chat_tool *out, int idx, struct lf_json_value v)
{
    struct lf_json_value type = lf_json_get(v, "type"), text = lf_json_get(v, "description");
    struct lf_place at = lf_place_at("tools[%d]", idx), member = lf_place_at("%s.type", at.name);
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, at.name, v, "an object");
    if (!lf_json_is_absent(type) && !lf_json_string_is(type, "custom"))
        return lf_refuse(r->err, 400, member.name, "unsupported_parameter",
                         "%s: only tools of your own (custom) are implemented, got %s.", member.name,
                         lf_shown_json(type).text);
    LF_TRY(check_tool_extras(r, idx, v));
    LF_TRY(lf_tools_add(r, &(struct lf_tool_values){at.name, "input_schema", v}));
    out->name = r->ask->tools[idx].name;
    out->parameters = lf_json_get(v, "input_schema");
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
    LF_TRY(lf_tools_are_known(r->limits, name, r->err));
    struct lf_chat_tool *made = lf_arena_array(&ask->arena, lf_json_len(v), sizeof *made);
    if (!made) return lf_refuse_work(r->err, LF_NO_MEMORY);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it), n++)
        LF_TRY(read_tool(r, &made[n], n, it));
    ask->made_tools = made;
    ask->n_made_tools = (size_t)n;
    return LF_OK;
}

static enum lf_status read_tool_choice(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    r->ask->tool_choice_value = v; /* the tools may come behind it */
    return LF_OK;
}

/* {"type": "auto" | "any" | "tool" | "none", "name", "disable_parallel_tool_use"} */
static enum lf_status check_tools(struct lf_reading *r)
{
    struct lf_ask *ask = r->ask;
    struct lf_json_value v = ask->tool_choice_value, type = lf_json_get(v, "type"),
                         alone = lf_json_get(v, "disable_parallel_tool_use");
    bool is_alone = false;
    ask->tool_choice = ask->n_tools ? LF_TOOL_CHOICE_AUTO : LF_TOOL_CHOICE_NONE;
    ask->tool_choice_value = (struct lf_json_value){0};
    if (lf_json_is_absent(v)) return LF_OK;
    bool is_auto = lf_json_string_is(type, "auto"), none = lf_json_string_is(type, "none"),
         any = lf_json_string_is(type, "any"), one = lf_json_string_is(type, "tool");
    if (!is_auto && !none && !any && !one)
        return lf_ask_expected(r, "tool_choice.type", type, "auto, any, tool or none");
    if (ask->n_tools == 0 && (any || one))
        return lf_refuse(r->err, 400, "tool_choice", "invalid_value", "tool_choice: only together with tools.");
    if (!lf_json_is_absent(alone) && !lf_json_bool(alone, &is_alone))
        return lf_ask_expected(r, "tool_choice.disable_parallel_tool_use", alone, "true or false");
    ask->parallel_tool_calls = !is_alone;
    if (one) return lf_tools_choose(ask, lf_json_get(v, "name"), "tool_choice.name", r->err);
    if (none) ask->tool_choice = LF_TOOL_CHOICE_NONE;
    if (any) ask->tool_choice = LF_TOOL_CHOICE_REQUIRED;
    return LF_OK;
}

/* {"type": "json_schema", "schema": …}: the answer's text is JSON of this schema. */
static enum lf_status read_output_format(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    if (!lf_json_string_is(lf_json_get(v, "type"), "json_schema"))
        return lf_refuse(r->err, 400, name, "unsupported_parameter",
                         "%s: only the type json_schema is implemented, got %s.", name,
                         lf_shown_json(lf_json_get(v, "type")).text);
    return lf_format_read_schema(r, name, lf_json_get(v, "schema"));
}

static enum lf_status read_output_config(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_json_value format = lf_json_get(v, "format"), effort = lf_json_get(v, "effort");
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    if (!lf_json_is_absent(lf_json_get(v, "task_budget")))
        return lf_unsupported_refuse(r->err, "output_config.task_budget", true, NULL);
    if (!lf_json_is_absent(effort)) LF_TRY(lf_tools_read_effort(r, "output_config.effort", effort));
    return lf_json_is_absent(format) ? LF_OK : read_output_format(r, "output_config.format", format);
}

static const struct lf_field fields[] = {
    {.name = "model",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = lf_ask_read_model,
     .type = "string",
     .help = "the model's id; there is one, and it may be left out"},
    {.name = "messages",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = read_messages,
     .range = {1, LF_MESSAGES_N},
     .type = "array of objects",
     .help =
         "the conversation: `role`, user, assistant or system, and `content`, a string or an array of blocks: "
         "text; of the assistant also thinking, redacted_thinking and tool_use, of the user tool_result and document "
         "(`\"source\": {\"type\": \"file\", \"file_id\": \"ID\"}`, a text, or `\"name\": \"ID\"`, as "
         "`/v1/chat/completions` has it); a result "
         "with `is_error: true` begins with `Error: ` to the template, unless its text begins with that word; the "
         "answer goes on from a last message of the assistant's; needed"},
    {.name = "system",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = read_system,
     .type = "string or array of text blocks",
     .help = "the system prompt"},
    {.name = "max_tokens",
     .asks = MESSAGES,
     .kind = LF_FIELD_INT,
     .at = LF_ASK_AT(max_tokens),
     .range = {1, LF_CONTEXT_TOKENS},
     .help = "longest answer; needed"},
    {.name = "stop_sequences",
     .asks = MESSAGES,
     .kind = LF_FIELD_READ,
     .read = lf_ask_read_stop,
     .range = {1, LF_STOP_N},
     .type = "array of strings",
     .help = "the answer ends before the first of these"},
    {.name = "stream",
     .asks = MESSAGES,
     .kind = LF_FIELD_BOOL,
     .at = LF_ASK_AT(stream),
     .help = "the answer as server-sent events, as it is made"},
    {.name = "temperature",
     .asks = MESSAGES,
     .kind = LF_FIELD_FLOAT,
     .at = LF_ASK_AT(sampling.temperature),
     .range = {0, 1},
     .help = "0: the likeliest token each time"},
    {.name = "top_p",
     .asks = MESSAGES,
     .kind = LF_FIELD_FLOAT,
     .at = LF_ASK_AT(sampling.top_p),
     .range = {0, 1},
     .help = "only the likeliest tokens that together have this probability"},
    {.name = "top_k",
     .asks = MESSAGES,
     .kind = LF_FIELD_INT,
     .at = LF_ASK_AT(top_k),
     .range = {0, LF_VOCAB_N},
     .help = "only so many of the likeliest tokens; 0: all"},
    {.name = "thinking",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = read_thinking,
     .type = "object",
     .help =
         "`{\"type\": \"enabled\", \"budget_tokens\": n}`, `adaptive` or `between_tools`: on, `disabled`: off, by the "
         "switch enable_thinking of the model's chat template, where it has one; without this field it is off. The "
         "model ends its thinking by itself within `max_tokens`; `budget_tokens` is taken as a wish. `\"display\": "
         "\"omitted\"` leaves it out of the answer"},
    {.name = "reasoning_effort",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = lf_tools_read_effort,
     .type = "string",
     .help = "as `/v1/chat/completions` has it"},
    {.name = "output_config",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = read_output_config,
     .type = "object",
     .help = "`format`: `{\"type\": \"json_schema\", \"schema\": …}`, the text of the answer is JSON that meets the "
             "schema, "
             "unless `max_tokens` or a stop sequence cuts it; `effort`: as `reasoning_effort`"},
    {.name = "output_format",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = read_output_format,
     .type = "object",
     .help = "another name of `output_config.format`"},
    {.name = "tools",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = read_tools,
     .range = {0, LF_TOOLS_N},
     .type = "array of objects",
     .help = "functions that the model may call: `name`, `description`, `input_schema`, `strict`; the model's template "
             "writes them"},
    {.name = "tool_choice",
     .asks = BOTH,
     .kind = LF_FIELD_READ,
     .read = read_tool_choice,
     .type = "object",
     .help =
         "`type`: auto (the default beside tools), any, tool with its `name`, none; `disable_parallel_tool_use`: one "
         "call at most"},
    {.name = "speculate",
     .asks = MESSAGES,
     .kind = LF_FIELD_READ,
     .read = lf_speculate_read,
     .type = lf_speculate_type,
     .help = lf_speculate_help},
    {.name = "prediction",
     .asks = MESSAGES,
     .kind = LF_FIELD_READ,
     .read = lf_prediction_read,
     .type = lf_prediction_type,
     .help = lf_prediction_help},
};

static const struct lf_unsupported_field unsupported_rows[] = {
    {.name = "mcp_servers", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "container", .asks = BOTH},
    {.name = "context_management", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "thread", .asks = BOTH},
    {.name = "compaction", .asks = BOTH},
    {.name = "fallbacks", .asks = BOTH},
    {.name = "fallback_credit_token", .asks = BOTH},
    {.name = "metadata", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "diagnostics", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "billing_policy", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "inference_geo", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "speed", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "user_profile_id", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "workspace_id", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "betas", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "service_tier", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "cache_control", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},

    /* what the chat of OpenAI's form has */
    {.name = "max_completion_tokens", .asks = BOTH, .instead = "max_tokens"},
    {.name = "stop", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY, .instead = "stop_sequences"},
    {.name = "n", .asks = BOTH, .neutral = LF_NEUTRAL_ONE},
    {.name = "best_of", .asks = BOTH, .neutral = LF_NEUTRAL_ONE},
    {.name = "seed", .asks = BOTH},
    {.name = "min_p", .asks = BOTH, .neutral = LF_NEUTRAL_ZERO},
    {.name = "presence_penalty", .asks = BOTH, .neutral = LF_NEUTRAL_ZERO},
    {.name = "frequency_penalty", .asks = BOTH, .neutral = LF_NEUTRAL_ZERO},
    {.name = "repetition_penalty", .asks = BOTH, .neutral = LF_NEUTRAL_ONE},
    {.name = "logit_bias", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "min_tokens", .asks = BOTH, .neutral = LF_NEUTRAL_ZERO},
    {.name = "ignore_eos", .asks = BOTH, .neutral = LF_NEUTRAL_FALSE},
    {.name = "stop_token_ids", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "logprobs", .asks = BOTH, .neutral = LF_NEUTRAL_FALSE},
    {.name = "top_logprobs", .asks = BOTH, .neutral = LF_NEUTRAL_ZERO},
    {.name = "response_format", .asks = BOTH, .instead = "output_config"},
    {.name = "structured_outputs", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY, .instead = "output_config"},
    {.name = "guided_json", .asks = BOTH, .instead = "output_config"},
    {.name = "json_schema", .asks = BOTH, .instead = "output_config"},
    {.name = "guided_regex", .asks = BOTH},
    {.name = "guided_choice", .asks = BOTH},
    {.name = "guided_whitespace_pattern", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "modalities", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "function_call", .asks = BOTH},
    {.name = "parallel_tool_calls", .asks = BOTH, .neutral = LF_NEUTRAL_TRUE, .instead = "tool_choice"},
    {.name = "functions", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY, .instead = "tools"},
    {.name = "include_reasoning", .asks = BOTH, .neutral = LF_NEUTRAL_TRUE, .instead = "thinking"},
    {.name = "chat_template_kwargs", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "add_generation_prompt", .asks = BOTH, .neutral = LF_NEUTRAL_TRUE},
    {.name = "skip_special_tokens", .asks = BOTH, .neutral = LF_NEUTRAL_TRUE},
    {.name = "allowed_token_ids", .asks = BOTH},
    {.name = "bad_words", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "echo", .asks = BOTH, .neutral = LF_NEUTRAL_FALSE},
    {.name = "continue_final_message", .asks = BOTH, .neutral = LF_NEUTRAL_FALSE, .instead = "messages"},
    {.name = "prompt_logprobs", .asks = BOTH},
    {.name = "return_token_ids", .asks = BOTH, .neutral = LF_NEUTRAL_FALSE},
    {.name = "return_tokens_as_token_ids", .asks = BOTH, .neutral = LF_NEUTRAL_FALSE},
    {.name = "include_stop_str_in_output", .asks = BOTH, .neutral = LF_NEUTRAL_FALSE},
    {.name = "request_id", .asks = BOTH, .neutral = LF_NEUTRAL_ANY},
    {.name = "return_progress", .asks = BOTH, .neutral = LF_NEUTRAL_FALSE},
    {.name = "stream_options", .asks = BOTH, .neutral = LF_NEUTRAL_EMPTY},
    {.name = "cache_salt", .asks = BOTH},
    {.name = "priority", .asks = BOTH, .neutral = LF_NEUTRAL_ZERO},
};

static const struct lf_unsupported_table unsupported = {unsupported_rows, (int)LF_N_ELEMS(unsupported_rows),
                                                        &lf_unsupported_openai, LF_ASK_CHAT};
static const struct lf_field_table table = {
    .title = "Anthropic", .fields = fields, .n_fields = (int)LF_N_ELEMS(fields), .unsupported = &unsupported};

/* Who does not ask for thinking gets none, where it can be had so. */
static void settle_thinking(struct lf_ask *ask, const struct lf_ask_limits *limits)
{
    if (!limits->template.has_thinking)
        ask->thinking = LF_SWITCH_UNSET;
    else if (ask->thinking == LF_SWITCH_UNSET)
        ask->thinking = LF_SWITCH_OFF;
}

static enum lf_status read_body(struct lf_ask *ask, unsigned endpoint, const struct lf_json *json,
                                const struct lf_ask_limits *limits, struct lf_api_err *err)
{
    struct lf_reading r = {ask, limits, err};
    lf_ask_init(ask, limits);
    LF_TRY(lf_ask_read_fields(&r, &table, endpoint, json));
    if (!ask->messages) return lf_refuse(err, 400, "messages", "missing_parameter", "messages: this field is needed.");
    LF_TRY(check_tools(&r));
    settle_thinking(ask, limits);
    ask->sampling.top_k = (int32_t)ask->top_k;
    struct lf_json_value system = ask->prompt;
    ask->prompt = (struct lf_json_value){0};
    if (lf_json_type(system) != LF_JSON_NONE) LF_TRY(lf_anthropic_add_system(&r, system));
    return lf_document_parts_settle(ask, err);
}

static enum lf_status parse(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                            struct lf_api_err *err)
{
    LF_TRY(read_body(ask, MESSAGES, json, limits, err));
    if (ask->max_tokens != LF_ABSENT) return LF_OK;
    return lf_refuse(err, 400, "max_tokens", "missing_parameter", "max_tokens: this field is needed.");
}

static enum lf_status parse_count(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                                  struct lf_api_err *err)
{
    return read_body(ask, COUNT, json, limits, err);
}

const struct lf_dialect lf_dialect_messages = {
    .fields = &table,
    .endpoint = MESSAGES,
    .text_param = "messages",
    .talks = true,
    .parse = parse,
    .stream = &lf_anthropic_stream,
    .whole = &lf_anthropic_whole,
};

const struct lf_dialect lf_dialect_count_tokens = {
    .fields = &table,
    .endpoint = COUNT,
    .text_param = "messages",
    .parse = parse_count,
    .stream = &lf_anthropic_stream,
    .whole = &lf_anthropic_whole,
};
