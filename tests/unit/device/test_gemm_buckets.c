#include "tests/support/test.h"

#include "core/check.h"
#include "device/cuda/gemm_buckets.h"

static void buckets_rise_by_a_third_to_a_half(void **state)
{
    (void)state;
    static const int first[] = {2, 3, 4, 6, 8, 12, 16, 24};
    for (size_t i = 0; i < LF_N_ELEMS(first); i++) assert_int_equal(lf_gemm_bucket_tokens((int)i), first[i]);
    for (int b = 1; b < LF_GEMM_BUCKETS_N; b++) {
        int low = lf_gemm_bucket_tokens(b - 1), high = lf_gemm_bucket_tokens(b);
        assert_true(high > low && 2 * high <= 3 * low);
    }
    assert_int_equal(lf_gemm_bucket_tokens(LF_GEMM_BUCKETS_N - 1), 3 << 20);
}

static void a_bucket_is_the_smallest_with_room(void **state)
{
    (void)state;
    for (int n = 1; n < 100000; n++) {
        int b = lf_gemm_bucket_of(n);
        assert_true(lf_gemm_bucket_tokens(b) >= n);
        assert_true(b == 0 || lf_gemm_bucket_tokens(b - 1) < n);
    }
    assert_int_equal(lf_gemm_bucket_of(3 << 20), LF_GEMM_BUCKETS_N - 1);
    assert_int_equal(lf_gemm_bucket_of(INT32_MAX), LF_GEMM_BUCKETS_N - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_rise_by_a_third_to_a_half),
        cmocka_unit_test(a_bucket_is_the_smallest_with_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
