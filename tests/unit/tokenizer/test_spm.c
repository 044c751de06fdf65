/* Our encoder of sentencepiece models against the library itself. */
#include "tests/unit/tokenizer/support.h"
#include "tokenizer/sp_shim.h"

static const char *const kinds[] = {"sp-bpe", "sp-unigram", "sp-suffix"};

static void compare(const struct lf_tokenizer *tok, const struct lf_sp *sp, struct lf_str text)
{
    enum { MAX = 4096 };
    static int want[MAX];
    struct lf_ids got = {0};
    size_t n = 0;
    assert_int_equal(lf_sp_encode(sp, text.ptr, text.len, want, MAX, &n), LF_SP_OK);
    assert_true(n <= MAX);
    assert_int_equal(lf_tokenizer_encode(tok, &got, text, NULL, 0, 0, 0, NULL, NULL), LF_OK);
    assert_ids(&got, want, n);
    lf_ids_deinit(&got);
}

/* A text of words, spaces, odd letters and pieces of the model. */
static void make_text(struct lf_buf *out, const struct lf_tokenizer *tok, uint64_t *seed)
{
    static const char *const parts[] = {" ",
                                        "  ",
                                        "\t",
                                        "\n",
                                        "the",
                                        "king",
                                        " the king",
                                        "\xe2\x96\x81",
                                        "<sep>",
                                        "\xc3\x85",
                                        "...",
                                        "\xef\xac\x81",
                                        "\xe4\xb8\xad",
                                        "1234",
                                        "<unk>",
                                        "<s>",
                                        "\xcc\x81",
                                        "\xf0\x9f\xa6\x99",
                                        "\xc2\xad",
                                        "zzzzzz",
                                        "<0x41>",
                                        "\xc2\xa0"};
    uint32_t n = next_random(seed) % 30;
    lf_buf_clear(out);
    for (uint32_t i = 0; i < n; i++) {
        struct lf_token_info info;
        uint32_t pick = next_random(seed);
        if (pick % 3 == 0) {
            lf_buf_cstr(out, parts[(pick / 3) % (sizeof parts / sizeof *parts)]);
        } else if (pick % 3 == 1) {
            lf_buf_char(out, (char)(' ' + (pick / 3) % 95));
        } else if (lf_tokenizer_token(tok, (int32_t)(pick / 3 % (uint32_t)lf_tokenizer_n_vocab(tok)), &info)) {
            lf_buf_str(out, info.text);
        }
    }
}

static void test_ids_are_those_of_the_library(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128];
        char message[200];
        struct lf_buf file, text;
        struct lf_sp *sp;
        (void)snprintf(path, sizeof path, FIXTURES "%s", kinds[k]);
        struct lf_tokenizer *tok = open_or_fail(path);
        (void)snprintf(path, sizeof path, FIXTURES "%s/tokenizer.model", kinds[k]);
        lf_buf_init(&file, 1 << 20);
        lf_buf_init(&text, 1 << 20);
        assert_int_equal(lf_file_read(&file, path, 1 << 20, NULL), LF_OK);
        assert_int_equal(lf_sp_open(&sp, file.ptr, file.len, message, sizeof message), LF_SP_OK);
        for (int round = 0; round < 4000; round++) {
            make_text(&text, tok, &seed);
            compare(tok, sp, lf_buf_view(&text));
        }
        lf_sp_close(sp);
        lf_tokenizer_close(tok);
        lf_buf_deinit(&text);
        lf_buf_deinit(&file);
    }
}

static void test_the_door_to_the_library_gives_statuses(void **state)
{
    (void)state;
    struct lf_sp *sp = NULL;
    char message[16] = "";
    assert_int_equal(lf_sp_open(&sp, "nonsense", 8, message, sizeof message), LF_SP_REFUSED);
    assert_true(strlen(message) > 0 && strlen(message) < sizeof message);
    assert_null(sp);
    lf_sp_close(NULL);
}

/* The rule of the demo model: `legacy: false`. */
static void test_only_what_opens_the_prompt_gets_a_mark(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    model_dir_copy(&dir, "tokenizer.model", FIXTURES "sp-bpe/tokenizer.model");
    model_dir_text(&dir, "tokenizer_config.json",
                   "{\"legacy\": false, \"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"<s>\","
                   " \"eos_token\": {\"content\": \"<|im_start|>\"}}");
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    int32_t mark = lf_tokenizer_find(tok, LF_STR("\xe2\x96\x81")), a = lf_tokenizer_find(tok, LF_STR("a"));
    int32_t begin = lf_tokenizer_find(tok, LF_STR("<s>")), start = lf_tokenizer_find(tok, LF_STR("<|im_start|>"));
    int32_t end = lf_tokenizer_find(tok, LF_STR("</s>")), marked = lf_tokenizer_find(tok, LF_STR("\xe2\x96\x81"
                                                                                                 "a"));
    int32_t newline = lf_tokenizer_find(tok, LF_STR("<0x0A>"));
    assert_true(mark > 0 && a > 0 && start > 0 && marked > 0 && newline > 0);
    assert_int_equal(lf_tokenizer_eos(tok), start);
    ASSERT_ENCODES(tok, "", LF_ENCODE_SPECIALS, -1);
    ASSERT_ENCODES(tok, "a", LF_ENCODE_SPECIALS, marked, -1);
    ASSERT_ENCODES(tok, "a\na", LF_ENCODE_SPECIALS, marked, newline, a, -1);
    ASSERT_ENCODES(tok, "<s>a", LF_ENCODE_SPECIALS, begin, a, -1);
    ASSERT_ENCODES(tok, "<s> a", LF_ENCODE_SPECIALS, begin, marked, -1);
    ASSERT_ENCODES(tok, "a<s>a", LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS, begin, marked, begin, a, -1);
    /* before an added token that no name in the configuration points to the mark stays, as transformers has it */
    ASSERT_ENCODES(tok, "</s>a", LF_ENCODE_SPECIALS, mark, end, a, -1);
    lf_tokenizer_close(tok);

    model_dir_text(&dir, "tokenizer_config.json",
                   "{\"legacy\": true, \"add_bos_token\": false, \"add_eos_token\": true}");
    tok = open_or_fail(dir.path);
    ASSERT_ENCODES(tok, "<s>a", LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS, begin, marked, end, -1);
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

static void test_added_tokens_of_a_file_of_their_own(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    model_dir_copy(&dir, "tokenizer.model", FIXTURES "sp-bpe/tokenizer.model");
    struct lf_tokenizer *tok = open_or_fail(dir.path);
    int n_pieces = lf_tokenizer_n_vocab(tok);
    int32_t a = lf_tokenizer_find(tok, LF_STR("\xe2\x96\x81"
                                              "a"));
    lf_tokenizer_close(tok);
    char json[64];
    (void)snprintf(json, sizeof json, "{\"<call>\": %d, \"<end>\": %d}", n_pieces, n_pieces + 3);
    model_dir_text(&dir, "added_tokens.json", json);
    tok = open_or_fail(dir.path);
    assert_int_equal(lf_tokenizer_n_vocab(tok), n_pieces + 4);
    assert_int_equal(lf_tokenizer_find(tok, LF_STR("<call>")), n_pieces);
    ASSERT_ENCODES(tok, "a<call><end>", LF_ENCODE_SPECIALS, a, n_pieces, n_pieces + 3, -1);
    struct lf_token_info info;
    assert_false(lf_tokenizer_token(tok, n_pieces + 1, &info)); /* a hole names no token */
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_those_of_the_library),
        cmocka_unit_test(test_the_door_to_the_library_gives_statuses),
        cmocka_unit_test(test_only_what_opens_the_prompt_gets_a_mark),
        cmocka_unit_test(test_added_tokens_of_a_file_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
