#include "tokenizer/hf/bpe.h"

#include "core/check.h"
#include "tokenizer/spm/spm.h"

static int32_t letter_id(const struct lf_bpe *bpe, const struct lf_vocab *vocab, struct lf_str letter)
{
    uint8_t first = (uint8_t)letter.ptr[0];
    if (first < 0x80) return bpe->letters[first];
    if (letter.len == 2) {
        uint32_t cp = (uint32_t)(first & 0x1f) << 6 | ((uint8_t)letter.ptr[1] & 0x3f);
        if (cp < LF_BPE_LETTERS_N) return bpe->letters[cp];
    }
    return lf_vocab_find(vocab, letter);
}

/* The ids of the bytes of a letter; false where the vocabulary lacks one of them. */
static bool push_bytes(const struct lf_bpe *bpe, struct lf_ids *symbols, struct lf_str letter, enum lf_status *status)
{
    for (size_t i = 0; i < letter.len; i++) {
        if (bpe->bytes[(uint8_t)letter.ptr[i]] < 0) return false;
    }
    for (size_t i = 0; i < letter.len && *status == LF_OK; i++)
        *status = lf_ids_push(symbols, bpe->bytes[(uint8_t)letter.ptr[i]]);
    return true;
}

enum { LONG_WORD_BYTES = 1024, LETTER_STEPS = 8 };

/* The symbols that a word begins with. Unknown letters wait in `unknown`, so that neighbours can become one. */
static enum lf_status first_symbols(const struct lf_bpe *bpe, const struct lf_vocab *vocab, struct lf_encode_work *work,
                                    struct lf_str word)
{
    struct lf_ids *symbols = &work->symbols;
    enum lf_status status = LF_OK;
    bool unknown = false;
    symbols->n = 0;
    for (size_t at = 0, len; at < word.len && status == LF_OK; at += len) {
        len = lf_utf8_len(word, at);
        if (word.len > LONG_WORD_BYTES) LF_TRY(lf_work_step(work->on, LETTER_STEPS));
        struct lf_str letter = lf_str_from(word.ptr + at, len);
        int32_t id = letter_id(bpe, vocab, letter);
        if (id >= 0) {
            if (unknown) LF_TRY(lf_ids_push(symbols, bpe->unk));
            unknown = false;
            status = lf_ids_push(symbols, id);
        } else if (!(bpe->byte_fallback && push_bytes(bpe, symbols, letter, &status)) && bpe->unk >= 0) {
            if (unknown && !bpe->fuse_unk) status = lf_ids_push(symbols, bpe->unk);
            unknown = true;
        }
    }
    if (unknown && status == LF_OK) status = lf_ids_push(symbols, bpe->unk);
    return status;
}

static enum lf_status push_all(struct lf_encode_work *work, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) LF_TRY(lf_encode_push(work, ids[i]));
    return LF_OK;
}

enum { WORD_STEPS = 16 };

static enum lf_status encode_word(const struct lf_bpe *bpe, const struct lf_vocab *vocab, struct lf_encode_work *work,
                                  struct lf_str word)
{
    if (word.len == 0) return LF_OK;
    LF_TRY(lf_encode_step(work, WORD_STEPS + word.len));
    struct lf_word *cached = lf_word_cache_at(&work->cache, word);
    if (cached && lf_word_is(cached, word)) return push_all(work, cached->ids, cached->n_ids);
    enum lf_status status = first_symbols(bpe, vocab, work, word);
    uint64_t n = work->symbols.n;
    if (status == LF_OK) status = lf_merges_run(&bpe->merges, &work->merge, work->symbols.ids, &n);
    if (status != LF_OK) return lf_encode_fail(work, status, "a word to merge");
    if (cached) lf_word_store(cached, word, work->symbols.ids, n);
    return push_all(work, work->symbols.ids, n);
}

enum lf_status lf_bpe_encode(const struct lf_bpe *bpe, const struct lf_vocab *vocab, struct lf_encode_work *work,
                             struct lf_str piece)
{
    if (bpe->ignore_merges) {
        int32_t id = lf_vocab_find(vocab, piece);
        if (id >= 0) return lf_encode_push(work, id);
    }
    if (!bpe->marks_open_words) return encode_word(bpe, vocab, work, piece);
    size_t first = 0;
    for (size_t at = 1; at < piece.len; at++) {
        if (at % LF_ENCODE_CHECK_BYTES == 0) LF_TRY(lf_encode_step(work, LF_ENCODE_CHECK_BYTES));
        if (!lf_spm_is_word_start(piece, at)) continue;
        LF_TRY(encode_word(bpe, vocab, work, lf_str_from(piece.ptr + first, at - first)));
        first = at;
    }
    return encode_word(bpe, vocab, work, lf_str_from(piece.ptr + first, piece.len - first));
}
