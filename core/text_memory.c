#include "core/text_memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/check.h"
#include "core/limits.h"
#include "core/list.h"

#if defined(__SANITIZE_ADDRESS__)
#define ONE_BY_ONE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONE_BY_ONE 1
#endif
#endif

enum {
    PAGE_BYTES = 4096,
    HEADER_BYTES = 64,
    SLOT_BITS_MIN = 6, /* slots of 64 bytes, 128, … */
    N_SIZES = 8,
    SPARE_SLABS_N = 16
};
static_assert(1 << (SLOT_BITS_MIN + N_SIZES - 1) == LF_TEXT_SLOT_BYTES, "the largest slot");

/* At the beginning of every mapping. */
struct header {
    size_t map_bytes;     /* of the whole mapping */
    size_t counted_bytes; /* of it, against the budget */
    size_t slot_bytes;    /* 0: one piece */
    struct lf_list node;  /* slabs with a free slot */
    void *free_slots;     /* chain through their first word */
    int n_used, n_slots;
};
static_assert(sizeof(struct header) <= HEADER_BYTES, "the header fits");

struct lf_text_memory {
    pthread_mutex_t lock;
    struct lf_text_memory_state state;
    struct lf_list open[N_SIZES]; /* slabs with free and used slots */
    struct lf_list spare;         /* slabs without a used slot, of any size */
    int n_spare;
    size_t n_pieces; /* allocated and not freed */
    bool destroyed;  /* by its owner */
};

/* ---- the budget ---- */

/* How far the budget may be used up for a text of so many bytes. */
static uint64_t limit_for(const struct lf_text_memory *m, uint64_t text_bytes)
{
    uint64_t budget = m->state.budget_bytes;
    if (text_bytes <= LF_TEXT_SMALL_BYTES || budget < LF_TEXT_BYTES_MIN) return budget;
    return budget - LF_MIN(budget / 8, (uint64_t)LF_TEXT_SPARE_BYTES);
}

/* n bytes more, of a text that then has text_bytes. */
static bool charge_locked(struct lf_text_memory *m, uint64_t n, uint64_t text_bytes)
{
    uint64_t limit = limit_for(m, text_bytes);
    if (m->state.used_bytes > limit || n > limit - m->state.used_bytes) return false;
    m->state.used_bytes += n;
    m->state.peak_bytes = LF_MAX(m->state.peak_bytes, m->state.used_bytes);
    return true;
}

#ifndef ONE_BY_ONE

/* ---- mappings ---- */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

/* n bytes of address space that begin at a multiple of a slab's size: mapped with room to spare, and trimmed. */
static void *map_aligned(size_t n)
{
    size_t room = n + LF_TEXT_SLAB_BYTES;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    char *at = (char *)round_up((uintptr_t)p, LF_TEXT_SLAB_BYTES);
    if (at > p) (void)munmap(p, (size_t)(at - p));
    if (at + n < p + room) (void)munmap(at + n, (size_t)(p + room - (at + n)));
    return at;
}

static struct header *header_of(void *ptr)
{
    return (struct header *)((uintptr_t)ptr & ~(uintptr_t)(LF_TEXT_SLAB_BYTES - 1));
}

static void release_spares_locked(struct lf_text_memory *m)
{
    struct lf_list *node;
    while ((node = lf_list_first(&m->spare))) {
        struct header *slab = LF_LIST_ENTRY(node, struct header, node);
        lf_list_remove(node);
        m->n_spare--;
        m->state.used_bytes -= slab->counted_bytes;
        (void)munmap(slab, slab->map_bytes);
    }
}

/* A new mapping, counted; NULL where there is no room for it. */
static struct header *map_counted_locked(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    if (!charge_locked(m, n_counted, n_counted)) {
        release_spares_locked(m);
        if (!charge_locked(m, n_counted, n_counted)) return NULL;
    }
    struct header *h = map_aligned(n);
    if (!h) {
        m->state.used_bytes -= n_counted;
        return NULL;
    }
    h->map_bytes = n;
    h->counted_bytes = n_counted;
    return h;
}

static void unmap_locked(struct lf_text_memory *m, struct header *h)
{
    m->state.used_bytes -= h->counted_bytes;
    (void)munmap(h, h->map_bytes);
}

/* ---- slots ---- */

static int size_of(size_t n)
{
    int i = 0;
    while (((size_t)1 << (SLOT_BITS_MIN + i)) < n) i++;
    return i;
}

static void cut_slots(struct header *slab, size_t slot_bytes)
{
    size_t first = LF_MAX(slot_bytes, (size_t)HEADER_BYTES); /* slots stay aligned to their own size */
    slab->slot_bytes = slot_bytes;
    slab->n_used = 0;
    slab->n_slots = (int)((LF_TEXT_SLAB_BYTES - first) / slot_bytes);
    slab->free_slots = NULL;
    for (int i = slab->n_slots - 1; i >= 0; i--) {
        void **slot = (void **)(void *)((char *)slab + first + (size_t)i * slot_bytes);
        *slot = slab->free_slots;
        slab->free_slots = (void *)slot;
    }
    lf_list_init(&slab->node);
}

static struct header *open_slab_locked(struct lf_text_memory *m, int size)
{
    struct lf_list *node = lf_list_first(&m->open[size]);
    if (node) return LF_LIST_ENTRY(node, struct header, node);
    struct header *slab;
    if ((node = lf_list_first(&m->spare))) {
        lf_list_remove(node);
        m->n_spare--;
        slab = LF_LIST_ENTRY(node, struct header, node);
    } else if (!(slab = map_counted_locked(m, LF_TEXT_SLAB_BYTES, LF_TEXT_SLAB_BYTES))) {
        return NULL;
    }
    cut_slots(slab, (size_t)1 << (SLOT_BITS_MIN + size));
    lf_list_push_back(&m->open[size], &slab->node);
    return slab;
}

static void *take_slot_locked(struct lf_text_memory *m, size_t n)
{
    struct header *slab = open_slab_locked(m, size_of(n));
    if (!slab) return NULL;
    void *slot = slab->free_slots;
    slab->free_slots = *(void **)slot;
    if (++slab->n_used == slab->n_slots) lf_list_remove(&slab->node);
    return slot;
}

static void put_slot_locked(struct lf_text_memory *m, struct header *slab, void *slot)
{
    if (slab->n_used-- == slab->n_slots) lf_list_push_back(&m->open[size_of(slab->slot_bytes)], &slab->node);
    *(void **)slot = slab->free_slots;
    slab->free_slots = slot;
    if (slab->n_used > 0) return;
    lf_list_remove(&slab->node);
    if (m->n_spare == SPARE_SLABS_N) {
        unmap_locked(m, slab);
        return;
    }
    lf_list_push_back(&m->spare, &slab->node);
    m->n_spare++;
}

/* ---- pieces ---- */

static void *take_piece_locked(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    size_t map_bytes = round_up(HEADER_BYTES + n, PAGE_BYTES);
    struct header *h = map_counted_locked(m, map_bytes, round_up(HEADER_BYTES + n_counted, PAGE_BYTES));
    return h ? (char *)h + HEADER_BYTES : NULL;
}

/* Grows or shrinks a piece in place where the addresses behind it are free, else by moving its pages. */
static void *resize_piece_locked(struct lf_text_memory *m, struct header *h, size_t n)
{
    size_t now = h->map_bytes, want = round_up(HEADER_BYTES + n, PAGE_BYTES);
    if (want > now && !charge_locked(m, want - now, want)) {
        release_spares_locked(m);
        if (!charge_locked(m, want - now, want)) return NULL;
    }
    void *to = mremap(h, now, want, 0);
    if (to == MAP_FAILED) {
        void *at = map_aligned(want);
        to = at ? mremap(h, now, want, MREMAP_MAYMOVE | MREMAP_FIXED, at) : MAP_FAILED;
        if (to == MAP_FAILED && at) (void)munmap(at, want);
    }
    if (to == MAP_FAILED) {
        if (want > now) m->state.used_bytes -= want - now;
        return NULL;
    }
    if (want < now) m->state.used_bytes -= now - want;
    ((struct header *)to)->map_bytes = want;
    ((struct header *)to)->counted_bytes = want;
    return (char *)to + HEADER_BYTES;
}

static void *alloc_locked(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    return n > LF_TEXT_SLOT_BYTES ? take_piece_locked(m, n, n_counted) : take_slot_locked(m, n);
}

static void free_locked(struct lf_text_memory *m, void *ptr)
{
    struct header *h = header_of(ptr);
    if (h->slot_bytes)
        put_slot_locked(m, h, ptr);
    else
        unmap_locked(m, h);
}

static void *realloc_locked(struct lf_text_memory *m, void *ptr, size_t n)
{
    struct header *h = header_of(ptr);
    bool large = n > LF_TEXT_SLOT_BYTES;
    if (!h->slot_bytes && large) return resize_piece_locked(m, h, n);
    if (h->slot_bytes && n <= h->slot_bytes) return ptr;
    size_t held = h->slot_bytes ? h->slot_bytes : h->map_bytes - HEADER_BYTES;
    void *to = alloc_locked(m, n, n);
    if (!to) return NULL;
    memcpy(to, ptr, LF_MIN(held, n));
    free_locked(m, ptr);
    return to;
}

static void *zero(void *ptr, size_t n)
{
    if (ptr && header_of(ptr)->slot_bytes) memset(ptr, 0, n); /* a new mapping is zero */
    return ptr;
}

#else /* one by one: a header in front of each block says how much it counts */

static void *alloc_locked(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    if (!charge_locked(m, n_counted, n_counted)) return NULL;
    size_t *block = malloc(16 + n);
    if (!block) {
        m->state.used_bytes -= n_counted;
        return NULL;
    }
    block[0] = n;
    block[1] = n_counted;
    return block + 2;
}

static void free_locked(struct lf_text_memory *m, void *ptr)
{
    size_t *block = (size_t *)ptr - 2;
    m->state.used_bytes -= block[1];
    free(block);
}

static void *realloc_locked(struct lf_text_memory *m, void *ptr, size_t n)
{
    void *to = alloc_locked(m, n, n);
    if (!to) return NULL;
    memcpy(to, ptr, LF_MIN(n, ((size_t *)ptr - 2)[0]));
    free_locked(m, ptr);
    return to;
}

static void *zero(void *ptr, size_t n)
{
    return ptr ? memset(ptr, 0, n) : NULL;
}

static void release_spares_locked(struct lf_text_memory *m)
{
    (void)m;
}

#endif

/* ---- the face ---- */

enum lf_status lf_text_memory_create(struct lf_text_memory **out, uint64_t budget_bytes, struct lf_err *err)
{
    struct lf_text_memory *m = calloc(1, sizeof *m);
    if (!m) return lf_fail(err, LF_NO_MEMORY, "no memory for the text memory");
    m->state.budget_bytes = budget_bytes;
    pthread_mutex_init(&m->lock, NULL);
    for (int i = 0; i < N_SIZES; i++) lf_list_init(&m->open[i]);
    lf_list_init(&m->spare);
    *out = m;
    return LF_OK;
}

static void release(struct lf_text_memory *m)
{
    release_spares_locked(m);
    LF_ASSERT(m->state.used_bytes == 0);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void lf_text_memory_destroy(struct lf_text_memory *m)
{
    if (!m) return;
    pthread_mutex_lock(&m->lock);
    m->destroyed = true;
    bool empty = m->n_pieces == 0;
    pthread_mutex_unlock(&m->lock);
    if (empty) release(m);
}

void *lf_text_alloc_sparse(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    if (!m) return malloc(n ? n : 1);
    if (n > PTRDIFF_MAX / 2) return NULL;
    pthread_mutex_lock(&m->lock);
    void *ptr = alloc_locked(m, n, n_counted);
    m->n_pieces += ptr != NULL;
    m->state.n_refused += !ptr;
    pthread_mutex_unlock(&m->lock);
    return ptr;
}

void *lf_text_alloc(struct lf_text_memory *m, size_t n)
{
    return lf_text_alloc_sparse(m, n, n);
}

void *lf_text_alloc_zeroed(struct lf_text_memory *m, size_t n)
{
    if (!m) return calloc(1, n ? n : 1);
    return zero(lf_text_alloc(m, n), n);
}

void *lf_text_realloc(struct lf_text_memory *m, void *ptr, size_t n)
{
    if (!m) return realloc(ptr, n ? n : 1);
    if (!ptr) return lf_text_alloc(m, n);
    if (n > PTRDIFF_MAX / 2) return NULL;
    pthread_mutex_lock(&m->lock);
    void *to = realloc_locked(m, ptr, n);
    m->state.n_refused += !to;
    pthread_mutex_unlock(&m->lock);
    return to;
}

void lf_text_free(struct lf_text_memory *m, void *ptr)
{
    if (!ptr) return;
    if (!m) {
        free(ptr);
        return;
    }
    pthread_mutex_lock(&m->lock);
    free_locked(m, ptr);
    bool last = --m->n_pieces == 0 && m->destroyed;
    pthread_mutex_unlock(&m->lock);
    if (last) release(m);
}

bool lf_text_reserve(struct lf_text_memory *m, uint64_t n)
{
    if (!m) return true;
    pthread_mutex_lock(&m->lock);
    bool small = n <= LF_TEXT_SMALL_BYTES;
    uint64_t taken = m->state.used_bytes + (small ? m->state.reserved_small_bytes : m->state.reserved_bytes);
    uint64_t limit = limit_for(m, n);
    bool there = taken <= limit && n <= limit - taken;
    if (there) m->state.reserved_bytes += n;
    if (there && small) m->state.reserved_small_bytes += n;
    m->state.n_refused += !there;
    pthread_mutex_unlock(&m->lock);
    return there;
}

void lf_text_unreserve(struct lf_text_memory *m, uint64_t n)
{
    if (!m) return;
    pthread_mutex_lock(&m->lock);
    LF_ASSERT(m->state.reserved_bytes >= n);
    m->state.reserved_bytes -= n;
    if (n <= LF_TEXT_SMALL_BYTES) m->state.reserved_small_bytes -= n;
    pthread_mutex_unlock(&m->lock);
}

void lf_text_memory_look(struct lf_text_memory *m, struct lf_text_memory_state *out)
{
    pthread_mutex_lock(&m->lock);
    *out = m->state;
    pthread_mutex_unlock(&m->lock);
}
