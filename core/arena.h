/* Arenas: memory that is freed whole.
 *
 * One arena a request, one a model: pieces are handed out from chunks, nothing is freed singly, deinit gives all of it
 * back. The ceiling counts the bytes handed out. One thread at a time. */
#ifndef LF_CORE_ARENA_H
#define LF_CORE_ARENA_H

#include <stddef.h>

#include "core/str.h"

struct lf_arena_chunk;

struct lf_arena {
    struct lf_arena_chunk *chunks; /* newest first */
    size_t chunk_bytes;
    size_t used_bytes;
    size_t ceiling;
    struct lf_text_memory *memory; /* borrowed; NULL: the process's heap */
};

/* chunk_bytes is the usual size of a chunk (a larger piece gets one of its own). Allocates nothing yet. */
void lf_arena_init(struct lf_arena *arena, size_t chunk_bytes, size_t ceiling);
void lf_arena_init_in(struct lf_arena *arena, size_t chunk_bytes, size_t ceiling, struct lf_text_memory *memory);
void lf_arena_deinit(struct lf_arena *arena); /* accepts a zeroed one */
/* n bytes, zeroed, aligned to 16; NULL when the ceiling or the memory is reached. */
void *lf_arena_alloc(struct lf_arena *arena, size_t n) LF_MUST_CHECK;
/* n × size with the multiplication checked. */
void *lf_arena_array(struct lf_arena *arena, size_t n, size_t size) LF_MUST_CHECK;
/* A terminated copy; NULL as above. */
char *lf_arena_strdup(struct lf_arena *arena, struct lf_str s) LF_MUST_CHECK;

#endif
