/* core/work.c, on a clock that is set here: when it is read, who is asked and how often, and what stays. */
#include "tests/support/test.h"

#include "core/clock.h"
#include "core/work.h"

static int64_t now_ns;
static int n_read;

int64_t __wrap_lf_clock_ns(void);
int64_t __wrap_lf_clock_ns(void)
{
    n_read++;
    return now_ns;
}

struct asked {
    int n;
    bool over;
};

static bool is_over(void *ctx)
{
    struct asked *a = ctx;
    a->n++;
    return a->over;
}

static void begin(void)
{
    now_ns = 1000 * (int64_t)LF_NS_PER_S;
    n_read = 0;
}

static void so_many_steps_between_two_looks(void **state)
{
    (void)state;
    struct asked a = {0};
    struct lf_work work = {.is_over = is_over, .ctx = &a};
    begin();
    assert_int_equal(lf_work_step(&work, LF_WORK_CHECK_STEPS - 1), LF_OK);
    assert_int_equal(n_read, 0);
    assert_int_equal(lf_work_step(&work, 1), LF_OK);
    assert_int_equal(n_read, 1);
    assert_int_equal(a.n, 1);
    assert_int_equal(lf_work_step(&work, LF_WORK_CHECK_STEPS - 1), LF_OK); /* counted anew */
    assert_int_equal(n_read, 1);
}

static void somebody_is_asked_once_in_its_time(void **state)
{
    (void)state;
    struct asked a = {0};
    struct lf_work work = {.is_over = is_over, .ctx = &a};
    begin();
    assert_int_equal(lf_work_check(&work), LF_OK);
    now_ns += (int64_t)LF_WORK_CHECK_MS * LF_NS_PER_MS - 1;
    a.over = true;
    assert_int_equal(lf_work_check(&work), LF_OK);
    assert_int_equal(a.n, 1);
    now_ns++;
    assert_int_equal(lf_work_check(&work), LF_CANCELLED);
    assert_int_equal(a.n, 2);
    a.over = false;
    now_ns += LF_NS_PER_S;
    assert_int_equal(lf_work_check(&work), LF_CANCELLED); /* it stays so, and nobody is asked again */
    assert_int_equal(lf_work_step(&work, 0), LF_CANCELLED);
    assert_int_equal(a.n, 2);
}

static void a_deadline_is_the_moment_itself(void **state)
{
    (void)state;
    begin();
    struct lf_work work = {.deadline_ns = now_ns + 10 * (int64_t)LF_NS_PER_MS};
    now_ns = work.deadline_ns - 1;
    assert_int_equal(lf_work_check(&work), LF_OK);
    work.checked_ns = 0;
    now_ns = work.deadline_ns;
    assert_int_equal(lf_work_check(&work), LF_TIMEOUT);
    now_ns = 0;
    assert_int_equal(lf_work_check(&work), LF_TIMEOUT);
    struct lf_work none = {0};
    begin();
    assert_int_equal(lf_work_check(&none), LF_OK);
    struct asked gone = {.over = true}; /* of both, that nobody waits */
    struct lf_work both = {.deadline_ns = 1, .is_over = is_over, .ctx = &gone};
    assert_int_equal(lf_work_check(&both), LF_CANCELLED);
}

static void without_work_there_is_no_end(void **state)
{
    (void)state;
    begin();
    assert_int_equal(lf_work_step(NULL, SIZE_MAX), LF_OK);
    assert_int_equal(lf_work_check(NULL), LF_OK);
    assert_null(lf_work_memory(NULL));
    assert_int_equal(n_read, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_steps_between_two_looks),
        cmocka_unit_test(somebody_is_asked_once_in_its_time),
        cmocka_unit_test(a_deadline_is_the_moment_itself),
        cmocka_unit_test(without_work_there_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
