#include "tests/support/test.h"

#include "core/format.h"

static void groups_cover_a_row(void **state)
{
    (void)state;
    struct lf_format f = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 32, .group_rows = 1};
    assert_int_equal(lf_format_n_groups(&f, 32), 1);
    assert_int_equal(lf_format_n_groups(&f, 33), 2);
    assert_int_equal(lf_format_group(&f, 33), 32);
    assert_int_equal(lf_format_group(&f, 7), 7);
    assert_int_equal(lf_format_n_groups(&f, 7), 1);
    f.group = 0;
    assert_int_equal(lf_format_group(&f, 4096), 4096);
    assert_int_equal(lf_format_n_groups(&f, 4096), 1);
}

static void formats_have_names(void **state)
{
    (void)state;
    static const struct {
        struct lf_format format;
        const char *name;
    } cases[] = {
        {{.dtype = LF_F16}, "f16"},
        {{.dtype = LF_BF16, .code = LF_CODE_I8, .group_rows = 1}, "int8"},
        {{.dtype = LF_BF16, .code = LF_CODE_I4, .group = 128, .group_rows = 1, .zeros = true},
         "int4 in groups of 128 with zero points"},
        {{.dtype = LF_F16, .code = LF_CODE_I4, .group_rows = 1, .zeros = true}, "int4 with zero points"},
        {{.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128}, "fp8 in blocks of 128x128"},
        {{.dtype = LF_BF16, .code = LF_CODE_E2M1, .group = 32, .group_rows = 1}, "mxfp4"},
        {{.dtype = LF_BF16, .code = LF_CODE_E2M1, .group = 16, .group_rows = 1}, "fp4 in groups of 16"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char name[LF_FORMAT_NAME_BYTES];
        lf_format_name(name, &cases[i].format);
        assert_string_equal(name, cases[i].name);
    }
}

static void formats_differ_by_each_member(void **state)
{
    (void)state;
    const struct lf_format f = {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 64, .group_rows = 1};
    struct lf_format others[] = {f, f, f, f, f, f};
    others[0].dtype = LF_F16;
    others[1].code = LF_CODE_E2M1;
    others[2].group = 32;
    others[3].group_rows = 2;
    others[4].zeros = true;
    others[5].scales = LF_BF16;
    assert_true(lf_format_equal(&f, &f));
    for (int i = 0; i < 6; i++) assert_false(lf_format_equal(&f, &others[i]));
    struct lf_format plain = lf_format_plain(LF_F32);
    assert_true(lf_format_is_plain(&plain));
    assert_false(lf_format_is_plain(&f));
}

static void elements_take_their_share_of_scales(void **state)
{
    (void)state;
    const struct lf_format plain = lf_format_plain(LF_BF16);
    const struct lf_format int8 = {.code = LF_CODE_I8, .group = 64, .group_rows = 1};
    const struct lf_format int4 = {.code = LF_CODE_I4, .group = 128, .group_rows = 1, .zeros = true};
    const struct lf_format fp8 = {.code = LF_CODE_E4M3, .group = 128, .group_rows = 128};
    const struct lf_format mxfp4 = {.code = LF_CODE_E2M1, .group = 32, .group_rows = 1};
    assert_true(lf_format_elem_bytes(&plain, 1000) == 2);
    assert_true(lf_format_elem_bytes(&int8, 128) == 1 + 4.0 / 128);
    assert_true(lf_format_elem_bytes(&int8, 100) == 1 + 4.0 / 100);
    assert_true(lf_format_elem_bytes(&int4, 256) == 0.5 + 5.0 / 256);
    assert_true(lf_format_elem_bytes(&fp8, 128) == 1 + 2.0 / 128 / 128);
    assert_true(lf_format_elem_bytes(&mxfp4, 64) == 0.5 + 2.0 / 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_cover_a_row),
        cmocka_unit_test(elements_take_their_share_of_scales),
        cmocka_unit_test(formats_have_names),
        cmocka_unit_test(formats_differ_by_each_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
