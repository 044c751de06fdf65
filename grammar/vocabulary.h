/* A vocabulary as tries, and what is kept of walks over it.
 *
 * A trie is an array in the order of a walk: a node, then all nodes under it. `next` leads past them, so a walk is one
 * loop that either goes on to the next element or skips, and the states on the way down are an array by depth.
 *
 * Plain tokens are those of whole characters without quote, backslash and controls: what may stand in a string as it
 * is. Where any plain character is allowed (terminal.h: endless) they are allowed by a mask made once, by how many
 * characters they have, and only the trie of the others is walked.
 *
 * Words are tokens of whole characters that are letters, digits, spaces or not ASCII. In free text they are allowed by
 * a mask of theirs (terminal.h: steady), and only the trie of the marks, which are the others, is walked. */
#ifndef LF_GRAMMAR_VOCABULARY_H
#define LF_GRAMMAR_VOCABULARY_H

#include <pthread.h>

#include "core/str.h"
#include "grammar/terminal.h"

struct lf_text_memory;

enum { LF_PLAIN_CHARACTERS_N = 32 }; /* of a plain token; longer ones count among the others */

struct lf_trie_node_of_tokens {
    uint32_t next;  /* node behind all under this one */
    uint32_t first; /* of the ids of the tokens that end here */
    uint32_t n;
    uint16_t depth; /* bytes from the root, which has 0 */
    uint8_t byte;
};

struct lf_token_trie {
    struct lf_trie_node_of_tokens *nodes; /* [0] is the root */
    int32_t *ids;
    uint32_t n_nodes, n_ids;
};

struct lf_token_text {
    struct lf_str text;
    int32_t id;
};

/* Nodes that a trie of these texts has; sorts them. */
size_t lf_token_trie_count(struct lf_token_text *texts, size_t n);
/* Into arrays of that many nodes and n ids. The texts are sorted, none is empty or longer than LF_GRAMMAR_TOKEN_BYTES.
 */
void lf_token_trie_fill(struct lf_token_trie *trie, const struct lf_token_text *texts, size_t n);

/* What is kept of a walk from one state of one terminal. */
struct lf_kept_walk {
    uint32_t *mask;             /* tokens that stay within the terminal, or end with it */
    struct lf_token_trie rests; /* of tokens that go on behind it: what they have there */
};

struct lf_walk_key {
    uint8_t id[LF_TERMINAL_ID_BYTES];
    uint64_t starts[4]; /* bytes, as bits, that what follows may begin with: all of them where it is not looked at */
    uint32_t state;     /* of the DFA */
    uint32_t min, max;  /* characters to come, of a counted one; clipped to what a token can tell */
    uint32_t padding;   /* 0: keys are compared as bytes */
};

struct lf_walk_cache;

struct lf_vocabulary {
    struct lf_token_trie all, others, marks;    /* of all tokens; of those that are not plain; that are no words */
    uint32_t *plain[LF_PLAIN_CHARACTERS_N + 1]; /* masks of plain tokens of at most so many characters */
    uint32_t *words;                            /* mask of words */
    char *bytes;                                /* of all tokens */
    uint32_t *offsets;                          /* [n_tokens + 1] */
    struct lf_token_text *controls;             /* by text, which is without LF_GRAMMAR_CONTROL; in no trie */
    int32_t *ends;
    uint32_t n_tokens, n_ends, n_words, n_controls;
    uint32_t longest; /* bytes of a token, at most: no more characters end in it */
    struct lf_walk_cache *cache;
    struct lf_vocabulary *next; /* of the tokens behind an answer's first; NULL: the same; borrowed */
    size_t n_bytes;             /* all of it */
};

static inline struct lf_str lf_vocabulary_token(const struct lf_vocabulary *v, int32_t id)
{
    return lf_str_from(v->bytes + v->offsets[id], v->offsets[id + 1] - v->offsets[id]);
}
/* The control tokens of this text: how many, from *first on. */
uint32_t lf_vocabulary_controls(const struct lf_vocabulary *v, struct lf_str text, const struct lf_token_text **first);
static inline bool lf_vocabulary_is_end(const struct lf_vocabulary *v, int32_t id)
{
    for (uint32_t i = 0; i < v->n_ends; i++)
        if (v->ends[i] == id) return true;
    return false;
}

#endif
