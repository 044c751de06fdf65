/* server/http/conn/origin.c: Host values and origins. */
#include "tests/support/test.h"

#include "server/http/conn/http_server.h"
#include "server/http/conn/origin.h"

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

/* Its authority counts, and its path is what is asked for. */
static void a_target_in_absolute_form_is_taken_apart(void **state)
{
    (void)state;
    static const struct {
        const char *target, *path, *host; /* host NULL: refused; path NULL: as it was, like the host */
    } cases[] = {
        {"http://localhost/livez", "/livez", "localhost"},
        {"HTTP://LocalHost:80/v1/models/a%20b", "/v1/models/a%20b", "LocalHost:80"},
        {"http://[::1]:80//x", "//x", "[::1]:80"},
        {"http://a-b.c_d~e.example", "/", "a-b.c_d~e.example"},
        {"http://localhost?x", "/", "localhost"},
        {"http://localhost#x/y", "/", "localhost"},
        {"http://localhost/http://other/", "/http://other/", "localhost"},
        {"/livez", NULL, "kept"},
        {"/http://localhost/livez", NULL, "kept"},
        {"https://localhost/livez", NULL, "kept"},
        {"http:/localhost/livez", NULL, "kept"},
        {"http:", NULL, "kept"},
        {"", NULL, "kept"},
        {"*", NULL, "kept"},
        {"http://", NULL, NULL},
        {"http:///livez", NULL, NULL},
        {"http://:80/livez", NULL, NULL},
        {"http://user@localhost/livez", NULL, NULL},
        {"http://local%68ost/livez", NULL, NULL},
        {"http://localhost\\.evil/livez", NULL, NULL},
        {"http://localhost,evil/livez", NULL, NULL},
        {"http://loc\xC3\xA4l/livez", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = cases[i].target;
        struct lf_str name = LF_STR("kept");
        struct lf_api_err err = {0};
        enum lf_status status = lf_target_split(cases[i].target, &path, &name, &err);
        assert_int_equal(status, cases[i].host ? LF_OK : LF_INVALID);
        if (status != LF_OK) assert_string_equal(err.code, "bad_host");
        assert_string_equal(path, cases[i].path ? cases[i].path : cases[i].target);
        assert_true(lf_str_eq(name, lf_str_c(cases[i].host ? cases[i].host : "kept")));
    }
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

static void a_refused_host_is_told_how_to_be_allowed(void **state)
{
    (void)state;
    struct lf_api_err err;
    assert_int_equal(lf_refuse_host(&err, LF_STR("box.example:8080\r")), LF_INVALID);
    assert_int_equal(err.status, 403);
    assert_string_equal(err.code, "host_not_allowed");
    assert_non_null(strstr(err.message, "\"box.example:8080?\""));
    assert_non_null(strstr(err.message, "--allowed-host"));
}

static void allows_headers(const char *asked, const char *expected)
{
    char out[LF_CORS_HEADERS_BYTES];
    struct test_guarded copy = test_guarded_copy(asked, strlen(asked));
    lf_cors_headers(out, lf_str_from(copy.ptr, strlen(asked)));
    assert_string_equal(out, expected);
    test_guarded_free(&copy);
}

static void a_preflight_is_allowed_what_clients_send(void **state)
{
    (void)state;
    allows_headers("", "accept, authorization, content-type, user-agent, x-api-key, x-request-id");
    allows_headers("authorization,content-type,x-stainless-arch,x-stainless-retry-count",
                   "authorization, content-type, x-stainless-arch, x-stainless-retry-count");
    allows_headers("Authorization , X-API-Key,\tanthropic-version, anthropic-dangerous-direct-browser-access",
                   "authorization, x-api-key, anthropic-version, anthropic-dangerous-direct-browser-access");
    allows_headers("OpenAI-Organization,x-request-id,accept,user-agent",
                   "openai-organization, x-request-id, accept, user-agent");
    allows_headers("x-evil, authorization, cookie", "authorization");
    allows_headers("x-evil", "");
    allows_headers(",, ,authorization,", "authorization");
    allows_headers("x-stainless-,x-stainless,openai,anthropic_version,xx-stainless-os", "");
    allows_headers("x-stainless-a\r\nset-cookie: x,x-stainless-a b,x-stainless-\xc3\xa9", "");
}

static void allowed_headers_are_bounded(void **state)
{
    (void)state;
    char name[LF_HEADER_NAME_BYTES + 2] = "openai-";
    memset(name + 7, 'x', sizeof name - 8);
    name[LF_HEADER_NAME_BYTES] = '\0';
    allows_headers(name, name);
    name[LF_HEADER_NAME_BYTES] = 'x'; /* one past it */
    name[LF_HEADER_NAME_BYTES + 1] = '\0';
    allows_headers(name, "");
    name[LF_HEADER_NAME_BYTES] = '\0';
    struct lf_buf asked;
    char out[LF_CORS_HEADERS_BYTES];
    lf_buf_init(&asked, 1 << 20);
    for (int i = 0; i < 100; i++) lf_buf_printf(&asked, "%s%s", i ? "," : "", name);
    lf_cors_headers(out, lf_buf_view(&asked));
    size_t n_fit = (LF_CORS_HEADERS_BYTES - 1 + 2) / (LF_HEADER_NAME_BYTES + 2);
    assert_int_equal(strlen(out), n_fit * (LF_HEADER_NAME_BYTES + 2) - 2);
    lf_buf_deinit(&asked);
}

/* What looks like the beginning of an IPv6 address and is none has no port to take away. */
static void an_open_bracket_is_no_host(void **state)
{
    (void)state;
    static const char *const names[] = {"[", "[x", NULL};
    const struct lf_http_opts opts = {.allowed_hosts = names};
    assert_true(host(&opts, true, "[x"));
    assert_false(host(&opts, true, "[:80"));
    assert_false(host(&opts, true, "[x:80"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_loopback_only_its_own_names),
        cmocka_unit_test(a_target_in_absolute_form_is_taken_apart),
        cmocka_unit_test(a_list_adds_to_loopback_and_narrows_the_rest),
        cmocka_unit_test(origins_match_whole_or_not_at_all),
        cmocka_unit_test(a_refused_host_is_told_how_to_be_allowed),
        cmocka_unit_test(a_preflight_is_allowed_what_clients_send),
        cmocka_unit_test(allowed_headers_are_bounded),
        cmocka_unit_test(an_open_bracket_is_no_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
