/* What the engine drives: a model, or a double of it (engine.h). */
#ifndef LF_SERVER_ENGINE_BACKEND_H
#define LF_SERVER_ENGINE_BACKEND_H

#include <stdint.h>

#include "core/status.h"

struct lf_batch;
struct lf_kv_cache;
struct lf_sampled;

enum { LF_ENGINE_ASYNC_STEPS_N = 1 };

typedef void lf_engine_task_fn(void *tasks, int task_idx, int worker_idx);

/* What the engine drives, on its thread: lf_model_launch, lf_model_sample, lf_model_wait and lf_model_run_tasks, or a
 * double of theirs. */
struct lf_engine_backend {
    void *ctx;
    enum lf_status (*launch)(void *ctx, struct lf_kv_cache *kv, const struct lf_batch *batch);
    enum lf_status (*sample)(void *ctx, const struct lf_batch *batch); /* behind a launch of which it says so */
    enum lf_status (*wait)(void *ctx, struct lf_sampled *out);
    /* Calls fn(tasks, 0) to fn(tasks, n_tasks - 1) on the device's own threads and the caller's, and returns when all
     * are done. NULL: it has none, or they have other things to do between launch and sample. */
    void (*run_tasks)(void *ctx, int n_tasks, lf_engine_task_fn *fn, void *tasks);
    /* Between steps, at least every beat_ms, so that others who wait for this thread know that it is there. NULL:
     * nobody does, and an engine without work sleeps until there is some. */
    enum lf_status (*beat)(void *ctx);
    int beat_ms;
    void (*end)(void *ctx); /* behind all other calls, once: this thread ends. NULL: nobody needs to know */
    int n_async_steps;      /* launched before the one before them was waited for, <= LF_ENGINE_ASYNC_STEPS_N */
    int n_vocab;
    const int32_t *eos_ids; /* borrowed */
    int n_eos;
};

#endif
