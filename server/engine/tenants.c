/* See tenants.h. */
#include "server/engine/tenants.h"

#include <string.h>

#include "core/check.h"
#include "server/engine/block_tables.h"
#include "server/engine/scheduler.h"
#include "server/engine/shared_blocks.h"

enum { AHEAD_STEPS = 4 }; /* so long a prefill of a tenant that was quiet comes before any of the others' */

static struct lf_sched_seq *queued(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_sched_seq, tenant_node);
}

static struct lf_sched_tenant *tenant_at(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_sched_tenant, node);
}

static bool is_here(const struct lf_sched_tenant *t)
{
    return t->n_waiting + t->n_running > 0;
}

static struct lf_sched_tenant *claim(struct lf_sched_tenant *t, uint64_t id)
{
    memset(t, 0, sizeof(*t));
    t->id = id;
    lf_list_init(&t->queue);
    lf_list_init(&t->node);
    lf_list_init(&t->prefills);
    lf_list_init(&t->prefill_node);
    return t;
}

/* An entry that is needed is taken from the absent tenant that was served least: it is the one whose account will most
 * likely be brought level anyway. */
struct lf_sched_tenant *lf_sched_tenant_of(struct lf_sched *s, uint64_t id)
{
    struct lf_sched_tenant *all = s->opts.tenants, *absent = NULL;
    for (int i = 0; i < s->n_tenants; i++) {
        if (all[i].id == id) return &all[i];
        if (!is_here(&all[i]) && (!absent || all[i].served_ns < absent->served_ns)) absent = &all[i];
    }
    if (s->n_tenants < s->opts.n_tenants) return claim(&all[s->n_tenants++], id);
    return absent ? claim(absent, id) : &all[id % (uint64_t)s->opts.n_tenants];
}

static double level(double account_ns, double level_ns, double ahead_ns)
{
    return LF_MIN(LF_MAX(account_ns, level_ns - ahead_ns), level_ns + (double)LF_SCHED_DEBT_NS);
}

void lf_sched_tenant_joins(struct lf_sched *s, struct lf_sched_seq *seq, int64_t now_ns)
{
    struct lf_sched_tenant *t = seq->tenant;
    if (!is_here(t)) s->n_here++;
    if (t->n_waiting++ == 0) {
        t->admitted_ns = level(t->admitted_ns, s->admitted_level_ns, 0);
        t->turn_ns = now_ns;
        lf_list_push_back(&s->queues, &t->node);
    }
    struct lf_list *at = &t->queue;
    while (at->prev != &t->queue && queued(at->prev)->order_ns > seq->order_ns) at = at->prev;
    lf_list_insert_before(at, &seq->tenant_node);
}

static void leave_queue(struct lf_sched_seq *seq)
{
    struct lf_sched_tenant *t = seq->tenant;
    lf_list_remove(&seq->tenant_node);
    if (--t->n_waiting == 0) lf_list_remove(&t->node);
    if (t->blocked.seq == seq) t->blocked.seq = NULL;
    if (t->held.seq == seq) t->held.seq = NULL;
}

void lf_sched_tenant_starts(struct lf_sched *s, struct lf_sched_seq *seq, int64_t now_ns)
{
    struct lf_sched_tenant *t = seq->tenant;
    leave_queue(seq);
    t->n_running++;
    t->n_blocks += lf_sched_need(s, seq->n_prompt, seq->max_tokens);
    t->turn_ns = now_ns;
    int n = seq->n_prompt - seq->n_done;
    s->admitted_level_ns = LF_MAX(s->admitted_level_ns, t->admitted_ns);
    t->admitted_ns += lf_cost_prefill_ns(&s->cost, seq->n_done, n, seq->all_logits ? n : 1);
}

/* Remembers the two tenants that left last: whoever asks, one of them is another. */
static void note_left(struct lf_sched *s, uint64_t id)
{
    if (s->left[0].at_ns != 0 && s->left[0].id != id) s->left[1] = s->left[0];
    s->left[0] = (struct lf_sched_left){.id = id, .at_ns = LF_MAX(s->now_ns, 1)};
}

void lf_sched_tenant_leaves(struct lf_sched *s, struct lf_sched_seq *seq)
{
    struct lf_sched_tenant *t = seq->tenant;
    if (seq->phase == LF_SCHED_WAITING) {
        leave_queue(seq);
    } else {
        t->n_running--;
        t->n_blocks -= lf_sched_need(s, seq->n_prompt, seq->max_tokens);
    }
    if (is_here(t)) return;
    s->n_here--;
    note_left(s, t->id);
}

bool lf_sched_other_left(const struct lf_sched_left left[2], uint64_t tenant, int64_t now_ns)
{
    const struct lf_sched_left *other = left[0].id != tenant ? &left[0] : &left[1];
    return other->at_ns != 0 && other->id != tenant && now_ns - other->at_ns < LF_SCHED_ALONE_NS;
}

bool lf_sched_others_may_come(const struct lf_sched *s, const struct lf_sched_tenant *t, int64_t now_ns)
{
    return s->n_here > 1 || lf_sched_other_left(s->left, t->id, now_ns);
}

/* ---- shares ---- */

/* Of a sequence's blocks that no window slides over those that have not been counted yet: the first time a block gets
 * this count's epoch. */
static int64_t count_blocks(struct lf_sched *s, const struct lf_sched_seq *seq)
{
    int64_t n = 0;
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        if (lf_kv_windows_slides(&s->opts.windows, g)) continue;
        for (int i = 0; i < seq->n_blocks; i++) {
            int32_t block = lf_sched_table(seq, g)[i];
            if (s->opts.pool->blocks[block].n_pins > 0) continue; /* it would be here without it, too */
            uint32_t *epoch = &s->opts.held_epochs[block];
            if (*epoch != s->held_epoch) n++;
            *epoch = s->held_epoch;
        }
    }
    return n;
}

/* How many blocks a tenant's running sequences hold: of what several of them have each block once, and what is reserved
 * for their windows. */
static int64_t count_held(struct lf_sched *s, const struct lf_sched_tenant *t)
{
    int64_t n = 0, n_full = lf_kv_windows_n_full(&s->opts.windows);
    if (++s->held_epoch == 0) {
        memset(s->opts.held_epochs, 0, (size_t)s->opts.pool->n_blocks * sizeof(*s->opts.held_epochs));
        s->held_epoch = 1;
    }
    LF_LIST_EACH(it, &s->running)
    {
        const struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        if (seq->tenant != t) continue;
        n += count_blocks(s, seq) + lf_sched_need(s, seq->n_prompt, seq->max_tokens) - n_full * seq->table_stride;
    }
    return n;
}

/* Of the first n_hint blocks of a waiting sequence those that its tenant holds already. */
static int n_held_already(const struct lf_sched *s, const struct lf_sched_seq *seq, int n_hint)
{
    int n = 0;
    for (int g = 0; g < lf_kv_windows_n(&s->opts.windows); g++) {
        if (lf_kv_windows_slides(&s->opts.windows, g)) continue;
        for (int i = 0; i < n_hint; i++) {
            int32_t block = lf_sched_find_in(s, seq, g, i);
            if (block < 0) break;
            if (s->opts.held_epochs[block] == s->held_epoch) n++;
        }
    }
    return n;
}

int64_t lf_sched_share_of(int64_t n)
{
    return LF_MAX(n * 3 / 4, 1);
}

bool lf_sched_within_share(struct lf_sched *s, const struct lf_sched_seq *seq, int n_hint, int64_t now_ns,
                           bool *counted)
{
    const struct lf_sched_tenant *t = seq->tenant;
    int64_t most = lf_sched_share_of(lf_sched_n_unpinned(s)), n = lf_sched_need(s, seq->n_prompt, seq->max_tokens);
    n -= lf_sched_n_pinned_of(s, seq, n_hint);
    if (!lf_sched_others_may_come(s, t, now_ns)) return true;
    if (n > most) return t->n_running == 0 && (s->n_here == 1 || now_ns - seq->submitted_ns >= LF_SCHED_ALONE_NS);
    if (t->n_running >= lf_sched_share_of(s->opts.max_seqs)) return false;
    if (t->n_blocks + n <= most) return true;
    if (!*counted) s->n_held = count_held(s, t);
    *counted = true;
    if (lf_sched_hits_at_marks(s)) n_hint = lf_sched_hit(s, seq, 0, n_hint, false); /* as of now */
    return s->n_held + n - n_held_already(s, seq, n_hint) <= most;
}

/* ---- turns ---- */

/* Whether a's turn is before b's. Who has had none for LF_SCHED_TURN_NS is not passed by ever new tenants. */
static bool is_before(const struct lf_sched_tenant *a, const struct lf_sched_tenant *b, int64_t now_ns)
{
    bool a_old = now_ns - a->turn_ns >= LF_SCHED_TURN_NS, b_old = now_ns - b->turn_ns >= LF_SCHED_TURN_NS;
    if (a_old != b_old) return a_old;
    if (!a_old && a->admitted_ns != b->admitted_ns) return a->admitted_ns < b->admitted_ns;
    return a->turn_ns < b->turn_ns;
}

/* By insertion: few of them have changed their places since the last look. */
void lf_sched_sort_queues(struct lf_sched *s, int64_t now_ns)
{
    LF_LIST_EACH_SAFE(it, &s->queues)
    {
        struct lf_list *at = it;
        while (at->prev != &s->queues && is_before(tenant_at(it), tenant_at(at->prev), now_ns)) at = at->prev;
        if (at == it) continue;
        lf_list_remove(it);
        lf_list_insert_before(at, it);
    }
}

void lf_sched_tenant_runs(struct lf_sched *s, struct lf_sched_tenant *t, bool in_prefill)
{
    if (t->step_no != s->step_no) {
        t->step_no = s->step_no;
        t->decode_ns = 0;
        s->n_tenants_in_step++;
    }
    if (!in_prefill || t->prefill_no == s->step_no) return;
    if (t->prefill_no + 1 != s->step_no)
        t->served_ns = level(t->served_ns, s->served_level_ns, AHEAD_STEPS * (double)s->opts.step_ns);
    t->prefill_no = s->step_no;
}

static bool is_before_in_queue(const struct lf_list *a, const struct lf_list *b)
{
    return LF_LIST_ENTRY(a, struct lf_sched_seq, tenant_node)->order_ns <=
           LF_LIST_ENTRY(b, struct lf_sched_seq, tenant_node)->order_ns;
}

static void check_tenant(const struct lf_sched *s, const struct lf_sched_tenant *t)
{
    int n_waiting = 0, n_running = 0, n_queues = 0;
    int64_t n_blocks = 0;
    LF_LIST_EACH(it, &t->queue)
    {
        const struct lf_sched_seq *seq = queued(it);
        LF_ASSERT(seq->tenant == t && seq->phase == LF_SCHED_WAITING);
        LF_ASSERT(it->next == &t->queue || is_before_in_queue(it, it->next));
        n_waiting++;
    }
    LF_LIST_EACH(it, &s->running)
    {
        const struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        if (seq->tenant != t) continue;
        n_running++;
        n_blocks += lf_sched_need(s, seq->n_prompt, seq->max_tokens);
    }
    LF_LIST_EACH(it, &s->queues)
    {
        n_queues += it == &t->node;
    }
    LF_ASSERT(n_waiting == t->n_waiting && n_running == t->n_running && n_blocks == t->n_blocks);
    LF_ASSERT(n_queues == (n_waiting > 0));
    LF_ASSERT(!t->blocked.seq || (t->blocked.seq->tenant == t && t->blocked.seq->phase == LF_SCHED_WAITING));
    LF_ASSERT(!t->held.seq || (t->held.seq->tenant == t && t->held.seq->phase == LF_SCHED_WAITING));
    LF_ASSERT(t->served_ns >= 0 && t->admitted_ns >= 0);
}

void lf_sched_check_tenants(const struct lf_sched *s)
{
    int n_here = 0, n_waiting = 0, n_running = 0;
    for (int i = 0; i < s->n_tenants; i++) {
        const struct lf_sched_tenant *t = &s->opts.tenants[i];
        check_tenant(s, t);
        n_here += is_here(t);
        n_waiting += t->n_waiting;
        n_running += t->n_running;
    }
    LF_ASSERT(n_here == s->n_here && n_waiting == s->n_waiting && n_running == s->n_running);
}
