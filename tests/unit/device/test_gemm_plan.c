#include "tests/support/test.h"

#include "core/check.h"
#include "device/cuda/gemm_plan.h"

static void buckets_rise_by_a_third_to_a_half(void **state)
{
    (void)state;
    static const int first[] = {2, 3, 4, 6, 8, 12, 16, 24};
    for (size_t i = 0; i < LF_N_ELEMS(first); i++) assert_int_equal(lf_gemm_bucket_rows((int)i), first[i]);
    for (int b = 1; b < LF_GEMM_BUCKETS_N; b++) {
        int low = lf_gemm_bucket_rows(b - 1), high = lf_gemm_bucket_rows(b);
        assert_true(high > low && 2 * high <= 3 * low);
    }
    assert_int_equal(lf_gemm_bucket_rows(LF_GEMM_BUCKETS_N - 1), 3 << 20);
}

static void a_bucket_is_the_smallest_with_room(void **state)
{
    (void)state;
    for (int n = 1; n < 100000; n++) {
        int b = lf_gemm_bucket_of(n);
        assert_true(lf_gemm_bucket_rows(b) >= n);
        assert_true(b == 0 || lf_gemm_bucket_rows(b - 1) < n);
    }
    assert_int_equal(lf_gemm_bucket_of(3 << 20), LF_GEMM_BUCKETS_N - 1);
    assert_int_equal(lf_gemm_bucket_of(INT32_MAX), LF_GEMM_BUCKETS_N - 1);
}

/* Weight rows of the block that has most. */
static int64_t most_rows(int n_out, int n_blocks, int tile_rows)
{
    int64_t n_tiles = ((int64_t)n_out + tile_rows - 1) / tile_rows;
    return (n_tiles + n_blocks - 1) / n_blocks * tile_rows;
}

static void tiles_of_the_skinny_product_fit_the_shape(void **state)
{
    (void)state;
    /* an 8B shape on 132 multiprocessors */
    static const int n_outs[] = {6144, 4096, 28672, 128256}, for_16[] = {16, 16, 32, 32};
    for (size_t i = 0; i < LF_N_ELEMS(n_outs); i++) {
        for (int n_rows = 1; n_rows <= 8; n_rows++) assert_int_equal(lf_gemv_tile_rows(n_rows, n_outs[i], 132), 16);
        assert_int_equal(lf_gemv_tile_rows(9, n_outs[i], 132), for_16[i]);
        assert_int_equal(lf_gemv_tile_rows(16, n_outs[i], 132), for_16[i]);
    }
    for (int n_blocks = 1; n_blocks <= 160; n_blocks += 3) {
        for (int n_out = 1; n_out < 40000; n_out += 37) {
            int rows = lf_gemv_tile_rows(16, n_out, n_blocks);
            assert_true(rows == 16 || rows == 32);
            assert_true(rows == 16 || n_out > 32 * (n_blocks - 1)); /* a tile for every block */
            assert_true(most_rows(n_out, n_blocks, rows) * 50 <= most_rows(n_out, n_blocks, 16) * 51);
        }
    }
    /* a tile of 32 for each block exactly, the last of them with one row, and one too few */
    assert_int_equal(lf_gemv_tile_rows(16, 132 * 32, 132), 32);
    assert_int_equal(lf_gemv_tile_rows(16, 131 * 32 + 1, 132), 32);
    assert_int_equal(lf_gemv_tile_rows(16, 131 * 32, 132), 16);
    assert_int_equal(lf_gemv_tile_rows(16, INT32_MAX, 1), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_rise_by_a_third_to_a_half),
        cmocka_unit_test(a_bucket_is_the_smallest_with_room),
        cmocka_unit_test(tiles_of_the_skinny_product_fit_the_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
