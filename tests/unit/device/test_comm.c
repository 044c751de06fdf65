/* Collectives of ranks; what ends them, and messages. All of it twice: ranks share memory, and have a wire. */
#include "tests/unit/device/comm_checks.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "device/comm_impl.h"

static void check_broadcast(struct rank *r, int message, float *x)
{
    size_t n = size_of(message);
    int root = message % r->n_ranks;
    if (r->rank == root) fill(x, root, message, n);
    lf_comm_broadcast(r->comm, root, x, n * sizeof(float));
    for (size_t i = 0; i < n; i++) assert_true(x[i] == brought(root, message, i));
}

/* Round the ring, by message % n places; or from one rank to another alone. */
static void check_exchange(struct rank *r, int message, float *x, float *y)
{
    size_t n = size_of(message);
    int by = message % r->n_ranks, from = (r->rank + r->n_ranks - by) % r->n_ranks, to = (r->rank + by) % r->n_ranks;
    if (by == 0 || r->n_ranks == 1) return;
    fill(x, r->rank, message, n);
    bool is_pair = message % 2 == 0;
    if (is_pair && r->rank != 0) to = LF_COMM_NOBODY;
    if (is_pair && r->rank != by) from = LF_COMM_NOBODY;
    struct lf_exchange_params p = {.to = to, .from = from, .send = x, .receive = y};
    p.send_bytes = p.receive_bytes = n * sizeof(float);
    lf_comm_exchange(r->comm, &p);
    for (size_t i = 0; i < n && from != LF_COMM_NOBODY; i++) assert_true(y[i] == brought(from, message, i));
}

static void check_message(struct rank *r, int message, float *x)
{
    size_t n = size_of(message), bytes = 1;
    struct lf_err err;
    if (r->rank == 0) {
        fill(x, 0, message, n);
        lf_comm_tell(r->comm, x, n * sizeof(float));
        return;
    }
    if (lf_comm_hear(r->comm, x, MOST_FLOATS * sizeof(float), &bytes, &err) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(bytes, n * sizeof(float));
    for (size_t i = 0; i < n; i++) assert_true(x[i] == brought(0, message, i));
}

static void all_kinds(struct rank *r)
{
    float *x = malloc(MOST_FLOATS * sizeof(*x)), *y = malloc((size_t)MOST_FLOATS * MOST_RANKS * sizeof(*y));
    int n_messages = *(const int *)r->ctx;
    assert_true(x && y);
    for (int i = 0; i < n_messages; i++) {
        switch (lf_random64(7, (uint64_t)i) % 7) {
        case 0:
            check_broadcast(r, i, x);
            break;
        case 1:
            check_all_gather(r, i, x, y);
            break;
        case 2:
            check_exchange(r, i, x, y);
            break;
        case 3:
            check_message(r, i, x);
            break;
        case 4:
            lf_comm_barrier(r->comm);
            break;
        case 5:
            check_lse_combine(r, i, x, y);
            break;
        default:
            check_all_reduce(r, i, x, y);
        }
    }
    free(x);
    free(y);
}

static void every_collective_leaves_what_plain_c_does(void **state)
{
    (void)state;
    int n_messages = 150;
    for (int n = 1; n <= MOST_RANKS; n++) run_all(n, all_kinds, &n_messages);
}

/* From rank 0 on, each as likely as any: (10³⁰ − 10³⁰) + 3 is 3, and 3 − 10³⁰ is not. */
static void combine_in_order(struct rank *r)
{
    const float parts[] = {1e30F, -1e30F, 3}, lse = 7;
    float got = 0;
    struct lf_lse_combine_params p = {
        .out = &got, .x = &parts[r->rank], .lse = &lse, .n_rows = 1, .n_heads = 1, .dim = 1};
    lf_comm_lse_combine(r->comm, &p);
    if (got != 1) fail_msg("%g, expected 1", (double)got);
}

static void partial_results_are_added_up_in_the_order_of_ranks(void **state)
{
    (void)state;
    run_all(3, combine_in_order, NULL);
}

/* A barrier is one: nobody is through who has not been preceded by all. */
static void meet_often(struct rank *r)
{
    _Atomic int *n_come = r->ctx;
    for (int i = 1; i <= 300; i++) {
        atomic_fetch_add(n_come, 1);
        lf_comm_barrier(r->comm);
        assert_true(atomic_load(n_come) >= i * r->n_ranks);
    }
}

static void nobody_passes_a_barrier_before_all_have_come(void **state)
{
    (void)state;
    for (int n = 2; n <= MOST_RANKS; n += 3) {
        _Atomic int n_come = 0;
        run_all(n, meet_often, &n_come);
        assert_int_equal(n_come, 300 * n);
    }
}

static void meet_late(struct rank *r)
{
    _Atomic int *n_come = r->ctx;
    if (r->rank == 1) lf_clock_sleep_ms(2 * SHORT_MS);
    atomic_fetch_add(n_come, 1);
    lf_comm_meet(r->comm);
    assert_int_equal(*n_come, r->n_ranks);
    lf_comm_barrier(r->comm);
}

static void a_meeting_waits_for_a_rank_longer_than_anything_else(void **state)
{
    (void)state;
    _Atomic int n_come = 0;
    struct ranks ranks;
    start(&ranks, 3, SHORT_MS, meet_late, &n_come);
    join(&ranks);
    for (int i = 0; i < 3; i++) assert_int_equal(ranks.of[i].status, LF_OK);
    end(&ranks);
}

static void meet_until_it_fails(struct rank *r)
{
    if (r->rank != 1) lf_comm_meet(r->comm);
}

static void an_abort_ends_a_meeting(void **state)
{
    (void)state;
    struct ranks ranks;
    start(&ranks, 3, PATIENCE_MS, meet_until_it_fails, NULL);
    lf_clock_sleep_ms(50);
    lf_comm_group_abort(ranks.group, LF_NO_MEMORY, "it does not load");
    join(&ranks);
    for (int i = 0; i < 3; i += 2) assert_int_equal(ranks.of[i].status, LF_NO_MEMORY);
    assert_string_equal(ranks.of[0].err.message, "it does not load");
    end(&ranks);
}

/* ---- failing ---- */

/* Everything in turn until the group has failed; what the outputs hold is nobody's business then. */
static void go_on_until_it_fails(struct rank *r)
{
    enum { N = 40 * 1000 };
    float *x = calloc(N, sizeof(*x)), *y = calloc((size_t)N * MOST_RANKS, sizeof(*y));
    size_t first[MOST_RANKS + 1], bytes;
    for (int k = 0; k <= MOST_RANKS; k++) first[k] = (size_t)k * N * sizeof(float);
    while (lf_comm_check(r->comm, NULL) == LF_OK) {
        lf_comm_all_reduce(r->comm, &(struct lf_all_reduce_params){.y = y, .x = x, .n = N});
        lf_comm_all_gather(r->comm, &(struct lf_all_gather_params){.out = y, .x = x, .first = first, .n_rows = 1});
        lf_comm_exchange(r->comm, &(struct lf_exchange_params){.to = (r->rank + 1) % r->n_ranks,
                                                               .from = (r->rank + r->n_ranks - 1) % r->n_ranks,
                                                               .send = x,
                                                               .send_bytes = N,
                                                               .receive = y,
                                                               .receive_bytes = N});
        lf_comm_broadcast(r->comm, 1, x, N);
        if (r->rank == 0)
            lf_comm_tell(r->comm, x, 100);
        else
            (void)(lf_comm_hear(r->comm, x, N, &bytes, NULL) == LF_OK);
        lf_comm_barrier(r->comm);
    }
    free(x);
    free(y);
}

static void an_abort_at_any_moment_ends_all_waits_with_its_reason(void **state)
{
    (void)state;
    for (int trial = 0; trial < 60; trial++) {
        struct ranks ranks;
        start(&ranks, 2 + trial % (MOST_RANKS - 1), PATIENCE_MS, go_on_until_it_fails, NULL);
        int64_t until = lf_clock_ns() + (int64_t)(lf_random64(5, (uint64_t)trial) % (4 * LF_NS_PER_MS));
        while (lf_clock_ns() < until) continue;
        int64_t before = lf_clock_ns();
        enum lf_status first = trial % 2 ? LF_DEVICE : LF_SHUTDOWN;
        lf_comm_group_abort(ranks.group, first, "the first reason");
        lf_comm_group_abort(ranks.group, LF_IO, "another one");
        join(&ranks);
        assert_true(lf_clock_ns() - before < 10 * LF_NS_PER_S);
        for (int i = 0; i < ranks.n; i++) {
            assert_int_equal(ranks.of[i].status, first);
            assert_string_equal(ranks.of[i].err.message, "the first reason");
        }
        end(&ranks);
    }
}

static void leave_after_some(struct rank *r)
{
    int n_barriers = r->rank == 1 ? 3 : 10; /* rank 1 is gone then */
    for (int i = 0; i < n_barriers; i++) lf_comm_barrier(r->comm);
}

static void a_rank_that_does_not_come_is_named_in_time(void **state)
{
    (void)state;
    for (int n = 2; n <= MOST_RANKS; n += 3) {
        struct ranks ranks;
        int64_t before = lf_clock_ns();
        start(&ranks, n, SHORT_MS, leave_after_some, NULL);
        join(&ranks);
        assert_true(lf_clock_ns() - before >= (SHORT_MS - 10) * LF_NS_PER_MS);
        assert_true(lf_clock_ns() - before < 10 * LF_NS_PER_S);
        for (int i = 0; i < n; i++) {
            if (i == 1) continue; /* it may have left before the group failed */
            assert_int_equal(ranks.of[i].status, LF_DEVICE);
            assert_non_null(strstr(ranks.of[i].err.message, "waited 1000 ms for rank 1, in a barrier"));
        }
        end(&ranks);
    }
}

static atomic_bool stands_still, is_released;

static void stand_still(int sig)
{
    (void)sig;
    const struct timespec ms = {.tv_nsec = 1000 * 1000};
    atomic_store(&stands_still, true);
    while (!atomic_load(&is_released)) (void)nanosleep(&ms, NULL);
}

/* Rank 0 has nothing to say, until the last one stands still while it waits for that; it is missed behind it. */
static void speak_to_one_that_stands_still(struct rank *r)
{
    char text[8];
    size_t n;
    for (int i = 0; i < 3; i++) {
        while (r->rank == 0 && i == 1 && !atomic_load(&stands_still)) lf_clock_sleep_ms(1);
        if (r->rank == 0)
            lf_comm_tell(r->comm, NULL, 0);
        else if (lf_comm_hear(r->comm, text, sizeof(text), &n, NULL) != LF_OK)
            return;
    }
}

/* All have heard of it, or too much time has passed: a rank that is let go before might find all others there. */
static void wait_for_end(const struct ranks *ranks)
{
    int64_t until = lf_clock_ns() + 10 * LF_NS_PER_S;
    for (int i = 0; i < ranks->n; i++)
        while (lf_comm_group_check(ranks->of[i].group, NULL) == LF_OK && lf_clock_ns() < until) lf_clock_sleep_ms(1);
}

/* What it waited for has come: so it does not wait for anybody, and nobody else is to be named, whoever notices. */
static void a_rank_that_stands_still_since_it_waited_is_named(void **state)
{
    (void)state;
    struct sigaction stop = {.sa_handler = stand_still};
    assert_int_equal(sigaction(SIGUSR1, &stop, NULL), 0);
    for (int n = 2; n <= 5; n++) {
        struct ranks ranks;
        char words[64];
        atomic_store(&stands_still, false);
        atomic_store(&is_released, false);
        start(&ranks, n, SHORT_MS, speak_to_one_that_stands_still, NULL);
        lf_clock_sleep_ms(SHORT_MS / 4); /* some ticks: all wait for rank 0, and say so */
        assert_int_equal(pthread_kill(ranks.of[n - 1].thread, SIGUSR1), 0);
        wait_for_end(&ranks);
        atomic_store(&is_released, true);
        join(&ranks);
        (void)snprintf(words, sizeof(words), " waited 1000 ms for rank %d, in a message", n - 1);
        for (int i = 0; i < n; i++)
            if (!strstr(ranks.of[i].err.message, words)) fail_msg("%d ranks: %s", n, ranks.of[i].err.message);
        end(&ranks);
    }
}

static _Atomic int64_t busy_until_ns;

static bool has_work(const struct lf_comm *c)
{
    (void)c;
    return lf_clock_ns() < atomic_load(&busy_until_ns);
}

/* Rank 0's device has work, which rank 1 waits for longer than for a rank; or it has none. */
static void come_late(struct rank *r)
{
    struct lf_comm_backend with_work = *r->comm->backend;
    with_work.is_busy = has_work;
    r->comm->backend = &with_work;
    if (r->rank == 1) lf_clock_sleep_ms(2 * SHORT_MS);
    lf_comm_barrier(r->comm);
    r->comm->backend = &lf_comm_backend_cpu;
}

static void a_rank_whose_device_is_at_work_waits_until_that_is_done(void **state)
{
    (void)state;
    for (int is_busy = 0; is_busy < 2; is_busy++) {
        struct ranks ranks;
        atomic_store(&busy_until_ns, is_busy ? lf_clock_ns() + 3 * SHORT_MS * LF_NS_PER_MS : 0);
        start(&ranks, 2, SHORT_MS, come_late, NULL);
        join(&ranks);
        for (int i = 0; i < 2; i++) assert_int_equal(ranks.of[i].status, is_busy ? LF_OK : LF_DEVICE);
        end(&ranks);
    }
}

static void send_what_nobody_receives(struct rank *r)
{
    static const char bytes[1024 * 1024]; /* more than a channel has room for */
    if (r->rank == 0)
        lf_comm_exchange(r->comm, &(struct lf_exchange_params){
                                      .to = 1, .send = bytes, .send_bytes = sizeof(bytes), .from = LF_COMM_NOBODY});
}

static void a_send_that_nobody_receives_ends_in_time_or_with_the_group(void **state)
{
    (void)state;
    for (int is_aborted = 0; is_aborted < 2; is_aborted++) {
        struct ranks ranks;
        start(&ranks, 2, is_aborted ? PATIENCE_MS : SHORT_MS, send_what_nobody_receives, NULL);
        int64_t before = lf_clock_ns();
        lf_clock_sleep_ms(50);
        if (is_aborted) lf_comm_group_abort(ranks.group, LF_SHUTDOWN, "it is over");
        join(&ranks);
        assert_true(lf_clock_ns() - before < 10 * LF_NS_PER_S);
        assert_string_equal(ranks.of[0].err.message,
                            is_aborted ? "it is over" : "rank 0 waited 1000 ms for rank 1, in a send");
        end(&ranks);
    }
}

static void receive_what_nobody_sends(struct rank *r)
{
    char byte;
    if (r->rank == 1)
        lf_comm_exchange(r->comm, &(struct lf_exchange_params){
                                      .to = LF_COMM_NOBODY, .from = 0, .receive = &byte, .receive_bytes = 1});
}

static void a_receive_that_nobody_answers_ends_in_time(void **state)
{
    (void)state;
    struct ranks ranks;
    start(&ranks, 2, SHORT_MS, receive_what_nobody_sends, NULL);
    join(&ranks);
    assert_int_equal(ranks.of[1].status, LF_DEVICE);
    assert_string_equal(ranks.of[1].err.message, "rank 1 waited 1000 ms for rank 0, in a receive");
    end(&ranks);
}

/* What rank 1 does otherwise than the others. */
static void disagree(struct rank *r)
{
    char bytes[64] = {0};
    int how = *(const int *)r->ctx;
    if (how == 0 && r->rank == 1)
        lf_comm_barrier(r->comm);
    else if (how < 2)
        lf_comm_broadcast(r->comm, 0, bytes, r->rank == 1 ? 32 : 64);
    else if (r->rank < 2)
        lf_comm_exchange(r->comm, &(struct lf_exchange_params){.to = 1 - r->rank,
                                                               .send = bytes,
                                                               .send_bytes = how == 2 ? 10 : 0,
                                                               .from = 1 - r->rank,
                                                               .receive = bytes + 32,
                                                               .receive_bytes = (how == 2 ? 10 : 0) + (size_t)r->rank});
}

static void ranks_that_came_for_different_things_are_found_out(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct ranks ranks;
        start(&ranks, 3, PATIENCE_MS, disagree, &how);
        join(&ranks);
        assert_int_equal(ranks.of[1].status, LF_DEVICE);
        if (how == 0) assert_non_null(strstr(ranks.of[1].err.message, "for a barrier of 0"));
        if (how == 1) assert_non_null(strstr(ranks.of[1].err.message, "for a broadcast of 32"));
        if (how == 2) assert_string_equal(ranks.of[1].err.message, "rank 1 expected 11 bytes of rank 0, which sent 10");
        if (how == 3) assert_string_equal(ranks.of[1].err.message, "rank 1 expected 1 bytes of rank 0, which sent 0");
        end(&ranks);
    }
}

/* ---- messages ---- */

static int64_t cpu_ns(void)
{
    struct timespec ts;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), 0);
    return (int64_t)ts.tv_sec * LF_NS_PER_S + ts.tv_nsec;
}

static void hear_late(struct rank *r)
{
    char text[8];
    size_t n;
    if (r->rank == 0) {
        lf_clock_sleep_ms(SHORT_MS); /* until all have gone to sleep */
        int64_t before = cpu_ns();
        lf_clock_sleep_ms(300);
        assert_true(cpu_ns() - before < 5 * LF_NS_PER_MS);
        lf_comm_tell(r->comm, "hello", 6);
    } else {
        assert_int_equal(lf_comm_hear(r->comm, text, sizeof(text), &n, NULL), LF_OK);
        assert_true(n == 6 && strcmp(text, "hello") == 0);
    }
}

static void the_first_message_is_waited_for_longer_than_anything_else_and_asleep(void **state)
{
    (void)state;
    struct ranks ranks;
    start(&ranks, 4, SHORT_MS, hear_late, NULL);
    join(&ranks);
    for (int i = 0; i < 4; i++) assert_int_equal(ranks.of[i].status, LF_OK);
    end(&ranks);
}

static void hear_once(struct rank *r)
{
    char text[8];
    size_t n = 1;
    if (r->rank == 0) {
        lf_comm_tell(r->comm, NULL, 0);
        return;
    }
    assert_int_equal(lf_comm_hear(r->comm, text, sizeof(text), &n, NULL), LF_OK);
    assert_int_equal(n, 0);
    assert_int_equal(lf_comm_hear(r->comm, text, sizeof(text), &n, NULL), LF_DEVICE);
}

static void a_rank_0_that_has_spoken_and_falls_silent_is_named_in_time(void **state)
{
    (void)state;
    struct ranks ranks;
    start(&ranks, 3, SHORT_MS, hear_once, NULL);
    join(&ranks);
    for (int i = 1; i < 3; i++)
        assert_non_null(strstr(ranks.of[i].err.message, " waited 1000 ms for rank 0, in a message"));
    end(&ranks);
}

enum { STOPPED_MS = 3 * SHORT_MS / 2, AT_WORK_MS = 100 };

/* Rank 0 has work for some time in which the process runs; the pipe's end says that it has begun. */
static void work_a_while(struct rank *r)
{
    if (r->rank == 0) {
        assert_int_equal(write(*(const int *)r->ctx, "", 1), 1);
        for (int i = 0; i < AT_WORK_MS / 5; i++) lf_clock_sleep_ms(5);
    }
    lf_comm_barrier(r->comm);
}

static int meet_in_a_process(int ready_fd)
{
    struct ranks ranks;
    start(&ranks, 2, SHORT_MS, work_a_while, &ready_fd);
    join(&ranks);
    bool met = ranks.of[0].status == LF_OK && ranks.of[1].status == LF_OK;
    end(&ranks);
    return met ? 0 : 1;
}

static void time_in_which_the_process_is_stopped_is_no_rank_s_fault(void **state)
{
    (void)state;
    int ready[2], status;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(meet_in_a_process(ready[1]));
    assert_int_equal(read(ready[0], &byte, 1), 1);
    lf_clock_sleep_ms(AT_WORK_MS / 4);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    lf_clock_sleep_ms(STOPPED_MS);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void hear_too_much(struct rank *r)
{
    char text[64] = {0};
    size_t n = 0;
    if (r->rank == 0)
        lf_comm_tell(r->comm, text, sizeof(text));
    else
        assert_int_equal(lf_comm_hear(r->comm, text, 63, &n, NULL), LF_DEVICE);
    assert_int_equal(n, 0);
}

static void hear_as_much_as_there_is_room_for(struct rank *r)
{
    char text[64] = "0123456789";
    size_t n = 0;
    if (r->rank == 0) {
        lf_comm_tell(r->comm, text, sizeof(text));
        return;
    }
    memset(text, 0, sizeof(text));
    assert_int_equal(lf_comm_hear(r->comm, text, sizeof(text), &n, NULL), LF_OK);
    assert_true(n == sizeof(text) && strcmp(text, "0123456789") == 0);
}

static void a_message_may_fill_the_room(void **state)
{
    (void)state;
    run_all(3, hear_as_much_as_there_is_room_for, NULL);
}

static void a_message_that_is_too_long_is_none(void **state)
{
    (void)state;
    struct ranks ranks;
    start(&ranks, 2, PATIENCE_MS, hear_too_much, NULL);
    join(&ranks);
    assert_int_equal(ranks.of[1].status, LF_DEVICE);
    assert_string_equal(ranks.of[1].err.message, "rank 1 has room for a message of 63 bytes, one of 64 came");
    end(&ranks);
}

/* Of CPUs nothing is open: ops go the way of messages. */
static void memory_of_a_cpu_is_not_opened(void **state)
{
    (void)state;
    struct lf_comm_group *group;
    struct lf_comm *comm;
    char memory[64];
    assert_int_equal(lf_comm_group_create(&group, 2, 1000, NULL), LF_OK);
    assert_int_equal(lf_comm_create(&comm, group, 1, NULL), LF_OK);
    assert_int_equal(lf_comm_open(comm, memory, sizeof(memory), NULL), LF_OK);
    assert_null(lf_comm_peer(comm, 0, memory));
    assert_null(lf_comm_peer(comm, 1, memory));
    lf_comm_destroy(comm);
    lf_comm_group_destroy(group);
}

static void numbers_of_ranks_out_of_range_are_refused(void **state)
{
    (void)state;
    struct lf_comm_group *group = NULL;
    struct lf_err err;
    assert_int_equal(lf_comm_group_create(&group, 0, 1, &err), LF_INVALID);
    assert_int_equal(lf_comm_group_create(&group, LF_RANKS_N + 1, 1, &err), LF_INVALID);
    assert_null(group);
    assert_int_equal(lf_comm_group_create(&group, LF_RANKS_N, 1, &err), LF_OK);
    lf_comm_group_destroy(group);
    assert_true(lf_comm_group_bytes(4, 1) > lf_comm_group_bytes(2, 1));
    assert_true(lf_comm_group_bytes(2, 3) > lf_comm_group_bytes(2, 2));
}

/* KiB of memory that is shared, as the system counts it: nothing else of this program is. */
static long shared_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, "RssShmem:", 9) == 0) kib = strtol(line + 9, NULL, 10);
    (void)fclose(f);
    return kib;
}

/* Every slot and every channel, from end to end. */
static void use_everything(struct rank *r)
{
    enum { BYTES = 512 * 1024 };
    char *x = calloc(BYTES, 1), *y = calloc(BYTES, 1);
    for (int by = 1; by < r->n_ranks; by++)
        lf_comm_exchange(r->comm, &(struct lf_exchange_params){.to = (r->rank + by) % r->n_ranks,
                                                               .from = (r->rank + r->n_ranks - by) % r->n_ranks,
                                                               .send = x,
                                                               .send_bytes = BYTES,
                                                               .receive = y,
                                                               .receive_bytes = BYTES});
    for (int root = 0; root < r->n_ranks; root++) lf_comm_broadcast(r->comm, root, x, BYTES);
    free(x);
    free(y);
}

static void a_group_takes_what_it_says(void **state)
{
    (void)state;
    for (int n = 2; n <= MOST_RANKS; n += 3) {
        struct ranks ranks;
        long before = shared_kib();
        if (before < 0 || ranks_on_wire) skip();
        start(&ranks, n, PATIENCE_MS, use_everything, NULL);
        join(&ranks);
        double taken = 1024.0 * (double)(shared_kib() - before), said = (double)lf_comm_group_bytes(n, 1);
        end(&ranks);
        /* nobody uses a channel to itself */
        if (!(taken <= said + 32 * 1024 && taken > 0.75 * said))
            fail_msg("%d ranks take %.0f bytes, and say %.0f", n, taken, said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_leaves_what_plain_c_does),
        cmocka_unit_test(partial_results_are_added_up_in_the_order_of_ranks),
        cmocka_unit_test(nobody_passes_a_barrier_before_all_have_come),
        cmocka_unit_test(a_meeting_waits_for_a_rank_longer_than_anything_else),
        cmocka_unit_test(an_abort_ends_a_meeting),
        cmocka_unit_test(an_abort_at_any_moment_ends_all_waits_with_its_reason),
        cmocka_unit_test(a_rank_that_does_not_come_is_named_in_time),
        cmocka_unit_test(a_rank_that_stands_still_since_it_waited_is_named),
        cmocka_unit_test(a_rank_whose_device_is_at_work_waits_until_that_is_done),
        cmocka_unit_test(a_send_that_nobody_receives_ends_in_time_or_with_the_group),
        cmocka_unit_test(a_receive_that_nobody_answers_ends_in_time),
        cmocka_unit_test(ranks_that_came_for_different_things_are_found_out),
        cmocka_unit_test(the_first_message_is_waited_for_longer_than_anything_else_and_asleep),
        cmocka_unit_test(a_rank_0_that_has_spoken_and_falls_silent_is_named_in_time),
        cmocka_unit_test(time_in_which_the_process_is_stopped_is_no_rank_s_fault),
        cmocka_unit_test(a_message_may_fill_the_room),
        cmocka_unit_test(a_message_that_is_too_long_is_none),
        cmocka_unit_test(memory_of_a_cpu_is_not_opened),
        cmocka_unit_test(numbers_of_ranks_out_of_range_are_refused),
        cmocka_unit_test(a_group_takes_what_it_says),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed + cmocka_run_group_tests_name("over the wire", tests, use_wire, NULL);
}
