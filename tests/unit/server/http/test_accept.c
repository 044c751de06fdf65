/* server/http/conn/accept.c: who waits for a place that will be free in a moment, and for how long. Sockets, epoll and
 * the table are real; libmicrohttpd takes what it is given, and the clock is the test's. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <microhttpd.h>

#include "server/http/conn/server.h"
#include "tests/support/stopped_clock.h"

enum { PAUSE_MS = 5, PATIENCE_MS = 250 };

static struct {
    struct lf_http_server server;
    int n_given; /* to libmicrohttpd */
} rig;

enum MHD_Result __wrap_MHD_add_connection(struct MHD_Daemon *daemon, int fd, const struct sockaddr *addr, socklen_t n);
enum MHD_Result __wrap_MHD_add_connection(struct MHD_Daemon *daemon, int fd, const struct sockaddr *addr, socklen_t n)
{
    assert_null(daemon);
    assert_true(fd >= 0 && addr->sa_family == AF_INET && n == sizeof(struct sockaddr_in));
    rig.n_given++;
    return MHD_YES;
}

/* A table whose places are all taken; those that are not being closed are busy. */
static int open_full(void **state)
{
    (void)state;
    struct lf_err err;
    struct lf_http_server *s = &rig.server;
    memset(&rig, 0, sizeof rig);
    now_ns = 1000 * LF_NS_PER_S;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    lf_acceptor_init(&s->acceptor);
    if (lf_listen(&s->listen_fd, &s->port, &s->loopback, "127.0.0.1", 0, &err) != LF_OK) return -1;
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = LF_WATCH_LISTEN};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listen_fd, &ev) != 0) return -1;
    if (lf_conns_init(&s->conns, 2, 1, 0, (struct lf_conn_deadlines){1, 1, 1}, s->epoll_fd, &err) != LF_OK) return -1;
    for (int i = 0; i < s->conns.n_places; i++) s->conns.places[i].state = LF_CONN_WORK;
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    struct lf_http_server *s = &rig.server;
    lf_acceptor_deinit(&s->acceptor);
    for (int i = 0; i < s->conns.n_places; i++)
        if (s->conns.places[i].fd >= 0) close(s->conns.places[i].fd);
    lf_conns_deinit(&s->conns);
    close(s->listen_fd);
    close(s->epoll_fd);
    return 0;
}

static int come(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)rig.server.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Whether the server is told of who comes: accepting does not pause. */
static bool listens(void)
{
    struct epoll_event ev;
    int fd = come();
    bool told = epoll_wait(rig.server.epoll_fd, &ev, 1, 50) == 1;
    close(fd);
    return told;
}

static void set_state(int i, enum lf_conn_state state)
{
    rig.server.conns.places[i].state = state;
}

/* The status that the client was sent, 0: nothing, and its connection is there; -1: it was ended without a word. */
static int told(int fd)
{
    char text[64] = "";
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 20) == 0) return 0;
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    return n > 12 ? (int)strtol(text + 9, NULL, 10) : -1;
}

static int resume_after(int64_t n_ms)
{
    now_ns += ms(n_ms);
    int64_t again_ns = lf_acceptor_resume(&rig.server, now_ns);
    return again_ns == INT64_MAX ? -1 : (int)((again_ns - now_ns) / LF_NS_PER_MS);
}

static uint64_t n_refused(void)
{
    return lf_counter_get(&rig.server.conns.metrics.refused_full);
}

static void a_place_that_is_being_closed_is_waited_for(void **state)
{
    (void)state;
    set_state(3, LF_CONN_CUT);
    int client = come();
    lf_acceptor_run(&rig.server);
    assert_int_equal(told(client), 0);
    assert_false(listens());
    assert_int_equal(resume_after(PAUSE_MS - 1), 1);
    assert_int_equal(resume_after(1), PAUSE_MS); /* still taken */
    assert_int_equal(rig.n_given, 0);
    set_state(3, LF_CONN_FREE);
    assert_int_equal(resume_after(PAUSE_MS), -1);
    assert_int_equal(rig.n_given, 1);
    assert_int_equal(rig.server.conns.places[3].state, LF_CONN_HEAD);
    assert_int_equal(told(client), 0);
    assert_int_equal(n_refused(), 0);
    assert_true(listens());
    close(client);
}

static void nobody_waits_for_longer_than_that_nor_a_second_time_in_vain(void **state)
{
    (void)state;
    set_state(3, LF_CONN_CUT);
    int first = come();
    lf_acceptor_run(&rig.server);
    for (int at = PAUSE_MS; at < PATIENCE_MS; at += PAUSE_MS) assert_int_equal(resume_after(PAUSE_MS), PAUSE_MS);
    assert_int_equal(told(first), 0);
    assert_int_equal(resume_after(PAUSE_MS), -1);
    assert_int_equal(told(first), 503);
    int second = come();
    lf_acceptor_run(&rig.server);
    assert_int_equal(told(second), 503);
    assert_false(rig.server.acceptor.paused);
    assert_int_equal(n_refused(), 2);
    /* once there was room, waiting is worth while again */
    set_state(3, LF_CONN_FREE);
    int third = come();
    lf_acceptor_run(&rig.server);
    assert_int_equal(rig.n_given, 1);
    set_state(4, LF_CONN_CUT);
    int fourth = come();
    lf_acceptor_run(&rig.server);
    assert_true(rig.server.acceptor.paused);
    assert_int_equal(told(fourth), 0);
    close(first);
    close(second);
    close(third);
    close(fourth);
}

static void where_nothing_is_being_closed_nobody_waits(void **state)
{
    (void)state;
    int client = come();
    lf_acceptor_run(&rig.server);
    assert_int_equal(told(client), 503);
    assert_false(rig.server.acceptor.paused);
    set_state(0, LF_CONN_CUT);
    set_state(5, LF_CONN_FREE);
    int next = come();
    lf_acceptor_run(&rig.server); /* being closed, but there is a place */
    assert_int_equal(rig.n_given, 1);
    assert_false(rig.server.acceptor.paused);
    close(client);
    close(next);
}

static void who_waits_at_the_end_is_let_go(void **state)
{
    (void)state;
    set_state(3, LF_CONN_CUT);
    int client = come();
    lf_acceptor_run(&rig.server);
    assert_int_equal(told(client), 0);
    lf_acceptor_deinit(&rig.server.acceptor);
    assert_int_equal(told(client), -1);
    close(client);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_full, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_place_that_is_being_closed_is_waited_for),
        CASE(nobody_waits_for_longer_than_that_nor_a_second_time_in_vain),
        CASE(where_nothing_is_being_closed_nobody_waits),
        CASE(who_waits_at_the_end_is_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
