/* Expanding canonical rows: as core/quant.h does it, rounded once. */
#include "core/check.h"
#include "core/mix.h"
#include "core/quant.h"
#include "model/formats/packing.h"
#include "tests/support/test.h"

enum { ROWS = 5, MAX_IN = 200, GUARD = 8 };

static void check(struct lf_format f, int n_in, uint64_t seed)
{
    static uint8_t codes[ROWS * MAX_IN], zeros[ROWS * MAX_IN];
    static float scales[ROWS * MAX_IN], want[ROWS * MAX_IN], wide[MAX_IN];
    static char out[ROWS * MAX_IN * 4 + GUARD], expected[sizeof(out)];
    uint8_t mask = f.code == LF_CODE_I4 || f.code == LF_CODE_E2M1 ? 15 : 255;
    for (size_t i = 0; i < sizeof(codes); i++) codes[i] = (uint8_t)lf_random64(seed, i) & mask;
    for (size_t i = 0; i < sizeof(zeros); i++) zeros[i] = (uint8_t)lf_random64(seed + 1, i) % 17;
    for (size_t i = 0; i < LF_N_ELEMS(scales); i++)
        scales[i] = (float)(int)(lf_random64(seed + 2, i) % 2001 - 1000) * 1e-4f;
    struct lf_quant_rows rows = {codes, scales, f.zeros ? zeros : NULL};
    size_t n = (size_t)ROWS * (size_t)n_in, n_bytes = n * lf_dtype_bytes(f.dtype);
    lf_dequantize_rows(&f, ROWS, n_in, &rows, want);
    memset(out, 0x5a, sizeof(out));
    memset(expected, 0x5a, sizeof(expected));
    lf_from_f32(expected, f.dtype, want, n);
    lf_expand_rows(&f, ROWS, n_in, &rows, out, wide);
    assert_memory_equal(out, expected, n_bytes + GUARD);
}

static void rows_are_expanded_as_the_reference_does_it(void **state)
{
    (void)state;
    static const enum lf_code codes[] = {LF_CODE_E4M3, LF_CODE_I8, LF_CODE_I4, LF_CODE_E2M1};
    static const int groups[] = {0, 1, 16, 32, 64, 128}, widths[] = {1, 7, 32, 100, 128, 200};
    for (int c = 0; c < 4; c++)
        for (int g = 0; g < 6; g++)
            for (int w = 0; w < 6; w++)
                for (int zeros = 0; zeros < (codes[c] == LF_CODE_I4 ? 2 : 1); zeros++)
                    for (int t = 0; t < 3; t++) {
                        struct lf_format f = {.dtype = (enum lf_dtype)t,
                                              .code = codes[c],
                                              .group = groups[g],
                                              .group_rows = 1,
                                              .zeros = zeros == 1};
                        check(f, widths[w], (uint64_t)(c * 1000 + g * 100 + w * 10 + t));
                    }
}

/* Which no kernel has, so the reference says nothing of them. */
static void codes_of_eight_bits_have_zero_points_too(void **state)
{
    (void)state;
    const uint8_t codes[] = {0, 127, 128, 255}, zeros[] = {(uint8_t)-3, 100};
    const float scales[] = {0.5f, 2}, want[] = {1.5f, 65, -456, -202};
    const struct lf_format f = {.dtype = LF_F32, .code = LF_CODE_I8, .group = 2, .group_rows = 1, .zeros = true};
    const struct lf_quant_rows rows = {codes, scales, zeros};
    float out[4], wide[4];
    lf_expand_rows(&f, 1, 4, &rows, out, wide);
    assert_memory_equal(out, want, sizeof(want));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_expanded_as_the_reference_does_it),
                                       cmocka_unit_test(codes_of_eight_bits_have_zero_points_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
