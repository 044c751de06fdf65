/* Who has which slot when: server/engine/states.h. Long prompts and random worlds are tests/sim's. */
#include "tests/unit/server/engine/sched_rig.h"

#include "model/batch.h"
#include "server/engine/holding.h"
#include "server/engine/shared_blocks.h"
#include "server/engine/states.h"

struct with_states {
    struct fixture *f;
    struct lf_block_pool slots;
    struct lf_prefix_cache *snapshots;
    struct lf_state_mark marks[2 * MAX_SEQS + 64];
    int32_t held[N_BLOCKS + MAX_SEQS + 8]; /* references that others have */
};

static struct with_states g;

/* n_spare slots beside those of MAX_SEQS sequences. */
static int setup_with(int n_spare)
{
    void *state;
    memset(&g, 0, sizeof(g));
    if (setup_shared(&state) != 0) return -1;
    g.f = state;
    if (lf_block_pool_init(&g.slots, MAX_SEQS + n_spare, NULL) != LF_OK) return -1;
    if (lf_prefix_cache_create(&g.snapshots, &g.slots, "test", 4, B, NULL) != LF_OK) return -1;
    g.f->sched.opts.slots = &g.slots;
    g.f->sched.opts.snapshots = g.snapshots;
    g.f->sched.opts.slot_blocks = 1;
    g.f->step.marks = g.marks;
    set_cost(g.f, 1000, 0);
    return 0;
}

static int setup_states(void **state)
{
    (void)state;
    return setup_with(8);
}

static int setup_scarce(void **state)
{
    (void)state;
    return setup_with(2);
}

static void check(void)
{
    int32_t refs[N_BLOCKS + MAX_SEQS + 8];
    lf_sched_check(&g.f->sched, g.held, refs);
}

static int teardown_states(void **state)
{
    (void)state;
    for (int i = 0; i < g.f->n_seqs; i++)
        if (g.f->seqs[i].phase != LF_SCHED_ENDED) lf_sched_end(&g.f->sched, &g.f->seqs[i]);
    check();
    assert_int_equal(g.slots.n_free + g.slots.n_cached, g.slots.n_blocks);
    lf_prefix_cache_destroy(g.snapshots);
    lf_prefix_cache_destroy(g.f->prefix);
    lf_block_pool_deinit(&g.slots);
    lf_block_pool_deinit(&g.f->pool);
    return 0;
}

static struct lf_sched_seq *start(int n_same, int n_prompt)
{
    struct lf_sched_seq *seq = submit_shared(g.f, n_same, n_prompt, 0);
    assert_ptr_equal(lf_sched_admit(&g.f->sched, 0), seq);
    return seq;
}

static void plan(void)
{
    lf_sched_plan_step(&g.f->sched, &g.f->step);
}

static void finish(void)
{
    run(g.f, LF_NS_PER_MS);
    check();
}

/* Computes all of its prompt and ends it. */
static void compute(struct lf_sched_seq *seq)
{
    while (lf_sched_in_prefill(seq)) {
        plan();
        finish();
    }
    lf_sched_end(&g.f->sched, seq);
    check();
}

static const struct lf_state_seq *state_of(int i)
{
    return &g.f->items[i].state;
}

static void a_sequence_updates_a_slot_of_its_own(void **state)
{
    (void)state;
    struct lf_sched_seq *a = start(0, 100), *b = start(0, 90);
    assert_true(a->state >= 0 && b->state >= 0 && a->state != b->state);
    plan();
    assert_int_equal(g.f->step.n_items, 2);
    for (int i = 0, n_tokens = 0; i < 2; n_tokens += state_of(i++)->n_tokens) {
        assert_int_equal(state_of(i)->in, -1);
        assert_int_equal(state_of(i)->position, 0);
        assert_int_equal(state_of(i)->first_token, n_tokens);
        assert_int_equal(state_of(i)->out, g.f->items[i].seq->state);
        assert_int_equal(state_of(i)->n_tokens, g.f->items[i].n_tokens);
    }
    finish();
    struct lf_sched_seq *c = start(0, 600);
    plan();
    finish();
    plan();
    assert_ptr_equal(g.f->items[0].seq, c);
    assert_int_equal(state_of(0)->position, 256);
    assert_int_equal(state_of(0)->in, c->state);
    assert_int_equal(state_of(0)->out, state_of(0)->in);
    finish();
}

static void the_same_prompt_begins_with_the_state_before_its_end(void **state)
{
    (void)state;
    struct lf_sched_seq *a = start(200, 200);
    plan();
    assert_int_equal(g.f->step.n_marks, 1);
    assert_int_equal(g.marks[0].n_tokens, 192);
    int32_t slot = g.marks[0].slot;
    assert_int_equal(state_of(0)->n_marks, 1);
    finish();
    assert_int_equal(lf_states_find(&g.f->sched, a, 3), slot);
    lf_sched_end(&g.f->sched, a);
    struct lf_sched_seq *b = start(200, 200);
    assert_int_equal(b->n_cached, 192);
    plan();
    assert_int_equal(state_of(0)->in, slot);
    assert_int_equal(state_of(0)->out, b->state);
    assert_int_equal(g.f->step.n_marks, 0); /* it is there */
    assert_int_equal(g.slots.blocks[slot].n_refs, 1);
    finish();
    assert_int_equal(g.slots.blocks[slot].n_refs, 0);
    assert_int_equal(b->state_in, -1);
}

/* A prompt that is all cached computes its last token. */
static void a_hit_never_covers_the_last_token(void **state)
{
    (void)state;
    struct lf_sched_seq *a = submit_shared(g.f, 128, 128, 0);
    static const int32_t mark = 128;
    a->marks = &mark;
    a->n_marks = 1;
    assert_ptr_equal(lf_sched_admit(&g.f->sched, 0), a);
    compute(a);
    assert_int_equal(g.slots.n_cached, 2);
    assert_int_equal(start(128, 128)->n_cached, 64);
    assert_int_equal(start(128, 200)->n_cached, 128);
}

static void a_hit_ends_where_there_is_a_snapshot(void **state)
{
    (void)state;
    static const int32_t marks[2] = {130, 400};
    struct lf_sched_seq *a = submit_shared(g.f, 500, 500, 0);
    a->marks = marks;
    a->n_marks = 2;
    assert_ptr_equal(lf_sched_admit(&g.f->sched, 0), a);
    compute(a);
    struct lf_sched_seq *b = start(384, 450), *c = start(383, 450);
    assert_int_equal(b->n_cached, 384);
    assert_int_equal(c->n_cached, 128);
    lf_sched_end(&g.f->sched, b);
    lf_sched_end(&g.f->sched, c);
    struct lf_sched_seq *d = start(127, 450);
    assert_int_equal(d->n_cached, 0); /* its first block alone is no hit */
}

static void echoes_take_no_snapshot(void **state)
{
    (void)state;
    compute(start(200, 200));
    g.f->seqs[g.f->n_seqs].all_logits = true;
    struct lf_sched_seq *echo = start(200, 200);
    assert_int_equal(echo->n_cached, 0);
    assert_int_equal(echo->state_in, -1);
}

/* Two sequences, and two slots beside those of four: each is spared once. */
static void a_mark_is_skipped_where_no_slot_can_be_spared(void **state)
{
    (void)state;
    int32_t kept[2];
    for (int i = 0; i < 2; i++) {
        compute(start(0, 100));
        kept[i] = lf_states_find(&g.f->sched, &g.f->seqs[i], 1);
        assert_true(lf_states_may_hold(&g.f->sched, kept[i]));
        lf_block_pool_get(&g.slots, kept[i]); /* as a save does */
        g.held[N_BLOCKS + kept[i]] = 1;
    }
    assert_int_equal(lf_states_n_spare(&g.f->sched), 0);
    assert_true(lf_states_may_hold(&g.f->sched, kept[0])); /* it is used anyway */
    struct lf_sched_seq *seq = start(0, 200);
    plan();
    assert_int_equal(g.f->step.n_marks, 0);
    assert_int_equal(g.f->sched.n_marks_skipped, 1);
    finish();
    lf_sched_end(&g.f->sched, seq);
    for (int i = 0; i < 2; i++) {
        lf_block_pool_put(&g.slots, kept[i]);
        g.held[N_BLOCKS + kept[i]] = 0;
    }
}

/* The oldest snapshot makes room. */
static void a_mark_takes_the_place_of_the_oldest_snapshot(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) compute(start(0, 100));
    for (int i = 0; i < 6; i++)
        assert_int_equal(lf_states_find(&g.f->sched, &g.f->seqs[i], 1) >= 0, i >= 1); /* one slot was working */
}

/* What has one mark that is a document's end, and one at its own: the latter is older when it ends. */
static void marks_of_a_prompt_age_from_its_end(void **state)
{
    (void)state;
    static const int32_t mark = 128;
    struct lf_sched_seq *a = submit_shared(g.f, 128, 300, 0);
    a->marks = &mark;
    a->n_marks = 1;
    assert_ptr_equal(lf_sched_admit(&g.f->sched, 0), a);
    while (lf_sched_in_prefill(a)) {
        plan();
        finish();
    }
    int32_t first = lf_states_find(&g.f->sched, a, 2), last = lf_states_find(&g.f->sched, a, 4);
    struct lf_sched_seq *b = start(0, 70);
    compute(b);
    lf_sched_end(&g.f->sched, a);
    int32_t of_b = lf_states_find(&g.f->sched, b, 1);
    struct lf_list *oldest = lf_list_first(&g.slots.lru);
    assert_ptr_equal(oldest, &g.slots.blocks[of_b].node);
    assert_ptr_equal(oldest->next, &g.slots.blocks[last].node);
    assert_ptr_equal(oldest->next->next, &g.slots.blocks[first].node);
}

static void what_ends_before_its_first_step_leaves_the_snapshot(void **state)
{
    (void)state;
    compute(start(200, 200));
    struct lf_sched_seq *b = start(200, 200);
    int32_t slot = b->state_in;
    lf_sched_end(&g.f->sched, b);
    check();
    assert_int_equal(g.slots.blocks[slot].n_refs, 0);
    assert_int_equal(start(200, 200)->state_in, slot);
}

static struct lf_sched_seq *pin(int n_same, int n_prompt)
{
    g.f->seqs[g.f->n_seqs].pin = LF_PIN_DEVICE;
    return start(n_same, n_prompt);
}

/* Whose blocks are pinned, and a snapshot in the middle of them is not. */
static void of_what_is_pinned_a_beginning_counts_where_its_snapshot_is_pinned(void **state)
{
    (void)state;
    compute(start(130, 130)); /* leaves one behind two blocks */
    struct lf_sched_seq *pinned = pin(300, 300);
    while (lf_sched_in_prefill(pinned)) {
        plan();
        finish();
    }
    lf_sched_hold(&g.f->sched, pinned);
    check();
    assert_int_equal(lf_sched_n_pinned_of(&g.f->sched, pinned, 4), 4);
    assert_int_equal(lf_sched_n_pinned_of(&g.f->sched, pinned, 3), 0);
    assert_int_equal(lf_sched_hit(&g.f->sched, pinned, 0, 3, false), 2);
}

/* Another makes the snapshot behind a pin's end, and it would make room for the mark of a third in the same step. */
static void an_end_that_is_there_is_pinned_before_another_mark_takes_its_slot(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) compute(start(0, 100));
    struct lf_sched_seq *pinned = pin(128, 128);
    g.f->sched.opts.chunk = 64;
    plan();
    finish();
    g.f->sched.opts.chunk = 256;
    assert_true(pinned->n_done == 64 && pinned->states_pinned[0] >= 0 && pinned->due == 1);
    (void)start(0, 100);
    int32_t slot, more;
    assert_true(lf_block_pool_take(&g.slots, &slot));
    lf_prefix_cache_insert_key(g.snapshots, &pinned->keys[1], &pinned->keys[2], pinned->ids + B, slot,
                               (struct lf_prefix_origin){0});
    lf_block_pool_put(&g.slots, slot);
    while (lf_list_first(&g.slots.lru) != &g.slots.blocks[slot].node) { /* until it is the oldest */
        int32_t oldest = (int32_t)(LF_LIST_ENTRY(lf_list_first(&g.slots.lru), struct lf_block, node) - g.slots.blocks);
        lf_block_pool_get(&g.slots, oldest);
        lf_block_pool_put(&g.slots, oldest);
    }
    while (g.slots.n_free > 0) /* the rest is somebody's */
        assert_true(lf_block_pool_take(&g.slots, &more) && ++g.held[N_BLOCKS + more]);
    plan();
    assert_int_equal(g.f->step.n_items, 2);
    finish();
    assert_true(pinned->states_pinned[1] >= 0 && pinned->due == 0);
    for (int i = 0; i < g.slots.n_blocks; i++)
        if (g.held[N_BLOCKS + i] > 0) lf_block_pool_put(&g.slots, i);
    memset(g.held, 0, sizeof(g.held));
}

/* What a tenant's request would share with it has been there when it was looked at first, and its snapshot is not any
 * more: then it shares nothing, and is beyond the tenant's 12 of 16 blocks. */
static void what_is_shared_no_more_counts_for_a_share(void **state)
{
    (void)state;
    g.f->seqs[g.f->n_seqs].tenant_id = 7;
    compute(start(0, 10)); /* another tenant was here a short while ago */
    struct lf_sched_seq *a = start(192, 192), *b = start(0, 10), *c = start(0, 10);
    while (lf_sched_in_prefill(a) || lf_sched_in_prefill(b) || lf_sched_in_prefill(c)) {
        plan();
        finish();
    }
    struct lf_sched_seq *seq = submit_shared(g.f, 192, 9 * B, 0);
    assert_null(lf_sched_admit(&g.f->sched, 0)); /* three run */
    assert_int_equal(seq->n_hint, 2);
    lf_prefix_cache_clear(g.snapshots);
    lf_sched_end(&g.f->sched, b);
    assert_null(lf_sched_admit(&g.f->sched, 0));
    lf_sched_end(&g.f->sched, c);
    assert_ptr_equal(lf_sched_admit(&g.f->sched, 0), seq);
}

/* Between its launch and the ids a mark is the sequence's; tests/sim has it at LF_MARK_EVERY. */
static void a_mark_is_entered_when_its_ids_are_known(void **state)
{
    (void)state;
    struct lf_sched_seq *seq = &g.f->seqs[0];
    static const int32_t mark = 192; /* in its answer: no prompt has such a one, but the rule is the same */
    seq->keys = g.f->keys[0];
    lf_prefix_cache_root(g.f->prefix, NULL, 0, &seq->keys[0]);
    lf_prefix_key_next(&seq->keys[0], g.f->ids[0], B, &seq->keys[1]);
    lf_prefix_key_next(&seq->keys[1], g.f->ids[0] + B, B, &seq->keys[2]);
    seq->n_keys = 3;
    seq->marks = &mark;
    seq->n_marks = 1;
    (void)submit(g.f, 190, 10, 0);
    assert_ptr_equal(lf_sched_admit(&g.f->sched, 0), seq);
    for (int i = 0; i < 3;
         i++) { /* the prompt, then tokens 190 and 191: each before the id of the one before is known */
        plan();
        lf_sched_launched(&g.f->sched, &g.f->step);
        check();
        if (i > 0) lf_sched_sampled(&g.f->sched, seq, 5);
    }
    assert_int_equal(g.f->step.n_marks, 1);
    assert_int_equal(seq->n_done, 192);
    assert_int_equal(seq->state_mark, -1); /* both ids are known now */
    assert_true(lf_states_find(&g.f->sched, seq, 3) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sequence_updates_a_slot_of_its_own, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(the_same_prompt_begins_with_the_state_before_its_end, setup_states,
                                        teardown_states),
        cmocka_unit_test_setup_teardown(a_hit_never_covers_the_last_token, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(a_hit_ends_where_there_is_a_snapshot, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(echoes_take_no_snapshot, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(a_mark_is_skipped_where_no_slot_can_be_spared, setup_scarce, teardown_states),
        cmocka_unit_test_setup_teardown(a_mark_takes_the_place_of_the_oldest_snapshot, setup_scarce, teardown_states),
        cmocka_unit_test_setup_teardown(marks_of_a_prompt_age_from_its_end, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(what_ends_before_its_first_step_leaves_the_snapshot, setup_states,
                                        teardown_states),
        cmocka_unit_test_setup_teardown(of_what_is_pinned_a_beginning_counts_where_its_snapshot_is_pinned, setup_states,
                                        teardown_states),
        cmocka_unit_test_setup_teardown(an_end_that_is_there_is_pinned_before_another_mark_takes_its_slot, setup_states,
                                        teardown_states),
        cmocka_unit_test_setup_teardown(what_is_shared_no_more_counts_for_a_share, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(a_mark_is_entered_when_its_ids_are_known, setup_states, teardown_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
