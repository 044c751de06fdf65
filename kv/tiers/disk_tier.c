/* See disk_tier.h; lanes.h says how jobs travel.
 *
 * Loaders are beside the saver, so a load never stands behind saves in a queue; what both share is the disk. While a
 * load is waiting or being read the saver begins no batch, unless LOADS_PER_SAVE loads have come back for each block of
 * the batch before: a server that always loads still saves a block for every four, and no load shares the disk with
 * more than that.
 *
 * Rests and what is counted of them are under the lanes' lock. The table's lock is never taken under it. */
#include "kv/tiers/disk_tier.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "kv/tiers/lanes.h"

enum { LOADS_PER_SAVE = 4, REST_MIN_S = 1, REST_MAX_S = 64, RUN_BYTES = 1 << 20 };

static const char *const names[] = {[LF_TIER_SAVE] = "saves to disk", [LF_TIER_LOAD] = "loads from disk"};

/* Of a lane, after failures. */
struct rest {
    _Atomic int64_t until_ns; /* written under the lock */
    int last_s;               /* the last one; 0: something has succeeded since */
    uint64_t n;
};

struct disk_tier;

struct worker {
    struct disk_tier *tier;
    int lane;
    uint8_t *staging; /* the saver's: batch_n slots; a loader's: run_n */
};

struct disk_tier {
    struct lf_lanes lanes;
    struct lf_disk_tier_opts opts;
    uint64_t slot_bytes;
    uint32_t batch_n, run_n; /* blocks written and read at once */
    uint8_t *staging;
    bool is_pinned;         /* the staging */
    struct worker *workers; /* the saver, then the loaders */
    /* Under the lock of the lanes: */
    struct rest rests[2];
    uint64_t n_loads_first; /* that come back before the saver begins a batch beside them */
};

static struct disk_tier *tier_of(struct lf_tier *tier)
{
    return (struct disk_tier *)(void *)tier;
}

/* ---- rests, all under the lock ---- */

static bool rests(const struct disk_tier *t, enum lf_tier_way way)
{
    return lf_clock_ns() < atomic_load(&t->rests[way].until_ns);
}

static void begin_rest(struct disk_tier *t, enum lf_tier_way way)
{
    struct rest *r = &t->rests[way];
    r->last_s = r->last_s == 0 ? REST_MIN_S : LF_MIN(2 * r->last_s, REST_MAX_S);
    r->n++;
    atomic_store(&r->until_ns, lf_clock_ns() + r->last_s * LF_NS_PER_S);
    lf_lanes_give_back_waiting(&t->lanes, way, LF_IO);
}

enum finding { NOTHING, WORKS, FAILS };

/* What a thread has found out about the disk. n_rests: when it began, because what began before the last rest says
 * nothing about now, and several threads that see one failure make one rest. What is to be logged: seconds of the rest
 * that begins, -1: the disk works again, 0: nothing. */
static int judge(struct disk_tier *t, enum lf_tier_way way, uint64_t n_rests, enum finding finding)
{
    struct rest *r = &t->rests[way];
    bool rested = r->last_s > 0;
    if (finding == NOTHING || n_rests != r->n) return 0;
    if (finding == FAILS) begin_rest(t, way);
    if (finding == WORKS) r->last_s = 0;
    return finding == FAILS ? r->last_s : rested ? -1 : 0;
}

static void say(enum lf_tier_way way, int said, const struct lf_err *err)
{
    if (said > 0) LF_WARN("%s rest for %d s: %s", names[way], said, err->message);
    if (said < 0) LF_INFO("%s work again", names[way]);
}

/* ---- the loaders ---- */

/* Loads that a loader has taken at once: neighbours on the disk are read in one go. */
struct loads {
    struct lf_tier_job *jobs[LF_DISK_RUN_N];
    int32_t slots[LF_DISK_RUN_N]; /* with a reference; -1: not there */
    enum lf_status statuses[LF_DISK_RUN_N];
    int n, n_left; /* n_left: of these, not tried */
};

/* As many as a loader reads at once, but no more than its part of what waits. */
static void take_loads(struct disk_tier *t, struct loads *l)
{
    int n_loaders = t->opts.n_loaders, n_waiting = t->lanes.lane[LF_TIER_LOAD].n_waiting;
    int n = LF_MIN((n_waiting + n_loaders - 1) / n_loaders, (int)t->run_n);
    for (*l = (struct loads){.n = 0}; l->n < n; l->n++) l->jobs[l->n] = lf_lanes_take(&t->lanes, LF_TIER_LOAD);
}

/* Finds where they are, in the order of their slots. */
static void find_slots(const struct disk_tier *t, struct loads *l)
{
    for (int i = 0; i < l->n; i++) {
        struct lf_tier_job *job = l->jobs[i];
        int32_t slot = lf_disk_table_get(t->opts.table, &job->key);
        int k = i;
        for (; k > 0 && l->slots[k - 1] > slot; k--) {
            l->slots[k] = l->slots[k - 1];
            l->jobs[k] = l->jobs[k - 1];
        }
        l->slots[k] = slot;
        l->jobs[k] = job;
    }
}

static enum finding load_finding(enum lf_status status)
{
    if (status == LF_INVALID) return NOTHING;
    return status == LF_OK || status == LF_CORRUPT ? WORKS : FAILS;
}

/* Those of [first, first + n) are neighbours. */
static void load_run(const struct worker *w, struct loads *l, int first, int n, struct lf_err *err)
{
    struct disk_tier *t = w->tier;
    const struct lf_tier_copy *copy = &t->opts.copy;
    struct lf_disk_want wants[LF_DISK_RUN_N];
    for (int i = 0; i < n; i++)
        wants[i] = (struct lf_disk_want){.prev = &l->jobs[first + i]->prev, .ids = l->jobs[first + i]->ids};
    lf_disk_table_read_run(t->opts.table, l->slots[first], wants, n, w->staging, err);
    for (int i = 0; i < n; i++) {
        enum lf_status *status = &l->statuses[first + i];
        lf_disk_table_release(t->opts.table, l->slots[first + i]);
        *status = wants[i].status;
        if (*status == LF_OK)
            *status =
                copy->in(copy->ctx, w->lane, l->jobs[first + i]->block, w->staging + (uint64_t)i * t->slot_bytes, err);
    }
}

static void leave_run(const struct disk_tier *t, struct loads *l, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        lf_disk_table_release(t->opts.table, l->slots[i]);
        l->statuses[i] = LF_IO;
        l->n_left++;
    }
}

/* Where the disk fails, what is left is not tried: it comes back as what waits does. */
static void load(const struct worker *w, struct loads *l, struct lf_err *err)
{
    bool fails = false;
    find_slots(w->tier, l);
    for (int first = 0, n; first < l->n; first += n) {
        n = 1;
        l->statuses[first] = LF_INVALID;
        if (l->slots[first] < 0) continue;
        while (first + n < l->n && l->slots[first + n] == l->slots[first] + n) n++;
        if (fails)
            leave_run(w->tier, l, first, n);
        else
            load_run(w, l, first, n, err);
        fails = load_finding(l->statuses[first + n - 1]) == FAILS;
    }
}

static bool may_save(const struct disk_tier *t)
{
    const struct lf_lane *loads = &t->lanes.lane[LF_TIER_LOAD];
    if (t->lanes.lane[LF_TIER_SAVE].n_waiting == 0) return false;
    return loads->n_waiting + loads->n_busy == 0 || t->n_loads_first == 0;
}

/* What they say of the disk together. */
static enum finding finding_of(const struct loads *l)
{
    enum finding all = NOTHING;
    for (int i = 0; i < l->n; i++) all = LF_MAX(all, load_finding(l->statuses[i]));
    return all;
}

static void give_back_loads(struct disk_tier *t, const struct loads *l)
{
    struct lf_lane *lane = &t->lanes.lane[LF_TIER_LOAD];
    for (int i = 0; i < l->n; i++) {
        if (l->statuses[i] == LF_OK) lane->n_done++;
        if (l->statuses[i] != LF_OK && l->statuses[i] != LF_INVALID) lane->n_failed++;
        lf_lanes_give_back(&t->lanes, l->jobs[i], l->statuses[i]);
    }
    lane->n_failed -= (uint64_t)l->n_left;
    t->n_loads_first -= LF_MIN(t->n_loads_first, (uint64_t)l->n);
}

/* Some loads, from the queue to the engine. Called and returns under the lock. */
static void load_some(const struct worker *w)
{
    struct disk_tier *t = w->tier;
    struct lf_lanes *lanes = &t->lanes;
    struct lf_err err = {0};
    struct loads l;
    take_loads(t, &l);
    uint64_t n_rests = t->rests[LF_TIER_LOAD].n;
    lf_lanes_begin(lanes, LF_TIER_LOAD);
    lf_lanes_unlock(lanes);
    load(w, &l, &err);
    lf_lanes_lock(lanes);
    lf_lanes_end(lanes, LF_TIER_LOAD);
    give_back_loads(t, &l);
    int said = judge(t, LF_TIER_LOAD, n_rests, finding_of(&l));
    if (may_save(t)) pthread_cond_signal(&lanes->lane[LF_TIER_SAVE].work);
    lf_lanes_unlock(lanes);
    lanes->wake(lanes->wake_ctx);
    say(LF_TIER_LOAD, said, &err);
    lf_lanes_lock(lanes);
}

static void *loader_main(void *arg)
{
    struct worker *w = arg;
    struct lf_lanes *lanes = &w->tier->lanes;
    struct lf_lane *l = &lanes->lane[LF_TIER_LOAD];
    lf_lanes_lock(lanes);
    while (!lanes->stop) {
        if (l->n_waiting > 0)
            load_some(w);
        else
            pthread_cond_wait(&l->work, &lanes->lock);
    }
    lf_lanes_unlock(lanes);
    return NULL;
}

/* ---- the saver ---- */

struct batch {
    struct lf_tier_job *jobs[LF_DISK_BATCH_N];
    enum lf_status statuses[LF_DISK_BATCH_N];
    uint32_t n;
};

/* Copies what is to be saved, and writes it. */
static enum lf_status write_batch(const struct worker *w, const struct batch *b, uint32_t *n_listed, struct lf_err *err)
{
    const struct disk_tier *t = w->tier;
    const struct lf_disk_tier_opts *o = &t->opts;
    struct lf_disk_block blocks[LF_DISK_BATCH_N];
    for (uint32_t i = 0; i < b->n; i++) {
        const struct lf_tier_job *job = b->jobs[i];
        uint8_t *bytes = w->staging + i * t->slot_bytes;
        LF_TRY(o->copy.out(o->copy.ctx, w->lane, bytes, job->block, err));
        blocks[i] = (struct lf_disk_block){job->key, job->prev, job->ids, bytes, job->origin, job->pinned};
    }
    return lf_disk_table_put(o->table, blocks, b->n, n_listed, err);
}

/* The status of the whole: LF_OK if the disk did what it was told, even where there was no slot. */
static enum lf_status save(const struct worker *w, struct batch *b, struct lf_err *err)
{
    uint32_t n_listed = 0;
    enum lf_status status = write_batch(w, b, &n_listed, err);
    for (uint32_t i = 0; i < b->n; i++) {
        bool listed = n_listed == b->n || lf_disk_table_has(w->tier->opts.table, &b->jobs[i]->key);
        b->statuses[i] = listed ? LF_OK : status == LF_OK ? LF_FULL : status;
    }
    return status;
}

static void take_batch(struct disk_tier *t, struct batch *b)
{
    const struct lf_lane *l = &t->lanes.lane[LF_TIER_SAVE];
    for (b->n = 0; b->n < t->batch_n && l->n_waiting > 0; b->n++)
        b->jobs[b->n] = lf_lanes_take(&t->lanes, LF_TIER_SAVE);
}

/* How many were saved. */
static uint32_t give_back_batch(struct disk_tier *t, const struct batch *b)
{
    uint32_t n_done = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        n_done += b->statuses[i] == LF_OK ? 1 : 0;
        lf_lanes_give_back(&t->lanes, b->jobs[i], b->statuses[i]);
    }
    return n_done;
}

/* One batch, from the queue to the engine. Called and returns under the lock. */
static void save_batch(const struct worker *w)
{
    struct disk_tier *t = w->tier;
    struct lf_lanes *lanes = &t->lanes;
    struct lf_lane *l = &lanes->lane[LF_TIER_SAVE];
    struct lf_err err = {0};
    struct batch b;
    take_batch(t, &b);
    uint64_t n_rests = t->rests[LF_TIER_SAVE].n;
    lf_lanes_begin(lanes, LF_TIER_SAVE);
    lf_lanes_unlock(lanes);
    enum lf_status status = save(w, &b, &err);
    lf_lanes_lock(lanes);
    lf_lanes_end(lanes, LF_TIER_SAVE);
    uint32_t n_done = give_back_batch(t, &b);
    l->n_done += n_done;
    l->n_failed += b.n - n_done;
    int said = judge(t, LF_TIER_SAVE, n_rests, status != LF_OK ? FAILS : n_done > 0 ? WORKS : NOTHING);
    t->n_loads_first = (uint64_t)LOADS_PER_SAVE * b.n;
    lf_lanes_unlock(lanes);
    lanes->wake(lanes->wake_ctx);
    say(LF_TIER_SAVE, said, &err);
    lf_lanes_lock(lanes);
}

static void *saver_main(void *arg)
{
    struct worker *w = arg;
    struct lf_lanes *lanes = &w->tier->lanes;
    lf_lanes_lock(lanes);
    while (!lanes->stop) {
        if (may_save(w->tier))
            save_batch(w);
        else
            pthread_cond_wait(&lanes->lane[LF_TIER_SAVE].work, &lanes->lock);
    }
    lf_lanes_unlock(lanes);
    return NULL;
}

/* ---- the engine ---- */

static enum lf_status refusal(struct lf_lanes *lanes, enum lf_tier_way way)
{
    return rests(tier_of(&lanes->tier), way) ? LF_IO : LF_OK;
}

static void submit(struct lf_tier *tier, struct lf_tier_job *job)
{
    lf_lanes_submit(&tier_of(tier)->lanes, job, refusal);
}

static bool has(struct lf_tier *tier, const struct lf_prefix_key *key)
{
    struct disk_tier *t = tier_of(tier);
    return !rests(t, LF_TIER_LOAD) && lf_disk_table_has(t->opts.table, key);
}

static void use(struct lf_tier *tier, const struct lf_prefix_key *key)
{
    lf_disk_table_use(tier_of(tier)->opts.table, key);
}

static void pin_block(struct lf_tier *tier, const struct lf_prefix_key *key, bool pinned)
{
    lf_disk_table_pin(tier_of(tier)->opts.table, key, pinned);
}

static bool works(const struct lf_tier *tier)
{
    const struct disk_tier *t = (const void *)tier;
    return !rests(t, LF_TIER_SAVE) && !rests(t, LF_TIER_LOAD);
}

static void stats(struct lf_tier *tier, struct lf_tier_stats *out)
{
    struct disk_tier *t = tier_of(tier);
    struct lf_disk_table_stats table;
    lf_lanes_lock(&t->lanes);
    lf_lanes_stats(&t->lanes, t->opts.block_bytes, out);
    out->n_rests = t->rests[LF_TIER_SAVE].n + t->rests[LF_TIER_LOAD].n;
    out->works = works(tier);
    lf_lanes_unlock(&t->lanes);
    lf_disk_table_stats(t->opts.table, &table);
    out->n_slots = table.n_slots;
    out->n_listed = table.n_listed;
    out->n_pinned = table.n_pinned;
    out->n_evicted = table.n_evicted;
    out->n_broken = table.n_broken + table.n_dropped;
}

/* ---- create and destroy ---- */

static void stop(struct lf_tier *tier)
{
    lf_lanes_stop(&tier_of(tier)->lanes);
}

static void destroy(struct lf_tier *tier)
{
    struct disk_tier *t = tier_of(tier);
    lf_lanes_stop(&t->lanes);
    lf_lanes_deinit(&t->lanes);
    if (t->is_pinned) t->opts.copy.unpin(t->opts.copy.ctx, t->staging);
    free(t->workers);
    free(t->staging);
    free(t);
}

static const struct lf_tier_ops ops = {.job = lf_lanes_job,
                                       .submit = submit,
                                       .back = lf_lanes_back,
                                       .done = lf_lanes_done,
                                       .n_under_way = lf_lanes_n_under_way,
                                       .has = has,
                                       .use = use,
                                       .pin = pin_block,
                                       .works = works,
                                       .stats = stats,
                                       .stop = stop,
                                       .destroy = destroy};

static uint32_t batch_n_of(const struct lf_disk_tier_opts *o)
{
    uint64_t n = o->batch_bytes / lf_disk_slot_bytes(o->block_bytes);
    return (uint32_t)LF_MAX(LF_MIN(n, (uint64_t)LF_DISK_BATCH_N), 1u);
}

/* More than RUN_BYTES at once bring a disk nothing, and keep the others from their part. */
static uint32_t run_n_of(const struct lf_disk_tier_opts *o)
{
    uint64_t n = RUN_BYTES / lf_disk_slot_bytes(o->block_bytes);
    return (uint32_t)LF_MAX(LF_MIN(n, (uint64_t)LF_DISK_RUN_N), 1u);
}

static uint64_t staging_bytes(const struct lf_disk_tier_opts *o)
{
    return (batch_n_of(o) + (uint64_t)o->n_loaders * run_n_of(o)) * lf_disk_slot_bytes(o->block_bytes);
}

uint64_t lf_disk_tier_host_bytes(const struct lf_disk_tier_opts *o)
{
    return sizeof(struct disk_tier) + (uint64_t)o->n_jobs * sizeof(struct lf_tier_job) +
           (1 + (uint64_t)o->n_loaders) * sizeof(struct worker) + staging_bytes(o);
}

/* Staging that is not pinned is copied all the same, only slower. */
static void pin(struct disk_tier *t)
{
    const struct lf_tier_copy *copy = &t->opts.copy;
    struct lf_err err;
    if (!copy->pin) return;
    t->is_pinned = copy->pin(copy->ctx, t->staging, staging_bytes(&t->opts), &err) == LF_OK;
    if (!t->is_pinned) LF_WARN("copies to and from the disk's staging will be slow: %s", err.message);
}

static bool make(struct disk_tier *t)
{
    const struct lf_disk_tier_opts *o = &t->opts;
    t->slot_bytes = lf_disk_slot_bytes(o->block_bytes);
    t->batch_n = batch_n_of(o);
    t->run_n = run_n_of(o);
    t->staging = aligned_alloc(LF_DISK_ALIGN_BYTES, staging_bytes(o));
    t->workers = calloc(1 + (size_t)o->n_loaders, sizeof(*t->workers));
    if (!t->staging || !t->workers) return false;
    memset(t->staging, 0, staging_bytes(o)); /* what lies behind a block in its slot is written too */
    pin(t);
    return true;
}

static bool start(struct disk_tier *t)
{
    uint8_t *staging = t->staging;
    for (int i = 0; i < 1 + t->opts.n_loaders; i++) {
        bool saves = i == 0;
        t->workers[i] = (struct worker){.tier = t, .lane = t->opts.copy.first_lane + i, .staging = staging};
        staging += (saves ? t->batch_n : t->run_n) * t->slot_bytes;
        if (!lf_lanes_start(&t->lanes, saves ? saver_main : loader_main, &t->workers[i], saves ? "lf-save" : "lf-load"))
            return false;
    }
    return true;
}

enum lf_status lf_disk_tier_create(struct lf_tier **out, const struct lf_disk_tier_opts *opts, struct lf_err *err)
{
    LF_ASSERT(opts->n_loaders >= 1 && opts->n_loaders < LF_LANES_THREADS_N && opts->block_bytes >= 1);
    struct disk_tier *t = calloc(1, sizeof(*t));
    if (!t || !lf_lanes_init(&t->lanes, opts->n_jobs)) {
        free(t);
        return lf_fail(err, LF_NO_MEMORY, "no memory or lock for the blocks on their way to disk and back");
    }
    t->opts = *opts;
    t->lanes.tier = (struct lf_tier){.ops = &ops, .outlives = true};
    t->lanes.wake = opts->wake;
    t->lanes.wake_ctx = opts->wake_ctx;
    if (!make(t) || !start(t)) {
        destroy(&t->lanes.tier);
        return lf_fail(err, LF_NO_MEMORY,
                       "no memory or thread for the blocks on their way to disk and back: %llu bytes",
                       (unsigned long long)lf_disk_tier_host_bytes(opts));
    }
    *out = &t->lanes.tier;
    return LF_OK;
}
