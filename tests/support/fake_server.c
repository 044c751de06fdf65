/* server/http on the doubles of engine and tokenizer, as a program: what tests/e2e talks to.
 *
 *   fake_server [name=value …]     names: the fields of lf_http_opts that are read below, and those of the double
 *
 * template=FILE: the model's chat template, else a plain one; control=TEXT: a control token that the vocabulary has
 * beside its own, any number of times.
 *
 * Prints `ready PORT` on standard output. SIGTERM drains and ends, SIGHUP reads the keys again. A line `fail FIRST N`
 * on standard input makes N of our own allocations fail from the FIRST next one on; `ok` comes back. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/text_memory.h"
#include "server/http/conn/http_server.h"
#include "tests/support/scripted_engine.h"
#include "template/answer_vocabulary.h"
#include "tests/support/fake_tokenizer.h"

enum { LIST_N = 8, DRAIN_MS = 30000 };

/* ---- allocations that fail: the program is linked with --wrap for these, the heap's and the text memory's ---- */

static _Atomic long n_until_failure = 0, n_failures = 0;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t n);

static bool fails(void)
{
    if (atomic_load(&n_failures) <= 0 || atomic_fetch_sub(&n_until_failure, 1) > 1) return false;
    return atomic_fetch_sub(&n_failures, 1) > 0;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *ptr, size_t n)
{
    return fails() ? NULL : __real_realloc(ptr, n);
}

void *__real_lf_text_alloc(struct lf_text_memory *m, size_t n);
void *__real_lf_text_alloc_zeroed(struct lf_text_memory *m, size_t n);
void *__real_lf_text_realloc(struct lf_text_memory *m, void *ptr, size_t n);
void *__wrap_lf_text_alloc(struct lf_text_memory *m, size_t n);
void *__wrap_lf_text_alloc_zeroed(struct lf_text_memory *m, size_t n);
void *__wrap_lf_text_realloc(struct lf_text_memory *m, void *ptr, size_t n);

/* Without a text memory it is the heap's, which is counted by itself. */
void *__wrap_lf_text_alloc(struct lf_text_memory *m, size_t n)
{
    return m && fails() ? NULL : __real_lf_text_alloc(m, n);
}

void *__wrap_lf_text_alloc_zeroed(struct lf_text_memory *m, size_t n)
{
    return m && fails() ? NULL : __real_lf_text_alloc_zeroed(m, n);
}

void *__wrap_lf_text_realloc(struct lf_text_memory *m, void *ptr, size_t n)
{
    return m && fails() ? NULL : __real_lf_text_realloc(m, ptr, n);
}

/* Reads `fail FIRST N` lines until standard input ends. The tests wait for each answer, so a read is a line. */
static void *obey(void *ctx)
{
    char line[64];
    ssize_t n;
    (void)ctx;
    while ((n = read(STDIN_FILENO, line, sizeof line - 1)) > 0) {
        char *end;
        line[n] = 0;
        if (strncmp(line, "fail ", 5) != 0) continue;
        long first = strtol(line + 5, &end, 10);
        atomic_store(&n_until_failure, first);
        atomic_store(&n_failures, strtol(end, NULL, 10));
        if (write(STDOUT_FILENO, "ok\n", 3) != 3) break;
    }
    return NULL;
}

struct settings {
    struct lf_http_opts http;
    struct scripted_engine_opts engine;
    int loading_ms;
    const char *template_file;
    const char *cors[LIST_N + 1], *hosts[LIST_N + 1], *aliases[LIST_N + 1], *proxies[LIST_N + 1];
};

struct number_row {
    const char *name;
    int *value;
};

/* The value of `name=value` where the argument has that name, else NULL. */
static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool add(const char **list, const char *value)
{
    for (int i = 0; i < LIST_N; i++) {
        if (list[i]) continue;
        list[i] = value;
        return true;
    }
    return false;
}

static bool read_word(struct settings *s, const char *arg)
{
    const char *v;
    if ((v = value_of(arg, "host")))
        s->http.host = v;
    else if ((v = value_of(arg, "api_keys_file")))
        s->http.api_keys_file = v;
    else if ((v = value_of(arg, "api_keys_env")))
        s->http.api_keys_env = v;
    else if ((v = value_of(arg, "metrics_prefix")))
        s->http.metrics_prefix = v;
    else if ((v = value_of(arg, "model_id")))
        s->http.model_id = v;
    else if ((v = value_of(arg, "tool_parser")))
        s->http.tool_parser = v;
    else if ((v = value_of(arg, "no_reasoning")))
        s->http.no_reasoning = strcmp(v, "1") == 0;
    else if ((v = value_of(arg, "template")))
        s->template_file = v;
    else if ((v = value_of(arg, "control")))
        return fake_tokenizer_add(v, true);
    else if ((v = value_of(arg, "max_body_bytes")))
        s->http.max_body_bytes = strtoull(v, NULL, 10);
    else if ((v = value_of(arg, "text_bytes")))
        s->http.text_bytes = strtoull(v, NULL, 10);
    else if ((v = value_of(arg, "document_memory_bytes")))
        s->http.document_memory_bytes = strtoull(v, NULL, 10);
    else if ((v = value_of(arg, "document_tokens")))
        s->http.document_tokens = strtoll(v, NULL, 10);
    else if ((v = value_of(arg, "response_memory_bytes")))
        s->http.response_memory_bytes = strtoull(v, NULL, 10);
    else if ((v = value_of(arg, "max_document_bytes")))
        s->http.max_document_bytes = strtoull(v, NULL, 10);
    else if ((v = value_of(arg, "no_page")))
        s->http.no_page = strcmp(v, "1") == 0;
    else if ((v = value_of(arg, "cors"))) {
        s->http.cors_origins = s->cors;
        return add(s->cors, v);
    } else if ((v = value_of(arg, "model_alias"))) {
        s->http.model_aliases = s->aliases;
        return add(s->aliases, v);
    } else if ((v = value_of(arg, "allowed_host"))) {
        s->http.allowed_hosts = s->hosts;
        return add(s->hosts, v);
    } else if ((v = value_of(arg, "trusted_proxy"))) {
        s->http.trusted_proxies = s->proxies;
        return add(s->proxies, v);
    } else if ((v = value_of(arg, "keep_alive"))) {
        s->http.keep_alive = strcmp(v, "chunk") == 0 ? LF_KEEP_ALIVE_CHUNK
                             : strcmp(v, "off") == 0 ? LF_KEEP_ALIVE_OFF
                                                     : LF_KEEP_ALIVE_COMMENT;
    } else
        return false;
    return true;
}

static bool read_arg(struct settings *s, const char *arg)
{
    struct lf_http_opts *h = &s->http;
    const struct number_row rows[] = {
        {"port", &h->port},
        {"n_connections", &h->n_connections},
        {"n_connections_per_address", &h->n_connections_per_address},
        {"n_threads", &h->n_threads},
        {"request_deadline_ms", &h->request_deadline_ms},
        {"max_choices", &h->max_choices},
        {"header_deadline_ms", &h->header_deadline_ms},
        {"body_deadline_ms", &h->body_deadline_ms},
        {"slow_reader_ms", &h->slow_reader_ms},
        {"keep_alive_ms", &h->keep_alive_ms},
        {"ctx", &s->engine.ctx},
        {"n_blocks", &s->engine.n_blocks},
        {"max_seqs", &s->engine.max_seqs},
        {"queue_n", &s->engine.queue_n},
        {"per_tenant_n", &s->engine.per_tenant_n},
        {"loading_ms", &s->loading_ms},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *v = value_of(arg, rows[i].name);
        if (!v) continue;
        *rows[i].value = (int)strtol(v, NULL, 10);
        return true;
    }
    return read_word(s, arg);
}

static void load(struct lf_http_server *server, int loading_ms)
{
    for (int at = 0; at < loading_ms; at += 10) {
        lf_http_server_progress(server, (double)at / loading_ms);
        lf_clock_sleep_ms(10);
    }
}

static void print_port(const struct lf_http_server *server)
{
    printf("ready %d\n", lf_http_server_port(server));
    fflush(stdout);
}

/* Until SIGTERM; then up to DRAIN_MS for what is in flight, less at a second one. */
static void serve(struct lf_http_server *server, struct lf_engine *engine, const sigset_t *signals)
{
    int got = 0;
    struct lf_err err;
    while (sigwait(signals, &got) == 0 && got != SIGTERM)
        if (got == SIGHUP && lf_http_server_reload_keys(server, &err) != LF_OK) LF_WARN("keys: %s", err.message);
    lf_http_server_drain(server);
    lf_engine_drain(engine);
    const struct timespec moment = {0, 10 * LF_NS_PER_MS};
    for (int at = 0; at < DRAIN_MS && lf_http_server_n_in_flight(server) > 0; at += 10)
        if (sigtimedwait(signals, NULL, &moment) == SIGTERM) return;
}

/* Control tokens are the template's own text: what comes out of a message is none. */
static const char plain_template[] =
    "{{ bos_token }}"
    "{% if raise is defined %}{{ raise_exception('the template says: these messages will not do') }}{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'user' %}<|user|>{% elif m.role == 'assistant' %}<|assistant|>"
    "{% elif m.role == 'system' %}<|system|>{% else %}<|tool|>{% endif %}"
    "{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

/* The chat template, which the tokenizer shows too. The source lives as long as the program. */
static enum lf_status open_template(struct lf_chat_template **out, const char *file, struct lf_err *err)
{
    static struct lf_buf source;
    lf_buf_init(&source, LF_TEMPLATE_SOURCE_BYTES);
    if (file)
        LF_TRY(lf_file_read(&source, file, LF_TEMPLATE_SOURCE_BYTES, err));
    else
        lf_buf_cstr(&source, plain_template);
    fake_tokenizer_set_template(source.ptr);
    return lf_chat_template_create(out, lf_buf_view(&source), err);
}

int main(int argc, char **argv)
{
    struct settings s = {.http = {.model_id = "fake",
                                  .response_memory_bytes = LF_RESPONSE_MEMORY_BYTES,
                                  .model_created_s = 1700000000,
                                  .version = "9.8.7",
                                  .commit = "0123abc",
                                  .weight_format = "bf16",
                                  .fingerprint = "fp_0123456789",
                                  .request_deadline_ms = 600000,
                                  .n_connections_per_address = 64},
                         .engine = {.ctx = 8192,
                                    .n_blocks = 4096,
                                    .max_seqs = 64,
                                    .queue_n = 256,
                                    .tokenizer = fake_tokenizer(),
                                    .ends = {FAKE_EOS},
                                    .n_ends = 1}};
    for (int i = 1; i < argc; i++) {
        if (read_arg(&s, argv[i])) continue;
        fprintf(stderr, "fake_server: unknown argument %s\n", argv[i]);
        return 2;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    lf_log_set_level(LF_LOG_WARN);

    struct lf_http_server *server = NULL;
    struct lf_chat_template *chat = NULL;
    struct lf_answer_vocabulary vocabulary;
    struct lf_err err;
    const int32_t end = FAKE_EOS;
    if (lf_answer_vocabulary_create(&vocabulary, fake_tokenizer(), lf_tokenizer_n_vocab(fake_tokenizer()), &end, 1,
                                    &err) != LF_OK)
        return 3;
    s.http.vocabulary = &vocabulary;
    if (open_template(&chat, s.template_file, &err) != LF_OK ||
        lf_http_server_create(&server, &s.http, &err) != LF_OK) {
        fprintf(stderr, "fake_server: %s\n", err.message);
        return 2;
    }
    if (s.loading_ms > 0) print_port(server); /* the test wants to see the loading */
    load(server, s.loading_ms);
    struct lf_engine *engine = scripted_engine_create(&s.engine);
    if (!engine) return 3;
    lf_http_server_ready(server, fake_tokenizer(), chat, engine);
    pthread_t control;
    if (pthread_create(&control, NULL, obey, NULL) != 0) return 3;
    pthread_detach(control);
    if (s.loading_ms == 0) print_port(server);
    serve(server, engine, &signals);
    lf_http_server_destroy(server);
    int left = scripted_engine_n_requests(engine);
    lf_clock_sleep_ms(20); /* the engine lets go of what was cancelled */
    left = scripted_engine_n_requests(engine);
    lf_engine_destroy(engine);
    lf_chat_template_destroy(chat);
    lf_answer_vocabulary_deinit(&vocabulary);
    return left == 0 ? 0 : 4;
}
