#include "kv/key_index.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"

static uint64_t places_for(uint32_t n_entries)
{
    uint64_t n = 4;
    while (n < 2 * (uint64_t)n_entries) n *= 2;
    return n;
}

uint64_t lf_key_index_bytes(uint32_t n_entries)
{
    return places_for(n_entries) * sizeof(int32_t);
}

enum lf_status lf_key_index_init(struct lf_key_index *index, uint32_t n_entries, const struct lf_prefix_key *keys,
                                 size_t stride)
{
    index->n_places = places_for(n_entries);
    index->keys = (const char *)keys;
    index->stride = stride;
    index->places = calloc(index->n_places, sizeof(*index->places));
    if (!index->places) return LF_NO_MEMORY;
    memset(index->places, 0xff, index->n_places * sizeof(*index->places));
    return LF_OK;
}

void lf_key_index_deinit(struct lf_key_index *index)
{
    free(index->places);
    index->places = NULL;
}

static const char *key_of(const struct lf_key_index *index, int32_t entry)
{
    return index->keys + (size_t)entry * index->stride;
}

static uint64_t home(const struct lf_key_index *index, const char *key)
{
    uint64_t h;
    memcpy(&h, key, sizeof(h));
    return h & (index->n_places - 1);
}

/* The place that names the entry of key, or the empty one where it would go. */
static uint64_t find_place(const struct lf_key_index *index, const char *key)
{
    uint64_t i = home(index, key);
    while (index->places[i] >= 0 && memcmp(key_of(index, index->places[i]), key, LF_SHA256_BYTES) != 0)
        i = (i + 1) & (index->n_places - 1);
    return i;
}

int32_t lf_key_index_find(const struct lf_key_index *index, const struct lf_prefix_key *key)
{
    return index->places[find_place(index, (const char *)key->bytes)];
}

bool lf_key_index_insert(struct lf_key_index *index, int32_t entry)
{
    uint64_t i = find_place(index, key_of(index, entry));
    if (index->places[i] >= 0) return false;
    index->places[i] = entry;
    return true;
}

/* Empties the entry's place and moves later members of its cluster back so that none is cut off from its home. */
void lf_key_index_remove(struct lf_key_index *index, int32_t entry)
{
    uint64_t mask = index->n_places - 1, i = find_place(index, key_of(index, entry));
    LF_ASSERT(index->places[i] == entry);
    for (uint64_t j = (i + 1) & mask; index->places[j] >= 0; j = (j + 1) & mask) {
        uint64_t at = home(index, key_of(index, index->places[j]));
        if (((j - at) & mask) < ((j - i) & mask)) continue; /* its home lies behind the hole */
        index->places[i] = index->places[j];
        i = j;
    }
    index->places[i] = -1;
}

uint32_t lf_key_index_check(const struct lf_key_index *index)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < index->n_places; i++) {
        if (index->places[i] < 0) continue;
        n++;
        LF_ASSERT(find_place(index, key_of(index, index->places[i])) == i);
    }
    return n;
}
