#include "core/text_memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
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
    SPARE_SLABS_N = 16,
    ROOM_FACTOR = 8 /* addresses of a piece that has grown, as a multiple of its bytes: it will grow again */
};
static_assert(1 << (SLOT_BITS_MIN + N_SIZES - 1) == LF_TEXT_SLOT_BYTES, "the largest slot");

/* At the beginning of every mapping. */
struct header {
    size_t map_bytes;     /* of the whole mapping: addresses */
    size_t counted_bytes; /* of it, against the budget: what lies behind them has not been touched */
    size_t slot_bytes;    /* 0: one piece */
    struct lf_list node;  /* slabs with a free slot */
    void *free_slots;     /* chain through their first word */
    int n_used, n_slots;
    int n_cut;        /* slots that were in use at some time; those behind them have not been touched */
    bool small_pages; /* see keep_small_pages */
};
static_assert(sizeof(struct header) <= HEADER_BYTES, "the header fits");

/* The lock is held for a few instructions at a time, never while memory is mapped, unmapped, touched for the first time
 * or copied: those who read long texts run at a low priority, and one that is put aside while it holds the lock would
 * hold up the threads that answer everybody else. */
struct lf_text_memory {
    pthread_mutex_t lock;
    struct lf_text_memory_state state;
    struct lf_list open[N_SIZES]; /* slabs with free and used slots */
    struct lf_list spare;         /* slabs without a used slot, of any size */
    int n_spare;
    _Atomic uintptr_t last_mapping;
    _Atomic size_t n_holders; /* pieces that are allocated, and the owner: the last one releases it */
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

static void discharge(struct lf_text_memory *m, uint64_t n)
{
    pthread_mutex_lock(&m->lock);
    m->state.used_bytes -= n;
    pthread_mutex_unlock(&m->lock);
}

#ifndef ONE_BY_ONE

/* ---- mappings ---- */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

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
    char *at = (char *)round_up((uintptr_t)p, LF_TEXT_SLAB_BYTES);
    if (at > p) (void)munmap(p, (size_t)(at - p));
    if (at + n < p + room) (void)munmap(at + n, (size_t)(p + room - (at + n)));
    return at;
}

/* n bytes of address space that begin at a multiple of a slab's size: right below the mapping before this one where
 * that is free, since every call more is one more wait for those who change the process's mappings too. */
static void *map_aligned(struct lf_text_memory *m, size_t n)
{
    uintptr_t last = atomic_load(&m->last_mapping), below = round_up(n, LF_TEXT_SLAB_BYTES);
    void *at = last > below ? map((void *)(last - below), n) : NULL;
    if (!at || !is_aligned(at)) {
        if (at) (void)munmap(at, n);
        at = map_trimmed(n);
    }
    if (at) atomic_store(&m->last_mapping, (uintptr_t)at);
    return at;
}

static struct header *header_of(void *ptr)
{
    return (struct header *)((uintptr_t)ptr & ~(uintptr_t)(LF_TEXT_SLAB_BYTES - 1));
}

/* Counted for as long as it is there. The pages go first: that needs the lock of this mapping alone (Linux 6.16), where
 * munmap would hold the process's meanwhile. */
static void unmap(struct lf_text_memory *m, struct header *h)
{
    size_t map_bytes = h->map_bytes, n_counted = h->counted_bytes;
    (void)madvise(h, map_bytes, MADV_DONTNEED);
    (void)munmap(h, map_bytes);
    discharge(m, n_counted);
}

static struct header *take_spare_locked(struct lf_text_memory *m)
{
    struct lf_list *node = lf_list_first(&m->spare);
    if (!node) return NULL;
    lf_list_remove(node);
    m->n_spare--;
    return LF_LIST_ENTRY(node, struct header, node);
}

static void release_spares(struct lf_text_memory *m)
{
    for (;;) {
        pthread_mutex_lock(&m->lock);
        struct header *slab = take_spare_locked(m);
        pthread_mutex_unlock(&m->lock);
        if (!slab) return;
        unmap(m, slab);
    }
}

/* As charge_locked; where there is no room the spare slabs make some. */
static bool charge(struct lf_text_memory *m, uint64_t n, uint64_t text_bytes)
{
    for (bool released = false;; released = true) {
        pthread_mutex_lock(&m->lock);
        bool there = charge_locked(m, n, text_bytes);
        pthread_mutex_unlock(&m->lock);
        if (there || released) return there;
        release_spares(m);
    }
}

/* Of a mapping with addresses that are not counted. Where huge pages are given unasked (transparent_hugepage/enabled
 * "always", as on Debian), the first byte that is touched would make 2 MiB of it resident. A kernel that has none says
 * no, and all else holds. */
static void keep_small_pages(void *mapping, size_t n)
{
    (void)madvise(mapping, n, MADV_NOHUGEPAGE);
}

/* A new mapping, counted; NULL where there is no room for it. */
static struct header *map_counted(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    if (!charge(m, n_counted, n_counted)) return NULL;
    struct header *h = map_aligned(m, n);
    if (!h) {
        discharge(m, n_counted);
        return NULL;
    }
    if (n > n_counted) keep_small_pages(h, n);
    h->map_bytes = n;
    h->counted_bytes = n_counted;
    h->small_pages = n > n_counted;
    return h;
}

/* ---- slots ---- */

static int size_of(size_t n)
{
    int i = 0;
    while (((size_t)1 << (SLOT_BITS_MIN + i)) < n) i++;
    return i;
}

static size_t first_slot(size_t slot_bytes)
{
    return LF_MAX(slot_bytes, (size_t)HEADER_BYTES); /* slots stay aligned to their own size */
}

static void open_slab_locked(struct lf_text_memory *m, struct header *slab, int size)
{
    size_t slot_bytes = (size_t)1 << (SLOT_BITS_MIN + size);
    slab->slot_bytes = slot_bytes;
    slab->n_used = slab->n_cut = 0;
    slab->n_slots = (int)((LF_TEXT_SLAB_BYTES - first_slot(slot_bytes)) / slot_bytes);
    slab->free_slots = NULL;
    lf_list_init(&slab->node);
    lf_list_push_back(&m->open[size], &slab->node);
}

/* The next free slot of an open slab. */
static void *cut_slot_locked(struct header *slab)
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
    if (node) return cut_slot_locked(LF_LIST_ENTRY(node, struct header, node));
    struct header *slab = take_spare_locked(m);
    if (!slab) return NULL;
    open_slab_locked(m, slab, size);
    return cut_slot_locked(slab);
}

static void *take_slot(struct lf_text_memory *m, size_t n)
{
    int size = size_of(n);
    pthread_mutex_lock(&m->lock);
    void *slot = reuse_slot_locked(m, size);
    pthread_mutex_unlock(&m->lock);
    if (slot) return slot;
    struct header *slab = map_counted(m, LF_TEXT_SLAB_BYTES, LF_TEXT_SLAB_BYTES);
    if (!slab) return NULL;
    pthread_mutex_lock(&m->lock);
    open_slab_locked(m, slab, size);
    slot = cut_slot_locked(slab);
    pthread_mutex_unlock(&m->lock);
    return slot;
}

/* Returns the slab where it is empty and not kept. */
static struct header *put_slot_locked(struct lf_text_memory *m, struct header *slab, void *slot)
{
    if (slab->n_used-- == slab->n_slots) lf_list_push_back(&m->open[size_of(slab->slot_bytes)], &slab->node);
    *(void **)slot = slab->free_slots;
    slab->free_slots = slot;
    if (slab->n_used > 0) return NULL;
    lf_list_remove(&slab->node);
    if (m->n_spare == SPARE_SLABS_N) return slab;
    lf_list_push_back(&m->spare, &slab->node);
    m->n_spare++;
    return NULL;
}

static void put_slot(struct lf_text_memory *m, struct header *slab, void *slot)
{
    pthread_mutex_lock(&m->lock);
    struct header *empty = put_slot_locked(m, slab, slot);
    pthread_mutex_unlock(&m->lock);
    if (empty) unmap(m, empty);
}

/* ---- pieces ---- */

static size_t pages_for(size_t n)
{
    return round_up(HEADER_BYTES + n, PAGE_BYTES);
}

static void *take_piece(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    struct header *h = map_counted(m, pages_for(n), pages_for(n_counted));
    return h ? (char *)h + HEADER_BYTES : NULL;
}

/* Another mapping with the same pages, and addresses for n_room bytes; at the least for n. */
static struct header *move_pages(struct lf_text_memory *m, struct header *h, size_t n, size_t n_room)
{
    void *at = map_aligned(m, n_room);
    if (!at && n < n_room) at = map_aligned(m, n_room = n);
    if (!at) return NULL;
    struct header *to = mremap(h, h->map_bytes, n_room, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    if (to == MAP_FAILED) {
        (void)munmap(at, n_room);
        return NULL;
    }
    if (!to->small_pages) keep_small_pages(to, n_room);
    to->map_bytes = n_room;
    to->small_pages = true;
    return to;
}

/* Grows in place as long as there are addresses, else moves to where there are more; shrinks by giving pages back. */
static void *resize_piece(struct lf_text_memory *m, struct header *h, size_t n)
{
    size_t now = h->counted_bytes, want = pages_for(n);
    if (want > now && !charge(m, want - now, want)) return NULL;
    struct header *to = want <= h->map_bytes ? h : move_pages(m, h, want, want * ROOM_FACTOR);
    if (!to) {
        discharge(m, want - now);
        return NULL;
    }
    to->counted_bytes = want;
    if (want < now) {
        if (!to->small_pages) keep_small_pages(to, to->map_bytes);
        to->small_pages = true;
        (void)madvise((char *)to + want, LF_MIN(now, to->map_bytes) - want, MADV_DONTNEED);
        discharge(m, now - want);
    }
    return (char *)to + HEADER_BYTES;
}

static void *take(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    return n > LF_TEXT_SLOT_BYTES ? take_piece(m, n, n_counted) : take_slot(m, n);
}

static void put(struct lf_text_memory *m, void *ptr)
{
    struct header *h = header_of(ptr);
    if (h->slot_bytes)
        put_slot(m, h, ptr);
    else
        unmap(m, h);
}

static void *resize(struct lf_text_memory *m, void *ptr, size_t n)
{
    struct header *h = header_of(ptr);
    bool large = n > LF_TEXT_SLOT_BYTES;
    if (!h->slot_bytes && large) return resize_piece(m, h, n);
    if (h->slot_bytes && n <= h->slot_bytes) return ptr;
    size_t held = h->slot_bytes ? h->slot_bytes : h->map_bytes - HEADER_BYTES;
    void *to = take(m, n, n);
    if (!to) return NULL;
    memcpy(to, ptr, LF_MIN(held, n));
    put(m, ptr);
    return to;
}

static void *zero(void *ptr, size_t n)
{
    if (ptr && header_of(ptr)->slot_bytes) memset(ptr, 0, n); /* a new mapping is zero */
    return ptr;
}

#else /* one by one: a header in front of each block says how much it counts */

static void *take(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    pthread_mutex_lock(&m->lock);
    bool there = charge_locked(m, n_counted, n_counted);
    pthread_mutex_unlock(&m->lock);
    if (!there) return NULL;
    size_t *block = malloc(16 + n);
    if (!block) {
        discharge(m, n_counted);
        return NULL;
    }
    block[0] = n;
    block[1] = n_counted;
    return block + 2;
}

static void put(struct lf_text_memory *m, void *ptr)
{
    size_t *block = (size_t *)ptr - 2, n_counted = block[1];
    free(block);
    discharge(m, n_counted);
}

static void *resize(struct lf_text_memory *m, void *ptr, size_t n)
{
    void *to = take(m, n, n);
    if (!to) return NULL;
    memcpy(to, ptr, LF_MIN(n, ((size_t *)ptr - 2)[0]));
    put(m, ptr);
    return to;
}

static void *zero(void *ptr, size_t n)
{
    return ptr ? memset(ptr, 0, n) : NULL;
}

static void release_spares(struct lf_text_memory *m)
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
    m->n_holders = 1;
    pthread_mutex_init(&m->lock, NULL);
    for (int i = 0; i < N_SIZES; i++) lf_list_init(&m->open[i]);
    lf_list_init(&m->spare);
    *out = m;
    return LF_OK;
}

static void let_go(struct lf_text_memory *m)
{
    if (atomic_fetch_sub(&m->n_holders, 1) > 1) return;
    release_spares(m);
    LF_ASSERT(m->state.used_bytes == 0);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void lf_text_memory_destroy(struct lf_text_memory *m)
{
    if (m) let_go(m);
}

static void count_refusal(struct lf_text_memory *m)
{
    pthread_mutex_lock(&m->lock);
    m->state.n_refused++;
    pthread_mutex_unlock(&m->lock);
}

void *lf_text_alloc_sparse(struct lf_text_memory *m, size_t n, size_t n_counted)
{
    if (!m) return malloc(n ? n : 1);
    if (n > PTRDIFF_MAX / 2) return NULL;
    void *ptr = take(m, n, n_counted);
    if (ptr)
        atomic_fetch_add(&m->n_holders, 1);
    else
        count_refusal(m);
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
    void *to = resize(m, ptr, n);
    if (!to) count_refusal(m);
    return to;
}

void lf_text_free(struct lf_text_memory *m, void *ptr)
{
    if (!ptr) return;
    if (!m) {
        free(ptr);
        return;
    }
    put(m, ptr);
    let_go(m);
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
