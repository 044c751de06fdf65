/* The engine's loop, and its face to the other threads. See engine.h, and scheduler.h for the policy.
 *
 * One round of the loop:
 *
 *     take       new requests from the mailbox; sleeps there while there is nothing to do
 *     take back  what tiers.h has brought from the disk, or written to it
 *     sweep      ends what was cancelled or is past its deadline: its blocks are free before the next step is planned;
 *                lets go of pins that nobody wants any more
 *     admit      starts what fits; what of it lies on the disk is sent for
 *     launch     the next step is planned, built and given to the device. Where it draws under a grammar, its forward
 *                pass alone: then the step before it is read, masks are computed while the device works (masks.h), and
 *                the sampling is given to it
 *     read       where more steps are in flight than the device may have (asynchronous scheduling), and before the
 *                launch where what it may propose is worth the wait (speculation.h): waits for the oldest, books its
 *                tokens, ends requests (output.c), learns how long it took
 *     publish    everything that changed, under one lock; then each request's notify, once
 *
 * Threads. Everything in struct lf_engine below `mailbox` belongs to the engine thread, except what is constant after
 * create and the metrics, which are atomics. Other threads come in through the mailbox only (mailbox.h has its locks).
 *
 * Invariants
 *  - After create the engine thread neither allocates nor frees: requests bring their own memory and are freed by
 *    whoever else lets go last, or by the mailbox's janitor.
 *  - A request ends exactly once: `finish` in output.c is the only place, and asserts it.
 *  - While anything waits, something runs, or can be started at once: a step is always possible, or on its way
 *    (asserted).
 *  - A step on its way knows its requests by pointer: one that ends is taken out of it first (lf_engine_finish).
 *  - A failed device is final: every request in flight ends with LF_FINISH_ERROR, later ones are refused, and the loop
 *    only waits for destroy. Nothing is run on that device again. */
#include "server/engine/engine_internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "server/engine/proposals.h"

static struct lf_request *request_of(struct lf_list *seq_node)
{
    return LF_LIST_ENTRY(seq_node, struct lf_request, seq.node);
}

/* ---- the loop ---- */

static void take_in(struct lf_engine *e, struct lf_list *inbox, int64_t now_ns)
{
    while (!lf_list_empty(inbox)) {
        struct lf_request *req = LF_LIST_ENTRY(inbox->next, struct lf_request, inbox_node);
        lf_list_remove(&req->inbox_node);
        req->seq.leader = req->leader ? &req->leader->seq : NULL;
        lf_tiers_pin(e, req);
        if (!lf_engine_hold_at_once(e, req, now_ns)) lf_sched_submit(&e->sched, &req->seq, req->now.submitted_ns);
    }
}

/* Ends those of a list that are not wanted any more; all, where stop says so. */
static void sweep(struct lf_engine *e, struct lf_list *list, int64_t now_ns, bool stop)
{
    LF_LIST_EACH_SAFE(it, list)
    {
        struct lf_request *req = request_of(it);
        if (stop || atomic_load_explicit(&req->cancelled, memory_order_acquire))
            lf_engine_finish(e, req, LF_FINISH_CANCELLED, LF_CANCELLED, "", now_ns);
        else if (req->params.deadline_ns != 0 && now_ns >= req->params.deadline_ns)
            lf_engine_time_out(e, req, now_ns);
    }
}

/* Those that hold something go when their callers have let go of them. What is to be published as ended is so first. */
static void sweep_holding(struct lf_engine *e, bool stop)
{
    LF_LIST_EACH_SAFE(it, &e->sched.holding)
    {
        struct lf_request *req = request_of(it);
        bool is_over = stop || atomic_load_explicit(&req->cancelled, memory_order_acquire);
        if (is_over && !req->touched) lf_engine_let_go(e, req);
    }
}

static void fail_all(struct lf_engine *e, struct lf_list *list, const char *message, int64_t now_ns)
{
    LF_LIST_EACH_SAFE(it, list)
    {
        lf_engine_finish(e, request_of(it), LF_FINISH_ERROR, LF_DEVICE, message, now_ns);
    }
}

static void admit(struct lf_engine *e, int64_t now_ns)
{
    struct lf_sched_seq *seq;
    while ((seq = lf_sched_admit(&e->sched, now_ns)) != NULL) {
        struct lf_request *req = LF_LIST_ENTRY(seq, struct lf_request, seq);
        req->now.started_ns = now_ns;
        req->slot = e->slots[--e->n_slots];
        req->n_steps_before = e->figures.n_steps;
        req->now.eta_ns = lf_sched_eta_ns(&e->sched, seq);
        lf_mailbox_leave_queue(&e->mailbox, req, now_ns);
        lf_counter_add(&e->metrics.prompt_tokens, (uint64_t)seq->n_prompt);
        if (req->matcher) lf_counter_add(&e->metrics.constrained, 1);
        if (e->kv->prefix) lf_counter_add(&e->metrics.cache_queries, (uint64_t)seq->n_prompt);
        lf_histogram_observe(&e->metrics.queue_s, (double)(now_ns - req->now.submitted_ns) * 1e-9);
        lf_histogram_observe(&e->metrics.prompt_tokens_per_request, seq->n_prompt);
        lf_engine_touch(e, req);
    }
    LF_ASSERT(e->sched.n_running > 0 || e->sched.n_waiting == 0 || lf_tiers_under_way(e) || lf_tiers_settling(e));
}

_Static_assert((int)LF_ENGINE_SPEED_N == (int)LF_COST_N + (int)LF_RESTORE_TIERS_N, "a time for each");

/* What a block of a tier takes; as it was told, 0 if it was not, where nothing has been measured. */
static double tier_ns(const struct lf_engine *e, int tier, double told_ns)
{
    const struct lf_restore_source *below = &e->sched.opts.below;
    return tier >= 0 && !below->guesses[tier].is_guess ? below->block_ns[tier] : told_ns;
}

static void collect_speed(const struct lf_engine *e, struct lf_engine_speed *out)
{
    double *tiers = out->ns + LF_COST_N;
    memset(out, 0, sizeof(*out));
    if (e->sched.cost.n_seen == 0) return;
    memcpy(out->ns, e->sched.cost.w, sizeof(e->sched.cost.w));
    tiers[0] = tier_ns(e, e->tiers.memory, e->opts.speed.ns[LF_COST_N]);
    tiers[1] = tier_ns(e, e->tiers.disk, e->opts.speed.ns[LF_COST_N + 1]);
}

static void collect_states(const struct lf_engine *e, struct lf_engine_states *out)
{
    const struct lf_block_pool *slots = &e->kv->slots;
    out->n_used = slots->n_blocks - slots->n_free - slots->n_cached;
    out->n_pinned = slots->n_pinned;
    out->n_kept = slots->n_cached;
    out->n_read = e->sched.n_snapshots_read;
    out->n_evicted = slots->n_evicted + e->sched.n_snapshots_dropped;
    out->n_skipped = e->sched.n_marks_skipped;
}

static void collect_figures(struct lf_engine *e)
{
    const struct lf_block_pool *pool = &e->kv->pool;
    struct lf_engine_state *f = &e->figures;
    f->n_blocks = pool->n_blocks;
    f->n_blocks_free = pool->n_free;
    f->n_blocks_cached = pool->n_cached;
    f->n_blocks_used = pool->n_blocks - pool->n_free - pool->n_cached;
    f->n_blocks_pinned = pool->n_pinned;
    collect_states(e, &f->states);
    lf_tiers_figures(e, &f->memory, &f->disk);
    lf_sched_snapshot_room(&e->sched, &f->room);
    f->prefill_tokens_per_s = lf_sched_prefill_speed(&e->sched);
    f->decode_tokens_per_s = lf_sched_decode_speed(&e->sched);
    f->retry_after_s = lf_sched_retry_after_s(&e->sched, e->sched.waiting_tokens);
    collect_speed(e, &f->speed);
}

static void publish(struct lf_engine *e)
{
    struct lf_request *chain = e->touched;
    e->touched = NULL;
    collect_figures(e);
    lf_mailbox_publish(&e->mailbox, chain, &e->figures);
}

/* ---- steps ---- */

static struct lf_flight *flight_at(struct lf_engine *e, int i)
{
    return &e->flights[(e->first_flight + i) % (LF_ENGINE_ASYNC_STEPS_N + 1)];
}

static bool device_works(struct lf_engine *e, enum lf_status status)
{
    if (status == LF_OK) return true;
    LF_ERROR("the device failed in step %llu: %s", (unsigned long long)e->figures.n_steps, lf_status_name(status));
    lf_mailbox_declare_dead(&e->mailbox, "the device failed", false);
    e->failed = true;
    e->n_flights = 0;
    return false;
}

/* The oldest step on its way. */
static void read_step(struct lf_engine *e)
{
    struct lf_flight *f = flight_at(e, 0);
    if (!device_works(e, e->backend.wait(e->backend.ctx, e->results))) return;
    e->idle_ns = lf_clock_ns();
    lf_engine_read(e, &f->step, lf_clock_ns());
    int64_t now_ns = lf_clock_ns();
    lf_sched_learn(&e->sched, &f->step, now_ns - LF_MAX(f->launched_ns, e->last_read_ns));
    e->last_read_ns = now_ns;
    e->n_steps_read++;
    e->first_flight = (e->first_flight + 1) % (LF_ENGINE_ASYNC_STEPS_N + 1);
    e->n_flights--;
}

/* The step launched last draws under masks that depend on every token before the one that is drawn. */
static void sample_later(struct lf_engine *e, struct lf_flight *f, const struct lf_batch *batch)
{
    while (e->n_flights > 1 && !e->failed) read_step(e);
    if (e->failed) return;
    lf_engine_fill_masks(e, &f->step, lf_clock_ns());
    (void)device_works(e, e->backend.sample(e->backend.ctx, batch));
}

static void book_wait(struct lf_engine *e, int64_t took_ns)
{
    lf_proposals_waited(&e->sched, took_ns);
    lf_counter_add(&e->metrics.waits, 1);
    lf_counter_add(&e->metrics.waits_ns, (uint64_t)took_ns);
}

/* false: nothing can be launched before what is on its way has ended. waited: steps have been read for this one. Loads
 * that had to wait for them are then sent in the next round. */
static bool launch(struct lf_engine *e, bool waited)
{
    struct lf_flight *f = flight_at(e, e->n_flights);
    struct lf_batch batch;
    lf_sched_plan_step(&e->sched, &f->step);
    LF_ASSERT(f->step.n_items > 0 || e->n_flights > 0 || waited || lf_tiers_under_way(e));
    if (f->step.n_items == 0) return false;
    lf_engine_fill_outs(e, &f->step);
    lf_batch_build(&batch, &e->arrays, &f->step);
    batch.samples_later = lf_engine_has_masks(&f->step);
    f->launched_ns = lf_clock_ns();
    e->figures.n_steps++;
    if (!device_works(e, e->backend.launch(e->backend.ctx, e->kv, &batch))) return true;
    if (waited && f->step.n_prefill_tokens == 0) book_wait(e, lf_clock_ns() - e->idle_ns);
    lf_sched_launched(&e->sched, &f->step);
    lf_engine_poison_passed(e, &f->step);
    e->n_flights++;
    lf_histogram_observe(&e->metrics.tokens_per_step, f->step.n_tokens);
    lf_counter_add(&e->metrics.prompt_tokens_computed, (uint64_t)f->step.n_prefill_tokens);
    if (batch.samples_later) sample_later(e, f, &batch);
    return true;
}

/* Where the next step depends on what becomes of those on their way, they are read before it is planned. */
static bool read_ahead(struct lf_engine *e)
{
    if (e->n_flights == 0) return false;
    if (flight_at(e, e->n_flights - 1)->step.n_proposed == 0 && !lf_proposals_wait(&e->sched)) return false;
    while (e->n_flights > 0 && !e->failed) read_step(e);
    return true;
}

static void step(struct lf_engine *e)
{
    bool waited = read_ahead(e);
    if (e->failed) return;
    bool launched = e->sched.n_running > 0 && launch(e, waited);
    if (e->n_flights > (launched ? e->backend.n_async_steps : 0)) {
        read_step(e);
        waited = true;
    }
    e->stalled = !launched && !waited && e->n_flights == 0;
}

static enum lf_mailbox_work work_left(const struct lf_engine *e)
{
    if (e->sched.n_waiting + e->sched.n_running + e->n_flights == 0) return LF_WORK_NONE;
    return e->stalled && !e->failed ? LF_WORK_COMING : LF_WORK_NOW;
}

/* One round; false when the loop is to end. */
static bool run_round(struct lf_engine *e)
{
    struct lf_list inbox;
    lf_list_init(&inbox);
    if (!e->failed && e->backend.beat) (void)device_works(e, e->backend.beat(e->backend.ctx));
    bool go_on = lf_mailbox_take(&e->mailbox, work_left(e), &inbox);
    int64_t now_ns = lf_clock_ns();
    take_in(e, &inbox, now_ns);
    sweep(e, &e->sched.waiting, now_ns, !go_on);
    sweep(e, &e->sched.running, now_ns, !go_on);
    sweep_holding(e, !go_on);
    if (!e->failed && !lf_mailbox_is_alive(&e->mailbox)) e->failed = true;
    lf_tiers_take_back(e);
    if (!e->failed) admit(e, now_ns);
    lf_tiers_load(e);
    if (!e->failed) step(e);
    lf_tiers_save(e);
    lf_tiers_settle(e);
    if (e->failed) {
        fail_all(e, &e->sched.waiting, "the engine has failed", now_ns);
        fail_all(e, &e->sched.running, "the engine has failed", now_ns);
    }
    publish(e);
    return go_on;
}

static void *engine_main(void *ctx)
{
    struct lf_engine *e = ctx;
    while (run_round(e)) continue;
    while (e->n_flights > 0) read_step(e); /* nobody's any more, but what they write to is about to go */
    if (e->backend.end) e->backend.end(e->backend.ctx);
    sweep_holding(e, true);
    lf_tiers_finish(e);
    return NULL;
}

/* ---- create and destroy ---- */

static enum lf_status check_opts(const struct lf_engine_backend *b, const struct lf_engine_opts *o, struct lf_err *err)
{
    if (o->ctx < 1 || o->chunk < 1 || o->max_seqs < 1 || o->max_out < 1 || o->step_ms < 1)
        return lf_fail(err, LF_INVALID,
                       "engine: ctx %d, chunk %d, max_seqs %d, max_out %d, step_ms %d: at least 1 each", o->ctx,
                       o->chunk, o->max_seqs, o->max_out, o->step_ms);
    if (o->queue_n < 1 || o->queue_tokens < 0 || o->per_tenant_n < 0 || o->watchdog_s < 0)
        return lf_fail(err, LF_INVALID, "engine: queue of %d requests, %lld tokens, %d a key, watchdog %d s",
                       o->queue_n, (long long)o->queue_tokens, o->per_tenant_n, o->watchdog_s);
    if (b->n_async_steps < 0 || b->n_async_steps > LF_ENGINE_ASYNC_STEPS_N)
        return lf_fail(err, LF_INVALID, "engine: %d asynchronous steps; at most %d", b->n_async_steps,
                       LF_ENGINE_ASYNC_STEPS_N);
    if (b->n_vocab < 1 || b->n_vocab > LF_VOCAB_N || b->n_eos < 0)
        return lf_fail(err, LF_INVALID, "engine: vocabulary of %d ids", b->n_vocab);
    if (o->n_mask_threads < 0 || o->n_mask_threads > LF_MASK_THREADS_N)
        return lf_fail(err, LF_INVALID, "engine: %d threads for masks, at most %d", o->n_mask_threads,
                       LF_MASK_THREADS_N);
    return LF_OK;
}

/* States need slots for all that run and one more, and where chunks are whole blocks room for one beside decodes. */
static enum lf_status check_states(const struct lf_kv_cache *kv, const struct lf_engine_opts *o, struct lf_err *err)
{
    int n_running = lf_batch_n_slots(o->max_seqs), least = LF_BATCH_STATE_TOKENS;
    if (kv->states.n_layers == 0) return LF_OK;
    if (kv->slots.n_blocks <= n_running)
        return lf_fail(err, LF_INVALID, "engine: %d slots for states, %d sequences may run: at least one more",
                       kv->slots.n_blocks, n_running);
    if (!lf_device_info(kv->dev)->is_host && o->chunk < least)
        return lf_fail(err, LF_INVALID, "engine: chunks of %d tokens; on a GPU a model with states needs %d", o->chunk,
                       least);
    return LF_OK;
}

enum { MASK_STACK_BYTES = 128 * 1024 }; /* what a thread that computes masks touches of its stack, at most */

static uint64_t bytes_of_seq(void)
{
    return (LF_ENGINE_ASYNC_STEPS_N + 1) * sizeof(struct lf_sched_item) + sizeof(struct lf_kv_seq);
}

/* What steps do with states, and the records of slots. */
static uint64_t bytes_of_states(const struct lf_engine_opts *o, int block_tokens)
{
    uint64_t n_marks = (uint64_t)lf_batch_n_marks(o->max_seqs) * (LF_ENGINE_ASYNC_STEPS_N + 1);
    if (o->n_slots == 0) return 0;
    return (uint64_t)o->max_seqs * sizeof(struct lf_state_seq) + n_marks * sizeof(struct lf_state_mark) +
           lf_kv_host_bytes(o->n_slots, block_tokens, true);
}

static uint64_t bytes_of_out(int n_vocab)
{
    return sizeof(int32_t) + sizeof(struct lf_batch_out) + sizeof(struct lf_sampled) + sizeof(struct lf_mask_job) +
           (uint64_t)lf_batch_mask_words(n_vocab) * sizeof(uint32_t);
}

static int n_mask_threads(const struct lf_engine_opts *o)
{
    return o->n_mask_threads > 0 ? o->n_mask_threads : LF_MASK_THREADS_N;
}

/* As many as can wait and run, and one: a client's requests may enter an empty queue beyond its limit together. */
static int n_tenants(const struct lf_engine_opts *o)
{
    return (int)LF_MIN((int64_t)o->queue_n + lf_batch_n_slots(o->max_seqs) + 1, INT32_MAX);
}

uint64_t lf_engine_answer_bytes(uint64_t n_tokens)
{
    return n_tokens * (sizeof(int32_t) + sizeof(uint32_t) + sizeof(struct lf_sampled)); /* an id, a gram, an entry */
}

uint64_t lf_engine_host_bytes(const struct lf_engine_opts *o, int n_vocab, int n_blocks, int block_tokens)
{
    return sizeof(struct lf_engine) + (uint64_t)o->max_seqs * bytes_of_seq() +
           (uint64_t)lf_batch_n_slots(o->max_seqs) * sizeof(int) + (uint64_t)o->max_out * bytes_of_out(n_vocab) +
           (uint64_t)n_mask_threads(o) * MASK_STACK_BYTES + (uint64_t)o->chunk * sizeof(int32_t) +
           (uint64_t)n_tenants(o) * sizeof(struct lf_sched_tenant) + (uint64_t)n_blocks * sizeof(uint32_t) +
           bytes_of_states(o, block_tokens) + lf_kv_host_bytes(n_blocks, block_tokens, true) +
           lf_tiers_host_bytes(o, n_blocks);
}

static bool allocate_states(struct lf_engine *e)
{
    size_t n_seqs = (size_t)e->opts.max_seqs, n_marks = (size_t)lf_batch_n_marks(e->opts.max_seqs);
    if (e->kv->states.n_layers == 0) return true;
    e->arrays.states = calloc(n_seqs, sizeof(*e->arrays.states));
    bool all = e->arrays.states != NULL;
    for (int i = 0; i <= LF_ENGINE_ASYNC_STEPS_N; i++) {
        e->flights[i].step.marks = calloc(n_marks, sizeof(*e->flights[i].step.marks));
        all = all && e->flights[i].step.marks;
    }
    return all;
}

static enum lf_status allocate(struct lf_engine *e, struct lf_err *err)
{
    const struct lf_engine_opts *o = &e->opts;
    size_t n_seqs = (size_t)o->max_seqs, n_out = (size_t)o->max_out;
    int n_slots = lf_batch_n_slots(o->max_seqs);
    bool all = allocate_states(e);
    for (int i = 0; i <= LF_ENGINE_ASYNC_STEPS_N; i++) {
        e->flights[i].step.items = calloc(n_seqs, sizeof(*e->flights[i].step.items));
        all = all && e->flights[i].step.items;
    }
    e->slots = calloc((size_t)n_slots, sizeof(*e->slots));
    e->results = calloc(n_out, sizeof(*e->results));
    e->arrays.ids = calloc((size_t)o->chunk, sizeof(*e->arrays.ids));
    e->arrays.seqs = calloc(n_seqs, sizeof(*e->arrays.seqs));
    e->arrays.logits_idx = calloc(n_out, sizeof(*e->arrays.logits_idx));
    e->arrays.outs = calloc(n_out, sizeof(*e->arrays.outs));
    e->mask_jobs = calloc(n_out, sizeof(*e->mask_jobs));
    size_t mask_bytes = n_out * (size_t)e->n_mask_words * sizeof(*e->mask_rows);
    e->mask_rows = malloc(mask_bytes);
    if (e->mask_rows) memset(e->mask_rows, 0xff, mask_bytes); /* resident from the beginning, as planned */
    e->tenants = calloc((size_t)n_tenants(o), sizeof(*e->tenants));
    e->held_epochs = calloc((size_t)e->kv->pool.n_blocks, sizeof(*e->held_epochs));
    all = all && e->tenants && e->held_epochs && e->slots && e->results && e->arrays.ids && e->arrays.seqs &&
          e->arrays.logits_idx && e->arrays.outs && e->mask_jobs && e->mask_rows;
    if (!all) return lf_fail(err, LF_NO_MEMORY, "no memory for the engine's arrays");
    while (e->n_slots < n_slots) {
        e->slots[e->n_slots] = e->n_slots;
        e->n_slots++;
    }
    return LF_OK;
}

static void release(struct lf_engine *e)
{
    free(e->held_epochs);
    free(e->tenants);
    free(e->mask_rows);
    free(e->mask_jobs);
    free(e->arrays.states);
    free(e->arrays.outs);
    free(e->arrays.logits_idx);
    free(e->arrays.seqs);
    free(e->arrays.ids);
    free(e->results);
    free(e->slots);
    for (int i = 0; i <= LF_ENGINE_ASYNC_STEPS_N; i++) {
        free(e->flights[i].step.marks);
        free(e->flights[i].step.items);
    }
    free(e);
}

static bool is_known(const struct lf_engine_speed *speed)
{
    for (int i = 0; i < LF_COST_N; i++)
        if (!(speed->ns[i] > 0)) return false;
    return true;
}

_Static_assert((int)LF_ENGINE_GROUPS_N == (int)LF_KV_GROUPS_N, "numbers for each");

static void set_states(struct lf_engine_states *out, const struct lf_kv_cache *kv, int max_seqs)
{
    out->n_layers = kv->states.n_layers;
    out->slot_bytes = (uint64_t)kv->states.slot_blocks * lf_kv_block_bytes(&kv->view);
    out->n_slots = kv->slots.n_blocks;
    out->n_for_running = kv->states.n_layers > 0 ? lf_batch_n_slots(max_seqs) : 0;
}

static void set_groups(struct lf_engine_state *out, const struct lf_kv_cache *kv)
{
    const struct lf_kv_windows w = lf_kv_cache_windows(kv);
    int64_t n_blocks = ((int64_t)out->ctx + kv->block_tokens - 1) / kv->block_tokens;
    out->n_groups = kv->n_groups;
    for (int i = 0; i < kv->n_groups; i++)
        out->groups[i] = (struct lf_engine_group){.window = kv->groups[i].window,
                                                  .n_layers = kv->groups[i].n_layers,
                                                  .n_request_blocks = (int)lf_kv_windows_held(&w, i, n_blocks)};
}

enum lf_status lf_engine_create(struct lf_engine **out, const struct lf_engine_backend *backend, struct lf_kv_cache *kv,
                                const struct lf_engine_opts *opts, struct lf_err *err)
{
    LF_TRY(check_opts(backend, opts, err));
    LF_TRY(check_states(kv, opts, err));
    bool has_states = kv->states.n_layers > 0;
    int n_running = lf_batch_n_slots(opts->max_seqs);
    struct lf_engine *e = calloc(1, sizeof(*e));
    if (!e) return lf_fail(err, LF_NO_MEMORY, "no memory for the engine");
    e->backend = *backend;
    e->opts = *opts;
    e->kv = kv;
    e->n_mask_words = lf_batch_mask_words(backend->n_vocab);
    if (e->opts.queue_tokens == 0) e->opts.queue_tokens = 4 * (int64_t)opts->ctx;
    lf_engine_metrics_init(&e->metrics);
    enum lf_status status;
    LF_TRY_GOTO(allocate(e, err), fail);
    const struct lf_sched_opts sched = {.chunk = opts->chunk,
                                        .max_seqs = opts->max_seqs,
                                        .n_kept = n_running - opts->max_seqs,
                                        .max_out = opts->max_out,
                                        .token_tile = LF_MAX(opts->token_tile, 1),
                                        .step_ns = (int64_t)opts->step_ms * LF_NS_PER_MS,
                                        .alone_ns = (int64_t)LF_MAX(opts->step_ms, opts->alone_ms) * LF_NS_PER_MS,
                                        .windows = lf_kv_cache_windows(kv),
                                        .pool = &kv->pool,
                                        .slots = has_states ? &kv->slots : NULL,
                                        .snapshots = kv->snapshots,
                                        .slot_blocks = kv->states.slot_blocks,
                                        .whole_chunks = has_states && !lf_device_info(kv->dev)->is_host,
                                        .prefix = kv->prefix,
                                        .tenants = e->tenants,
                                        .n_tenants = n_tenants(opts),
                                        .held_epochs = e->held_epochs,
                                        .proposes = true,
                                        .n_allowed = lf_engine_n_allowed,
                                        .n_allowed_ctx = e,
                                        .proposal_tokens = lf_device_info(kv->dev)->is_host ? 0 : LF_BATCH_FEW_TOKENS};
    lf_sched_init(&e->sched, &sched);
    const struct lf_mailbox_limits limits = {.queue_n = opts->queue_n,
                                             .queue_tokens = e->opts.queue_tokens,
                                             .per_tenant_n = opts->per_tenant_n,
                                             .watchdog_s = opts->watchdog_s,
                                             .idle_ms = backend->beat ? backend->beat_ms : 0,
                                             .n_blocks = kv->pool.n_blocks -
                                                         (int)lf_kv_windows_slack(&sched.windows, opts->chunk),
                                             .windows = sched.windows,
                                             .has_states = has_states,
                                             .slot_blocks = sched.slot_blocks,
                                             .n_pin_slots = has_states ? (kv->slots.n_blocks - n_running) / 2 : 0};
    if (is_known(&opts->speed)) lf_cost_start(&e->sched.cost, opts->speed.ns);
    LF_TRY_GOTO(lf_mailbox_init(&e->mailbox, &limits, &e->metrics, err), fail);
    LF_TRY_GOTO(lf_mailbox_start(&e->mailbox, err), fail_mailbox);
    LF_TRY_GOTO(lf_masks_init(&e->masks, n_mask_threads(opts), err), fail_mailbox);
    e->masks.run_tasks = backend->run_tasks;
    e->masks.run_ctx = backend->ctx;
    LF_TRY_GOTO(lf_tiers_create(e, err), fail_masks);
    lf_tiers_pins_most(e, e->mailbox.limits.pins_most);
    collect_figures(e);
    e->figures.ctx = opts->ctx;
    e->figures.most_tokens = lf_engine_fit(e, limits.n_blocks);
    set_groups(&e->figures, kv);
    set_states(&e->figures.states, kv, opts->max_seqs);
    e->figures.block_tokens = kv->block_tokens;
    e->figures.max_seqs = opts->max_seqs;
    e->figures.is_host = lf_device_info(kv->dev)->is_host;
    e->figures.prefix_cache = kv->prefix != NULL;
    e->figures.kv_dtype = lf_dtype_name(kv->view.dtype);
    e->mailbox.figures = e->figures;
    if (pthread_create(&e->thread, NULL, engine_main, e) != 0) {
        status = lf_fail(err, LF_NO_MEMORY, "no thread for the engine");
        goto fail_tiers;
    }
    (void)pthread_setname_np(e->thread, "lf-engine");
    *out = e;
    return LF_OK;
fail_tiers:
    lf_tiers_destroy(e);
fail_masks:
    lf_masks_deinit(&e->masks);
fail_mailbox:
    lf_mailbox_deinit(&e->mailbox);
fail:
    release(e);
    return status;
}

void lf_engine_drain(struct lf_engine *engine)
{
    lf_mailbox_drain(&engine->mailbox);
}

void lf_engine_declare_dead(struct lf_engine *engine, const char *message)
{
    lf_mailbox_declare_dead(&engine->mailbox, message, true);
}

void lf_engine_stop(struct lf_engine *engine)
{
    lf_mailbox_stop(&engine->mailbox);
}

void lf_engine_destroy(struct lf_engine *engine)
{
    if (!engine) return;
    lf_mailbox_stop(&engine->mailbox);
    LF_ASSERT(pthread_join(engine->thread, NULL) == 0);
    lf_tiers_destroy(engine);
    lf_masks_deinit(&engine->masks);
    lf_mailbox_deinit(&engine->mailbox);
    release(engine);
}

/* ---- other threads ---- */

void lf_engine_snapshot(struct lf_engine *engine, struct lf_engine_state *out)
{
    lf_mailbox_snapshot_engine(&engine->mailbox, out);
}

int64_t lf_engine_fit(const struct lf_engine *e, int64_t n_blocks)
{
    return LF_MIN(lf_kv_windows_fit(&e->sched.opts.windows, n_blocks) * e->kv->block_tokens, e->opts.ctx);
}

int64_t lf_engine_largest(struct lf_engine *engine, uint64_t tenant)
{
    int64_t n_blocks = lf_mailbox_room(&engine->mailbox, tenant, lf_clock_ns());
    return lf_engine_fit(engine, n_blocks);
}

const struct lf_engine_metrics *lf_engine_metrics(const struct lf_engine *engine)
{
    return &engine->metrics;
}
