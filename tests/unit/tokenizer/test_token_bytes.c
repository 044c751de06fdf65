/* tokenizer/token_bytes.c: tokens' bytes, put together, are the text that the detokenizer gives out, whatever the kind
 * of tokenizer, for answers that begin a text of their own and for those that go on. */
#include "tests/unit/tokenizer/support.h"

#include "core/check.h"
#include "core/mix.h"
#include "tokenizer/detok.h"

static const char *const dirs[] = {
    FIXTURES "like-deepseek",
    FIXTURES "like-falcon",
    FIXTURES "like-gpt2",
    FIXTURES "like-llama2",
    FIXTURES "like-llama3",
    FIXTURES "like-qwen",
    FIXTURES "like-words",
    FIXTURES "like-tekken",
    FIXTURES "like-metaspace",
    FIXTURES "sp-bpe",
    FIXTURES "sp-suffix",
    FIXTURES "sp-unigram",
    "demo/model",
};

/* The bytes of id; control tokens have none in an answer. */
static void append(struct lf_buf *out, const struct lf_tokenizer *tok, int32_t id, bool begins)
{
    struct lf_token_info info;
    if (lf_tokenizer_token(tok, id, &info) && !info.special) lf_token_bytes(out, tok, id, begins);
}

/* A few random tokens. The first of an answer adds something: grammars never allow one that does not. */
static bool compare(const struct lf_tokenizer *tok, uint64_t seed, bool begins, struct lf_buf *bytes,
                    struct lf_buf *text)
{
    struct lf_detok detok;
    uint32_t n = (uint32_t)lf_tokenizer_n_vocab(tok);
    lf_buf_clear(bytes);
    lf_buf_clear(text);
    lf_detok_init(&detok, tok, false, !begins);
    for (uint32_t i = 0; i < 6; i++) {
        int32_t id = (int32_t)(lf_random64(seed, i) % n);
        size_t len = bytes->len;
        append(bytes, tok, id, begins && bytes->len == 0);
        if (bytes->len > len || len > 0) lf_detok_push(&detok, id, text);
    }
    lf_detok_flush(&detok, text);
    if (!lf_utf8_valid(lf_buf_view(bytes))) return false;
    if (!lf_str_eq(lf_buf_view(bytes), lf_buf_view(text)))
        fail_msg("seed %llu: \"%s\" is not \"%s\"", (unsigned long long)seed, lf_buf_view(bytes).ptr,
                 lf_buf_view(text).ptr);
    return true;
}

static void bytes_add_up_to_the_text(void **state)
{
    (void)state;
    struct lf_buf bytes, text;
    lf_buf_init(&bytes, 1 << 20);
    lf_buf_init(&text, 1 << 20);
    for (size_t i = 0; i < LF_N_ELEMS(dirs); i++) {
        struct lf_tokenizer *tok = open_or_fail(dirs[i]);
        int n_compared = 0;
        for (uint64_t seed = 0; seed < 3000; seed++) n_compared += compare(tok, seed, seed % 2, &bytes, &text);
        if (n_compared < 150) fail_msg("%s: only %d texts were compared", dirs[i], n_compared);
        lf_tokenizer_close(tok);
    }
    lf_buf_deinit(&bytes);
    lf_buf_deinit(&text);
}

static void assert_bytes(const struct lf_tokenizer *tok, int32_t id, bool begins, const char *want)
{
    struct lf_buf out;
    lf_buf_init(&out, 1000);
    lf_token_bytes(&out, tok, id, begins);
    assert_string_equal(lf_buf_view(&out).ptr, want);
    lf_buf_deinit(&out);
}

static int32_t id_of(const struct lf_tokenizer *tok, const char *text)
{
    int32_t id = lf_tokenizer_find(tok, lf_str_c(text));
    if (id < 0) fail_msg("no token %s", text);
    return id;
}

#define MARK "\xe2\x96\x81"

static void a_beginning_drops_the_space_that_the_detokenizer_drops(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail("demo/model");
    assert_bytes(tok, id_of(tok, MARK "the"), false, " the");
    assert_bytes(tok, id_of(tok, MARK "the"), true, "the");
    assert_bytes(tok, id_of(tok, MARK), false, " ");
    assert_bytes(tok, id_of(tok, MARK), true, "");
    assert_bytes(tok, id_of(tok, "<0x20>"), true, " "); /* a byte is no mark */
    assert_bytes(tok, id_of(tok, "<0xC3>"), true, "\xc3");
    assert_bytes(tok, id_of(tok, "<|im_end|>"), true, "<|im_end|>");
    assert_bytes(tok, -1, false, "");
    assert_bytes(tok, 1 << 20, false, "");
    lf_tokenizer_close(tok);
    tok = open_or_fail(FIXTURES "like-llama3");
    int32_t id = id_of(tok, "\xc4\xa0the"); /* Ġ */
    assert_bytes(tok, id, false, " the");
    assert_bytes(tok, id, true, " the");
    lf_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_add_up_to_the_text),
        cmocka_unit_test(a_beginning_drops_the_space_that_the_detokenizer_drops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
