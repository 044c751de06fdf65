/* Where the threads meet: what a look shows, when notify comes, what submit refuses, and the watchdog. */
#include "server/engine/cost.h"
#include "tests/unit/server/engine/engine_fixture.h"

static void submitting_without_memory_is_refused_and_the_next_one_works(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[100];
    int retry = 0;
    rig_prompt(prompt, 100, 1);
    struct lf_gen_params p = rig_params(prompt, 100, 10);
    fails_in = 1;
    assert_int_equal(rig_try(f, &p, &retry), LF_NO_MEMORY);
    assert_int_equal(fails_in, 0);
    assert_int_equal(rig_generate(f, 100, 10, 1).n_tokens, 10);
}

struct notes {
    pthread_mutex_t lock;
    int n;
};

static void note(void *ctx)
{
    struct notes *notes = ctx;
    pthread_mutex_lock(&notes->lock);
    notes->n++;
    pthread_mutex_unlock(&notes->lock);
}

static int note_count(struct notes *notes)
{
    pthread_mutex_lock(&notes->lock);
    int n = notes->n;
    pthread_mutex_unlock(&notes->lock);
    return n;
}

static void an_engine_that_does_not_move_is_declared_dead(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 1, .n_async_steps = n_async_steps}};
    struct lf_engine_opts opts = rig_opts();
    opts.watchdog_s = 1;
    rig_open(&f, 128, &opts);
    int32_t prompt[10];
    rig_prompt(prompt, 10, 1);
    struct lf_gen_params p = rig_params(prompt, 10, 10);
    lf_clock_sleep_ms(1100); /* idle is not stuck */
    struct lf_engine_state es;
    lf_engine_snapshot(f.engine, &es);
    assert_true(es.alive);
    struct notes notes = {PTHREAD_MUTEX_INITIALIZER, 0};
    lf_request_put(rig_submit(&f, &p)); /* gone already */
    p.notify = note;
    p.notify_ctx = &notes;
    struct lf_request *req = rig_submit(&f, &p);
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, LF_FINISH_ERROR);
    assert_int_equal(st.status, LF_DEVICE);
    lf_engine_snapshot(f.engine, &es);
    assert_false(es.alive);
    while (note_count(&notes) == 0) lf_clock_sleep_ms(1); /* it comes after the state */
    assert_int_equal(note_count(&notes), 1);
    f.backend.gate = 0; /* it comes back, and stays out of it */
    lf_clock_sleep_ms(50);
    lf_request_snapshot(req, &st);
    assert_int_equal(st.finish, LF_FINISH_ERROR);
    /* the step that it hung in may still have been read: the other nine tokens are not computed */
    assert_true(lf_counter_get(&lf_engine_metrics(f.engine)->generation_tokens) <= 1);
    lf_request_put(req);
    rig_close(&f);
}

enum { BEAT_MS = 10 };
static _Atomic int n_beats;
static _Atomic bool beat_fails;

static enum lf_status beat(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&n_beats, 1);
    return atomic_load(&beat_fails) ? LF_DEVICE : LF_OK;
}

static void an_engine_that_others_wait_for_says_that_it_is_there_and_hears_that_they_are_not(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.n_async_steps = n_async_steps}, .beat = beat, .beat_ms = BEAT_MS};
    struct lf_engine_opts opts = rig_opts();
    struct lf_engine_state es;
    atomic_store(&n_beats, 0);
    atomic_store(&beat_fails, false);
    rig_open(&f, 128, &opts);
    while (atomic_load(&n_beats) < 1) lf_clock_sleep_ms(1); /* at once */
    int64_t began = lf_clock_ns();
    while (atomic_load(&n_beats) < 6) lf_clock_sleep_ms(1); /* without work */
    assert_true(lf_clock_ns() - began >= 4 * BEAT_MS * LF_NS_PER_MS);
    assert_int_equal(rig_generate(&f, 100, 10, 1).n_tokens, 10);
    assert_true(atomic_load(&n_beats) >= 16); /* and in each round */
    atomic_store(&beat_fails, true);
    do {
        lf_clock_sleep_ms(1);
        lf_engine_snapshot(f.engine, &es);
    } while (es.alive);
    assert_string_equal(es.message, "the device failed");
    rig_close(&f);
}

static _Atomic int n_ends, n_calls_at_end;

static void end(void *ctx)
{
    struct fake_backend *f = ctx;
    assert_int_equal(f->n_waited, f->n_launched);
    atomic_store(&n_calls_at_end, f->n_launched + atomic_load(&n_beats));
    atomic_fetch_add(&n_ends, 1);
}

/* Others who wait for its thread are told as soon as it ends, whenever it is joined. */
static void the_last_call_of_an_engine_that_stops_is_its_end(void **state)
{
    (void)state;
    struct lf_engine_opts opts = rig_opts();
    for (int fails = 0; fails < 2; fails++) {
        struct engine_rig f = {
            .backend = {.n_async_steps = n_async_steps}, .beat = beat, .beat_ms = BEAT_MS, .end = end};
        atomic_store(&n_beats, 0);
        atomic_store(&n_ends, 0);
        atomic_store(&beat_fails, false);
        rig_open(&f, 128, &opts);
        assert_int_equal(rig_generate(&f, 100, 10, 1).n_tokens, 10);
        atomic_store(&beat_fails, fails != 0);
        lf_clock_sleep_ms(3 * BEAT_MS);
        assert_int_equal(atomic_load(&n_ends), 0);
        lf_engine_stop(f.engine);
        while (atomic_load(&n_ends) < 1) lf_clock_sleep_ms(1);
        lf_clock_sleep_ms(3 * BEAT_MS);
        assert_int_equal(f.backend.n_launched + atomic_load(&n_beats), atomic_load(&n_calls_at_end));
        rig_close(&f);
        assert_int_equal(atomic_load(&n_ends), 1);
    }
}

static void what_an_engine_that_stands_still_has_is_ended_in_its_place(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 1, .n_async_steps = n_async_steps}};
    struct lf_engine_opts opts = rig_opts();
    struct lf_engine_state es;
    struct notes notes = {PTHREAD_MUTEX_INITIALIZER, 0};
    int32_t prompt[10];
    int retry;
    rig_open(&f, 128, &opts);
    rig_prompt(prompt, 10, 1);
    struct lf_gen_params p = rig_params(prompt, 10, 10);
    p.notify = note;
    p.notify_ctx = &notes;
    struct lf_request *req = rig_submit(&f, &p);
    struct lf_request_state st;
    lf_engine_declare_dead(f.engine, "a rank has failed");
    lf_engine_declare_dead(f.engine, "something else");
    lf_request_snapshot(req, &st);
    assert_int_equal(st.finish, LF_FINISH_ERROR);
    assert_int_equal(st.status, LF_DEVICE);
    assert_string_equal(st.message, "a rank has failed");
    assert_int_equal(note_count(&notes), 1);
    lf_engine_snapshot(f.engine, &es);
    assert_false(es.alive);
    assert_string_equal(es.message, "a rank has failed");
    assert_int_equal(rig_try(&f, &p, &retry), LF_DEVICE);
    f.backend.gate = 0;
    lf_request_put(req);
    rig_close(&f);
}

static void notify_comes_at_most_once_a_step_and_never_after_put(void **state)
{
    struct engine_rig *f = *state;
    struct notes notes = {PTHREAD_MUTEX_INITIALIZER, 0};
    int32_t prompt[1000];
    rig_prompt(prompt, 1000, 1);
    struct lf_gen_params p = rig_params(prompt, 1000, 30);
    p.notify = note;
    p.notify_ctx = &notes;
    struct lf_request *req = rig_submit(f, &p);
    (void)rig_wait(req);
    lf_request_put(req);
    int n = note_count(&notes);
    struct lf_engine_state es;
    lf_engine_snapshot(f->engine, &es);
    assert_true(n >= 30 && (uint64_t)n <= es.n_steps + 1);
    f->backend.delay_us = 200;
    for (int i = 0; i < 50; i++) {
        if (i % 8 == 0) assert_int_equal(rig_blocks_used(f), 0); /* those that are gone do not fill the queue */
        struct notes *gone = calloc(1, sizeof(*gone));
        pthread_mutex_init(&gone->lock, NULL);
        p.notify_ctx = gone;
        req = rig_submit(f, &p);
        struct timespec t = {0, i * 20000};
        nanosleep(&t, NULL);
        lf_request_put(req);
        pthread_mutex_destroy(&gone->lock);
        free(gone); /* a later call would be seen by asan and tsan */
    }
}

static void a_snapshot_tells_how_things_stand(void **state)
{
    struct engine_rig *f = *state;
    struct lf_engine_state es;
    lf_engine_snapshot(f->engine, &es);
    assert_true(es.alive && !es.draining);
    assert_int_equal(es.n_blocks, 128);
    assert_int_equal(es.n_blocks_free, 128);
    assert_int_equal(es.ctx, 4096);
    assert_int_equal(lf_engine_largest(f->engine, 1), 4096);
    assert_true(es.prefill_tokens_per_s == 0 && es.decode_tokens_per_s == 0);
    (void)rig_generate(f, 500, 50, 1);
    assert_int_equal(rig_blocks_used(f), 0);
    lf_engine_snapshot(f->engine, &es);
    assert_true(es.prefill_tokens_per_s > 0 && es.decode_tokens_per_s > 0);
    assert_int_equal(es.n_blocks_cached, 8);
    assert_int_equal(es.n_blocks_free, 120);
    assert_true(es.n_steps >= 50);
    assert_true(es.retry_after_s >= 1);
}

/* Until the engine has looked at a request its first token is expected when those that wait before it, and itself, have
 * been computed at the speed measured so far; before there is any, at an assumed one. */
static void who_has_just_come_is_expected_behind_those_that_wait(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[700];
    struct lf_request *reqs[3];
    struct lf_request_state st;
    struct lf_engine_state es;
    const int n_prompts[3] = {10, 700, 300};
    f->backend.gate = 1;
    for (int i = 0; i < 3; i++) {
        rig_prompt(prompt, n_prompts[i], (uint64_t)i + 1);
        struct lf_gen_params p = rig_params(prompt, n_prompts[i], 4);
        reqs[i] = rig_submit(f, &p);
        do lf_engine_snapshot(f->engine, &es);
        while (es.n_running == 0); /* the engine is inside its first step: what comes from here on waits */
    }
    lf_request_snapshot(reqs[2], &st);
    int64_t eta_ns = st.eta_ns;
    f->backend.gate = 0;
    for (int i = 0; i < 3; i++) {
        (void)rig_wait(reqs[i]);
        lf_request_put(reqs[i]);
    }
    assert_true(eta_ns == INT64_C(1000) * LF_COST_START_TOKEN_NS);
}

/* Two tenants, each kept to three quarters of 128 blocks while the other is here. */
static void the_largest_request_is_the_asking_tenants(void **state)
{
    struct engine_rig *f = *state;
    const int n_prompts[3] = {2000, 100, 100};
    const uint64_t tenants[3] = {1, 2, 1};
    struct lf_request *reqs[3];
    struct lf_engine_state es;
    int32_t prompt[2000];
    f->backend.gate = 1;
    f->backend.hold = 3; /* all have been taken in by then, and none has ended */
    assert_int_equal(lf_engine_largest(f->engine, 1), 4096);
    for (int i = 0; i < 3; i++) {
        rig_prompt(prompt, n_prompts[i], (uint64_t)i + 1);
        struct lf_gen_params p = rig_params(prompt, n_prompts[i], 48);
        p.tenant = tenants[i];
        reqs[i] = rig_submit(f, &p); /* 32, 3 and 3 blocks */
    }
    f->backend.gate = 0;
    do lf_engine_snapshot(f->engine, &es);
    while (es.n_waiting > 0 || es.room.n_here != 2);
    int64_t of_busy = lf_engine_largest(f->engine, 1), of_modest = lf_engine_largest(f->engine, 2);
    f->backend.hold = 0;
    for (int i = 0; i < 3; i++) {
        (void)rig_wait(reqs[i]);
        lf_request_put(reqs[i]);
    }
    assert_int_equal(of_busy, (96 - 35) * LF_KV_BLOCK_TOKENS);
    assert_int_equal(of_modest, 4096); /* 90 blocks are free: the context is less */
    assert_int_equal(rig_blocks_used(f), 0);
    assert_int_equal(lf_engine_largest(f->engine, 1), 4096);
    lf_engine_drain(f->engine);
    assert_int_equal(lf_engine_largest(f->engine, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(submitting_without_memory_is_refused_and_the_next_one_works),
        cmocka_unit_test(an_engine_that_does_not_move_is_declared_dead),
        cmocka_unit_test(the_last_call_of_an_engine_that_stops_is_its_end),
        cmocka_unit_test(an_engine_that_others_wait_for_says_that_it_is_there_and_hears_that_they_are_not),
        cmocka_unit_test(what_an_engine_that_stands_still_has_is_ended_in_its_place),
        CASE(notify_comes_at_most_once_a_step_and_never_after_put),
        CASE(a_snapshot_tells_how_things_stand),
        CASE(who_has_just_come_is_expected_behind_those_that_wait),
        CASE(the_largest_request_is_the_asking_tenants),
    };
    int n_failed = 0;
    for (n_async_steps = 0; n_async_steps <= LF_ENGINE_ASYNC_STEPS_N; n_async_steps++)
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed;
}
