/* Requests from submit to their end, and engines from create to destroy. */
#include "tests/unit/server/engine/engine_fixture.h"

static void a_request_gets_the_tokens_its_prompt_leads_to(void **state)
{
    struct engine_rig *f = *state;
    const int prompts[] = {1, 2, 63, 64, 65, 128, 200, 1000, 3000};
    for (size_t i = 0; i < LF_N_ELEMS(prompts); i++) {
        struct lf_request_state st = rig_generate(f, prompts[i], 70, i + 1);
        assert_int_equal(st.finish, LF_FINISH_LENGTH);
        assert_int_equal(st.n_tokens, 70);
        assert_int_equal(st.n_prompt, prompts[i]);
        assert_int_equal(st.n_processed, prompts[i]);
        assert_int_equal(st.stop_token, -1);
        assert_true(st.submitted_ns <= st.started_ns && st.started_ns < st.first_token_ns);
        assert_true(st.first_token_ns < st.finished_ns);
    }
}

static void the_whole_context_and_the_whole_pool_can_be_used(void **state)
{
    struct engine_rig *f = *state;
    assert_int_equal(rig_generate(f, 4000, 96, 3).n_tokens, 96);
    assert_int_equal(rig_generate(f, 4095, 1, 4).n_tokens, 1);
    assert_int_equal(rig_generate(f, 1, 4095, 5).n_tokens, 4095);
}

static void without_output_tokens_the_prompt_is_only_computed(void **state)
{
    struct engine_rig *f = *state;
    struct lf_request_state st = rig_generate(f, 300, 0, 1);
    assert_int_equal(st.finish, LF_FINISH_LENGTH);
    assert_int_equal(st.n_tokens, 0);
    assert_int_equal(st.n_processed, 300);
    assert_int_equal(rig_generate(f, 1, 0, 2).finish, LF_FINISH_LENGTH);
}

static void a_cancelled_request_ends_and_gives_its_blocks_back(void **state)
{
    struct engine_rig *f = *state;
    f->backend.hold = 12; /* it cannot come to an end before it is cancelled */
    int32_t prompt[100];
    rig_prompt(prompt, 100, 1);
    struct lf_gen_params p = rig_params(prompt, 100, 3900);
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st;
    do lf_request_snapshot(req, &st);
    while (st.n_tokens < 5);
    lf_request_cancel(req);
    lf_request_cancel(req);
    f->backend.hold = 0;
    st = rig_wait(req);
    assert_in_range(st.n_tokens, 5, 12);
    assert_int_equal(st.finish, LF_FINISH_CANCELLED);
    assert_int_equal(rig_blocks_used(f), 0);
    rig_check_tokens(req, prompt, 100, st.n_tokens);
    lf_request_put(req);
}

static void a_deadline_ends_a_request_with_what_it_has(void **state)
{
    struct engine_rig *f = *state;
    f->backend.delay_us = 500;
    int32_t prompt[100];
    rig_prompt(prompt, 100, 1);
    struct lf_gen_params p = rig_params(prompt, 100, 3900);
    p.deadline_ns = lf_clock_ns() + 30 * LF_NS_PER_MS;
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, LF_FINISH_LENGTH);
    assert_true(st.timed_out && st.finished_ns >= p.deadline_ns);
    assert_int_equal(st.status, LF_OK);
    assert_true(st.n_tokens < 3900); /* these alone would take 2 s */
    rig_check_tokens(req, prompt, 100, st.n_tokens);
    lf_request_put(req);
    st = rig_generate(f, 100, 20, 1); /* without a deadline none passes */
    assert_true(st.finish == LF_FINISH_LENGTH && !st.timed_out);
}

static void a_deadline_ends_a_request_in_the_queue_too(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 1, .n_async_steps = n_async_steps}};
    struct lf_engine_opts opts = rig_opts();
    opts.max_seqs = 1;
    rig_open(&f, 128, &opts);
    int32_t prompt[100];
    rig_prompt(prompt, 100, 1);
    struct lf_gen_params p = rig_params(prompt, 100, 1000);
    struct lf_request *first = rig_submit(&f, &p);
    p.deadline_ns = lf_clock_ns();
    struct lf_request *req = rig_submit(&f, &p);
    f.backend.gate = 0;
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, LF_FINISH_LENGTH);
    assert_true(st.timed_out);
    assert_int_equal(st.n_tokens, 0);
    assert_int_equal(st.started_ns, 0);
    lf_request_put(req);
    assert_int_equal(rig_wait(first).n_tokens, 1000);
    lf_request_put(first);
    rig_close(&f);
}

/* In the queue, before anything was measured, and between the chunks: prompt tokens left means time left. */
static void the_eta_is_more_than_nothing_while_prompt_tokens_are_left(void **state)
{
    struct engine_rig *f = *state;
    f->backend.delay_us = 300;
    f->backend.gate = 1;
    int32_t prompt[4000];
    rig_prompt(prompt, 4000, 1);
    struct lf_gen_params p = rig_params(prompt, 4000, 1);
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st;
    lf_request_snapshot(req, &st);
    assert_true(st.eta_ns > 0 && st.n_processed == 0);
    f->backend.gate = 0;
    do {
        lf_request_snapshot(req, &st);
        assert_true(st.finish != LF_FINISH_NONE || (st.eta_ns > 0) == (st.n_processed < 4000));
    } while (st.finish == LF_FINISH_NONE);
    assert_int_equal(st.eta_ns, 0);
    lf_request_put(req);
}

static void a_failed_device_ends_every_request_and_refuses_later_ones(void **state)
{
    struct engine_rig *f = *state;
    f->backend.gate = 1;
    f->backend.fail_at_step = 3;
    int32_t prompt[200];
    rig_prompt(prompt, 200, 1);
    struct lf_gen_params p = rig_params(prompt, 200, 100);
    struct lf_request *reqs[30], *more = NULL;
    for (int i = 0; i < 30; i++) reqs[i] = rig_submit(f, &p);
    f->backend.gate = 0;
    for (int i = 0; i < 30; i++) {
        struct lf_request_state st = rig_wait(reqs[i]);
        assert_int_equal(st.finish, LF_FINISH_ERROR);
        assert_int_equal(st.status, LF_DEVICE);
    }
    struct lf_engine_state es;
    lf_engine_snapshot(f->engine, &es);
    assert_false(es.alive);
    assert_true(es.message[0] != 0);
    int retry, n_steps = f->backend.n_steps;
    struct lf_err err;
    assert_int_equal(lf_engine_submit(f->engine, &p, &more, &retry, &err), LF_DEVICE);
    assert_int_equal(f->backend.n_steps, n_steps);
    for (int i = 0; i < 30; i++) lf_request_put(reqs[i]);
}

static void destroy_ends_what_is_left(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.delay_us = 200, .n_async_steps = n_async_steps}};
    struct lf_engine_opts opts = rig_opts();
    rig_open(&f, 128, &opts);
    int32_t prompt[100];
    rig_prompt(prompt, 100, 1);
    struct lf_gen_params p = rig_params(prompt, 100, 3000);
    for (int i = 0; i < 5; i++) lf_request_put(rig_submit(&f, &p));
    rig_close(&f);
}

static void a_draining_engine_finishes_and_takes_nothing_new(void **state)
{
    struct engine_rig *f = *state;
    f->backend.delay_us = 200;
    int32_t prompt[100];
    int retry = 0;
    rig_prompt(prompt, 100, 1);
    struct lf_gen_params p = rig_params(prompt, 100, 50);
    struct lf_request *req = rig_submit(f, &p);
    lf_engine_drain(f->engine);
    assert_int_equal(rig_try(f, &p, &retry), LF_SHUTDOWN);
    assert_int_equal(rig_wait(req).n_tokens, 50);
    lf_request_put(req);
    struct lf_engine_state es;
    lf_engine_snapshot(f->engine, &es);
    assert_true(es.draining && es.alive);
}

static void creating_fails_cleanly_at_every_allocation(void **state)
{
    struct engine_rig *f = *state;
    struct lf_engine_opts opts = rig_opts();
    struct lf_engine_backend backend = rig_backend(f);
    int n = 0;
    for (;; n++) {
        struct lf_engine *engine = NULL;
        struct lf_err err = {LF_OK, ""};
        fails_in = n + 1;
        enum lf_status status = lf_engine_create(&engine, &backend, &f->kv, &opts, &err);
        bool all_done = fails_in > 0;
        fails_in = 0;
        if (all_done) {
            assert_int_equal(status, LF_OK);
            lf_engine_destroy(engine);
            break;
        }
        assert_int_equal(status, LF_NO_MEMORY);
        assert_null(engine);
        assert_true(err.message[0] != 0);
    }
    assert_true(n >= 12);
    lf_engine_destroy(NULL);
}

static void chunk_and_out_limits_are_kept_whatever_they_are(void **state)
{
    (void)state;
    const int limits[][3] = {{1, 1, 1}, {1, 16, 16}, {3, 8, 2}, {16, 16, 1}, {64, 4, 2}, {4096, 16, 16}};
    for (size_t i = 0; i < LF_N_ELEMS(limits); i++) {
        struct engine_rig f = {.backend = {.n_async_steps = n_async_steps}};
        struct lf_engine_opts opts = rig_opts();
        opts.chunk = limits[i][0];
        opts.max_seqs = limits[i][1];
        opts.max_out = limits[i][2];
        rig_open(&f, 128, &opts);
        int32_t prompt[300];
        struct lf_request *reqs[12];
        for (int k = 0; k < 12; k++) {
            rig_prompt(prompt, 300, (uint64_t)k);
            struct lf_gen_params p = rig_params(prompt, 20 + 20 * k, 10);
            p.n_prompt_logprobs = k % 3 == 0 ? 1 : -1;
            reqs[k] = rig_submit(&f, &p);
        }
        for (int k = 0; k < 12; k++) {
            rig_prompt(prompt, 300, (uint64_t)k);
            assert_int_equal(rig_wait(reqs[k]).n_tokens, 10);
            rig_check_tokens(reqs[k], prompt, 20 + 20 * k, 10);
            lf_request_put(reqs[k]);
        }
        rig_close(&f);
        assert_true(f.backend.max_rows_seen <= limits[i][0]);
        assert_true(f.backend.max_seqs_seen <= limits[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_request_gets_the_tokens_its_prompt_leads_to),
        CASE(the_whole_context_and_the_whole_pool_can_be_used),
        CASE(without_output_tokens_the_prompt_is_only_computed),
        CASE(a_cancelled_request_ends_and_gives_its_blocks_back),
        CASE(a_deadline_ends_a_request_with_what_it_has),
        cmocka_unit_test(a_deadline_ends_a_request_in_the_queue_too),
        CASE(the_eta_is_more_than_nothing_while_prompt_tokens_are_left),
        CASE(a_failed_device_ends_every_request_and_refuses_later_ones),
        cmocka_unit_test(destroy_ends_what_is_left),
        CASE(a_draining_engine_finishes_and_takes_nothing_new),
        CASE(creating_fails_cleanly_at_every_allocation),
        cmocka_unit_test(chunk_and_out_limits_are_kept_whatever_they_are),
    };
    int n_failed = 0;
    for (n_async_steps = 0; n_async_steps <= LF_ENGINE_ASYNC_STEPS_N; n_async_steps++)
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed;
}
