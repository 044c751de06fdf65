/* What sequences share: with the cache, with what is pinned, with one another. Pure look-ups. */
#ifndef LF_SERVER_ENGINE_SHARED_BLOCKS_H
#define LF_SERVER_ENGINE_SHARED_BLOCKS_H

#include "server/engine/scheduler.h"

/* The cached block that continues a sequence's table of a group at i; -1: none. */
int32_t lf_sched_find_in(const struct lf_sched *s, const struct lf_sched_seq *seq, int group, int i);
/* The most leading blocks, up to `most`, that are in the cache, if the first `from` are: in all groups that see all;
 * where there are none, in group 0. Looks at no more than one that is not. */
int lf_sched_leading_blocks(const struct lf_sched *s, const struct lf_sched_seq *seq, int from, int most);
/* How many leading blocks a sequence may take from the cache, up to `most`, if it has the first `from` as far as they
 * are seen from there: groups that see all have each of them, windows those that are seen from behind the last, and
 * with states there is a snapshot behind it. pinned: of those that are pinned. `from` if it is no more. */
int lf_sched_hit(const struct lf_sched *s, const struct lf_sched_seq *seq, int from, int most, bool pinned);
/* Blocks of its prompt that may come from the cache: never the one with the last token, whose logits are needed. */
int lf_sched_max_cached_blocks(const struct lf_sched_seq *seq);
/* How many leading blocks two sequences have in common. */
int lf_sched_common_blocks(const struct lf_sched_seq *a, const struct lf_sched_seq *b);
/* How many of its first blocks, up to most, it is sure to have once a sequence that is to be pinned is computed.
 * has_states: of a model with states. */
int lf_sched_sure_blocks(const struct lf_kv_windows *w, bool has_states, const struct lf_sched_seq *seq,
                         const struct lf_sched_seq *pinned, int most);
/* Blocks of the pool that are pinned and that it has, of its first `most`, whatever else there is room for. */
int64_t lf_sched_n_pinned_of(const struct lf_sched *s, const struct lf_sched_seq *seq, int most);

/* Whether a sequence may go on at marks only: leading blocks that are there may be no hit. */
static inline bool lf_sched_hits_at_marks(const struct lf_sched *s)
{
    return s->opts.slots || lf_kv_windows_n_sliding(&s->opts.windows) > 0;
}

/* Blocks that are not pinned, and may be reserved. */
static inline int lf_sched_n_unpinned(const struct lf_sched *s)
{
    return s->opts.pool->n_blocks - s->opts.pool->n_pinned - (int)lf_kv_windows_slack(&s->opts.windows, s->opts.chunk);
}

#endif
