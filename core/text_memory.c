/* The face of the memory for texts. See text_memory.h; what lies behind it is listed in text_memory_impl.h. */
#include "core/text_memory.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/text_memory_impl.h"

#ifndef LF_TEXT_ONE_BY_ONE

static void *take(struct lf_text_memory *m, size_t n, size_t n_counted, uint64_t text_bytes)
{
    return n > LF_TEXT_SLOT_BYTES ? lf_text_take_piece(m, n, n_counted, text_bytes)
                                  : lf_text_take_slot(m, n, text_bytes);
}

static void release(struct lf_text_memory *m, void *ptr)
{
    struct lf_text_header *h = lf_text_header_of(ptr);
    if (h->slot_bytes)
        lf_text_free_slot(m, h, ptr);
    else
        lf_text_unmap(m, h);
}

static void *resize(struct lf_text_memory *m, void *ptr, size_t n)
{
    struct lf_text_header *h = lf_text_header_of(ptr);
    bool large = n > LF_TEXT_SLOT_BYTES;
    if (!h->slot_bytes && large) return lf_text_resize_piece(m, h, n);
    if (h->slot_bytes && n <= h->slot_bytes) return ptr;
    size_t held = h->slot_bytes ? h->slot_bytes : h->map_bytes - LF_TEXT_HEADER_BYTES;
    void *to = take(m, n, n, n);
    if (!to) return NULL;
    memcpy(to, ptr, LF_MIN(held, n));
    release(m, ptr);
    return to;
}

static void *zero(void *ptr, size_t n)
{
    if (ptr && lf_text_header_of(ptr)->slot_bytes) memset(ptr, 0, n); /* a new mapping is zero */
    return ptr;
}

#else /* a header in front of each block says how much it counts */

static void *take(struct lf_text_memory *m, size_t n, size_t n_counted, uint64_t text_bytes)
{
    if (!lf_text_charge(m, n_counted, text_bytes)) return NULL;
    size_t *block = malloc(16 + n);
    if (!block) {
        lf_text_discharge(m, n_counted);
        return NULL;
    }
    block[0] = n;
    block[1] = n_counted;
    return block + 2;
}

static void release(struct lf_text_memory *m, void *ptr)
{
    size_t *block = (size_t *)ptr - 2, n_counted = block[1];
    free(block);
    lf_text_discharge(m, n_counted);
}

static void *resize(struct lf_text_memory *m, void *ptr, size_t n)
{
    void *to = take(m, n, n, n);
    if (!to) return NULL;
    memcpy(to, ptr, LF_MIN(n, ((size_t *)ptr - 2)[0]));
    release(m, ptr);
    return to;
}

static void *zero(void *ptr, size_t n)
{
    return ptr ? memset(ptr, 0, n) : NULL;
}

void lf_text_release_spares(struct lf_text_memory *m)
{
    (void)m;
}

#endif

enum lf_status lf_text_memory_create(struct lf_text_memory **out, uint64_t budget_bytes, struct lf_err *err)
{
    struct lf_text_memory *m = calloc(1, sizeof *m);
    if (!m) return lf_fail(err, LF_NO_MEMORY, "no memory for the text memory");
    m->state.budget_bytes = budget_bytes;
    m->n_holders = 1;
    pthread_mutex_init(&m->lock, NULL);
    for (int i = 0; i < LF_TEXT_SIZES_N; i++) lf_list_init(&m->open[i]);
    lf_list_init(&m->spare);
    *out = m;
    return LF_OK;
}

static void let_go(struct lf_text_memory *m)
{
    if (atomic_fetch_sub(&m->n_holders, 1) > 1) return;
    lf_text_release_spares(m);
    LF_ASSERT(m->state.used_bytes == 0);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void lf_text_memory_destroy(struct lf_text_memory *m)
{
    if (m) let_go(m);
}

static void *alloc(struct lf_text_memory *m, size_t n, size_t n_counted, uint64_t text_bytes)
{
    if (n > PTRDIFF_MAX / 2) return NULL;
    void *ptr = take(m, n, n_counted, text_bytes);
    if (ptr)
        atomic_fetch_add(&m->n_holders, 1);
    else
        lf_text_count_refusal(m);
    return ptr;
}

void *lf_text_alloc_sparse(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    return m ? alloc(m, n, n_counted, n_counted) : malloc(n ? n : 1);
}

void *lf_text_alloc(struct lf_text_memory *m, size_t n)
{
    return lf_text_alloc_sparse(m, n, n);
}

void *lf_text_alloc_zeroed_of(struct lf_text_memory *m, size_t n, uint64_t text_bytes)
{
    if (!m) return calloc(1, n ? n : 1);
    return zero(alloc(m, n, n, text_bytes), n);
}

void *lf_text_alloc_zeroed(struct lf_text_memory *m, size_t n)
{
    return lf_text_alloc_zeroed_of(m, n, n);
}

void *lf_text_realloc(struct lf_text_memory *m, void *ptr, size_t n)
{
    if (!m) return realloc(ptr, n ? n : 1);
    if (!ptr) return lf_text_alloc(m, n);
    if (n > PTRDIFF_MAX / 2) return NULL;
    void *to = resize(m, ptr, n);
    if (!to) lf_text_count_refusal(m);
    return to;
}

void lf_text_free(struct lf_text_memory *m, void *ptr)
{
    if (!ptr) return;
    if (!m) {
        free(ptr);
        return;
    }
    release(m, ptr);
    let_go(m);
}
