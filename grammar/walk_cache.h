/* Walks that were made, for all matchers of a vocabulary: a ring of fixed size, where the oldest goes first. Any
 * thread: its lock is held for a copy out or in. */
#ifndef LF_GRAMMAR_WALK_CACHE_H
#define LF_GRAMMAR_WALK_CACHE_H

#include "grammar/vocabulary.h"

/* What a walk is copied into: a matcher's own, grown where it must. */
struct lf_walk_buffer {
    struct lf_kept_walk walk;
    size_t nodes_cap, ids_cap;
    struct lf_text_memory *memory; /* borrowed */
    bool is_frozen;                /* no memory is to be taken */
    bool was_short;                /* more was asked for than it had; cleared by who asks */
};

struct lf_walk_cache *lf_walk_cache_create(size_t n_bytes, uint32_t n_words);
void lf_walk_cache_destroy(struct lf_walk_cache *cache);
/* False: it is not there, or there is no memory to copy it to. */
bool lf_walk_cache_get(struct lf_walk_cache *cache, const struct lf_walk_key *key, struct lf_walk_buffer *out);
/* A walk that is too large for the ring is not kept. */
void lf_walk_cache_put(struct lf_walk_cache *cache, const struct lf_walk_key *key, const struct lf_kept_walk *walk);

bool lf_walk_buffer_init(struct lf_walk_buffer *buffer, uint32_t n_words, struct lf_text_memory *memory);
void lf_walk_buffer_deinit(struct lf_walk_buffer *buffer);
/* Room for a trie of so many nodes and ids; what was in it is gone. False: there is no memory, or none is to be taken.
 */
bool lf_walk_buffer_reserve(struct lf_walk_buffer *buffer, size_t n_nodes, size_t n_ids);

#endif
