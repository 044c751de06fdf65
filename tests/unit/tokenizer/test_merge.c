#include "tests/unit/tokenizer/support.h"
#include "tokenizer/merge.h"

/* The definition: join the pair of the lowest rank, leftmost first, until none is left. */
static size_t join_by_definition(const struct lf_merges *merges, int32_t *ids, size_t n)
{
    for (;;) {
        const struct lf_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const struct lf_merge *m = lf_merges_find(merges, ids[i], ids[i + 1]);
            if (m && (!best || m->rank < best->rank)) {
                best = m;
                at = i;
            }
        }
        if (!best) return n;
        ids[at] = best->joined;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

static void test_heap_and_scan_join_as_defined(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 400; round++) {
        enum { IDS = 30, MAX = 200 };
        struct lf_merges merges;
        struct lf_merge_work work = {0};
        assert_int_equal(lf_merges_init(&merges, 100, NULL), LF_OK);
        for (uint32_t i = 0; i < 100; i++) {
            /* every third rank is shared, as with equal scores */
            struct lf_merge m = {(int32_t)(next_random(&seed) % IDS), (int32_t)(next_random(&seed) % IDS), i / 3,
                                 (int32_t)(next_random(&seed) % IDS)};
            lf_merges_insert(&merges, &m);
        }
        int32_t ids[MAX], want[MAX];
        uint64_t n = next_random(&seed) % MAX;
        for (uint64_t i = 0; i < n; i++) ids[i] = want[i] = (int32_t)(next_random(&seed) % 6);
        size_t n_want = join_by_definition(&merges, want, n);
        assert_int_equal(lf_merges_run(&merges, &work, ids, &n), LF_OK);
        assert_int_equal(n, n_want);
        assert_memory_equal(ids, want, n * sizeof *ids);
        lf_merge_work_deinit(&work);
        lf_merges_deinit(&merges);
    }
}

static void test_a_pair_given_again_takes_the_new_rank(void **state)
{
    (void)state;
    struct lf_merges merges;
    assert_int_equal(lf_merges_init(&merges, 2, NULL), LF_OK);
    lf_merges_insert(&merges, &(struct lf_merge){1, 2, 0, 3});
    lf_merges_insert(&merges, &(struct lf_merge){1, 2, 7, 4});
    assert_int_equal(merges.n, 1);
    assert_int_equal(lf_merges_find(&merges, 1, 2)->rank, 7);
    assert_int_equal(lf_merges_find(&merges, 1, 2)->joined, 4);
    assert_null(lf_merges_find(&merges, 2, 1));
    lf_merges_deinit(&merges);
}

static void test_a_million_equal_symbols_join_in_time(void **state)
{
    (void)state;
    enum { N = 1 << 20, LEVELS = 19 };
    struct lf_merges merges;
    struct lf_merge_work work = {0};
    assert_int_equal(lf_merges_init(&merges, LEVELS, NULL), LF_OK);
    for (int i = 0; i < LEVELS; i++) lf_merges_insert(&merges, &(struct lf_merge){i, i, (uint32_t)i, i + 1});
    int32_t *ids = calloc(N, sizeof *ids);
    assert_non_null(ids);
    uint64_t n = N;
    double start = cpu_seconds();
    assert_int_equal(lf_merges_run(&merges, &work, ids, &n), LF_OK);
    assert_true(cpu_seconds() - start < 1.0 * SLOWNESS);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], LEVELS);
    free(ids);
    lf_merge_work_deinit(&work);
    lf_merges_deinit(&merges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_and_scan_join_as_defined),
        cmocka_unit_test(test_a_pair_given_again_takes_the_new_rank),
        cmocka_unit_test(test_a_million_equal_symbols_join_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
