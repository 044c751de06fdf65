/* The KV cache: owns the bytes of all blocks, the block pool and the prefix cache; and, where layers have states, of
 * the slots behind the blocks, with a pool and a prefix cache of their own. One per model and device.
 * All calls from the engine thread; nothing is allocated after open. */
#ifndef LF_KV_KV_CACHE_H
#define LF_KV_KV_CACHE_H

#include "device/delta.h"
#include "device/device.h"
#include "kv/block_pool.h"
#include "kv/kv_layout.h"
#include "kv/prefix_cache.h"

struct lf_kv_cache {
    struct lf_kv_view view; /* of group 0 */
    struct lf_kv_group groups[LF_KV_GROUPS_N];
    int n_groups;
    int block_tokens; /* of a sequence, from one block of its table to the next; the stripe's are 64 of them */
    struct lf_block_pool pool;
    struct lf_prefix_cache *prefix; /* NULL when switched off */
    struct lf_kv_states states;
    struct lf_block_pool slots;        /* of states; none where there are none */
    struct lf_prefix_cache *snapshots; /* over slots: a slot holds the state behind the block that its key names. NULL
                                          as prefix */
    struct lf_buffer buffer;
    struct lf_device *dev; /* borrowed */
};

struct lf_kv_cache_opts {
    enum lf_dtype dtype;
    int n_blocks;
    int n_slots;                       /* of states, at least 1; 0 where there are none */
    const struct lf_kv_layout *layout; /* borrowed; NULL: one group, of layers that are all alike: */
    int n_layers, n_kv_heads, head_dim;
    struct lf_kv_stripe stripe; /* which tokens it has of each block */
    bool prefix_cache;
    const void *identity; /* of the model, for the prefix cache */
    size_t identity_bytes;
};

/* *cache stays where it is until close (its parts point to each other); zeroed on failure. */
LF_MUST_CHECK enum lf_status lf_kv_cache_open(struct lf_kv_cache *cache, struct lf_device *dev,
                                              const struct lf_kv_cache_opts *opts, struct lf_err *err);
void lf_kv_cache_close(struct lf_kv_cache *cache); /* accepts a zeroed one */
struct lf_kv_windows lf_kv_cache_windows(const struct lf_kv_cache *cache);
/* What attention sees of a group's layers. */
struct lf_kv_view lf_kv_cache_view(const struct lf_kv_cache *cache, int group);
/* The states of one layer, by its number among those with states. */
struct lf_state_view lf_kv_cache_state_view(const struct lf_kv_cache *cache, int state_layer);
/* Host memory of the bookkeeping (pool records, prefix cache), for the memory plan. */
uint64_t lf_kv_host_bytes(int n_blocks, int block_tokens, bool prefix_cache);
/* A whole block, or a part of a slot (kv_layout.h says how they are numbered), as it lies, to or from memory of the
 * host, beside the device's queue: any thread, on a lane of its own (device.h), that knows that what wrote the block
 * has ended, and that nobody writes it meanwhile (reads, for copy_in). LF_DEVICE: what was written to may hold
 * anything. */
LF_MUST_CHECK enum lf_status lf_kv_cache_copy_out(const struct lf_kv_cache *cache, int lane, void *dst, int32_t block,
                                                  struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_kv_cache_copy_in(struct lf_kv_cache *cache, int lane, int32_t block, const void *src,
                                                 struct lf_err *err);
/* Fills a block, or a part of a slot, with NaN: what debug builds do to freed blocks, to show that nothing reads them.
 */
void lf_kv_cache_poison(struct lf_kv_cache *cache, int32_t block);

#endif
