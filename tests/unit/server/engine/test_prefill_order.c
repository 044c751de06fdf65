/* The order of prefills in a step: beside a reference that looks at all of them each time, and the time it takes. */
#include "tests/support/test.h"

#include "core/check.h"
#include "core/clock.h"
#include "server/engine/prefill_order.h"
#include "server/engine/scheduler.h"

enum { MOST = 2000, TENANTS_N = 50 };

static struct {
    struct lf_sched sched;
    struct lf_sched_tenant tenants[MOST];
    struct lf_sched_seq seqs[MOST];
    int n_tenants, n_seqs;
    uint64_t seed;
} w;

static int below(int n)
{
    w.seed = w.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((w.seed >> 33) % (uint64_t)n);
}

static void begin(int n_tenants, int n_seqs, uint64_t seed)
{
    memset(&w, 0, sizeof(w));
    w.n_tenants = n_tenants;
    w.n_seqs = n_seqs;
    w.seed = seed;
    lf_list_init(&w.sched.running);
    lf_list_init(&w.sched.prefilling);
    lf_cost_init(&w.sched.cost);
    for (int i = 0; i < n_tenants; i++) {
        lf_list_init(&w.tenants[i].prefills);
        lf_list_init(&w.tenants[i].prefill_node);
        w.tenants[i].served_ns = below(1000) * 1000.0;
    }
    for (int i = 0; i < n_seqs; i++) {
        struct lf_sched_seq *seq = &w.seqs[i];
        seq->n_prompt = 1 + below(100); /* so some are equal */
        seq->tenant = &w.tenants[below(n_tenants)];
        seq->phase = LF_SCHED_RUNNING;
        seq->admitted_no = (uint64_t)(i + 1);
        lf_list_init(&seq->prefill_node);
        lf_list_push_back(&w.sched.running, &seq->node);
        lf_prefill_order_join(&w.sched, seq);
    }
    lf_prefill_order_check(&w.sched);
}

/* ---- the reference ---- */

static bool waits(const struct lf_sched_seq *seq)
{
    return lf_sched_in_prefill(seq) && seq->n_planned == 0;
}

static double least_served(void)
{
    double least = -1;
    for (int i = 0; i < w.n_seqs; i++) {
        double served_ns = w.seqs[i].tenant->served_ns;
        if (waits(&w.seqs[i]) && (least < 0 || served_ns < least)) least = served_ns;
    }
    return least;
}

static const struct lf_sched_seq *shortest_of(const struct lf_sched_tenant *t)
{
    const struct lf_sched_seq *best = NULL;
    for (int i = 0; i < w.n_seqs; i++) { /* in the order of admission */
        const struct lf_sched_seq *seq = &w.seqs[i];
        if (seq->tenant != t || !waits(seq)) continue;
        if (!best || lf_prefill_left_ns(&w.sched, seq) < lf_prefill_left_ns(&w.sched, best)) best = seq;
    }
    return best;
}

static const struct lf_sched_seq *eldest_of(const struct lf_sched_tenant *t)
{
    for (int i = 0; i < w.n_seqs; i++)
        if (w.seqs[i].tenant == t && lf_sched_in_prefill(&w.seqs[i])) return &w.seqs[i];
    return NULL;
}

/* Plans a step: each of them is looked at once, some out of turn as the eldest is, and served by chance. */
static void plan_beside_reference(void)
{
    for (int i = 0; i < w.n_seqs; i++) w.seqs[i].n_planned = 0;
    lf_prefill_order_sort(&w.sched);
    assert_true(lf_prefill_order_least_served(&w.sched) == least_served());
    for (struct lf_sched_tenant *t; (t = lf_prefill_order_next(&w.sched)) != NULL;) {
        assert_true(t->served_ns == least_served());
        assert_ptr_equal(lf_prefill_order_shortest(t), shortest_of(t));
        assert_ptr_equal(lf_prefill_order_eldest(t), eldest_of(t));
        struct lf_sched_seq *seq = lf_prefill_order_shortest(t);
        if (below(4) == 0 && lf_prefill_order_eldest(t)->n_planned == 0) seq = lf_prefill_order_eldest(t);
        seq->n_planned = below(3) == 0 ? -1 : 1 + below(seq->n_prompt - seq->n_done);
        t->served_ns += below(3) * 20000.0;
        lf_prefill_order_moved(&w.sched, t);
    }
    assert_true(least_served() < 0);
}

static void the_order_is_that_of_looking_at_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        begin(1 + (int)seed % TENANTS_N, 120, seed);
        for (int step = 0; step < 30 && !lf_list_empty(&w.sched.prefilling); step++) {
            plan_beside_reference();
            for (int i = 0; i < w.n_seqs; i++) {
                w.seqs[i].n_done += LF_MAX(w.seqs[i].n_planned, 0);
                if (!lf_sched_in_prefill(&w.seqs[i])) lf_prefill_order_leave(&w.seqs[i]);
            }
            lf_prefill_order_check(&w.sched);
        }
        assert_true(lf_list_empty(&w.sched.prefilling));
        assert_null(lf_prefill_order_next(&w.sched));
        assert_true(lf_prefill_order_least_served(&w.sched) < 0);
    }
}

/* The ns of a step in which nothing can be afforded, so all are looked at; the fastest of several. */
static int64_t fastest_step_ns(int n_tenants, int n_seqs)
{
    int64_t best = INT64_MAX;
    begin(n_tenants, n_seqs, 7);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < n_seqs; k++) w.seqs[k].n_planned = 0;
        int64_t began = lf_clock_ns();
        lf_prefill_order_sort(&w.sched);
        for (struct lf_sched_tenant *t; (t = lf_prefill_order_next(&w.sched)) != NULL;) {
            lf_prefill_order_shortest(t)->n_planned = -1;
            lf_prefill_order_moved(&w.sched, t);
        }
        best = LF_MIN(best, lf_clock_ns() - began);
    }
    return best;
}

static void eight_times_as_many_take_no_more_than_in_proportion(void **state)
{
    (void)state;
    for (int n_tenants = 1; n_tenants <= 64; n_tenants *= 8) {
        int64_t few = fastest_step_ns(n_tenants, 250), many = fastest_step_ns(n_tenants, 2000);
        if (many >= 30 * few)
            fail_msg("%d tenants: 250 in %lld ns, 2000 in %lld", n_tenants, (long long)few, (long long)many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_is_that_of_looking_at_all),
        cmocka_unit_test(eight_times_as_many_take_no_more_than_in_proportion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
