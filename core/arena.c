#include "core/arena.h"

#include "core/check.h"
#include "core/text_memory.h"

struct lf_arena_chunk {
    struct lf_arena_chunk *next;
    size_t used, cap;
    _Alignas(16) char bytes[];
};

void lf_arena_init(struct lf_arena *arena, size_t chunk_bytes, size_t ceiling)
{
    lf_arena_init_in(arena, chunk_bytes, ceiling, NULL);
}

void lf_arena_init_in(struct lf_arena *arena, size_t chunk_bytes, size_t ceiling, struct lf_text_memory *memory)
{
    *arena = (struct lf_arena){.chunk_bytes = chunk_bytes, .ceiling = ceiling, .memory = memory};
}

void lf_arena_deinit(struct lf_arena *arena)
{
    struct lf_arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct lf_arena_chunk *next = chunk->next;
        lf_text_free(arena->memory, chunk);
        chunk = next;
    }
    arena->chunks = NULL;
    arena->used_bytes = 0;
}

void *lf_arena_alloc(struct lf_arena *arena, size_t n)
{
    if (n > arena->ceiling - arena->used_bytes || n > SIZE_MAX / 2) return NULL;
    n = LF_ROUND_UP(n, 16);
    if (n > arena->ceiling - arena->used_bytes) return NULL;
    struct lf_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->cap - chunk->used < n) {
        size_t cap = n > arena->chunk_bytes ? n : arena->chunk_bytes;
        chunk = lf_text_alloc_zeroed_of(arena->memory, sizeof *chunk + cap, arena->used_bytes + cap);
        if (!chunk) return NULL;
        chunk->cap = cap;
        if (arena->chunks && n > arena->chunk_bytes / 2) {
            /* a large piece does not close the chunk that is being filled */
            chunk->next = arena->chunks->next;
            arena->chunks->next = chunk;
        } else {
            chunk->next = arena->chunks;
            arena->chunks = chunk;
        }
    }
    void *piece = chunk->bytes + chunk->used;
    chunk->used += n;
    arena->used_bytes += n;
    return piece;
}

void *lf_arena_array(struct lf_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
    return lf_arena_alloc(arena, bytes);
}

char *lf_arena_strdup(struct lf_arena *arena, struct lf_str s)
{
    if (s.len == SIZE_MAX) return NULL;
    char *copy = lf_arena_alloc(arena, s.len + 1);
    if (!copy) return NULL;
    if (s.len) memcpy(copy, s.ptr, s.len);
    copy[s.len] = 0;
    return copy;
}
