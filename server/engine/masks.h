/* Masks of the tokens that grammars allow next, and the tokens that came: what the engine asks matchers.
 *
 * Two things keep the engine's own thread from simply asking. A matcher may need memory, which this thread must not
 * take; and a mask costs a few microseconds usually but milliseconds at worst, with a row for each running sequence. So
 * there are a few threads beside it. It begins by itself, with matchers that may take no memory: usually they have what
 * they need, and the list is done before a thread would have been woken. What then needs memory, and what is left after
 * LF_MASKS_ALONE_NS, goes to the threads; the engine takes its part of it and waits for theirs. Where the device
 * computes on the host, its own workers are awake and have nothing to do just then: a list is divided among them
 * instead, and only what needs memory goes to the threads.
 *
 * What comes out does not depend on who computed it. One lock, never held while a matcher works; the engine holds no
 * other then. */
#ifndef LF_SERVER_ENGINE_MASKS_H
#define LF_SERVER_ENGINE_MASKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/status.h"
#include "server/engine/engine.h"

#define LF_MASKS_ALONE_NS INT64_C(50000)

struct lf_matcher;

/* What is asked of one matcher: to take a token; or to look ahead (grammar.h), for the mask of the tokens that may come
 * and those behind each of n_ahead, or, where mask is NULL, only for how many of these may. */
struct lf_mask_job {
    struct lf_matcher *matcher;
    uint32_t *mask; /* [n_ahead + 1, stride]; NULL, and n_ahead 0: token is taken */
    size_t stride;
    const int32_t *ahead;   /* [n_ahead] borrowed */
    int n_ahead, n_allowed; /* n_allowed: out */
    int32_t token;
    enum lf_status status; /* out; LF_FULL never */
    struct lf_mask_job *next_short;
};

struct lf_masks {
    pthread_t threads[LF_MASK_THREADS_N];
    int n_threads;
    /* Of the device, set before the first list; NULL: it has no workers. */
    void (*run_tasks)(void *run_ctx, int n_tasks, lf_engine_task_fn *fn, void *tasks);
    void *run_ctx;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    /* Under the lock: */
    struct lf_mask_job *jobs; /* that anybody may take: next .. n_jobs - 1 */
    int next, n_jobs;
    struct lf_mask_job *first_short; /* that need memory: for the threads */
    int n_left;                      /* handed over and not done */
    bool stop;
};

/* n_threads: 1 to LF_MASK_THREADS_N. LF_NO_MEMORY leaves nothing. */
LF_MUST_CHECK enum lf_status lf_masks_init(struct lf_masks *masks, int n_threads, struct lf_err *err);
void lf_masks_deinit(struct lf_masks *masks);
/* All jobs are done on return, each of another matcher. One thread at a time. */
void lf_masks_run(struct lf_masks *masks, struct lf_mask_job *jobs, int n);

#endif
