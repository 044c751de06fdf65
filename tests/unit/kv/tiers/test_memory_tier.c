/* Blocks go to memory and come back, bit by bit; what was used least recently makes room; slots are used from when they
 * are pinned. */
#include "tests/unit/kv/tiers/refusals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "core/check.h"
#include "kv/tiers/lanes.h"
#include "kv/tiers/memory_tier.h"
#include "tests/support/disk_blocks.h"

enum { CACHE_N = 32, BLOCKS_N = 64, SLOTS_N = 64, PIN_N = 4, FIRST_LANE = 5 };

/* A tier between two arrays, whose copies and pins wait and fail on demand. */
static struct rig {
    struct lf_memory_tier_opts opts;
    struct lf_tier *tier;
    struct test_block blocks[BLOCKS_N];
    uint8_t cache[CACHE_N][BLOCK_BYTES];
    uint8_t *slots;
    pthread_mutex_t lock; /* over all below */
    pthread_cond_t changed;
    int n_wakes, n_out, n_in, n_held;
    bool holds_in, holds_out, holds_pin, fails;
    int n_pins, pins_fail_at; /* -1: never */
    void *pinned[PIN_N];
    uint64_t pinned_bytes;
    uint64_t tenant; /* of what is saved */
} rig;

static struct timespec patience(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    return until;
}

/* Under the lock: until *n has reached at_least. */
static void await(const int *n, int at_least)
{
    struct timespec until = patience();
    int error = 0;
    while (*n < at_least && error == 0) error = pthread_cond_timedwait(&rig.changed, &rig.lock, &until);
    if (error != 0) fail_msg("nothing moves");
}

static void lock(void)
{
    pthread_mutex_lock(&rig.lock);
}

static void unlock(void)
{
    pthread_cond_broadcast(&rig.changed);
    pthread_mutex_unlock(&rig.lock);
}

/* Counts, waits while it is to, and says whether it is to fail. */
static bool pass(int *n, const bool *holds)
{
    lock();
    ++*n;
    rig.n_held++;
    pthread_cond_broadcast(&rig.changed);
    while (*holds) pthread_cond_wait(&rig.changed, &rig.lock);
    rig.n_held--;
    bool fails = rig.fails;
    rig.fails = false;
    unlock();
    return !fails;
}

static enum lf_status copy_out(void *ctx, int lane, void *dst, int32_t block, struct lf_err *err)
{
    (void)ctx;
    LF_ASSERT(lane == FIRST_LANE);
    bool ok = pass(&rig.n_out, &rig.holds_out);
    memcpy(dst, rig.cache[block], ok ? BLOCK_BYTES : BLOCK_BYTES / 2);
    return ok ? LF_OK : lf_fail(err, LF_DEVICE, "the copy fails");
}

static enum lf_status copy_in(void *ctx, int lane, int32_t block, const void *src, struct lf_err *err)
{
    (void)ctx;
    LF_ASSERT(lane > FIRST_LANE && lane <= FIRST_LANE + rig.opts.n_loaders);
    bool ok = pass(&rig.n_in, &rig.holds_in);
    memcpy(rig.cache[block], src, ok ? BLOCK_BYTES : BLOCK_BYTES / 2);
    return ok ? LF_OK : lf_fail(err, LF_DEVICE, "the copy fails");
}

static enum lf_status pin(void *ctx, void *ptr, uint64_t bytes, struct lf_err *err)
{
    (void)ctx;
    LF_ASSERT((uintptr_t)ptr % 4096 == 0 && bytes % 4096 == 0 && rig.n_pins < PIN_N);
    LF_ASSERT((uint8_t *)ptr == rig.slots + rig.pinned_bytes);
    if (rig.n_pins == rig.pins_fail_at) return lf_fail(err, LF_DEVICE, "no more pages");
    rig.pinned[rig.n_pins] = ptr;
    rig.pinned_bytes += bytes;
    (void)pass(&rig.n_pins, &rig.holds_pin);
    return LF_OK;
}

static void unpin(void *ctx, void *ptr)
{
    (void)ctx;
    LF_ASSERT(rig.n_pins > 0 && rig.pinned[--rig.n_pins] != NULL);
    for (int i = 0; i <= rig.n_pins; i++) /* in any order */
        if (rig.pinned[i] == ptr) {
            rig.pinned[i] = rig.pinned[rig.n_pins];
            return;
        }
    LF_ASSERT(false);
}

static void wake(void *ctx)
{
    (void)ctx;
    lock();
    rig.n_wakes++;
    unlock();
}

static void make(uint32_t n_slots, int n_jobs, int n_loaders)
{
    memset(&rig, 0, sizeof(rig));
    for (int i = 0; i < BLOCKS_N; i++) test_block_make(&rig.blocks[i], (uint64_t)i);
    pthread_mutex_init(&rig.lock, NULL);
    pthread_cond_init(&rig.changed, NULL);
    rig.pins_fail_at = -1;
    assert_int_equal(lf_memory_slot_bytes(BLOCK_BYTES), SLOT_BYTES);
    rig.slots = aligned_alloc(4096, (size_t)n_slots * SLOT_BYTES);
    assert_non_null(rig.slots);
    rig.opts = (struct lf_memory_tier_opts){.slots = rig.slots,
                                            .n_slots = n_slots,
                                            .block_bytes = BLOCK_BYTES,
                                            .copy = {.out = copy_out, .in = copy_in, .first_lane = FIRST_LANE},
                                            .wake = wake,
                                            .n_jobs = n_jobs,
                                            .n_loaders = n_loaders};
}

static void start(void)
{
    struct lf_err err = {0};
    if (lf_memory_tier_create(&rig.tier, &rig.opts, &err) != LF_OK) fail_msg("%s", err.message);
}

static void open_rig(uint32_t n_slots, int n_jobs, int n_loaders)
{
    make(n_slots, n_jobs, n_loaders);
    start();
}

static void close_rig(void)
{
    if (rig.tier) lf_memory_tier_check(rig.tier);
    lf_tier_destroy(rig.tier);
    assert_int_equal(rig.n_pins, 0);
    pthread_cond_destroy(&rig.changed);
    pthread_mutex_destroy(&rig.lock);
    free(rig.slots);
}

static void submit(enum lf_tier_way way, int number, int at)
{
    const struct test_block *b = &rig.blocks[number];
    struct lf_tier_job *job = lf_tier_job(rig.tier);
    assert_non_null(job);
    if (way == LF_TIER_SAVE)
        memcpy(rig.cache[at], b->bytes, BLOCK_BYTES);
    else
        memset(rig.cache[at], 0xee, BLOCK_BYTES);
    job->way = way;
    job->key = b->key;
    job->prev = b->prev;
    memcpy(job->ids, b->ids, sizeof(job->ids));
    job->origin = (struct lf_prefix_origin){.tenant = rig.tenant};
    job->block = at;
    job->idx = number;
    lf_tier_submit(rig.tier, job);
}

/* The next that is back, as the engine waits for it: by wake alone. A load of LF_OK has left the block whole. */
static enum lf_status next(int *number)
{
    for (;;) {
        lock();
        int n_wakes = rig.n_wakes;
        unlock();
        struct lf_tier_job *job = lf_tier_back(rig.tier);
        if (job) {
            enum lf_status status = job->status;
            *number = job->idx;
            if (status == LF_OK) assert_memory_equal(rig.cache[job->block], rig.blocks[*number].bytes, BLOCK_BYTES);
            lf_tier_done(rig.tier, job);
            return status;
        }
        lock();
        await(&rig.n_wakes, n_wakes + 1);
        unlock();
    }
}

static enum lf_status run(enum lf_tier_way way, int number)
{
    int back;
    submit(way, number, number % CACHE_N);
    enum lf_status status = next(&back);
    assert_int_equal(back, number);
    return status;
}

static bool has(int number)
{
    return lf_tier_has(rig.tier, &rig.blocks[number].key);
}

static struct lf_tier_stats stats(void)
{
    struct lf_tier_stats s;
    lf_tier_stats(rig.tier, &s);
    return s;
}

static void hold(bool *which, bool holds)
{
    lock();
    *which = holds;
    unlock();
}

static void await_held(int n)
{
    lock();
    await(&rig.n_held, n);
    unlock();
}

/* ---- tests ---- */

static void blocks_come_back_bit_by_bit(void **state)
{
    (void)state;
    int number;
    open_rig(SLOTS_N, 16, 2);
    for (int i = 0; i < 16; i++) submit(LF_TIER_SAVE, i, i);
    for (int i = 0; i < 16; i++) assert_int_equal(next(&number), LF_OK);
    for (int i = 0; i < 16; i++) assert_true(has(i));
    assert_false(has(16));
    for (int i = 0; i < 16; i++) submit(LF_TIER_LOAD, i, 31 - i);
    for (int i = 0; i < 16; i++) assert_int_equal(next(&number), LF_OK);
    for (int i = 0; i < 16; i++) assert_memory_equal(rig.cache[31 - i], rig.blocks[i].bytes, BLOCK_BYTES);
    assert_int_equal(run(LF_TIER_LOAD, 16), LF_INVALID);
    const struct lf_tier_stats s = stats();
    assert_true(s.n_saved == 16 && s.n_loaded == 16 && s.n_save_failed == 0 && s.n_load_failed == 0);
    assert_true(s.saved_bytes == 16 * BLOCK_BYTES && s.loaded_bytes == 16 * BLOCK_BYTES);
    assert_true(s.works && s.n_listed == 16 && s.n_slots == SLOTS_N && s.n_evicted == 0 && s.n_broken == 0);
    assert_true(lf_tier_works(rig.tier) && !rig.tier->outlives);
    close_rig();
}

static void a_block_that_is_there_already_is_not_copied_again(void **state)
{
    (void)state;
    open_rig(4, 4, 1);
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_OK);
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_OK);
    assert_int_equal(rig.n_out, 1);
    assert_int_equal(stats().n_listed, 1);
    close_rig();
}

/* Two beginnings under one key, which SHA-256 does not give: the second is not served as the first. */
static void a_collision_is_a_miss(void **state)
{
    (void)state;
    open_rig(4, 4, 1);
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_OK);
    struct test_block block = rig.blocks[0];
    rig.blocks[0].prev.bytes[31] ^= 1;
    assert_int_equal(run(LF_TIER_LOAD, 0), LF_INVALID);
    rig.blocks[0] = block;
    rig.blocks[0].ids[63] ^= 1;
    assert_int_equal(run(LF_TIER_LOAD, 0), LF_INVALID);
    assert_int_equal(rig.n_in, 0);
    rig.blocks[0] = block;
    assert_int_equal(run(LF_TIER_LOAD, 0), LF_OK);
    assert_int_equal(stats().n_load_failed, 0); /* they were not there */
    close_rig();
}

static void what_is_worth_least_makes_room(void **state)
{
    (void)state;
    open_rig(4, 4, 1);
    for (int i = 0; i < 4; i++) assert_int_equal(run(LF_TIER_SAVE, i), LF_OK);
    lf_tier_use(rig.tier, &rig.blocks[0].key);
    lf_tier_use(rig.tier, &rig.blocks[4].key); /* not there: nothing */
    assert_int_equal(run(LF_TIER_LOAD, 1), LF_OK);
    assert_int_equal(run(LF_TIER_SAVE, 4), LF_OK);
    assert_false(has(2)); /* the oldest that nobody has asked for or read */
    assert_true(has(0) && has(1) && has(3) && has(4));
    assert_int_equal(run(LF_TIER_LOAD, 2), LF_INVALID);
    assert_int_equal(stats().n_evicted, 1);
    close_rig();
}

static void what_is_pinned_makes_no_room(void **state)
{
    (void)state;
    open_rig(4, 4, 1);
    for (int i = 0; i < 4; i++) assert_int_equal(run(LF_TIER_SAVE, i), LF_OK);
    lf_tier_pin(rig.tier, &rig.blocks[0].key, true);
    lf_tier_pin(rig.tier, &rig.blocks[1].key, true);
    lf_tier_pin(rig.tier, &rig.blocks[9].key, true); /* not there: nothing */
    assert_int_equal(stats().n_pinned, 2);
    for (int i = 4; i < 12; i++) {
        assert_int_equal(run(LF_TIER_SAVE, i), LF_OK);
        assert_int_equal(run(LF_TIER_LOAD, i % 2), LF_OK);
        lf_tier_use(rig.tier, &rig.blocks[i % 2].key);
    }
    assert_true(has(0) && has(1));
    lf_memory_tier_check(rig.tier);
    lf_tier_pin(rig.tier, &rig.blocks[0].key, false);
    for (int i = 0; i < 80; i++) assert_int_equal(run(LF_TIER_SAVE, 4 + i % 8), LF_OK); /* it was used often */
    assert_true(!has(0) && has(1));
    assert_int_equal(stats().n_pinned, 1);
    close_rig();
}

/* Who has the most blocks gives one, however often it has asked for them. */
static void a_tenant_with_few_blocks_keeps_them(void **state)
{
    (void)state;
    open_rig(4, 4, 1);
    rig.tenant = 1;
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_OK);
    rig.tenant = 2;
    for (int i = 1; i < 9; i++) {
        assert_int_equal(run(LF_TIER_SAVE, i), LF_OK);
        lf_tier_use(rig.tier, &rig.blocks[i].key);
    }
    assert_true(has(0) && stats().n_evicted == 5);
    close_rig();
}

static void a_use_counts_while_a_block_is_read_too(void **state)
{
    (void)state;
    int number;
    open_rig(2, 4, 1);
    for (int i = 0; i < 2; i++) assert_int_equal(run(LF_TIER_SAVE, i), LF_OK);
    hold(&rig.holds_in, true);
    submit(LF_TIER_LOAD, 0, 10);
    await_held(1);
    for (int i = 0; i < 3; i++) lf_tier_use(rig.tier, &rig.blocks[0].key);
    hold(&rig.holds_in, false);
    assert_int_equal(next(&number), LF_OK);
    assert_int_equal(run(LF_TIER_LOAD, 1), LF_OK); /* the last one read */
    assert_int_equal(run(LF_TIER_SAVE, 2), LF_OK);
    assert_true(has(0) && !has(1));
    close_rig();
}

static void what_is_being_read_makes_no_room(void **state)
{
    (void)state;
    int number;
    open_rig(2, 8, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(run(LF_TIER_SAVE, i), LF_OK);
    hold(&rig.holds_in, true);
    submit(LF_TIER_LOAD, 0, 10);
    await_held(1);
    assert_int_equal(run(LF_TIER_SAVE, 2), LF_OK);
    assert_true(has(0) && !has(1) && has(2));
    submit(LF_TIER_LOAD, 2, 11);
    await_held(2);
    assert_int_equal(run(LF_TIER_SAVE, 3), LF_FULL);
    assert_int_equal(stats().n_save_failed, 1);
    hold(&rig.holds_in, false);
    for (int i = 0; i < 2; i++) assert_int_equal(next(&number), LF_OK);
    assert_int_equal(run(LF_TIER_SAVE, 3), LF_OK);
    close_rig();
}

/* Neither stands behind the other, and a block that is not whole yet is not there. */
static void loads_and_saves_go_at_once(void **state)
{
    (void)state;
    int number;
    open_rig(8, 8, 1);
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_OK);
    hold(&rig.holds_out, true);
    submit(LF_TIER_SAVE, 1, 1);
    submit(LF_TIER_SAVE, 2, 2);
    await_held(1);
    assert_int_equal(run(LF_TIER_LOAD, 0), LF_OK);
    assert_false(has(1));
    assert_int_equal(lf_tier_n_under_way(rig.tier), 2);
    hold(&rig.holds_out, false);
    for (int i = 0; i < 2; i++) assert_int_equal(next(&number), LF_OK);
    assert_true(has(1) && has(2));
    assert_int_equal(lf_tier_n_under_way(rig.tier), 0);
    close_rig();
}

/* Half a block is neither listed nor served, and its slot is not lost. */
static void a_copy_that_fails_leaves_nothing(void **state)
{
    (void)state;
    open_rig(1, 4, 1);
    hold(&rig.fails, true);
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_DEVICE);
    assert_false(has(0));
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_OK);
    hold(&rig.fails, true);
    assert_int_equal(run(LF_TIER_LOAD, 0), LF_DEVICE);
    assert_int_equal(run(LF_TIER_LOAD, 0), LF_OK);
    assert_true(stats().n_save_failed == 1 && stats().n_load_failed == 1 && stats().n_loaded == 1);
    close_rig();
}

static void *stop(void *arg)
{
    (void)arg;
    lf_tier_stop(rig.tier);
    return NULL;
}

static void stopped_with_jobs_queued_and_under_way(void **state)
{
    (void)state;
    pthread_t thread;
    int number, n_ok = 0;
    open_rig(8, 16, 1);
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_OK);
    hold(&rig.holds_in, true);
    hold(&rig.holds_out, true);
    submit(LF_TIER_SAVE, 1, 1);
    submit(LF_TIER_LOAD, 0, 10);
    await_held(2);
    for (int i = 2; i < 5; i++) submit(LF_TIER_SAVE, i, i);
    for (int i = 2; i < 5; i++) submit(LF_TIER_LOAD, 0, i + 10);
    assert_int_equal(pthread_create(&thread, NULL, stop, NULL), 0);
    struct lf_tier_job *job = NULL; /* what waits comes back at once, and then nothing more is begun */
    for (int i = 0; i < 20000 && !job; i++, job = lf_tier_back(rig.tier))
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    assert_non_null(job);
    assert_int_equal(job->status, LF_SHUTDOWN);
    lf_tier_done(rig.tier, job);
    hold(&rig.holds_in, false);
    hold(&rig.holds_out, false);
    pthread_join(thread, NULL);
    for (int i = 0; i < 7; i++) n_ok += next(&number) == LF_OK;
    assert_int_equal(n_ok, 2);
    assert_int_equal(lf_tier_n_under_way(rig.tier), 0);
    assert_int_equal(run(LF_TIER_SAVE, 6), LF_SHUTDOWN);
    close_rig();
}

/* Random saves, loads and questions over few slots: what is there is what was saved, and the memory never holds more
 * than it has room for. */
static void whatever_comes_is_what_was_saved(void **state)
{
    (void)state;
    int number, n_loaded = 0;
    open_rig(24, 8, 3);
    for (uint64_t i = 0; i < 4000; i++) {
        int b = (int)(lf_random64(1, i) % BLOCKS_N), at = (int)(i % 8);
        submit(lf_random64(2, i) % 2 ? LF_TIER_SAVE : LF_TIER_LOAD, b, at);
        if (lf_random64(3, i) % 4 == 0) (void)has((int)(lf_random64(4, i) % BLOCKS_N));
        if (i % 8 != 7) continue;
        for (int k = 0; k < 8; k++) {
            enum lf_status status = next(&number);
            assert_true(status == LF_OK || status == LF_INVALID || status == LF_FULL);
            n_loaded += status == LF_OK;
        }
        if (i % 80 == 79) lf_memory_tier_check(rig.tier);
    }
    assert_true(n_loaded > 1000 && stats().n_listed == 24 && stats().n_evicted > 100);
    close_rig();
}

/* 32 MiB are pinned at once: 4,096 slots. */
static void slots_are_used_from_when_they_are_pinned(void **state)
{
    (void)state;
    make(4096 + 100, 4, 1);
    rig.opts.copy.pin = pin;
    rig.opts.copy.unpin = unpin;
    rig.holds_pin = true;
    start();
    await_held(1);
    assert_int_equal(stats().n_slots, 0);
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_FULL);
    hold(&rig.holds_pin, false);
    for (int i = 0; i < 20000 && stats().n_slots < 4096 + 100; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    assert_int_equal(stats().n_slots, 4096 + 100);
    assert_int_equal(rig.n_pins, 2);
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_OK);
    assert_int_equal(run(LF_TIER_LOAD, 0), LF_OK);
    close_rig();
}

static void what_cannot_be_pinned_is_not_used(void **state)
{
    (void)state;
    make(4096 + 100, 4, 1);
    rig.opts.copy.pin = pin;
    rig.opts.copy.unpin = unpin;
    rig.pins_fail_at = 1;
    start();
    lf_tier_stop(rig.tier); /* the thread is through, or has been stopped before its second piece */
    assert_true(stats().n_slots == 4096 || stats().n_slots == 0);
    lf_tier_destroy(rig.tier);
    assert_int_equal(rig.n_pins, 0);
    rig.pinned_bytes = 0;
    rig.pins_fail_at = 0;
    start();
    assert_int_equal(run(LF_TIER_SAVE, 0), LF_FULL);
    assert_true(lf_tier_works(rig.tier));
    close_rig();
}

static void memory_is_what_it_says(void **state)
{
    (void)state;
    make(100, 8, 3);
    uint64_t before = allocated;
    start();
    assert_int_equal(allocated - before, lf_memory_tier_host_bytes(&rig.opts));
    before = allocated;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(run(LF_TIER_SAVE, i), LF_OK);
        assert_int_equal(run(LF_TIER_LOAD, i), LF_OK);
    }
    assert_int_equal(allocated, before);
    close_rig();
}

static void created_or_not_at_all(void **state)
{
    (void)state;
    struct lf_err err;
    int n_refused = 0;
    make(10, 4, 3);
    rig.opts.copy.pin = pin;
    rig.opts.copy.unpin = unpin;
    for (int i = 1;; i++, n_refused++) {
        rig.pinned_bytes = 0;
        fails_in = i;
        enum lf_status status = lf_memory_tier_create(&rig.tier, &rig.opts, &err);
        bool done = fails_in > 0;
        fails_in = 0;
        if (done) {
            assert_int_equal(status, LF_OK);
            break;
        }
        assert_int_equal(status, LF_NO_MEMORY);
        assert_null(rig.tier);
    }
    assert_int_equal(n_refused, 4 + 3 + 5); /* memory, lock and conditions, threads */
    close_rig();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_back_bit_by_bit),
        cmocka_unit_test(a_block_that_is_there_already_is_not_copied_again),
        cmocka_unit_test(a_collision_is_a_miss),
        cmocka_unit_test(what_is_worth_least_makes_room),
        cmocka_unit_test(what_is_pinned_makes_no_room),
        cmocka_unit_test(a_tenant_with_few_blocks_keeps_them),
        cmocka_unit_test(a_use_counts_while_a_block_is_read_too),
        cmocka_unit_test(what_is_being_read_makes_no_room),
        cmocka_unit_test(loads_and_saves_go_at_once),
        cmocka_unit_test(a_copy_that_fails_leaves_nothing),
        cmocka_unit_test(stopped_with_jobs_queued_and_under_way),
        cmocka_unit_test(whatever_comes_is_what_was_saved),
        cmocka_unit_test(slots_are_used_from_when_they_are_pinned),
        cmocka_unit_test(what_cannot_be_pinned_is_not_used),
        cmocka_unit_test(memory_is_what_it_says),
        cmocka_unit_test(created_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
