/* The engine over models whose layers differ in windows: the same answers whether the cache lets go of what is behind
 * the windows or keeps everything, alone and together, in chunks of any size, from the prefix cache, with documents
 * that are evicted. Weights are random; what is compared are ids and the bits of their log-probabilities. */
#include "core/check.h"
#include "tests/golden/model/engine_answers.h"
#include "tests/support/config_text.h"

enum { PROMPTS = 6 };

/* Lengths across blocks, windows (100 and 40 tokens) and chunks. */
static const int lengths[PROMPTS] = {1, 64, 100, 257, 700, 1400};

struct setup {
    struct temp_dir dir;
    struct model_rig rig;
    struct lf_engine *engine;
};

enum kind { SOME_SLIDE, ALL_SLIDE, WITH_INPUTS, KINDS_N };

/* Gemma 4 with inputs of each layer, whose last three layers read the keys and values of the first three. */
static struct config_text with_inputs(void)
{
    struct config_text c = config_good("[\"Gemma4ForCausalLM\"]", "\"gemma4_text\"");
    config_set(&c, "hidden_act", NULL);
    config_set(&c, "global_head_dim", "32");
    config_set(&c, "hidden_size_per_layer_input", "16");
    config_set(&c, "vocab_size_per_layer_input", "50");
    config_set(&c, "num_kv_shared_layers", "3");
    config_set(&c, "use_double_wide_mlp", "true");
    return c;
}

/* Six layers: full where layer_types says so. */
static void write_model(const struct temp_dir *dir, enum kind kind)
{
    struct config_text c = kind == WITH_INPUTS ? with_inputs() : config_good("[\"Qwen3ForCausalLM\"]", "\"qwen3\"");
    config_set(&c, "num_hidden_layers", "6");
    config_set(&c, "max_position_embeddings", "1536");
    config_set(&c, "sliding_window", kind == ALL_SLIDE ? "40" : "100");
    if (kind != WITH_INPUTS) {
        config_set(&c, "use_sliding_window", "true");
        config_set(&c, "max_window_layers", kind == ALL_SLIDE ? "0" : "1");
    }
    if (kind != ALL_SLIDE)
        config_set(&c, "layer_types",
                   "[\"sliding_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\","
                   "\"sliding_attention\",\"full_attention\"]");
    config_write(&c, dir);
}

static void setup_open(struct setup *s, enum kind kind, enum lf_dtype kv_dtype, bool cache_groups, int chunk,
                       int kv_tokens)
{
    struct lf_err err = {0};
    memset(s, 0, sizeof(*s));
    s->dir = temp_dir_make();
    write_model(&s->dir, kind);
    struct model_rig_opts opts = {.dir = s->dir.path,
                                  .load = LF_LOAD_DUMMY,
                                  .seed = 3,
                                  .max_isa = -1,
                                  .n_threads = 2,
                                  .ctx = CTX,
                                  .chunk = chunk,
                                  .max_seqs = 8,
                                  .max_out = 8,
                                  .kv_tokens = kv_tokens,
                                  .kv_dtype = kv_dtype,
                                  .prefix_cache = true,
                                  .cache_groups = cache_groups};
    if (model_rig_open(&s->rig, &opts, &err) != LF_OK) fail_msg("%s", err.message);
    struct lf_engine_opts engine = {
        .ctx = CTX, .chunk = chunk, .max_seqs = 8, .max_out = 8, .queue_n = 64, .step_ms = 50};
    s->engine = engine_over(&s->rig, &engine);
}

static void setup_close(struct setup *s)
{
    lf_engine_destroy(s->engine);
    expect_all_back(&s->rig.kv.pool);
    model_rig_close(&s->rig);
    temp_dir_remove(&s->dir);
}

/* Alone, from the cache, all together twice; the longest is found in the cache. */
static void compare(const struct answer *expected, enum kind kind, enum lf_dtype kv_dtype, int chunk, int kv_tokens,
                    bool is_cached)
{
    struct setup s;
    struct answer got[PROMPTS];
    setup_open(&s, kind, kv_dtype, true, chunk, kv_tokens);
    ask_alone(s.engine, lengths, PROMPTS, got);
    expect_same(expected, got, lengths, PROMPTS);
    int n_cached = collect(submit(s.engine, lengths[PROMPTS - 1]), &got[PROMPTS - 1]).n_cached;
    if (is_cached) assert_int_equal(n_cached, (lengths[PROMPTS - 1] - 1) / LF_KV_BLOCK_TOKENS * LF_KV_BLOCK_TOKENS);
    expect_same(expected, got, lengths, PROMPTS);
    for (int round = 0; round < 2; round++) {
        ask_together(s.engine, lengths, PROMPTS, 1, got);
        expect_same(expected, got, lengths, PROMPTS);
    }
    setup_close(&s);
}

static void check_answers(enum kind kind, enum lf_dtype kv_dtype, struct answer *expected)
{
    static const int chunks[] = {16, 130, 512};
    struct setup s;
    setup_open(&s, kind, kv_dtype, false, 512, 4 * CTX);
    ask_alone(s.engine, lengths, PROMPTS, expected);
    assert_int_equal(s.rig.kv.n_groups, 1);
    setup_close(&s);
    for (size_t k = 0; k < LF_N_ELEMS(chunks); k++) compare(expected, kind, kv_dtype, chunks[k], 4 * CTX, true);
    compare(expected, kind, kv_dtype, 130, CTX, false); /* documents push each other out */
}

static void answers_are_the_same_with_and_without_cache_groups(void **state)
{
    (void)state;
    for (enum kind kind = 0; kind < KINDS_N; kind++) {
        struct answer in_bf16[PROMPTS], in_fp8[PROMPTS];
        check_answers(kind, LF_BF16, in_bf16);
        check_answers(kind, LF_E4M3, in_fp8);
        assert_memory_not_equal(in_bf16, in_fp8, sizeof(in_fp8));
    }
}

/* As the plan says it: the cache of one request of ctx tokens has room for it, and is smaller by what windows save. */
static void a_cache_of_one_context_holds_it_and_is_as_small_as_planned(void **state)
{
    (void)state;
    struct setup with, without;
    struct lf_engine_state now;
    setup_open(&with, SOME_SLIDE, LF_BF16, true, 64, CTX);
    setup_open(&without, SOME_SLIDE, LF_BF16, false, 64, CTX);
    const struct lf_kv_cache *kv = &with.rig.kv;
    assert_int_equal(kv->n_groups, 3); /* two full layers; four with windows */
    int n_seq = CTX / LF_KV_BLOCK_TOKENS + 2 * (2 + 2), n_step = 2;
    assert_int_equal(kv->pool.n_blocks, n_seq + n_step);
    assert_true(kv->buffer.bytes * 2 < without.rig.kv.buffer.bytes);
    lf_engine_snapshot(with.engine, &now);
    assert_int_equal(lf_engine_largest(with.engine, 0), CTX);
    assert_int_equal(now.n_groups, 3);
    assert_true(now.groups[0].window == 0 && now.groups[0].n_layers == 2 && now.groups[0].n_request_blocks == 24);
    assert_true(now.groups[1].window == 100 && now.groups[1].n_layers == 2 && now.groups[1].n_request_blocks == 4);
    setup_close(&with);
    setup_close(&without);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_with_and_without_cache_groups),
        cmocka_unit_test(a_cache_of_one_context_holds_it_and_is_as_small_as_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
