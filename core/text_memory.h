/* Memory for texts: what clients send, what is made of it, and what goes back, within one budget.
 *
 * The budget is part of the memory plan, so it bounds what the process holds and not only what was asked for. A heap
 * cannot promise that: pieces that live on keep the pages of those that are gone. Here what has more than
 * LF_TEXT_SLOT_BYTES is a mapping of its own, which goes back to the system whole and grows without being copied;
 * smaller ones are slots of a power of two in slabs, and a slab counts whole as long as one slot of it is used. So what
 * is counted is never less than what is resident. Free slabs are kept for later as long as the budget is not needed.
 *
 *     slab   | header | slot | slot | slot | …        64 KiB, aligned to 64 KiB, slots of one size
 *     piece  | header | bytes …                       aligned to 64 KiB too, so a header is found by masking
 *
 * Past the budget an allocation fails: its caller answers 503, or waits. What is larger than LF_TEXT_SMALL_BYTES leaves
 * the last part of the budget alone (LF_TEXT_SPARE_BYTES), in allocations as in reservations: large texts, however many
 * and however long they are held, never keep small ones out.
 *
 * Nobody waits for a system call of somebody else's: the lock is held for a few instructions
 * (docs/notebook/attacks.md).
 *
 * Under the address sanitizer each allocation is a block of its own of the process's heap, so that overruns are found;
 * the accounting is the same.
 *
 * A NULL memory is the process's heap, without a budget. Any thread. */
#ifndef LF_CORE_TEXT_MEMORY_H
#define LF_CORE_TEXT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { LF_TEXT_SLAB_BYTES = 64 * 1024, LF_TEXT_SLOT_BYTES = 8 * 1024 };

struct lf_text_memory;

LF_MUST_CHECK enum lf_status lf_text_memory_create(struct lf_text_memory **out, uint64_t budget_bytes,
                                                   struct lf_err *err);
/* Accepts NULL. What is still allocated stays valid, and the last lf_text_free of it frees the rest. */
void lf_text_memory_destroy(struct lf_text_memory *memory);

/* n bytes aligned to 16, not initialized; NULL past the budget, or where the system has none. */
void *lf_text_alloc(struct lf_text_memory *memory, size_t n) LF_MUST_CHECK;
void *lf_text_alloc_zeroed(struct lf_text_memory *memory, size_t n) LF_MUST_CHECK;
/* The same, for a text that lies in several pieces, with text_bytes in all: it is large if they are so together. */
void *lf_text_alloc_zeroed_of(struct lf_text_memory *memory, size_t n, uint64_t text_bytes) LF_MUST_CHECK;
/* n bytes of which not all will be touched: n_counted of them count against the budget. Not to be resized. */
void *lf_text_alloc_sparse(struct lf_text_memory *memory, size_t n, size_t n_counted) LF_MUST_CHECK;
/* As realloc: the bytes move where they must; NULL leaves ptr as it is. ptr may be NULL. */
void *lf_text_realloc(struct lf_text_memory *memory, void *ptr, size_t n) LF_MUST_CHECK;
void lf_text_free(struct lf_text_memory *memory, void *ptr); /* accepts NULL */

/* Before work begins whose need is known: sets n bytes of the budget aside, as far as reservations are concerned (what
 * is then allocated is counted by itself). False: they are not there now. */
bool lf_text_reserve(struct lf_text_memory *memory, uint64_t n) LF_MUST_CHECK;
void lf_text_unreserve(struct lf_text_memory *memory, uint64_t n);

struct lf_text_memory_state {
    uint64_t budget_bytes, used_bytes, peak_bytes;
    uint64_t reserved_bytes, reserved_small_bytes; /* all of it; for small texts */
    uint64_t n_refused;                            /* allocations and reservations */
};
void lf_text_memory_snapshot(struct lf_text_memory *memory, struct lf_text_memory_state *out);

#endif
