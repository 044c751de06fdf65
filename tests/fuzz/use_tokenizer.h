/* What a tokenizer must do whatever file it came from: encode any text to ids of its own, and give out the same text
 * whole or token by token. */
#ifndef LF_TESTS_FUZZ_USE_TOKENIZER_H
#define LF_TESTS_FUZZ_USE_TOKENIZER_H

#include "tests/fuzz/fuzz.h"
#include "tokenizer/detok.h"

/* One text, whole and pushed token by token: equal, and valid UTF-8. */
static inline void fuzz_decode(const struct lf_tokenizer *tok, const int32_t *ids, size_t n, bool specials)
{
    struct lf_buf whole, pieces;
    struct lf_detok detok;
    lf_buf_init(&whole, 1 << 24);
    lf_buf_init(&pieces, 1 << 24);
    LF_ASSERT(lf_tokenizer_decode(tok, &whole, ids, n, specials, NULL, NULL) == LF_OK);
    lf_detok_init(&detok, tok, specials, false);
    for (size_t i = 0; i < n; i++) {
        lf_detok_push(&detok, ids[i], &pieces);
        LF_ASSERT(lf_utf8_valid(lf_buf_view(&pieces))); /* never half a code point */
    }
    lf_detok_flush(&detok, &pieces);
    LF_ASSERT(lf_utf8_valid(lf_buf_view(&whole)));
    LF_ASSERT(lf_str_eq(lf_buf_view(&whole), lf_buf_view(&pieces)));
    lf_buf_deinit(&pieces);
    lf_buf_deinit(&whole);
}

/* spans of the user: what stands there must not become a special token. */
static inline void fuzz_encode(const struct lf_tokenizer *tok, struct lf_str text, const struct lf_text_span *spans,
                               size_t n_spans, unsigned flags)
{
    struct lf_ids ids = {0};
    struct lf_err err = {0};
    int n_vocab = lf_tokenizer_n_vocab(tok);
    enum lf_status status = lf_tokenizer_encode(tok, &ids, text, spans, n_spans, flags, 0, NULL, &err);
    if (!lf_utf8_valid(text)) LF_ASSERT(status == LF_INVALID);
    if (status != LF_OK) {
        LF_ASSERT(ids.n == 0 && err.message[0] != 0);
        lf_ids_deinit(&ids);
        return;
    }
    for (size_t i = 0; i < ids.n; i++) {
        struct lf_token_info info;
        LF_ASSERT(ids.ids[i] >= 0 && ids.ids[i] < n_vocab && lf_tokenizer_token(tok, ids.ids[i], &info));
    }
    fuzz_decode(tok, ids.ids, ids.n, true);
    fuzz_decode(tok, ids.ids, ids.n, false);
    if (ids.n > 1) {
        struct lf_ids few = {0};
        LF_ASSERT(lf_tokenizer_encode(tok, &few, text, spans, n_spans, flags, ids.n - 1, NULL, NULL) == LF_LIMIT);
        LF_ASSERT(few.n == 0);
        lf_ids_deinit(&few);
    }
    lf_ids_deinit(&ids);
}

/* A few texts of every kind, and the one that is given. */
static inline void fuzz_use_tokenizer(const struct lf_tokenizer *tok, struct lf_str text)
{
    static const char sample[] =
        "Hi  the <s> king's\n\t\xc3\xa9\xcc\x81 1234 \xe4\xb8\xad\xf0\x9f\xa6\x99 <unk>\xef\xbb\xbf.";
    struct lf_text_span span = {3, 9};
    int n_vocab = LF_MIN(lf_tokenizer_n_vocab(tok), 512);
    fuzz_encode(tok, text, NULL, 0, LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS);
    fuzz_encode(tok, lf_str_c(sample), &span, 1, LF_ENCODE_SPECIALS);
    int32_t *ids = malloc((size_t)LF_MAX(n_vocab, 1) * sizeof *ids);
    LF_ASSERT(ids != NULL);
    for (int i = 0; i < n_vocab; i++) ids[i] = i;
    fuzz_decode(tok, ids, (size_t)n_vocab, true);
    fuzz_decode(tok, ids, (size_t)n_vocab, false);
    for (int i = 0; i < n_vocab; i++) {
        struct lf_token_info info;
        if (lf_tokenizer_token(tok, i, &info)) LF_ASSERT(info.text.len <= LF_TOKEN_BYTES);
    }
    LF_ASSERT(lf_tokenizer_bos(tok) < lf_tokenizer_n_vocab(tok) && lf_tokenizer_eos(tok) < lf_tokenizer_n_vocab(tok));
    free(ids);
}

/* Opens what stands in the directory and uses it on the text; what is refused says why. */
static inline void fuzz_open_tokenizer(const char *dir, struct lf_str text)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err = {0};
    if (lf_tokenizer_open(&tok, dir, &err) == LF_OK) {
        fuzz_use_tokenizer(tok, text);
        lf_tokenizer_close(tok);
    } else {
        LF_ASSERT(err.message[0] != 0 && tok == NULL);
    }
}

#endif
