/* A block in the caches of all ranks of a process, as tiers see it: one row of bytes.
 *
 *     the block's number ──► rank 0's cache │ rank 1's │ … │ rank n-1's        each block_bytes of its own cache
 *     a tier's slot           part 0          part 1         part n-1
 *
 * Each rank's part is its KV heads, its stripe of a context, or what it has like the others (states, heads that all
 * need). They are saved, checked and brought back together: a slot is there when all parts are, and a byte that is
 * wrong in one of them is one of the block's. Bookkeeping is rank 0's, of which this is one more thing that the others
 * do not decide. One cache alone is one part. */
#ifndef LF_KV_KV_PARTS_H
#define LF_KV_KV_PARTS_H

#include "core/limits.h"
#include "kv/kv_cache.h"

struct lf_kv_parts {
    struct lf_kv_cache *of[LF_RANKS_N]; /* by rank; borrowed. Of the same number of blocks and slots, as large in all */
    int n;
};

/* Of a block, all parts. */
uint64_t lf_kv_parts_bytes(const struct lf_kv_parts *parts);
/* As lf_kv_cache_copy_out and lf_kv_cache_copy_in, on the lane of that number of each rank's device. */
LF_MUST_CHECK enum lf_status lf_kv_parts_copy_out(const struct lf_kv_parts *parts, int lane, void *dst, int32_t block,
                                                  struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_kv_parts_copy_in(const struct lf_kv_parts *parts, int lane, int32_t block,
                                                 const void *src, struct lf_err *err);

#endif
