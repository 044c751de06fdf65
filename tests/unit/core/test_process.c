/* core/process: what the system counts of this process, against other ways to ask. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/process.h"
#include "tests/support/test.h"

#ifdef __SANITIZE_THREAD__
enum { BESIDE = 6 }; /* what it keeps of each byte that is written */
#else
enum { BESIDE = 1 };
#endif
enum { MIB = 1024 * 1024, N_FDS = 7 };

static void every_figure_is_there(void **state)
{
    (void)state;
    struct lf_process_figures f;
    lf_process_read(&f);
    assert_true(f.cpu_s > 0 && f.cpu_s < 3600);
    assert_true(f.resident_bytes > 100 * 1024 && f.resident_bytes < f.virtual_bytes);
    assert_true(f.n_open >= 3 && f.n_open < f.n_open_most);
}

static void memory_that_is_touched_is_resident(void **state)
{
    (void)state;
    struct lf_process_figures before, after;
    lf_process_read(&before);
    char *block = malloc(64 * MIB);
    assert_non_null(block);
    memset(block, 1, 64 * MIB);
    lf_process_read(&after);
    assert_in_range(after.resident_bytes - before.resident_bytes, 60 * MIB, 200 * BESIDE * MIB);
    assert_true(after.virtual_bytes > after.resident_bytes);
    free(block);
}

static void descriptors_are_counted_one_by_one(void **state)
{
    (void)state;
    struct lf_process_figures before, after;
    int fds[N_FDS];
    lf_process_read(&before);
    for (int i = 0; i < N_FDS; i++) fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    lf_process_read(&after);
    assert_int_equal(after.n_open - before.n_open, N_FDS);
    for (int i = 0; i < N_FDS; i++) close(fds[i]);
    lf_process_read(&after);
    assert_int_equal(after.n_open, before.n_open);
}

static void the_limit_of_descriptors_is_the_soft_one(void **state)
{
    (void)state;
    struct lf_process_figures f;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 123;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    lf_process_read(&f);
    limit.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(f.n_open_most, 123);
}

/* A program's tests begin within the minute; reading it later says the same. */
static void the_start_is_a_fixed_moment(void **state)
{
    (void)state;
    struct lf_process_figures first, later;
    lf_process_read(&first);
    lf_clock_sleep_ms(50);
    lf_process_read(&later);
    double now = (double)time(NULL);
    assert_true(first.started_unix_s > now - 600 && first.started_unix_s < now + 1.5);
    assert_true(later.started_unix_s - first.started_unix_s < 0.02);
    assert_true(first.started_unix_s - later.started_unix_s < 0.02);
    assert_true(later.cpu_s >= first.cpu_s);
}

static void processor_time_grows_with_work(void **state)
{
    (void)state;
    struct lf_process_figures before, after;
    lf_process_read(&before);
    volatile uint64_t sum = 0;
    do {
        for (int i = 0; i < MIB; i++) sum += (uint64_t)i;
        lf_process_read(&after);
    } while (after.cpu_s < before.cpu_s + 0.02);
    assert_true(after.cpu_s < before.cpu_s + 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_is_there),
        cmocka_unit_test(memory_that_is_touched_is_resident),
        cmocka_unit_test(descriptors_are_counted_one_by_one),
        cmocka_unit_test(the_limit_of_descriptors_is_the_soft_one),
        cmocka_unit_test(the_start_is_a_fixed_moment),
        cmocka_unit_test(processor_time_grows_with_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
