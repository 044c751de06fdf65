/* server/engine/admission.c: who starts next, with which blocks, and who waits for whom. */
#include "tests/unit/server/engine/sched_rig.h"

static void blocks_are_counted_for_prompt_and_answer(void **state)
{
    (void)state;
    struct lf_kv_windows w = {0};
    assert_int_equal(lf_sched_n_blocks(&w, 1, 0), 1);
    assert_int_equal(lf_sched_n_blocks(&w, 64, 0), 1);
    assert_int_equal(lf_sched_n_blocks(&w, 64, 1), 2);
    assert_int_equal(lf_sched_n_blocks(&w, 100, 28), 2);
    assert_int_equal(lf_sched_n_blocks(&w, INT32_MAX, INT32_MAX), (INT64_C(2) * INT32_MAX + 63) / 64);
    w.block_tokens = 256;
    assert_int_equal(lf_sched_n_blocks(&w, 200, 56), 1);
    assert_int_equal(lf_sched_n_blocks(&w, 200, 57), 2);
}

static void admission_reserves_everything_and_end_gives_it_back(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit(f, 5 * B, 3 * B, 1);
    assert_int_equal(f->pool.n_free, N_BLOCKS);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), seq);
    assert_int_equal(f->pool.n_free, N_BLOCKS - 8);
    assert_null(lf_sched_admit(&f->sched, 2));
    lf_sched_end(&f->sched, seq);
    assert_int_equal(f->pool.n_free, N_BLOCKS);
}

static void the_queue_is_in_order_of_arrival_and_priority(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *a = submit(f, 1, 1, 1000), *b = submit(f, 1, 1, 2000);
    f->seqs[2].priority = -1;
    f->seqs[3].priority = 1;
    struct lf_sched_seq *urgent = submit(f, 1, 1, 3000), *late = submit(f, 1, 1, 0);
    struct lf_sched_seq *order[] = {urgent, a, b, late};
    for (int i = 0; i < 4; i++) assert_ptr_equal(lf_sched_admit(&f->sched, 4000), order[i]);
}

static void no_more_run_than_may(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < MAX_SEQS + 1; i++) (void)submit(f, 1, 1, i);
    for (int i = 0; i < MAX_SEQS; i++) assert_non_null(lf_sched_admit(&f->sched, 10));
    assert_null(lf_sched_admit(&f->sched, 10));
    lf_sched_end(&f->sched, &f->seqs[1]);
    assert_ptr_equal(lf_sched_admit(&f->sched, 10), &f->seqs[MAX_SEQS]);
}

static void a_small_request_passes_a_large_one_only_in_its_time_of_grace(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, B, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    struct lf_sched_seq *large = submit(f, N_BLOCKS * B, 0, 2), *small = submit(f, B, 0, 3);
    assert_ptr_equal(lf_sched_admit(&f->sched, 4), small);
    struct lf_sched_seq *next = submit(f, B, 0, 5);
    assert_null(lf_sched_admit(&f->sched, 4 + LF_SCHED_BYPASS_NS));
    lf_sched_end(&f->sched, &f->seqs[0]);
    lf_sched_end(&f->sched, small);
    assert_ptr_equal(lf_sched_admit(&f->sched, 5 + LF_SCHED_BYPASS_NS), large);
    assert_int_equal(next->phase, LF_SCHED_WAITING);
    lf_sched_end(&f->sched, next); /* from the queue */
}

static void no_more_than_a_pool_of_blocks_passes(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, B, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    (void)submit(f, N_BLOCKS * B, 0, 2);
    int n_passed = 0;
    struct lf_sched_seq *seq = NULL;
    do {
        if (seq) {
            lf_sched_end(&f->sched, seq);
            f->n_seqs--;
            memset(seq, 0, sizeof(*seq));
            n_passed += 4;
        }
        (void)submit(f, 4 * B, 0, 3);
    } while ((seq = lf_sched_admit(&f->sched, 4)) != NULL);
    assert_int_equal(n_passed, N_BLOCKS);
}

/* What has passed one that waited before does not count against the next. */
static void each_that_waits_is_passed_by_a_pool_of_blocks_of_its_own(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, B, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    for (int i = 0; i < 2; i++) {
        struct lf_sched_seq *large = submit(f, N_BLOCKS * B, 0, 2), *small = submit(f, 9 * B, 0, 3);
        assert_ptr_equal(lf_sched_admit(&f->sched, 4), small); /* twice would be more than the pool */
        lf_sched_end(&f->sched, small);
        lf_sched_end(&f->sched, large);
    }
}

/* ---- tenants ---- */

static void a_tenant_among_others_gets_three_quarters_of_the_pool_and_no_block_more(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *other = submit_for(f, 2, 0, 1, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), other);
    (void)submit_for(f, 1, 0, 6 * B, 2);
    (void)submit_for(f, 1, 0, 7 * B, 2);
    (void)submit_for(f, 1, 0, 6 * B, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), &f->seqs[1]);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), &f->seqs[3]); /* 12 of 16; it has passed one of 13 */
    struct lf_sched_seq *more = submit_for(f, 1, 0, 1, 3);
    assert_null(lf_sched_admit(&f->sched, 3));
    lf_sched_end(&f->sched, &f->seqs[2]);
    assert_null(lf_sched_admit(&f->sched, 3));
    lf_sched_end(&f->sched, other); /* who may come back for a minute */
    assert_null(lf_sched_admit(&f->sched, 2 + LF_SCHED_ALONE_NS));
    assert_ptr_equal(lf_sched_admit(&f->sched, 3 + LF_SCHED_ALONE_NS), more);
}

static void a_tenant_among_others_gets_three_quarters_of_the_slots(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < MAX_SEQS; i++) (void)submit_for(f, 1, -8, 1, 1);
    struct lf_sched_seq *other = submit_for(f, 2, 8, 5 * B, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), &f->seqs[0]);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), other); /* its turn, whatever the priorities */
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), &f->seqs[1]);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), &f->seqs[2]);
    lf_sched_end(&f->sched, other);
    assert_null(lf_sched_admit(&f->sched, 3));
    assert_int_equal(f->seqs[3].phase, LF_SCHED_WAITING);
}

/* A tenant alone has all slots of max_seqs and no other; the one beyond them is of whoever comes and runs nothing. */
static void a_slot_is_kept_for_a_tenant_that_runs_nothing(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.n_kept = 1;
    for (int i = 0; i < MAX_SEQS + 1; i++) (void)submit_for(f, 1, -8, 1, 1);
    for (int i = 0; i < MAX_SEQS; i++) assert_ptr_equal(lf_sched_admit(&f->sched, 1), &f->seqs[i]);
    assert_null(lf_sched_admit(&f->sched, 1));
    struct lf_sched_seq *guest = submit_for(f, 2, 8, 1, 2), *more = submit_for(f, 2, 8, 1, 2);
    struct lf_sched_seq *third = submit_for(f, 3, 0, 1, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), guest);
    assert_null(lf_sched_admit(&f->sched, 2));
    lf_sched_end(&f->sched, &f->seqs[0]);
    assert_ptr_equal(lf_sched_admit(&f->sched, 3), third);
    assert_null(lf_sched_admit(&f->sched, 3));
    lf_sched_end(&f->sched, &f->seqs[1]);
    assert_null(lf_sched_admit(&f->sched, 4)); /* max_seqs run: neither tenant may have the one beyond */
    lf_sched_end(&f->sched, &f->seqs[2]);
    lf_sched_end(&f->sched, &f->seqs[4]);
    assert_ptr_equal(lf_sched_admit(&f->sched, 5), more);
}

/* A kept slot is no way past one whose turn is before and that waits for blocks. */
static void a_kept_slot_passes_a_large_request_only_in_its_time_of_grace(void **state)
{
    struct fixture *f = *state;
    const int64_t t = 2 + LF_SCHED_ALONE_NS;
    f->sched.opts.n_kept = 1;
    struct lf_sched_seq *before = submit_for(f, 2, 0, 12 * B, 1); /* what the guest pays for it puts its turn behind */
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), before);
    lf_sched_end(&f->sched, before);
    for (int i = 0; i < 3; i++) {
        struct lf_sched_seq *seq = submit_for(f, 1, 0, 3 * B, t);
        assert_ptr_equal(lf_sched_admit(&f->sched, t), seq);
    }
    struct lf_sched_seq *large = submit_for(f, 1, -1, 8 * B, t), *small = submit_for(f, 1, 0, B, t);
    assert_ptr_equal(lf_sched_admit(&f->sched, t), small); /* the last slot; large waits for blocks from now on */
    struct lf_sched_seq *guest = submit_for(f, 2, 0, B, t + LF_SCHED_BYPASS_NS);
    assert_null(lf_sched_admit(&f->sched, t + LF_SCHED_BYPASS_NS));
    assert_int_equal(large->phase, LF_SCHED_WAITING);
    lf_sched_end(&f->sched, large);
    assert_ptr_equal(lf_sched_admit(&f->sched, t + LF_SCHED_BYPASS_NS), guest);
}

static void a_request_larger_than_a_share_waits_until_its_tenant_is_alone_or_for_a_minute(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *other = submit_for(f, 2, 0, 1, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), other);
    struct lf_sched_seq *large = submit_for(f, 1, 0, 13 * B, 2);
    assert_null(lf_sched_admit(&f->sched, 1 + LF_SCHED_ALONE_NS));
    assert_ptr_equal(lf_sched_admit(&f->sched, 2 + LF_SCHED_ALONE_NS), large);
    lf_sched_end(&f->sched, large);
    large = submit_for(f, 1, 0, 13 * B, 3 + LF_SCHED_ALONE_NS);
    assert_null(lf_sched_admit(&f->sched, 3 + LF_SCHED_ALONE_NS));
    lf_sched_end(&f->sched, other); /* alone at this moment */
    assert_ptr_equal(lf_sched_admit(&f->sched, 4 + LF_SCHED_ALONE_NS), large);
}

/* More than the table has entries for: they share one, and everybody is served. */
static void tenants_beyond_the_table_share_an_entry(void **state)
{
    struct fixture *f = *state;
    int32_t refs[N_BLOCKS];
    for (int i = 0; i < 8; i++) (void)submit_for(f, 100 + (uint64_t)i, 0, 1, i);
    assert_int_equal(f->sched.n_here, 4);
    lf_sched_check(&f->sched, NULL, refs);
    int n = 0;
    for (struct lf_sched_seq *seq; (seq = lf_sched_admit(&f->sched, 10)) != NULL; n++) lf_sched_end(&f->sched, seq);
    assert_int_equal(n, 8);
    assert_int_equal(f->sched.n_here, 0);
    f->n_seqs = 0;
    memset(f->seqs, 0, sizeof(f->seqs));
    (void)submit_for(f, 200, 0, 1, 20); /* takes the entry of one that is gone */
    assert_int_equal(f->seqs[0].tenant->id, 200);
    lf_sched_check(&f->sched, NULL, refs);
}

/* ---- what is shared ---- */

static void a_prompt_waits_for_one_that_computes_half_of_it(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *first = submit_shared(f, 3 * B, 8 * B + 1, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), first);
    struct lf_sched_seq *half = submit_shared(f, 3 * B, 6 * B, 2);
    assert_null(lf_sched_admit(&f->sched, 2));
    lf_sched_end(&f->sched, half);
    struct lf_sched_seq *less = submit_shared(f, 3 * B, 6 * B + 1, 3);
    assert_ptr_equal(lf_sched_admit(&f->sched, 3), less);
}

static void a_prompt_waits_for_none_that_is_four_times_as_long(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *first = submit_shared(f, 3 * B, 8 * B + 1, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), first);
    struct lf_sched_seq *within = submit_shared(f, 3 * B, 2 * B + 1, 2);
    assert_null(lf_sched_admit(&f->sched, 2)); /* 513 <= 4 * 129 */
    lf_sched_end(&f->sched, within);
    struct lf_sched_seq *beyond = submit_shared(f, 3 * B, 2 * B, 3);
    assert_ptr_equal(lf_sched_admit(&f->sched, 3), beyond);
    lf_sched_end(&f->sched, beyond);
    step(f); /* what is computed by now does not count */
    assert_int_equal(first->n_done, B);
    (void)submit_shared(f, 3 * B, B + 113, 4);
    assert_null(lf_sched_admit(&f->sched, 4)); /* 449 <= 4 * 113 */
    lf_sched_end(&f->sched, &f->seqs[3]);
    struct lf_sched_seq *short_rest = submit_shared(f, 3 * B, B + 112, 5);
    assert_ptr_equal(lf_sched_admit(&f->sched, 5), short_rest);
}

/* Of what is cached already there is nothing to wait for: half of the rest counts. */
static void a_prompt_that_is_cached_in_part_waits_for_half_of_the_rest(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *first = submit_shared(f, 4 * B, 6 * B, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), first);
    step(f);
    assert_int_equal(first->n_done, B);
    struct lf_sched_seq *half = submit_shared(f, 4 * B, 7 * B, 2);
    assert_null(lf_sched_admit(&f->sched, 2)); /* three of six blocks */
    assert_int_equal(half->n_hint, 1);
    lf_sched_end(&f->sched, half);
    struct lf_sched_seq *less = submit_shared(f, 4 * B, 7 * B + 1, 3);
    assert_ptr_equal(lf_sched_admit(&f->sched, 3), less);
}

/* What was cached when a prompt was looked at, and has been evicted since, is waited for like anything else. */
static void a_prompt_that_did_not_fit_is_looked_at_anew(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *before = submit_shared(f, 3 * B, 3 * B, 1);
    (void)lf_sched_admit(&f->sched, 1);
    while (lf_sched_in_prefill(before)) step(f);
    lf_sched_end(&f->sched, before);
    struct lf_sched_seq *runs = submit_shared(f, 0, 8 * B, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), runs);
    struct lf_sched_seq *large = submit_shared(f, 5 * B, 10 * B, 3);
    assert_null(lf_sched_admit(&f->sched, 3));
    assert_int_equal(large->n_hint, 3);
    struct lf_sched_seq *passes = submit_shared(f, 0, 8 * B, 4);
    assert_ptr_equal(lf_sched_admit(&f->sched, 4), passes); /* in the blocks that were cached */
    lf_sched_end(&f->sched, passes);
    assert_null(lf_sched_admit(&f->sched, 5));
    assert_int_equal(large->n_hint, 0);
    struct lf_sched_seq *same = submit_shared(f, 5 * B, 5 * B, 6);
    assert_ptr_equal(lf_sched_admit(&f->sched, 6), same);
    lf_sched_end(&f->sched, runs);
    assert_null(lf_sched_admit(&f->sched, 7)); /* it would fit now, and the other computes half of it */
    assert_int_equal(large->phase, LF_SCHED_WAITING);
}

/* The answers to one prompt: the first of them computes it, the others wait for that, however little it is. */
static void who_follows_waits_until_its_leader_has_computed_the_prompt(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *leader = submit_shared(f, B, B, 1);
    f->seqs[1].leader = leader;
    f->seqs[1].priority = 8; /* comes first, but its leader still waits */
    struct lf_sched_seq *follower = submit_shared(f, B, B, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), leader);
    assert_null(lf_sched_admit(&f->sched, 2));
    while (lf_sched_in_prefill(leader)) step(f);
    assert_ptr_equal(lf_sched_admit(&f->sched, 3), follower);
    assert_true(follower->admitted_no > leader->admitted_no);
}

static void what_is_cached_is_not_computed_and_not_charged(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *first = submit_shared(f, 4 * B, 4 * B, 1);
    (void)lf_sched_admit(&f->sched, 1);
    while (lf_sched_in_prefill(first)) step(f);
    lf_sched_end(&f->sched, first);
    struct lf_sched_seq *again = submit_shared(f, 4 * B, 7 * B, 2);
    double before_ns = again->tenant->admitted_ns;
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), again);
    assert_int_equal(again->n_done, 4 * B);
    assert_int_equal(again->n_cached, 4 * B);
    double paid_ns = again->tenant->admitted_ns - before_ns,
           price_ns = lf_cost_prefill_ns(&f->sched.cost, 4 * B, 3 * B, 1);
    assert_true(paid_ns > 0.999 * price_ns && paid_ns < 1.001 * price_ns);
    lf_sched_end(&f->sched, again);
    struct lf_sched_seq *same = submit_shared(f, 4 * B, 4 * B, 3); /* the block with the last token is computed */
    assert_ptr_equal(lf_sched_admit(&f->sched, 3), same);
    assert_int_equal(same->n_done, 3 * B);
}

int main(void)
{
#define CASE(fn)   cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define SHARED(fn) cmocka_unit_test_setup_teardown(fn, setup_shared, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_counted_for_prompt_and_answer),
        CASE(admission_reserves_everything_and_end_gives_it_back),
        CASE(the_queue_is_in_order_of_arrival_and_priority),
        CASE(no_more_run_than_may),
        CASE(a_small_request_passes_a_large_one_only_in_its_time_of_grace),
        CASE(no_more_than_a_pool_of_blocks_passes),
        CASE(each_that_waits_is_passed_by_a_pool_of_blocks_of_its_own),
        CASE(a_tenant_among_others_gets_three_quarters_of_the_pool_and_no_block_more),
        CASE(a_tenant_among_others_gets_three_quarters_of_the_slots),
        CASE(a_slot_is_kept_for_a_tenant_that_runs_nothing),
        CASE(a_kept_slot_passes_a_large_request_only_in_its_time_of_grace),
        CASE(a_request_larger_than_a_share_waits_until_its_tenant_is_alone_or_for_a_minute),
        CASE(tenants_beyond_the_table_share_an_entry),
        SHARED(a_prompt_waits_for_one_that_computes_half_of_it),
        SHARED(a_prompt_waits_for_none_that_is_four_times_as_long),
        SHARED(a_prompt_that_is_cached_in_part_waits_for_half_of_the_rest),
        SHARED(a_prompt_that_did_not_fit_is_looked_at_anew),
        SHARED(who_follows_waits_until_its_leader_has_computed_the_prompt),
        SHARED(what_is_cached_is_not_computed_and_not_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
