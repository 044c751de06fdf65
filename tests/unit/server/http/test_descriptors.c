/* server/http/conn/descriptors.c: the limit of descriptors is the test's, what is open is the process's. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/log.h"
#include "server/http/conn/accept.h"
#include "server/http/conn/conn.h"
#include "server/http/conn/descriptors.h"

enum { THREADS_N = 4, OWN_N = 16 + 2 * THREADS_N, ALL_N = LF_CONN_HEALTH_N + LF_CONN_CUT_N + LF_REFUSED_N };

static struct rlimit limit;
static bool unknown, fixed;
static int n_raised;

int __wrap_getrlimit(int resource, struct rlimit *out);
int __wrap_setrlimit(int resource, const struct rlimit *in);

int __wrap_getrlimit(int resource, struct rlimit *out)
{
    assert_int_equal(resource, RLIMIT_NOFILE);
    if (unknown) return -1;
    *out = limit;
    return 0;
}

int __wrap_setrlimit(int resource, const struct rlimit *in)
{
    assert_int_equal(resource, RLIMIT_NOFILE);
    assert_true(in->rlim_cur <= in->rlim_max && in->rlim_max == limit.rlim_max);
    if (fixed) return -1;
    limit = *in;
    n_raised++;
    return 0;
}

static void set_limit(rlim_t soft, rlim_t hard)
{
    limit = (struct rlimit){soft, hard};
    unknown = fixed = false;
    n_raised = 0;
}

/* Those beyond the limit, as whoever started us may have left some, count for nothing. */
static int n_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 100; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static struct lf_descriptors fit_or_fail(int n_connections)
{
    struct lf_descriptors fit;
    struct lf_err err;
    assert_int_equal(lf_descriptors_fit(&fit, n_connections, THREADS_N, &err), LF_OK);
    return fit;
}

/* ---- sharing out ---- */

static void what_is_enough_is_given_whole(void **state)
{
    (void)state;
    struct lf_descriptors d = lf_descriptors_share(1024 + ALL_N, 1024);
    assert_int_equal(d.n_connections, 1024);
    assert_int_equal(d.n_cut, LF_CONN_CUT_N);
    assert_int_equal(d.n_refused, LF_REFUSED_N);
    d = lf_descriptors_share(1024 + ALL_N - 1, 1024); /* one past it */
    assert_int_equal(d.n_connections, 1023);
}

/* Never more than there are, for any number of them. The more there are the more connections, but for one where the
 * other shares get one more each. */
static void what_is_not_enough_is_shared(void **state)
{
    (void)state;
    for (int n_wished = 16; n_wished <= 4096; n_wished *= 4) {
        struct lf_descriptors before = {0};
        for (int n = 0; n < n_wished + ALL_N; n++) {
            struct lf_descriptors d = lf_descriptors_share(n, n_wished);
            assert_true(d.n_connections <= n_wished && d.n_cut >= 0 && d.n_refused >= 0);
            if (d.n_connections < LF_CONN_LEAST_N) continue;
            assert_true(d.n_connections + d.n_cut + d.n_refused + LF_CONN_HEALTH_N <= n);
            assert_true(d.n_cut >= 1); /* whoever makes room holds its place for a moment more */
            assert_true(d.n_connections >= before.n_connections - 1);
            before = d;
        }
        assert_true(before.n_connections >= n_wished - 1);
    }
    assert_true(lf_descriptors_share(LF_CONN_HEALTH_N, 16).n_connections < LF_CONN_LEAST_N);
    assert_true(lf_descriptors_share(0, 16).n_connections < LF_CONN_LEAST_N);
}

/* ---- the limit ---- */

static void a_soft_limit_is_raised_as_far_as_it_is_needed(void **state)
{
    (void)state;
    set_limit(100, 1 << 20);
    assert_int_equal(fit_or_fail(1024).n_connections, 1024);
    assert_int_equal(n_raised, 1);
    assert_true(limit.rlim_cur >= (rlim_t)(1024 + ALL_N + OWN_N + n_open()) && limit.rlim_cur < 2048);
    (void)fit_or_fail(16); /* now it is enough */
    assert_int_equal(n_raised, 1);
}

static void what_is_open_already_is_not_given_away(void **state)
{
    (void)state;
    int fds[10];
    set_limit(100, 100);
    struct lf_descriptors before = fit_or_fail(1024);
    assert_int_equal(before.n_connections, lf_descriptors_share(100 - OWN_N - n_open(), 1024).n_connections);
    for (int i = 0; i < 10; i++) fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct lf_descriptors after = fit_or_fail(1024);
    assert_int_equal(after.n_connections, lf_descriptors_share(100 - OWN_N - n_open(), 1024).n_connections);
    assert_true(after.n_connections < before.n_connections);
    for (int i = 0; i < 10; i++) close(fds[i]);
    assert_int_equal(fit_or_fail(16).n_connections, 16);
}

static void too_few_for_anything_are_refused_by_number(void **state)
{
    (void)state;
    struct lf_descriptors fit;
    struct lf_err err;
    int least = 0;
    for (int n = 0; n < 100 && !least; n++) {
        set_limit((rlim_t)n, (rlim_t)n);
        if (lf_descriptors_fit(&fit, 1024, THREADS_N, &err) == LF_OK) least = n;
    }
    assert_int_equal(fit.n_connections, LF_CONN_LEAST_N);
    set_limit((rlim_t)least - 1, (rlim_t)least - 1);
    assert_int_equal(lf_descriptors_fit(&fit, 1024, THREADS_N, &err), LF_LIMIT);
    char number[32];
    snprintf(number, sizeof number, "open files is %d,", least - 1);
    assert_non_null(strstr(err.message, number));
    assert_non_null(strstr(err.message, "ulimit -n"));
}

/* Where the system does not say, or does not let us: what there is holds. */
static void a_limit_that_cannot_be_read_or_raised(void **state)
{
    (void)state;
    set_limit(100, 1 << 20);
    fixed = true;
    assert_int_equal(fit_or_fail(1024).n_connections, lf_descriptors_share(100 - OWN_N - n_open(), 1024).n_connections);
    unknown = true;
    assert_int_equal(fit_or_fail(1024).n_connections, 1024);
    set_limit(RLIM_INFINITY, RLIM_INFINITY);
    assert_int_equal(fit_or_fail(64 * 1024).n_connections, 64 * 1024);
    assert_int_equal(n_raised, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_enough_is_given_whole),
        cmocka_unit_test(what_is_not_enough_is_shared),
        cmocka_unit_test(a_soft_limit_is_raised_as_far_as_it_is_needed),
        cmocka_unit_test(what_is_open_already_is_not_given_away),
        cmocka_unit_test(too_few_for_anything_are_refused_by_number),
        cmocka_unit_test(a_limit_that_cannot_be_read_or_raised),
    };
    lf_log_set_level(LF_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
