/* The error policy of a GPU (SECURITY.md) without one: a device whose every call can be made to fail. */
#include "tests/support/test.h"

#include "core/check.h"
#include "device/cuda/sticky.h"

static void the_first_error_stays(void **state)
{
    (void)state;
    struct lf_sticky sticky = {0};
    struct lf_err err;
    assert_int_equal(lf_sticky_status(&sticky, "GPU", &err), LF_OK);
    assert_false(lf_sticky_note(&sticky, 0, "nothing", "no error"));
    assert_true(lf_sticky_note(&sticky, 700, "attention (decode)", "an illegal memory access was encountered"));
    assert_false(lf_sticky_note(&sticky, 719, "rmsnorm", "unspecified launch failure"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lf_sticky_status(&sticky, "GPU", &err), LF_DEVICE);
        assert_string_equal(err.message, "GPU failed and is not used any more: attention (decode): an illegal memory "
                                         "access was encountered (error 700)");
        assert_false(lf_sticky_note(&sticky, 0, "a call that succeeds", "no error"));
    }
}

static void long_words_are_cut(void **state)
{
    (void)state;
    struct lf_sticky sticky = {0};
    struct lf_err err;
    char words[2 * LF_STICKY_BYTES];
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    assert_true(lf_sticky_note(&sticky, 2, "op", words));
    assert_int_equal(strlen(sticky.words), LF_STICKY_BYTES - 1);
    assert_int_equal(lf_sticky_status(&sticky, words, &err), LF_DEVICE);
    assert_true(strlen(err.message) < LF_ERR_MESSAGE_BYTES);
}

/* ---- a device of calls that fail when told ---- */

enum { N_OPS = 12 };

struct device {
    struct lf_sticky sticky;
    int fail_at;   /* the call that fails, counted from 0; -1: none */
    bool for_ever; /* and all behind it */
    int n_calls, n_ran;
};

static int call(struct device *dev)
{
    int idx = dev->n_calls++;
    if (dev->fail_at >= 0 && (idx == dev->fail_at || (dev->for_ever && idx > dev->fail_at))) return 700 + idx;
    dev->n_ran++;
    return 0;
}

/* As the ops of device/cuda: skipped once the device has failed. */
static void op(struct device *dev)
{
    if (dev->sticky.code != 0) return;
    (void)lf_sticky_note(&dev->sticky, call(dev), "op", "injected");
}

static void nothing_runs_behind_an_injected_failure(void **state)
{
    (void)state;
    for (int fail_at = -1; fail_at < N_OPS; fail_at++) {
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            struct device dev = {.fail_at = fail_at, .for_ever = for_ever};
            struct lf_err err;
            for (int i = 0; i < N_OPS; i++) op(&dev);
            assert_int_equal(dev.n_ran, fail_at < 0 ? N_OPS : fail_at);
            assert_int_equal(dev.n_calls, fail_at < 0 ? N_OPS : fail_at + 1);
            assert_int_equal(lf_sticky_status(&dev.sticky, "GPU", &err), fail_at < 0 ? LF_OK : LF_DEVICE);
            if (fail_at >= 0) assert_int_equal(dev.sticky.code, 700 + fail_at);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_stays),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(nothing_runs_behind_an_injected_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
