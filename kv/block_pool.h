/* The pool of KV blocks: who owns which of the n_blocks. Host bookkeeping only; knows no bytes, no device.
 *
 * Each block is in one of three states:
 *     free    no reference, content worthless
 *     used    one or more references (a request's block table counts one for each entry)
 *     cached  no reference, content kept for the prefix cache, in order of last use; given out again when no free
 *             block is left, least recently used first
 * A used block may be pinned: one of its references stays until somebody lets go of the pin.
 *
 * A reference is firm or loose. Loose are those of tables that slide (windows.h): they come and go in the middle of a
 * sequence, within a number of blocks that was reserved for it. A used block that has loose references only is loose.
 * So what can be promised to others is n_blocks less the firm blocks and what is reserved, whoever shares what:
 * lf_block_pool_n_promisable. A free, cached or loose block becomes firm by its first firm reference.
 *
 * Invariant, checked by lf_block_pool_check: free + used + cached = n_blocks, and what is pinned is used.
 * All calls from the engine thread. No allocation after init. */
#ifndef LF_KV_BLOCK_POOL_H
#define LF_KV_BLOCK_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "core/status.h"

struct lf_block {
    struct lf_list node; /* on the free list or the LRU list */
    int32_t n_refs;
    int32_t n_pins;  /* of these references */
    int32_t n_loose; /* of these too */
    bool cached;     /* the prefix cache knows it: when the last reference goes it joins the LRU list */
};

struct lf_block_pool {
    struct lf_block *blocks; /* [n_blocks], owned */
    struct lf_list free;
    struct lf_list lru; /* cached and unreferenced, oldest first */
    int n_blocks, n_free, n_cached;
    int n_pinned;       /* blocks with pins, of those used */
    int n_loose;        /* blocks with loose references alone, of those used */
    uint64_t n_evicted; /* times that a cached block was taken for other content */
    /* Called when a cached block is taken for other content, so that the prefix cache forgets it first. */
    void (*on_evict)(void *ctx, int32_t block);
    void *on_evict_ctx;
};

LF_MUST_CHECK enum lf_status lf_block_pool_init(struct lf_block_pool *pool, int n_blocks, struct lf_err *err);
void lf_block_pool_deinit(struct lf_block_pool *pool);
/* Blocks that can be had now: free + cached. */
int lf_block_pool_n_available(const struct lf_block_pool *pool);
/* Takes one block with one reference; false when none is available (then nothing changed). */
LF_MUST_CHECK bool lf_block_pool_take(struct lf_block_pool *pool, int32_t *block);
void lf_block_pool_get(struct lf_block_pool *pool, int32_t block); /* one more reference, also on a cached block */
void lf_block_pool_put(struct lf_block_pool *pool, int32_t block); /* one less */
/* The same with a loose reference. */
LF_MUST_CHECK bool lf_block_pool_take_loose(struct lf_block_pool *pool, int32_t *block);
void lf_block_pool_get_loose(struct lf_block_pool *pool, int32_t block);
void lf_block_pool_put_loose(struct lf_block_pool *pool, int32_t block);
/* Blocks that are not firm: free, cached or loose. */
int lf_block_pool_n_promisable(const struct lf_block_pool *pool);
bool lf_block_pool_is_firm(const struct lf_block_pool *pool, int32_t block);
/* A firm reference that is a pin. */
void lf_block_pool_pin(struct lf_block_pool *pool, int32_t block);
void lf_block_pool_unpin(struct lf_block_pool *pool, int32_t block);
void lf_block_pool_set_cached(struct lf_block_pool *pool, int32_t block, bool cached);
/* Walks everything; LF_ASSERTs the invariant. For the simulator and debug builds. */
void lf_block_pool_check(const struct lf_block_pool *pool);

#endif
