/* See states.h. */
#include "server/engine/states.h"

#include "core/check.h"
#include "core/limits.h"
#include "model/batch.h"
#include "server/engine/marks.h"

_Static_assert((int)LF_KV_BLOCK_TOKENS == (int)LF_DELTA_CHUNK, "a mark lies where a block ends");

/* ---- slots ---- */

int lf_states_n_spare(const struct lf_sched *s)
{
    int n_to_come = s->opts.max_seqs + s->opts.n_kept - s->n_working;
    return lf_block_pool_n_available(s->opts.slots) - n_to_come - s->n_due;
}

static bool is_used(const struct lf_sched *s, int32_t slot)
{
    return s->opts.slots->blocks[slot].n_refs > 0;
}

bool lf_states_may_hold(const struct lf_sched *s, int32_t slot)
{
    return is_used(s, slot) || lf_states_n_spare(s) > 0;
}

static void put(struct lf_sched *s, int32_t *slot)
{
    if (*slot >= 0) lf_block_pool_put(s->opts.slots, *slot);
    *slot = -1;
}

static void drop(struct lf_sched *s, int32_t slot)
{
    lf_prefix_cache_forget(s->opts.snapshots, slot);
    s->n_snapshots_dropped++;
}

int32_t lf_states_find(const struct lf_sched *s, const struct lf_sched_seq *seq, int n)
{
    return lf_prefix_cache_find(s->opts.snapshots, &seq->keys[n - 1], &seq->keys[n],
                                seq->ids + (ptrdiff_t)(n - 1) * seq->block_tokens);
}

/* A slot that holds the state behind n blocks is offered to the cache, which may have it already. */
static void enter(struct lf_sched *s, const struct lf_sched_seq *seq, int n, int32_t slot)
{
    const struct lf_prefix_origin origin = {.tenant = seq->tenant_id, .depth = (uint32_t)((n - 1) * seq->block_tokens)};
    lf_prefix_cache_insert_key(s->opts.snapshots, &seq->keys[n - 1], &seq->keys[n],
                               seq->ids + (ptrdiff_t)(n - 1) * seq->block_tokens, slot, origin);
}

/* ---- marks ---- */

int lf_states_pinned_end(const struct lf_sched_seq *seq, int k)
{
    return (seq->n_prompt - 1 + k) / seq->block_tokens;
}

int lf_states_n_pinned(const struct lf_sched_seq *seq)
{
    int first = lf_states_pinned_end(seq, 0), second = lf_states_pinned_end(seq, 1);
    return (first > 0) + (second > first);
}

/* The k-th of its prompt's marks, in blocks, of n_marks_of_prompt, in no order; some may be 0 or the same. */
static int mark_of_prompt(const struct lf_sched_seq *seq, int k)
{
    if (k < seq->n_marks) return seq->marks[k] / seq->block_tokens;
    return k == seq->n_marks ? (seq->n_prompt - 1) / seq->block_tokens : seq->n_prompt / seq->block_tokens;
}

static int n_marks_of_prompt(const struct lf_sched_seq *seq)
{
    return seq->n_marks + 1 + (seq->pin != LF_PIN_NONE);
}

static bool is_mark_of_prompt(const struct lf_sched_seq *seq, int n)
{
    for (int k = 0; k < n_marks_of_prompt(seq); k++)
        if (n == mark_of_prompt(seq, k)) return true;
    return false;
}

int lf_states_next_mark(const struct lf_sched_seq *seq, int n, int most)
{
    int every = lf_marks_every(seq->block_tokens) / seq->block_tokens, next = (n / every + 1) * every;
    for (int k = 0; k < n_marks_of_prompt(seq); k++) {
        int mark = mark_of_prompt(seq, k);
        if (mark > n && mark < next) next = mark;
    }
    return next <= most ? next : 0;
}

int lf_states_last_mark(const struct lf_sched_seq *seq, int n, int most)
{
    int every = lf_marks_every(seq->block_tokens) / seq->block_tokens, last = most / every * every;
    for (int k = 0; k < n_marks_of_prompt(seq); k++) {
        int mark = mark_of_prompt(seq, k);
        if (mark <= most && mark > last) last = mark;
    }
    return last > n ? last : 0;
}

/* ---- pins ---- */

/* The snapshot behind the k-th of its ends; -1: there is none, or that is none. */
static int32_t find_end(const struct lf_sched *s, const struct lf_sched_seq *seq, int k)
{
    int n = lf_states_pinned_end(seq, k);
    bool is_other = k == 0 || n > lf_states_pinned_end(seq, 0);
    return n > 0 && is_other ? lf_states_find(s, seq, n) : -1;
}

int lf_states_n_to_pin(const struct lf_sched *s, const struct lf_sched_seq *seq)
{
    int n = lf_states_n_pinned(seq);
    for (int k = 0; k < LF_STATES_PINNED_N; k++) {
        int32_t slot = find_end(s, seq, k);
        n -= slot >= 0 && s->opts.slots->blocks[slot].n_pins > 0;
    }
    return n;
}

/* Those of its ends that are there, and are not pinned yet. */
static void pin_ends(struct lf_sched *s, struct lf_sched_seq *seq)
{
    for (int k = 0; k < LF_STATES_PINNED_N && seq->pin != LF_PIN_NONE; k++) {
        int32_t slot = seq->states_pinned[k] < 0 ? find_end(s, seq, k) : -1;
        if (slot < 0 || (seq->due == 0 && !lf_states_may_hold(s, slot))) continue;
        lf_block_pool_pin(s->opts.slots, slot);
        seq->states_pinned[k] = slot;
        s->n_due -= seq->due > 0;
        seq->due -= seq->due > 0;
    }
}

void lf_states_unpin(struct lf_sched *s, struct lf_sched_seq *seq)
{
    for (int k = LF_STATES_PINNED_N - 1; k >= 0; k--) {
        if (seq->states_pinned[k] >= 0) lf_block_pool_unpin(s->opts.slots, seq->states_pinned[k]);
        seq->states_pinned[k] = -1;
    }
}

/* ---- where it begins, and goes on ---- */

void lf_states_init(struct lf_sched_seq *seq)
{
    seq->state = seq->state_in = seq->state_coming = seq->state_mark = -1;
    for (int k = 0; k < LF_STATES_PINNED_N; k++) seq->states_pinned[k] = -1;
    seq->n_multiple = seq->due = 0;
}

/* seq is to read the snapshot behind n blocks. false: it has become its working slot. */
static bool read_from(struct lf_sched *s, struct lf_sched_seq *seq, int n)
{
    int32_t slot = lf_states_find(s, seq, n);
    LF_ASSERT(slot >= 0);
    bool is_spared = lf_states_may_hold(s, slot);
    s->n_snapshots_read++;
    lf_block_pool_get(s->opts.slots, slot);
    if (is_spared) {
        seq->state_in = slot;
    } else {
        drop(s, slot);
        put(s, &seq->state);
        seq->state = slot;
    }
    return is_spared;
}

void lf_states_begin(struct lf_sched *s, struct lf_sched_seq *seq, int n)
{
    if (!lf_states_on(s)) return;
    if (seq->pin == LF_PIN_DEVICE) seq->due = lf_states_n_pinned(seq);
    s->n_due += seq->due;
    pin_ends(s, seq);
    if (n == 0 || read_from(s, seq, n)) LF_ASSERT(lf_block_pool_take(s->opts.slots, &seq->state));
    s->n_working++;
    LF_ASSERT(lf_states_n_spare(s) >= 0); /* who has too many shows here, not only when none is left */
}

void lf_states_take_over(struct lf_sched *s, struct lf_sched_seq *seq, int n)
{
    if (!lf_states_on(s)) return;
    put(s, &seq->state_in);
    (void)read_from(s, seq, n);
    pin_ends(s, seq);
}

bool lf_states_take_coming(struct lf_sched *s, struct lf_sched_seq *seq)
{
    if (!lf_states_on(s)) return true;
    if (lf_states_n_spare(s) <= 0) return false;
    return lf_block_pool_take(s->opts.slots, &seq->state_coming);
}

void lf_states_leap(struct lf_sched *s, struct lf_sched_seq *seq, int n)
{
    if (!lf_states_on(s)) return;
    put(s, &seq->state_in);
    s->n_snapshots_read++;
    enter(s, seq, n, seq->state_coming);
    seq->state_in = seq->state_coming;
    seq->state_coming = -1;
    pin_ends(s, seq);
}

void lf_states_drop_coming(struct lf_sched *s, struct lf_sched_seq *seq)
{
    if (lf_states_on(s)) put(s, &seq->state_coming);
}

/* ---- steps ---- */

/* A mark at a multiple takes the place of the one before, where it would take another's. */
static void make_room_for_multiple(struct lf_sched *s, struct lf_sched_seq *seq)
{
    int n = seq->n_multiple;
    if (s->opts.slots->n_free > 0 || n == 0 || n > seq->n_entered) return;
    int32_t slot = lf_states_find(s, seq, n);
    if (slot >= 0 && !is_used(s, slot)) drop(s, slot);
}

static void plan_mark(struct lf_sched *s, struct lf_sched_step *step, struct lf_sched_item *item, int n)
{
    struct lf_sched_seq *seq = item->seq;
    if (n < seq->n_keys && lf_states_find(s, seq, n) >= 0) return;
    if (lf_states_n_spare(s) + seq->due <= 0 || step->n_marks == lf_batch_n_marks(s->opts.max_seqs)) {
        s->n_marks_skipped++;
        return;
    }
    if (!is_mark_of_prompt(seq, n)) {
        make_room_for_multiple(s, seq);
        seq->n_multiple = n;
    }
    struct lf_state_mark *mark = &step->marks[step->n_marks++];
    mark->n_tokens = n * item->seq->block_tokens - item->first;
    LF_ASSERT(lf_block_pool_take(s->opts.slots, &mark->slot));
    item->state.n_marks++;
}

void lf_states_plan(struct lf_sched *s, struct lf_sched_step *step, int first_token)
{
    struct lf_sched_item *item = &step->items[step->n_items - 1];
    struct lf_sched_seq *seq = item->seq;
    if (!lf_states_on(s)) return;
    item->state = (struct lf_state_seq){.first_token = first_token,
                                        .n_tokens = item->n_tokens,
                                        .position = item->first,
                                        .in = seq->state_in >= 0 || item->first == 0 ? seq->state_in : seq->state,
                                        .out = seq->state,
                                        .first_mark = step->n_marks};
    if (!seq->keys) return;
    int n = item->first / item->seq->block_tokens, end = (item->first + item->n_tokens) / item->seq->block_tokens;
    pin_ends(s, seq); /* before another mark takes the place of one that need not be made */
    while ((n = lf_states_next_mark(seq, n, end)) > 0) plan_mark(s, step, item, n);
}

void lf_states_known(struct lf_sched *s, struct lf_sched_seq *seq)
{
    if (!lf_states_on(s) || seq->state_mark < 0 || seq->n_entered < seq->n_mark) return;
    enter(s, seq, seq->n_mark, seq->state_mark);
    put(s, &seq->state_mark);
}

void lf_states_launched(struct lf_sched *s, const struct lf_sched_step *step, const struct lf_sched_item *item)
{
    struct lf_sched_seq *seq = item->seq;
    if (!lf_states_on(s)) return;
    put(s, &seq->state_in);
    for (int i = 0; i < item->state.n_marks; i++) {
        const struct lf_state_mark *mark = &step->marks[item->state.first_mark + i];
        LF_ASSERT(seq->state_mark < 0); /* ids are unknown of a decode's alone, which passes one now and then */
        seq->state_mark = mark->slot;
        seq->n_mark = (item->first + mark->n_tokens) / item->seq->block_tokens;
        lf_states_known(s, seq);
    }
    pin_ends(s, seq);
}

/* ---- the end ---- */

static void touch(struct lf_sched *s, const struct lf_sched_seq *seq, int n)
{
    int32_t slot = lf_states_find(s, seq, n);
    if (slot < 0 || is_used(s, slot)) return;
    lf_block_pool_get(s->opts.slots, slot);
    lf_block_pool_put(s->opts.slots, slot);
}

static void touch_all(struct lf_sched *s, const struct lf_sched_seq *seq)
{
    for (int pass = 0; pass < 2 && seq->keys; pass++)
        for (int n = seq->n_entered; (n = lf_states_last_mark(seq, 0, n)) > 0; n--)
            if (is_mark_of_prompt(seq, n) == (pass == 1)) touch(s, seq, n);
}

/* All but its pins. */
static void let_go(struct lf_sched *s, struct lf_sched_seq *seq)
{
    put(s, &seq->state_in);
    put(s, &seq->state_coming);
    put(s, &seq->state_mark);
    put(s, &seq->state);
    s->n_working--;
    s->n_due -= seq->due;
    seq->due = 0;
    touch_all(s, seq);
}

void lf_states_release(struct lf_sched *s, struct lf_sched_seq *seq)
{
    if (!lf_states_on(s)) return;
    lf_states_unpin(s, seq);
    let_go(s, seq);
}

void lf_states_pin(struct lf_sched *s, struct lf_sched_seq *seq)
{
    if (!lf_states_on(s)) return;
    pin_ends(s, seq);
    let_go(s, seq);
}

/* ---- check ---- */

static void count(int32_t *refs, int32_t slot)
{
    if (slot >= 0) refs[slot]++;
}

static void check_running(const struct lf_sched *s, const struct lf_sched_seq *seq, int32_t *refs)
{
    const struct lf_block *own = &s->opts.slots->blocks[seq->state];
    LF_ASSERT(seq->state >= 0 && own->n_refs == 1 && !own->cached);
    LF_ASSERT(seq->state_coming < 0 || !s->opts.slots->blocks[seq->state_coming].cached);
    LF_ASSERT((seq->state_coming >= 0) == seq->restore.leaps);
    LF_ASSERT(seq->due == 0 || seq->pin == LF_PIN_DEVICE);
    count(refs, seq->state);
    count(refs, seq->state_in);
    count(refs, seq->state_coming);
    count(refs, seq->state_mark);
}

static void count_pins(const struct lf_sched *s, const struct lf_sched_seq *seq, int32_t *refs)
{
    for (int k = 0; k < LF_STATES_PINNED_N; k++) {
        LF_ASSERT(seq->states_pinned[k] < 0 || s->opts.slots->blocks[seq->states_pinned[k]].n_pins > 0);
        count(refs, seq->states_pinned[k]);
    }
}

void lf_states_check(const struct lf_sched *s, const int32_t *held, int32_t *refs)
{
    const struct lf_block_pool *slots = s->opts.slots;
    int n_working = 0, n_due = 0;
    if (!lf_states_on(s)) return;
    for (int i = 0; i < slots->n_blocks; i++) refs[i] = held ? held[i] : 0;
    LF_LIST_EACH(it, &s->running)
    {
        const struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        check_running(s, seq, refs);
        count_pins(s, seq, refs);
        n_working++;
        n_due += seq->due;
    }
    LF_LIST_EACH(it, &s->holding)
    {
        count_pins(s, LF_LIST_ENTRY(it, struct lf_sched_seq, node), refs);
    }
    for (int i = 0; i < slots->n_blocks; i++) LF_ASSERT(refs[i] == slots->blocks[i].n_refs);
    LF_ASSERT(n_working == s->n_working && n_due == s->n_due && lf_states_n_spare(s) >= 0);
    lf_block_pool_check(slots);
    if (s->opts.snapshots) lf_prefix_cache_check(s->opts.snapshots);
}
