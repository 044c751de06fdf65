#include "grammar/compilation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024 };

void lf_compilation_init(struct lf_compilation *c, struct lf_arena *keep, struct lf_work *work, struct lf_err *err)
{
    *c = (struct lf_compilation){.keep = keep, .work = work, .err = err};
    lf_arena_init_in(&c->scratch, CHUNK_BYTES, LF_GRAMMAR_SCRATCH_BYTES, lf_work_memory(work));
}

void lf_compilation_deinit(struct lf_compilation *c)
{
    lf_arena_deinit(&c->scratch);
}

void lf_compilation_fail(struct lf_compilation *c, enum lf_status status, const char *fmt, ...)
{
    char message[LF_ERR_MESSAGE_BYTES];
    va_list args;
    if (c->status != LF_OK) return;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    c->status = lf_fail(c->err, status, "%.*s%s%s", (int)c->name.len, c->name.ptr ? c->name.ptr : "",
                        c->name.len ? ": " : "", message);
}

bool lf_compilation_step(struct lf_compilation *c, uint64_t n)
{
    if (c->status != LF_OK) return false;
    c->n_steps += n;
    if (c->n_steps > LF_GRAMMAR_STEPS) {
        lf_compilation_fail(c, LF_LIMIT, "the grammar takes more than %d steps to compile: make it simpler",
                            LF_GRAMMAR_STEPS);
        return false;
    }
    enum lf_status status = lf_work_step(c->work, (size_t)n);
    if (status != LF_OK) lf_compilation_fail(c, status, "nobody waits for the grammar any more");
    return status == LF_OK;
}

static void *take(struct lf_compilation *c, struct lf_arena *arena, size_t n, size_t size)
{
    if (c->status != LF_OK) return NULL;
    n = n ? n : 1;
    void *p = lf_arena_array(arena, n, size);
    if (p) return p;
    size_t left = (arena->ceiling - arena->used_bytes) / 16 * 16; /* pieces are whole multiples of that */
    if (n > left / size)
        lf_compilation_fail(c, LF_LIMIT, "the grammar takes more than %zu bytes to compile: make it simpler",
                            arena->ceiling);
    else
        lf_compilation_fail(c, LF_NO_MEMORY, "no memory to compile the grammar");
    return NULL;
}

void *lf_compilation_scratch(struct lf_compilation *c, size_t n, size_t size)
{
    return take(c, &c->scratch, n, size);
}

void *lf_compilation_keep(struct lf_compilation *c, size_t n, size_t size)
{
    return take(c, c->keep, n, size);
}

struct lf_str lf_compilation_text(struct lf_compilation *c, struct lf_buf *text)
{
    size_t n = text->len;
    char *copy = lf_compilation_scratch(c, n + 1, 1);
    if (copy && n) memcpy(copy, text->ptr, n);
    if (text->status != LF_OK) lf_compilation_fail(c, text->status, "no memory to compile the grammar");
    lf_buf_deinit(text);
    return lf_str_from(copy ? copy : "", copy ? n : 0);
}

void *lf_compilation_grow(struct lf_compilation *c, void *list, size_t n, size_t *cap, size_t size)
{
    if (c->status != LF_OK) return NULL;
    if (n < *cap) return list;
    size_t larger = *cap ? *cap * 2 : 16;
    void *moved = take(c, &c->scratch, larger, size);
    if (!moved) return NULL;
    if (n) memcpy(moved, list, n * size);
    *cap = larger;
    return moved;
}
