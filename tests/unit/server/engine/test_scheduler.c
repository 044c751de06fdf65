/* Single decisions of the scheduler. What it promises over time is in tests/sim/test_policy.c. */
#include "tests/unit/server/engine/sched_rig.h"

#include <math.h>

static void blocks_are_counted_for_prompt_and_answer(void **state)
{
    (void)state;
    assert_int_equal(lf_sched_n_blocks(1, 0), 1);
    assert_int_equal(lf_sched_n_blocks(64, 0), 1);
    assert_int_equal(lf_sched_n_blocks(64, 1), 2);
    assert_int_equal(lf_sched_n_blocks(100, 28), 2);
    assert_int_equal(lf_sched_n_blocks(INT32_MAX, INT32_MAX), (INT64_C(2) * INT32_MAX + 63) / 64);
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

static void an_empty_scheduler_plans_nothing(void **state)
{
    struct fixture *f = *state;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, 0);
    assert_null(lf_sched_admit(&f->sched, 1));
    assert_int_equal(lf_sched_retry_after_s(&f->sched, 1000), 1);
    assert_true(lf_sched_prefill_speed(&f->sched) == 0 && lf_sched_decode_speed(&f->sched) == 0);
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

/* More may run than a step has sequences: they take turns, and a prefill has its place among them. */
static void who_runs_beyond_max_seqs_takes_turns(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.n_kept = 1;
    for (int i = 0; i < MAX_SEQS; i++) (void)submit_for(f, 1, 0, 1, 1);
    for (int i = 0; i < MAX_SEQS; i++) f->seqs[i].max_tokens = 60;
    while (lf_sched_admit(&f->sched, 1)) continue;
    step(f);
    struct lf_sched_seq *guest = submit_for(f, 2, 0, 3 * B, 2);
    guest->max_tokens = B;
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), guest);
    for (int i = 0; i < 20; i++) {
        bool prefill = lf_sched_in_prefill(guest);
        int n_done = guest->n_done;
        step(f);
        assert_int_equal(f->step.n_items, MAX_SEQS);
        if (prefill) assert_true(guest->n_done > n_done);
    }
    assert_true(guest->n_done > 3 * B);
    for (int i = 0; i < MAX_SEQS; i++) assert_in_range(f->seqs[i].n_done, 12, 20);
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
    lf_sched_check(&f->sched, refs);
    int n = 0;
    for (struct lf_sched_seq *seq; (seq = lf_sched_admit(&f->sched, 10)) != NULL; n++) lf_sched_end(&f->sched, seq);
    assert_int_equal(n, 8);
    assert_int_equal(f->sched.n_here, 0);
    f->n_seqs = 0;
    memset(f->seqs, 0, sizeof(f->seqs));
    (void)submit_for(f, 200, 0, 1, 20); /* takes the entry of one that is gone */
    assert_int_equal(f->seqs[0].tenant->id, 200);
    lf_sched_check(&f->sched, refs);
}

static void the_last_row_of_a_prompt_gets_logits_and_no_other(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit(f, 100, 5, 1);
    (void)lf_sched_admit(&f->sched, 1);
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->items[0].n_tokens, B); /* nothing is known yet: one block */
    assert_int_equal(f->step.n_out, 0);
    run(f, LF_NS_PER_MS);
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->items[0].n_tokens, 36);
    assert_int_equal(f->items[0].out_first, 35);
    assert_int_equal(f->items[0].n_out, 1);
    run(f, LF_NS_PER_MS);
    assert_false(lf_sched_in_prefill(seq));
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_prefill_tokens, 0);
    assert_int_equal(f->items[0].n_out, 1);
}

/* A step may be planned and launched on ids that the step before it has yet to sample. */
static void placeholder_tokens_go_on_to_the_next_step_and_are_filled_in_later(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit(f, 10, 3, 1);
    (void)lf_sched_admit(&f->sched, 1);
    for (int k = 0; k < 3; k++) {
        lf_sched_plan_step(&f->sched, &f->step);
        assert_int_equal(f->step.n_items, 1);
        assert_int_equal(f->items[0].first, k == 0 ? 0 : 9 + k);
        assert_true(f->items[0].complete);
        lf_sched_launched(&f->sched, &f->step);
        assert_int_equal(seq->n_ids, 11 + k);
        assert_int_equal(seq->ids[10 + k], -1); /* logits row 0 of that step */
        if (k > 0) lf_sched_sampled(&f->sched, seq, 70 + k);
        assert_int_equal(seq->n_placeholders, LF_MIN(k + 1, 1));
    }
    assert_int_equal(seq->ids[10], 71);
    assert_int_equal(seq->ids[11], 72);
    lf_sched_plan_step(&f->sched, &f->step); /* the last id is a placeholder: nothing is left to compute */
    assert_int_equal(f->step.n_items, 0);
    lf_sched_sampled(&f->sched, seq, 73);
    assert_int_equal(seq->ids[12], 73);
    assert_int_equal(seq->n_placeholders, 0);
}

static void an_echo_gets_logits_of_every_row_it_needs(void **state)
{
    struct fixture *f = *state;
    f->seqs[0].all_logits = true;
    struct lf_sched_seq *seq = submit(f, 10, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    int n_tokens = 0, n_out = 0;
    while (lf_sched_in_prefill(seq)) {
        lf_sched_plan_step(&f->sched, &f->step);
        assert_true(f->step.n_out <= MAX_SEQS && f->items[0].out_first == 0);
        n_tokens += f->step.n_tokens;
        n_out += f->step.n_out;
        run(f, LF_NS_PER_MS);
    }
    assert_int_equal(n_tokens, 10);
    assert_int_equal(n_out, 9); /* the last token's logits would say what follows, which nobody asked */
}

static void every_decode_gets_its_row_beside_a_prefill(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) (void)submit(f, 10, 2 * B, i);
    while (lf_sched_admit(&f->sched, 3)) continue;
    for (int i = 0; i < 5; i++) step(f);
    (void)submit(f, 5 * B, 1, 4);
    assert_non_null(lf_sched_admit(&f->sched, 5));
    step(f);
    assert_int_equal(f->step.n_items, 4);
    assert_true(f->step.n_prefill_tokens >= B);
    assert_int_equal(f->step.n_tokens - f->step.n_prefill_tokens, 3);
}

static void decodes_that_do_not_fit_take_turns(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.chunk = 3;
    for (int i = 0; i < 4; i++) (void)submit(f, 1, 60, i);
    while (lf_sched_admit(&f->sched, 3)) continue;
    for (int i = 0; i < 4 + 16; i++) step(f);
    int least = 100, most = 0;
    for (int i = 0; i < 4; i++) {
        least = LF_MIN(least, f->seqs[i].n_done);
        most = LF_MAX(most, f->seqs[i].n_done);
    }
    assert_true(least >= 10 && most - least <= 4);
}

/* Three that decode and a long prompt: steps of whole tiles, but for the prompt's last tokens. */
static void prefills_fill_tiles_of_rows(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.token_tile = 48;
    for (int i = 0; i < 3; i++) (void)submit(f, 1, 60, i);
    while (lf_sched_admit(&f->sched, 3)) continue;
    step(f);
    struct lf_sched_seq *prompt = submit(f, 780, 1, 4);
    assert_ptr_equal(lf_sched_admit(&f->sched, 5), prompt);
    int n_whole = 0;
    while (lf_sched_in_prefill(prompt)) {
        lf_sched_plan_step(&f->sched, &f->step);
        assert_int_equal(f->step.n_tokens - f->step.n_prefill_tokens, 3);
        bool ends = prompt->n_done + f->step.n_prefill_tokens == prompt->n_prompt;
        if (!ends && f->step.n_tokens >= 48) assert_int_equal(f->step.n_tokens % 48, 0);
        n_whole += f->step.n_tokens % 48 == 0;
        run(f, LF_NS_PER_MS);
    }
    assert_true(n_whole >= 3);
}

/* ---- how large a chunk is ---- */

/* The tokens of the next step's only item. */
static int next_chunk(struct fixture *f)
{
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, 1);
    lf_sched_launched(&f->sched, &f->step);
    return f->items[0].n_tokens;
}

static void a_chunk_ends_with_a_block_or_with_sixteen_tokens(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 500, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    set_cost(f, 0.99 * LF_NS_PER_MS, 1e-6); /* 50 tokens in the 50 ms of a step */
    assert_int_equal(next_chunk(f), 48);
    assert_int_equal(next_chunk(f), 16); /* to the end of the block, not to token 98 */
    assert_int_equal(next_chunk(f), 48);
    set_cost(f, 0.3 * LF_NS_PER_MS, 1e-6); /* 166 tokens: 112 + 166 = 278, of which 256 are whole blocks */
    assert_int_equal(next_chunk(f), 144);
    set_cost(f, 5 * LF_NS_PER_MS, 1e-6); /* 10 tokens: fewer than a step has at least */
    assert_int_equal(next_chunk(f), 16);
    set_cost(f, 0.2 * LF_NS_PER_MS, 1e-6); /* 250 tokens: all that is left */
    assert_int_equal(next_chunk(f), 500 - 272);
}

/* A chunk that begins between two multiples of sixteen and can afford nothing goes to the next of them. */
static void the_least_chunk_is_sixteen_tokens_or_the_rest(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 40, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    set_cost(f, 100 * LF_NS_PER_MS, 1e-6); /* not one token is affordable */
    assert_int_equal(next_chunk(f), 16);
    assert_int_equal(next_chunk(f), 16);
    assert_int_equal(next_chunk(f), 8);
}

/* Where tokens come in tiles: whole ones, but all that is left of a prompt; below a tile it is blocks and sixteens. */
static void a_chunk_ends_with_a_tile(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 40 + 34 + 96 + 50, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    f->sched.opts.token_tile = 40;
    set_cost(f, 1.24 * LF_NS_PER_MS, 1e-6); /* 40 tokens: one tile */
    assert_int_equal(next_chunk(f), 40);
    f->sched.opts.token_tile = 2;
    set_cost(f, 1.42 * LF_NS_PER_MS, 1e-6); /* 35 tokens: to token 74 */
    assert_int_equal(next_chunk(f), 34);
    f->sched.opts.token_tile = 96;
    set_cost(f, 1.42 * LF_NS_PER_MS, 1e-6); /* less than a tile: to token 96 of 109 */
    assert_int_equal(next_chunk(f), 22);
    f->sched.opts.token_tile = 37;
    set_cost(f, 0.6 * LF_NS_PER_MS, 1e-6); /* 83 tokens: two tiles */
    assert_int_equal(next_chunk(f), 74);
    f->sched.opts.token_tile = 40;
    set_cost(f, 0.99 * LF_NS_PER_MS, 1e-6); /* 50 tokens, and 50 are left */
    assert_int_equal(next_chunk(f), 50);
}

/* The eldest prefill saves up a quarter of each step until that is worth sixteen tokens, without logits. */
static void the_eldest_prefill_has_a_quarter(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *eldest = submit(f, 500, 0, 1), *shortest = submit(f, 200, 0, 2);
    while (lf_sched_admit(&f->sched, 2)) continue;
    set_cost(f, LF_NS_PER_MS, 1e-6);
    f->sched.cost.w[LF_COST_LOGITS] = 40 * LF_NS_PER_MS;
    lf_sched_plan_step(&f->sched, &f->step); /* 12.5 ms saved, 16 needed */
    assert_int_equal(f->step.n_items, 1);
    assert_ptr_equal(f->items[0].seq, shortest);
    assert_int_equal(f->items[0].n_tokens, 48);
    lf_sched_launched(&f->sched, &f->step);
    lf_sched_plan_step(&f->sched, &f->step); /* 25 */
    assert_int_equal(f->step.n_items, 2);
    assert_ptr_equal(f->items[0].seq, eldest);
    assert_int_equal(f->items[0].n_tokens, 16);
    assert_ptr_equal(f->items[1].seq, shortest);
    assert_int_equal(f->items[1].n_tokens, 16);
    assert_true(fabs(eldest->tenant->eldest_credit_ns - 9 * LF_NS_PER_MS) < 1);
}

/* It gets sixteen tokens for it even where fewer would end with a multiple of that. */
static void the_eldests_chunk_is_no_smaller_than_what_was_saved_for(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *eldest = submit(f, 500, 0, 1);
    (void)submit(f, 200, 0, 2);
    while (lf_sched_admit(&f->sched, 2)) continue;
    set_cost(f, LF_NS_PER_MS, 1e-6);
    eldest->n_done = 8;
    f->sched.opts.step_ns = f->sched.opts.alone_ns = 36 * LF_NS_PER_MS; /* 9 ms saved, then 18: to token 16 of 26 */
    for (int i = 0; i < 2; i++) {
        lf_sched_plan_step(&f->sched, &f->step);
        if (i == 0) lf_sched_launched(&f->sched, &f->step);
    }
    assert_ptr_equal(f->items[0].seq, eldest);
    assert_int_equal(f->items[0].n_tokens, 16);
    eldest->n_done = 0;
}

/* ---- whose prefill is next ---- */

static void run_for(struct fixture *f, uint64_t tenant, int n_prompt)
{
    (void)submit_for(f, tenant, 0, n_prompt, 1);
    assert_non_null(lf_sched_admit(&f->sched, 1));
}

static void the_tenant_that_was_served_least_is_next(void **state)
{
    struct fixture *f = *state;
    run_for(f, 1, 250);
    run_for(f, 2, 250);
    run_for(f, 2, 250);
    set_cost(f, LF_NS_PER_MS, 1e-6);
    f->seqs[0].tenant->served_ns = 1000;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_ptr_equal(f->items[0].seq, &f->seqs[1]);
    assert_int_equal(f->items[0].n_tokens, 48);
    assert_true(fabs(f->seqs[1].tenant->served_ns - 48 * LF_NS_PER_MS) < 1);
    assert_true(f->seqs[0].tenant->served_ns == 1000);
    lf_sched_launched(&f->sched, &f->step);
    f->seqs[0].tenant->served_ns = f->seqs[1].tenant->served_ns;
    lf_sched_plan_step(&f->sched, &f->step); /* of two that are level the one whose sequence came first */
    assert_ptr_equal(f->items[0].seq, &f->seqs[0]);
}

/* Accounts of those whose prefills go on stand as they are; one that begins anew is at most so far behind. */
static void only_a_tenant_that_begins_is_brought_level(void **state)
{
    struct fixture *f = *state;
    run_for(f, 1, 250);
    run_for(f, 2, 250);
    step(f);
    struct lf_sched_tenant *t = f->seqs[0].tenant;
    t->served_ns = 5e9;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_true(t->served_ns >= 5e9);
    lf_sched_end(&f->sched, &f->seqs[0]);
    lf_sched_plan_step(&f->sched, &f->step); /* without it */
    run_for(f, 1, 250);
    double most_ns = f->sched.served_level_ns + (double)LF_SCHED_DEBT_NS;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_true(t->served_ns <= most_ns + 50 * LF_NS_PER_MS);
}

/* Two tenants decode, one much more; the other one's prefill gets what the first one's decodes took more than its own,
 * and what rounding to whole blocks may cost. */
static void who_decodes_less_gets_the_rest_for_its_prefill(void **state)
{
    struct fixture *f = *state;
    const int n_prompts[] = {11, 12, 3};
    f->sched.opts.step_ns = 4 * LF_NS_PER_MS;
    for (int i = 0; i < 3; i++) {
        f->seqs[i].tenant_id = i < 2 ? 1 : 2;
        (void)submit(f, n_prompts[i], 20, 1);
    }
    while (lf_sched_admit(&f->sched, 1)) continue;
    for (int i = 0; i < 10 && f->seqs[0].n_done + f->seqs[1].n_done + f->seqs[2].n_done < 26; i++) {
        lf_sched_plan_step(&f->sched, &f->step);
        run(f, LF_NS_PER_MS);
    }
    struct lf_sched_seq *prompt = submit_for(f, 2, 0, 500, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), prompt);
    for (int i = 0; i < 3; i++) assert_int_equal(f->seqs[i].n_done, n_prompts[i]);
    set_cost(f, LF_NS_PER_MS, LF_NS_PER_MS); /* decodes of 13 + 14 and of 5 ms */
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, 4);
    assert_ptr_equal(f->items[3].seq, prompt);
    assert_int_equal(f->items[3].n_tokens, 48); /* 32 - 2 * 5 ms, and half a block: 54 tokens */
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

/* Beside decodes a prefill has what they leave of a step; alone it has longer ones for itself. */
static void a_prefills_time_is_predicted_with_what_runs_beside_it(void **state)
{
    struct fixture *f = *state;
    f->seqs[0].tenant_id = 2; /* another's, so that prefills of it would count too, if there were any */
    struct lf_sched_seq *decodes = submit(f, 10, 20, 1);
    (void)lf_sched_admit(&f->sched, 1);
    while (lf_sched_in_prefill(decodes)) step(f);
    struct lf_sched_seq *seq = submit(f, 250, 0, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), seq);
    set_cost(f, LF_NS_PER_MS, 1e-6);
    f->sched.opts.alone_ns = 200 * LF_NS_PER_MS;
    assert_int_equal(lf_sched_eta_ns(&f->sched, seq), 255102041); /* 250e6 * 50 / 49: a token is the other's */
    f->sched.cost.w[LF_COST_STEP] = 45e6;                         /* a quarter at least */
    assert_true(fabs((double)lf_sched_eta_ns(&f->sched, seq) - 250e6 * 4) < 1000);
    f->sched.cost.w[LF_COST_STEP] = 99e6; /* steps of decodes that take longer than they should */
    assert_true(fabs((double)lf_sched_eta_ns(&f->sched, seq) - 250e6 * 100 / 12.5) < 1000);
    f->sched.cost.w[LF_COST_STEP] = 1e-6;
    lf_sched_end(&f->sched, decodes);
    assert_int_equal(lf_sched_eta_ns(&f->sched, seq), 250000001); /* and keys of a millionth of a ns each */
    seq->n_done = 250;
    assert_int_equal(lf_sched_eta_ns(&f->sched, seq), 0);
    seq->n_done = 0;
}

static void retry_after_follows_backlog_and_speed(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 600, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    assert_true(lf_sched_eta_ns(&f->sched, &f->seqs[0]) > 0); /* nothing measured: of an assumed machine */
    lf_sched_plan_step(&f->sched, &f->step);
    run(f, LF_NS_PER_S); /* 64 tokens a second */
    assert_int_equal((int)lf_sched_prefill_speed(&f->sched), 64);
    assert_int_equal(lf_sched_retry_after_s(&f->sched, 0), 9); /* 536 left */
    assert_int_equal(lf_sched_retry_after_s(&f->sched, 640), 19);
    assert_int_equal(lf_sched_retry_after_s(&f->sched, 1000000), 60);
    assert_true(lf_sched_eta_ns(&f->sched, &f->seqs[0]) > 5 * (int64_t)LF_NS_PER_S);
}

int main(void)
{
#define CASE(fn)   cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define SHARED(fn) cmocka_unit_test_setup_teardown(fn, setup_shared, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_counted_for_prompt_and_answer),
        CASE(admission_reserves_everything_and_end_gives_it_back),
        CASE(an_empty_scheduler_plans_nothing),
        CASE(the_queue_is_in_order_of_arrival_and_priority),
        CASE(no_more_run_than_may),
        CASE(a_small_request_passes_a_large_one_only_in_its_time_of_grace),
        CASE(no_more_than_a_pool_of_blocks_passes),
        CASE(a_tenant_among_others_gets_three_quarters_of_the_pool_and_no_block_more),
        CASE(a_tenant_among_others_gets_three_quarters_of_the_slots),
        CASE(a_slot_is_kept_for_a_tenant_that_runs_nothing),
        CASE(who_runs_beyond_max_seqs_takes_turns),
        CASE(a_kept_slot_passes_a_large_request_only_in_its_time_of_grace),
        CASE(a_request_larger_than_a_share_waits_until_its_tenant_is_alone_or_for_a_minute),
        CASE(tenants_beyond_the_table_share_an_entry),
        CASE(the_last_row_of_a_prompt_gets_logits_and_no_other),
        CASE(placeholder_tokens_go_on_to_the_next_step_and_are_filled_in_later),
        CASE(an_echo_gets_logits_of_every_row_it_needs),
        CASE(every_decode_gets_its_row_beside_a_prefill),
        CASE(decodes_that_do_not_fit_take_turns),
        CASE(prefills_fill_tiles_of_rows),
        CASE(a_chunk_ends_with_a_block_or_with_sixteen_tokens),
        CASE(the_least_chunk_is_sixteen_tokens_or_the_rest),
        CASE(a_chunk_ends_with_a_tile),
        CASE(the_eldest_prefill_has_a_quarter),
        CASE(the_eldests_chunk_is_no_smaller_than_what_was_saved_for),
        CASE(the_tenant_that_was_served_least_is_next),
        CASE(only_a_tenant_that_begins_is_brought_level),
        CASE(who_decodes_less_gets_the_rest_for_its_prefill),
        SHARED(a_prompt_waits_for_one_that_computes_half_of_it),
        SHARED(a_prompt_waits_for_none_that_is_four_times_as_long),
        SHARED(a_prompt_that_is_cached_in_part_waits_for_half_of_the_rest),
        SHARED(a_prompt_that_did_not_fit_is_looked_at_anew),
        SHARED(who_follows_waits_until_its_leader_has_computed_the_prompt),
        SHARED(what_is_cached_is_not_computed_and_not_charged),
        CASE(a_prefills_time_is_predicted_with_what_runs_beside_it),
        CASE(retry_after_follows_backlog_and_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
