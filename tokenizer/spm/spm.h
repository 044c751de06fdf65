/* Sentencepiece models: normalize, then cut by byte-pair merging or by the best path of a unigram model.
 *
 * The library opens the file (sp_shim.h); the encoding is ours and gives the library's ids. Measured reason: on 1 MiB
 * of one unknown character the library needs 26 s, and on prose it does 0.6 MB/s; it also follows a model's
 * normalization tables without a bounds check. Nothing of the library stays in memory once a model is open. */
#ifndef LF_TOKENIZER_SPM_SPM_H
#define LF_TOKENIZER_SPM_SPM_H

#include "tokenizer/encode.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

/* U+2581, how sentencepiece writes a space. */
#define LF_SPM_MARK     "\xe2\x96\x81"
#define LF_SPM_MARK_LEN 3

struct lf_charsmap {
    uint32_t *units; /* owned: a double array */
    uint32_t n_units;
    char *rules; /* owned: texts, each ended by a NUL */
    uint32_t rules_bytes;
};

struct lf_spm {
    bool unigram; /* else BPE */
    bool byte_fallback;
    bool whitespace_as_suffix, add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
    bool marks_open_words; /* no piece goes on over a mark behind something else: words can be cut apart there */
    struct lf_charsmap charsmap;
    struct lf_aho user_defined;
    int32_t unk;
    int32_t bytes[256]; /* ids of the byte pieces, with byte_fallback */
    char unk_surface[32];
    /* BPE */
    struct lf_merges merges;
    struct lf_trie chars; /* pieces of one code point */
    /* unigram */
    struct lf_aho pieces;
    float *scores;  /* owned, by id */
    uint8_t *bonus; /* owned, by id: 1 for a user-defined piece */
    int32_t n_pieces;
    float min_score;
    char bos_piece[64], eos_piece[64];
};

/* How a segment of text between special tokens begins. */
enum lf_spm_start {
    LF_SPM_START_MODEL,  /* as the model says, like a text of its own */
    LF_SPM_START_MARK,   /* with a mark before it, whatever the model says, and its own spaces kept */
    LF_SPM_START_INSIDE, /* goes on: no mark, its own spaces kept */
    LF_SPM_START_BARE    /* no mark, spaces dropped as the model says */
};

/* Fills spm and vocab from the bytes of tokenizer.model. extra_tokens, extra_bytes: room that vocab shall have for
 * what is added later. Both are left as deinit takes them on failure. */
LF_MUST_CHECK enum lf_status lf_spm_open(struct lf_spm *spm, struct lf_vocab *vocab, struct lf_str model,
                                         int32_t extra_ids, uint64_t extra_bytes, struct lf_err *err);
void lf_spm_deinit(struct lf_spm *spm); /* accepts a zeroed one */

/* Pushes the ids of text (valid UTF-8). marks_are_spaces: a mark written in the text means a space. */
LF_MUST_CHECK enum lf_status lf_spm_encode(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str text,
                                           enum lf_spm_start start, bool marks_are_spaces);

/* The parts. */
LF_MUST_CHECK enum lf_status lf_charsmap_open(struct lf_charsmap *map, struct lf_str blob, struct lf_err *err);
void lf_charsmap_deinit(struct lf_charsmap *map);
/* Makes work->text the normalized text. LF_CORRUPT: rules that no model has, or that make too much of the text. */
LF_MUST_CHECK enum lf_status lf_spm_normalize(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str text,
                                              enum lf_spm_start start, bool marks_are_spaces);
LF_MUST_CHECK enum lf_status lf_spm_bpe_open(struct lf_spm *spm, const struct lf_vocab *vocab, const float *scores,
                                             struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_spm_bpe_encode(const struct lf_spm *spm, struct lf_encode_work *work,
                                               struct lf_str text);
LF_MUST_CHECK enum lf_status lf_spm_unigram_open(struct lf_spm *spm, const struct lf_vocab *vocab,
                                                 const uint8_t *in_trie, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_spm_unigram_encode(const struct lf_spm *spm, struct lf_encode_work *work,
                                                   struct lf_str text);
/* An id for text (one code point) that no piece writes: its bytes, or the unknown piece, once for a run of them. */
LF_MUST_CHECK enum lf_status lf_spm_push_unknown(const struct lf_spm *spm, struct lf_encode_work *work,
                                                 struct lf_str text);

/* Length of the code point at text.ptr[at] (valid UTF-8). */
static inline size_t lf_utf8_len(struct lf_str text, size_t at)
{
    uint8_t b = (uint8_t)text.ptr[at];
    return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}
static inline bool lf_spm_is_mark(struct lf_str text, size_t at)
{
    return text.len - at >= LF_SPM_MARK_LEN && memcmp(text.ptr + at, LF_SPM_MARK, LF_SPM_MARK_LEN) == 0;
}
/* Whether a word may begin at `at`: a mark there, something else before it. */
static inline bool lf_spm_is_word_start(struct lf_str text, size_t at)
{
    return at > 0 && lf_spm_is_mark(text, at) && !(at >= LF_SPM_MARK_LEN && lf_spm_is_mark(text, at - LF_SPM_MARK_LEN));
}
/* Whether a mark stands behind something else in a piece. */
static inline bool lf_spm_has_inner_mark(struct lf_str text)
{
    for (size_t at = 1; at < text.len; at++) {
        if (lf_spm_is_word_start(text, at)) return true;
    }
    return false;
}

#endif
