/* See prefix_cache.h. One record a block beside the pool's own, and an open-addressing table of block numbers.
 *
 * Record i belongs to block i of the pool and is filled while the block is entered: its key, the key before it and its
 * 64 ids. A hit compares all three. Equal predecessors all the way to the root mean equal documents, so the hash only
 * finds the record; it proves nothing, and a collision is a miss.
 *
 * Invariant: record i is filled  ⇔  pool->blocks[i].cached  ⇔  exactly one slot of the table names i.
 *
 * An evicted block leaves the blocks behind it in its document without a way to be reached; they stay on the pool's LRU
 * list and age out. If their predecessor is computed again, they are found again.
 *
 * Linear probing, at most half full, deletion by shifting back: no tombstones, so a year of evictions leaves the table
 * as quick as the first day. */
#include "kv/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/limits.h"

struct record {
    struct lf_prefix_key key, prev;
    int32_t ids[LF_KV_BLOCK_TOKENS];
};

struct lf_prefix_cache {
    struct lf_block_pool *pool; /* borrowed */
    struct record *records;     /* [pool->n_blocks] */
    int32_t *slots;             /* [n_slots] block or -1 */
    uint64_t n_slots;           /* a power of two, at least 2 × n_blocks */
    uint8_t identity[LF_SHA256_BYTES];
};

static uint64_t slots_for(int n_blocks)
{
    uint64_t n = 4;
    while (n < 2 * (uint64_t)n_blocks) n *= 2;
    return n;
}

uint64_t lf_prefix_cache_host_bytes(int n_blocks)
{
    return (uint64_t)n_blocks * sizeof(struct record) + slots_for(n_blocks) * sizeof(int32_t) +
           sizeof(struct lf_prefix_cache);
}

static bool key_equal(const struct lf_prefix_key *a, const struct lf_prefix_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* The key is uniform already: its first bytes are the hash. */
static uint64_t home_slot(const struct lf_prefix_cache *cache, const struct lf_prefix_key *key)
{
    uint64_t h;
    memcpy(&h, key->bytes, sizeof(h));
    return h & (cache->n_slots - 1);
}

/* The slot that names the record of key, or the empty one where it would go. */
static uint64_t find_slot(const struct lf_prefix_cache *cache, const struct lf_prefix_key *key)
{
    uint64_t i = home_slot(cache, key);
    while (cache->slots[i] >= 0 && !key_equal(&cache->records[cache->slots[i]].key, key))
        i = (i + 1) & (cache->n_slots - 1);
    return i;
}

/* Empties slot i and moves later members of its cluster back so that none is cut off from its home. */
static void erase_slot(struct lf_prefix_cache *cache, uint64_t i)
{
    uint64_t mask = cache->n_slots - 1;
    for (uint64_t j = (i + 1) & mask; cache->slots[j] >= 0; j = (j + 1) & mask) {
        uint64_t home = home_slot(cache, &cache->records[cache->slots[j]].key);
        if (((j - home) & mask) < ((j - i) & mask)) continue; /* its home lies behind the hole */
        cache->slots[i] = cache->slots[j];
        i = j;
    }
    cache->slots[i] = -1;
}

static void on_evict(void *ctx, int32_t block)
{
    struct lf_prefix_cache *cache = ctx;
    uint64_t i = find_slot(cache, &cache->records[block].key);
    LF_ASSERT(cache->slots[i] == block);
    erase_slot(cache, i);
}

enum lf_status lf_prefix_cache_create(struct lf_prefix_cache **out, struct lf_block_pool *pool, const void *identity,
                                      size_t identity_bytes, struct lf_err *err)
{
    struct lf_prefix_cache *cache = calloc(1, sizeof(*cache));
    if (!cache) goto fail;
    cache->pool = pool;
    cache->n_slots = slots_for(pool->n_blocks);
    cache->records = calloc((size_t)pool->n_blocks, sizeof(*cache->records));
    cache->slots = calloc(cache->n_slots, sizeof(*cache->slots));
    if (!cache->records || !cache->slots) goto fail;
    memset(cache->slots, 0xff, cache->n_slots * sizeof(*cache->slots));
    lf_sha256(identity, identity_bytes, cache->identity);
    pool->on_evict = on_evict;
    pool->on_evict_ctx = cache;
    *out = cache;
    return LF_OK;
fail:
    lf_prefix_cache_destroy(cache);
    return lf_fail(err, LF_NO_MEMORY, "no memory for a prefix cache over %d blocks", pool->n_blocks);
}

void lf_prefix_cache_destroy(struct lf_prefix_cache *cache)
{
    if (!cache) return;
    if (cache->pool->on_evict_ctx == cache) {
        cache->pool->on_evict = NULL;
        cache->pool->on_evict_ctx = NULL;
    }
    free(cache->slots);
    free(cache->records);
    free(cache);
}

void lf_prefix_cache_root(const struct lf_prefix_cache *cache, const void *salt, size_t salt_bytes,
                          struct lf_prefix_key *out)
{
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, cache->identity, sizeof(cache->identity));
    if (salt_bytes > 0) lf_sha256_update(&sha, salt, salt_bytes);
    lf_sha256_final(&sha, out->bytes);
}

void lf_prefix_key_next(const struct lf_prefix_key *prev, const int32_t *ids, struct lf_prefix_key *out)
{
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, prev->bytes, sizeof(prev->bytes));
    lf_sha256_update(&sha, ids, LF_KV_BLOCK_TOKENS * sizeof(*ids));
    lf_sha256_final(&sha, out->bytes);
}

static bool record_holds(const struct record *r, const struct lf_prefix_key *prev, const int32_t *ids)
{
    return key_equal(&r->prev, prev) && memcmp(r->ids, ids, sizeof(r->ids)) == 0;
}

int32_t lf_prefix_cache_find(const struct lf_prefix_cache *cache, const struct lf_prefix_key *prev,
                             const struct lf_prefix_key *key, const int32_t *ids)
{
    int32_t block = cache->slots[find_slot(cache, key)];
    return block >= 0 && record_holds(&cache->records[block], prev, ids) ? block : -1;
}

void lf_prefix_cache_insert_key(struct lf_prefix_cache *cache, const struct lf_prefix_key *prev,
                                const struct lf_prefix_key *key, const int32_t *ids, int32_t block)
{
    LF_ASSERT(block >= 0 && block < cache->pool->n_blocks);
    uint64_t i = find_slot(cache, key);
    if (cache->slots[i] >= 0) return; /* there under this block or another (or a collision: it stays a miss) */
    LF_ASSERT(!cache->pool->blocks[block].cached);
    struct record *r = &cache->records[block];
    r->key = *key;
    r->prev = *prev;
    memcpy(r->ids, ids, sizeof(r->ids));
    cache->slots[i] = block;
    lf_block_pool_set_cached(cache->pool, block, true);
}

void lf_prefix_cache_clear(struct lf_prefix_cache *cache)
{
    for (uint64_t i = 0; i < cache->n_slots; i++) {
        if (cache->slots[i] >= 0) lf_block_pool_set_cached(cache->pool, cache->slots[i], false);
        cache->slots[i] = -1;
    }
}

void lf_prefix_cache_check(const struct lf_prefix_cache *cache)
{
    int n_named = 0, n_cached = 0;
    for (uint64_t i = 0; i < cache->n_slots; i++) {
        int32_t block = cache->slots[i];
        if (block < 0) continue;
        n_named++;
        LF_ASSERT(block < cache->pool->n_blocks && cache->pool->blocks[block].cached);
        LF_ASSERT(find_slot(cache, &cache->records[block].key) == i);
    }
    for (int i = 0; i < cache->pool->n_blocks; i++) n_cached += cache->pool->blocks[i].cached ? 1 : 0;
    LF_ASSERT(n_named == n_cached);
}
