/* /v1/chat/completions: messages, and the assistant's next one. */
#include "core/check.h"
#include "server/http/api/openai_json.h"
#include "server/http/api/openai_request.h"

static enum lf_status parse(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                            struct lf_api_err *err)
{
    LF_TRY(lf_ask_read(ask, LF_ASK_CHAT, json, limits, err));
    if (ask->messages) return LF_OK;
    return lf_refuse(err, 400, "messages", "missing_parameter", "messages: this field is needed.");
}

static const struct lf_openai_form form = {
    .id_prefix = "chatcmpl",
    .object = "chat.completion",
    .chunk_object = "chat.completion.chunk",
    .text = {"\"message\":{\"role\":\"assistant\",\"content\":", ",\"refusal\":null", "}"},
    .chunk_text = {"\"delta\":{\"content\":", "}"},
    .chunk_first = "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}",
    .chunk_no_text = "\"delta\":{}",
};

const struct lf_dialect lf_dialect_chat = {
    .fields = &lf_openai_fields,
    .endpoint = LF_ASK_CHAT,
    .text_param = "messages",
    .fills_context = true,
    .talks = true,
    .logprobs = LF_LOGPROBS_CHAT,
    .parse = parse,
    .stream = &lf_openai_stream,
    .whole = &lf_openai_whole,
    .form = &form,
};
