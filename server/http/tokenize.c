/* /tokenize, /detokenize and /apply-template: what the model sees, without running it. */
#include "core/check.h"
#include "core/json.h"
#include "server/engine/engine.h"
#include "server/http/handler.h"
#include "server/http/routes.h"

static void write_tokens(struct lf_buf *out, const struct lf_ids *ids, int64_t ctx)
{
    lf_buf_printf(out, "{\"count\":%zu,\"max_model_len\":%lld,\"tokens\":[", ids->n, (long long)ctx);
    for (size_t i = 0; i < ids->n; i++) lf_buf_printf(out, "%s%d", i ? "," : "", ids->ids[i]);
    lf_buf_cstr(out, "]}");
}

static enum lf_status tokenize(struct lf_call *call, struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_prompts prompts = {0};
    struct lf_prompt_source source = lf_handler_source(call);
    bool text = lf_json_type(ask->prompt) == LF_JSON_STRING, chat = lf_json_type(ask->messages) != LF_JSON_NONE;
    if (text == chat)
        return lf_refuse(err, 400, "prompt", "missing_parameter", "Expected either prompt, a string, or messages.");
    LF_TRY(lf_prompts_read(&prompts, ask, &source, err));
    write_tokens(lf_reply_json(&call->reply, 200), &prompts.items[0].ids, source.ctx);
    lf_prompts_deinit(&prompts);
    return LF_OK;
}

static enum lf_status detokenize(struct lf_call *call, struct lf_ask *ask, struct lf_api_err *err)
{
    const struct lf_tokenizer *tok = call->server->tok;
    struct lf_buf text;
    struct lf_ids ids = {0};
    enum lf_status status = LF_OK;
    if (lf_json_type(ask->tokens) == LF_JSON_NONE)
        return lf_refuse(err, 400, "tokens", "missing_parameter", "tokens: this field is needed.");
    lf_buf_init(&text, LF_REPLY_BYTES);
    for (struct lf_json_value it = lf_json_first(ask->tokens); status == LF_OK && lf_json_more(ask->tokens, it);
         it = lf_json_next(ask->tokens, it)) {
        int32_t id = 0;
        status = lf_ask_token_id(&id, it, lf_tokenizer_n_vocab(tok), "tokens", err);
        if (status == LF_OK && lf_ids_push(&ids, id) != LF_OK)
            status = lf_refuse(err, 503, NULL, "no_memory", "No memory for this request.");
    }
    if (status == LF_OK &&
        (lf_tokenizer_decode(tok, &text, ids.ids, ids.n, true, NULL, NULL) != LF_OK || text.status != LF_OK))
        status = lf_refuse(err, 503, NULL, "no_memory", "No memory for this request.");
    if (status == LF_OK) {
        struct lf_buf *out = lf_reply_json(&call->reply, 200);
        lf_buf_cstr(out, "{\"prompt\":");
        lf_json_write_string(out, lf_buf_view(&text));
        lf_buf_char(out, '}');
    }
    lf_ids_deinit(&ids);
    lf_buf_deinit(&text);
    return status;
}

static enum lf_status apply_template(struct lf_call *call, struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_buf text;
    struct lf_prompt_source source = lf_handler_source(call);
    lf_buf_init(&text, LF_REPLY_BYTES);
    enum lf_status status = lf_prompt_render(&text, ask, &source, err);
    if (status == LF_OK && text.status != LF_OK)
        status = lf_refuse(err, 503, NULL, "no_memory", "No memory for this request.");
    if (status == LF_OK) {
        struct lf_buf *out = lf_reply_json(&call->reply, 200);
        lf_buf_cstr(out, "{\"prompt\":");
        lf_json_write_string(out, lf_buf_view(&text));
        lf_buf_char(out, '}');
    }
    lf_buf_deinit(&text);
    return status;
}

typedef enum lf_status step_fn(struct lf_call *call, struct lf_ask *ask, struct lf_api_err *err);

static void run(struct lf_call *call, enum lf_ask_kind kind, step_fn *step)
{
    struct lf_json json = {0};
    struct lf_ask ask = {0};
    struct lf_api_err err = {0};
    enum lf_status status = lf_handler_read(call, kind, &json, &ask, &err);
    if (status == LF_OK) status = step(call, &ask, &err);
    lf_ask_deinit(&ask);
    lf_json_deinit(&json);
    lf_call_drop_body(call);
    if (status != LF_OK) lf_reply_error(&call->reply, &err);
}

void lf_handle_tokenize(struct lf_call *call)
{
    run(call, LF_ASK_TOKENIZE, tokenize);
}

void lf_handle_detokenize(struct lf_call *call)
{
    run(call, LF_ASK_DETOKENIZE, detokenize);
}

void lf_handle_apply_template(struct lf_call *call)
{
    run(call, LF_ASK_TOKENIZE, apply_template);
}
