/* /v1/chat/completions: messages, and the assistant's next one. */
#include "core/check.h"
#include "core/json.h"
#include "server/http/api/openai_json.h"
#include "server/http/api/openai_request.h"

static enum lf_status parse(struct lf_ask *ask, const struct lf_json *json, const struct lf_ask_limits *limits,
                            struct lf_api_err *err)
{
    LF_TRY(lf_ask_read(ask, LF_ASK_CHAT, json, limits, err));
    if (ask->messages) return LF_OK;
    return lf_refuse(err, 400, "messages", "missing_parameter", "messages: this field is needed.");
}

/* ---- a stream ---- */

static void begin_stream(struct lf_buf *out, struct lf_generation *gen)
{
    lf_openai_prepare(gen, "chatcmpl", "chat.completion.chunk");
    for (int i = 0; i < gen->n_choices; i++) {
        lf_openai_begin_chunk(out, gen);
        lf_buf_printf(out,
                      "{\"index\":%d,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                      "\"finish_reason\":null}",
                      i);
        lf_openai_end_chunk(out, gen);
    }
}

static void delta(struct lf_buf *out, const struct lf_generation *gen, int idx, struct lf_str text)
{
    lf_openai_begin_chunk(out, gen);
    lf_buf_printf(out, "{\"index\":%d,\"delta\":{\"content\":", idx);
    lf_json_write_string(out, text);
    lf_buf_char(out, '}');
    lf_openai_write_logprobs(out, gen, idx);
    lf_buf_cstr(out, ",\"finish_reason\":null}");
    lf_openai_end_chunk(out, gen);
}

static void finish(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    lf_openai_begin_chunk(out, gen);
    lf_buf_printf(out, "{\"index\":%d,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"%s\"}", idx,
                  gen->choices[idx].finish);
    lf_openai_end_finish_chunk(out, gen);
}

static void nothing(struct lf_buf *out, const struct lf_generation *gen)
{
    lf_openai_begin_chunk(out, gen);
    lf_buf_cstr(out, "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":null}");
    lf_openai_end_chunk(out, gen);
}

/* ---- whole ---- */

static void begin_whole(struct lf_buf *out, struct lf_generation *gen)
{
    lf_openai_prepare(gen, "chatcmpl", "chat.completion");
    lf_openai_begin_object(out, gen);
}

static void open(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    (void)gen;
    lf_buf_printf(out, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":\"", idx ? "," : "", idx);
}

static void shut(struct lf_buf *out, const struct lf_generation *gen, int idx)
{
    (void)idx;
    lf_buf_cstr(out, "\",\"refusal\":null},\"logprobs\":");
    if (gen->ask.logprobs == LF_ABSENT) lf_buf_cstr(out, "null");
}

const struct lf_dialect lf_dialect_chat = {
    .fields = &lf_openai_fields,
    .endpoint = LF_ASK_CHAT,
    .text_param = "messages",
    .fills_context = true,
    .logprobs = LF_LOGPROBS_CHAT,
    .parse = parse,
    .stream = {.begin = begin_stream,
               .delta = delta,
               .finish = finish,
               .end = lf_openai_end_stream,
               .error = lf_openai_error_event,
               .progress = lf_openai_progress,
               .nothing = nothing},
    .whole = {.begin = begin_whole,
              .open = open,
              .delta = lf_openai_text,
              .shut = shut,
              .finish = lf_openai_finish_whole,
              .end = lf_openai_end_whole,
              .error = lf_openai_error},
};
