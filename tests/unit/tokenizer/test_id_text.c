/* The tokenizer of a shape without one: texts are ids. */
#include "core/limits.h"
#include "tests/unit/tokenizer/support.h"
#include "tokenizer/detok.h"

static struct lf_tokenizer *open_ids(int n_vocab)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err;
    if (lf_tokenizer_open_ids(&tok, n_vocab, &err) != LF_OK) fail_msg("%d: %s", n_vocab, err.message);
    return tok;
}

static void test_a_text_is_its_ids(void **state)
{
    (void)state;
    static const int32_t expected[] = {0, 17, 4, 1000};
    struct lf_tokenizer *tok = open_ids(1001);
    struct lf_ids ids = {0};
    unsigned all = LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS;
    assert_int_equal(lf_tokenizer_encode(tok, &ids, LF_STR(" 0 17\n\t4\r\n1000 "), NULL, 0, all, 4, NULL, NULL), LF_OK);
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.ids, expected, sizeof expected);
    assert_int_equal(lf_tokenizer_encode(tok, &ids, LF_STR(""), NULL, 0, all, 0, NULL, NULL), LF_OK);
    assert_int_equal(ids.n, 4);
    struct lf_buf text;
    lf_buf_init(&text, 64);
    assert_int_equal(lf_tokenizer_decode(tok, &text, ids.ids, ids.n, true, NULL, NULL), LF_OK);
    assert_true(lf_str_eq(lf_buf_view(&text), LF_STR("0 17 4 1000")));
    lf_buf_deinit(&text);
    lf_ids_deinit(&ids);
    lf_tokenizer_close(tok);
}

static void test_other_texts_are_refused_with_what_was_expected(void **state)
{
    (void)state;
    static const char *const bad[] = {"x", "1 1001", "1 01", "1 -1", "1 2,3", "1 \xc2\xa0 2", "1 99999999999999999999"};
    struct lf_tokenizer *tok = open_ids(1001);
    struct lf_ids ids = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lf_err err;
        assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_str_c(bad[i]), NULL, 0, 0, 0, NULL, &err), LF_INVALID);
        assert_int_equal(ids.n, 0);
        if (!strstr(err.message, "no tokenizer") || !strstr(err.message, "0 to 1000") ||
            !strstr(err.message, i ? "byte 2" : "byte 0"))
            fail_msg("%s: %s", bad[i], err.message);
    }
    assert_int_equal(lf_tokenizer_encode(tok, &ids, LF_STR("1 2 3"), NULL, 0, 0, 2, NULL, NULL), LF_LIMIT);
    lf_ids_deinit(&ids);
    lf_tokenizer_close(tok);
}

/* Every token shows something, so that a stream has an event for each. */
static void test_every_token_of_an_answer_shows(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_ids(300);
    struct lf_detok detok;
    struct lf_buf text;
    lf_buf_init(&text, 4096);
    lf_detok_init(&detok, tok, false, true);
    for (int32_t id = 0; id < 300; id++) {
        size_t before = text.len;
        lf_detok_push(&detok, id, &text);
        assert_true(text.len > before);
    }
    assert_true(lf_str_starts(lf_buf_view(&text), LF_STR(" 0 1 2 3")));
    lf_buf_deinit(&text);
    lf_tokenizer_close(tok);
}

static void test_sizes_of_a_vocabulary(void **state)
{
    (void)state;
    static const int good[] = {1, 9, 10, 11, 100, 101, 12345, LF_VOCAB_N}, bad[] = {0, -1, LF_VOCAB_N + 1};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct lf_tokenizer *tok = open_ids(good[i]);
        struct lf_token_info info;
        assert_int_equal(lf_tokenizer_n_vocab(tok), good[i]);
        assert_true(lf_tokenizer_token(tok, good[i] - 1, &info) && !info.special);
        assert_false(lf_tokenizer_token(tok, good[i], &info));
        assert_int_equal(lf_tokenizer_bos(tok), -1);
        assert_int_equal(lf_tokenizer_chat_template(tok).len, 0);
        lf_tokenizer_close(tok);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lf_tokenizer *tok = NULL;
        assert_int_not_equal(lf_tokenizer_open_ids(&tok, bad[i], NULL), LF_OK);
        assert_null(tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_is_its_ids),
        cmocka_unit_test(test_other_texts_are_refused_with_what_was_expected),
        cmocka_unit_test(test_every_token_of_an_answer_shows),
        cmocka_unit_test(test_sizes_of_a_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
