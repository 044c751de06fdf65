#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/mix.h"
#include "kv/block_pool.h"

enum { N = 5 };

static int setup(void **state)
{
    static struct lf_block_pool pool;
    *state = &pool;
    return lf_block_pool_init(&pool, N, NULL) == LF_OK ? 0 : -1;
}

static int teardown(void **state)
{
    lf_block_pool_deinit(*state);
    return 0;
}

static int32_t take(struct lf_block_pool *pool)
{
    int32_t b = -1;
    assert_true(lf_block_pool_take(pool, &b));
    lf_block_pool_check(pool);
    return b;
}

static void a_pool_without_blocks_is_refused(void **state)
{
    (void)state;
    struct lf_block_pool pool;
    struct lf_err err;
    assert_int_equal(lf_block_pool_init(&pool, 0, &err), LF_INVALID);
    assert_int_equal(lf_block_pool_init(&pool, -3, &err), LF_INVALID);
}

static void every_block_is_given_out_once_and_then_none(void **state)
{
    struct lf_block_pool *pool = *state;
    unsigned seen = 0;
    for (int i = 0; i < N; i++) {
        assert_int_equal(lf_block_pool_n_available(pool), N - i);
        seen |= 1u << take(pool);
    }
    assert_int_equal(seen, (1u << N) - 1);
    int32_t b = 77;
    assert_false(lf_block_pool_take(pool, &b));
    assert_int_equal(b, 77);
    lf_block_pool_check(pool);
}

static void a_block_is_free_when_its_last_reference_goes(void **state)
{
    struct lf_block_pool *pool = *state;
    int32_t b = take(pool);
    lf_block_pool_get(pool, b);
    lf_block_pool_put(pool, b);
    assert_int_equal(pool->n_free, N - 1);
    lf_block_pool_put(pool, b);
    assert_int_equal(pool->n_free, N);
    assert_int_equal(take(pool), b); /* the warmest one first */
}

static void cached_blocks_stay_until_no_free_one_is_left(void **state)
{
    struct lf_block_pool *pool = *state;
    int32_t b = take(pool);
    lf_block_pool_set_cached(pool, b, true);
    lf_block_pool_put(pool, b);
    assert_int_equal(pool->n_cached, 1);
    assert_int_equal(lf_block_pool_n_available(pool), N);
    for (int i = 0; i < N - 1; i++) assert_int_not_equal(take(pool), b);
    assert_int_equal(pool->n_cached, 1);
    assert_int_equal(take(pool), b);
    assert_false(pool->blocks[b].cached);
}

static void a_reference_revives_a_cached_block(void **state)
{
    struct lf_block_pool *pool = *state;
    int32_t b = take(pool);
    lf_block_pool_set_cached(pool, b, true);
    lf_block_pool_put(pool, b);
    lf_block_pool_get(pool, b);
    assert_int_equal(pool->n_cached, 0);
    assert_int_equal(lf_block_pool_n_available(pool), N - 1);
    lf_block_pool_check(pool);
    lf_block_pool_put(pool, b);
    assert_int_equal(pool->n_cached, 1);
    lf_block_pool_check(pool);
}

static void note_eviction(void *ctx, int32_t block)
{
    int32_t *log = ctx;
    log[++log[0]] = block;
}

static void the_least_recently_used_block_is_evicted_first(void **state)
{
    struct lf_block_pool *pool = *state;
    int32_t log[N + 1] = {0}, b[N];
    pool->on_evict = note_eviction;
    pool->on_evict_ctx = log;
    for (int i = 0; i < N; i++) {
        b[i] = take(pool);
        lf_block_pool_set_cached(pool, b[i], true);
    }
    const int order[N] = {2, 0, 4, 1, 3};
    for (int i = 0; i < N; i++) lf_block_pool_put(pool, b[order[i]]);
    lf_block_pool_get(pool, b[0]); /* used again: the youngest from here on */
    lf_block_pool_put(pool, b[0]);
    assert_int_equal(pool->n_evicted, 0);
    for (int i = 0; i < N; i++) (void)take(pool);
    assert_int_equal(pool->n_evicted, N);
    const int expected[N] = {2, 4, 1, 3, 0};
    assert_int_equal(log[0], N);
    for (int i = 0; i < N; i++) assert_int_equal(log[1 + i], b[expected[i]]);
}

static void a_cached_block_can_be_let_go_to_the_free_list(void **state)
{
    struct lf_block_pool *pool = *state;
    int32_t b = take(pool);
    lf_block_pool_set_cached(pool, b, true);
    lf_block_pool_put(pool, b);
    lf_block_pool_set_cached(pool, b, false);
    lf_block_pool_check(pool);
    assert_int_equal(pool->n_free, N);
    assert_int_equal(pool->n_cached, 0);
}

/* Random operations against a model made of plain arrays. */
static void random_operations_keep_the_invariant(void **state)
{
    struct lf_block_pool *pool = *state;
    int refs[N] = {0};
    bool cached[N] = {false};
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t r = lf_random64(7, i);
        int32_t b = (int32_t)((r >> 8) % N), got;
        switch (r % 4) {
        case 0:
            if (!lf_block_pool_take(pool, &got)) break;
            assert_int_equal(refs[got], 0);
            refs[got] = 1;
            cached[got] = false;
            break;
        case 1:
            if (refs[b] == 0 && !cached[b]) break;
            lf_block_pool_get(pool, b);
            refs[b]++;
            break;
        case 2:
            if (refs[b] == 0) break;
            lf_block_pool_put(pool, b);
            refs[b]--;
            break;
        default:
            if (refs[b] == 0 && !cached[b]) break;
            cached[b] = (r >> 32) % 2 != 0;
            lf_block_pool_set_cached(pool, b, cached[b]);
        }
        lf_block_pool_check(pool);
        int n_used = 0;
        for (int k = 0; k < N; k++) {
            assert_int_equal(pool->blocks[k].n_refs, refs[k]);
            assert_int_equal(pool->blocks[k].cached, cached[k]);
            n_used += refs[k] > 0;
        }
        assert_int_equal(lf_block_pool_n_available(pool), N - n_used);
    }
}

static void what_is_pinned_is_given_out_to_nobody(void **state)
{
    struct lf_block_pool *pool = *state;
    int32_t b = take(pool), other;
    lf_block_pool_set_cached(pool, b, true);
    lf_block_pool_put(pool, b);
    lf_block_pool_pin(pool, b);
    lf_block_pool_pin(pool, b);
    assert_int_equal(pool->n_pinned, 1);
    for (int i = 0; i < N - 1; i++) assert_int_not_equal(take(pool), b);
    assert_false(lf_block_pool_take(pool, &other));
    lf_block_pool_unpin(pool, b);
    assert_int_equal(pool->n_pinned, 1);
    assert_false(lf_block_pool_take(pool, &other));
    lf_block_pool_unpin(pool, b);
    assert_int_equal(pool->n_pinned, 0);
    assert_int_equal(take(pool), b);
}

/* n_promisable: what is not firm, whoever shares what. */
static void a_block_with_loose_references_alone_can_be_promised(void **state)
{
    struct lf_block_pool *pool = *state;
    int32_t b, firm = take(pool);
    assert_true(lf_block_pool_take_loose(pool, &b));
    assert_int_equal(pool->n_loose, 1);
    assert_int_equal(lf_block_pool_n_promisable(pool), N - 1);
    assert_int_equal(lf_block_pool_n_available(pool), N - 2);
    lf_block_pool_get_loose(pool, b);
    assert_int_equal(pool->n_loose, 1); /* one block */
    lf_block_pool_get(pool, b);
    assert_true(lf_block_pool_is_firm(pool, b));
    assert_int_equal(pool->n_loose, 0);
    assert_int_equal(lf_block_pool_n_promisable(pool), N - 2);
    lf_block_pool_put_loose(pool, b);
    lf_block_pool_put_loose(pool, b);
    assert_true(lf_block_pool_is_firm(pool, b));
    lf_block_pool_get_loose(pool, b);
    lf_block_pool_put(pool, b);
    assert_false(lf_block_pool_is_firm(pool, b));
    lf_block_pool_check(pool);
    lf_block_pool_set_cached(pool, b, true);
    lf_block_pool_put_loose(pool, b); /* cached now */
    assert_int_equal(pool->n_cached, 1);
    lf_block_pool_get_loose(pool, b);
    assert_int_equal(pool->n_loose, 1);
    assert_int_equal(lf_block_pool_n_promisable(pool), N - 1);
    lf_block_pool_put_loose(pool, b);
    lf_block_pool_put(pool, firm);
    assert_int_equal(lf_block_pool_n_promisable(pool), N);
    lf_block_pool_check(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_without_blocks_is_refused),
        cmocka_unit_test_setup_teardown(every_block_is_given_out_once_and_then_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_block_is_free_when_its_last_reference_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(cached_blocks_stay_until_no_free_one_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reference_revives_a_cached_block, setup, teardown),
        cmocka_unit_test_setup_teardown(the_least_recently_used_block_is_evicted_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cached_block_can_be_let_go_to_the_free_list, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_pinned_is_given_out_to_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(a_block_with_loose_references_alone_can_be_promised, setup, teardown),
        cmocka_unit_test_setup_teardown(random_operations_keep_the_invariant, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
