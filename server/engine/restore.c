/* See restore.h. */
#include "server/engine/restore.h"

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/scheduler.h"

enum { BLOCK = LF_KV_BLOCK_TOKENS };
static const double FORGETTING = 0.9;
static const double WORTH = 0.9; /* a way that takes the device has to be done in so much of the other's time */

enum lf_restore_way lf_restore_choose(double compute_ns, double load_ns, bool may_meet)
{
    if (!may_meet) return load_ns < WORTH * compute_ns ? LF_RESTORE_WAIT : LF_RESTORE_NOT;
    double both_ns = compute_ns * load_ns / (compute_ns + load_ns);
    if (both_ns > WORTH * load_ns) return LF_RESTORE_WAIT;
    return both_ns > WORTH * compute_ns ? LF_RESTORE_NOT : LF_RESTORE_MEET;
}

static enum lf_restore_state state_at(const struct lf_sched_seq *seq, int i)
{
    const struct lf_restore *r = &seq->restore;
    return i >= r->first && i < r->end ? (enum lf_restore_state)r->states[i] : LF_RESTORE_NONE;
}

void lf_restore_plan(struct lf_sched *s, struct lf_sched_seq *seq, int first, int end)
{
    struct lf_restore_source *below = &s->opts.below;
    struct lf_restore *r = &seq->restore;
    if (!below->has || !r->states) return;
    double compute_ns = 0, load_ns = 0;
    r->first = r->end = first;
    for (int i = first; i < end; i++) {
        if (!below->has(below->ctx, &seq->keys[i + 1])) continue;
        r->states[i] = LF_RESTORE_BELOW;
        if (r->end == first) r->first = i;
        r->end = i + 1;
        compute_ns += lf_cost_prefill_ns(&s->cost, i * BLOCK, BLOCK, 0);
        load_ns += below->block_ns;
    }
    if (r->end == r->first) return;
    r->way = lf_restore_choose(compute_ns, load_ns, below->may_meet);
    if (r->way != LF_RESTORE_NOT) return;
    r->end = r->first;
    below->block_ns *= FORGETTING;
}

int lf_restore_next(struct lf_sched_seq *seq)
{
    struct lf_restore *r = &seq->restore;
    int lowest = LF_MAX(r->first, (seq->n_done + BLOCK - 1) / BLOCK);
    for (int k = 0; k < r->end - lowest; k++) {
        int i = r->way == LF_RESTORE_MEET ? r->end - 1 - k : lowest + k;
        if (r->states[i] != LF_RESTORE_BELOW) continue;
        r->states[i] = LF_RESTORE_COMING;
        r->n_coming++;
        return i;
    }
    return -1;
}

void lf_restore_back(struct lf_sched_seq *seq, int i, bool whole)
{
    struct lf_restore *r = &seq->restore;
    LF_ASSERT(r->n_coming > 0);
    r->n_coming--;
    if (r->states[i] == LF_RESTORE_COMING) r->states[i] = whole ? LF_RESTORE_THERE : LF_RESTORE_NONE;
}

void lf_restore_forget(struct lf_sched_seq *seq, int i)
{
    if (state_at(seq, i) != LF_RESTORE_NONE) seq->restore.states[i] = LF_RESTORE_NONE;
}

int lf_restore_step_over(struct lf_sched_seq *seq)
{
    int before = seq->n_done;
    while (seq->n_done % BLOCK == 0 && state_at(seq, seq->n_done / BLOCK) == LF_RESTORE_THERE) seq->n_done += BLOCK;
    return seq->n_done - before;
}

int lf_restore_room(const struct lf_sched_seq *seq)
{
    const struct lf_restore *r = &seq->restore;
    int i = seq->n_done / BLOCK;
    if (i >= r->end) return seq->n_prompt - seq->n_done;
    enum lf_restore_state least = r->way == LF_RESTORE_WAIT ? LF_RESTORE_BELOW : LF_RESTORE_COMING;
    while (i < r->end && state_at(seq, i) < least) i++;
    return i < r->end ? LF_MAX(i * BLOCK - seq->n_done, 0) : seq->n_prompt - seq->n_done;
}

void lf_restore_claim(struct lf_sched_seq *seq, int n)
{
    for (int i = seq->n_done / BLOCK; i * BLOCK < seq->n_done + n && i < seq->restore.end; i++)
        lf_restore_forget(seq, i);
}

int lf_restore_next_computed(const struct lf_sched_seq *seq)
{
    const struct lf_restore *r = &seq->restore;
    return r->way == LF_RESTORE_WAIT ? LF_MAX(seq->n_done, r->end * BLOCK) : seq->n_done;
}
