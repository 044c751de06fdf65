/* See restore.h. */
#include "server/engine/restore.h"

#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/block_tables.h"
#include "server/engine/scheduler.h"
#include "server/engine/states.h"

enum { TIERS_N = LF_RESTORE_TIERS_N };
enum { LEARNT_N = 32, LEAST_COMING_N = 16 };
enum { STATE_BITS = 2, STATE_MASK = (1 << STATE_BITS) - 1 }; /* of a block's byte; above them is its tier */
static const double LONGEST_STEP = 1.25;                     /* of alone_ns: steps are predicted, not kept */
static const double FORGETTING = 0.9;
static const double WORTH = 0.9; /* a way that takes the device has to be done in so much of the other's time */

enum lf_restore_way lf_restore_choose(double compute_ns, double load_ns, bool may_meet)
{
    if (!may_meet) return load_ns < WORTH * compute_ns ? LF_RESTORE_WAIT : LF_RESTORE_NOT;
    double both_ns = compute_ns * load_ns / (compute_ns + load_ns);
    if (both_ns > WORTH * load_ns) return LF_RESTORE_WAIT;
    return both_ns > WORTH * compute_ns ? LF_RESTORE_NOT : LF_RESTORE_MEET;
}

int lf_restore_group(const struct lf_sched_seq *seq, int i)
{
    return seq->restore.leaps ? i / seq->table_stride : 0;
}

int lf_restore_idx(const struct lf_sched_seq *seq, int i)
{
    return seq->restore.leaps ? i % seq->table_stride : i;
}

int lf_restore_part(const struct lf_sched_seq *seq, int i)
{
    const struct lf_restore *r = &seq->restore;
    return r->first_part > 0 && i >= r->first_part ? i - r->first_part : -1;
}

enum lf_restore_state lf_restore_state_at(const struct lf_sched_seq *seq, int i)
{
    const struct lf_restore *r = &seq->restore;
    int at = lf_restore_idx(seq, i);
    if (lf_restore_part(seq, i) < 0 && (at < r->first || at >= r->end)) return LF_RESTORE_NONE;
    return (enum lf_restore_state)(r->states[i] & STATE_MASK);
}

int lf_restore_tier_at(const struct lf_sched_seq *seq, int i)
{
    return seq->restore.states[i] >> STATE_BITS;
}

static void set_state(struct lf_sched_seq *seq, int i, enum lf_restore_state state, int tier)
{
    seq->restore.states[i] = (uint8_t)((unsigned)state | (unsigned)tier << STATE_BITS);
}

static int n_below_of(const struct lf_restore *r)
{
    int n = 0;
    for (int t = 0; t < TIERS_N; t++) n += r->n_below[t];
    return n;
}

/* What has not been sent for, of one tier, is computed. */
static void forget_tier(struct lf_sched_seq *seq, int tier)
{
    struct lf_restore *r = &seq->restore;
    for (int i = r->first; i < r->end; i++)
        if (lf_restore_state_at(seq, i) == LF_RESTORE_BELOW && lf_restore_tier_at(seq, i) == tier)
            set_state(seq, i, LF_RESTORE_NONE, 0);
    r->n_below[tier] = 0;
}

/* What all that is below takes: all tiers bring blocks at once. *longest: the tier that needs so long. */
static double load_ns_of(const struct lf_restore_source *below, const struct lf_restore *r, int *longest)
{
    double most_ns = -1;
    for (int t = 0; t < TIERS_N; t++) {
        double ns = r->n_below[t] * below->block_ns[t];
        if (ns <= most_ns) continue;
        most_ns = ns;
        *longest = t;
    }
    return most_ns;
}

/* What computing all that is below takes: each block where it lies. */
static double compute_ns_of(const struct lf_sched *s, const struct lf_sched_seq *seq)
{
    double ns = 0;
    for (int i = seq->restore.first; i < seq->restore.end; i++)
        if (lf_restore_state_at(seq, i) == LF_RESTORE_BELOW)
            ns += lf_cost_prefill_ns(&s->cost, i * seq->block_tokens, seq->block_tokens, 0);
    return ns;
}

/* Whether both should begin because no step, here or in the process before, has told yet what computing takes. What is
 * loaded within a step is simply waited for. */
static bool nobody_knows(const struct lf_sched *s, double load_ns)
{
    return s->opts.below.may_meet && !s->cost.is_known && load_ns > (double)s->opts.alone_ns;
}

static void look_below(struct lf_sched *s, struct lf_sched_seq *seq, int first, int end)
{
    const struct lf_restore_source *below = &s->opts.below;
    struct lf_restore *r = &seq->restore;
    r->first = r->end = first;
    for (int i = 0; i < first; i++) (void)below->find(below->ctx, &seq->keys[i + 1]); /* asked for, all the same */
    for (int i = first; i < end; i++) {
        int tier = below->find(below->ctx, &seq->keys[i + 1]);
        if (tier < 0) continue;
        if (r->end == first) r->first = i;
        r->end = i + 1;
        set_state(seq, i, LF_RESTORE_BELOW, tier);
        r->n_below[tier]++;
    }
}

static bool has_room(const struct lf_restore_traffic *traffic, int tier)
{
    return traffic->n_ahead[tier] < traffic->n_most[tier];
}

/* ---- leaps ---- */

static int tier_of(struct lf_sched *s, const struct lf_sched_seq *seq, int g, int i)
{
    struct lf_prefix_key key = lf_prefix_group_key(&seq->keys[i + 1], g);
    return s->opts.below.find(s->opts.below.ctx, &key);
}

/* A part of the snapshot behind n blocks. */
static int tier_of_part(struct lf_sched *s, const struct lf_sched_seq *seq, int n, int part)
{
    struct lf_prefix_key key = lf_prefix_group_key(&seq->keys[n], LF_STATES_PART_GROUP + part);
    return s->opts.below.find(s->opts.below.ctx, &key);
}

static int n_parts(const struct lf_sched *s)
{
    return lf_states_on(s) ? s->opts.slot_blocks : 0;
}

static bool has_snapshot(struct lf_sched *s, const struct lf_sched_seq *seq, int n)
{
    for (int i = 0; i < n_parts(s); i++)
        if (tier_of_part(s, seq, n, i) < 0) return false;
    return true;
}

/* The first block of a group that is to come for a leap from `first` to `end`. */
static int first_coming(const struct lf_sched *s, int g, int first, int end)
{
    return LF_MAX(first, lf_kv_windows_first(&s->opts.windows, g, end));
}

/* Of what a leap to n needs in a group with a window the last that is not below; -1: all is. */
static int last_missing(struct lf_sched *s, const struct lf_sched_seq *seq, int g, int first, int n)
{
    for (int i = n - 1; i >= first_coming(s, g, first, n); i--)
        if (tier_of(s, seq, g, i) < 0) return i;
    return -1;
}

/* What keeps it from leaping to n: then it is no further than this. -1: nothing. */
static int missing_for(struct lf_sched *s, const struct lf_sched_seq *seq, int first, int n)
{
    if (!has_snapshot(s, seq, n)) return n - 1;
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        int missing = lf_kv_windows_slides(&s->opts.windows, g) ? last_missing(s, seq, g, first, n) : -1;
        if (missing >= 0) return missing;
    }
    return -1;
}

/* The furthest that a sequence which has the first blocks can leap. What is looked for is as in lf_sched_hit. */
static int furthest(struct lf_sched *s, const struct lf_sched_seq *seq, int first, int end)
{
    const struct lf_kv_windows *w = &s->opts.windows;
    int n = end;
    for (int g = 0; g < lf_kv_windows_n(w); g++)
        for (int i = first; i < n && !lf_kv_windows_slides(w, g); i++)
            if (tier_of(s, seq, g, i) < 0) n = i;
    for (int missing; n > first && (missing = missing_for(s, seq, first, n)) >= 0;) n = missing;
    return LF_MAX(n, first);
}

/* Notes what is to come; returns how many blocks of windows that are. */
static int note_coming(struct lf_sched *s, struct lf_sched_seq *seq, int first, int end)
{
    struct lf_restore *r = &seq->restore;
    int n_sliding = 0;
    r->leaps = true;
    r->way = LF_RESTORE_WAIT;
    r->first = first;
    r->end = end;
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        int from = first_coming(s, g, first, end);
        if (lf_kv_windows_slides(&s->opts.windows, g)) n_sliding += end - from;
        for (int i = from; i < end; i++) {
            int tier = tier_of(s, seq, g, i);
            set_state(seq, g * seq->table_stride + i, LF_RESTORE_BELOW, tier);
            r->n_below[tier]++;
        }
    }
    if (n_parts(s) > 0) r->first_part = lf_kv_windows_n(&s->opts.windows) * seq->table_stride;
    for (int i = 0; i < n_parts(s); i++) {
        int tier = tier_of_part(s, seq, end, i);
        set_state(seq, r->first_part + i, LF_RESTORE_BELOW, tier);
        r->n_below[tier]++;
    }
    return n_sliding;
}

static void end_leap(struct lf_sched *s, struct lf_sched_seq *seq)
{
    struct lf_restore *r = &seq->restore;
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++)
        memset(r->states + (ptrdiff_t)g * seq->table_stride + r->first, 0, (size_t)(r->end - r->first));
    if (n_parts(s) > 0) memset(r->states + r->first_part, 0, (size_t)n_parts(s));
    *r = (struct lf_restore){.states = r->states};
}

static void plan_leap(struct lf_sched *s, struct lf_sched_seq *seq, int first, int end)
{
    struct lf_restore_source *below = &s->opts.below;
    struct lf_restore *r = &seq->restore;
    int n = furthest(s, seq, first, end), longest = 0;
    if (n == first) return;
    int n_sliding = note_coming(s, seq, first, n);
    double load_ns = load_ns_of(below, r, &longest);
    double compute_ns = lf_cost_prefill_ns(&s->cost, first * seq->block_tokens, (n - first) * seq->block_tokens, 0);
    bool pays = lf_restore_choose(compute_ns, load_ns, false) == LF_RESTORE_WAIT;
    if (!pays) below->block_ns[longest] *= FORGETTING;
    if (pays && n_sliding <= lf_sched_n_spare(s) && lf_states_take_coming(s, seq))
        lf_tables_take_coming(s, seq, n);
    else
        end_leap(s, seq);
}

int lf_restore_leap(struct lf_sched *s, struct lf_sched_seq *seq)
{
    struct lf_restore *r = &seq->restore;
    int n = 0;
    if (n_below_of(r) + r->n_coming > 0) return 0;
    if (r->failed) {
        lf_tables_drop_coming(s, seq);
        lf_states_drop_coming(s, seq);
    } else {
        n = r->end * seq->block_tokens - seq->n_done;
        lf_tables_leap(s, seq, r->end);
        lf_states_leap(s, seq, r->end);
    }
    end_leap(s, seq);
    return n;
}

/* The next block of a leap, in the order of the tables. */
static int next_of_leap(const struct lf_sched *s, struct lf_sched_seq *seq, const struct lf_restore_traffic *traffic)
{
    struct lf_restore *r = &seq->restore;
    int end = lf_kv_windows_n(&s->opts.windows) * seq->table_stride + n_parts(s);
    while (r->next < end && lf_restore_state_at(seq, r->next) != LF_RESTORE_BELOW) r->next++;
    if (r->next == end) return -1;
    int i = r->next, tier = lf_restore_tier_at(seq, i);
    if (!has_room(traffic, tier)) return -1;
    set_state(seq, i, LF_RESTORE_COMING, tier);
    r->n_below[tier]--;
    r->n_coming++;
    return i;
}

void lf_restore_plan(struct lf_sched *s, struct lf_sched_seq *seq, int first, int end)
{
    struct lf_restore_source *below = &s->opts.below;
    struct lf_restore *r = &seq->restore;
    if (!below->find || !r->states) return;
    if (s->opts.windows.n > 1 || lf_kv_windows_n_sliding(&s->opts.windows) > 0 || lf_states_on(s)) {
        plan_leap(s, seq, first, end);
        return;
    }
    look_below(s, seq, first, end);
    while (n_below_of(r) > 0) {
        int longest = 0;
        double load_ns = load_ns_of(below, r, &longest);
        r->way = lf_restore_choose(compute_ns_of(s, seq), load_ns, below->may_meet);
        if (nobody_knows(s, load_ns)) r->way = LF_RESTORE_MEET;
        if (r->way != LF_RESTORE_NOT) return;
        forget_tier(seq, longest);
        below->block_ns[longest] *= FORGETTING;
    }
}

/* It waits longer than it was to: whether it still would. Twice the same question may not be answered differently for
 * a trifle, so what only may wait gives up when computing is faster by as much as loading had to be. */
static void choose_again(const struct lf_sched *s, struct lf_sched_seq *seq)
{
    const struct lf_restore_source *below = &s->opts.below;
    struct lf_restore *r = &seq->restore;
    int n_below = n_below_of(r), longest = 0;
    if (r->way != LF_RESTORE_WAIT || n_below == 0 || r->leaps) return;
    double compute_ns =
        lf_cost_prefill_ns(&s->cost, (r->end - n_below) * seq->block_tokens, n_below * seq->block_tokens, 0);
    double load_ns = load_ns_of(below, r, &longest);
    enum lf_restore_way way = lf_restore_choose(compute_ns, load_ns, below->may_meet);
    if (way == LF_RESTORE_WAIT || (way == LF_RESTORE_NOT && compute_ns >= WORTH * load_ns)) return;
    if (way == LF_RESTORE_NOT) forget_tier(seq, longest);
    r->way = way == LF_RESTORE_NOT && n_below_of(r) > 0 ? LF_RESTORE_WAIT : way;
}

/* Whether block i of a tier will be back before the device could have computed up to it. */
static bool comes_in_time(const struct lf_sched *s, const struct lf_sched_seq *seq, int i, int n_ahead)
{
    double compute_ns = lf_cost_prefill_ns(&s->cost, seq->n_done, i * seq->block_tokens - seq->n_done, 0);
    return (n_ahead + 1) * s->opts.below.block_ns[lf_restore_tier_at(seq, i)] <= compute_ns;
}

/* Whether it wants something of a tier that more may come from. */
static bool wants(const struct lf_restore *r, const struct lf_restore_traffic *traffic)
{
    for (int t = 0; t < TIERS_N; t++)
        if (r->n_below[t] > 0 && has_room(traffic, t)) return true;
    return false;
}

int lf_restore_next(const struct lf_sched *s, struct lf_sched_seq *seq, const struct lf_restore_traffic *traffic)
{
    struct lf_restore *r = &seq->restore;
    bool meet = r->way == LF_RESTORE_MEET;
    int lowest = LF_MAX(r->first, (seq->n_done + seq->block_tokens - 1) / seq->block_tokens);
    if (!wants(r, traffic)) return -1;
    if (r->leaps) return next_of_leap(s, seq, traffic);
    for (int k = 0; k < r->end - lowest; k++) {
        int i = meet ? r->end - 1 - k : lowest + k, tier = lf_restore_tier_at(seq, i);
        if (lf_restore_state_at(seq, i) != LF_RESTORE_BELOW || !has_room(traffic, tier)) continue;
        if (meet && !comes_in_time(s, seq, i, traffic->n_ahead[tier])) return -1;
        set_state(seq, i, LF_RESTORE_COMING, tier);
        r->n_below[tier]--;
        r->n_coming++;
        return i;
    }
    return -1;
}

static int n_told(const struct lf_restore_guess *guess)
{
    return LF_MAX(guess->n_told, LF_RESTORE_TOLD_N);
}

/* More would only stand before what somebody else sends for, and where the rate is a guess, before what is computed
 * sooner. */
static int most_coming(const struct lf_sched *s, int tier, int n_most)
{
    const struct lf_restore_guess *guess = &s->opts.below.guesses[tier];
    if (guess->is_guess) return LF_MIN(2 * n_told(guess), n_most);
    double n = LONGEST_STEP * (double)s->opts.alone_ns / s->opts.below.block_ns[tier];
    return (int)LF_MIN(LF_MAX(n, LEAST_COMING_N), n_most);
}

/* Sends for one block of each sequence with fewer than `most_each` coming. Returns the number of which one has fewer
 * that might get another: the next round's; 0: none. */
static int send_round(struct lf_sched *s, const struct lf_restore_sender *sender, int most_each,
                      struct lf_restore_traffic *traffic)
{
    int next = 0;
    LF_LIST_EACH(it, &s->running)
    {
        struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        if (!wants(&seq->restore, traffic) || !sender->may(sender->ctx, seq)) continue;
        if (seq->restore.n_coming < most_each) {
            choose_again(s, seq);
            int i = lf_restore_next(s, seq, traffic);
            if (i < 0) continue;
            int tier = lf_restore_tier_at(seq, i);
            sender->send(sender->ctx, seq, i, tier);
            traffic->n_ahead[tier]++;
        }
        int own = seq->restore.n_coming + 1;
        next = next ? LF_MIN(next, own) : own;
    }
    return next;
}

void lf_restore_send(struct lf_sched *s, const struct lf_restore_sender *sender, const int n_ahead[TIERS_N], int n_most)
{
    struct lf_restore_traffic traffic;
    memcpy(traffic.n_ahead, n_ahead, sizeof(traffic.n_ahead));
    for (int t = 0; t < TIERS_N; t++) traffic.n_most[t] = most_coming(s, t, n_most);
    for (int most_each = 1; most_each;) most_each = send_round(s, sender, most_each, &traffic);
}

void lf_restore_learn(struct lf_restore_source *below, int tier, double n, double ns)
{
    struct lf_restore_guess *guess = &below->guesses[tier];
    if (!guess->is_guess) {
        below->block_ns[tier] = (LEARNT_N * below->block_ns[tier] + ns) / (LEARNT_N + n);
        return;
    }
    guess->n += n;
    guess->ns += ns;
    if (guess->n < n_told(guess)) return;
    below->block_ns[tier] = guess->ns / guess->n;
    guess->is_guess = false;
}

void lf_restore_back(struct lf_sched_seq *seq, int i, bool whole)
{
    LF_ASSERT(seq->restore.n_coming > 0);
    seq->restore.n_coming--;
    if (lf_restore_state_at(seq, i) == LF_RESTORE_COMING)
        set_state(seq, i, whole ? LF_RESTORE_THERE : LF_RESTORE_NONE, 0);
    if (whole || !seq->restore.leaps) return;
    seq->restore.failed = true; /* no more of it is sent for */
    memset(seq->restore.n_below, 0, sizeof(seq->restore.n_below));
}

void lf_restore_forget(struct lf_sched_seq *seq, int i)
{
    enum lf_restore_state state = lf_restore_state_at(seq, i);
    if (state == LF_RESTORE_BELOW) seq->restore.n_below[lf_restore_tier_at(seq, i)]--;
    if (state != LF_RESTORE_NONE) set_state(seq, i, LF_RESTORE_NONE, 0);
}

int lf_restore_step_over(struct lf_sched_seq *seq)
{
    int before = seq->n_done;
    while (seq->n_done % seq->block_tokens == 0 &&
           lf_restore_state_at(seq, seq->n_done / seq->block_tokens) == LF_RESTORE_THERE)
        seq->n_done += seq->block_tokens;
    return seq->n_done - before;
}

int lf_restore_room(const struct lf_sched_seq *seq)
{
    const struct lf_restore *r = &seq->restore;
    int i = seq->n_done / seq->block_tokens;
    if (r->leaps) return 0;
    if (i >= r->end) return seq->n_prompt - seq->n_done;
    enum lf_restore_state least = r->way == LF_RESTORE_WAIT ? LF_RESTORE_BELOW : LF_RESTORE_COMING;
    while (i < r->end && lf_restore_state_at(seq, i) < least) i++;
    return i < r->end ? LF_MAX(i * seq->block_tokens - seq->n_done, 0) : seq->n_prompt - seq->n_done;
}

void lf_restore_claim(struct lf_sched_seq *seq, int n)
{
    for (int i = seq->n_done / seq->block_tokens; i * seq->block_tokens < seq->n_done + n && i < seq->restore.end; i++)
        lf_restore_forget(seq, i);
}

int lf_restore_next_computed(const struct lf_sched_seq *seq)
{
    const struct lf_restore *r = &seq->restore;
    return r->way == LF_RESTORE_WAIT ? LF_MAX(seq->n_done, r->end * seq->block_tokens) : seq->n_done;
}
