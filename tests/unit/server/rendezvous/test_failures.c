/* server/rendezvous: what ranks are told that cannot meet, and that the others meet all the same. */
#include "tests/unit/server/rendezvous/raw_rank.h"

#include "core/check.h"

static struct rig r;
static struct rig_rank wrong;

/* A rank of the rig's group that differs from the true one. */
static void copy_rank(int rank)
{
    wrong = r.ranks[rank];
    wrong.opts.address = wrong.address;
}

static void finish(int first)
{
    for (int i = first; i < r.n_ranks; i++) rig_start_rank(&r, i);
    for (int i = 0; i < r.n_ranks; i++) rig_join_rank(&r, i);
    rig_check(&r);
}

static void refuse_then_meet(enum lf_status status, const char *words)
{
    rig_start_rank(&r, 0);
    rig_run_rank(&wrong);
    rig_check_failed(&wrong, status, words);
    finish(1);
}

static void test_wrong_secret(void **state)
{
    (void)state;
    rig_make(&r, 3, "127.0.0.1");
    copy_rank(1);
    wrong.opts.secret = (const uint8_t *)"sixteen bytes or mare";
    refuse_then_meet(LF_INVALID, "the secret differs");
    rig_make(&r, 2, "127.0.0.1");
    copy_rank(1);
    wrong.opts.n_secret--;
    refuse_then_meet(LF_INVALID, "the secret differs");
}

static void test_another_identity(void **state)
{
    (void)state;
    rig_make(&r, 3, "127.0.0.1");
    copy_rank(2);
    wrong.opts.identity = "longflash 1.2.4 model demo tp=2";
    refuse_then_meet(LF_UNSUPPORTED, "rank 0 has \"1.2.3\", this rank \"1.2.4\"");
    rig_make(&r, 2, "127.0.0.1");
    copy_rank(1);
    wrong.opts.identity = RIG_IDENTITY " ";
    refuse_then_meet(LF_UNSUPPORTED, "another build, model or split");
}

static void test_another_count(void **state)
{
    (void)state;
    rig_make(&r, 3, "127.0.0.1");
    copy_rank(2);
    wrong.opts.n_ranks = 4;
    refuse_then_meet(LF_INVALID, "rank 0 expects 3 ranks, this rank was told of 4");
}

static void test_two_of_a_rank(void **state)
{
    (void)state;
    rig_make(&r, 3, "127.0.0.1");
    rig_start_rank(&r, 0);
    struct raw first = raw_hello(r.port, 1, 0, 3);
    assert_int_equal(raw_prove(&first), LF_ANSWER_WELCOME);
    copy_rank(1);
    rig_run_rank(&wrong);
    rig_check_failed(&wrong, LF_INVALID, "rank 1 is in already");
    close(first.fd); /* now the number is free again, for who comes before all are in */
    r.ranks[2].delay_ms = 300;
    finish(1);
}

static void test_ranks_that_cannot_be(void **state)
{
    (void)state;
    static const int claims[][2] = {{0, 0}, {3, 0}, {2147483647, 0}, {2, 1}, {1, 2}};
    rig_make(&r, 3, "127.0.0.1");
    rig_start_rank(&r, 0);
    for (size_t i = 0; i < LF_N_ELEMS(claims); i++) {
        struct raw raw = raw_hello(r.port, claims[i][0], claims[i][1], 3);
        assert_int_equal(raw_prove(&raw), LF_ANSWER_RANK);
        raw_expect_closed(raw.fd, RAW_PATIENCE_MS);
        close(raw.fd);
    }
    finish(1);
}

static void test_timeout_names_who_is_missing(void **state)
{
    (void)state;
    rig_make(&r, 4, "127.0.0.1");
    r.ranks[0].opts.timeout_ms = 1500;
    rig_start_rank(&r, 0);
    rig_start_rank(&r, 2);
    copy_rank(1);
    wrong.opts.identity = "other";
    rig_run_rank(&wrong);
    rig_join_rank(&r, 0);
    rig_join_rank(&r, 2);
    rig_check_failed(&r.ranks[0], LF_TIMEOUT, "ranks 1, 3 of 4 did not come in time; rank 1 at 127.0.0.1:");
    rig_check_failed(&r.ranks[2], LF_TIMEOUT, "rank 0 gave up: ranks 1, 3 of 4 did not come in time");
}

static void test_rank_0_is_not_there(void **state)
{
    (void)state;
    rig_make(&r, 2, "127.0.0.1");
    r.ranks[1].opts.timeout_ms = 300;
    int64_t start_ns = lf_clock_ns();
    rig_run_rank(&r.ranks[1]);
    rig_check_failed(&r.ranks[1], LF_TIMEOUT, "rank 0 was not reached in time: cannot connect to 127.0.0.1:");
    assert_true(lf_clock_ns() - start_ns >= 300 * LF_NS_PER_MS);
    int silent = raw_listen(r.port);
    rig_run_rank(&r.ranks[1]);
    rig_check_failed(&r.ranks[1], LF_TIMEOUT, "rank 0 took the connection and did not answer");
    close(silent);
}

static void test_name_is_not_known(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        rig_make(&r, 2, "no-such-host.invalid");
        r.ranks[rank].opts.timeout_ms = 300;
        rig_run_rank(&r.ranks[rank]);
        rig_check_failed(&r.ranks[rank], LF_NOT_FOUND, "the host no-such-host.invalid is not known");
    }
}

/* A rank that is in and then goes away: before all are, its number is free; behind that, it is over for all. */
static void test_rank_goes_away(void **state)
{
    (void)state;
    struct lf_message m;
    rig_make(&r, 3, "127.0.0.1");
    rig_start_rank(&r, 0);
    struct raw first = raw_hello(r.port, 1, 0, 3);
    assert_int_equal(raw_prove(&first), LF_ANSWER_WELCOME);
    rig_start_rank(&r, 2);
    assert_int_equal(raw_hear(first.fd, &m), LF_OK);
    assert_int_equal(m.type, LF_WIRE_TABLE);
    assert_true(lf_wire_verify(&m, &first.t, LF_WIRE_DOOR, raw_secret));
    assert_int_equal(m.table[2].family, 4);
    close(first.fd);
    rig_join_rank(&r, 0);
    rig_join_rank(&r, 2);
    rig_check_failed(&r.ranks[0], LF_DEVICE, "rank 1 went away");
    rig_check_failed(&r.ranks[2], LF_DEVICE, "rank 0 gave up: rank 1 went away");
}

/* Who was in when the last one came is in then, or is awaited anew. */
static void test_rank_is_gone_when_the_last_one_comes(void **state)
{
    (void)state;
    struct lf_message m;
    rig_make(&r, 3, "127.0.0.1");
    rig_start_rank(&r, 0);
    struct raw gone = raw_hello(r.port, 1, 0, 3);
    assert_int_equal(raw_prove(&gone), LF_ANSWER_WELCOME);
    close(gone.fd);
    struct raw last = raw_hello(r.port, 2, 0, 3);
    assert_int_equal(raw_prove(&last), LF_ANSWER_WELCOME);
    struct pollfd p = {.fd = last.fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 200), 0); /* it is not told of a rank that is not there */
    struct raw again = raw_hello(r.port, 1, 0, 3);
    assert_int_equal(raw_prove(&again), LF_ANSWER_WELCOME);
    assert_int_equal(raw_hear(last.fd, &m), LF_OK);
    assert_int_equal(m.type, LF_WIRE_TABLE);
    close(last.fd);
    close(again.fd);
    rig_join_rank(&r, 0);
    rig_check_failed(&r.ranks[0], LF_DEVICE, "went away");
}

static void test_rank_never_ready(void **state)
{
    (void)state;
    struct lf_message m;
    rig_make(&r, 2, "127.0.0.1");
    r.ranks[0].opts.timeout_ms = 700;
    rig_start_rank(&r, 0);
    struct raw raw = raw_hello(r.port, 1, 0, 2);
    assert_int_equal(raw_prove(&raw), LF_ANSWER_WELCOME);
    rig_join_rank(&r, 0);
    rig_check_failed(&r.ranks[0], LF_TIMEOUT, "rank 1 of 2 did not reach all others in time");
    assert_int_equal(raw_hear(raw.fd, &m), LF_OK);
    assert_int_equal(m.type, LF_WIRE_TABLE);
    assert_int_equal(raw_hear(raw.fd, &m), LF_OK);
    assert_int_equal(m.type, LF_WIRE_END);
    close(raw.fd);
}

static void test_stop(void **state)
{
    (void)state;
    atomic_bool stop;
    atomic_init(&stop, false);
    rig_make(&r, 3, "127.0.0.1");
    for (int i = 0; i < 2; i++) r.ranks[i].opts.stop = &stop;
    rig_start_rank(&r, 0);
    rig_start_rank(&r, 1);
    copy_rank(2); /* calls nobody */
    wrong.opts.stop = &stop;
    snprintf(wrong.address, sizeof wrong.address, "127.0.0.1:%d", rig_free_port());
    assert_int_equal(pthread_create(&wrong.thread, NULL, rig_run_rank, &wrong), 0);
    lf_clock_sleep_ms(200);
    int64_t start_ns = lf_clock_ns();
    atomic_store(&stop, true);
    rig_join_rank(&r, 0);
    rig_join_rank(&r, 1);
    pthread_join(wrong.thread, NULL);
    assert_true(lf_clock_ns() - start_ns < SLOWNESS * LF_NS_PER_S);
    rig_check_failed(&r.ranks[0], LF_CANCELLED, "stopped while waiting for rank");
    rig_check_failed(&wrong, LF_CANCELLED, "stopped while calling rank 0");
    assert_true(r.ranks[1].status == LF_CANCELLED); /* its own flag, or rank 0's word */
}

static void test_bad_options(void **state)
{
    (void)state;
    static const char *const addresses[] = {"",        "x",       "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "a:65536",
                                            "a:-1",    "a: 1",    ":80",       "::1:80",     "[::1]",       "[]:80",
                                            "[::1:80", "::1]:80", "a:1x",      "a:000001",   "[a]:80"};
    char identity[LF_IDENTITY_BYTES + 2];
    memset(identity, 'i', sizeof identity);
    identity[sizeof identity - 1] = 0;
    const struct lf_rendezvous_opts good = rig_opts(1, 2, "127.0.0.1:1");
    struct lf_rendezvous_opts bad[] = {good, good, good, good, good, good, good, good, good};
    bad[0].rank = -1;
    bad[1].rank = 2;
    bad[2].n_ranks = 0;
    bad[3].n_ranks = LF_RANKS_N + 1;
    bad[4].n_secret = LF_SECRET_MIN_BYTES - 1;
    bad[5].n_secret = LF_SECRET_MAX_BYTES + 1;
    bad[6].timeout_ms = 0;
    bad[7].identity = identity;
    bad[8].identity = "two\nlines";
    for (size_t i = 0; i < LF_N_ELEMS(bad); i++) {
        struct rig_rank rank = {.opts = bad[i]};
        rig_run_rank(&rank);
        rig_check_failed(&rank, LF_INVALID, "expected ");
    }
    for (size_t i = 0; i < LF_N_ELEMS(addresses) - 1; i++) {
        struct rig_rank rank = {.opts = rig_opts(0, 2, addresses[i])};
        rig_run_rank(&rank);
        rig_check_failed(&rank, LF_INVALID, "expected HOST:PORT");
    }
}

static void test_longest_identity(void **state)
{
    (void)state;
    static char identity[LF_IDENTITY_BYTES + 1];
    memset(identity, 'i', LF_IDENTITY_BYTES);
    rig_make(&r, 2, "127.0.0.1");
    r.ranks[0].opts.identity = r.ranks[1].opts.identity = identity;
    rig_run(&r);
    rig_check(&r);
}

static void test_address_is_not_free(void **state)
{
    (void)state;
    rig_make(&r, 2, "127.0.0.1");
    int other = raw_listen(r.port);
    rig_run_rank(&r.ranks[0]);
    rig_check_failed(&r.ranks[0], LF_IO, "cannot listen at 127.0.0.1:");
    close(other);
    rig_make(&r, 2, "192.0.2.1");
    rig_run_rank(&r.ranks[0]);
    rig_check_failed(&r.ranks[0], LF_IO, "it is no address of this machine");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wrong_secret),         TEST(test_another_identity),
        TEST(test_another_count),        TEST(test_two_of_a_rank),
        TEST(test_ranks_that_cannot_be), TEST(test_timeout_names_who_is_missing),
        TEST(test_rank_0_is_not_there),  TEST(test_name_is_not_known),
        TEST(test_rank_goes_away),       TEST(test_rank_is_gone_when_the_last_one_comes),
        TEST(test_rank_never_ready),     TEST(test_stop),
        TEST(test_bad_options),          TEST(test_longest_identity),
        TEST(test_address_is_not_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
