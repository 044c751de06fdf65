/* core/text_memory.c from many threads at once: bytes stay whose they are, what is handed on may be resized and freed
 * by whoever got it, the budget is never passed, and all of it goes back. The thread sanitizer looks on. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/arena.h"
#include "core/limits.h"
#include "core/mix.h"
#include "core/text_memory.h"

enum { MIB = 1024 * 1024, THREADS_N = 6, STEPS_N = 4000, PLACES_N = 48, BUDGET = 4 * MIB };

struct piece {
    unsigned char *ptr;
    size_t n;
    unsigned char seed;
    bool sparse; /* not to be resized */
};

/* Pieces pass from thread to thread through places that are taken and given under a lock. */
static struct {
    struct lf_text_memory *memory;
    pthread_mutex_t lock;
    struct piece places[PLACES_N];
    atomic_int n_wrong, n_refused;
} shared;

static struct piece swap_place(size_t i, struct piece in)
{
    pthread_mutex_lock(&shared.lock);
    struct piece out = shared.places[i];
    shared.places[i] = in;
    pthread_mutex_unlock(&shared.lock);
    return out;
}

static size_t random_size(uint64_t r)
{
    static const size_t most[] = {100, 3000, 9000, 70000, 700000};
    return 1 + (size_t)(r >> 8) % most[r % (sizeof most / sizeof *most)];
}

/* A few bytes of each page: one that is not ours would show. */
static bool marked(const struct piece *p, size_t n)
{
    for (size_t i = 0; i < n; i += 1021)
        if (p->ptr[i] != p->seed) return false;
    return true;
}

static void mark(struct piece *p)
{
    for (size_t i = 0; i < p->n; i += 1021) p->ptr[i] = p->seed;
}

static void resize(struct piece *p, size_t n)
{
    unsigned char *to = lf_text_realloc(shared.memory, p->ptr, n);
    if (!to) {
        atomic_fetch_add(&shared.n_refused, 1);
        return;
    }
    p->ptr = to;
    atomic_fetch_add(&shared.n_wrong, !marked(p, n < p->n ? n : p->n));
    p->n = n;
    mark(p);
}

static struct piece take(uint64_t r, size_t n)
{
    struct piece p = {.n = n, .seed = (unsigned char)(r >> 40), .sparse = r >> 12 & 1};
    p.ptr = p.sparse ? lf_text_alloc_sparse(shared.memory, n + MIB, n) : lf_text_alloc(shared.memory, n);
    if (p.ptr)
        mark(&p);
    else
        atomic_fetch_add(&shared.n_refused, 1);
    return p;
}

static void *work(void *ctx)
{
    const uint64_t self = *(const uint64_t *)ctx;
    struct lf_text_memory_state st;
    for (uint64_t k = 0; k < STEPS_N; k++) {
        uint64_t r = lf_random64(self, k);
        size_t n = random_size(r >> 16), place = (size_t)(r % PLACES_N);
        struct piece p = swap_place(place, (struct piece){0});
        if (!p.ptr) {
            p = take(r, n);
        } else if (r >> 13 & 1) {
            atomic_fetch_add(&shared.n_wrong, !marked(&p, p.n));
            lf_text_free(shared.memory, p.ptr);
            p = (struct piece){0};
        } else if (!p.sparse) {
            resize(&p, n);
        }
        p = swap_place(place, p);
        lf_text_free(shared.memory, p.ptr); /* another thread has put one there meanwhile */
        lf_text_memory_snapshot(shared.memory, &st);
        atomic_fetch_add(&shared.n_wrong, st.used_bytes > BUDGET);
    }
    return NULL;
}

static void many_threads_share_it(void **state)
{
    (void)state;
    pthread_t threads[THREADS_N];
    uint64_t seeds[THREADS_N];
    struct lf_text_memory_state st;
    assert_int_equal(lf_text_memory_create(&shared.memory, BUDGET, NULL), LF_OK);
    pthread_mutex_init(&shared.lock, NULL);
    for (uint64_t i = 0; i < THREADS_N; i++) {
        seeds[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
    }
    for (int i = 0; i < THREADS_N; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < PLACES_N; i++) lf_text_free(shared.memory, shared.places[i].ptr);
    assert_int_equal(atomic_load(&shared.n_wrong), 0);
    assert_true(atomic_load(&shared.n_refused) > 0); /* the budget was met too */
    lf_text_memory_snapshot(shared.memory, &st);
    assert_true(st.used_bytes <= 16 * (uint64_t)LF_TEXT_SLAB_BYTES); /* slabs kept for later */
    assert_true(st.peak_bytes > BUDGET / 2 && st.peak_bytes <= BUDGET);
    lf_text_memory_destroy(shared.memory); /* asserts that nothing else is counted */
    pthread_mutex_destroy(&shared.lock);
}

static void *fill(void *ctx)
{
    while (lf_arena_alloc(ctx, 1000)) continue;
    return NULL;
}

/* Texts that grow by small pieces, all at once: what one of them looks for is not what another one takes meanwhile. */
static void large_texts_together_leave_the_last_part_alone(void **state)
{
    enum { MEMORY = 100 * MIB };
    (void)state;
    pthread_t threads[THREADS_N];
    struct lf_arena arenas[THREADS_N];
    struct lf_text_memory *m;
    struct lf_text_memory_state st;
    assert_int_equal(lf_text_memory_create(&m, MEMORY, NULL), LF_OK);
    for (int i = 0; i < THREADS_N; i++) {
        lf_arena_init_in(&arenas[i], 12 * 1024, MEMORY, m);
        while (arenas[i].used_bytes <= LF_TEXT_SMALL_BYTES) assert_non_null(lf_arena_alloc(&arenas[i], 1000));
    }
    for (int i = 0; i < THREADS_N; i++) assert_int_equal(pthread_create(&threads[i], NULL, fill, &arenas[i]), 0);
    for (int i = 0; i < THREADS_N; i++) pthread_join(threads[i], NULL);
    lf_text_memory_snapshot(m, &st);
    assert_in_range(st.peak_bytes, MEMORY - LF_TEXT_SPARE_BYTES - MIB, MEMORY - LF_TEXT_SPARE_BYTES);
    for (int i = 0; i < THREADS_N; i++) lf_arena_deinit(&arenas[i]);
    lf_text_memory_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads_share_it),
                                       cmocka_unit_test(large_texts_together_leave_the_last_part_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
