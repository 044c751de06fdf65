/* The prefix cache: finds blocks whose content is the beginning of a new prompt.
 *
 * Only full blocks are entered. The key of a block is SHA-256 over (key of the block before it, its token ids: 64, or,
 * where it stands for more of a divided context, the 64 numbers of lf_prefix_tier_ids); the chain starts from (model
 * identity, KV dtype, tenant's salt), so no tenant can find, or time, another's documents. On a hit the token ids
 * themselves are compared as well: a collision cannot give a wrong answer. All calls from the engine thread, but for
 * root and key_next: they read nothing that changes, so the thread that submits a request works out its chain of keys;
 * and count, which looks under a lock that is else taken only where a block is entered or forgotten. No allocation
 * after init. */
#ifndef LF_KV_PREFIX_CACHE_H
#define LF_KV_PREFIX_CACHE_H

#include <stdint.h>

#include "core/hash.h"
#include "kv/block_pool.h"
#include "kv/key_index.h"

struct lf_prefix_cache;

enum { LF_PREFIX_GROUPS_N = 1 << 16 };

/* The key of a block in a group of layers (windows.h), or of a part of a state (kv_layout.h): that of the chain in
 * group 0, else with its first two bytes changed. Twice is none. */
struct lf_prefix_key lf_prefix_group_key(const struct lf_prefix_key *key, int group);

/* identity names model and KV dtype; it is hashed into every chain. block_tokens: ids of a block. Installs
 * pool->on_evict. */
LF_MUST_CHECK enum lf_status lf_prefix_cache_create(struct lf_prefix_cache **out, struct lf_block_pool *pool,
                                                    const void *identity, size_t identity_bytes, int block_tokens,
                                                    struct lf_err *err);
void lf_prefix_cache_destroy(struct lf_prefix_cache *cache); /* accepts NULL */
/* Bytes that create allocates. */
uint64_t lf_prefix_cache_host_bytes(int n_blocks, int block_tokens);

/* The start of a chain under a tenant's salt (any bytes, may be empty). */
void lf_prefix_cache_root(const struct lf_prefix_cache *cache, const void *salt, size_t salt_bytes,
                          struct lf_prefix_key *out);
/* The numbers by which tiers know a block's n ids, all of its tokens, n a multiple of 64: the ids, if they are 64; else
 * SHA-256 of them as 8 little-endian integers, -n, which no id is, and zeros. So a record of a tier is as long for
 * each split of a context. */
void lf_prefix_tier_ids(const int32_t *ids, int n, int32_t out[LF_KV_BLOCK_TOKENS]);
/* How many ids such numbers are of. */
int lf_prefix_tier_tokens(const int32_t tier_ids[LF_KV_BLOCK_TOKENS]);
/* The key of the block with these n ids, all of its tokens, behind prev. */
void lf_prefix_key_next(const struct lf_prefix_key *prev, const int32_t *ids, int n, struct lf_prefix_key *out);

/* The block that holds these ids, block_tokens of them, behind prev, or -1; key is key_next(prev, ids). Takes no
 * reference and does not touch the LRU order: the answer holds until the next call that takes a block. */
int32_t lf_prefix_cache_find(const struct lf_prefix_cache *cache, const struct lf_prefix_key *prev,
                             const struct lf_prefix_key *key, const int32_t *ids);
/* Where a block comes from; nothing is found by it. */
struct lf_prefix_origin {
    uint64_t tenant; /* who computed it */
    uint32_t depth;  /* tokens before it in its prompt */
    uint16_t group;
    bool passes; /* it is found while somebody has it, and who lets go of it last forgets it; unless it is kept */
};

/* Enters a block that now holds these ids; key is its group's. If the same content is already there under another
 * block, nothing changes, but that it is kept if this one would be. */
void lf_prefix_cache_insert_key(struct lf_prefix_cache *cache, const struct lf_prefix_key *prev,
                                const struct lf_prefix_key *key, const int32_t *ids, int32_t block,
                                struct lf_prefix_origin origin);

/* What an entered block holds; the pointers are good until it is taken for something else. */
struct lf_prefix_entry {
    const struct lf_prefix_key *key, *prev;
    const int32_t *ids; /* [block_tokens] */
    struct lf_prefix_origin origin;
};
struct lf_prefix_entry lf_prefix_cache_entry(const struct lf_prefix_cache *cache, int32_t block);
/* Whether an entered block is to be forgotten by who lets go of it last. */
bool lf_prefix_cache_passes(const struct lf_prefix_cache *cache, int32_t block);
/* An entered block does not pass any more. */
void lf_prefix_cache_keep(struct lf_prefix_cache *cache, int32_t block);
/* An entered block is found no more. */
void lf_prefix_cache_forget(struct lf_prefix_cache *cache, int32_t block);
/* fn is called with each block that is entered to stay, or kept, from now on; NULL: nobody is. */
void lf_prefix_cache_on_enter(struct lf_prefix_cache *cache, void (*fn)(void *ctx, int32_t block), void *ctx);

/* How many of these blocks are entered. Any thread. */
int lf_prefix_cache_count(struct lf_prefix_cache *cache, const struct lf_prefix_key *keys, int n);
/* The same in a group; keys: of the chain. */
int lf_prefix_cache_count_in(struct lf_prefix_cache *cache, int group, const struct lf_prefix_key *keys, int n);

/* Forgets everything (blocks in use stay used). */
void lf_prefix_cache_clear(struct lf_prefix_cache *cache);
/* Walks everything; LF_ASSERTs that records, table and pool agree. */
void lf_prefix_cache_check(const struct lf_prefix_cache *cache);

#endif
