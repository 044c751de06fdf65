/* The engine over models with states (gated delta nets beside attention): the same answers alone and together, in
 * chunks of any size, from snapshots, with snapshots that push each other out, and from a disk that outlived the
 * engine. Weights are random; what is compared are ids and the bits of their log-probabilities. */
#include "core/check.h"
#include "core/file.h"
#include "kv/tiers/disk_table.h"
#include "tests/golden/model/engine_answers.h"
#include "tests/support/config_text.h"

enum { PROMPTS = 8, MAX_SEQS = 16, DISK_BLOCKS = 4096 };

/* Lengths across blocks, which are chunks of 64 of the delta rule, too, and across chunks of steps. */
static const int lengths[PROMPTS] = {1, 63, 64, 65, 129, 257, 700, 1400};
enum { LONGEST = PROMPTS - 1 };
/* The snapshot at the last block's beginning. */
enum { N_CACHED = (1400 - 1) / LF_KV_BLOCK_TOKENS * LF_KV_BLOCK_TOKENS };

struct setup {
    struct temp_dir dir;
    struct model_rig rig;
    struct lf_engine *engine;
    struct lf_disk_table *disk;
};

static const enum lf_code formats[] = {LF_CODE_E4M3, LF_CODE_I8, LF_CODE_I4};

struct setup_opts {
    bool has_experts, prefix_cache, has_disk;
    enum lf_code quantize;
    enum lf_dtype kv_dtype;
    int chunk, kv_tokens;
};

static void write_model(const struct temp_dir *dir, bool has_experts)
{
    struct config_text c = has_experts ? config_good("[\"Qwen3_5MoeForCausalLM\"]", "\"qwen3_5_moe_text\"")
                                       : config_good("[\"Qwen3_5ForCausalLM\"]", "\"qwen3_5_text\"");
    config_set(&c, "num_hidden_layers", "5");
    config_set(&c, "full_attention_interval", "3");
    config_set(&c, "max_position_embeddings", "1536");
    config_set(&c, "linear_num_key_heads", "2");
    config_set(&c, "linear_num_value_heads", "4");
    config_set(&c, "linear_key_head_dim", "16");
    config_set(&c, "linear_value_head_dim", "24");
    if (has_experts) {
        config_set(&c, "num_experts", "6");
        config_set(&c, "num_experts_per_tok", "2");
        config_set(&c, "moe_intermediate_size", "24");
        config_set(&c, "shared_expert_intermediate_size", "40");
    }
    config_write(&c, dir);
}

/* A disk that is thought to be fast: what it has is not computed. */
static const struct lf_engine_speed fast_disk = {.ns = {1e6, 1e6, 1e3, 1e3, 1, 1, 1}};

static void open_disk(struct setup *s)
{
    struct lf_disk_file *files[2];
    struct lf_err err;
    static const char *const names[] = {"index", "data"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        assert_int_equal(lf_path_join(path, sizeof(path), s->dir.path, names[i]), LF_OK);
        if (lf_disk_file_open(&files[i], path, false, &err) != LF_OK) fail_msg("%s", err.message);
    }
    uint64_t block_bytes = lf_model_kv_layout(s->rig.model)->block_bytes;
    if (lf_disk_table_open(&s->disk, files[0], files[1], DISK_BLOCKS, block_bytes, &err) != LF_OK)
        fail_msg("%s", err.message);
}

/* Of the model in s->dir. */
static void start(struct setup *s, const struct setup_opts *o)
{
    struct lf_err err = {0};
    struct model_rig_opts opts = {.dir = s->dir.path,
                                  .load = LF_LOAD_DUMMY,
                                  .quantize = o->quantize,
                                  .seed = 3,
                                  .max_isa = -1,
                                  .n_threads = 2,
                                  .ctx = CTX,
                                  .chunk = o->chunk,
                                  .max_seqs = MAX_SEQS,
                                  .max_out = MAX_SEQS,
                                  .kv_tokens = o->kv_tokens,
                                  .kv_dtype = o->kv_dtype,
                                  .prefix_cache = o->prefix_cache};
    if (model_rig_open(&s->rig, &opts, &err) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(s->rig.kv.states.n_layers, 4);
    if (o->has_disk) open_disk(s);
    struct lf_engine_opts engine = {.ctx = CTX,
                                    .chunk = o->chunk,
                                    .max_seqs = MAX_SEQS,
                                    .max_out = MAX_SEQS,
                                    .queue_n = 64,
                                    .step_ms = 50,
                                    .disk = s->disk};
    if (o->has_disk) engine.speed = fast_disk;
    s->engine = engine_over(&s->rig, &engine);
}

static void stop(struct setup *s)
{
    lf_engine_destroy(s->engine);
    expect_all_back(&s->rig.kv.pool);
    expect_all_back(&s->rig.kv.slots);
    lf_disk_table_close(s->disk);
    s->disk = NULL;
    model_rig_close(&s->rig);
}

static void setup_open(struct setup *s, const struct setup_opts *o)
{
    memset(s, 0, sizeof(*s));
    s->dir = temp_dir_make();
    write_model(&s->dir, o->has_experts);
    start(s, o);
}

static void setup_close(struct setup *s)
{
    stop(s);
    temp_dir_remove(&s->dir);
}

static struct lf_request_state ask(struct setup *s, int i, struct answer *out)
{
    return collect(submit(s->engine, lengths[i]), out);
}

/* What the model says when nothing is kept of anything. */
static void ask_without_cache(bool has_experts, enum lf_code quantize, enum lf_dtype kv_dtype, struct answer *out)
{
    struct setup s;
    struct setup_opts o = {
        .has_experts = has_experts, .quantize = quantize, .kv_dtype = kv_dtype, .chunk = 512, .kv_tokens = 4 * CTX};
    setup_open(&s, &o);
    for (int i = 0; i < PROMPTS; i++) assert_int_equal(ask(&s, i, &out[i]).n_cached, 0);
    for (int i = 1; i < PROMPTS; i++) assert_memory_not_equal(&out[0], &out[i], sizeof(out[0]));
    setup_close(&s);
}

static void compare(const struct answer *expected, struct setup_opts o, bool is_cached)
{
    struct setup s;
    struct answer got[PROMPTS];
    o.prefix_cache = true;
    setup_open(&s, &o);
    ask_alone(s.engine, lengths, PROMPTS, got);
    expect_same(expected, got, lengths, PROMPTS);
    int n_cached = ask(&s, LONGEST, &got[LONGEST]).n_cached;
    if (is_cached) assert_int_equal(n_cached, N_CACHED);
    expect_same(expected, got, lengths, PROMPTS);
    for (int round = 0; round < 2; round++) {
        ask_together(s.engine, lengths, PROMPTS, 2, got); /* as many as a step has sequences */
        expect_same(expected, got, lengths, PROMPTS);
    }
    setup_close(&s);
}

static void answers_are_the_same_in_any_company_and_from_snapshots(void **state)
{
    (void)state;
    static const int chunks[] = {16, 64, 130, 1000};
    for (int i = 0; i < 3; i++) {
        bool has_experts = i == 1;
        enum lf_dtype kv_dtype = i == 2 ? LF_E4M3 : LF_BF16;
        struct answer expected[PROMPTS];
        struct setup_opts o = {.has_experts = has_experts, .kv_dtype = kv_dtype, .kv_tokens = 4 * CTX};
        ask_without_cache(has_experts, LF_CODE_NONE, kv_dtype, expected);
        for (size_t k = 0; k < LF_N_ELEMS(chunks); k++) {
            o.chunk = chunks[k];
            compare(expected, o, true);
        }
        o.kv_tokens = CTX; /* documents push each other out */
        compare(expected, o, false);
    }
}

/* Activations are quantized, too, a token at a time: its bits are its own all the same. */
static void answers_of_quantized_weights_are_the_same_in_any_company(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) {
        struct answer plain[PROMPTS], expected[PROMPTS];
        struct setup_opts o = {
            .has_experts = true, .quantize = formats[i], .kv_dtype = LF_BF16, .chunk = 130, .kv_tokens = 4 * CTX};
        ask_without_cache(true, LF_CODE_NONE, LF_BF16, plain);
        ask_without_cache(true, formats[i], LF_BF16, expected);
        assert_memory_not_equal(plain, expected, sizeof(plain));
        compare(expected, o, true);
        o.chunk = 16;
        compare(expected, o, true);
    }
}

static int64_t n_listed(struct setup *s)
{
    struct lf_disk_table_stats stats;
    lf_disk_table_stats(s->disk, &stats);
    return stats.n_listed;
}

/* Blocks and the snapshot are written behind the answer. */
static void wait_until_saved(struct setup *s)
{
    int64_t until = lf_clock_ns() + PATIENCE_S * (int64_t)LF_NS_PER_S, before = 0;
    int n_least = N_CACHED / LF_KV_BLOCK_TOKENS + s->rig.kv.states.slot_blocks, n_quiet = 0;
    while ((n_listed(s) < n_least || n_quiet < 50) && lf_clock_ns() < until) {
        n_quiet = n_listed(s) == before ? n_quiet + 1 : 0;
        before = n_listed(s);
        lf_clock_sleep_ms(10);
    }
    assert_true(n_listed(s) >= n_least);
}

static void check_disk(enum lf_code quantize, enum lf_dtype kv_dtype)
{
    struct setup s;
    struct answer expected[PROMPTS], got[PROMPTS];
    struct setup_opts o = {.prefix_cache = true,
                           .has_disk = true,
                           .quantize = quantize,
                           .kv_dtype = kv_dtype,
                           .chunk = 130,
                           .kv_tokens = 4 * CTX};
    ask_without_cache(false, quantize, kv_dtype, expected);
    setup_open(&s, &o);
    assert_int_equal(ask(&s, LONGEST, &got[LONGEST]).n_restored, 0);
    wait_until_saved(&s);
    stop(&s);
    start(&s, &o);
    struct lf_request_state st = ask(&s, LONGEST, &got[LONGEST]);
    assert_int_equal(st.n_restored, N_CACHED);
    assert_int_equal(st.n_cached, N_CACHED);
    for (int i = 0; i < LONGEST; i++) (void)ask(&s, i, &got[i]);
    expect_same(expected, got, lengths, PROMPTS);
    ask_together(s.engine, lengths, PROMPTS, 2, got); /* as many as a step has sequences */
    expect_same(expected, got, lengths, PROMPTS);
    setup_close(&s);
}

static void answers_are_the_same_from_a_disk_that_outlived_the_engine(void **state)
{
    (void)state;
    check_disk(LF_CODE_NONE, LF_BF16);
    check_disk(LF_CODE_NONE, LF_E4M3);
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++) check_disk(formats[i], LF_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_in_any_company_and_from_snapshots),
        cmocka_unit_test(answers_of_quantized_weights_are_the_same_in_any_company),
        cmocka_unit_test(answers_are_the_same_from_a_disk_that_outlived_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
