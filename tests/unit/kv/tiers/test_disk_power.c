/* The power goes at any operation, and the disk has written what it likes of what was not synced: what is listed
 * afterwards is whole, and what was listed before is still there but for what had to make room. */
#include "tests/support/disk_blocks.h"

enum { N_SLOTS = 6, N_BLOCKS = 14, N_PUTS = 12 };

static struct test_block blocks[N_BLOCKS];

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < N_BLOCKS; i++) test_block_make(&blocks[i], (uint64_t)i);
    return 0;
}

/* A few random blocks at once; false where the disk failed. */
static bool put_some(struct lf_disk_table *t, uint64_t seed)
{
    struct lf_disk_block batch[4];
    uint32_t n = 1 + (uint32_t)(lf_random64(seed, 0) % 4), n_listed;
    for (uint32_t i = 0; i < n; i++) batch[i] = test_block_of(&blocks[lf_random64(seed, 1 + i) % N_BLOCKS]);
    enum lf_status status = lf_disk_table_put(t, batch, n, &n_listed, NULL);
    lf_disk_table_check(t);
    if (status == LF_OK) assert_int_equal(n_listed, n);
    return status == LF_OK;
}

/* Runs random puts until the power goes; which blocks are listed then in memory, as a set of bits. */
static uint32_t run_until_loss(struct fake_disk *disk, uint64_t seed)
{
    uint32_t listed = 0;
    struct lf_disk_table *t = test_table_open(disk, N_SLOTS);
    for (uint64_t i = 0; i < N_PUTS && put_some(t, seed * N_PUTS + i); i++) continue;
    for (int i = 0; i < N_BLOCKS; i++) listed |= test_table_has(t, &blocks[i]) ? 1u << i : 0;
    lf_disk_table_close(t);
    return listed;
}

/* What the disk lists is whole, and holds all of `before`. */
static void check_after(struct fake_disk *disk, uint32_t before)
{
    struct lf_disk_table *t = test_table_open(disk, N_SLOTS);
    struct lf_disk_table_stats stats;
    for (int i = 0; i < N_BLOCKS; i++) {
        bool must = before & 1u << i;
        enum lf_status status = test_table_read(t, &blocks[i]);
        if (status != LF_OK && (must || status != LF_NOT_FOUND)) fail_msg("block %d: %s", i, lf_status_name(status));
    }
    lf_disk_table_stats(t, &stats);
    assert_int_equal(stats.n_dropped, 0);
    for (uint64_t i = 0; i < 3; i++) assert_true(put_some(t, 77 + i)); /* and it goes on */
    lf_disk_table_close(t);
}

static void at_every_operation(void **state)
{
    (void)state;
    int n_losses = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        for (long at = 2;; at++) { /* the two files have got their lengths */
            struct fake_disk disk;
            fake_disk_init(&disk);
            disk.fails_at = at;
            uint32_t listed = run_until_loss(&disk, seed);
            bool lost = disk.n_ops >= at;
            fake_disk_power_loss(&disk, (enum fake_disk_loss)(at % 3 == 0 ? seed % 2 : FAKE_DISK_LOSES_SOME),
                                 seed * 1000 + (uint64_t)at);
            check_after(&disk, listed);
            fake_disk_deinit(&disk);
            n_losses++;
            if (!lost) break;
        }
    }
    print_message("%d losses of power\n", n_losses);
    assert_true(n_losses > 2000);
}

/* One operation fails: that batch is not listed, the next one may be, and what a loss of power finds is whole. */
static void a_disk_that_fails_once_goes_on(void **state)
{
    (void)state;
    for (int failure = 0; failure < 2; failure++) {
        for (long at = 2; at < 60; at++) {
            struct fake_disk disk;
            fake_disk_init(&disk);
            disk.fails_at = at;
            disk.fails_n = 1;
            disk.failure = failure ? LF_FULL : LF_IO;
            struct lf_disk_table *t = test_table_open(&disk, N_SLOTS);
            int n_failed = 0;
            for (uint64_t i = 0; i < N_PUTS; i++) n_failed += put_some(t, (uint64_t)at * N_PUTS + i) ? 0 : 1;
            assert_true(n_failed <= 1);
            uint32_t listed = 0;
            for (int i = 0; i < N_BLOCKS; i++) {
                enum lf_status status = test_table_read(t, &blocks[i]);
                assert_true(status == LF_OK || status == LF_NOT_FOUND);
                listed |= status == LF_OK ? 1u << i : 0;
            }
            lf_disk_table_close(t);
            fake_disk_power_loss(&disk, FAKE_DISK_LOSES_SOME, (uint64_t)at);
            check_after(&disk, listed);
            fake_disk_deinit(&disk);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_operation),
        cmocka_unit_test(a_disk_that_fails_once_goes_on),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
