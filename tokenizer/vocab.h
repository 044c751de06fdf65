/* The vocabulary: id to text and text to id.
 *
 * Texts lie back to back in one block, ids index an array of places in it, and a hash table of ids finds a text. Sizes
 * are known before the first token is added, so nothing grows: 11 bytes a token beside its text, and 4 bytes a slot.
 * Filled by one thread; read by any. */
#ifndef LF_TOKENIZER_VOCAB_H
#define LF_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"

enum lf_token_flags {
    LF_TOKEN_USED = 1,         /* the id names a token */
    LF_TOKEN_SPECIAL = 2,      /* control token: not part of the text a user sees */
    LF_TOKEN_ADDED = 4,        /* an added token: found as a whole, before anything is split */
    LF_TOKEN_BYTE = 8,         /* stands for one byte, written <0xHH> */
    LF_TOKEN_UNKNOWN = 16,     /* stands for what the vocabulary cannot write */
    LF_TOKEN_USER_DEFINED = 32 /* sentencepiece: never split, never merged */
};

struct lf_vocab {
    char *bytes; /* owned: all texts */
    uint64_t bytes_cap;
    uint64_t n_bytes;
    uint32_t *offs; /* owned, [n_ids_cap] */
    uint16_t *lens; /* owned, [n_ids_cap] */
    uint8_t *flags; /* owned, [n_ids_cap] */
    int32_t *slots; /* owned, [n_slots]: an id, or -1 */
    uint64_t n_slots;
    int32_t n_ids; /* highest id + 1 */
    int32_t n_ids_cap;
    int32_t n_used;
};

/* n_ids: one past the highest id; n_tokens: how many will be added; n_bytes: the sum of their lengths. */
LF_MUST_CHECK enum lf_status lf_vocab_init(struct lf_vocab *vocab, int64_t n_ids, uint64_t n_tokens, uint64_t n_bytes,
                                           struct lf_err *err);
void lf_vocab_deinit(struct lf_vocab *vocab); /* accepts a zeroed one */
/* LF_CORRUPT: an empty text, one too long, an id out of range or given twice, a text given twice. */
LF_MUST_CHECK enum lf_status lf_vocab_add(struct lf_vocab *vocab, int32_t id, struct lf_str text, unsigned flags,
                                          struct lf_err *err);
/* Gives id another text, whatever it had; the old one is no longer found. */
LF_MUST_CHECK enum lf_status lf_vocab_replace(struct lf_vocab *vocab, int32_t id, struct lf_str text, unsigned flags,
                                              struct lf_err *err);
int32_t lf_vocab_find(const struct lf_vocab *vocab, struct lf_str text); /* -1: none */

static inline bool lf_vocab_has(const struct lf_vocab *vocab, int32_t id)
{
    return id >= 0 && id < vocab->n_ids && (vocab->flags[id] & LF_TOKEN_USED);
}
/* id must name a token. */
static inline struct lf_str lf_vocab_text(const struct lf_vocab *vocab, int32_t id)
{
    return lf_str_from(vocab->bytes + vocab->offs[id], vocab->lens[id]);
}

#endif
