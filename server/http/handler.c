#include "server/http/handler.h"

#include "core/check.h"
#include "core/clock.h"
#include "server/engine/engine.h"
#include "server/http/generation.h"
#include "server/http/sse.h"

/* "model" may be left out, or names the one model there is. */
static enum lf_status check_model(const struct lf_call *call, struct lf_str model, struct lf_api_err *err)
{
    if (model.len == 0 || lf_str_eq(model, lf_str_c(call->server->opts.model_id))) return LF_OK;
    return lf_refuse(err, 404, "model", "model_not_found", "There is no such model here; see /v1/models.");
}

enum lf_status lf_handler_read(struct lf_call *call, enum lf_ask_kind kind, struct lf_json *json, struct lf_ask *ask,
                               struct lf_api_err *err)
{
    struct lf_err why = {0};
    struct lf_ask_limits limits = {call->server->opts.max_choices, lf_tokenizer_n_vocab(call->server->tok)};
    enum lf_status status = lf_json_parse(json, lf_buf_view(&call->body), &lf_json_limits_request, &why);
    if (status == LF_NO_MEMORY) return lf_refuse(err, 503, NULL, "no_memory", "No memory for this request.");
    if (status != LF_OK)
        return lf_refuse(err, 400, NULL, "invalid_json", "The body is not valid JSON: %s", why.message);
    status = lf_ask_read(ask, kind, json, &limits, err);
    lf_counter_add(&call->server->metrics.unknown_fields, (uint64_t)ask->n_unknown);
    LF_TRY(status);
    return check_model(call, ask->model, err);
}

struct lf_prompt_source lf_handler_source(const struct lf_call *call)
{
    struct lf_engine_state engine;
    lf_engine_look(call->server->engine, &engine);
    return (struct lf_prompt_source){call->server->tok, call->server->chat, engine.ctx};
}

static enum lf_status generate(struct lf_call *call, struct lf_ask *ask, struct lf_api_err *err)
{
    struct lf_prompts prompts = {0};
    struct lf_prompt_source source = lf_handler_source(call);
    bool stream = ask->stream;
    int64_t began_ns = lf_clock_ns();
    LF_TRY(lf_prompts_read(&prompts, ask, &source, err));
    LF_TRY(lf_generation_start(call, ask, &prompts, lf_clock_ns() - began_ns, err));
    return stream ? lf_sse_create(call, err) : LF_OK;
}

void lf_handler_generate(struct lf_call *call, enum lf_ask_kind kind)
{
    struct lf_json json = {0};
    struct lf_ask ask = {0};
    struct lf_api_err err = {0};
    enum lf_status status = lf_handler_read(call, kind, &json, &ask, &err);
    if (status == LF_OK) status = generate(call, &ask, &err);
    lf_ask_deinit(&ask);
    lf_json_deinit(&json);
    lf_call_drop_body(call);
    if (status != LF_OK) lf_reply_error(&call->reply, &err);
}
