/* Jobs on their way between the engine thread and a tier's own threads: what all tiers with threads share.
 *
 *     free ── job, submit ──► queue of its lane ── a thread takes it ──► back ── back, done ──► free
 *                        └────────── refused, stopped ────────────────►
 *
 * There are two lanes, saves and loads, each with its queue and its figures, so that neither stands behind the other.
 * One lock over both; a tier may keep what its threads and the engine both look at under it too. It is held for some
 * dozens of instructions: not while bytes are moved, the engine is woken or a line is logged. */
#ifndef LF_KV_TIERS_LANES_H
#define LF_KV_TIERS_LANES_H

#include <pthread.h>

#include "kv/tiers/tier.h"

enum { LF_LANES_THREADS_N = 16 };

struct lf_lane {
    struct lf_list queue;
    pthread_cond_t work; /* its threads may have something to do */
    int n_waiting, n_busy;
    int64_t busy_since_ns; /* n_busy > 0 */
    uint64_t n_done, n_failed;
    double busy_ns;
};

/* The first member of a tier that has them. */
struct lf_lanes {
    struct lf_tier tier;
    /* Something is back. On any of the tier's threads, and within a submit that is refused; with no lock held; must
     * return at once. */
    void (*wake)(void *ctx);
    void *wake_ctx;
    /* The engine thread's: */
    struct lf_tier_job *jobs;
    struct lf_list free;
    int n_under_way;
    pthread_t threads[LF_LANES_THREADS_N];
    int n_threads;          /* that have been started */
    pthread_mutex_t lock;   /* over all below */
    struct lf_lane lane[2]; /* by enum lf_tier_way */
    struct lf_list back;
    bool stop;
};

/* Of a zeroed one; false: no memory or lock, and nothing is left. */
LF_MUST_CHECK bool lf_lanes_init(struct lf_lanes *lanes, int n_jobs);
void lf_lanes_deinit(struct lf_lanes *lanes); /* stopped, or without threads */
/* One more thread, which takes no signals: those belong to the threads that wait for them. */
LF_MUST_CHECK bool lf_lanes_start(struct lf_lanes *lanes, void *(*fn)(void *arg), void *arg, const char *name);
/* Says stop, gives back what waits, and joins all threads. */
void lf_lanes_stop(struct lf_lanes *lanes);

void lf_lanes_lock(struct lf_lanes *lanes);
void lf_lanes_unlock(struct lf_lanes *lanes);

/* Under the lock, on the tier's threads: */
struct lf_tier_job *lf_lanes_take(struct lf_lanes *lanes, enum lf_tier_way way); /* one waits */
void lf_lanes_give_back(struct lf_lanes *lanes, struct lf_tier_job *job, enum lf_status status);
void lf_lanes_give_back_waiting(struct lf_lanes *lanes, enum lf_tier_way way, enum lf_status status);
/* Around the work on a job, or on several at once. */
void lf_lanes_begin(struct lf_lanes *lanes, enum lf_tier_way way);
void lf_lanes_end(struct lf_lanes *lanes, enum lf_tier_way way);

/* What tiers have in their tables: tier.h, but that refusal, other than LF_OK, is what the job comes back with. */
void lf_lanes_submit(struct lf_lanes *lanes, struct lf_tier_job *job,
                     enum lf_status (*refusal)(struct lf_lanes *lanes, enum lf_tier_way way));
struct lf_tier_job *lf_lanes_job(struct lf_tier *tier);
struct lf_tier_job *lf_lanes_back(struct lf_tier *tier);
void lf_lanes_done(struct lf_tier *tier, struct lf_tier_job *job);
int lf_lanes_n_under_way(const struct lf_tier *tier);
/* Fills what the lanes know; the rest is zero. Under the lock. */
void lf_lanes_stats(const struct lf_lanes *lanes, uint64_t block_bytes, struct lf_tier_stats *out);

#endif
