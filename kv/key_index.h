/* Finds entries by their key: an open-addressing table of entry numbers. The entries are an array of the owner's, with
 * the key of each somewhere in it; the table holds numbers alone. Keys are SHA-256, uniform already: their first bytes
 * are the hash.
 *
 * Linear probing, at most half full, deletion by shifting back: no tombstones, so a year of evictions leaves the table
 * as quick as the first day. Not thread safe; nothing is allocated after init. */
#ifndef LF_KV_KEY_INDEX_H
#define LF_KV_KEY_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hash.h"
#include "core/status.h"

struct lf_prefix_key {
    uint8_t bytes[LF_SHA256_BYTES];
};

struct lf_key_index {
    int32_t *places;   /* [n_places] number of an entry, or -1 */
    uint64_t n_places; /* a power of two, at least twice the entries */
    const char *keys;  /* borrowed: the key of entry i lies at keys + i · stride */
    size_t stride;
};

/* keys: of entry 0. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_key_index_init(struct lf_key_index *index, uint32_t n_entries,
                                               const struct lf_prefix_key *keys, size_t stride);
void lf_key_index_deinit(struct lf_key_index *index); /* accepts a zeroed one */
uint64_t lf_key_index_bytes(uint32_t n_entries);      /* that init allocates */

int32_t lf_key_index_find(const struct lf_key_index *index, const struct lf_prefix_key *key); /* -1: not there */
/* Enters an entry whose key is in its place; false where that key is there already (then nothing changed). */
bool lf_key_index_insert(struct lf_key_index *index, int32_t entry);
void lf_key_index_remove(struct lf_key_index *index, int32_t entry); /* which is there */
/* Entries in the table; LF_ASSERTs that each is found where it is. Walks all places. */
uint32_t lf_key_index_check(const struct lf_key_index *index);

#endif
