/* States in simulated worlds (server/engine/states.h): what shares a beginning computes it once, what is kept is found,
 * and what a step does with states is right (slots.c checks it in each). */
#include "tests/support/test.h"

#include "core/check.h"
#include "core/clock.h"
#include "server/engine/block_tables.h"
#include "server/engine/marks.h"
#include "server/engine/states.h"
#include "tests/sim/world.h"

enum { B = SIM_BLOCK, EVERY = LF_MARK_EVERY };

static const struct sim_machine machine = {
    .w = {[LF_COST_STEP] = 2e6, [LF_COST_TOKEN] = 1e5, [LF_COST_PREFILL_KEY] = 2, [LF_COST_DECODE_KEY] = 100}};

static struct sim_opts defaults(void)
{
    return (struct sim_opts){.n_blocks = 4096,
                             .chunk = 2048,
                             .max_seqs = 8,
                             .max_out = 8,
                             .step_ns = 50 * LF_NS_PER_MS,
                             .prefix = true,
                             .n_slots = 64,
                             .slot_blocks = 3,
                             .machine = machine,
                             .seed = 1};
}

static void open_world(struct sim_world *w, const struct sim_opts *o)
{
    sim_open(w, o);
    w->check = true;
}

static void run_until_idle(struct sim_world *w)
{
    while (sim_step(w)) continue;
}

static struct sim_request *ask(struct sim_world *w, int doc, int n_shared, int n_prompt)
{
    struct sim_request *r = sim_submit(w, doc, n_shared, n_prompt, 4, 4);
    run_until_idle(w);
    return r;
}

/* The last tokens of a prompt, which are always computed. */
static int tail_of(int n_prompt)
{
    return n_prompt - (n_prompt - 1) / B * B;
}

static void equal_prompts_are_computed_once(void **state)
{
    (void)state;
    for (int is_other = 0; is_other < 2; is_other++) /* another's runs beside it, one of the same tenant waits */
        for (int n = 1000; n <= 20032; n += 19032) {
            struct sim_world w;
            struct sim_opts o = defaults();
            open_world(&w, &o);
            struct sim_request *r[3];
            for (int i = 0; i < 3; i++) {
                r[i] = sim_make(&w, 1, n, n, 4, 4);
                r[i]->seq.tenant_id = is_other ? (uint64_t)i : 0;
                sim_enter(&w, r[i]);
            }
            (void)sim_step(&w);
            assert_int_equal(w.sched.n_running, is_other ? 3 : 1);
            run_until_idle(&w);
            int n_prefilled = 0;
            for (int i = 0; i < 3; i++) n_prefilled += r[i]->n_prefilled;
            assert_int_equal(n_prefilled, n + 2 * tail_of(n));
            sim_close(&w);
        }
}

/* Not the other way round: what has no mark in common is not waited for. */
static void what_parts_before_the_first_mark_is_not_waited_for(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    open_world(&w, &o);
    struct sim_request *a = sim_submit(&w, 1, 6000, 7000, 4, 4), *b = sim_submit(&w, 1, 6000, 7000, 4, 4);
    (void)sim_step(&w);
    assert_int_equal(w.sched.n_running, 2);
    run_until_idle(&w);
    assert_int_equal(a->n_prefilled + b->n_prefilled, 2 * 7000);
    sim_close(&w);
}

static void a_follower_takes_over_at_the_last_mark_in_common(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    open_world(&w, &o);
    struct sim_request *a = sim_submit(&w, 1, 20000, 24000, 4, 4);
    (void)sim_step(&w);
    struct sim_request *b = sim_submit(&w, 1, 20000, 22000, 4, 4);
    while (b->started_ns == 0) assert_true(sim_step(&w));
    assert_in_range(a->seq.n_done, 2 * EVERY, 2 * EVERY + o.chunk);
    run_until_idle(&w);
    assert_int_equal(b->n_prefilled, 22000 - 2 * EVERY);
    sim_close(&w);
}

static void questions_about_a_document_go_on_from_its_end(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    open_world(&w, &o);
    int n_prefilled = 0;
    for (int i = 0; i < 4; i++) {
        struct sim_request *r = sim_make(&w, 2, 10000, 10300, 4, 4);
        r->marks[0] = 10000;
        r->seq.marks = r->marks;
        r->seq.n_marks = 1;
        sim_enter(&w, r);
        if (i == 1) run_until_idle(&w); /* two at once, and two later */
        if (i >= 2) {
            run_until_idle(&w);
            assert_int_equal(r->seq.n_cached, 10000 / B * B);
        }
    }
    for (struct sim_request *r = w.requests; r; r = r->next) n_prefilled += r->n_prefilled;
    assert_int_equal(n_prefilled, 10300 + 3 * (10300 - 10000 / B * B));
    sim_close(&w);
}

static void prompts_that_part_in_the_middle_go_on_from_a_multiple(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    open_world(&w, &o);
    (void)ask(&w, 1, 30000, 30000);
    assert_int_equal(ask(&w, 1, 20000, 26000)->seq.n_cached, 2 * EVERY);
    assert_int_equal(ask(&w, 1, EVERY - 1, 9000)->seq.n_cached, 0);
    sim_close(&w);
}

/* What lies at multiples goes first, of each kind what is further behind. */
static void what_is_asked_for_most_ages_last(void **state)
{
    (void)state;
    static const int ages[] = {2 * EVERY / B, EVERY / B, 19999 / B, 5000 / B};
    struct sim_world w;
    struct sim_opts o = defaults();
    open_world(&w, &o);
    struct sim_request *r = sim_make(&w, 1, 20000, 20000, 4, 4);
    r->marks[0] = 5000;
    r->seq.marks = r->marks;
    r->seq.n_marks = 1;
    sim_enter(&w, r);
    run_until_idle(&w);
    const struct lf_list *it = &w.slots.pool.lru;
    for (size_t i = 0; i < LF_N_ELEMS(ages); i++) {
        it = it->next;
        assert_ptr_equal(it, &w.slots.pool.blocks[lf_states_find(&w.sched, &r->seq, ages[i])].node);
    }
    assert_ptr_equal(it->next, &w.slots.pool.lru);
    sim_close(&w);
}

/* With two slots beside those that run, and others' snapshots there. */
static void a_long_document_takes_few_snapshots_of_others(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.n_slots = 4;
    open_world(&w, &o);
    int n_snapshots = w.slots.pool.n_blocks;
    for (int i = 0; i < n_snapshots; i++) (void)ask(&w, 10 + i, 300, 300);
    assert_int_equal(w.slots.pool.n_cached + 1, n_snapshots); /* one was the working slot of each */
    int64_t before = w.n_evicted;
    (void)ask(&w, 1, 80000, 80000);
    assert_int_equal(w.n_evicted - before, 2); /* for its working slot or a multiple, and for its end */
    assert_int_equal(w.sched.n_snapshots_dropped, 80000 / EVERY - 1);
    assert_int_equal(ask(&w, 1, 80000, 80000)->n_prefilled, tail_of(80000));
    assert_int_equal(ask(&w, 10 + n_snapshots - 1, 300, 300)->n_prefilled, tail_of(300));
    sim_close(&w);
}

/* ahead: its block's ids are known a step later. */
static void what_goes_on_from_a_long_answer_is_found(void **state)
{
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        struct sim_world w;
        struct sim_opts o = defaults();
        o.ahead = ahead;
        open_world(&w, &o);
        struct sim_request *r = sim_submit(&w, 1, 8000, 8000, 400, 300);
        run_until_idle(&w);
        struct sim_request *next = sim_make_behind(&w, r, 8290, 4);
        sim_enter(&w, next);
        run_until_idle(&w);
        assert_int_equal(next->seq.n_cached, EVERY);
        sim_close(&w);
    }
}

/* A stop token at the last place before the mark: the step behind it was launched, and is nobody's text. */
static void a_surplus_step_leaves_no_snapshot(void **state)
{
    (void)state;
    for (int n_answer = 190; n_answer <= 194; n_answer++) {
        struct sim_world w;
        struct sim_opts o = defaults();
        o.ahead = 1;
        open_world(&w, &o);
        (void)sim_submit(&w, 1, 8000, 8000, 400, n_answer);
        run_until_idle(&w);
        bool is_whole = 8000 + n_answer - 1 >= EVERY; /* tokens that are known to be its text */
        assert_int_equal(w.slots.n_marks, 8000 + n_answer >= EVERY ? 2 : 1);
        assert_int_equal(w.slots.pool.n_cached, is_whole ? 2 : 1);
        assert_int_equal(w.slots.pool.n_free + w.slots.pool.n_cached, w.slots.pool.n_blocks);
        sim_close(&w);
    }
}

/* slots.c asserts where chunks end. */
static void whole_chunks_make_progress_beside_many_decodes(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.whole_chunks = true;
    o.chunk = 128;
    o.token_tile = 128;
    o.max_seqs = 100;
    o.max_out = 100;
    o.step_ns = LF_NS_PER_MS;
    open_world(&w, &o);
    for (int i = 0; i < 99; i++) {
        struct sim_request *r = sim_make(&w, 10 + i, 10, 10, 2000, 2000);
        r->seq.tenant_id = (uint64_t)i % 4;
        sim_enter(&w, r);
    }
    for (struct sim_request *d = w.requests; d; d = d->next)
        while (d->first_token_ns == 0) (void)sim_step(&w);
    struct sim_request *r = sim_make(&w, 1, 2000, 2000, 1, 1);
    r->seq.tenant_id = 9;
    sim_enter(&w, r);
    for (int i = 0; r->first_token_ns == 0; i++) {
        (void)sim_step(&w);
        assert_true(i <= 2000 / B); /* a block a step, beside 64 decodes */
    }
    sim_close(&w);
}

static struct sim_request *pin(struct sim_world *w, int doc, int n)
{
    struct sim_request *r = sim_make(w, doc, n, n, 0, 0);
    r->seq.pin = LF_PIN_DEVICE;
    sim_enter(w, r);
    run_until_idle(w);
    assert_int_equal(r->seq.phase, LF_SCHED_HOLDING);
    return r;
}

static void what_is_pinned_is_found_whatever_else_comes(void **state)
{
    (void)state;
    static const int lengths[] = {1000, 1024}; /* one snapshot, and one behind each of its ends */
    for (size_t k = 0; k < LF_N_ELEMS(lengths); k++) {
        struct sim_world w;
        struct sim_opts o = defaults();
        o.n_slots = 3;
        open_world(&w, &o);
        int n = lengths[k];
        struct sim_request *pinned = pin(&w, 1, n);
        int n_pinned = lf_states_n_pinned(&pinned->seq);
        assert_int_equal(w.slots.pool.n_pinned, n_pinned);
        assert_int_equal(lf_states_n_spare(&w.sched), o.n_slots - n_pinned);
        for (int i = 0; i < 40; i++) (void)ask(&w, 10 + i, 500, 500);
        assert_int_equal(ask(&w, 1, n, n)->n_prefilled, tail_of(n));
        assert_int_equal(ask(&w, 1, n, n + 300)->seq.n_cached, n / B * B);
        sim_end(&w, pinned);
        assert_int_equal(w.slots.pool.n_pinned + w.sched.n_due, 0);
        sim_close(&w);
    }
}

/* All slots but those for what runs are pinned: no mark is made, and a hit takes the snapshot itself. */
static void where_no_slot_can_be_spared_all_goes_on(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.n_slots = 1;
    open_world(&w, &o);
    (void)ask(&w, 2, 700, 700);
    struct sim_request *pinned = pin(&w, 1, 1000);
    assert_int_equal(lf_states_n_spare(&w.sched), 0);
    struct sim_request *again = ask(&w, 2, 700, 700);
    assert_int_equal(again->n_prefilled, tail_of(700));
    assert_int_equal(w.sched.n_snapshots_dropped, 1);
    uint64_t n_skipped = w.sched.n_marks_skipped;
    assert_int_equal(ask(&w, 2, 700, 700)->n_prefilled, 700);
    assert_int_equal(w.sched.n_marks_skipped, n_skipped + 1);
    assert_int_equal(ask(&w, 1, 1000, 1300)->seq.n_cached, 960); /* what is pinned costs nothing */
    sim_end(&w, pinned);
    sim_close(&w);
}

/* A pin waits until it will have its slots; then it has them, whatever else runs. */
static void a_pin_starts_when_its_slots_can_be_kept(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = defaults();
    o.n_slots = 1;
    open_world(&w, &o);
    struct sim_request *first = pin(&w, 1, 1000);
    struct sim_request *second = sim_make(&w, 2, 1000, 1000, 0, 0), *same = sim_make(&w, 1, 1000, 1000, 0, 0);
    second->seq.pin = same->seq.pin = LF_PIN_DEVICE;
    sim_enter(&w, second);
    sim_enter(&w, same);
    w.jobs[w.n_jobs++] = w.pool.n_blocks + first->seq.states_pinned[0]; /* somebody else has what it has, too */
    lf_block_pool_get(&w.slots.pool, first->seq.states_pinned[0]);
    run_until_idle(&w);
    assert_int_equal(second->seq.phase, LF_SCHED_WAITING);
    assert_int_equal(same->seq.phase, LF_SCHED_HOLDING);
    sim_end(&w, first);
    sim_end(&w, same);
    lf_block_pool_put(&w.slots.pool, w.jobs[--w.n_jobs] - w.pool.n_blocks);
    run_until_idle(&w);
    assert_int_equal(second->seq.phase, LF_SCHED_HOLDING);
    assert_true(second->seq.states_pinned[0] >= 0);
    sim_close(&w);
}

/* ---- below the cache ---- */

static struct sim_opts with_disk(void)
{
    struct sim_opts o = defaults();
    o.disk = (struct sim_disk_opts){.n_blocks = 2000, .block_ns = 1e5, .latency_ns = 1e5};
    return o;
}

static void drop_all(struct sim_world *w)
{
    lf_prefix_cache_clear(w->prefix);
    lf_prefix_cache_clear(w->slots.snapshots);
}

static void a_restore_brings_blocks_and_the_snapshot_behind_them(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = with_disk();
    open_world(&w, &o);
    (void)ask(&w, 1, 20000, 20000);
    drop_all(&w);
    w.now_ns += LF_NS_PER_S;
    struct sim_request *r = ask(&w, 1, 18000, 21000); /* a multiple is the last mark in common */
    assert_int_equal(r->seq.n_restored, 2 * EVERY);
    assert_int_equal(w.disk.n_loaded, 2 * EVERY / B + o.slot_blocks);
    assert_int_equal(ask(&w, 1, 18000, 22000)->seq.n_cached, 2 * EVERY); /* it is a snapshot again */
    assert_int_equal(w.disk.n_loaded, 2 * EVERY / B + o.slot_blocks);
    struct sim_request *same = ask(&w, 1, 20000, 20000); /* further, from what is there */
    assert_int_equal(same->seq.n_restored, (19999 / B - 2 * EVERY / B) * B);
    assert_int_equal(same->n_prefilled, tail_of(20000));
    sim_close(&w);
}

/* Only the snapshots were lost. */
static void a_snapshot_below_is_missed_by_no_part(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = with_disk();
    open_world(&w, &o);
    (void)ask(&w, 1, 3000, 3000);
    drop_all(&w);
    w.now_ns += LF_NS_PER_S;
    for (int i = 0; i < w.disk.n_records; i++) /* its last part, of all records */
        if (w.disk.records[i].state > 0 && i == w.disk.n_records - 1) w.disk.records[i].listed_ns = INT64_MAX;
    struct sim_request *r = ask(&w, 1, 3000, 3000);
    assert_int_equal(r->seq.n_restored, 0);
    assert_int_equal(r->n_prefilled, 3000);
    assert_int_equal(w.disk.n_loaded + w.disk.n_failed, 0); /* and nothing was tried */
    sim_close(&w);
}

static void without_a_slot_to_spare_nothing_is_brought_back(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = with_disk();
    o.n_slots = 1;
    open_world(&w, &o);
    (void)ask(&w, 1, 3000, 3000);
    drop_all(&w);
    w.now_ns += LF_NS_PER_S;
    struct sim_request *pinned = pin(&w, 2, 1000);
    assert_int_equal(ask(&w, 1, 3000, 3000)->n_prefilled, 3000);
    sim_end(&w, pinned);
    drop_all(&w);
    assert_int_equal(ask(&w, 1, 3000, 3000)->n_prefilled, tail_of(3000));
    sim_close(&w);
}

/* What was sent for still holds its slot when its sequence has ended. */
static void cancelled_restores_leave_slots_for_all_that_run(void **state)
{
    (void)state;
    struct sim_world w;
    struct sim_opts o = with_disk();
    o.n_slots = 4;
    o.disk.latency_ns = 1e9;
    o.disk.block_ns = 1e3;
    o.step_ns = LF_NS_PER_S;
    open_world(&w, &o);
    struct sim_request *r[8];
    for (int i = 0; i < 8; i++) (void)ask(&w, 10 + i, 6000, 6000);
    drop_all(&w);
    w.now_ns += LF_NS_PER_S;
    w.sched.opts.below.block_ns[0] = 1e3;
    for (int i = 0; i < 8; i++) r[i] = sim_submit(&w, 10 + i, 6000, 6000, 4, 4);
    (void)sim_step(&w);
    int n_leaping = 0;
    for (int i = 0; i < 8; i++) n_leaping += r[i]->seq.restore.leaps;
    assert_int_equal(n_leaping, 4);
    for (int i = 0; i < 8; i++) sim_end(&w, r[i]);
    for (int i = 0; i < 8; i++) r[i] = sim_submit(&w, 30 + i, 100, 100, 4, 4);
    (void)sim_step(&w);
    assert_true(w.sched.n_running == 8 && w.disk.n_loads > 0);
    run_until_idle(&w);
    sim_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_prompts_are_computed_once),
        cmocka_unit_test(what_parts_before_the_first_mark_is_not_waited_for),
        cmocka_unit_test(a_follower_takes_over_at_the_last_mark_in_common),
        cmocka_unit_test(questions_about_a_document_go_on_from_its_end),
        cmocka_unit_test(prompts_that_part_in_the_middle_go_on_from_a_multiple),
        cmocka_unit_test(what_is_asked_for_most_ages_last),
        cmocka_unit_test(a_long_document_takes_few_snapshots_of_others),
        cmocka_unit_test(what_goes_on_from_a_long_answer_is_found),
        cmocka_unit_test(a_surplus_step_leaves_no_snapshot),
        cmocka_unit_test(whole_chunks_make_progress_beside_many_decodes),
        cmocka_unit_test(what_is_pinned_is_found_whatever_else_comes),
        cmocka_unit_test(where_no_slot_can_be_spared_all_goes_on),
        cmocka_unit_test(a_pin_starts_when_its_slots_can_be_kept),
        cmocka_unit_test(a_restore_brings_blocks_and_the_snapshot_behind_them),
        cmocka_unit_test(a_snapshot_below_is_missed_by_no_part),
        cmocka_unit_test(without_a_slot_to_spare_nothing_is_brought_back),
        cmocka_unit_test(cancelled_restores_leave_slots_for_all_that_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
