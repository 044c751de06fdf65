#include "tests/support/test.h"

#include "core/status.h"

static void a_reason_is_carried_upward_with_its_place(void **state)
{
    (void)state;
    struct lf_err err;
    assert_int_equal(lf_fail(&err, LF_IO, "byte %d", 7), LF_IO);
    assert_int_equal(lf_fail_within(&err, LF_CORRUPT, "file %s", "x"), LF_CORRUPT);
    assert_string_equal(err.message, "file x: byte 7");
    assert_int_equal(err.status, LF_CORRUPT);
    assert_int_equal(lf_fail(NULL, LF_IO, "nobody reads it"), LF_IO);
}

static void a_long_reason_is_cut_not_overrun(void **state)
{
    (void)state;
    struct lf_err err;
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    lf_fail(&err, LF_IO, "%s", text);
    assert_int_equal(strlen(err.message), LF_ERR_MESSAGE_BYTES - 1);
    for (int n = 500; n < 520; n++) {
        lf_fail(&err, LF_IO, "inner");
        lf_fail_within(&err, LF_IO, "%.*s", n, text);
        assert_in_range(strlen(err.message), 505, LF_ERR_MESSAGE_BYTES - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reason_is_carried_upward_with_its_place),
        cmocka_unit_test(a_long_reason_is_cut_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
