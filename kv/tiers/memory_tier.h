/* The tier in memory of the host: below a cache in a GPU's memory, which is smaller. tier.h says what a tier is.
 *
 *     free ── claimed by a save ──► being filled ──► listed ── claimed for another block: eviction.h says which,
 *      ▲                                 │                     unless a load reads it
 *      └──────────── failed ─────────────┘
 *
 * Slots are blocks as they lie, one behind the other. They have no checksum: what the memory of a server does not keep
 * is not safe in its cache either. A hit compares the key, the key before and the token ids, as the prefix cache does,
 * so a collision is a miss. One thread saves, and some load: on a GPU the two ways are two copy engines, and with a
 * second loader there is always a copy waiting for the engine that is done with one.
 *
 * Where memory is to be pinned, which takes longer than a start may, one more thread does it from the first slot on, in
 * pieces that let others at the driver in between: a slot is used from when it is pinned. If the system refuses, what
 * is pinned by then is all there is, and the log says so. */
#ifndef LF_KV_TIERS_MEMORY_TIER_H
#define LF_KV_TIERS_MEMORY_TIER_H

#include "kv/tiers/tier.h"

struct lf_memory_tier_opts {
    void *slots; /* [n_slots] of lf_memory_slot_bytes, whole pages; borrowed */
    uint32_t n_slots;
    uint64_t block_bytes;
    struct lf_tier_copy copy;
    void (*wake)(void *ctx); /* something is back: lanes.h */
    void *wake_ctx;
    int n_jobs;    /* at once, >= 1 */
    int n_loaders; /* threads, 1 to LF_LANES_THREADS_N - 2 */
};

/* Of a slot: whole pages, so that a piece of several can be pinned. */
uint64_t lf_memory_slot_bytes(uint64_t block_bytes);
/* LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_memory_tier_create(struct lf_tier **out, const struct lf_memory_tier_opts *opts,
                                                   struct lf_err *err);
/* Bytes that create allocates, but for stacks of threads. */
uint64_t lf_memory_tier_host_bytes(const struct lf_memory_tier_opts *opts);
/* Walks everything; LF_ASSERTs that slots, lists and index agree. Where nothing is under way. */
void lf_memory_tier_check(struct lf_tier *tier);

#endif
