#include "tests/unit/tokenizer/support.h"
#include "tokenizer/detok.h"

static int32_t id_of(const struct lf_tokenizer *tok, const char *text)
{
    int32_t id = lf_tokenizer_find(tok, lf_str_c(text));
    if (id < 0) fail_msg("no token %s", text);
    return id;
}

/* Pushes one id; what came out must be valid UTF-8 and equal want. */
static void assert_push(struct lf_detok *detok, int32_t id, const char *want)
{
    struct lf_buf out;
    lf_buf_init(&out, 1000);
    lf_detok_push(detok, id, &out);
    assert_true(lf_utf8_valid(lf_buf_view(&out)));
    assert_string_equal(lf_buf_view(&out).ptr, want);
    lf_buf_deinit(&out);
}

static void assert_flush(struct lf_detok *detok, const char *want)
{
    struct lf_buf out;
    lf_buf_init(&out, 1000);
    lf_detok_flush(detok, &out);
    assert_string_equal(lf_buf_view(&out).ptr, want);
    lf_buf_deinit(&out);
}

static void test_byte_pieces_wait_for_the_whole_code_point(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "sp-bpe");
    struct lf_detok detok;
    lf_detok_init(&detok, tok, false, false);
    assert_push(&detok, id_of(tok, "<0xF0>"), "");
    assert_push(&detok, id_of(tok, "<0x9F>"), "");
    assert_push(&detok, id_of(tok, "<0xA6>"), "");
    assert_push(&detok, id_of(tok, "<0x99>"), "\xf0\x9f\xa6\x99");
    assert_push(&detok, id_of(tok, "<0x41>"), "A");
    assert_flush(&detok, "");
    lf_tokenizer_close(tok);
}

static void test_bad_bytes_become_replacements(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "sp-bpe");
    struct lf_detok detok;
    lf_detok_init(&detok, tok, false, false);
    assert_push(&detok, id_of(tok, "<0x80>"), "\xef\xbf\xbd");
    assert_push(&detok, id_of(tok, "<0xE2>"), "");
    assert_push(&detok, id_of(tok, "<0x82>"), "");
    /* sentencepiece replaces each byte of what did not become a code point */
    assert_push(&detok, id_of(tok, "<0x41>"),
                "\xef\xbf\xbd\xef\xbf\xbd"
                "A");
    assert_push(&detok, id_of(tok, "<0xC3>"), "");
    assert_push(&detok, id_of(tok, "e"),
                "\xef\xbf\xbd"
                "e");
    assert_push(&detok, id_of(tok, "<0xED>"), "");
    assert_push(&detok, id_of(tok, "<0xA0>"), "\xef\xbf\xbd\xef\xbf\xbd"); /* a surrogate begins so */
    assert_push(&detok, id_of(tok, "<0xE2>"), "");
    assert_flush(&detok, "\xef\xbf\xbd");
    assert_flush(&detok, "");
    lf_tokenizer_close(tok);

    tok = open_or_fail(FIXTURES "like-llama3");
    lf_detok_init(&detok, tok, false, false);
    assert_push(&detok, id_of(tok, "\xc3\xa2"), ""); /* the letter of byte E2 */
    assert_push(&detok, id_of(tok, "\xc4\xa4"), ""); /* of byte 82 */
    assert_push(&detok, id_of(tok, "A"),
                "\xef\xbf\xbd"
                "A"); /* one for the beginning of a code point */
    lf_tokenizer_close(tok);
}

/* As its decoder has it: what looks like a byte is one where the decoder makes bytes of such tokens. */
static void test_a_token_is_a_byte_where_the_decoder_says_so(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sp-bpe", "like-llama2", "like-llama3"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128];
        (void)snprintf(path, sizeof path, FIXTURES "%s", kinds[k]);
        struct lf_tokenizer *tok = open_or_fail(path);
        int n = 0;
        for (int32_t id = -1; id <= lf_tokenizer_n_vocab(tok); id++) {
            struct lf_token_info info;
            char name[16];
            int byte = lf_detok_byte(tok, id);
            n += byte >= 0;
            if (byte < 0 || !lf_tokenizer_token(tok, id, &info)) continue;
            snprintf(name, sizeof name, "<0x%02X>", byte);
            assert_true(lf_str_eq(info.text, lf_str_c(name)));
        }
        assert_int_equal(n, k < 2 ? 256 : 0); /* like-llama3: each letter of a token is a byte */
        lf_tokenizer_close(tok);
    }
}

static void test_the_first_mark_is_a_space_only_inside_a_text(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "sp-bpe");
    struct lf_detok detok;
    int32_t mark = id_of(tok, "\xe2\x96\x81"), the = id_of(tok, "\xe2\x96\x81the");
    lf_detok_init(&detok, tok, false, false);
    assert_push(&detok, the, "the");
    assert_push(&detok, the, " the");
    lf_detok_init(&detok, tok, false, true);
    assert_push(&detok, the, " the");
    lf_detok_init(&detok, tok, false, false);
    assert_push(&detok, mark, "");
    assert_push(&detok, the, " the");
    lf_tokenizer_close(tok);

    tok = open_or_fail(FIXTURES "like-llama2");
    the = id_of(tok, "\xe2\x96\x81the");
    lf_detok_init(&detok, tok, false, false);
    assert_push(&detok, the, "the");
    assert_push(&detok, the, " the");
    lf_detok_init(&detok, tok, false, true);
    assert_push(&detok, the, " the");
    lf_tokenizer_close(tok);
}

static void test_special_tokens_show_on_request(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-qwen");
    struct lf_detok detok;
    int32_t special = id_of(tok, "<|im_end|>"), think = id_of(tok, "<think>");
    lf_detok_init(&detok, tok, false, false);
    assert_push(&detok, special, "");
    assert_push(&detok, think, "<think>");
    assert_push(&detok, -1, "");
    assert_push(&detok, lf_tokenizer_n_vocab(tok), "");
    lf_detok_init(&detok, tok, true, false);
    assert_push(&detok, special, "<|im_end|>");
    lf_tokenizer_close(tok);
}

static void test_pieces_add_up_to_the_whole(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sp-bpe",      "sp-unigram",     "sp-suffix", "like-llama3",
                                        "like-llama2", "like-metaspace", "like-words"};
    uint64_t seed = 3;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128];
        (void)snprintf(path, sizeof path, FIXTURES "%s", kinds[k]);
        struct lf_tokenizer *tok = open_or_fail(path);
        for (int round = 0; round < 500; round++) {
            int32_t ids[20];
            struct lf_buf whole, parts;
            struct lf_detok detok;
            bool specials = round % 2 == 0;
            lf_buf_init(&whole, 1 << 16);
            lf_buf_init(&parts, 1 << 16);
            for (int i = 0; i < 20; i++) ids[i] = (int32_t)(next_random(&seed) % (uint32_t)lf_tokenizer_n_vocab(tok));
            assert_int_equal(lf_tokenizer_decode(tok, &whole, ids, 20, specials, NULL, NULL), LF_OK);
            lf_detok_init(&detok, tok, specials, false);
            for (int i = 0; i < 20; i++) {
                lf_detok_push(&detok, ids[i], &parts);
                assert_true(lf_utf8_valid(lf_buf_view(&parts)));
            }
            lf_detok_flush(&detok, &parts);
            assert_true(lf_str_eq(lf_buf_view(&whole), lf_buf_view(&parts)));
            lf_buf_deinit(&whole);
            lf_buf_deinit(&parts);
        }
        lf_tokenizer_close(tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_pieces_wait_for_the_whole_code_point),
        cmocka_unit_test(test_bad_bytes_become_replacements),
        cmocka_unit_test(test_a_token_is_a_byte_where_the_decoder_says_so),
        cmocka_unit_test(test_the_first_mark_is_a_space_only_inside_a_text),
        cmocka_unit_test(test_special_tokens_show_on_request),
        cmocka_unit_test(test_pieces_add_up_to_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
