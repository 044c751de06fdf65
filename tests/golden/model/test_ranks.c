/* Families over several ranks: the logits that transformers computes, up to the order in which sums run; and for a
 * split the same bytes in any company. */
#include <stdlib.h>

#include "tests/golden/model/company.h"
#include "tests/golden/model/greedy.h"
#include "tests/support/rank_rigs.h"

enum { MOST_RANKS = 4, MIN_ROWS_CLEAR = 20 };

/* Of the distance between the two largest logits; and relative errors: everything in float, weights in bf16. */
#define CLEAR_GAP         0.02
#define TOLERANCE         2e-5
#define TOLERANCE_ROUNDED 2.5e-2

/* Which splits there are depends on the heads: of 4 query heads and 2 KV heads 4 ranks have one each, and two the same
 * KV head. */
static const struct {
    const char *name;
    bool bf16;
    int most_ranks;
} models[] = {{"llama-f32", false, 2},
              {"llama-bf16-tied", true, 2},
              {"llama-f16-sharded", false, 2},
              {"llama-biases-linear-f32", false, 2},
              {"llama-gelu-f32", false, 2},
              {"llama3-f32", false, 4},
              {"mistral-window-f32", false, 2},
              {"qwen2-yarn-f32", false, 2},
              {"qwen3-f32", false, 4},
              {"qwen3-layer-types-bf16", true, 2},
              {"phi3-window-f32", false, 2},
              {"phi3-longrope-bf16", true, 2},
              {"smollm3-f32", false, 2},
              {"smollm3-list-bf16", true, 4},
              {"mistral3-f32", false, 2},
              {"mistral3-renamed-bf16", true, 2},
              {"glm4-f32", false, 4},
              {"glm4-biases-bf16", true, 2},
              {"granite-f32", false, 4},
              {"granite-biases-bf16", true, 2},
              {"qwen3-moe-whole-bf16", true, 2},
              {"mixtral-window-f32", false, 2},
              {"mixtral-whole-bf16", true, 2},
              {"gpt-oss-f32", false, 4},
              {"gpt-oss-bf16", true, 4},
              {"qwen3-next-f32", false, 2},
              {"qwen3.5-f32", false, 2},
              {"qwen3.5-bf16", true, 2},
              {"qwen3.5-moe-f32", false, 2},
              {"qwen3.5-moe-bf16", true, 2},
              {"ministral3-f32", false, 4},
              {"gemma3-f32", false, 4},
              {"gemma3-bf16", true, 4}};

/* What has no rule for layers that are divided: contexts divide it. */
static const struct {
    const char *name;
    bool bf16;
} whole_layers[] = {{"olmo2-f32", false},         {"olmo2-yarn-bf16", true},     {"olmo3-f32", false},
                    {"gemma4-f32", false},        {"gemma4-shared-f32", false},  {"gemma4-global-bf16", true},
                    {"gemma4-inputs-f32", false}, {"gemma4-experts-bf16", true}, {"qwen2-windows-bf16", true}};

/* Matrices that are coded in the files, or become so. */
static const struct {
    const char *name;
    enum lf_code quantize;
} coded[] = {{"quantized/ct-w4-group32-bf16", LF_CODE_NONE},
             {"quantized/gptq-asym-f32", LF_CODE_NONE},
             {"quantized/ct-int8-channel-f32", LF_CODE_NONE},
             {"quantized/awq-experts-f32", LF_CODE_NONE},
             {"quantized/fp8-experts-whole-bf16", LF_CODE_NONE},
             {"quantized/ct-nvfp4-f32", LF_CODE_NONE},
             {"llama3-f32", LF_CODE_I8},
             {"gpt-oss-f32", LF_CODE_I8}};

struct run {
    const struct expected *e;
    enum lf_isa isa;
    float *of_rank[MOST_RANKS]; /* logits of all rows */
};

static struct model_rig_opts opts_of(const char *dir, int i)
{
    return (struct model_rig_opts){.dir = dir,
                                   .max_isa = -1,
                                   .n_threads = 1 + i % 2,
                                   .ctx = 128,
                                   .chunk = CHUNK,
                                   .max_seqs = 2,
                                   .max_out = CHUNK,
                                   .kv_tokens = 256,
                                   .kv_dtype = LF_F32};
}

/* Alone in chunks of two sizes, beside another sequence, and the last row alone. */
static void compute(struct model_rig *rig, int rank, void *ctx)
{
    static const int32_t of_group[] = {3, 2};
    static const int at_once[] = {1, 5, 29};
    struct run *run = ctx;
    const struct expected *e = run->e;
    size_t n = (size_t)e->n_ids * (size_t)e->n_vocab, last = n - (size_t)e->n_vocab;
    float *alone = run->of_rank[rank], *again = calloc(n, sizeof(float));
    int32_t blocks[2 * LF_KV_GROUPS_N];
    fill_tables(rig, blocks, of_group);
    if (rank == 0) run->isa = lf_device_info(rig->dev)->isa;
    model_rig_run(rig, blocks, e->ids, e->n_ids, 0, CHUNK, true, alone);
    for (size_t k = 0; k < LF_N_ELEMS(at_once); k++) {
        model_rig_run(rig, blocks, e->ids, e->n_ids, 0, at_once[k], true, again);
        assert_memory_equal(alone, again, n * sizeof(float));
        run_beside_another(rig, e, at_once[k], again);
        assert_memory_equal(alone, again, n * sizeof(float));
        model_rig_run(rig, blocks, e->ids, e->n_ids, 0, at_once[k], false, again);
        assert_memory_equal(alone + last, again, (size_t)e->n_vocab * sizeof(float));
    }
    free(again);
}

/* All ranks' logits, which are the same: the caller's. split: of the first rank. */
static float *logits_of(const char *dir, const struct expected *e, enum lf_code quantize, struct lf_split split,
                        enum lf_isa *isa)
{
    struct run run = {.e = e};
    size_t n = (size_t)e->n_ids * (size_t)e->n_vocab;
    int n_ranks = lf_split_world(&split);
    struct model_rig_opts opts = opts_of(dir, n_ranks);
    opts.quantize = quantize;
    opts.split = split;
    opts.kv_tokens *= lf_split_n_cp(&split);
    for (int r = 0; r < n_ranks; r++) run.of_rank[r] = calloc(n, sizeof(float));
    rank_rigs_run(&opts, split.n_ranks, compute, &run);
    for (int r = 1; r < n_ranks; r++) {
        assert_memory_equal(run.of_rank[r], run.of_rank[0], n * sizeof(float));
        free(run.of_rank[r]);
    }
    *isa = run.isa;
    return run.of_rank[0];
}

/* Beside those of e. is_rounded: activations are. */
static void check_logits(const char *name, const struct expected *e, const float *logits, bool is_rounded)
{
    double error = relative_error(logits, e->logits, (size_t)e->n_ids * (size_t)e->n_vocab);
    if (!(error <= (is_rounded ? TOLERANCE_ROUNDED : TOLERANCE))) fail_msg("%s: relative error %g", name, error);
    int n_clear = check_greedy(e, logits, CLEAR_GAP * (is_rounded ? 40 : 1));
    assert_true(is_rounded || n_clear >= MIN_ROWS_CLEAR);
}

static void read_model(char dir[256], struct expected *e, const char *name)
{
    snprintf(dir, 256, "tests/golden/model/data/%s", name);
    read_expected(e, dir);
}

static void check_split(const char *name, bool bf16, struct lf_split split)
{
    struct expected e;
    enum lf_isa isa;
    char dir[256];
    read_model(dir, &e, name);
    float *logits = logits_of(dir, &e, LF_CODE_NONE, split, &isa);
    check_logits(name, &e, logits, bf16 && isa >= LF_ISA_AVX512_BF16);
    free(logits);
    lf_buf_deinit(&e.bytes);
}

static void splits_give_the_logits_of_transformers_in_any_company(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(models); i++)
        for (int n = 2; n <= models[i].most_ranks; n *= 2)
            check_split(models[i].name, models[i].bf16, (struct lf_split){.n_ranks = n});
}

/* Steps of fewer than 16 tokens are computed by both ranks, larger ones divided; sequences are longer than a stripe,
 * and some windows shorter. */
static void contexts_over_ranks_give_the_logits_of_transformers_in_any_company(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(models); i++)
        check_split(models[i].name, models[i].bf16, (struct lf_split){.n_ranks = 1, .n_cp = 2});
    for (size_t i = 0; i < LF_N_ELEMS(whole_layers); i++)
        check_split(whole_layers[i].name, whole_layers[i].bf16, (struct lf_split){.n_ranks = 1, .n_cp = 2});
}

static void contexts_and_layers_are_divided_at_once(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3-f32", "gpt-oss-f32", "qwen3.5-moe-f32", "gemma3-f32",
                                        "mixtral-window-f32"};
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        check_split(names[i], false, (struct lf_split){.n_ranks = 2, .n_cp = 2});
        check_split(names[i], false, (struct lf_split){.n_ranks = 1, .n_cp = 3 + (int)i % 2});
    }
}

/* Activations are rounded to eight bits there (device/cpu/gemm_quant.h). */
static void splits_of_coded_weights_give_the_logits_of_one_rank_in_any_company(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(coded); i++) {
        struct expected e;
        enum lf_isa isa;
        char dir[256];
        read_model(dir, &e, coded[i].name);
        float *one = logits_of(dir, &e, coded[i].quantize, (struct lf_split){.n_ranks = 1}, &isa);
        float *two = logits_of(dir, &e, coded[i].quantize, (struct lf_split){.n_ranks = 2}, &isa);
        float *context = logits_of(dir, &e, coded[i].quantize, (struct lf_split){.n_ranks = 1, .n_cp = 2}, &isa);
        e.logits = one;
        check_logits(coded[i].name, &e, two, true);
        check_logits(coded[i].name, &e, context, true);
        free(one);
        free(two);
        free(context);
        lf_buf_deinit(&e.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_give_the_logits_of_transformers_in_any_company),
        cmocka_unit_test(contexts_over_ranks_give_the_logits_of_transformers_in_any_company),
        cmocka_unit_test(contexts_and_layers_are_divided_at_once),
        cmocka_unit_test(splits_of_coded_weights_give_the_logits_of_one_rank_in_any_company),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
