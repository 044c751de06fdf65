#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "core/check.h"
#include "core/limits.h"
#include "core/mix.h"
#include "kv/prefix_cache.h"

enum { N_BLOCKS = 8, T = LF_KV_BLOCK_TOKENS, DOC_BLOCKS = 4 };

struct fixture {
    struct lf_block_pool pool;
    struct lf_prefix_cache *cache;
    struct lf_prefix_key root;
    int32_t ids[DOC_BLOCKS * T];
    int32_t blocks[DOC_BLOCKS];
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    if (lf_block_pool_init(&f.pool, N_BLOCKS, NULL) != LF_OK) return -1;
    if (lf_prefix_cache_create(&f.cache, &f.pool, "model", 5, T, NULL) != LF_OK) return -1;
    lf_prefix_cache_root(f.cache, "salt", 4, &f.root);
    for (int i = 0; i < DOC_BLOCKS * T; i++) f.ids[i] = (int32_t)lf_random64(3, (uint64_t)i) & 0xffff;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    lf_prefix_cache_check(f->cache);
    lf_block_pool_check(&f->pool);
    lf_prefix_cache_destroy(f->cache);
    if (f->pool.on_evict) return -1; /* the pool outlives the cache, and calls nobody */
    lf_block_pool_deinit(&f->pool);
    return 0;
}

static void insert(struct lf_prefix_cache *cache, const struct lf_prefix_key *prev, const int32_t *ids, int32_t block,
                   struct lf_prefix_key *key)
{
    lf_prefix_key_next(prev, ids, T, key);
    lf_prefix_cache_insert_key(cache, prev, key, ids, block, (struct lf_prefix_origin){0});
}

/* How many of the leading full blocks of ids are there, at most max; their numbers go to found. */
static int find_leading(const struct lf_prefix_cache *cache, const struct lf_prefix_key *root, const int32_t *ids,
                        int n_ids, int max, int32_t *found)
{
    struct lf_prefix_key prev = *root, key;
    for (int i = 0; i < max && (i + 1) * T <= n_ids; i++, prev = key) {
        lf_prefix_key_next(&prev, ids + i * T, T, &key);
        found[i] = lf_prefix_cache_find(cache, &prev, &key, ids + i * T);
        if (found[i] < 0) return i;
    }
    return n_ids / T < max ? n_ids / T : max;
}

/* Takes blocks for the document's first n blocks and enters them. */
static void enter(struct fixture *f, int n)
{
    struct lf_prefix_key prev = f->root, key;
    for (int i = 0; i < n; i++) {
        assert_true(lf_block_pool_take(&f->pool, &f->blocks[i]));
        insert(f->cache, &prev, f->ids + i * T, f->blocks[i], &key);
        prev = key;
        lf_prefix_cache_check(f->cache);
    }
}

static void put_from_the_end(struct fixture *f, int n)
{
    while (n > 0) lf_block_pool_put(&f->pool, f->blocks[--n]);
}

static int match(struct fixture *f, const int32_t *ids, int n_ids)
{
    int32_t found[DOC_BLOCKS];
    int n = find_leading(f->cache, &f->root, ids, n_ids, DOC_BLOCKS, found);
    for (int i = 0; i < n; i++) assert_int_equal(found[i], f->blocks[i]);
    return n;
}

static void an_empty_cache_matches_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(match(f, f->ids, DOC_BLOCKS * T), 0);
}

static void entered_blocks_are_found_in_order_and_only_whole(void **state)
{
    struct fixture *f = *state;
    enter(f, DOC_BLOCKS);
    assert_int_equal(match(f, f->ids, DOC_BLOCKS * T), DOC_BLOCKS);
    assert_int_equal(match(f, f->ids, 3 * T + T - 1), 3);
    assert_int_equal(match(f, f->ids, T - 1), 0);
    int32_t found[DOC_BLOCKS];
    assert_int_equal(find_leading(f->cache, &f->root, f->ids, DOC_BLOCKS * T, 2, found), 2);
    assert_int_equal(find_leading(f->cache, &f->root, f->ids, DOC_BLOCKS * T, 0, found), 0);
}

/* What tiers know of a block: its ids, or of more than 64 what stands for all of them, and how many they are. */
static void tiers_know_a_block_by_64_numbers(void **state)
{
    struct fixture *f = *state;
    struct lf_prefix_key key, again;
    int32_t ids[4 * T], one[T], two[T], four[T];
    uint8_t sha[LF_SHA256_BYTES];
    for (int i = 0; i < 4 * T; i++) ids[i] = i * 1000 + 7;
    lf_prefix_tier_ids(ids, T, one);
    assert_memory_equal(one, ids, sizeof(one));
    lf_prefix_tier_ids(ids, 2 * T, two);
    lf_prefix_tier_ids(ids, 4 * T, four);
    lf_sha256(ids, 2 * T * sizeof(*ids), sha);
    for (size_t i = 0; i < sizeof(sha); i++) assert_int_equal((uint32_t)two[i / 4] >> 8 * (i % 4) & 0xff, sha[i]);
    assert_int_equal(two[8], -2 * T);
    for (int i = 9; i < T; i++) assert_int_equal(two[i], 0);
    assert_int_equal(lf_prefix_tier_tokens(one), T);
    assert_int_equal(lf_prefix_tier_tokens(two), 2 * T);
    assert_int_equal(lf_prefix_tier_tokens(four), 4 * T);
    /* the key follows from them, so that who reads a record without its text can tell whether it is of its key */
    lf_prefix_key_next(&f->root, ids, 2 * T, &key);
    lf_prefix_key_next(&f->root, two, T, &again);
    assert_memory_equal(&key, &again, sizeof(key));
    ids[2 * T - 1]++;
    lf_prefix_tier_ids(ids, 2 * T, four);
    assert_memory_not_equal(two, four, LF_SHA256_BYTES);
}

/* All ids of a large block count, in its key and in what is compared. */
static void blocks_may_have_more_ids(void **state)
{
    struct fixture *f = *state;
    struct lf_block_pool pool;
    struct lf_prefix_cache *cache;
    struct lf_prefix_key key, other;
    int32_t block, ids[2 * T];
    assert_int_equal(lf_block_pool_init(&pool, 2, NULL), LF_OK);
    assert_int_equal(lf_prefix_cache_create(&cache, &pool, "model", 5, 2 * T, NULL), LF_OK);
    assert_true(lf_block_pool_take(&pool, &block));
    memcpy(ids, f->ids, sizeof(ids));
    lf_prefix_key_next(&f->root, ids, 2 * T, &key);
    lf_prefix_cache_insert_key(cache, &f->root, &key, ids, block, (struct lf_prefix_origin){0});
    assert_int_equal(lf_prefix_cache_find(cache, &f->root, &key, ids), block);
    assert_memory_equal(lf_prefix_cache_entry(cache, block).ids, ids, sizeof(ids));
    ids[2 * T - 1]++;
    lf_prefix_key_next(&f->root, ids, 2 * T, &other);
    assert_int_equal(lf_prefix_cache_find(cache, &f->root, &other, ids), -1);
    assert_int_equal(lf_prefix_cache_find(cache, &f->root, &key, ids), -1); /* nor by a key that is another's */
    lf_prefix_key_next(&f->root, f->ids, T, &other);
    assert_int_equal(lf_prefix_cache_find(cache, &f->root, &other, f->ids), -1);
    lf_block_pool_put(&pool, block);
    lf_prefix_cache_destroy(cache);
    lf_block_pool_deinit(&pool);
}

static void a_match_ends_at_the_first_difference(void **state)
{
    struct fixture *f = *state;
    enter(f, DOC_BLOCKS);
    int32_t ids[DOC_BLOCKS * T];
    for (int at = 0; at < DOC_BLOCKS * T; at += 37) {
        memcpy(ids, f->ids, sizeof(ids));
        ids[at] ^= 1;
        assert_int_equal(match(f, ids, DOC_BLOCKS * T), at / T);
    }
}

static void the_same_block_behind_another_text_is_not_found(void **state)
{
    struct fixture *f = *state;
    enter(f, 2);
    int32_t found[1];
    assert_int_equal(find_leading(f->cache, &f->root, f->ids + T, T, 1, found), 0);
}

static void another_salt_or_model_finds_nothing(void **state)
{
    struct fixture *f = *state;
    enter(f, DOC_BLOCKS);
    struct lf_prefix_key root;
    int32_t found[DOC_BLOCKS];
    lf_prefix_cache_root(f->cache, "tlas", 4, &root);
    assert_int_equal(find_leading(f->cache, &root, f->ids, T, 1, found), 0);
    lf_prefix_cache_root(f->cache, NULL, 0, &root);
    assert_int_equal(find_leading(f->cache, &root, f->ids, T, 1, found), 0);

    struct lf_prefix_cache *other;
    struct lf_block_pool pool;
    assert_int_equal(lf_block_pool_init(&pool, 1, NULL), LF_OK);
    assert_int_equal(lf_prefix_cache_create(&other, &pool, "another", 7, T, NULL), LF_OK);
    lf_prefix_cache_root(other, "salt", 4, &root);
    assert_memory_not_equal(root.bytes, f->root.bytes, sizeof(root.bytes));
    lf_prefix_cache_destroy(other);
    lf_block_pool_deinit(&pool);
}

/* The table of slots is a power of two, at least twice as many as there are blocks, and no larger. */
static void a_table_is_as_large_as_it_needs_to_be(void **state)
{
    (void)state;
    uint64_t record = lf_prefix_cache_host_bytes(1026, T) - lf_prefix_cache_host_bytes(1025, T);
    assert_int_equal(lf_prefix_cache_host_bytes(1025, T) - lf_prefix_cache_host_bytes(1024, T),
                     record + 2048 * sizeof(int32_t));
    assert_int_equal(lf_prefix_cache_host_bytes(1024, T) - lf_prefix_cache_host_bytes(1023, T), record);
    assert_int_equal(lf_prefix_cache_host_bytes(2, T) - lf_prefix_cache_host_bytes(1, T), record); /* four at least */
}

/* However many there are: a look-up that walked past all others would take minutes here. */
static void many_blocks_are_found_at_once(void **state)
{
    (void)state;
    enum { N = 64 * 1024 };
    static int32_t ids[T];
    struct lf_block_pool pool;
    struct lf_prefix_cache *cache;
    struct lf_prefix_key root, key;
    clock_t began = clock();
    assert_int_equal(lf_block_pool_init(&pool, N, NULL), LF_OK);
    assert_int_equal(lf_prefix_cache_create(&cache, &pool, "model", 5, T, NULL), LF_OK);
    lf_prefix_cache_root(cache, NULL, 0, &root);
    for (int i = 0; i < N; i++) {
        int32_t block;
        ids[0] = i;
        assert_true(lf_block_pool_take(&pool, &block));
        insert(cache, &root, ids, block, &key);
        assert_int_equal(lf_prefix_cache_find(cache, &root, &key, ids), block);
        lf_block_pool_put(&pool, block);
    }
    assert_int_equal(pool.n_cached, N);
    assert_true((clock() - began) / CLOCKS_PER_SEC < 10); /* of the processor; it takes 0.1 */
    lf_prefix_cache_destroy(cache);
    lf_block_pool_deinit(&pool);
}

static void equal_content_is_entered_once(void **state)
{
    struct fixture *f = *state;
    enter(f, 1);
    int32_t twin;
    struct lf_prefix_key key, first;
    lf_prefix_key_next(&f->root, f->ids, T, &first);
    assert_true(lf_block_pool_take(&f->pool, &twin));
    insert(f->cache, &f->root, f->ids, twin, &key);
    assert_memory_equal(key.bytes, first.bytes, sizeof(key.bytes));
    assert_false(f->pool.blocks[twin].cached);
    assert_int_equal(match(f, f->ids, T), 1);
    lf_block_pool_put(&f->pool, twin);
    assert_int_equal(f->pool.n_free, N_BLOCKS - 1);
}

/* A key made to collide: the ids and the key before are compared, so it is a miss and is not entered. */
static void a_collision_is_a_miss(void **state)
{
    struct fixture *f = *state;
    enter(f, 1);
    struct lf_prefix_key key;
    lf_prefix_key_next(&f->root, f->ids, T, &key);
    assert_int_equal(lf_prefix_cache_find(f->cache, &f->root, &key, f->ids), f->blocks[0]);
    assert_int_equal(lf_prefix_cache_find(f->cache, &f->root, &key, f->ids + T), -1);
    assert_int_equal(lf_prefix_cache_find(f->cache, &key, &key, f->ids), -1);
    int32_t other;
    assert_true(lf_block_pool_take(&f->pool, &other));
    lf_prefix_cache_insert_key(f->cache, &f->root, &key, f->ids + T, other, (struct lf_prefix_origin){0});
    assert_false(f->pool.blocks[other].cached);
    assert_int_equal(match(f, f->ids, T), 1);
}

static void an_evicted_end_leaves_the_beginning(void **state)
{
    struct fixture *f = *state;
    enter(f, DOC_BLOCKS);
    put_from_the_end(f, DOC_BLOCKS);
    int32_t b;
    for (int i = 0; i < N_BLOCKS - DOC_BLOCKS; i++) assert_true(lf_block_pool_take(&f->pool, &b));
    for (int left = DOC_BLOCKS; left > 0; left--) {
        assert_int_equal(match(f, f->ids, DOC_BLOCKS * T), left);
        assert_true(lf_block_pool_take(&f->pool, &b));
        lf_prefix_cache_check(f->cache);
    }
    assert_int_equal(match(f, f->ids, DOC_BLOCKS * T), 0);
}

static void blocks_behind_an_evicted_one_come_back_with_it(void **state)
{
    struct fixture *f = *state;
    enter(f, 3);
    lf_block_pool_put(&f->pool, f->blocks[0]); /* only the first has no reference */
    int32_t b;
    for (int i = 0; i < N_BLOCKS - 3; i++) assert_true(lf_block_pool_take(&f->pool, &b));
    assert_true(lf_block_pool_take(&f->pool, &b));
    assert_int_equal(b, f->blocks[0]);
    assert_int_equal(match(f, f->ids, 3 * T), 0);
    struct lf_prefix_key key;
    insert(f->cache, &f->root, f->ids, b, &key);
    assert_int_equal(match(f, f->ids, 3 * T), 3);
}

static void clear_forgets_everything_and_frees_what_is_unused(void **state)
{
    struct fixture *f = *state;
    enter(f, 3);
    lf_block_pool_put(&f->pool, f->blocks[2]);
    lf_prefix_cache_clear(f->cache);
    assert_int_equal(match(f, f->ids, 3 * T), 0);
    assert_int_equal(f->pool.n_cached, 0);
    assert_int_equal(f->pool.n_free, N_BLOCKS - 2);
    lf_block_pool_put(&f->pool, f->blocks[0]);
    assert_int_equal(f->pool.n_free, N_BLOCKS - 1);
}

/* Many short documents through a small pool: every eviction goes through the table's deletion. */
static void the_table_survives_endless_turnover(void **state)
{
    struct fixture *f = *state;
    int32_t ids[T] = {0}, b, again;
    for (int i = 0; i < 5000; i++) {
        struct lf_prefix_key key;
        ids[0] = i;
        assert_true(lf_block_pool_take(&f->pool, &b));
        insert(f->cache, &f->root, ids, b, &key);
        lf_block_pool_put(&f->pool, b);
        for (int back = 0; back < N_BLOCKS + 2 && back <= i; back++) {
            ids[0] = i - back;
            int n = find_leading(f->cache, &f->root, ids, T, 1, &again);
            assert_int_equal(n, back < N_BLOCKS ? 1 : 0);
        }
        lf_prefix_cache_check(f->cache);
    }
}

/* ---- groups ---- */

static int32_t enter_in(struct fixture *f, int group, bool passes)
{
    struct lf_prefix_key chain, key;
    int32_t block;
    lf_prefix_key_next(&f->root, f->ids, T, &chain);
    key = lf_prefix_group_key(&chain, group);
    assert_true(lf_block_pool_take(&f->pool, &block));
    lf_prefix_cache_insert_key(f->cache, &f->root, &key, f->ids, block,
                               (struct lf_prefix_origin){.group = (uint16_t)group, .passes = passes});
    return block;
}

static int32_t find_in(const struct fixture *f, int group)
{
    struct lf_prefix_key chain, key;
    lf_prefix_key_next(&f->root, f->ids, T, &chain);
    key = lf_prefix_group_key(&chain, group);
    return lf_prefix_cache_find(f->cache, &f->root, &key, f->ids);
}

static void the_same_tokens_are_another_block_in_each_group(void **state)
{
    struct fixture *f = *state;
    struct lf_prefix_key chain;
    static const int groups[] = {0, 1, 2, 256, 257, LF_PREFIX_GROUPS_N - 1}; /* parts of states have large ones */
    int32_t blocks[LF_N_ELEMS(groups)];
    lf_prefix_key_next(&f->root, f->ids, T, &chain);
    for (size_t i = 0; i < LF_N_ELEMS(groups); i++) blocks[i] = enter_in(f, groups[i], false);
    for (size_t i = 0; i < LF_N_ELEMS(groups); i++) {
        int g = groups[i];
        assert_int_equal(find_in(f, g), blocks[i]);
        assert_int_equal(lf_prefix_cache_entry(f->cache, blocks[i]).origin.group, g);
        assert_int_equal(lf_prefix_cache_count_in(f->cache, g, &chain, 1), 1);
        lf_block_pool_put(&f->pool, blocks[i]);
    }
    assert_int_equal(find_in(f, 3), -1);
    assert_int_equal(lf_prefix_cache_count_in(f->cache, 3, &chain, 1), 0);
    assert_int_equal(lf_prefix_cache_count(f->cache, &chain, 1), 1);
}

static void note_entered(void *ctx, int32_t block)
{
    *(int32_t *)ctx = block;
}

static void what_passes_is_found_until_it_is_forgotten_and_is_not_told(void **state)
{
    struct fixture *f = *state;
    int32_t told = -1, b;
    lf_prefix_cache_on_enter(f->cache, note_entered, &told);
    b = enter_in(f, 1, true);
    assert_int_equal(told, -1);
    assert_int_equal(find_in(f, 1), b);
    assert_true(lf_prefix_cache_passes(f->cache, b));
    lf_prefix_cache_forget(f->cache, b);
    assert_int_equal(find_in(f, 1), -1);
    assert_false(lf_prefix_cache_passes(f->cache, b));
    lf_block_pool_put(&f->pool, b);
    assert_int_equal(f->pool.n_free, N_BLOCKS);
}

static void what_is_kept_does_not_pass_any_more_and_is_told(void **state)
{
    struct fixture *f = *state;
    int32_t told = -1, b;
    lf_prefix_cache_on_enter(f->cache, note_entered, &told);
    b = enter_in(f, 1, true);
    lf_prefix_cache_keep(f->cache, b);
    assert_int_equal(told, b);
    assert_false(lf_prefix_cache_passes(f->cache, b));
    told = -1;
    lf_prefix_cache_keep(f->cache, b);
    assert_int_equal(told, -1); /* once */
    lf_block_pool_put(&f->pool, b);
    assert_int_equal(f->pool.n_cached, 1);
}

static void one_that_passes_is_kept_when_the_same_is_entered_to_stay(void **state)
{
    struct fixture *f = *state;
    int32_t b = enter_in(f, 1, true), other = enter_in(f, 1, false);
    assert_int_equal(find_in(f, 1), b);
    assert_false(lf_prefix_cache_passes(f->cache, b));
    lf_block_pool_put(&f->pool, other);
    lf_block_pool_put(&f->pool, b);
    assert_int_equal(f->pool.n_cached, 1);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(an_empty_cache_matches_nothing),
        CASE(entered_blocks_are_found_in_order_and_only_whole),
        CASE(blocks_may_have_more_ids),
        CASE(tiers_know_a_block_by_64_numbers),
        CASE(a_match_ends_at_the_first_difference),
        CASE(the_same_block_behind_another_text_is_not_found),
        CASE(another_salt_or_model_finds_nothing),
        CASE(the_same_tokens_are_another_block_in_each_group),
        CASE(what_passes_is_found_until_it_is_forgotten_and_is_not_told),
        CASE(what_is_kept_does_not_pass_any_more_and_is_told),
        CASE(one_that_passes_is_kept_when_the_same_is_entered_to_stay),
        cmocka_unit_test(a_table_is_as_large_as_it_needs_to_be),
        cmocka_unit_test(many_blocks_are_found_at_once),
        CASE(equal_content_is_entered_once),
        CASE(a_collision_is_a_miss),
        CASE(an_evicted_end_leaves_the_beginning),
        CASE(blocks_behind_an_evicted_one_come_back_with_it),
        CASE(clear_forgets_everything_and_frees_what_is_unused),
        CASE(the_table_survives_endless_turnover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
