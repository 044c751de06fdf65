/* /livez: is the process worth keeping. /readyz and /health: should requests be sent here. */
#include "server/engine/engine.h"
#include "server/http/call.h"
#include "server/http/routes.h"

static bool engine_failed(struct lf_http_server *s)
{
    struct lf_engine_state engine;
    if (!atomic_load(&s->ready)) return false;
    lf_engine_look(s->engine, &engine);
    return !engine.alive;
}

static void answer(struct lf_call *call, const char *code, const char *message, bool loading)
{
    struct lf_api_err err;
    if (!code) {
        lf_buf_cstr(lf_reply_json(&call->reply, 200), "{\"status\":\"ok\"}");
        return;
    }
    (void)!lf_refuse(&err, 503, NULL, code, "%s", message);
    err.has_progress = loading;
    err.progress = atomic_load(&call->server->progress_permille) / 1000.0;
    err.retry_after_s = loading ? 2 : 0;
    lf_reply_error(&call->reply, &err);
}

void lf_handle_livez(struct lf_call *call)
{
    bool failed = engine_failed(call->server);
    answer(call, failed ? "engine_failed" : NULL, "The engine has failed.", false);
}

void lf_handle_readyz(struct lf_call *call)
{
    struct lf_http_server *s = call->server;
    if (engine_failed(s))
        answer(call, "engine_failed", "The engine has failed.", false);
    else if (atomic_load(&s->draining))
        answer(call, "draining", "The server is shutting down.", false);
    else if (!atomic_load(&s->ready))
        answer(call, "loading", "The model is being loaded.", true);
    else
        answer(call, NULL, NULL, false);
}
