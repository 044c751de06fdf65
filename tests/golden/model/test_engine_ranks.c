/* The engine over several ranks, which follow the first one: for a split the same answers alone, together, in chunks of
 * any size and from the prefix cache, ids and the bits of their log-probabilities; on rank 0 and nowhere else there is
 * an engine. Where nothing is rounded to less than float on the way, greedy answers are those of one rank. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/check.h"
#include "core/clock.h"
#include "device/device_impl.h"
#include "tests/golden/model/engine_answers.h"
#include "tests/support/config_text.h"
#include "tests/support/rank_rigs.h"

enum { PROMPTS = 4 };

/* Across blocks, windows (100 tokens) and chunks. */
static const int lengths[PROMPTS] = {1, 64, 257, 700};

/* Four query heads, two KV heads, and layers whose windows are cache groups of their own. */
static void write_model(const struct temp_dir *dir)
{
    struct config_text c = config_good("[\"Qwen3ForCausalLM\"]", "\"qwen3\"");
    config_set(&c, "num_attention_heads", "4");
    config_set(&c, "num_key_value_heads", "2");
    config_set(&c, "num_hidden_layers", "3");
    config_set(&c, "max_position_embeddings", "1536");
    config_set(&c, "sliding_window", "100");
    config_set(&c, "use_sliding_window", "true");
    config_set(&c, "max_window_layers", "1");
    config_set(&c, "layer_types", "[\"sliding_attention\",\"full_attention\",\"sliding_attention\"]");
    config_write(&c, dir);
}

/* Experts, one for all, and layers with states. */
static void write_model_with_states(const struct temp_dir *dir)
{
    struct config_text c = config_good("[\"Qwen3_5MoeForCausalLM\"]", "\"qwen3_5_moe_text\"");
    config_set(&c, "num_attention_heads", "4");
    config_set(&c, "num_key_value_heads", "2");
    config_set(&c, "num_hidden_layers", "3");
    config_set(&c, "full_attention_interval", "3");
    config_set(&c, "max_position_embeddings", "1536");
    config_set(&c, "linear_num_key_heads", "2");
    config_set(&c, "linear_num_value_heads", "4");
    config_set(&c, "linear_key_head_dim", "16");
    config_set(&c, "linear_value_head_dim", "24");
    config_set(&c, "num_experts", "6");
    config_set(&c, "num_experts_per_tok", "2");
    config_set(&c, "moe_intermediate_size", "24");
    config_set(&c, "shared_expert_intermediate_size", "40");
    config_write(&c, dir);
}

static struct model_rig_opts rig_of(const struct temp_dir *dir, struct lf_split split)
{
    return (struct model_rig_opts){.dir = dir->path,
                                   .load = LF_LOAD_DUMMY,
                                   .seed = 3,
                                   .max_isa = -1,
                                   .n_threads = 1,
                                   .ctx = CTX,
                                   .chunk = 130,
                                   .max_seqs = 8,
                                   .max_out = 8,
                                   .kv_tokens = 4 * CTX,
                                   .kv_dtype = LF_F32,
                                   .prefix_cache = true,
                                   .cache_groups = true,
                                   .split = split};
}

struct setup {
    int chunk, least_cached;
    bool is_first; /* its answers are what others are compared with */
    struct answer expected[PROMPTS];
};

static void ask_all(struct model_rig *rig, int rank, void *ctx)
{
    struct setup *s = ctx;
    struct answer got[PROMPTS];
    struct lf_engine_opts opts = {
        .ctx = CTX, .chunk = s->chunk, .max_seqs = 8, .max_out = 8, .queue_n = 64, .step_ms = 50};
    struct lf_engine *engine = engine_over(rig, &opts);
    assert_int_equal(rank, 0);
    ask_alone(engine, lengths, PROMPTS, s->is_first ? s->expected : got);
    if (!s->is_first) expect_same(s->expected, got, lengths, PROMPTS);
    int n_cached = collect(submit(engine, lengths[PROMPTS - 1]), &got[PROMPTS - 1]).n_cached;
    assert_true(n_cached >= s->least_cached);
    assert_memory_equal(&got[PROMPTS - 1], &s->expected[PROMPTS - 1], sizeof(got[0]));
    ask_together(engine, lengths, PROMPTS, 2, got);
    expect_same(s->expected, got, lengths, PROMPTS);
    lf_engine_destroy(engine);
    expect_all_back(&rig->kv.pool);
    if (rig->kv.states.n_layers > 0) expect_all_back(&rig->kv.slots);
}

/* Of a context that is divided over many, blocks are long: the cache has fewer whole ones. */
static void check_split(const struct temp_dir *dir, struct lf_split split, enum lf_dtype kv_dtype, int least_cached)
{
    static const int chunks[] = {512, 16, 130};
    static struct setup s;
    for (size_t i = 0; i < LF_N_ELEMS(chunks); i++) {
        s.chunk = chunks[i];
        s.is_first = i == 0;
        s.least_cached = least_cached;
        struct model_rig_opts opts = rig_of(dir, split);
        opts.n_threads = 1 + (int)i % 2;
        opts.chunk = s.chunk;
        opts.kv_dtype = kv_dtype;
        rank_rigs_lead(&opts, split.n_ranks, ask_all, &s);
    }
}

static void answers_belong_to_the_split_alone(void **state)
{
    (void)state;
    static const struct {
        struct lf_split split;
        enum lf_dtype kv_dtype;
        int least_cached;
    } rows[] = {{{.n_ranks = 2}, LF_BF16, 640},
                {{.n_ranks = 2}, LF_E4M3, 640},
                {{.n_ranks = 4}, LF_BF16, 640},
                {{.n_ranks = 4}, LF_E4M3, 640},
                {{.n_ranks = 1, .n_cp = 2}, LF_BF16, 640},
                {{.n_ranks = 1, .n_cp = 2}, LF_E4M3, 640},
                {{.n_ranks = 1, .n_cp = 3}, LF_F32, 576},
                {{.n_ranks = 2, .n_cp = 2}, LF_BF16, 640},
                {{.n_ranks = 1, .n_cp = 4}, LF_BF16, 512}};
    struct temp_dir dir = temp_dir_make();
    write_model(&dir);
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++)
        check_split(&dir, rows[i].split, rows[i].kv_dtype, rows[i].least_cached);
    temp_dir_remove(&dir);
}

static void answers_of_experts_and_states_do_too(void **state)
{
    (void)state;
    struct temp_dir dir = temp_dir_make();
    write_model_with_states(&dir);
    check_split(&dir, (struct lf_split){.n_ranks = 2}, LF_BF16, 64);
    check_split(&dir, (struct lf_split){.n_ranks = 1, .n_cp = 2}, LF_BF16, 64);
    check_split(&dir, (struct lf_split){.n_ranks = 2, .n_cp = 2}, LF_BF16, 64);
    temp_dir_remove(&dir);
}

static void ask_once(struct model_rig *rig, int rank, void *ctx)
{
    struct lf_engine_opts opts = {.ctx = CTX, .chunk = 130, .max_seqs = 8, .max_out = 8, .queue_n = 64, .step_ms = 50};
    struct lf_engine *engine = engine_over(rig, &opts);
    assert_int_equal(rank, 0);
    ask_together(engine, lengths, PROMPTS, 1, ctx);
    lf_engine_destroy(engine);
}

static void expect_near(const struct answer *one, const struct answer *got, struct lf_split split)
{
    for (int i = 0; i < PROMPTS; i++)
        for (int k = 0; k < ANSWER; k++) {
            if (got[i].tokens[k].id == one[i].tokens[k].id &&
                fabsf(got[i].tokens[k].logprob - one[i].tokens[k].logprob) < 1e-4F)
                continue;
            fail_msg("tp=%d,cp=%d, the prompt of %d tokens: token %d is %d (%g), one rank's %d (%g)", split.n_ranks,
                     split.n_cp, lengths[i], k, got[i].tokens[k].id, (double)got[i].tokens[k].logprob,
                     one[i].tokens[k].id, (double)one[i].tokens[k].logprob);
        }
}

static void greedy_answers_are_those_of_one_rank(void **state)
{
    (void)state;
    static const struct lf_split splits[] = {{.n_ranks = 1},
                                             {.n_ranks = 2},
                                             {.n_ranks = 4},
                                             {.n_ranks = 1, .n_cp = 2},
                                             {.n_ranks = 1, .n_cp = 3},
                                             {.n_ranks = 2, .n_cp = 2},
                                             {.n_ranks = 1, .n_cp = 4}};
    static struct answer one[PROMPTS], got[PROMPTS];
    for (int has_states = 0; has_states < 2; has_states++) {
        struct temp_dir dir = temp_dir_make();
        has_states ? write_model_with_states(&dir) : write_model(&dir);
        for (size_t i = 0; i < LF_N_ELEMS(splits); i++) {
            struct model_rig_opts opts = rig_of(&dir, splits[i]);
            if (has_states && splits[i].n_ranks > 2) continue; /* of two KV heads of states */
            rank_rigs_lead(&opts, splits[i].n_ranks, ask_once, i == 0 ? one : got);
            if (i > 0) expect_near(one, got, splits[i]);
        }
        temp_dir_remove(&dir);
    }
}

/* ---- where a step ends ---- */

static void (*gemm)(struct lf_device *dev, const struct lf_gemm_params *p);
static _Thread_local bool leads; /* rank 0's thread, once its model is open */
static _Atomic int n_gemms;      /* of the other ones */

static void slow_gemm(struct lf_device *dev, const struct lf_gemm_params *p)
{
    if (!leads) lf_clock_sleep_ms(5);
    gemm(dev, p);
    n_gemms += !leads;
}

static void slow_down(struct lf_device *dev)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    gemm = dev->ops.gemm; /* the same of all */
    pthread_mutex_unlock(&lock);
    dev->ops.gemm = slow_gemm;
}

/* A chunk of which no row is wanted: the others' last layer, from its keys on, is behind its last collective. When rank
 * 0 has read the step they have nothing more to do. */
static void launch_chunks(struct model_rig *rig, int rank, void *ctx)
{
    (void)ctx;
    int32_t blocks[LF_KV_GROUPS_N * CTX / LF_KV_BLOCK_TOKENS], ids[64] = {0};
    struct lf_sampled none;
    leads = true;
    assert_int_equal(rank, 0);
    model_rig_fill_table(rig, blocks, (int)LF_N_ELEMS(blocks));
    for (int i = 0; i < 3; i++) {
        struct lf_kv_seq seq = {
            .blocks = blocks, .table_stride = rig->table_stride, .n_tokens = 64, .kv_len = 64 * (i + 1)};
        struct lf_batch batch = {.ids = ids, .n_tokens = 64, .seqs = &seq, .n_seqs = 1};
        assert_int_equal(lf_model_launch(rig->model, &rig->kv, &batch, NULL), LF_OK);
        assert_int_equal(lf_model_wait(rig->model, &none, NULL), LF_OK);
        int n = n_gemms;
        lf_clock_sleep_ms(60);
        assert_int_equal(n, n_gemms);
        assert_true(n > 0);
    }
}

static void a_step_that_rank_0_has_read_has_ended_everywhere(void **state)
{
    (void)state;
    struct temp_dir dir = temp_dir_make();
    write_model(&dir);
    for (int n_cp = 1; n_cp <= 2; n_cp++) {
        struct model_rig_opts opts = rig_of(&dir, (struct lf_split){.n_cp = n_cp});
        opts.chunk = 64;
        opts.ends_together = true;
        opts.adapt = slow_down;
        rank_rigs_lead(&opts, 3 - n_cp, launch_chunks, NULL);
    }
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_answers_are_those_of_one_rank),
        cmocka_unit_test(answers_belong_to_the_split_alone),
        cmocka_unit_test(answers_of_experts_and_states_do_too),
        cmocka_unit_test(a_step_that_rank_0_has_read_has_ended_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
