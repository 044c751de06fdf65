/* How many blocks a sequence takes where layers keep different things. Layers form groups; each group has a window: the
 * last so many tokens that a token sees, itself among them, or 0: it sees all. A sequence has a block table for each
 * group, and all tables draw on one pool of blocks.
 *
 * A block stands for B tokens (kv_view.h): 64, or as many for each stripe of a context. The block that position n · B
 * is in is the first one of n leading blocks that is not full. What the positions from there on see of a window of W
 * tokens begins at n · B - W + 1.
 *
 * Pure arithmetic; any thread. Counts of blocks are of a table, or of the pool where it says so. */
#ifndef LF_KV_WINDOWS_H
#define LF_KV_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"

enum { LF_KV_WINDOWS_N = 16 };

struct lf_kv_windows {
    int n;                       /* groups; 0: one, that sees all */
    int tokens[LF_KV_WINDOWS_N]; /* of each group; 0: all */
    int block_tokens;            /* lf_kv_block_tokens; 0: LF_KV_BLOCK_TOKENS */
};

static inline int lf_kv_windows_block_tokens(const struct lf_kv_windows *w)
{
    return w->block_tokens > 0 ? w->block_tokens : LF_KV_BLOCK_TOKENS;
}

/* Groups that see all, and the others. */
int lf_kv_windows_n_full(const struct lf_kv_windows *w);
int lf_kv_windows_n_sliding(const struct lf_kv_windows *w);
/* The first block of a group that positions from n · B on see. */
int lf_kv_windows_first(const struct lf_kv_windows *w, int group, int n);
/* The most blocks of the pool that a group's table of n has at once, between steps: all of them, or those of the window
 * with one that it has only begun to leave, and one that is being written. */
int64_t lf_kv_windows_held(const struct lf_kv_windows *w, int group, int64_t n);
/* In all groups: what is reserved for a sequence. */
int64_t lf_kv_windows_need(const struct lf_kv_windows *w, int64_t n);
/* The largest n that needs no more than so many blocks of the pool. */
int64_t lf_kv_windows_fit(const struct lf_kv_windows *w, int64_t n_blocks);
/* What the tokens of one step take beside that, in all sequences together: blocks of the pool that stay out of what can
 * be reserved. A chunk of n tokens, anywhere, needs at most ceil(n / B) - 1 blocks more than its table holds between
 * steps. */
int64_t lf_kv_windows_slack(const struct lf_kv_windows *w, int chunk);
/* Blocks of the pool that are kept for a pinned prompt of n full blocks: all, or those that are seen from its end and
 * from one block before it (a prompt's last token is never taken from the cache). */
int64_t lf_kv_windows_pinned(const struct lf_kv_windows *w, int n);

static inline int lf_kv_windows_n(const struct lf_kv_windows *w)
{
    return w->n > 0 ? w->n : 1;
}
static inline bool lf_kv_windows_slides(const struct lf_kv_windows *w, int group)
{
    return w->tokens[group] > 0;
}

#endif
