/* server/engine/tiers.c, of blocks; of states test_tiers_states.c. */
#include "tests/unit/server/engine/tiers_rig.h"

/* ---- tests ---- */

static void a_prompt_outlives_the_engine(void **state)
{
    (void)state;
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 0);
    restart();
    struct lf_request_state st = rig_generate(&f.rig, 1000, 10, 1);
    assert_int_equal(st.n_restored, 960);
    assert_int_equal(st.n_cached, 960);
    assert_int_equal(lf_counter_get(&lf_engine_metrics(f.rig.engine)->prompt_tokens_restored), 960);
    assert_int_equal(lf_counter_get(&lf_engine_metrics(f.rig.engine)->prompt_tokens_cached), 0);
    assert_int_equal(lf_counter_get(&lf_engine_metrics(f.rig.engine)->prompt_tokens_computed), 40);
    st = rig_generate(&f.rig, 1000, 10, 1); /* it is in the cache again */
    assert_int_equal(st.n_cached, 960);
    assert_int_equal(st.n_restored, 0);
}

/* Blocks of a context that is divided are of more tokens; another text with the same beginning shares whole ones. */
static void a_prompt_of_large_blocks_does_too(void **state)
{
    (void)state;
    int32_t ids[1000];
    for (f.n_stripes = 2; f.n_stripes <= 4; f.n_stripes++) {
        int block = f.n_stripes * LF_KV_BLOCK_TOKENS, n = 999 / block * block;
        close_engine();
        fake_disk_deinit(&f.disk);
        fake_disk_init(&f.disk);
        open_engine();
        assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 0);
        restart();
        assert_int_equal(n_listed(), n / block);
        assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, n);
        restart();
        rig_prompt(ids, 1000, 1);
        ids[3 * block - 1]++; /* the last token of the third block */
        struct lf_gen_params p = rig_params(ids, 1000, 10);
        struct lf_request *req = rig_submit(&f.rig, &p);
        assert_int_equal(rig_wait(req).n_restored, 2 * block);
        rig_check_tokens(req, ids, 1000, 10);
        lf_request_put(req);
    }
    f.n_stripes = 0;
}

static void an_answer_outlives_it_too(void **state)
{
    (void)state;
    int32_t ids[400];
    rig_prompt(ids, 100, 1);
    struct lf_gen_params p = rig_params(ids, 100, 200);
    struct lf_request *req = rig_submit(&f.rig, &p);
    (void)rig_wait(req);
    for (int i = 0; i < 200; i++) ids[100 + i] = lf_request_token(req, i)->id;
    lf_request_put(req);
    restart();
    p = rig_params(ids, 300, 10);
    req = rig_submit(&f.rig, &p);
    assert_int_equal(rig_wait(req).n_restored, 256);
    rig_check_tokens(req, ids, 300, 10);
    lf_request_put(req);
}

static void nothing_is_written_twice(void **state)
{
    (void)state;
    (void)rig_generate(&f.rig, 1000, 10, 1);
    restart();
    long n_ops = f.disk.n_ops;
    (void)rig_generate(&f.rig, 1000, 0, 1);
    restart();
    assert_true(f.disk.n_ops - n_ops <= 4); /* the table's resizes */
    assert_int_equal(n_listed(), 15);
}

static void what_leaves_the_cache_is_found_below(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) { /* 30 blocks each, of 128 */
        (void)rig_generate(&f.rig, 1900, 4, seed);
        wait_until_listed((int64_t)seed * 29);
    }
    int64_t n_restored = 0; /* on a machine that is busy with other things computing may look cheaper at times */
    for (uint64_t seed = 1; seed <= 8; seed++) n_restored += rig_generate(&f.rig, 1900, 4, seed).n_restored;
    assert_true(n_restored >= 2 * 1856);
    assert_int_equal(n_restored, lf_counter_get(&lf_engine_metrics(f.rig.engine)->prompt_tokens_restored));
}

/* Of windows what is seen from the end of a beginning is enough for it, and must be there: whether they are all groups
 * or some. */
static void what_is_kept_of_a_prompt_is_what_can_be_found(void **state)
{
    (void)state;
    const struct lf_kv_layer_spec specs[] = {{.window = 128, .n_kv_heads = 1, .head_dim = 2, .alias_of = -1},
                                             {.window = 0, .n_kv_heads = 1, .head_dim = 2, .alias_of = -1}};
    for (int n_layers = 1; n_layers <= 2; n_layers++) {
        struct lf_kv_layout layout;
        assert_int_equal(lf_kv_layout_make(&layout, specs, n_layers, LF_F32, NULL), LF_OK);
        assert_int_equal(layout.n_groups, n_layers);
        close_engine();
        fake_disk_deinit(&f.disk);
        fake_disk_init(&f.disk);
        f.layout = &layout;
        open_engine();
        assert_int_equal(n_kept(3000), 0);
        assert_int_equal(rig_generate(&f.rig, 3000, 1, 1).n_cached, 0);
        restart();
        assert_int_equal(n_kept(3000), 46 * 64);
        assert_int_equal(n_kept(3008), 46 * 64); /* its last block is another one */
        assert_int_equal(n_kept(1200), 0);       /* of windows nothing that is seen from there */
        assert_int_equal(rig_generate(&f.rig, 3000, 1, 1).n_restored, 46 * 64);
        close_engine();
        f.layout = NULL;
        lf_kv_layout_deinit(&layout);
        open_engine();
    }
}

static void another_tenants_blocks_are_not_found(void **state)
{
    (void)state;
    int32_t prompt[600];
    rig_prompt(prompt, 600, 1);
    for (int i = 0; i < 3; i++) {
        struct lf_gen_params p = rig_params(prompt, 600, 4);
        p.salt = i == 1 ? "b" : "a";
        p.salt_bytes = 1;
        struct lf_request *req = rig_submit(&f.rig, &p);
        assert_int_equal(rig_wait(req).n_restored, i == 2 ? 576 : 0);
        lf_request_put(req);
        restart();
    }
}

static void a_broken_block_is_computed_again(void **state)
{
    (void)state;
    (void)rig_generate(&f.rig, 1000, 10, 1);
    close_engine();
    for (int i = 0; i < 8; i++) f.disk.files[1].now[i * 2 * 4096 + 77] ^= 4;
    open_engine();
    struct lf_request_state st = rig_generate(&f.rig, 1000, 10, 1); /* its tokens are checked */
    assert_int_equal(st.n_restored, 7 * 64);
    restart();
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 960);
}

static void a_disk_that_fails_costs_only_time(void **state)
{
    (void)state;
    (void)rig_generate(&f.rig, 1000, 10, 1);
    restart();
    pthread_mutex_lock(&disk_lock);
    f.disk.fails_at = f.disk.n_ops;
    f.disk.fails_n = -1;
    f.disk.failure = LF_IO;
    pthread_mutex_unlock(&disk_lock);
    for (uint64_t seed = 1; seed <= 6; seed++) assert_int_equal(rig_generate(&f.rig, 1000, 10, seed).n_tokens, 10);
    assert_int_equal(rig_blocks_used(&f.rig), 0);
}

/* Its blocks were entered when it was launched; they must not come back from disk after a restart. */
static void what_a_failed_step_left_is_not_kept(void **state)
{
    (void)state;
    int32_t prompt[600];
    rig_prompt(prompt, 600, 1);
    f.n_async_steps = 1;
    for (int step = 1; step <= 5; step++) {
        f.break_at_step = step;
        restart();
        struct lf_gen_params p = rig_params(prompt, 600, 4);
        struct lf_request *req = rig_submit(&f.rig, &p);
        assert_int_equal(rig_wait(req).finish, LF_FINISH_ERROR);
        lf_request_put(req);
        f.break_at_step = 0;
        restart();
        req = rig_submit(&f.rig, &p);
        assert_int_equal(rig_wait(req).n_tokens, 4);
        rig_check_tokens(req, prompt, 600, 4);
        lf_request_put(req);
        rig_prompt(prompt, 600, (uint64_t)step + 1); /* of which nothing is kept */
    }
}

/* What could not be written is written when the disk works again. */
static void what_was_not_saved_is_saved_later(void **state)
{
    (void)state;
    pthread_mutex_lock(&disk_lock);
    f.disk.fails_at = f.disk.n_ops;
    f.disk.fails_n = 1;
    f.disk.failure = LF_IO;
    pthread_mutex_unlock(&disk_lock);
    (void)rig_generate(&f.rig, 1000, 10, 1);
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * LF_NS_PER_S;
    while (n_listed() < 15 && lf_clock_ns() < until) { /* the engine asks in its rounds */
        (void)rig_generate(&f.rig, 10, 1, 2);
        lf_clock_sleep_ms(20);
    }
    assert_int_equal(n_listed(), 15);
}

/* While one request waits for a slow disk others are answered, and one that is cancelled ends at once. */
static void a_restore_makes_nobody_wait(void **state)
{
    (void)state;
    int32_t prompt[2000];
    rig_prompt(prompt, 2000, 1);
    (void)rig_generate(&f.rig, 2000, 1, 1);
    restart();
    read_ms = 100;
    struct lf_gen_params p = rig_params(prompt, 2000, 10);
    struct lf_request *req = rig_submit(&f.rig, &p);
    for (uint64_t seed = 2; seed < 12; seed++) assert_int_equal(rig_generate(&f.rig, 100, 10, seed).n_tokens, 10);
    struct lf_request_state st;
    lf_request_snapshot(req, &st);
    assert_int_equal(st.n_tokens, 0);
    assert_true(st.finish == LF_FINISH_NONE && st.started_ns > 0);
    int64_t before_ns = lf_clock_ns();
    lf_request_cancel(req);
    assert_int_equal(rig_wait(req).finish, LF_FINISH_CANCELLED);
    assert_true(lf_clock_ns() - before_ns < 50 * RIG_PATIENCE_S * LF_NS_PER_MS);
    lf_request_put(req);
    read_ms = 0;
    assert_int_equal(rig_generate(&f.rig, 2000, 10, 1).n_tokens, 10);
}

/* All blocks are held, by what is saved: a request that needs them all waits for that, and is not lost. */
static void saves_hold_no_request_up_for_ever(void **state)
{
    (void)state;
    close_engine();
    f.n_blocks = 8;
    open_engine();
    for (uint64_t seed = 1; seed <= 20; seed++) assert_int_equal(rig_generate(&f.rig, 8 * 64 - 4, 4, seed).n_tokens, 4);
}

/* Many requests over few documents, a cache that holds some of them, restarts, and a disk that fails now and then. */
static void what_leaves_the_cache_is_found_in_memory(void **state)
{
    (void)state;
    reopen_with_memory(N_SLOTS, true);
    for (uint64_t seed = 1; seed <= 8; seed++) { /* 30 blocks each, of 128 */
        (void)rig_generate(&f.rig, 1900, 4, seed);
        wait_until_in_memory((uint32_t)seed * 29);
    }
    int64_t n_restored = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) n_restored += rig_generate(&f.rig, 1900, 4, seed).n_restored;
    assert_true(n_restored >= 2 * 1856);
    struct lf_engine_state st = figures();
    assert_true(st.memory.on && st.memory.works && st.memory.n_blocks == N_SLOTS && st.memory.n_loaded >= 2 * 29);
    assert_true(!st.disk.on && n_listed() == 0);
    assert_true(st.memory.load_blocks_per_s > 0);
    reopen_with_memory(N_SLOTS, true); /* it does not outlive the engine */
    assert_int_equal(rig_generate(&f.rig, 1900, 4, 1).n_restored, 0);
}

/* The same is in memory and on disk: it comes from memory. What only the disk has comes from there, once. */
static void the_fastest_that_has_it_brings_it(void **state)
{
    (void)state;
    reopen_with_memory(N_SLOTS, false);
    (void)rig_generate(&f.rig, 1000, 4, 1);
    wait_until_listed(15);
    restart(); /* memory is empty */
    assert_int_equal(rig_generate(&f.rig, 1000, 4, 1).n_restored, 960);
    assert_true(figures().disk.n_loaded == 15 && figures().memory.n_loaded == 0);
    wait_until_in_memory(15); /* it has gone up there as well */
    for (uint64_t seed = 2; seed <= 6; seed++) {
        (void)rig_generate(&f.rig, 1900, 4, seed); /* 30 blocks each, of 128: it leaves the cache */
        wait_until_in_memory(15 + ((uint32_t)seed - 1) * 29);
    }
    assert_int_equal(rig_generate(&f.rig, 1000, 4, 1).n_restored, 960);
    assert_true(figures().disk.n_loaded == 15 && figures().memory.n_loaded == 15);
}

static void answers_are_right_whatever_happens(void **state)
{
    (void)state;
    ask_and_fail(12);
}

/* The cache, a memory that holds little more, and the disk: whatever comes from where, the answers are right. */
static void answers_are_right_from_both(void **state)
{
    reopen_with_memory(150, false);
    answers_are_right_whatever_happens(state);
}

static int setup_async(void **state)
{
    (void)setup(state);
    close_engine();
    f.n_async_steps = 1;
    open_engine();
    return 0;
}

/* Of the first prompt after a start: by what the engine before has measured. */
static void what_was_measured_before_decides_about_the_first(void **state)
{
    (void)state;
    struct lf_engine_speed nothing = figures().speed;
    for (int i = 0; i < LF_ENGINE_SPEED_N; i++) assert_true(nothing.ns[i] == 0);
    (void)rig_generate(&f.rig, 1000, 10, 1);
    f.speed = figures().speed;
    for (int i = 0; i < LF_ENGINE_SPEED_N; i++)
        assert_int_equal(f.speed.ns[i] > 0, i < LF_COST_N); /* nothing was loaded */
    f.speed.ns[LF_COST_N + 1] = 1e9;                        /* a disk that takes a second for a block */
    restart();
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 0);
    f.speed.ns[LF_COST_N + 1] = 1e3;
    restart();
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 960);
    f.speed.ns[LF_COST_N + 1] = 0; /* nothing is known of it, and so few blocks tell nothing */
    restart();
    assert_int_equal(rig_generate(&f.rig, 1000, 10, 1).n_restored, 960);
    assert_true(figures().speed.ns[LF_COST_N + 1] == 0);
}

/* ---- pins ---- */

static void what_is_pinned_to_the_device_stays_there(void **state)
{
    (void)state;
    struct lf_request *req = pin(1900, 1, LF_PIN_DEVICE);
    wait_until_pinned(29, 29); /* and in what is below */
    for (uint64_t seed = 2; seed <= 9; seed++) (void)rig_generate(&f.rig, 1900, 4, seed);
    assert_int_equal(n_there(req, LF_PIN_DEVICE), 29);
    struct lf_request_state st = rig_generate(&f.rig, 1900, 4, 1);
    assert_int_equal(st.n_cached, 1856);
    assert_int_equal(st.n_restored, 0);
    lf_request_put(req);
    wait_until_pinned(0, 0);
    assert_int_equal(rig_blocks_used(&f.rig), 0);
}

/* And in what is below, but not on the device. */
static void what_is_pinned_to_memory_stays_there(void **state)
{
    (void)state;
    close_engine();
    f.memory_bytes = 128 * 4096; /* a page for each block */
    open_engine();
    struct lf_request *req = pin(1000, 1, LF_PIN_MEMORY);
    wait_until_pinned(0, 15);
    assert_int_equal(figures().memory.n_pinned, 15);
    for (uint64_t seed = 2; figures().memory.n_evicted < 200; seed++) (void)rig_generate(&f.rig, 1900, 4, seed);
    assert_int_equal(n_there(req, LF_PIN_MEMORY), 15);
    assert_true(n_there(req, LF_PIN_DEVICE) < 15);
    lf_request_put(req);
    wait_until_pinned(0, 0);
    assert_int_equal(figures().memory.n_pinned, 0);
}

/* Two say it of the same blocks: they stay until both have let go. */
static void what_two_pin_stays_for_both(void **state)
{
    (void)state;
    struct lf_request *a = pin(1000, 1, LF_PIN_DEVICE), *b = pin(1280, 1, LF_PIN_DISK);
    wait_until_pinned(15, 20);
    lf_request_put(a);
    wait_until_pinned(0, 20);
    lf_request_put(b);
    wait_until_pinned(0, 0);
}

static void what_is_pinned_to_disk_makes_no_room_there(void **state)
{
    (void)state;
    struct lf_request *req = pin(1900, 1, LF_PIN_DISK);
    wait_until_pinned(0, 29);
    for (uint64_t seed = 2; seed <= 24; seed++) { /* more than the disk has room for */
        (void)rig_generate(&f.rig, 1900, 4, seed);
        wait_until_listed(LF_MIN((int64_t)seed * 29, N_SLOTS));
    }
    assert_int_equal(n_there(req, LF_PIN_DISK), 29);
    assert_true(n_there(req, LF_PIN_DEVICE) < 29);
    lf_request_put(req);
    restart();
    uint64_t n_steps = figures().n_steps;
    req = pin(1900, 1, LF_PIN_DISK); /* it is there already: nothing is computed or loaded */
    wait_until_pinned(0, 29);
    assert_int_equal(figures().n_steps, n_steps);
    assert_int_equal(n_there(req, LF_PIN_DEVICE), 0);
    lf_request_put(req);
}

/* What is pinned has to be read again where it is broken, and is pinned then. */
static void a_broken_block_is_pinned_again(void **state)
{
    (void)state;
    struct lf_request *req = pin(1000, 1, LF_PIN_DISK);
    wait_until_pinned(0, 15);
    lf_request_put(req);
    close_engine();
    for (int i = 0; i < 8; i++) f.disk.files[1].now[i * 2 * 4096 + 77] ^= 4;
    open_engine();
    req = pin(1000, 1, LF_PIN_DISK);
    wait_until_pinned(0, 15);
    (void)rig_generate(&f.rig, 1000, 10, 1); /* finds out */
    wait_until_pinned(0, 15);
    lf_request_put(req);
    wait_until_pinned(0, 0);
}

static void half_may_be_pinned_and_the_rest_is_for_others(void **state)
{
    (void)state;
    static int32_t ids[4096];
    int retry;
    close_engine();
    f.n_blocks = 64;
    open_engine();
    struct lf_request *req = pin(30 * 64 + 1, 1, LF_PIN_DEVICE);
    rig_prompt(ids, 3 * 64 + 1, 2);
    struct lf_gen_params p = rig_params(ids, 3 * 64 + 1, 0);
    p.pin = LF_PIN_DEVICE;
    assert_int_equal(rig_try(&f.rig, &p, &retry), LF_LIMIT); /* 33 of 64 */
    p.pin_spare[LF_PIN_DEVICE] = 1;
    assert_int_equal(rig_try(&f.rig, &p, &retry), LF_OK);
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * LF_NS_PER_S;
    while (figures().pins[LF_PIN_DEVICE].n != 30 && lf_clock_ns() < until) lf_clock_sleep_ms(1);
    rig_prompt(ids, 34 * 64, 3);
    p = rig_params(ids, 34 * 64, 64); /* 35 blocks */
    assert_int_equal(lf_engine_most(f.rig.engine, &p), 34 * 64);
    assert_int_equal(rig_try(&f.rig, &p, &retry), LF_LIMIT);
    p.max_tokens = 0;
    assert_int_equal(rig_try(&f.rig, &p, &retry), LF_OK);
    rig_prompt(ids, 38 * 64, 1); /* it has the pinned ones */
    p = rig_params(ids, 38 * 64, 10);
    assert_int_equal(lf_engine_most(f.rig.engine, &p), 64 * 64);
    assert_int_equal(rig_generate(&f.rig, 38 * 64, 10, 1).n_cached, 30 * 64);
    lf_request_put(req);
}

/* A prompt of what lies below comes while a step in which tokens are tried is held, the h-th behind D's beginning.
 * Where D ends with that step the loads had to wait for it, and nothing else can be launched. */
static void restore_beside_a_step_that_tries(int h)
{
    static const int32_t one[1] = {3};
    int32_t tried[40], prompt[1000];
    for (int i = 0; i < 40; i++) tried[i] = 3;
    tried[0] = h; /* not in the cache */
    struct lf_gen_params p = rig_params(tried, 40, 17);
    p.allowed_ids = one;
    p.n_allowed_ids = 1;
    p.speculate = 16;
    struct lf_request_state st;
    int held = f.rig.backend.n_steps + h;
    f.rig.backend.hold = held;
    struct lf_request *d = rig_submit(&f.rig, &p);
    for (st.finish = LF_FINISH_NONE; f.rig.backend.n_steps < held && st.finish == LF_FINISH_NONE;) {
        lf_clock_sleep_ms(1);
        lf_request_snapshot(d, &st);
    }
    rig_prompt(prompt, 1000, (uint64_t)h);
    struct lf_gen_params q = rig_params(prompt, 1000, 2);
    struct lf_request *s = rig_submit(&f.rig, &q);
    lf_clock_sleep_ms(5);
    f.rig.backend.hold = 0;
    st = rig_wait(d);
    assert_int_equal(st.n_tokens, 17);
    st = rig_wait(s);
    assert_true(st.finish == LF_FINISH_LENGTH && st.n_tokens == 2 && st.n_restored > 0);
    lf_request_put(d);
    lf_request_put(s);
}

static void a_restore_may_come_while_tokens_are_tried(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 10; i++) (void)rig_generate(&f.rig, 1000, 10, i);
    restart();
    for (int h = 1; h <= 10; h++) restore_beside_a_step_that_tries(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_measured_before_decides_about_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_pinned_to_the_device_stays_there, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_pinned_to_the_device_stays_there, setup_async, teardown),
        cmocka_unit_test_setup_teardown(what_is_pinned_to_memory_stays_there, setup, teardown),
        cmocka_unit_test_setup_teardown(what_two_pin_stays_for_both, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_pinned_to_disk_makes_no_room_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broken_block_is_pinned_again, setup, teardown),
        cmocka_unit_test_setup_teardown(half_may_be_pinned_and_the_rest_is_for_others, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prompt_outlives_the_engine, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prompt_of_large_blocks_does_too, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_outlives_it_too, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_written_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(what_leaves_the_cache_is_found_below, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_kept_of_a_prompt_is_what_can_be_found, setup, teardown),
        cmocka_unit_test_setup_teardown(another_tenants_blocks_are_not_found, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broken_block_is_computed_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_disk_that_fails_costs_only_time, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_failed_step_left_is_not_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_not_saved_is_saved_later, setup, teardown),
        cmocka_unit_test_setup_teardown(a_restore_makes_nobody_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(saves_hold_no_request_up_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_are_right_whatever_happens, setup, teardown),
        cmocka_unit_test_setup_teardown(what_leaves_the_cache_is_found_in_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(the_fastest_that_has_it_brings_it, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_are_right_from_both, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_are_right_from_both, setup_async, teardown),
        cmocka_unit_test_setup_teardown(what_leaves_the_cache_is_found_in_memory, setup_async, teardown),
        cmocka_unit_test_setup_teardown(a_prompt_outlives_the_engine, setup_async, teardown),
        cmocka_unit_test_setup_teardown(what_leaves_the_cache_is_found_below, setup_async, teardown),
        cmocka_unit_test_setup_teardown(answers_are_right_whatever_happens, setup_async, teardown),
        cmocka_unit_test_setup_teardown(a_restore_may_come_while_tokens_are_tried, setup_async, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
