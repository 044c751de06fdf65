/* See block_pool.h. Two intrusive lists and one array: every operation but check is O(1).
 *
 * The free list is a stack, so the block that was let go last, and is likeliest to be in the caches, is given out
 * first. The LRU list grows at its end. Who lets go of a whole table does so from its last entry to its first: then a
 * block is never older on the list than the blocks behind it in its document, and documents lose their ends first. */
#include "kv/block_pool.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"

enum lf_status lf_block_pool_init(struct lf_block_pool *pool, int n_blocks, struct lf_err *err)
{
    if (n_blocks < 1) return lf_fail(err, LF_INVALID, "a KV cache needs at least 1 block, got %d", n_blocks);
    struct lf_block *blocks = calloc((size_t)n_blocks, sizeof(*blocks));
    if (!blocks) return lf_fail(err, LF_NO_MEMORY, "no memory for the records of %d KV blocks", n_blocks);

    memset(pool, 0, sizeof(*pool));
    pool->blocks = blocks;
    pool->n_blocks = n_blocks;
    pool->n_free = n_blocks;
    lf_list_init(&pool->free);
    lf_list_init(&pool->lru);
    for (int i = 0; i < n_blocks; i++) lf_list_push_back(&pool->free, &blocks[i].node);
    return LF_OK;
}

void lf_block_pool_deinit(struct lf_block_pool *pool)
{
    free(pool->blocks);
    memset(pool, 0, sizeof(*pool));
}

static struct lf_block *block_at(const struct lf_block_pool *pool, int32_t block)
{
    LF_ASSERT(block >= 0 && block < pool->n_blocks);
    return &pool->blocks[block];
}

static struct lf_block *block_of(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_block, node);
}

int lf_block_pool_n_available(const struct lf_block_pool *pool)
{
    return pool->n_free + pool->n_cached;
}

int lf_block_pool_n_promisable(const struct lf_block_pool *pool)
{
    return pool->n_free + pool->n_cached + pool->n_loose;
}

static bool is_loose(const struct lf_block *b)
{
    return b->n_refs > 0 && b->n_loose == b->n_refs;
}

bool lf_block_pool_is_firm(const struct lf_block_pool *pool, int32_t block)
{
    const struct lf_block *b = block_at(pool, block);
    return b->n_refs > b->n_loose;
}

bool lf_block_pool_take(struct lf_block_pool *pool, int32_t *block)
{
    struct lf_list *node = lf_list_first(&pool->free);
    if (node) {
        lf_list_remove(node);
        pool->n_free--;
    } else {
        node = lf_list_first(&pool->lru);
        if (!node) return false;
        lf_list_remove(node);
        pool->n_cached--;
        pool->n_evicted++;
        block_of(node)->cached = false;
        if (pool->on_evict) pool->on_evict(pool->on_evict_ctx, (int32_t)(block_of(node) - pool->blocks));
    }
    struct lf_block *b = block_of(node);
    LF_ASSERT(b->n_refs == 0 && b->n_loose == 0 && !b->cached);
    b->n_refs = 1;
    *block = (int32_t)(b - pool->blocks);
    return true;
}

static void get(struct lf_block_pool *pool, int32_t block, int n_loose)
{
    struct lf_block *b = block_at(pool, block);
    LF_ASSERT(b->n_refs > 0 || b->cached);
    LF_ASSERT(b->n_refs < INT32_MAX);
    if (b->n_refs == 0) {
        lf_list_remove(&b->node);
        pool->n_cached--;
    }
    pool->n_loose -= is_loose(b);
    b->n_refs++;
    b->n_loose += n_loose;
    pool->n_loose += is_loose(b);
}

static void put(struct lf_block_pool *pool, int32_t block, int n_loose)
{
    struct lf_block *b = block_at(pool, block);
    LF_ASSERT(n_loose ? b->n_loose > 0 : b->n_refs > b->n_loose);
    pool->n_loose -= is_loose(b);
    b->n_refs--;
    b->n_loose -= n_loose;
    pool->n_loose += is_loose(b);
    if (b->n_refs > 0) return;
    if (b->cached) {
        lf_list_push_back(&pool->lru, &b->node);
        pool->n_cached++;
    } else {
        lf_list_push_front(&pool->free, &b->node);
        pool->n_free++;
    }
}

void lf_block_pool_get(struct lf_block_pool *pool, int32_t block)
{
    get(pool, block, 0);
}

void lf_block_pool_put(struct lf_block_pool *pool, int32_t block)
{
    put(pool, block, 0);
}

bool lf_block_pool_take_loose(struct lf_block_pool *pool, int32_t *block)
{
    if (!lf_block_pool_take(pool, block)) return false;
    pool->blocks[*block].n_loose = 1;
    pool->n_loose++;
    return true;
}

void lf_block_pool_get_loose(struct lf_block_pool *pool, int32_t block)
{
    get(pool, block, 1);
}

void lf_block_pool_put_loose(struct lf_block_pool *pool, int32_t block)
{
    put(pool, block, 1);
}

void lf_block_pool_pin(struct lf_block_pool *pool, int32_t block)
{
    lf_block_pool_get(pool, block);
    if (pool->blocks[block].n_pins++ == 0) pool->n_pinned++;
}

void lf_block_pool_unpin(struct lf_block_pool *pool, int32_t block)
{
    struct lf_block *b = block_at(pool, block);
    LF_ASSERT(b->n_pins > 0);
    if (--b->n_pins == 0) pool->n_pinned--;
    lf_block_pool_put(pool, block);
}

void lf_block_pool_set_cached(struct lf_block_pool *pool, int32_t block, bool cached)
{
    struct lf_block *b = block_at(pool, block);
    LF_ASSERT(b->n_refs > 0 || b->cached); /* a free block has no content to keep */
    if (b->cached && !cached && b->n_refs == 0) {
        lf_list_remove(&b->node);
        pool->n_cached--;
        lf_list_push_front(&pool->free, &b->node);
        pool->n_free++;
    }
    b->cached = cached;
}

void lf_block_pool_check(const struct lf_block_pool *pool)
{
    int n_free = 0, n_cached = 0, n_used = 0, n_pinned = 0, n_loose = 0;
    LF_LIST_EACH(it, &pool->free)
    {
        const struct lf_block *b = block_of(it);
        LF_ASSERT(b->n_refs == 0 && !b->cached && it->next->prev == it);
        LF_ASSERT(++n_free <= pool->n_blocks);
    }
    LF_LIST_EACH(it, &pool->lru)
    {
        const struct lf_block *b = block_of(it);
        LF_ASSERT(b->n_refs == 0 && b->cached && it->next->prev == it);
        LF_ASSERT(++n_cached <= pool->n_blocks);
    }
    for (int i = 0; i < pool->n_blocks; i++) {
        LF_ASSERT(pool->blocks[i].n_refs >= 0);
        LF_ASSERT(pool->blocks[i].n_pins >= 0 && pool->blocks[i].n_pins <= pool->blocks[i].n_refs);
        if (pool->blocks[i].n_refs > 0) n_used++;
        if (pool->blocks[i].n_pins > 0) n_pinned++;
        LF_ASSERT(pool->blocks[i].n_loose >= 0 &&
                  pool->blocks[i].n_loose + pool->blocks[i].n_pins <= pool->blocks[i].n_refs);
        n_loose += is_loose(&pool->blocks[i]);
    }
    LF_ASSERT(n_loose == pool->n_loose);
    LF_ASSERT(n_free == pool->n_free && n_cached == pool->n_cached && n_pinned == pool->n_pinned);
    LF_ASSERT(n_free + n_used + n_cached == pool->n_blocks);
}
