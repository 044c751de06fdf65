/* Admission: the queue, and who may leave it. See scheduler.h, promises 1 to 4 and 8.
 *
 * The longest wait for admission. A tenant B comes, whose request needs no more blocks than a quarter of the pool,
 * while A holds its share: it is admitted before the next step. Where it needs more, or A had been alone and holds
 * every block, B is next; nobody passes it any more after LF_SCHED_BYPASS_NS, and what runs then is done after
 *
 *     LF_SCHED_BYPASS_NS + 4 · (time to prefill as many tokens as the pool holds, or A's prompts if less)
 *                        + (max_tokens of A's longest request) · (longest step)
 *
 * since decodes advance in every step (or in turn, 5) and prefills have a quarter of the time. From then on B has half
 * of the device: beside one other tenant its first token takes at most twice as long as alone, and a step. */
#include "server/engine/scheduler.h"

#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "server/engine/block_tables.h"
#include "server/engine/prefill_order.h"
#include "server/engine/proposals.h"
#include "server/engine/shared_blocks.h"
#include "server/engine/states.h"

static struct lf_sched_seq *seq_of(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_sched_seq, node);
}

void lf_sched_submit(struct lf_sched *s, struct lf_sched_seq *seq, int64_t now_ns)
{
    LF_ASSERT((seq->keys != NULL) == (s->opts.prefix != NULL));
    LF_ASSERT(seq->block_tokens == lf_kv_windows_block_tokens(&s->opts.windows));
    LF_ASSERT(seq->phase == LF_SCHED_NEW && seq->n_prompt >= 1 && seq->max_tokens >= 0);
    LF_ASSERT(lf_sched_need(s, seq->n_prompt, seq->max_tokens) <=
              s->opts.pool->n_blocks - lf_kv_windows_slack(&s->opts.windows, s->opts.chunk));
    int priority = LF_MIN(LF_MAX(seq->priority, -LF_SCHED_PRIORITY_N), LF_SCHED_PRIORITY_N);
    s->now_ns = LF_MAX(s->now_ns, now_ns);
    seq->submitted_ns = now_ns;
    seq->order_ns = now_ns + priority * LF_SCHED_PRIORITY_NS;
    seq->phase = LF_SCHED_WAITING;
    seq->n_ids = seq->n_prompt;
    lf_states_init(seq);
    struct lf_list *at = &s->waiting;
    while (at->prev != &s->waiting && seq_of(at->prev)->order_ns > seq->order_ns) at = at->prev;
    lf_list_insert_before(at, &seq->node);
    s->n_waiting++;
    s->waiting_tokens += seq->n_prompt;
    lf_list_init(&seq->tenant_node);
    lf_list_init(&seq->prefill_node);
    seq->tenant = lf_sched_tenant_of(s, seq->tenant_id);
    lf_sched_tenant_joins(s, seq, s->now_ns);
}

/* The most leading blocks that seq will be able to take over from other, which computes the block behind the first
 * `next`; with states from the last mark that other has not passed. 0: none. */
static int will_have(const struct lf_sched *s, const struct lf_sched_seq *seq, const struct lf_sched_seq *other,
                     int next, int max_blocks)
{
    bool late = !lf_states_on(s) && other->n_done >= (next + 1) * other->block_tokens;
    if (next >= max_blocks || other->n_keys - 1 <= next || late) return 0;
    if (memcmp(seq->keys[next + 1].bytes, other->keys[next + 1].bytes, sizeof(seq->keys[0].bytes)) != 0) return 0;
    int common = LF_MIN(lf_sched_common_blocks(seq, other), max_blocks);
    return lf_states_on(s) ? lf_states_last_mark(other, LF_MAX(other->n_done / other->block_tokens, next), common)
                           : common;
}

/* Whether it pays to wait for what other is computing: it will enter the block that seq needs next, covers the larger
 * part of what seq would have to compute, and is not so much longer that it would be served far later. */
static bool worth_waiting_for(const struct lf_sched *s, const struct lf_sched_seq *seq,
                              const struct lf_sched_seq *other, int max_blocks)
{
    if (!lf_sched_in_prefill(other)) return false;
    int next = seq->n_hint, n = will_have(s, seq, other, next, max_blocks);
    if (n == 0) return false;
    int64_t left = seq->n_prompt - (int64_t)next * seq->block_tokens;
    int64_t gain = (int64_t)(n - next) * seq->block_tokens;
    int64_t other_left = other->n_prompt - other->n_done;
    return 2 * gain >= left && other_left <= 4 * left;
}

static bool waits_for_another(const struct lf_sched *s, const struct lf_sched_seq *seq, int max_blocks)
{
    const struct lf_sched_seq *leader = seq->leader;
    if (seq->keys && leader && !seq->all_logits &&
        (leader->phase == LF_SCHED_WAITING || (leader->phase == LF_SCHED_RUNNING && lf_sched_in_prefill(leader))))
        return true;
    if (max_blocks == 0) return false;
    LF_LIST_EACH(it, &s->running)
    {
        if (seq_of(it)->tenant != seq->tenant) continue; /* whose pace is another's affair: they meet while running */
        if (worth_waiting_for(s, seq, seq_of(it), max_blocks)) return true;
    }
    return false;
}

/* Of what a sequence needs the part that nothing of the cache can save: all, but what groups that see all have of the
 * first n blocks. */
static int64_t need_beside(const struct lf_sched *s, const struct lf_sched_seq *seq, int n)
{
    return lf_sched_need(s, seq->n_prompt, seq->max_tokens) - (int64_t)n * lf_kv_windows_n_full(&s->opts.windows);
}

/* References the cached beginning, then takes fresh blocks for the rest. Whether it fits is known for sure only when
 * the cached blocks are looked up for real: those without a reference stop being available. False: nothing changed. */
static bool reserve(struct lf_sched *s, struct lf_sched_seq *seq, int max_blocks)
{
    int n_found = lf_sched_hit(s, seq, 0, max_blocks, false);
    seq->table_stride = (int)lf_sched_n_blocks(&s->opts.windows, seq->n_prompt, seq->max_tokens);
    seq->n_hint = n_found;
    if (!lf_sched_hits_at_marks(s)) seq->n_leading = n_found;
    lf_tables_get_hit(s, seq, n_found);
    if (need_beside(s, seq, n_found) > lf_sched_n_spare(s)) {
        lf_tables_drop_hit(s, seq);
        return false;
    }
    lf_tables_reserve(s, seq);
    lf_states_begin(s, seq, n_found);
    lf_restore_plan(s, seq, n_found, max_blocks);
    return true;
}

static void start(struct lf_sched *s, struct lf_sched_seq *seq)
{
    lf_list_remove(&seq->node);
    s->n_waiting--;
    s->waiting_tokens -= seq->n_prompt;
    lf_list_push_back(&s->running, &seq->node);
    s->n_running++;
    seq->phase = LF_SCHED_RUNNING;
    seq->admitted_ns = s->now_ns;
    seq->admitted_no = ++s->n_admitted;
    seq->leader = NULL;
    lf_sched_tenant_starts(s, seq, s->now_ns);
    lf_prefill_order_join(s, seq);
    lf_proposals_begin(s, seq);
}

/* Cheap and never too strict: extends the last look at the cache by what has been entered since. What windows and
 * snapshots there are is looked at where there may be more; whether they still are reserve says. */
static bool may_fit(const struct lf_sched *s, struct lf_sched_seq *seq, int max_blocks)
{
    int n = lf_sched_leading_blocks(s, seq, seq->n_leading, max_blocks);
    bool more = n > seq->n_leading;
    seq->n_leading = n;
    if (!lf_sched_hits_at_marks(s))
        seq->n_hint = n;
    else if (more)
        seq->n_hint = LF_MAX(seq->n_hint, lf_sched_hit(s, seq, 0, n, false));
    return need_beside(s, seq, n) <= lf_sched_n_spare(s);
}

/* ---- pins ---- */

/* Blocks that will be pinned to the device once what runs has ended, those that are already included; what several
 * share may be counted several times. */
static int64_t n_to_be_pinned(const struct lf_sched *s)
{
    int64_t n = s->opts.pool->n_pinned;
    LF_LIST_EACH(it, &s->running)
    {
        const struct lf_sched_seq *seq = seq_of(it);
        if (seq->pin == LF_PIN_DEVICE) n += lf_kv_windows_pinned(&s->opts.windows, seq->n_keys - 1);
    }
    return n;
}

/* Whether all that waits will find room beside what this one is going to keep. What is let go in time does not count:
 * pins that end, and those to tiers below. */
static bool leaves_room(const struct lf_sched *s, const struct lf_sched_seq *pinned)
{
    const struct lf_kv_windows *w = &s->opts.windows;
    int64_t n_left = s->opts.pool->n_blocks - lf_kv_windows_slack(w, s->opts.chunk) - n_to_be_pinned(s) -
                     lf_kv_windows_pinned(w, pinned->n_keys - 1);
    if (lf_states_on(s) && lf_states_n_spare(s) < lf_states_n_to_pin(s, pinned)) return false;
    LF_LIST_EACH(it, &s->waiting)
    {
        const struct lf_sched_seq *seq = seq_of(it);
        if (seq == pinned || seq->pin == LF_PIN_DEVICE) continue;
        int most = lf_sched_max_cached_blocks(seq);
        int64_t n_shared =
            seq->keys ? lf_sched_sure_blocks(w, lf_states_on(s), seq, pinned, most) * lf_kv_windows_n_full(w) : 0;
        n_shared = LF_MAX(n_shared, lf_sched_n_pinned_of(s, seq, most));
        if (lf_sched_need(s, seq->n_prompt, seq->max_tokens) - n_shared > n_left) return false;
    }
    return true;
}

/* ---- turns ---- */

/* seq is the first of its queue that cannot start for this reason. */
static void note_hold(const struct lf_sched *s, struct lf_sched_hold *hold, const struct lf_sched_seq *seq)
{
    hold->scan_no = s->n_scans;
    if (hold->seq == seq) return;
    hold->seq = seq;
    hold->since_ns = s->now_ns;
    hold->passed_blocks = 0;
}

int64_t lf_sched_room_beside(const struct lf_sched *s, const struct lf_sched_hold *hold)
{
    if (s->now_ns - hold->since_ns >= LF_SCHED_BYPASS_NS) return 0;
    return s->opts.pool->n_blocks - hold->passed_blocks;
}

static void count_passing(struct lf_sched *s, const struct lf_sched_seq *seq)
{
    int64_t n_blocks = lf_sched_need(s, seq->n_prompt, seq->max_tokens);
    LF_LIST_EACH(it, &s->queues)
    {
        struct lf_sched_tenant *t = LF_LIST_ENTRY(it, struct lf_sched_tenant, node);
        if (t->blocked.scan_no == s->n_scans) t->blocked.passed_blocks += n_blocks;
        if (t == seq->tenant) break;
    }
    if (seq->tenant->held.scan_no == s->n_scans) seq->tenant->held.passed_blocks += n_blocks;
}

/* The next of a tenant's queue that may start; NULL if none. *room: how many blocks it may have at most, so as not to
 * delay those before it that do not fit. shares: whether tenants are kept to theirs. */
static struct lf_sched_seq *first_that_may(struct lf_sched *s, struct lf_sched_tenant *t, bool shares, int64_t *room)
{
    int64_t own_room = INT64_MAX; /* beside the one that is beyond the tenant's share */
    bool counted = false;
    LF_LIST_EACH(it, &t->queue)
    {
        struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, tenant_node);
        if (lf_sched_need(s, seq->n_prompt, seq->max_tokens) > LF_MIN(*room, own_room)) continue;
        int max_blocks = lf_sched_max_cached_blocks(seq);
        if (seq->pin == LF_PIN_DEVICE && !leaves_room(s, seq)) continue;
        bool fits = may_fit(s, seq, max_blocks);
        if (waits_for_another(s, seq, max_blocks)) continue;
        if (shares && !lf_sched_within_share(s, seq, seq->n_hint, s->now_ns, &counted)) {
            if (t->held.scan_no != s->n_scans) note_hold(s, &t->held, seq);
            own_room = lf_sched_room_beside(s, &t->held);
            continue;
        }
        if (fits && reserve(s, seq, max_blocks)) return seq;
        if (t->blocked.scan_no != s->n_scans) note_hold(s, &t->blocked, seq);
        *room = LF_MIN(*room, lf_sched_room_beside(s, &t->blocked));
    }
    return NULL;
}

/* Whether one more of the tenant may run: beyond max_seqs only where it runs nothing else. */
static bool has_slot(const struct lf_sched *s, const struct lf_sched_tenant *t)
{
    return s->n_running < s->opts.max_seqs || (t->n_running == 0 && s->n_running < s->opts.max_seqs + s->opts.n_kept);
}

static struct lf_sched_seq *scan_queues(struct lf_sched *s, bool shares)
{
    int64_t room = INT64_MAX;
    s->n_scans++;
    LF_LIST_EACH(it, &s->queues)
    {
        struct lf_sched_tenant *t = LF_LIST_ENTRY(it, struct lf_sched_tenant, node);
        if (!has_slot(s, t)) {
            if (!t->blocked.seq) continue;
            t->blocked.scan_no = s->n_scans; /* what passes it counts all the same */
            room = LF_MIN(room, lf_sched_room_beside(s, &t->blocked));
            continue;
        }
        struct lf_sched_seq *seq = first_that_may(s, t, shares, &room);
        if (!seq) continue;
        count_passing(s, seq);
        start(s, seq);
        return seq;
    }
    return NULL;
}

/* Where nothing runs the first that may start does, whatever its share. */
struct lf_sched_seq *lf_sched_admit(struct lf_sched *s, int64_t now_ns)
{
    s->now_ns = LF_MAX(s->now_ns, now_ns);
    if (s->n_running >= s->opts.max_seqs + s->opts.n_kept || s->n_waiting == 0) return NULL;
    lf_sched_sort_queues(s, s->now_ns);
    struct lf_sched_seq *seq = scan_queues(s, true);
    return seq || s->n_running > 0 ? seq : scan_queues(s, false);
}
