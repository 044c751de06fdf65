#include "tests/support/test.h"

#include "server/load/load_stats.h"

static void percentiles_are_samples_by_nearest_rank(void **state)
{
    (void)state;
    struct lf_samples s = {0};
    assert_true(lf_samples_percentile(&s, 50) == 0);
    for (int i = 100; i >= 1; i--) assert_int_equal(lf_samples_add(&s, i), LF_OK);
    assert_true(lf_samples_percentile(&s, 50) == 50);
    assert_true(lf_samples_percentile(&s, 90) == 90);
    assert_true(lf_samples_percentile(&s, 99) == 99);
    assert_true(lf_samples_percentile(&s, 100) == 100);
    assert_true(lf_samples_percentile(&s, 0) == 1);
    assert_true(lf_samples_percentile(&s, 0.5) == 1);
    lf_samples_deinit(&s);
    lf_samples_deinit(&s);
}

static void many_samples_are_kept(void **state)
{
    (void)state;
    struct lf_samples s = {0};
    for (int i = 0; i < 10000; i++) assert_int_equal(lf_samples_add(&s, i % 7), LF_OK);
    assert_int_equal(s.n, 10000);
    assert_true(lf_samples_percentile(&s, 100) == 6);
    lf_samples_deinit(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_samples_by_nearest_rank),
        cmocka_unit_test(many_samples_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
