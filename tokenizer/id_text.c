#include "tokenizer/id_text.h"

#include <stdio.h>

#include "core/check.h"
#include "tokenizer/tokenizer_impl.h"

enum { DIGITS = 12 };

enum lf_status lf_id_text_vocab(struct lf_vocab *vocab, int n_vocab, struct lf_err *err)
{
    char digits[DIGITS];
    uint64_t n_bytes = 0, n_tokens = (uint64_t)LF_MAX(n_vocab, 0);
    for (uint64_t first = 1; first <= n_tokens; first *= 10) n_bytes += n_tokens - (first > 1 ? first : 0);
    LF_TRY(lf_vocab_init(vocab, n_vocab, n_tokens, n_bytes, err));
    for (int id = 0; id < n_vocab; id++) {
        snprintf(digits, sizeof digits, "%d", id);
        LF_TRY(lf_vocab_add(vocab, id, lf_str_c(digits), 0, err));
    }
    return LF_OK;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

enum lf_status lf_tokenizer_encode_ids(const struct lf_tokenizer *tok, struct lf_encode_work *work, struct lf_str text)
{
    for (size_t i = 0; i < text.len;) {
        size_t n = 0;
        while (i + n < text.len && !is_space(text.ptr[i + n])) n++;
        if (n == 0) {
            if (i++ % LF_ENCODE_CHECK_BYTES == 0) LF_TRY(lf_encode_step(work, LF_ENCODE_CHECK_BYTES));
            continue;
        }
        LF_TRY(lf_encode_step(work, 16 + n));
        int32_t id = lf_vocab_find(&tok->vocab, lf_str_from(text.ptr + i, n));
        if (id < 0)
            return lf_fail(work->err, LF_INVALID,
                           "this model has no tokenizer: expected token ids from 0 to %d with spaces between them, got "
                           "something else at byte %zu",
                           tok->vocab.n_ids - 1, i);
        LF_TRY(lf_encode_push(work, id));
        i += n;
    }
    return LF_OK;
}
