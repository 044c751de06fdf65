#include "server/http/conn/handler.h"

#include "core/check.h"
#include "server/engine/engine.h"
#include "server/http/api/dialect.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/document_parts.h"
#include "server/http/api/models.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/response_store.h"
#include "server/http/conn/refuse.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"

/* "model" may be left out, or is a name of the one model there is. */
static enum lf_status check_model(const struct lf_exchange *x, struct lf_str model, struct lf_api_err *err)
{
    if (model.len == 0 || lf_model_is_served(&x->server->opts, model)) return LF_OK;
    return lf_refuse_model(err, model, &x->server->opts);
}

static struct lf_str body_of(const struct lf_exchange *x)
{
    return x->route->may_be_empty && x->body.len == 0 ? LF_STR("{}") : lf_buf_view(&x->body);
}

static enum lf_status parse_json(struct lf_exchange *x, struct lf_json *json, struct lf_api_err *err)
{
    struct lf_err why = {0};
    enum lf_status status = lf_json_parse_in(json, body_of(x), &lf_json_limits_request, &x->work, &why);
    if (status == LF_OK) return LF_OK;
    if (status == LF_NO_MEMORY || status == LF_CANCELLED || status == LF_TIMEOUT) return lf_refuse_work(err, status);
    return lf_refuse(err, 400, NULL, "invalid_json", "The body is not valid JSON: %s", why.message);
}

/* As the route's dialect has it; a route without one has its fields in OpenAI's table. */
static enum lf_status parse_ask(const struct lf_route *route, struct lf_ask *ask, const struct lf_json *json,
                                const struct lf_ask_limits *limits, struct lf_api_err *err)
{
    if (route->dialect) return route->dialect->parse(ask, json, limits, err);
    if (route->parse) return route->parse(ask, json, limits, err);
    return lf_ask_read(ask, (enum lf_ask_kind)route->endpoint, json, limits, err);
}

static enum lf_status parse_body(struct lf_exchange *x, struct lf_json *json, struct lf_ask *ask,
                                 struct lf_api_err *err)
{
    struct lf_ask_limits limits = {.max_choices = x->server->opts.max_choices,
                                   .n_vocab = lf_tokenizer_n_vocab(x->server->tok),
                                   .sampling = x->server->opts.sampling,
                                   .template = x->server->traits,
                                   .answers = x->server->answers,
                                   .documents = x->server->documents,
                                   .responses = x->server->responses,
                                   .tenant = x->tenant.salt,
                                   .document_bytes = x->server->opts.max_body_bytes,
                                   .work = &x->work};
    if (x->is_text) {
        lf_ask_init(ask, &limits);
        ask->text = lf_str_without_bom(lf_buf_view(&x->body));
        return LF_OK;
    }
    LF_TRY(parse_json(x, json, err));
    enum lf_status status = parse_ask(x->route, ask, json, &limits, err);
    LF_TRY(status);
    return check_model(x, ask->model, err);
}

struct lf_prompt_source lf_prompt_source_of(struct lf_exchange *x)
{
    struct lf_engine_state engine;
    lf_engine_snapshot(x->server->engine, &engine);
    return (struct lf_prompt_source){
        .tok = x->server->tok, .chat = x->server->chat, .ctx = engine.ctx, .work = &x->work};
}

/* The texts of documents, and of a conversation that is gone on from, are worked on as if they had come with the body:
 * on a worker for long ones, and with as much memory set aside. */
static bool is_longer(struct lf_exchange *x, const struct lf_ask *ask)
{
    uint64_t n = lf_document_parts_bytes(ask) + (ask->previous ? lf_response_conversation_bytes(ask->previous) : 0);
    if (n <= LF_SHORT_BODY_BYTES || n <= x->document_bytes) return false;
    x->document_bytes = n;
    x->effort = LF_EFFORT_COSTLY;
    return true;
}

void lf_handle_body(struct lf_exchange *x)
{
    struct lf_json json = {0};
    struct lf_ask ask = {0};
    struct lf_api_err err = {0};
    enum lf_status status = parse_body(x, &json, &ask, &err);
    int n_unknown = ask.n_unknown;
    if (status == LF_OK && !is_longer(x, &ask)) status = x->route->answer_body(x, &ask, &err);
    lf_ask_deinit(&ask);
    lf_json_deinit(&json);
    if (x->effort == LF_EFFORT_COSTLY) return;
    lf_counter_add(&x->server->metrics.unknown_fields, (uint64_t)n_unknown);
    lf_exchange_drop_body(x);
    if (status != LF_OK) lf_exchange_refuse(x, &err);
}
