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

/* The likeliest of those that are allowed. */
static int32_t allowed_argmax(uint64_t hash, const int32_t *ids, int n)
{
    int32_t best = ids[0];
    for (int i = 1; i < n; i++)
        if (fake_logit(hash, ids[i]) > fake_logit(hash, best)) best = ids[i];
    return best;
}

/* Among them the one that ends an answer, or not; with requests beside it that may say anything. */
static void only_allowed_tokens_come(void **state)
{
    struct engine_rig *f = *state;
    static const int32_t lists[][4] = {{3, 3, 96, 32}, {64, 1, 2, FAKE_EOS}, {95, 95, 95, 95}, {FAKE_EOS}};
    static const int n_ids[] = {4, 4, 1, 1};
    int32_t prompts[5][70];
    struct lf_request *reqs[5];
    for (int i = 0; i < 5; i++) {
        rig_prompt(prompts[i], 70, (uint64_t)i);
        struct lf_gen_params p = rig_params(prompts[i], 70, 60);
        p.ignore_eos = i == 4;
        p.allowed_ids = i < 4 ? lists[i] : NULL;
        p.n_allowed_ids = i < 4 ? n_ids[i] : 0;
        p.min_tokens = i == 1 ? 5 : 0;
        p.sampling.n_logprobs = 20;
        reqs[i] = rig_submit(f, &p);
    }
    for (int i = 0; i < 4; i++) {
        struct lf_request_state st = rig_wait(reqs[i]);
        uint64_t h = 0;
        for (int k = 0; k < 70; k++) h = fake_hash(h, prompts[i][k]);
        for (int k = 0; k < st.n_tokens; k++) {
            const struct lf_sampled *got = lf_request_token(reqs[i], k);
            bool may_end = i == 1 && k >= 5;
            assert_int_equal(got->id, allowed_argmax(h, lists[i], i == 1 && !may_end ? 3 : n_ids[i]));
            assert_int_equal(got->n_top, i == 0 ? 3 : i == 1 ? 3 + may_end : 1);
            h = fake_hash(h, got->id);
        }
        assert_int_equal(st.finish, i % 2 ? LF_FINISH_STOP : LF_FINISH_LENGTH);
        assert_true(i == 1 ? st.n_tokens >= 5 : st.n_tokens == (i == 3 ? 0 : 60));
        lf_request_put(reqs[i]);
    }
    assert_int_equal(rig_wait(reqs[4]).n_tokens, 60);
    rig_check_tokens(reqs[4], prompts[4], 70, 60);
    lf_request_put(reqs[4]);
}

/* What comes next beside bad words: the likeliest token that ends none of them. -1: none is left. */
static int32_t argmax_beside(uint64_t hash, const int32_t *words, int n_words, const int32_t *output, int n_output)
{
    bool bad[FAKE_VOCAB] = {false};
    int32_t best = -1;
    for (int at = 0; at < n_words; at += 1 + words[at]) {
        int n_before = words[at] - 1, same = 0;
        for (int i = 0; i < n_before && n_before <= n_output; i++)
            same += output[n_output - n_before + i] == words[at + 1 + i];
        if (n_before <= n_output && same == n_before) bad[words[at + words[at]]] = true;
    }
    for (int32_t id = 0; id < FAKE_VOCAB; id++)
        if (!bad[id] && (best < 0 || fake_logit(hash, id) > fake_logit(hash, best))) best = id;
    return best;
}

/* Words of one to three tokens, made of what comes without them, so that each of them would come; the answer's own
 * tokens alone count, not the prompt's. */
static void bad_words_do_not_come(void **state)
{
    struct engine_rig *f = *state;
    enum { N = 6, LEN = 60 };
    int32_t prompts[N][70], words[N][40], output[LEN];
    int n_words[N] = {0}, n_changed = 0;
    struct lf_request *reqs[N];
    for (int i = 0; i < N; i++) {
        rig_prompt(prompts[i], 70, (uint64_t)(i + 30));
        uint64_t h = 0;
        for (int k = 0; k < 70; k++) h = fake_hash(h, prompts[i][k]);
        for (int k = 0; k < 12; k++, h = fake_hash(h, output[k - 1])) output[k] = fake_argmax(h);
        for (int n = 1; n <= 3 && i > 0; n++) { /* of prompt 0 none */
            words[i][n_words[i]++] = n;
            for (int k = 0; k < n; k++) words[i][n_words[i]++] = output[3 * n + k];
        }
        if (i == 1) { /* the prompt's last token and the answer's first are no word of the answer */
            n_words[i] = 3;
            words[i][0] = 2;
            words[i][1] = prompts[i][69];
            words[i][2] = output[0];
        }
        struct lf_gen_params p = rig_params(prompts[i], 70, LEN);
        p.bad_words = words[i];
        p.n_bad_words = n_words[i];
        reqs[i] = rig_submit(f, &p);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(rig_wait(reqs[i]).n_tokens, LEN);
        uint64_t h = 0;
        for (int k = 0; k < 70; k++) h = fake_hash(h, prompts[i][k]);
        for (int k = 0; k < LEN; k++) {
            output[k] = lf_request_token(reqs[i], k)->id;
            assert_int_equal(output[k], argmax_beside(h, words[i], n_words[i], output, k));
            n_changed += output[k] != fake_argmax(h);
            h = fake_hash(h, output[k]);
        }
        lf_request_put(reqs[i]);
    }
    assert_true(n_changed >= N - 2);
}

/* Beside a list of what is allowed, and below min_tokens; where nothing is left the answer ends and says so. */
static void bad_words_that_leave_nothing_end_the_answer(void **state)
{
    struct engine_rig *f = *state;
    static const int32_t ids[] = {5, 6}, words[] = {1, 5, 3, 6, 6, 6};
    int32_t prompt[20];
    rig_prompt(prompt, 20, 3);
    struct lf_gen_params p = rig_params(prompt, 20, 9);
    p.allowed_ids = ids;
    p.n_allowed_ids = 2;
    p.bad_words = words;
    p.n_bad_words = 6;
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, LF_FINISH_ERROR);
    assert_int_equal(st.status, LF_UNSUPPORTED);
    assert_string_equal(st.message, LF_BAD_WORDS_NO_TOKEN);
    assert_int_equal(st.n_tokens, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(lf_request_token(req, i)->id, 6);
    lf_request_put(req);

    p.n_bad_words = 2; /* 6 ends the answer, but not at once */
    p.stop_token_ids = &ids[1];
    p.n_stop_token_ids = 1;
    req = rig_submit(f, &p);
    assert_int_equal(rig_wait(req).stop_token, 6);
    lf_request_put(req);
    p.min_tokens = 1;
    req = rig_submit(f, &p);
    assert_string_equal(rig_wait(req).message, LF_BAD_WORDS_NO_TOKEN);
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
        assert_true(got->rank >= 1 && (got->rank == 1) == (got->id == fake_argmax(h)));
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
        CASE(only_allowed_tokens_come),
        CASE(bad_words_do_not_come),
        CASE(bad_words_that_leave_nothing_end_the_answer),
        CASE(prompt_logprobs_come_for_every_token_but_the_first),
        CASE(tokens_carry_logprobs_where_asked),
        CASE(what_is_observed_of_a_request_depends_on_how_far_it_came),
    };
    int n_failed = 0;
    for (n_async_steps = 0; n_async_steps <= LF_ENGINE_ASYNC_STEPS_N; n_async_steps++)
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed;
}
