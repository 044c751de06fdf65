/* What one call of encode works with: where ids go, and scratch memory that is freed with the call. */
#ifndef LF_TOKENIZER_ENCODE_H
#define LF_TOKENIZER_ENCODE_H

#include "core/work.h"
#include "tokenizer/aho_corasick.h"
#include "tokenizer/merge.h"
#include "tokenizer/tokenizer.h"

/* Words seen before in this call with their symbols. Direct-mapped: a newer word takes the place of an older one. */
enum { LF_WORD_BYTES = 32, LF_WORD_IDS = 14 };
enum { LF_ENCODE_CHECK_BYTES = 4096 }; /* loops over single bytes count their steps by so many */
struct lf_word {
    uint8_t len, n_ids; /* len 0: a free place */
    char text[LF_WORD_BYTES];
    int32_t ids[LF_WORD_IDS];
};
struct lf_word_cache {
    struct lf_word *words; /* owned; NULL: not worth it for a text this short */
    uint64_t n_words;      /* a power of two */
};

/* Where a segment of text stands: at the beginning of a whole text, behind an added token, or behind a token boundary
 * within a text, where nothing is put before it. */
enum lf_place { LF_PLACE_OPENS, LF_PLACE_BEHIND_TOKEN, LF_PLACE_GOES_ON };

struct lf_encode_work {
    struct lf_ids *out; /* borrowed */
    size_t first;       /* ids in out before this call */
    size_t max_ids;     /* 0: no limit */
    struct lf_err *err; /* borrowed, may be NULL */
    struct lf_work *on; /* borrowed, may be NULL: what all of this is done for; scratch comes from its memory */

    struct lf_aho_matches matches,
        inner_matches; /* of added tokens; of user-defined pieces, or of those in normalized text */
    struct lf_merge_work merge;
    struct lf_ids symbols;
    struct lf_word_cache cache;
    struct lf_buf text; /* the normalized text */
    void *nodes;        /* owned: the best paths of a unigram word … */
    uint32_t *begins;   /* … and the pieces that begin at each place of it */
    size_t nodes_bytes, begins_bytes;
    bool after_unknown; /* the last id out stands for unknown text: what follows it and is unknown joins it */
};

void lf_encode_work_init(struct lf_encode_work *work, struct lf_ids *out, size_t text_bytes, size_t max_ids,
                         struct lf_work *on, struct lf_err *err);
/* Fills err for a status that came from further down; what: the text that has become too large. */
enum lf_status lf_encode_fail(const struct lf_encode_work *work, enum lf_status status, const char *what);
void lf_encode_work_deinit(struct lf_encode_work *work);
/* *ptr has room for n_bytes then; what was there is lost. */
LF_MUST_CHECK enum lf_status lf_encode_room(struct lf_encode_work *work, void *ptr, size_t *has_bytes, size_t n_bytes);
/* So much done: LF_OK to go on. */
LF_MUST_CHECK static inline enum lf_status lf_encode_step(struct lf_encode_work *work, size_t n_steps)
{
    enum lf_status status = lf_work_step(work->on, n_steps);
    return status == LF_OK ? LF_OK : lf_encode_fail(work, status, NULL);
}
/* LF_LIMIT past max_ids. */
LF_MUST_CHECK enum lf_status lf_encode_push(struct lf_encode_work *work, int32_t id);

/* The place of a word in the cache (the word itself or another one), NULL where it is not to be cached. */
struct lf_word *lf_word_cache_at(const struct lf_word_cache *cache, struct lf_str text);
static inline bool lf_word_is(const struct lf_word *word, struct lf_str text)
{
    return word->len == text.len && memcmp(word->text, text.ptr, text.len) == 0;
}
/* Puts text with its ids there, if they fit. */
void lf_word_store(struct lf_word *word, struct lf_str text, const int32_t *ids, size_t n_ids);

#endif
