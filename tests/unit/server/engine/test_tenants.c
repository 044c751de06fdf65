/* server/engine/tenants.c: accounts, turns and shares, each limit at it and one past it. */
#include "tests/unit/server/engine/sched_rig.h"

#include <math.h>

static const int64_t alone = LF_SCHED_ALONE_NS;

/* One request of a tenant comes, starts and ends at that time. */
static struct lf_sched_tenant *visit(struct fixture *f, uint64_t tenant, int64_t now_ns)
{
    struct lf_sched_seq *seq = submit_for(f, tenant, 0, 1, now_ns);
    assert_ptr_equal(lf_sched_admit(&f->sched, now_ns), seq);
    lf_sched_end(&f->sched, seq);
    return seq->tenant;
}

/* ---- the table ---- */

static void an_entry_that_is_needed_is_the_absent_ones_that_was_served_least(void **state)
{
    struct fixture *f = *state;
    static const double served_ns[] = {30, 10, 20, 40};
    for (uint64_t i = 0; i < 4; i++) {
        assert_ptr_equal(visit(f, 10 + i, 1), &f->tenants[i]);
        f->tenants[i].served_ns = served_ns[i];
    }
    struct lf_sched_seq *back = submit_for(f, 13, 0, 1, 2);
    assert_ptr_equal(back->tenant, &f->tenants[3]); /* who comes back finds its entry */
    struct lf_sched_seq *fresh = submit_for(f, 20, 0, 1, 2);
    assert_ptr_equal(fresh->tenant, &f->tenants[1]);
    assert_true(fresh->tenant->served_ns == 0 && fresh->tenant->id == 20);
    assert_ptr_equal(submit_for(f, 21, 0, 1, 2)->tenant, &f->tenants[2]); /* and not the one that is here */
    assert_int_equal(f->sched.n_here, 3);
}

/* ---- accounts ---- */

/* What was used alone is forgotten but for a second; a pause saves nothing up. */
static void who_comes_is_brought_level(void **state)
{
    struct fixture *f = *state;
    static const double debt = (double)LF_SCHED_DEBT_NS;
    static const double before[] = {0, 4e9, 5e9, 5e9 + 1e8, 5e9 + 1e9, 5e9 + 2e9},
                        after[] = {5e9, 5e9, 5e9, 5e9 + 1e8, 5e9 + 1e9, 5e9 + 1e9};
    assert_true(debt == 1e9);
    struct lf_sched_tenant *t = visit(f, 1, 1);
    for (size_t i = 0; i < LF_N_ELEMS(before); i++) {
        f->n_seqs = 0;
        memset(f->seqs, 0, sizeof f->seqs);
        t->admitted_ns = before[i];
        f->sched.admitted_level_ns = 5e9;
        struct lf_sched_seq *seq = submit_for(f, 1, 0, 1, 2);
        assert_true(t->admitted_ns == after[i]);
        t->admitted_ns = 0;
        struct lf_sched_seq *second = submit_for(f, 1, 0, 1, 2); /* it had something waiting */
        assert_true(t->admitted_ns == 0);
        lf_sched_end(&f->sched, seq);
        lf_sched_end(&f->sched, second);
    }
}

static void a_prefill_that_begins_is_four_steps_ahead_at_most(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *before = submit_for(f, 2, 0, 1, 1);
    (void)lf_sched_admit(&f->sched, 1);
    step(f);
    lf_sched_end(&f->sched, before);
    struct lf_sched_seq *seq = submit_for(f, 1, 0, 250, 1);
    (void)lf_sched_admit(&f->sched, 1);
    set_cost(f, LF_NS_PER_MS, 1e-6);
    f->sched.served_level_ns = 1e10;
    lf_sched_plan_step(&f->sched, &f->step);
    double want = 1e10 - 4 * 50 * LF_NS_PER_MS + f->items[0].n_tokens * (double)LF_NS_PER_MS;
    assert_true(fabs(seq->tenant->served_ns - want) < 10);
    assert_true(f->sched.served_level_ns == 1e10); /* it only rises */
}

/* A step of decodes is paid by those who decode: the step itself in equal parts, each token by its depth. */
static void decodes_are_charged_to_their_tenants(void **state)
{
    struct fixture *f = *state;
    static const int n_prompts[] = {10, 20, 30};
    for (int i = 0; i < 3; i++) {
        f->seqs[i].tenant_id = i < 2 ? 1 : 2;
        (void)submit(f, n_prompts[i], 20, 1);
        (void)lf_sched_admit(&f->sched, 1);
    }
    for (int i = 0; i < 5 && lf_sched_in_prefill(&f->seqs[2]); i++) step(f);
    double keys[3], served[2], admitted[2];
    struct lf_sched_tenant *t[2] = {f->seqs[0].tenant, f->seqs[2].tenant};
    for (int i = 0; i < 3; i++) {
        assert_false(lf_sched_in_prefill(&f->seqs[i]));
        keys[i] = f->seqs[i].n_done + 1;
    }
    for (int i = 0; i < 2; i++) {
        t[i]->served_ns = served[i] = 0;
        t[i]->admitted_ns = admitted[i] = 100;
    }
    struct lf_cost *cost = &f->sched.cost;
    for (int i = 0; i < LF_COST_N; i++) cost->w[i] = 1e-6;
    cost->w[LF_COST_STEP] = 3e6;
    cost->w[LF_COST_TOKEN] = 1000;
    cost->w[LF_COST_LOGITS] = 500;
    cost->w[LF_COST_DECODE_KEY] = 10;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, 3);
    double want[2] = {2 * (1e6 + 1500) + 10 * (keys[0] + keys[1]), 1e6 + 1500 + 10 * keys[2]};
    for (int i = 0; i < 2; i++) {
        assert_true(fabs(t[i]->decode_ns - want[i]) < 0.1);
        assert_true(fabs(t[i]->served_ns - served[i] - want[i]) < 0.1);
        assert_true(fabs(t[i]->admitted_ns - admitted[i] - want[i]) < 0.1);
    }
    lf_sched_launched(&f->sched, &f->step);
    for (int i = 0; i < 3; i++) lf_sched_sampled(&f->sched, &f->seqs[i], 1);
    lf_sched_plan_step(&f->sched, &f->step); /* of each step anew */
    assert_true(fabs(t[1]->decode_ns - want[1] - 10) < 0.1);
}

/* A request is charged when it starts, for what is not cached and as many rows of logits as it has. */
static void a_start_is_charged(void **state)
{
    struct fixture *f = *state;
    struct lf_cost *cost = &f->sched.cost;
    for (int i = 0; i < LF_COST_N; i++) cost->w[i] = 1e-9;
    cost->w[LF_COST_TOKEN] = 1000;
    cost->w[LF_COST_LOGITS] = 100000;
    f->sched.admitted_level_ns = 7;
    struct lf_sched_seq *a = submit_for(f, 1, 0, 10, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), a);
    assert_true(fabs(a->tenant->admitted_ns - (7 + 10 * 1000 + 100000)) < 0.1);
    assert_true(f->sched.admitted_level_ns == 7); /* what it was when it was its turn */
    assert_int_equal(a->tenant->turn_ns, 2);
    f->seqs[1].all_logits = true;
    struct lf_sched_seq *echo = submit_for(f, 2, 0, 10, 3);
    assert_ptr_equal(lf_sched_admit(&f->sched, 3), echo);
    assert_true(fabs(echo->tenant->admitted_ns - (7 + 10 * 1000 + 10 * 100000.0)) < 0.1);
    struct lf_sched_seq *again = submit_for(f, 2, 0, 10, 3);
    again->tenant->admitted_ns = 5000;
    assert_ptr_equal(lf_sched_admit(&f->sched, 3), again);
    assert_true(f->sched.admitted_level_ns == 5000);
}

/* ---- turns ---- */

/* Who is admitted first of two tenants, at that time. */
static uint64_t first_of(struct fixture *f, int64_t now_ns)
{
    struct lf_sched_seq *seq = lf_sched_admit(&f->sched, now_ns);
    assert_non_null(seq);
    return seq->tenant_id;
}

static void two_wait(struct fixture *f, double admitted_1, int64_t turn_1, double admitted_2, int64_t turn_2)
{
    for (int i = 0; i < f->n_seqs; i++)
        if (f->seqs[i].phase != LF_SCHED_ENDED) lf_sched_end(&f->sched, &f->seqs[i]);
    f->n_seqs = 0;
    memset(f->seqs, 0, sizeof f->seqs);
    struct lf_sched_tenant *t[2];
    for (uint64_t i = 0; i < 2; i++) t[i] = submit_for(f, i + 1, 0, 1, f->sched.now_ns)->tenant;
    t[0]->admitted_ns = admitted_1;
    t[0]->turn_ns = turn_1;
    t[1]->admitted_ns = admitted_2;
    t[1]->turn_ns = turn_2;
}

static void whoever_was_given_least_is_next_and_nobody_waits_for_ever(void **state)
{
    struct fixture *f = *state;
    const int64_t turn = LF_SCHED_TURN_NS;
    two_wait(f, 2, 10, 1, 20);
    assert_int_equal(first_of(f, 20), 2);
    two_wait(f, 1, 20, 2, 10);
    assert_int_equal(first_of(f, 20), 1);
    two_wait(f, 1, 20, 1, 10); /* both as much: whose last turn is longer ago */
    assert_int_equal(first_of(f, 20), 2);
    two_wait(f, 1, 20, 9, 10); /* so long without a turn: whatever it was given */
    assert_int_equal(first_of(f, 9 + turn), 1);
    two_wait(f, 1, 20, 9, 10);
    assert_int_equal(first_of(f, 10 + turn), 2);
    two_wait(f, 9, 10, 1, 20); /* both so long */
    assert_int_equal(first_of(f, 20 + turn), 1);
}

/* ---- who else may come ---- */

static void two_that_left_are_remembered_for_a_minute(void **state)
{
    struct fixture *f = *state;
    struct lf_sched *s = &f->sched;
    struct lf_sched_tenant *me = visit(f, 1, 5);
    assert_false(lf_sched_others_may_come(s, me, 5)); /* nobody else has ever been here */
    struct lf_sched_tenant *guest = visit(f, 2, 10);
    assert_true(lf_sched_others_may_come(s, me, 9 + alone));
    assert_false(lf_sched_others_may_come(s, me, 10 + alone));
    assert_true(lf_sched_others_may_come(s, guest, 4 + alone));
    assert_false(lf_sched_others_may_come(s, guest, 5 + alone));
    (void)visit(f, 1, 20);
    (void)visit(f, 1, 30); /* it does not push the other one out */
    assert_true(lf_sched_others_may_come(s, me, 9 + alone));
    assert_false(lf_sched_others_may_come(s, me, 10 + alone));
    assert_false(lf_sched_others_may_come(s, guest, 30 + alone));
    assert_true(lf_sched_others_may_come(s, guest, 29 + alone));
    struct lf_sched_tenant *third = visit(f, 3, 40);
    assert_true(lf_sched_others_may_come(s, me, 39 + alone));
    assert_true(lf_sched_others_may_come(s, third, 29 + alone));
    assert_false(lf_sched_others_may_come(s, third, 30 + alone));
    struct lf_sched_seq *a = submit_for(f, 1, 0, 1, 50), *b = submit_for(f, 2, 0, 1, 50); /* both are here */
    assert_true(lf_sched_others_may_come(s, a->tenant, 50 + 2 * alone));
    lf_sched_end(s, b);
    assert_true(lf_sched_others_may_come(s, a->tenant, 49 + alone));
}

/* ---- shares ---- */

static struct lf_sched_seq *submit_shared_for(struct fixture *f, uint64_t tenant, int n_same, int n_prompt)
{
    f->seqs[f->n_seqs].tenant_id = tenant;
    return submit_shared(f, n_same, n_prompt, 2);
}

/* A tenant's share is 12 of 16 blocks, and those that two of its sequences have in common count once. */
static void blocks_in_common_count_once(void **state)
{
    struct fixture *f = *state;
    (void)submit_shared_for(f, 2, 0, 1);
    assert_non_null(lf_sched_admit(&f->sched, 2));
    struct lf_sched_seq *first = submit_shared_for(f, 1, 4 * B, 6 * B);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), first);
    while (lf_sched_in_prefill(first)) step(f);
    struct lf_sched_seq *second = submit_shared_for(f, 1, 4 * B, 8 * B);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), second); /* 6 + 8 - 4 = 10 */
    assert_int_equal(second->n_cached, 4 * B);
    for (int wrapped = 0; wrapped < 2; wrapped++) {
        if (wrapped) { /* epochs begin anew; a block that was counted in one of the same number does not count */
            f->sched.held_epoch = UINT32_MAX;
            for (int i = 0; i < N_BLOCKS; i++) f->held_epochs[i] = 1;
        }
        struct lf_sched_seq *more = submit_shared_for(f, 1, 4 * B, 6 * B + 1);
        assert_null(lf_sched_admit(&f->sched, 2)); /* 10 + 7 - 4 = 13 */
        lf_sched_end(&f->sched, more);
    }
    struct lf_sched_seq *most = submit_shared_for(f, 1, 4 * B, 6 * B);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), most); /* 12 */
}

static void of_one_slot_the_share_is_that_slot(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.max_seqs = 1;
    (void)visit(f, 2, 1);
    struct lf_sched_seq *seq = submit_for(f, 1, 0, 1, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), seq);
}

/* Tenant 1 holds 6 of its 12 blocks, wants 7 more, and has smaller ones behind that. */
static struct lf_sched_seq *wait_beyond_share(struct fixture *f, int64_t now_ns)
{
    (void)submit_for(f, 2, 0, 1, now_ns);
    (void)submit_for(f, 1, 0, 6 * B, now_ns);
    assert_non_null(lf_sched_admit(&f->sched, now_ns));
    assert_non_null(lf_sched_admit(&f->sched, now_ns));
    struct lf_sched_seq *beyond = submit_for(f, 1, 0, 7 * B, now_ns);
    assert_null(lf_sched_admit(&f->sched, now_ns));
    return beyond;
}

static void what_is_beyond_a_share_is_passed_for_a_while_only(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *beyond = wait_beyond_share(f, 2);
    struct lf_sched_seq *small = submit_for(f, 1, 0, B, 3);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1 + LF_SCHED_BYPASS_NS), small);
    lf_sched_end(&f->sched, small);
    small = submit_for(f, 1, 0, B, 3);
    assert_null(lf_sched_admit(&f->sched, 2 + LF_SCHED_BYPASS_NS));
    lf_sched_end(&f->sched, beyond);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2 + LF_SCHED_BYPASS_NS), small);
}

static void what_is_beyond_a_share_is_passed_by_a_pool_of_blocks_at_most(void **state)
{
    struct fixture *f = *state;
    (void)wait_beyond_share(f, 2);
    int n_passed = 0;
    for (;;) {
        struct lf_sched_seq *small = submit_for(f, 1, 0, 4 * B, 3);
        if (!lf_sched_admit(&f->sched, 4)) break;
        lf_sched_end(&f->sched, small);
        f->n_seqs--;
        memset(small, 0, sizeof *small);
        n_passed += 4;
    }
    assert_int_equal(n_passed, N_BLOCKS);
}

int main(void)
{
#define CASE(fn)   cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define SHARED(fn) cmocka_unit_test_setup_teardown(fn, setup_shared, teardown)
    const struct CMUnitTest tests[] = {
        CASE(an_entry_that_is_needed_is_the_absent_ones_that_was_served_least),
        CASE(who_comes_is_brought_level),
        CASE(a_prefill_that_begins_is_four_steps_ahead_at_most),
        CASE(decodes_are_charged_to_their_tenants),
        CASE(a_start_is_charged),
        CASE(whoever_was_given_least_is_next_and_nobody_waits_for_ever),
        CASE(two_that_left_are_remembered_for_a_minute),
        SHARED(blocks_in_common_count_once),
        CASE(of_one_slot_the_share_is_that_slot),
        CASE(what_is_beyond_a_share_is_passed_for_a_while_only),
        CASE(what_is_beyond_a_share_is_passed_by_a_pool_of_blocks_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
