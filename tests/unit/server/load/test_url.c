#include "tests/support/test.h"

#include <arpa/inet.h>

#include "server/load/url.h"

static void addresses_and_ports_are_read(void **state)
{
    (void)state;
    struct lf_url url;
    struct lf_err err;
    assert_int_equal(lf_url_parse(&url, "http://127.0.0.1:8123/", &err), LF_OK);
    assert_string_equal(url.host, "127.0.0.1");
    assert_int_equal(url.port, 8123);
    assert_int_equal(url.address.ss_family, AF_INET);
    assert_int_equal(lf_url_parse(&url, "http://127.0.0.1", &err), LF_OK);
    assert_int_equal(url.port, 80);
    assert_int_equal(lf_url_parse(&url, "http://[::1]:1", &err), LF_OK);
    assert_string_equal(url.host, "::1");
    assert_int_equal(url.address.ss_family, AF_INET6);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "localhost:80",   "https://x",  "http://",
                                      "http://:80", "http://[::1",    "http://x:0", "http://x:65536",
                                      "http://x:",  "http://x:1/path"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lf_url url;
        struct lf_err err;
        assert_int_equal(lf_url_parse(&url, bad[i], &err), LF_INVALID);
        assert_non_null(strstr(err.message, "expected http://host:port"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_ports_are_read),
        cmocka_unit_test(anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
