/* A fixed set of texts as a trie: built once from all of them, then only read.
 *
 * The children of a node lie together, ascending by byte, so a step is a short binary search and a node is 12 bytes. */
#ifndef LF_TOKENIZER_TRIE_H
#define LF_TOKENIZER_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "core/str.h"

struct lf_trie_node {
    uint32_t first; /* of its children */
    int32_t value;  /* of the text that ends here, or -1 */
    uint16_t n;     /* children */
    uint8_t byte;
};

struct lf_trie {
    struct lf_trie_node *nodes; /* owned; [0] is the root */
    uint32_t n_nodes;           /* 0: nothing in it */
    uint32_t root[256];         /* child of the root by byte, 0: none */
};

struct lf_trie_entry {
    struct lf_str text; /* not empty */
    int32_t value;      /* >= 0 */
};

/* Sorts entries. Of equal texts the lowest value stays. */
LF_MUST_CHECK enum lf_status lf_trie_build(struct lf_trie *trie, struct lf_trie_entry *entries, size_t n,
                                           struct lf_err *err);
void lf_trie_deinit(struct lf_trie *trie); /* accepts a zeroed one */

/* The child of node by byte; 0 if there is none. */
static inline uint32_t lf_trie_step(const struct lf_trie *trie, uint32_t node, uint8_t byte)
{
    if (node == 0) return trie->root[byte];
    const struct lf_trie_node *at = &trie->nodes[node];
    uint32_t low = at->first, high = at->first + at->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (trie->nodes[mid].byte == byte) return mid;
        if (trie->nodes[mid].byte < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

/* The longest text of the trie that text begins with: its value and length; -1 if none. */
int32_t lf_trie_longest(const struct lf_trie *trie, struct lf_str text, size_t *len);

#endif
