/* Times of a split, and which one is chosen. */
#include <math.h>
#include <string.h>

#include "core/check.h"
#include "core/json.h"
#include "model/model.h"
#include "model/plan.h"
#include "model/split_cost.h"
#include "tests/support/test.h"

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
    const struct lf_gpu_figures gpu = {.bytes_per_s = 1000,
                                       .flops_per_s = 10000,
                                       .layer_s = 1,
                                       .reduce_s = 2,
                                       .reduce_rank_s = 0.5,
                                       .link_bytes_per_s = 100};
    struct lf_op_table t = {.n_rows = 3, .step = {.n_tokens = 1, .kv_len = 10}};
    t.rows[0] = (struct lf_op_row){.kind = LF_OP_GEMM, .n = 2, .weight_bytes = 4000, .bytes = 5000, .flops = 10000};
    t.rows[1] = (struct lf_op_row){.kind = LF_OP_ALL_REDUCE, .n = 3, .n_rows = 1, .n_out = 50, .bytes = 1e9};
    t.rows[2] = (struct lf_op_row){.kind = LF_OP_ALL_GATHER, .n = 1, .n_rows = 1, .n_out = 25, .bytes = 1e9};
    /* 7 layers; 5 s of bytes; 3 · (2 + 0.5 · 4 + 2 · ¾ · 200 / 100); 2 + 0.5 · 4 + ¾ · 100 / 100 */
    near(lf_split_step_s(&gpu, &t, 4, 7), 7 + 5 + 3 * 7 + 4.75, 1e-12);
    t.step.n_tokens = 8; /* of a chunk the weights alone, or the operations */
    near(lf_split_step_s(&gpu, &t, 4, 7), 7 + 4 + 3 * 7 + 4.75, 1e-12);
    t.rows[0].flops = 90000;
    near(lf_split_step_s(&gpu, &t, 4, 7), 7 + 9 + 3 * 7 + 4.75, 1e-12);
    t.n_rows = 1;
    near(lf_split_step_s(&gpu, &t, 1, 7), 7 + 9, 1e-12);
}

/* The 8B in bf16 on so many GPUs, a step of n_tokens at the end of kv_len. */
static double predict(int n_ranks, int n_tokens, int kv_len)
{
    struct lf_hparams hp;
    struct lf_device *dev;
    struct lf_op_table table;
    struct lf_err err = {0};
    struct lf_device_opts dev_opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_plan plan = {.kv_dtype = LF_BF16, .cache_groups = true};
    struct lf_model_opts opts = {.dir = SHAPE, .load = LF_LOAD_DUMMY, .plan = &plan};
    struct lf_op_step step = {.n_tokens = n_tokens, .kv_len = kv_len};
    assert_int_equal(lf_hparams_read(&hp, SHAPE, &err), LF_OK);
    assert_int_equal(lf_device_open(&dev, &dev_opts, &err), LF_OK);
    hp.split.n_ranks = n_ranks;
    if (lf_model_plan_ops(&table, &hp, &opts, dev, &step, &err) != LF_OK) fail_msg("%s", err.message);
    double seconds = lf_split_step_s(h100(), &table, n_ranks, hp.n_layers);
    lf_device_close(dev);
    lf_hparams_deinit(&hp);
    return seconds;
}

/* Of tests/bench/e2e/results/llama-3.1-8b_tp_h100.csv, and two of one GPU in docs/performance.md. */
static void predictions_are_near_what_was_measured(void **state)
{
    (void)state;
    enum { CHUNK = 8192 };
    const struct {
        int n_ranks, kv_len;
        double token_s, first_s; /* 0: not measured */
    } rows[] = {{1, 128, 5.358e-3, 0},       {2, 128, 3.210e-3, 0},       {4, 128, 2.019e-3, 0},
                {1, 32768, 6.729e-3, 1.112}, {2, 32768, 3.894e-3, 0.666}, {4, 32768, 2.397e-3, 0.450},
                {1, 130000, 10.7e-3, 9.35}};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        int n = rows[i].kv_len;
        near(predict(rows[i].n_ranks, 1, n), rows[i].token_s, 0.03);
        if (rows[i].first_s > 0)
            near(predict(rows[i].n_ranks, CHUNK, (n + CHUNK) / 2) * n / CHUNK, rows[i].first_s, 0.03);
    }
}

/* ---- the choice ---- */

static void add(struct lf_splits *s, bool fits, int ctx, double token_s)
{
    int n = s->n++;
    s->of[n] = (struct lf_split_option){.n_ranks = n + 1,
                                        .fits = fits,
                                        .ctx = ctx,
                                        .needed_bytes = (uint64_t)3 << 30,
                                        .n_requests = 3,
                                        .token_s = token_s,
                                        .first_s = token_s * 100};
}

static void add_impossible(struct lf_splits *s)
{
    add(s, false, 0, 0);
    snprintf(s->of[s->n - 1].why_not, sizeof(s->of[0].why_not), "32 heads by \"%d\"", s->n);
}

static void expect_choice(struct lf_splits *s, const char *reason)
{
    lf_splits_choose(s);
    assert_string_equal(s->reason, reason);
}

static void the_fastest_that_fits_is_chosen_but_for_little(void **state)
{
    (void)state;
    struct lf_splits s = {.gpu = "some"};
    add(&s, true, 8000, 5e-3);
    expect_choice(&s, "tp=1: there is one device");
    add(&s, true, 8000, 3e-3);
    add_impossible(&s);
    add(&s, true, 8000, 2e-3);
    expect_choice(&s, "tp=4: of those that fit the fastest, but for 5%");
    s.of[3].token_s = 2.86e-3; /* not worth two more */
    expect_choice(&s, "tp=2: of those that fit the fastest, but for 5%");
    s.of[3].token_s = 2.84e-3;
    expect_choice(&s, "tp=4: of those that fit the fastest, but for 5%");
    s.of[3].fits = false;
    expect_choice(&s, "tp=2: of those that fit the fastest, but for 5%");
    s.of[1].fits = false;
    expect_choice(&s, "tp=1: no other one fits");
    s.of[0].fits = false;
    expect_choice(&s, "tp=4: none fits, and this one lacks least");
}

static void the_longest_context_comes_before_time(void **state)
{
    (void)state;
    struct lf_splits s = {.gpu = "some"};
    add(&s, true, 8000, 2e-3);
    add(&s, true, 16000, 3e-3);
    expect_choice(&s, "tp=2: it has the longest context");
}

static void without_times_the_fewest_devices_do(void **state)
{
    (void)state;
    struct lf_splits s = {0};
    add(&s, false, 8000, 0);
    add(&s, true, 8000, 0);
    add(&s, true, 8000, 0);
    expect_choice(&s, "tp=2: it is the smallest that fits, and times are not known for this device");
    s = (struct lf_splits){0};
    add(&s, true, 8000, 0);
    add_impossible(&s);
    expect_choice(&s, "tp=1: no other split can be");
}

static void a_table_has_a_line_for_each(void **state)
{
    (void)state;
    struct lf_splits s = {.gpu = "GPUs"};
    struct lf_buf out;
    struct lf_json json = {0};
    struct lf_err err;
    add(&s, false, 8000, 5e-3);
    add_impossible(&s);
    add(&s, true, 8000, 2e-3);
    add_impossible(&s);
    lf_splits_choose(&s);
    lf_buf_init(&out, 1 << 16);
    lf_splits_print(&s, &out);
    assert_string_equal(lf_buf_view(&out).ptr,
                        "\n"
                        "  split    fits        needed    context  requests      a token  first token\n"
                        "  tp=1     no        3.00 GiB       8000         3      5.00 ms       0.50 s\n"
                        "  tp=3     yes       3.00 GiB       8000         3      2.00 ms       0.20 s\n"
                        "  Not tp=2, 4: 32 heads by \"2\".\n"
                        "  Times of one request behind its whole context, predicted for GPUs.\n"
                        "--parallel auto is tp=3: no other one fits.\n");
    lf_buf_clear(&out);
    lf_buf_char(&out, '{');
    lf_splits_print_json(&s, &out);
    lf_buf_char(&out, '}');
    assert_int_equal(lf_json_parse(&json, lf_buf_view(&out), &lf_json_limits_file, &err), LF_OK);
    struct lf_json_value root = lf_json_root(&json), splits = lf_json_get(root, "splits");
    assert_int_equal(lf_json_len(splits), 4);
    assert_true(
        lf_json_string_is(lf_json_get(lf_json_next(splits, lf_json_first(splits)), "why_not"), "32 heads by \"2\""));
    assert_true(lf_json_string_is(lf_json_get(lf_json_get(root, "split"), "reason"), "tp=3: no other one fits"));
    lf_json_deinit(&json);
    lf_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_one_kind_of_gpu),
        cmocka_unit_test(a_step_is_the_sum_of_the_formula),
        cmocka_unit_test(predictions_are_near_what_was_measured),
        cmocka_unit_test(the_fastest_that_fits_is_chosen_but_for_little),
        cmocka_unit_test(the_longest_context_comes_before_time),
        cmocka_unit_test(without_times_the_fewest_devices_do),
        cmocka_unit_test(a_table_has_a_line_for_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
