#include "tests/unit/server/rendezvous/ranks_rig.h"

#include <sys/wait.h>

#include "core/check.h"

static void meet(int n_ranks, const char *host, const int *delays_ms)
{
    static struct rig r;
    int n_fds = rig_count_fds();
    rig_make(&r, n_ranks, host);
    for (int i = 0; delays_ms && i < n_ranks; i++) r.ranks[i].delay_ms = delays_ms[i];
    rig_run(&r);
    rig_check(&r);
    assert_int_equal(rig_count_fds(), n_fds);
}

static void test_meets(void **state)
{
    (void)state;
    static const int counts[] = {2, 3, 4, 8, LF_RANKS_N};
    for (size_t i = 0; i < LF_N_ELEMS(counts); i++) meet(counts[i], "127.0.0.1", NULL);
}

static void test_any_order(void **state)
{
    (void)state;
    meet(4, "127.0.0.1", (const int[]){300, 0, 100, 50}); /* rank 0 last */
    meet(4, "127.0.0.1", (const int[]){0, 150, 100, 50});
    meet(3, "127.0.0.1", (const int[]){100, 200, 0});
}

static void test_names_and_v6(void **state)
{
    (void)state;
    meet(3, "localhost", NULL);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    const struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has_v6 = fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof a) == 0;
    if (fd >= 0) close(fd);
    if (has_v6) meet(3, "[::1]", NULL);
}

static void test_one_rank(void **state)
{
    (void)state;
    meet(1, "127.0.0.1", NULL);
}

static _Noreturn void be_process(struct rig_rank *rank)
{
    rig_run_rank(rank);
    bool ok = rank->status == LF_OK && rig_greet(rank) && rig_hear(rank);
    _exit(ok ? 0 : 1);
}

static void test_processes(void **state)
{
    (void)state;
    static struct rig r;
    pid_t pids[8];
    rig_make(&r, 8, "127.0.0.1");
    r.ranks[0].delay_ms = 100;
    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) be_process(&r.ranks[i]);
    }
    for (int i = 0; i < 8; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes), cmocka_unit_test(test_meets),        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_one_rank),  cmocka_unit_test(test_names_and_v6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
