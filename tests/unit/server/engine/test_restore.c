/* server/engine/restore.c in the scheduler: which blocks are sent for, what is computed meanwhile, and when it goes on.
 * What lies below is the test's. */
#include "tests/unit/server/engine/sched_rig.h"

static bool below[8][N_BLOCKS]; /* [prompt, block] of those that submit_shared makes */
static int tier_of_block[N_BLOCKS];
static int n_asked;

static int find(void *ctx, const struct lf_prefix_key *key)
{
    const struct fixture *f = ctx;
    n_asked++;
    for (int s = 0; s < f->n_seqs; s++)
        for (int i = 0; i + 1 < f->seqs[s].n_keys; i++)
            if (below[s][i] && memcmp(&f->keys[s][i + 1], key, sizeof(*key)) == 0) return tier_of_block[i];
    return -1;
}

static uint8_t states[8][N_BLOCKS];

/* A device that computes a token in a µs, and blocks that come in so many. */
static int setup_below(void **state)
{
    if (setup_shared(state) != 0) return -1;
    struct fixture *f = *state;
    memset(below, 0, sizeof(below));
    memset(states, 0, sizeof(states));
    memset(tier_of_block, 0, sizeof(tier_of_block));
    n_asked = 0;
    for (int i = 0; i < 8; i++) f->seqs[i].restore.states = states[i];
    f->sched.opts.below =
        (struct lf_restore_source){.find = find, .ctx = f, .may_meet = true, .block_ns = {1000, 1000}};
    f->sched.opts.chunk = N_BLOCKS * B;
    set_cost(f, 1000, 1);
    return 0;
}

/* A prompt of n blocks and some tokens, of which those from first to end - 1 are below; it has been admitted. */
static struct lf_sched_seq *submit_below(struct fixture *f, int n, int first, int end)
{
    struct lf_sched_seq *seq = submit_shared(f, 0, n * B + 10, 1);
    for (int i = first; i < end; i++) below[f->n_seqs - 1][i] = true;
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), seq);
    return seq;
}

static void plans(struct fixture *f, int n_items)
{
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, n_items);
}

static int next_of(struct fixture *f, struct lf_sched_seq *seq)
{
    const struct lf_restore_traffic traffic = {.n_ahead = {seq->restore.n_coming}, .n_most = {N_BLOCKS, N_BLOCKS}};
    return lf_restore_next(&f->sched, seq, &traffic);
}

/* Loads all that may come, in the order in which it is asked for; returns how many. */
static int load_all(struct fixture *f, struct lf_sched_seq *seq, bool whole)
{
    int n = 0;
    for (int i; (i = next_of(f, seq)) >= 0; n++) lf_restore_back(seq, i, whole);
    return n;
}

static void nothing_below_is_as_before(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit_below(f, 4, 0, 0);
    assert_int_equal(n_asked, 4);
    assert_int_equal(next_of(f, seq), -1);
    plans(f, 1);
    assert_int_equal(f->items[0].n_tokens, 4 * B + 10);
    run(f, LF_NS_PER_MS);
    assert_int_equal(seq->n_cached, 0);
}

/* Who keeps blocks below hears of all that a prompt asks for, or what is always found in the cache is let go there. */
static void what_the_cache_has_is_asked_for_below_too(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        struct lf_sched_seq *seq = submit_shared(f, 4 * B, 4 * B + 10, 1);
        n_asked = 0;
        assert_ptr_equal(lf_sched_admit(&f->sched, 1), seq);
        assert_int_equal(seq->n_cached, i * 4 * B);
        assert_int_equal(n_asked, 4);
        plans(f, 1);
        run(f, LF_NS_PER_MS);
    }
}

static void the_block_of_the_last_token_is_never_sent_for(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit_shared(f, 0, 3 * B, 1);
    memset(below[0], true, sizeof(below[0]));
    (void)lf_sched_admit(&f->sched, 1);
    assert_int_equal(n_asked, 2);
    assert_int_equal(load_all(f, seq, true), 2);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 2 * B);
}

static void a_fast_disk_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit_below(f, 6, 0, 4);
    assert_int_equal(seq->restore.way, LF_RESTORE_WAIT);
    plans(f, 0);
    assert_true(lf_sched_in_prefill(seq));
    for (int i = 0; i < 4; i++) assert_int_equal(next_of(f, seq), i); /* from the front on */
    assert_int_equal(next_of(f, seq), -1);
    lf_restore_back(seq, 0, true);
    lf_restore_back(seq, 2, true);
    plans(f, 0); /* what is behind a gap is no use yet */
    assert_int_equal(seq->n_done, B);
    lf_restore_back(seq, 1, true);
    lf_restore_back(seq, 3, true);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 4 * B);
    assert_int_equal(f->items[0].n_tokens, 2 * B + 10);
    assert_int_equal(seq->n_cached, 4 * B);
    assert_int_equal(seq->n_restored, 4 * B);
    assert_int_equal(f->pool.n_cached, 0); /* in use, and entered: */
    for (int i = 0; i < 4; i++) assert_true(f->pool.blocks[seq->blocks[i]].cached);
    run(f, LF_NS_PER_MS);
    assert_false(lf_sched_in_prefill(seq));
}

static void what_others_do_goes_on_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *other = submit_shared(f, 0, 2 * B, 1);
    other->max_tokens = 20;
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), other);
    step(f);
    struct lf_sched_seq *seq = submit_below(f, 6, 0, 6);
    for (int k = 0; k < 5; k++) {
        int n_ids = other->n_ids;
        plans(f, 1);
        assert_ptr_equal(f->items[0].seq, other);
        run(f, LF_NS_PER_MS);
        assert_int_equal(other->n_ids, n_ids + 1);
    }
    load_all(f, seq, true);
    plans(f, 2);
}

static void a_broken_block_is_computed_and_the_others_are_not(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit_below(f, 6, 0, 6);
    while (next_of(f, seq) >= 0) continue;
    for (int i = 0; i < 6; i++) lf_restore_back(seq, i, i != 2);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 2 * B);
    assert_int_equal(f->items[0].n_tokens, B);
    run(f, LF_NS_PER_MS);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 6 * B);
    assert_int_equal(seq->n_restored, 5 * B);
}

static void where_nothing_can_be_loaded_all_is_computed(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit_below(f, 6, 0, 6);
    plans(f, 0);
    assert_int_equal(load_all(f, seq, false), 6);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 0);
    assert_int_equal(f->items[0].n_tokens, 6 * B + 10);
}

static void a_hole_is_computed_while_the_rest_comes(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit_below(f, 6, 2, 5);
    plans(f, 1);
    assert_int_equal(f->items[0].n_tokens, 2 * B);
    run(f, LF_NS_PER_MS);
    plans(f, 0);
    assert_int_equal(load_all(f, seq, true), 3);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 5 * B);
}

/* A disk as slow as the device: it brings the end while the beginning is computed. */
static void a_slow_disk_and_the_device_meet(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.below.block_ns[0] = B * 1000;
    f->sched.opts.chunk = 2 * B;
    struct lf_sched_seq *seq = submit_below(f, 8, 0, 8);
    assert_int_equal(seq->restore.way, LF_RESTORE_MEET);
    assert_int_equal(next_of(f, seq), 7);
    assert_int_equal(next_of(f, seq), 6);
    plans(f, 1); /* claims blocks 0 and 1 */
    assert_int_equal(f->items[0].first, 0);
    assert_int_equal(f->items[0].n_tokens, 2 * B);
    lf_restore_back(seq, 7, true);
    assert_int_equal(next_of(f, seq), 5);
    run(f, LF_NS_PER_MS);
    plans(f, 1);
    run(f, LF_NS_PER_MS);
    assert_int_equal(seq->n_done, 4 * B);
    assert_int_equal(next_of(f, seq), -1); /* the device is there already */
    plans(f, 1);
    assert_int_equal(f->items[0].n_tokens, B);
    run(f, LF_NS_PER_MS);
    plans(f, 0); /* all that is left is coming */
    for (int i = 5; i < 7; i++) lf_restore_back(seq, i, true);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 8 * B);
    assert_int_equal(seq->n_restored, 3 * B);
}

static struct lf_sched_seq *sent_for[16];
static int n_sent, n_looks;

static bool may_send(void *ctx, const struct lf_sched_seq *seq)
{
    n_looks++;
    return seq != ctx;
}

static int sent_from[LF_RESTORE_TIERS_N];

static void note_sent(void *ctx, struct lf_sched_seq *seq, int i, int tier)
{
    (void)ctx;
    assert_int_equal(lf_restore_state_at(seq, i), LF_RESTORE_COMING);
    assert_int_equal(lf_restore_tier_at(seq, i), tier);
    sent_from[tier]++;
    sent_for[n_sent++] = seq;
}

/* To all but `barred`. */
static void send(struct fixture *f, int n_ahead, int n_most, struct lf_sched_seq *barred)
{
    const struct lf_restore_sender sender = {.may = may_send, .send = note_sent, .ctx = barred};
    const int ahead[LF_RESTORE_TIERS_N] = {n_ahead, n_ahead};
    lf_restore_send(&f->sched, &sender, ahead, n_most);
}

/* However long the one's list is: each place that becomes free is the other's until both have as many. */
static void who_has_the_fewest_coming_is_next(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *large = submit_below(f, 10, 0, 10);
    n_sent = 0;
    send(f, 0, 4, NULL);
    assert_int_equal(n_sent, 4);
    struct lf_sched_seq *small = submit_shared(f, 0, 3 * B + 10, 1);
    for (int i = 0; i < 3; i++) below[1][i] = true;
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), small);
    send(f, 4, 4, NULL);
    assert_int_equal(n_sent, 4); /* all places are taken */
    for (int i = 0; i < 2; i++) {
        lf_restore_back(large, i, true);
        send(f, 3, 4, NULL);
        assert_ptr_equal(sent_for[n_sent - 1], small);
    }
    lf_restore_back(large, 2, true);
    send(f, 3, 4, small); /* whose blocks may not be written to yet */
    assert_ptr_equal(sent_for[n_sent - 1], large);
    assert_int_equal(n_sent, 7);
}

/* Each step asks, with many that want nothing, and a few that have much on its way. */
static void who_wants_nothing_is_not_looked_at(void **state)
{
    struct fixture *f = *state;
    (void)submit_below(f, 1, 0, 0);
    n_sent = n_looks = 0;
    send(f, 0, 1000, NULL);
    assert_int_equal(n_looks, 0);
    struct lf_sched_seq *seq = submit_below(f, 6, 0, 6);
    seq->restore.n_coming = 900;
    send(f, 900, 902, NULL);
    assert_int_equal(n_sent, 2);
    assert_in_range(n_looks, 2, 4);
    seq->restore.n_coming -= 900;
}

/* What was taken for fast is not: who waits begins to compute, or gives waiting up where both at once is not allowed.
 */
static void who_waits_chooses_again(void **state)
{
    struct fixture *f = *state;
    for (int may_meet = 0; may_meet < 2; may_meet++) {
        f->sched.opts.below.block_ns[0] = 1000;
        f->sched.opts.below.may_meet = may_meet;
        struct lf_sched_seq *seq = submit_below(f, 10, 0, 10);
        assert_int_equal(seq->restore.way, LF_RESTORE_WAIT);
        f->sched.opts.below.block_ns[0] = 2 * B * 1000;
        send(f, 0, 4, NULL);
        assert_int_equal(seq->restore.way, may_meet ? LF_RESTORE_MEET : LF_RESTORE_NOT);
        assert_int_equal(lf_restore_room(seq) > 0, true);
        lf_sched_end(&f->sched, seq);
    }
}

static void the_way_follows_from_the_times(void **state)
{
    (void)state;
    assert_int_equal(lf_restore_choose(100, 5, true), LF_RESTORE_WAIT);
    assert_int_equal(lf_restore_choose(100, 100, true), LF_RESTORE_MEET);
    assert_int_equal(lf_restore_choose(100, 800, true), LF_RESTORE_MEET);
    assert_int_equal(lf_restore_choose(100, 1000, true), LF_RESTORE_NOT);
    assert_int_equal(lf_restore_choose(100, 80, false), LF_RESTORE_WAIT);
    assert_int_equal(lf_restore_choose(100, 95, false), LF_RESTORE_NOT);
    assert_int_equal(lf_restore_choose(100, 1000, false), LF_RESTORE_NOT);
}

static void a_disk_that_is_too_slow_is_not_asked(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.below.block_ns[0] = 100 * B * 1000;
    struct lf_sched_seq *seq = submit_below(f, 6, 0, 6);
    assert_int_equal(next_of(f, seq), -1);
    plans(f, 1);
    assert_int_equal(f->items[0].n_tokens, 6 * B + 10);
    run(f, LF_NS_PER_MS);
    lf_sched_end(&f->sched, seq);
    assert_true(f->sched.opts.below.block_ns[0] < 100 * B * 1000); /* it will be tried again some time */
}

/* A second request for the same text waits in the queue for the first, or takes its blocks over as they come. */
static void who_follows_takes_what_the_first_has_restored(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *first = submit_below(f, 6, 0, 6);
    memcpy(f->ids[1], f->ids[0], sizeof(f->ids[0]));
    struct lf_sched_seq *second = &f->seqs[f->n_seqs];
    second->keys = first->keys;
    second->n_keys = first->n_keys;
    (void)submit(f, 6 * B + 10, 0, 1);
    assert_null(lf_sched_admit(&f->sched, 1));
    load_all(f, first, true);
    plans(f, 1);
    run(f, LF_NS_PER_MS);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), second);
    assert_int_equal(second->n_cached, 6 * B);
    assert_int_equal(second->n_restored, 0);
}

/* Side by side: the one takes over a block that is still coming for it; what comes then is nobody's. */
static void a_block_taken_over_need_not_come(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *other = submit_shared(f, 4 * B, 4 * B + 10, 1);
    assert_ptr_equal(lf_sched_admit(&f->sched, 1), other);
    struct lf_sched_seq *seq = submit_shared(f, 4 * B, 10 * B, 2);
    for (int i = 0; i < 4; i++) below[1][i] = true;
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), seq);
    for (int i = 0; i < 4; i++) assert_int_equal(next_of(f, seq), i);
    int32_t before = seq->blocks[0];
    step(f); /* other computes all of its */
    lf_restore_back(seq, 0, true);
    plans(f, 1);
    assert_int_equal(seq->n_done, 4 * B);
    assert_int_not_equal(seq->blocks[0], before);
    assert_int_equal(seq->n_restored, 0);
    for (int i = 1; i < 4; i++) lf_restore_back(seq, i, i != 2);
    run(f, LF_NS_PER_MS);
}

/* Both bring what they have at once, so the disk's part is what is waited for; a tier that has as much on its way as it
 * may does not keep another from being asked. */
static void each_block_comes_from_its_tier(void **state)
{
    struct fixture *f = *state;
    for (int i = 4; i < 8; i++) tier_of_block[i] = 1;
    f->sched.opts.below.block_ns[1] = 5000;
    struct lf_sched_seq *seq = submit_below(f, 8, 0, 8);
    assert_int_equal(seq->restore.way, LF_RESTORE_WAIT);
    assert_int_equal(seq->restore.n_below[0], 4);
    assert_int_equal(seq->restore.n_below[1], 4);
    n_sent = sent_from[0] = sent_from[1] = 0;
    send(f, 0, 2, NULL);
    assert_int_equal(n_sent, 4);
    assert_int_equal(sent_from[0], 2);
    assert_int_equal(sent_from[1], 2);
    lf_restore_back(seq, 4, true);
    lf_restore_back(seq, 5, true);
    send(f, 0, 2, NULL);
    assert_int_equal(sent_from[0], 4);
    assert_int_equal(sent_from[1], 4);
    for (int i = 0; i < 8; i++)
        if (i != 4 && i != 5) lf_restore_back(seq, i, true);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 8 * B);
    assert_int_equal(seq->n_restored, 8 * B);
}

/* What the disk has is computed, what memory has is not; and the rate that was too long is tried again some time. */
static void a_slow_tier_does_not_keep_the_fast_one_from_being_asked(void **state)
{
    struct fixture *f = *state;
    const double slow_ns = 100 * B * 1000;
    for (int may_meet = 0; may_meet < 2; may_meet++) {
        for (int i = 3; i < 6; i++) tier_of_block[i] = 1;
        f->sched.opts.below.may_meet = may_meet;
        f->sched.opts.below.block_ns[1] = slow_ns;
        struct lf_sched_seq *seq = submit_below(f, 6, 0, 6);
        assert_int_equal(seq->restore.way, LF_RESTORE_WAIT);
        assert_int_equal(seq->restore.n_below[0], 3);
        assert_int_equal(seq->restore.n_below[1], 0);
        assert_int_equal(f->sched.opts.below.block_ns[0], 1000);
        assert_true(f->sched.opts.below.block_ns[1] < slow_ns);
        assert_int_equal(load_all(f, seq, true), 3);
        plans(f, 1);
        assert_int_equal(f->items[0].first, 3 * B);
        run(f, LF_NS_PER_MS);
        lf_sched_end(&f->sched, seq);
        lf_prefix_cache_clear(f->sched.opts.prefix);
    }
}

/* The disk turns out to be slow while both are waited for: its part is computed, the other still comes. */
static void who_waits_gives_up_on_the_slow_tier_alone(void **state)
{
    struct fixture *f = *state;
    for (int i = 3; i < 10; i++) tier_of_block[i] = 1;
    f->sched.opts.below.may_meet = false;
    struct lf_sched_seq *seq = submit_below(f, 10, 0, 10);
    assert_int_equal(seq->restore.way, LF_RESTORE_WAIT);
    f->sched.opts.below.block_ns[1] = 2 * B * 1000;
    n_sent = sent_from[0] = sent_from[1] = 0;
    send(f, 0, 4, NULL);
    assert_int_equal(seq->restore.way, LF_RESTORE_WAIT);
    assert_int_equal(sent_from[0], 3);
    assert_int_equal(sent_from[1], 0);
    for (int i = 0; i < 3; i++) lf_restore_back(seq, i, true);
    plans(f, 1);
    assert_int_equal(f->items[0].first, 3 * B);
    assert_int_equal(f->items[0].n_tokens, 7 * B + 10);
}

static void a_rate_is_learnt_of_its_tier(void **state)
{
    (void)state;
    struct lf_restore_source source = {.block_ns = {1000, 1000}};
    lf_restore_learn(&source, 1, 32, 32 * 3000.0);
    assert_true(source.block_ns[0] == 1000 && source.block_ns[1] == 2000);
}

static void a_guess_counts_for_nothing_once_blocks_have_told(void **state)
{
    (void)state;
    struct lf_restore_source source = {.block_ns = {1000, 1000}, .guesses = {{.is_guess = true}}};
    lf_restore_learn(&source, 0, LF_RESTORE_TOLD_N - 1, 7 * 9000.0);
    assert_true(source.guesses[0].is_guess && source.block_ns[0] == 1000);
    lf_restore_learn(&source, 0, 1, 9000.0);
    assert_true(!source.guesses[0].is_guess && source.block_ns[0] == 9000);
    lf_restore_learn(&source, 0, 32, 32 * 1000.0);
    assert_true(source.block_ns[0] == 5000);
    source.guesses[1] = (struct lf_restore_guess){.is_guess = true, .n_told = 300}; /* small ones: more of them */
    lf_restore_learn(&source, 1, 299, 299 * 9000.0);
    assert_true(source.guesses[1].is_guess && source.block_ns[1] == 1000);
    lf_restore_learn(&source, 1, 1, 9000.0);
    assert_true(!source.guesses[1].is_guess && source.block_ns[1] == 9000);
}

static void ending_in_the_middle_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit_below(f, 6, 0, 6);
    (void)next_of(f, seq);
    plans(f, 0);
    lf_sched_end(&f->sched, seq);
    plans(f, 0);
    assert_int_equal(f->pool.n_free, N_BLOCKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_below_is_as_before, setup_below, teardown),
        cmocka_unit_test_setup_teardown(what_the_cache_has_is_asked_for_below_too, setup_below, teardown),
        cmocka_unit_test_setup_teardown(the_block_of_the_last_token_is_never_sent_for, setup_below, teardown),
        cmocka_unit_test_setup_teardown(a_fast_disk_is_waited_for, setup_below, teardown),
        cmocka_unit_test_setup_teardown(what_others_do_goes_on_meanwhile, setup_below, teardown),
        cmocka_unit_test_setup_teardown(a_broken_block_is_computed_and_the_others_are_not, setup_below, teardown),
        cmocka_unit_test_setup_teardown(where_nothing_can_be_loaded_all_is_computed, setup_below, teardown),
        cmocka_unit_test_setup_teardown(a_hole_is_computed_while_the_rest_comes, setup_below, teardown),
        cmocka_unit_test_setup_teardown(a_slow_disk_and_the_device_meet, setup_below, teardown),
        cmocka_unit_test_setup_teardown(who_has_the_fewest_coming_is_next, setup_below, teardown),
        cmocka_unit_test_setup_teardown(who_wants_nothing_is_not_looked_at, setup_below, teardown),
        cmocka_unit_test_setup_teardown(who_waits_chooses_again, setup_below, teardown),
        cmocka_unit_test(the_way_follows_from_the_times),
        cmocka_unit_test_setup_teardown(a_disk_that_is_too_slow_is_not_asked, setup_below, teardown),
        cmocka_unit_test_setup_teardown(who_follows_takes_what_the_first_has_restored, setup_below, teardown),
        cmocka_unit_test_setup_teardown(a_block_taken_over_need_not_come, setup_below, teardown),
        cmocka_unit_test_setup_teardown(each_block_comes_from_its_tier, setup_below, teardown),
        cmocka_unit_test_setup_teardown(a_slow_tier_does_not_keep_the_fast_one_from_being_asked, setup_below, teardown),
        cmocka_unit_test_setup_teardown(who_waits_gives_up_on_the_slow_tier_alone, setup_below, teardown),
        cmocka_unit_test(a_rate_is_learnt_of_its_tier),
        cmocka_unit_test(a_guess_counts_for_nothing_once_blocks_have_told),
        cmocka_unit_test_setup_teardown(ending_in_the_middle_leaves_nothing, setup_below, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
