/* See prefix_cache.h. One record a block beside the pool's own, and an open-addressing table of block numbers.
 *
 * Record i belongs to block i of the pool and is filled while the block is entered: its key, the key before it and its
 * ids. A hit compares all three. Equal predecessors all the way to the root mean equal documents, so the hash only
 * finds the record; it proves nothing, and a collision is a miss.
 *
 * Invariant: record i is filled  ⇔  pool->blocks[i].cached  ⇔  exactly one slot of the table names i.
 *
 * An evicted block leaves the blocks behind it in its document without a way to be reached; they stay on the pool's LRU
 * list and age out. If their predecessor is computed again, they are found again. */
#include "kv/prefix_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/le.h"
#include "core/limits.h"

enum { COUNT_N = 32 };

struct record {
    struct lf_prefix_key key, prev;
    struct lf_prefix_origin origin;
};

struct lf_prefix_cache {
    struct lf_block_pool *pool; /* borrowed */
    struct record *records;     /* [pool->n_blocks] */
    int32_t *ids;               /* [pool->n_blocks, block_tokens] of the records */
    int block_tokens;
    struct lf_key_index index; /* of the records; changed under the lock, by the engine thread alone */
    pthread_mutex_t lock;
    uint8_t identity[LF_SHA256_BYTES];
    void (*on_enter)(void *ctx, int32_t block);
    void *on_enter_ctx;
};

uint64_t lf_prefix_cache_host_bytes(int n_blocks, int block_tokens)
{
    uint64_t record = sizeof(struct record) + (uint64_t)block_tokens * sizeof(int32_t);
    return (uint64_t)n_blocks * record + lf_key_index_bytes((uint32_t)n_blocks) + sizeof(struct lf_prefix_cache);
}

static int32_t *ids_of(const struct lf_prefix_cache *cache, int32_t block)
{
    return cache->ids + (size_t)block * (size_t)cache->block_tokens;
}

static bool key_equal(const struct lf_prefix_key *a, const struct lf_prefix_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static void forget(struct lf_prefix_cache *cache, int32_t block)
{
    pthread_mutex_lock(&cache->lock);
    lf_key_index_remove(&cache->index, block);
    pthread_mutex_unlock(&cache->lock);
}

static void on_evict(void *ctx, int32_t block)
{
    forget(ctx, block);
}

enum lf_status lf_prefix_cache_create(struct lf_prefix_cache **out, struct lf_block_pool *pool, const void *identity,
                                      size_t identity_bytes, int block_tokens, struct lf_err *err)
{
    LF_ASSERT(block_tokens >= 1);
    struct lf_prefix_cache *cache = calloc(1, sizeof(*cache));
    if (!cache) goto fail;
    cache->pool = pool;
    pthread_mutex_init(&cache->lock, NULL);
    cache->records = calloc((size_t)pool->n_blocks, sizeof(*cache->records));
    cache->block_tokens = block_tokens;
    cache->ids = calloc((size_t)pool->n_blocks, (size_t)block_tokens * sizeof(*cache->ids));
    if (!cache->records || !cache->ids) goto fail;
    if (lf_key_index_init(&cache->index, (uint32_t)pool->n_blocks, &cache->records->key, sizeof(*cache->records)) !=
        LF_OK)
        goto fail;
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
    lf_key_index_deinit(&cache->index);
    pthread_mutex_destroy(&cache->lock);
    free(cache->records);
    free(cache->ids);
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

/* Where -n stands. */
enum { TIER_N = LF_SHA256_BYTES / sizeof(int32_t) };

void lf_prefix_tier_ids(const int32_t *ids, int n, int32_t out[LF_KV_BLOCK_TOKENS])
{
    uint8_t sha[LF_SHA256_BYTES];
    if (n <= LF_KV_BLOCK_TOKENS) {
        LF_ASSERT(n == LF_KV_BLOCK_TOKENS);
        memcpy(out, ids, (size_t)n * sizeof(*ids));
        return;
    }
    memset(out, 0, LF_KV_BLOCK_TOKENS * sizeof(*out));
    lf_sha256(ids, (size_t)n * sizeof(*ids), sha);
    for (int i = 0; i < TIER_N; i++) out[i] = (int32_t)(uint32_t)lf_get_le(sha + 4 * i, 4);
    out[TIER_N] = -n;
}

int lf_prefix_tier_tokens(const int32_t tier_ids[LF_KV_BLOCK_TOKENS])
{
    int n = tier_ids[TIER_N]; /* of a file, perhaps: any number */
    bool counts = n < 0 && n >= -LF_RANKS_N * LF_KV_BLOCK_TOKENS && n % LF_KV_BLOCK_TOKENS == 0;
    return counts ? -n : LF_KV_BLOCK_TOKENS;
}

void lf_prefix_key_next(const struct lf_prefix_key *prev, const int32_t *ids, int n, struct lf_prefix_key *out)
{
    struct lf_sha256 sha;
    int32_t tier_ids[LF_KV_BLOCK_TOKENS];
    if (n > LF_KV_BLOCK_TOKENS) {
        lf_prefix_tier_ids(ids, n, tier_ids);
        ids = tier_ids;
        n = LF_KV_BLOCK_TOKENS;
    }
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, prev->bytes, sizeof(prev->bytes));
    lf_sha256_update(&sha, ids, (size_t)n * sizeof(*ids));
    lf_sha256_final(&sha, out->bytes);
}

struct lf_prefix_key lf_prefix_group_key(const struct lf_prefix_key *key, int group)
{
    struct lf_prefix_key own = *key;
    own.bytes[0] = (uint8_t)(own.bytes[0] ^ (group & 0xff));
    own.bytes[1] = (uint8_t)(own.bytes[1] ^ (group >> 8));
    return own;
}

static bool holds(const struct lf_prefix_cache *cache, int32_t block, const struct lf_prefix_key *prev,
                  const int32_t *ids)
{
    return key_equal(&cache->records[block].prev, prev) &&
           memcmp(ids_of(cache, block), ids, (size_t)cache->block_tokens * sizeof(*ids)) == 0;
}

int32_t lf_prefix_cache_find(const struct lf_prefix_cache *cache, const struct lf_prefix_key *prev,
                             const struct lf_prefix_key *key, const int32_t *ids)
{
    int32_t block = lf_key_index_find(&cache->index, key);
    return block >= 0 && holds(cache, block, prev, ids) ? block : -1;
}

void lf_prefix_cache_insert_key(struct lf_prefix_cache *cache, const struct lf_prefix_key *prev,
                                const struct lf_prefix_key *key, const int32_t *ids, int32_t block,
                                struct lf_prefix_origin origin)
{
    LF_ASSERT(block >= 0 && block < cache->pool->n_blocks);
    int32_t known = lf_key_index_find(&cache->index, key); /* this block or another (or a collision: stays a miss) */
    if (known >= 0 && !origin.passes) lf_prefix_cache_keep(cache, known);
    if (known >= 0) return;
    LF_ASSERT(!cache->pool->blocks[block].cached);
    struct record *r = &cache->records[block];
    r->key = *key;
    r->prev = *prev;
    memcpy(ids_of(cache, block), ids, (size_t)cache->block_tokens * sizeof(*ids));
    r->origin = origin;
    pthread_mutex_lock(&cache->lock);
    LF_ASSERT(lf_key_index_insert(&cache->index, block));
    pthread_mutex_unlock(&cache->lock);
    lf_block_pool_set_cached(cache->pool, block, true);
    if (cache->on_enter && !origin.passes) cache->on_enter(cache->on_enter_ctx, block);
}

bool lf_prefix_cache_passes(const struct lf_prefix_cache *cache, int32_t block)
{
    return cache->pool->blocks[block].cached && cache->records[block].origin.passes;
}

void lf_prefix_cache_keep(struct lf_prefix_cache *cache, int32_t block)
{
    if (!lf_prefix_cache_passes(cache, block)) return;
    cache->records[block].origin.passes = false;
    if (cache->on_enter) cache->on_enter(cache->on_enter_ctx, block);
}

void lf_prefix_cache_forget(struct lf_prefix_cache *cache, int32_t block)
{
    LF_ASSERT(cache->pool->blocks[block].cached);
    forget(cache, block);
    lf_block_pool_set_cached(cache->pool, block, false);
}

struct lf_prefix_entry lf_prefix_cache_entry(const struct lf_prefix_cache *cache, int32_t block)
{
    LF_ASSERT(cache->pool->blocks[block].cached);
    const struct record *r = &cache->records[block];
    return (struct lf_prefix_entry){&r->key, &r->prev, ids_of(cache, block), r->origin};
}

void lf_prefix_cache_on_enter(struct lf_prefix_cache *cache, void (*fn)(void *ctx, int32_t block), void *ctx)
{
    cache->on_enter = fn;
    cache->on_enter_ctx = ctx;
}

int lf_prefix_cache_count(struct lf_prefix_cache *cache, const struct lf_prefix_key *keys, int n)
{
    return lf_prefix_cache_count_in(cache, 0, keys, n);
}

int lf_prefix_cache_count_in(struct lf_prefix_cache *cache, int group, const struct lf_prefix_key *keys, int n)
{
    int n_entered = 0;
    for (int at = 0; at < n; at += COUNT_N) { /* nobody waits for a long document */
        int end = LF_MIN(at + COUNT_N, n);
        pthread_mutex_lock(&cache->lock);
        for (int i = at; i < end; i++) {
            struct lf_prefix_key key = lf_prefix_group_key(&keys[i], group);
            n_entered += lf_key_index_find(&cache->index, &key) >= 0;
        }
        pthread_mutex_unlock(&cache->lock);
    }
    return n_entered;
}

void lf_prefix_cache_clear(struct lf_prefix_cache *cache)
{
    for (int32_t i = 0; i < cache->pool->n_blocks; i++) {
        if (cache->pool->blocks[i].cached) lf_prefix_cache_forget(cache, i);
    }
}

void lf_prefix_cache_check(const struct lf_prefix_cache *cache)
{
    uint32_t n_cached = 0;
    for (int32_t i = 0; i < cache->pool->n_blocks; i++) {
        if (!cache->pool->blocks[i].cached) continue;
        n_cached++;
        LF_ASSERT(!cache->records[i].origin.passes || cache->pool->blocks[i].n_refs > 0);
        LF_ASSERT(lf_key_index_find(&cache->index, &cache->records[i].key) == i);
    }
    LF_ASSERT(lf_key_index_check(&cache->index) == n_cached);
}
