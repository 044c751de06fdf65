/* See tiers.h. */
#include "server/engine/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "server/engine/engine_internal.h"

/* ---- callbacks ---- */

static void copy_out(void *ctx, void *dst, int32_t block)
{
    lf_kv_cache_copy_out(ctx, dst, block);
}

static void copy_in(void *ctx, int32_t block, const void *src)
{
    lf_kv_cache_copy_in(ctx, block, src);
}

static void wake(void *ctx)
{
    lf_mailbox_poke(ctx);
}

static bool is_below(void *ctx, const struct lf_prefix_key *key)
{
    return lf_disk_tier_has(ctx, key);
}

/* A block has been entered in the prefix cache: its turn to be saved will come. */
static void on_enter(void *ctx, int32_t block)
{
    struct lf_engine *e = ctx;
    struct lf_tiers *t = &e->tiers;
    int n_blocks = e->kv->pool.n_blocks;
    t->entered_at[block] = e->figures.n_steps;
    if (t->is_queued[block]) return;
    t->is_queued[block] = true;
    t->to_save[(t->first_save + t->n_to_save++) % n_blocks] = block;
}

/* ---- create and destroy ---- */

static struct lf_disk_tier_opts tier_opts(uint64_t block_bytes)
{
    return (struct lf_disk_tier_opts){.block_bytes = block_bytes,
                                      .copy_out = copy_out,
                                      .copy_in = copy_in,
                                      .wake = wake,
                                      .n_jobs = LF_TIERS_LOADS_N + LF_TIERS_SAVES_N,
                                      .n_loaders = LF_TIERS_LOADERS_N,
                                      .batch_bytes = LF_TIERS_BATCH_BYTES};
}

uint64_t lf_tiers_host_bytes(int n_blocks, uint64_t block_bytes)
{
    struct lf_disk_tier_opts opts = tier_opts(block_bytes);
    return lf_disk_tier_host_bytes(&opts) + (uint64_t)n_blocks * (sizeof(int32_t) + sizeof(bool) + sizeof(uint64_t));
}

/* Until blocks have been loaded a disk is taken for one that reads 8 GB in a second: if it is slower the first blocks
 * tell, but one that is taken for slower than it is would not be asked for a long time. */
static void look_below(struct lf_engine *e, uint64_t block_bytes)
{
    e->sched.opts.below = (struct lf_restore_source){.has = is_below,
                                                     .ctx = e->tiers.disk,
                                                     .may_meet = lf_device_info(e->kv->dev)->is_host,
                                                     .block_ns = (double)block_bytes / 8};
    lf_prefix_cache_on_enter(e->kv->prefix, on_enter, e);
}

enum lf_status lf_tiers_create(struct lf_engine *e, struct lf_disk_table *table, struct lf_err *err)
{
    struct lf_tiers *t = &e->tiers;
    if (!table || !e->kv->prefix) return LF_OK;
    size_t n_blocks = (size_t)e->kv->pool.n_blocks;
    uint64_t block_bytes = lf_kv_block_bytes(&e->kv->view);
    struct lf_disk_tier_opts opts = tier_opts(block_bytes);
    opts.table = table;
    opts.copy_ctx = e->kv;
    opts.wake_ctx = &e->mailbox;
    t->to_save = calloc(n_blocks, sizeof(*t->to_save));
    t->is_queued = calloc(n_blocks, sizeof(*t->is_queued));
    t->entered_at = calloc(n_blocks, sizeof(*t->entered_at));
    enum lf_status status = t->to_save && t->is_queued && t->entered_at
                                ? lf_disk_tier_create(&t->disk, &opts, err)
                                : lf_fail(err, LF_NO_MEMORY, "no memory to keep %zu blocks on disk", n_blocks);
    if (status != LF_OK) {
        lf_tiers_destroy(e);
        return status;
    }
    look_below(e, block_bytes);
    return LF_OK;
}

void lf_tiers_destroy(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    if (t->disk) lf_prefix_cache_on_enter(e->kv->prefix, NULL, NULL);
    lf_disk_tier_destroy(t->disk);
    free(t->entered_at);
    free(t->is_queued);
    free(t->to_save);
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

static void learn_rate(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    struct lf_disk_tier_stats stats;
    lf_disk_tier_stats(t->disk, &stats);
    double n = (double)(stats.n_loaded - t->n_learnt), ns = stats.load_ns - t->learnt_ns;
    if (n > 0) lf_restore_learn(&e->sched.opts.below, n, ns);
    t->n_learnt = stats.n_loaded;
    t->learnt_ns = stats.load_ns;
}

/* Whether a block is still to be saved: the disk failed, and rests now; it holds what it held. */
static bool has_failed(const struct lf_engine *e, const struct lf_tier_job *job)
{
    bool is_final = job->status == LF_OK || job->status == LF_FULL || job->status == LF_SHUTDOWN;
    return !is_final && e->kv->pool.blocks[job->block].cached;
}

void lf_tiers_take_back(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    int n_loading = t->n_loading;
    if (!t->disk) return;
    for (struct lf_tier_job *job; (job = lf_disk_tier_back(t->disk)) != NULL; lf_disk_tier_done(t->disk, job)) {
        lf_block_pool_put(&e->kv->pool, job->block);
        if (job->way == LF_TIER_SAVE) {
            t->n_saving--;
            if (has_failed(e, job)) on_enter(e, job->block);
            continue;
        }
        struct lf_sched_seq *seq = owner_of(e, job);
        if (seq) lf_restore_back(seq, job->idx, job->status == LF_OK);
        t->n_loading--;
    }
    if (t->n_loading < n_loading) learn_rate(e);
}

/* A job for a block, which it holds until it is back. */
static struct lf_tier_job *begin_job(struct lf_engine *e, enum lf_tier_way way, int32_t block)
{
    struct lf_tier_job *job = lf_disk_tier_job(e->tiers.disk);
    LF_ASSERT(job); /* there are as many as may be on their way */
    lf_block_pool_get(&e->kv->pool, block);
    job->way = way;
    job->block = block;
    return job;
}

static bool may_load(void *ctx, const struct lf_sched_seq *seq)
{
    const struct lf_engine *e = ctx;
    return e->n_flights == 0 || e->n_steps_read >= LF_LIST_ENTRY(seq, struct lf_request, seq)->n_steps_before;
}

static void load(void *ctx, struct lf_sched_seq *seq, int i)
{
    struct lf_engine *e = ctx;
    struct lf_tier_job *job = begin_job(e, LF_TIER_LOAD, seq->blocks[i]);
    job->prev = seq->keys[i];
    job->key = seq->keys[i + 1];
    memcpy(job->ids, seq->ids + (ptrdiff_t)i * LF_KV_BLOCK_TOKENS, sizeof(job->ids));
    job->owner = seq->admitted_no;
    job->idx = i;
    lf_disk_tier_submit(e->tiers.disk, job);
    e->tiers.n_loading++;
}

void lf_tiers_load(struct lf_engine *e)
{
    const struct lf_restore_sender sender = {.may = may_load, .send = load, .ctx = e};
    if (e->tiers.disk) lf_restore_send(&e->sched, &sender, e->tiers.n_loading, LF_TIERS_LOADS_N);
}

/* The next block that is to be saved and can be; -1: none. One that was taken for something else is not. */
static int32_t next_to_save(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    while (t->n_to_save > 0) {
        int32_t block = t->to_save[t->first_save];
        if (e->n_flights > 0 && t->entered_at[block] > e->n_steps_read) return -1;
        t->first_save = (t->first_save + 1) % e->kv->pool.n_blocks;
        t->n_to_save--;
        t->is_queued[block] = false;
        if (e->kv->pool.blocks[block].cached) return block;
    }
    return -1;
}

void lf_tiers_save(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    int most = LF_MIN((int)LF_TIERS_SAVES_N, LF_MAX(e->kv->pool.n_blocks / 8, 1));
    if (!t->disk || !lf_disk_tier_works(t->disk)) return;
    while (t->n_saving < most) {
        int32_t block = next_to_save(e);
        if (block < 0) return;
        struct lf_prefix_entry entry = lf_prefix_cache_entry(e->kv->prefix, block);
        if (lf_disk_tier_has(t->disk, entry.key)) continue;
        struct lf_tier_job *job = begin_job(e, LF_TIER_SAVE, block);
        job->key = *entry.key;
        job->prev = *entry.prev;
        memcpy(job->ids, entry.ids, sizeof(job->ids));
        lf_disk_tier_submit(t->disk, job);
        t->n_saving++;
    }
}

void lf_tiers_finish(struct lf_engine *e)
{
    struct lf_tiers *t = &e->tiers;
    int64_t until_ns = lf_clock_ns() + LF_TIERS_END_S * LF_NS_PER_S;
    if (!t->disk) return;
    while (!e->failed && lf_disk_tier_works(t->disk) && lf_clock_ns() < until_ns) {
        lf_tiers_take_back(e);
        lf_tiers_save(e);
        if (t->n_to_save + t->n_saving == 0) break;
        lf_clock_sleep_ms(1);
    }
    lf_disk_tier_stop(t->disk);
    lf_tiers_take_back(e);
    LF_ASSERT(t->n_saving + t->n_loading == 0);
}

void lf_tiers_figures(struct lf_engine *e, struct lf_engine_disk *out)
{
    struct lf_disk_tier_stats s;
    if (!e->tiers.disk) return;
    lf_disk_tier_stats(e->tiers.disk, &s);
    *out = (struct lf_engine_disk){.on = true,
                                   .works = s.works,
                                   .n_blocks = s.table.n_slots,
                                   .n_kept = s.table.n_listed,
                                   .n_saved = s.n_saved,
                                   .n_loaded = s.n_loaded,
                                   .n_save_failed = s.n_save_failed,
                                   .n_load_failed = s.n_load_failed,
                                   .n_evicted = s.table.n_evicted,
                                   .n_broken = s.table.n_broken + s.table.n_dropped,
                                   .load_blocks_per_s = LF_NS_PER_S / e->sched.opts.below.block_ns};
}

bool lf_tiers_under_way(const struct lf_engine *e)
{
    return e->tiers.n_saving + e->tiers.n_loading > 0;
}
