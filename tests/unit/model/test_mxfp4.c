#include "model/formats/mxfp4.h"

#include <math.h>

#include "core/dtype.h"
#include "core/file.h"
#include "tests/support/test.h"

static const float values[16] = {
    0,     0.5f,  1,  1.5f,  2,  3,  4,  6, /* sign, two bits of exponent, one of mantissa */
    -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static void same(uint16_t have, float want)
{
    float x = lf_f32_from_bf16(have);
    assert_memory_equal(&x, &want, sizeof(x)); /* the sign of zero too */
}

/* A group whose bytes hold (0, 1), (2, 3) … twice, with that scale. */
static void expand_all(uint16_t out[LF_MXFP4_GROUP], uint8_t scale)
{
    uint8_t block[LF_MXFP4_GROUP_BYTES];
    for (int i = 0; i < LF_MXFP4_GROUP_BYTES; i++) block[i] = (uint8_t)((2 * i + 1) % 16 * 16 + 2 * i % 16);
    lf_mxfp4_expand(out, block, &scale, 1);
}

static void all_sixteen_values_the_lower_four_bits_first(void **state)
{
    (void)state;
    uint16_t out[LF_MXFP4_GROUP];
    expand_all(out, 127);
    for (int i = 0; i < LF_MXFP4_GROUP; i++) same(out[i], values[i % 16]);
    const uint8_t scale = 127, block[LF_MXFP4_GROUP_BYTES] = {0x2f, 0x91};
    lf_mxfp4_expand(out, block, &scale, 1);
    same(out[0], -6);
    same(out[1], 1);
    same(out[2], 0.5f);
    same(out[3], -0.5f);
    same(out[4], 0);
}

static void every_scale_that_bf16_holds_is_exact(void **state)
{
    (void)state;
    uint16_t out[LF_MXFP4_GROUP];
    for (int scale = 0; scale <= 252; scale++) {
        expand_all(out, (uint8_t)scale);
        for (int i = 0; i < LF_MXFP4_GROUP; i++) same(out[i], ldexpf(values[i % 16], scale - 127));
    }
    expand_all(out, 0); /* the least: half of 2^-127, which is no normal number */
    assert_int_equal(out[1], 0x0020);
    assert_int_equal(out[7], 0x0140); /* 1.5 · 2^-125 */
}

static void what_is_beyond_bf16_is_infinite_and_scale_255_is_nan(void **state)
{
    (void)state;
    uint16_t out[LF_MXFP4_GROUP];
    expand_all(out, 253);
    same(out[5], ldexpf(3, 126));
    same(out[6], INFINITY); /* 4 · 2^126 */
    same(out[15], -INFINITY);
    expand_all(out, 254);
    same(out[3], ldexpf(1.5f, 127));
    same(out[4], INFINITY);
    same(out[8], -0.0f);
    expand_all(out, 255);
    for (int i = 0; i < LF_MXFP4_GROUP; i++) assert_true(isnan(lf_f32_from_bf16(out[i])));
}

static void each_group_has_its_own_scale(void **state)
{
    (void)state;
    uint8_t blocks[3 * LF_MXFP4_GROUP_BYTES];
    const uint8_t scales[3] = {127, 120, 140};
    uint16_t out[3 * LF_MXFP4_GROUP];
    for (size_t i = 0; i < sizeof(blocks); i++) blocks[i] = (uint8_t)(37 * i + 11);
    lf_mxfp4_expand(out, blocks, scales, 3);
    for (int i = 0; i < 3 * LF_MXFP4_GROUP; i++) {
        int nibble = i % 2 ? blocks[i / 2] >> 4 : blocks[i / 2] & 15;
        same(out[i], ldexpf(values[nibble], scales[i / LF_MXFP4_GROUP] - 127));
    }
}

/* data/mxfp4.bin: groups of 16 bytes, their scales, and what transformers expands them to (make.py). */
static void as_transformers_expands_it(void **state)
{
    (void)state;
    struct lf_buf file;
    struct lf_err err;
    lf_buf_init(&file, 1 << 20);
    assert_int_equal(lf_file_read(&file, "tests/golden/model/data/mxfp4.bin", 1 << 20, &err), LF_OK);
    size_t of_group = LF_MXFP4_GROUP_BYTES + 1 + 2 * LF_MXFP4_GROUP, n = file.len / of_group;
    assert_true(n >= 253 && file.len == n * of_group);
    const uint8_t *blocks = (const uint8_t *)file.ptr, *scales = blocks + n * LF_MXFP4_GROUP_BYTES;
    uint16_t *out = malloc(n * LF_MXFP4_GROUP * sizeof(*out));
    assert_non_null(out);
    lf_mxfp4_expand(out, blocks, scales, n);
    assert_memory_equal(out, scales + n, n * LF_MXFP4_GROUP * sizeof(*out));
    free(out);
    lf_buf_deinit(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_sixteen_values_the_lower_four_bits_first),
                                       cmocka_unit_test(every_scale_that_bf16_holds_is_exact),
                                       cmocka_unit_test(what_is_beyond_bf16_is_infinite_and_scale_255_is_nan),
                                       cmocka_unit_test(each_group_has_its_own_scale),
                                       cmocka_unit_test(as_transformers_expands_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
