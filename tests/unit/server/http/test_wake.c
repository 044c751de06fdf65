/* server/http/conn/wake.c: a connection is suspended and resumed as often as the other, no news get lost, and one that
 * is lent is resumed by its worker alone. libmicrohttpd is counted here, and the clock is set. */
#include "tests/support/test.h"

#include <unistd.h>

#include "server/http/conn/wake.h"
#include "tests/support/lock_depth.h"
#include "tests/support/stopped_clock.h"

/* As wake.c says: a patient one waits an eighth of its age, at most this. */
enum { PATIENCE_MS = 20, PATIENCE_SHARE = 8 };

struct MHD_Connection {
    int n_suspended, n_resumed;
};

void __wrap_MHD_suspend_connection(struct MHD_Connection *mhd);
void __wrap_MHD_suspend_connection(struct MHD_Connection *mhd)
{
    mhd->n_suspended++;
}

void __wrap_MHD_resume_connection(struct MHD_Connection *mhd);
void __wrap_MHD_resume_connection(struct MHD_Connection *mhd)
{
    mhd->n_resumed++;
}

enum { WAKES_N = 3 };

struct rig {
    struct lf_waker waker;
    struct lf_wake wakes[WAKES_N];
    struct MHD_Connection mhds[WAKES_N];
};

static void open_rig(struct rig *r)
{
    memset(r, 0, sizeof *r);
    now_ns = 500 * (int64_t)LF_NS_PER_S;
    assert_true(lf_waker_init(&r->waker));
    for (int i = 0; i < WAKES_N; i++) lf_wake_init(&r->wakes[i], &r->waker, &r->mhds[i]);
}

static void close_rig(struct rig *r)
{
    int n, n_suspended;
    for (int i = 0; i < WAKES_N; i++) {
        assert_int_equal(r->mhds[i].n_suspended, r->mhds[i].n_resumed);
        lf_wake_deinit(&r->wakes[i]);
    }
    lf_waker_count(&r->waker, &n, &n_suspended);
    assert_int_equal(n, 0);
    assert_int_equal(n_suspended, 0);
    lf_waker_deinit(&r->waker);
}

static int n_suspended(struct rig *r)
{
    int n, n_now;
    lf_waker_count(&r->waker, &n, &n_now);
    assert_int_equal(n, WAKES_N);
    return n_now;
}

/* What the event descriptor has counted since it was read last. */
static uint64_t n_events(const struct rig *r)
{
    uint64_t n = 0;
    return read(r->waker.event_fd, &n, sizeof n) == sizeof n ? n : 0;
}

static void news_resume_a_suspended_one_once(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    assert_true(lf_wake_suspend(&r.wakes[0], 0));
    assert_true(lf_wake_suspend(&r.wakes[1], 0));
    assert_int_equal(n_suspended(&r), 2);
    assert_int_equal(r.mhds[0].n_suspended, 1);
    lf_wake_notify(&r.wakes[0]);
    lf_wake_notify(&r.wakes[0]);
    assert_int_equal(r.mhds[0].n_resumed, 0); /* the engine's thread is not held up */
    assert_int_equal(n_events(&r), 1);
    assert_true(lf_waker_run(&r.waker) == INT64_MAX);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    assert_int_equal(r.mhds[1].n_resumed, 0);
    assert_int_equal(n_suspended(&r), 1);
    assert_true(lf_waker_run(&r.waker) == INT64_MAX);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    assert_true(lf_wake_suspend(&r.wakes[0], 0)); /* what resumed it was seen */
    lf_wake_notify(&r.wakes[0]);
    lf_wake_notify(&r.wakes[1]);
    assert_int_equal(n_events(&r), 1); /* one waits already */
    (void)lf_waker_run(&r.waker);
    assert_int_equal(n_suspended(&r), 0);
    close_rig(&r);
}

static void news_that_come_before_it_suspends_are_not_lost(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    lf_wake_notify(&r.wakes[0]);
    (void)lf_waker_run(&r.waker);
    assert_int_equal(r.mhds[0].n_resumed, 0);
    assert_false(lf_wake_suspend(&r.wakes[0], 0)); /* look again */
    assert_int_equal(r.mhds[0].n_suspended, 0);
    assert_true(lf_wake_suspend(&r.wakes[0], 0));
    lf_wake_notify(&r.wakes[0]);
    (void)lf_waker_run(&r.waker);
    close_rig(&r);
}

static void one_that_is_lent_is_resumed_by_its_worker(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    assert_true(lf_wake_lend(&r.wakes[0]));
    assert_int_equal(r.mhds[0].n_suspended, 1);
    assert_int_equal(n_suspended(&r), 1);
    lf_wake_notify(&r.wakes[0]);
    (void)lf_waker_run(&r.waker);
    lf_waker_tick(&r.waker, now_ns + 1);
    lf_wake_gone(&r.wakes[0]);
    assert_int_equal(r.mhds[0].n_resumed, 0);
    assert_true(lf_wake_is_over(&r.wakes[0]));
    lf_wake_return(&r.wakes[0]);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    assert_int_equal(n_suspended(&r), 0);
    assert_true(lf_wake_lend(&r.wakes[0])); /* a worker may still take notice of it */
    lf_wake_return(&r.wakes[0]);
    close_rig(&r);
}

/* The thread that it is resumed for looks at everything: what came while it was lent is no reason not to suspend. */
static void what_came_while_it_was_lent_is_seen_when_it_returns(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    assert_true(lf_wake_lend(&r.wakes[1]));
    lf_wake_notify(&r.wakes[1]);
    (void)lf_waker_run(&r.waker);
    lf_wake_return(&r.wakes[1]);
    assert_true(lf_wake_suspend(&r.wakes[1], 0));
    lf_wake_gone(&r.wakes[1]);
    assert_int_equal(r.mhds[1].n_resumed, 2);
    close_rig(&r);
}

static void a_client_that_left_ends_its_wait_for_good(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    assert_false(lf_wake_is_over(&r.wakes[0]));
    assert_true(lf_wake_suspend(&r.wakes[0], 0));
    lf_wake_gone(&r.wakes[0]);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    lf_wake_gone(&r.wakes[0]);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    assert_true(lf_wake_is_over(&r.wakes[0]));
    assert_false(lf_wake_is_over(&r.wakes[1]));
    assert_false(lf_wake_suspend(&r.wakes[0], 0));
    assert_false(lf_wake_suspend(&r.wakes[0], 0)); /* not only because of the news */
    assert_int_equal(r.mhds[0].n_suspended, 1);
    close_rig(&r);
}

static void a_suspended_one_wakes_at_its_time(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    assert_true(lf_wake_suspend(&r.wakes[0], now_ns + 100));
    assert_true(lf_wake_suspend(&r.wakes[1], 0)); /* no matter when */
    assert_true(lf_wake_lend(&r.wakes[2]));
    lf_waker_tick(&r.waker, now_ns + 99);
    assert_int_equal(r.mhds[0].n_resumed, 0);
    lf_waker_tick(&r.waker, now_ns + 100);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    lf_waker_tick(&r.waker, INT64_MAX);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    assert_int_equal(r.mhds[1].n_resumed, 0);
    assert_int_equal(r.mhds[2].n_resumed, 0);
    assert_true(lf_wake_suspend(&r.wakes[0], now_ns + 500)); /* the time is that of the last suspending */
    lf_waker_tick(&r.waker, now_ns + 499);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    lf_wake_gone(&r.wakes[0]);
    lf_wake_gone(&r.wakes[1]);
    lf_wake_return(&r.wakes[2]);
    close_rig(&r);
}

static void a_patient_one_waits_an_eighth_of_its_age(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    struct lf_wake *wake = &r.wakes[0];
    atomic_store(&wake->patient, true);
    now_ns = wake->began_ns + (int64_t)80 * LF_NS_PER_MS;
    assert_true(lf_wake_suspend(wake, 0));
    lf_wake_notify(wake);
    assert_true(lf_waker_run(&r.waker) == INT64_MAX); /* it was not woken before */
    assert_int_equal(r.mhds[0].n_resumed, 1);
    int64_t woken_ns = now_ns;
    assert_true(lf_wake_suspend(wake, 0));
    now_ns += LF_NS_PER_MS;
    lf_wake_notify(wake);
    int64_t due_ns = woken_ns + (now_ns - wake->began_ns) / PATIENCE_SHARE;
    assert_true(lf_waker_run(&r.waker) == due_ns);
    lf_wake_notify(wake); /* it waits already */
    (void)n_events(&r);
    lf_wake_notify(&r.wakes[1]);
    assert_int_equal(n_events(&r), 1);
    now_ns = woken_ns + (int64_t)11428 * 1000; /* 91.428 / 8 = 11.4285 */
    assert_true(lf_waker_run(&r.waker) > now_ns);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    now_ns += 1000;
    assert_true(lf_waker_run(&r.waker) == INT64_MAX);
    assert_int_equal(r.mhds[0].n_resumed, 2);
    assert_true(r.wakes[1].pending);
    close_rig(&r);
}

static void patience_has_an_end(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    for (int i = 0; i < 2; i++) {
        atomic_store(&r.wakes[i].patient, true);
        now_ns = r.wakes[i].began_ns + (int64_t)(10 + i) * LF_NS_PER_S;
        assert_true(lf_wake_suspend(&r.wakes[i], 0));
        lf_wake_notify(&r.wakes[i]);
        (void)lf_waker_run(&r.waker);
        assert_true(lf_wake_suspend(&r.wakes[i], 0));
    }
    int64_t first_ns = now_ns + (int64_t)PATIENCE_MS * LF_NS_PER_MS;
    lf_wake_notify(&r.wakes[1]);
    assert_true(lf_waker_run(&r.waker) == first_ns);
    lf_wake_notify(&r.wakes[0]); /* woken a second before: due at once, and the other one goes on waiting */
    assert_true(lf_waker_run(&r.waker) == first_ns);
    assert_int_equal(r.mhds[0].n_resumed, 2);
    assert_int_equal(r.mhds[1].n_resumed, 1);
    now_ns = first_ns - 1;
    assert_true(lf_waker_run(&r.waker) == first_ns);
    assert_int_equal(r.mhds[1].n_resumed, 1);
    now_ns = first_ns;
    assert_true(lf_waker_run(&r.waker) == INT64_MAX);
    assert_int_equal(r.mhds[1].n_resumed, 2);
    close_rig(&r);
}

static void of_several_that_wait_the_first_one_counts(void **state)
{
    (void)state;
    struct rig r;
    int64_t woken_ns[2];
    open_rig(&r);
    for (int i = 0; i < 2; i++) {
        atomic_store(&r.wakes[i].patient, true);
        now_ns = r.wakes[i].began_ns + (int64_t)10 * LF_NS_PER_S + (int64_t)i * LF_NS_PER_MS;
        assert_true(lf_wake_suspend(&r.wakes[i], 0));
        lf_wake_notify(&r.wakes[i]);
        (void)lf_waker_run(&r.waker);
        woken_ns[i] = now_ns;
        assert_true(lf_wake_suspend(&r.wakes[i], 0));
    }
    lf_wake_notify(&r.wakes[0]);
    lf_wake_notify(&r.wakes[1]);
    assert_true(lf_waker_run(&r.waker) == woken_ns[0] + (int64_t)PATIENCE_MS * LF_NS_PER_MS);
    now_ns = woken_ns[0] + (int64_t)PATIENCE_MS * LF_NS_PER_MS;
    assert_true(lf_waker_run(&r.waker) == woken_ns[1] + (int64_t)PATIENCE_MS * LF_NS_PER_MS);
    assert_int_equal(n_suspended(&r), 1);
    lf_wake_gone(&r.wakes[1]); /* and whoever leaves needs no patience */
    assert_int_equal(n_suspended(&r), 0);
    close_rig(&r);
}

static void after_the_end_nobody_wakes_it(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    lf_wake_notify(&r.wakes[0]);
    lf_wake_deinit(&r.wakes[0]);
    memset(&r.wakes[0], 0xff, sizeof r.wakes[0]); /* whoever follows a pointer to it falls */
    assert_true(lf_waker_run(&r.waker) == INT64_MAX);
    lf_waker_tick(&r.waker, now_ns);
    memset(&r.mhds[0], 0, sizeof r.mhds[0]);
    lf_wake_init(&r.wakes[0], &r.waker, &r.mhds[0]);
    close_rig(&r);
}

static void when_the_server_stops_nothing_is_suspended_any_more(void **state)
{
    (void)state;
    struct rig r;
    open_rig(&r);
    assert_true(lf_wake_suspend(&r.wakes[0], 0));
    assert_true(lf_wake_lend(&r.wakes[1]));
    lf_waker_stop(&r.waker);
    assert_int_equal(n_events(&r), 1);
    assert_int_equal(r.mhds[0].n_resumed, 1);
    assert_int_equal(r.mhds[1].n_resumed, 0); /* its worker does */
    for (int i = 0; i < WAKES_N; i++) assert_true(lf_wake_is_over(&r.wakes[i]));
    lf_wake_return(&r.wakes[1]);
    assert_int_equal(r.mhds[1].n_resumed, 1);
    for (int i = 0; i < WAKES_N; i++) {
        assert_false(lf_wake_suspend(&r.wakes[i], 0));
        assert_false(lf_wake_suspend(&r.wakes[i], 0));
        assert_false(lf_wake_lend(&r.wakes[i]));
    }
    assert_int_equal(r.mhds[2].n_suspended, 0);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(news_resume_a_suspended_one_once),
        cmocka_unit_test(news_that_come_before_it_suspends_are_not_lost),
        cmocka_unit_test(one_that_is_lent_is_resumed_by_its_worker),
        cmocka_unit_test(what_came_while_it_was_lent_is_seen_when_it_returns),
        cmocka_unit_test(a_client_that_left_ends_its_wait_for_good),
        cmocka_unit_test(a_suspended_one_wakes_at_its_time),
        cmocka_unit_test(a_patient_one_waits_an_eighth_of_its_age),
        cmocka_unit_test(patience_has_an_end),
        cmocka_unit_test(of_several_that_wait_the_first_one_counts),
        cmocka_unit_test(after_the_end_nobody_wakes_it),
        cmocka_unit_test(when_the_server_stops_nothing_is_suspended_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
