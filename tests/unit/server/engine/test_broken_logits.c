/* Logits that are no numbers end the request that they are of, and nothing else. */
#include "tests/unit/server/engine/engine_rig.h"

enum { BROKEN = 5, N_PROMPT = 300 };

static void open_engine(struct engine_rig *f, int n_async_steps)
{
    struct lf_engine_opts opts = rig_opts();
    *f = (struct engine_rig){.backend = {.broken_id = BROKEN, .n_async_steps = n_async_steps}};
    rig_open(f, 128, &opts);
}

/* A prompt without the id, but at one place. */
static void broken_prompt(int32_t prompt[N_PROMPT], int at)
{
    rig_prompt(prompt, N_PROMPT, 9);
    for (int i = 0; i < N_PROMPT; i++)
        if (prompt[i] == BROKEN) prompt[i]++;
    prompt[at] = BROKEN;
}

static void check_broken(struct lf_request *req)
{
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, LF_FINISH_ERROR);
    assert_int_equal(st.status, LF_CORRUPT);
    assert_string_equal(st.message, LF_BROKEN_LOGITS);
    assert_int_equal(st.n_tokens, 0);
    lf_request_put(req);
}

static void a_request_ends_without_a_token_and_the_others_go_on(void **state)
{
    (void)state;
    for (int n_async_steps = 0; n_async_steps < 2; n_async_steps++) {
        struct engine_rig f;
        int32_t prompt[N_PROMPT];
        open_engine(&f, n_async_steps);
        broken_prompt(prompt, N_PROMPT - 1);
        struct lf_gen_params bad = rig_params(prompt, N_PROMPT, 50), good = rig_params(prompt, N_PROMPT - 1, 0);
        for (int i = 0; i < 5; i++) {
            struct lf_request *first = rig_submit(&f, &bad), *second = rig_submit(&f, &good);
            check_broken(first);
            assert_int_equal(rig_wait(second).finish, LF_FINISH_LENGTH);
            lf_request_put(second);
        }
        assert_int_equal(rig_blocks_used(&f), 0);
        const struct lf_engine_metrics *m = lf_engine_metrics(f.engine);
        assert_int_equal(lf_counter_get(&m->broken_logits), 5);
        assert_int_equal(lf_counter_get(&m->finished_error), 5);
        struct lf_engine_state es;
        lf_engine_snapshot(f.engine, &es);
        assert_true(es.alive);
        rig_close(&f);
    }
}

static void a_prompt_whose_log_probabilities_are_none_ends_too(void **state)
{
    (void)state;
    struct engine_rig f;
    int32_t prompt[N_PROMPT];
    open_engine(&f, 0);
    for (int max_tokens = 0; max_tokens < 2; max_tokens++) {
        broken_prompt(prompt, N_PROMPT / 2);
        struct lf_gen_params p = rig_params(prompt, N_PROMPT, max_tokens);
        p.n_prompt_logprobs = 2;
        check_broken(rig_submit(&f, &p));
    }
    assert_int_equal(rig_blocks_used(&f), 0);
    assert_int_equal(lf_counter_get(&lf_engine_metrics(f.engine)->broken_logits), 2);
    rig_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_ends_without_a_token_and_the_others_go_on),
        cmocka_unit_test(a_prompt_whose_log_probabilities_are_none_ends_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
