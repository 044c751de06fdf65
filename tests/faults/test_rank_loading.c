/* A rank that cannot read its weights: the others stop reading theirs, and what is said is what it was. Reads of ranks
 * other than 0 are those of threads that are not the main one. */
#include <dirent.h>
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
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

enum { SLOW_MS = 10, QUIET_MS = 300 };

static enum victim { NOBODY, RANK_0, ANOTHER, THE_LAST } victim;
static bool is_late;
static bool counts;
static pthread_t main_thread;
static struct lf_runtime rt;
static _Atomic int n_by_0, n_by_others; /* reads */
static _Atomic bool has_failed;         /* or has been late */

/* The linker sends the program's calls here. */
ssize_t __real_pread(int fd, void *dst, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *dst, size_t n, off_t offset);

/* Once the others have loaded: they read no more. */
static ssize_t fail_alone(void)
{
    for (int seen = -1, n; (n = n_by_0 + n_by_others) != seen; seen = n) lf_clock_sleep_ms(QUIET_MS);
    errno = EIO;
    return -1;
}

/* The first read of another rank lasts until rank 0 has waited for longer than it will from its first step on. */
static void come_late(void)
{
    if (atomic_exchange(&has_failed, true)) return;
    for (int seen = -1, n; (n = n_by_0) != seen; seen = n) lf_clock_sleep_ms(QUIET_MS);
    lf_clock_sleep_ms(LF_RANKS_TIMEOUT_MS + QUIET_MS);
}

/* The victim fails at its first read, and the others' first one lasts until then. Where it is rank 0 the others' are
 * slow, too, so that they are still reading when it has said so. */
ssize_t __wrap_pread(int fd, void *dst, size_t n, off_t offset)
{
    bool is_rank_0 = pthread_equal(pthread_self(), main_thread);
    if (!counts) return __real_pread(fd, dst, n, offset);
    atomic_fetch_add(is_rank_0 ? &n_by_0 : &n_by_others, 1);
    if (victim == THE_LAST && !is_rank_0 && !atomic_exchange(&has_failed, true)) return fail_alone();
    if (victim != NOBODY && victim != THE_LAST && is_rank_0 == (victim == RANK_0) &&
        !atomic_exchange(&has_failed, true)) {
        errno = EIO;
        return -1;
    }
    if (victim == ANOTHER && is_rank_0)
        while (lf_ranks_check(rt.ranks, NULL) == LF_OK) lf_clock_sleep_ms(1);
    if (is_late && !is_rank_0) come_late();
    if (victim == RANK_0) lf_clock_sleep_ms(SLOW_MS);
    return __real_pread(fd, dst, n, offset);
}

void lf_program_print(char out[LF_PROGRAM_BYTES])
{
    (void)snprintf(out, LF_PROGRAM_BYTES, "test");
}

static void *nothing(void *arg)
{
    return arg;
}

/* A sanitizer starts one of its own beside the first, which then stays. One that has been joined may be there for a
 * moment. */
static bool starts_first_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0) return false;
    lf_clock_sleep_ms(100);
    return true;
}

static int n_threads(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    while (readdir(dir)) n++;
    (void)closedir(dir);
    return n;
}

/* A thread that has been joined may be there for a moment. */
static void wait_for_threads(int n)
{
    int64_t until = lf_clock_ns() + 10 * LF_NS_PER_S;
    while (n_threads() != n && lf_clock_ns() < until) lf_clock_sleep_ms(1);
    assert_int_equal(n_threads(), n);
}

/* Nothing is left of it in the end: no thread, and no alarm. */
static enum lf_status load(const char *split, enum victim who, struct lf_err *err)
{
    char args[][16] = {"--model", "demo/model", "--ctx", "1024",       "--device",
                       "cpu",     "--threads",  "8",     "--parallel", "tp=2"};
    char *argv[LF_N_ELEMS(args)], *env[] = {NULL};
    struct lf_config config = {0};
    int n_before = n_threads();
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
    assert_int_equal(alarm(0), 0);
    wait_for_threads(n_before);
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

/* They have lost nothing: it is the one that fails whose reason is said, once, and by whoever waits for all. */
static void ranks_that_have_loaded_say_nothing_of_one_that_has_not(void **state)
{
    (void)state;
    struct lf_err err = {0};
    struct temp_dir dir = temp_dir_make();
    char path[256], logged[4096];
    snprintf(path, sizeof(path), "%s/log", dir.path);
    assert_int_equal(lf_log_open(path, &err), LF_OK);
    assert_int_equal(load("tp=4", THE_LAST, &err), LF_IO);
    assert_int_equal(lf_log_open(NULL, &err), LF_OK);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    logged[fread(logged, 1, sizeof(logged) - 1, f)] = '\0';
    (void)fclose(f);
    if (strstr(logged, "rank")) fail_msg("logged: %s", logged);
    temp_dir_remove(&dir);
}

/* Rank 0 may be ready long before: only from its first step on ranks wait for each other in seconds. */
static void loading_waits_for_the_slowest(void **state)
{
    (void)state;
    struct lf_err err = {0};
    is_late = true;
    if (load("tp=2", NOBODY, &err) != LF_OK) fail_msg("%s", err.message);
    is_late = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_cannot_read_ends_the_loading_of_all_with_its_reason),
        cmocka_unit_test(ranks_that_have_loaded_say_nothing_of_one_that_has_not),
        cmocka_unit_test(loading_waits_for_the_slowest),
    };
    main_thread = pthread_self();
    if (!starts_first_thread()) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
