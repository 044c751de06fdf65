/* server/engine/tiers.c, of a model with states: a snapshot goes down and comes back in three parts. */
#include "tests/unit/server/engine/tiers_rig.h"

enum { PARTS = 3 };

static struct lf_kv_layout layout;

static int setup_with(int n_spare_slots, int n_async_steps)
{
    const struct lf_kv_layer_spec specs[] = {{.n_kv_heads = 1, .head_dim = 2, .alias_of = -1},
                                             {.state_bytes = 2560, .alias_of = -1}};
    memset(&f, 0, sizeof(f));
    assert_int_equal(lf_kv_layout_make(&layout, specs, LF_N_ELEMS(specs), LF_F32, NULL), LF_OK);
    assert_int_equal(layout.states.slot_blocks, PARTS);
    fake_disk_init(&f.disk);
    f.n_blocks = 128;
    f.layout = &layout;
    f.n_spare_slots = n_spare_slots;
    f.n_async_steps = n_async_steps;
    read_ms = write_ms = 0;
    open_engine();
    return 0;
}

static int setup_states(void **state)
{
    (void)state;
    return setup_with(16, 0);
}

static int setup_states_async(void **state)
{
    (void)state;
    return setup_with(16, 1);
}

static int setup_scarce(void **state)
{
    (void)state;
    return setup_with(1, 1);
}

static int teardown_states(void **state)
{
    (void)teardown(state);
    lf_kv_layout_deinit(&layout);
    return 0;
}

static void a_prompt_outlives_the_engine(void **state)
{
    (void)state;
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 0);
    restart();
    assert_int_equal(n_listed(), 15 + PARTS);
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 960);
    assert_int_equal(figures().disk.n_loaded, 15 + PARTS);
    struct lf_request_state st = rig_generate(&f.rig, 1000, 10, 1); /* both are in the cache again */
    assert_int_equal(st.n_cached, 960);
    assert_int_equal(st.n_restored, 0);
}

static void what_slots_are_used_for_is_published(void **state)
{
    (void)state;
    struct lf_engine_states s = figures().states;
    int n_running = lf_batch_n_slots(rig_opts().max_seqs);
    assert_int_equal(s.n_layers, 1);
    assert_int_equal(s.slot_bytes, PARTS * layout.block_bytes);
    assert_int_equal(s.n_slots, n_running + 16);
    assert_int_equal(s.n_for_running, n_running);
    assert_true(s.n_used == 0 && s.n_kept == 0 && s.n_read == 0 && s.n_evicted == 0 && s.n_skipped == 0);
    for (int i = 0; i < 3; i++) (void)rig_generate(&f.rig, 1000, 10, 1);
    wait_until_listed(15 + PARTS);
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * LF_NS_PER_S;
    /* What has been saved is let go, and published, a round later. */
    while (figures().states.n_used != 0 && lf_clock_ns() < until) lf_clock_sleep_ms(1);
    s = figures().states;
    assert_true(s.n_used == 0 && s.n_kept == 1 && s.n_read == 2 && s.n_evicted == 0);
    for (int i = 0; i < s.n_slots + 5; i++) (void)rig_generate(&f.rig, 100, 10, (uint64_t)(2 + i));
    s = figures().states;
    assert_int_equal(s.n_evicted > 0, true);
    assert_true(s.n_kept <= s.n_slots && s.n_used + s.n_kept <= s.n_slots);
}

/* One of its parts is broken: nothing is taken of the prompt, and the part is written again. */
static void a_snapshot_that_is_not_whole_is_not_used(void **state)
{
    (void)state;
    (void)rig_generate(&f.rig, 1000, 10, 1);
    close_engine();
    f.disk.files[1].now[(15 + 1) * 4096 + 77] ^= 4; /* the second part */
    open_engine();
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 0); /* tried, and computed; saved once more */
    wait_until_listed(15 + PARTS);
    restart();
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 960);
}

static void what_leaves_the_cache_is_found_in_memory(void **state)
{
    (void)state;
    reopen_with_memory(N_SLOTS, true);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        (void)rig_generate(&f.rig, 1900, 4, seed);
        wait_until_in_memory((uint32_t)seed * (29 + PARTS));
    }
    int64_t n_restored = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) n_restored += rig_generate(&f.rig, 1900, 4, seed).n_restored;
    assert_true(n_restored >= 2 * 1856);
}

static void what_is_kept_of_a_prompt_is_what_can_be_found(void **state)
{
    (void)state;
    (void)rig_generate(&f.rig, 1000, 1, 1);
    restart();
    assert_int_equal(n_kept(1000), 960);
    assert_int_equal(n_kept(3000), 960); /* another prompt from there on */
    assert_int_equal(n_kept(900), 0);    /* no snapshot is in it */
}

static void what_is_pinned_to_the_device_stays_there(void **state)
{
    (void)state;
    struct lf_request *req = pin(1900, 1, LF_PIN_DEVICE);
    wait_until_pinned(29, 29 + PARTS);
    assert_int_equal(n_there(req, LF_PIN_DEVICE), 29);
    for (uint64_t seed = 2; seed <= 40; seed++) (void)rig_generate(&f.rig, 500, 1, seed);
    assert_int_equal(n_there(req, LF_PIN_DEVICE), 29);
    assert_int_equal(n_there(req, LF_PIN_DISK), 29);
    struct lf_request_state st = rig_generate(&f.rig, 1900, 4, 1);
    assert_int_equal(st.n_cached, 1856);
    assert_int_equal(st.n_restored, 0);
    lf_request_put(req);
    wait_until_pinned(0, 0);
}

/* All its blocks are still in the cache, and what they are of use for is not. */
static void what_has_lost_its_snapshot_is_not_there_whole(void **state)
{
    (void)state;
    static int32_t ids[650];
    rig_prompt(ids, 650, 1);
    struct lf_gen_params p = rig_params(ids, 650, 1);
    struct lf_request *req = rig_submit(&f.rig, &p);
    (void)rig_wait(req);
    wait_until_listed(10 + PARTS);
    assert_int_equal(n_there(req, LF_PIN_DEVICE), 10);
    for (uint64_t seed = 2; seed <= 41; seed++) (void)rig_generate(&f.rig, 70, 1, seed); /* slots are fewer */
    assert_int_equal(lf_prefix_cache_count(f.rig.kv.prefix, &req->seq.keys[1], 10), 10);
    assert_int_equal(n_there(req, LF_PIN_DEVICE), 9);
    assert_int_equal(n_there(req, LF_PIN_DISK), 10);
    lf_request_put(req);
}

static void what_is_pinned_to_disk_is_there_whole(void **state)
{
    (void)state;
    struct lf_request *req = pin(1280, 1, LF_PIN_DISK); /* it ends with a block: two snapshots */
    wait_until_pinned(0, 20 + 2 * PARTS);
    assert_int_equal(f.rig.kv.slots.n_pinned, 0);
    assert_int_equal(n_there(req, LF_PIN_DISK), 20);
    lf_request_put(req);
    restart();
    uint64_t n_steps = figures().n_steps;
    req = pin(1280, 1, LF_PIN_DISK); /* nothing is computed or loaded */
    wait_until_pinned(0, 20 + 2 * PARTS);
    assert_int_equal(figures().n_steps, n_steps);
    lf_request_put(req);
    wait_until_pinned(0, 0);
}

static void slots_that_are_pinned_are_bounded(void **state)
{
    (void)state;
    static int32_t ids[512];
    int retry;
    struct lf_request *reqs[8];
    assert_int_equal(lf_engine_pin_blocks(f.rig.engine, LF_PIN_DEVICE, 20), 20);
    assert_int_equal(lf_engine_pin_blocks(f.rig.engine, LF_PIN_DISK, 20), 20 + 2 * PARTS);
    for (int i = 0; i < 8; i++) reqs[i] = pin(100, 1 + (uint64_t)i, LF_PIN_DEVICE);
    rig_prompt(ids, 100, 20);
    struct lf_gen_params p = rig_params(ids, 100, 0);
    p.pin = LF_PIN_DEVICE;
    assert_int_equal(rig_try(&f.rig, &p, &retry), LF_LIMIT); /* half of the 16 beside those for what runs */
    p.pin = LF_PIN_DISK;
    assert_int_equal(rig_try(&f.rig, &p, &retry), LF_OK);
    for (int i = 0; i < 8; i++) lf_request_put(reqs[i]);
    wait_until_pinned(0, 0);
}

/* Or no mark would be made any more, and nothing be brought back. */
static void the_last_slot_to_spare_is_not_pinned(void **state)
{
    (void)state;
    static int32_t ids[512];
    int retry;
    rig_prompt(ids, 100, 20);
    struct lf_gen_params p = rig_params(ids, 100, 0);
    p.pin = LF_PIN_DEVICE;
    assert_int_equal(rig_try(&f.rig, &p, &retry), LF_LIMIT);
    (void)rig_generate(&f.rig, 1000, 1, 1);
    assert_int_equal(rig_generate(&f.rig, 1000, 1, 1).n_cached, 960);
}

static void what_is_pinned_to_disk_is_held_until_its_snapshots_are_there(void **state)
{
    (void)state;
    write_ms = 4;
    struct lf_request *req = pin(1024, 1, LF_PIN_DISK); /* as many blocks as are saved at once, and two snapshots */
    assert_true(n_listed() < 16);
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * LF_NS_PER_S;
    while (figures().n_blocks_pinned != 16 && lf_clock_ns() < until) lf_clock_sleep_ms(1);
    while (figures().n_blocks_pinned != 0 && lf_clock_ns() < until) lf_clock_sleep_ms(1);
    assert_int_equal(n_listed(), 16 + 2 * PARTS);
    lf_request_put(req);
    wait_until_pinned(0, 0);
}

/* Three snapshots are to be saved, and one slot can be spared: they go one after the other. That all that may run finds
 * a slot meanwhile states.c asserts at each start. */
static void saves_hold_no_slot_that_is_needed(void **state)
{
    (void)state;
    write_ms = 4;
    holds_writes = true; /* a snapshot that is being saved has the slot that the next one needs to come about */
    for (uint64_t seed = 1; seed <= 3; seed++) (void)rig_generate(&f.rig, seed == 1 ? 1100 : 200, 1, seed);
    int64_t n_before = n_listed();
    holds_writes = false;
    assert_int_equal(n_before, 0);
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * LF_NS_PER_S;
    while (n_listed() < 17 + 3 + 3 + 3 * PARTS && lf_clock_ns() < until) (void)rig_generate(&f.rig, 10, 1, 9);
    assert_int_equal(n_listed(), 17 + 3 + 3 + 3 * PARTS);
}

static void answers_are_right_whatever_happens(void **state)
{
    (void)state;
    ask_and_fail(9);
}

static void answers_are_right_from_both(void **state)
{
    (void)state;
    reopen_with_memory(150, false);
    ask_and_fail(9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_prompt_outlives_the_engine, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(a_prompt_outlives_the_engine, setup_states_async, teardown_states),
        cmocka_unit_test_setup_teardown(what_slots_are_used_for_is_published, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(a_snapshot_that_is_not_whole_is_not_used, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(what_leaves_the_cache_is_found_in_memory, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(what_is_kept_of_a_prompt_is_what_can_be_found, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(what_is_pinned_to_the_device_stays_there, setup_states_async, teardown_states),
        cmocka_unit_test_setup_teardown(what_has_lost_its_snapshot_is_not_there_whole, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(what_is_pinned_to_disk_is_there_whole, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(slots_that_are_pinned_are_bounded, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(the_last_slot_to_spare_is_not_pinned, setup_scarce, teardown_states),
        cmocka_unit_test_setup_teardown(what_is_pinned_to_disk_is_held_until_its_snapshots_are_there, setup_states,
                                        teardown_states),
        cmocka_unit_test_setup_teardown(saves_hold_no_slot_that_is_needed, setup_scarce, teardown_states),
        cmocka_unit_test_setup_teardown(answers_are_right_whatever_happens, setup_states, teardown_states),
        cmocka_unit_test_setup_teardown(answers_are_right_whatever_happens, setup_states_async, teardown_states),
        cmocka_unit_test_setup_teardown(answers_are_right_whatever_happens, setup_scarce, teardown_states),
        cmocka_unit_test_setup_teardown(answers_are_right_from_both, setup_states_async, teardown_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
