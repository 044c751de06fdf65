/* load: what a server does under load.
 *
 * The matrix: every number of clients with every prompt length, one row of figures each. --find-limit: doubling, then
 * halving the interval, for the longest prompt (one client) and for the most clients (the shortest length); a step
 * counts as passed when every request was answered and the p90 bounds hold.
 *
 * --documents: before each test of the matrix its documents are put, all of which a server may have already, and then
 * the clients ask about them. Both are shown with where their prompts' tokens came from, by the server's own count, and
 * what was found with what can be: all whole blocks of the document that a question is about.
 *
 * Before all that the server is asked what it is, so that a table says over how many ranks it was measured. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/hash.h"
#include "core/json.h"
#include "server/commands.h"
#include "server/load/about_server.h"
#include "server/load/load_client.h"
#include "server/load/load_prompt.h"
#include "server/load/prompt_sources.h"
#include "server/text_input.h"

enum { PUTTERS_N = 2, PAGE_BYTES = 4 * 1024 * 1024, PAGE_MS = 60 * 1000 };
enum { LIST_N = 32, TIMEOUT_MS = 24 * 3600 * 1000, LONGEST_PROMPT = LF_CONTEXT_TOKENS, SEARCH_FIRST_TOKENS = 1024 };

struct load {
    const struct lf_config *config;
    struct lf_url url;
    char *key;            /* owned; NULL: none */
    FILE *csv;            /* NULL: none */
    struct lf_buf schema; /* --json-schema; empty: none */
    bool terminal;
    struct lf_zipf documents; /* which one is asked about; n 0: none are put */
    enum lf_load_dialect dialect;
    enum lf_workload workload;
    struct lf_about_server server;
    uint64_t seed;    /* --seed, or drawn for this run */
    uint64_t n_tests; /* each with a seed of its own, so that no prompt comes twice */
    char label[64];   /* of the test that is running */
};

struct test {
    int n_clients, n_prompt, n_requests;
    struct lf_load_shape shape;
    struct lf_load_result result;
    int64_t n_document_tokens;
    double ready_s; /* until all documents were read */
    struct lf_prompt_sources put, asked;
    int64_t *document_tokens;    /* [documents] owned, as the server counted them; NULL: none */
    int block_tokens;            /* of the server's cache */
    int64_t n_findable, n_found; /* tokens of whole blocks of the documents asked about, and those of them cached */
};

static enum lf_status parse_list(const char *what, const char *text, int max, int *values, int *n, struct lf_err *err)
{
    *n = 0;
    for (const char *p = text ? text : "";;) {
        char item[32];
        uint64_t v;
        size_t len = strcspn(p, ",");
        snprintf(item, sizeof(item), "%.*s", (int)LF_MIN(len, sizeof(item) - 1), p);
        if (!lf_config_parse_size(item, &v) || v < 1 || v > (uint64_t)max || *n == LIST_N)
            return lf_fail(err, LF_INVALID,
                           "--%s: expected up to %d numbers from 1 to %d, separated by commas, got \"%.60s\"", what,
                           LIST_N, max, text ? text : "");
        values[(*n)++] = (int)v;
        if (p[len] == '\0') return LF_OK;
        p += len + 1;
    }
}

/* ---- one test ---- */

static void label(struct load *l, const struct test *t)
{
    snprintf(l->label, sizeof(l->label), "%d × %d tokens", t->n_clients, t->n_prompt);
}

static void make(void *ctx, struct lf_buf *out, uint64_t idx)
{
    lf_load_request(out, ctx, idx);
}

static void make_put(void *ctx, struct lf_buf *out, uint64_t idx)
{
    lf_load_put(out, ctx, idx);
}

/* A GET of a page of the server, and who asks. */
struct page {
    const struct load *load;
    const char *path;
};

static void make_get(void *ctx, struct lf_buf *out, uint64_t idx)
{
    const struct page *page = ctx;
    (void)idx;
    lf_load_get(out, page->load->url.host, page->load->key, page->path);
}

static void on_progress(void *ctx, int n_done, int n_failed, int64_t n_tokens)
{
    struct load *l = ctx;
    if (!l->terminal) return;
    fprintf(stderr, "\r%s: %d requests done, %d failed, %lld tokens   ", l->label, n_done, n_failed,
            (long long)n_tokens);
}

/* The body of a page, which the caller deinits; LF_TIMEOUT where it does not come. */
static enum lf_status get(const struct load *l, const char *path, struct lf_buf *body, struct lf_err *err)
{
    struct page page = {l, path};
    struct lf_load_result r;
    struct lf_load_spec spec = {.url = &l->url,
                                .n_clients = 1,
                                .n_requests = 1,
                                .timeout_ms = PAGE_MS,
                                .make = make_get,
                                .make_ctx = &page,
                                .body = body};
    lf_buf_init(body, PAGE_BYTES);
    LF_TRY(lf_load_run(&r, &spec, err));
    enum lf_status status = LF_OK;
    if (r.n_failed) status = lf_fail(err, LF_TIMEOUT, "%.200s%s: %s", l->config->url, path, r.first_bad);
    lf_load_result_deinit(&r);
    return status;
}

static enum lf_status read_sources(struct load *l, struct lf_prompt_sources *out, struct lf_err *err)
{
    struct lf_buf body;
    enum lf_status status = get(l, "/metrics", &body, err);
    if (status == LF_OK && !lf_prompt_sources_read(out, lf_buf_view(&body)))
        status =
            lf_fail(err, LF_UNSUPPORTED, "%.200s/metrics does not say where prompts' tokens came from", l->config->url);
    lf_buf_deinit(&body);
    return status;
}

/* What the server is, if it says so: others have no such page, and are measured all the same. */
static void read_server(struct load *l)
{
    struct lf_buf body;
    struct lf_err why;
    if (get(l, "/v1/capacity", &body, &why) == LF_OK) (void)lf_about_server_read(&l->server, lf_buf_view(&body));
    lf_buf_deinit(&body);
}

static void keep_tokens(void *ctx, uint64_t idx, const struct lf_load_stream *stream)
{
    struct test *t = ctx;
    t->document_tokens[idx] = stream->n_prompt;
}

/* A prompt begins with all of its document, so a server that has read it finds its whole blocks. */
static void add_findable(void *ctx, uint64_t idx, const struct lf_load_stream *stream)
{
    struct test *t = ctx;
    int64_t n = t->document_tokens[lf_load_document_of(&t->shape, idx)];
    n -= n % t->block_tokens;
    t->n_findable += n;
    t->n_found += LF_MIN(stream->n_cached, n);
}

/* Until all of them have been read. */
static enum lf_status put_documents(struct load *l, struct test *t, struct lf_err *err)
{
    struct lf_load_result r;
    struct lf_load_spec spec = {.url = &l->url,
                                .n_clients = LF_MIN(PUTTERS_N, l->documents.n),
                                .n_requests = l->documents.n,
                                .timeout_ms = TIMEOUT_MS,
                                .dialect = LF_LOAD_DOCUMENT,
                                .make = make_put,
                                .make_ctx = &t->shape,
                                .answered = keep_tokens,
                                .answered_ctx = t,
                                .progress = on_progress,
                                .progress_ctx = l};
    snprintf(l->label, sizeof(l->label), "documents of %d words", t->n_prompt);
    LF_TRY(lf_load_run(&r, &spec, err));
    t->n_document_tokens = r.n_prompt_tokens;
    t->ready_s = r.wall_ms / 1000.0;
    enum lf_status status = LF_OK;
    if (r.n_failed)
        status =
            lf_fail(err, LF_TIMEOUT, "%d of %d documents were not read: %s", r.n_failed, l->documents.n, r.first_bad);
    lf_load_result_deinit(&r);
    return status;
}

/* The documents are put, then asked about. */
static enum lf_status run_documents(struct load *l, struct test *t, const struct lf_load_spec *spec, struct lf_err *err)
{
    struct lf_prompt_sources before, between, after;
    LF_TRY(read_sources(l, &before, err));
    LF_TRY(put_documents(l, t, err));
    LF_TRY(read_sources(l, &between, err));
    label(l, t);
    LF_TRY(lf_load_run(&t->result, spec, err));
    enum lf_status status = read_sources(l, &after, err);
    t->put = lf_prompt_sources_between(&before, &between);
    t->asked = lf_prompt_sources_between(&between, &after);
    if (status != LF_OK) lf_load_result_deinit(&t->result);
    return status;
}

static enum lf_status run_spec(struct load *l, struct test *t, struct lf_load_spec *spec, struct lf_err *err)
{
    if (l->documents.n == 0) return lf_load_run(&t->result, spec, err);
    t->document_tokens = calloc((size_t)l->documents.n, sizeof(*t->document_tokens));
    if (!t->document_tokens) return lf_fail(err, LF_NO_MEMORY, "no memory for %d documents", l->documents.n);
    spec->answered = add_findable;
    spec->answered_ctx = t;
    enum lf_status status = run_documents(l, t, spec, err);
    free(t->document_tokens);
    t->document_tokens = NULL;
    return status;
}

static enum lf_status run_test(struct load *l, struct test *t, int n_clients, int n_prompt, int rounds,
                               struct lf_err *err)
{
    const struct lf_config *c = l->config;
    int block_tokens = l->server.n_ranks > 0 ? l->server.block_tokens : LF_KV_BLOCK_TOKENS;
    *t = (struct test){
        .n_clients = n_clients, .n_prompt = n_prompt, .n_requests = n_clients * rounds, .block_tokens = block_tokens};
    t->shape = (struct lf_load_shape){
        .dialect = l->dialect,
        .workload = l->workload,
        .n_prompt = n_prompt,
        .n_shared = LF_MIN(c->shared_prefix, n_prompt),
        .n_output = c->output_tokens ? c->output_tokens : lf_workload_output_tokens(l->workload),
        .seed = l->seed + (c->shared_prefix ? 0 : l->n_tests * 1000003u),
        .host = l->url.host,
        .key = l->key,
        .schema = lf_buf_view(&l->schema),
        .documents = l->documents.n ? &l->documents : NULL,
        .document_seed = c->seed,
    };
    l->n_tests++;
    label(l, t);
    struct lf_load_spec spec = {
        .url = &l->url,
        .n_clients = n_clients,
        .n_requests = t->n_requests,
        .timeout_ms = TIMEOUT_MS,
        .dialect = l->dialect,
        .make = make,
        .make_ctx = &t->shape,
        .json = l->schema.len > 0,
        .progress = on_progress,
        .progress_ctx = l,
    };
    enum lf_status status = run_spec(l, t, &spec, err);
    if (l->terminal) fprintf(stderr, "\r%70s\r", "");
    return status;
}

static void print_head(struct load *l)
{
    const struct lf_about_server *s = &l->server;
    if (s->n_context_ranks > 1)
        printf("%s over %d ranks, each context over %d of them\n", s->model, s->n_ranks, s->n_context_ranks);
    else if (s->n_ranks > 0)
        printf("%s over %d rank%s\n", s->model, s->n_ranks, s->n_ranks == 1 ? "" : "s");
    else
        printf("a server that does not say over how many ranks\n");
    printf("%5s %8s %4s %6s | %9s %9s %9s | %8s %8s %8s | %10s %9s\n", "conc", "prompt", "ok", "failed", "ttft p50",
           "p90", "p99 ms", "itl p50", "p90", "p99 ms", "prompt t/s", "out t/s");
    if (l->csv)
        fprintf(l->csv,
                "concurrency,prompt_tokens,ok,failed,ttft_p50_ms,ttft_p90_ms,ttft_p99_ms,itl_p50_ms,itl_p90_ms,"
                "itl_p99_ms,e2e_p50_ms,e2e_p99_ms,prompt_tokens_per_s,output_tokens_per_s,cached_tokens,wall_s,"
                "first_failure,ranks%s\n",
                l->documents.n ? ",documents,zipf,document_tokens,ready_s,put_computed,put_memory,put_disk,"
                                 "asked_computed,asked_memory,asked_disk"
                               : "");
}

static void print_sources(const char *what, const struct lf_prompt_sources *s)
{
    double sum = (double)LF_MAX(s->n_computed + s->n_memory + s->n_disk, (int64_t)1);
    printf("%s%.1f%% computed, %.1f%% from memory, %.1f%% from disk\n", what, 100 * (double)s->n_computed / sum,
           100 * (double)s->n_memory / sum, 100 * (double)s->n_disk / sum);
}

static void print_documents(struct load *l, const struct test *t)
{
    const struct lf_prompt_sources *put = &t->put, *asked = &t->asked;
    if (l->documents.n == 0) return;
    printf("      %d documents of %lld tokens ready after %.2f s", l->documents.n, (long long)t->n_document_tokens,
           t->ready_s);
    if (put->n_computed + put->n_memory + put->n_disk > 0)
        print_sources(": ", put);
    else
        printf(", as they were there\n");
    printf("      questions: %.1f%% of their tokens cached",
           100 * (double)t->result.n_cached / (double)LF_MAX(t->result.n_prompt_tokens, (int64_t)1));
    print_sources("; ", asked);
    printf("      hit rate: %.1f%% of the %lld tokens of documents that can be found (blocks of %d)\n",
           100 * (double)t->n_found / (double)LF_MAX(t->n_findable, (int64_t)1), (long long)t->n_findable,
           t->block_tokens);
}

static void print_test(struct load *l, struct test *t)
{
    static const double percents[3] = {50, 90, 99};
    struct lf_load_result *r = &t->result;
    double ttft[3], itl[3], wall_s = r->wall_ms / 1000.0;
    for (int i = 0; i < 3; i++) {
        ttft[i] = lf_samples_percentile(&r->ttft, percents[i]);
        itl[i] = lf_samples_percentile(&r->gaps, percents[i]);
    }
    double prompt_rate = wall_s > 0 ? (double)r->n_prompt_tokens / wall_s : 0;
    double output_rate = wall_s > 0 ? (double)r->n_tokens / wall_s : 0;
    printf("%5d %8d %4d %6d | %9.1f %9.1f %9.1f | %8.2f %8.2f %8.2f | %10.1f %9.1f\n", t->n_clients, t->n_prompt,
           r->n_ok, r->n_failed, ttft[0], ttft[1], ttft[2], itl[0], itl[1], itl[2], prompt_rate, output_rate);
    if (r->n_failed) printf("      first failure: %s\n", r->first_bad);
    if (r->n_cut) printf("      %d of the answers were cut by --output-tokens\n", r->n_cut);
    print_documents(l, t);
    fflush(stdout);
    if (!l->csv) return;
    fprintf(l->csv, "%d,%d,%d,%d,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.2f,%.2f,%lld,%.3f,", t->n_clients,
            t->n_prompt, r->n_ok, r->n_failed, ttft[0], ttft[1], ttft[2], itl[0], itl[1], itl[2],
            lf_samples_percentile(&r->e2e, 50), lf_samples_percentile(&r->e2e, 99), prompt_rate, output_rate,
            (long long)r->n_cached, wall_s);
    fputc('"', l->csv);
    for (const char *p = r->first_bad; *p; p++) fputs(*p == '"' ? "\"\"" : (char[]){*p, '\0'}, l->csv);
    fputs("\",", l->csv);
    if (l->server.n_ranks > 0) fprintf(l->csv, "%d", l->server.n_ranks);
    if (l->documents.n)
        fprintf(l->csv, ",%d,%.3f,%lld,%.3f,%lld,%lld,%lld,%lld,%lld,%lld", l->documents.n, l->config->zipf,
                (long long)t->n_document_tokens, t->ready_s, (long long)t->put.n_computed, (long long)t->put.n_memory,
                (long long)t->put.n_disk, (long long)t->asked.n_computed, (long long)t->asked.n_memory,
                (long long)t->asked.n_disk);
    fputc('\n', l->csv);
}

static enum lf_status run_matrix(struct load *l, struct lf_err *err)
{
    int levels[LIST_N], lengths[LIST_N], n_levels, n_lengths;
    LF_TRY(parse_list("concurrency", l->config->levels, LF_LOAD_CLIENTS_N, levels, &n_levels, err));
    LF_TRY(parse_list("lengths", l->config->lengths, LONGEST_PROMPT, lengths, &n_lengths, err));
    print_head(l);
    int n_ok = 0;
    char last_bad[LF_LOAD_MESSAGE_BYTES] = "";
    for (int i = 0; i < n_levels; i++) {
        for (int j = 0; j < n_lengths; j++) {
            struct test t;
            LF_TRY(run_test(l, &t, levels[i], lengths[j], l->config->rounds, err));
            print_test(l, &t);
            n_ok += t.result.n_ok;
            memcpy(last_bad, t.result.first_bad, sizeof(last_bad));
            lf_load_result_deinit(&t.result);
        }
    }
    return n_ok > 0 ? LF_OK
                    : lf_fail(err, LF_TIMEOUT, "no request was answered by %.200s: %s", l->config->url, last_bad);
}

/* ---- the search ---- */

/* Whether the test holds the bounds; reason says what did not. */
static bool passes(const struct load *l, struct test *t, char *reason, size_t reason_bytes)
{
    const struct lf_config *c = l->config;
    double ttft = lf_samples_percentile(&t->result.ttft, 90), itl = lf_samples_percentile(&t->result.gaps, 90);
    if (t->result.n_failed) {
        snprintf(reason, reason_bytes, "%d of %d requests failed: %s", t->result.n_failed, t->n_requests,
                 t->result.first_bad);
        return false;
    }
    if (c->ttft_ms && ttft > c->ttft_ms) {
        snprintf(reason, reason_bytes, "time to first token p90 %.0f ms is above --ttft-ms %d", ttft, c->ttft_ms);
        return false;
    }
    if (c->itl_ms && itl > c->itl_ms) {
        snprintf(reason, reason_bytes, "time between tokens p90 %.0f ms is above --itl-ms %d", itl, c->itl_ms);
        return false;
    }
    return true;
}

struct search {
    const char *what;
    bool clients; /* the number of clients is searched, else the prompt length */
    int fixed;    /* the other one */
    int first, most, grain;
    char reason[512]; /* of the smallest value that failed */
};

static enum lf_status try_value(struct load *l, struct search *s, int value, bool *passed, struct lf_err *err)
{
    struct test t;
    char reason[sizeof(s->reason)] = "";
    LF_TRY(run_test(l, &t, s->clients ? value : 1, s->clients ? s->fixed : value, 1, err));
    print_test(l, &t);
    *passed = passes(l, &t, reason, sizeof(reason));
    if (!*passed) memcpy(s->reason, reason, sizeof(reason));
    lf_load_result_deinit(&t.result);
    return LF_OK;
}

static enum lf_status find_limit(struct load *l, struct search *s, struct lf_err *err)
{
    int good = 0, bad = 0;
    for (int value = s->first; bad == 0 && good < s->most; value = LF_MIN(value * 2, s->most)) {
        bool passed;
        LF_TRY(try_value(l, s, value, &passed, err));
        *(passed ? &good : &bad) = value;
    }
    while (bad != 0 && bad - good > LF_MAX(s->grain, good / 32)) {
        bool passed;
        int middle = good + (bad - good) / 2;
        LF_TRY(try_value(l, s, middle, &passed, err));
        *(passed ? &good : &bad) = middle;
    }
    printf("%s: %d%s\n", s->what, good, bad ? "" : ", the most that is tried");
    if (bad) printf("  at %d: %s\n", bad, s->reason);
    return LF_OK;
}

static enum lf_status run_search(struct load *l, struct lf_err *err)
{
    int lengths[LIST_N], n_lengths;
    LF_TRY(parse_list("lengths", l->config->lengths, LONGEST_PROMPT, lengths, &n_lengths, err));
    struct search length = {.what = "longest prompt, tokens, one request at a time",
                            .fixed = 1,
                            .first = SEARCH_FIRST_TOKENS,
                            .most = LONGEST_PROMPT,
                            .grain = 64};
    struct search clients = {.what = "most requests at once",
                             .clients = true,
                             .fixed = lengths[0],
                             .first = 1,
                             .most = LF_LOAD_CLIENTS_N,
                             .grain = 1};
    print_head(l);
    LF_TRY(find_limit(l, &length, err));
    return find_limit(l, &clients, err);
}

/* ---- the command ---- */

/* The first key of LONGFLASH_API_KEYS. */
static enum lf_status first_key(struct load *l, struct lf_err *err)
{
    if (!l->config->api_keys_env) return LF_OK;
    l->key = strndup(l->config->api_keys_env, strcspn(l->config->api_keys_env, ","));
    return l->key ? LF_OK : lf_fail(err, LF_NO_MEMORY, "out of memory");
}

/* Sent as it stands, within another JSON text: so it must be one. */
static enum lf_status read_schema(struct load *l, struct lf_err *err)
{
    struct lf_json doc = {0};
    if (!l->config->json_schema) return LF_OK;
    enum lf_status status = lf_text_read(&l->schema, l->config->json_schema, LF_GRAMMAR_SOURCE_BYTES, err);
    if (status == LF_OK) status = lf_json_parse(&doc, lf_buf_view(&l->schema), &lf_json_limits_request, err);
    lf_json_deinit(&doc);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "--json-schema: %.200s", l->config->json_schema);
}

static enum lf_status check_workload(const struct load *l, struct lf_err *err)
{
    const struct lf_config *c = l->config;
    if (l->workload == LF_WORKLOAD_RANDOM) return LF_OK;
    if (l->dialect == LF_LOAD_COMPLETIONS)
        return lf_fail(err, LF_INVALID,
                       "--workload: a completion's prompt is of random ids; expected --dialect chat, responses or "
                       "messages");
    if (c->shared_prefix) return lf_fail(err, LF_INVALID, "--workload: not together with --shared-prefix");
    if (c->n_documents && l->workload == LF_WORKLOAD_CHAT)
        return lf_fail(err, LF_INVALID,
                       "--workload chat: not together with --documents; each conversation has a text "
                       "of its own");
    return LF_OK;
}

/* What --dialect, --workload and --documents say together. */
static enum lf_status choose_dialect(struct load *l, struct lf_err *err)
{
    const struct lf_config *c = l->config;
    l->workload = (enum lf_workload)c->workload;
    l->dialect = c->dialect                      ? (enum lf_load_dialect)(c->dialect - 1)
                 : c->n_documents || l->workload ? LF_LOAD_CHAT
                                                 : LF_LOAD_COMPLETIONS;
    LF_TRY(check_workload(l, err));
    if (c->n_documents == 0) return LF_OK;
    if (l->dialect == LF_LOAD_COMPLETIONS)
        return lf_fail(err, LF_INVALID,
                       "--documents: a completion names none; expected --dialect chat, responses or messages");
    if (c->find_limit || c->shared_prefix)
        return lf_fail(err, LF_INVALID, "--documents: not together with %s",
                       c->find_limit ? "--find-limit" : "--shared-prefix");
    enum lf_status status = lf_zipf_init(&l->documents, c->n_documents, c->zipf);
    return status == LF_OK ? LF_OK : lf_fail(err, status, "out of memory");
}

static enum lf_status run(struct load *l, struct lf_err *err)
{
    const struct lf_config *c = l->config;
    if (c->n_args > 0) return lf_fail(err, LF_INVALID, "load takes no arguments, got \"%.60s\"", c->args[0]);
    if (!c->url) return lf_fail(err, LF_INVALID, "--url: expected http://host:port");
    LF_TRY(lf_url_parse(&l->url, c->url, err));
    LF_TRY(choose_dialect(l, err));
    LF_TRY(first_key(l, err));
    LF_TRY(read_schema(l, err));
    l->seed = c->seed;
    if (l->seed == 0 && !lf_random_bytes(&l->seed, sizeof(l->seed)))
        return lf_fail(err, LF_IO, "the system gives no random numbers: expected --seed");
    if (c->csv) {
        l->csv = fopen(c->csv, "we");
        if (!l->csv) return lf_fail(err, LF_IO, "--csv: cannot write %.200s: %s", c->csv, strerror(errno));
    }
    read_server(l);
    return c->find_limit ? run_search(l, err) : run_matrix(l, err);
}

int lf_load_command(const struct lf_config *config)
{
    struct load l = {.config = config, .terminal = isatty(STDERR_FILENO)};
    struct lf_err err = {0};
    lf_buf_init(&l.schema, LF_GRAMMAR_SOURCE_BYTES + 1);
    enum lf_status status = run(&l, &err);
    if (l.csv && fclose(l.csv) != 0 && status == LF_OK)
        status = lf_fail(&err, LF_IO, "--csv: %.200s could not be written whole", config->csv);
    free(l.key);
    lf_zipf_deinit(&l.documents);
    lf_buf_deinit(&l.schema);
    return status == LF_OK ? LF_EXIT_OK : lf_report(&err);
}
