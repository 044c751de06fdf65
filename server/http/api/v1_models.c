/* /v1/models and /v1/models/{id}: the one model that is served, and the refusal of any other. */
#include "core/check.h"
#include "core/json.h"
#include "server/engine/engine.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/models.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"
#include "server/http/api/shown.h"

enum lf_status lf_refuse_model(struct lf_api_err *err, struct lf_str wanted, const struct lf_http_opts *opts)
{
    char asked[LF_SHOWN_BYTES], known[LF_SHOWN_BYTES];
    lf_shown(asked, wanted);
    lf_shown(known, lf_str_c(opts->model_id));
    return lf_refuse(err, 404, "model", "model_not_found",
                     "The model \"%s\" does not exist here. There is \"%s\"; see /v1/models.", asked, known);
}

/* What holds where a request does not say. */
static void write_sampling(struct lf_buf *out, const struct lf_http_opts *opts)
{
    struct lf_sampling_defaults d = opts->sampling ? *opts->sampling : LF_SAMPLING_PLAIN;
    const struct {
        const char *name;
        double value;
    } rows[] = {{"temperature", d.temperature},
                {"top_p", d.top_p},
                {"top_k", d.top_k},
                {"min_p", d.min_p},
                {"repetition_penalty", d.repetition_penalty}};
    lf_buf_cstr(out, ",\"default_sampling_params\":{");
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        lf_buf_printf(out, "%s\"%s\":", i ? "," : "", rows[i].name);
        lf_json_write_double(out, rows[i].value);
    }
    lf_buf_char(out, '}');
}

static void write_model(struct lf_buf *out, const struct lf_http_server *s)
{
    struct lf_engine_state engine;
    lf_engine_snapshot(s->engine, &engine);
    lf_buf_cstr(out, "{\"id\":");
    lf_json_write_string(out, lf_str_c(s->opts.model_id));
    lf_buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"longflash\",\"max_model_len\":%d",
                  (long long)s->opts.model_created_s, engine.ctx);
    write_sampling(out, &s->opts);
    lf_buf_char(out, '}');
}

void lf_handle_models(struct lf_exchange *x)
{
    struct lf_buf *out = lf_reply_json(&x->reply, 200);
    lf_buf_cstr(out, "{\"object\":\"list\",\"data\":[");
    write_model(out, x->server);
    lf_buf_cstr(out, "]}");
}

void lf_handle_model(struct lf_exchange *x)
{
    if (lf_str_eq(x->tail, lf_str_c(x->server->opts.model_id))) {
        write_model(lf_reply_json(&x->reply, 200), x->server);
        return;
    }
    struct lf_api_err err;
    (void)!lf_refuse_model(&err, x->tail, &x->server->opts);
    lf_reply_error(&x->reply, &err);
}
