#include "server/engine/marks.h"

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/scheduler.h"

enum { BLOCK = LF_KV_BLOCK_TOKENS };

/* Whether block i is seen from the mark, or from the block or the tail before it. */
static bool is_seen_from(int64_t mark, int tail, int window, int i)
{
    int64_t from = mark / BLOCK * BLOCK - BLOCK - tail - window + 1, first = (int64_t)i * BLOCK;
    return first < mark && first + BLOCK > from;
}

bool lf_marks_keep(const struct lf_sched_seq *seq, int window, int i)
{
    int64_t first = (int64_t)i * BLOCK;
    if (is_seen_from(seq->n_prompt, LF_MARK_TAIL, window, i)) return true;
    if (is_seen_from((first / LF_MARK_EVERY + 1) * LF_MARK_EVERY, 0, window, i)) return true;
    for (int k = 0; k < seq->n_marks; k++)
        if (is_seen_from(seq->marks[k], 0, window, i)) return true;
    return false;
}
