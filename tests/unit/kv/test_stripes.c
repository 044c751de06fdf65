/* Which tokens of a sequence a stripe has, against counting them. */
#include "tests/support/test.h"

#include "kv/kv_view.h"

enum { P = LF_KV_BLOCK_TOKENS, LENGTH = 11 * P };

static void one_stripe_has_all(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        struct lf_kv_stripe all = {.n = n};
        assert_int_equal(lf_kv_block_tokens(n), P);
        for (int p = 0; p < LENGTH; p++) {
            assert_true(lf_kv_stripe_has(all, p));
            assert_int_equal(lf_kv_stripe_tokens(all, p), p);
        }
        assert_int_equal(lf_kv_stripe_tokens(all, INT32_MAX), INT32_MAX);
    }
}

static void a_position_is_in_one_stripe(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++)
        for (int p = 0; p < LENGTH; p++) {
            int owner = p / P % n, owners = 0;
            for (int i = 0; i < n; i++) {
                bool has = lf_kv_stripe_has((struct lf_kv_stripe){.idx = i, .n = n}, p);
                assert_true(has == (i == owner));
                owners += has;
            }
            assert_int_equal(owners, 1);
        }
}

/* Each token's place is the next one behind that of the token before it, and in the block that all stripes have for the
 * position. */
static void tokens_of_a_stripe_lie_one_behind_the_other(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++)
        for (int i = 0; i < n; i++) {
            struct lf_kv_stripe stripe = {.idx = i, .n = n};
            int counted = 0;
            for (int p = 0; p < LENGTH; p++) {
                assert_int_equal(lf_kv_stripe_tokens(stripe, p), counted);
                if (!lf_kv_stripe_has(stripe, p)) continue;
                assert_int_equal(counted / P, p / lf_kv_block_tokens(n));
                assert_int_equal(counted % P, p % P);
                counted++;
            }
        }
}

static void no_stripe_has_a_page_more_than_another(void **state)
{
    (void)state;
    for (int n = 2; n <= LF_RANKS_N; n++)
        for (int len = 0; len < LENGTH; len++) {
            int first = lf_kv_stripe_tokens((struct lf_kv_stripe){.n = n}, len), sum = 0;
            for (int i = 0; i < n; i++) {
                int tokens = lf_kv_stripe_tokens((struct lf_kv_stripe){.idx = i, .n = n}, len);
                assert_in_range(first - tokens, 0, P);
                sum += tokens;
            }
            assert_int_equal(sum, len);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stripe_has_all),
        cmocka_unit_test(a_position_is_in_one_stripe),
        cmocka_unit_test(tokens_of_a_stripe_lie_one_behind_the_other),
        cmocka_unit_test(no_stripe_has_a_page_more_than_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
