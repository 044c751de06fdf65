/* template/answer_vocabulary.c: a tokenizer's tokens under a grammar. Random answers that masks allow are what a client
 * must see, through the detokenizer, byte for byte. */
#include "tests/support/test.h"

#include "core/check.h"
#include "core/mix.h"
#include "template/answer_vocabulary.h"
#include "tokenizer/detok.h"

#define FIXTURES "tests/golden/tokenizer/"

static struct lf_tokenizer *open_or_fail(const char *dir)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err = {0};
    if (lf_tokenizer_open(&tok, dir, &err) != LF_OK) fail_msg("%s: %s", dir, err.message);
    return tok;
}

static struct lf_answer_vocabulary vocabulary_of(const struct lf_tokenizer *tok, int32_t end)
{
    struct lf_answer_vocabulary v = {0};
    assert_int_equal(lf_answer_vocabulary_create(&v, tok, lf_tokenizer_n_vocab(tok), &end, 1, NULL), LF_OK);
    return v;
}

static bool allows(const uint32_t *mask, int32_t id)
{
    return mask[id / 32] >> id % 32 & 1;
}

static int32_t draw(const uint32_t *mask, int n_tokens, uint64_t r)
{
    int32_t id = (int32_t)(r % (uint64_t)n_tokens);
    for (int i = 0; i < n_tokens && !allows(mask, id); i++) id = (id + 1) % n_tokens;
    assert_true(allows(mask, id));
    return id;
}

/* An answer of random tokens that the masks allow, up to its end or to 200 of them; as a client sees it. */
static bool answer(struct lf_buf *out, const struct lf_grammar *g, const struct lf_tokenizer *tok,
                   struct lf_vocabulary *v, int32_t end, bool begins, uint64_t seed)
{
    static uint32_t mask[LF_VOCAB_N / 32];
    struct lf_matcher *m = NULL;
    struct lf_detok detok;
    bool whole = false;
    lf_buf_clear(out);
    lf_detok_init(&detok, tok, false, !begins);
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    for (uint64_t i = 0; i < 200 && !whole; i++) {
        assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
        int32_t id = draw(mask, lf_tokenizer_n_vocab(tok), lf_random64(seed, i));
        assert_int_equal(lf_matcher_accept(m, id), LF_OK);
        whole = id == end;
        if (!whole) lf_detok_push(&detok, id, out);
    }
    lf_detok_flush(&detok, out);
    lf_matcher_destroy(m);
    return whole;
}

/* Whether the text, given in bytes, is one that the grammar takes. */
static bool takes(const struct lf_grammar *g, struct lf_vocabulary *v, struct lf_str text)
{
    struct lf_matcher *m = NULL;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    bool ok = lf_matcher_accept_bytes(m, text) == LF_OK && lf_matcher_is_complete(m);
    lf_matcher_destroy(m);
    return ok;
}

/* Whether an answer that begins a text of its own was possible. */
static bool check_answers(const char *dir, const char *pattern, int32_t end)
{
    struct lf_tokenizer *tok = open_or_fail(dir);
    struct lf_answer_vocabulary v = vocabulary_of(tok, end);
    struct lf_grammar *g = NULL;
    struct lf_buf text;
    int n_whole = 0;
    lf_buf_init(&text, 1 << 20);
    assert_int_equal(lf_grammar_of_regex(&g, lf_str_c(pattern), NULL, NULL), LF_OK);
    bool can_begin = lf_answer_can_begin(g, v.begins, NULL, NULL) == LF_OK;
    assert_int_equal(lf_answer_can_begin(g, v.continues, NULL, NULL), LF_OK);
    for (uint64_t seed = 0; seed < 200; seed++) {
        bool begins = can_begin && seed % 2;
        if (!answer(&text, g, tok, begins ? v.begins : v.continues, end, begins, seed)) continue;
        n_whole++;
        if (!takes(g, v.continues, lf_buf_view(&text)))
            fail_msg("%s, %s: \"%s\"", dir, pattern, lf_buf_view(&text).ptr);
    }
    lf_buf_deinit(&text);
    lf_grammar_unref(g);
    lf_answer_vocabulary_deinit(&v);
    lf_tokenizer_close(tok);
    assert_true(n_whole > 20);
    return can_begin;
}

static void answers_are_what_the_client_sees(void **state)
{
    (void)state;
    static const char *const dirs[] = {"demo/model", FIXTURES "sp-bpe", FIXTURES "like-llama2", FIXTURES "like-llama3",
                                       FIXTURES "like-qwen"};
    static const char *const patterns[] = {"[a-z]{1,5}( [a-z]{1,5}){0,3}", " {0,4}a", "   (the|a)?b",
                                           "( |[a-e]|\xc3\xa9){3,6}", "\\{\"a\":[0-9]{1,3}\\}"};
    int n_impossible = 0;
    for (size_t i = 0; i < LF_N_ELEMS(dirs); i++) {
        for (size_t k = 0; k < LF_N_ELEMS(patterns); k++) n_impossible += !check_answers(dirs[i], patterns[k], 2);
    }
    assert_int_equal(n_impossible, 1); /* like-llama2 has no token of two spaces, and loses a byte's as well */
}

static void a_marked_token_may_begin_an_answer(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail("demo/model");
    struct lf_answer_vocabulary v = vocabulary_of(tok, 4);
    struct lf_grammar *g = NULL;
    struct lf_matcher *m = NULL;
    uint32_t mask[4096 / 32];
    int32_t marked = lf_tokenizer_find(tok, LF_STR("\xe2\x96\x81the")), control = lf_tokenizer_find(tok, LF_STR("<s>"));
    assert_true(v.begins != v.continues && marked >= 0 && control >= 0);
    assert_int_equal(lf_grammar_of_regex(&g, LF_STR("the the"), NULL, NULL), LF_OK);
    assert_int_equal(lf_matcher_create(&m, g, v.begins, NULL), LF_OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
        assert_true(allows(mask, marked));
        assert_false(allows(mask, control) || allows(mask, lf_tokenizer_find(tok, LF_STR("\xe2\x96\x81"))));
        assert_int_equal(lf_matcher_accept(m, marked), LF_OK);
        assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
        assert_true(allows(mask, marked));
        assert_int_equal(lf_matcher_accept(m, marked), LF_OK);
        assert_true(lf_matcher_is_finished(m));
        lf_matcher_restart(m);
    }
    lf_matcher_destroy(m);
    assert_int_equal(lf_matcher_create(&m, g, v.continues, NULL), LF_OK);
    assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
    assert_false(allows(mask, marked));
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_answer_vocabulary_deinit(&v);
    lf_tokenizer_close(tok);
}

static void where_no_token_differs_there_is_one_vocabulary(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail(FIXTURES "like-llama3");
    struct lf_answer_vocabulary v = vocabulary_of(tok, 0);
    assert_ptr_equal(v.begins, v.continues);
    assert_int_equal(lf_answer_vocabulary_bytes(&v), lf_vocabulary_bytes(v.continues));
    lf_answer_vocabulary_deinit(&v);
    lf_tokenizer_close(tok);
    tok = open_or_fail("demo/model");
    v = vocabulary_of(tok, 0);
    assert_int_equal(lf_answer_vocabulary_bytes(&v), lf_vocabulary_bytes(v.continues) + lf_vocabulary_bytes(v.begins));
    lf_answer_vocabulary_deinit(&v);
    assert_int_equal(lf_answer_vocabulary_bytes(&v), 0);
    lf_tokenizer_close(tok);
}

static void the_model_may_have_more_tokens_than_the_tokenizer(void **state)
{
    (void)state;
    struct lf_tokenizer *tok = open_or_fail("demo/model");
    struct lf_answer_vocabulary v = {0};
    struct lf_err err = {0};
    int32_t end = 2, beyond = 5000;
    assert_int_equal(lf_answer_vocabulary_create(&v, tok, 5000, &end, 1, &err), LF_OK);
    assert_int_equal(lf_vocabulary_mask_words(v.begins), (5000 + 31) / 32);
    lf_answer_vocabulary_deinit(&v);
    assert_int_equal(lf_answer_vocabulary_create(&v, tok, 100, &end, 1, &err), LF_OK);
    assert_int_equal(lf_vocabulary_mask_words(v.begins), 4);
    lf_answer_vocabulary_deinit(&v);
    assert_int_equal(lf_answer_vocabulary_create(&v, tok, 5000, &beyond, 1, &err), LF_INVALID);
    assert_null(v.begins);
    lf_tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_what_the_client_sees),
        cmocka_unit_test(a_marked_token_may_begin_an_answer),
        cmocka_unit_test(where_no_token_differs_there_is_one_vocabulary),
        cmocka_unit_test(the_model_may_have_more_tokens_than_the_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
