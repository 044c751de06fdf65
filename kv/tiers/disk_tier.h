/* The tier on disk: moves blocks between the cache and a table, on threads of its own. tier.h says what a tier is.
 *
 *     engine thread                         tier threads                                    disk
 *       job, submit ──► to save ──► the saver: a batch of blocks, copied to staging ──► lf_disk_table_put
 *                  └──► to load ──► loaders: read to staging, checked, copied to the blocks ◄── lf_disk_table_read_run
 *       back ◄───────────────────── wake
 *
 * Loads go before saves: somebody waits for them. They come back in any order. Saves are put off while loads are on
 * their way, but not for ever (disk_tier.c says how long): until it is saved a block cannot be evicted.
 *
 * A disk that fails is left alone for a while: after a read that ends in anything but LF_OK, LF_CORRUPT or "not there"
 * loads rest, after a write that fails saves do, because a disk that is full, or can only be read, still holds what it
 * holds. A rest lasts 1 s, then twice as long each time until something succeeds, 64 s at most, and is said in the log
 * once. What waits when it begins comes back at once with LF_IO, and so does what is submitted meanwhile. While loads
 * rest nothing is there: requests compute what they would have found. stop takes as long as the disk does. */
#ifndef LF_KV_TIERS_DISK_TIER_H
#define LF_KV_TIERS_DISK_TIER_H

#include "kv/tiers/disk_table.h"
#include "kv/tiers/tier.h"

struct lf_disk_tier_opts {
    struct lf_disk_table *table; /* borrowed */
    uint64_t block_bytes;        /* the table's */
    struct lf_tier_copy copy;
    /* Something is back: lanes.h. */
    void (*wake)(void *ctx);
    void *wake_ctx;
    int n_jobs;           /* at once, >= 1 */
    int n_loaders;        /* threads, 1 to LF_LANES_THREADS_N - 1 */
    uint64_t batch_bytes; /* staging for a batch of saves; at least one block is taken, at most LF_DISK_BATCH_N */
};

LF_MUST_CHECK enum lf_status lf_disk_tier_create(struct lf_tier **out, const struct lf_disk_tier_opts *opts,
                                                 struct lf_err *err);
/* Bytes that create allocates, but for stacks of threads. */
uint64_t lf_disk_tier_host_bytes(const struct lf_disk_tier_opts *opts);

#endif
