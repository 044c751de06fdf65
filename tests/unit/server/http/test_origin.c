/* server/http/origin.c: Host values and origins. */
#include "tests/support/test.h"

#include "server/http/http_server.h"
#include "server/http/origin.h"

static bool host(const struct lf_http_opts *opts, bool loopback, const char *value)
{
    return lf_host_allowed(opts, loopback, lf_str_c(value));
}

static void on_loopback_only_its_own_names(void **state)
{
    (void)state;
    const struct lf_http_opts opts = {0};
    static const char *const good[] = {"localhost", "LocalHost:80", "127.0.0.1",  "127.255.1.2:9",
                                       "[::1]",     "[::1]:80",     "localhost:", ""};
    static const char *const bad[] = {"example.com",       "127.0.0.1.example.com",
                                      "localhost.example", "10.0.0.1",
                                      "[::2]:80",          "[::1",
                                      "127.0.0.1x",        ":80",
                                      "localhost@evil",    "localhost:80:evil",
                                      "[::1].evil",        "127.0.0.1:80.evil"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(host(&opts, true, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(host(&opts, true, bad[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_true(host(&opts, false, bad[i]));
}

static void a_list_adds_to_loopback_and_narrows_the_rest(void **state)
{
    (void)state;
    const char *names[] = {"a.example", "b.example:8443", NULL};
    const struct lf_http_opts opts = {.allowed_hosts = names};
    for (int loopback = 0; loopback < 2; loopback++) {
        assert_true(host(&opts, loopback, "A.example:1"));
        assert_true(host(&opts, loopback, "b.example:8443"));
        assert_true(host(&opts, loopback, "localhost"));
        assert_false(host(&opts, loopback, "b.example"));
        assert_false(host(&opts, loopback, "b.example:1"));
        assert_false(host(&opts, loopback, "c.example"));
    }
}

static void origins_match_whole_or_not_at_all(void **state)
{
    (void)state;
    const char *list[] = {"https://a.example", NULL}, *any[] = {"*", NULL};
    const struct lf_http_opts off = {0}, some = {.cors_origins = list}, all = {.cors_origins = any};
    assert_null(lf_cors_allow(&off, LF_STR("https://a.example")));
    assert_string_equal(lf_cors_allow(&some, LF_STR("https://a.example")), "https://a.example");
    assert_null(lf_cors_allow(&some, LF_STR("https://a.example.evil")));
    assert_null(lf_cors_allow(&some, LF_STR("https://A.example")));
    assert_null(lf_cors_allow(&some, LF_STR("")));
    assert_string_equal(lf_cors_allow(&all, LF_STR("http://x")), "*");
    assert_null(lf_cors_allow(&all, LF_STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_loopback_only_its_own_names),
        cmocka_unit_test(a_list_adds_to_loopback_and_narrows_the_rest),
        cmocka_unit_test(origins_match_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
