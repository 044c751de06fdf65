#include "server/engine/shared_blocks.h"

#include <string.h>

#include "core/check.h"
#include "core/limits.h"

enum { BLOCK = LF_KV_BLOCK_TOKENS };

int32_t lf_sched_find_block(const struct lf_sched *s, const struct lf_sched_seq *seq, int i)
{
    return lf_prefix_cache_find(s->opts.prefix, &seq->keys[i], &seq->keys[i + 1], seq->ids + (int64_t)i * BLOCK);
}

int lf_sched_max_cached_blocks(const struct lf_sched_seq *seq)
{
    if (!seq->keys || seq->all_logits) return 0;
    return LF_MIN((seq->n_prompt - 1) / BLOCK, seq->n_keys - 1);
}

/* Equal keys mean equal beginnings, so bisection finds the end. */
int lf_sched_common_blocks(const struct lf_sched_seq *a, const struct lf_sched_seq *b)
{
    int lo = 0, hi = LF_MIN(a->n_keys, b->n_keys) - 1;
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (memcmp(a->keys[mid].bytes, b->keys[mid].bytes, sizeof(a->keys[mid].bytes)) == 0)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

int lf_sched_n_pinned_of(const struct lf_sched *s, const struct lf_sched_seq *seq, int most)
{
    int n = 0;
    if (s->opts.pool->n_pinned == 0) return 0;
    while (n < most) {
        int32_t block = lf_sched_find_block(s, seq, n);
        if (block < 0 || s->opts.pool->blocks[block].n_pins == 0) break;
        n++;
    }
    return n;
}
