/* The vocabulary by itself: its bounds, and what may not be in it twice. */
#include "core/limits.h"
#include "tests/support/test.h"
#include "tokenizer/vocab.h"

static void sizes_have_bounds(void **state)
{
    (void)state;
    struct lf_vocab vocab;
    struct lf_err err = {0};
    assert_int_equal(lf_vocab_init(&vocab, 0, 0, 0, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "1 to 4194304 ids is expected, not 0"));
    assert_int_equal(lf_vocab_init(&vocab, (int64_t)LF_VOCAB_N + 1, 1, 1, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "not 4194305"));
    assert_int_equal(lf_vocab_init(&vocab, 1, (uint64_t)LF_VOCAB_N + 1, 1, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "at most 4194304 tokens is expected, not 4194305"));
    assert_int_equal(lf_vocab_init(&vocab, 1, 1, (uint64_t)UINT32_MAX + 1, &err), LF_LIMIT);
    assert_non_null(strstr(err.message, "4 GiB"));
    assert_int_equal(lf_vocab_init(&vocab, LF_VOCAB_N, LF_VOCAB_N, 1, &err), LF_OK);
    assert_int_equal(lf_vocab_find(&vocab, LF_STR("a")), -1);
    lf_vocab_deinit(&vocab);
    assert_int_equal(lf_vocab_find(&vocab, LF_STR("a")), -1);
    lf_vocab_deinit(&vocab);
}

static void what_may_not_be_added_is_said(void **state)
{
    (void)state;
    struct lf_vocab vocab;
    struct lf_err err = {0};
    static char text[LF_TOKEN_BYTES + 1];
    memset(text, 'x', sizeof text);
    assert_int_equal(lf_vocab_init(&vocab, 4, 4, 2 * sizeof text, &err), LF_OK);
    assert_int_equal(lf_vocab_add(&vocab, 1, LF_STR("a"), LF_TOKEN_BYTE, &err), LF_OK);
    static const struct {
        int32_t id;
        size_t len; /* of x */
        const char *says;
    } bad[] = {
        {-1, 1, "token id -1 is out of range (4 ids)"},
        {4, 1, "token id 4 is out of range (4 ids)"},
        {1, 1, "token id 1 is given twice"},
        {2, 0, "token 2 has an empty text"},
        {2, LF_TOKEN_BYTES + 1, "token 2 has a text of 4097 bytes, at most 4096 are expected"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lf_vocab_add(&vocab, bad[i].id, lf_str_from(text, bad[i].len), 0, &err), LF_CORRUPT);
        if (!strstr(err.message, bad[i].says)) fail_msg("%s", err.message);
    }
    assert_int_equal(lf_vocab_add(&vocab, 2, LF_STR("a"), 0, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "tokens 1 and 2 have the same text"));
    assert_int_equal(vocab.n_used, 1);
    assert_int_equal(lf_vocab_find(&vocab, LF_STR("a")), 1);
    assert_int_equal(lf_vocab_add(&vocab, 3, lf_str_from(text, LF_TOKEN_BYTES), 0, &err), LF_OK);
    assert_int_equal(lf_vocab_find(&vocab, lf_str_from(text, LF_TOKEN_BYTES)), 3);
    assert_int_equal(lf_vocab_find(&vocab, lf_str_from(text, LF_TOKEN_BYTES + 1)), -1);
    assert_int_equal(lf_vocab_find(&vocab, LF_STR("")), -1);
    assert_true(lf_vocab_has(&vocab, 1) && !lf_vocab_has(&vocab, 2) && !lf_vocab_has(&vocab, -1));
    lf_vocab_deinit(&vocab);
}

static void a_token_may_get_another_text(void **state)
{
    (void)state;
    struct lf_vocab vocab;
    assert_int_equal(lf_vocab_init(&vocab, 2, 4, 100, NULL), LF_OK);
    assert_int_equal(lf_vocab_add(&vocab, 0, LF_STR("old"), LF_TOKEN_SPECIAL, NULL), LF_OK);
    assert_int_equal(lf_vocab_replace(&vocab, 0, LF_STR("new"), 0, NULL), LF_OK);
    assert_int_equal(lf_vocab_find(&vocab, LF_STR("new")), 0);
    assert_int_equal(lf_vocab_find(&vocab, LF_STR("old")), -1);
    assert_int_equal(vocab.flags[0], LF_TOKEN_USED);
    assert_int_equal(lf_vocab_add(&vocab, 1, LF_STR("old"), 0, NULL), LF_OK);
    assert_int_equal(lf_vocab_find(&vocab, LF_STR("old")), 1);
    lf_vocab_deinit(&vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_bounds),
        cmocka_unit_test(what_may_not_be_added_is_said),
        cmocka_unit_test(a_token_may_get_another_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
