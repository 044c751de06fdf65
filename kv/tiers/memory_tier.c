/* See memory_tier.h. All that is known of the slots is under the lanes' lock; a slot that is being filled is on no list
 * and in no index, and one that is being read is counted. Only the saver lists blocks, so no block is listed twice. */
#include "kv/tiers/memory_tier.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/log.h"
#include "kv/tiers/eviction.h"
#include "kv/tiers/lanes.h"

struct slot {
    struct lf_eviction_item item; /* its node on `free`, or in the order while it is listed and not held */
    struct lf_prefix_key key, prev;
    int32_t ids[LF_KV_BLOCK_TOKENS];
    int n_readers;
    bool pinned; /* while it is listed */
};

enum { PAGE_BYTES = 4096 };
#define PIECE_BYTES (UINT64_C(32) << 20) /* pinned at once; one slot at least */

struct memory_tier;

struct worker {
    struct memory_tier *tier;
    enum lf_tier_way way;
    int lane;
};

struct memory_tier {
    struct lf_lanes lanes;
    struct lf_memory_tier_opts opts;
    uint64_t slot_bytes;
    struct slot *slots; /* [n_slots] */
    struct worker workers[LF_LANES_THREADS_N];
    uint32_t n_pinned; /* the pinning thread's while it lives */
    /* Under the lock of the lanes: */
    struct lf_key_index index; /* of those listed */
    struct lf_list free;
    struct lf_eviction order;
    uint64_t n_writes;
    uint32_t n_usable; /* the first so many slots */
    uint32_t n_listed, n_listed_pinned;
    uint64_t n_evicted;
};

static struct memory_tier *tier_of(struct lf_tier *tier)
{
    return (struct memory_tier *)(void *)tier;
}

uint64_t lf_memory_slot_bytes(uint64_t block_bytes)
{
    return LF_ROUND_UP(block_bytes, (uint64_t)PAGE_BYTES);
}

static uint8_t *bytes_of(const struct memory_tier *t, uint64_t slot)
{
    return (uint8_t *)t->opts.slots + slot * t->slot_bytes;
}

/* ---- slots, all under the lock ---- */

/* The slot that lists a block; NULL: none does. */
static struct slot *find(struct memory_tier *t, const struct lf_prefix_key *key)
{
    int32_t i = lf_key_index_find(&t->index, key);
    return i < 0 ? NULL : &t->slots[i];
}

static bool is_held(const struct slot *slot)
{
    return slot->n_readers > 0 || slot->pinned;
}

static void set_pinned(struct memory_tier *t, struct slot *slot, bool pinned)
{
    if (slot->pinned == pinned) return;
    if (!is_held(slot)) lf_eviction_remove(&t->order, &slot->item);
    slot->pinned = pinned;
    t->n_listed_pinned += pinned ? 1 : -1u;
    if (!is_held(slot)) lf_eviction_add(&t->order, &slot->item, t->n_writes);
}

static void list(struct memory_tier *t, struct slot *slot)
{
    LF_ASSERT(lf_key_index_insert(&t->index, (int32_t)(slot - t->slots)));
    lf_eviction_add(&t->order, &slot->item, ++t->n_writes);
    t->n_listed++;
}

static void evict(struct memory_tier *t, struct slot *slot)
{
    lf_key_index_remove(&t->index, (int32_t)(slot - t->slots));
    lf_eviction_remove(&t->order, &slot->item);
    t->n_listed--;
    t->n_evicted++;
}

/* Who reads a slot keeps it: it is not in the order then. */
static void begin_read(struct memory_tier *t, struct slot *slot)
{
    if (!is_held(slot)) lf_eviction_remove(&t->order, &slot->item);
    slot->n_readers++;
}

static void end_read(struct memory_tier *t, struct slot *slot)
{
    slot->n_readers--;
    if (!is_held(slot)) lf_eviction_add(&t->order, &slot->item, t->n_writes);
}

static void make_usable(struct memory_tier *t, uint32_t n)
{
    for (; t->n_usable < n; t->n_usable++) lf_list_push_back(&t->free, &t->slots[t->n_usable].item.node);
}

/* A slot to fill, which nobody knows until it is listed or free again; NULL: all are held. */
static struct slot *claim(struct memory_tier *t)
{
    struct lf_list *node = lf_list_first(&t->free);
    struct lf_eviction_item *item =
        node ? LF_LIST_ENTRY(node, struct lf_eviction_item, node) : lf_eviction_next(&t->order);
    if (!item) return NULL;
    struct slot *slot = LF_LIST_ENTRY(item, struct slot, item);
    if (node)
        lf_list_remove(node);
    else
        evict(t, slot);
    return slot;
}

static bool holds(const struct slot *slot, const struct lf_tier_job *job)
{
    return memcmp(&slot->prev, &job->prev, sizeof(slot->prev)) == 0 &&
           memcmp(slot->ids, job->ids, sizeof(slot->ids)) == 0;
}

/* ---- the threads: called and return under the lock ---- */

static enum lf_status save(const struct worker *w, const struct lf_tier_job *job, struct lf_err *err)
{
    struct memory_tier *t = w->tier;
    const struct lf_tier_copy *copy = &t->opts.copy;
    struct slot *slot = find(t, &job->key);
    if (slot && job->pinned) set_pinned(t, slot, true);
    if (slot) return LF_OK;
    slot = claim(t);
    if (!slot) return LF_FULL;
    lf_lanes_unlock(&t->lanes);
    slot->key = job->key;
    slot->prev = job->prev;
    slot->item.tenant = job->origin.tenant;
    slot->item.depth = job->origin.depth;
    slot->item.uses = 0;
    memcpy(slot->ids, job->ids, sizeof(slot->ids));
    enum lf_status status = copy->out(copy->ctx, w->lane, bytes_of(t, (uint64_t)(slot - t->slots)), job->block, err);
    lf_lanes_lock(&t->lanes);
    if (status == LF_OK) {
        list(t, slot);
        set_pinned(t, slot, job->pinned);
    } else {
        lf_list_push_back(&t->free, &slot->item.node);
    }
    return status;
}

static enum lf_status load(const struct worker *w, const struct lf_tier_job *job, struct lf_err *err)
{
    struct memory_tier *t = w->tier;
    const struct lf_tier_copy *copy = &t->opts.copy;
    struct slot *slot = find(t, &job->key);
    if (!slot || !holds(slot, job)) return LF_INVALID;
    begin_read(t, slot);
    lf_lanes_unlock(&t->lanes);
    enum lf_status status = copy->in(copy->ctx, w->lane, job->block, bytes_of(t, (uint64_t)(slot - t->slots)), err);
    lf_lanes_lock(&t->lanes);
    end_read(t, slot);
    return status;
}

/* One job, from the queue to the engine. */
static void run_one(const struct worker *w)
{
    struct lf_lanes *lanes = &w->tier->lanes;
    struct lf_lane *l = &lanes->lane[w->way];
    struct lf_err err = {0};
    struct lf_tier_job *job = lf_lanes_take(lanes, w->way);
    lf_lanes_begin(lanes, w->way);
    enum lf_status status = w->way == LF_TIER_SAVE ? save(w, job, &err) : load(w, job, &err);
    lf_lanes_end(lanes, w->way);
    if (status == LF_OK) l->n_done++;
    if (status != LF_OK && status != LF_INVALID) l->n_failed++;
    lf_lanes_give_back(lanes, job, status);
    lf_lanes_unlock(lanes);
    lanes->wake(lanes->wake_ctx);
    lf_lanes_lock(lanes);
}

static void *worker_main(void *arg)
{
    const struct worker *w = arg;
    struct lf_lanes *lanes = &w->tier->lanes;
    struct lf_lane *l = &lanes->lane[w->way];
    lf_lanes_lock(lanes);
    while (!lanes->stop) {
        if (l->n_waiting > 0)
            run_one(w);
        else
            pthread_cond_wait(&l->work, &lanes->lock);
    }
    lf_lanes_unlock(lanes);
    return NULL;
}

/* ---- pinning ---- */

/* Slots of a piece; the last one may have fewer. */
static uint32_t slots_of_piece(const struct memory_tier *t)
{
    return (uint32_t)LF_MAX(PIECE_BYTES / t->slot_bytes, 1u);
}

static enum lf_status pin_piece(struct memory_tier *t, struct lf_err *err)
{
    const struct lf_tier_copy *copy = &t->opts.copy;
    uint32_t n = LF_MIN(slots_of_piece(t), t->opts.n_slots - t->n_pinned);
    LF_TRY(copy->pin(copy->ctx, bytes_of(t, t->n_pinned), n * t->slot_bytes, err));
    t->n_pinned += n;
    return LF_OK;
}

static void *pinner_main(void *arg)
{
    struct memory_tier *t = arg;
    enum lf_status status = LF_OK;
    struct lf_err err;
    lf_lanes_lock(&t->lanes);
    while (!t->lanes.stop && t->n_pinned < t->opts.n_slots && status == LF_OK) {
        lf_lanes_unlock(&t->lanes);
        status = pin_piece(t, &err);
        lf_lanes_lock(&t->lanes);
        make_usable(t, t->n_pinned);
    }
    lf_lanes_unlock(&t->lanes);
    if (status != LF_OK)
        LF_WARN("of %u blocks in memory %u can be used: %s", t->opts.n_slots, t->n_pinned, err.message);
    return NULL;
}

static void unpin(struct memory_tier *t)
{
    for (uint32_t i = 0; i < t->n_pinned; i += slots_of_piece(t)) t->opts.copy.unpin(t->opts.copy.ctx, bytes_of(t, i));
}

/* ---- the engine ---- */

static enum lf_status refuse_none(struct lf_lanes *lanes, enum lf_tier_way way)
{
    (void)lanes, (void)way;
    return LF_OK;
}

static void submit(struct lf_tier *tier, struct lf_tier_job *job)
{
    lf_lanes_submit(&tier_of(tier)->lanes, job, refuse_none);
}

static bool has(struct lf_tier *tier, const struct lf_prefix_key *key)
{
    struct memory_tier *t = tier_of(tier);
    lf_lanes_lock(&t->lanes);
    bool found = find(t, key) != NULL;
    lf_lanes_unlock(&t->lanes);
    return found;
}

static void use(struct lf_tier *tier, const struct lf_prefix_key *key)
{
    struct memory_tier *t = tier_of(tier);
    lf_lanes_lock(&t->lanes);
    struct slot *slot = find(t, key);
    if (slot) { /* as if it were read */
        begin_read(t, slot);
        lf_eviction_count_use(&slot->item);
        end_read(t, slot);
    }
    lf_lanes_unlock(&t->lanes);
}

static void pin_block(struct lf_tier *tier, const struct lf_prefix_key *key, bool pinned)
{
    struct memory_tier *t = tier_of(tier);
    lf_lanes_lock(&t->lanes);
    struct slot *slot = find(t, key);
    if (slot) set_pinned(t, slot, pinned);
    lf_lanes_unlock(&t->lanes);
}

static bool works(const struct lf_tier *tier)
{
    (void)tier;
    return true;
}

static void stats(struct lf_tier *tier, struct lf_tier_stats *out)
{
    struct memory_tier *t = tier_of(tier);
    lf_lanes_lock(&t->lanes);
    lf_lanes_stats(&t->lanes, t->opts.block_bytes, out);
    out->works = true;
    out->n_slots = t->n_usable;
    out->n_listed = t->n_listed;
    out->n_pinned = t->n_listed_pinned;
    out->n_evicted = t->n_evicted;
    lf_lanes_unlock(&t->lanes);
}

void lf_memory_tier_check(struct lf_tier *tier)
{
    struct memory_tier *t = tier_of(tier);
    uint32_t n_free = 0, n_listed = 0, n_pinned = 0;
    lf_lanes_lock(&t->lanes);
    LF_LIST_EACH(it, &t->free) n_free++;
    for (uint32_t i = 0; i < t->n_usable; i++) {
        const struct slot *slot = &t->slots[i];
        LF_ASSERT(slot->n_readers == 0);
        n_listed += lf_key_index_find(&t->index, &slot->key) == (int32_t)i;
        n_pinned += slot->pinned;
    }
    LF_ASSERT(n_listed == t->n_listed && n_pinned == t->n_listed_pinned && n_free + n_listed == t->n_usable);
    LF_ASSERT(n_listed == t->order.n + n_pinned);
    LF_ASSERT(lf_key_index_check(&t->index) == n_listed);
    lf_lanes_unlock(&t->lanes);
}

/* ---- create and destroy ---- */

static void stop(struct lf_tier *tier)
{
    lf_lanes_stop(&tier_of(tier)->lanes);
}

static void destroy(struct lf_tier *tier)
{
    struct memory_tier *t = tier_of(tier);
    lf_lanes_stop(&t->lanes);
    lf_lanes_deinit(&t->lanes);
    unpin(t);
    lf_key_index_deinit(&t->index);
    free(t->slots);
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

uint64_t lf_memory_tier_host_bytes(const struct lf_memory_tier_opts *o)
{
    return sizeof(struct memory_tier) + (uint64_t)o->n_jobs * sizeof(struct lf_tier_job) +
           (uint64_t)o->n_slots * sizeof(struct slot) + lf_key_index_bytes(o->n_slots);
}

static bool make(struct memory_tier *t)
{
    uint32_t n = t->opts.n_slots;
    lf_list_init(&t->free);
    lf_eviction_init(&t->order, n);
    t->slot_bytes = lf_memory_slot_bytes(t->opts.block_bytes);
    t->slots = calloc(n, sizeof(*t->slots));
    if (!t->slots) return false;
    if (!t->opts.copy.pin) make_usable(t, n);
    return lf_key_index_init(&t->index, n, &t->slots[0].key, sizeof(*t->slots)) == LF_OK;
}

static bool start(struct memory_tier *t)
{
    for (int i = 0; i < 1 + t->opts.n_loaders; i++) {
        struct worker *w = &t->workers[i];
        *w = (struct worker){t, i == 0 ? LF_TIER_SAVE : LF_TIER_LOAD, t->opts.copy.first_lane + i};
        if (!lf_lanes_start(&t->lanes, worker_main, w, i == 0 ? "lf-keep" : "lf-fetch")) return false;
    }
    return !t->opts.copy.pin || lf_lanes_start(&t->lanes, pinner_main, t, "lf-pin");
}

enum lf_status lf_memory_tier_create(struct lf_tier **out, const struct lf_memory_tier_opts *opts, struct lf_err *err)
{
    LF_ASSERT(opts->n_slots >= 1 && opts->n_slots <= INT32_MAX && opts->block_bytes >= 1);
    LF_ASSERT(opts->n_loaders >= 1 && opts->n_loaders < LF_LANES_THREADS_N - 1);
    struct memory_tier *t = calloc(1, sizeof(*t));
    if (!t || !lf_lanes_init(&t->lanes, opts->n_jobs)) {
        free(t);
        return lf_fail(err, LF_NO_MEMORY, "no memory or lock for the blocks that are kept in memory");
    }
    t->opts = *opts;
    t->lanes.tier.ops = &ops;
    t->lanes.wake = opts->wake;
    t->lanes.wake_ctx = opts->wake_ctx;
    if (!make(t) || !start(t)) {
        destroy(&t->lanes.tier);
        return lf_fail(err, LF_NO_MEMORY, "no memory or thread for the table of blocks in memory: %llu bytes",
                       (unsigned long long)lf_memory_tier_host_bytes(opts));
    }
    *out = &t->lanes.tier;
    return LF_OK;
}
