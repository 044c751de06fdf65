/* What the engine is made of, for its own files. */
#ifndef LF_SERVER_ENGINE_ENGINE_INTERNAL_H
#define LF_SERVER_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>

#include "kv/kv_cache.h"
#include "server/engine/batch_build.h"
#include "server/engine/engine.h"
#include "server/engine/mailbox.h"
#include "server/engine/scheduler.h"

struct lf_engine {
    /* Constant after create. */
    struct lf_engine_backend backend;
    struct lf_engine_opts opts;
    pthread_t thread;
    /* Any thread. */
    struct lf_engine_metrics metrics;
    struct lf_mailbox mailbox;
    /* The engine thread's. */
    struct lf_kv_cache *kv; /* borrowed */
    struct lf_sched sched;
    struct lf_sched_plan plan;
    struct lf_batch_arrays arrays;
    float *logits;              /* [max_out, n_vocab] */
    void *scratch;              /* of the sampler */
    struct lf_request *touched; /* chain of those with something to publish */
    struct lf_engine_state figures;
    bool failed;
};

/* Puts a request on the chain of those to publish, once. */
void lf_engine_touch(struct lf_engine *e, struct lf_request *req);
/* Ends a request that waits or runs: its blocks go back. The only place where one ends. */
void lf_engine_finish(struct lf_engine *e, struct lf_request *req, enum lf_finish finish, enum lf_status status,
                      const char *message, int64_t now_ns);
/* Books the step that was run (e->plan, e->logits), samples, and ends what is complete. */
void lf_engine_read_step(struct lf_engine *e, int64_t now_ns);

#endif
