/* /livez: is the process worth keeping. /readyz and /health: should requests be sent here. */
#include "server/engine/engine.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"

static bool engine_failed(struct lf_http_server *s)
{
    struct lf_engine_state engine;
    if (!atomic_load(&s->ready)) return false;
    lf_engine_snapshot(s->engine, &engine);
    return !engine.alive;
}

static void answer(struct lf_exchange *x, const char *code, const char *message, bool loading)
{
    struct lf_api_err err;
    if (!code) {
        lf_buf_cstr(lf_reply_json(&x->reply, 200), "{\"status\":\"ok\"}");
        return;
    }
    (void)!lf_refuse(&err, 503, NULL, code, "%s", message);
    err.has_progress = loading;
    err.progress = lf_http_server_progress_now(x->server);
    err.retry_after_s = loading ? 2 : 0;
    lf_reply_error(&x->reply, &err);
}

void lf_handle_livez(struct lf_exchange *x)
{
    bool failed = engine_failed(x->server);
    answer(x, failed ? "engine_failed" : NULL, "The engine has failed.", false);
}

void lf_handle_readyz(struct lf_exchange *x)
{
    struct lf_http_server *s = x->server;
    if (engine_failed(s))
        answer(x, "engine_failed", "The engine has failed.", false);
    else if (atomic_load(&s->draining))
        answer(x, "draining", "The server is shutting down.", false);
    else if (!atomic_load(&s->ready))
        answer(x, "loading", "The model is being loaded.", true);
    else
        answer(x, NULL, NULL, false);
}
