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
    static const char *const none[] = {"",           "//",      "/v1",     "/v1/model", "/v1/modelsx",
                                       "/V1/models", "/livez/", "/livezz", "livez"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) assert_null(find(none[i], &at));
    assert_string_equal(find("/", &at)->path, "/");
    assert_int_equal(at, 1);
}

static void a_path_with_several_methods_has_a_row_for_each(void **state)
{
    (void)state;
    size_t at;
    const struct lf_route *first = find("/v1/documents/a", &at);
    static const char *const methods[] = {"GET", "PUT", "DELETE"};
    assert_int_equal(at, strlen("/v1/documents/"));
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const struct lf_route *r = lf_route_with_method(first, methods[i]);
        assert_non_null(r);
        assert_string_equal(r->method, methods[i]);
        assert_int_equal(lf_route_idx(r), lf_route_idx(first));
    }
    assert_ptr_equal(lf_route_with_method(first, "HEAD"), lf_route_with_method(first, "GET"));
    assert_null(lf_route_with_method(first, "POST"));
    assert_null(lf_route_with_method(first, "put"));
    assert_ptr_equal(lf_route_with_method(find("/ping", &at), "POST"), find("/ping", &at));
    assert_null(lf_route_with_method(find("/v1/documents", &at), "PUT"));
}

static void every_route_but_health_and_the_page_needs_a_key(void **state)
{
    (void)state;
    for (int i = 0; i < lf_routes_n(); i++) {
        const struct lf_route *r = lf_route_at(i);
        bool health = strcmp(r->path, "/livez") == 0 || strcmp(r->path, "/readyz") == 0 ||
                      strcmp(r->path, "/health") == 0 || strcmp(r->path, "/ping") == 0;
        bool page = strcmp(r->path, "/") == 0 || strcmp(r->path, "/page/") == 0;
        assert_int_equal(r->auth, health || page ? LF_AUTH_NONE : LF_AUTH_KEY);
        assert_int_equal(r->before_ready, health || page);
        assert_int_equal(r->is_health, health);
        assert_int_equal(r->is_page, page);
        assert_string_equal(lf_route_at(lf_route_idx(r))->path, r->path);
        assert_true(lf_route_idx(r) <= i);
        assert_non_null(strstr(r->allow, r->method));
        assert_int_equal(r->posts, strcmp(r->path, "/ping") == 0);
        assert_non_null(r->handle);
        assert_int_equal(r->answer_body != NULL, lf_route_has_body(r));
    }
}

static void what_others_offer_is_known_by_its_path(void **state)
{
    (void)state;
    static const char *const known[][2] = {{"/v1/embeddings", "embeddings"},
                                           {"/v1/audio/speech", "audio"},
                                           {"/v1/images/generations", "images"},
                                           {"/v1/files/file-1/content", "files"},
                                           {"/v1/batches", "batches"},
                                           {"/v1/fine_tuning/jobs", "fine-tuning"},
                                           {"/rerank", "reranking"},
                                           {"/v1/rerank", "reranking"},
                                           {"/v2/rerank", "reranking"}};
    static const char *const unknown[] = {"", "/", "/v1/embedding", "/v1/embeddingsx", "/v1/filesystem", "/V1/files"};
    size_t at;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_string_equal(lf_route_not_offered(lf_str_c(known[i][0])), known[i][1]);
        assert_null(find(known[i][0], &at));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_null(lf_route_not_offered(lf_str_c(unknown[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_exact_paths_and_what_is_below_a_slash),
        cmocka_unit_test(a_path_with_several_methods_has_a_row_for_each),
        cmocka_unit_test(every_route_but_health_and_the_page_needs_a_key),
        cmocka_unit_test(what_others_offer_is_known_by_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
