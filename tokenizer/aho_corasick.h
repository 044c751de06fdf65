/* Aho-Corasick: which texts of a set begin at each place of a text, in one pass from its end to its beginning.
 *
 * The texts are kept backwards in a trie. Read from its end, the text leads through it, and the node that has been
 * reached at a place stands for the longest beginning of what follows there that is the end of some text of the set.
 * Where no child goes on, `fail` leads to the next shorter one; each byte goes one node down and all steps together go
 * no further up, so the pass is linear whatever the set. `ends` leads from a node to the nearest one, itself first,
 * that is a whole text of the set: the longest that begins at the place; from its `fail` on, the next shorter one.
 *
 * Why from the end: what follows a place is known when the place is read, so the longest text that begins there is
 * found without looking ahead, and looking ahead is what makes the usual search for it quadratic. */
#ifndef LF_TOKENIZER_AHO_CORASICK_H
#define LF_TOKENIZER_AHO_CORASICK_H

#include <stdbool.h>

#include "tokenizer/trie.h"

struct lf_work;

struct lf_aho {
    struct lf_trie trie; /* of the texts backwards */
    uint32_t *fail;      /* owned, [n_nodes] */
    uint32_t *ends;      /* owned, [n_nodes]; 0: none */
    uint16_t *lens;      /* owned, [n_nodes]: how deep a node lies */
};

/* Of equal texts, which have at most 64 KiB, the lowest value stays. */
LF_MUST_CHECK enum lf_status lf_aho_build(struct lf_aho *aho, const struct lf_trie_entry *entries, size_t n,
                                          struct lf_err *err);
void lf_aho_deinit(struct lf_aho *aho); /* accepts a zeroed one */
static inline bool lf_aho_is_empty(const struct lf_aho *aho)
{
    return aho->trie.n_nodes == 0;
}
/* The most texts of the set that can begin at one place; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_aho_nested(const struct lf_aho *aho, uint32_t *out, struct lf_err *err);

/* The node at the place before the one that `node` (0: none yet) is of; byte: the one that stands there. */
static inline uint32_t lf_aho_step(const struct lf_aho *aho, uint32_t node, uint8_t byte)
{
    for (;;) {
        uint32_t child = lf_trie_step(&aho->trie, node, byte);
        if (child || !node) return child;
        node = aho->fail[node];
    }
}
/* The first of the texts that begin at the place of node, longest first; 0: none. */
static inline uint32_t lf_aho_first(const struct lf_aho *aho, uint32_t node)
{
    return aho->ends[node];
}
static inline uint32_t lf_aho_next(const struct lf_aho *aho, uint32_t end)
{
    return aho->ends[aho->fail[end]];
}
static inline size_t lf_aho_len(const struct lf_aho *aho, uint32_t end)
{
    return aho->lens[end];
}
static inline int32_t lf_aho_value(const struct lf_aho *aho, uint32_t end)
{
    return aho->trie.nodes[end].value;
}

/* Where in a text others stand, with a value each; the last one comes first. Owned; zero it, then set memory. */
struct lf_aho_matches {
    struct lf_aho_match {
        uint32_t first, len;
        int32_t value;
    } * at;
    size_t n, cap;
    struct lf_text_memory *memory; /* borrowed */
};
void lf_aho_matches_deinit(struct lf_aho_matches *matches);
LF_MUST_CHECK enum lf_status lf_aho_matches_append(struct lf_aho_matches *matches, size_t first, size_t len,
                                                   int32_t value);
/* Drops the matches before from; the one at from, or NULL. For a walk that only goes on. */
static inline const struct lf_aho_match *lf_aho_match_at(struct lf_aho_matches *matches, size_t from)
{
    while (matches->n > 0 && matches->at[matches->n - 1].first < from) matches->n--;
    if (matches->n == 0 || matches->at[matches->n - 1].first != from) return NULL;
    return &matches->at[matches->n - 1];
}

/* Fills matches with the longest text that begins at each position of text. LF_NO_MEMORY, or what the work says. */
LF_MUST_CHECK enum lf_status lf_aho_longest(const struct lf_aho *aho, struct lf_aho_matches *matches,
                                            struct lf_str text, struct lf_work *work);

#endif
