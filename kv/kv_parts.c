#include "kv/kv_parts.h"

#include "core/check.h"

static uint64_t part_bytes(const struct lf_kv_parts *parts)
{
    return lf_kv_block_bytes(&parts->of[0]->view);
}

uint64_t lf_kv_parts_bytes(const struct lf_kv_parts *parts)
{
    for (int r = 1; r < parts->n; r++) LF_ASSERT(lf_kv_block_bytes(&parts->of[r]->view) == part_bytes(parts));
    return (uint64_t)parts->n * part_bytes(parts);
}

/* Lanes begin with different ranks, so that several of them keep all buses busy. */
static int rank_at(const struct lf_kv_parts *parts, int lane, int i)
{
    return (lane + i) % parts->n;
}

enum lf_status lf_kv_parts_copy_out(const struct lf_kv_parts *parts, int lane, void *dst, int32_t block,
                                    struct lf_err *err)
{
    for (int i = 0; i < parts->n; i++) {
        int r = rank_at(parts, lane, i);
        char *part = (char *)dst + (uint64_t)r * part_bytes(parts);
        LF_TRY(lf_kv_cache_copy_out(parts->of[r], lane, part, block, err));
    }
    return LF_OK;
}

enum lf_status lf_kv_parts_copy_in(const struct lf_kv_parts *parts, int lane, int32_t block, const void *src,
                                   struct lf_err *err)
{
    for (int i = 0; i < parts->n; i++) {
        int r = rank_at(parts, lane, i);
        const char *part = (const char *)src + (uint64_t)r * part_bytes(parts);
        LF_TRY(lf_kv_cache_copy_in(parts->of[r], lane, block, part, err));
    }
    return LF_OK;
}
