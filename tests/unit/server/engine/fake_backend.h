/* A model for the engine's tests: a token is a pure function of all tokens before it, and the only way from one step to
 * the next leads through the KV blocks.
 *
 * Row p leaves in its slot a hash of (the hash in slot p - 1, the id of row p). The slot is found through the block
 * table, so a wrong table, a block shared or reused too early, a stale prefix hit or a skipped row changes every later
 * token. Logits of a row come from its hash; expected_token repeats them from the ids alone. */
#ifndef LF_TESTS_FAKE_BACKEND_H
#define LF_TESTS_FAKE_BACKEND_H

#include "tests/support/test.h"

#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/hash.h"
#include "kv/kv_cache.h"
#include "model/batch.h"
#include "server/engine/engine.h"

enum { FAKE_VOCAB = 97, FAKE_EOS = 7 };

struct fake_backend {
    int n_blocks;
    int delay_us;     /* of a step */
    int fail_at_step; /* 0: never */
    _Atomic int gate; /* steps wait while it is 1 */
    int n_steps;
    int max_rows_seen, max_seqs_seen;
    void (*on_thread)(void); /* called at every step: marks the engine thread */
};

static const int32_t fake_eos[1] = {FAKE_EOS};

static inline uint64_t fake_hash(uint64_t before, int32_t id)
{
    return lf_mix64(before * 31 + (uint64_t)id + 1);
}

static inline float fake_logit(uint64_t hash, int v)
{
    return (float)(lf_mix64(hash ^ (uint64_t)v * 0x9e37u) >> 40) * 1e-6f;
}

static inline int32_t fake_argmax(uint64_t hash)
{
    int best = 0;
    for (int v = 1; v < FAKE_VOCAB; v++)
        if (fake_logit(hash, v) > fake_logit(hash, best)) best = v;
    return best;
}

/* The greedy token behind ids[0..n). */
static inline int32_t fake_expected(const int32_t *ids, int n)
{
    uint64_t h = 0;
    for (int i = 0; i < n; i++) h = fake_hash(h, ids[i]);
    return fake_argmax(h);
}

static inline uint32_t *fake_slot(const struct lf_kv_view *v, const struct lf_kv_seq *seq, int p, int half)
{
    float *page = lf_kv_page(v, seq->blocks[p / LF_KV_BLOCK_TOKENS], 0, LF_KV_K, 0);
    return (uint32_t *)(void *)(page + lf_kv_k_index(v, p % LF_KV_BLOCK_TOKENS, half));
}

static inline uint64_t fake_load(const struct lf_kv_view *v, const struct lf_kv_seq *seq, int p)
{
    return (uint64_t)*fake_slot(v, seq, p, 0) << 32 | *fake_slot(v, seq, p, 1);
}

static inline void fake_store(const struct lf_kv_view *v, const struct lf_kv_seq *seq, int p, uint64_t h)
{
    *fake_slot(v, seq, p, 0) = (uint32_t)(h >> 32);
    *fake_slot(v, seq, p, 1) = (uint32_t)h;
}

static inline enum lf_status fake_step(void *ctx, struct lf_kv_cache *kv, const struct lf_batch *batch, float *logits)
{
    struct fake_backend *f = ctx;
    if (f->on_thread) f->on_thread();
    while (f->gate) lf_clock_sleep_ms(1);
    f->n_steps++;
    f->max_rows_seen = LF_MAX(f->max_rows_seen, batch->n_rows);
    f->max_seqs_seen = LF_MAX(f->max_seqs_seen, batch->n_seqs);
    if (f->fail_at_step != 0 && f->n_steps >= f->fail_at_step) return LF_DEVICE;
    int row = 0, out = 0;
    for (int s = 0; s < batch->n_seqs; s++) {
        const struct lf_kv_seq *seq = &batch->seqs[s];
        LF_ASSERT(seq->first_row == row && seq->n_rows >= 1 && seq->kv_len >= seq->n_rows);
        for (int i = 0; i < seq->n_rows; i++, row++) {
            int p = seq->kv_len - seq->n_rows + i;
            uint64_t h = fake_hash(p == 0 ? 0 : fake_load(&kv->view, seq, p - 1), batch->ids[row]);
            fake_store(&kv->view, seq, p, h);
            if (out == batch->n_out || batch->out_rows[out] != row) continue;
            for (int v = 0; v < FAKE_VOCAB; v++) logits[(size_t)out * FAKE_VOCAB + (size_t)v] = fake_logit(h, v);
            out++;
        }
    }
    LF_ASSERT(row == batch->n_rows && out == batch->n_out);
    if (f->delay_us > 0) {
        struct timespec t = {0, f->delay_us * 1000L};
        nanosleep(&t, NULL);
    }
    return LF_OK;
}

/* An engine over a fake model, with everything below it. */
struct fake_engine {
    struct fake_backend backend;
    struct lf_device *dev;
    struct lf_kv_cache kv;
    struct lf_engine *engine;
};

static inline struct lf_engine_opts fake_opts(void)
{
    return (struct lf_engine_opts){
        .ctx = 4096, .chunk = 256, .max_seqs = 16, .max_out = 16, .queue_n = 256, .step_ms = 5, .watchdog_s = 0};
}

static inline void fake_open_kv(struct fake_engine *f, int n_blocks, const struct lf_engine_opts *opts, bool prefix)
{
    struct lf_device_opts dev = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_kv_cache_opts kv = {
        .dtype = LF_F32, .n_blocks = n_blocks, .n_layers = 1, .n_kv_heads = 1, .head_dim = 2, .prefix_cache = prefix};
    assert_int_equal(lf_device_open(&f->dev, &dev, NULL), LF_OK);
    assert_int_equal(lf_kv_cache_open(&f->kv, f->dev, &kv, NULL), LF_OK);
    struct lf_engine_backend backend = {
        .ctx = &f->backend, .step = fake_step, .n_vocab = FAKE_VOCAB, .eos_ids = fake_eos, .n_eos = 1};
    struct lf_err err = {LF_OK, ""};
    if (lf_engine_create(&f->engine, &backend, &f->kv, opts, &err) != LF_OK) fail_msg("%s", err.message);
}

static inline void fake_open(struct fake_engine *f, int n_blocks, const struct lf_engine_opts *opts)
{
    fake_open_kv(f, n_blocks, opts, true);
}

static inline void fake_close(struct fake_engine *f)
{
    lf_engine_destroy(f->engine);
    lf_block_pool_check(&f->kv.pool);
    assert_int_equal(f->kv.pool.n_free + f->kv.pool.n_cached, f->kv.pool.n_blocks);
    lf_kv_cache_close(&f->kv);
    lf_device_close(f->dev);
}

static inline struct lf_gen_params fake_params(const int32_t *prompt, int n_prompt, int max_tokens)
{
    return (struct lf_gen_params){.prompt = prompt,
                                  .n_prompt = n_prompt,
                                  .max_tokens = max_tokens,
                                  .ignore_eos = true,
                                  .sampling = {.temperature = 0, .top_p = 1, .repetition_penalty = 1, .n_logprobs = -1},
                                  .n_prompt_logprobs = -1};
}

static inline void fake_prompt(int32_t *ids, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(lf_random64(seed, (uint64_t)i) % FAKE_VOCAB);
}

static inline struct lf_request *fake_submit(struct fake_engine *f, const struct lf_gen_params *p)
{
    struct lf_request *req = NULL;
    struct lf_err err = {LF_OK, ""};
    int retry = 0;
    if (lf_engine_submit(f->engine, p, &req, &retry, &err) != LF_OK) fail_msg("%s", err.message);
    return req;
}

/* Waits for the end, at most 30 s. */
static inline struct lf_request_state fake_wait(struct lf_request *req)
{
    struct lf_request_state st;
    int64_t until = lf_clock_ns() + 30 * (int64_t)LF_NS_PER_S;
    do {
        lf_request_look(req, &st);
        if (st.finish != LF_FINISH_NONE) return st;
        struct timespec t = {0, 200000};
        nanosleep(&t, NULL);
    } while (lf_clock_ns() < until);
    fail_msg("the request did not end: %d of its tokens, %d of %d processed", st.n_tokens, st.n_processed, st.n_prompt);
    return st;
}

/* The request's n tokens are the ones that its prompt leads to. */
static inline void fake_check_tokens(const struct lf_request *req, const int32_t *prompt, int n_prompt, int n)
{
    uint64_t h = 0;
    for (int i = 0; i < n_prompt; i++) h = fake_hash(h, prompt[i]);
    for (int i = 0; i < n; i++) {
        int32_t id = lf_request_token(req, i)->id;
        assert_int_equal(id, fake_argmax(h));
        h = fake_hash(h, id);
    }
}

/* Blocks in use once the engine has come by after the last end. */
static inline int fake_blocks_used(struct fake_engine *f)
{
    struct lf_engine_state st;
    for (int i = 0; i < 2000; i++) {
        lf_engine_look(f->engine, &st);
        if (st.n_running == 0 && st.n_waiting == 0 && st.n_blocks_used == 0) return 0;
        lf_clock_sleep_ms(1);
    }
    return st.n_blocks_used;
}

#endif
