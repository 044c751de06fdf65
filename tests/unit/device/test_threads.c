#include "tests/support/test.h"

#include <stdatomic.h>
#include <time.h>

#include "core/clock.h"
#include "device/cpu/threads.h"

enum { MAX_TASKS = 3000, MAX_THREADS = 8 };

/* Plain counters: a task that ran twice, or beside the loop it belongs to, is a data race that tsan reports. */
struct counts {
    int ran[MAX_TASKS];
    int by_worker[MAX_THREADS];
    _Atomic int started;
};

static void count_task(void *ctx, int task_idx, int worker_idx)
{
    struct counts *c = ctx;
    c->ran[task_idx]++;
    c->by_worker[worker_idx]++;
}

static void every_task_runs_once_whatever_the_counts(void **state)
{
    (void)state;
    static struct counts c;
    for (int n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
        struct lf_threads *threads = NULL;
        assert_int_equal(lf_threads_create(&threads, n_threads, NULL), LF_OK);
        assert_int_equal(lf_threads_n(threads), n_threads);
        for (int n_tasks = 0; n_tasks < MAX_TASKS; n_tasks = n_tasks * 3 / 2 + 1) {
            memset(&c, 0, sizeof c);
            lf_threads_run(threads, n_tasks, count_task, &c);
            int total = 0;
            for (int i = 0; i < MAX_TASKS; i++) assert_int_equal(c.ran[i], i < n_tasks ? 1 : 0);
            for (int i = 0; i < MAX_THREADS; i++) total += c.by_worker[i];
            for (int i = n_threads; i < MAX_THREADS; i++) assert_int_equal(c.by_worker[i], 0);
            assert_int_equal(total, n_tasks);
        }
        lf_threads_destroy(threads);
    }
}

/* Small loops one after the other, with pauses of every length around the spinning time: the interleavings in which a
 * worker wakes late, falls asleep or sleeps through. */
static void many_loops_in_a_row_lose_nothing(void **state)
{
    (void)state;
    static struct counts c;
    struct lf_threads *threads = NULL;
    assert_int_equal(lf_threads_create(&threads, 4, NULL), LF_OK);
    memset(&c, 0, sizeof c);
    int n_loops = 5000;
    for (int i = 0; i < n_loops; i++) {
        lf_threads_run(threads, 2 + i % 7, count_task, &c);
        int64_t until = lf_clock_ns() + (i % 50 == 0 ? i % 200 * 1000 : 0);
        while (lf_clock_ns() < until) continue;
    }
    int expected = 0, ran = 0;
    for (int i = 0; i < n_loops; i++) expected += 2 + i % 7;
    for (int i = 0; i < MAX_TASKS; i++) ran += c.ran[i];
    assert_int_equal(ran, expected);
    assert_int_equal(c.ran[0], n_loops);
    assert_int_equal(c.ran[1], n_loops);
    lf_threads_destroy(threads);
}

static void order_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    struct counts *c = ctx;
    c->ran[task_idx] = atomic_fetch_add(&c->started, 1) - task_idx;
}

/* One thread, so that starting order is handing-out order. */
static void tasks_are_handed_out_in_order(void **state)
{
    (void)state;
    static struct counts c;
    struct lf_threads *threads = NULL;
    assert_int_equal(lf_threads_create(&threads, 1, NULL), LF_OK);
    memset(&c, 0, sizeof c);
    lf_threads_run(threads, MAX_TASKS, order_task, &c);
    for (int i = 0; i < MAX_TASKS; i++) assert_int_equal(c.ran[i], 0);
    lf_threads_destroy(threads);
}

static void block_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    struct counts *c = ctx;
    c->ran[task_idx]++;
    atomic_fetch_add(&c->started, 1);
    /* Both tasks must be running at once to get past this. */
    while (atomic_load(&c->started) < 2) continue;
}

static void tasks_run_at_the_same_time(void **state)
{
    (void)state;
    static struct counts c;
    struct lf_threads *threads = NULL;
    assert_int_equal(lf_threads_create(&threads, 2, NULL), LF_OK);
    for (int i = 0; i < 20; i++) {
        memset(&c, 0, sizeof c);
        lf_threads_run(threads, 2, block_task, &c);
        assert_int_equal(c.ran[0] + c.ran[1], 2);
        if (i % 5 == 0) lf_clock_sleep_ms(2); /* the worker has gone to sleep */
    }
    lf_threads_destroy(threads);
}

static void slow_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    struct counts *c = ctx;
    if (task_idx % 2 == 1) lf_clock_sleep_ms(3);
    c->ran[task_idx]++;
}

/* The owner finishes first and has to sleep until the others are done. */
static void the_owner_waits_for_slow_tasks(void **state)
{
    (void)state;
    static struct counts c;
    struct lf_threads *threads = NULL;
    assert_int_equal(lf_threads_create(&threads, 3, NULL), LF_OK);
    memset(&c, 0, sizeof c);
    for (int i = 1; i <= 10; i++) {
        lf_threads_run(threads, 5, slow_task, &c);
        for (int t = 0; t < 5; t++) assert_int_equal(c.ran[t], i);
    }
    lf_threads_destroy(threads);
}

static void destroying_is_safe_at_any_moment(void **state)
{
    (void)state;
    static struct counts c;
    lf_threads_destroy(NULL);
    for (int i = 0; i < 60; i++) {
        struct lf_threads *threads = NULL;
        assert_int_equal(lf_threads_create(&threads, 1 + i % 5, NULL), LF_OK);
        memset(&c, 0, sizeof c);
        if (i % 3 > 0) lf_threads_run(threads, 10, count_task, &c);
        if (i % 6 == 2) lf_clock_sleep_ms(1);
        lf_threads_destroy(threads);
    }
}

static void thread_counts_out_of_range_are_refused(void **state)
{
    (void)state;
    struct lf_threads *threads = NULL;
    struct lf_err err;
    assert_int_equal(lf_threads_create(&threads, 0, &err), LF_INVALID);
    assert_int_equal(lf_threads_create(&threads, LF_THREADS_N + 1, &err), LF_INVALID);
    assert_null(threads);
}

static int64_t cpu_ns(void)
{
    struct timespec ts;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), 0);
    return (int64_t)ts.tv_sec * LF_NS_PER_S + ts.tv_nsec;
}

static void an_idle_pool_uses_no_cpu(void **state)
{
    (void)state;
    static struct counts c;
    struct lf_threads *threads = NULL;
    assert_int_equal(lf_threads_create(&threads, 4, NULL), LF_OK);
    memset(&c, 0, sizeof c);
    lf_threads_run(threads, 100, count_task, &c);
    lf_clock_sleep_ms(20);
    int64_t before = cpu_ns();
    lf_clock_sleep_ms(200);
    assert_true(cpu_ns() - before < 2 * LF_NS_PER_MS);
    lf_threads_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once_whatever_the_counts),
        cmocka_unit_test(many_loops_in_a_row_lose_nothing),
        cmocka_unit_test(tasks_are_handed_out_in_order),
        cmocka_unit_test(tasks_run_at_the_same_time),
        cmocka_unit_test(the_owner_waits_for_slow_tasks),
        cmocka_unit_test(destroying_is_safe_at_any_moment),
        cmocka_unit_test(thread_counts_out_of_range_are_refused),
        cmocka_unit_test(an_idle_pool_uses_no_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
