/* Text to token ids and back: one face for every kind of tokenizer a model directory may hold.
 *
 * Kinds: sentencepiece (tokenizer.model; unigram and BPE), tokenizer.json (BPE, byte-level or sentencepiece-like with
 * byte fallback), and vocab.json with merges.txt where neither is there. Where a directory holds both of the former,
 * tokenizer.json wins unless it is of a kind not implemented.
 * tokenizer_config.json and special_tokens_map.json add special tokens, `legacy`, `add_bos_token` and the template.
 *
 * A tokenizer is read-only after open: any thread may call; every call has its own scratch memory. Time is O(n log n)
 * in the text, whatever the text. */
#ifndef LF_TOKENIZER_TOKENIZER_H
#define LF_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "core/str.h"

struct lf_tokenizer;
struct lf_text_memory;
struct lf_work;

/* A growing list of ids, owned; zero it first, then set memory if it is not to be the process's heap. */
struct lf_ids {
    int32_t *ids;
    size_t n;
    size_t cap;
    struct lf_text_memory *memory; /* borrowed */
};
void lf_ids_deinit(struct lf_ids *ids);
LF_MUST_CHECK enum lf_status lf_ids_push(struct lf_ids *ids, int32_t id);

/* A byte range of the text that came from a user: a special token is recognized only where none of its bytes lies in
 * one. Ascending, not overlapping. */
struct lf_text_span {
    size_t first, len;
};

enum lf_encode_flags {
    LF_ENCODE_SPECIALS = 1, /* recognize the text of special (control) tokens outside the user's spans */
    LF_ENCODE_BOS_EOS = 2,  /* add what the post-processor / add_bos_token adds around a single text */
    LF_ENCODE_GOES_ON =
        4 /* the text goes on behind a token boundary: nothing is put before it that only begins texts */
};

/* dir: a model directory. LF_NOT_FOUND: no tokenizer in it; LF_UNSUPPORTED: names the part; LF_CORRUPT. */
LF_MUST_CHECK enum lf_status lf_tokenizer_open(struct lf_tokenizer **out, const char *dir, struct lf_err *err);
/* For a shape without a tokenizer: the ids 0 to n_vocab - 1, and the text of a token is its id (id_text.h). LF_CORRUPT
 * where n_vocab is no size of a vocabulary; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_tokenizer_open_ids(struct lf_tokenizer **out, int n_vocab, struct lf_err *err);
void lf_tokenizer_close(struct lf_tokenizer *tok); /* accepts NULL */

/* Appends the ids of text to out. Text that is not valid UTF-8 is LF_INVALID. max_ids: LF_LIMIT as soon as there are
 * more (0: no limit), so that an oversized document is refused without being finished. LF_UNSUPPORTED: a pattern of
 * tokenizer.json costs more than LF_REGEX_STEPS_PER_BYTE on this text; err names it. work (may be NULL): where scratch
 * memory comes from (LF_NO_MEMORY), and who may end it (LF_CANCELLED, LF_TIMEOUT). */
LF_MUST_CHECK enum lf_status lf_tokenizer_encode(const struct lf_tokenizer *tok, struct lf_ids *out, struct lf_str text,
                                                 const struct lf_text_span *user_spans, size_t n_user_spans,
                                                 unsigned flags, size_t max_ids, struct lf_work *work,
                                                 struct lf_err *err);

struct lf_token_info {
    struct lf_str text; /* the token as written in the vocabulary (▁ and byte-level letters as they stand); borrowed */
    bool special;       /* control token: not part of the text a user sees */
};
int lf_tokenizer_n_vocab(const struct lf_tokenizer *tok); /* ids are 0..n-1; some may be unused */
/* false for an id that names no token. */
bool lf_tokenizer_token(const struct lf_tokenizer *tok, int32_t id, struct lf_token_info *out);
/* The id of a token's exact text, or -1. */
int32_t lf_tokenizer_find(const struct lf_tokenizer *tok, struct lf_str text);
int32_t lf_tokenizer_bos(const struct lf_tokenizer *tok); /* -1: none */
int32_t lf_tokenizer_eos(const struct lf_tokenizer *tok);
/* Texts of bos_token and eos_token for templates; empty where there is none. Borrowed. */
struct lf_str lf_tokenizer_bos_text(const struct lf_tokenizer *tok);
struct lf_str lf_tokenizer_eos_text(const struct lf_tokenizer *tok);
/* Source of the chat template (tokenizer_config.json, chat_template.json or chat_template.jinja); empty if none. */
struct lf_str lf_tokenizer_chat_template(const struct lf_tokenizer *tok);

/* Appends the exact bytes that a token adds to a text: may be part of a code point only. begins: it is the first of a
 * text of its own, where many tokenizers drop a space; else the text goes on. A control token gives the text that it is
 * written as. */
void lf_token_bytes(struct lf_buf *out, const struct lf_tokenizer *tok, int32_t id, bool begins);

/* The whole text of ids (special tokens left out unless with_specials); appended to out, always valid UTF-8: bytes
 * that form no code point become U+FFFD. Ids out of range are LF_INVALID. work: as above. */
LF_MUST_CHECK enum lf_status lf_tokenizer_decode(const struct lf_tokenizer *tok, struct lf_buf *out, const int32_t *ids,
                                                 size_t n_ids, bool with_specials, struct lf_work *work,
                                                 struct lf_err *err);

#endif
