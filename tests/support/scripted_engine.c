#include "tests/support/scripted_engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/mix.h"
#include "core/list.h"
#include "core/str.h"
#include "grammar/grammar.h"
#include "tokenizer/tokenizer.h"
#include "tests/support/no_pins.h"

enum { CACHE_N = 8192, PAUSE_MS = 1, NEVER = 1 << 30 };

struct script {
    struct lf_ids say; /* owned; what is answered */
    bool endless, free;
    int prefill_ms, step_ms, burst, fail_at, timeout_at, die_at;
};

struct lf_request {
    struct lf_engine *engine;
    struct lf_list node; /* on waiting or running, or alone */
    int n_refs;
    bool running, cancelled, put;
    struct lf_gen_params params; /* pointers into what follows */
    int32_t *prompt, *stops;
    uint8_t *salt;
    struct lf_sampled *tokens, *echo;
    struct script script;
    struct lf_matcher *matcher; /* NULL: no grammar */
    uint32_t *mask;
    struct lf_request_state state;
    struct lf_request *leader;
    int n_blocks;
    int64_t next_ns;
};

struct lf_engine {
    struct scripted_engine_opts opts;
    pthread_t thread;
    pthread_mutex_t lock;
    struct lf_list waiting, running;
    int n_waiting, n_running, n_used, n_requests;
    int64_t waiting_tokens;
    uint64_t n_steps;
    bool dead, draining, stop;
    uint64_t cache[CACHE_N]; /* hashes of prompt beginnings that were computed */
    int n_cache;
    struct lf_engine_metrics metrics;
};

/* ---- scripts ---- */

static int number_of(struct lf_str text, const char *name, int fallback)
{
    char key[32];
    snprintf(key, sizeof key, "[[%s=", name);
    ptrdiff_t at = lf_str_find(text, lf_str_c(key));
    return at < 0 ? fallback : (int)strtol(text.ptr + at + strlen(key), NULL, 10);
}

/* In a conversation the last message counts. */
static ptrdiff_t find_last(struct lf_str text, struct lf_str what)
{
    ptrdiff_t last = -1, at;
    for (size_t from = 0; (at = lf_str_find(lf_str_from(text.ptr + from, text.len - from), what)) >= 0;) {
        last = (ptrdiff_t)from + at;
        from = (size_t)last + what.len;
    }
    return last;
}

static void read_directives(struct script *s, struct lf_str all)
{
    s->free = number_of(all, "free", 0) != 0;
    s->prefill_ms = number_of(all, "prefill_ms", 0);
    s->step_ms = number_of(all, "step_ms", 0);
    s->burst = number_of(all, "burst", 1);
    s->fail_at = number_of(all, "fail_at", NEVER);
    s->timeout_at = number_of(all, "timeout_at", NEVER);
    s->die_at = number_of(all, "die_at", NEVER);
}

/* What [[say=…]] in the prompt says; false: there is none. */
static bool said(struct lf_str all, struct lf_str *say)
{
    ptrdiff_t at = find_last(all, LF_STR("[[say="));
    if (at < 0) return false;
    *say = lf_str_from(all.ptr + at + 6, all.len - (size_t)at - 6);
    ptrdiff_t end = lf_str_find(*say, LF_STR("]]"));
    if (end >= 0) say->len = (size_t)end;
    return true;
}

static enum lf_status read_script(struct script *s, const struct scripted_engine_opts *opts, const int32_t *prompt,
                                  int n)
{
    static const char endless[] = "Hello world, the quick \xE6\x97\xA5\xE6\x9C\xAC fox says \xC3\xA9t\xC3\xA9. ";
    struct lf_buf text;
    lf_buf_init(&text, 64 * 1024 * 1024);
    *s = (struct script){0};
    enum lf_status status = lf_tokenizer_decode(opts->tokenizer, &text, prompt, (size_t)n, opts->answers, NULL, NULL);
    if (text.status != LF_OK) status = text.status;
    struct lf_str all = lf_buf_view(&text), say = lf_str_c(endless);
    bool scripted = opts->answers && answer_script_find(opts->answers, all, &say);
    s->endless = !scripted && !said(all, &say);
    read_directives(s, all);
    unsigned flags = scripted || number_of(all, "controls", 0) ? LF_ENCODE_SPECIALS : 0;
    if (status == LF_OK) status = lf_tokenizer_encode(opts->tokenizer, &s->say, say, NULL, 0, flags, 0, NULL, NULL);
    lf_buf_deinit(&text);
    return status;
}

/* ---- requests ---- */

static void free_request(struct lf_request *r)
{
    r->engine->n_requests--;
    lf_ids_deinit(&r->script.say);
    lf_matcher_destroy(r->matcher);
    lf_grammar_unref(r->params.grammar);
    free(r->mask);
    free(r->prompt);
    free(r->stops);
    free(r->salt);
    free(r->tokens);
    free(r->echo);
    free(r);
}

static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes + 1);
    if (to && bytes) memcpy(to, from, bytes);
    return to;
}

static void unref_locked(struct lf_request *r)
{
    if (--r->n_refs == 0) free_request(r);
}

static void notify_locked(struct lf_request *r)
{
    if (!r->put && r->params.notify) r->params.notify(r->params.notify_ctx);
}

static void end_with_locked(struct lf_request *r, enum lf_finish why, enum lf_status status, const char *message)
{
    struct lf_engine *e = r->engine;
    struct lf_counter *counts[] = {NULL, &e->metrics.finished_stop, &e->metrics.finished_length,
                                   &e->metrics.finished_cancelled, &e->metrics.finished_error};
    lf_counter_add(counts[why], 1);
    lf_histogram_observe(&e->metrics.max_tokens, r->params.max_tokens);
    r->state.finish = why;
    r->state.status = status;
    r->state.message = message;
    r->state.finished_ns = lf_clock_ns();
    if (r->running) {
        e->n_running--;
        e->n_used -= r->n_blocks;
    } else {
        e->n_waiting--;
        e->waiting_tokens -= r->params.n_prompt;
    }
    lf_list_remove(&r->node);
    notify_locked(r);
    unref_locked(r);
}

static void end_locked(struct lf_request *r, enum lf_finish why, enum lf_status status)
{
    end_with_locked(r, why, status, status == LF_OK ? "" : "the double was told to fail");
}

static void time_out_locked(struct lf_request *r)
{
    r->state.timed_out = true;
    end_locked(r, LF_FINISH_LENGTH, LF_OK);
}

static uint64_t block_key(const struct lf_request *r, int n_tokens)
{
    uint64_t salt = lf_hash64(r->params.salt, (size_t)r->params.salt_bytes);
    return lf_mix64(salt ^ lf_hash64(r->prompt, (size_t)n_tokens * sizeof *r->prompt));
}

static bool is_cached(const struct lf_engine *e, uint64_t key)
{
    for (int i = 0; i < e->n_cache; i++)
        if (e->cache[i] == key) return true;
    return false;
}

/* Whole blocks before the last token that are known; those that are not become so. */
static int use_cache(struct lf_engine *e, const struct lf_request *r)
{
    int n_cached = 0;
    bool hit = true;
    for (int n = LF_KV_BLOCK_TOKENS; n < r->params.n_prompt && n <= 64 * LF_KV_BLOCK_TOKENS; n += LF_KV_BLOCK_TOKENS) {
        uint64_t key = block_key(r, n);
        hit = hit && is_cached(e, key);
        if (hit)
            n_cached = n;
        else if (e->n_cache < CACHE_N)
            e->cache[e->n_cache++] = key;
    }
    return n_cached;
}

/* ---- the engine's thread ---- */

static void admit_locked(struct lf_engine *e)
{
    LF_LIST_EACH_SAFE(node, &e->waiting)
    {
        struct lf_request *r = LF_LIST_ENTRY(node, struct lf_request, node);
        bool follows = r->leader && r->leader->state.n_tokens == 0 && r->leader->state.finish == LF_FINISH_NONE;
        if (follows) continue;
        if (e->n_running >= e->opts.max_seqs || e->n_used + r->n_blocks > e->opts.n_blocks) break;
        lf_list_remove(&r->node);
        lf_list_push_back(&e->running, &r->node);
        e->n_waiting--;
        e->waiting_tokens -= r->params.n_prompt;
        e->n_running++;
        e->n_used += r->n_blocks;
        r->running = true;
        r->state.started_ns = lf_clock_ns();
        r->state.n_cached = r->state.n_processed = use_cache(e, r);
        r->next_ns = r->state.started_ns + (int64_t)r->script.prefill_ms * LF_NS_PER_MS;
        lf_counter_add(&e->metrics.prompt_tokens, (uint64_t)r->params.n_prompt);
        lf_counter_add(&e->metrics.cache_queries, (uint64_t)r->params.n_prompt);
        lf_counter_add(&e->metrics.prompt_tokens_cached, (uint64_t)r->state.n_cached);
        lf_counter_add(&e->metrics.prompt_tokens_computed, (uint64_t)(r->params.n_prompt - r->state.n_cached));
        lf_histogram_observe(&e->metrics.queue_s, (double)(r->state.started_ns - r->state.submitted_ns) / 1e9);
        notify_locked(r);
    }
}

static void fill(struct lf_sampled *s, int32_t id, int n_top, int position)
{
    *s = (struct lf_sampled){.id = id, .logprob = -0.25f - 0.125f * (float)(position % 5)};
    s->rank = n_top > 0 ? 1 : 1 + position;
    s->n_top = n_top > 0 ? n_top : 0;
    for (int k = 0; k < s->n_top; k++) {
        s->top_ids[k] = (id + k) % 256;
        s->top_logprobs[k] = s->logprob - (float)k;
    }
    if (n_top > 0) s->top_ids[0] = id;
}

static bool is_stop(const struct lf_request *r, int32_t id)
{
    for (int i = 0; i < r->params.n_stop_token_ids; i++)
        if (r->stops[i] == id) return true;
    return false;
}

static bool is_end(const struct lf_request *r, int32_t id)
{
    const struct scripted_engine_opts *opts = &r->engine->opts;
    for (int i = 0; i < opts->n_ends; i++)
        if (opts->ends[i] == id) return true;
    return false;
}

static bool is_held(const struct lf_request *r)
{
    return r->matcher && !r->script.free;
}

/* Some token that the grammar allows, another one at each place; -1: none is. */
static int32_t walk(struct lf_request *r)
{
    int n = lf_tokenizer_n_vocab(r->engine->opts.tokenizer), first;
    uint32_t n_allowed;
    if (lf_matcher_mask(r->matcher, r->mask, &n_allowed) != LF_OK || n_allowed == 0) return -1;
    first = (int)(lf_mix64((uint64_t)r->state.n_tokens) % (uint64_t)n);
    for (int i = 0; i < n; i++) {
        int32_t id = (first + i) % n;
        if (r->mask[id / 32] >> (id % 32) & 1) return id;
    }
    return -1;
}

/* The next token, or the end at the script's end. What is banned below min_tokens is replaced by a plain letter. */
static int32_t next_token(struct lf_request *r)
{
    const struct script *s = &r->script;
    int i = r->state.n_tokens;
    if (is_held(r) && s->endless) return walk(r);
    bool over = !s->endless && (s->say.n == 0 || i >= (int)s->say.n);
    int32_t id = over ? r->engine->opts.ends[0] : s->say.ids[(size_t)i % s->say.n];
    bool ends = (is_end(r, id) && !r->params.ignore_eos) || is_stop(r, id);
    if (ends && i < r->params.min_tokens) return 'z';
    return is_end(r, id) && r->params.ignore_eos ? 'z' : id;
}

static void publish_echo_locked(struct lf_request *r)
{
    if (r->params.n_prompt_logprobs < 0 || r->state.n_prompt_logprobs) return;
    for (int i = 1; i < r->params.n_prompt; i++) fill(&r->echo[i], r->prompt[i], r->params.n_prompt_logprobs, i);
    r->state.n_prompt_logprobs = r->params.n_prompt;
}

/* One token of a request whose prefill is over. False: it has ended. */
static bool step_locked(struct lf_request *r)
{
    struct lf_engine *e = r->engine;
    int i = r->state.n_tokens;
    publish_echo_locked(r);
    r->state.n_processed = r->params.n_prompt;
    if (i >= r->script.die_at) e->dead = true;
    if (i >= r->script.fail_at || e->dead) {
        end_locked(r, LF_FINISH_ERROR, LF_DEVICE);
        return false;
    }
    if (i >= r->script.timeout_at) {
        time_out_locked(r);
        return false;
    }
    if (i >= r->params.max_tokens) {
        end_locked(r, LF_FINISH_LENGTH, LF_OK);
        return false;
    }
    int32_t id = next_token(r);
    if (is_held(r) && (id < 0 || lf_matcher_accept(r->matcher, id) != LF_OK)) {
        end_with_locked(r, LF_FINISH_ERROR, LF_INVALID, "the answer of the script is none of the grammar's");
        return false;
    }
    if ((is_end(r, id) || is_stop(r, id)) && i >= r->params.min_tokens) {
        r->state.stop_token = id;
        end_locked(r, LF_FINISH_STOP, LF_OK);
        return false;
    }
    fill(&r->tokens[i], id, r->params.sampling.n_logprobs, i);
    if (i == 0) {
        r->state.first_token_ns = lf_clock_ns();
        lf_histogram_observe(&e->metrics.ttft_s, (double)(r->state.first_token_ns - r->state.submitted_ns) / 1e9);
    }
    r->state.n_tokens = i + 1;
    lf_counter_add(&e->metrics.generation_tokens, 1);
    r->next_ns = lf_clock_ns() + (int64_t)r->script.step_ms * LF_NS_PER_MS;
    bool is_whole = is_held(r) && lf_matcher_is_finished(r->matcher);
    if (is_whole || r->state.n_tokens == r->params.max_tokens) {
        end_locked(r, is_whole ? LF_FINISH_STOP : LF_FINISH_LENGTH, LF_OK);
        return false;
    }
    notify_locked(r);
    return true;
}

static void step_often_locked(struct lf_request *r)
{
    for (int n = r->script.burst; n > 0 && step_locked(r);) n--;
}

static void show_progress_locked(struct lf_request *r, int64_t now)
{
    if (r->state.first_token_ns || r->script.prefill_ms <= 0) return;
    int64_t done_ms = (now - r->state.started_ns) / LF_NS_PER_MS;
    r->state.n_processed = LF_MIN((int)(done_ms * r->params.n_prompt / r->script.prefill_ms), r->params.n_prompt);
    r->state.n_processed = LF_MAX(r->state.n_processed, r->state.n_cached);
    r->state.eta_ns = LF_MAX(r->next_ns - now, 0);
}

static void reap_locked(struct lf_list *list)
{
    int64_t now = lf_clock_ns();
    LF_LIST_EACH_SAFE(node, list)
    {
        struct lf_request *r = LF_LIST_ENTRY(node, struct lf_request, node);
        if (r->cancelled)
            end_locked(r, LF_FINISH_CANCELLED, LF_CANCELLED);
        else if (r->params.deadline_ns && now > r->params.deadline_ns)
            time_out_locked(r);
        else if (r->engine->dead)
            end_locked(r, LF_FINISH_ERROR, LF_DEVICE);
    }
}

static void *run(void *ctx)
{
    struct lf_engine *e = ctx;
    for (;;) {
        pthread_mutex_lock(&e->lock);
        bool stop = e->stop;
        reap_locked(&e->waiting);
        reap_locked(&e->running);
        admit_locked(e);
        int64_t now = lf_clock_ns();
        LF_LIST_EACH_SAFE(node, &e->running)
        {
            struct lf_request *r = LF_LIST_ENTRY(node, struct lf_request, node);
            if (now < r->next_ns)
                show_progress_locked(r, now);
            else
                step_often_locked(r);
        }
        e->n_steps++;
        pthread_mutex_unlock(&e->lock);
        if (stop) return NULL;
        lf_clock_sleep_ms(PAUSE_MS);
    }
}

/* ---- engine.h ---- */

struct lf_engine *scripted_engine_create(const struct scripted_engine_opts *opts)
{
    struct lf_engine *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->opts = *opts;
    lf_list_init(&e->waiting);
    lf_list_init(&e->running);
    pthread_mutex_init(&e->lock, NULL);
    lf_engine_metrics_init(&e->metrics);
    if (pthread_create(&e->thread, NULL, run, e) == 0) return e;
    free(e);
    return NULL;
}

int scripted_engine_n_requests(struct lf_engine *e)
{
    pthread_mutex_lock(&e->lock);
    int n = e->n_requests;
    pthread_mutex_unlock(&e->lock);
    return n;
}

void lf_engine_drain(struct lf_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->draining = true;
    pthread_mutex_unlock(&e->lock);
}

void lf_engine_destroy(struct lf_engine *e)
{
    if (!e) return;
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    LF_ASSERT(e->n_requests == 0);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* The walk through the grammar. lf_matcher_accept takes an end only where the answer is complete. */
static bool make_matcher(struct lf_request *r)
{
    struct lf_gen_params *p = &r->params;
    if (!p->grammar) return true;
    lf_grammar_ref(p->grammar);
    r->mask = calloc(lf_vocabulary_mask_words(p->vocabulary), sizeof *r->mask);
    return r->mask && lf_matcher_create(&r->matcher, p->grammar, p->vocabulary, NULL) == LF_OK;
}

static struct lf_request *make_request(struct lf_engine *e, const struct lf_gen_params *p)
{
    struct lf_request *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->engine = e;
    r->n_refs = 2;
    r->params = *p;
    r->prompt = copy(p->prompt, (size_t)p->n_prompt * sizeof *p->prompt);
    r->stops = copy(p->stop_token_ids, (size_t)p->n_stop_token_ids * sizeof *p->stop_token_ids);
    r->salt = copy(p->salt, (size_t)p->salt_bytes);
    r->tokens = calloc((size_t)p->max_tokens + 1, sizeof *r->tokens);
    r->echo = p->n_prompt_logprobs >= 0 ? calloc((size_t)p->n_prompt, sizeof *r->echo) : NULL;
    r->params.salt = r->salt;
    r->leader = p->leader;
    r->n_blocks = (p->n_prompt + p->max_tokens + LF_KV_BLOCK_TOKENS - 1) / LF_KV_BLOCK_TOKENS;
    r->state.n_prompt = p->n_prompt;
    r->state.stop_token = -1;
    r->state.eta_ns = LF_NS_PER_MS;
    r->state.message = "";
    r->state.submitted_ns = lf_clock_ns();
    e->n_requests++;
    bool whole = r->prompt && r->stops && r->salt && r->tokens && (r->echo || p->n_prompt_logprobs < 0);
    whole = make_matcher(r) && whole; /* first, for what is freed has a reference to the grammar */
    if (whole && read_script(&r->script, &e->opts, r->prompt, p->n_prompt) == LF_OK) return r;
    free_request(r);
    return NULL;
}

static int count_of_tenant(const struct lf_engine *e, uint64_t tenant)
{
    int n = 0;
    LF_LIST_EACH(a, &e->waiting) n += LF_LIST_ENTRY(a, struct lf_request, node)->params.tenant == tenant;
    LF_LIST_EACH(b, &e->running) n += LF_LIST_ENTRY(b, struct lf_request, node)->params.tenant == tenant;
    return n;
}

static enum lf_status check_locked(struct lf_engine *e, const struct lf_gen_params *p, int *retry_after_s,
                                   struct lf_err *err)
{
    int64_t n = (int64_t)p->n_prompt + p->max_tokens;
    *retry_after_s = 7;
    if (e->dead) return lf_fail(err, LF_DEVICE, "dead");
    if (e->draining) return lf_fail(err, LF_SHUTDOWN, "draining");
    if (n > e->opts.ctx || n > (int64_t)e->opts.n_blocks * LF_KV_BLOCK_TOKENS) {
        lf_counter_add(&e->metrics.rejected_too_long, 1);
        return lf_fail(err, LF_LIMIT, "too long");
    }
    if (p->first) return LF_OK;
    int n_group = LF_MAX(p->n_group, 1), n_tenant = p->tenant ? count_of_tenant(e, p->tenant) : 0;
    if (e->n_waiting > 0 && e->n_waiting + n_group > e->opts.queue_n) {
        lf_counter_add(&e->metrics.rejected_queue, 1);
        return lf_fail(err, LF_FULL, "queue");
    }
    int n_most = p->limits.in_flight ? p->limits.in_flight : e->opts.per_tenant_n;
    if (p->tenant && n_most && n_tenant + n_group > n_most) {
        lf_counter_add(&e->metrics.rejected_tenant, 1);
        return lf_fail(err, LF_QUOTA, "at most %d requests in flight", n_most);
    }
    return LF_OK;
}

enum lf_status lf_engine_submit(struct lf_engine *e, const struct lf_gen_params *params, struct lf_request **out,
                                int *retry_after_s, struct lf_err *err)
{
    pthread_mutex_lock(&e->lock);
    enum lf_status status = check_locked(e, params, retry_after_s, err);
    struct lf_request *r = status == LF_OK ? make_request(e, params) : NULL;
    if (status == LF_OK && !r) status = lf_fail(err, LF_NO_MEMORY, "no memory");
    if (r) {
        lf_list_push_back(&e->waiting, &r->node);
        e->n_waiting++;
        e->waiting_tokens += params->n_prompt;
        *out = r;
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

int lf_engine_n_kept(struct lf_engine *e, const struct lf_gen_params *params)
{
    (void)e;
    (void)params;
    return 0;
}

void lf_engine_snapshot(struct lf_engine *e, struct lf_engine_state *out)
{
    pthread_mutex_lock(&e->lock);
    int n_free = e->opts.n_blocks - e->n_used;
    *out = (struct lf_engine_state){.alive = !e->dead,
                                    .draining = e->draining,
                                    .message = e->dead ? "the double was told to die" : "",
                                    .ctx = e->opts.ctx,
                                    .most_tokens = LF_MIN(e->opts.ctx, (int64_t)e->opts.n_blocks * LF_KV_BLOCK_TOKENS),
                                    .max_seqs = e->opts.max_seqs,
                                    .n_running = e->n_running,
                                    .n_waiting = e->n_waiting,
                                    .waiting_tokens = e->waiting_tokens,
                                    .block_tokens = LF_KV_BLOCK_TOKENS,
                                    .n_blocks = e->opts.n_blocks,
                                    .n_blocks_used = e->n_used,
                                    .n_blocks_free = n_free,
                                    .prefix_cache = true,
                                    .kv_dtype = "f32",
                                    .retry_after_s = 1,
                                    .n_steps = e->n_steps};
    pthread_mutex_unlock(&e->lock);
}

int64_t lf_engine_largest(struct lf_engine *e, uint64_t tenant)
{
    (void)tenant;
    pthread_mutex_lock(&e->lock);
    int n_free = e->opts.n_blocks - e->n_used;
    pthread_mutex_unlock(&e->lock);
    return (int64_t)n_free * LF_KV_BLOCK_TOKENS;
}

const struct lf_engine_metrics *lf_engine_metrics(const struct lf_engine *e)
{
    return &e->metrics;
}

void lf_request_snapshot(struct lf_request *r, struct lf_request_state *out)
{
    pthread_mutex_lock(&r->engine->lock);
    *out = r->state;
    pthread_mutex_unlock(&r->engine->lock);
}

const struct lf_sampled *lf_request_token(const struct lf_request *r, int i)
{
    return &r->tokens[i];
}

const struct lf_sampled *lf_request_prompt_logprob(const struct lf_request *r, int i)
{
    return &r->echo[i];
}

void lf_request_cancel(struct lf_request *r)
{
    pthread_mutex_lock(&r->engine->lock);
    r->cancelled = true;
    pthread_mutex_unlock(&r->engine->lock);
}

void lf_request_put(struct lf_request *r)
{
    pthread_mutex_t *lock = &r->engine->lock;
    pthread_mutex_lock(lock);
    r->cancelled = true;
    r->put = true;
    /* followers that still wait must not look at a leader that is freed */
    LF_LIST_EACH(node, &r->engine->waiting)
    {
        struct lf_request *other = LF_LIST_ENTRY(node, struct lf_request, node);
        if (other->leader == r) other->leader = NULL;
    }
    unref_locked(r);
    pthread_mutex_unlock(lock);
}
