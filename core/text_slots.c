/* Small texts: slots of a power of two in slabs of 64 KiB, each of slots of one size. A slab that has free and used
 * slots is open; a full one is in no list, and found again by the address of its slots; an empty one becomes a spare,
 * which may be opened for any size. */
#include "core/text_memory_impl.h"

#ifndef LF_TEXT_ONE_BY_ONE

#include "core/check.h"

static int size_of(size_t n)
{
    int i = 0;
    while (((size_t)1 << (LF_TEXT_SLOT_BITS_MIN + i)) < n) i++;
    return i;
}

static size_t first_slot(size_t slot_bytes)
{
    return LF_MAX(slot_bytes, (size_t)LF_TEXT_HEADER_BYTES); /* slots stay aligned to their own size */
}

static void open_slab_locked(struct lf_text_memory *m, struct lf_text_header *slab, int size)
{
    size_t slot_bytes = (size_t)1 << (LF_TEXT_SLOT_BITS_MIN + size);
    slab->slot_bytes = slot_bytes;
    slab->n_used = slab->n_cut = 0;
    slab->n_slots = (int)((LF_TEXT_SLAB_BYTES - first_slot(slot_bytes)) / slot_bytes);
    slab->free_slots = NULL;
    lf_list_init(&slab->node);
    lf_list_push_back(&m->open[size], &slab->node);
}

/* The next free slot of an open slab. */
static void *cut_slot_locked(struct lf_text_header *slab)
{
    void *slot = slab->free_slots;
    if (slot)
        slab->free_slots = *(void **)slot;
    else
        slot = (char *)slab + first_slot(slab->slot_bytes) + (size_t)slab->n_cut++ * slab->slot_bytes;
    if (++slab->n_used == slab->n_slots) lf_list_remove(&slab->node);
    return slot;
}

/* From a slab that is there; NULL: none has room. */
static void *reuse_slot_locked(struct lf_text_memory *m, int size)
{
    struct lf_list *node = lf_list_first(&m->open[size]);
    if (node) return cut_slot_locked(LF_LIST_ENTRY(node, struct lf_text_header, node));
    struct lf_text_header *slab = lf_text_take_spare_locked(m);
    if (!slab) return NULL;
    open_slab_locked(m, slab, size);
    return cut_slot_locked(slab);
}

void *lf_text_take_slot(struct lf_text_memory *m, size_t n, uint64_t text_bytes)
{
    int size = size_of(n);
    pthread_mutex_lock(&m->lock);
    void *slot = reuse_slot_locked(m, size);
    pthread_mutex_unlock(&m->lock);
    if (slot) return slot;
    struct lf_text_header *slab = lf_text_map(m, LF_TEXT_SLAB_BYTES, LF_TEXT_SLAB_BYTES, text_bytes);
    if (!slab) return NULL;
    pthread_mutex_lock(&m->lock);
    open_slab_locked(m, slab, size);
    slot = cut_slot_locked(slab);
    pthread_mutex_unlock(&m->lock);
    return slot;
}

/* Returns the slab where it is empty and not kept. */
static struct lf_text_header *free_slot_locked(struct lf_text_memory *m, struct lf_text_header *slab, void *slot)
{
    if (slab->n_used-- == slab->n_slots) lf_list_push_back(&m->open[size_of(slab->slot_bytes)], &slab->node);
    *(void **)slot = slab->free_slots;
    slab->free_slots = slot;
    if (slab->n_used > 0) return NULL;
    lf_list_remove(&slab->node);
    return lf_text_keep_spare_locked(m, slab) ? NULL : slab;
}

void lf_text_free_slot(struct lf_text_memory *m, struct lf_text_header *slab, void *slot)
{
    pthread_mutex_lock(&m->lock);
    struct lf_text_header *empty = free_slot_locked(m, slab, slot);
    pthread_mutex_unlock(&m->lock);
    if (empty) lf_text_unmap(m, empty);
}

#endif
