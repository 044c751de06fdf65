/* server/http/conn/auth.c: which keys let in, and as whom. */
#include "tests/support/test.h"

#include <unistd.h>

#include "server/http/conn/auth.h"

static bool admits(struct lf_keys *keys, const char *header, struct lf_tenant *tenant)
{
    return lf_keys_admit(keys, lf_str_c(header), LF_STR(""), tenant);
}

static void without_keys_everybody_is_the_same_tenant(void **state)
{
    (void)state;
    struct lf_keys keys;
    struct lf_tenant tenant;
    const uint8_t zero[LF_SHA256_BYTES] = {0};
    assert_int_equal(lf_keys_init(&keys, NULL, NULL, NULL), LF_OK);
    assert_true(admits(&keys, "", &tenant));
    assert_true(admits(&keys, "Bearer anything", &tenant));
    assert_int_equal(tenant.id, 0);
    assert_memory_equal(tenant.salt, zero, sizeof zero);
    lf_keys_deinit(&keys);
}

static void each_key_is_a_tenant_of_its_own(void **state)
{
    (void)state;
    struct lf_keys keys;
    struct lf_tenant a, b, again;
    assert_int_equal(lf_keys_init(&keys, NULL, "one, two ,three", NULL), LF_OK);
    assert_int_equal(keys.n, 3);
    assert_true(admits(&keys, "Bearer one", &a));
    assert_true(admits(&keys, "bEARER \t two ", &b));
    assert_true(admits(&keys, "Bearer one", &again));
    assert_int_not_equal(a.id, b.id);
    assert_int_not_equal(a.id, 0);
    assert_int_equal(a.id, again.id);
    assert_memory_not_equal(a.salt, b.salt, sizeof a.salt);
    lf_keys_deinit(&keys);
}

static void what_is_no_key_is_refused_and_is_nobody(void **state)
{
    (void)state;
    static const char *const headers[] = {"",    "Bearer",    "Bearer ",    "Bearer on",      "Bearer onee",
                                          "one", "Basic one", "Bearer One", "Bearer one,two", "Bearer one two"};
    struct lf_keys keys;
    struct lf_tenant tenant;
    assert_int_equal(lf_keys_init(&keys, NULL, "one,two", NULL), LF_OK);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        assert_false(admits(&keys, headers[i], &tenant));
        assert_int_equal(tenant.id, 0);
    }
    lf_keys_deinit(&keys);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_file_is_read_again_and_a_bad_one_changes_nothing(void **state)
{
    (void)state;
    char path[] = "/tmp/lf_keys_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct lf_keys keys;
    struct lf_err err;
    struct lf_tenant tenant;
    write_file(path, "# comment\n\n  alpha \r\nbeta");
    assert_int_equal(lf_keys_init(&keys, path, "gamma", &err), LF_OK);
    assert_int_equal(keys.n, 3);
    assert_true(admits(&keys, "Bearer alpha", &tenant));
    write_file(path, "delta\n");
    assert_int_equal(lf_keys_reload(&keys, &err), LF_OK);
    assert_false(admits(&keys, "Bearer alpha", &tenant));
    assert_true(admits(&keys, "Bearer delta", &tenant));
    assert_true(admits(&keys, "Bearer gamma", &tenant));
    write_file(path, "epsilon\nnot a key\n");
    assert_int_equal(lf_keys_reload(&keys, &err), LF_INVALID);
    assert_null(strstr(err.message, "not a key"));
    assert_true(admits(&keys, "Bearer delta", &tenant));
    assert_false(admits(&keys, "Bearer epsilon", &tenant));
    unlink(path);
    assert_int_not_equal(lf_keys_reload(&keys, &err), LF_OK);
    assert_true(admits(&keys, "Bearer delta", &tenant));
    lf_keys_deinit(&keys);
}

static void a_key_of_the_file_has_its_limits(void **state)
{
    (void)state;
    char path[] = "/tmp/lf_keys_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct lf_keys keys;
    struct lf_err err;
    struct lf_tenant a, b, c, nobody;
    write_file(path, "alpha in-flight=2 documents=7\nbeta\r\ngamma priority=1\n gamma in-flight=3 \n");
    assert_int_equal(lf_keys_init(&keys, path, "delta", &err), LF_OK);
    assert_true(admits(&keys, "Bearer alpha", &a) && admits(&keys, "Bearer beta", &b) &&
                admits(&keys, "Bearer gamma", &c));
    assert_true(a.limits.requests.in_flight == 2 && a.limits.documents == 7);
    assert_true(b.limits.requests.in_flight == 0 && b.limits.documents == 0);
    assert_true(c.limits.requests.in_flight == 3 && c.limits.held_back == 0); /* its last line */
    assert_true(admits(&keys, "Bearer delta", &c));
    assert_int_equal(c.limits.requests.in_flight, 0);
    assert_false(admits(&keys, "Bearer no", &nobody));
    assert_int_equal(nobody.limits.requests.in_flight, 0);
    write_file(path, "beta in-flight=9\nalpha\n");
    assert_int_equal(lf_keys_reload(&keys, &err), LF_OK);
    assert_true(admits(&keys, "Bearer alpha", &a) && admits(&keys, "Bearer beta", &b));
    assert_true(a.limits.requests.in_flight == 0 && a.limits.documents == 0 && b.limits.requests.in_flight == 9);
    write_file(path, "alpha\nbeta in-flight=none\n");
    assert_int_equal(lf_keys_reload(&keys, &err), LF_INVALID);
    assert_non_null(strstr(err.message, "line 2: expected in-flight=N"));
    assert_true(admits(&keys, "Bearer beta", &b));
    assert_int_equal(b.limits.requests.in_flight, 9);
    lf_keys_deinit(&keys);
    assert_int_equal(lf_keys_init(&keys, NULL, "alpha in-flight=2", &err), LF_INVALID); /* of the file alone */
    unlink(path);
}

/* A name's counters stay where they are, and what they have counted, whatever the file says next. */
static void a_name_has_one_meter(void **state)
{
    (void)state;
    char path[] = "/tmp/lf_keys_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct lf_keys keys;
    struct lf_err err;
    struct lf_tenant a, b, c;
    write_file(path, "alpha name=one\nbeta name=one\ngamma\n");
    assert_int_equal(lf_keys_init(&keys, path, "delta", &err), LF_OK);
    assert_true(admits(&keys, "Bearer alpha", &a) && admits(&keys, "Bearer beta", &b) &&
                admits(&keys, "Bearer gamma", &c));
    assert_non_null(a.limits.requests.meter);
    assert_ptr_equal(a.limits.requests.meter, b.limits.requests.meter);
    assert_null(c.limits.requests.meter);
    lf_counter_add(&a.limits.requests.meter->requests, 3);
    write_file(path, "gamma name=one\nalpha name=two\n");
    assert_int_equal(lf_keys_reload(&keys, &err), LF_OK);
    assert_true(admits(&keys, "Bearer gamma", &c) && admits(&keys, "Bearer alpha", &b));
    assert_ptr_equal(c.limits.requests.meter, a.limits.requests.meter);
    assert_int_equal(lf_counter_get(&c.limits.requests.meter->requests), 3);
    assert_string_equal(lf_keys_meter(&keys, 0)->name, "one");
    assert_string_equal(lf_keys_meter(&keys, 1)->name, "two");
    assert_ptr_equal(&lf_keys_meter(&keys, 1)->counters, b.limits.requests.meter);
    assert_null(lf_keys_meter(&keys, 2));
    for (int i = 0; i < LF_API_KEYS_N; i++) { /* one a time: there is an end to them */
        char line[64];
        snprintf(line, sizeof line, "alpha name=n%d\n", i);
        write_file(path, line);
        assert_int_equal(lf_keys_reload(&keys, &err), LF_OK);
    }
    assert_true(admits(&keys, "Bearer alpha", &a));
    assert_null(a.limits.requests.meter);
    assert_int_equal(keys.n_meters, LF_API_KEYS_N);
    lf_keys_deinit(&keys);
    unlink(path);
}

static void limits_of_keys(void **state)
{
    (void)state;
    struct lf_keys keys;
    struct lf_err err;
    char *text = malloc((size_t)LF_API_KEY_BYTES * 8 + 16);
    assert_non_null(text);
    memset(text, 'k', LF_API_KEY_BYTES);
    text[LF_API_KEY_BYTES] = 0;
    assert_int_equal(lf_keys_init(&keys, NULL, text, &err), LF_OK);
    lf_keys_deinit(&keys);
    text[LF_API_KEY_BYTES] = 'k';
    text[LF_API_KEY_BYTES + 1] = 0;
    assert_int_equal(lf_keys_init(&keys, NULL, text, &err), LF_INVALID);
    int n = 0;
    for (int i = 0; i < LF_API_KEYS_N; i++) n += snprintf(text + n, 8, "k,");
    assert_int_equal(lf_keys_init(&keys, NULL, text, &err), LF_OK);
    assert_int_equal(keys.n, LF_API_KEYS_N);
    lf_keys_deinit(&keys);
    snprintf(text + n, 8, "k");
    assert_int_equal(lf_keys_init(&keys, NULL, text, &err), LF_LIMIT);
    assert_int_equal(lf_keys_init(&keys, NULL, ", ,", &err), LF_INVALID);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keys_everybody_is_the_same_tenant),
        cmocka_unit_test(each_key_is_a_tenant_of_its_own),
        cmocka_unit_test(what_is_no_key_is_refused_and_is_nobody),
        cmocka_unit_test(a_file_is_read_again_and_a_bad_one_changes_nothing),
        cmocka_unit_test(a_key_of_the_file_has_its_limits),
        cmocka_unit_test(a_name_has_one_meter),
        cmocka_unit_test(limits_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
