/* Blocks of a GPU's KV cache that go out to the host's memory and come back, beside the queue: bit by bit, on all lanes
 * at once, while the queue is busy, into other blocks, and through the tiers. Skipped (77) where no GPU opens. */
#include "tests/gpu/gpu_fixture.h"

#include <pthread.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mix.h"
#include "kv/kv_cache.h"
#include "kv/tiers/disk_tier.h"
#include "kv/tiers/memory_tier.h"
#include "tests/support/temp_dir.h"

enum { BLOCKS_N = 96, LAYERS_N = 4, HEADS_N = 2, HEAD_DIM = 64, BUSY_BYTES = 64 << 20 };

struct rig {
    struct lf_kv_cache kv;
    size_t block_bytes;
    struct lf_buffer slots;
    struct lf_tier *tier;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    int n_wakes;
    struct lf_buffer busy; /* what keeps the queue at work */
    char *bytes;           /* of a block */
};

static struct rig rig;

static void fill(char *out, uint64_t number)
{
    for (size_t i = 0; i < rig.block_bytes / 8; i++) {
        uint64_t word = lf_random64(number, i);
        memcpy(out + 8 * i, &word, 8);
    }
}

static void *block_at(int32_t block)
{
    return lf_kv_page(&rig.kv.view, block, 0, LF_KV_K, 0);
}

/* Block number `number`, at place `block` of the cache; what is there when the queue has come so far. */
static void put_block(int32_t block, uint64_t number)
{
    fill(rig.bytes, number);
    lf_upload(gpu, block_at(block), rig.bytes, rig.block_bytes);
}

static void expect_block(int32_t block, uint64_t number)
{
    char *want = malloc(rig.block_bytes);
    assert_non_null(want);
    fill(want, number);
    lf_download(gpu, rig.bytes, block_at(block), rig.block_bytes);
    gpu_sync();
    if (memcmp(rig.bytes, want, rig.block_bytes) != 0) fail_msg("block %d is not number %d", block, (int)number);
    free(want);
}

static void open_rig(void)
{
    const struct lf_kv_cache_opts kv = {
        .dtype = gpu_act, .n_blocks = BLOCKS_N, .n_layers = LAYERS_N, .n_kv_heads = HEADS_N, .head_dim = HEAD_DIM};
    memset(&rig, 0, sizeof rig);
    assert_int_equal(lf_kv_cache_open(&rig.kv, gpu, &kv, NULL), LF_OK);
    rig.block_bytes = lf_kv_block_bytes(&rig.kv.view);
    rig.bytes = malloc(rig.block_bytes);
    assert_non_null(rig.bytes);
    assert_int_equal(lf_buffer_alloc(gpu, &rig.busy, BUSY_BYTES, "what keeps the queue busy", NULL), LF_OK);
    pthread_mutex_init(&rig.lock, NULL);
    pthread_cond_init(&rig.woken, NULL);
}

static void close_rig(void)
{
    lf_tier_destroy(rig.tier);
    lf_host_free(gpu, &rig.slots);
    pthread_cond_destroy(&rig.woken);
    pthread_mutex_destroy(&rig.lock);
    lf_buffer_free(gpu, &rig.busy);
    free(rig.bytes);
    lf_kv_cache_close(&rig.kv);
}

/* Uploads that take the bus some milliseconds, and are not waited for. */
static void keep_busy(void)
{
    static char zeros[1 << 20];
    for (size_t at = 0; at < BUSY_BYTES; at += sizeof zeros)
        lf_upload(gpu, (char *)rig.busy.ptr + at, zeros, sizeof zeros);
}

/* ---- lanes ---- */

struct carrier {
    pthread_t thread;
    int lane;
    char *host; /* [BLOCKS_N / LF_COPY_LANES_N, block_bytes] */
    bool comes_in;
    enum lf_status status;
};

enum { SHARE = BLOCKS_N / 2 / LF_COPY_LANES_N };

/* Takes its share of the first half out, or puts it into the second. */
static void *carry(void *arg)
{
    struct carrier *c = arg;
    struct lf_err err;
    for (int i = 0; i < SHARE && c->status == LF_OK; i++) {
        int block = c->lane * SHARE + i;
        char *host = c->host + (size_t)i * rig.block_bytes;
        c->status = c->comes_in ? lf_kv_cache_copy_in(&rig.kv, c->lane, BLOCKS_N / 2 + block, host, &err)
                                : lf_kv_cache_copy_out(&rig.kv, c->lane, host, block, &err);
        if (c->status != LF_OK) printf("%s\n", err.message);
    }
    return NULL;
}

/* All lanes at once, from threads that have never spoken to the driver. */
static void carry_all(struct carrier *carriers, bool comes_in)
{
    for (int i = 0; i < LF_COPY_LANES_N; i++) {
        carriers[i].comes_in = comes_in;
        assert_int_equal(pthread_create(&carriers[i].thread, NULL, carry, &carriers[i]), 0);
    }
    keep_busy();
    for (int i = 0; i < LF_COPY_LANES_N; i++) {
        assert_int_equal(pthread_join(carriers[i].thread, NULL), 0);
        assert_int_equal(carriers[i].status, LF_OK);
    }
}

static void blocks_go_out_and_in_on_all_lanes_at_once(void **state)
{
    (void)state;
    struct carrier carriers[LF_COPY_LANES_N] = {0};
    for (int pinned = 0; pinned < 2; pinned++) {
        struct lf_err err = {0};
        open_rig();
        size_t bytes = (size_t)SHARE * rig.block_bytes;
        assert_int_equal(lf_host_alloc(gpu, &rig.slots, LF_COPY_LANES_N * bytes, "slots", NULL), LF_OK);
        if (pinned && lf_host_pin(gpu, rig.slots.ptr, rig.slots.bytes, &err) != LF_OK) fail_msg("%s", err.message);
        for (int i = 0; i < LF_COPY_LANES_N; i++)
            carriers[i] = (struct carrier){.lane = i, .host = (char *)rig.slots.ptr + (size_t)i * bytes};
        for (int i = 0; i < BLOCKS_N; i++) put_block(i, i < BLOCKS_N / 2 ? (uint64_t)i : 1000);
        gpu_sync(); /* as a step that has been read */
        carry_all(carriers, false);
        carry_all(carriers, true);
        for (int i = 0; i < LF_COPY_LANES_N * SHARE; i++) {
            expect_block(i, (uint64_t)i);
            expect_block(BLOCKS_N / 2 + i, (uint64_t)i);
        }
        for (int i = BLOCKS_N / 2 + LF_COPY_LANES_N * SHARE; i < BLOCKS_N; i++) expect_block(i, 1000);
        if (pinned) lf_host_unpin(gpu, rig.slots.ptr);
        close_rig();
    }
}

/* What cannot be pinned is an error of that call, and of nothing else. */
static void what_cannot_be_pinned_is_said(void **state)
{
    (void)state;
    struct lf_err err = {0};
    struct lf_buffer buf = {0};
    assert_int_equal(lf_host_alloc(gpu, &buf, 1 << 20, "pages", NULL), LF_OK);
    assert_int_equal(lf_host_pin(gpu, buf.ptr, buf.bytes, NULL), LF_OK);
    assert_int_not_equal(lf_host_pin(gpu, buf.ptr, buf.bytes, &err), LF_OK);
    assert_non_null(strstr(err.message, "pinning memory"));
    lf_host_unpin(gpu, buf.ptr);
    assert_int_equal(lf_host_pin(gpu, buf.ptr, buf.bytes, NULL), LF_OK);
    lf_host_unpin(gpu, buf.ptr);
    lf_host_free(gpu, &buf);
    gpu_sync();
}

/* ---- tiers ---- */

static enum lf_status copy_out(void *ctx, int lane, void *dst, int32_t block, struct lf_err *err)
{
    return lf_kv_cache_copy_out(ctx, lane, dst, block, err);
}

static enum lf_status copy_in(void *ctx, int lane, int32_t block, const void *src, struct lf_err *err)
{
    return lf_kv_cache_copy_in(ctx, lane, block, src, err);
}

static enum lf_status pin(void *ctx, void *ptr, uint64_t bytes, struct lf_err *err)
{
    return lf_host_pin(((struct lf_kv_cache *)ctx)->dev, ptr, bytes, err);
}

static void unpin(void *ctx, void *ptr)
{
    lf_host_unpin(((struct lf_kv_cache *)ctx)->dev, ptr);
}

static void wake(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&rig.lock);
    rig.n_wakes++;
    pthread_cond_signal(&rig.woken);
    pthread_mutex_unlock(&rig.lock);
}

static const struct lf_tier_copy copies = {.out = copy_out, .in = copy_in, .pin = pin, .unpin = unpin, .ctx = &rig.kv};

static void submit(enum lf_tier_way way, uint64_t number, int32_t block)
{
    struct lf_tier_job *job = lf_tier_job(rig.tier);
    assert_non_null(job);
    memset(&job->prev, 0, sizeof job->prev);
    for (int i = 0; i < LF_KV_BLOCK_TOKENS; i++) job->ids[i] = (int32_t)number;
    lf_sha256(&number, sizeof number, job->key.bytes);
    job->way = way;
    job->block = block;
    lf_tier_submit(rig.tier, job);
}

static void await_all(int n)
{
    while (n > 0) {
        pthread_mutex_lock(&rig.lock);
        while (rig.n_wakes == 0) pthread_cond_wait(&rig.woken, &rig.lock);
        rig.n_wakes = 0;
        pthread_mutex_unlock(&rig.lock);
        for (struct lf_tier_job *job; (job = lf_tier_back(rig.tier)) != NULL; lf_tier_done(rig.tier, job), n--)
            if (job->status != LF_OK) fail_msg("a block came back with: %s", lf_status_name(job->status));
    }
}

/* All blocks down, others in their places, and up again in another order. */
static void there_and_back(void)
{
    for (int i = 0; i < BLOCKS_N; i++) put_block(i, (uint64_t)i);
    gpu_sync();
    for (int i = 0; i < BLOCKS_N; i++) submit(LF_TIER_SAVE, (uint64_t)i, i);
    keep_busy();
    await_all(BLOCKS_N);
    for (int i = 0; i < BLOCKS_N; i++) put_block(i, 1000 + (uint64_t)i);
    gpu_sync();
    for (int i = 0; i < BLOCKS_N; i++) submit(LF_TIER_LOAD, (uint64_t)i, (i * 5 + 7) % BLOCKS_N);
    keep_busy();
    await_all(BLOCKS_N);
    for (int i = 0; i < BLOCKS_N; i++) expect_block((i * 5 + 7) % BLOCKS_N, (uint64_t)i);
}

static void blocks_come_back_from_memory_bit_by_bit(void **state)
{
    (void)state;
    open_rig();
    struct lf_memory_tier_opts opts = {.n_slots = BLOCKS_N,
                                       .block_bytes = rig.block_bytes,
                                       .copy = copies,
                                       .wake = wake,
                                       .n_jobs = BLOCKS_N,
                                       .n_loaders = 4};
    size_t bytes = BLOCKS_N * lf_memory_slot_bytes(rig.block_bytes);
    assert_int_equal(lf_host_alloc(gpu, &rig.slots, bytes, "slots", NULL), LF_OK);
    opts.slots = rig.slots.ptr;
    assert_int_equal(lf_memory_tier_create(&rig.tier, &opts, NULL), LF_OK);
    struct lf_tier_stats stats = {0};
    for (int i = 0; i < 20000 && stats.n_slots < BLOCKS_N; i++) {
        lf_clock_sleep_ms(1);
        lf_tier_stats(rig.tier, &stats);
    }
    assert_int_equal(stats.n_slots, BLOCKS_N);
    there_and_back();
    lf_memory_tier_check(rig.tier);
    close_rig();
}

static void blocks_come_back_from_disk_bit_by_bit(void **state)
{
    (void)state;
    char index_path[512], data_path[512];
    struct lf_disk_file *index, *data;
    struct lf_disk_table *table;
    struct temp_dir dir = temp_dir_make();
    open_rig();
    temp_dir_path(&dir, "index", index_path);
    temp_dir_path(&dir, "data", data_path);
    assert_int_equal(lf_disk_file_open(&index, index_path, false, NULL), LF_OK);
    assert_int_equal(lf_disk_file_open(&data, data_path, true, NULL), LF_OK);
    assert_int_equal(lf_disk_table_open(&table, index, data, BLOCKS_N, rig.block_bytes, NULL), LF_OK);
    const struct lf_disk_tier_opts opts = {.table = table,
                                           .block_bytes = rig.block_bytes,
                                           .copy = copies,
                                           .wake = wake,
                                           .n_jobs = BLOCKS_N,
                                           .n_loaders = 4,
                                           .batch_bytes = 8 * rig.block_bytes};
    assert_int_equal(lf_disk_tier_create(&rig.tier, &opts, NULL), LF_OK);
    there_and_back();
    close_rig();
    lf_disk_table_close(table);
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_go_out_and_in_on_all_lanes_at_once),
        cmocka_unit_test(what_cannot_be_pinned_is_said),
        cmocka_unit_test(blocks_come_back_from_memory_bit_by_bit),
        cmocka_unit_test(blocks_come_back_from_disk_bit_by_bit),
    };
    return gpu_run(tests);
}
