/* Merging over a list of linked symbols with a heap of candidate pairs.
 *
 * A heap entry is 8 bytes: rank above position, so that the smallest number is the pair to join next. Entries are never
 * removed when a neighbour changes; one that is taken out counts only if the pair that stands at its position then
 * still has its rank. Each join adds at most two entries, so the heap sees at most 3n of them: O(n log n).
 *
 * Words are short, and for a few symbols looking for the smallest rank beats any heap: up to SCAN_SYMBOLS that is what
 * happens, with the same order of joins. */
#include "tokenizer/merge.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/hash.h"
#include "core/mix.h"
#include "core/text_memory.h"
#include "core/work.h"

enum { SCAN_SYMBOLS = 32 };
enum { PAIR_STEPS = 8, JOIN_STEPS = 32 }; /* what a look into the table, and a join, are worth */
#define NONE UINT32_MAX

enum lf_status lf_merges_init(struct lf_merges *merges, uint64_t n_merges, struct lf_err *err)
{
    memset(merges, 0, sizeof *merges);
    uint64_t n = 16;
    while (n < n_merges + n_merges / 2) n *= 2;
    if (n > (1u << 30)) return lf_fail(err, LF_LIMIT, "%llu merges are too many", (unsigned long long)n_merges);
    merges->slots = malloc((size_t)n * sizeof *merges->slots);
    if (!merges->slots) return lf_fail(err, LF_NO_MEMORY, "no memory for %llu merges", (unsigned long long)n_merges);
    memset(merges->slots, 0xff, (size_t)n * sizeof *merges->slots);
    merges->n_slots = n;
    merges->seed = lf_hash64("merges", 6);
    return LF_OK;
}

void lf_merges_deinit(struct lf_merges *merges)
{
    free(merges->slots);
    memset(merges, 0, sizeof *merges);
}

static struct lf_merge *slot_of(const struct lf_merges *merges, int32_t left, int32_t right)
{
    uint64_t mask = merges->n_slots - 1;
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t i = lf_mix64(pair ^ merges->seed) & mask;
    while (merges->slots[i].left >= 0 && (merges->slots[i].left != left || merges->slots[i].right != right))
        i = (i + 1) & mask;
    return &merges->slots[i];
}

void lf_merges_insert(struct lf_merges *merges, const struct lf_merge *merge)
{
    struct lf_merge *slot = slot_of(merges, merge->left, merge->right);
    if (slot->left < 0) merges->n++;
    LF_ASSERT(merges->n < merges->n_slots);
    *slot = *merge;
}

const struct lf_merge *lf_merges_find(const struct lf_merges *merges, int32_t left, int32_t right)
{
    const struct lf_merge *slot = slot_of(merges, left, right);
    return slot->left < 0 ? NULL : slot;
}

void lf_merge_work_deinit(struct lf_merge_work *work)
{
    lf_text_free(work->memory, work->links);
    lf_text_free(work->memory, work->heap);
    memset(work, 0, sizeof *work);
}

static void run_scan(const struct lf_merges *merges, int32_t *ids, uint64_t *n_symbols)
{
    const struct lf_merge *found[SCAN_SYMBOLS];
    uint64_t n = *n_symbols;
    for (uint64_t i = 0; i + 1 < n; i++) found[i] = lf_merges_find(merges, ids[i], ids[i + 1]);
    for (;;) {
        const struct lf_merge *best = NULL;
        uint64_t at = 0;
        for (uint64_t i = 0; i + 1 < n; i++) {
            if (found[i] && (!best || found[i]->rank < best->rank)) {
                best = found[i];
                at = i;
            }
        }
        if (!best) break;
        ids[at] = best->joined;
        n--;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 1) * sizeof *ids);
        memmove(found + at, found + at + 1, (size_t)(n - 1 - at) * sizeof *found);
        if (at > 0) found[at - 1] = lf_merges_find(merges, ids[at - 1], ids[at]);
        if (at + 1 < n) found[at] = lf_merges_find(merges, ids[at], ids[at + 1]);
    }
    *n_symbols = n;
}

static void sift_down(uint64_t *heap, uint64_t n, uint64_t i)
{
    uint64_t moved = heap[i];
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= moved) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static enum lf_status heap_push(struct lf_merge_work *work, uint32_t rank, uint32_t pos)
{
    if (work->n_heap == work->heap_cap) {
        uint64_t cap = work->heap_cap * 2;
        uint64_t *heap = lf_text_realloc(work->memory, work->heap, (size_t)cap * sizeof *heap);
        if (!heap) return LF_NO_MEMORY;
        work->heap = heap;
        work->heap_cap = cap;
    }
    uint64_t entry = (uint64_t)rank << 32 | pos;
    uint64_t i = work->n_heap++;
    while (i > 0 && work->heap[(i - 1) / 2] > entry) {
        work->heap[i] = work->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    work->heap[i] = entry;
    return LF_OK;
}

static enum lf_status work_reserve(struct lf_merge_work *work, uint64_t n)
{
    if (n > work->n_symbols_cap) {
        lf_text_free(work->memory, work->links);
        work->n_symbols_cap = 0;
        work->links = lf_text_alloc(work->memory, (size_t)n * 2 * sizeof *work->links);
        if (!work->links) return LF_NO_MEMORY;
        work->n_symbols_cap = n;
    }
    if (n > work->heap_cap) {
        lf_text_free(work->memory, work->heap);
        work->heap_cap = 0;
        work->heap = lf_text_alloc(work->memory, (size_t)n * sizeof *work->heap);
        if (!work->heap) return LF_NO_MEMORY;
        work->heap_cap = n;
    }
    return LF_OK;
}

/* Links the symbols and makes a heap of the pairs that can be joined. */
static enum lf_status work_start(const struct lf_merges *merges, struct lf_merge_work *work, const int32_t *ids,
                                 uint64_t n)
{
    uint32_t *next = work->links, *prev = work->links + n;
    work->n_heap = 0;
    for (uint64_t i = 0; i < n; i++) {
        next[i] = i + 1 < n ? (uint32_t)i + 1 : NONE;
        prev[i] = i > 0 ? (uint32_t)i - 1 : NONE;
        const struct lf_merge *m = i + 1 < n ? lf_merges_find(merges, ids[i], ids[i + 1]) : NULL;
        if (m) work->heap[work->n_heap++] = (uint64_t)m->rank << 32 | i;
        LF_TRY(lf_work_step(work->on, PAIR_STEPS));
    }
    for (uint64_t i = work->n_heap / 2; i-- > 0;) {
        sift_down(work->heap, work->n_heap, i);
        LF_TRY(lf_work_step(work->on, PAIR_STEPS));
    }
    return LF_OK;
}

static enum lf_status run_heap(const struct lf_merges *merges, struct lf_merge_work *work, int32_t *ids,
                               uint64_t *n_symbols)
{
    uint64_t n = *n_symbols;
    LF_TRY(work_reserve(work, n));
    LF_TRY(work_start(merges, work, ids, n));
    uint32_t *next = work->links, *prev = work->links + n;
    while (work->n_heap > 0) {
        LF_TRY(lf_work_step(work->on, JOIN_STEPS));
        uint64_t entry = work->heap[0];
        work->heap[0] = work->heap[--work->n_heap];
        if (work->n_heap > 0) sift_down(work->heap, work->n_heap, 0);
        uint32_t at = (uint32_t)entry, rank = (uint32_t)(entry >> 32);
        if (ids[at] < 0 || next[at] == NONE) continue;
        uint32_t right = next[at];
        const struct lf_merge *m = lf_merges_find(merges, ids[at], ids[right]);
        if (!m || m->rank != rank) continue;
        ids[at] = m->joined;
        ids[right] = -1;
        next[at] = next[right];
        if (next[at] != NONE) prev[next[at]] = at;
        if (prev[at] != NONE) {
            m = lf_merges_find(merges, ids[prev[at]], ids[at]);
            if (m) LF_TRY(heap_push(work, m->rank, prev[at]));
        }
        if (next[at] != NONE) {
            m = lf_merges_find(merges, ids[at], ids[next[at]]);
            if (m) LF_TRY(heap_push(work, m->rank, at));
        }
    }
    uint64_t kept = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (ids[i] >= 0) ids[kept++] = ids[i];
    }
    *n_symbols = kept;
    return LF_OK;
}

enum lf_status lf_merges_run(const struct lf_merges *merges, struct lf_merge_work *work, int32_t *ids, uint64_t *n)
{
    if (*n < 2) return LF_OK;
    if (*n <= SCAN_SYMBOLS) {
        run_scan(merges, ids, n);
        return LF_OK;
    }
    return run_heap(merges, work, ids, n);
}
