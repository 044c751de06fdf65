/* server/http/api/response_store.c: ids, tenants, conversations, bounds, and ends of life. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>

#include "server/http/api/response_store.h"

enum { BYTES = 8 * 1024 * 1024 };

static const uint8_t ann[LF_SHA256_BYTES] = {1}, bob[LF_SHA256_BYTES] = {2};
static struct lf_response_store *store;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(lf_response_store_create(&store, BYTES, NULL), LF_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lf_response_store_destroy(store);
    return 0;
}

/* Stores one with n bytes of input; false: there was no room. */
static bool put(const uint8_t *tenant, const char *id, struct lf_response *previous, size_t n, int64_t now_s)
{
    struct lf_response *r = lf_response_begin(store, tenant, previous, n);
    if (!r) return false;
    for (size_t i = 0; i < n; i++) lf_buf_char(lf_response_input_buf(r), 'i');
    lf_response_reserve_text(store, r, 100);
    lf_buf_printf(lf_response_text_buf(r), "{\"output\":[");
    lf_response_begin_output(r);
    lf_buf_printf(lf_response_text_buf(r), "\"%s\"", id);
    lf_response_end_output(r);
    lf_buf_cstr(lf_response_text_buf(r), "]}");
    lf_response_put(store, r, id, now_s);
    lf_response_unref(store, r);
    return true;
}

static bool is_there(const uint8_t *tenant, const char *id, int64_t now_s)
{
    struct lf_response *r = lf_response_find(store, tenant, lf_str_c(id), now_s);
    lf_response_unref(store, r);
    return r != NULL;
}

static void what_was_put_is_found_by_its_tenant(void **state)
{
    (void)state;
    assert_true(put(ann, "a", NULL, 3, 1));
    struct lf_response *r = lf_response_find(store, ann, LF_STR("a"), 1);
    assert_non_null(r);
    assert_true(lf_str_eq(lf_response_input(r), LF_STR("iii")));
    assert_true(lf_str_eq(lf_response_text(r), LF_STR("{\"output\":[\"a\"]}")));
    assert_true(lf_str_eq(lf_response_output(r), LF_STR("[\"a\"]")));
    assert_null(lf_response_previous(r));
    assert_false(is_there(bob, "a", 1));
    assert_false(is_there(ann, "b", 1));
    assert_false(is_there(ann, "", 1));
    assert_false(lf_response_remove(store, bob, LF_STR("a"), 1));
    assert_true(lf_response_remove(store, ann, LF_STR("a"), 1));
    assert_false(lf_response_remove(store, ann, LF_STR("a"), 1));
    assert_false(is_there(ann, "a", 1));
    assert_true(lf_str_eq(lf_response_input(r), LF_STR("iii"))); /* who has it has it still */
    lf_response_unref(store, r);
}

static void a_conversation_is_whole_as_long_as_its_last_response(void **state)
{
    (void)state;
    enum { N = 500 };
    char id[LF_RESPONSE_ID_BYTES];
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "%d", i - 1);
        struct lf_response *previous = lf_response_find(store, ann, lf_str_c(id), 1);
        assert_int_equal(previous != NULL, i > 0);
        snprintf(id, sizeof id, "%d", i);
        assert_true(put(ann, id, previous, 2, 1));
        lf_response_unref(store, previous);
        snprintf(id, sizeof id, "%d", i - 1);
        if (i > 0 && i < N - 2) assert_true(lf_response_remove(store, ann, lf_str_c(id), 1));
    }
    snprintf(id, sizeof id, "%d", N - 1);
    struct lf_response *last = lf_response_find(store, ann, lf_str_c(id), 1);
    uint64_t n_bytes = 0;
    int n = 0;
    for (const struct lf_response *r = last; r; r = lf_response_previous(r), n++)
        n_bytes += lf_response_input(r).len + lf_response_output(r).len;
    assert_int_equal(n, N);
    assert_int_equal(lf_response_conversation_bytes(last), n_bytes);
    lf_response_unref(store, last);
}

static void a_day_is_the_end(void **state)
{
    (void)state;
    assert_true(put(ann, "a", NULL, 3, 100));
    assert_true(put(ann, "b", NULL, 3, 101));
    assert_true(is_there(ann, "a", 99 + LF_RESPONSE_TTL_S));
    lf_response_store_expire(store, 100 + LF_RESPONSE_TTL_S);
    assert_false(is_there(ann, "a", 100)); /* it has gone, whatever the clock says now */
    assert_true(is_there(ann, "b", 100 + LF_RESPONSE_TTL_S));
    assert_false(is_there(ann, "b", 101 + LF_RESPONSE_TTL_S));
}

static void the_number_is_bounded(void **state)
{
    (void)state;
    char id[LF_RESPONSE_ID_BYTES];
    assert_true(put(bob, "his", NULL, 1, 1));
    for (int i = 0; i < LF_RESPONSES_N; i++) {
        snprintf(id, sizeof id, "%d", i);
        assert_true(put(ann, id, NULL, 1, 1));
        if (i == 0) continue;
        assert_true(is_there(ann, "0", 1)); /* what is used stays */
    }
    assert_true(is_there(bob, "his", 1));
    assert_false(is_there(ann, "1", 1));
    assert_true(is_there(ann, "2", 1));
}

static void who_fills_the_memory_pushes_out_his_own(void **state)
{
    (void)state;
    enum { PIECE = 200 * 1000, N = 100 };
    char id[LF_RESPONSE_ID_BYTES];
    assert_true(put(bob, "his", NULL, PIECE, 1));
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "%d", i);
        assert_true(put(ann, id, NULL, PIECE, 1));
        assert_true(is_there(ann, id, 1));
    }
    assert_true(is_there(bob, "his", 1));
    assert_false(is_there(ann, "0", 1));
    assert_null(lf_response_begin(store, ann, NULL, BYTES / 2 + 1)); /* and nothing was let go for it */
    assert_true(is_there(ann, id, 1));
}

/* What a conversation goes on from counts for its tenant, in the table or not. */
static void who_fills_the_memory_by_what_was_deleted_pushes_out_his_own(void **state)
{
    (void)state;
    enum { PIECE = 900 * 1000, N = 6 };
    static const char *const ids[N] = {"0", "1", "2", "3", "4", "5"};
    struct lf_response *previous = NULL;
    assert_true(put(bob, "his", NULL, 100, 1));
    for (int i = 0; i < N; i++) {
        assert_true(put(ann, ids[i], previous, PIECE, 1));
        lf_response_unref(store, previous);
        if (i > 0) assert_true(lf_response_remove(store, ann, lf_str_c(ids[i - 1]), 1));
        previous = lf_response_find(store, ann, lf_str_c(ids[i]), 1);
        assert_non_null(previous);
    }
    lf_response_unref(store, previous);
    assert_true(put(bob, "next", NULL, 3 * PIECE, 1));
    assert_true(is_there(bob, "next", 1));
    assert_true(is_there(bob, "his", 1));
    assert_false(is_there(ann, ids[N - 1], 1));
    assert_true(put(ann, "again", NULL, PIECE, 1)); /* and all of it is free */
    assert_true(is_there(bob, "next", 1));
}

/* A text that did not fit is not stored; nor is anything where there is no memory at all. */
static void what_is_not_whole_is_not_stored(void **state)
{
    (void)state;
    struct lf_response *r = lf_response_begin(store, ann, NULL, 1);
    assert_non_null(r);
    lf_response_reserve_text(store, r, BYTES);
    lf_response_put(store, r, "a", 1);
    lf_response_unref(store, r);
    assert_false(is_there(ann, "a", 1));
    lf_response_store_destroy(store);
    assert_int_equal(lf_response_store_create(&store, 0, NULL), LF_OK);
    assert_null(lf_response_begin(store, ann, NULL, 1));
    assert_false(is_there(ann, "a", 1));
    assert_false(lf_response_remove(store, ann, LF_STR("a"), 1));
}

static void *many(void *arg)
{
    const uint8_t *tenant = arg;
    char id[LF_RESPONSE_ID_BYTES];
    for (int i = 0; i < 2000; i++) {
        snprintf(id, sizeof id, "%d", i % 7);
        struct lf_response *previous = lf_response_find(store, ann, lf_str_c(id), i);
        (void)put(tenant, id, previous, (size_t)(i * 37 % 50000), i);
        lf_response_unref(store, previous);
        if (i % 3 == 0) (void)lf_response_remove(store, tenant, lf_str_c(id), i);
    }
    return NULL;
}

static void many_threads_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many, (void *)(i % 2 ? ann : bob)), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_is_found_by_its_tenant, setup, teardown),
        cmocka_unit_test_setup_teardown(a_conversation_is_whole_as_long_as_its_last_response, setup, teardown),
        cmocka_unit_test_setup_teardown(a_day_is_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(the_number_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(who_fills_the_memory_pushes_out_his_own, setup, teardown),
        cmocka_unit_test_setup_teardown(who_fills_the_memory_by_what_was_deleted_pushes_out_his_own, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_whole_is_not_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(many_threads_at_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
