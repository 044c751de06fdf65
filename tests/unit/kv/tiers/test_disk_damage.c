/* Files that are not what was written: a bit flipped anywhere, cut, swapped, another store's. What is read is what was
 * put, or nothing. */
#include "tests/support/disk_blocks.h"

enum { N_SLOTS = 5, FLIPS_N = 10000 };

static struct test_block blocks[N_SLOTS];

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < N_SLOTS; i++) test_block_make(&blocks[i], 100 + (uint64_t)i);
    return 0;
}

static void write_all(struct fake_disk *disk)
{
    fake_disk_init(disk);
    struct lf_disk_table *t = test_table_open(disk, N_SLOTS);
    for (int i = 0; i < N_SLOTS; i++) test_table_put(t, &blocks[i]);
    lf_disk_table_close(t);
}

/* How many blocks a store with these files still has; test_table_read compares their bytes. */
static int n_read(struct fake_disk *disk)
{
    int n = 0;
    struct lf_disk_table *t = test_table_open(disk, N_SLOTS);
    for (int i = 0; i < N_SLOTS; i++) n += test_table_read(t, &blocks[i]) == LF_OK ? 1 : 0;
    lf_disk_table_check(t);
    lf_disk_table_close(t);
    return n;
}

static void a_bit_flipped_anywhere(void **state)
{
    (void)state;
    struct fake_disk disk;
    int n_lost = 0;
    write_all(&disk);
    for (uint64_t i = 0; i < FLIPS_N; i++) {
        struct fake_disk_bytes *file = &disk.files[lf_random64(i, 0) % 2];
        uint64_t bit = lf_random64(i, 1) % (8 * file->n);
        file->now[bit / 8] ^= (uint8_t)(1 << bit % 8);
        int n = n_read(&disk);
        assert_true(n >= N_SLOTS - 1);
        if (file == &disk.files[0]) assert_int_equal(n, N_SLOTS - 1); /* every byte of a record counts */
        n_lost += N_SLOTS - n;
        file->now[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(n_read(&disk), N_SLOTS);
    print_message("%d flips: %d blocks dropped, none served wrong\n", FLIPS_N, n_lost);
    assert_true(n_lost > FLIPS_N / 2); /* a flip behind a block, where its slot is filled up, does no harm */
    fake_disk_deinit(&disk);
}

/* It is gone at once, counted, and can be put anew. */
static void what_is_broken_is_dropped_and_put_again(void **state)
{
    (void)state;
    struct fake_disk disk;
    struct lf_disk_table_stats stats;
    write_all(&disk);
    struct lf_disk_table *t = test_table_open(&disk, N_SLOTS);
    disk.files[1].now[2 * SLOT_BYTES + 17] ^= 1;
    assert_int_equal(test_table_read(t, &blocks[2]), LF_CORRUPT);
    assert_int_equal(test_table_read(t, &blocks[2]), LF_NOT_FOUND);
    lf_disk_table_stats(t, &stats);
    assert_int_equal(stats.n_dropped, 1);
    assert_int_equal(stats.n_listed, N_SLOTS - 1);
    test_table_put(t, &blocks[2]);
    assert_int_equal(test_table_read(t, &blocks[2]), LF_OK);
    lf_disk_table_close(t);
    assert_int_equal(n_read(&disk), N_SLOTS);
    fake_disk_deinit(&disk);
}

/* A record that was misread may be whole the next time: it goes before its slot has other bytes. */
static void a_broken_record_is_cleared_before_its_slot_is_written(void **state)
{
    (void)state;
    static const uint8_t zeros[LF_DISK_RECORD_BYTES];
    struct fake_disk disk;
    struct test_block other;
    uint32_t n_listed;
    write_all(&disk);
    test_block_make(&other, 7);
    disk.files[0].now[2 * LF_DISK_RECORD_BYTES + 17] ^= 1;
    struct lf_disk_table *t = test_table_open(&disk, N_SLOTS);
    struct lf_disk_block block = test_block_of(&other);
    disk.fails_at = disk.n_ops + 3; /* behind the zeros, their sync, and the slot */
    assert_int_not_equal(lf_disk_table_put(t, &block, 1, &n_listed, NULL), LF_OK);
    assert_memory_equal(disk.files[1].now + 2 * SLOT_BYTES, other.bytes, BLOCK_BYTES);
    assert_memory_equal(disk.files[0].synced + 2 * LF_DISK_RECORD_BYTES, zeros, sizeof(zeros));
    lf_disk_table_close(t);
    fake_disk_deinit(&disk);
}

static void swap(uint8_t *a, uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}

static void records_and_slots_in_others_places(void **state)
{
    (void)state;
    struct fake_disk disk;
    write_all(&disk);
    swap(disk.files[0].now, disk.files[0].now + 512, 512);
    assert_int_equal(n_read(&disk), N_SLOTS - 2);
    swap(disk.files[0].now, disk.files[0].now + 512, 512);
    swap(disk.files[1].now + SLOT_BYTES, disk.files[1].now + 3 * SLOT_BYTES, SLOT_BYTES);
    assert_int_equal(n_read(&disk), N_SLOTS - 2);
    fake_disk_deinit(&disk);
}

/* Opening gives the files their lengths again; what was cut off reads as zeros. */
static void files_that_were_cut(void **state)
{
    (void)state;
    for (size_t left = 0; left < N_SLOTS * SLOT_BYTES; left += 1111) {
        struct fake_disk disk;
        write_all(&disk);
        disk.files[1].n = left;
        int whole = 0;
        while (whole < N_SLOTS && (size_t)whole * SLOT_BYTES + BLOCK_BYTES <= left) whole++;
        assert_int_equal(n_read(&disk), whole);
        fake_disk_deinit(&disk);
    }
    for (size_t left = 0; left < N_SLOTS * LF_DISK_RECORD_BYTES; left += 111) {
        struct fake_disk disk;
        write_all(&disk);
        disk.files[0].n = left;
        assert_int_equal(n_read(&disk), left / LF_DISK_RECORD_BYTES);
        fake_disk_deinit(&disk);
    }
}

static void a_file_that_is_cut_while_it_is_open(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fake_disk disk;
        struct lf_disk_table_stats stats;
        write_all(&disk);
        struct lf_disk_table *t = test_table_open(&disk, N_SLOTS);
        size_t n = disk.files[i].n;
        disk.files[i].n = n - 1;
        for (int b = 0; b < N_SLOTS; b++)
            assert_int_equal(test_table_read(t, &blocks[b]), b < N_SLOTS - 1 ? LF_OK : LF_CORRUPT);
        assert_int_equal(test_table_read(t, &blocks[N_SLOTS - 1]), LF_NOT_FOUND);
        lf_disk_table_stats(t, &stats);
        assert_int_equal(stats.n_dropped, 1);
        disk.files[i].n = n;
        lf_disk_table_close(t);
        fake_disk_deinit(&disk);
    }
}

/* Two slots that say they hold the same block: the record that was written last counts. */
static void the_newer_of_two_records_counts(void **state)
{
    (void)state;
    struct fake_disk disk;
    struct lf_disk_record r;
    write_all(&disk);
    assert_int_equal(lf_disk_record_decode(&r, 1, disk.files[0].now + 512), LF_DISK_RECORD_WHOLE);
    r.sequence = 99;
    lf_disk_record_encode(&r, 4, disk.files[0].now + (size_t)4 * 512);
    memcpy(disk.files[1].now + (size_t)4 * SLOT_BYTES, disk.files[1].now + SLOT_BYTES, SLOT_BYTES);
    memset(disk.files[1].now + SLOT_BYTES, 0, SLOT_BYTES); /* the older one's bytes are gone */
    assert_int_equal(n_read(&disk), N_SLOTS - 1);          /* all but the one that slot 4 held */
    fake_disk_deinit(&disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bit_flipped_anywhere),
        cmocka_unit_test(what_is_broken_is_dropped_and_put_again),
        cmocka_unit_test(a_broken_record_is_cleared_before_its_slot_is_written),
        cmocka_unit_test(records_and_slots_in_others_places),
        cmocka_unit_test(files_that_were_cut),
        cmocka_unit_test(a_file_that_is_cut_while_it_is_open),
        cmocka_unit_test(the_newer_of_two_records_counts),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
