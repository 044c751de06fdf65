#include "server/engine/shared_blocks.h"

#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/states.h"

int32_t lf_sched_find_in(const struct lf_sched *s, const struct lf_sched_seq *seq, int group, int i)
{
    struct lf_prefix_key key = lf_prefix_group_key(&seq->keys[i + 1], group);
    return lf_prefix_cache_find(s->opts.prefix, &seq->keys[i], &key, seq->ids + (int64_t)i * seq->block_tokens);
}

static bool has(const struct lf_sched *s, const struct lf_sched_seq *seq, int group, int i, bool pinned)
{
    int32_t block = lf_sched_find_in(s, seq, group, i);
    return block >= 0 && (!pinned || s->opts.pool->blocks[block].n_pins > 0);
}

static bool have_all(const struct lf_sched *s, const struct lf_sched_seq *seq, int i, bool pinned)
{
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++)
        if (!lf_kv_windows_slides(&s->opts.windows, g) && !has(s, seq, g, i, pinned)) return false;
    return true;
}

int lf_sched_leading_blocks(const struct lf_sched *s, const struct lf_sched_seq *seq, int from, int most)
{
    bool any = lf_kv_windows_n_full(&s->opts.windows) > 0;
    while (from < most && (any ? have_all(s, seq, from, false) : has(s, seq, 0, from, false))) from++;
    return from;
}

/* Of what windows see from n on, and that is not before `from`, the last that is not there; -1: all is. */
static int last_missing(const struct lf_sched *s, const struct lf_sched_seq *seq, int from, int n, bool pinned)
{
    int last = -1;
    for (int g = 0; g < s->opts.windows.n; g++) {
        if (!lf_kv_windows_slides(&s->opts.windows, g)) continue;
        int first = LF_MAX(LF_MAX(lf_kv_windows_first(&s->opts.windows, g, n), from), last + 1);
        for (int i = n - 1; i >= first; i--) {
            if (has(s, seq, g, i, pinned)) continue;
            last = i;
            break;
        }
    }
    return last;
}

static bool has_state(const struct lf_sched *s, const struct lf_sched_seq *seq, int n, bool pinned)
{
    if (!lf_states_on(s)) return true;
    int32_t slot = lf_states_find(s, seq, n);
    return slot >= 0 && (!pinned || s->opts.slots->blocks[slot].n_pins > 0);
}

/* A block that is not there is missed from every place between it and where it is seen from first. */
int lf_sched_hit(const struct lf_sched *s, const struct lf_sched_seq *seq, int from, int most, bool pinned)
{
    int n = most;
    if (lf_kv_windows_n_full(&s->opts.windows) > 0)
        for (n = from; n < most && have_all(s, seq, n, pinned);) n++;
    while (n > from) {
        if (!has_state(s, seq, n, pinned)) {
            n--;
            continue;
        }
        int missing = last_missing(s, seq, from, n, pinned);
        if (missing < 0) return n;
        n = missing;
    }
    return from;
}

int lf_sched_max_cached_blocks(const struct lf_sched_seq *seq)
{
    if (!seq->keys || seq->all_logits) return 0;
    return LF_MIN((seq->n_prompt - 1) / seq->block_tokens, seq->n_keys - 1);
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

int lf_sched_sure_blocks(const struct lf_kv_windows *w, bool has_states, const struct lf_sched_seq *seq,
                         const struct lf_sched_seq *pinned, int most)
{
    int n = LF_MIN(lf_sched_common_blocks(seq, pinned), most), n_full = pinned->n_keys - 1;
    if ((lf_kv_windows_n_sliding(w) == 0 && !has_states) || n == n_full) return n;
    /* Windows keep what is seen from its end, and from where it takes over itself; snapshots are pinned there. */
    return n == n_full - 1 && pinned->n_prompt % pinned->block_tokens == 0 ? n : 0;
}

int64_t lf_sched_n_pinned_of(const struct lf_sched *s, const struct lf_sched_seq *seq, int most)
{
    if (s->opts.pool->n_pinned == 0) return 0;
    return (int64_t)lf_sched_hit(s, seq, 0, most, true) * lf_kv_windows_n_full(&s->opts.windows);
}
