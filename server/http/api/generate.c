/* Generating: a request in some dialect, from its body to an answer that is made while it is sent. */
#include <stdio.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "server/engine/engine.h"
#include "server/http/api/bad_words.h"
#include "server/http/api/prediction.h"
#include "server/http/api/dialect.h"
#include "server/http/api/document_parts.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/generation.h"
#include "server/http/conn/handler.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"
#include "server/http/api/stream.h"
#include "server/http/api/whole.h"
#include "template/answer_vocabulary.h"

/* The body's id goes before the head's. */
static void take_client_id(struct lf_exchange *x, struct lf_str id)
{
    if (id.len == 0) return;
    x->client_id = true;
    snprintf(x->request_id, sizeof x->request_id, "%.*s", (int)id.len, id.ptr);
}

static struct lf_generation_params params_of(struct lf_exchange *x, int64_t tokenize_ns)
{
    struct lf_http_server *s = x->server;
    return (struct lf_generation_params){
        .dialect = x->route->dialect,
        .tok = s->tok,
        .engine = s->engine,
        .memory = s->text_memory,
        .id = x->id,
        .client_id = x->client_id ? x->request_id : NULL,
        .fingerprint = s->opts.fingerprint,
        .model = s->opts.model_id,
        .tenant = &x->tenant,
        .seed = lf_random64(s->id_seed ^ 0x5eed, atomic_fetch_add(&s->id_counter, 1)),
        .deadline_ns = x->work.deadline_ns,
        .tokenize_ns = tokenize_ns,
        .format = s->answers,
        .reasoning = !s->opts.no_reasoning,
        .default_max_tokens = s->opts.default_max_tokens,
        .speculate = s->opts.speculate,
        .notify = lf_wake_notify,
        .notify_ctx = &x->wake,
    };
}

/* At the beginning of a chat's answer tokens add other bytes than in a text that goes on. */
static struct lf_vocabulary *vocabulary_of(const struct lf_exchange *x, const struct lf_ask *ask)
{
    const struct lf_answer_vocabulary *v = x->server->opts.vocabulary;
    return lf_answer_continues(x->route->dialect, ask) ? v->continues : v->begins;
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

/* It did: the request goes to a worker for long ones, and begins anew. */
static bool is_costly(struct lf_exchange *x, const struct lf_work *work, enum lf_status status)
{
    if (status != LF_TIMEOUT || work->deadline_ns == x->work.deadline_ns) return false;
    x->effort = LF_EFFORT_COSTLY;
    return true;
}

/* Whether what the answer must be has more to it than a format of its text. */
static bool has_rules(const struct lf_exchange *x, const struct lf_ask *ask)
{
    const struct lf_http_server *s = x->server;
    if (!x->route->dialect->talks || !s->answers) return false;
    if (ask->n_tools && ask->tool_choice != LF_TOOL_CHOICE_NONE) return true;
    return ask->format.kind != LF_FORMAT_TEXT && !s->opts.no_reasoning && s->thinks;
}

/* Only a wish that masks alone can grant is refused where there are none. */
static enum lf_status check_vocabulary(const struct lf_exchange *x, const struct lf_ask *ask, struct lf_api_err *err)
{
    const char *param = ask->format.kind != LF_FORMAT_TEXT ? ask->format.param : "tool_choice";
    bool needed = ask->format.kind != LF_FORMAT_TEXT || ask->tool_choice == LF_TOOL_CHOICE_REQUIRED;
    if (x->server->opts.vocabulary || !needed) return LF_OK;
    return lf_refuse(err, 400, param, "unsupported_parameter",
                     "%s: this model is served without a tokenizer, so its answers are no text.", param);
}

/* Of an answer that is text and nothing else. Made before the prompt is tokenized: a schema that will not do is refused
 * at once, whatever the length of the document. */
static enum lf_status make_format(struct lf_grammar **out, struct lf_exchange *x, const struct lf_ask *ask,
                                  struct lf_api_err *err)
{
    const struct lf_format *format = &ask->format;
    struct lf_err why = {0};
    struct lf_grammar *grammar = NULL;
    if (format->kind == LF_FORMAT_TEXT) return LF_OK;
    struct lf_work work = work_of(x);
    enum lf_status status = lf_format_grammar(&grammar, format, &work, &why);
    if (is_costly(x, &work, status)) return status;
    if (status == LF_OK) status = lf_answer_can_begin(grammar, vocabulary_of(x, ask), x->work.memory, &why);
    if (status == LF_OK) {
        *out = grammar;
        return LF_OK;
    }
    lf_grammar_unref(grammar);
    return lf_format_refuse(err, format, status, &why);
}

static enum lf_status refuse_rules(struct lf_exchange *x, const struct lf_ask *ask, enum lf_status status,
                                   const struct lf_err *why, struct lf_api_err *err)
{
    static const struct lf_format tools = {.param = "tools"};
    struct lf_grammar *grammar = NULL;
    /* is it the format's fault? then it says so by itself */
    LF_TRY(make_format(&grammar, x, ask, err));
    lf_grammar_unref(grammar);
    return lf_format_refuse(err, &tools, status, why);
}

/* Of an answer with reasoning or calls, which depends on how the prompt ends. */
static enum lf_status make_rules(struct lf_grammar **out, struct lf_exchange *x, struct lf_ask *ask,
                                 struct lf_str prompt_end, struct lf_api_err *err)
{
    struct lf_err why = {0};
    struct lf_grammar *grammar = NULL;
    struct lf_grammar_part content;
    bool is_held = ask->format.kind != LF_FORMAT_TEXT || ask->tool_choice == LF_TOOL_CHOICE_REQUIRED;
    struct lf_answer_rules rules = {.prompt_end = prompt_end,
                                    /* Also where it is not split off. A model that is held to a form and would rather
                                     * write freely takes a marker of reasoning where that is the only way to: so there
                                     * is none where its template shows none, or the answer goes on from a text. */
                                    .reasoning = (x->server->thinks && !ask->continue_final_message) || !is_held,
                                    .tools = ask->tools,
                                    .n_tools = ask->n_tools,
                                    .choice = ask->tool_choice,
                                    .parallel = ask->parallel_tool_calls};
    if (!x->server->opts.vocabulary) return LF_OK;
    if (ask->format.kind != LF_FORMAT_TEXT) {
        if (lf_format_part(&content, &ask->format, &ask->arena) != LF_OK) return lf_refuse_work(err, LF_NO_MEMORY);
        rules.content = &content;
    }
    struct lf_work work = work_of(x);
    enum lf_status status = lf_answer_format_grammar(&grammar, x->server->answers, &rules, &work, &why);
    if (is_costly(x, &work, status)) return status;
    if (status == LF_OK && grammar) status = lf_answer_can_begin(grammar, vocabulary_of(x, ask), x->work.memory, &why);
    if (status == LF_OK) {
        *out = grammar;
        return LF_OK;
    }
    lf_grammar_unref(grammar);
    return refuse_rules(x, ask, status, &why, err);
}

/* Engine requests, and the answer that is made of them. The prompts are taken over. */
static enum lf_status generate(struct lf_exchange *x, struct lf_ask *ask, struct lf_prompts *prompts,
                               struct lf_grammar *grammar, int64_t began_ns, struct lf_api_err *err)
{
    const struct lf_http_opts *opts = &x->server->opts;
    struct lf_generation *gen = NULL;
    bool stream = ask->stream;
    int64_t n_choices = ask->n;
    take_client_id(x, ask->request_id);
    struct lf_generation_params params = params_of(x, lf_clock_ns() - began_ns);
    params.grammar = grammar;
    params.vocabulary = grammar ? vocabulary_of(x, ask) : NULL;
    LF_TRY(lf_generation_start(&gen, &params, ask, prompts, err));
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
    struct lf_prompts prompts = {0};
    struct lf_prompt_source source = lf_prompt_source_of(x);
    bool rules = has_rules(x, ask);
    LF_TRY(check_vocabulary(x, ask, err));
    LF_TRY(lf_bad_words_encode(ask, &source, err));
    LF_TRY(lf_prediction_encode(ask, &source, err));
    if (!rules) LF_TRY(make_format(&grammar, x, ask, err));
    lf_document_parts_hit(ask);
    enum lf_status status = lf_prompts_read(&prompts, ask, &source, err);
    if (status == LF_OK && rules) status = make_rules(&grammar, x, ask, prompts.items[0].end, err);
    if (status == LF_OK)
        status = generate(x, ask, &prompts, grammar, began_ns, err);
    else
        lf_prompts_deinit(&prompts);
    lf_grammar_unref(grammar); /* the engine's requests have references of their own */
    return status;
}
