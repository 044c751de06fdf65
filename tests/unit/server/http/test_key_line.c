/* server/http/conn/key_line.c: a key and its limits. */
#include "tests/support/test.h"

#include "server/http/conn/key_line.h"

static char name[LF_KEY_NAME_BYTES + 1]; /* of the line read last */

static enum lf_status read_line(struct lf_key_limits *limits, const char *line, const char *key)
{
    struct test_guarded g = test_guarded_copy(line, strlen(line));
    struct lf_key_line got = {.limits = *limits};
    struct lf_err err;
    enum lf_status status = lf_key_line_read(&got, lf_str_from(g.ptr, strlen(line)), &err);
    if (status == LF_OK) assert_true(lf_str_eq(got.key, lf_str_c(key)));
    if (status == LF_OK) snprintf(name, sizeof name, "%.*s", (int)got.name.len, got.name.ptr);
    *limits = got.limits;
    if (status != LF_OK) assert_null(strstr(err.message, "sk-secret"));
    test_guarded_free(&g);
    return status;
}

static void a_key_alone_has_no_limits(void **state)
{
    (void)state;
    static const struct lf_key_limits none = {.documents = 0};
    static const char *const keys[] = {"a", "sk-1", "documents=5", "a=b#c", "\"'\\~!"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct lf_key_limits limits = {.held_back = 3};
        assert_int_equal(read_line(&limits, keys[i], keys[i]), LF_OK);
        assert_memory_equal(&limits, &none, sizeof none);
    }
}

static void limits_stand_behind_it_in_any_order(void **state)
{
    (void)state;
    struct lf_key_limits limits;
    assert_int_equal(read_line(&limits,
                               "sk-1 priority=-2\tdocuments=20  in-flight=4 tokens-per-minute=200K document-tokens=2m",
                               "sk-1"),
                     LF_OK);
    assert_int_equal(limits.requests.in_flight, 4);
    assert_int_equal(limits.requests.tokens_per_minute, 200 * 1024);
    assert_int_equal(limits.documents, 20);
    assert_int_equal(limits.document_tokens, 2 * 1024 * 1024);
    assert_int_equal(limits.held_back, 6);
    assert_int_equal(read_line(&limits, "sk-1 documents=1 documents=2", "sk-1"), LF_OK);
    assert_int_equal(limits.documents, 2);
    assert_int_equal(limits.requests.in_flight, 0);
    assert_string_equal(name, "");
    assert_int_equal(read_line(&limits, "sk-1 documents=1 name=Fin-ance_2.x in-flight=3", "sk-1"), LF_OK);
    assert_string_equal(name, "Fin-ance_2.x");
    assert_int_equal(limits.requests.in_flight, 3);
}

static void bounds_and_beyond(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool good;
    } lines[] = {
        {"k in-flight=1", true},
        {"k in-flight=1024", true},
        {"k in-flight=1K", true},
        {"k in-flight=0", false},
        {"k in-flight=1025", false},
        {"k in-flight=-1", false},
        {"k priority=-8", true},
        {"k priority=8", true},
        {"k priority=-9", false},
        {"k priority=9", false},
        {"k documents=10000", true},
        {"k documents=10001", false},
        {"k tokens-per-minute=1099511627776", true},
        {"k tokens-per-minute=1099511627777", false},
        {"k tokens-per-minute=9223372036854775807M", false},
        {"k tokens-per-minute=99999999999999999999999999", false},
        {"k document-tokens=0", false},
        {"k document-tokens=", false},
        {"k document-tokens=-", false},
        {"k document-tokens=K", false},
        {"k document-tokens=1.5K", false},
        {"k document-tokens=1KK", false},
        {"k document-tokens=0x10", false},
        {"k document-tokens", false},
        {"k documents =1", false},
        {"k Documents=1", false},
        {"k sk-secret", false},
        {"k =5", false},
        {"k in-flight=2,documents=3", false},
        {"k name=", false},
        {"k name", false},
        {"k name=a\"b", false},
        {"k name=a{b", false},
        {"k name=caf\xc3\xa9", false},
        {"k name=0123456789012345678901234567890123456789012345678901234567890123", true},
        {"k name=01234567890123456789012345678901234567890123456789012345678901234", false},
        {"\x7f", false},
        {"caf\xc3\xa9", false},
    };
    struct lf_key_limits limits;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct lf_key_limits before;
        memset(&limits, 0x5a, sizeof limits);
        before = limits;
        assert_int_equal(read_line(&limits, lines[i].line, "k"), lines[i].good ? LF_OK : LF_INVALID);
        if (!lines[i].good) assert_memory_equal(&limits, &before, sizeof limits);
    }
}

static void a_line_is_so_long_at_most(void **state)
{
    (void)state;
    char line[LF_API_KEY_BYTES + LF_KEY_LIMITS_BYTES + 2], key[LF_API_KEY_BYTES + 1];
    struct lf_key_limits limits;
    memset(key, 'k', LF_API_KEY_BYTES);
    key[LF_API_KEY_BYTES] = 0;
    assert_int_equal(read_line(&limits, key, key), LF_OK);
    snprintf(line, sizeof line, "%sk", key);
    assert_int_equal(read_line(&limits, line, key), LF_INVALID);
    snprintf(line, sizeof line, "%s%*s", key, LF_KEY_LIMITS_BYTES, "documents=3");
    assert_int_equal(read_line(&limits, line, key), LF_OK);
    assert_int_equal(limits.documents, 3);
    snprintf(line, sizeof line, "%s%*s", key, LF_KEY_LIMITS_BYTES + 1, "documents=3");
    assert_int_equal(read_line(&limits, line, key), LF_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_alone_has_no_limits),
        cmocka_unit_test(limits_stand_behind_it_in_any_order),
        cmocka_unit_test(bounds_and_beyond),
        cmocka_unit_test(a_line_is_so_long_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
