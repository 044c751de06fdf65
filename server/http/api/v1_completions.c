/* /v1/completions: a prompt, and the text that goes on from it. */
#include "server/http/api/openai_json.h"
#include "server/http/api/openai_request.h"

static enum lf_status parse(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                            struct lf_api_err *err)
{
    return lf_ask_read(ask, LF_ASK_COMPLETION, json, limits, err);
}

static const struct lf_openai_form form = {
    .id_prefix = "cmpl",
    .object = "text_completion",
    .chunk_object = "text_completion",
    .text = {"\"text\":", "", ""},
    .chunk_text = {"\"text\":", ""},
    .chunk_no_text = "\"text\":\"\"",
};

const struct lf_dialect lf_dialect_completions = {
    .fields = &lf_openai_fields,
    .endpoint = LF_ASK_COMPLETION,
    .text_param = "prompt",
    .continues = true,
    .logprobs = LF_LOGPROBS_COMPLETION,
    .parse = parse,
    .stream = &lf_openai_stream,
    .whole = &lf_openai_whole,
    .form = &form,
};
