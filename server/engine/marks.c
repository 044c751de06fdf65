#include "server/engine/marks.h"

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/scheduler.h"

/* Whether the block from `first` on is seen from the mark, or from the block or the tail before it. */
static bool is_seen_from(int64_t mark, int tail, int window, int64_t first, int block)
{
    int64_t from = mark / block * block - block - tail - window + 1;
    return first < mark && first + block > from;
}

bool lf_marks_keep(const struct lf_sched_seq *seq, int window, int i)
{
    int block = seq->block_tokens, every = lf_marks_every(block);
    int64_t first = (int64_t)i * block;
    if (is_seen_from(seq->n_prompt, LF_MARK_TAIL, window, first, block)) return true;
    if (is_seen_from((first / every + 1) * every, 0, window, first, block)) return true;
    for (int k = 0; k < seq->n_marks; k++)
        if (is_seen_from(seq->marks[k], 0, window, first, block)) return true;
    return false;
}
