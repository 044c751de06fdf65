/* Added tokens: texts that are one token wherever they stand, found before anything else looks at the text.
 *
 * Two sets, as Hugging Face keeps them: those looked for in the text as it came, and those (`normalized`) looked for in
 * the normalized text of what lies between. The leftmost match wins, the longest among those that begin together.
 * A special token is passed over where specials are not to be recognized, and where one of its bytes came from a user.
 */
#ifndef LF_TOKENIZER_ADDED_H
#define LF_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"
#include "tokenizer/trie.h"

struct lf_added_token {
    int32_t id;
    bool special;
    bool named;          /* bos_token and its like */
    bool lstrip, rstrip; /* white space before, behind belongs to the match */
    bool single_word;    /* no match inside a word */
    bool normalized;
    uint32_t text_off, text_len; /* in texts */
};

struct lf_added {
    struct lf_added_token *tokens; /* owned */
    int32_t n_tokens, tokens_cap;
    struct lf_buf texts; /* what to look for, back to back; empty once the tries are built */
    struct lf_trie raw, normalized;
    bool normalized_specials; /* the normalized set holds a special one */
};

struct lf_added_match {
    size_t first, end; /* with the white space that belongs to it */
    const struct lf_added_token *token;
};

/* A text in which to look. */
struct lf_added_search {
    struct lf_str text;
    const uint8_t *user; /* [text.len]: 1 where the byte came from a user; NULL: nowhere */
    bool specials;
};

void lf_added_deinit(struct lf_added *added); /* accepts a zeroed one */
/* text: what to look for (already normalized for the normalized set). Of two equal texts the first counts. */
LF_MUST_CHECK enum lf_status lf_added_put(struct lf_added *added, const struct lf_added_token *token,
                                          struct lf_str text, struct lf_err *err);
/* After the last put: makes it ready to search. */
LF_MUST_CHECK enum lf_status lf_added_finish(struct lf_added *added, struct lf_err *err);
/* The next match at or after from, false if there is none. */
bool lf_added_next(const struct lf_added *added, const struct lf_trie *trie, const struct lf_added_search *search,
                   size_t from, struct lf_added_match *out);
uint64_t lf_added_bytes(const struct lf_added *added);

#endif
