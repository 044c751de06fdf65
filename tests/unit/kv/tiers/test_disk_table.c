#include <pthread.h>

#include "tests/support/disk_blocks.h"
#include "tests/support/temp_dir.h"

enum { N_SLOTS = 4, N_BLOCKS = 12 };

struct fixture {
    struct fake_disk disk;
    struct lf_disk_table *table;
    struct test_block blocks[N_BLOCKS];
};

static int setup(void **state)
{
    static struct fixture f;
    fake_disk_init(&f.disk);
    for (int i = 0; i < N_BLOCKS; i++) test_block_make(&f.blocks[i], (uint64_t)i);
    f.table = test_table_open(&f.disk, N_SLOTS);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    lf_disk_table_check(f->table);
    lf_disk_table_close(f->table);
    fake_disk_deinit(&f->disk);
    return 0;
}

static void reopen(struct fixture *f, uint32_t n_slots)
{
    lf_disk_table_close(f->table);
    f->table = test_table_open(&f->disk, n_slots);
}

static struct lf_disk_table_stats stats_of(const struct fixture *f)
{
    struct lf_disk_table_stats stats;
    lf_disk_table_stats(f->table, &stats);
    return stats;
}

static void a_block_comes_back_from_another_life(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(test_table_read(f->table, &f->blocks[0]), LF_NOT_FOUND);
    test_table_put(f->table, &f->blocks[0]);
    assert_int_equal(test_table_read(f->table, &f->blocks[0]), LF_OK);
    reopen(f, N_SLOTS);
    assert_int_equal(test_table_read(f->table, &f->blocks[0]), LF_OK);
    assert_int_equal(test_table_read(f->table, &f->blocks[1]), LF_NOT_FOUND);
}

static void the_least_recently_used_makes_room(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) test_table_put(f->table, &f->blocks[i]);
    assert_true(test_table_has(f->table, &f->blocks[0])); /* used: block 1 is the oldest now */
    test_table_put(f->table, &f->blocks[2]);              /* there already, which is a use as well */
    test_table_put(f->table, &f->blocks[4]);
    test_table_put(f->table, &f->blocks[5]);
    const bool there[] = {true, false, true, false, true, true};
    for (int i = 0; i < 6; i++) assert_int_equal(test_table_has(f->table, &f->blocks[i]), there[i]);
    assert_int_equal(stats_of(f).n_evicted, 2);
}

/* After a restart the order is that in which the blocks were written. */
static void the_order_of_writes_survives(void **state)
{
    struct fixture *f = *state;
    for (int i = 5; i >= 0; i--) test_table_put(f->table, &f->blocks[i]); /* 3, 2, 1, 0 are left, in slots 2, 3, 0, 1 */
    reopen(f, N_SLOTS);
    test_table_put(f->table, &f->blocks[6]);
    assert_false(test_table_has(f->table, &f->blocks[3]));
    test_table_put(f->table, &f->blocks[7]);
    assert_false(test_table_has(f->table, &f->blocks[2]));
    assert_true(test_table_has(f->table, &f->blocks[0]));
}

static void what_somebody_holds_stays(void **state)
{
    struct fixture *f = *state;
    int32_t held[N_SLOTS];
    for (int i = 0; i < N_SLOTS; i++) {
        test_table_put(f->table, &f->blocks[i]);
        held[i] = lf_disk_table_get(f->table, &f->blocks[i].key);
    }
    assert_int_equal(lf_disk_table_get(f->table, &f->blocks[0].key), held[0]); /* a second reference */
    struct lf_disk_block two[] = {test_block_of(&f->blocks[8]), test_block_of(&f->blocks[3])};
    uint32_t n_listed;
    assert_int_equal(lf_disk_table_put(f->table, two, 2, &n_listed, NULL), LF_OK);
    assert_int_equal(n_listed, 1); /* block 3 is there; there is no room for block 8 */
    lf_disk_table_release(f->table, held[0]);
    assert_int_equal(lf_disk_table_put(f->table, two, 1, &n_listed, NULL), LF_OK);
    assert_int_equal(n_listed, 0);
    lf_disk_table_release(f->table, held[0]);
    test_table_put(f->table, &f->blocks[8]);
    assert_false(test_table_has(f->table, &f->blocks[0]));
    for (int i = 1; i < N_SLOTS; i++) lf_disk_table_release(f->table, held[i]);
}

static void what_is_pinned_makes_no_room(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_block pinned = test_block_of(&f->blocks[0]);
    uint32_t n_listed;
    pinned.pinned = true;
    assert_int_equal(lf_disk_table_put(f->table, &pinned, 1, &n_listed, NULL), LF_OK);
    test_table_put(f->table, &f->blocks[1]);
    lf_disk_table_pin(f->table, &f->blocks[1].key, true);
    lf_disk_table_pin(f->table, &f->blocks[1].key, true);  /* once is enough */
    lf_disk_table_pin(f->table, &f->blocks[11].key, true); /* not there: nothing */
    assert_int_equal(stats_of(f).n_pinned, 2);
    for (int i = 2; i < 10; i++) {
        test_table_put(f->table, &f->blocks[i]);
        assert_int_equal(test_table_read(f->table, &f->blocks[i % 2]), LF_OK); /* held and let go: still pinned */
        lf_disk_table_check(f->table);
    }
    assert_true(test_table_has(f->table, &f->blocks[0]) && test_table_has(f->table, &f->blocks[1]));
    lf_disk_table_pin(f->table, &f->blocks[0].key, false);
    assert_int_equal(stats_of(f).n_pinned, 1);
    for (int i = 2; i < 6; i++) test_table_put(f->table, &f->blocks[i]);
    assert_false(lf_disk_table_has(f->table, &f->blocks[0].key));
    assert_true(lf_disk_table_has(f->table, &f->blocks[1].key));
    reopen(f, N_SLOTS); /* who opens it says it again */
    assert_int_equal(stats_of(f).n_pinned, 0);
}

static void a_pinned_block_that_is_broken_goes_all_the_same(void **state)
{
    struct fixture *f = *state;
    test_table_put(f->table, &f->blocks[0]);
    lf_disk_table_pin(f->table, &f->blocks[0].key, true);
    f->disk.files[1].now[0] ^= 1;
    assert_int_equal(test_table_read(f->table, &f->blocks[0]), LF_CORRUPT);
    assert_int_equal(stats_of(f).n_pinned, 0);
    for (int i = 1; i <= N_SLOTS; i++) test_table_put(f->table, &f->blocks[i]);
    assert_int_equal(stats_of(f).n_listed, N_SLOTS);
}

/* Until all pins have been said nothing that was there goes. */
static void a_guarded_table_takes_what_there_are_free_slots_for(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < N_SLOTS - 1; i++) test_table_put(f->table, &f->blocks[i]);
    lf_disk_table_guard(f->table, true);
    struct lf_disk_block two[] = {test_block_of(&f->blocks[8]), test_block_of(&f->blocks[9])};
    uint32_t n_listed;
    assert_int_equal(lf_disk_table_put(f->table, two, 2, &n_listed, NULL), LF_OK);
    assert_int_equal(n_listed, 1);
    for (int i = 0; i < N_SLOTS - 1; i++) assert_true(lf_disk_table_has(f->table, &f->blocks[i].key));
    lf_disk_table_guard(f->table, false);
    assert_int_equal(lf_disk_table_put(f->table, &two[1], 1, &n_listed, NULL), LF_OK);
    assert_int_equal(n_listed, 1);
}

static void put_of(struct fixture *f, int i, uint64_t tenant, uint32_t depth)
{
    struct lf_disk_block block = test_block_of(&f->blocks[i]);
    uint32_t n_listed;
    block.origin = (struct lf_prefix_origin){.tenant = tenant, .depth = depth};
    assert_int_equal(lf_disk_table_put(f->table, &block, 1, &n_listed, NULL), LF_OK);
    assert_int_equal(n_listed, 1);
    lf_disk_table_check(f->table);
}

/* Whose a block is and how deep it lies is on disk, so a restart changes nothing. */
static void a_tenant_has_his_part_and_the_dear_stay_longer(void **state)
{
    struct fixture *f = *state;
    put_of(f, 0, 7, 0);
    put_of(f, 1, 9, 1 << 20);
    put_of(f, 2, 9, 0);
    put_of(f, 3, 9, 0);
    reopen(f, N_SLOTS);
    put_of(f, 4, 7, 0);
    assert_false(lf_disk_table_has(f->table, &f->blocks[2].key)); /* of the three of 9's the cheap one that is older */
    put_of(f, 5, 9, 0);
    put_of(f, 6, 9, 0);
    assert_true(lf_disk_table_has(f->table, &f->blocks[1].key));
    assert_true(lf_disk_table_has(f->table, &f->blocks[0].key) || lf_disk_table_has(f->table, &f->blocks[4].key));
}

static void what_is_asked_for_stays(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < N_SLOTS; i++) put_of(f, i, 0, 0);
    lf_disk_table_use(f->table, &f->blocks[0].key);
    lf_disk_table_use(f->table, &f->blocks[11].key); /* not there: nothing */
    for (int i = N_SLOTS; i < N_SLOTS + 2; i++) put_of(f, i, 0, 0);
    assert_true(lf_disk_table_has(f->table, &f->blocks[0].key));
    assert_false(lf_disk_table_has(f->table, &f->blocks[1].key));
    assert_false(lf_disk_table_has(f->table, &f->blocks[2].key));
}

/* A reader keeps its slot though the block was dropped under it; then the slot is free. */
static void a_dropped_block_that_is_held(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[SLOT_BYTES];
    const struct test_block *b = &f->blocks[0];
    test_table_put(f->table, b);
    int32_t first = lf_disk_table_get(f->table, &b->key), second = lf_disk_table_get(f->table, &b->key);
    f->disk.files[1].now[0] ^= 1;
    assert_int_equal(lf_disk_table_read(f->table, first, &b->prev, b->ids, bytes, NULL), LF_CORRUPT);
    assert_int_equal(lf_disk_table_read(f->table, second, &b->prev, b->ids, bytes, NULL), LF_CORRUPT);
    assert_int_equal(stats_of(f).n_dropped, 1);
    for (int i = 1; i <= N_SLOTS; i++) test_table_put(f->table, &f->blocks[i]); /* three slots for four */
    assert_false(test_table_has(f->table, &f->blocks[1]));
    lf_disk_table_release(f->table, first);
    lf_disk_table_release(f->table, second);
    test_table_put(f->table, b);
    assert_int_equal(test_table_read(f->table, b), LF_OK);
    assert_int_equal(stats_of(f).n_listed, 4);
}

static void other_tokens_are_not_served(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[SLOT_BYTES];
    for (int which = 0; which < 2; which++) {
        struct test_block other = f->blocks[0];
        test_table_put(f->table, &f->blocks[0]);
        if (which)
            other.ids[63]++;
        else
            other.prev.bytes[31]++;
        int32_t slot = lf_disk_table_get(f->table, &f->blocks[0].key);
        assert_int_equal(lf_disk_table_read(f->table, slot, &other.prev, other.ids, bytes, NULL), LF_CORRUPT);
        lf_disk_table_release(f->table, slot);
    }
}

/* A budget that has become smaller, and larger: what lies beyond is forgotten, the rest stays. */
static void fewer_slots_and_more(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) test_table_put(f->table, &f->blocks[i]);
    reopen(f, 2);
    assert_int_equal(f->disk.files[0].n, 2 * LF_DISK_RECORD_BYTES);
    assert_int_equal(f->disk.files[1].n, 2 * SLOT_BYTES);
    assert_int_equal(stats_of(f).n_listed, 2);
    reopen(f, 6);
    assert_int_equal(test_table_read(f->table, &f->blocks[0]), LF_OK);
    assert_int_equal(test_table_read(f->table, &f->blocks[1]), LF_OK);
    assert_int_equal(test_table_read(f->table, &f->blocks[2]), LF_NOT_FOUND);
    for (int i = 2; i < 6; i++) test_table_put(f->table, &f->blocks[i]);
    assert_int_equal(stats_of(f).n_listed, 6);
}

static void one_batch_may_name_a_block_twice(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_block three[] = {test_block_of(&f->blocks[0]), test_block_of(&f->blocks[0]),
                                    test_block_of(&f->blocks[1])};
    uint32_t n_listed;
    assert_int_equal(lf_disk_table_put(f->table, three, 3, &n_listed, NULL), LF_OK);
    assert_int_equal(stats_of(f).n_listed, 2);
    reopen(f, N_SLOTS);
    assert_int_equal(stats_of(f).n_listed, 2);
    assert_int_equal(test_table_read(f->table, &f->blocks[0]), LF_OK);
}

static void files_that_fail_to_open(void **state)
{
    struct fixture *f = *state;
    for (int at = 0; at < 2; at++) {
        struct fake_disk disk;
        struct lf_disk_table *t = NULL;
        fake_disk_init(&disk);
        disk.fails_at = at;
        disk.failure = LF_FULL;
        assert_int_equal(
            lf_disk_table_open(&t, fake_disk_file(&disk, 0), fake_disk_file(&disk, 1), N_SLOTS, BLOCK_BYTES, NULL),
            LF_FULL);
        fake_disk_deinit(&disk); /* both files are closed */
    }
    assert_true(lf_disk_table_host_bytes(1000) > 1000 * 64);
    test_table_put(f->table, &f->blocks[0]);
}

static enum lf_status refuse_read(struct lf_disk_file *file, void *dst, size_t n, uint64_t at, struct lf_err *err)
{
    (void)file;
    (void)dst;
    (void)n;
    (void)at;
    return lf_fail(err, LF_IO, "a sector that cannot be read");
}

static void an_index_that_cannot_be_read_is_no_empty_one(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_table *t = NULL;
    struct fake_disk disk;
    fake_disk_init(&disk);
    struct lf_disk_file *index = fake_disk_file(&disk, 0);
    struct lf_disk_file_ops ops = *index->ops;
    ops.read = refuse_read;
    index->ops = &ops;
    assert_int_equal(lf_disk_table_open(&t, index, fake_disk_file(&disk, 1), N_SLOTS, BLOCK_BYTES, NULL), LF_IO);
    fake_disk_deinit(&disk);
    test_table_put(f->table, &f->blocks[0]);
}

/* More records than are read at once. */
static void a_long_index_is_read_to_its_end(void **state)
{
    struct fixture *f = *state;
    enum { MANY = 4200 };
    reopen(f, MANY);
    assert_int_equal(stats_of(f).n_slots, MANY);
    test_table_put(f->table, &f->blocks[0]);
    memcpy(f->disk.files[0].now + (size_t)(MANY - 1) * LF_DISK_RECORD_BYTES, "no record", 9);
    memcpy(f->disk.files[0].now + (size_t)3000 * LF_DISK_RECORD_BYTES, "no record", 9);
    reopen(f, MANY);
    assert_int_equal(stats_of(f).n_broken, 2);
    assert_int_equal(test_table_read(f->table, &f->blocks[0]), LF_OK);
}

enum { ROUNDS_N = 300, THREADS_N = 4 };

struct user {
    struct fixture *f;
    struct lf_disk_table *table;
    uint64_t seed;
    long n_read;
};

static void *use(void *arg)
{
    struct user *u = arg;
    uint8_t bytes[SLOT_BYTES];
    for (uint64_t i = 0; i < ROUNDS_N; i++) {
        const struct test_block *b = &u->f->blocks[lf_random64(u->seed, i) % N_BLOCKS];
        struct lf_disk_block block = test_block_of(b);
        uint32_t n_listed;
        if (i % 3 == 0 && lf_disk_table_put(u->table, &block, 1, &n_listed, NULL) != LF_OK) abort();
        int32_t slot = lf_disk_table_get(u->table, &b->key);
        if (slot < 0) continue;
        if (lf_disk_table_read(u->table, slot, &b->prev, b->ids, bytes, NULL) != LF_OK) abort();
        if (memcmp(bytes, b->bytes, BLOCK_BYTES) != 0) abort();
        lf_disk_table_release(u->table, slot);
        u->n_read++;
    }
    return NULL;
}

/* On real files: the fake disk's are for one thread. */
static void several_threads(void **state)
{
    struct fixture *f = *state;
    struct temp_dir dir = temp_dir_make();
    char path[2][512];
    struct lf_disk_file *files[2];
    struct lf_disk_table *table;
    pthread_t threads[THREADS_N];
    struct user users[THREADS_N];
    struct lf_disk_table_stats stats;
    long n_read = 0;
    for (int i = 0; i < 2; i++) {
        temp_dir_path(&dir, i ? "data" : "index", path[i]);
        assert_int_equal(lf_disk_file_open(&files[i], path[i], false, NULL), LF_OK);
    }
    assert_int_equal(lf_disk_table_open(&table, files[0], files[1], N_SLOTS, BLOCK_BYTES, NULL), LF_OK);
    for (int i = 0; i < THREADS_N; i++) {
        users[i] = (struct user){f, table, 50 + (uint64_t)i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < THREADS_N; i++) {
        pthread_join(threads[i], NULL);
        n_read += users[i].n_read;
    }
    assert_true(n_read > ROUNDS_N / 4);
    lf_disk_table_stats(table, &stats);
    assert_int_equal(stats.n_dropped, 0);
    assert_true(stats.n_evicted > 0);
    lf_disk_table_check(table);
    lf_disk_table_close(table);
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_block_comes_back_from_another_life, setup, teardown),
        cmocka_unit_test_setup_teardown(the_least_recently_used_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(the_order_of_writes_survives, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tenant_has_his_part_and_the_dear_stay_longer, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_pinned_makes_no_room, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pinned_block_that_is_broken_goes_all_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(a_guarded_table_takes_what_there_are_free_slots_for, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_asked_for_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(what_somebody_holds_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dropped_block_that_is_held, setup, teardown),
        cmocka_unit_test_setup_teardown(other_tokens_are_not_served, setup, teardown),
        cmocka_unit_test_setup_teardown(fewer_slots_and_more, setup, teardown),
        cmocka_unit_test_setup_teardown(one_batch_may_name_a_block_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(files_that_fail_to_open, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_that_cannot_be_read_is_no_empty_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_index_is_read_to_its_end, setup, teardown),
        cmocka_unit_test_setup_teardown(several_threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
