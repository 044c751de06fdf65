/* Large texts: a mapping each. One that grows gets addresses for several times its bytes, so that it grows in place
 * from then on; pages that have not been touched take nothing. Its bytes are never copied: where there are no more
 * addresses its pages move. */
#include "core/text_memory_impl.h"

#ifndef LF_TEXT_ONE_BY_ONE

#include <sys/mman.h>

#include "core/check.h"

enum {
    PAGE_BYTES = 4096,
    ROOM_FACTOR = 8 /* addresses of a piece that has grown, as a multiple of its bytes: it will grow again */
};

static size_t pages_for(size_t n)
{
    return LF_ROUND_UP(LF_TEXT_HEADER_BYTES + n, PAGE_BYTES);
}

void *lf_text_take_piece(struct lf_text_memory *m, size_t n, size_t n_counted, uint64_t text_bytes)
{
    struct lf_text_header *h = lf_text_map(m, pages_for(n), pages_for(n_counted), text_bytes);
    return h ? (char *)h + LF_TEXT_HEADER_BYTES : NULL;
}

/* Another mapping with the same pages, and addresses for n_room bytes; at the least for n.
 *
 * Where mremap fails nobody can say whether the addresses at `at` are still ours: it unmaps them first, may fail after
 * that, and then they may be another thread's already. So they are left as they are, which is addresses without pages
 * at the worst. */
static struct lf_text_header *move_pages(struct lf_text_memory *m, struct lf_text_header *h, size_t n, size_t n_room)
{
    void *at = lf_text_map_aligned(m, n_room);
    if (!at && n < n_room) at = lf_text_map_aligned(m, n_room = n);
    if (!at) return NULL;
    struct lf_text_header *to = mremap(h, h->map_bytes, n_room, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    if (to == MAP_FAILED) return NULL;
    to->map_bytes = n_room;
    lf_text_keep_small_pages(to);
    return to;
}

/* Grows in place as long as there are addresses, else moves to where there are more; shrinks by giving pages back. */
void *lf_text_resize_piece(struct lf_text_memory *m, struct lf_text_header *h, size_t n)
{
    size_t now = h->counted_bytes, want = pages_for(n);
    if (want > now && !lf_text_charge_mapped(m, want - now, want)) return NULL;
    struct lf_text_header *to = want <= h->map_bytes ? h : move_pages(m, h, want, want * ROOM_FACTOR);
    if (!to) {
        lf_text_discharge(m, want - now);
        return NULL;
    }
    to->counted_bytes = want;
    if (want < now) {
        lf_text_keep_small_pages(to);
        (void)madvise((char *)to + want, LF_MIN(now, to->map_bytes) - want, MADV_DONTNEED);
        lf_text_discharge(m, now - want);
    }
    return (char *)to + LF_TEXT_HEADER_BYTES;
}

#endif
