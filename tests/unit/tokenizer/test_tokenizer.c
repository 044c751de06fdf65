#include "tests/unit/tokenizer/support.h"

static int32_t find(const struct lf_tokenizer *tok, const char *text)
{
    int32_t id = lf_tokenizer_find(tok, lf_str_c(text));
    if (id < 0) fail_msg("no token %s", text);
    return id;
}

static void test_users_cannot_write_special_tokens(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-qwen");
    const char *text = "<|im_start|>x<|im_end|>y<|im_end|>";
    struct lf_text_span spans[] = {{12, 12}}; /* x and all of the first <|im_end|> but its last letter */
    struct lf_ids ids = {0};
    assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_str_c(text), spans, 1, LF_ENCODE_SPECIALS, 0, NULL, NULL),
                     LF_OK);
    int32_t end = find(tok, "<|im_end|>");
    assert_int_equal(ids.ids[0], find(tok, "<|im_start|>"));
    assert_int_equal(ids.ids[ids.n - 1], end);
    size_t n_ends = 0;
    for (size_t i = 0; i < ids.n; i++) n_ends += ids.ids[i] == end;
    assert_int_equal(n_ends, 1);
    /* a token that is not special is found there too */
    ids.n = 0;
    struct lf_text_span all = {0, 7};
    assert_int_equal(lf_tokenizer_encode(tok, &ids, LF_STR("<think>"), &all, 1, LF_ENCODE_SPECIALS, 0, NULL, NULL),
                     LF_OK);
    assert_int_equal(ids.n, 1);
    lf_ids_deinit(&ids);
    lf_tokenizer_close(tok);
}

/* Each single byte of a special token, the first and the last among them, and each byte beside it. */
static void test_one_byte_of_a_user_is_enough(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-qwen");
    const char *text = "a<|im_end|>b";
    int32_t end = find(tok, "<|im_end|>");
    for (size_t at = 0; at < strlen(text); at++) {
        struct lf_text_span span = {at, 1};
        struct lf_ids ids = {0};
        bool found = false;
        assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_str_c(text), &span, 1, LF_ENCODE_SPECIALS, 0, NULL, NULL),
                         LF_OK);
        for (size_t i = 0; i < ids.n; i++) found = found || ids.ids[i] == end;
        assert_int_equal(found, at == 0 || at == strlen(text) - 1);
        lf_ids_deinit(&ids);
    }
    lf_tokenizer_close(tok);
}

/* <Bos> is looked for in the normalized text, where it is <bos>. */
static void test_nor_those_that_appear_by_normalization(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-words");
    int32_t bos = find(tok, "<Bos>");
    struct lf_ids ids = {0};
    struct lf_text_span span = {6, 1};
    assert_int_equal(
        lf_tokenizer_encode(tok, &ids, LF_STR("<BOS><bOS><bos>"), &span, 1, LF_ENCODE_SPECIALS, 0, NULL, NULL), LF_OK);
    assert_int_equal(ids.ids[0], bos);
    assert_int_equal(ids.ids[ids.n - 1], bos);
    assert_true(ids.n > 3);
    lf_ids_deinit(&ids);
    lf_tokenizer_close(tok);
}

static void test_bad_spans_are_refused(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-qwen");
    struct lf_ids ids = {0};
    struct lf_text_span past = {2, 2}, unordered[] = {{1, 1}, {0, 1}}, huge = {1, SIZE_MAX};
    assert_int_equal(lf_tokenizer_encode(tok, &ids, LF_STR("abc"), &past, 1, 0, 0, NULL, NULL), LF_INVALID);
    assert_int_equal(lf_tokenizer_encode(tok, &ids, LF_STR("abc"), unordered, 2, 0, 0, NULL, NULL), LF_INVALID);
    assert_int_equal(lf_tokenizer_encode(tok, &ids, LF_STR("abc"), &huge, 1, 0, 0, NULL, NULL), LF_INVALID);
    assert_int_equal(ids.n, 0);
    lf_ids_deinit(&ids);
    lf_tokenizer_close(tok);
}

static void test_invalid_text_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf5\x80\x80\x80"};
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "sp-bpe");
    struct lf_ids ids = {0};
    struct lf_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_str_c(bad[i]), NULL, 0, 0, 0, NULL, &err), LF_INVALID);
    assert_int_equal(ids.n, 0);
    lf_ids_deinit(&ids);
    lf_tokenizer_close(tok);
}

/* They are a large part of what a text takes from the memory of texts. */
static void test_ids_have_room_for_at_most_twice_as_many(void **state)
{
    (void)state;
    struct lf_ids ids = {0};
    for (int32_t i = 0; i < 10000; i++) {
        assert_int_equal(lf_ids_push(&ids, i), LF_OK);
        assert_true(ids.n == (size_t)i + 1 && ids.cap >= ids.n && (ids.cap == 64 || ids.cap <= 2 * (ids.n - 1)));
    }
    for (int32_t i = 0; i < 10000; i++) assert_int_equal(ids.ids[i], i);
    lf_ids_deinit(&ids);
}

static void test_a_text_ends_where_the_limit_is_passed(void **state)
{
    (void)state;
    static const char *const kinds[] = {FIXTURES "sp-bpe", FIXTURES "sp-unigram", FIXTURES "like-gpt2"};
    for (size_t k = 0; k < 3; k++) {
        struct lf_tokenizer *tok = open_or_fail(kinds[k]);
        struct lf_ids ids = {0};
        struct lf_err err;
        struct lf_str text = LF_STR("some words of a text, 1234");
        assert_int_equal(lf_ids_push(&ids, 7), LF_OK);
        assert_int_equal(lf_tokenizer_encode(tok, &ids, text, NULL, 0, 0, 0, NULL, NULL), LF_OK);
        size_t n = ids.n - 1;
        ids.n = 1;
        assert_int_equal(lf_tokenizer_encode(tok, &ids, text, NULL, 0, 0, n, NULL, NULL), LF_OK);
        assert_int_equal(ids.n, n + 1);
        ids.n = 1;
        assert_int_equal(lf_tokenizer_encode(tok, &ids, text, NULL, 0, 0, n - 1, NULL, &err), LF_LIMIT);
        assert_int_equal(ids.n, 1);
        assert_int_equal(ids.ids[0], 7);
        lf_ids_deinit(&ids);
        lf_tokenizer_close(tok);
    }
}

/* The length alone decides: nothing of the text is read. */
static void test_a_text_past_the_bound_is_refused(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "sp-bpe");
    struct lf_ids ids = {0};
    struct lf_err err;
    struct lf_str text = lf_str_from("a", LF_TOKENIZER_TEXT_BYTES + 1u);
    assert_int_equal(lf_tokenizer_encode(tok, &ids, text, NULL, 0, 0, 0, NULL, &err), LF_LIMIT);
    assert_non_null(strstr(err.message, "536870913 bytes"));
    lf_tokenizer_close(tok);
}

static void test_reading_stops_at_the_end_of_the_text(void **state)
{
    (void)state;
    static const char *const kinds[] = {FIXTURES "sp-bpe", FIXTURES "sp-unigram", FIXTURES "like-llama2",
                                        FIXTURES "like-words", FIXTURES "like-gpt2"};
    static const char *const texts[] = {"<s",          "<mask", "a  ", "\xe2\x96\x81", "--",
                                        "<|im_start|", "q",     "...", "e\xcc\x81"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct lf_tokenizer *tok = open_or_fail(kinds[k]);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            struct test_guarded text = test_guarded_copy(texts[i], strlen(texts[i]));
            struct lf_ids ids = {0};
            assert_int_equal(lf_tokenizer_encode(tok, &ids, lf_str_from(text.ptr, strlen(texts[i])), NULL, 0,
                                                 LF_ENCODE_SPECIALS, 0, NULL, NULL),
                             LF_OK);
            lf_ids_deinit(&ids);
            test_guarded_free(&text);
        }
        lf_tokenizer_close(tok);
    }
}

static void test_ids_out_of_range_are_refused(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-llama3");
    struct lf_token_info info;
    struct lf_buf out;
    int32_t past[] = {0, lf_tokenizer_n_vocab(tok)}, negative = -1;
    lf_buf_init(&out, 100);
    assert_int_equal(lf_tokenizer_decode(tok, &out, past, 2, false, NULL, NULL), LF_INVALID);
    assert_int_equal(lf_tokenizer_decode(tok, &out, &negative, 1, false, NULL, NULL), LF_INVALID);
    assert_int_equal(out.len, 0);
    assert_false(lf_tokenizer_token(tok, past[1], &info));
    assert_false(lf_tokenizer_token(tok, -1, &info));
    assert_true(lf_tokenizer_token(tok, 0, &info));
    assert_int_equal(lf_tokenizer_find(tok, LF_STR("no such token")), -1);
    assert_int_equal(lf_tokenizer_find(tok, LF_STR("")), -1);
    lf_buf_deinit(&out);
    lf_tokenizer_close(tok);
}

static void test_a_full_buffer_keeps_what_it_had(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-llama3");
    struct lf_buf out;
    int32_t ids[8];
    for (int i = 0; i < 8; i++) ids[i] = find(tok, "A");
    lf_buf_init(&out, 10);
    lf_buf_cstr(&out, "before");
    assert_int_equal(lf_tokenizer_decode(tok, &out, ids, 8, false, NULL, NULL), LF_LIMIT);
    assert_int_equal(out.len, 6);
    lf_buf_deinit(&out);
    lf_tokenizer_close(tok);
}

static void test_configuration_names_tokens_and_template(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    struct lf_token_info info;
    model_dir_copy(&dir, "tokenizer.json", FIXTURES "like-llama3/tokenizer.json");
    model_dir_text(&dir, "tokenizer_config.json",
                   "{\"bos_token\": {\"content\": \"<|begin|>\", \"lstrip\": false}, \"eos_token\": \"<|end|>\","
                   " \"add_eos_token\": true, \"extra_special_tokens\": {\"image\": \"he\"},"
                   " \"chat_template\": [{\"name\": \"tool\", \"template\": \"T\"},"
                   " {\"name\": \"default\", \"template\": \"D\"}]}");
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    assert_true(lf_str_eq(lf_tokenizer_chat_template(tok), LF_STR("D")));
    assert_true(lf_str_eq(lf_tokenizer_bos_text(tok), LF_STR("<|begin|>")));
    assert_true(lf_str_eq(lf_tokenizer_eos_text(tok), LF_STR("<|end|>")));
    assert_true(lf_tokenizer_token(tok, find(tok, "he"), &info) && info.special);
    assert_true(lf_tokenizer_token(tok, find(tok, "a"), &info) && !info.special);
    ASSERT_ENCODES(tok, "a", LF_ENCODE_BOS_EOS, find(tok, "<|begin|>"), find(tok, "a"), find(tok, "<|end|>"), -1);
    lf_tokenizer_close(tok);

    /* a file of its own goes before the configuration; a plain configuration takes the beginning away */
    model_dir_text(&dir, "chat_template.jinja", "{{ messages }}");
    model_dir_text(&dir, "tokenizer_config.json", "{\"add_bos_token\": false, \"chat_template\": \"C\"}");
    model_dir_text(&dir, "special_tokens_map.json", "{\"bos_token\": \"<|begin|>\"}");
    tok = open_or_fail(dir.path);
    assert_true(lf_str_eq(lf_tokenizer_chat_template(tok), LF_STR("{{ messages }}")));
    assert_int_equal(lf_tokenizer_bos(tok), find(tok, "<|begin|>"));
    assert_int_equal(lf_tokenizer_eos(tok), -1);
    assert_int_equal(lf_tokenizer_eos_text(tok).len, 0);
    ASSERT_ENCODES(tok, "a", LF_ENCODE_BOS_EOS, find(tok, "a"), -1);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

static void test_added_tokens_of_a_sentencepiece_model(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    model_dir_copy(&dir, "tokenizer.model", FIXTURES "sp-unigram/tokenizer.model");
    struct lf_tokenizer *plain = open_or_fail(dir.path);
    int n = lf_tokenizer_n_vocab(plain);
    lf_tokenizer_close(plain);
    char config[300];
    /* one behind the pieces, one in the place of a piece */
    (void)snprintf(config, sizeof config,
                   "{\"added_tokens_decoder\": {\"%d\": {\"content\": \"<new>\", \"special\": true},"
                   " \"9\": {\"content\": \"<nine>\", \"special\": false}}}",
                   n + 3);
    model_dir_text(&dir, "tokenizer_config.json", config);
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    assert_int_equal(lf_tokenizer_n_vocab(tok), n + 4);
    assert_int_equal(find(tok, "<new>"), n + 3);
    ASSERT_ENCODES(tok, "<new><nine>", LF_ENCODE_SPECIALS, n + 3, 9, -1);
    int32_t ids[] = {9, n + 3, 9, n + 1};
    struct lf_buf out;
    lf_buf_init(&out, 100);
    assert_int_equal(lf_tokenizer_decode(tok, &out, ids, 4, false, NULL, NULL), LF_OK);
    assert_string_equal(out.ptr, "<nine><nine>");
    lf_buf_deinit(&out);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

static void test_tokenizer_model_stands_in_for_a_kind_not_implemented(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    struct lf_tokenizer *tok = NULL;
    struct lf_err err;
    model_dir_text(&dir, "tokenizer.json", "{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}");
    assert_int_equal(lf_tokenizer_open(&tok, dir.path, &err), LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Unigram"));
    model_dir_copy(&dir, "tokenizer.model", FIXTURES "sp-unigram/tokenizer.model");
    tok = open_or_fail(dir.path);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_users_cannot_write_special_tokens),
        cmocka_unit_test(test_one_byte_of_a_user_is_enough),
        cmocka_unit_test(test_nor_those_that_appear_by_normalization),
        cmocka_unit_test(test_bad_spans_are_refused),
        cmocka_unit_test(test_invalid_text_is_refused),
        cmocka_unit_test(test_ids_have_room_for_at_most_twice_as_many),
        cmocka_unit_test(test_a_text_ends_where_the_limit_is_passed),
        cmocka_unit_test(test_a_text_past_the_bound_is_refused),
        cmocka_unit_test(test_reading_stops_at_the_end_of_the_text),
        cmocka_unit_test(test_ids_out_of_range_are_refused),
        cmocka_unit_test(test_a_full_buffer_keeps_what_it_had),
        cmocka_unit_test(test_configuration_names_tokens_and_template),
        cmocka_unit_test(test_added_tokens_of_a_sentencepiece_model),
        cmocka_unit_test(test_tokenizer_model_stands_in_for_a_kind_not_implemented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
