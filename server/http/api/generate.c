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
#include "template/answer_vocabulary.h"

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
        .format = s->answers,
        .reasoning = !s->opts.no_reasoning,
        .default_max_tokens = s->opts.default_max_tokens,
        .notify = lf_wake_notify,
        .notify_ctx = &x->wake,
    };
}

/* At the beginning of a chat's answer tokens add other bytes than in a text that goes on. */
static struct lf_vocabulary *vocabulary_of(const struct lf_exchange *x)
{
    const struct lf_answer_vocabulary *v = x->server->opts.vocabulary;
    return x->route->dialect->continues ? v->continues : v->begins;
}

enum { SOON_MS = 10 };

/* Compiling may take a tenth of a second, however short the schema: on a worker for short texts it has less. */
static struct lf_work work_of(const struct lf_exchange *x)
{
    struct lf_work work = x->work;
    int64_t soon_ns = lf_clock_ns() + SOON_MS * LF_NS_PER_MS;
    bool is_short = x->effort == LF_EFFORT_SHORT && (work.deadline_ns == 0 || soon_ns < work.deadline_ns);
    if (is_short) work.deadline_ns = soon_ns;
    return work;
}

/* What the answer must be. Made before the prompt is tokenized: a schema that will not do is refused at once, whatever
 * the length of the document. */
static enum lf_status make_grammar(struct lf_grammar **out, struct lf_exchange *x, const struct lf_format *format,
                                   struct lf_api_err *err)
{
    struct lf_err why = {0};
    struct lf_grammar *grammar = NULL;
    if (format->kind == LF_FORMAT_TEXT) return LF_OK;
    if (!x->server->opts.vocabulary)
        return lf_refuse(err, 400, format->param, "unsupported_parameter",
                         "%s: this model is served without a tokenizer, so its answers are no text.", format->param);
    struct lf_work work = work_of(x);
    enum lf_status status = lf_format_grammar(&grammar, format, &work, &why);
    if (status == LF_TIMEOUT && work.deadline_ns != x->work.deadline_ns) {
        x->effort = LF_EFFORT_COSTLY;
        return status;
    }
    if (status == LF_OK) status = lf_answer_can_begin(grammar, vocabulary_of(x), x->work.memory, &why);
    if (status == LF_OK) {
        *out = grammar;
        return LF_OK;
    }
    lf_grammar_unref(grammar);
    return lf_format_refuse(err, format, status, &why);
}

/* Prompts, engine requests and the answer that is made of them. */
static enum lf_status generate(struct lf_exchange *x, struct lf_ask *ask, struct lf_grammar *grammar, int64_t began_ns,
                               struct lf_api_err *err)
{
    const struct lf_http_opts *opts = &x->server->opts;
    struct lf_prompts prompts = {0};
    struct lf_prompt_source source = lf_prompt_source_of(x);
    struct lf_generation *gen = NULL;
    bool stream = ask->stream;
    int64_t n_choices = ask->n;
    LF_TRY(lf_prompts_read(&prompts, ask, &source, err));
    struct lf_generation_params params = params_of(x, lf_clock_ns() - began_ns);
    params.grammar = grammar;
    params.vocabulary = grammar ? vocabulary_of(x) : NULL;
    LF_TRY(lf_generation_start(&gen, &params, ask, &prompts, err));
    lf_histogram_observe(&x->server->metrics.n_choices, (double)n_choices);
    enum lf_status status = stream ? lf_stream_create(&x->answer, gen, opts->keep_alive, opts->keep_alive_ms)
                                   : lf_whole_create(&x->answer, gen);
    if (status == LF_OK) return LF_OK;
    lf_generation_destroy(gen);
    return lf_refuse_work(err, status);
}

enum lf_status lf_answer_generate(struct lf_exchange *x, struct lf_ask *ask, struct lf_api_err *err)
{
    int64_t began_ns = lf_clock_ns();
    struct lf_grammar *grammar = NULL;
    LF_TRY(make_grammar(&grammar, x, &ask->format, err));
    enum lf_status status = generate(x, ask, grammar, began_ns, err);
    lf_grammar_unref(grammar); /* the engine's requests have references of their own */
    return status;
}
