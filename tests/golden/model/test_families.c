/* Every family against the logits that Hugging Face transformers computes in float64 (make.py made data/): on every
 * instruction set of this machine, with float and bfloat16 KV. */
#include <math.h>

#include "core/check.h"
#include "core/log.h"
#include "model/programs.h"
#include "tests/golden/model/company.h"
#include "tests/golden/model/greedy.h"
#include "tests/support/expected.h"
#include "tests/support/act_codes.h"
#include "tests/support/fused_norms.h"
#include "tests/support/model_rig.h"
#include "tests/support/plain_kernels.h"
#include "tests/support/test.h"

enum { MIN_ROWS_CLEAR = 20 };

/* Relative errors allowed: everything in float; something in bfloat16 (8 bits of mantissa, two layers). */
#define TOLERANCE_F32  2e-5
#define TOLERANCE_BF16 2.5e-2
/* Where codes, activations and the cache are rounded, of MXFP4: what each alone is off by (1.52e-2, 1.08e-2, 0.54e-2),
 * added up. In which direction they are depends on the order of a processor's sums: 2.59e-2 were seen. */
#define TOLERANCE_ALL 3.2e-2

/* The largest two logits of a row must differ by this much for the greedy token to be decided. */
#define CLEAR_GAP 0.02

static const struct {
    const char *name;
    bool bf16; /* weights */
} models[] = {{"llama-f32", false},
              {"llama-bf16-tied", true},
              {"llama-f16-sharded", false},
              {"llama-biases-linear-f32", false},
              {"llama3-f32", false},
              {"mistral-window-f32", false},
              {"qwen2-yarn-f32", false},
              {"qwen2-windows-bf16", true},
              {"qwen3-f32", false},
              {"qwen3-layer-types-bf16", true},
              {"phi3-window-f32", false},
              {"phi3-longrope-bf16", true},
              {"phi3-longrope-short-f32", false},
              {"smollm3-f32", false},
              {"smollm3-list-bf16", true},
              {"mistral3-f32", false},
              {"mistral3-renamed-bf16", true},
              {"olmo2-f32", false},
              {"olmo2-yarn-bf16", true},
              {"olmo3-f32", false},
              {"olmo3-typed-bf16", true},
              {"glm4-f32", false},
              {"glm4-biases-bf16", true},
              {"granite-f32", false},
              {"granite-biases-bf16", true},
              {"ministral3-f32", false},
              {"ministral3-nested-bf16", true},
              {"qwen3-moe-f32", false},
              {"qwen3-moe-whole-bf16", true},
              {"mixtral-window-f32", false},
              {"mixtral-whole-bf16", true},
              {"smollm3-windows-f32", false},
              {"gemma3-f32", false},
              {"gemma3-bf16", true},
              {"gemma3-vision-bf16", true},
              {"gemma3-vision-f32", false},
              {"gpt-oss-mxfp4", true},
              {"gpt-oss-bf16", true},
              {"gpt-oss-f32", false},
              {"gemma4-f32", false},
              {"gemma4-vision-bf16", true},
              {"gemma4-experts-bf16", true},
              {"gemma4-global-bf16", true},
              {"gemma4-shared-f32", false},
              {"gemma4-inputs-f32", false},
              {"gemma4-inputs-bf16", true},
              {"gemma4-inputs-vision-bf16", true},
              {"llama-gelu-f32", false},
              {"qwen3-next-f32", false},
              {"qwen3-next-bf16", true},
              {"qwen3.5-f32", false},
              {"qwen3.5-bf16", true},
              {"qwen3.5-moe-f32", false},
              {"qwen3.5-moe-bf16", true}};

enum { KV_TYPES_N = 3 };
static const enum lf_dtype kv_types[KV_TYPES_N] = {LF_F32, LF_BF16, LF_E4M3};

/* Returns the relative error. expands: also what the device has kernels for, which is exact. */
static double check_model(const char *name, bool bf16_weights, int isa, enum lf_dtype kv_dtype, bool expands)
{
    char dir[256];
    struct lf_err err;
    struct expected e;
    struct model_rig rig;
    snprintf(dir, sizeof(dir), "tests/golden/model/data/%s", name);
    read_expected(&e, dir);
    struct model_rig_opts opts = {.dir = dir,
                                  .max_isa = isa,
                                  .n_threads = 2,
                                  .ctx = 128,
                                  .chunk = CHUNK,
                                  .max_seqs = 2,
                                  .max_out = CHUNK,
                                  .kv_dtype = kv_dtype,
                                  .adapt = expands ? only_plain : NULL};
    enum lf_status status = model_rig_open(&rig, &opts, &err);
    if (status != LF_OK) fail_msg("%s", err.message);
    float *logits = calloc((size_t)e.n_ids * (size_t)e.n_vocab, sizeof(float));
    int32_t blocks[2 * LF_KV_GROUPS_N];
    model_rig_fill_table(&rig, blocks, 2 * LF_KV_GROUPS_N);
    model_rig_run(&rig, blocks, e.ids, e.n_ids, 0, CHUNK, true, logits);

    bool is_coded = strstr(name, "mxfp4") != NULL && !expands; /* then activations are rounded to eight bits */
    bool in_bf16 = bf16_weights && lf_device_info(rig.dev)->isa >= LF_ISA_AVX512_BF16;
    bool rounded = is_coded || kv_dtype == LF_BF16 || in_bf16;
    double error = relative_error(logits, e.logits, (size_t)e.n_ids * (size_t)e.n_vocab);
    double tolerance = rounded ? TOLERANCE_BF16 : TOLERANCE_F32;
    if (is_coded && kv_dtype == LF_BF16 && in_bf16) tolerance = TOLERANCE_ALL;
    /* where numbers are rounded a gap decides only if it is well above the noise */
    double clear = rounded ? 40 * CLEAR_GAP : CLEAR_GAP;
    int n_clear = check_greedy(&e, logits, clear);
    if (error > tolerance)
        print_message("%s, %s, KV %s: %g\n", name, lf_isa_name(lf_device_info(rig.dev)->isa), lf_dtype_name(kv_dtype),
                      error);
    assert_true(error <= tolerance);
    assert_true(rounded || n_clear >= MIN_ROWS_CLEAR);
    free(logits);
    model_rig_close(&rig);
    lf_buf_deinit(&e.bytes);
    return error;
}

static bool machine_has(int isa)
{
    struct lf_device *dev;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = isa};
    if (lf_device_open(&dev, &opts, NULL) != LF_OK) return false;
    lf_device_close(dev);
    return true;
}

static void every_family_gives_the_logits_of_transformers(void **state)
{
    (void)state;
    for (int isa = LF_ISA_C; isa <= LF_ISA_AMX; isa++) {
        if (!machine_has(isa)) continue;
        double worst[2] = {0};
        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
            for (int kv = 0; kv < 2; kv++) {
                enum lf_dtype kv_dtype = kv ? LF_BF16 : LF_F32;
                double error = check_model(models[i].name, models[i].bf16, isa, kv_dtype, false);
                if (strstr(models[i].name, "mxfp4")) check_model(models[i].name, models[i].bf16, isa, kv_dtype, true);
                worst[kv] = error > worst[kv] ? error : worst[kv];
            }
        }
        print_message("%-12s worst relative error with KV in f32 %.1e, in bf16 %.1e\n", lf_isa_name((enum lf_isa)isa),
                      worst[0], worst[1]);
    }
}

/* The logits of a model in steps of that many tokens; the caller's. */
static float *logits_of(const char *dir, const struct expected *e, int chunk, bool no_fusion,
                        void (*adapt)(struct lf_device *))
{
    struct model_rig rig;
    struct lf_err err;
    struct model_rig_opts opts = {.dir = dir,
                                  .max_isa = -1,
                                  .n_threads = 2,
                                  .ctx = 128,
                                  .chunk = CHUNK,
                                  .max_seqs = 2,
                                  .max_out = CHUNK,
                                  .kv_dtype = LF_F32,
                                  .no_fusion = no_fusion,
                                  .adapt = adapt};
    if (model_rig_open(&rig, &opts, &err) != LF_OK) fail_msg("%s", err.message);
    float *logits = calloc((size_t)e->n_ids * (size_t)e->n_vocab, sizeof(float));
    int32_t blocks[2 * LF_KV_GROUPS_N];
    assert_non_null(logits);
    model_rig_fill_table(&rig, blocks, 2 * LF_KV_GROUPS_N);
    model_rig_run(&rig, blocks, e->ids, e->n_ids, 0, chunk, true, logits);
    model_rig_close(&rig);
    return logits;
}

/* Norms of a token, and those of them that may be fused into the gemms before and behind them: what they norm is a
 * gemm's sum with the residual stream, a gemm alone reads them, and they are not the last, whose rows are picked. */
static void count_norms(const struct lf_hparams *hp, int *n_norms, int *n_fusible)
{
    struct lf_program p;
    struct lf_err err;
    assert_int_equal(lf_program_record(&p, hp, &err), LF_OK);
    *n_norms = *n_fusible = 0;
    for (int i = 0; i < p.n_ops; i++) {
        if (p.ops[i].kind != LF_OP_RMSNORM) continue;
        int h = p.ops[i].out[LF_OP_Y], n_readers = 0;
        bool follows = false, is_read_by_gemm = false;
        for (int k = 0; k < i; k++)
            follows |= p.ops[k].kind == LF_OP_GEMM && p.ops[k].in[LF_OP_RESIDUAL] != LF_NONE &&
                       p.ops[k].out[LF_OP_Y] == p.ops[i].in[LF_OP_X];
        for (int k = i + 1; k < p.n_ops; k++)
            for (int in = 0; in < LF_OP_INPUTS_N; in++) {
                if (p.ops[k].in[in] != h) continue;
                n_readers++;
                is_read_by_gemm = p.ops[k].kind == LF_OP_GEMM && p.ops[k].out[LF_OP_Y] != p.logits;
            }
        ++*n_norms;
        *n_fusible += follows && is_read_by_gemm && n_readers == 1;
    }
    lf_program_deinit(&p);
}

/* What is fused on a CPU has the same bits; what a GPU fuses, norms in steps of few tokens, has as many roundings. */
static void fusions_change_no_logit(void **state)
{
    (void)state;
    static const int chunks[] = {CHUNK, LF_FUSED_NORM_TOKENS, 1};
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]) * 3; i++) {
        char dir[256];
        struct expected e;
        struct lf_hparams hp;
        struct lf_err err;
        int chunk = chunks[i % 3];
        snprintf(dir, sizeof(dir), "tests/golden/model/data/%s", models[i / 3].name);
        read_expected(&e, dir);
        assert_int_equal(lf_hparams_read(&hp, dir, &err), LF_OK);
        int n_norms, n_fusible;
        count_norms(&hp, &n_norms, &n_fusible);
        lf_hparams_deinit(&hp);
        size_t n = (size_t)e.n_ids * (size_t)e.n_vocab;
        float *fused = logits_of(dir, &e, chunk, false, NULL), *plain = logits_of(dir, &e, chunk, true, NULL);
        assert_memory_equal(fused, plain, n * sizeof(float));
        float *norms = logits_of(dir, &e, chunk, false, fused_norms_add);
        struct fused_norms_counts counts = fused_norms_counts();
        assert_true(relative_error(norms, plain, n) < (models[i / 3].bf16 ? TOLERANCE_BF16 : TOLERANCE_F32));
        assert_int_equal(counts.n_epilogues, counts.n_prologues);
        int n_steps = (e.n_ids + chunk - 1) / chunk, n_few = chunk > LF_FUSED_NORM_TOKENS ? 0 : n_steps;
        n_few += chunk > LF_FUSED_NORM_TOKENS && e.n_ids % chunk > 0 && e.n_ids % chunk <= LF_FUSED_NORM_TOKENS;
        assert_int_equal(counts.n_epilogues, n_fusible * n_few);
        assert_int_equal(counts.n_plain, n_norms * n_steps - n_fusible * n_few);
        free(fused);
        free(plain);
        free(norms);
        lf_buf_deinit(&e.bytes);
    }
}

/* What norms and gated activations write as codes where a GEMM takes them so, and what it quantizes itself: the same
 * bits, in steps of any size. */
static void activations_written_as_codes_change_no_bit(void **state)
{
    (void)state;
    static const int chunks[] = {CHUNK, 5, 1};
    int n_norms = 0, n_gates = 0, n_experts = 0, n_own = 0;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        char dir[256];
        struct expected e;
        int chunk = chunks[i % 3];
        snprintf(dir, sizeof(dir), "tests/golden/model/data/%s", models[i].name);
        read_expected(&e, dir);
        float *fused = logits_of(dir, &e, chunk, false, act_codes_add);
        struct act_codes_counts counts = act_codes_counts();
        assert_int_equal(counts.n_given, counts.n_norms + counts.n_gates);
        float *plain = logits_of(dir, &e, chunk, true, act_codes_add);
        struct act_codes_counts own = act_codes_counts();
        assert_int_equal(own.n_given, 0);
        assert_int_equal(own.n_own, counts.n_own + counts.n_given);
        assert_memory_equal(fused, plain, (size_t)e.n_ids * (size_t)e.n_vocab * sizeof(float));
        n_norms += counts.n_norms;
        n_gates += counts.n_gates;
        n_experts += counts.n_experts;
        n_own += counts.n_own;
        free(fused);
        free(plain);
        lf_buf_deinit(&e.bytes);
    }
    assert_true(n_norms > 0 && n_gates > 0 && n_experts > 0 && n_own > 0);
}

/* Alone, beside another sequence, in chunks of any size, with all rows wanted or some: the same bytes. */
static void a_token_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    static const int at_once[] = {1, 2, 5, 16, 29};
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]) * KV_TYPES_N; i++) {
        char dir[256];
        struct expected e;
        struct model_rig rig;
        struct lf_err err;
        snprintf(dir, sizeof(dir), "tests/golden/model/data/%s", models[i / KV_TYPES_N].name);
        read_expected(&e, dir);
        struct model_rig_opts opts = {.dir = dir,
                                      .max_isa = -1,
                                      .n_threads = 2,
                                      .ctx = 128,
                                      .chunk = CHUNK,
                                      .max_seqs = 2,
                                      .max_out = CHUNK,
                                      .kv_tokens = 256,
                                      .kv_dtype = kv_types[i % KV_TYPES_N]};
        assert_int_equal(model_rig_open(&rig, &opts, &err), LF_OK);
        size_t n = (size_t)e.n_ids * (size_t)e.n_vocab;
        float *alone = calloc(n, sizeof(float)), *again = calloc(n, sizeof(float));
        static const int32_t of_group[] = {3, 2};
        int32_t blocks[2 * LF_KV_GROUPS_N];
        assert_true(alone && again);
        fill_tables(&rig, blocks, of_group);
        model_rig_run(&rig, blocks, e.ids, e.n_ids, 0, CHUNK, true, alone);
        for (size_t k = 0; k < sizeof(at_once) / sizeof(at_once[0]); k++) {
            model_rig_run(&rig, blocks, e.ids, e.n_ids, 0, at_once[k], true, again);
            assert_memory_equal(alone, again, n * sizeof(float));
            run_beside_another(&rig, &e, at_once[k], again);
            assert_memory_equal(alone, again, n * sizeof(float));
            model_rig_run(&rig, blocks, e.ids, e.n_ids, 0, at_once[k], false, again); /* the last row alone */
            size_t last = n - (size_t)e.n_vocab;
            assert_memory_equal(alone + last, again, (size_t)e.n_vocab * sizeof(float));
        }
        free(alone);
        free(again);
        model_rig_close(&rig);
        lf_buf_deinit(&e.bytes);
    }
}

enum { SLIDE_TOKENS = 128, SLIDE_TABLE = SLIDE_TOKENS / LF_KV_BLOCK_TOKENS };

/* Of each group with a window the blocks that it has left before position pos: filled with NaN, and their entries name
 * a block that nobody has written. */
static int let_go(struct model_rig *rig, int32_t *tables, int pos, int32_t unwritten)
{
    int n = 0;
    for (int g = 0; g < rig->kv.n_groups; g++) {
        int window = rig->kv.groups[g].window;
        for (int b = 0; window > 0 && (b + 1) * LF_KV_BLOCK_TOKENS <= pos - window + 1; b++) {
            int32_t *entry = &tables[g * SLIDE_TABLE + b];
            if (*entry == unwritten) continue;
            lf_kv_cache_poison(&rig->kv, *entry);
            *entry = unwritten;
            n++;
        }
    }
    return n;
}

/* Logits of all rows, in steps of `chunk`. Returns how many blocks were let go, and how many groups there were. */
static int slide(float *logits, const char *dir, const struct expected *e, enum lf_dtype kv_dtype, bool cache_groups,
                 int chunk, int *n_groups)
{
    struct model_rig rig;
    struct lf_err err;
    struct model_rig_opts opts = {.dir = dir,
                                  .max_isa = -1,
                                  .n_threads = 2,
                                  .ctx = SLIDE_TOKENS,
                                  .chunk = CHUNK,
                                  .max_seqs = 1,
                                  .max_out = CHUNK,
                                  .kv_tokens = (LF_KV_GROUPS_N * SLIDE_TABLE + 1) * LF_KV_BLOCK_TOKENS,
                                  .kv_dtype = kv_dtype,
                                  .cache_groups = cache_groups};
    int32_t tables[LF_KV_GROUPS_N * SLIDE_TABLE], unwritten = LF_KV_GROUPS_N * SLIDE_TABLE;
    int n_gone = 0;
    if (model_rig_open(&rig, &opts, &err) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(lf_device_allocated_bytes(rig.dev), rig.plan.total_bytes);
    for (int i = 0; i <= unwritten; i++) lf_kv_cache_poison(&rig.kv, i);
    for (int i = 0; i < unwritten; i++) tables[i] = (i * 5 + 3) % unwritten;
    rig.table_stride = SLIDE_TABLE;
    for (int at = 0; at < SLIDE_TOKENS; at += chunk) {
        int32_t ids[CHUNK];
        int n = LF_MIN(chunk, SLIDE_TOKENS - at);
        for (int i = 0; i < n; i++) ids[i] = e->ids[(at + i) % e->n_ids];
        if (cache_groups) n_gone += let_go(&rig, tables, at, unwritten);
        model_rig_run(&rig, tables, ids, n, at, n, true, logits + (size_t)at * (size_t)e->n_vocab);
    }
    *n_groups = rig.kv.n_groups;
    model_rig_close(&rig);
    return n_gone;
}

/* Numbers and sizes of KV heads that layers of a model have: groups of a cache that windows are not groups of. */
static int n_shapes_of(const char *dir)
{
    struct lf_hparams hp;
    struct lf_err err;
    int n = 0;
    assert_int_equal(lf_hparams_read(&hp, dir, &err), LF_OK);
    for (int i = 0; i < hp.n_layers; i++) {
        bool is_new = true;
        for (int k = 0; k < i; k++)
            is_new &= lf_layer_n_kv_heads(&hp, k) != lf_layer_n_kv_heads(&hp, i) ||
                      lf_layer_head_dim(&hp, k) != lf_layer_head_dim(&hp, i);
        n += is_new;
    }
    lf_hparams_deinit(&hp);
    return n;
}

/* Layers with windows in cache groups of their own, what is behind them let go: the bytes are those of a cache that
 * keeps everything. */
static void windows_that_have_slid_change_no_logit(void **state)
{
    (void)state;
    static const int chunks[] = {1, 7, CHUNK};
    int n_gone = 0, most_groups = 0;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]) * KV_TYPES_N; i++) {
        char dir[256];
        struct expected e;
        int n_groups;
        enum lf_dtype kv_dtype = kv_types[i % KV_TYPES_N];
        snprintf(dir, sizeof(dir), "tests/golden/model/data/%s", models[i / KV_TYPES_N].name);
        read_expected(&e, dir);
        size_t n = (size_t)SLIDE_TOKENS * (size_t)e.n_vocab;
        float *all = calloc(n, sizeof(float)), *slid = calloc(n, sizeof(float));
        assert_true(all && slid);
        assert_int_equal(slide(all, dir, &e, kv_dtype, false, CHUNK, &n_groups), 0);
        assert_int_equal(n_groups, n_shapes_of(dir));
        assert_true(fabsf(all[n - 1]) < 1e6f);
        for (size_t k = 0; k < sizeof(chunks) / sizeof(chunks[0]); k++) {
            n_gone += slide(slid, dir, &e, kv_dtype, true, chunks[k], &n_groups);
            assert_memory_equal(all, slid, n * sizeof(float));
        }
        most_groups = LF_MAX(most_groups, n_groups);
        free(all);
        free(slid);
        lf_buf_deinit(&e.bytes);
    }
    assert_true(n_gone > 0 && most_groups > 1);
}

int main(void)
{
    lf_log_set_level(LF_LOG_WARN);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_family_gives_the_logits_of_transformers),
                                       cmocka_unit_test(fusions_change_no_logit),
                                       cmocka_unit_test(activations_written_as_codes_change_no_bit),
                                       cmocka_unit_test(a_token_has_the_same_bits_in_any_company),
                                       cmocka_unit_test(windows_that_have_slid_change_no_logit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
