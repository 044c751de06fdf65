#include "grammar/walk_cache.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/mix.h"
#include "core/text_memory.h"

enum { ENTRIES_N = 1024 };

struct entry {
    uint64_t hash; /* 0: nothing */
    struct lf_walk_key key;
    size_t first, n_bytes; /* in the ring */
    uint32_t n_nodes, n_ids;
};

struct lf_walk_cache {
    pthread_mutex_t lock;
    char *ring;
    size_t n_bytes, head;
    uint32_t n_words;
    uint32_t oldest, n; /* entries are a ring, too: in the order of their bytes */
    struct entry entries[ENTRIES_N];
};

struct lf_walk_cache *lf_walk_cache_create(size_t n_bytes, uint32_t n_words)
{
    struct lf_walk_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return NULL;
    cache->ring = malloc(n_bytes);
    if (cache->ring) memset(cache->ring, 0xff, n_bytes); /* resident from the beginning, as planned */
    cache->n_bytes = n_bytes;
    cache->n_words = n_words;
    if (!cache->ring || pthread_mutex_init(&cache->lock, NULL) != 0) {
        free(cache->ring);
        free(cache);
        return NULL;
    }
    return cache;
}

void lf_walk_cache_destroy(struct lf_walk_cache *cache)
{
    if (!cache) return;
    pthread_mutex_destroy(&cache->lock);
    free(cache->ring);
    free(cache);
}

static uint64_t hash_of(const struct lf_walk_key *key)
{
    uint64_t a, b;
    memcpy(&a, key->id, sizeof a);
    memcpy(&b, key->id + sizeof a, sizeof b);
    uint64_t h = lf_mix64(a ^ lf_mix64(b ^ lf_mix64(key->state ^ lf_mix64((uint64_t)key->min << 32 | key->max))));
    for (size_t i = 0; i < LF_N_ELEMS(key->starts); i++) h = lf_mix64(h ^ key->starts[i]);
    return h ? h : 1;
}

static bool same_key(const struct lf_walk_key *a, const struct lf_walk_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static struct entry *find(struct lf_walk_cache *cache, const struct lf_walk_key *key)
{
    uint64_t hash = hash_of(key);
    for (uint32_t i = 0; i < cache->n; i++) {
        struct entry *e = &cache->entries[(cache->oldest + i) % ENTRIES_N];
        if (e->hash == hash && same_key(&e->key, key)) return e;
    }
    return NULL;
}

static size_t mask_bytes(const struct lf_walk_cache *cache)
{
    return LF_ROUND_UP((size_t)cache->n_words * sizeof(uint32_t), 16);
}

bool lf_walk_cache_get(struct lf_walk_cache *cache, const struct lf_walk_key *key, struct lf_walk_buffer *out)
{
    bool found = false;
    pthread_mutex_lock(&cache->lock);
    const struct entry *e = find(cache, key);
    if (e && lf_walk_buffer_reserve(out, e->n_nodes, e->n_ids)) {
        const char *from = cache->ring + e->first;
        size_t nodes_bytes = e->n_nodes * sizeof *out->walk.rests.nodes;
        memcpy(out->walk.mask, from, cache->n_words * sizeof(uint32_t));
        from += mask_bytes(cache);
        if (nodes_bytes) memcpy(out->walk.rests.nodes, from, nodes_bytes);
        if (e->n_ids) memcpy(out->walk.rests.ids, from + nodes_bytes, e->n_ids * sizeof *out->walk.rests.ids);
        out->walk.rests.n_nodes = e->n_nodes;
        out->walk.rests.n_ids = e->n_ids;
        found = true;
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

static void drop_oldest(struct lf_walk_cache *cache)
{
    cache->entries[cache->oldest].hash = 0;
    cache->oldest = (cache->oldest + 1) % ENTRIES_N;
    cache->n--;
}

/* Room for n bytes at the head, which may go back to the beginning; what lies there is dropped. */
static size_t make_room(struct lf_walk_cache *cache, size_t n)
{
    if (cache->head + n > cache->n_bytes) {
        while (cache->n && cache->entries[cache->oldest].first >= cache->head) drop_oldest(cache);
        cache->head = 0;
    }
    size_t end = cache->head + n;
    while (cache->n) {
        const struct entry *e = &cache->entries[cache->oldest];
        bool in_the_way = e->first < end && e->first + e->n_bytes > cache->head;
        if (!in_the_way && cache->n < ENTRIES_N) break;
        drop_oldest(cache);
    }
    return cache->head;
}

void lf_walk_cache_put(struct lf_walk_cache *cache, const struct lf_walk_key *key, const struct lf_kept_walk *walk)
{
    size_t nodes_bytes = walk->rests.n_nodes * sizeof *walk->rests.nodes;
    size_t ids_bytes = walk->rests.n_ids * sizeof *walk->rests.ids;
    size_t n = LF_ROUND_UP(mask_bytes(cache) + nodes_bytes + ids_bytes, 16);
    if (n > cache->n_bytes / 4) return;
    pthread_mutex_lock(&cache->lock);
    if (!find(cache, key)) {
        size_t first = make_room(cache, n);
        char *to = cache->ring + first;
        memcpy(to, walk->mask, cache->n_words * sizeof(uint32_t));
        if (nodes_bytes) memcpy(to + mask_bytes(cache), walk->rests.nodes, nodes_bytes);
        if (ids_bytes) memcpy(to + mask_bytes(cache) + nodes_bytes, walk->rests.ids, ids_bytes);
        cache->entries[(cache->oldest + cache->n++) % ENTRIES_N] = (struct entry){.hash = hash_of(key),
                                                                                  .key = *key,
                                                                                  .first = first,
                                                                                  .n_bytes = n,
                                                                                  .n_nodes = walk->rests.n_nodes,
                                                                                  .n_ids = walk->rests.n_ids};
        cache->head = first + n;
    }
    pthread_mutex_unlock(&cache->lock);
}

bool lf_walk_buffer_init(struct lf_walk_buffer *buffer, uint32_t n_words, struct lf_text_memory *memory)
{
    *buffer = (struct lf_walk_buffer){.memory = memory};
    buffer->walk.mask = lf_text_alloc_zeroed(memory, n_words * sizeof(uint32_t) + 1);
    return buffer->walk.mask != NULL;
}

void lf_walk_buffer_deinit(struct lf_walk_buffer *buffer)
{
    lf_text_free(buffer->memory, buffer->walk.mask);
    lf_text_free(buffer->memory, buffer->walk.rests.nodes);
    lf_text_free(buffer->memory, buffer->walk.rests.ids);
    *buffer = (struct lf_walk_buffer){0};
}

bool lf_walk_buffer_reserve(struct lf_walk_buffer *buffer, size_t n_nodes, size_t n_ids)
{
    struct lf_token_trie *rests = &buffer->walk.rests;
    bool is_short = n_nodes > buffer->nodes_cap || n_ids > buffer->ids_cap;
    if (is_short) buffer->was_short = true;
    if (is_short && buffer->is_frozen) return false;
    if (n_nodes > buffer->nodes_cap) {
        size_t cap = LF_MAX(n_nodes, 2 * buffer->nodes_cap);
        void *nodes = lf_text_realloc(buffer->memory, rests->nodes, cap * sizeof *rests->nodes);
        if (!nodes) return false;
        rests->nodes = nodes;
        buffer->nodes_cap = cap;
    }
    if (n_ids > buffer->ids_cap) {
        size_t cap = LF_MAX(n_ids, 2 * buffer->ids_cap);
        void *ids = lf_text_realloc(buffer->memory, rests->ids, cap * sizeof *rests->ids);
        if (!ids) return false;
        rests->ids = ids;
        buffer->ids_cap = cap;
    }
    return true;
}
