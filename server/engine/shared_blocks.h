/* What sequences share: with the cache, with what is pinned, with one another. Pure look-ups. */
#ifndef LF_SERVER_ENGINE_SHARED_BLOCKS_H
#define LF_SERVER_ENGINE_SHARED_BLOCKS_H

#include "server/engine/scheduler.h"

/* The cached block that continues a sequence's table at i; -1: none. */
int32_t lf_sched_find_block(const struct lf_sched *s, const struct lf_sched_seq *seq, int i);
/* Blocks of its prompt that may come from the cache: never the one with the last token, whose logits are needed. */
int lf_sched_max_cached_blocks(const struct lf_sched_seq *seq);
/* How many leading blocks two sequences have in common. */
int lf_sched_common_blocks(const struct lf_sched_seq *a, const struct lf_sched_seq *b);
/* How many of its first blocks, up to most, are pinned: it has them whatever else there is room for. */
int lf_sched_n_pinned_of(const struct lf_sched *s, const struct lf_sched_seq *seq, int most);

/* Blocks that are not pinned. */
static inline int lf_sched_n_unpinned(const struct lf_sched *s)
{
    return s->opts.pool->n_blocks - s->opts.pool->n_pinned;
}

#endif
