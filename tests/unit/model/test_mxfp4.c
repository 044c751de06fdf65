/* MXFP4 as gpt-oss has it: bytes of a file to values, through canonical rows. */
#include <math.h>

#include "core/file.h"
#include "core/quant.h"
#include "model/formats/packing.h"
#include "tests/support/test.h"

enum { GROUP = 32, GROUP_BYTES = 16, MAX_GROUPS = 512 };

static const float values[16] = {
    0,     0.5f,  1,  1.5f,  2,  3,  4,  6, /* sign, two bits of exponent, one of mantissa */
    -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static const struct lf_scheme scheme = {
    .packing = &lf_packing_mxfp4, .code = LF_CODE_E2M1, .bits = 4, .group = GROUP, .group_rows = 1};

/* Groups as a matrix of one row; what is wrong with it, or NULL. */
static const char *expand(uint16_t *out, const uint8_t *blocks, const uint8_t *scales, int n_groups)
{
    static uint8_t codes[MAX_GROUPS * GROUP];
    static float wide[MAX_GROUPS * GROUP], number[MAX_GROUPS];
    int bad;
    struct lf_packed p = {.scheme = &scheme, .n_out = 1, .n_in = n_groups * GROUP};
    p.sources[LF_SOURCE_CODES] = blocks;
    p.sources[LF_SOURCE_SCALES] = scales;
    p.types[LF_SOURCE_SCALES] = LF_SOURCE_U8;
    struct lf_quant_room room = {codes, number, NULL};
    const char *wrong = lf_packed_rows(&p, 0, 1, &room, &bad);
    struct lf_format f = lf_scheme_format(&scheme, LF_BF16);
    struct lf_quant_rows rows = {codes, number, NULL};
    if (!wrong) lf_expand_rows(&f, 1, p.n_in, &rows, out, wide);
    return wrong;
}

static void same(uint16_t have, float want)
{
    float x = lf_f32_from_bf16(have);
    assert_memory_equal(&x, &want, sizeof(x)); /* the sign of zero too */
}

/* A group whose bytes hold (0, 1), (2, 3) … twice, with that scale. */
static const char *expand_all(uint16_t out[GROUP], uint8_t scale)
{
    uint8_t block[GROUP_BYTES];
    for (int i = 0; i < GROUP_BYTES; i++) block[i] = (uint8_t)((2 * i + 1) % 16 * 16 + 2 * i % 16);
    return expand(out, block, &scale, 1);
}

static void all_sixteen_values_the_lower_four_bits_first(void **state)
{
    (void)state;
    uint16_t out[GROUP];
    assert_null(expand_all(out, 127));
    for (int i = 0; i < GROUP; i++) same(out[i], values[i % 16]);
    const uint8_t scale = 127, block[GROUP_BYTES] = {0x2f, 0x91};
    assert_null(expand(out, block, &scale, 1));
    same(out[0], -6);
    same(out[1], 1);
    same(out[2], 0.5f);
    same(out[3], -0.5f);
    same(out[4], 0);
}

static void every_scale_that_bf16_holds_is_exact(void **state)
{
    (void)state;
    uint16_t out[GROUP];
    for (int scale = 0; scale <= 252; scale++) {
        assert_null(expand_all(out, (uint8_t)scale));
        for (int i = 0; i < GROUP; i++) same(out[i], ldexpf(values[i % 16], scale - 127));
    }
    assert_null(expand_all(out, 0)); /* the least: half of 2^-127, which is no normal number */
    assert_int_equal(out[1], 0x0020);
    assert_int_equal(out[7], 0x0140); /* 1.5 · 2^-125 */
}

static void scales_with_which_a_value_may_be_infinite_or_nan_are_wrong(void **state)
{
    (void)state;
    uint16_t out[GROUP];
    for (int scale = 253; scale <= 255; scale++) assert_non_null(expand_all(out, (uint8_t)scale));
}

static void each_group_has_its_own_scale(void **state)
{
    (void)state;
    uint8_t blocks[3 * GROUP_BYTES];
    const uint8_t scales[3] = {127, 120, 140};
    uint16_t out[3 * GROUP];
    for (size_t i = 0; i < sizeof(blocks); i++) blocks[i] = (uint8_t)(37 * i + 11);
    assert_null(expand(out, blocks, scales, 3));
    for (int i = 0; i < 3 * GROUP; i++) {
        int nibble = i % 2 ? blocks[i / 2] >> 4 : blocks[i / 2] & 15;
        same(out[i], ldexpf(values[nibble], scales[i / GROUP] - 127));
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
    size_t of_group = GROUP_BYTES + 1 + 2 * GROUP, n = file.len / of_group;
    assert_true(n >= 253 && n <= MAX_GROUPS && file.len == n * of_group);
    const uint8_t *blocks = (const uint8_t *)file.ptr, *scales = blocks + n * GROUP_BYTES;
    uint16_t *out = malloc(n * GROUP * sizeof(*out));
    assert_non_null(out);
    assert_null(expand(out, blocks, scales, (int)n));
    assert_memory_equal(out, scales + n, n * GROUP * sizeof(*out));
    free(out);
    lf_buf_deinit(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_sixteen_values_the_lower_four_bits_first),
                                       cmocka_unit_test(every_scale_that_bf16_holds_is_exact),
                                       cmocka_unit_test(scales_with_which_a_value_may_be_infinite_or_nan_are_wrong),
                                       cmocka_unit_test(each_group_has_its_own_scale),
                                       cmocka_unit_test(as_transformers_expands_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
