/* See restore.h. */
#include "server/engine/restore.h"

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/scheduler.h"

enum { BLOCK = LF_KV_BLOCK_TOKENS, LEARNT_N = 32, LEAST_COMING_N = 16 };
static const double LONGEST_STEP = 1.25; /* of alone_ns: steps are predicted, not kept */
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

/* What has not been sent for is computed. */
static void forget_below(struct lf_restore *r)
{
    for (int i = r->first; i < r->end; i++)
        if (r->states[i] == LF_RESTORE_BELOW) r->states[i] = LF_RESTORE_NONE;
    r->n_below = 0;
}

/* Whether both should begin because no step has told yet what computing takes. What is loaded within a step is simply
 * waited for. */
static bool nobody_knows(const struct lf_sched *s, double load_ns)
{
    return s->opts.below.may_meet && s->cost.n_seen == 0 && load_ns > (double)s->opts.alone_ns;
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
        r->n_below++;
        if (r->end == first) r->first = i;
        r->end = i + 1;
        compute_ns += lf_cost_prefill_ns(&s->cost, i * BLOCK, BLOCK, 0);
        load_ns += below->block_ns;
    }
    if (r->end == r->first) return;
    r->way = lf_restore_choose(compute_ns, load_ns, below->may_meet);
    if (nobody_knows(s, load_ns)) r->way = LF_RESTORE_MEET;
    if (r->way != LF_RESTORE_NOT) return;
    forget_below(r);
    below->block_ns *= FORGETTING;
}

/* It waits longer than it was to: whether it still would. Twice the same question may not be answered differently for
 * a trifle, so what only may wait gives up when computing is faster by as much as loading had to be. */
static void choose_again(const struct lf_sched *s, struct lf_sched_seq *seq)
{
    const struct lf_restore_source *below = &s->opts.below;
    struct lf_restore *r = &seq->restore;
    if (r->way != LF_RESTORE_WAIT || r->n_below == 0) return;
    double compute_ns = lf_cost_prefill_ns(&s->cost, (r->end - r->n_below) * BLOCK, r->n_below * BLOCK, 0);
    double load_ns = r->n_below * below->block_ns;
    enum lf_restore_way way = lf_restore_choose(compute_ns, load_ns, below->may_meet);
    if (way == LF_RESTORE_WAIT || (way == LF_RESTORE_NOT && compute_ns >= WORTH * load_ns)) return;
    r->way = way;
    if (way == LF_RESTORE_NOT) forget_below(r);
}

/* Whether block i will be back before the device could have computed up to it. */
static bool comes_in_time(const struct lf_sched *s, const struct lf_sched_seq *seq, int i, int n_ahead)
{
    double compute_ns = lf_cost_prefill_ns(&s->cost, seq->n_done, i * BLOCK - seq->n_done, 0);
    return (n_ahead + 1) * s->opts.below.block_ns <= compute_ns;
}

int lf_restore_next(const struct lf_sched *s, struct lf_sched_seq *seq, int n_ahead)
{
    struct lf_restore *r = &seq->restore;
    bool meet = r->way == LF_RESTORE_MEET;
    int lowest = LF_MAX(r->first, (seq->n_done + BLOCK - 1) / BLOCK);
    for (int k = 0; r->n_below > 0 && k < r->end - lowest; k++) {
        int i = meet ? r->end - 1 - k : lowest + k;
        if (r->states[i] != LF_RESTORE_BELOW) continue;
        if (meet && !comes_in_time(s, seq, i, n_ahead)) return -1;
        r->states[i] = LF_RESTORE_COMING;
        r->n_below--;
        r->n_coming++;
        return i;
    }
    return -1;
}

/* More would only stand before what somebody else sends for. */
static int most_coming(const struct lf_sched *s, int n_most)
{
    double n = LONGEST_STEP * (double)s->opts.alone_ns / s->opts.below.block_ns;
    return (int)LF_MIN(LF_MAX(n, LEAST_COMING_N), n_most);
}

/* Sends for one block of each sequence with fewer than `most_each` coming. Returns the number of which one has fewer
 * that might get another: the next round's; 0: none. */
static int send_round(struct lf_sched *s, const struct lf_restore_sender *sender, int most_each, int *n_ahead,
                      int n_most)
{
    int next = 0;
    LF_LIST_EACH(it, &s->running)
    {
        struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        if (seq->restore.n_below == 0 || *n_ahead >= n_most || !sender->may(sender->ctx, seq)) continue;
        if (seq->restore.n_coming < most_each) {
            choose_again(s, seq);
            int i = lf_restore_next(s, seq, *n_ahead);
            if (i < 0) continue;
            sender->send(sender->ctx, seq, i);
            ++*n_ahead;
        }
        int own = seq->restore.n_coming + 1;
        next = next ? LF_MIN(next, own) : own;
    }
    return next;
}

void lf_restore_send(struct lf_sched *s, const struct lf_restore_sender *sender, int n_ahead, int n_most)
{
    n_most = most_coming(s, n_most);
    for (int most_each = 1; most_each && n_ahead < n_most;)
        most_each = send_round(s, sender, most_each, &n_ahead, n_most);
}

void lf_restore_learn(struct lf_restore_source *below, double n, double ns)
{
    below->block_ns = (LEARNT_N * below->block_ns + ns) / (LEARNT_N + n);
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
    enum lf_restore_state state = state_at(seq, i);
    if (state == LF_RESTORE_BELOW) seq->restore.n_below--;
    if (state != LF_RESTORE_NONE) seq->restore.states[i] = LF_RESTORE_NONE;
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
