/* A scheduler with a pool of 16 blocks, four slots and eight sequences; time and measurements are the test's. */
#ifndef LF_TESTS_UNIT_SERVER_ENGINE_SCHED_RIG_H
#define LF_TESTS_UNIT_SERVER_ENGINE_SCHED_RIG_H

#include "tests/support/test.h"

#include "core/check.h"
#include "core/clock.h"
#include "server/engine/proposals.h"
#include "server/engine/scheduler.h"

enum { N_BLOCKS = 16, MAX_SEQS = 4, B = LF_KV_BLOCK_TOKENS, MAX_IDS = N_BLOCKS * B };

struct fixture {
    struct lf_block_pool pool;
    struct lf_sched sched;
    struct lf_sched_step step;
    struct lf_sched_item items[MAX_SEQS];
    struct lf_sched_seq seqs[8];
    int32_t ids[8][MAX_IDS], blocks[8][N_BLOCKS];
    struct lf_sched_tenant tenants[4];
    uint32_t held_epochs[N_BLOCKS];
    struct lf_prefix_cache *prefix; /* of setup_shared */
    struct lf_prefix_key keys[8][N_BLOCKS + 1];
    int n_seqs;
};

static inline int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    if (lf_block_pool_init(&f.pool, N_BLOCKS, NULL) != LF_OK) return -1;
    const struct lf_sched_opts opts = {.chunk = 256,
                                       .max_seqs = MAX_SEQS,
                                       .max_out = MAX_SEQS,
                                       .token_tile = 1,
                                       .step_ns = 50 * LF_NS_PER_MS,
                                       .alone_ns = 50 * LF_NS_PER_MS,
                                       .pool = &f.pool,
                                       .tenants = f.tenants,
                                       .n_tenants = 4,
                                       .held_epochs = f.held_epochs};
    lf_sched_init(&f.sched, &opts);
    f.step.items = f.items;
    *state = &f;
    return 0;
}

/* The same with a prefix cache. */
static inline int setup_shared(void **state)
{
    if (setup(state) != 0) return -1;
    struct fixture *f = *state;
    if (lf_prefix_cache_create(&f->prefix, &f->pool, "test", 4, B, NULL) != LF_OK) return -1;
    f->sched.opts.prefix = f->prefix;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    int32_t refs[N_BLOCKS];
    lf_sched_check(&f->sched, NULL, refs);
    for (int i = 0; i < f->n_seqs; i++)
        if (f->seqs[i].phase != LF_SCHED_ENDED) lf_sched_end(&f->sched, &f->seqs[i]);
    lf_sched_check(&f->sched, NULL, refs);
    assert_int_equal(f->pool.n_free + f->pool.n_cached, N_BLOCKS);
    lf_prefix_cache_destroy(f->prefix);
    lf_block_pool_deinit(&f->pool);
    return 0;
}

static inline struct lf_sched_seq *submit(struct fixture *f, int n_prompt, int max_tokens, int64_t now_ns)
{
    struct lf_sched_seq *seq = &f->seqs[f->n_seqs];
    seq->ids = f->ids[f->n_seqs];
    seq->blocks = f->blocks[f->n_seqs++];
    seq->block_tokens = B;
    seq->n_prompt = n_prompt;
    seq->max_tokens = max_tokens;
    lf_sched_submit(&f->sched, seq, now_ns);
    return seq;
}

/* A prompt that begins with n_same tokens that all of these have, and goes on as no other does. */
static inline struct lf_sched_seq *submit_shared(struct fixture *f, int n_same, int n_prompt, int64_t now_ns)
{
    struct lf_sched_seq *seq = &f->seqs[f->n_seqs];
    int32_t *ids = f->ids[f->n_seqs];
    seq->keys = f->keys[f->n_seqs];
    for (int i = 0; i < n_prompt; i++) ids[i] = i < n_same ? i : 1000 * (f->n_seqs + 1) + i;
    lf_prefix_cache_root(f->prefix, NULL, 0, &seq->keys[0]);
    for (int i = 0; i < n_prompt / B; i++)
        lf_prefix_key_next(&seq->keys[i], ids + (ptrdiff_t)i * B, B, &seq->keys[i + 1]);
    seq->n_keys = n_prompt / B + 1;
    return submit(f, n_prompt, 0, now_ns);
}

static inline void run(struct fixture *f, int64_t took_ns)
{
    lf_sched_launched(&f->sched, &f->step);
    for (int i = 0; i < f->step.n_items; i++)
        if (f->items[i].complete && f->items[i].seq->max_tokens > 0) lf_sched_sampled(&f->sched, f->items[i].seq, 1);
    lf_sched_learn(&f->sched, &f->step, took_ns);
}

/* Runs a step of 1 ms; every sequence that is due gets a token. */
static inline void step(struct fixture *f)
{
    lf_sched_plan_step(&f->sched, &f->step);
    run(f, LF_NS_PER_MS);
}

static inline struct lf_sched_seq *submit_for(struct fixture *f, uint64_t tenant, int priority, int n_prompt,
                                              int64_t now_ns)
{
    f->seqs[f->n_seqs].tenant_id = tenant;
    f->seqs[f->n_seqs].priority = priority;
    return submit(f, n_prompt, 0, now_ns);
}

/* A machine on which a token takes so long, and keys take key_ns; known for steps of any size. */
static inline void set_cost(struct fixture *f, double token_ns, double key_ns)
{
    struct lf_cost *cost = &f->sched.cost;
    for (int i = 0; i < LF_COST_N; i++) cost->w[i] = 1e-6;
    cost->w[LF_COST_TOKEN] = token_ns;
    cost->w[LF_COST_TRIED] = token_ns;
    cost->w[LF_COST_DECODE_KEY] = key_ns;
    cost->n_seen = 100;
    cost->most_tokens = 1000;
}

#endif
