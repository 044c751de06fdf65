/* Speculation: how much is proposed, and that no answer is another one for it. The model's next token depends on all
 * before it, so what is proposed is mostly wrong; where two ids alone are allowed it is right half of the time, where
 * one is, always. */
#include "tests/unit/server/engine/engine_fixture.h"

/* ---- how many ---- */

struct proposals {
    struct lf_speculation s;
    int32_t ids[600];
    uint32_t grams[1024 + 600];
};

/* A text of 500 tokens that comes again every ten. */
static void init(struct proposals *p, int n_most)
{
    struct lf_gram_index x;
    for (int i = 0; i < 500; i++) p->ids[i] = i % 10;
    lf_gram_index_init(&x, p->ids, p->grams, 10, p->grams + 1024);
    lf_speculation_init(&p->s, &x, n_most);
}

static void what_follows_is_proposed(void **state)
{
    (void)state;
    struct proposals p;
    for (int n_most = 1; n_most <= LF_SPECULATION_N; n_most++) {
        init(&p, n_most);
        assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 1e9), n_most);
        for (int i = 500; i < 500 + n_most; i++) assert_int_equal(p.ids[i], i % 10);
        assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, n_most - 1, 0), n_most - 1);
    }
    init(&p, 16);
    p.ids[499] = 77; /* never before */
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0), 0);
}

/* A text may end where it is found to go on: its own last tokens over and over. */
static void what_was_just_proposed_goes_on(void **state)
{
    (void)state;
    struct proposals p;
    init(&p, 16);
    for (int i = 490; i < 500; i++) p.ids[i] = 50 + i % 2;
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 16, 0), 16);
    for (int i = 500; i < 516; i++) assert_int_equal(p.ids[i], 50 + i % 2);
}

static void as_many_as_pay_are_proposed(void **state)
{
    (void)state;
    struct proposals p;
    init(&p, LF_SPECULATION_AUTO);
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.71), 0); /* 0.7 is the guess */
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.69), 1);
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.34), 3); /* 0.7³ is 0.343 */
    for (int i = 0; i < 100; i++) lf_speculation_learn(&p.s, 16, 16);
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.9), LF_SPECULATION_N);
    for (int i = 0; i < 10000; i++) lf_speculation_learn(&p.s, 2, 1); /* one of two */
    int n = lf_speculation_propose(&p.s, p.ids, 500, 100, 0.3);
    assert_true(n == 1 || n == 2);
}

/* What never comes costs one token in some thirty, and what came to be wrong can be right again. */
static void what_does_not_pay_is_asked_again_seldom(void **state)
{
    (void)state;
    struct proposals p;
    int n_proposed = 0, n_steps = 0;
    init(&p, LF_SPECULATION_AUTO);
    for (int i = 0; i < 3000; i++) {
        int n = lf_speculation_propose(&p.s, p.ids, 500, 100, 0.3);
        n_proposed += n;
        if (n > 0) lf_speculation_learn(&p.s, n, 0);
    }
    assert_in_range(n_proposed, 10, 150);
    for (int n = 0; n < LF_SPECULATION_N && n_steps < 300; n_steps++) {
        n = lf_speculation_propose(&p.s, p.ids, 500, 100, 0.3);
        if (n > 0) lf_speculation_learn(&p.s, n, n);
    }
    assert_true(n_steps < 150);
}

/* ---- answers ---- */

enum { LEN = 200, N_PROMPT = 70, N_CASES = 6 };
static const int32_t pair[2] = {3, 96};

/* Prompts of what is allowed, so that each gram has been there: two ids, or one; greedy or drawn, with penalties. */
static struct lf_gen_params case_of(int i, int32_t prompt[N_PROMPT], const int32_t stop[1])
{
    for (int k = 0; k < N_PROMPT; k++) prompt[k] = pair[lf_random64((uint64_t)i, (uint64_t)k) % (i == 1 ? 1 : 2)];
    struct lf_gen_params p = rig_params(prompt, N_PROMPT, LEN - i);
    p.allowed_ids = pair;
    p.n_allowed_ids = i == 1 ? 1 : 2;
    if (i >= 2) p.sampling.temperature = 3;
    p.sampling.seed = (uint64_t)i;
    if (i == 3) p.sampling.frequency_penalty = 0.01f;
    if (i == 3) p.sampling.presence_penalty = 0.4f;
    if (i == 4) p.sampling.repetition_penalty = 1.1f;
    if (i == 4) p.sampling.n_logprobs = 2;
    if (i == 5) { /* one of the two ends it, but not before 90 */
        p.stop_token_ids = stop;
        p.n_stop_token_ids = 1;
        p.min_tokens = 90;
    }
    return p;
}

struct answer {
    struct lf_request_state st;
    struct lf_sampled tokens[LEN];
};

static struct lf_request *ask(struct engine_rig *f, int i, int speculate)
{
    int32_t prompt[N_PROMPT];
    struct lf_gen_params p = case_of(i, prompt, &pair[1]);
    p.speculate = speculate;
    return rig_submit(f, &p);
}

static void take(struct lf_request *req, struct answer *out)
{
    memset(out, 0, sizeof(*out));
    out->st = rig_wait(req);
    for (int k = 0; k < out->st.n_tokens; k++) {
        const struct lf_sampled *t = lf_request_token(req, k);
        out->tokens[k].id = t->id;
        out->tokens[k].logprob = t->logprob;
        if (t->n_top > 0) out->tokens[k] = *t;
    }
    lf_request_put(req);
}

static void check_same(const struct answer *a, const struct answer *b)
{
    assert_int_equal(a->st.n_tokens, b->st.n_tokens);
    assert_int_equal(a->st.finish, b->st.finish);
    assert_int_equal(a->st.stop_token, b->st.stop_token);
    assert_memory_equal(a->tokens, b->tokens, sizeof(a->tokens));
}

static const int ways[] = {LF_SPECULATION_AUTO, 1, 2, 7, 16};

static void answers_are_the_same_alone(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off, on;
    for (int i = 0; i < N_CASES; i++) {
        take(ask(f, i, LF_SPECULATION_OFF), &off);
        assert_int_equal(off.st.n_proposed, 0);
        assert_true(off.st.n_tokens >= 90);
        for (size_t w = 0; w < LF_N_ELEMS(ways); w++) {
            take(ask(f, i, ways[w]), &on);
            check_same(&on, &off);
            assert_true(on.st.n_accepted <= on.st.n_proposed && on.st.n_accepted < on.st.n_tokens);
            if (n_async_steps == 0 && w > 0) assert_true(on.st.n_accepted >= LEN / 5);
            if (n_async_steps == 0 && w > 0 && i != 1 && i != 5) assert_true(on.st.n_proposed > on.st.n_accepted);
            if (n_async_steps > 0) assert_int_equal(on.st.n_proposed, 0);
        }
    }
}

/* More at once than a step has rows of logits for, behind each other's prompts, and over again from the cache. */
static void answers_are_the_same_among_others(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off[N_CASES], on;
    struct lf_request *reqs[4 * N_CASES];
    for (int i = 0; i < N_CASES; i++) take(ask(f, i, LF_SPECULATION_OFF), &off[i]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4 * N_CASES; i++) reqs[i] = ask(f, i % N_CASES, i % 4 == 3 ? 0 : ways[(i + round) % 5]);
        for (int i = 0; i < 4 * N_CASES; i++) {
            take(reqs[i], &on);
            check_same(&on, &off[i % N_CASES]);
        }
    }
}

/* What a speculated answer has left in the prefix cache is what a prompt that goes on from it needs. */
static void what_it_leaves_in_the_cache_is_right(void **state)
{
    struct engine_rig *f = *state;
    static struct answer on;
    int32_t prompt[N_PROMPT + LEN];
    struct lf_gen_params p = case_of(0, prompt, NULL);
    take(ask(f, 0, 7), &on);
    for (int k = 0; k < on.st.n_tokens; k++) prompt[N_PROMPT + k] = on.tokens[k].id;
    p = rig_params(prompt, N_PROMPT + on.st.n_tokens, 20);
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.n_cached, (N_PROMPT + on.st.n_tokens - 1) / LF_KV_BLOCK_TOKENS * LF_KV_BLOCK_TOKENS);
    rig_check_tokens(req, prompt, N_PROMPT + on.st.n_tokens, 20);
    lf_request_put(req);
}

/* Rows for two alone: what is proposed never takes another's. */
static void there_may_be_no_room_for_proposals(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off[2], on;
    struct lf_engine_opts opts = rig_opts();
    for (int i = 0; i < 2; i++) take(ask(f, 2 * i, LF_SPECULATION_OFF), &off[i]);
    rig_close(f);
    opts.max_seqs = opts.max_out = 2;
    rig_open(f, 128, &opts);
    struct lf_request *reqs[2] = {ask(f, 0, 7), ask(f, 2, 7)};
    for (int i = 0; i < 2; i++) {
        take(reqs[i], &on);
        check_same(&on, &off[i]);
    }
    assert_true(f->backend.max_rows_seen <= 256);
}

static void metrics_count_what_was_proposed(void **state)
{
    struct engine_rig *f = *state;
    const struct lf_engine_metrics *m = lf_engine_metrics(f->engine);
    static struct answer on;
    uint64_t n_proposed = 0, n_accepted = 0;
    for (int i = 0; i < N_CASES; i++) {
        take(ask(f, i, 5), &on);
        n_proposed += (uint64_t)on.st.n_proposed;
        n_accepted += (uint64_t)on.st.n_accepted;
    }
    assert_int_equal(lf_counter_get(&m->proposed), n_proposed);
    assert_int_equal(lf_counter_get(&m->accepted), n_accepted);
    assert_true(n_async_steps > 0 || n_accepted > 100);
}

/* Layers with windows: what was refused leaves nothing held. The rig's fixture checks the pool when it closes. */
static void windows_slide_behind_proposals(void **state)
{
    (void)state;
    static struct answer off, on;
    const struct lf_kv_layer_spec specs[] = {{.window = 128, .n_kv_heads = 1, .head_dim = 2, .alias_of = -1}};
    struct lf_kv_layout layout;
    struct engine_rig f = {.backend = {.n_async_steps = n_async_steps, .on_thread = mark_thread}};
    struct lf_engine_opts opts = rig_opts();
    assert_int_equal(lf_kv_layout_make(&layout, specs, 1, LF_F32, NULL), LF_OK);
    f.layout = &layout;
    rig_open(&f, 128, &opts);
    for (int i = 0; i < N_CASES; i++) {
        take(ask(&f, i, LF_SPECULATION_OFF), &off);
        for (size_t w = 0; w < LF_N_ELEMS(ways); w++) {
            take(ask(&f, i, ways[w]), &on);
            check_same(&on, &off);
        }
        assert_true(n_async_steps > 0 || on.st.n_accepted > 20);
    }
    rig_close(&f);
    lf_kv_layout_deinit(&layout);
}

static void numbers_out_of_range_are_refused(void **state)
{
    struct engine_rig *f = *state;
    static const int bad[] = {-2, LF_SPECULATION_N + 1, INT32_MIN, INT32_MAX};
    int32_t prompt[N_PROMPT];
    struct lf_gen_params p = case_of(0, prompt, NULL);
    for (size_t i = 0; i < LF_N_ELEMS(bad); i++) {
        struct lf_request *req = NULL;
        struct lf_err err;
        int retry;
        p.speculate = bad[i];
        assert_int_equal(lf_engine_submit(f->engine, &p, &req, &retry, &err), LF_INVALID);
        assert_null(req);
    }
}

int main(void)
{
    const struct CMUnitTest rules[] = {
        cmocka_unit_test(what_follows_is_proposed),
        cmocka_unit_test(what_was_just_proposed_goes_on),
        cmocka_unit_test(as_many_as_pay_are_proposed),
        cmocka_unit_test(what_does_not_pay_is_asked_again_seldom),
    };
    const struct CMUnitTest tests[] = {
        CASE(answers_are_the_same_alone),
        CASE(answers_are_the_same_among_others),
        CASE(what_it_leaves_in_the_cache_is_right),
        CASE(there_may_be_no_room_for_proposals),
        CASE(metrics_count_what_was_proposed),
        CASE(numbers_out_of_range_are_refused),
        cmocka_unit_test(windows_slide_behind_proposals),
    };
    int n_failed = cmocka_run_group_tests(rules, NULL, NULL);
    for (n_async_steps = 0; n_async_steps <= LF_ENGINE_ASYNC_STEPS_N; n_async_steps++)
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed;
}
