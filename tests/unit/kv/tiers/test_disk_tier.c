/* Blocks go to the disk and come back, in whatever order; a load never stands behind many saves; the tier can go at any
 * moment. */
#include "tests/unit/kv/tiers/refusals.h"
#include "tests/unit/kv/tiers/tier_rig.h"

static struct rig rig;

static void blocks_come_back_bit_by_bit(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    rig_open(r, 64, 16, 2, 4);
    for (int i = 0; i < 16; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    for (int i = 0; i < 16; i++) assert_int_equal(rig_next(r, &number), LF_OK);
    for (int i = 0; i < 16; i++) assert_true(rig_has(r, i));
    assert_false(rig_has(r, 16));
    memset(r->cache, 0, sizeof(r->cache));
    for (int i = 0; i < 16; i++) rig_submit(r, LF_TIER_LOAD, i, 31 - i);
    for (int i = 0; i < 16; i++) assert_int_equal(rig_next(r, &number), LF_OK);
    for (int i = 0; i < 16; i++) assert_memory_equal(r->cache[31 - i], r->blocks[i].bytes, BLOCK_BYTES);
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 16), LF_INVALID);
    const struct lf_tier_stats s = rig_stats(r);
    assert_true(s.n_saved == 16 && s.n_loaded == 16 && s.n_save_failed == 0 && s.n_load_failed == 0);
    assert_true(s.saved_bytes == 16 * BLOCK_BYTES && s.loaded_bytes == 16 * BLOCK_BYTES);
    assert_true(s.works && s.n_rests == 0 && s.n_listed == 16 && s.n_slots == 64);
    rig_close(r);
}

/* What stands behind a block in its slot is nobody's memory. */
static void a_slot_ends_with_zeros(void **state)
{
    (void)state;
    struct rig *r = &rig;
    static const uint8_t zeros[SLOT_BYTES - BLOCK_BYTES];
    rig_open(r, 4, 1, 1, 1);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_OK);
    rig_stop(r);
    assert_memory_equal(r->gated.disk.files[1].now, r->blocks[0].bytes, BLOCK_BYTES);
    assert_memory_equal(r->gated.disk.files[1].now + BLOCK_BYTES, zeros, sizeof(zeros));
    rig_close(r);
}

/* What waits while the disk writes goes there at once: with the syncs of one batch, and not more than it holds. */
static void saves_that_wait_are_one_batch(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    rig_open(r, 64, 16, 1, 4);
    gated_disk_hold(&r->gated, GATED_WRITE, 1);
    rig_submit(r, LF_TIER_SAVE, 0, 0);
    assert_true(gated_disk_await_held(&r->gated, GATED_WRITE, 1));
    for (int i = 1; i < 9; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    long before = r->gated.disk.n_ops; /* nothing else is under way */
    gated_disk_release(&r->gated, GATED_WRITE);
    for (int i = 0; i < 9; i++) assert_int_equal(rig_next(r, &number), LF_OK);
    rig_stop(r);
    /* Each block: its slot and its record. Each batch (1, 4, 4): two syncs, as no record was there before. */
    assert_int_equal(r->gated.disk.n_ops - before, 2 * 9 + 2 * 3);
    rig_close(r);
}

static void a_block_that_is_there_already_is_saved(void **state)
{
    (void)state;
    struct rig *r = &rig;
    rig_open(r, 4, 4, 1, 4);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_OK);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_OK);
    assert_int_equal(gated_disk_n_begun(&r->gated, GATED_WRITE), 1);
    rig_close(r);
}

static void loads_overtake_each_other(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    rig_open(r, 8, 4, 2, 4);
    for (int i = 0; i < 3; i++) assert_int_equal(rig_run(r, LF_TIER_SAVE, i), LF_OK);
    gated_disk_hold(&r->gated, GATED_READ, 1);
    rig_submit(r, LF_TIER_LOAD, 0, 0);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
    for (int i = 1; i < 3; i++) {
        rig_submit(r, LF_TIER_LOAD, i, i);
        assert_int_equal(rig_next(r, &number), LF_OK);
        assert_int_equal(number, i);
    }
    assert_int_equal(lf_tier_n_under_way(r->tier), 1);
    gated_disk_release(&r->gated, GATED_READ);
    assert_int_equal(rig_next(r, &number), LF_OK);
    assert_int_equal(number, 0);
    rig_close(r);
}

static void jobs_run_out_and_come_back(void **state)
{
    (void)state;
    struct rig *r = &rig;
    struct lf_tier_job *jobs[4];
    rig_open(r, 8, 4, 1, 4);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) rig_submit(r, i % 2 ? LF_TIER_LOAD : LF_TIER_SAVE, i, i);
        assert_null(lf_tier_job(r->tier));
        assert_int_equal(lf_tier_n_under_way(r->tier), 4);
        for (int i = 0; i < 4; i++) jobs[i] = rig_await(r);
        assert_int_equal(lf_tier_n_under_way(r->tier), 0);
        assert_null(lf_tier_back(r->tier));
        assert_null(lf_tier_job(r->tier)); /* back, and not done with */
        for (int i = 0; i < 4; i++) lf_tier_done(r->tier, jobs[i]);
    }
    rig_close(r);
}

static void *stop(void *arg)
{
    struct rig *r = arg;
    lf_tier_stop(r->tier);
    return NULL;
}

/* A save and a load are on the disk, others wait: the two are finished, the others are not begun. */
static void stop_while_the_disk_works(struct rig *r)
{
    pthread_t thread;
    rig_open(r, 32, 16, 1, 2);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_OK);
    gated_disk_hold(&r->gated, GATED_WRITE, 1);
    rig_submit(r, LF_TIER_SAVE, 1, 1);
    assert_true(gated_disk_await_held(&r->gated, GATED_WRITE, 1));
    gated_disk_hold(&r->gated, GATED_READ, 1);
    rig_submit(r, LF_TIER_LOAD, 0, 10);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
    for (int i = 2; i < 8; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    for (int i = 2; i < 8; i++) rig_submit(r, LF_TIER_LOAD, 0, i + 10);
    assert_int_equal(pthread_create(&thread, NULL, stop, r), 0);
    struct lf_tier_job *job = NULL; /* what waits comes back at once, and then nothing more is begun */
    for (int i = 0; i < 20000 && !job; i++, job = lf_tier_back(r->tier))
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    assert_non_null(job);
    assert_int_equal(job->status, LF_SHUTDOWN);
    lf_tier_done(r->tier, job);
    gated_disk_release(&r->gated, GATED_READ);
    gated_disk_release(&r->gated, GATED_WRITE);
    pthread_join(thread, NULL);
    for (int i = 0; i < 8; i++) assert_int_equal(test_table_has(r->table, &r->blocks[i]), i < 2);
    assert_memory_equal(r->cache[10], r->blocks[0].bytes, BLOCK_BYTES);
    for (int i = 12; i < 18; i++) assert_int_equal(r->cache[i][0], 0xee);
}

static void stopped_with_jobs_queued_and_under_way(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number, n_ok = 0;
    stop_while_the_disk_works(r);
    for (int i = 0; i < 13; i++) { /* of 14; one has been taken already */
        struct lf_tier_job *job = lf_tier_back(r->tier);
        assert_non_null(job);
        n_ok += job->status == LF_OK ? 1 : 0;
        assert_true(job->status == LF_OK || job->status == LF_SHUTDOWN);
        lf_tier_done(r->tier, job);
    }
    assert_int_equal(n_ok, 2);
    assert_int_equal(lf_tier_n_under_way(r->tier), 0);
    for (int way = 0; way < 2; way++) {
        rig_submit(r, (enum lf_tier_way)way, 0, 0);
        assert_int_equal(rig_next(r, &number), LF_SHUTDOWN);
    }
    lf_tier_stop(r->tier);
    rig_close(r);
}

static void destroyed_with_jobs_that_came_back_with_a_stop(void **state)
{
    (void)state;
    stop_while_the_disk_works(&rig);
    rig_close(&rig);
}

static void *destroy(void *arg)
{
    struct rig *r = arg;
    lf_tier_destroy(r->tier);
    return NULL;
}

static void destroyed_with_jobs_queued_and_under_way(void **state)
{
    (void)state;
    struct rig *r = &rig;
    pthread_t thread;
    rig_open(r, 32, 16, 1, 2);
    gated_disk_hold(&r->gated, GATED_WRITE, 1);
    for (int i = 0; i < 8; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    assert_true(gated_disk_await_held(&r->gated, GATED_WRITE, 1));
    assert_int_equal(pthread_create(&thread, NULL, destroy, r), 0);
    gated_disk_release(&r->gated, GATED_WRITE);
    pthread_join(thread, NULL);
    r->tier = NULL;
    assert_true(test_table_has(r->table, &r->blocks[0]));
    rig_close(r);
}

static void destroyed_with_jobs_that_are_back(void **state)
{
    (void)state;
    struct rig *r = &rig;
    rig_open(r, 8, 8, 2, 2);
    for (int i = 0; i < 3; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    while (rig_n_wakes(r) == 0) nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    rig_submit(r, LF_TIER_LOAD, 0, 9);
    rig_close(r);
}

static void every_slot_is_held(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int32_t held[4];
    int number;
    rig_open(r, 4, 4, 1, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(rig_run(r, LF_TIER_SAVE, i), LF_OK);
    for (int i = 0; i < 4; i++) held[i] = lf_disk_table_get(r->table, &r->blocks[i].key);
    gated_disk_hold(&r->gated, GATED_READ, 1); /* the saver waits for it, and takes both at once */
    rig_submit(r, LF_TIER_LOAD, 0, 8);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
    rig_submit(r, LF_TIER_SAVE, 4, 4);
    rig_submit(r, LF_TIER_SAVE, 3, 3); /* is there */
    gated_disk_release(&r->gated, GATED_READ);
    for (int i = 0; i < 3; i++) {
        enum lf_status status = rig_next(r, &number);
        assert_int_equal(status, number == 4 ? LF_FULL : LF_OK);
    }
    assert_true(lf_tier_works(r->tier));
    assert_int_equal(rig_stats(r).n_save_failed, 1);
    for (int i = 0; i < 4; i++) lf_disk_table_release(r->table, held[i]);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 4), LF_OK);
    rig_close(r);
}

static void a_broken_block_is_dropped_and_the_rest_goes_on(void **state)
{
    (void)state;
    struct rig *r = &rig;
    rig_open(r, 8, 4, 2, 4);
    for (int i = 0; i < 3; i++) assert_int_equal(rig_run(r, LF_TIER_SAVE, i), LF_OK);
    r->gated.disk.files[1].now[1 * SLOT_BYTES + 77] ^= 4;
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 1), LF_CORRUPT);
    for (int i = 0; i < BLOCK_BYTES; i++) assert_int_equal(r->cache[1][i], 0xee); /* no wrong byte arrives */
    assert_false(rig_has(r, 1));
    assert_true(lf_tier_works(r->tier));
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 0), LF_OK);
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 1), LF_INVALID);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 1), LF_OK);
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 1), LF_OK);
    const struct lf_tier_stats s = rig_stats(r);
    assert_true(s.n_load_failed == 1 && s.n_broken == 1 && s.n_rests == 0 && s.n_loaded == 2);
    rig_close(r);
}

/* Loads that wait together are taken together, whatever their order: four slots side by side are one read of their
 * bytes. What is broken among them, or not there, is that alone. */
static void neighbours_are_read_at_once(void **state)
{
    (void)state;
    static const int order[] = {5, 2, 7, 3, 20, 4};
    struct rig *r = &rig;
    int number;
    rig_open(r, 8, 8, 1, 4);
    for (int i = 0; i < 8; i++) assert_int_equal(rig_run(r, LF_TIER_SAVE, i), LF_OK);
    r->gated.disk.files[1].now[4 * SLOT_BYTES + 77] ^= 4;
    gated_disk_hold(&r->gated, GATED_READ, 1);
    rig_submit(r, LF_TIER_LOAD, 0, 0);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
    for (size_t i = 0; i < LF_N_ELEMS(order); i++) rig_submit(r, LF_TIER_LOAD, order[i], order[i]);
    long n_begun = gated_disk_n_begun(&r->gated, GATED_READ);
    gated_disk_release(&r->gated, GATED_READ);
    for (size_t i = 0; i < LF_N_ELEMS(order) + 1; i++) {
        enum lf_status status = rig_next(r, &number);
        assert_int_equal(status, number == 4 ? LF_CORRUPT : number == 20 ? LF_INVALID : LF_OK);
    }
    assert_int_equal(gated_disk_n_begun(&r->gated, GATED_READ) - n_begun, 2); /* of bytes: 2 to 5, and 7 */
    for (int i = 0; i < 8; i++) assert_int_equal(rig_has(r, i), i != 4);
    const struct lf_tier_stats s = rig_stats(r);
    assert_true(s.n_loaded == 5 && s.n_load_failed == 1 && s.n_broken == 1 && s.n_rests == 0);
    rig_close(r);
}

/* Of a run that fails each block is read alone: one that can be read is served, and when the disk fails again neither
 * the rest of the run nor what the loader has taken behind it is tried. */
static void what_is_behind_a_failure_is_not_tried(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    rig_open(r, 8, 8, 1, 4);
    for (int i = 0; i < 8; i++) assert_int_equal(rig_run(r, LF_TIER_SAVE, i), LF_OK);
    gated_disk_hold(&r->gated, GATED_READ, 1);
    rig_submit(r, LF_TIER_LOAD, 7, 7);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
    for (int i = 0; i < 6; i++)
        if (i != 4) rig_submit(r, LF_TIER_LOAD, i, i);
    assert_true(gated_disk_pass_one(&r->gated, GATED_READ, LF_OK)); /* 7; then 0 to 3 at once … */
    assert_true(gated_disk_pass_one(&r->gated, GATED_READ, LF_IO)); /* … which fail: 0 alone … */
    assert_true(gated_disk_pass_one(&r->gated, GATED_READ, LF_OK)); /* … can be read, 1 … */
    gated_disk_fail(&r->gated, GATED_READ, LF_IO);                  /* … cannot */
    gated_disk_release(&r->gated, GATED_READ);
    for (int i = 0; i < 6; i++) {
        enum lf_status status = rig_next(r, &number);
        assert_int_equal(status, number == 0 || number == 7 ? LF_OK : LF_IO);
    }
    assert_int_equal(gated_disk_n_begun(&r->gated, GATED_READ), 4);
    assert_true(rig_stats(r).n_loaded == 2 && rig_stats(r).n_rests == 1);
    rig_close(r);
}

/* Nothing half copied is listed or served. */
static void a_copy_that_fails_is_a_failure(void **state)
{
    (void)state;
    struct rig *r = &rig;
    rig_open(r, 8, 4, 2, 4);
    atomic_store(&r->copy_fails, LF_DEVICE);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_DEVICE);
    assert_false(rig_has(r, 0));
    now_ns += ms(64000);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_OK);
    atomic_store(&r->copy_fails, LF_DEVICE);
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 0), LF_DEVICE);
    now_ns += ms(64000);
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 0), LF_OK);
    assert_true(rig_stats(r).n_save_failed == 1 && rig_stats(r).n_load_failed == 1 && rig_stats(r).n_rests == 2);
    rig_close(r);
}

static void a_load_does_not_stand_behind_saves(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    rig_open(r, 64, 32, 1, 2);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_OK);
    gated_disk_hold(&r->gated, GATED_WRITE, 1);
    for (int i = 1; i < 20; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    assert_true(gated_disk_await_held(&r->gated, GATED_WRITE, 1));
    rig_submit(r, LF_TIER_LOAD, 0, 20);
    assert_int_equal(rig_next(r, &number), LF_OK); /* while the disk still writes */
    assert_int_equal(number, 0);
    gated_disk_release(&r->gated, GATED_WRITE);
    for (int i = 1; i < 20; i++) assert_int_equal(rig_next(r, &number), LF_OK);
    rig_close(r);
}

/* One load is on the disk all the time. No batch of saves begins beside it until four loads for each block of the batch
 * before have come back; then one does, and then none again. */
static void saves_wait_for_loads_but_not_for_ever(void **state)
{
    (void)state;
    struct rig *r = &rig;
    struct timespec a_while = {.tv_nsec = 30 * 1000 * 1000}; /* in which a saver that does not wait would have begun */
    int number;
    rig_open(r, 64, 32, 2, 2);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_OK);
    gated_disk_hold(&r->gated, GATED_READ, 1);
    rig_submit(r, LF_TIER_LOAD, 0, 0);
    assert_true(gated_disk_await_held(&r->gated, GATED_READ, 1));
    for (int i = 1; i < 6; i++) rig_submit(r, LF_TIER_SAVE, i, i);
    for (int n_batch = 1, n_written = 1; n_written < 5; n_written += n_batch) {
        for (int i = 0; i < 4 * n_batch; i++) {
            nanosleep(&a_while, NULL);
            assert_int_equal(gated_disk_n_begun(&r->gated, GATED_WRITE), n_written);
            rig_submit(r, LF_TIER_LOAD, 0, 10);
            assert_int_equal(rig_next(r, &number), LF_OK);
            assert_int_equal(number, 0);
        }
        n_batch = 2;
        for (int i = 0; i < n_batch; i++) assert_int_equal(rig_next(r, &number), LF_OK);
        assert_true(number > 0);
    }
    gated_disk_release(&r->gated, GATED_READ);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_next(r, &number), LF_OK); /* the load, and the save alone */
    assert_int_equal(gated_disk_n_begun(&r->gated, GATED_WRITE), 6);
    rig_close(r);
}

static void a_use_keeps_a_block_from_being_evicted(void **state)
{
    (void)state;
    struct rig *r = &rig;
    rig_open(r, 3, 4, 1, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(rig_run(r, LF_TIER_SAVE, i), LF_OK);
    lf_tier_use(r->tier, &r->blocks[0].key);
    lf_tier_use(r->tier, &r->blocks[3].key); /* not there: nothing */
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 1), LF_OK);
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 3), LF_OK);
    assert_false(rig_has(r, 2));
    assert_true(rig_has(r, 0) && rig_has(r, 1));
    assert_int_equal(rig_run(r, LF_TIER_LOAD, 2), LF_INVALID); /* gone since it was asked for */
    rig_close(r);
}

static void the_time_that_it_takes(void **state)
{
    (void)state;
    struct rig *r = &rig;
    int number;
    rig_open(r, 8, 4, 2, 1);
    gated_disk_hold(&r->gated, GATED_WRITE, 1);
    rig_submit(r, LF_TIER_SAVE, 0, 0);
    assert_true(gated_disk_await_held(&r->gated, GATED_WRITE, 1));
    now_ns += ms(5);
    assert_true(rig_stats(r).save_ns == 5e6);
    gated_disk_release(&r->gated, GATED_WRITE);
    assert_int_equal(rig_next(r, &number), LF_OK);
    now_ns += ms(100); /* idle */
    for (int i = 0; i < 2; i++) {
        gated_disk_hold(&r->gated, GATED_READ, 1);
        rig_submit(r, LF_TIER_LOAD, 0, i);
        assert_true(gated_disk_await_held(&r->gated, GATED_READ, i + 1));
        now_ns += ms(3 + i); /* of one, then of both at once */
    }
    gated_disk_release(&r->gated, GATED_READ);
    for (int i = 0; i < 2; i++) assert_int_equal(rig_next(r, &number), LF_OK);
    now_ns += ms(100);
    assert_true(rig_stats(r).save_ns == 5e6 && rig_stats(r).load_ns == 7e6);
    rig_close(r);
}

/* create takes what host_bytes says, and nothing is taken later. */
static void memory_is_what_it_says(void **state)
{
    (void)state;
    struct rig *r = &rig;
    rig_open(r, 8, 8, 3, 5);
    rig_stop(r);
    uint64_t before = allocated;
    assert_int_equal(lf_disk_tier_create(&r->tier, &r->opts, NULL), LF_OK);
    assert_int_equal(allocated - before, lf_disk_tier_host_bytes(&r->opts));
    before = allocated;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(rig_run(r, LF_TIER_SAVE, i), LF_OK);
        assert_int_equal(rig_run(r, LF_TIER_LOAD, i), LF_OK);
    }
    assert_int_equal(allocated, before);
    r->opts.batch_bytes = 0; /* one block */
    uint64_t one = lf_disk_tier_host_bytes(&r->opts);
    r->opts.batch_bytes = UINT64_MAX; /* 64 */
    assert_int_equal(lf_disk_tier_host_bytes(&r->opts) - one, (LF_DISK_BATCH_N - 1) * SLOT_BYTES);
    rig_close(r);
}

static void created_or_not_at_all(void **state)
{
    (void)state;
    struct rig *r = &rig;
    struct lf_err err;
    int n_refused = 0;
    rig_open(r, 4, 4, 3, 2);
    rig_stop(r);
    for (int i = 1;; i++, n_refused++) {
        fails_in = i;
        enum lf_status status = lf_disk_tier_create(&r->tier, &r->opts, &err);
        bool done = fails_in > 0;
        fails_in = 0;
        if (done) {
            assert_int_equal(status, LF_OK);
            break;
        }
        assert_int_equal(status, LF_NO_MEMORY);
        assert_null(r->tier);
    }
    assert_int_equal(n_refused, 4 + 3 + 4); /* memory, lock and conditions, threads */
    assert_int_equal(rig_run(r, LF_TIER_SAVE, 0), LF_OK);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_back_bit_by_bit),
        cmocka_unit_test(a_slot_ends_with_zeros),
        cmocka_unit_test(saves_that_wait_are_one_batch),
        cmocka_unit_test(a_block_that_is_there_already_is_saved),
        cmocka_unit_test(loads_overtake_each_other),
        cmocka_unit_test(jobs_run_out_and_come_back),
        cmocka_unit_test(stopped_with_jobs_queued_and_under_way),
        cmocka_unit_test(destroyed_with_jobs_that_came_back_with_a_stop),
        cmocka_unit_test(destroyed_with_jobs_queued_and_under_way),
        cmocka_unit_test(destroyed_with_jobs_that_are_back),
        cmocka_unit_test(every_slot_is_held),
        cmocka_unit_test(a_broken_block_is_dropped_and_the_rest_goes_on),
        cmocka_unit_test(neighbours_are_read_at_once),
        cmocka_unit_test(what_is_behind_a_failure_is_not_tried),
        cmocka_unit_test(a_copy_that_fails_is_a_failure),
        cmocka_unit_test(a_load_does_not_stand_behind_saves),
        cmocka_unit_test(saves_wait_for_loads_but_not_for_ever),
        cmocka_unit_test(a_use_keeps_a_block_from_being_evicted),
        cmocka_unit_test(the_time_that_it_takes),
        cmocka_unit_test(memory_is_what_it_says),
        cmocka_unit_test(created_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
