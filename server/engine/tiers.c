/* See tiers.h. */
#include "server/engine/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "kv/tiers/disk_tier.h"
#include "kv/tiers/memory_tier.h"
#include "server/engine/block_tables.h"
#include "server/engine/engine_internal.h"
#include "server/engine/holding.h"
#include "server/engine/states.h"

/* ---- blocks, and parts of slots ---- */

static int n_parts_of(const struct lf_engine *e)
{
    return e->kv->snapshots ? e->kv->states.slot_blocks : 0;
}

/* The slot that a part belongs to; -1: it is a block. */
static int32_t slot_of(const struct lf_engine *e, int32_t block)
{
    int n_blocks = e->kv->pool.n_blocks;
    return block < n_blocks ? -1 : (block - n_blocks) / e->kv->states.slot_blocks;
}

static int part_of(const struct lf_engine *e, int32_t block)
{
    return (block - e->kv->pool.n_blocks) % e->kv->states.slot_blocks;
}

static int32_t part_at(const struct lf_engine *e, int32_t slot, int part)
{
    return e->kv->pool.n_blocks + slot * e->kv->states.slot_blocks + part;
}

static void hold(struct lf_engine *e, int32_t block)
{
    int32_t slot = slot_of(e, block);
    if (slot < 0)
        lf_block_pool_get(&e->kv->pool, block);
    else
        lf_block_pool_get(&e->kv->slots, slot);
}

static void let_go(struct lf_engine *e, int32_t block)
{
    int32_t slot = slot_of(e, block);
    if (slot < 0)
        lf_block_pool_put(&e->kv->pool, block);
    else
        lf_block_pool_put(&e->kv->slots, slot);
}

/* What a tier is told of one that is entered. *key: where that of a part is made. */
static struct lf_prefix_entry entry_of(const struct lf_engine *e, int32_t block, struct lf_prefix_key *key)
{
    int32_t slot = slot_of(e, block);
    if (slot < 0) return lf_prefix_cache_entry(e->kv->prefix, block);
    struct lf_prefix_entry entry = lf_prefix_cache_entry(e->kv->snapshots, slot);
    entry.origin.group = (uint16_t)(LF_STATES_PART_GROUP + part_of(e, block));
    *key = lf_prefix_group_key(entry.key, entry.origin.group);
    entry.key = key;
    return entry;
}

/* ---- callbacks ---- */

static enum lf_status copy_out(void *ctx, int lane, void *dst, int32_t block, struct lf_err *err)
{
    return lf_kv_parts_copy_out(ctx, lane, dst, block, err);
}

static enum lf_status copy_in(void *ctx, int lane, int32_t block, const void *src, struct lf_err *err)
{
    return lf_kv_parts_copy_in(ctx, lane, block, src, err);
}

/* By one GPU, for all of them. */
static enum lf_status pin(void *ctx, void *ptr, uint64_t bytes, struct lf_err *err)
{
    return lf_host_pin(((const struct lf_kv_parts *)ctx)->of[0]->dev, ptr, bytes, err);
}

static void unpin(void *ctx, void *ptr)
{
    lf_host_unpin(((const struct lf_kv_parts *)ctx)->of[0]->dev, ptr);
}

static void wake(void *ctx)
{
    lf_mailbox_poke(ctx);
}

/* The fastest tier that has a block. All hear that it is asked for: what is used is kept in each of them. */
static int find_below(void *ctx, const struct lf_prefix_key *key)
{
    const struct lf_tiers *t = ctx;
    int fastest = -1;
    for (int i = t->n - 1; i >= 0; i--) {
        lf_tier_use(t->below[i].tier, key);
        if (lf_tier_has(t->below[i].tier, key)) fastest = i;
    }
    return fastest;
}

static void queue_save(struct lf_engine *e, struct lf_tiers_below *b, int32_t block)
{
    if (b->saves[block] != LF_TIERS_NO_SAVE) return;
    b->saves[block] = LF_TIERS_TO_SAVE;
    b->to_save[(b->first_save + b->n_to_save++) % e->tiers.n_all] = block;
}

/* A block has been entered in the prefix cache: its turn to be saved will come. */
static void on_enter(void *ctx, int32_t block)
{
    struct lf_engine *e = ctx;
    struct lf_tiers *t = &e->tiers;
    t->entered_at[block] = e->figures.n_steps;
    for (int i = 0; i < t->n; i++) queue_save(e, &t->below[i], block);
}

static void on_enter_snapshot(void *ctx, int32_t slot)
{
    struct lf_engine *e = ctx;
    for (int i = 0; i < n_parts_of(e); i++) on_enter(e, part_at(e, slot, i));
}

/* ---- create and destroy ---- */

enum {
    JOBS_N = LF_TIERS_LOADS_N + LF_TIERS_SAVES_N,
    LANES_N = 1 + LF_TIERS_LOADERS_N, /* of a tier: each of its threads has one of its own */
    ALL_LANES_N = LF_RESTORE_TIERS_N * LANES_N
};
_Static_assert((int)ALL_LANES_N <= (int)LF_COPY_LANES_N, "lanes of the device for all tiers");

static struct lf_tier_copy copies(struct lf_kv_parts *parts, int tier)
{
    struct lf_tier_copy copy = {.out = copy_out, .in = copy_in, .ctx = parts, .first_lane = tier * LANES_N};
    if (lf_device_info(parts->of[0]->dev)->is_host) return copy;
    copy.pin = pin;
    copy.unpin = unpin;
    return copy;
}

static struct lf_disk_tier_opts disk_opts(uint64_t block_bytes)
{
    return (struct lf_disk_tier_opts){.block_bytes = block_bytes,
                                      .wake = wake,
                                      .n_jobs = JOBS_N,
                                      .n_loaders = LF_TIERS_LOADERS_N,
                                      .batch_bytes = LF_TIERS_BATCH_BYTES};
}

static struct lf_memory_tier_opts memory_opts(uint64_t block_bytes, uint64_t memory_bytes)
{
    uint64_t n_slots = memory_bytes / lf_memory_slot_bytes(block_bytes);
    return (struct lf_memory_tier_opts){.n_slots = (uint32_t)LF_MIN(n_slots, (uint64_t)INT32_MAX),
                                        .block_bytes = block_bytes,
                                        .wake = wake,
                                        .n_jobs = JOBS_N,
                                        .n_loaders = LF_TIERS_LOADERS_N};
}

uint64_t lf_tiers_host_bytes(const struct lf_engine_opts *o, int n_blocks)
{
    if (o->block_bytes == 0) return lf_pins_host_bytes(n_blocks);
    uint64_t n_all = (uint64_t)n_blocks + (uint64_t)o->n_slots * (uint64_t)o->slot_blocks;
    uint64_t queue_bytes = n_all * (sizeof(int32_t) + sizeof(uint8_t)), bytes = lf_pins_host_bytes(n_blocks);
    struct lf_memory_tier_opts memory = memory_opts(o->block_bytes, o->memory_bytes);
    struct lf_disk_tier_opts disk = disk_opts(o->block_bytes);
    if (o->memory_bytes > 0) bytes += lf_memory_tier_host_bytes(&memory) + queue_bytes;
    if (o->has_disk) bytes += lf_disk_tier_host_bytes(&disk) + queue_bytes;
    if (o->memory_bytes > 0 || o->has_disk) bytes += n_all * sizeof(uint64_t);
    return bytes;
}

/* Until blocks have been loaded, here or by the process before, a disk is taken for one that reads 8 GB in a second,
 * and memory for twice as fast: if it is slower the first blocks tell, but one that is taken for slower than it is
 * would not be asked for a long time.
 */
enum {
    DISK_BYTES_PER_NS = 8,
    MEMORY_BYTES_PER_NS = 16,
    TOLD_BYTES = 64 << 20 /* of few, latency is what is measured */
};

/* Makes the queue of a tier that is there, which comes behind those before it. */
static enum lf_status add_tier(struct lf_engine *e, struct lf_tier *tier, int bytes_per_ns, double known_ns,
                               struct lf_err *err)
{
    struct lf_tiers *t = &e->tiers;
    struct lf_tiers_below *b = &t->below[t->n];
    size_t n_blocks = (size_t)t->n_all;
    uint64_t block_bytes = lf_kv_parts_bytes(&e->tiers.parts);
    double guess_ns = (double)block_bytes / bytes_per_ns;
    e->sched.opts.below.guesses[t->n] =
        (struct lf_restore_guess){.is_guess = known_ns <= 0, .n_told = (int)(TOLD_BYTES / block_bytes)};
    e->sched.opts.below.block_ns[t->n++] = known_ns > 0 ? known_ns : guess_ns;
    b->tier = tier;
    b->to_save = calloc(n_blocks, sizeof(*b->to_save));
    b->saves = calloc(n_blocks, sizeof(*b->saves));
    if (b->to_save && b->saves) return LF_OK;
    return lf_fail(err, LF_NO_MEMORY, "no memory for the queue of %zu blocks to be saved", n_blocks);
}

static enum lf_status add_memory(struct lf_engine *e, struct lf_err *err)
{
    struct lf_tiers *t = &e->tiers;
    struct lf_memory_tier_opts opts = memory_opts(lf_kv_parts_bytes(&e->tiers.parts), e->opts.memory_bytes);
    struct lf_tier *tier;
    if (opts.n_slots == 0) return LF_OK;
    LF_TRY(lf_host_alloc(e->kv->dev, &t->slots, opts.n_slots * lf_memory_slot_bytes(opts.block_bytes),
                         "memory for KV blocks below the GPU's", err));
    opts.slots = t->slots.ptr;
    opts.copy = copies(&t->parts, t->n);
    opts.wake_ctx = &e->mailbox;
    LF_TRY(lf_memory_tier_create(&tier, &opts, err));
    t->memory = t->n;
    return add_tier(e, tier, MEMORY_BYTES_PER_NS, e->opts.speed.ns[LF_COST_N], err);
}

static enum lf_status add_disk(struct lf_engine *e, struct lf_err *err)
{
    struct lf_tiers *t = &e->tiers;
    struct lf_disk_tier_opts opts = disk_opts(lf_kv_parts_bytes(&e->tiers.parts));
    struct lf_tier *tier;
    if (!e->opts.disk) return LF_OK;
    opts.table = e->opts.disk;
    opts.copy = copies(&t->parts, t->n);
    opts.wake_ctx = &e->mailbox;
    LF_TRY(lf_disk_tier_create(&tier, &opts, err));
    t->disk = t->n;
    return add_tier(e, tier, DISK_BYTES_PER_NS, e->opts.speed.ns[LF_COST_N + 1], err);
}

enum lf_status lf_tiers_create(struct lf_engine *e, struct lf_err *err)
{
    struct lf_tiers *t = &e->tiers;
    enum lf_status status;
    t->n_all = e->kv->pool.n_blocks + e->kv->slots.n_blocks * e->kv->states.slot_blocks;
    t->memory = t->disk = -1;
    t->parts = e->opts.parts ? *e->opts.parts : (struct lf_kv_parts){.of = {e->kv}, .n = 1};
    LF_ASSERT(t->parts.of[0] == e->kv);
    bool has_tiers = (e->opts.disk || e->opts.memory_bytes > 0) && e->kv->prefix;
    if (lf_pins_init(&t->pins, e->kv->pool.n_blocks) != LF_OK)
        return lf_fail(err, LF_NO_MEMORY, "no memory for a table of pins");
    if (!has_tiers) return LF_OK;
    bool may_meet = lf_device_info(e->kv->dev)->is_host || e->opts.may_meet;
    e->sched.opts.below =
        (struct lf_restore_source){.find = find_below, .ctx = t, .may_meet = may_meet, .block_ns = {1, 1}};
    t->entered_at = calloc((size_t)t->n_all, sizeof(*t->entered_at));
    status = t->entered_at ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory to keep %d blocks", t->n_all);
    if (status == LF_OK) status = add_memory(e, err);
    if (status == LF_OK) status = add_disk(e, err);
    if (status != LF_OK) {
        lf_tiers_destroy(e);
        return status;
    }
    lf_prefix_cache_on_enter(e->kv->prefix, on_enter, e);
    if (e->kv->snapshots) lf_prefix_cache_on_enter(e->kv->snapshots, on_enter_snapshot, e);
    return LF_OK;
}

void lf_tiers_destroy(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    if (t->n > 0) lf_prefix_cache_on_enter(e->kv->prefix, NULL, NULL);
    if (t->n > 0 && e->kv->snapshots) lf_prefix_cache_on_enter(e->kv->snapshots, NULL, NULL);
    for (int i = 0; i < t->n; i++) {
        lf_tier_destroy(t->below[i].tier);
        free(t->below[i].saves);
        free(t->below[i].to_save);
    }
    lf_host_free(e->kv->dev, &t->slots);
    lf_pins_deinit(&t->pins);
    free(t->entered_at);
    memset(t, 0, sizeof(*t));
}

/* ---- rounds ---- */

static struct lf_sched_seq *running_at(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_sched_seq, node);
}

/* The sequence that a block was loaded for; NULL: it has ended meanwhile. */
static struct lf_sched_seq *owner_of(struct lf_engine *e, const struct lf_tier_job *job)
{
    LF_LIST_EACH(it, &e->sched.running)
    {
        if (running_at(it)->admitted_no == job->owner) return running_at(it);
    }
    return NULL;
}

static void learn_rate(struct lf_engine *e, int tier)
{
    struct lf_tiers_below *b = &e->tiers.below[tier];
    struct lf_tier_stats stats;
    lf_tier_stats(b->tier, &stats);
    double n = (double)(stats.n_loaded - b->n_learnt), ns = stats.load_ns - b->learnt_ns;
    if (n > 0) lf_restore_learn(&e->sched.opts.below, tier, n, ns);
    b->n_learnt = stats.n_loaded;
    b->learnt_ns = stats.load_ns;
}

/* The least pin that keeps a block in a tier. */
static enum lf_pin pin_of(const struct lf_engine *e, const struct lf_tiers_below *b)
{
    return b - e->tiers.below == e->tiers.disk ? LF_PIN_DISK : LF_PIN_MEMORY;
}

static const struct lf_kv_windows *windows_of(const struct lf_engine *e)
{
    return &e->sched.opts.windows;
}

/* key: of the block, or part, in that group. Snapshots are pinned behind a prompt's last block and the one before. */
static bool is_pinned(const struct lf_engine *e, const struct lf_tiers_below *b, const struct lf_prefix_key *key,
                      int group)
{
    struct lf_prefix_key chain = lf_prefix_group_key(key, group); /* the other way round it is the same */
    int window = group < LF_STATES_PART_GROUP ? windows_of(e)->tokens[group] : LF_STATES_PINNED_N;
    return lf_pins_find(&e->tiers.pins, &chain, window) >= pin_of(e, b);
}

/* Whether it is there still: one that was taken for something else is not, nor one that passes. */
static bool is_to_stay(const struct lf_engine *e, int32_t block)
{
    int32_t slot = slot_of(e, block);
    if (slot >= 0) return e->kv->slots.blocks[slot].cached;
    return e->kv->pool.blocks[block].cached && !lf_prefix_cache_passes(e->kv->prefix, block);
}

/* Whether a block is still to be saved: the tier failed, and rests now; it holds what it held. A copy that the device
 * refuses is not tried again. */
static bool has_failed(const struct lf_engine *e, const struct lf_tier_job *job)
{
    bool is_final = job->status == LF_OK || job->status == LF_FULL || job->status == LF_SHUTDOWN;
    return !is_final && job->status != LF_DEVICE && is_to_stay(e, job->block);
}

static void take_back(struct lf_engine *e, struct lf_tiers_below *b)
{
    for (struct lf_tier_job *job; (job = lf_tier_back(b->tier)) != NULL; lf_tier_done(b->tier, job)) {
        let_go(e, job->block);
        if (job->way == LF_TIER_SAVE) {
            b->n_saving--;
            b->saves[job->block] = LF_TIERS_NO_SAVE;
            lf_tier_pin(b->tier, &job->key, is_pinned(e, b, &job->key, job->origin.group)); /* as it is now */
            if (has_failed(e, job)) queue_save(e, b, job->block);
            continue;
        }
        struct lf_sched_seq *seq = owner_of(e, job);
        if (seq) lf_restore_back(seq, job->idx, job->status == LF_OK);
        b->n_loading--;
    }
}

void lf_tiers_take_back(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    for (int i = 0; i < t->n; i++) {
        int n_loading = t->below[i].n_loading;
        take_back(e, &t->below[i]);
        if (t->below[i].n_loading < n_loading) learn_rate(e, i);
    }
}

/* A job for a block, which it holds until it is back. */
static struct lf_tier_job *begin_job(struct lf_engine *e, struct lf_tier *tier, enum lf_tier_way way, int32_t block)
{
    struct lf_tier_job *job = lf_tier_job(tier);
    LF_ASSERT(job); /* there are as many as may be on their way */
    hold(e, block);
    job->way = way;
    job->block = block;
    return job;
}

static bool may_load(void *ctx, const struct lf_sched_seq *seq)
{
    const struct lf_engine *e = ctx;
    return e->n_flights == 0 || e->n_steps_read >= LF_LIST_ENTRY(seq, struct lf_request, seq)->n_steps_before;
}

static void load(void *ctx, struct lf_sched_seq *seq, int i, int tier)
{
    struct lf_engine *e = ctx;
    struct lf_tiers_below *b = &e->tiers.below[tier];
    int g = lf_restore_group(seq, i), at = lf_restore_idx(seq, i), part = lf_restore_part(seq, i);
    if (part >= 0) {
        g = LF_STATES_PART_GROUP + part;
        at = seq->restore.end - 1;
    }
    int32_t block = part >= 0 ? part_at(e, seq->state_coming, part) : lf_sched_table(seq, g)[at];
    struct lf_tier_job *job = begin_job(e, b->tier, LF_TIER_LOAD, block);
    job->prev = seq->keys[at];
    job->key = lf_prefix_group_key(&seq->keys[at + 1], g);
    lf_prefix_tier_ids(seq->ids + (ptrdiff_t)at * seq->block_tokens, seq->block_tokens, job->ids);
    job->owner = seq->admitted_no;
    job->idx = i;
    lf_tier_submit(b->tier, job);
    b->n_loading++;
}

void lf_tiers_load(struct lf_engine *e)
{
    const struct lf_restore_sender sender = {.may = may_load, .send = load, .ctx = e};
    int n_ahead[LF_RESTORE_TIERS_N] = {0};
    for (int i = 0; i < e->tiers.n; i++) n_ahead[i] = e->tiers.below[i].n_loading;
    if (e->tiers.n > 0) lf_restore_send(&e->sched, &sender, n_ahead, LF_TIERS_LOADS_N);
}

/* Whether a job may have a reference on a block: one that no window can do without (block_tables.h), or on a slot that
 * can be spared. */
static bool may_hold(const struct lf_engine *e, int32_t block)
{
    int32_t slot = slot_of(e, block);
    if (slot >= 0) return lf_states_may_hold(&e->sched, slot);
    return lf_block_pool_is_firm(&e->kv->pool, block) || lf_sched_n_spare(&e->sched) > 0;
}

/* The next block that is to be saved and can be; -1: none, or not yet. */
static int32_t next_to_save(struct lf_engine *e, struct lf_tiers_below *b)
{
    while (b->n_to_save > 0) {
        int32_t block = b->to_save[b->first_save];
        if (e->n_flights > 0 && e->tiers.entered_at[block] > e->n_steps_read) return -1;
        if (is_to_stay(e, block) && !may_hold(e, block)) return -1;
        b->first_save = (b->first_save + 1) % e->tiers.n_all;
        b->n_to_save--;
        b->saves[block] = LF_TIERS_NO_SAVE;
        if (is_to_stay(e, block)) return block;
    }
    return -1;
}

static void save(struct lf_engine *e, struct lf_tiers_below *b)
{
    int most = LF_MIN((int)LF_TIERS_SAVES_N, LF_MAX(e->kv->pool.n_blocks / 8, 1));
    if (!lf_tier_works(b->tier)) return;
    while (b->n_saving < most) {
        int32_t block = next_to_save(e, b);
        if (block < 0) return;
        struct lf_prefix_key key;
        struct lf_prefix_entry entry = entry_of(e, block, &key);
        if (lf_tier_has(b->tier, entry.key)) continue;
        struct lf_tier_job *job = begin_job(e, b->tier, LF_TIER_SAVE, block);
        job->key = *entry.key;
        job->prev = *entry.prev;
        lf_prefix_tier_ids(entry.ids, e->kv->block_tokens, job->ids);
        job->origin = entry.origin;
        job->pinned = is_pinned(e, b, entry.key, entry.origin.group);
        b->saves[block] = LF_TIERS_SAVING;
        lf_tier_submit(b->tier, job);
        b->n_saving++;
    }
}

/* Blocks are entered when the step that computes them is launched: of a device that has failed nobody knows what it
 * left in them. */
void lf_tiers_save(struct lf_engine *e)
{
    if (e->failed) return;
    for (int i = 0; i < e->tiers.n; i++) save(e, &e->tiers.below[i]);
}

/* ---- pins ---- */

static int n_full_blocks(const struct lf_request *req)
{
    return req->params.n_prompt / req->seq.block_tokens;
}

static void tell_tier(struct lf_engine *e, struct lf_tiers_below *b, const struct lf_prefix_key *chain, int group)
{
    struct lf_prefix_key key = lf_prefix_group_key(chain, group);
    lf_tier_pin(b->tier, &key, is_pinned(e, b, &key, group));
}

/* What the tiers are told of a block whose pins have changed, in all groups; is_end: and of the snapshot behind it. */
static void tell_tiers(struct lf_engine *e, const struct lf_prefix_key *chain, bool is_end)
{
    for (int t = 0; t < e->tiers.n; t++) {
        struct lf_tiers_below *b = &e->tiers.below[t];
        for (int g = 0; g < lf_kv_windows_n(windows_of(e)); g++) tell_tier(e, b, chain, g);
        for (int i = 0; i < n_parts_of(e) && is_end; i++) tell_tier(e, b, chain, LF_STATES_PART_GROUP + i);
    }
}

/* Whether a snapshot behind block i may be pinned with the prompt. */
static bool is_end(const struct lf_request *req, int i)
{
    return i >= n_full_blocks(req) - LF_STATES_PINNED_N;
}

void lf_tiers_pin(struct lf_engine *e, struct lf_request *req)
{
    if (req->params.pin == LF_PIN_NONE) return;
    for (int i = 0; i < n_full_blocks(req); i++) {
        req->pins[i] = (struct lf_pin_node){
            .key = &req->seq.keys[i + 1], .idx = i, .n = n_full_blocks(req), .pin = req->params.pin};
        lf_pins_add(&e->tiers.pins, &req->pins[i]);
        tell_tiers(e, req->pins[i].key, is_end(req, i));
    }
    req->is_pinned = true;
}

void lf_tiers_unpin(struct lf_engine *e, struct lf_request *req)
{
    if (!req->is_pinned) return;
    for (int i = 0; i < n_full_blocks(req); i++) {
        lf_pins_remove(&req->pins[i]);
        tell_tiers(e, req->pins[i].key, is_end(req, i));
    }
    req->is_pinned = false;
}

/* Whether a tier has all that is pinned of a prompt of n full blocks in one group. */
static bool has_group(const struct lf_engine *e, const struct lf_tiers_below *b, const struct lf_request *req,
                      int group)
{
    int n = n_full_blocks(req), i = n > 0 ? lf_kv_windows_first(windows_of(e), group, n - 1) : 0;
    for (; i < n; i++) {
        struct lf_prefix_key key = lf_prefix_group_key(&req->seq.keys[i + 1], group);
        if (!lf_tier_has(b->tier, &key)) return false;
    }
    return true;
}

/* Whether it has the snapshots that are pinned with a prompt, whole. */
static bool has_snapshots(const struct lf_engine *e, const struct lf_tiers_below *b, const struct lf_request *req)
{
    for (int k = 0; k < LF_STATES_PINNED_N; k++) {
        int n = lf_states_pinned_end(&req->seq, k);
        for (int i = 0; i < n_parts_of(e) && n > 0; i++) {
            struct lf_prefix_key key = lf_prefix_group_key(&req->seq.keys[n], LF_STATES_PART_GROUP + i);
            if (!lf_tier_has(b->tier, &key)) return false;
        }
    }
    return true;
}

bool lf_tiers_have(struct lf_engine *e, const struct lf_request *req)
{
    for (int t = 0; t < e->tiers.n; t++) {
        struct lf_tiers_below *b = &e->tiers.below[t];
        if (req->params.pin < pin_of(e, b)) continue;
        for (int g = 0; g < lf_kv_windows_n(windows_of(e)); g++)
            if (!has_group(e, b, req, g)) return false;
        if (!has_snapshots(e, b, req)) return false;
    }
    return e->tiers.n > 0;
}

/* Whether block i of a sequence that holds it in some group is to be in a tier, and is not. */
static bool is_missing(const struct lf_engine *e, const struct lf_tiers_below *b, const struct lf_sched_seq *seq,
                       int group, int i)
{
    struct lf_prefix_key key = lf_prefix_group_key(&seq->keys[i + 1], group);
    bool holds = i >= seq->tables[group].first && i < seq->tables[group].end;
    return holds && seq->pin >= pin_of(e, b) && lf_tier_works(b->tier) && !lf_tier_has(b->tier, &key);
}

/* What is in the cache already may not have been saved when it was entered. */
static void ask_for_saves(struct lf_engine *e, struct lf_sched_seq *seq)
{
    for (; seq->n_asked < seq->n_blocks; seq->n_asked++)
        for (int t = 0; t < e->tiers.n; t++)
            for (int g = 0; g < lf_kv_windows_n(windows_of(e)); g++) {
                int32_t block = lf_sched_table(seq, g)[seq->n_asked];
                struct lf_tiers_below *b = &e->tiers.below[t];
                if (is_missing(e, b, seq, g, seq->n_asked) && e->kv->pool.blocks[block].cached) queue_save(e, b, block);
            }
}

/* Whether block i of a sequence that holds it is on its way to a tier that it is to be in, in some group. */
static bool is_on_its_way(const struct lf_engine *e, const struct lf_sched_seq *seq, int i)
{
    for (int t = 0; t < e->tiers.n; t++) {
        const struct lf_tiers_below *b = &e->tiers.below[t];
        for (int g = 0; g < lf_kv_windows_n(windows_of(e)); g++)
            if (b->saves[lf_sched_table(seq, g)[i]] != LF_TIERS_NO_SAVE && is_missing(e, b, seq, g, i)) return true;
    }
    return false;
}

/* Whether a part of the k-th snapshot that it pins is to be in a tier, and is not. */
static bool is_part_missing(const struct lf_engine *e, const struct lf_tiers_below *b, const struct lf_sched_seq *seq,
                            int k, int part)
{
    const struct lf_prefix_key *chain = &seq->keys[lf_states_pinned_end(seq, k)];
    struct lf_prefix_key key = lf_prefix_group_key(chain, LF_STATES_PART_GROUP + part);
    return seq->pin >= pin_of(e, b) && lf_tier_works(b->tier) && !lf_tier_has(b->tier, &key);
}

static void ask_for_parts(struct lf_engine *e, struct lf_tiers_below *b, const struct lf_sched_seq *seq, int k)
{
    for (int i = 0; i < n_parts_of(e) && seq->states_pinned[k] >= 0; i++)
        if (is_part_missing(e, b, seq, k, i)) queue_save(e, b, part_at(e, seq->states_pinned[k], i));
}

static bool are_parts_on_their_way(const struct lf_engine *e, const struct lf_sched_seq *seq)
{
    for (int t = 0; t < e->tiers.n; t++)
        for (int k = 0; k < LF_STATES_PINNED_N; k++) {
            const struct lf_tiers_below *b = &e->tiers.below[t];
            for (int i = 0; i < n_parts_of(e) && seq->states_pinned[k] >= 0; i++) {
                enum lf_tiers_save save = b->saves[part_at(e, seq->states_pinned[k], i)];
                if (save != LF_TIERS_NO_SAVE && is_part_missing(e, b, seq, k, i)) return true;
            }
        }
    return false;
}

/* n_settled is one more than its blocks once its snapshots have settled too. */
static bool is_settling(const struct lf_sched_seq *seq)
{
    return seq->n_settled <= seq->n_blocks && seq->n_blocks > 0;
}

/* The snapshots that it pins come behind its blocks. */
static void settle(struct lf_engine *e, struct lf_sched_seq *seq)
{
    if (seq->n_asked == 0)
        for (int t = 0; t < e->tiers.n; t++)
            for (int k = 0; k < LF_STATES_PINNED_N; k++) ask_for_parts(e, &e->tiers.below[t], seq, k);
    ask_for_saves(e, seq);
    while (seq->n_settled < seq->n_blocks && !is_on_its_way(e, seq, seq->n_settled)) seq->n_settled++;
    if (seq->n_settled == seq->n_blocks && !are_parts_on_their_way(e, seq)) seq->n_settled++;
    if (!is_settling(seq) && seq->pin != LF_PIN_DEVICE) lf_sched_let_go(&e->sched, seq);
}

void lf_tiers_settle(struct lf_engine *e)
{
    LF_LIST_EACH(it, &e->sched.holding)
    {
        struct lf_sched_seq *seq = running_at(it);
        if (is_settling(seq)) settle(e, seq);
    }
}

bool lf_tiers_settling(const struct lf_engine *e)
{
    LF_LIST_EACH(it, &e->sched.holding)
    {
        if (is_settling(running_at(it))) return true;
    }
    return false;
}

void lf_tiers_pins_most(const struct lf_engine *e, int64_t most[LF_PIN_N])
{
    const struct lf_tiers *t = &e->tiers;
    struct lf_tier_stats s;
    for (int pin = 0; pin < LF_PIN_N; pin++) most[pin] = 0;
    if (!e->kv->prefix) return;
    most[LF_PIN_DEVICE] = e->kv->pool.n_blocks / 2;
    if (t->memory >= 0)
        most[LF_PIN_MEMORY] = memory_opts(lf_kv_parts_bytes(&e->tiers.parts), e->opts.memory_bytes).n_slots / 2;
    if (t->disk < 0) return;
    lf_tier_stats(t->below[t->disk].tier, &s);
    most[LF_PIN_DISK] = s.n_slots / 2;
}

/* The engine ends: what is left goes to a tier that outlives it. */
static void save_all(struct lf_engine *e, struct lf_tiers_below *b, int64_t until_ns)
{
    while (!e->failed && lf_tier_works(b->tier) && lf_clock_ns() < until_ns) {
        take_back(e, b);
        save(e, b);
        if (b->n_to_save + b->n_saving == 0) break;
        lf_clock_sleep_ms(1);
    }
}

void lf_tiers_finish(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    int64_t until_ns = lf_clock_ns() + LF_TIERS_END_S * LF_NS_PER_S;
    for (int i = 0; i < t->n; i++) {
        struct lf_tiers_below *b = &t->below[i];
        if (b->tier->outlives) save_all(e, b, until_ns);
        lf_tier_stop(b->tier);
        take_back(e, b);
        LF_ASSERT(b->n_saving + b->n_loading == 0);
    }
}

static void fill_figures(const struct lf_engine *e, int tier, struct lf_engine_tier *out)
{
    struct lf_tier_stats s;
    lf_tier_stats(e->tiers.below[tier].tier, &s);
    *out = (struct lf_engine_tier){.on = true,
                                   .works = s.works,
                                   .n_blocks = s.n_slots,
                                   .n_kept = s.n_listed,
                                   .n_pinned = s.n_pinned,
                                   .n_saved = s.n_saved,
                                   .n_loaded = s.n_loaded,
                                   .n_save_failed = s.n_save_failed,
                                   .n_load_failed = s.n_load_failed,
                                   .n_evicted = s.n_evicted,
                                   .n_broken = s.n_broken,
                                   .load_blocks_per_s = LF_NS_PER_S / e->sched.opts.below.block_ns[tier]};
}

void lf_tiers_figures(struct lf_engine *e, struct lf_engine_tier *memory, struct lf_engine_tier *disk)
{
    const struct lf_tiers *t = &e->tiers;
    if (t->memory >= 0) fill_figures(e, t->memory, memory);
    if (t->disk >= 0) fill_figures(e, t->disk, disk);
}

bool lf_tiers_under_way(const struct lf_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->tiers.n; i++) n += e->tiers.below[i].n_saving + e->tiers.below[i].n_loading;
    return n > 0;
}
