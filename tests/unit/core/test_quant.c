#include "tests/support/test.h"

#include <math.h>

#include "core/mix.h"
#include "core/quant.h"

enum { MOST_ROWS = 5, MOST_IN = 300 };

/* Random floats of many sizes, one of them the largest of its row. */
static void fill(float *rows, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        uint64_t bits = lf_mix64(seed + (uint64_t)i);
        rows[i] = ldexpf((float)(int32_t)(uint32_t)bits, -33 - (int)(bits >> 60));
    }
}

static void every_fp8_code_survives_the_round_trip(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        float f = lf_code_number(LF_CODE_E4M3, (uint8_t)c);
        if ((c & 0x7f) == 0x7f)
            assert_true(isnan(f) && (lf_e4m3_from_f32(f) & 0x7f) == 0x7f);
        else
            assert_int_equal(lf_e4m3_from_f32(f), c);
    }
    assert_true(lf_code_number(LF_CODE_E4M3, 0x01) == 0x1p-9F);
    assert_true(lf_code_number(LF_CODE_E4M3, 0x08) == 0x1p-6F);
    assert_true(lf_code_number(LF_CODE_E4M3, 0x38) == 1);
    assert_true(lf_code_number(LF_CODE_E4M3, 0xfe) == -448);
}

/* Between two neighbours: below the middle rounds down, above up, the middle to the even one. */
static void fp8_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint8_t c = 0; c < 0x7e; c++) {
        float low = lf_code_number(LF_CODE_E4M3, c), high = lf_code_number(LF_CODE_E4M3, (uint8_t)(c + 1));
        float middle = (low + high) / 2;
        assert_int_equal(lf_e4m3_from_f32(middle), c + c % 2);
        assert_int_equal(lf_e4m3_from_f32(nextafterf(middle, 0)), c);
        assert_int_equal(lf_e4m3_from_f32(-nextafterf(middle, 1000)), 0x80 | (c + 1));
    }
    assert_int_equal(lf_e4m3_from_f32(1e30F), 0x7e);
    assert_int_equal(lf_e4m3_from_f32(-INFINITY), 0xfe);
}

static void four_bit_floats_are_those_of_the_standard(void **state)
{
    (void)state;
    static const float values[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    for (int c = 0; c < 16; c++)
        assert_true(lf_code_number(LF_CODE_E2M1, (uint8_t)c) == (c < 8 ? values[c] : -values[c - 8]));
    assert_true(signbit(lf_code_number(LF_CODE_E2M1, 8)));
}

/* Half a step between neighbouring codes, where a value of that size stands. */
static float half_step(enum lf_code code, float value, float scale)
{
    if (code != LF_CODE_E4M3) return fabsf(scale) / 2;
    return fabsf(scale) * ldexpf(1, (int)fmaxf(floorf(log2f(fabsf(value / scale))), -6) - 4);
}

/* -8 stands for an element of the largest magnitude, for the first where two differ in sign alone. */
static void int4_has_its_ends_where_the_largest_is(void **state)
{
    (void)state;
    static const struct {
        float row[4], scale;
    } cases[] = {
        {{1, 4, -3, 0}, -0.5F}, {{1, -4, 3, 0}, 0.5F}, {{1, 4, -4, 0}, -0.5F}, {{1, -4, 4, 0}, 0.5F}, {{0}, 1}};
    struct lf_format f = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 4, .group_rows = 1};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t codes[4];
        float scale;
        assert_true(lf_quantize_rows(&f, 1, 4, cases[i].row, codes, &scale));
        assert_true(scale == cases[i].scale);
    }
}

static void check_format(const struct lf_format *f, int n_rows, int n_in)
{
    static float rows[MOST_ROWS * MOST_IN], back[MOST_ROWS * MOST_IN], scales[MOST_ROWS * MOST_IN];
    static uint8_t codes[MOST_ROWS * MOST_IN];
    int n_groups = lf_format_n_groups(f, n_in), group = lf_format_group(f, n_in);
    fill(rows, n_rows * n_in, (uint64_t)(n_rows + n_in));
    assert_true(lf_quantize_rows(f, n_rows, n_in, rows, codes, scales));
    struct lf_quant_rows src = {.codes = codes, .scales = scales};
    lf_dequantize_rows(f, n_rows, n_in, &src, back);
    for (int i = 0; i < n_rows * n_in; i++) {
        int r = i / n_in, g = i % n_in / group;
        float scale = scales[r * n_groups + g];
        assert_true(scale == scales[r / f->group_rows * f->group_rows * n_groups + g]);
        assert_true(lf_f32_from_bf16(lf_bf16_from_f32(scale)) == scale);
        float most = half_step(f->code, rows[i], scale) * 1.0001F;
        if (fabsf(back[i] - rows[i]) > most) fail_msg("%d: %g became %g", i, (double)rows[i], (double)back[i]);
    }
}

static void values_come_back_within_half_a_step(void **state)
{
    (void)state;
    static const struct lf_format formats[] = {
        {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group_rows = 1},
        {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128},
        {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 32, .group_rows = 2},
        {.dtype = LF_BF16, .code = LF_CODE_I8, .group_rows = 1},
        {.dtype = LF_BF16, .code = LF_CODE_I8, .group = 64, .group_rows = 1},
    };
    static const int widths[] = {1, 31, 32, 33, 64, 129, MOST_IN};
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++)
            for (int n = 1; n <= MOST_ROWS; n++) check_format(&formats[i], n, widths[w]);
}

/* By int4 the largest magnitude is -8 steps; what is as large on the other side is one step short. */
static void int4_uses_all_of_its_codes(void **state)
{
    (void)state;
    const struct lf_format f = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 4, .group_rows = 1};
    const float rows[8] = {1, -2, 0.25F, 1.9F, 4, -4, 0.5F, -0.24F};
    uint8_t codes[8];
    float scales[2], back[8];
    assert_true(lf_quantize_rows(&f, 1, 8, rows, codes, scales));
    assert_true(scales[0] == 0.25F && scales[1] == -0.5F);
    const uint8_t expected[8] = {12, 0, 9, 15, 0, 15, 7, 8};
    assert_memory_equal(codes, expected, 8);
    lf_dequantize_rows(&f, 1, 8, &(struct lf_quant_rows){.codes = codes, .scales = scales}, back);
    const float values[8] = {1, -2, 0.25F, 1.75F, 4, -3.5F, 0.5F, 0};
    for (int i = 0; i < 8; i++) assert_true(back[i] == values[i]);
}

static void zero_points_are_taken_off(void **state)
{
    (void)state;
    const struct lf_format f = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 2, .group_rows = 1, .zeros = true};
    const uint8_t codes[4] = {0, 15, 3, 4}, zeros[2] = {16, 3};
    const float scales[2] = {0.5F, 2};
    float out[4];
    lf_dequantize_rows(&f, 1, 4, &(struct lf_quant_rows){codes, scales, zeros}, out);
    assert_true(out[0] == -8 && out[1] == -0.5F && out[2] == 0 && out[3] == 2);
}

static void a_group_of_zeros_stays_zero(void **state)
{
    (void)state;
    static const enum lf_code all[] = {LF_CODE_E4M3, LF_CODE_I8, LF_CODE_I4};
    const float rows[4] = {0, -0.0F, 0, 0};
    for (int i = 0; i < 3; i++) {
        struct lf_format f = {.dtype = LF_BF16, .code = all[i], .group_rows = 1};
        uint8_t codes[4];
        float scale, back[4];
        assert_true(lf_quantize_rows(&f, 1, 4, rows, codes, &scale));
        assert_true(scale == 1);
        lf_dequantize_rows(&f, 1, 4, &(struct lf_quant_rows){.codes = codes, .scales = &scale}, back);
        for (int k = 0; k < 4; k++) assert_true(back[k] == 0);
    }
}

static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int at = 0; at < 3; at++) {
        for (int i = 0; i < 4; i++) {
            struct lf_format f = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 2, .group_rows = 1};
            float rows[3] = {1, 2, 3}, scales[2];
            uint8_t codes[3];
            rows[at] = bad[i];
            assert_false(lf_quantize_rows(&f, 1, 3, rows, codes, scales));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int4_has_its_ends_where_the_largest_is),
        cmocka_unit_test(every_fp8_code_survives_the_round_trip),
        cmocka_unit_test(fp8_rounds_to_nearest_even),
        cmocka_unit_test(four_bit_floats_are_those_of_the_standard),
        cmocka_unit_test(values_come_back_within_half_a_step),
        cmocka_unit_test(int4_uses_all_of_its_codes),
        cmocka_unit_test(zero_points_are_taken_off),
        cmocka_unit_test(a_group_of_zeros_stays_zero),
        cmocka_unit_test(what_is_not_finite_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
