#include "server/below_cache.h"

#include "core/log.h"
#include "kv/tiers/disk_walk.h"
#include "kv/tiers/memory_tier.h"
#include "server/options.h"

uint64_t lf_below_disk_bytes(const struct lf_config *c)
{
    return c->cache_disk ? c->cache_disk : LF_CACHE_DISK_BYTES;
}

/* All blocks are equally large, whichever layers they hold: one kind. Each is what all ranks have of it. */
struct lf_disk_kind lf_below_kind(const struct lf_runtime *rt)
{
    uint64_t n_ranks = (uint64_t)lf_split_world(&rt->hp.split);
    return (struct lf_disk_kind){.name = "full", .block_bytes = n_ranks * rt->kv_block_bytes, .share = 1};
}

static int block_tokens(const struct lf_runtime *rt)
{
    return lf_kv_block_tokens(lf_split_n_cp(&rt->hp.split));
}

uint32_t lf_below_disk_slots(const struct lf_runtime *rt)
{
    struct lf_disk_kind kind = lf_below_kind(rt);
    return rt->config->cache_dir ? lf_disk_store_n_slots(lf_below_disk_bytes(rt->config), &kind, 1, 0) : 0;
}

/* Tokens that so many blocks below the cache hold: of long documents, of whose states a snapshot is kept every so
 * often.
 */
uint64_t lf_below_tokens(const struct lf_runtime *rt, uint64_t n_blocks)
{
    uint64_t tokens = (uint64_t)block_tokens(rt), every = LF_KV_MARK_TOKENS / tokens;
    return n_blocks * every / (every + (uint64_t)rt->slot_blocks) * tokens;
}

enum lf_status lf_below_check_disk(const struct lf_runtime *rt, struct lf_err *err)
{
    const struct lf_config *c = rt->config;
    if (c->cache_disk && !c->cache_dir)
        return lf_fail(err, LF_INVALID, "--cache-disk is the size of a --cache-dir, which is not given");
    if (!c->cache_dir) return LF_OK;
    if (lf_below_disk_slots(rt) > 0) return LF_OK;
    return lf_fail(err, LF_LIMIT, "--cache-disk: %llu bytes hold no block of %llu bytes (%d tokens) and its record",
                   (unsigned long long)lf_below_disk_bytes(c), (unsigned long long)lf_below_kind(rt).block_bytes,
                   block_tokens(rt));
}

uint64_t lf_below_memory_slots(const struct lf_runtime *rt)
{
    return rt->config->cache_memory / lf_memory_slot_bytes(lf_below_kind(rt).block_bytes);
}

enum lf_status lf_below_check_memory(const struct lf_runtime *rt, struct lf_err *err)
{
    const struct lf_device_info *info = lf_device_info(rt->dev);
    uint64_t bytes = rt->config->cache_memory;
    if (bytes == 0) return LF_OK;
    if (info->is_host)
        return lf_fail(err, LF_INVALID,
                       "--cache-memory is memory below a GPU's cache; on a CPU the cache is in this memory already: "
                       "expected more --memory or --kv-tokens instead, or --device cuda");
    if (info->host_available_bytes > 0 && bytes > info->host_available_bytes)
        return lf_fail(err, LF_LIMIT, "--cache-memory is %llu bytes, of this machine's memory %llu are available",
                       (unsigned long long)bytes, (unsigned long long)info->host_available_bytes);
    if (lf_below_memory_slots(rt) > 0) return LF_OK;
    return lf_fail(err, LF_LIMIT, "--cache-memory: %llu bytes hold no block of %llu bytes (%d tokens)",
                   (unsigned long long)bytes, (unsigned long long)lf_below_kind(rt).block_bytes, block_tokens(rt));
}

void lf_below_say_not_used(const struct lf_runtime *rt)
{
    char about[LF_DISK_ABOUT_BYTES];
    struct lf_disk_table_stats s;
    lf_disk_table_stats(rt->disk.tables[0], &s);
    if (s.n_listed > 0 || !rt->disk.other[0]) return;
    lf_disk_about(about, rt->config->cache_dir, rt->disk.other);
    LF_INFO("--cache-dir %s has no blocks of this model, split, device and program yet; those of others are not used: "
            "%s",
            rt->config->cache_dir, about);
}
