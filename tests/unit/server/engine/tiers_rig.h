/* An engine over a disk, or memory and a disk, and what tests of server/engine/tiers.c do with it. Its answers are
 * right only if each block holds what it should (fake_backend.h), so whatever comes back wrong shows. */
#ifndef LF_TESTS_UNIT_SERVER_ENGINE_TIERS_RIG_H
#define LF_TESTS_UNIT_SERVER_ENGINE_TIERS_RIG_H

#include "tests/unit/server/engine/engine_rig.h"

#include "kv/tiers/disk_table.h"
#include "server/engine/request_internal.h"
#include "tests/support/fake_disk.h"
#include "tests/unit/server/engine/slow_disk.h"

enum { N_SLOTS = 512 };

struct fixture {
    struct fake_disk disk;
    struct lf_disk_table *table;
    struct engine_rig rig;
    int n_blocks, n_async_steps, break_at_step;
    uint64_t memory_bytes;
    bool no_disk;
    int n_stripes; /* as in the rig */
    const struct lf_kv_layout *layout;
    int n_spare_slots;
    struct lf_engine_speed speed; /* to begin with */
};

static struct fixture f;

static inline void open_engine(void)
{
    struct lf_engine_opts opts = rig_opts();
    uint64_t block_bytes = LF_KV_BLOCK_TOKENS * 2 * 2 * sizeof(float); /* of the rig's cache */
    block_bytes *= (uint64_t)LF_MAX(f.n_stripes, 1);
    struct lf_err err = {0};
    if (lf_disk_table_open(&f.table, slow_file(&f.disk, 0), slow_file(&f.disk, 1), N_SLOTS, block_bytes, &err) != LF_OK)
        fail_msg("%s", err.message);
    memset(&f.rig, 0, sizeof(f.rig));
    f.rig.layout = f.layout;
    f.rig.n_stripes = f.n_stripes;
    f.rig.n_spare_slots = f.n_spare_slots;
    f.rig.backend.n_async_steps = f.n_async_steps;
    f.rig.backend.break_at_step = f.break_at_step;
    f.rig.backend.token_us = 12; /* slower than the disk, or nothing would be loaded */
    opts.disk = f.no_disk ? NULL : f.table;
    opts.memory_bytes = f.memory_bytes;
    opts.speed = f.speed;
    opts.queue_tokens = 1 << 20;
    rig_open(&f.rig, f.n_blocks, &opts);
    assert_int_equal(lf_kv_block_bytes(&f.rig.kv.view), block_bytes);
}

/* What has been computed is on disk when this returns. */
static inline void close_engine(void)
{
    rig_close(&f.rig);
    lf_disk_table_check(f.table);
    lf_disk_table_close(f.table);
}

static inline void restart(void)
{
    close_engine();
    fake_disk_power_loss(&f.disk, FAKE_DISK_LOSES_ALL, 1);
    open_engine();
}

static inline int setup(void **state)
{
    (void)state;
    memset(&f, 0, sizeof(f));
    fake_disk_init(&f.disk);
    f.n_blocks = 128;
    read_ms = write_ms = 0;
    open_engine();
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    close_engine();
    fake_disk_deinit(&f.disk);
    return 0;
}

static inline int64_t n_listed(void)
{
    struct lf_disk_table_stats stats;
    lf_disk_table_stats(f.table, &stats);
    return stats.n_listed;
}

/* The engine is faster than any disk here: what is to be found below has to arrive there first. */
static inline void wait_until_listed(int64_t n)
{
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * LF_NS_PER_S;
    while (n_listed() < n && lf_clock_ns() < until) lf_clock_sleep_ms(1);
    assert_int_equal(n_listed(), n);
}

static inline struct lf_engine_state figures(void)
{
    struct lf_engine_state st;
    lf_engine_snapshot(f.rig.engine, &st);
    return st;
}

/* Until the memory tier has n blocks; the engine says so after its rounds. */
static inline void wait_until_in_memory(uint32_t n)
{
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * LF_NS_PER_S;
    while (figures().memory.n_kept < n && lf_clock_ns() < until) lf_clock_sleep_ms(1);
    assert_int_equal(figures().memory.n_kept, n);
}

enum { MEMORY_SLOT_BYTES = 4096 };

static inline void reopen_with_memory(uint64_t n_slots, bool no_disk)
{
    close_engine();
    f.memory_bytes = n_slots * MEMORY_SLOT_BYTES;
    f.no_disk = no_disk;
    open_engine();
}

/* Tokens of a prompt (seed 1) that the engine would find, wherever they are. */
static inline int n_kept(int n_prompt)
{
    static int32_t ids[4096];
    rig_prompt(ids, n_prompt, 1);
    struct lf_gen_params p = rig_params(ids, n_prompt, 0);
    return lf_engine_n_kept(f.rig.engine, &p);
}

/* Pins a prompt, and waits until it is where it is to stay. */
static inline struct lf_request *pin(int n_prompt, uint64_t seed, enum lf_pin tier)
{
    static int32_t ids[4096];
    rig_prompt(ids, n_prompt, seed);
    struct lf_gen_params p = rig_params(ids, n_prompt, 0);
    p.pin = tier;
    struct lf_request *req = rig_submit(&f.rig, &p);
    assert_int_equal(rig_wait(req).finish, LF_FINISH_LENGTH);
    return req;
}

static inline void wait_until_pinned(int n_device, uint32_t n_disk)
{
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * LF_NS_PER_S;
    struct lf_engine_state st = figures();
    while ((st.n_blocks_pinned != n_device || st.disk.n_pinned != n_disk) && lf_clock_ns() < until) {
        lf_clock_sleep_ms(1);
        st = figures();
    }
    assert_int_equal(st.n_blocks_pinned, n_device);
    assert_int_equal(st.disk.n_pinned, n_disk);
}

static inline int n_there(struct lf_request *req, enum lf_pin tier)
{
    int n[LF_PIN_N];
    lf_engine_places(f.rig.engine, req->seq.keys[1].bytes, req->params.n_prompt / 64, n);
    return n[tier];
}

/* Requests by sixteens, some cancelled, while the disk fails now and then and the engine is started again. */
static inline void ask_and_fail(int n_rounds)
{
    for (int round = 0; round < n_rounds; round++) {
        struct lf_request *reqs[16];
        int32_t prompts[16][2000];
        int n[16];
        for (int i = 0; i < 16; i++) {
            uint64_t r = lf_random64(77, (uint64_t)(round * 16 + i));
            n[i] = 100 + (int)(r % 1900);
            rig_prompt(prompts[i], n[i], r / 7 % 6);
            struct lf_gen_params p = rig_params(prompts[i], n[i], 5);
            reqs[i] = rig_submit(&f.rig, &p);
            if (r / 64 % 8 == 0) lf_request_cancel(reqs[i]);
        }
        for (int i = 0; i < 16; i++) {
            struct lf_request_state st = rig_wait(reqs[i]);
            assert_true(st.finish == LF_FINISH_LENGTH || st.finish == LF_FINISH_CANCELLED);
            rig_check_tokens(reqs[i], prompts[i], n[i], st.n_tokens);
            lf_request_put(reqs[i]);
        }
        pthread_mutex_lock(&disk_lock);
        f.disk.fails_at = round % 4 == 1 ? f.disk.n_ops + 10 : -1;
        f.disk.fails_n = 3;
        f.disk.failure = LF_IO;
        pthread_mutex_unlock(&disk_lock);
        if (round % 3 == 2) restart();
    }
    assert_true(n_listed() > 30);
}

#endif
