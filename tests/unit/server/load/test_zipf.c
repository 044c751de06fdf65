#include "tests/support/test.h"

#include <math.h>

#include "core/mix.h"
#include "server/load/zipf.h"

/* Of a million draws the shares are those of the definition, to a tenth of a percent. */
static void things_are_chosen_as_often_as_is_said(void **state)
{
    (void)state;
    static const double exponents[] = {0, 0.7, 1, 2};
    for (int e = 0; e < 4; e++) {
        struct lf_zipf zipf;
        int n_chosen[5] = {0};
        double sum = 0;
        assert_int_equal(lf_zipf_init(&zipf, 5, exponents[e]), LF_OK);
        for (uint64_t i = 0; i < 1000000; i++) n_chosen[lf_zipf_choose(&zipf, lf_random64(9, i))]++;
        for (int i = 0; i < 5; i++) sum += pow(i + 1, -exponents[e]);
        for (int i = 0; i < 5; i++) {
            double expected = pow(i + 1, -exponents[e]) / sum;
            assert_true(fabs(n_chosen[i] / 1e6 - expected) < 0.002);
        }
        lf_zipf_deinit(&zipf);
    }
}

static void any_bits_choose_a_thing_that_there_is(void **state)
{
    (void)state;
    struct lf_zipf zipf;
    assert_int_equal(lf_zipf_init(&zipf, 10000, 8), LF_OK);
    assert_int_equal(lf_zipf_choose(&zipf, 0), 0);
    assert_in_range(lf_zipf_choose(&zipf, UINT64_MAX), 0, 9999);
    lf_zipf_deinit(&zipf);
    assert_int_equal(lf_zipf_init(&zipf, 10000, 0), LF_OK);
    assert_int_equal(lf_zipf_choose(&zipf, UINT64_MAX), 9999);
    lf_zipf_deinit(&zipf);
    lf_zipf_deinit(&zipf);
    assert_int_equal(lf_zipf_init(&zipf, 1, 1), LF_OK);
    assert_int_equal(lf_zipf_choose(&zipf, UINT64_MAX), 0);
    lf_zipf_deinit(&zipf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(things_are_chosen_as_often_as_is_said),
        cmocka_unit_test(any_bits_choose_a_thing_that_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
