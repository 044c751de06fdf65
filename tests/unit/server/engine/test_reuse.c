/* Prompts that were computed before, or are being computed: by a request of the past, its leader, a neighbour. */
#include "tests/unit/server/engine/engine_fixture.h"

static void a_second_request_takes_the_prompt_from_the_cache(void **state)
{
    struct engine_rig *f = *state;
    assert_int_equal(rig_generate(f, 640, 10, 1).n_cached, 0);
    assert_int_equal(rig_generate(f, 640, 10, 1).n_cached, 576); /* never the block with the last token */
    assert_int_equal(rig_generate(f, 641, 10, 1).n_cached, 640);
    assert_int_equal(rig_generate(f, 63, 10, 1).n_cached, 0);
    assert_int_equal(rig_generate(f, 640, 10, 2).n_cached, 0);
    const struct lf_engine_metrics *m = lf_engine_metrics(f->engine);
    assert_int_equal(lf_counter_get(&m->prompt_tokens), 640 + 640 + 641 + 63 + 640);
    assert_int_equal(lf_counter_get(&m->cache_queries), 640 + 640 + 641 + 63 + 640);
    assert_int_equal(lf_counter_get(&m->prompt_tokens_cached), 576 + 640);
    assert_int_equal(lf_counter_get(&m->prompt_tokens_computed), 640 + 64 + 1 + 63 + 640);
}

static void blocks_of_an_answer_are_found_by_the_next_turn(void **state)
{
    struct engine_rig *f = *state;
    int32_t ids[400];
    rig_prompt(ids, 100, 1);
    struct lf_gen_params p = rig_params(ids, 100, 200);
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st = rig_wait(req);
    for (int i = 0; i < 200; i++) ids[100 + i] = lf_request_token(req, i)->id;
    lf_request_put(req);
    p = rig_params(ids, 300, 10);
    req = rig_submit(f, &p);
    st = rig_wait(req);
    assert_int_equal(st.n_cached, 256);
    rig_check_tokens(req, ids, 300, 10);
    lf_request_put(req);
}

/* And an answer's: whole blocks, of as many tokens as the cache says. */
static void check_large_blocks(int n_stripes)
{
    static struct engine_rig f;
    struct lf_engine_opts opts = rig_opts();
    struct lf_engine_state st;
    int block = n_stripes * LF_KV_BLOCK_TOKENS, n = 5 * block;
    memset(&f, 0, sizeof(f));
    f.n_stripes = n_stripes;
    rig_open(&f, 8, &opts);
    lf_engine_snapshot(f.engine, &st);
    assert_int_equal(st.block_tokens, block);
    assert_int_equal(st.most_tokens, 8 * block);
    assert_int_equal(st.groups[0].n_request_blocks, (opts.ctx + block - 1) / block);
    assert_int_equal(rig_generate(&f, n, 10, 1).n_cached, 0);
    assert_int_equal(rig_generate(&f, n, 10, 1).n_cached, n - block);
    assert_int_equal(rig_generate(&f, n + 1, 10, 1).n_cached, n);
    assert_int_equal(rig_generate(&f, n - 1, 10, 1).n_cached, n - block);
    assert_int_equal(rig_generate(&f, block - 1, block, 2).n_cached, 0);
    assert_int_equal(lf_engine_largest(f.engine, 0), 8 * block);
    rig_close(&f);
}

static void large_blocks_are_found_whole(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) check_large_blocks(n);
}

static void another_salt_finds_nothing(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[300];
    rig_prompt(prompt, 300, 1);
    const char *salts[] = {"a", "b", "a"};
    const int cached[] = {0, 0, 256};
    for (int i = 0; i < 3; i++) {
        struct lf_gen_params p = rig_params(prompt, 300, 4);
        p.salt = salts[i];
        p.salt_bytes = 1;
        struct lf_request *req = rig_submit(f, &p);
        assert_int_equal(rig_wait(req).n_cached, cached[i]);
        lf_request_put(req);
    }
}

static void followers_wait_for_their_leader_and_share_its_prompt(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[2000];
    rig_prompt(prompt, 2000, 1);
    struct lf_request *reqs[8];
    for (int i = 0; i < 8; i++) {
        struct lf_gen_params p = rig_params(prompt, 2000, 20);
        p.leader = i > 0 ? reqs[0] : NULL;
        reqs[i] = rig_submit(f, &p);
    }
    for (int i = 0; i < 8; i++) {
        struct lf_request_state st = rig_wait(reqs[i]);
        assert_int_equal(st.n_cached, i > 0 ? 1984 : 0);
        rig_check_tokens(reqs[i], prompt, 2000, 20);
    }
    for (int i = 0; i < 8; i++) lf_request_put(reqs[i]);
}

static void equal_prompts_at_once_are_computed_once(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[2000];
    rig_prompt(prompt, 2000, 1);
    struct lf_request *reqs[8];
    f->backend.gate = 1;
    for (int i = 0; i < 8; i++) {
        struct lf_gen_params p = rig_params(prompt, 2000, 20);
        reqs[i] = rig_submit(f, &p);
    }
    f->backend.gate = 0;
    for (int i = 0; i < 8; i++) (void)rig_wait(reqs[i]);
    const struct lf_engine_metrics *m = lf_engine_metrics(f->engine);
    assert_int_equal(lf_counter_get(&m->prompt_tokens_computed), 2000 + 7 * 16);
    for (int i = 0; i < 8; i++) lf_request_put(reqs[i]);
}

static void a_follower_goes_on_when_its_leader_is_gone(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[2000];
    rig_prompt(prompt, 2000, 1);
    f->backend.gate = 1;
    struct lf_gen_params p = rig_params(prompt, 2000, 20);
    struct lf_request *leader = rig_submit(f, &p);
    p.leader = leader;
    struct lf_request *follower = rig_submit(f, &p);
    lf_request_put(leader);
    f->backend.gate = 0;
    assert_int_equal(rig_wait(follower).n_tokens, 20);
    rig_check_tokens(follower, prompt, 2000, 20);
    lf_request_put(follower);
}

static void without_prefix_cache_everything_is_computed(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.n_async_steps = n_async_steps}};
    struct lf_engine_opts opts = rig_opts();
    rig_open_kv(&f, 128, &opts, false);
    for (int i = 0; i < 3; i++) {
        struct lf_request_state st = rig_generate(&f, 500, 10, 1);
        assert_int_equal(st.n_cached, 0);
        assert_int_equal(st.n_tokens, 10);
    }
    rig_close(&f);
    assert_true(lf_engine_host_bytes(&opts, FAKE_VOCAB, 128, LF_KV_BLOCK_TOKENS) > 16 * sizeof(struct lf_sampled));
    assert_true(lf_engine_host_bytes(&opts, FAKE_VOCAB, 256, LF_KV_BLOCK_TOKENS) >
                lf_engine_host_bytes(&opts, FAKE_VOCAB, 128, LF_KV_BLOCK_TOKENS));
}

#ifdef LF_DEBUG
/* Blocks that nobody owns and that hold a token's hash. */
static int n_free_and_written(struct engine_rig *f)
{
    int n = 0;
    for (int32_t b = 0; b < f->kv.pool.n_blocks; b++) {
        const struct lf_kv_seq seq = {.blocks = &b};
        uint32_t bits = *fake_slot(&f->kv.view, &seq, 0, 0);
        if (f->kv.pool.blocks[b].cached) continue;
        assert_int_equal(f->kv.pool.blocks[b].n_refs, 0);
        n += bits != 0 && bits != 0x7fc00000u;
    }
    return n;
}

/* With and without a prefix cache, of the prompt and of the answer, and the answer is the same. */
static void what_slides_out_of_a_window_is_poisoned(void **state)
{
    (void)state;
    const struct lf_kv_layer_spec spec = {.window = 128, .n_kv_heads = 1, .head_dim = 2, .alias_of = -1};
    for (int prefix = 0; prefix <= 1; prefix++) {
        struct engine_rig f = {.backend = {.n_async_steps = n_async_steps, .on_thread = mark_thread}};
        struct lf_engine_opts opts = rig_opts();
        struct lf_kv_layout layout;
        assert_int_equal(lf_kv_layout_make(&layout, &spec, 1, LF_F32, NULL), LF_OK);
        f.layout = &layout;
        rig_open_kv(&f, 128, &opts, prefix);
        for (int i = 0; i < 2; i++) assert_int_equal(rig_generate(&f, 2000, 1500, 1).n_tokens, 1500);
        assert_int_equal(rig_blocks_used(&f), 0);
        assert_int_equal(n_free_and_written(&f), 0);
        rig_close(&f);
        lf_kv_layout_deinit(&layout);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_second_request_takes_the_prompt_from_the_cache),
        CASE(blocks_of_an_answer_are_found_by_the_next_turn),
        cmocka_unit_test(large_blocks_are_found_whole),
        CASE(another_salt_finds_nothing),
        CASE(followers_wait_for_their_leader_and_share_its_prompt),
        CASE(equal_prompts_at_once_are_computed_once),
        CASE(a_follower_goes_on_when_its_leader_is_gone),
        cmocka_unit_test(without_prefix_cache_everything_is_computed),
#ifdef LF_DEBUG
        cmocka_unit_test(what_slides_out_of_a_window_is_poisoned),
#endif
    };
    int n_failed = 0;
    for (n_async_steps = 0; n_async_steps <= LF_ENGINE_ASYNC_STEPS_N; n_async_steps++)
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed;
}
