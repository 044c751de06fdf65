/* server/http/conn/conn.c: readers that take nothing, or too little, and when they are cut. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "server/http/conn/conn.h"
#include "server/http/conn/tcp_counters.h"

/* A reader at the other end of a connection whose answer is on its way, and time as we like it. */
struct scene {
    struct lf_conns conns;
    struct lf_conn *conn;
    int epoll_fd, ours, theirs;
    int64_t now_ns;
};

enum { READER_MS = 30 * 1000, ANSWER_BYTES = 1 << 20 };

static void connect_pair(struct scene *s)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM, 0), few = 16 * 1024;
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &n), 0);
    s->theirs = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(s->theirs, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    assert_int_equal(connect(s->theirs, (struct sockaddr *)&addr, sizeof addr), 0);
    s->ours = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_true(s->ours >= 0);
    close(listener);
}

static struct scene begin(void)
{
    struct scene s = {.epoll_fd = epoll_create1(0)};
    struct lf_conn_deadlines deadlines = {.head_ms = 1000, .body_ms = 1000, .reader_ms = READER_MS};
    bool full;
    connect_pair(&s);
    assert_int_equal(lf_conns_init(&s.conns, 4, LF_CONN_CUT_N, 0, deadlines, s.epoll_fd, NULL), LF_OK);
    s.conn = lf_conn_admit(&s.conns, s.ours, 1, &full);
    assert_non_null(s.conn);
    lf_conn_enter(&s.conns, s.conn, LF_CONN_ANSWER, NULL);
    s.now_ns = lf_clock_ns();
    return s;
}

static void end(struct scene *s)
{
    lf_conn_closed(&s->conns, s->conn);
    lf_conns_deinit(&s->conns);
    close(s->ours);
    close(s->theirs);
    close(s->epoll_fd);
}

static struct lf_tcp_counters counters(const struct scene *s)
{
    struct lf_tcp_counters k = {0};
    assert_true(lf_tcp_counters(s->ours, &k));
    return k;
}

/* Fills the socket; the reader takes what it takes until so many bytes more are acknowledged. */
static void read_some(struct scene *s, uint64_t n)
{
    static char bytes[ANSWER_BYTES];
    uint64_t until = counters(s).bytes_acked + n;
    for (int i = 0; i < 5000 && counters(s).bytes_acked < until; i++) {
        while (send(s->ours, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) continue;
        (void)!recv(s->theirs, bytes, 2048, MSG_DONTWAIT);
        lf_clock_sleep_ms(1);
    }
    assert_true(counters(s).bytes_acked >= until);
    while (send(s->ours, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) continue;
    assert_true(counters(s).waiting_bytes > 0);
}

static void pass(struct scene *s, int64_t ms)
{
    s->now_ns += ms * LF_NS_PER_MS;
    lf_conns_tick(&s->conns, s->now_ns);
}

static bool is_cut(const struct scene *s)
{
    return s->conn->state == LF_CONN_CUT;
}

static void one_that_takes_nothing_is_cut_at_the_deadline(void **state)
{
    (void)state;
    struct scene s = begin();
    read_some(&s, 1);
    pass(&s, READER_MS - 1000);
    assert_false(is_cut(&s));
    pass(&s, READER_MS);
    assert_true(is_cut(&s));
    assert_int_equal(lf_counter_get(&s.conns.metrics.cut_reader), 1);
    end(&s);
}

/* Something is acknowledged long before each deadline, but what it reads would take a day. */
static void one_that_drips_is_cut_too(void **state)
{
    (void)state;
    struct scene s = begin();
    int n_looks = 0;
    for (; n_looks < 10 && !is_cut(&s); n_looks++) {
        read_some(&s, 1);
        pass(&s, READER_MS - 1000);
    }
    assert_int_equal(n_looks, 2); /* the first look is before the deadline */
    assert_int_equal(lf_counter_get(&s.conns.metrics.cut_reader), 1);
    end(&s);
}

static void one_that_keeps_the_least_rate_is_left_alone(void **state)
{
    (void)state;
    struct scene s = begin();
    for (int i = 0; i < 5; i++) {
        read_some(&s, (uint64_t)LF_READER_BYTES_PER_S * 20);
        pass(&s, 20 * 1000);
        assert_false(is_cut(&s));
    }
    end(&s);
}

/* An answer that is made slowly is none that is read slowly. */
static void one_that_has_read_all_there_is_waits_as_long_as_it_likes(void **state)
{
    (void)state;
    struct scene s = begin();
    for (int i = 0; i < 5; i++) {
        pass(&s, 10 * READER_MS);
        assert_false(is_cut(&s));
    }
    read_some(&s, 1); /* now it is behind, and its time begins */
    pass(&s, READER_MS - 1);
    assert_false(is_cut(&s));
    end(&s);
}

/* A full table in which nobody has been silent for long. */
static struct lf_conn *admit_one_more(int n_of_many, int n_of_few, bool *many_cut)
{
    enum { N = 16 };
    struct lf_conns conns;
    struct lf_conn *held[N] = {0}, *late;
    bool full;
    int epoll_fd = epoll_create1(0), fds[N + 1];
    assert_int_equal(lf_conns_init(&conns, n_of_many + n_of_few, LF_CONN_CUT_N, 0,
                                   (struct lf_conn_deadlines){1000, 1000, 1000}, epoll_fd, NULL),
                     LF_OK);
    for (int i = 0; i <= n_of_many + n_of_few; i++) fds[i] = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < n_of_many + n_of_few; i++) {
        held[i] = lf_conn_admit(&conns, fds[i], i < n_of_many ? 1 : 2, &full);
        assert_non_null(held[i]);
    }
    late = lf_conn_admit(&conns, fds[n_of_many + n_of_few], 2, &full);
    assert_non_null(held[0]);
    *many_cut = held[0]->state == LF_CONN_CUT;
    if (late && late->health_only) late = NULL;
    for (int i = 0; i <= n_of_many + n_of_few; i++) close(fds[i]);
    lf_conns_deinit(&conns);
    close(epoll_fd);
    return late;
}

static void an_address_of_many_makes_room_for_one_of_few(void **state)
{
    (void)state;
    bool cut;
    assert_non_null(admit_one_more(8, 1, &cut));
    assert_true(cut);
    assert_null(admit_one_more(7, 1, &cut)); /* LF_CONN_MANY times two, and one less */
    assert_false(cut);
    assert_non_null(admit_one_more(4, 0, &cut));
    assert_true(cut);
    assert_null(admit_one_more(3, 0, &cut));
    assert_false(cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_takes_nothing_is_cut_at_the_deadline),
        cmocka_unit_test(one_that_drips_is_cut_too),
        cmocka_unit_test(one_that_keeps_the_least_rate_is_left_alone),
        cmocka_unit_test(an_address_of_many_makes_room_for_one_of_few),
        cmocka_unit_test(one_that_has_read_all_there_is_waits_as_long_as_it_likes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
