/* What the engine is made of, for its own files. */
#ifndef LF_SERVER_ENGINE_ENGINE_INTERNAL_H
#define LF_SERVER_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>

#include "kv/kv_cache.h"
#include "server/engine/batch_build.h"
#include "server/engine/engine.h"
#include "server/engine/mailbox.h"
#include "server/engine/masks.h"
#include "server/engine/scheduler.h"
#include "server/engine/tiers.h"

/* A step that was launched and has not been read. */
struct lf_flight {
    struct lf_sched_step step; /* an item whose request has ended meanwhile has no seq */
    int64_t launched_ns;
};

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
    struct lf_flight flights[LF_ENGINE_ASYNC_STEPS_N + 1]; /* a ring: the oldest is flights[first_flight] */
    int first_flight, n_flights;
    int64_t last_read_ns;
    int64_t idle_ns; /* when the step read last was seen to have ended */
    uint64_t n_steps_read;
    bool stalled; /* all that runs or waits needs what is on its way from or to the disk */
    struct lf_tiers tiers;
    struct lf_batch_arrays arrays;
    struct lf_sampled *results; /* [max_out] of the step being read */
    struct lf_masks masks;
    struct lf_mask_job *mask_jobs; /* [max_out] */
    uint32_t *mask_rows;           /* [max_out, n_mask_words] */
    int n_mask_words;
    int *slots; /* [n_slots] free, of lf_batch_n_slots */
    struct lf_sched_tenant *tenants;
    uint32_t *held_epochs; /* [n_blocks] */
    int n_slots;
    struct lf_request *touched; /* chain of those with something to publish */
    struct lf_engine_state figures;
    bool failed;
};

/* Tokens of the longest request that so many blocks of the pool are enough for, but for the context. Any thread. */
int64_t lf_engine_fit(const struct lf_engine *e, int64_t n_blocks);
/* Puts a request on the chain of those to publish, once. */
void lf_engine_touch(struct lf_engine *e, struct lf_request *req);
/* Ends a request that waits or runs: its blocks go back. The only place where one ends. */
void lf_engine_finish(struct lf_engine *e, struct lf_request *req, enum lf_finish finish, enum lf_status status,
                      const char *message, int64_t now_ns);
/* Debug builds: fills with NaN what the step that has just been launched was the last one to see (lf_kv_cache_poison).
 */
void lf_engine_poison_passed(struct lf_engine *e, const struct lf_sched_step *step);
/* Lets go of what a request holds that has ended, or takes back what it said of blocks before it could. */
void lf_engine_let_go(struct lf_engine *e, struct lf_request *req);
/* Ends a request with a pin that has just come, and whose blocks are all where they are to stay: false: they are not.
 */
bool lf_engine_hold_at_once(struct lf_engine *e, struct lf_request *req, int64_t now_ns);
/* Ends a request whose grammar cannot be followed: LF_LIMIT, LF_NO_MEMORY, LF_UNSUPPORTED (no token), LF_INVALID. */
void lf_engine_end_grammar(struct lf_engine *e, struct lf_request *req, enum lf_status status, int64_t now_ns);
/* Ends a request whose deadline has passed, with what it has. */
void lf_engine_time_out(struct lf_engine *e, struct lf_request *req, int64_t now_ns);
/* Fills e->arrays.outs: what the planned step is to make of each row of logits. Before its launch. */
void lf_engine_fill_outs(struct lf_engine *e, const struct lf_sched_step *step);
/* Whether the planned step draws a token under a grammar or beside bad words: then it is sampled later. */
bool lf_engine_has_masks(const struct lf_sched_step *step);
/* Behind the step's launch, when all tokens before it are known: the masks of e->arrays.outs. Ends requests whose
 * answers are whole, or cannot go on; their rows are drawn as if they had no grammar, and nobody reads them. */
void lf_engine_fill_masks(struct lf_engine *e, struct lf_sched_step *step, int64_t now_ns);
/* How many of n proposed tokens the grammar of seq's request takes, as lf_sched_opts.n_allowed asks. */
int lf_engine_n_allowed(void *engine, const struct lf_sched_seq *seq, const int32_t *ids, int n);
/* Books what a step has brought (e->results) and ends what is complete. */
void lf_engine_read(struct lf_engine *e, const struct lf_sched_step *step, int64_t now_ns);

#endif
