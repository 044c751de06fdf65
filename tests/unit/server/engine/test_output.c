/* What comes of a step's logits: tokens, their log-probabilities and the prompt's, and stops. */
#include "tests/unit/server/engine/engine_fixture.h"

static void an_eos_token_ends_a_request_and_is_not_among_its_tokens(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[20];
    for (uint64_t seed = 1; seed < 20; seed++) {
        rig_prompt(prompt, 20, seed);
        struct lf_gen_params p = rig_params(prompt, 20, 1000);
        p.ignore_eos = false;
        struct lf_request *req = rig_submit(f, &p);
        struct lf_request_state st = rig_wait(req);
        assert_int_equal(st.finish, LF_FINISH_STOP);
        assert_int_equal(st.stop_token, FAKE_EOS);
        rig_check_tokens(req, prompt, 20, st.n_tokens);
        for (int i = 0; i < st.n_tokens; i++) assert_int_not_equal(lf_request_token(req, i)->id, FAKE_EOS);
        lf_request_put(req);
    }
}

static void a_stop_token_ends_a_request_but_not_below_min_tokens(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[20], stop[1];
    rig_prompt(prompt, 20, 9);
    stop[0] = fake_expected(prompt, 20);
    struct lf_gen_params p = rig_params(prompt, 20, 50);
    p.stop_token_ids = stop;
    p.n_stop_token_ids = 1;
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, LF_FINISH_STOP);
    assert_int_equal(st.n_tokens, 0);
    assert_int_equal(st.stop_token, stop[0]);
    lf_request_put(req);

    p.min_tokens = 30;
    req = rig_submit(f, &p);
    st = rig_wait(req);
    assert_true(st.n_tokens >= 30);
    for (int i = 0; i < 30; i++) assert_int_not_equal(lf_request_token(req, i)->id, stop[0]);
    lf_request_put(req);
}

static void check_prompt_logprobs(struct engine_rig *f, int n_prompt, int max_tokens, int n_top)
{
    int32_t prompt[1000];
    rig_prompt(prompt, n_prompt, 77);
    struct lf_gen_params p = rig_params(prompt, n_prompt, max_tokens);
    p.n_prompt_logprobs = n_top;
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.n_prompt_logprobs, n_prompt);
    assert_int_equal(st.n_cached, 0);
    uint64_t h = 0;
    for (int i = 1; i < n_prompt; i++) {
        h = fake_hash(h, prompt[i - 1]);
        const struct lf_sampled *got = lf_request_prompt_logprob(req, i);
        assert_int_equal(got->id, prompt[i]);
        assert_int_equal(got->n_top, n_top);
        assert_true(got->logprob < 0);
        if (n_top > 0) assert_int_equal(got->top_ids[0], fake_argmax(h));
    }
    rig_check_tokens(req, prompt, n_prompt, st.n_tokens);
    assert_int_equal(st.n_tokens, max_tokens);
    lf_request_put(req);
}

static void prompt_logprobs_come_for_every_token_but_the_first(void **state)
{
    struct engine_rig *f = *state;
    for (int again = 0; again < 2; again++) { /* the second time the prompt is in the prefix cache, and not used */
        check_prompt_logprobs(f, 1, 0, 0);
        check_prompt_logprobs(f, 2, 0, 3);
        check_prompt_logprobs(f, 500, 0, 2);
        check_prompt_logprobs(f, 500, 5, 0);
        check_prompt_logprobs(f, 64, 3, 20);
    }
}

static void tokens_carry_logprobs_where_asked(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[30];
    rig_prompt(prompt, 30, 5);
    for (int n_logprobs = 0; n_logprobs <= 20; n_logprobs += 10) {
        struct lf_gen_params p = rig_params(prompt, 30, 40);
        p.sampling.n_logprobs = n_logprobs;
        struct lf_request *req = rig_submit(f, &p);
        struct lf_request_state st = rig_wait(req);
        for (int i = 0; i < st.n_tokens; i++) {
            const struct lf_sampled *t = lf_request_token(req, i);
            assert_int_equal(t->n_top, n_logprobs);
            assert_true(t->logprob <= 0 && t->logprob > -20);
            if (n_logprobs > 0) assert_int_equal(t->top_ids[0], t->id);
        }
        lf_request_put(req);
    }
}

static uint64_t n_observed(const struct lf_histogram *h)
{
    uint64_t n = 0;
    for (int i = 0; i <= h->n_bounds; i++) n += h->counts[i];
    return n;
}

/* One that never started has an end and no length; one without a token has no time of decoding. */
static void what_is_observed_of_a_request_depends_on_how_far_it_came(void **state)
{
    struct engine_rig *f = *state;
    const struct lf_engine_metrics *m = lf_engine_metrics(f->engine);
    (void)rig_generate(f, 20, 5, 1);
    (void)rig_generate(f, 20, 0, 1);
    assert_int_equal(n_observed(&m->e2e_s), 2);
    assert_int_equal(n_observed(&m->generation_tokens_per_request), 2);
    assert_int_equal(n_observed(&m->decode_s), 1);
    assert_int_equal(n_observed(&m->inference_s), 2);
    assert_int_equal(n_observed(&m->max_tokens), 2);
    assert_int_equal(m->max_tokens.sum_micro, 5 * 1000000);
    int32_t prompt[20];
    rig_prompt(prompt, 20, 1);
    struct lf_gen_params p = rig_params(prompt, 20, 5);
    p.deadline_ns = 1; /* over before it starts */
    struct lf_request *req = rig_submit(f, &p);
    assert_true(rig_wait(req).timed_out);
    lf_request_put(req);
    assert_int_equal(n_observed(&m->e2e_s), 3);
    assert_int_equal(n_observed(&m->generation_tokens_per_request), 2);
    assert_int_equal(n_observed(&m->inference_s), 2);
    assert_int_equal(n_observed(&m->max_tokens), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_eos_token_ends_a_request_and_is_not_among_its_tokens),
        CASE(a_stop_token_ends_a_request_but_not_below_min_tokens),
        CASE(prompt_logprobs_come_for_every_token_but_the_first),
        CASE(tokens_carry_logprobs_where_asked),
        CASE(what_is_observed_of_a_request_depends_on_how_far_it_came),
    };
    int n_failed = 0;
    for (n_async_steps = 0; n_async_steps <= LF_ENGINE_ASYNC_STEPS_N; n_async_steps++)
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed;
}
