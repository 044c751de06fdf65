/* Mappings of the memory for texts. One is counted from before it is there until after it has gone, so what is counted
 * is never less than what is resident. Slabs without a used slot are kept as spares, and counted, until somebody needs
 * their part of the budget. */
#include "core/text_memory_impl.h"

#ifndef LF_TEXT_ONE_BY_ONE

#include <sys/mman.h>

#include "core/check.h"

enum { SPARE_SLABS_N = 16 };

static void *map(void *hint, size_t n)
{
    void *p = mmap(hint, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static bool is_aligned(const void *p)
{
    return ((uintptr_t)p & (LF_TEXT_SLAB_BYTES - 1)) == 0;
}

/* Mapped with room to spare, and trimmed. */
static void *map_trimmed(size_t n)
{
    size_t room = n + LF_TEXT_SLAB_BYTES;
    char *p = map(NULL, room);
    if (!p) return NULL;
    char *at = (char *)LF_ROUND_UP((uintptr_t)p, LF_TEXT_SLAB_BYTES);
    if (at > p) (void)munmap(p, (size_t)(at - p));
    if (at + n < p + room) (void)munmap(at + n, (size_t)(p + room - (at + n)));
    return at;
}

/* Right below the mapping before this one where that is free, since every call more is one more wait for those who
 * change the process's mappings too. */
void *lf_text_map_aligned(struct lf_text_memory *m, size_t n)
{
    uintptr_t last = atomic_load(&m->last_mapping), below = LF_ROUND_UP(n, LF_TEXT_SLAB_BYTES);
    void *at = last > below ? map((void *)(last - below), n) : NULL;
    if (!at || !is_aligned(at)) {
        if (at) (void)munmap(at, n);
        at = map_trimmed(n);
    }
    if (at) atomic_store(&m->last_mapping, (uintptr_t)at);
    return at;
}

/* Counted for as long as it is there. The pages go first: that needs the lock of this mapping alone (Linux 6.16), where
 * munmap would hold the process's meanwhile. */
void lf_text_unmap(struct lf_text_memory *m, struct lf_text_header *h)
{
    size_t map_bytes = h->map_bytes, n_counted = h->counted_bytes;
    (void)madvise(h, map_bytes, MADV_DONTNEED);
    (void)munmap(h, map_bytes);
    lf_text_discharge(m, n_counted);
}

struct lf_text_header *lf_text_take_spare_locked(struct lf_text_memory *m)
{
    struct lf_list *node = lf_list_first(&m->spare);
    if (!node) return NULL;
    lf_list_remove(node);
    m->n_spare--;
    return LF_LIST_ENTRY(node, struct lf_text_header, node);
}

bool lf_text_keep_spare_locked(struct lf_text_memory *m, struct lf_text_header *slab)
{
    if (m->n_spare == SPARE_SLABS_N) return false;
    lf_list_push_back(&m->spare, &slab->node);
    m->n_spare++;
    return true;
}

void lf_text_release_spares(struct lf_text_memory *m)
{
    for (;;) {
        pthread_mutex_lock(&m->lock);
        struct lf_text_header *slab = lf_text_take_spare_locked(m);
        pthread_mutex_unlock(&m->lock);
        if (!slab) return;
        lf_text_unmap(m, slab);
    }
}

bool lf_text_charge_mapped(struct lf_text_memory *m, uint64_t n, uint64_t text_bytes)
{
    if (lf_text_charge(m, n, text_bytes)) return true;
    lf_text_release_spares(m);
    return lf_text_charge(m, n, text_bytes);
}

/* Where huge pages are given unasked (transparent_hugepage/enabled "always", as on Debian), the first byte that is
 * touched would make 2 MiB of it resident. A kernel that has none says no, and all else holds. */
void lf_text_keep_small_pages(struct lf_text_header *h)
{
    if (!h->small_pages) (void)madvise(h, h->map_bytes, MADV_NOHUGEPAGE);
    h->small_pages = true;
}

struct lf_text_header *lf_text_map(struct lf_text_memory *m, size_t n, size_t n_counted, uint64_t text_bytes)
{
    if (!lf_text_charge_mapped(m, n_counted, LF_MAX(n_counted, text_bytes))) return NULL;
    struct lf_text_header *h = lf_text_map_aligned(m, n);
    if (!h) {
        lf_text_discharge(m, n_counted);
        return NULL;
    }
    if (n > n_counted) (void)madvise(h, n, MADV_NOHUGEPAGE); /* before its first page is touched */
    h->map_bytes = n;
    h->counted_bytes = n_counted;
    h->small_pages = n > n_counted;
    return h;
}

#endif
