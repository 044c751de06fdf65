#include "tokenizer/vocab.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/hash.h"

static uint64_t slots_for(uint64_t n_tokens)
{
    uint64_t n = 16;
    while (n < n_tokens + n_tokens / 2) n *= 2;
    return n;
}

enum lf_status lf_vocab_init(struct lf_vocab *vocab, int64_t n_ids, uint64_t n_tokens, uint64_t n_bytes,
                             struct lf_err *err)
{
    memset(vocab, 0, sizeof *vocab);
    if (n_ids < 1 || n_ids > LF_VOCAB_N)
        return lf_fail(err, LF_CORRUPT, "a vocabulary of 1 to %d ids is expected, not %lld", LF_VOCAB_N,
                       (long long)n_ids);
    if (n_tokens > LF_VOCAB_N)
        return lf_fail(err, LF_CORRUPT, "a vocabulary of at most %d tokens is expected, not %llu", LF_VOCAB_N,
                       (unsigned long long)n_tokens);
    if (n_bytes > UINT32_MAX) return lf_fail(err, LF_LIMIT, "the vocabulary's texts are longer than 4 GiB");
    vocab->n_slots = slots_for(n_tokens);
    vocab->bytes_cap = n_bytes;
    vocab->n_ids_cap = (int32_t)n_ids;
    size_t n = (size_t)n_ids;
    vocab->bytes = malloc(n_bytes ? (size_t)n_bytes : 1);
    vocab->offs = calloc(n, sizeof *vocab->offs);
    vocab->lens = calloc(n, sizeof *vocab->lens);
    vocab->flags = calloc(n, sizeof *vocab->flags);
    vocab->slots = malloc((size_t)vocab->n_slots * sizeof *vocab->slots);
    if (!vocab->bytes || !vocab->offs || !vocab->lens || !vocab->flags || !vocab->slots) {
        lf_vocab_deinit(vocab);
        return lf_fail(err, LF_NO_MEMORY, "no memory for a vocabulary of %lld tokens", (long long)n_ids);
    }
    memset(vocab->slots, 0xff, (size_t)vocab->n_slots * sizeof *vocab->slots);
    return LF_OK;
}

void lf_vocab_deinit(struct lf_vocab *vocab)
{
    free(vocab->slots);
    free(vocab->flags);
    free(vocab->lens);
    free(vocab->offs);
    free(vocab->bytes);
    memset(vocab, 0, sizeof *vocab);
}

/* The slot of text, or the free slot where it would go. */
static uint64_t slot_of(const struct lf_vocab *vocab, struct lf_str text)
{
    uint64_t mask = vocab->n_slots - 1;
    uint64_t i = lf_hash64(text.ptr, text.len) & mask;
    while (vocab->slots[i] >= 0 && !lf_str_eq(lf_vocab_text(vocab, vocab->slots[i]), text)) i = (i + 1) & mask;
    return i;
}

enum lf_status lf_vocab_replace(struct lf_vocab *vocab, int32_t id, struct lf_str text, unsigned flags,
                                struct lf_err *err)
{
    if (id < 0 || id >= vocab->n_ids_cap)
        return lf_fail(err, LF_CORRUPT, "token id %d is out of range (%d ids)", id, vocab->n_ids_cap);
    if (text.len == 0) return lf_fail(err, LF_CORRUPT, "token %d has an empty text", id);
    if (text.len > LF_TOKEN_BYTES)
        return lf_fail(err, LF_CORRUPT, "token %d has a text of %zu bytes, at most %d are expected", id, text.len,
                       LF_TOKEN_BYTES);
    uint64_t slot = slot_of(vocab, text);
    if (vocab->slots[slot] >= 0)
        return lf_fail(err, LF_CORRUPT, "tokens %d and %d have the same text", vocab->slots[slot], id);
    if ((uint64_t)vocab->n_used >= vocab->n_slots - 1) /* a list may give one id many texts */
        return lf_fail(err, LF_CORRUPT, "token id %d: there are more texts than ids", id);
    LF_ASSERT(vocab->n_bytes + text.len <= vocab->bytes_cap);
    memcpy(vocab->bytes + vocab->n_bytes, text.ptr, text.len);
    vocab->offs[id] = (uint32_t)vocab->n_bytes;
    vocab->lens[id] = (uint16_t)text.len;
    vocab->flags[id] = (uint8_t)(flags | LF_TOKEN_USED);
    vocab->slots[slot] = id;
    vocab->n_bytes += text.len;
    vocab->n_used++;
    if (id >= vocab->n_ids) vocab->n_ids = id + 1;
    return LF_OK;
}

enum lf_status lf_vocab_add(struct lf_vocab *vocab, int32_t id, struct lf_str text, unsigned flags, struct lf_err *err)
{
    if (lf_vocab_has(vocab, id)) return lf_fail(err, LF_CORRUPT, "token id %d is given twice", id);
    return lf_vocab_replace(vocab, id, text, flags, err);
}

int32_t lf_vocab_find(const struct lf_vocab *vocab, struct lf_str text)
{
    if (vocab->n_slots == 0 || text.len == 0 || text.len > LF_TOKEN_BYTES) return -1;
    return vocab->slots[slot_of(vocab, text)];
}
