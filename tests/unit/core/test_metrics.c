#include "tests/support/test.h"

#include <math.h>

#include "core/metrics.h"

static void a_histogram_renders_cumulative_buckets(void **state)
{
    (void)state;
    static const double bounds[] = {1, 2};
    struct lf_histogram h;
    lf_histogram_init(&h, bounds, 2);
    lf_histogram_observe(&h, 0.5);
    lf_histogram_observe(&h, 1);
    lf_histogram_observe(&h, 1.5);
    lf_histogram_observe(&h, 99);
    lf_histogram_observe(&h, NAN);
    struct lf_buf out;
    lf_buf_init(&out, 10000);
    lf_metrics_histogram(&out, "p:", "x", "m=\"a\"", &h, "help");
    assert_string_equal(out.ptr, "# HELP p:x help\n# TYPE p:x histogram\n"
                                 "p:x_bucket{m=\"a\",le=\"1\"} 3\np:x_bucket{m=\"a\",le=\"2\"} 4\n"
                                 "p:x_bucket{m=\"a\",le=\"+Inf\"} 5\np:x_sum{m=\"a\"} 102\np:x_count{m=\"a\"} 5\n");
    lf_buf_deinit(&out);
}

static void bounds_ascend(void **state)
{
    (void)state;
    for (int i = 1; i < lf_bounds_latency_n; i++) assert_true(lf_bounds_latency_s[i] > lf_bounds_latency_s[i - 1]);
    for (int i = 1; i < lf_bounds_gap_n; i++) assert_true(lf_bounds_gap_s[i] > lf_bounds_gap_s[i - 1]);
    for (int i = 1; i < lf_bounds_tokens_n; i++) assert_true(lf_bounds_tokens[i] > lf_bounds_tokens[i - 1]);
    assert_true(lf_bounds_latency_s[lf_bounds_latency_n - 1] == 3600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_histogram_renders_cumulative_buckets),
        cmocka_unit_test(bounds_ascend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
