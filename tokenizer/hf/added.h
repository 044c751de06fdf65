/* Added tokens: texts that are one token wherever they stand, found before anything else looks at the text.
 *
 * Two sets, as Hugging Face keeps them: those looked for in the text as it came, and those (`normalized`) looked for in
 * the normalized text of what lies between. The leftmost match wins, the longest among those that begin together.
 * A special token is passed over where specials are not to be recognized, and where one of its bytes came from a user.
 *
 * All places where one may begin are found in one pass from the end (aho_corasick.h); what a token asks for beyond its
 * letters is settled without trying one after the other. Tokens are of four classes, and `links` leads from a node to
 * the longest token of a class that begins there, so what is not to be recognized is not met. Those of a user's bytes
 * come from a second walk that starts anew behind each of them. And of tokens that are whole words, all but the longest
 * are followed by letters of the longer ones, so whether a word goes on behind them is known beforehand. */
#ifndef LF_TOKENIZER_HF_ADDED_H
#define LF_TOKENIZER_HF_ADDED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"
#include "tokenizer/aho_corasick.h"

struct lf_added_token {
    int32_t id;
    bool special;
    bool named;          /* bos_token and its like */
    bool lstrip, rstrip; /* white space before, behind belongs to the match */
    bool single_word;    /* no match inside a word */
    bool normalized;
    uint32_t text_off, text_len; /* in texts */
};

enum { LF_ADDED_WORD = 1, LF_ADDED_SPECIAL = 2, LF_ADDED_CLASSES_N = 4 };

struct lf_added_set {
    struct lf_aho aho;
    /* Owned, [nodes] or NULL where there is no token of that class. For words the node's own token does not count. */
    uint32_t *links[LF_ADDED_CLASSES_N];
};

struct lf_added {
    struct lf_added_token *tokens; /* owned */
    int32_t n_tokens, tokens_cap;
    struct lf_buf texts; /* what to look for, back to back; empty once the sets are built */
    struct lf_added_set raw, normalized;
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
    bool goes_on; /* the text begins inside another one */
};

void lf_added_deinit(struct lf_added *added); /* accepts a zeroed one */
/* text: what to look for (already normalized for the normalized set), not empty. Of two equal texts the first counts.
 * An id is inserted once. */
LF_MUST_CHECK enum lf_status lf_added_insert(struct lf_added *added, const struct lf_added_token *token,
                                             struct lf_str text, struct lf_err *err);
/* After the last insert: makes it ready to search. */
LF_MUST_CHECK enum lf_status lf_added_finish(struct lf_added *added, struct lf_err *err);
/* Fills matches with where a token of the set may begin, for lf_added_next. LF_NO_MEMORY, or what the work says. */
LF_MUST_CHECK enum lf_status lf_added_find(const struct lf_added *added, const struct lf_added_set *set,
                                           const struct lf_added_search *search, struct lf_aho_matches *matches,
                                           struct lf_work *work);
/* The next match at or after from, false if there is none; from never goes back. */
bool lf_added_next(const struct lf_added *added, struct lf_aho_matches *matches, const struct lf_added_search *search,
                   size_t from, struct lf_added_match *out);

#endif
