/* /v1/models and /v1/models/{id}: the one model that is served, under each of its names, and the refusal of any other.
 */
#include <time.h>

#include "core/check.h"
#include "core/json.h"
#include "server/engine/engine.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/models.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"
#include "server/http/api/shown.h"

/* Any other name is the model's too. */
static bool is_any(const char *alias)
{
    return strcmp(alias, "*") == 0;
}

/* The name of /v1/models that this is: the model's, or one of the further ones; NULL: none of them. */
static const char *listed_name(const struct lf_http_opts *opts, struct lf_str name)
{
    if (lf_str_eq(name, lf_str_c(opts->model_id))) return opts->model_id;
    for (const char *const *p = opts->model_aliases; p && *p; p++)
        if (!is_any(*p) && lf_str_eq(name, lf_str_c(*p))) return *p;
    return NULL;
}

bool lf_model_is_served(const struct lf_http_opts *opts, struct lf_str name)
{
    for (const char *const *p = opts->model_aliases; p && *p; p++)
        if (is_any(*p)) return true;
    return listed_name(opts, name) != NULL;
}

enum lf_status lf_refuse_model(struct lf_api_err *err, struct lf_str wanted, const struct lf_http_opts *opts)
{
    char asked[LF_SHOWN_BYTES], name[LF_SHOWN_BYTES];
    struct lf_buf names;
    lf_buf_init(&names, LF_ERR_MESSAGE_BYTES / 2);
    lf_shown(asked, wanted);
    lf_shown(name, lf_str_c(opts->model_id));
    lf_buf_printf(&names, "\"%s\"", name);
    for (const char *const *p = opts->model_aliases; p && *p; p++) {
        lf_shown(name, lf_str_c(*p));
        lf_buf_printf(&names, ", \"%s\"", name);
    }
    enum lf_status status = lf_refuse(
        err, 404, "model", "model_not_found", "The model \"%s\" does not exist here. There is %s%s; see /v1/models.",
        asked, names.len ? lf_buf_view(&names).ptr : "another", names.status == LF_LIMIT ? " and more" : "");
    lf_buf_deinit(&names);
    return status;
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

/* Both OpenAI's members and Anthropic's, which stand in nobody's way. */
static void write_model(struct lf_buf *out, const struct lf_http_server *s, const char *name)
{
    struct lf_engine_state engine;
    struct tm utc;
    time_t created = (time_t)s->opts.model_created_s;
    char date[32] = "";
    lf_engine_snapshot(s->engine, &engine);
    if (gmtime_r(&created, &utc)) (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    lf_buf_cstr(out, "{\"id\":");
    lf_json_write_string(out, lf_str_c(name));
    lf_buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"longflash\",\"max_model_len\":%d",
                  (long long)s->opts.model_created_s, engine.ctx);
    lf_buf_cstr(out, ",\"type\":\"model\",\"display_name\":");
    lf_json_write_string(out, lf_str_c(name));
    lf_buf_printf(out, ",\"created_at\":\"%s\",\"lifecycle\":\"active\",\"weight_format\":", date);
    lf_json_write_string(out, lf_str_c(s->opts.weight_format));
    write_sampling(out, &s->opts);
    lf_buf_char(out, '}');
}

void lf_handle_models(struct lf_exchange *x)
{
    const struct lf_http_opts *opts = &x->server->opts;
    struct lf_buf *out = lf_reply_json(&x->reply, 200);
    lf_buf_cstr(out, "{\"object\":\"list\",\"data\":[");
    const char *last = opts->model_id;
    write_model(out, x->server, opts->model_id);
    for (const char *const *p = opts->model_aliases; p && *p; p++) {
        if (is_any(*p)) continue;
        lf_buf_char(out, ',');
        write_model(out, x->server, *p);
        last = *p;
    }
    lf_buf_cstr(out, "],\"has_more\":false,\"first_id\":");
    lf_json_write_string(out, lf_str_c(opts->model_id));
    lf_buf_cstr(out, ",\"last_id\":");
    lf_json_write_string(out, lf_str_c(last));
    lf_buf_char(out, '}');
}

void lf_handle_model(struct lf_exchange *x)
{
    const struct lf_http_opts *opts = &x->server->opts;
    const char *name = listed_name(opts, x->tail);
    if (lf_model_is_served(opts, x->tail)) {
        write_model(lf_reply_json(&x->reply, 200), x->server, name ? name : opts->model_id);
        return;
    }
    struct lf_api_err err;
    (void)!lf_refuse_model(&err, x->tail, opts);
    lf_reply_error(&x->reply, &err);
}
