/* Moves blocks between the cache and the disk, on threads of its own.
 *
 *     engine thread                         tier threads                                    disk
 *       job, submit ──► to save ──► the saver: a batch of blocks, copied to staging ──► lf_disk_table_put
 *                  └──► to load ──► a loader: read to staging, checked, copied to the block ◄── lf_disk_table_read
 *       back ◄───────────────────── wake
 *
 * A job says all there is to know of one block, so what it was made for may end while it is on its way. Whoever
 * submits it holds a reference on its block until it is back: a block that is saved keeps its content, and one that is
 * loaded has no other writer. What is saved is only ever a block that is full and entered in the prefix cache.
 *
 * Loads go before saves: somebody waits for them. They come back in any order. Saves are put off while loads are on
 * their way, but not for ever (disk_tier.c says how long): until it is saved a block cannot be evicted.
 *
 * A disk that fails is left alone for a while: after a read that ends in anything but LF_OK, LF_CORRUPT or "not there"
 * loads rest, after a write that fails saves do, because a disk that is full, or can only be read, still holds what it
 * holds. A rest lasts 1 s, then twice as long each time until something succeeds, 64 s at most, and is said in the log
 * once. What waits when it begins comes back at once, and so does what is submitted meanwhile. While loads rest nothing
 * is there: requests compute what they would have found.
 *
 * stats: any thread. All else: the engine thread. Nothing is allocated after create. */
#ifndef LF_KV_TIERS_DISK_TIER_H
#define LF_KV_TIERS_DISK_TIER_H

#include "core/limits.h"
#include "core/list.h"
#include "kv/tiers/disk_table.h"

struct lf_disk_tier;

enum lf_tier_way { LF_TIER_SAVE, LF_TIER_LOAD };

struct lf_tier_job {
    struct lf_list node; /* the tier's */
    enum lf_tier_way way;
    struct lf_prefix_key key, prev;
    int32_t ids[LF_KV_BLOCK_TOKENS];
    int32_t block;  /* of the cache: what is saved, or where it is loaded to */
    uint64_t owner; /* the submitter's, as is idx */
    int32_t idx;
    /* When it is back. LF_OK: saved and listed (or it was already), loaded and whole. LF_FULL: not saved, every slot is
     * held or the disk is full. LF_INVALID: not loaded, it is not there. LF_CORRUPT: not loaded, what is there is
     * broken and now dropped. LF_IO and others: the disk failed; LF_IO also while it rests. A block whose load failed
     * may hold anything. */
    enum lf_status status;
};

struct lf_disk_tier_opts {
    struct lf_disk_table *table; /* borrowed */
    uint64_t block_bytes;        /* the table's */
    /* Copies a whole block from or to memory of the host. On any of the tier's threads. */
    void (*copy_out)(void *ctx, void *dst, int32_t block);
    void (*copy_in)(void *ctx, int32_t block, const void *src);
    void *copy_ctx;
    /* Something is back. On any of the tier's threads, and within a submit that is refused; with no lock held; must
     * return at once. */
    void (*wake)(void *ctx);
    void *wake_ctx;
    int n_jobs;           /* at once, >= 1 */
    int n_loaders;        /* threads, >= 1 */
    uint64_t batch_bytes; /* staging for a batch of saves; at least one block is taken, at most LF_DISK_BATCH_N */
};

LF_MUST_CHECK enum lf_status lf_disk_tier_create(struct lf_disk_tier **out, const struct lf_disk_tier_opts *opts,
                                                 struct lf_err *err);
/* Stops, and frees; what has not been taken back never comes back. Accepts NULL. */
void lf_disk_tier_destroy(struct lf_disk_tier *tier);
/* Finishes what is being read or written, which takes as long as the disk does. What still waits comes back with
 * LF_SHUTDOWN, and so does what is submitted later. When it returns all is back, and no thread is left. */
void lf_disk_tier_stop(struct lf_disk_tier *tier);
/* Bytes that create allocates, but for stacks of threads. */
uint64_t lf_disk_tier_host_bytes(const struct lf_disk_tier_opts *opts);

/* A job to fill and submit, NULL: all are in use. */
struct lf_tier_job *lf_disk_tier_job(struct lf_disk_tier *tier);
void lf_disk_tier_submit(struct lf_disk_tier *tier, struct lf_tier_job *job);
/* The next job that is back, NULL: none is. The caller's until it says that it is done with it. */
struct lf_tier_job *lf_disk_tier_back(struct lf_disk_tier *tier);
void lf_disk_tier_done(struct lf_disk_tier *tier, struct lf_tier_job *job);
/* Submitted, and not taken back. */
int lf_disk_tier_n_under_way(const struct lf_disk_tier *tier);
/* Whether a block is listed, and counts as used now. What was there may be gone when it is loaded. False while loads
 * rest. */
bool lf_disk_tier_has(struct lf_disk_tier *tier, const struct lf_prefix_key *key);
/* False while saves or loads rest. Then saves are not worth their submission; has says whether loads are. */
bool lf_disk_tier_works(const struct lf_disk_tier *tier);

struct lf_disk_tier_stats {
    uint64_t n_saved, n_loaded;            /* blocks that arrived */
    uint64_t n_save_failed, n_load_failed; /* of those tried, LF_FULL and LF_CORRUPT included, "not there" not */
    uint64_t saved_bytes, loaded_bytes;
    double save_ns, load_ns; /* the time in which a thread worked on at least one: bytes over it is the rate */
    uint64_t n_rests;        /* of saves and of loads */
    bool works;
    struct lf_disk_table_stats table;
};
void lf_disk_tier_stats(struct lf_disk_tier *tier, struct lf_disk_tier_stats *out);

#endif
