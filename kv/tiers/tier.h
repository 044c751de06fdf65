/* A tier: where blocks are kept below the cache. To the engine all tiers are this table of functions; what a job means
 * and when it comes back is the same in each, how the bytes travel is the tier's own affair.
 *
 *     engine thread                    the tier's threads
 *       job, submit ──► to save ──────► keep a copy of the block
 *                  └──► to load ──────► bring it back into the block
 *       back, done ◄──── wake
 *
 * A job says all there is to know of one block, so what it was made for may end while it is on its way. Whoever
 * submits it holds a reference on its block until it is back: a block that is saved keeps its content, and one that is
 * loaded has no other writer. What is saved is only ever a block that is full and entered in the prefix cache. Jobs
 * come back in any order.
 *
 * stats, has: any thread. All else: the engine thread, which never waits in here, but for stop. Nothing is allocated
 * after a tier's create. */
#ifndef LF_KV_TIERS_TIER_H
#define LF_KV_TIERS_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/list.h"
#include "core/status.h"
#include "kv/prefix_cache.h"

enum lf_tier_way { LF_TIER_SAVE, LF_TIER_LOAD };

struct lf_tier_job {
    struct lf_list node; /* the tier's */
    enum lf_tier_way way;
    struct lf_prefix_key key, prev;
    int32_t ids[LF_KV_BLOCK_TOKENS]; /* lf_prefix_tier_ids */
    struct lf_prefix_origin
        origin; /* of a block to save; it is pinned from its first moment there, if pinned says so */
    bool pinned;
    int32_t block;  /* of the cache: what is saved, or where it is loaded to */
    uint64_t owner; /* the submitter's, as is idx */
    int32_t idx;
    /* When it is back. LF_OK: saved and listed (or it was already), loaded and whole. LF_FULL: not saved, there is no
     * place that may be used for it. LF_INVALID: not loaded, it is not there. LF_CORRUPT: not loaded, what is there is
     * broken and now dropped. LF_SHUTDOWN: the tier has stopped. LF_IO and others: the tier failed, or rests after a
     * failure. A block whose load failed may hold anything. */
    enum lf_status status;
};

/* How a tier reaches the blocks of a cache. Any of the tier's threads, each on a lane of its own: first_lane and those
 * behind it, one for each thread. */
struct lf_tier_copy {
    /* A whole block, to or from memory of the host; done when it returns. LF_DEVICE. */
    enum lf_status (*out)(void *ctx, int lane, void *dst, int32_t block, struct lf_err *err);
    enum lf_status (*in)(void *ctx, int lane, int32_t block, const void *src, struct lf_err *err);
    /* Makes memory of the host one that is copied at the bus's full rate, which takes long (0.4 s a GiB on one
     * machine); whole pages. Both NULL: it is already. */
    enum lf_status (*pin)(void *ctx, void *ptr, uint64_t bytes, struct lf_err *err);
    void (*unpin)(void *ctx, void *ptr);
    void *ctx;
    int first_lane;
};

struct lf_tier_stats {
    uint64_t n_saved, n_loaded;            /* blocks that arrived */
    uint64_t n_save_failed, n_load_failed; /* of those tried, LF_FULL and LF_CORRUPT included, "not there" not */
    uint64_t saved_bytes, loaded_bytes;
    double save_ns, load_ns; /* the time in which a thread worked on at least one: bytes over it is the rate */
    uint64_t n_rests;        /* after failures */
    bool works;
    uint32_t n_slots, n_listed; /* blocks that there is room for, and that are there */
    uint32_t n_pinned;          /* of these */
    uint64_t n_evicted;         /* blocks that made room for others */
    uint64_t n_broken;          /* blocks that were not what was saved */
};

struct lf_tier;

struct lf_tier_ops {
    struct lf_tier_job *(*job)(struct lf_tier *tier);
    void (*submit)(struct lf_tier *tier, struct lf_tier_job *job);
    struct lf_tier_job *(*back)(struct lf_tier *tier);
    void (*done)(struct lf_tier *tier, struct lf_tier_job *job);
    int (*n_under_way)(const struct lf_tier *tier);
    bool (*has)(struct lf_tier *tier, const struct lf_prefix_key *key);
    void (*use)(struct lf_tier *tier, const struct lf_prefix_key *key);
    void (*pin)(struct lf_tier *tier, const struct lf_prefix_key *key, bool pinned);
    bool (*works)(const struct lf_tier *tier);
    void (*stats)(struct lf_tier *tier, struct lf_tier_stats *out);
    void (*stop)(struct lf_tier *tier);
    void (*destroy)(struct lf_tier *tier);
};

/* The first member of each tier. */
struct lf_tier {
    const struct lf_tier_ops *ops;
    bool outlives; /* what it keeps is there when the process has ended */
};

/* A job to fill and submit, NULL: all are in use. */
static inline struct lf_tier_job *lf_tier_job(struct lf_tier *tier)
{
    return tier->ops->job(tier);
}
static inline void lf_tier_submit(struct lf_tier *tier, struct lf_tier_job *job)
{
    tier->ops->submit(tier, job);
}
/* The next job that is back, NULL: none is. The caller's until it says that it is done with it. */
static inline struct lf_tier_job *lf_tier_back(struct lf_tier *tier)
{
    return tier->ops->back(tier);
}
static inline void lf_tier_done(struct lf_tier *tier, struct lf_tier_job *job)
{
    tier->ops->done(tier, job);
}
/* Submitted, and not taken back. */
static inline int lf_tier_n_under_way(const struct lf_tier *tier)
{
    return tier->ops->n_under_way(tier);
}
/* Whether a block is listed. What was there may be gone when it is loaded. False while loads rest. */
static inline bool lf_tier_has(struct lf_tier *tier, const struct lf_prefix_key *key)
{
    return tier->ops->has(tier, key);
}
/* A prompt has asked for a block, wherever it has found it: it is worth more from now on, if it is listed. */
static inline void lf_tier_use(struct lf_tier *tier, const struct lf_prefix_key *key)
{
    tier->ops->use(tier, key);
}
/* A block that is pinned makes no room for others. Nothing, where it is not listed; and one that is dropped because it
 * is broken is not pinned any more. */
static inline void lf_tier_pin(struct lf_tier *tier, const struct lf_prefix_key *key, bool pinned)
{
    tier->ops->pin(tier, key, pinned);
}
/* False while saves or loads rest. Then saves are not worth their submission; has says whether loads are. */
static inline bool lf_tier_works(const struct lf_tier *tier)
{
    return tier->ops->works(tier);
}
static inline void lf_tier_stats(struct lf_tier *tier, struct lf_tier_stats *out)
{
    tier->ops->stats(tier, out);
}
/* Finishes what is being saved or loaded. What still waits comes back with LF_SHUTDOWN, and so does what is submitted
 * later. When it returns all is back, and no thread is left. */
static inline void lf_tier_stop(struct lf_tier *tier)
{
    tier->ops->stop(tier);
}
/* Stops, and frees; what has not been taken back never comes back. Accepts NULL. */
static inline void lf_tier_destroy(struct lf_tier *tier)
{
    if (tier) tier->ops->destroy(tier);
}

#endif
