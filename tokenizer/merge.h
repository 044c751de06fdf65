/* Byte-pair merging: pairs of neighbouring symbols are joined, lowest rank first, leftmost among equals.
 *
 * The table maps a pair of ids to (rank, joined id). Both kinds of BPE use it: tokenizer.json numbers its merges in
 * order; sentencepiece gives every pair that spells a piece the place of that piece's score. */
#ifndef LF_TOKENIZER_MERGE_H
#define LF_TOKENIZER_MERGE_H

#include <stdint.h>

#include "core/status.h"

struct lf_text_memory;
struct lf_work;

struct lf_merge {
    int32_t left, right; /* left -1: a free slot */
    uint32_t rank;
    int32_t joined;
};

struct lf_merges {
    struct lf_merge *slots; /* owned, a power of two */
    uint64_t n_slots;
    uint64_t n;
    uint64_t seed; /* so that a file cannot aim its pairs at one slot */
};

LF_MUST_CHECK enum lf_status lf_merges_init(struct lf_merges *merges, uint64_t n_merges, struct lf_err *err);
void lf_merges_deinit(struct lf_merges *merges); /* accepts a zeroed one */
/* A pair that is there already takes the new values. No more pairs than init was told. */
void lf_merges_insert(struct lf_merges *merges, const struct lf_merge *merge);
/* NULL: the pair is not joined. */
const struct lf_merge *lf_merges_find(const struct lf_merges *merges, int32_t left, int32_t right);

/* Scratch of one thread; zero it first, then set memory and on. */
struct lf_merge_work {
    uint32_t *links; /* owned: next and prev of each symbol */
    uint64_t *heap;  /* owned: rank << 32 | position */
    uint64_t n_heap;
    uint64_t heap_cap;
    uint64_t n_symbols_cap;
    struct lf_text_memory *memory; /* borrowed; NULL: the process's heap */
    struct lf_work *on;            /* borrowed; may be NULL */
};
void lf_merge_work_deinit(struct lf_merge_work *work);

/* Joins what can be joined among ids[0..*n), in place; *n becomes the number left. O(n log n). n at most 2^31.
 * LF_NO_MEMORY, or what the work says. */
LF_MUST_CHECK enum lf_status lf_merges_run(const struct lf_merges *merges, struct lf_merge_work *work, int32_t *ids,
                                           uint64_t *n);

#endif
