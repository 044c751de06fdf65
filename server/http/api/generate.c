/* Generating: a request in some dialect, from its body to an answer that is made while it is sent. */
#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "server/engine/engine.h"
#include "server/http/api/dialect.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/generation.h"
#include "server/http/conn/handler.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"
#include "server/http/api/stream.h"
#include "server/http/api/whole.h"

static struct lf_generation_params params_of(struct lf_exchange *x, int64_t tokenize_ns)
{
    struct lf_http_server *s = x->server;
    return (struct lf_generation_params){
        .dialect = x->route->dialect,
        .tok = s->tok,
        .engine = s->engine,
        .memory = s->text_memory,
        .id = x->id,
        .model = s->opts.model_id,
        .tenant = &x->tenant,
        .seed = lf_random64(s->id_seed ^ 0x5eed, atomic_fetch_add(&s->id_counter, 1)),
        .deadline_ns = x->work.deadline_ns,
        .tokenize_ns = tokenize_ns,
        .default_max_tokens = s->opts.default_max_tokens,
        .notify = lf_wake_notify,
        .notify_ctx = &x->wake,
    };
}

enum lf_status lf_answer_generate(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    const struct lf_http_opts *opts = &x->server->opts;
    struct lf_prompts prompts = {0};
    struct lf_prompt_source source = lf_prompt_source_of(x);
    struct lf_generation *gen = NULL;
    bool stream = ask->stream;
    int64_t n_choices = ask->n;
    int64_t began_ns = lf_clock_ns();
    LF_TRY(lf_prompts_read(&prompts, ask, &source, err));
    struct lf_generation_params params = params_of(x, lf_clock_ns() - began_ns);
    LF_TRY(lf_generation_start(&gen, &params, ask, &prompts, err));
    lf_histogram_observe(&x->server->metrics.n_choices, (double)n_choices);
    enum lf_status status = stream ? lf_stream_create(&x->answer, gen, opts->keep_alive, opts->keep_alive_ms)
                                   : lf_whole_create(&x->answer, gen);
    if (status == LF_OK) return LF_OK;
    lf_generation_destroy(gen);
    return lf_refuse_work(err, status);
}
