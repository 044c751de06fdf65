#include "tests/support/test.h"

#include <errno.h>
#include <sys/mman.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/mix.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "tests/support/lock_depth.h"

#if defined(__SANITIZE_ADDRESS__)
enum { ONE_BY_ONE = 1, MAPS_WHERE_ASKED = 1 };
#elif defined(__SANITIZE_THREAD__)
enum { ONE_BY_ONE = 0, MAPS_WHERE_ASKED = 0 }; /* its runtime has mappings of its own everywhere */
#else
enum { ONE_BY_ONE = 0, MAPS_WHERE_ASKED = 1 };
#endif

enum { MIB = 1024 * 1024, N_PIECES = 300 };

/* What the memory asks of the system: none of it under its lock. */
static int n_calls;

void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t n);
int __real_madvise(void *at, size_t n, int advice);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t n);
int __wrap_madvise(void *at, size_t n, int advice);

void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    assert_int_equal(lock_depth, 0);
    n_calls++;
    return __real_mmap(at, n, protection, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t n)
{
    assert_int_equal(lock_depth, 0);
    n_calls++;
    return __real_munmap(at, n);
}

static size_t n_kept_small; /* bytes of mappings that are not to have huge pages */

int __wrap_madvise(void *at, size_t n, int advice)
{
    assert_int_equal(lock_depth, 0);
    if (advice == MADV_NOHUGEPAGE) n_kept_small += n;
    n_calls++;
    return __real_madvise(at, n, advice);
}

/* Where mremap is to fail as Linux may: after it has unmapped where the pages were to go. Another thread maps something
 * there before the call is back. */
static bool mremap_fails;
static char *of_others;

void *__real_mremap(void *old, size_t old_n, size_t n, int flags, ...);
void *__wrap_mremap(void *old, size_t old_n, size_t n, int flags, ...);

void *__wrap_mremap(void *old, size_t old_n, size_t n, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    void *at = va_arg(args, void *);
    va_end(args);
    assert_int_equal(lock_depth, 0);
    n_calls++;
    if (!mremap_fails) return __real_mremap(old, old_n, n, flags, at);
    of_others = __real_mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(of_others, at);
    of_others[0] = 'o';
    errno = ENOMEM;
    return MAP_FAILED;
}

static struct lf_text_memory_state look(struct lf_text_memory *m)
{
    struct lf_text_memory_state st;
    lf_text_memory_snapshot(m, &st);
    return st;
}

static struct lf_text_memory *memory_of(uint64_t bytes)
{
    struct lf_text_memory *m = NULL;
    assert_int_equal(lf_text_memory_create(&m, bytes, NULL), LF_OK);
    return m;
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(seed + i * 7);
}

static bool filled(const unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (unsigned char)(seed + i * 7)) return false;
    return true;
}

/* Random sizes, random order: bytes stay, nothing overlaps, and at the end nothing is held. */
static void bytes_stay_and_all_of_it_goes_back(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(64 * MIB);
    unsigned char *p[N_PIECES] = {0};
    size_t n[N_PIECES] = {0};
    for (uint64_t k = 0; k < 20000; k++) {
        uint64_t r = lf_random64(11, k);
        unsigned i = (unsigned)(r % N_PIECES);
        size_t size = (size_t)(r >> 32) % (k % 16 ? 3000u : 200000u);
        assert_true(!p[i] || filled(p[i], n[i], i));
        if (r >> 20 & 1) {
            lf_text_free(m, p[i]);
            p[i] = NULL;
            continue;
        }
        unsigned char *grown = lf_text_realloc(m, p[i], size);
        assert_non_null(grown);
        assert_int_equal((uintptr_t)grown % 16, 0);
        if (p[i]) assert_true(filled(grown, size < n[i] ? size : n[i], i));
        fill(grown, size, i);
        p[i] = grown;
        n[i] = size;
    }
    for (int i = 0; i < N_PIECES; i++) lf_text_free(m, p[i]);
    assert_true(look(m).used_bytes <= 16 * (uint64_t)LF_TEXT_SLAB_BYTES); /* slabs kept for later */
    assert_int_equal(look(m).n_refused, 0);
    lf_text_memory_destroy(m);
}

static void the_budget_holds_to_the_byte(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(MIB);
    size_t most = ONE_BY_ONE ? MIB : MIB - 64; /* a piece has a header of 64 bytes */
    char *p = lf_text_alloc(m, most);
    assert_non_null(p);
    assert_int_equal(look(m).used_bytes, MIB);
    assert_null(lf_text_alloc(m, 1));
    assert_null(lf_text_realloc(m, p, most + 1));
    assert_int_equal(look(m).used_bytes, MIB);
    lf_text_free(m, p);
    assert_null(lf_text_alloc(m, most + 1));
    assert_int_equal(look(m).n_refused, 3);
    assert_int_equal(look(m).peak_bytes, MIB);
    lf_text_memory_destroy(m);
}

/* Small slots fill the budget with slabs; once they are free, the slabs make room for a piece. */
static void free_slabs_make_room(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(MIB);
    void *slots[4096];
    int n = 0;
    while (n < 4096 && (slots[n] = lf_text_alloc(m, 1000))) n++;
    assert_true(n >= 900 && n <= 1048);
    while (n > 0) lf_text_free(m, slots[--n]);
    void *p = lf_text_alloc(m, MIB - 64);
    assert_non_null(p);
    lf_text_free(m, p);
    lf_text_memory_destroy(m);
}

static void zeroed_is_zero_also_where_it_was_used(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(4 * MIB);
    static const size_t sizes[] = {1, 64, 65, 1000, 8192, 8193, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = lf_text_alloc(m, sizes[i]);
        memset(p, 0xEE, sizes[i]);
        lf_text_free(m, p);
        p = lf_text_alloc_zeroed(m, sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(p[k], 0);
        lf_text_free(m, p);
    }
    lf_text_memory_destroy(m);
}

static void what_will_not_be_touched_does_not_count(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(MIB);
    char *p = lf_text_alloc_sparse(m, 64 * MIB, 100000);
    assert_non_null(p);
    assert_in_range(look(m).used_bytes, 100000, 110000);
    p[64 * MIB - 1] = 1;
    assert_null(lf_text_alloc(m, MIB - 100000 + 1));
    lf_text_free(m, p);
    assert_int_equal(look(m).used_bytes, 0);
    lf_text_memory_destroy(m);
}

/* The sanitizers see a leak or a use after the end here. */
static void the_last_piece_ends_what_was_destroyed(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(MIB);
    void *small = lf_text_alloc(m, 100), *large = lf_text_alloc(m, 100000);
    lf_text_memory_destroy(m);
    lf_text_free(m, small);
    memset(large, 1, 100000);
    lf_text_free(m, large);
}

static void reservations_count_only_against_each_other(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(MIB);
    assert_true(lf_text_reserve(m, MIB));
    assert_false(lf_text_reserve(m, 1));
    void *p = lf_text_alloc(m, MIB / 2);
    assert_non_null(p);
    lf_text_unreserve(m, MIB);
    assert_false(lf_text_reserve(m, MIB / 2 + 1));
    lf_text_free(m, p);
    assert_true(lf_text_reserve(m, MIB));
    lf_text_unreserve(m, MIB);
    assert_true(lf_text_reserve(m, MIB / 4)); /* what is used, what is set aside, and no byte more */
    p = lf_text_alloc(m, MIB / 2 + 1000);
    uint64_t left = MIB - MIB / 4 - look(m).used_bytes;
    assert_false(lf_text_reserve(m, left + 1));
    assert_true(lf_text_reserve(m, left));
    assert_int_equal(look(m).reserved_bytes, MIB / 4 + left);
    assert_int_equal(look(m).n_refused, 3);
    lf_text_unreserve(m, MIB / 4 + left);
    lf_text_free(m, p);
    lf_text_memory_destroy(m);
}

/* Slabs hold as many slots as fit behind their header, which takes a slot's place where it does not fit beside them. */
static void a_slab_counts_whole_until_it_is_full(void **state)
{
    (void)state;
    if (ONE_BY_ONE) skip();
    for (size_t size = 64; size <= LF_TEXT_SLOT_BYTES; size *= 2) {
        struct lf_text_memory *m = memory_of(4 * MIB);
        void *slots[1024];
        size_t n = (LF_TEXT_SLAB_BYTES - size) / size; /* the header has 64 bytes, the smallest slot too */
        for (size_t i = 0; i <= n; i++) {
            slots[i] = lf_text_alloc(m, i % 2 ? size : size / 2 + 1); /* the slot that is just large enough */
            assert_non_null(slots[i]);
            assert_int_equal((uintptr_t)slots[i] % size, 0);
            memset(slots[i], 0xEE, size);
            assert_int_equal(look(m).used_bytes, (i < n ? 1 : 2) * LF_TEXT_SLAB_BYTES);
        }
        lf_text_free(m, slots[3]); /* a full slab that has a free slot again is used first */
        slots[3] = lf_text_alloc(m, size);
        assert_int_equal(look(m).used_bytes, 2 * LF_TEXT_SLAB_BYTES);
        for (size_t i = 0; i <= n; i++) lf_text_free(m, slots[i]);
        lf_text_memory_destroy(m);
    }
}

static void what_is_larger_than_a_slot_is_a_mapping_of_its_own(void **state)
{
    (void)state;
    if (ONE_BY_ONE) skip();
    struct lf_text_memory *m = memory_of(4 * MIB);
    void *p = lf_text_alloc(m, LF_TEXT_SLOT_BYTES);
    assert_int_equal(look(m).used_bytes, LF_TEXT_SLAB_BYTES);
    lf_text_free(m, p);
    assert_int_equal(look(m).used_bytes, LF_TEXT_SLAB_BYTES); /* kept */
    p = lf_text_alloc(m, LF_TEXT_SLOT_BYTES + 1);
    assert_int_equal(look(m).used_bytes, LF_TEXT_SLAB_BYTES + 3 * 4096);
    lf_text_free(m, p);
    assert_int_equal(look(m).used_bytes, LF_TEXT_SLAB_BYTES); /* back to the system whole */
    lf_text_memory_destroy(m);
}

/* Also what was a mapping of its own: then it counts as a slab does. */
static void what_shrinks_to_a_slot_gets_one(void **state)
{
    (void)state;
    if (ONE_BY_ONE) skip();
    struct lf_text_memory *m = memory_of(MIB);
    unsigned char *p = lf_text_alloc(m, 100000);
    fill(p, LF_TEXT_SLOT_BYTES, 1);
    p = lf_text_realloc(m, p, LF_TEXT_SLOT_BYTES + 1);
    assert_int_equal(look(m).used_bytes, 3 * 4096);
    p = lf_text_realloc(m, p, LF_TEXT_SLOT_BYTES);
    assert_int_equal(look(m).used_bytes, LF_TEXT_SLAB_BYTES);
    assert_true(filled(p, LF_TEXT_SLOT_BYTES, 1));
    lf_text_free(m, p);
    lf_text_memory_destroy(m);
}

static void so_many_free_slabs_are_kept_for_any_size(void **state)
{
    (void)state;
    enum { KEPT = 16, SLABS = 20, SLOTS = 7 };
    if (ONE_BY_ONE) skip();
    struct lf_text_memory *m = memory_of(4 * MIB);
    void *slots[SLABS * SLOTS];
    for (int i = 0; i < SLABS * SLOTS; i++) slots[i] = lf_text_alloc(m, LF_TEXT_SLOT_BYTES);
    assert_int_equal(look(m).used_bytes, SLABS * LF_TEXT_SLAB_BYTES);
    for (int i = 0; i < SLABS * SLOTS; i++) lf_text_free(m, slots[i]);
    assert_int_equal(look(m).used_bytes, KEPT * LF_TEXT_SLAB_BYTES);
    for (int i = 0; i < KEPT; i++) slots[i] = lf_text_alloc(m, (size_t)64 << i % 8);
    assert_int_equal(look(m).used_bytes, KEPT * LF_TEXT_SLAB_BYTES);
    for (int i = 0; i < KEPT; i++) lf_text_free(m, slots[i]);
    void *all = lf_text_alloc(m, 4 * MIB - 64); /* they give way where the budget is needed */
    assert_non_null(all);
    assert_int_equal(look(m).used_bytes, 4 * MIB);
    lf_text_free(m, all);
    assert_int_equal(look(m).used_bytes, 0);
    lf_text_memory_destroy(m);
}

static void a_piece_counts_as_it_grows_and_shrinks(void **state)
{
    (void)state;
    if (ONE_BY_ONE) skip();
    struct lf_text_memory *m = memory_of(MIB);
    unsigned char *p = lf_text_alloc(m, 100000), *slot;
    fill(p, 100000, 1);
    assert_int_equal(look(m).used_bytes, 25 * 4096);
    p = lf_text_realloc(m, p, 300000);
    assert_int_equal(look(m).used_bytes, 74 * 4096);
    assert_true(filled(p, 100000, 1));
    p = lf_text_realloc(m, p, 50000);
    assert_int_equal(look(m).used_bytes, 13 * 4096);
    assert_true(filled(p, 50000, 1));
    assert_null(lf_text_realloc(m, p, MIB - 63));
    assert_int_equal(look(m).used_bytes, 13 * 4096);
    assert_true(filled(p, 50000, 1));
    p = lf_text_realloc(m, p, 100); /* into a slot */
    assert_int_equal(look(m).used_bytes, LF_TEXT_SLAB_BYTES);
    assert_true(filled(p, 100, 1));
    slot = lf_text_realloc(m, p, 128); /* which holds so many */
    assert_ptr_equal(slot, p);
    p = lf_text_realloc(m, slot, 129);
    assert_ptr_not_equal(slot, p);
    assert_int_equal(look(m).used_bytes, 2 * LF_TEXT_SLAB_BYTES);
    assert_true(filled(p, 100, 1));
    assert_null(lf_text_realloc(m, p, MIB - 64)); /* its own slab is in the way */
    assert_true(filled(p, 100, 1));
    p = lf_text_realloc(m, p, MIB - LF_TEXT_SLAB_BYTES - 64); /* and now it is not: the free one gave way */
    assert_true(filled(p, 100, 1));
    assert_int_equal(look(m).n_refused, 2);
    assert_int_equal(look(m).peak_bytes, MIB);
    lf_text_free(m, p);
    lf_text_memory_destroy(m);
    lf_text_memory_destroy(NULL);
}

/* Pages of address space that this process has. */
static long n_pages(void)
{
    char line[64];
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    return strtol(line, NULL, 10);
}

/* Pages of a piece that are in memory, of its first n bytes. */
static int n_resident(void *piece, size_t n)
{
    unsigned char there[1024];
    uintptr_t from = (uintptr_t)piece & ~(uintptr_t)4095;
    size_t n_of = ((uintptr_t)piece + n - from + 4095) / 4096;
    int count = 0;
    assert_true(n_of <= sizeof there);
    assert_int_equal(mincore((void *)from, n_of * 4096, there), 0);
    for (size_t i = 0; i < n_of; i++) count += there[i] & 1;
    return count;
}

/* A piece that has grown has addresses to grow again, without moving; what it had behind its end when it shrank is
 * gone. */
static void a_piece_has_room_to_grow_and_gives_pages_back(void **state)
{
    (void)state;
    if (ONE_BY_ONE) skip();
    struct lf_text_memory *m = memory_of(64 * MIB);
    unsigned char *p = lf_text_realloc(m, lf_text_alloc(m, 10000), 100000), *same;
    fill(p, 100000, 3);
    int before = n_calls;
    same = lf_text_realloc(m, p, 700000);
    assert_ptr_equal(same, p);
    assert_int_equal(n_calls, before);
    assert_true(filled(p, 100000, 3));
    fill(p, 700000, 4);
    assert_int_equal(n_resident(p, 700000), 171);
    same = lf_text_realloc(m, p, 20000);
    assert_ptr_equal(same, p);
    assert_int_equal(n_resident(p, 700000), 5);
    assert_int_equal(look(m).used_bytes, 5 * 4096);
    same = lf_text_realloc(m, p, 700000);
    assert_ptr_equal(same, p);
    assert_true(filled(p, 20000, 4));
    for (int i = 5 * 4096; i < 700000; i++) assert_int_equal(p[i], 0);
    lf_text_free(m, p);
    before = n_calls;
    for (int i = 0; i < 100; i++) lf_text_free(m, lf_text_alloc(m, 20000));
    if (MAPS_WHERE_ASKED)
        assert_true(n_calls - before <= 3 * 100 + 4); /* mapped, emptied, unmapped; nothing is trimmed but at first */
    lf_text_memory_destroy(m);
}

/* A page that is touched makes no more resident than itself, also where the system gives huge pages unasked: they would
 * reach over what is counted. A mapping that is counted whole may have them. */
static void addresses_that_are_not_counted_do_not_become_resident(void **state)
{
    (void)state;
    enum { N = 16, ROOM = 8 * MIB };
    if (ONE_BY_ONE) skip();
    struct lf_text_memory *m = memory_of(64 * MIB);
    unsigned char *sparse[N], *grown[N];
    n_kept_small = 0;
    for (int i = 0; i < N; i++) {
        sparse[i] = lf_text_alloc_sparse(m, ROOM, 100000);
        assert_int_equal(n_kept_small, (size_t)(i + 1) * (ROOM + 4096));
        fill(sparse[i], 100000, (unsigned)i);
        assert_int_equal(n_resident(sparse[i], 3 * MIB), 25);
    }
    n_kept_small = 0;
    for (int i = 0; i < N; i++) {
        grown[i] = lf_text_realloc(m, lf_text_alloc(m, 100000), 300000);
        assert_true(n_kept_small >= (size_t)(i + 1) * 300000 * 2);
        fill(grown[i], 300000, (unsigned)i);
        assert_int_equal(n_resident(grown[i], 600000), 74);
    }
    for (int i = 0; i < N; i++) {
        assert_true(filled(sparse[i], 100000, (unsigned)i) && filled(grown[i], 300000, (unsigned)i));
        lf_text_free(m, sparse[i]);
        lf_text_free(m, grown[i]);
    }
    n_kept_small = 0;
    unsigned char *p = lf_text_alloc(m, 5 * MIB);
    assert_int_equal(n_kept_small, 0);
    fill(p, 5 * MIB, 1);
    p = lf_text_realloc(m, p, 100000);
    assert_true(n_kept_small >= 5 * MIB);
    assert_int_equal(n_resident(p, 3 * MIB), 25);
    lf_text_free(m, p);
    lf_text_memory_destroy(m);
}

/* What is given back is given back to the system, and not only taken off the account. */
static void addresses_go_back_too(void **state)
{
    (void)state;
    if (ONE_BY_ONE) skip();
    struct lf_text_memory *m = memory_of(64 * MIB);
    long before = n_pages();
    for (int i = 0; i < 100; i++) {
        char *p = lf_text_alloc(m, 16 * MIB), *q = lf_text_alloc(m, 100000);
        assert_non_null(p);
        p = lf_text_realloc(m, p, 24 * MIB);
        q = lf_text_realloc(m, q, 20 * MIB);
        p = lf_text_realloc(m, p, 9000);
        assert_true(p && q);
        lf_text_free(m, p);
        lf_text_free(m, q);
    }
    assert_true(n_pages() - before < 16 * MIB / 4096);
    assert_int_equal(look(m).used_bytes, 0);
    lf_text_memory_destroy(m);
}

/* Where its pages cannot move it stays, and nothing of anybody else's is unmapped. */
static void a_piece_that_cannot_move_stays(void **state)
{
    (void)state;
    if (ONE_BY_ONE) skip();
    struct lf_text_memory *m = memory_of(64 * MIB);
    unsigned char *p = lf_text_alloc(m, MIB);
    assert_non_null(p);
    fill(p, MIB, 3);
    uint64_t used = look(m).used_bytes;
    mremap_fails = true;
    of_others = NULL;
    assert_null(lf_text_realloc(m, p, 2 * MIB));
    mremap_fails = false;
    assert_non_null(of_others);
    assert_int_equal(of_others[0], 'o'); /* a fault where it was unmapped */
    assert_true(filled(p, MIB, 3));
    assert_int_equal(look(m).used_bytes, used);
    p = lf_text_realloc(m, p, 2 * MIB);
    assert_non_null(p);
    assert_true(filled(p, MIB, 3));
    assert_int_equal(of_others[0], 'o');
    lf_text_free(m, p);
    assert_int_equal(look(m).used_bytes, 0);
    lf_text_memory_destroy(m);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(UINT64_MAX / 2);
    assert_null(lf_text_alloc(m, (size_t)PTRDIFF_MAX / 2 + 1));
    assert_null(lf_text_alloc_zeroed(m, SIZE_MAX));
    void *p = lf_text_realloc(m, NULL, 10);
    assert_non_null(p);
    assert_null(lf_text_realloc(m, p, SIZE_MAX));
    lf_text_free(m, p);
    lf_text_free(m, NULL);
    lf_text_memory_destroy(m);
}

static void without_a_memory_it_is_the_heap(void **state)
{
    (void)state;
    assert_true(lf_text_reserve(NULL, UINT64_MAX));
    lf_text_unreserve(NULL, UINT64_MAX);
    unsigned char *p = lf_text_alloc_zeroed(NULL, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(p[i], 0);
    fill(p, 1000, 2);
    p = lf_text_realloc(NULL, p, 100000);
    assert_true(filled(p, 1000, 2));
    lf_text_free(NULL, p);
    p = lf_text_alloc(NULL, 0);
    assert_non_null(p);
    lf_text_free(NULL, p);
}

/* However much large texts hold and set aside, small ones get in. */
static void the_last_part_is_for_small_texts(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(100 * (uint64_t)MIB);
    size_t header = ONE_BY_ONE ? 0 : 64;
    void *large = lf_text_alloc(m, 92 * MIB - header);
    assert_non_null(large);
    assert_null(lf_text_alloc(m, LF_TEXT_SMALL_BYTES + 1));
    assert_null(lf_text_realloc(m, large, 92 * MIB + 1 - header));
    assert_false(lf_text_reserve(m, LF_TEXT_SMALL_BYTES + 1));
    assert_true(lf_text_reserve(m, LF_TEXT_SMALL_BYTES));
    void *small = lf_text_alloc(m, LF_TEXT_SMALL_BYTES - header);
    assert_non_null(small);
    assert_null(lf_text_realloc(m, small, LF_TEXT_SMALL_BYTES + 1 - header));
    lf_text_free(m, large);
    assert_true(lf_text_reserve(m, 90 * (uint64_t)MIB)); /* the small ones count as well */
    assert_false(lf_text_reserve(m, 2 * MIB));
    const int n_small = 12 * MIB / LF_TEXT_SMALL_BYTES; /* as if the large one were not there: it would be past 100 */
    for (int i = 0; i < n_small; i++) assert_true(lf_text_reserve(m, LF_TEXT_SMALL_BYTES));
    lf_text_unreserve(m, 90 * (uint64_t)MIB);
    for (int i = 0; i < n_small + 1; i++) lf_text_unreserve(m, LF_TEXT_SMALL_BYTES);
    lf_text_free(m, small);
    lf_text_memory_destroy(m);
}

/* An arena is one text, however small its chunks are. With their headers these end where it does, or a page short. */
static void a_large_arena_leaves_the_last_part_alone(void **state)
{
    static const size_t chunk_bytes[] = {1000, 8 * 1024, 32 * 1024, 64 * 1024};
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(chunk_bytes); i++) {
        struct lf_text_memory *m = memory_of(100 * (uint64_t)MIB);
        struct lf_text_memory_state now;
        struct lf_arena large, small;
        lf_arena_init_in(&large, chunk_bytes[i], 200 * (size_t)MIB, m);
        lf_arena_init_in(&small, chunk_bytes[i], 200 * (size_t)MIB, m);
        while (lf_arena_alloc(&large, 1000)) continue;
        lf_text_memory_snapshot(m, &now);
        assert_in_range(now.used_bytes, 91 * MIB, 92 * MIB);
        assert_true(now.n_refused > 0);
        for (size_t n = 0; n + 128 * 1024 <= LF_TEXT_SMALL_BYTES; n += 1000)
            assert_non_null(lf_arena_alloc(&small, 1000));
        lf_arena_deinit(&small);
        lf_arena_deinit(&large);
        lf_text_memory_destroy(m);
    }
}

static void a_buffer_and_an_arena_stop_at_the_budget(void **state)
{
    (void)state;
    struct lf_text_memory *m = memory_of(256 * 1024);
    struct lf_buf buf;
    lf_buf_init_in(&buf, MIB, m);
    for (int i = 0; i < 1000; i++)
        lf_buf_cstr(&buf,
                    "a line of some thirty characters, again and again, until there is no room left in the budget\n");
    for (int i = 0; i < 10000; i++) lf_buf_cstr(&buf, "a line of some thirty characters\n");
    assert_int_equal(buf.status, LF_NO_MEMORY);
    lf_buf_deinit(&buf);
    lf_text_memory_destroy(m);
}

static bool yes(void *ctx)
{
    ++*(int *)ctx;
    return true;
}

static void work_ends_when_nobody_waits(void **state)
{
    (void)state;
    int n_asked = 0;
    struct lf_work work = {.is_over = yes, .ctx = &n_asked};
    int64_t n_steps = 0;
    while (lf_work_step(&work, 1000) == LF_OK) n_steps += 1000;
    assert_int_equal(n_asked, 1);
    assert_true(n_steps <= LF_WORK_CHECK_STEPS);
    assert_int_equal(lf_work_step(&work, 1), LF_CANCELLED); /* it stays so */
    struct lf_work late = {.deadline_ns = lf_clock_ns() - 1};
    assert_int_equal(lf_work_check(&late), LF_TIMEOUT);
    struct lf_work early = {.deadline_ns = lf_clock_ns() + INT64_C(60000000000)};
    assert_int_equal(lf_work_check(&early), LF_OK);
    assert_int_equal(lf_work_step(NULL, SIZE_MAX), LF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_stay_and_all_of_it_goes_back),
        cmocka_unit_test(the_budget_holds_to_the_byte),
        cmocka_unit_test(free_slabs_make_room),
        cmocka_unit_test(zeroed_is_zero_also_where_it_was_used),
        cmocka_unit_test(what_will_not_be_touched_does_not_count),
        cmocka_unit_test(the_last_piece_ends_what_was_destroyed),
        cmocka_unit_test(reservations_count_only_against_each_other),
        cmocka_unit_test(a_slab_counts_whole_until_it_is_full),
        cmocka_unit_test(what_is_larger_than_a_slot_is_a_mapping_of_its_own),
        cmocka_unit_test(what_shrinks_to_a_slot_gets_one),
        cmocka_unit_test(so_many_free_slabs_are_kept_for_any_size),
        cmocka_unit_test(a_piece_counts_as_it_grows_and_shrinks),
        cmocka_unit_test(a_piece_has_room_to_grow_and_gives_pages_back),
        cmocka_unit_test(addresses_that_are_not_counted_do_not_become_resident),
        cmocka_unit_test(addresses_go_back_too),
        cmocka_unit_test(a_piece_that_cannot_move_stays),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(without_a_memory_it_is_the_heap),
        cmocka_unit_test(the_last_part_is_for_small_texts),
        cmocka_unit_test(a_large_arena_leaves_the_last_part_alone),
        cmocka_unit_test(a_buffer_and_an_arena_stop_at_the_budget),
        cmocka_unit_test(work_ends_when_nobody_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
