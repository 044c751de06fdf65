/* Our encoder of sentencepiece models against the library itself. */
#include "tests/unit/tokenizer/sp_model.h"
#include "tests/unit/tokenizer/support.h"
#include "tokenizer/spm/sp_shim.h"

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

/* A model of "<unk>", a mark, "a" and both together, with a trainer and a normalizer. */
static struct lf_tokenizer *open_small(const struct model_dir *dir, bool with_ends, uint64_t dummy_prefix,
                                       uint64_t extra_spaces)
{
    struct lf_buf m = start_model(true), part;
    put_piece(&m, LF_STR("\xe2\x96\x81"), -1, 1);
    put_piece(&m, LF_STR("a"), -1, 1);
    put_piece(&m,
              LF_STR("\xe2\x96\x81"
                     "a"),
              -1, 1);
    if (with_ends) put_piece(&m, LF_STR("<s>"), 0, 3);
    if (with_ends) put_piece(&m, LF_STR("</s>"), 0, 3);
    lf_buf_init(&part, 4096);
    put_number(&part, 3, 1); /* unigram */
    put_bytes(&part, 44, LF_STR("?"));
    put_bytes(&m, 2, lf_buf_view(&part));
    lf_buf_clear(&part);
    put_number(&part, 3, dummy_prefix);
    put_number(&part, 4, extra_spaces);
    put_bytes(&m, 3, lf_buf_view(&part));
    model_dir_write(dir, "tokenizer.model", m.ptr, m.len);
    lf_buf_deinit(&part);
    lf_buf_deinit(&m);
    return open_or_fail(dir->path);
}

static void expect_text(const struct lf_tokenizer *tok, const int32_t *ids, size_t n, const char *want)
{
    struct lf_buf text;
    lf_buf_init(&text, 4096);
    lf_buf_cstr(&text, "");
    assert_int_equal(lf_tokenizer_decode(tok, &text, ids, n, true, NULL, NULL), LF_OK);
    assert_string_equal(text.ptr, want);
    lf_buf_deinit(&text);
}

/* What a normalizer says about spaces holds on the way in and on the way back. */
static void test_marks_follow_the_normalizer(void **state)
{
    (void)state;
    static const int32_t a_a[] = {3, 3}, unknown[] = {3, 0, 2};
    struct model_dir dir = model_dir_make();
    struct lf_tokenizer *tok = open_small(&dir, false, 0, 0);
    assert_int_equal(lf_tokenizer_bos(tok), -1);
    assert_int_equal(lf_tokenizer_eos(tok), -1);
    ASSERT_ENCODES(tok, "a a", LF_ENCODE_BOS_EOS, 2, 3, -1);
    ASSERT_ENCODES(tok, " a", 0, 3, -1);
    expect_text(tok, a_a, 2, " a a");
    expect_text(tok, unknown, 3, " a?a");
    lf_tokenizer_close(tok);
    tok = open_small(&dir, true, 1, 0);
    assert_int_equal(lf_tokenizer_eos(tok), 5);
    ASSERT_ENCODES(tok, "a  a", LF_ENCODE_BOS_EOS, 4, 3, 1, 3, -1);
    expect_text(tok, a_a, 2, "a a");
    lf_tokenizer_close(tok);
    tok = open_small(&dir, true, 0, 1);
    ASSERT_ENCODES(tok, "  a  a ", 0, 2, 3, -1);
    expect_text(tok, a_a, 2, "a a");
    lf_tokenizer_close(tok);
    model_dir_free(&dir);
}

/* `legacy: false`: whether the prompt gets a mark is said by add_prefix_space, else by the class, else by the model. */
static void test_who_says_that_a_prompt_gets_a_mark(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        uint64_t dummy_prefix;
        bool marked;
    } cases[] = {
        {"", 0, false},
        {"", 1, true},
        {",\"tokenizer_class\":\"LlamaTokenizer\"", 0, true},
        {",\"tokenizer_class\":\"T5Tokenizer\"", 0, false},
        {",\"add_prefix_space\":true", 0, true},
        {",\"add_prefix_space\":false,\"tokenizer_class\":\"LlamaTokenizer\"", 1, false},
    };
    struct model_dir dir = model_dir_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[200];
        (void)snprintf(config, sizeof config, "{\"legacy\":false,\"bos_token\":\"<s>\",\"eos_token\":\"<none>\"%s}",
                       cases[i].more);
        model_dir_text(&dir, "tokenizer_config.json", config);
        struct lf_tokenizer *tok = open_small(&dir, true, cases[i].dummy_prefix, 0);
        assert_int_equal(lf_tokenizer_eos(tok), -1);
        ASSERT_ENCODES(tok, "a", 0, cases[i].marked ? 3 : 2, -1);
        ASSERT_ENCODES(tok, "<s>a", LF_ENCODE_SPECIALS, 4, 2, -1);
        ASSERT_ENCODES(tok, "<s> a", LF_ENCODE_SPECIALS, 4, 3, -1);
        ASSERT_ENCODES(tok,
                       "<s>\xe2\x96\x81"
                       "a",
                       LF_ENCODE_SPECIALS, 4, 3, -1);
        if (cases[i].marked) ASSERT_ENCODES(tok, " ", LF_ENCODE_SPECIALS, 1, 1, -1);
        if (!cases[i].marked) ASSERT_ENCODES(tok, " ", LF_ENCODE_SPECIALS, 1, -1);
        lf_tokenizer_close(tok);
    }
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

/* The table of texts has room for as many as there are ids. */
static void test_one_id_with_very_many_texts_is_refused(void **state)
{
    (void)state;
    struct model_dir dir = model_dir_make();
    model_dir_copy(&dir, "tokenizer.model", FIXTURES "sp-bpe/tokenizer.model");
    enum { N = 20000, ROW_BYTES = 16 };
    char *json = malloc((size_t)N * ROW_BYTES + 2), *at = json;
    assert_non_null(json);
    for (int i = 0; i < N; i++) at += snprintf(at, ROW_BYTES + 1, "%c\"tok%d\":0", i ? ',' : '{', i);
    memcpy(at, "}", 2);
    model_dir_text(&dir, "added_tokens.json", json);
    free(json);
    struct lf_tokenizer *tok = NULL;
    struct lf_err err;
    assert_int_equal(lf_tokenizer_open(&tok, dir.path, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "token id 0"));
    model_dir_free(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_those_of_the_library),
        cmocka_unit_test(test_the_door_to_the_library_gives_statuses),
        cmocka_unit_test(test_only_what_opens_the_prompt_gets_a_mark),
        cmocka_unit_test(test_added_tokens_of_a_file_of_their_own),
        cmocka_unit_test(test_one_id_with_very_many_texts_is_refused),
        cmocka_unit_test(test_marks_follow_the_normalizer),
        cmocka_unit_test(test_who_says_that_a_prompt_gets_a_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
