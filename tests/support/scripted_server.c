/* server/http on a model's own tokenizer and chat template, and on the scripted engine: the whole way of a request but
 * for the model. What tests/clients talks to.
 *
 *   scripted_server model=DIR script=FILE [ends=TOKEN …] [port=N] [ctx=N]
 *
 * DIR needs a tokenizer and a chat template, no weights. FILE: answer_script.h. ends: tokens that end an answer beside
 * the tokenizer's own. Prints `ready PORT` on standard output; SIGTERM ends it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/log.h"
#include "server/http/conn/http_server.h"
#include "template/answer_vocabulary.h"
#include "template/chat_template.h"
#include "tests/support/scripted_engine.h"

struct settings {
    const char *model, *script, *ends[SCRIPTED_ENDS_N];
    int n_ends, port, ctx;
};

/* The value of `name=value` where the argument has that name, else NULL. */
static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool read_arg(struct settings *s, const char *arg)
{
    const char *v;
    if ((v = value_of(arg, "model")))
        s->model = v;
    else if ((v = value_of(arg, "script")))
        s->script = v;
    else if ((v = value_of(arg, "port")))
        s->port = (int)strtol(v, NULL, 10);
    else if ((v = value_of(arg, "ctx")))
        s->ctx = (int)strtol(v, NULL, 10);
    else if ((v = value_of(arg, "ends")) && s->n_ends < SCRIPTED_ENDS_N - 1)
        s->ends[s->n_ends++] = v;
    else
        return false;
    return true;
}

struct rig {
    struct answer_script *script;
    struct lf_tokenizer *tok;
    struct lf_chat_template *chat;
    struct lf_answer_vocabulary vocabulary;
    struct lf_engine *engine;
    struct lf_http_server *server;
};

static enum lf_status open_model(struct rig *rig, const struct settings *s, struct scripted_engine_opts *engine,
                                 struct lf_err *err)
{
    LF_TRY(lf_tokenizer_open(&rig->tok, s->model, err));
    LF_TRY(lf_chat_template_create(&rig->chat, lf_tokenizer_chat_template(rig->tok), err));
    engine->tokenizer = rig->tok;
    engine->answers = rig->script;
    engine->ends[engine->n_ends++] = lf_tokenizer_eos(rig->tok);
    for (int i = 0; i < s->n_ends; i++)
        engine->ends[engine->n_ends++] = lf_tokenizer_find(rig->tok, lf_str_c(s->ends[i]));
    for (int i = 0; i < engine->n_ends; i++)
        if (engine->ends[i] < 0) return lf_fail(err, LF_INVALID, "end %d is no token", i);
    return lf_answer_vocabulary_create(&rig->vocabulary, rig->tok, lf_tokenizer_n_vocab(rig->tok), engine->ends,
                                       engine->n_ends, err);
}

static enum lf_status start(struct rig *rig, const struct settings *s, struct lf_err *err)
{
    struct scripted_engine_opts engine = {.ctx = s->ctx, .n_blocks = 65536, .max_seqs = 64, .queue_n = 256};
    struct lf_http_opts http = {.model_id = "fake",
                                .response_memory_bytes = LF_RESPONSE_MEMORY_BYTES,
                                .model_created_s = 1700000000,
                                .port = s->port,
                                .request_deadline_ms = 600000,
                                .n_connections_per_address = 64,
                                .vocabulary = &rig->vocabulary,
                                .default_max_tokens = 16};
    LF_TRY(open_model(rig, s, &engine, err));
    LF_TRY(lf_http_server_create(&rig->server, &http, err));
    rig->engine = scripted_engine_create(&engine);
    if (!rig->engine) return lf_fail(err, LF_NO_MEMORY, "no memory");
    lf_http_server_ready(rig->server, rig->tok, rig->chat, rig->engine);
    return LF_OK;
}

static void stop(struct rig *rig)
{
    if (rig->server) lf_http_server_drain(rig->server);
    lf_http_server_destroy(rig->server);
    lf_engine_destroy(rig->engine);
    lf_answer_vocabulary_deinit(&rig->vocabulary);
    lf_chat_template_destroy(rig->chat);
    lf_tokenizer_close(rig->tok);
    answer_script_close(rig->script);
}

int main(int argc, char **argv)
{
    struct settings s = {.ctx = 65536};
    struct rig rig = {0};
    struct lf_err err = {0};
    sigset_t signals;
    int got;
    for (int i = 1; i < argc; i++) {
        if (read_arg(&s, argv[i])) continue;
        fprintf(stderr, "scripted_server: unknown argument %s\n", argv[i]);
        return 2;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    lf_log_set_level(LF_LOG_WARN);
    rig.script = s.script ? answer_script_open(s.script) : NULL;
    enum lf_status status = !s.model || !rig.script ? lf_fail(&err, LF_INVALID, "model=DIR and script=FILE are needed")
                                                    : start(&rig, &s, &err);
    if (status == LF_OK) {
        printf("ready %d\n", lf_http_server_port(rig.server));
        fflush(stdout);
        while (sigwait(&signals, &got) == 0 && got != SIGTERM) {
        }
    } else
        fprintf(stderr, "scripted_server: %s\n", err.message);
    stop(&rig);
    return status == LF_OK ? 0 : 2;
}
