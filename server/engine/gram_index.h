/* Where a sequence has been before: for its last tokens, the place whose text before it is the longest that agrees.
 *
 * An index of grams, G tokens each: of every hash the position where its latest gram ends, and of every position the
 * one before it with the same hash. A look walks LF_GRAM_TRIES_N of these, latest first, and compares backwards at most
 * LF_GRAM_MATCH_N tokens, so it costs the same behind ten tokens as behind a million, and a text of one repeated word
 * costs no more than another. (A suffix automaton finds the longest of all; it takes 80 bytes a token where this takes
 * 8 to 12, and what it finds beyond 32 tokens changes no proposal.)
 *
 * Plain data over memory of the caller's; nothing is allocated, nothing fails. One thread at a time. */
#ifndef LF_SERVER_ENGINE_GRAM_INDEX_H
#define LF_SERVER_ENGINE_GRAM_INDEX_H

#include <stdint.h>

enum {
    LF_GRAM_N = 3,       /* tokens of a gram: the least that agrees */
    LF_GRAM_TRIES_N = 8, /* places that are compared */
    LF_GRAM_MATCH_N = 32 /* tokens that are, before each */
};

struct lf_gram_index {
    const int32_t *ids; /* borrowed: of the sequence */
    uint32_t *latest;   /* [1 << log2_latest] of each hash: tokens up to the end of its latest gram; 0: none */
    uint32_t *before;   /* [at least as many as tokens are added] of the gram that ends with token i: as latest */
    int log2_latest;
    int n; /* tokens that were added */
};

/* log2 of a good number of entries of `latest` for n_tokens: one a token. With fewer, other grams take tries. */
int lf_gram_index_log2(int n_tokens);
/* latest is cleared; before may hold anything. */
void lf_gram_index_init(struct lf_gram_index *x, const int32_t *ids, uint32_t *latest, int log2_latest,
                        uint32_t *before);
/* ids[0, n) are known; n never falls. */
void lf_gram_index_extend(struct lf_gram_index *x, int n);
/* A position p, LF_GRAM_N <= p < x->n, before which the tokens agree with the last ones: the longest that was found,
 * the latest among equals. 0: there is none. */
int lf_gram_index_find(const struct lf_gram_index *x);

#endif
