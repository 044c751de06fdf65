/* A real engine over a model that is not one (fake_backend.h), and what every test of the engine does with it. */
#ifndef LF_TESTS_ENGINE_RIG_H
#define LF_TESTS_ENGINE_RIG_H

#include "server/engine/engine.h"
#include "tests/unit/server/engine/fake_backend.h"

/* With everything below it. */
struct engine_rig {
    struct fake_backend backend;
    struct lf_device *dev;
    struct lf_kv_cache kv;
    int n_stripes;                     /* that a block's tokens are divided into; 0: one */
    int n_spare_slots;                 /* of states, where the layout has them, beside those for what runs */
    enum lf_status (*beat)(void *ctx); /* as in lf_engine_backend */
    int beat_ms;
    void (*end)(void *ctx);            /* as there */
    const struct lf_kv_layout *layout; /* of the cache, borrowed; NULL: a layer that sees all. Slots are group 0's */
    struct lf_engine *engine;
};

static inline struct lf_engine_opts rig_opts(void)
{
    return (struct lf_engine_opts){
        .ctx = 4096, .chunk = 256, .max_seqs = 16, .max_out = 16, .queue_n = 256, .step_ms = 5, .watchdog_s = 0};
}

static inline struct lf_engine_backend rig_backend(struct engine_rig *f)
{
    return (struct lf_engine_backend){.ctx = &f->backend,
                                      .launch = fake_launch,
                                      .sample = fake_sample_step,
                                      .wait = fake_wait_step,
                                      .run_tasks = f->backend.workers ? fake_run_tasks : NULL,
                                      .beat = f->beat,
                                      .beat_ms = f->beat_ms,
                                      .end = f->end,
                                      .n_async_steps = f->backend.n_async_steps,
                                      .n_vocab = FAKE_VOCAB,
                                      .eos_ids = fake_eos,
                                      .n_eos = 1};
}

static inline void rig_open_kv(struct engine_rig *f, int n_blocks, const struct lf_engine_opts *opts, bool prefix)
{
    struct lf_device_opts dev = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_kv_cache_opts kv = {
        .dtype = LF_F32, .n_blocks = n_blocks, .n_layers = 1, .n_kv_heads = 1, .head_dim = 2, .prefix_cache = prefix};
    int n_slots = lf_batch_n_slots(opts->max_seqs);
    kv.layout = f->layout;
    kv.stripe.n = f->n_stripes;
    kv.n_layers = f->n_stripes > 1 ? f->n_stripes : 1;
    kv.n_slots = f->layout && f->layout->states.n_layers > 0 ? n_slots + f->n_spare_slots : 0;
    assert_int_equal(lf_device_open(&f->dev, &dev, NULL), LF_OK);
    assert_int_equal(lf_kv_cache_open(&f->kv, f->dev, &kv, NULL), LF_OK);
    f->backend.n_slots = n_slots <= FAKE_OUT_N ? n_slots : 0;
    struct lf_engine_backend backend = rig_backend(f);
    struct lf_err err = {LF_OK, ""};
    if (lf_engine_create(&f->engine, &backend, &f->kv, opts, &err) != LF_OK) fail_msg("%s", err.message);
}

static inline void rig_open(struct engine_rig *f, int n_blocks, const struct lf_engine_opts *opts)
{
    rig_open_kv(f, n_blocks, opts, true);
}

static inline void rig_close(struct engine_rig *f)
{
    lf_engine_destroy(f->engine);
    lf_block_pool_check(&f->kv.pool);
    assert_int_equal(f->kv.pool.n_free + f->kv.pool.n_cached, f->kv.pool.n_blocks);
    assert_int_equal(f->kv.slots.n_free + f->kv.slots.n_cached, f->kv.slots.n_blocks);
    lf_kv_cache_close(&f->kv);
    lf_device_close(f->dev);
}

static inline struct lf_gen_params rig_params(const int32_t *prompt, int n_prompt, int max_tokens)
{
    return (struct lf_gen_params){.prompt = prompt,
                                  .n_prompt = n_prompt,
                                  .max_tokens = max_tokens,
                                  .ignore_eos = true,
                                  .sampling = {.temperature = 0, .top_p = 1, .repetition_penalty = 1, .n_logprobs = -1},
                                  .n_prompt_logprobs = -1};
}

static inline void rig_prompt(int32_t *ids, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(lf_random64(seed, (uint64_t)i) % FAKE_VOCAB);
}

static inline struct lf_request *rig_submit(struct engine_rig *f, const struct lf_gen_params *p)
{
    struct lf_request *req = NULL;
    struct lf_err err = {LF_OK, ""};
    int retry = 0;
    if (lf_engine_submit(f->engine, p, &req, &retry, &err) != LF_OK) fail_msg("%s", err.message);
    return req;
}

/* Nothing here takes so long, whatever else the machine does: it only ends a hang. */
enum { RIG_PATIENCE_S = 240 };

/* Waits for the end. */
static inline struct lf_request_state rig_wait(struct lf_request *req)
{
    struct lf_request_state st;
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * (int64_t)LF_NS_PER_S;
    do {
        lf_request_snapshot(req, &st);
        if (st.finish != LF_FINISH_NONE) return st;
        struct timespec t = {0, 200000};
        nanosleep(&t, NULL);
    } while (lf_clock_ns() < until);
    fail_msg("the request did not end: %d of its tokens, %d of %d processed", st.n_tokens, st.n_processed, st.n_prompt);
    return st;
}

/* The request's n tokens are the ones that its prompt leads to. */
static inline void rig_check_tokens(const struct lf_request *req, const int32_t *prompt, int n_prompt, int n)
{
    uint64_t h = 0;
    for (int i = 0; i < n_prompt; i++) h = fake_hash(h, prompt[i]);
    for (int i = 0; i < n; i++) {
        int32_t id = lf_request_token(req, i)->id;
        assert_int_equal(id, fake_argmax(h));
        h = fake_hash(h, id);
    }
}

/* A greedy request from submit to put; its tokens are checked. */
static inline struct lf_request_state rig_generate(struct engine_rig *f, int n_prompt, int max_tokens, uint64_t seed)
{
    int32_t prompt[4096];
    rig_prompt(prompt, n_prompt, seed);
    struct lf_gen_params p = rig_params(prompt, n_prompt, max_tokens);
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st = rig_wait(req);
    rig_check_tokens(req, prompt, n_prompt, st.n_tokens);
    lf_request_put(req);
    return st;
}

/* Blocks in use once the engine has come by after the last end. */
static inline int rig_blocks_used(struct engine_rig *f)
{
    struct lf_engine_state st;
    int64_t until = lf_clock_ns() + RIG_PATIENCE_S * (int64_t)LF_NS_PER_S;
    do {
        lf_engine_snapshot(f->engine, &st);
        if (st.n_running == 0 && st.n_waiting == 0 && st.n_blocks_used == 0) return 0;
        lf_clock_sleep_ms(1);
    } while (lf_clock_ns() < until);
    return st.n_blocks_used;
}

/* Submits and lets go at once. A refusal leaves no request and says why. */
static inline enum lf_status rig_try(struct engine_rig *f, const struct lf_gen_params *p, int *retry)
{
    struct lf_request *req = NULL;
    struct lf_err err = {LF_OK, ""};
    enum lf_status status = lf_engine_submit(f->engine, p, &req, retry, &err);
    if (status == LF_OK) {
        lf_request_put(req);
    } else {
        assert_null(req);
        assert_int_equal(err.status, status);
        assert_true(err.message[0] != 0);
    }
    return status;
}

#endif
