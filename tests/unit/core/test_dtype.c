#include "tests/support/test.h"

#include <math.h>

#include "core/dtype.h"

static void every_half_survives_the_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = lf_f32_from_f16((uint16_t)h), b = lf_f32_from_bf16((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(lf_f32_from_f16(lf_f16_from_f32(f))));
        else if (lf_f16_from_f32(f) != h)
            fail_msg("f16 %04x", h);
        if (isnan(b))
            assert_true(isnan(lf_f32_from_bf16(lf_bf16_from_f32(b))));
        else if (lf_bf16_from_f32(b) != h)
            fail_msg("bf16 %04x", h);
    }
}

/* Between two neighbouring halves: below the middle rounds down, above up, the middle to the even one. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (uint16_t h = 0; h < 0x7bff; h++) {
        double lo = (double)lf_f32_from_f16(h), hi = (double)lf_f32_from_f16((uint16_t)(h + 1));
        float mid = (float)((lo + hi) / 2);
        assert_int_equal(lf_f16_from_f32(mid), h % 2 ? h + 1 : h);
        assert_int_equal(lf_f16_from_f32(nextafterf(mid, 0)), h);
        assert_int_equal(lf_f16_from_f32(nextafterf(mid, 1e6F)), h + 1);
    }
    for (uint16_t h = 0; h < 0x7f7f; h = (uint16_t)(h + 1)) {
        double lo = (double)lf_f32_from_bf16(h), hi = (double)lf_f32_from_bf16((uint16_t)(h + 1));
        float mid = (float)((lo + hi) / 2);
        assert_int_equal(lf_bf16_from_f32(mid), h % 2 ? h + 1 : h);
        if (h) assert_int_equal(lf_bf16_from_f32(nextafterf(mid, 0)), h);
    }
    assert_int_equal(lf_f16_from_f32(65520.0F), 0x7c00); /* rounds to infinity */
    assert_int_equal(lf_f16_from_f32(65519.0F), 0x7bff);
}

static void arrays_convert_at_odd_addresses(void **state)
{
    (void)state;
    unsigned char bytes[9] = {0};
    uint16_t one = lf_bf16_from_f32(1.5F);
    for (size_t i = 0; i < 4; i++) memcpy(bytes + 1 + 2 * i, &one, 2);
    float out[4];
    lf_to_f32(out, bytes + 1, LF_BF16, 4);
    for (int i = 0; i < 4; i++) assert_true(out[i] == 1.5F);
    uint16_t back[4];
    lf_from_f32(back, LF_F16, out, 4);
    lf_to_f32(out, back, LF_F16, 4);
    assert_true(out[3] == 1.5F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_survives_the_round_trip),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(arrays_convert_at_odd_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
