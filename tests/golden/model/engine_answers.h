/* A whole engine over a model of random weights, and what it answers to a few prompts: ids, and the bits of their
 * log-probabilities. What tests of caches compare, whatever else they open beside it. */
#ifndef LF_TESTS_GOLDEN_MODEL_ENGINE_ANSWERS_H
#define LF_TESTS_GOLDEN_MODEL_ENGINE_ANSWERS_H

#include "core/clock.h"
#include "core/mix.h"
#include "server/engine/engine.h"
#include "tests/support/model_rig.h"
#include "tests/support/test.h"

enum { CTX = 1536, N_VOCAB = 50, ANSWER = 90, PATIENCE_S = 240 };

struct answer {
    struct {
        int32_t id;
        float logprob;
    } tokens[ANSWER];
};

static inline enum lf_status rig_launch(void *ctx, struct lf_kv_cache *kv, const struct lf_batch *batch)
{
    return lf_model_launch(ctx, kv, batch, NULL);
}

static inline enum lf_status rig_sample(void *ctx, const struct lf_batch *batch)
{
    return lf_model_sample(ctx, batch, NULL);
}

static inline enum lf_status rig_wait(void *ctx, struct lf_sampled *out)
{
    return lf_model_wait(ctx, out, NULL);
}

/* opts: its sizes are those of the rig. */
static inline struct lf_engine *engine_over(struct model_rig *rig, const struct lf_engine_opts *opts)
{
    struct lf_err err = {0};
    struct lf_engine *engine = NULL;
    struct lf_engine_backend backend = {.ctx = rig->model,
                                        .launch = rig_launch,
                                        .sample = rig_sample,
                                        .wait = rig_wait,
                                        .n_async_steps = lf_model_n_async_steps(rig->model),
                                        .n_vocab = N_VOCAB};
    if (lf_engine_create(&engine, &backend, &rig->kv, opts, &err) != LF_OK) fail_msg("%s", err.message);
    return engine;
}

/* A prompt of n tokens that begins as every other does, but for its last three. */
static inline struct lf_request *submit(struct lf_engine *engine, int n)
{
    int32_t ids[CTX];
    struct lf_err err = {0};
    struct lf_request *req = NULL;
    int retry = 0;
    for (int k = 0; k < n; k++) ids[k] = (int32_t)(lf_random64(k < n - 3 ? 1 : 2 + (uint64_t)n, (uint64_t)k) % N_VOCAB);
    struct lf_gen_params p = {.prompt = ids,
                              .n_prompt = n,
                              .max_tokens = ANSWER,
                              .ignore_eos = true,
                              .sampling = {.temperature = 0, .top_p = 1, .repetition_penalty = 1, .n_logprobs = 0},
                              .n_prompt_logprobs = -1};
    if (lf_engine_submit(engine, &p, &req, &retry, &err) != LF_OK) fail_msg("%s", err.message);
    return req;
}

/* Waits for it; where its prompt's tokens came from is in what is returned. */
static inline struct lf_request_state collect(struct lf_request *req, struct answer *out)
{
    struct lf_request_state st;
    int64_t until = lf_clock_ns() + PATIENCE_S * (int64_t)LF_NS_PER_S;
    for (lf_request_snapshot(req, &st); st.finish == LF_FINISH_NONE; lf_request_snapshot(req, &st)) {
        if (lf_clock_ns() > until) fail_msg("the request did not end");
        lf_clock_sleep_ms(1);
    }
    assert_int_equal(st.n_tokens, ANSWER);
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < ANSWER; i++) {
        out->tokens[i].id = lf_request_token(req, i)->id;
        out->tokens[i].logprob = lf_request_token(req, i)->logprob;
    }
    lf_request_put(req);
    return st;
}

/* Prompts of these lengths, each alone. */
static inline void ask_alone(struct lf_engine *engine, const int *lengths, int n, struct answer *out)
{
    for (int i = 0; i < n; i++) (void)collect(submit(engine, lengths[i]), &out[i]);
}

/* `copies` of each, at once: copies of one have the same answer. */
static inline void ask_together(struct lf_engine *engine, const int *lengths, int n, int copies, struct answer *out)
{
    enum { MOST = 64 };
    struct lf_request *reqs[MOST];
    struct answer again;
    assert_true(n * copies <= MOST);
    for (int i = 0; i < n * copies; i++) reqs[i] = submit(engine, lengths[i % n]);
    for (int i = 0; i < n; i++) (void)collect(reqs[i], &out[i]);
    for (int i = n; i < n * copies; i++) {
        (void)collect(reqs[i], &again);
        assert_memory_equal(&again, &out[i % n], sizeof(again));
    }
}

static inline void expect_same(const struct answer *a, const struct answer *b, const int *lengths, int n)
{
    for (int i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof(a[i])) != 0) fail_msg("the prompt of %d tokens has another answer", lengths[i]);
}

/* All that an engine held is free or cached once it has ended. */
static inline void expect_all_back(const struct lf_block_pool *pool)
{
    lf_block_pool_check(pool);
    assert_int_equal(pool->n_free + pool->n_cached, pool->n_blocks);
}

#endif
