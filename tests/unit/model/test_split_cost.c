/* Times of a split. */
#include <math.h>

#include "core/check.h"
#include "device/device_impl.h"
#include "model/model.h"
#include "model/plan.h"
#include "model/split_cost.h"
#include "tests/support/test.h"

enum { CHUNK = 8192, GPU_ROWS = 128 }; /* the latter: of device/cuda/device_cuda.c */
#define SHAPE "tests/bench/shapes/llama-3.1-8b"

static const struct lf_gpu_figures *h100(void)
{
    struct lf_device_info info = {.kind = "cuda", .sm = 90, .n_sms = 132};
    return lf_gpu_figures_of(&info);
}

static void figures_are_those_of_one_kind_of_gpu(void **state)
{
    (void)state;
    const struct {
        struct lf_device_info info;
        bool known;
    } rows[] = {{{.sm = 90, .n_sms = 132}, true},
                {{.is_described = true, .n_sms = 132}, true},
                {{.is_described = true, .n_sms = 78}, false},
                {{.sm = 90, .n_sms = 114}, false},
                {{.sm = 80, .n_sms = 108}, false},
                {{.is_host = true}, false}};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++)
        assert_true((lf_gpu_figures_of(&rows[i].info) != NULL) == rows[i].known);
}

static void near(double got, double want, double part)
{
    if (fabs(got - want) > part * want) fail_msg("%g, expected %g", got, want);
}

/* By hand, with figures that are easy to divide by. */
static void a_step_is_the_sum_of_the_formula(void **state)
{
    (void)state;
    const struct lf_gpu_figures gpu = {
        .bytes_per_s = 1000,
        .flops_per_s = 10000,
        .attention_flops_per_s = 5000,
        .layer_s = 1,
        .sum = {.start_s = 2, .rank_s = 0.5, .two_bytes_per_s = 50, .more_bytes_per_s = 100},
        .gather = {.start_s = 3, .rank_s = 0.25, .two_bytes_per_s = 20, .more_bytes_per_s = 40},
        .combine = {.start_s = 4, .rank_s = 0.125, .two_bytes_per_s = 10, .more_bytes_per_s = 80},
        .n_host = 8};
    const struct lf_split one = {.n_ranks = 1}, four = {.n_ranks = 4}, grid = {.n_ranks = 4, .n_cp = 2};
    struct lf_op_table t = {.n_rows = 6, .step = {.n_tokens = 1, .kv_len = 10}};
    t.rows[0] = (struct lf_op_row){.kind = LF_OP_GEMM, .n = 2, .weight_bytes = 4000, .bytes = 5000, .flops = 10000};
    t.rows[1] = (struct lf_op_row){.kind = LF_OP_ATTENTION, .n = 2, .flops = 1000};
    t.rows[2] = (struct lf_op_row){.kind = LF_OP_ALL_REDUCE, .n = 3, .bytes = 1e9, .received_bytes = 900};
    t.rows[3] = (struct lf_op_row){.kind = LF_OP_ALL_GATHER, .n = 1, .bytes = 1e9, .received_bytes = 75};
    t.rows[4] = (struct lf_op_row){.kind = LF_OP_GATHER_ROWS, .n = 2, .bytes = 1e9, .received_bytes = 100};
    t.rows[5] = (struct lf_op_row){.kind = LF_OP_LSE_COMBINE, .n = 2, .bytes = 1e9, .received_bytes = 30};
    double sums = 3 * 4 + 9 + 4 + 0.75, contexts = 2 * 3.5 + 5 + 2 * 4.25 + 3;
    near(lf_split_exchange_s(&gpu, &t, &grid), sums + contexts, 1e-12);
    near(lf_split_step_s(&gpu, &t, &grid, 7), 7 + 5 + sums + contexts, 1e-12);
    t.step.n_tokens = 8; /* of a chunk the weights alone, or the operations */
    near(lf_split_step_s(&gpu, &t, &grid, 7), 7 + 4 + sums + contexts, 1e-12);
    t.rows[0].flops = 90000;
    near(lf_split_step_s(&gpu, &t, &grid, 7), 7 + 9.2 + sums + contexts, 1e-12);
    t.rows[4].received_bytes = 0; /* a gather of a step that is not divided */
    near(lf_split_step_s(&gpu, &t, &grid, 7), 7 + 9.2 + sums + 2 * 4.25 + 3, 1e-12);
    t.n_rows = 4;
    near(lf_split_step_s(&gpu, &t, &four, 7), 7 + 9.2 + sums, 1e-12);
    t.n_rows = 2;
    near(lf_split_step_s(&gpu, &t, &one, 7), 7 + 9.2, 1e-12);
}

/* Two hosts of four: of a context's ranks in one host two divide layers, so two of four are in this one. What is in
 * another host comes over the network, while the rest comes over the links. */
static void what_other_hosts_have_comes_over_the_network(void **state)
{
    (void)state;
    struct lf_gpu_figures gpu = {
        .sum = {.start_s = 2, .rank_s = 0.5, .two_bytes_per_s = 50, .more_bytes_per_s = 100},
        .combine = {.start_s = 4, .rank_s = 0.125, .two_bytes_per_s = 10, .more_bytes_per_s = 80},
        .n_host = 4,
        .network_bytes_per_s = 25,
        .network_s = 0.25};
    const struct lf_split one_host = {.n_ranks = 1, .n_cp = 4}, two_hosts = {.n_ranks = 2, .n_cp = 4};
    struct lf_op_table t = {.n_rows = 1};
    t.rows[0] = (struct lf_op_row){.kind = LF_OP_LSE_COMBINE, .n = 2, .received_bytes = 300};
    near(lf_split_exchange_s(&gpu, &t, &one_host), 2 * 4.5 + 300.0 / 80, 1e-12);
    near(lf_split_exchange_s(&gpu, &t, &two_hosts), 2 * 4.75 + 200.0 / 25, 1e-12);
    gpu.network_bytes_per_s = 1e9; /* then the links are what takes longer */
    near(lf_split_exchange_s(&gpu, &t, &two_hosts), 2 * 4.75 + 100.0 / 80, 1e-12);
    t.rows[0].kind = LF_OP_ALL_REDUCE; /* never leaves a host */
    near(lf_split_exchange_s(&gpu, &t, &two_hosts), 2 * 3 + 300.0 / 50, 1e-12);
}

/* The 8B in bf16 on so many GPUs: a step of n_tokens at the end of kv_len. */
static void make_table(struct lf_op_table *out, const struct lf_split *split, int n_tokens, int kv_len)
{
    struct lf_hparams hp;
    struct lf_device *dev;
    struct lf_err err = {0};
    struct lf_device_opts dev_opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_plan plan = {.kv_dtype = LF_BF16, .cache_groups = true};
    struct lf_model_opts opts = {.dir = SHAPE, .load = LF_LOAD_DUMMY, .plan = &plan};
    struct lf_op_step step = {.n_tokens = n_tokens, .kv_len = kv_len};
    assert_int_equal(lf_hparams_read(&hp, SHAPE, &err), LF_OK);
    assert_int_equal(lf_device_open(&dev, &dev_opts, &err), LF_OK);
    dev->info.act_dtype = LF_BF16; /* as a GPU has it: so wide is what ranks exchange */
    hp.split = *split;
    if (lf_model_plan_ops(out, &hp, &opts, dev, &step, &err) != LF_OK) fail_msg("%s", err.message);
    lf_device_close(dev);
    lf_hparams_deinit(&hp);
}

static struct lf_split split_of(int n_ranks, int n_cp)
{
    return (struct lf_split){.n_ranks = n_ranks, .n_cp = n_cp, .rows_least = GPU_ROWS};
}

static double predict(const struct lf_split *split, int n_tokens, int kv_len)
{
    enum { N_LAYERS = 32 };
    struct lf_op_table table;
    make_table(&table, split, n_tokens, kv_len);
    return lf_split_step_s(h100(), &table, split, N_LAYERS);
}

/* Of tests/bench/e2e/results/llama-3.1-8b_tp_h100.csv and llama-3.1-8b_cp_h100.csv, where that has two the second run;
 * 32,768 tokens over four with contexts divided are steps of 2,048 rows a GPU, of which there are four: the least
 * exact. */
static void predictions_are_near_what_was_measured(void **state)
{
    (void)state;
    const struct {
        int n_ranks, n_cp, kv_len;
        double token_s, first_s; /* 0: not measured */
        double first_part;
    } rows[] = {{1, 1, 128, 5.358e-3, 0, 0},           {2, 1, 128, 3.210e-3, 0, 0},
                {4, 1, 128, 2.019e-3, 0, 0},           {1, 1, 32768, 6.729e-3, 1.112, 0.03},
                {2, 1, 32768, 3.894e-3, 0.666, 0.03},  {4, 1, 32768, 2.397e-3, 0.450, 0.03},
                {4, 1, 130000, 3.491e-3, 3.012, 0.03}, {1, 1, 130000, 10.66e-3, 9.426, 0.03},
                {1, 1, 260000, 16.13e-3, 32.90, 0.03}, {1, 2, 128, 5.422e-3, 0, 0},
                {1, 2, 32768, 6.125e-3, 0.607, 0.03},  {1, 2, 130000, 8.206e-3, 4.967, 0.03},
                {1, 2, 260000, 10.79e-3, 16.92, 0.03}, {1, 4, 128, 5.439e-3, 0, 0},
                {1, 4, 32768, 5.788e-3, 0.354, 0.05},  {1, 4, 130000, 6.836e-3, 2.613, 0.03},
                {1, 4, 520000, 10.83e-3, 31.37, 0.03}, {1, 4, 1048000, 16.38e-3, 121.8, 0.03},
                {2, 2, 128, 3.231e-3, 0, 0},           {2, 2, 130000, 4.631e-3, 2.718, 0.03}};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct lf_split split = split_of(rows[i].n_ranks, rows[i].n_cp);
        int n = rows[i].kv_len;
        near(predict(&split, 1, n), rows[i].token_s, 0.03);
        if (rows[i].first_s > 0)
            near(predict(&split, CHUNK, (n + CHUNK) / 2) * n / CHUNK, rows[i].first_s, rows[i].first_part);
    }
}

/* One op of a kind in a step of so many tokens. */
static double exchange_s(int n_cp, int n_tokens, enum lf_op_kind kind)
{
    struct lf_split split = split_of(1, n_cp);
    struct lf_op_table table;
    make_table(&table, &split, n_tokens, n_tokens);
    for (int i = 0; i < table.n_rows; i++) {
        if (table.rows[i].kind != kind || table.rows[i].n < 30) continue; /* not the last layer's few rows */
        struct lf_op_table alone = {.n_rows = 1, .step = table.step};
        alone.rows[0] = table.rows[i];
        return lf_split_exchange_s(h100(), &alone, &split) / table.rows[i].n;
    }
    fail_msg("there is no %s", lf_op_name(kind));
    return 0;
}

/* Of tests/bench/e2e/results/contexts_exchange_h100.csv, the last figure of each. */
static void what_contexts_exchange_is_what_was_measured(void **state)
{
    (void)state;
    near(exchange_s(4, CHUNK, LF_OP_LSE_COMBINE), 175e-6, 0.01);
    near(exchange_s(2, CHUNK, LF_OP_LSE_COMBINE), 147e-6, 0.01);
    near(exchange_s(4, CHUNK, LF_OP_GATHER_ROWS), 267e-6, 0.01);
    near(exchange_s(2, CHUNK, LF_OP_GATHER_ROWS), 193e-6, 0.01);
    near(exchange_s(4, 1, LF_OP_LSE_COMBINE), 6.02e-6, 0.03);
    near(exchange_s(2, 1, LF_OP_LSE_COMBINE), 4.17e-6, 0.03);
    assert_true(exchange_s(4, 1, LF_OP_GATHER_ROWS) == 0); /* each rank has all rows */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_one_kind_of_gpu),
        cmocka_unit_test(a_step_is_the_sum_of_the_formula),
        cmocka_unit_test(what_other_hosts_have_comes_over_the_network),
        cmocka_unit_test(predictions_are_near_what_was_measured),
        cmocka_unit_test(what_contexts_exchange_is_what_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
