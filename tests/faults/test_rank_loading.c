/* A rank that cannot read its weights: the others stop reading theirs, and what is said is what it was. Reads of ranks
 * other than 0 are those of threads that are not the main one. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "server/commands.h"
#include "server/ranks.h"
#include "server/runtime.h"
#include "tests/support/test.h"

enum { SLOW_MS = 10 };

static enum victim { NOBODY, RANK_0, ANOTHER } victim;
static bool others_are_slow;
static bool counts;
static pthread_t main_thread;
static struct lf_runtime rt;
static _Atomic int n_by_0, n_by_others; /* reads */
static _Atomic bool has_failed;

/* The linker sends the program's calls here. */
ssize_t __real_pread(int fd, void *dst, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *dst, size_t n, off_t offset);

/* The victim fails at its first read, and the others' first one lasts until then. Where it is rank 0 the others' are
 * slow, too, so that they are still reading when it has said so. */
ssize_t __wrap_pread(int fd, void *dst, size_t n, off_t offset)
{
    bool is_rank_0 = pthread_equal(pthread_self(), main_thread);
    if (!counts) return __real_pread(fd, dst, n, offset);
    atomic_fetch_add(is_rank_0 ? &n_by_0 : &n_by_others, 1);
    if (victim != NOBODY && is_rank_0 == (victim == RANK_0) && !atomic_exchange(&has_failed, true)) {
        errno = EIO;
        return -1;
    }
    if (victim == ANOTHER && is_rank_0)
        while (lf_ranks_check(rt.ranks, NULL) == LF_OK) lf_clock_sleep_ms(1);
    if (victim == RANK_0 || (others_are_slow && !is_rank_0)) lf_clock_sleep_ms(SLOW_MS);
    return __real_pread(fd, dst, n, offset);
}

void lf_program_print(char out[LF_PROGRAM_BYTES])
{
    (void)snprintf(out, LF_PROGRAM_BYTES, "test");
}

static enum lf_status load(const char *split, enum victim who, struct lf_err *err)
{
    char args[][16] = {"--model", "demo/model", "--ctx", "1024", "--device", "cpu", "--parallel", "tp=2"};
    char *argv[LF_N_ELEMS(args)], *env[] = {NULL};
    struct lf_config config = {0};
    for (size_t i = 0; i < LF_N_ELEMS(args); i++) argv[i] = args[i];
    (void)snprintf(args[LF_N_ELEMS(args) - 1], sizeof(args[0]), "%s", split);
    assert_int_equal(lf_config_read(&config, LF_COMMAND_RUN, (int)LF_N_ELEMS(argv), argv, env, err), LF_OK);
    if (lf_runtime_open(&rt, &config, true, err) != LF_OK || lf_runtime_plan(&rt, false, err) != LF_OK)
        fail_msg("%s", err->message);
    victim = who;
    counts = true;
    atomic_store(&n_by_0, 0);
    atomic_store(&n_by_others, 0);
    atomic_store(&has_failed, false);
    enum lf_status status = lf_runtime_load(&rt, NULL, NULL, err);
    lf_runtime_close(&rt);
    counts = false;
    lf_config_deinit(&config);
    return status;
}

static void a_rank_that_cannot_read_ends_the_loading_of_all_with_its_reason(void **state)
{
    (void)state;
    struct lf_err err = {0};
    static const char *const splits[] = {"tp=2", "tp=4", "cp=2", "tp=2,cp=2"};
    for (size_t i = 0; i < LF_N_ELEMS(splits); i++) {
        int n = i % 2 == 0 ? 2 : 4;
        assert_int_equal(load(splits[i], NOBODY, &err), LF_OK);
        int whole_0 = n_by_0, whole_others = n_by_others;
        assert_true(whole_0 > 20 && whole_others > 20);

        assert_int_equal(load(splits[i], ANOTHER, &err), LF_IO);
        assert_true(strncmp(err.message, "rank ", 5) == 0);
        assert_in_range(err.message[5], '1', '0' + n - 1);
        assert_non_null(strstr(err.message, "Input/output error"));
        assert_true(n_by_0 < whole_0 / 2);

        assert_int_equal(load(splits[i], RANK_0, &err), LF_IO);
        assert_null(strstr(err.message, "rank "));
        assert_int_equal(n_by_0, 1);
        assert_true(n_by_others < whole_others / 2);
    }
}

/* Rank 0 may be ready long before: from its first step on ranks wait for each other in seconds. */
static void loading_waits_for_the_slowest(void **state)
{
    (void)state;
    struct lf_err err = {0};
    for (int n = 2; n <= 4; n += 2) {
        assert_int_equal(load(n, NOBODY, &err), LF_OK);
        int whole_others = n_by_others;
        others_are_slow = true;
        assert_int_equal(load(n, NOBODY, &err), LF_OK);
        others_are_slow = false;
        assert_int_equal(n_by_others, whole_others); /* what has not loaded when loading ends reads no more */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_cannot_read_ends_the_loading_of_all_with_its_reason),
        cmocka_unit_test(loading_waits_for_the_slowest),
    };
    main_thread = pthread_self();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
