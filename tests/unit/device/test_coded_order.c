#include "tests/support/test.h"

#include <math.h>

#include "core/check.h"
#include "core/quant.h"
#include "device/cuda/coded_order.h"

static const struct lf_format formats[] = {
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 128, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 64, .group_rows = 1, .zeros = true},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 32, .group_rows = 1, .zeros = true},
    {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 0, .group_rows = 1},
    {.dtype = LF_BF16, .code = LF_CODE_E2M1, .group = 32, .group_rows = 1},
};
enum { N_IN = 1000, GROUPS_MOST = 32, BLOCK_GROUPS = 4 };

static uint32_t random_bits(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* A random row, and its blocks packed and unpacked: the values that the canonical row has. */
static void check_row(const struct lf_format *f, uint64_t *seed)
{
    uint8_t codes[N_IN], zeros[GROUPS_MOST];
    float scales[GROUPS_MOST], want[N_IN], got[N_IN];
    struct lf_quant_rows row = {codes, scales, f->zeros ? zeros : NULL};
    for (int k = 0; k < N_IN; k++) codes[k] = random_bits(seed) % 16;
    for (int g = 0; g < GROUPS_MOST; g++) {
        float mantissa = f->code == LF_CODE_E2M1 ? 1.0f : 1.0f + (float)(random_bits(seed) % 128) / 128.0f;
        scales[g] = ldexpf(mantissa, (int)(random_bits(seed) % 20) - 15);
        zeros[g] = (uint8_t)(random_bits(seed) % 17);
    }
    lf_dequantize_rows(f, 1, N_IN, &row, want);
    for (int b = 0; b * LF_CODED_BLOCK_K < N_IN; b++) {
        uint8_t packed[LF_CODED_ROW_BYTES], block_scales[2 * BLOCK_GROUPS], block_zeros[BLOCK_GROUPS];
        int k = b * LF_CODED_BLOCK_K, n = LF_MIN(LF_CODED_BLOCK_K, N_IN - k);
        lf_coded_pack_codes(f, codes + k, n, packed);
        lf_coded_pack_scales(f, N_IN, LF_BF16, b, scales, block_scales);
        if (f->zeros) lf_coded_pack_zeros(f, N_IN, b, zeros, block_zeros);
        lf_coded_unpack(f, LF_BF16, n, packed, block_scales, f->zeros ? block_zeros : NULL, got + k);
    }
    assert_memory_equal(got, want, sizeof want);
}

static void unpacking_is_the_inverse_of_packing(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++)
        for (int times = 0; times < 50; times++) check_row(&formats[i], &seed);
}

/* A word has a bit for each bit of its eight codes, and none twice. */
static void a_word_of_e2m1_has_all_bits(void **state)
{
    (void)state;
    uint32_t all = 0;
    for (int i = 0; i < 32; i++) {
        uint8_t codes[8] = {0};
        codes[i / 4] = (uint8_t)(1 << i % 4);
        uint32_t bit = lf_e2m1_word(codes);
        assert_true(bit != 0 && (bit & (bit - 1)) == 0 && (all & bit) == 0);
        all |= bit;
    }
    assert_int_equal(all, 0xffffffffu);
}

/* The first pair lies where a bf16 has sign, exponent and mantissa: a GPU cuts it out with a mask. */
static void the_first_pair_needs_no_shift(void **state)
{
    (void)state;
    const uint8_t codes[8] = {15, 15};
    assert_int_equal(lf_e2m1_word(codes), 0x81c081c0u);
}

static void scales_of_e2m1_keep_their_exponent_and_stay_in_range(void **state)
{
    (void)state;
    for (int e = -77; e <= 49; e++) assert_int_equal(lf_e2m1_scale_byte(ldexpf(1.0f, e)), e + 253 - LF_E2M1_SHIFT);
    assert_int_equal(lf_e2m1_scale_byte(ldexpf(1.0f, -127)), lf_e2m1_scale_byte(ldexpf(1.0f, -77)));
    assert_int_equal(lf_e2m1_scale_byte(ldexpf(1.0f, 127)), lf_e2m1_scale_byte(ldexpf(1.0f, 49)));
}

static void sizes_are_of_whole_runs_and_blocks(void **state)
{
    (void)state;
    struct lf_coded_order o = lf_coded_order_of(&formats[1], 17, N_IN);
    assert_int_equal(o.n_runs, 3);
    assert_int_equal(o.n_blocks, 8);
    assert_int_equal(o.scales_at, 3 * 8 * LF_CODED_BLOCK_BYTES);
    assert_int_equal(o.zeros_at, o.scales_at + 3 * 8 * 8 * 2 * 2);
    assert_int_equal(o.bytes, o.zeros_at + 3 * 8 * 8 * 2);
    const struct lf_format blocks = {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128};
    o = lf_coded_order_of(&blocks, 300, 272);
    assert_int_equal(o.scales_at, 81664); /* 300 · 272, rounded up to 256 */
    assert_int_equal(o.bytes, o.scales_at + 3 * 3 * sizeof(float));
}

static void formats_without_an_order_are_told(void **state)
{
    (void)state;
    struct lf_format f = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 48, .group_rows = 1};
    assert_false(lf_coded_order_has(&f, 960));
    f.group = 64;
    assert_true(lf_coded_order_has(&f, 960));
    assert_false(lf_coded_order_has(&f, 964));
    f.group_rows = 2;
    assert_false(lf_coded_order_has(&f, 960));
    f = (struct lf_format){.dtype = LF_BF16, .code = LF_CODE_I8, .group_rows = 1};
    assert_false(lf_coded_order_has(&f, 960));
    f = (struct lf_format){.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128};
    assert_true(lf_coded_order_has(&f, 960));
    assert_false(lf_coded_order_has(&f, 968));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unpacking_is_the_inverse_of_packing),
        cmocka_unit_test(a_word_of_e2m1_has_all_bits),
        cmocka_unit_test(the_first_pair_needs_no_shift),
        cmocka_unit_test(scales_of_e2m1_keep_their_exponent_and_stay_in_range),
        cmocka_unit_test(sizes_are_of_whole_runs_and_blocks),
        cmocka_unit_test(formats_without_an_order_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
