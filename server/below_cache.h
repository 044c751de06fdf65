/* Blocks below the cache of the device: what --cache-dir and --cache-memory say of a runtime that is open, and whether
 * that can be. Pure functions of it. */
#ifndef LF_SERVER_BELOW_CACHE_H
#define LF_SERVER_BELOW_CACHE_H

#include "server/runtime.h"

uint64_t lf_below_disk_bytes(const struct lf_config *config);
struct lf_disk_kind lf_below_kind(const struct lf_runtime *rt);
/* Blocks that each has room for; 0: there is none. */
uint32_t lf_below_disk_slots(const struct lf_runtime *rt);
uint64_t lf_below_memory_slots(const struct lf_runtime *rt);
/* Tokens of long documents that so many blocks hold. */
uint64_t lf_below_tokens(const struct lf_runtime *rt, uint64_t n_blocks);
/* LF_INVALID, LF_LIMIT. */
LF_MUST_CHECK enum lf_status lf_below_check_disk(const struct lf_runtime *rt, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_below_check_memory(const struct lf_runtime *rt, struct lf_err *err);
/* In the log, where the directory has blocks, but none of what is served. */
void lf_below_say_not_used(const struct lf_runtime *rt);

#endif
