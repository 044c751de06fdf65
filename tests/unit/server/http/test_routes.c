/* server/http/api/routes.c: the table. */
#include "tests/support/test.h"

#include "server/http/api/routes.h"

static const struct lf_route *find(const char *path, size_t *tail_at)
{
    return lf_route_find(lf_str_c(path), tail_at);
}

static void only_exact_paths_and_what_is_below_a_slash(void **state)
{
    (void)state;
    size_t at = 99;
    assert_non_null(find("/v1/models", &at));
    assert_int_equal(at, 10);
    assert_non_null(find("/v1/models/a/b", &at));
    assert_int_equal(at, 11);
    static const char *const none[] = {"",           "/",       "/v1",     "/v1/model", "/v1/modelsx",
                                       "/V1/models", "/livez/", "/livezz", "livez"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) assert_null(find(none[i], &at));
}

static void every_route_but_health_needs_a_key(void **state)
{
    (void)state;
    for (int i = 0; i < lf_routes_n(); i++) {
        const struct lf_route *r = lf_route_at(i);
        bool health =
            strcmp(r->path, "/livez") == 0 || strcmp(r->path, "/readyz") == 0 || strcmp(r->path, "/health") == 0;
        assert_int_equal(r->auth, health ? LF_AUTH_NONE : LF_AUTH_KEY);
        assert_int_equal(r->before_ready, health);
        assert_int_equal(lf_route_idx(r), i);
        assert_non_null(strstr(r->allow, r->method));
        assert_non_null(r->handle);
        assert_int_equal(r->answer_body != NULL, strcmp(r->method, "POST") == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_exact_paths_and_what_is_below_a_slash),
        cmocka_unit_test(every_route_but_health_needs_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
