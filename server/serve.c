/* serve: from a configuration to a server, and to its orderly end.
 *
 * Order. What can be refused is refused first, in under a second: settings, model directory, plan. Then the address is
 * bound, so that a supervisor sees /livez at once and /readyz with the progress; then the weights are read.
 *
 * Signals are blocked in every thread and fetched by this one, except while loading, when nothing is in flight and
 * TERM may simply end the process. The first TERM or INT drains; from then on a handler waits for the second one, which
 * ends the process at once, whatever any thread is doing. */
#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/limits.h"
#include "core/log.h"
#include "model/generation_config.h"
#include "server/auto_split.h"
#include "server/commands.h"
#include "server/ends.h"
#include "server/engine/engine.h"
#include "server/follow.h"
#include "server/http/conn/http_server.h"
#include "server/notify.h"
#include "server/ranks.h"
#include "server/runtime.h"
#include "template/answer_format.h"

enum {
    TELL_MS = 2000, /* for the last errors to go out */
    POLL_MS = 200,
    KEEP_POLLS_N = 50, /* what was measured is kept as often */
    DEAD_GRACE_MS = 2000,
    HTTP_THREADS_N = 4
};

struct server {
    const struct lf_config *config;
    struct lf_runtime rt;
    struct lf_http_server *http;
    struct lf_sampling_defaults sampling;
    char model_id[LF_MODEL_NAME_BYTES + 1];
    const char *aliases[LF_CONFIG_LIST_N + 1];
    char fingerprint[24];
    char weight_format[LF_WEIGHTS_NAME_BYTES];
    int64_t started_ns;
    struct lf_notify notify;
};

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcmp(host, "localhost") == 0;
}

static enum lf_status check_tool_parser(const struct lf_config *c, struct lf_err *err)
{
    const struct lf_answer_format *format;
    if (!c->tool_parser) return LF_OK;
    enum lf_status status = lf_answer_format_find(&format, lf_str_c(c->tool_parser), err);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "--tool-parser");
}

static bool is_any_name(const char *name)
{
    return strcmp(name, "*") == 0;
}

static enum lf_status check_name(const char *name, const char *option, struct lf_err *err)
{
    struct lf_str s = lf_str_c(name);
    bool ok = s.len <= LF_MODEL_NAME_BYTES && lf_utf8_valid(s);
    for (size_t i = 0; i < s.len; i++) ok = ok && (unsigned char)s.ptr[i] >= ' ' && s.ptr[i] != 0x7f;
    return ok ? LF_OK
              : lf_fail(err, LF_INVALID, "%s: expected a name of at most %d bytes without control characters", option,
                        LF_MODEL_NAME_BYTES);
}

static enum lf_status check_names(const struct lf_config *c, struct lf_err *err)
{
    if (c->model_id) LF_TRY(check_name(c->model_id, "--model-id", err));
    for (const char *const *p = c->served_model_name; p && *p; p++) {
        LF_TRY(check_name(*p, "--served-model-name", err));
        if (c->model_id && strcmp(c->model_id, *p) == 0)
            return lf_fail(err, LF_INVALID, "--served-model-name: \"%.60s\" is the --model-id already", *p);
        for (const char *const *before = c->served_model_name; before < p; before++)
            if (strcmp(*before, *p) == 0)
                return lf_fail(err, LF_INVALID, "--served-model-name: \"%.60s\" came twice", *p);
    }
    return LF_OK;
}

static enum lf_status check_config(const struct lf_config *c, struct lf_err *err)
{
    if (c->n_args > 0)
        return lf_fail(err, LF_INVALID,
                       "serve takes no arguments, got \"%.60s\" (a model is given as --model); see --help", c->args[0]);
    if (!c->host) return lf_fail(err, LF_INVALID, "--host: expected an address");
    if (!is_loopback(c->host) && !c->api_keys_file && !c->api_keys_env && !c->insecure_no_auth)
        return lf_fail(err, LF_INVALID,
                       "--host %.60s is not loopback and no keys are set: expected --api-keys-file, LONGFLASH_API_KEYS "
                       "or --insecure-no-auth",
                       c->host);
    if (c->cache_dir && !c->prefix_cache)
        return lf_fail(err, LF_INVALID, "--cache-dir keeps blocks of the prefix cache, but --prefix-cache is off");
    if (c->cache_memory && !c->prefix_cache)
        return lf_fail(err, LF_INVALID, "--cache-memory keeps blocks of the prefix cache, but --prefix-cache is off");
    if (c->cache_meet && !c->cache_dir && !c->cache_memory)
        return lf_fail(err, LF_INVALID,
                       "--cache-meet is about blocks that come back: expected --cache-dir or --cache-memory");
    LF_TRY(check_tool_parser(c, err));
    return check_names(c, err);
}

/* --model-id, or else the first name that is one, is what answers call the model; the others stand beside it. */
static const char *take_names(struct server *s)
{
    const char *first = s->config->model_id;
    int n = 0;
    for (const char *const *p = s->config->served_model_name; p && *p; p++) {
        if (!first && !is_any_name(*p))
            first = *p;
        else
            s->aliases[n++] = *p;
    }
    return first;
}

/* The name on the hub, or the last part of the model's path that says something: "demo" for demo/model. */
static void name_model(struct server *s)
{
    const char *given = take_names(s);
    if (given) {
        snprintf(s->model_id, sizeof(s->model_id), "%s", given);
        return;
    }
    if (s->rt.dir.hub.name[0]) {
        snprintf(s->model_id, sizeof(s->model_id), "%s", s->rt.dir.hub.name);
        return;
    }
    char path[PATH_MAX];
    if (!realpath(s->rt.dir.path, path)) path[0] = '\0';
    char *end = path + strlen(path);
    while (end > path) {
        char *slash = end;
        while (slash > path && slash[-1] != '/') slash--;
        *end = '\0';
        if (*slash && strcmp(slash, "model") != 0) {
            snprintf(s->model_id, sizeof(s->model_id), "%.255s", slash);
            return;
        }
        end = slash > path ? slash - 1 : path;
    }
    snprintf(s->model_id, sizeof(s->model_id), "model");
}

/* The same program computes the same model in the same way, over as many ranks: then a seed gives the same answer. */
static void name_computation(struct server *s)
{
    uint8_t hash[LF_SHA256_BYTES];
    struct lf_buf text;
    lf_buf_init(&text, 4096);
    lf_plan_name_weights(s->weight_format, &s->rt.plan);
    lf_buf_printf(&text, "%s\n%s\n%s\n%s\n%d\n%s", lf_version(), lf_commit(), s->model_id, s->rt.plan.device,
                  s->config->kv_dtype, s->weight_format);
    const struct lf_stretch *stretch = &s->rt.hp.stretch;
    if (stretch->max_position)
        lf_buf_printf(&text, "\n%d, %d, %d", stretch->max_position, stretch->yarn, stretch->yarn_original);
    const struct lf_split *split = &s->rt.hp.split;
    if (lf_split_world(split) > 1) lf_buf_printf(&text, "\ntp=%d,cp=%d", lf_split_n_ranks(split), lf_split_n_cp(split));
    lf_sha256(lf_buf_view(&text).ptr, text.len, hash);
    lf_buf_deinit(&text);
    snprintf(s->fingerprint, sizeof s->fingerprint, "fp_%02x%02x%02x%02x%02x", hash[0], hash[1], hash[2], hash[3],
             hash[4]);
}

static enum lf_status read_sampling(struct server *s, struct lf_err *err)
{
    s->sampling = LF_SAMPLING_PLAIN;
    if (s->config->generation_config != 0) return LF_OK;
    enum lf_status status = lf_generation_config_read(&s->sampling, s->rt.dir.path, err);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "--generation-config none passes over this");
}

static struct lf_memory_shares memory_shares(const struct lf_plan *p)
{
    uint64_t n_ranks = (uint64_t)p->n_ranks;
    return (struct lf_memory_shares){.weights = n_ranks * p->weight_bytes,
                                     .workspace = n_ranks * p->workspace_bytes,
                                     .kv = n_ranks * (p->kv_bytes + p->state_bytes),
                                     .host = p->comm_bytes + p->host_bytes + p->text_bytes + p->disk_index_bytes,
                                     .n_ranks = p->n_ranks,
                                     .n_cp = p->n_cp};
}

static enum lf_status start_http(struct server *s, struct lf_err *err)
{
    const struct lf_config *c = s->config;
    struct lf_http_opts opts = {
        .host = c->host,
        .port = c->port,
        .max_body_bytes = c->max_body,
        .n_connections = c->n_connections,
        .n_connections_per_address = c->n_connections_per_address,
        .text_bytes = lf_runtime_text_bytes(&s->rt),
        .document_memory_bytes = c->document_memory,
        .response_memory_bytes = c->response_memory,
        .max_document_bytes = c->max_document,
        .document_tokens = (int64_t)c->document_tokens,
        .documents_dir = c->cache_dir,
        .n_threads = HTTP_THREADS_N,
        .request_deadline_ms = c->request_timeout * 1000,
        .max_choices = LF_CHOICES_N,
        .keep_alive = (enum lf_keep_alive)c->keep_alive,
        .metrics_prefix = c->metrics_prefix ? "vllm:" : "longflash:",
        .api_keys_file = c->api_keys_file,
        .api_keys_env = c->api_keys_env,
        .cors_origins = c->cors_origin,
        .allowed_hosts = c->allowed_host,
        .trusted_proxies = c->trusted_proxy,
        .model_id = s->model_id,
        .model_aliases = s->aliases,
        .memory = memory_shares(&s->rt.plan),
        .no_page = c->no_page,
        .model_created_s = lf_clock_unix_s(),
        .version = lf_version(),
        .commit = lf_commit(),
        .weight_format = s->weight_format,
        .fingerprint = s->fingerprint,
        .tool_parser = c->tool_parser,
        .no_reasoning = c->reasoning != 0,
        .default_max_tokens = 16,
        .speculate = c->speculate,
        .sampling = &s->sampling,
        .vocabulary = s->rt.vocabulary.continues ? &s->rt.vocabulary : NULL,
    };
    return lf_http_server_create(&s->http, &opts, err);
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct server *s = ctx;
    double fraction = total ? (double)done / (double)total : 1.0;
    lf_http_server_progress(s->http, fraction);
    lf_notify_progress(&s->notify, fraction);
}

/* ---- signals ---- */

static void block_ends(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
}

static void block_signals(sigset_t *set)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log at the limit of a file's size loses lines, like one on a full disk */
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static enum lf_status load_interruptibly(struct server *s, struct lf_err *err)
{
    lf_handle_ends(lf_end_now);
    enum lf_status status = lf_runtime_load(&s->rt, on_progress, s, err);
    block_ends();
    return status;
}

/* The next signal of the set, 0 after ms. */
static int wait_signal(const sigset_t *set, int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * LF_NS_PER_MS};
    int sig = sigtimedwait(set, NULL, &t);
    return sig > 0 ? sig : 0;
}

static void reload(struct server *s)
{
    struct lf_err err;
    if (s->config->log_file && lf_log_open(s->config->log_file, &err) != LF_OK) LF_ERROR("log: %s", err.message);
    if (!s->config->api_keys_file) return;
    if (lf_http_server_reload_keys(s->http, &err) != LF_OK)
        LF_ERROR("the old keys stay: %s", err.message);
    else
        LF_INFO("keys reloaded");
}

/* Whether it lives, and its ranks do; else nobody waits for it any more. */
static bool look_after_engine(struct server *s, struct lf_engine_state *state)
{
    struct lf_err err;
    if (s->rt.ranks && lf_ranks_check(s->rt.ranks, &err) != LF_OK)
        lf_engine_declare_dead(s->rt.engine, "a rank has failed");
    lf_engine_snapshot(s->rt.engine, state);
    return state->alive;
}

/* Waits until nothing is in flight, for ms at most. */
static void wait_answered(struct server *s, int64_t ms)
{
    struct lf_engine_state state;
    int64_t end_ns = lf_clock_ns() + ms * LF_NS_PER_MS;
    while (lf_http_server_n_in_flight(s->http) > 0 && lf_clock_ns() < end_ns) {
        if (look_after_engine(s, &state)) lf_notify_alive(&s->notify);
        lf_clock_sleep_ms(POLL_MS / 4);
    }
}

/* A dead engine may hang in the device, so nothing is joined behind it: clients have their errors within ms, then the
 * process goes, and a supervisor starts another. */
static void end_dead(const struct lf_engine_state *state, int ms)
{
    LF_ERROR("the engine ended: %s", state->message);
    lf_clock_sleep_ms(ms);
    _exit(LF_EXIT_FAILED);
}

static void drain(struct server *s)
{
    struct lf_engine_state state;
    lf_handle_ends(lf_end_failed);
    int n_in_flight = lf_http_server_n_in_flight(s->http);
    LF_INFO("draining in_flight=%d", n_in_flight);
    lf_notify_tell(&s->notify, "STOPPING=1\nSTATUS=draining, %d requests in flight", n_in_flight);
    lf_http_server_drain(s->http);
    lf_engine_drain(s->rt.engine);
    wait_answered(s, (int64_t)s->config->drain_timeout * 1000);
    lf_engine_stop(s->rt.engine);
    wait_answered(s, TELL_MS);
    if (!look_after_engine(s, &state)) end_dead(&state, 0);
    LF_INFO("stopped in_flight=%d", lf_http_server_n_in_flight(s->http));
}

/* Until a signal or the engine's end. */
static void serve_until_end(struct server *s, const sigset_t *set)
{
    struct lf_engine_state state;
    for (int i = 1;; i++) {
        int sig = wait_signal(set, POLL_MS);
        if (i % KEEP_POLLS_N == 0) lf_runtime_keep_speed(&s->rt);
        if (sig == SIGHUP) reload(s);
        if (sig == SIGTERM || sig == SIGINT) {
            drain(s);
            return;
        }
        if (!look_after_engine(s, &state)) end_dead(&state, DEAD_GRACE_MS);
        lf_notify_alive(&s->notify);
    }
}

/* ---- the command ---- */

static void print_plan(const struct server *s)
{
    struct lf_buf page;
    lf_buf_init(&page, 64 * 1024);
    lf_plan_print(&s->rt.plan, &s->rt.hp, &page);
    fwrite(page.ptr, 1, page.len, stderr);
    lf_buf_deinit(&page);
}

static void print_ranks(const struct lf_plan *p, char out[64])
{
    out[0] = 0;
    if (p->n_cp > 1)
        snprintf(out, 64, "%d ranks (tp=%d,cp=%d) of ", p->n_ranks, p->n_ranks / p->n_cp, p->n_cp);
    else if (p->n_ranks > 1)
        snprintf(out, 64, "%d ranks of ", p->n_ranks);
}

/* Fewer requests run than do by default. */
static void print_lowered(const struct lf_plan *p, char out[128])
{
    out[0] = 0;
    if (p->max_seqs_before == 0) return;
    snprintf(out, 128, ", of any length at most %d at once instead of %d, for their states (--max-seqs)", p->max_seqs,
             p->max_seqs_before);
}

static void print_ready(const struct server *s)
{
    const struct lf_plan *p = &s->rt.plan;
    char lowered[128], ranks[64];
    struct lf_buf sampling;
    print_lowered(p, lowered);
    print_ranks(p, ranks);
    lf_buf_init(&sampling, 256);
    lf_sampling_defaults_print(&s->sampling, &sampling);
    bool v6 = strchr(s->config->host, ':') != NULL;
    printf(
        "ready in %.2f s: http://%s%s%s:%d  model %s (%s), context %d tokens, %d such request%s at once%s, %.1f MiB, "
        "on %s%s%s%s\n",
        (double)(lf_clock_ns() - s->started_ns) / LF_NS_PER_S, v6 ? "[" : "", s->config->host, v6 ? "]" : "",
        lf_http_server_port(s->http), s->model_id, s->weight_format, p->ctx, p->n_concurrent,
        p->n_concurrent == 1 ? "" : "s", lowered, (double)p->total_bytes / (1024.0 * 1024.0), ranks, p->device,
        sampling.len ? ", unless a request says: " : "", lf_buf_view(&sampling).ptr);
    lf_buf_deinit(&sampling);
    fflush(stdout);
}

/* Closing may take as long as loading has: TERM and INT need not wait for it. */
static int fail(struct server *s, const struct lf_err *err)
{
    int exit_status = lf_report(err);
    lf_handle_ends(lf_end_failed);
    if (s->rt.ranks) lf_ranks_fail(s->rt.ranks, err);
    lf_http_server_destroy(s->http);
    lf_runtime_close(&s->rt);
    lf_notify_close(&s->notify);
    return exit_status;
}

int lf_serve_command(const struct lf_config *config)
{
    struct server s = {.config = config, .started_ns = lf_clock_ns()};
    struct lf_err err = {0};
    sigset_t signals;
    lf_log_set_level((enum lf_log_level)config->log_level);
    if (check_config(config, &err) != LF_OK) return lf_report(&err);
    if (config->log_file && lf_log_open(config->log_file, &err) != LF_OK) return lf_report(&err);
    lf_notify_open(&s.notify);
    block_signals(&signals);
    if (lf_runtime_open(&s.rt, config, true, &err) != LF_OK) return fail(&s, &err);
    if (s.rt.rank > 0) return lf_follow(&s.rt, &s.notify);
    if (read_sampling(&s, &err) != LF_OK) return fail(&s, &err);
    if (lf_auto_split_plan(&s.rt, true, &err) != LF_OK) return fail(&s, &err);
    if (!s.rt.plan.fits) {
        print_plan(&s);
        (void)lf_fail(&err, LF_NO_MEMORY, "the plan does not fit: %s", s.rt.plan.advice);
        return fail(&s, &err);
    }
    name_model(&s);
    name_computation(&s);
    if (start_http(&s, &err) != LF_OK) return fail(&s, &err);
    if (load_interruptibly(&s, &err) != LF_OK) return fail(&s, &err);
    if (lf_runtime_start(&s.rt, &err) != LF_OK) return fail(&s, &err);
    if (lf_http_server_load_documents(s.http, &err) != LF_OK) return fail(&s, &err);
    lf_http_server_ready(s.http, s.rt.tok, s.rt.chat, s.rt.engine);
    print_ready(&s);
    lf_notify_tell(&s.notify, "READY=1\nSTATUS=serving on port %d", lf_http_server_port(s.http));
    serve_until_end(&s, &signals);
    lf_http_server_destroy(s.http);
    lf_runtime_close(&s.rt);
    lf_notify_close(&s.notify);
    return LF_EXIT_OK;
}
