#include "tests/support/test.h"

#include <math.h>

#include "core/mix.h"
#include "server/engine/cost.h"

static const double truth[LF_COST_N] = {2e6, 1e5, 10, 4e4, 50, 7e4, 6};

static double true_ns(const struct lf_load *load)
{
    double ns = 0;
    for (int i = 0; i < LF_COST_N; i++) ns += truth[i] * load->x[i];
    return ns;
}

static int between(uint64_t *n, int lo, int hi)
{
    return lo + (int)(lf_random64(5, (*n)++) % (uint64_t)(hi - lo + 1));
}

static struct lf_load random_load(uint64_t *n)
{
    struct lf_load load = {{0}};
    lf_load_add_prefill(&load, between(n, 0, 30000), between(n, 1, 512), between(n, 0, 1));
    for (int k = between(n, 0, 16); k > 0; k--) lf_load_add_decode(&load, between(n, 1, 30000));
    if (load.x[LF_COST_DECODE_KEY] > 0) lf_load_add_tried(&load, between(n, 1, 30000), between(n, 0, 16));
    return load;
}

static void loads_count_each_key_that_a_row_looks_at(void **state)
{
    (void)state;
    struct lf_load load = {{0}};
    lf_load_add_prefill(&load, 10, 3, 1); /* tokens 10, 11, 12 look at 11, 12 and 13 keys */
    assert_true(load.x[LF_COST_STEP] == 1 && load.x[LF_COST_TOKEN] == 3 && load.x[LF_COST_PREFILL_KEY] == 36);
    assert_true(load.x[LF_COST_LOGITS] == 1 && load.x[LF_COST_DECODE_KEY] == 0);
    lf_load_add_decode(&load, 99);
    assert_true(load.x[LF_COST_STEP] == 1 && load.x[LF_COST_TOKEN] == 4 && load.x[LF_COST_DECODE_KEY] == 100);
    assert_true(load.x[LF_COST_LOGITS] == 2);
    lf_load_add_tried(&load, 100, 2);
    assert_true(load.x[LF_COST_TOKEN] == 4 && load.x[LF_COST_LOGITS] == 2 && load.x[LF_COST_PREFILL_KEY] == 36);
    assert_true(load.x[LF_COST_TRIED] == 2 && load.x[LF_COST_TRIED_KEY] == 203);
}

static void the_fit_finds_the_coefficients(void **state)
{
    (void)state;
    struct lf_cost cost;
    uint64_t n = 0;
    lf_cost_init(&cost);
    for (int i = 0; i < 400; i++) {
        struct lf_load load = random_load(&n);
        lf_cost_observe(&cost, &load, true_ns(&load));
    }
    for (int i = 0; i < 100; i++) {
        struct lf_load load = random_load(&n);
        assert_true(fabs(lf_cost_predict(&cost, &load) - true_ns(&load)) < 0.05 * true_ns(&load));
    }
}

static void coefficients_stay_positive_and_finite_whatever_is_measured(void **state)
{
    (void)state;
    struct lf_cost cost;
    uint64_t n = 0;
    lf_cost_init(&cost);
    const double odd[] = {0, -5, 1, 1e3, 1e15, 1e18};
    for (int i = 0; i < 5000; i++) {
        struct lf_load load = random_load(&n);
        lf_cost_observe(&cost, &load, odd[between(&n, 0, 5)]);
        for (int k = 0; k < LF_COST_N; k++) assert_true(isfinite(cost.w[k]) && cost.w[k] > 0);
    }
}

static void what_recent_steps_say_nothing_about_is_kept(void **state)
{
    (void)state;
    struct lf_cost cost;
    uint64_t n = 0;
    lf_cost_init(&cost);
    for (int i = 0; i < 400; i++) {
        struct lf_load load = random_load(&n);
        lf_cost_observe(&cost, &load, true_ns(&load));
    }
    double before = lf_cost_prefill_ns(&cost, 20000, 256, 1);
    for (int i = 0; i < 20000; i++) { /* a night of decoding */
        struct lf_load load = {{0}};
        for (int k = 0; k < 8; k++) lf_load_add_decode(&load, 1000 + i % 100);
        lf_cost_observe(&cost, &load, true_ns(&load) * (1 + 0.1 * ((double)between(&n, -10, 10) / 10)));
    }
    double after = lf_cost_prefill_ns(&cost, 20000, 256, 1);
    assert_true(after > before / 2 && after < before * 2);
}

/* A GPU with a small model: a decode mostly reads keys, a step with a prompt has no graph, and its chunks are of other
 * speeds than a line is. Steps as they come of questions about a document: its chunks, then of each question the end of
 * its prompt and an answer. n_tried of them are tried in each fourth of its steps. */
static double price_behind(struct lf_cost *cost, int n_doc, int n_tail, int n_tried)
{
    struct lf_load load = {{0}};
    double decode_ns = 148e3 + 1.29 * n_doc;
    for (int first = 0; first < n_doc; first += 4096) {
        struct lf_load chunk = {{0}};
        lf_load_add_prefill(&chunk, first, 4096, 0);
        lf_cost_observe(cost, &chunk, 450e3 + 4096 * (150 + 0.05 * (first + 2048)));
    }
    for (int k = 0; k < 76; k++) {
        struct lf_load step = {{0}};
        if (k % 19 == 0) lf_load_add_prefill(&step, n_doc, n_tail, 1);
        if (k % 19 != 0) lf_load_add_decode(&step, n_doc + k);
        if (k % 4 == 1 && k % 19 != 0) lf_load_add_tried(&step, n_doc + k + 1, n_tried);
        double tail_ns = k % 19 == 0 ? 300e3 + n_tail * (150 + 0.05 * n_doc) : 0;
        lf_cost_observe(cost, &step, decode_ns + tail_ns + step.x[LF_COST_TRIED] * 0.026 * decode_ns);
    }
    lf_load_add_decode(&load, n_doc);
    return lf_cost_tried_ns(cost, n_doc + 1, 1) / lf_cost_predict(cost, &load);
}

/* However the ends of prompts move what the other terms hold: it is what was measured, an eighth before. */
static void the_price_of_what_is_tried_is_its_own(void **state)
{
    (void)state;
    static const int tails[] = {1, 8, 33, 64, 250}, docs[] = {8192, 32768, 122880};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        for (size_t d = 0; d < sizeof docs / sizeof *docs; d++) {
            struct lf_cost cost;
            lf_cost_init(&cost);
            for (int k = 0; k < 3; k++) {
                double price = price_behind(&cost, docs[d], tails[i], 0);
                if (!(price > 0.06 && price < 0.18)) fail_msg("%d tokens behind %d: %.3f", tails[i], docs[d], price);
            }
            double price = price_behind(&cost, docs[d], tails[i], 8);
            if (!(price > 0.015 && price < 0.04)) fail_msg("%d tokens behind %d: %.3f", tails[i], docs[d], price);
        }
}

/* A step of tries that took three times as long for another's sake moves it little; many do; then it is forgotten. */
static void odd_tries_are_not_believed_for_ever(void **state)
{
    (void)state;
    struct lf_cost cost;
    struct lf_load decode = {{0}}, tries;
    lf_cost_init(&cost);
    lf_load_add_decode(&decode, 1000);
    tries = decode;
    lf_load_add_tried(&tries, 1001, 2);
    for (int i = 0; i < 200; i++) lf_cost_observe(&cost, &decode, 1e6);
    lf_cost_observe(&cost, &tries, 3e6);
    assert_true(lf_cost_tried_ns(&cost, 1001, 1) < 0.25e6);
    for (int i = 0; i < 50; i++) lf_cost_observe(&cost, i % 2 ? &tries : &decode, i % 2 ? 3e6 : 1e6);
    assert_true(lf_cost_tried_ns(&cost, 1001, 1) > 0.6e6);
    for (int i = 0; i < 400; i++) lf_cost_observe(&cost, &decode, 1e6);
    assert_true(lf_cost_tried_ns(&cost, 1001, 1) < 0.25e6);
}

/* The closed form against the cost itself: n tokens are within the budget, n + 1 are not. */
static void tokens_for_a_budget_are_the_most_that_fit(void **state)
{
    (void)state;
    struct lf_cost cost;
    lf_cost_init(&cost);
    memcpy(cost.w, truth, sizeof(truth));
    for (uint64_t i = 0, n = 0; i < 2000; i++) {
        int first = between(&n, 0, 200000), all_out = between(&n, 0, 1);
        double budget = (double)between(&n, 1, 100000000);
        int most = lf_cost_prefill_tokens(&cost, first, budget, all_out);
        assert_true(most >= 0);
        assert_true(lf_cost_prefill_ns(&cost, first, most, all_out ? most : 0) <= budget * (1 + 1e-9));
        assert_true(lf_cost_prefill_ns(&cost, first, most + 1, all_out ? most + 1 : 0) >= budget * (1 - 1e-9));
    }
    assert_int_equal(lf_cost_prefill_tokens(&cost, 0, 0, 0), 0);
    assert_int_equal(lf_cost_prefill_tokens(&cost, 0, -1, 0), 0);
    assert_int_equal(lf_cost_prefill_tokens(&cost, 0, (double)NAN, 0), 0);
    for (int i = 0; i < LF_COST_N; i++) cost.w[i] = 1e-3;
    assert_int_equal(lf_cost_prefill_tokens(&cost, 0, 1e30, 0), 1000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_count_each_key_that_a_row_looks_at),
        cmocka_unit_test(the_fit_finds_the_coefficients),
        cmocka_unit_test(coefficients_stay_positive_and_finite_whatever_is_measured),
        cmocka_unit_test(what_recent_steps_say_nothing_about_is_kept),
        cmocka_unit_test(the_price_of_what_is_tried_is_its_own),
        cmocka_unit_test(odd_tries_are_not_believed_for_ever),
        cmocka_unit_test(tokens_for_a_budget_are_the_most_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
