/* /metrics: Prometheus' text, under vLLM's names so that its dashboards work. Every label comes from a table here.
 *
 * The list of metrics for docs/operations.md is the same page with another head and no samples. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/process.h"
#include "core/text_memory.h"
#include "server/documents/documents.h"
#include "server/engine/engine.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"

enum { LABEL_BYTES = 640 };

struct page {
    struct lf_buf *out;
    bool lists; /* names, types and help as a table in Markdown */
    const char *prefix;
    char model[LABEL_BYTES / 2]; /* model_name="…" */
};

/* Backslash, quote and line end are escaped; a long id is cut at a whole character's start or so: it is a label. */
static void set_model_label(struct page *p, const char *id)
{
    size_t n = (size_t)snprintf(p->model, sizeof p->model, "model_name=\"");
    for (; *id && n < sizeof p->model - 4; id++) {
        bool mark = *id == '"' || *id == '\\' || *id == '\n';
        if (mark) p->model[n++] = '\\';
        p->model[n++] = *id == '\n' ? 'n' : *id;
    }
    snprintf(p->model + n, sizeof p->model - n, "\"");
}

/* What a metric begins with; labels: what it has beside the model's, NULL: none. */
static void head(struct page *p, const char *name, const char *type, const char *labels, const char *help)
{
    if (p->lists)
        lf_buf_printf(p->out, "| `%s` | %s | %s | %s |\n", name, type, labels ? labels : "", help);
    else
        lf_metrics_head(p->out, p->prefix, name, type, help);
}

static void sample_of(struct page *p, const char *name, const char *labels, double x)
{
    if (!p->lists) lf_metrics_sample(p->out, p->prefix, name, labels, x);
}

static void sample(struct page *p, const char *name, const char *label, const char *value, double x)
{
    char labels[LABEL_BYTES];
    if (label)
        snprintf(labels, sizeof labels, "%s,%s=\"%s\"", p->model, label, value);
    else
        snprintf(labels, sizeof labels, "%s", p->model);
    sample_of(p, name, labels, x);
}

static void gauge(struct page *p, const char *name, double x, const char *help)
{
    head(p, name, "gauge", NULL, help);
    sample(p, name, NULL, NULL, x);
}

static void counter(struct page *p, const char *name, const struct lf_counter *c, const char *help)
{
    head(p, name, "counter", NULL, help);
    sample(p, name, NULL, NULL, (double)lf_counter_get(c));
}

/* Of a counter of nanoseconds. */
static void seconds(struct page *p, const char *name, const struct lf_counter *c, const char *help)
{
    head(p, name, "counter", NULL, help);
    sample(p, name, NULL, NULL, (double)lf_counter_get(c) * 1e-9);
}

struct labelled {
    const char *value;
    const struct lf_counter *counter;
};

static void counters(struct page *p, const char *name, const char *label, const struct labelled *rows, size_t n,
                     const char *help)
{
    char labels[LABEL_BYTES];
    size_t at = (size_t)snprintf(labels, sizeof labels, "`%s`:", label);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(labels + at, sizeof labels - at, "%s %s", i ? "," : "", rows[i].value);
    LF_ASSERT(at < sizeof labels);
    head(p, name, "counter", labels, help);
    for (size_t i = 0; i < n; i++) sample(p, name, label, rows[i].value, (double)lf_counter_get(rows[i].counter));
}

static void write_engine_gauges(struct page *p, const struct lf_engine_state *state)
{
    const struct lf_engine_state e = *state;
    gauge(p, "num_requests_running", e.n_running, "Requests being computed.");
    gauge(p, "num_requests_waiting", e.n_waiting, "Requests in the queue.");
    gauge(p, "kv_cache_usage_perc", e.n_blocks ? (double)e.n_blocks_used / e.n_blocks : 0,
          "Share of KV blocks in use, 0 to 1.");
    gauge(p, "kv_blocks_used", e.n_blocks_used, "KV blocks that running requests or pins hold.");
    gauge(p, "kv_blocks_pinned", e.n_blocks_pinned, "KV blocks of these that documents are pinned to.");
    gauge(p, "kv_blocks_cached", e.n_blocks_cached, "KV blocks that only the prefix cache holds.");
    gauge(p, "kv_blocks_free", e.n_blocks_free, "KV blocks that nobody holds.");
    gauge(p, "num_waiting_tokens", (double)e.waiting_tokens, "Prompt tokens in the queue.");
    gauge(p, "engine_alive", e.alive, "1 while the engine works.");
}

/* Of a number that somebody else counts. */
static void total(struct page *p, const char *name, uint64_t n, const char *help)
{
    struct lf_counter c = {n};
    counter(p, name, &c, help);
}

static void write_states(struct page *p, const struct lf_engine_states *s)
{
    gauge(p, "state_slots", s->n_slots, "Slots for states of layers that have such: of sequences, and snapshots.");
    gauge(p, "state_slots_used", s->n_used, "Slots of these that running requests or pins hold.");
    gauge(p, "snapshots_pinned", s->n_pinned, "Snapshots of these that documents are pinned to.");
    gauge(p, "snapshots_cached", s->n_kept, "Snapshots that only the prefix cache holds.");
    total(p, "snapshots_hit_total", s->n_read, "Snapshots that a request began with, or went on from.");
    total(p, "snapshots_evicted_total", s->n_evicted, "Snapshots that made room for something else.");
    total(p, "snapshots_skipped_total", s->n_skipped, "Snapshots that were not made, because there was no room.");
}

static void write_disk(struct page *p, const struct lf_engine_tier *d)
{
    struct lf_counter saves = {d->n_save_failed}, loads = {d->n_load_failed};
    const struct labelled failures[] = {{"save", &saves}, {"load", &loads}};
    gauge(p, "disk_works", d->works,
          "1 while blocks are kept in --cache-dir; 0 without it, and for a while after a failure.");
    gauge(p, "disk_blocks", d->n_blocks, "KV blocks that --cache-disk has room for.");
    gauge(p, "disk_blocks_kept", d->n_kept, "KV blocks that are there.");
    gauge(p, "disk_blocks_pinned", d->n_pinned, "KV blocks of these that documents are pinned to.");
    total(p, "disk_blocks_saved_total", d->n_saved, "KV blocks written to disk.");
    total(p, "disk_blocks_loaded_total", d->n_loaded, "KV blocks read back.");
    total(p, "disk_blocks_evicted_total", d->n_evicted, "KV blocks on disk that made room for others.");
    total(p, "disk_blocks_broken_total", d->n_broken,
          "KV blocks on disk that were not what was written, and were dropped.");
    counters(p, "disk_failures_total", "way", failures, LF_N_ELEMS(failures),
             "KV blocks that the disk failed to take or give.");
}

static void write_memory(struct page *p, const struct lf_engine_tier *m)
{
    struct lf_counter saves = {m->n_save_failed}, loads = {m->n_load_failed};
    const struct labelled failures[] = {{"save", &saves}, {"load", &loads}};
    gauge(p, "memory_blocks", m->n_blocks, "KV blocks that --cache-memory has room for, as far as it is pinned.");
    gauge(p, "memory_blocks_kept", m->n_kept, "KV blocks that are there.");
    gauge(p, "memory_blocks_pinned", m->n_pinned, "KV blocks of these that documents are pinned to.");
    total(p, "memory_blocks_saved_total", m->n_saved, "KV blocks copied to --cache-memory.");
    total(p, "memory_blocks_loaded_total", m->n_loaded, "KV blocks copied back.");
    total(p, "memory_blocks_evicted_total", m->n_evicted, "KV blocks in memory that made room for others.");
    counters(p, "memory_failures_total", "way", failures, LF_N_ELEMS(failures),
             "KV blocks that had no place in memory, or whose copy failed.");
}

/* What the cache was made as, in labels: the numbers do not change while the process lives. */
static void write_cache_config(struct page *p, const struct lf_engine_state *e)
{
    char labels[LABEL_BYTES];
    snprintf(labels, sizeof labels,
             "%s,block_size=\"%d\",cache_dtype=\"%s\",enable_prefix_caching=\"%s\",num_gpu_blocks=\"%d\"", p->model,
             e->block_tokens, e->kv_dtype, e->prefix_cache ? "True" : "False", e->n_blocks);
    head(p, "cache_config_info", "gauge",
         "`block_size`: tokens; `cache_dtype`; `enable_prefix_caching`: True, False; `num_gpu_blocks`",
         "How the KV cache was made; always 1.");
    sample_of(p, "cache_config_info", labels, 1);
}

static void write_engine_counters(struct page *p, const struct lf_engine_metrics *m)
{
    const struct labelled sources[] = {{"local_compute", &m->prompt_tokens_computed},
                                       {"local_cache_hit", &m->prompt_tokens_cached},
                                       {"external_kv_transfer", &m->prompt_tokens_restored}};
    const struct labelled reasons[] = {{"stop", &m->finished_stop},
                                       {"length", &m->finished_length},
                                       {"abort", &m->finished_cancelled},
                                       {"error", &m->finished_error}};
    const struct labelled rejections[] = {{"queue_requests", &m->rejected_queue}, {"queue_tokens", &m->rejected_tokens},
                                          {"per_key", &m->rejected_tenant},       {"key_tokens", &m->rejected_quota},
                                          {"too_long", &m->rejected_too_long},    {"draining", &m->rejected_draining}};
    static const struct lf_counter none;
    counter(p, "prompt_tokens_total", &m->prompt_tokens, "Prompt tokens taken in.");
    counters(p, "prompt_tokens_by_source_total", "source", sources, LF_N_ELEMS(sources),
             "Prompt tokens by where their KV came from, counted at admission.");
    counter(p, "prefix_cache_queries_total", &m->cache_queries, "Prompt tokens that the prefix cache was asked for.");
    counter(p, "prefix_cache_hits_total", &m->prompt_tokens_cached, "Of these, found in it.");
    counter(p, "num_preemptions_total", &none, "Requests taken off the device for others: none ever is.");
    counter(p, "generation_tokens_total", &m->generation_tokens, "Tokens generated.");
    counters(p, "request_success_total", "finished_reason", reasons, LF_N_ELEMS(reasons), "Requests ended, by why.");
    counter(p, "broken_logits_total", &m->broken_logits, "Requests ended because a logit was NaN or infinite.");
    counter(p, "broken_grammars_total", &m->broken_grammars,
            "Requests ended because their grammar could not be followed.");
    counter(p, "constrained_requests_total", &m->constrained, "Requests started whose answers follow a grammar.");
    counter(p, "grammar_masks_total", &m->masks,
            "Masks made for tokens under a grammar, and behind each that was tried.");
    seconds(p, "grammar_mask_seconds_total", &m->masks_ns, "What steps waited for these masks.");
    counter(p, "speculative_tokens_proposed_total", &m->proposed, "Tokens that steps tried beside the next one.");
    counter(p, "speculative_tokens_accepted_total", &m->accepted, "Of these, tokens that came.");
    counter(p, "speculative_waits_total", &m->waits, "Steps read before the next was launched, for what it tries.");
    seconds(p, "speculative_wait_seconds_total", &m->waits_ns, "How long a device had nothing to do for these.");
    counters(p, "admission_rejections_total", "reason", rejections, LF_N_ELEMS(rejections),
             "Requests refused at the queue, by why.");
}

static void write_histograms(struct page *p, const struct lf_engine_metrics *m, const struct lf_http_metrics *http)
{
    const struct {
        const char *name;
        const struct lf_histogram *h;
        const char *help;
    } rows[] = {
        {"time_to_first_token_seconds", &m->ttft_s, "From submission to the first token."},
        {"inter_token_latency_seconds", &m->itl_s, "Between tokens of a request: of those that come of one step once."},
        {"e2e_request_latency_seconds", &m->e2e_s, "From submission to the end."},
        {"request_queue_time_seconds", &m->queue_s, "In the queue."},
        {"request_prefill_time_seconds", &m->prefill_s, "In prefill."},
        {"request_decode_time_seconds", &m->decode_s, "In decode."},
        {"request_inference_time_seconds", &m->inference_s, "In prefill and decode."},
        {"request_prompt_tokens", &m->prompt_tokens_per_request, "Prompt tokens of a request."},
        {"request_generation_tokens", &m->generation_tokens_per_request, "Generated tokens of a request."},
        {"request_params_n", &http->n_choices, "Choices asked for with a prompt (n)."},
        {"request_params_max_tokens", &m->max_tokens, "Tokens that a request may generate, asked for or by default."},
        {"iteration_tokens_total", &m->tokens_per_step, "Tokens of a step."},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        if (p->lists)
            head(p, rows[i].name, "histogram", NULL, rows[i].help);
        else
            lf_metrics_histogram(p->out, p->prefix, rows[i].name, p->model, rows[i].h, rows[i].help);
    }
}

/* Of all routes of a path, whatever the method: their responses of a kind. */
static uint64_t responses_of(const struct lf_http_metrics *m, const char *path, int kind)
{
    uint64_t n = 0;
    for (int i = 0; i < lf_routes_n(); i++)
        if (strcmp(lf_route_at(i)->path, path) == 0) n += lf_counter_get(&m->requests[i][kind]);
    return n;
}

static bool is_first_of_path(int route)
{
    for (int i = 0; i < route; i++)
        if (strcmp(lf_route_at(i)->path, lf_route_at(route)->path) == 0) return false;
    return true;
}

/* Those of which there was none too: a rate is that of a counter which was there before. */
static void write_http_requests(struct page *p, const struct lf_http_metrics *m)
{
    static const char *const kinds[] = {"", "1xx", "2xx", "3xx", "4xx", "5xx"};
    char labels[LABEL_BYTES];
    head(p, "http_requests_total", "counter", "`route`, `status`: 2xx, 3xx, 4xx, 5xx",
         "Responses by route and kind of status.");
    if (p->lists) return;
    for (int i = 0; i <= lf_routes_n(); i++) {
        bool known = i < lf_routes_n();
        const char *path = known ? lf_route_at(i)->path : "none";
        if (known && !is_first_of_path(i)) continue;
        for (int k = 2; k <= 5; k++) {
            uint64_t n = known ? responses_of(m, path, k) : lf_counter_get(&m->requests[LF_ROUTES_N][k]);
            snprintf(labels, sizeof labels, "route=\"%s\",status=\"%s\"", path, kinds[k]);
            lf_metrics_sample(p->out, p->prefix, "http_requests_total", labels, (double)n);
        }
    }
}

/* What the HTTP side counts, at one moment. */
struct http_numbers {
    const struct lf_http_metrics *metrics;
    const struct lf_conn_metrics *conns;
    struct lf_text_memory_state text;
    int n_connections, n_open, n_suspended, n_in_flight;
    int n_documents, n_ranks, n_cp;
    uint64_t document_bytes;
    struct lf_counter documents_broken;
};

static void write_http(struct page *p, const struct http_numbers *n)
{
    const struct lf_http_metrics *m = n->metrics;
    const struct lf_conn_metrics *c = n->conns;
    const struct labelled refused[] = {{"all", &c->refused_full}, {"address", &c->refused_address}};
    const struct labelled cuts[] = {{"head", &c->cut_head},
                                    {"idle", &c->cut_idle},
                                    {"body", &c->cut_body},
                                    {"reader", &c->cut_reader},
                                    {"room", &c->made_room}};
    struct lf_counter dropped = {lf_log_n_dropped()};
    write_http_requests(p, m);
    gauge(p, "http_connections", n->n_connections, "Open connections.");
    gauge(p, "http_requests_open", n->n_open, "HTTP requests being read or answered, this one included.");
    gauge(p, "http_requests_suspended", n->n_suspended, "HTTP requests that wait for the engine or a worker.");
    gauge(p, "http_requests_in_flight", n->n_in_flight, "Generation requests not fully answered.");
    gauge(p, "text_memory_budget_bytes", (double)n->text.budget_bytes,
          "Memory for texts: bodies, what is made of them, replies.");
    gauge(p, "text_memory_used_bytes", (double)n->text.used_bytes, "Of it, in use.");
    gauge(p, "text_memory_peak_bytes", (double)n->text.peak_bytes, "Of it, the most that was ever in use.");
    gauge(p, "ranks", n->n_ranks, "Ranks that compute the model together (`--parallel`).");
    gauge(p, "context_ranks", n->n_cp, "Ranks that a context is divided over: N of `--parallel cp=N`.");
    gauge(p, "documents", n->n_documents, "Documents with names.");
    gauge(p, "document_bytes", (double)n->document_bytes, "Bytes of their texts.");
    counter(p, "document_files_broken_total", &n->documents_broken,
            "Files of documents (`--cache-dir`) that were not what was written, and are dropped.");
    counter(p, "http_connections_accepted_total", &c->accepted, "Connections accepted.");
    counters(p, "http_connections_refused_total", "limit", refused, LF_N_ELEMS(refused), "Connections turned away.");
    counter(p, "http_accept_failures_total", &c->failed, "Times that no descriptor or memory was left.");
    counters(p, "http_connections_cut_total", "deadline", cuts, LF_N_ELEMS(cuts),
             "Connections ended by a deadline, or to make room for another.");
    counter(p, "http_clients_gone_total", &m->clients_gone, "Requests whose client left before the end.");
    counter(p, "http_unknown_fields_total", &m->unknown_fields, "Fields of requests that were ignored.");
    counter(p, "http_forwarded_malformed_total", &m->malformed_forwarded,
            "Requests of trusted proxies with an X-Forwarded-For that names no address.");
    counter(p, "http_text_memory_refused_total", &m->refused_text_memory, "Requests refused for want of text memory.");
    counter(p, "log_lines_dropped_total", &dropped, "Log lines that could not be written.");
}

/* ---- of the process: names that every program has, without a prefix and the model's label ---- */

static void process_metric(struct page *p, const char *name, const char *type, double x, const char *help)
{
    if (x < 0) return; /* the system does not say */
    head(p, name, type, NULL, help);
    sample_of(p, name, "", x);
}

static void write_process(const struct page *page, const struct lf_process_figures *f, const struct lf_http_opts *opts)
{
    struct page bare = *page, *p = &bare;
    char labels[LABEL_BYTES];
    bare.prefix = "";
    process_metric(p, "process_cpu_seconds_total", "counter", f->cpu_s, "Processor time of all threads, in seconds.");
    process_metric(p, "process_start_time_seconds", "gauge", f->started_unix_s,
                   "When it began, in seconds since 1970.");
    process_metric(p, "process_resident_memory_bytes", "gauge", (double)f->resident_bytes, "Memory that is resident.");
    process_metric(p, "process_virtual_memory_bytes", "gauge", (double)f->virtual_bytes, "Addresses that are taken.");
    process_metric(p, "process_open_fds", "gauge", (double)f->n_open, "Descriptors in use.");
    process_metric(p, "process_max_fds", "gauge", (double)f->n_open_most, "Descriptors that there may be.");
    snprintf(labels, sizeof labels, "version=\"%s\",commit=\"%s\"", opts->version, opts->commit);
    head(p, "longflash_build_info", "gauge", "`version`, `commit`", "Which program this is; always 1.");
    sample_of(p, "longflash_build_info", labels, 1);
}

/* Of those keys whose line in the file of keys has a name. keys: NULL where families are only listed. */
static void write_keys(struct page *p, struct lf_keys *keys)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {
        {"key_requests_total", "Requests taken in.", offsetof(struct lf_tenant_meter, requests)},
        {"key_rejections_total", "Requests refused at the queue, or for a limit of the key's.",
         offsetof(struct lf_tenant_meter, rejected)},
        {"key_prompt_tokens_total", "Prompt tokens.", offsetof(struct lf_tenant_meter, prompt_tokens)},
        {"key_prompt_tokens_cached_total", "Of these, found in the cache or below it.",
         offsetof(struct lf_tenant_meter, cached_tokens)},
        {"key_generation_tokens_total", "Tokens generated.", offsetof(struct lf_tenant_meter, generation_tokens)},
    };
    for (size_t r = 0; r < LF_N_ELEMS(rows); r++) {
        const struct lf_key_meter *m;
        head(p, rows[r].name, "counter", "`key`: its name in the file of keys", rows[r].help);
        for (int i = 0; keys && (m = lf_keys_meter(keys, i)) != NULL; i++) {
            const char *at = (const char *)&m->counters + rows[r].offset;
            sample(p, rows[r].name, "key", m->name,
                   (double)lf_counter_get((const struct lf_counter *)(const void *)at));
        }
    }
}

void lf_handle_metrics(struct lf_exchange *x)
{
    struct lf_http_server *s = x->server;
    const struct lf_engine_metrics *m = lf_engine_metrics(s->engine);
    struct page p = {.out = lf_reply_json(&x->reply, 200), .prefix = s->opts.metrics_prefix};
    struct lf_engine_state engine;
    struct lf_process_figures process;
    struct http_numbers http = {.metrics = &s->metrics,
                                .conns = &s->conns.metrics,
                                .n_ranks = LF_MAX(s->opts.memory.n_ranks, 1),
                                .n_cp = LF_MAX(s->opts.memory.n_cp, 1),
                                .n_connections = lf_conns_n_open(&s->conns),
                                .n_in_flight = atomic_load(&s->n_in_flight)};
    lf_engine_snapshot(s->engine, &engine);
    lf_waker_count(&s->waker, &http.n_open, &http.n_suspended);
    lf_text_memory_snapshot(s->text_memory, &http.text);
    lf_documents_count(s->documents, &http.n_documents, &http.document_bytes);
    lf_counter_add(&http.documents_broken, lf_counter_get(&s->keeper.broken));
    lf_process_read(&process);
    x->reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    set_model_label(&p, s->opts.model_id);
    write_engine_gauges(&p, &engine);
    write_cache_config(&p, &engine);
    write_states(&p, &engine.states);
    write_memory(&p, &engine.memory);
    write_disk(&p, &engine.disk);
    write_engine_counters(&p, m);
    write_histograms(&p, m, &s->metrics);
    write_keys(&p, &s->keys);
    write_http(&p, &http);
    write_process(&p, &process, &s->opts);
}

void lf_http_metrics_docs(struct lf_buf *out)
{
    static const struct lf_engine_metrics no_metrics;
    static const struct lf_http_metrics no_http_metrics;
    static const struct lf_conn_metrics no_conn_metrics;
    static const struct lf_engine_state no_state = {.kv_dtype = ""};
    static const struct lf_process_figures no_figures;
    static const struct lf_http_opts no_opts = {.version = "", .commit = ""};
    const struct http_numbers none = {.metrics = &no_http_metrics, .conns = &no_conn_metrics};
    struct page p = {.out = out, .lists = true};
    lf_buf_cstr(out, "| metric | type | labels | what it is |\n|---|---|---|---|\n");
    write_engine_gauges(&p, &no_state);
    write_cache_config(&p, &no_state);
    write_states(&p, &no_state.states);
    write_memory(&p, &no_state.memory);
    write_disk(&p, &no_state.disk);
    write_engine_counters(&p, &no_metrics);
    write_histograms(&p, &no_metrics, &no_http_metrics);
    write_keys(&p, NULL);
    write_http(&p, &none);
    write_process(&p, &no_figures, &no_opts);
}
