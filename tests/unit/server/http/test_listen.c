/* server/http/conn/listen.c: what an address is for the limit per address, and listening on both kinds of loopback. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include "server/http/conn/server.h"

static int bind_error; /* 0: the kernel decides */
int __real_bind(int fd, const struct sockaddr *addr, socklen_t n);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t n);

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t n)
{
    if (bind_error == 0) return __real_bind(fd, addr, n);
    errno = bind_error;
    return -1;
}

static uint64_t peer(const char *text)
{
    struct sockaddr_storage addr = {0};
    if (strchr(text, ':')) {
        struct sockaddr_in6 *a = (struct sockaddr_in6 *)(void *)&addr;
        a->sin6_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, text, &a->sin6_addr), 1);
    } else {
        struct sockaddr_in *a = (struct sockaddr_in *)(void *)&addr;
        a->sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, text, &a->sin_addr), 1);
    }
    const struct lf_address address = lf_address_of(&addr);
    return lf_address_key(&address);
}

static void an_ipv6_network_of_64_bits_is_one_address(void **state)
{
    (void)state;
    assert_true(peer("2001:db8:1:2::1") == peer("2001:db8:1:2:ffff::9"));
    assert_true(peer("2001:db8:1:2::1") != peer("2001:db8:1:3::1"));
    assert_true(peer("2001:db8:1:2::1") != peer("2001:db8:2:2::1"));
}

static void an_ipv4_address_is_the_same_over_ipv6(void **state)
{
    (void)state;
    assert_true(peer("10.0.0.1") == peer("::ffff:10.0.0.1"));
    assert_true(peer("10.0.0.1") != peer("10.0.0.2"));
    assert_true(peer("::ffff:10.0.0.1") != peer("::ffff:10.0.0.2"));
    assert_true(peer("0.0.0.0") != peer("::"));
}

static void listens_where_it_is_told(void **state)
{
    (void)state;
    struct lf_err err;
    int fd = -1, other = -1, port = 0, again = 0;
    bool loopback = false;
    assert_int_equal(lf_listen(&fd, &port, &loopback, "127.0.0.1", 0, &err), LF_OK);
    assert_true(fd >= 0 && port > 0 && loopback);
    assert_int_equal(lf_listen(&other, &again, &loopback, "127.0.0.1", port, &err), LF_IO);
    assert_non_null(strstr(err.message, "cannot listen"));
    assert_int_equal(other, -1);
    close(fd);
    assert_int_equal(lf_listen(&fd, &port, &loopback, "127.0.0.1", 65536, &err), LF_INVALID);
    assert_int_equal(lf_listen(&fd, &port, &loopback, "127.0.0.1", -1, &err), LF_INVALID);
    assert_int_equal(lf_listen(&fd, &port, &loopback, "fe80::1%no-such-interface", 0, &err), LF_IO);
    assert_non_null(strstr(err.message, "host fe80::1%no-such-interface: "));
    assert_int_equal(lf_listen(&fd, &port, &loopback, "0.0.0.0", 0, &err), LF_OK);
    assert_false(loopback);
    close(fd);
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has_ipv6 = probe >= 0 && bind(probe, (struct sockaddr *)&here, sizeof here) == 0;
    if (probe >= 0) close(probe);
    if (!has_ipv6) {
        print_message("no IPv6 on this machine: its loopback is left out\n");
        return;
    }
    assert_int_equal(lf_listen(&fd, &port, &loopback, "::1", 0, &err), LF_OK);
    assert_true(port > 0 && loopback);
    close(fd);
}

static void a_refusal_says_what_may_help(void **state)
{
    (void)state;
    static const struct {
        int error;
        const char *hint;
    } cases[] = {
        {EADDRINUSE, "; --port N takes another, 0 any free one"},
        {EADDRNOTAVAIL, "; expected an address of this machine"},
        {EACCES, "; ports below 1024 need privileges"},
        {ENOBUFS, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lf_err err;
        char want[256];
        int fd = -1, port = 0;
        bool loopback = false;
        bind_error = cases[i].error;
        assert_int_equal(lf_listen(&fd, &port, &loopback, "127.0.0.1", 80, &err), LF_IO);
        bind_error = 0;
        snprintf(want, sizeof want, "cannot listen on 127.0.0.1 port 80: %s%s", strerror(cases[i].error),
                 cases[i].hint);
        assert_string_equal(err.message, want);
        assert_int_equal(fd, -1);
    }
}

static void segments_of_loopback_fit_the_send_buffer_several_times(void **state)
{
    (void)state;
    struct lf_err err;
    int fd = -1, port = 0, segment_bytes = 0;
    bool loopback = false;
    socklen_t n = sizeof segment_bytes;
    assert_int_equal(lf_listen(&fd, &port, &loopback, "127.0.0.1", 0, &err), LF_OK);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&here, sizeof here), 0);
    struct pollfd there = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&there, 1, 10000), 1);
    int accepted = accept(fd, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, &n), 0);
    assert_in_range(segment_bytes, 8 * 1024, LF_SOCKET_SEND_BYTES / 2);
    close(accepted);
    close(client);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ipv6_network_of_64_bits_is_one_address),
        cmocka_unit_test(an_ipv4_address_is_the_same_over_ipv6),
        cmocka_unit_test(listens_where_it_is_told),
        cmocka_unit_test(a_refusal_says_what_may_help),
        cmocka_unit_test(segments_of_loopback_fit_the_send_buffer_several_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
