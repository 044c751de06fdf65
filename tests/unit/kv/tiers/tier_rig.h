/* A tier between a cache that is an array and a disk that waits and fails on demand, and what the engine would do with
 * it. The clock stands still. Each program includes this once. */
#ifndef LF_TESTS_TIER_RIG_H
#define LF_TESTS_TIER_RIG_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/check.h"
#include "core/log.h"
#include "kv/tiers/disk_tier.h"
#include "tests/support/disk_blocks.h"
#include "tests/support/gated_disk.h"
#include "tests/support/stopped_clock.h"
#include "tests/support/temp_dir.h"

enum { RIG_CACHE_N = 32, RIG_BLOCKS_N = 48, RIG_FIRST_LANE = 3 };

struct rig {
    struct gated_disk gated;
    struct lf_disk_table *table;
    struct lf_disk_tier_opts opts;
    struct lf_tier *tier;
    struct test_block blocks[RIG_BLOCKS_N];
    uint8_t cache[RIG_CACHE_N][BLOCK_BYTES];
    pthread_mutex_t lock;
    pthread_cond_t woken;
    uint64_t n_wakes; /* under the lock */
    struct temp_dir dir;
    char log_path[512];
    _Atomic int copy_fails; /* the next one, with LF_DEVICE */
};

static inline enum lf_status rig_copy_out(void *ctx, int lane, void *dst, int32_t block, struct lf_err *err)
{
    struct rig *r = ctx;
    LF_ASSERT((uintptr_t)dst % LF_DISK_ALIGN_BYTES == 0 && lane == RIG_FIRST_LANE);
    if (atomic_exchange(&r->copy_fails, LF_OK) != LF_OK) return lf_fail(err, LF_DEVICE, "the copy fails");
    memcpy(dst, r->cache[block], BLOCK_BYTES);
    return LF_OK;
}

static inline enum lf_status rig_copy_in(void *ctx, int lane, int32_t block, const void *src, struct lf_err *err)
{
    struct rig *r = ctx;
    LF_ASSERT((uintptr_t)src % LF_DISK_ALIGN_BYTES == 0 && lane > RIG_FIRST_LANE);
    LF_ASSERT(lane <= RIG_FIRST_LANE + r->opts.n_loaders);
    if (atomic_exchange(&r->copy_fails, LF_OK) != LF_OK) return lf_fail(err, LF_DEVICE, "the copy fails");
    memcpy(r->cache[block], src, BLOCK_BYTES);
    return LF_OK;
}

static inline void rig_wake(void *ctx)
{
    struct rig *r = ctx;
    pthread_mutex_lock(&r->lock);
    r->n_wakes++;
    pthread_cond_signal(&r->woken);
    pthread_mutex_unlock(&r->lock);
}

/* batch_n: blocks in a batch. */
static inline void rig_open(struct rig *r, uint32_t n_slots, int n_jobs, int n_loaders, uint32_t batch_n)
{
    memset(r, 0, sizeof(*r));
    now_ns = ms(1000);
    gated_disk_init(&r->gated);
    for (int i = 0; i < RIG_BLOCKS_N; i++) test_block_make(&r->blocks[i], (uint64_t)i);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->woken, NULL);
    r->dir = temp_dir_make();
    temp_dir_path(&r->dir, "log", r->log_path);
    assert_int_equal(lf_log_open(r->log_path, NULL), LF_OK);
    assert_int_equal(lf_disk_table_open(&r->table, gated_disk_file(&r->gated, 0), gated_disk_file(&r->gated, 1),
                                        n_slots, BLOCK_BYTES, NULL),
                     LF_OK);
    r->opts = (struct lf_disk_tier_opts){
        .table = r->table,
        .block_bytes = BLOCK_BYTES,
        .copy = {.out = rig_copy_out, .in = rig_copy_in, .ctx = r, .first_lane = RIG_FIRST_LANE},
        .wake = rig_wake,
        .wake_ctx = r,
        .n_jobs = n_jobs,
        .n_loaders = n_loaders,
        .batch_bytes = (uint64_t)batch_n * SLOT_BYTES};
    assert_int_equal(lf_disk_tier_create(&r->tier, &r->opts, NULL), LF_OK);
}

/* The tier goes, and what it did is seen on the disk. */
static inline void rig_stop(struct rig *r)
{
    lf_tier_destroy(r->tier);
    r->tier = NULL;
    lf_disk_table_check(r->table);
}

static inline void rig_close(struct rig *r)
{
    rig_stop(r);
    lf_disk_table_close(r->table);
    gated_disk_deinit(&r->gated);
    pthread_cond_destroy(&r->woken);
    pthread_mutex_destroy(&r->lock);
    assert_int_equal(lf_log_open(NULL, NULL), LF_OK);
    temp_dir_remove(&r->dir);
}

/* Block number of the blocks, at place `at` of the cache. */
static inline void rig_submit(struct rig *r, enum lf_tier_way way, int number, int at)
{
    const struct test_block *b = &r->blocks[number];
    struct lf_tier_job *job = lf_tier_job(r->tier);
    assert_non_null(job);
    if (way == LF_TIER_SAVE)
        memcpy(r->cache[at], b->bytes, BLOCK_BYTES);
    else
        memset(r->cache[at], 0xee, BLOCK_BYTES);
    job->way = way;
    job->key = b->key;
    job->prev = b->prev;
    memcpy(job->ids, b->ids, sizeof(job->ids));
    job->block = at;
    job->owner = 1000 + (uint64_t)number;
    job->idx = number;
    lf_tier_submit(r->tier, job);
}

static inline uint64_t rig_n_wakes(struct rig *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t n = r->n_wakes;
    pthread_mutex_unlock(&r->lock);
    return n;
}

/* The next that is back, as the engine waits for it: by wake alone. */
static inline struct lf_tier_job *rig_await(struct rig *r)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    for (;;) {
        uint64_t n_wakes = rig_n_wakes(r);
        struct lf_tier_job *job = lf_tier_back(r->tier);
        int error = 0;
        if (job) return job;
        pthread_mutex_lock(&r->lock);
        while (r->n_wakes == n_wakes && error == 0) error = pthread_cond_timedwait(&r->woken, &r->lock, &until);
        pthread_mutex_unlock(&r->lock);
        if (error != 0) fail_msg("nothing comes back");
    }
}

/* Takes the next that is back, which a load of LF_OK has left whole in the cache; its status, and its number. */
static inline enum lf_status rig_next(struct rig *r, int *number)
{
    struct lf_tier_job *job = rig_await(r);
    enum lf_status status = job->status;
    *number = job->idx;
    assert_int_equal(job->owner, 1000 + job->idx);
    if (status == LF_OK) assert_memory_equal(r->cache[job->block], r->blocks[job->idx].bytes, BLOCK_BYTES);
    lf_tier_done(r->tier, job);
    return status;
}

/* One job from beginning to end, where no other is under way. */
static inline enum lf_status rig_run(struct rig *r, enum lf_tier_way way, int number)
{
    int back;
    rig_submit(r, way, number, number % RIG_CACHE_N);
    enum lf_status status = rig_next(r, &back);
    assert_int_equal(back, number);
    return status;
}

static inline bool rig_has(struct rig *r, int number)
{
    return lf_tier_has(r->tier, &r->blocks[number].key);
}

static inline struct lf_tier_stats rig_stats(struct rig *r)
{
    struct lf_tier_stats stats;
    lf_tier_stats(r->tier, &stats);
    return stats;
}

/* Lines of the log with this text; the tier is stopped, so that all are written. */
static inline int rig_n_logged(const struct rig *r, const char *text)
{
    static char all[1 << 16];
    int n = 0;
    FILE *f = fopen(r->log_path, "r");
    assert_non_null(f);
    while (fgets(all, sizeof(all), f)) n += strstr(all, text) ? 1 : 0;
    fclose(f);
    return n;
}

#endif
