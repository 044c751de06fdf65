/* The FP8 of a KV cache: codes and scales of one token's head, by the definition and at its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>

#include "core/check.h"
#include "core/mix.h"
#include "kv/kv_fp8.h"

enum { DIM = 128 };

/* A float of any bits with the exponent within [from, to). */
static float any_float(uint64_t *seed, int from, int to)
{
    *seed = lf_mix64(*seed + 1);
    float mantissa = 1.0f + (float)(*seed >> 41) * 0x1p-23f;
    int exponent = from + (int)((*seed >> 8) % (uint64_t)(to - from));
    return ldexpf(*seed & 1 ? -mantissa : mantissa, exponent);
}

/* Of a finite head, by its definition, in double. */
static int exponent_of(const float *x, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
    int e = LF_KV_FP8_LEAST;
    while (e < LF_KV_FP8_MOST && most > ldexp(448, e)) e++;
    return e;
}

/* The nearest code to x · 2^-e, the even one of two that are as near. */
static uint8_t nearest(float x, int e)
{
    double magnitude = ldexp(fabs((double)x), -e), best = INFINITY;
    uint8_t code = 0;
    for (int c = 0; c < 0x7f; c++) { /* which is NaN */
        double off = fabs((double)lf_code_number(LF_CODE_E4M3, (uint8_t)c) - magnitude);
        if (off > best || (off == best && c % 2 != 0)) continue;
        best = off;
        code = (uint8_t)c;
    }
    return (uint8_t)(code | (signbit(x) ? 0x80 : 0));
}

static void expect_head(const float *x, int n)
{
    uint8_t codes[DIM];
    uint8_t scale = lf_kv_fp8_quantize(codes, x, n);
    int e = exponent_of(x, n);
    assert_int_equal(scale, e + LF_KV_FP8_BIAS);
    for (int i = 0; i < n; i++) assert_int_equal(codes[i], nearest(x[i], e));
}

static void codes_are_the_nearest_under_the_smallest_power_that_holds_the_head(void **state)
{
    (void)state;
    static const int ranges[][2] = {{-6, 6}, {-30, 3}, {-126, -90}, {100, 128}, {-20, -2}, {8, 9}};
    uint64_t seed = 7;
    for (size_t k = 0; k < LF_N_ELEMS(ranges); k++) {
        for (int round = 0; round < 50; round++) {
            float x[DIM];
            for (int i = 0; i < DIM; i++) x[i] = any_float(&seed, ranges[k][0], ranges[k][1]);
            expect_head(x, 2 + round * 2);
        }
    }
}

static void a_head_at_the_edge_of_a_power_keeps_it_and_one_step_more_takes_the_next(void **state)
{
    (void)state;
    for (int e = LF_KV_FP8_LEAST; e < LF_KV_FP8_MOST; e++) {
        uint8_t codes[2];
        float edge[2] = {ldexpf(448, e), 0}, more[2] = {nextafterf(edge[0], INFINITY), 0};
        assert_int_equal(lf_kv_fp8_quantize(codes, edge, 2), e + LF_KV_FP8_BIAS);
        assert_int_equal(codes[0], 0x7e);
        assert_int_equal(lf_kv_fp8_quantize(codes, more, 2), e + 1 + LF_KV_FP8_BIAS);
        assert_int_equal(codes[0], 0x76); /* 224 */
    }
}

static void zeros_and_the_smallest_floats_have_the_least_power_and_codes_of_zero(void **state)
{
    (void)state;
    float x[4] = {0, -0.0f, 0x1p-149f, -0x1p-112f};
    uint8_t codes[4], zeros[4] = {0, 0x80, 0, 0x80};
    assert_int_equal(lf_kv_fp8_quantize(codes, x, 4), 27);
    assert_memory_equal(codes, zeros, 4);
    expect_head(x, 4);
}

static void ties_go_to_the_even_code(void **state)
{
    (void)state;
    float x[10] = {448, 1.0625f, 1.1875f, 17, 19, 0x1p-10f, 3 * 0x1p-10f, -17, 0.5f * 0x1p-10f, 5 * 0x1p-10f};
    uint8_t codes[10], expected[10] = {0x7e, 0x38, 0x3a, 0x58, 0x5a, 0, 2, 0xd8, 0, 2};
    assert_int_equal(lf_kv_fp8_quantize(codes, x, 10), 127);
    assert_memory_equal(codes, expected, 10);
    expect_head(x, 10);
}

static void a_head_with_an_element_that_is_not_finite_is_nan_as_a_whole(void **state)
{
    (void)state;
    static const float others[] = {INFINITY, -INFINITY, NAN, -NAN};
    uint8_t zeros[DIM] = {0};
    for (size_t k = 0; k < LF_N_ELEMS(others); k++) {
        for (int at = 0; at < DIM; at++) {
            float x[DIM];
            uint8_t codes[DIM];
            for (int i = 0; i < DIM; i++) x[i] = i == at ? others[k] : (float)(at - i);
            assert_int_equal(lf_kv_fp8_quantize(codes, x, DIM), LF_KV_FP8_NAN);
            assert_memory_equal(codes, zeros, DIM);
        }
    }
    assert_true(isnan(lf_f32_from_bf16(lf_kv_fp8_bf16(0, LF_KV_FP8_NAN))));
}

/* 256 · 2^120 is the nearest code to both; of these bf16 rounds the first alone to an infinity. */
static void the_largest_floats_are_read_as_infinite(void **state)
{
    (void)state;
    float x[2] = {3.4028235e38f, -3.3e38f};
    uint8_t codes[2], scale = lf_kv_fp8_quantize(codes, x, 2);
    assert_int_equal(scale, LF_KV_FP8_MOST + LF_KV_FP8_BIAS);
    assert_int_equal(lf_kv_fp8_bf16(codes[0], scale), 0x7f80);
    assert_int_equal(lf_kv_fp8_bf16(codes[1], scale), 0xff80);
    expect_head(x, 2);
}

static void every_code_under_every_scale_is_exact_in_bf16(void **state)
{
    (void)state;
    for (int e = LF_KV_FP8_LEAST; e <= LF_KV_FP8_MOST; e++) {
        for (int c = 0; c < 256; c++) {
            double exact = ldexp((double)lf_code_number(LF_CODE_E4M3, (uint8_t)c), e);
            float got = lf_f32_from_bf16(lf_kv_fp8_bf16((uint8_t)c, (uint8_t)(e + LF_KV_FP8_BIAS)));
            if ((c & 0x7f) == 0x7f) continue; /* not made */
            if (fabs(exact) >= 0x1p128) exact = copysign(INFINITY, exact);
            assert_true((double)got == exact && !signbit(got) == (c < 0x80));
        }
    }
}

static void a_page_expands_where_each_order_has_its_elements(void **state)
{
    (void)state;
    enum { D = 6, PAGE = LF_KV_BLOCK_TOKENS * D };
    for (int order = LF_KV_LANES; order <= LF_KV_ROWS; order++) {
        struct lf_kv_view v = {.dtype = LF_E4M3, .order = (enum lf_kv_order)order, .head_dim = D};
        assert_int_equal(lf_kv_page_bytes(&v), PAGE + LF_KV_BLOCK_TOKENS);
        for (int part = LF_KV_K; part <= LF_KV_V; part++) {
            uint8_t page[PAGE + LF_KV_BLOCK_TOKENS];
            uint16_t out[PAGE];
            for (int i = 0; i < PAGE; i++) page[i] = (uint8_t)(i * 31 % 0x7f);
            for (int t = 0; t < LF_KV_BLOCK_TOKENS; t++) lf_kv_scales(&v, page)[t] = (uint8_t)(100 + t);
            lf_kv_fp8_expand_page(&v, (enum lf_kv_part)part, page, out);
            for (int t = 0; t < LF_KV_BLOCK_TOKENS; t++) {
                for (int i = 0; i < D; i++) {
                    size_t at = part == LF_KV_K ? lf_kv_k_index(&v, t, i) : lf_kv_v_index(&v, t, i);
                    assert_int_equal(out[at], lf_kv_fp8_bf16(page[at], (uint8_t)(100 + t)));
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_the_nearest_under_the_smallest_power_that_holds_the_head),
        cmocka_unit_test(a_head_at_the_edge_of_a_power_keeps_it_and_one_step_more_takes_the_next),
        cmocka_unit_test(zeros_and_the_smallest_floats_have_the_least_power_and_codes_of_zero),
        cmocka_unit_test(ties_go_to_the_even_code),
        cmocka_unit_test(a_head_with_an_element_that_is_not_finite_is_nan_as_a_whole),
        cmocka_unit_test(the_largest_floats_are_read_as_infinite),
        cmocka_unit_test(every_code_under_every_scale_is_exact_in_bf16),
        cmocka_unit_test(a_page_expands_where_each_order_has_its_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
