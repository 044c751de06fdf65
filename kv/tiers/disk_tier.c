/* See disk_tier.h.
 *
 *     free ── job, submit ──► queue of its lane ── a thread takes it ──► back ── back, done ──► free
 *                        └────────── the lane rests, stopped ─────────►
 *
 * There are two lanes, saves and loads, each with its queue, its rest and its figures. Loaders are beside the saver, so
 * a load never stands behind saves in a queue; what both share is the disk. While a load is waiting or being read the
 * saver begins no batch, unless LOADS_PER_SAVE loads have come back for each block of the batch before: a server that
 * always loads still saves a block for every four, and no load shares the disk with more than that.
 *
 * One lock, over the queues, rests and figures. It is held for some dozens of instructions: not while the disk works, a
 * block is copied, the engine is woken or a line is logged. The table's lock is never taken under it. */
#include "kv/tiers/disk_tier.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"

enum { LOADS_PER_SAVE = 4, REST_MIN_S = 1, REST_MAX_S = 64 };

static const char *const names[] = {[LF_TIER_SAVE] = "saves to disk", [LF_TIER_LOAD] = "loads from disk"};

struct lane {
    struct lf_list queue;
    pthread_cond_t work; /* its threads may have something to do */
    int n_waiting, n_busy;
    int64_t busy_since_ns;         /* n_busy > 0 */
    _Atomic int64_t rest_until_ns; /* written under the lock */
    int rest_s;                    /* the last rest; 0: something has succeeded since */
    uint64_t n_rests;
    uint64_t n_done, n_failed;
    double busy_ns;
};

struct worker {
    struct lf_disk_tier *tier;
    pthread_t thread;
    uint8_t *staging; /* the saver's: batch_n slots; a loader's: one */
};

struct lf_disk_tier {
    struct lf_disk_tier_opts opts;
    uint64_t slot_bytes;
    uint32_t batch_n;
    uint8_t *staging;
    struct worker *workers; /* the saver, then the loaders */
    int n_workers;          /* that have been started */
    /* The engine thread's: */
    struct lf_tier_job *jobs;
    struct lf_list free;
    int n_under_way;
    pthread_mutex_t lock; /* over all below */
    struct lane lanes[2];
    struct lf_list back;
    uint64_t n_loads_first; /* that come back before the saver begins a batch beside them */
    bool stop;
};

static void lock(struct lf_disk_tier *t)
{
    LF_ASSERT(pthread_mutex_lock(&t->lock) == 0);
}

static void unlock(struct lf_disk_tier *t)
{
    LF_ASSERT(pthread_mutex_unlock(&t->lock) == 0);
}

static struct lf_tier_job *job_of(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_tier_job, node);
}

/* ---- lanes, all under the lock ---- */

static struct lf_tier_job *take(struct lane *l)
{
    struct lf_tier_job *job = job_of(lf_list_first(&l->queue));
    lf_list_remove(&job->node);
    l->n_waiting--;
    return job;
}

static void give_back(struct lf_disk_tier *t, struct lf_tier_job *job, enum lf_status status)
{
    job->status = status;
    lf_list_push_back(&t->back, &job->node);
}

static void begin(struct lane *l)
{
    if (l->n_busy++ == 0) l->busy_since_ns = lf_clock_ns();
}

static void end(struct lane *l)
{
    if (--l->n_busy == 0) l->busy_ns += (double)(lf_clock_ns() - l->busy_since_ns);
}

static bool rests(const struct lane *l)
{
    return lf_clock_ns() < atomic_load(&l->rest_until_ns);
}

static void give_back_waiting(struct lf_disk_tier *t, struct lane *l, enum lf_status status)
{
    while (!lf_list_empty(&l->queue)) give_back(t, take(l), status);
}

static void begin_rest(struct lf_disk_tier *t, struct lane *l)
{
    l->rest_s = l->rest_s == 0 ? REST_MIN_S : LF_MIN(2 * l->rest_s, REST_MAX_S);
    l->n_rests++;
    atomic_store(&l->rest_until_ns, lf_clock_ns() + l->rest_s * LF_NS_PER_S);
    give_back_waiting(t, l, LF_IO);
}

enum finding { NOTHING, WORKS, FAILS };

/* What a thread has found out about the disk. n_rests: when it began, because what began before the last rest says
 * nothing about now, and several threads that see one failure make one rest. What is to be logged: seconds of the rest
 * that begins, -1: the disk works again, 0: nothing. */
static int judge(struct lf_disk_tier *t, struct lane *l, uint64_t n_rests, enum finding finding)
{
    bool rested = l->rest_s > 0;
    if (finding == NOTHING || n_rests != l->n_rests) return 0;
    if (finding == FAILS) begin_rest(t, l);
    if (finding == WORKS) l->rest_s = 0;
    return finding == FAILS ? l->rest_s : rested ? -1 : 0;
}

static void say(enum lf_tier_way way, int said, const struct lf_err *err)
{
    if (said > 0) LF_WARN("%s rest for %d s: %s", names[way], said, err->message);
    if (said < 0) LF_INFO("%s work again", names[way]);
}

/* ---- the loaders ---- */

static enum lf_status load(const struct worker *w, const struct lf_tier_job *job, struct lf_err *err)
{
    const struct lf_disk_tier_opts *o = &w->tier->opts;
    int32_t slot = lf_disk_table_get(o->table, &job->key);
    if (slot < 0) return LF_INVALID;
    enum lf_status status = lf_disk_table_read(o->table, slot, &job->prev, job->ids, w->staging, err);
    lf_disk_table_release(o->table, slot);
    if (status == LF_OK) o->copy_in(o->copy_ctx, job->block, w->staging);
    return status;
}

static enum finding load_finding(enum lf_status status)
{
    if (status == LF_INVALID) return NOTHING;
    return status == LF_OK || status == LF_CORRUPT ? WORKS : FAILS;
}

static bool may_save(const struct lf_disk_tier *t)
{
    const struct lane *loads = &t->lanes[LF_TIER_LOAD];
    if (t->lanes[LF_TIER_SAVE].n_waiting == 0) return false;
    return loads->n_waiting + loads->n_busy == 0 || t->n_loads_first == 0;
}

/* One load, from the queue to the engine. Called and returns under the lock. */
static void load_one(const struct worker *w)
{
    struct lf_disk_tier *t = w->tier;
    struct lane *l = &t->lanes[LF_TIER_LOAD];
    struct lf_err err = {0};
    struct lf_tier_job *job = take(l);
    uint64_t n_rests = l->n_rests;
    begin(l);
    unlock(t);
    enum lf_status status = load(w, job, &err);
    enum finding finding = load_finding(status);
    lock(t);
    end(l);
    if (status == LF_OK) l->n_done++;
    if (status != LF_OK && status != LF_INVALID) l->n_failed++;
    give_back(t, job, status);
    int said = judge(t, l, n_rests, finding);
    if (t->n_loads_first > 0) t->n_loads_first--;
    if (may_save(t)) pthread_cond_signal(&t->lanes[LF_TIER_SAVE].work);
    unlock(t);
    t->opts.wake(t->opts.wake_ctx);
    say(LF_TIER_LOAD, said, &err);
    lock(t);
}

static void *loader_main(void *arg)
{
    struct worker *w = arg;
    struct lf_disk_tier *t = w->tier;
    struct lane *l = &t->lanes[LF_TIER_LOAD];
    lock(t);
    while (!t->stop) {
        if (l->n_waiting > 0)
            load_one(w);
        else
            pthread_cond_wait(&l->work, &t->lock);
    }
    unlock(t);
    return NULL;
}

/* ---- the saver ---- */

struct batch {
    struct lf_tier_job *jobs[LF_DISK_BATCH_N];
    enum lf_status statuses[LF_DISK_BATCH_N];
    uint32_t n;
};

static bool is_listed(struct lf_disk_table *table, const struct lf_prefix_key *key)
{
    int32_t slot = lf_disk_table_get(table, key);
    if (slot >= 0) lf_disk_table_release(table, slot);
    return slot >= 0;
}

/* The status of the whole: LF_OK if the disk did what it was told, even where there was no slot. */
static enum lf_status save(const struct worker *w, struct batch *b, struct lf_err *err)
{
    const struct lf_disk_tier *t = w->tier;
    const struct lf_disk_tier_opts *o = &t->opts;
    struct lf_disk_block blocks[LF_DISK_BATCH_N];
    uint32_t n_listed = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct lf_tier_job *job = b->jobs[i];
        uint8_t *bytes = w->staging + i * t->slot_bytes;
        o->copy_out(o->copy_ctx, bytes, job->block);
        blocks[i] = (struct lf_disk_block){job->key, job->prev, job->ids, bytes};
    }
    enum lf_status status = lf_disk_table_put(o->table, blocks, b->n, &n_listed, err);
    for (uint32_t i = 0; i < b->n; i++) {
        bool listed = n_listed == b->n || is_listed(o->table, &b->jobs[i]->key);
        b->statuses[i] = listed ? LF_OK : status == LF_OK ? LF_FULL : status;
    }
    return status;
}

static void take_batch(struct lf_disk_tier *t, struct batch *b)
{
    struct lane *l = &t->lanes[LF_TIER_SAVE];
    for (b->n = 0; b->n < t->batch_n && l->n_waiting > 0; b->n++) b->jobs[b->n] = take(l);
}

/* How many were saved. */
static uint32_t give_back_batch(struct lf_disk_tier *t, const struct batch *b)
{
    uint32_t n_done = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        n_done += b->statuses[i] == LF_OK ? 1 : 0;
        give_back(t, b->jobs[i], b->statuses[i]);
    }
    return n_done;
}

/* One batch, from the queue to the engine. Called and returns under the lock. */
static void save_batch(const struct worker *w)
{
    struct lf_disk_tier *t = w->tier;
    struct lane *l = &t->lanes[LF_TIER_SAVE];
    struct lf_err err = {0};
    struct batch b;
    take_batch(t, &b);
    uint64_t n_rests = l->n_rests;
    begin(l);
    unlock(t);
    enum lf_status status = save(w, &b, &err);
    lock(t);
    end(l);
    uint32_t n_done = give_back_batch(t, &b);
    l->n_done += n_done;
    l->n_failed += b.n - n_done;
    int said = judge(t, l, n_rests, status != LF_OK ? FAILS : n_done > 0 ? WORKS : NOTHING);
    t->n_loads_first = (uint64_t)LOADS_PER_SAVE * b.n;
    unlock(t);
    t->opts.wake(t->opts.wake_ctx);
    say(LF_TIER_SAVE, said, &err);
    lock(t);
}

static void *saver_main(void *arg)
{
    struct worker *w = arg;
    struct lf_disk_tier *t = w->tier;
    lock(t);
    while (!t->stop) {
        if (may_save(t))
            save_batch(w);
        else
            pthread_cond_wait(&t->lanes[LF_TIER_SAVE].work, &t->lock);
    }
    unlock(t);
    return NULL;
}

/* ---- create and destroy ---- */

static uint32_t batch_n_of(const struct lf_disk_tier_opts *o)
{
    uint64_t n = o->batch_bytes / lf_disk_slot_bytes(o->block_bytes);
    return (uint32_t)LF_MAX(LF_MIN(n, (uint64_t)LF_DISK_BATCH_N), 1u);
}

static uint64_t staging_bytes(const struct lf_disk_tier_opts *o)
{
    return (batch_n_of(o) + (uint64_t)o->n_loaders) * lf_disk_slot_bytes(o->block_bytes);
}

uint64_t lf_disk_tier_host_bytes(const struct lf_disk_tier_opts *o)
{
    return sizeof(struct lf_disk_tier) + (uint64_t)o->n_jobs * sizeof(struct lf_tier_job) +
           (1 + (uint64_t)o->n_loaders) * sizeof(struct worker) + staging_bytes(o);
}

static bool init_locks(struct lf_disk_tier *t)
{
    if (pthread_mutex_init(&t->lock, NULL) != 0) return false;
    if (pthread_cond_init(&t->lanes[LF_TIER_SAVE].work, NULL) != 0) goto fail;
    if (pthread_cond_init(&t->lanes[LF_TIER_LOAD].work, NULL) == 0) return true;
    pthread_cond_destroy(&t->lanes[LF_TIER_SAVE].work);
fail:
    pthread_mutex_destroy(&t->lock);
    return false;
}

static bool make(struct lf_disk_tier *t)
{
    const struct lf_disk_tier_opts *o = &t->opts;
    lf_list_init(&t->free);
    lf_list_init(&t->back);
    for (size_t i = 0; i < LF_N_ELEMS(t->lanes); i++) lf_list_init(&t->lanes[i].queue);
    t->slot_bytes = lf_disk_slot_bytes(o->block_bytes);
    t->batch_n = batch_n_of(o);
    t->staging = aligned_alloc(LF_DISK_ALIGN_BYTES, staging_bytes(o));
    t->jobs = calloc((size_t)o->n_jobs, sizeof(*t->jobs));
    t->workers = calloc(1 + (size_t)o->n_loaders, sizeof(*t->workers));
    if (!t->staging || !t->jobs || !t->workers) return false;
    memset(t->staging, 0, staging_bytes(o)); /* what lies behind a block in its slot is written too */
    for (int i = 0; i < o->n_jobs; i++) lf_list_push_back(&t->free, &t->jobs[i].node);
    return true;
}

/* They take no signals: those belong to the threads that wait for them. */
static bool start(struct lf_disk_tier *t)
{
    sigset_t all, before;
    uint8_t *staging = t->staging;
    bool ok = true;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < 1 + t->opts.n_loaders && ok; i++) {
        struct worker *w = &t->workers[i];
        *w = (struct worker){.tier = t, .staging = staging};
        staging += (i == 0 ? t->batch_n : 1) * t->slot_bytes;
        ok = pthread_create(&w->thread, NULL, i == 0 ? saver_main : loader_main, w) == 0;
        if (!ok) break;
        t->n_workers++;
        (void)pthread_setname_np(w->thread, i == 0 ? "lf-save" : "lf-load");
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

enum lf_status lf_disk_tier_create(struct lf_disk_tier **out, const struct lf_disk_tier_opts *opts, struct lf_err *err)
{
    LF_ASSERT(opts->n_jobs >= 1 && opts->n_loaders >= 1 && opts->block_bytes >= 1);
    struct lf_disk_tier *t = calloc(1, sizeof(*t));
    if (t) t->opts = *opts;
    if (!t || !init_locks(t)) {
        free(t);
        return lf_fail(err, LF_NO_MEMORY, "no memory or lock for the blocks on their way to disk and back");
    }
    if (!make(t) || !start(t)) {
        lf_disk_tier_destroy(t);
        return lf_fail(err, LF_NO_MEMORY,
                       "no memory or thread for the blocks on their way to disk and back: %llu bytes",
                       (unsigned long long)lf_disk_tier_host_bytes(opts));
    }
    *out = t;
    return LF_OK;
}

void lf_disk_tier_stop(struct lf_disk_tier *t)
{
    lock(t);
    t->stop = true;
    for (size_t i = 0; i < LF_N_ELEMS(t->lanes); i++) {
        give_back_waiting(t, &t->lanes[i], LF_SHUTDOWN);
        pthread_cond_broadcast(&t->lanes[i].work);
    }
    unlock(t);
    for (; t->n_workers > 0; t->n_workers--) LF_ASSERT(pthread_join(t->workers[t->n_workers - 1].thread, NULL) == 0);
}

void lf_disk_tier_destroy(struct lf_disk_tier *t)
{
    if (!t) return;
    lf_disk_tier_stop(t);
    for (size_t i = 0; i < LF_N_ELEMS(t->lanes); i++) pthread_cond_destroy(&t->lanes[i].work);
    pthread_mutex_destroy(&t->lock);
    free(t->workers);
    free(t->jobs);
    free(t->staging);
    free(t);
}

/* ---- the engine ---- */

struct lf_tier_job *lf_disk_tier_job(struct lf_disk_tier *t)
{
    struct lf_list *node = lf_list_first(&t->free);
    if (!node) return NULL;
    lf_list_remove(node);
    return job_of(node);
}

void lf_disk_tier_done(struct lf_disk_tier *t, struct lf_tier_job *job)
{
    lf_list_push_back(&t->free, &job->node);
}

void lf_disk_tier_submit(struct lf_disk_tier *t, struct lf_tier_job *job)
{
    struct lane *l = &t->lanes[job->way];
    t->n_under_way++;
    lock(t);
    bool refused = t->stop || rests(l);
    if (refused) {
        give_back(t, job, t->stop ? LF_SHUTDOWN : LF_IO);
    } else {
        lf_list_push_back(&l->queue, &job->node);
        l->n_waiting++;
        pthread_cond_signal(&l->work);
    }
    unlock(t);
    if (refused) t->opts.wake(t->opts.wake_ctx);
}

struct lf_tier_job *lf_disk_tier_back(struct lf_disk_tier *t)
{
    lock(t);
    struct lf_list *node = lf_list_first(&t->back);
    if (node) lf_list_remove(node);
    unlock(t);
    if (!node) return NULL;
    t->n_under_way--;
    return job_of(node);
}

int lf_disk_tier_n_under_way(const struct lf_disk_tier *t)
{
    return t->n_under_way;
}

bool lf_disk_tier_has(struct lf_disk_tier *t, const struct lf_prefix_key *key)
{
    return !rests(&t->lanes[LF_TIER_LOAD]) && is_listed(t->opts.table, key);
}

bool lf_disk_tier_works(const struct lf_disk_tier *t)
{
    return !rests(&t->lanes[LF_TIER_SAVE]) && !rests(&t->lanes[LF_TIER_LOAD]);
}

static double busy_ns(const struct lane *l)
{
    return l->busy_ns + (l->n_busy > 0 ? (double)(lf_clock_ns() - l->busy_since_ns) : 0);
}

void lf_disk_tier_stats(struct lf_disk_tier *t, struct lf_disk_tier_stats *out)
{
    const struct lane *saves = &t->lanes[LF_TIER_SAVE], *loads = &t->lanes[LF_TIER_LOAD];
    lock(t);
    *out = (struct lf_disk_tier_stats){.n_saved = saves->n_done,
                                       .n_loaded = loads->n_done,
                                       .n_save_failed = saves->n_failed,
                                       .n_load_failed = loads->n_failed,
                                       .saved_bytes = saves->n_done * t->opts.block_bytes,
                                       .loaded_bytes = loads->n_done * t->opts.block_bytes,
                                       .save_ns = busy_ns(saves),
                                       .load_ns = busy_ns(loads),
                                       .n_rests = saves->n_rests + loads->n_rests,
                                       .works = lf_disk_tier_works(t)};
    unlock(t);
    lf_disk_table_stats(t->opts.table, &out->table);
}
