/* The BPE model of tokenizer.json: from a piece of text to ids. */
#ifndef LF_TOKENIZER_HF_BPE_H
#define LF_TOKENIZER_HF_BPE_H

#include "core/json.h"
#include "tokenizer/encode.h"
#include "tokenizer/vocab.h"

enum { LF_BPE_LETTERS_N = 0x180 }; /* covers all byte-level letters */

struct lf_bpe {
    struct lf_merges merges;
    int32_t letters[LF_BPE_LETTERS_N]; /* ids of the tokens of one code point below, or -1 */
    int32_t bytes[256];                /* ids of <0xHH>, or -1 */
    int32_t unk;                       /* -1: what cannot be written is left out */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool marks_open_words; /* nothing joins over a mark behind something else: long pieces can be cut there */
};

/* Fills bpe and vocab from the value of "model". extra_*: room for what is added to vocab later. Whatever is there on
 * failure, the deinits take. */
LF_MUST_CHECK enum lf_status lf_bpe_open(struct lf_bpe *bpe, struct lf_vocab *vocab, struct lf_json_value model,
                                         int64_t max_added_id, uint64_t n_added, uint64_t added_bytes,
                                         struct lf_err *err);
void lf_bpe_deinit(struct lf_bpe *bpe); /* accepts a zeroed one */

LF_MUST_CHECK enum lf_status lf_bpe_encode(const struct lf_bpe *bpe, const struct lf_vocab *vocab,
                                           struct lf_encode_work *work, struct lf_str piece);

#endif
