/* See prefill_order.h. */
#include "server/engine/prefill_order.h"

#include "core/check.h"
#include "server/engine/scheduler.h"

static struct lf_sched_seq *seq_at(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_sched_seq, prefill_node);
}

static struct lf_sched_tenant *tenant_at(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_sched_tenant, prefill_node);
}

void lf_prefill_order_join(struct lf_sched *s, struct lf_sched_seq *seq)
{
    struct lf_sched_tenant *t = seq->tenant;
    LF_ASSERT(lf_sched_in_prefill(seq));
    if (lf_list_empty(&t->prefills)) lf_list_push_back(&s->prefilling, &t->prefill_node);
    lf_list_push_back(&t->prefills, &seq->prefill_node);
}

void lf_prefill_order_leave(struct lf_sched_seq *seq)
{
    if (lf_list_empty(&seq->prefill_node)) return;
    lf_list_remove(&seq->prefill_node);
    if (lf_list_empty(&seq->tenant->prefills)) lf_list_remove(&seq->tenant->prefill_node);
}

double lf_prefill_left_ns(const struct lf_sched *s, const struct lf_sched_seq *seq)
{
    int first = lf_restore_next_computed(seq), n = seq->n_prompt - first;
    return lf_cost_prefill_ns(&s->cost, first, n, seq->all_logits ? n : 1);
}

static bool is_shorter(const struct lf_sched_seq *a, const struct lf_sched_seq *b)
{
    return a->left_ns < b->left_ns || (a->left_ns <= b->left_ns && a->admitted_no < b->admitted_no);
}

static void sort_prefills(const struct lf_sched *s, struct lf_sched_tenant *t)
{
    LF_LIST_EACH_SAFE(it, &t->prefills)
    {
        struct lf_sched_seq *seq = seq_at(it);
        seq->left_ns = lf_prefill_left_ns(s, seq);
        struct lf_list *at = it;
        while (at->prev != &t->prefills && is_shorter(seq, seq_at(at->prev))) at = at->prev;
        if (at == it) continue;
        lf_list_remove(it);
        lf_list_insert_before(at, it);
    }
    t->next_prefill = t->prefills.next;
}

void lf_prefill_order_sort(struct lf_sched *s)
{
    LF_LIST_EACH_SAFE(it, &s->prefilling)
    {
        struct lf_sched_tenant *t = tenant_at(it);
        sort_prefills(s, t);
        struct lf_list *at = it;
        while (at->prev != &s->prefilling && t->served_ns < tenant_at(at->prev)->served_ns) at = at->prev;
        if (at == it) continue;
        lf_list_remove(it);
        lf_list_insert_before(at, it);
    }
}

/* Whether this step has looked at all its prefills. */
static bool is_done(const struct lf_sched_tenant *t)
{
    return t->next_prefill == &t->prefills;
}

struct lf_sched_tenant *lf_prefill_order_next(const struct lf_sched *s)
{
    if (lf_list_empty(&s->prefilling)) return NULL;
    struct lf_sched_tenant *t = tenant_at(s->prefilling.next);
    return is_done(t) ? NULL : t; /* those that are done stand behind the others */
}

struct lf_sched_seq *lf_prefill_order_shortest(const struct lf_sched_tenant *t)
{
    return seq_at(t->next_prefill);
}

struct lf_sched_seq *lf_prefill_order_eldest(const struct lf_sched_tenant *t)
{
    struct lf_sched_seq *best = NULL;
    LF_LIST_EACH(it, &t->prefills)
    {
        if (!best || seq_at(it)->admitted_no < best->admitted_no) best = seq_at(it);
    }
    return best;
}

void lf_prefill_order_moved(struct lf_sched *s, struct lf_sched_tenant *t)
{
    while (!is_done(t) && seq_at(t->next_prefill)->n_planned != 0) t->next_prefill = t->next_prefill->next;
    struct lf_list *at = is_done(t) ? &s->prefilling : t->prefill_node.next;
    while (at != &s->prefilling && !is_done(tenant_at(at)) && tenant_at(at)->served_ns < t->served_ns) at = at->next;
    lf_list_remove(&t->prefill_node);
    lf_list_insert_before(at, &t->prefill_node);
}

double lf_prefill_order_least_served(const struct lf_sched *s)
{
    double least = -1;
    LF_LIST_EACH(it, &s->prefilling)
    {
        if (least < 0 || tenant_at(it)->served_ns < least) least = tenant_at(it)->served_ns;
    }
    return least;
}

void lf_prefill_order_check(const struct lf_sched *s)
{
    int n_running = 0, n_listed = 0;
    LF_LIST_EACH(it, &s->running)
    {
        const struct lf_sched_seq *seq = LF_LIST_ENTRY(it, struct lf_sched_seq, node);
        n_running += lf_sched_in_prefill(seq) && !seq->waits;
    }
    LF_LIST_EACH(it, &s->prefilling)
    {
        const struct lf_sched_tenant *t = tenant_at(it);
        LF_ASSERT(!lf_list_empty(&t->prefills));
        LF_LIST_EACH(prefill, &t->prefills)
        {
            const struct lf_sched_seq *seq = seq_at(prefill);
            LF_ASSERT(seq->tenant == t && seq->phase == LF_SCHED_RUNNING && lf_sched_in_prefill(seq));
            n_listed++;
        }
    }
    LF_ASSERT(n_running == n_listed);
}
