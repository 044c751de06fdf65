/* The inside of the memory for texts (core/text_memory.h), for its own files:
 *
 *     text_memory.c    the face: a slot or a piece for what is asked for
 *     text_pieces.c    what is larger than a slot: a mapping each
 *     text_slots.c     what is smaller: slots of one size in slabs
 *     text_mapping.c   mappings, counted as long as they are there; empty slabs that are kept for later
 *     text_budget.c    what is counted and what is set aside
 *
 * Each calls only those below it. The lock is held for a few instructions at a time, never while memory is mapped,
 * unmapped, touched for the first time or copied: those who read long texts run at a low priority, and one that is put
 * aside while it holds the lock would hold up the threads that answer everybody else. A function that is called with
 * the lock held ends in _locked; all others take it. */
#ifndef LF_CORE_TEXT_MEMORY_IMPL_H
#define LF_CORE_TEXT_MEMORY_IMPL_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/list.h"
#include "core/text_memory.h"

/* Under the address sanitizer each allocation is a block of the heap: no slots, pieces and mappings. */
#if defined(__SANITIZE_ADDRESS__)
#define LF_TEXT_ONE_BY_ONE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LF_TEXT_ONE_BY_ONE 1
#endif
#endif

enum {
    LF_TEXT_HEADER_BYTES = 64,
    LF_TEXT_SLOT_BITS_MIN = 6, /* slots of 64 bytes, 128, … */
    LF_TEXT_SIZES_N = 8
};
static_assert(1 << (LF_TEXT_SLOT_BITS_MIN + LF_TEXT_SIZES_N - 1) == LF_TEXT_SLOT_BYTES, "the largest slot");

/* At the beginning of every mapping. */
struct lf_text_header {
    size_t map_bytes;     /* of the whole mapping: addresses */
    size_t counted_bytes; /* of it, against the budget: what lies behind them has not been touched */
    size_t slot_bytes;    /* 0: one piece */
    struct lf_list node;  /* slabs with a free slot */
    void *free_slots;     /* chain through their first word */
    int n_used, n_slots;
    int n_cut;        /* slots that were in use at some time; those behind them have not been touched */
    bool small_pages; /* see lf_text_keep_small_pages */
};
static_assert(sizeof(struct lf_text_header) <= LF_TEXT_HEADER_BYTES, "the header fits");

struct lf_text_memory {
    pthread_mutex_t lock;
    struct lf_text_memory_state state;
    struct lf_list open[LF_TEXT_SIZES_N]; /* slabs with free and used slots */
    struct lf_list spare;                 /* slabs without a used slot, of any size */
    int n_spare;
    _Atomic uintptr_t last_mapping;
    _Atomic size_t n_holders; /* pieces that are allocated, and the owner: the last one releases it */
};

/* ---- text_budget.c ---- */

/* Counts n bytes more, of a text that then has text_bytes; false past the budget. */
bool lf_text_charge(struct lf_text_memory *m, uint64_t n, uint64_t text_bytes) LF_MUST_CHECK;
void lf_text_discharge(struct lf_text_memory *m, uint64_t n);
void lf_text_count_refusal(struct lf_text_memory *m);

/* ---- text_mapping.c ---- */

static inline struct lf_text_header *lf_text_header_of(void *ptr)
{
    return (struct lf_text_header *)((uintptr_t)ptr & ~(uintptr_t)(LF_TEXT_SLAB_BYTES - 1));
}
/* n bytes of addresses that begin at a multiple of a slab's size, not counted. */
void *lf_text_map_aligned(struct lf_text_memory *m, size_t n) LF_MUST_CHECK;
/* A new mapping, counted for a text of text_bytes; NULL where there is no room for it. */
struct lf_text_header *lf_text_map(struct lf_text_memory *m, size_t n, size_t n_counted,
                                   uint64_t text_bytes) LF_MUST_CHECK;
/* For a mapping that has or may get addresses that are not counted; once for each. */
void lf_text_keep_small_pages(struct lf_text_header *h);
void lf_text_unmap(struct lf_text_memory *m, struct lf_text_header *h);
/* As lf_text_charge; where there is no room the spare slabs make some. */
bool lf_text_charge_mapped(struct lf_text_memory *m, uint64_t n, uint64_t text_bytes) LF_MUST_CHECK;
/* A spare slab; NULL: there is none. */
struct lf_text_header *lf_text_take_spare_locked(struct lf_text_memory *m);
/* Keeps an empty slab that is in no list; false where enough are kept. */
bool lf_text_keep_spare_locked(struct lf_text_memory *m, struct lf_text_header *slab) LF_MUST_CHECK;
void lf_text_release_spares(struct lf_text_memory *m);

/* ---- text_slots.c ---- */

void *lf_text_take_slot(struct lf_text_memory *m, size_t n, uint64_t text_bytes) LF_MUST_CHECK;
void lf_text_free_slot(struct lf_text_memory *m, struct lf_text_header *slab, void *slot);

/* ---- text_pieces.c ---- */

/* n_counted: of n bytes those that will be touched. */
void *lf_text_take_piece(struct lf_text_memory *m, size_t n, size_t n_counted, uint64_t text_bytes) LF_MUST_CHECK;
/* Where the piece is now; NULL: it is as it was. */
void *lf_text_resize_piece(struct lf_text_memory *m, struct lf_text_header *h, size_t n) LF_MUST_CHECK;

#endif
