/* Plans of a small model on a machine of any size, for tests. */
#ifndef LF_TESTS_UNIT_MODEL_PLAN_BENCH_H
#define LF_TESTS_UNIT_MODEL_PLAN_BENCH_H

#include "model/model.h"
#include "model/plan.h"
#include "tests/support/config_text.h"

#define MIB ((uint64_t)1 << 20)

/* A model of some size and a machine of any. */
struct bench {
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_device_info info;
    struct lf_plan_opts opts;
    uint64_t weight_bytes;
    struct temp_dir dir;
};

/* Of dummies for the configuration in dir. */
static inline uint64_t bench_weight_bytes(const char *dir, const struct lf_hparams *hp, struct lf_device *dev)
{
    struct lf_err err;
    struct lf_weights_size size;
    struct lf_model_opts opts = {.dir = dir, .load = LF_LOAD_DUMMY};
    assert_int_equal(lf_weights_measure(&size, hp, &opts, dev, &err), LF_OK);
    return size.bytes;
}

static inline void bench_open_as(struct bench *b, struct config_text c)
{
    struct lf_err err;
    struct lf_device_opts dev_opts = {.name = "cpu", .n_threads = 2, .max_isa = -1};
    config_set(&c, "max_position_embeddings", "131072");
    *b = (struct bench){.opts = {.kv_dtype = LF_BF16, .ctx = 8000, .host_bytes = 3 * MIB}};
    b->dir = temp_dir_make();
    config_write(&c, &b->dir);
    assert_int_equal(lf_hparams_read(&b->hp, b->dir.path, &err), LF_OK);
    assert_int_equal(lf_device_open(&b->dev, &dev_opts, &err), LF_OK);
    b->weight_bytes = bench_weight_bytes(b->dir.path, &b->hp, b->dev);
    b->info = *lf_device_info(b->dev);
    b->info.available_bytes = 1000 * MIB;
}

static inline void bench_open(struct bench *b)
{
    struct config_text c = config_llama();
    config_set(&c, "num_hidden_layers", "4");
    bench_open_as(b, c);
}

static inline void bench_close(struct bench *b)
{
    temp_dir_remove(&b->dir);
    lf_hparams_deinit(&b->hp);
    lf_device_close(b->dev);
}

static inline struct lf_plan plan(const struct bench *b)
{
    struct lf_plan p;
    struct lf_err err;
    enum lf_status status = lf_plan_make(&p, &b->hp, b->weight_bytes, lf_device_ops(b->dev), &b->info, &b->opts, &err);
    if (status != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(p.total_bytes, p.weight_bytes + p.workspace_bytes + p.host_bytes + p.disk_index_bytes +
                                        p.kv_bytes + p.state_bytes);
    assert_int_equal(p.state_bytes, (uint64_t)p.n_slots * p.slot_bytes);
    assert_int_equal(p.workspace_bytes, p.act_bytes + p.logits_bytes + p.rope_bytes + p.attn_bytes);
    assert_int_equal(p.kv_bytes, (uint64_t)p.n_blocks * p.kv_block_bytes);
    assert_int_equal(p.fits, p.advice[0] == 0);
    return p;
}

/* The longest context that a plan names fits, and a block more does not. */
static inline void expect_longest_ctx(struct bench *b)
{
    for (uint64_t mib = 20; mib <= 60; mib += 3) {
        b->opts.memory_bytes = mib * MIB;
        b->opts.ctx = LF_CTX_AUTO;
        struct lf_plan p = plan(b);
        assert_true(p.fits && p.is_auto_ctx && p.ctx > 0);
        if (p.ctx == b->hp.max_positions) continue;
        b->opts.ctx = p.ctx;
        assert_true(plan(b).fits);
        b->opts.ctx = p.ctx + LF_KV_BLOCK_TOKENS;
        assert_false(plan(b).fits);
    }
}

#endif
