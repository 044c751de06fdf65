/* server/engine/quota.c: tokens a minute. */
#include "tests/support/test.h"

#include <math.h>

#include "core/clock.h"
#include "server/engine/quota.h"

enum { ANNA = 7, BERTA = 8, PER_MINUTE = 600 };
#define SECOND LF_NS_PER_S

static struct lf_quotas quotas;

static int set_up(void **state)
{
    (void)state;
    quotas.n = 0;
    return 0;
}

/* 0: allowed, else the seconds to wait. */
static int wait_s(uint64_t tenant, int64_t now_ns)
{
    int s = 0;
    return lf_quota_allows(&quotas, tenant, PER_MINUTE, now_ns, &s) ? 0 : s;
}

static void a_minutes_worth_is_let_in_and_then_paid_off(void **state)
{
    (void)state;
    assert_int_equal(wait_s(ANNA, 0), 0);
    assert_int_equal(quotas.n, 0); /* to ask makes no account */
    lf_quota_charge(&quotas, ANNA, PER_MINUTE, 599, 0);
    assert_int_equal(wait_s(ANNA, 0), 0);
    lf_quota_charge(&quotas, ANNA, PER_MINUTE, 1, 0);
    assert_int_equal(wait_s(ANNA, 0), 1); /* ten tokens a second */
    assert_int_equal(wait_s(ANNA, 1), 0);
    lf_quota_charge(&quotas, ANNA, PER_MINUTE, 95, 0);
    assert_int_equal(wait_s(ANNA, 0), 10);
    assert_int_equal(wait_s(ANNA, 9 * SECOND), 1);
    assert_int_equal(wait_s(ANNA, 10 * SECOND), 0);
    assert_int_equal(wait_s(BERTA, 0), 0);
}

/* A text of any length is read once, and over ten minutes it is no more than a tenth of a rate ten times as high. */
static void what_is_longer_than_a_minute_is_let_in_once(void **state)
{
    (void)state;
    int64_t now_ns = 0, n_had = 0;
    for (; now_ns < 600 * SECOND; now_ns += SECOND) {
        if (wait_s(ANNA, now_ns) > 0) continue;
        lf_quota_charge(&quotas, ANNA, PER_MINUTE, 2000, now_ns);
        n_had += 2000;
    }
    assert_true(n_had >= 10 * PER_MINUTE && n_had <= 10 * PER_MINUTE + PER_MINUTE + 2000);
}

static void what_was_charged_too_much_comes_back_and_no_more(void **state)
{
    (void)state;
    lf_quota_charge(&quotas, ANNA, PER_MINUTE, 1000, 0);
    lf_quota_charge(&quotas, ANNA, PER_MINUTE, -900, 0);
    assert_true(fabs(lf_quota_owed(&quotas, ANNA, 0) - 100) < 1e-6);
    lf_quota_charge(&quotas, ANNA, PER_MINUTE, -900, 0);
    assert_true(lf_quota_owed(&quotas, ANNA, 0) == 0); /* nothing can be saved up */
    assert_true(lf_quota_owed(&quotas, ANNA, 3600 * SECOND) == 0);
}

static void another_rate_holds_from_the_next_charge_on(void **state)
{
    (void)state;
    int s = 0;
    lf_quota_charge(&quotas, ANNA, PER_MINUTE, 1200, 0);
    assert_true(lf_quota_allows(&quotas, ANNA, 2000, 0, &s));
    assert_false(lf_quota_allows(&quotas, ANNA, 60, 0, &s));
    assert_int_equal(s, 1141);
    lf_quota_charge(&quotas, ANNA, 60, 0, 0);
    assert_true(fabs(lf_quota_owed(&quotas, ANNA, 60 * SECOND) - 1140) < 1e-6);
}

static void of_too_many_the_one_that_owes_least_is_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < LF_API_KEYS_N; i++)
        lf_quota_charge(&quotas, 100 + (uint64_t)i, PER_MINUTE, i == 5 ? 10 : 1000 + i, 0);
    assert_int_equal(quotas.n, LF_API_KEYS_N);
    lf_quota_charge(&quotas, ANNA, PER_MINUTE, 700, 0);
    assert_int_equal(quotas.n, LF_API_KEYS_N);
    assert_true(lf_quota_owed(&quotas, ANNA, 0) == 700);
    assert_true(lf_quota_owed(&quotas, 105, 0) == 0);
    assert_true(lf_quota_owed(&quotas, 104, 0) == 1004);
    assert_true(lf_quota_owed(&quotas, 106, 0) == 1006);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_minutes_worth_is_let_in_and_then_paid_off, set_up),
        cmocka_unit_test_setup(what_is_longer_than_a_minute_is_let_in_once, set_up),
        cmocka_unit_test_setup(what_was_charged_too_much_comes_back_and_no_more, set_up),
        cmocka_unit_test_setup(another_rate_holds_from_the_next_charge_on, set_up),
        cmocka_unit_test_setup(of_too_many_the_one_that_owes_least_is_forgotten, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
