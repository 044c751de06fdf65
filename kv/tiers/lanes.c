/* See lanes.h. */
#include "kv/tiers/lanes.h"

#include <signal.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/clock.h"

void lf_lanes_lock(struct lf_lanes *lanes)
{
    LF_ASSERT(pthread_mutex_lock(&lanes->lock) == 0);
}

void lf_lanes_unlock(struct lf_lanes *lanes)
{
    LF_ASSERT(pthread_mutex_unlock(&lanes->lock) == 0);
}

static struct lf_tier_job *job_of(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_tier_job, node);
}

static struct lf_lanes *lanes_of(struct lf_tier *tier)
{
    return LF_LIST_ENTRY(tier, struct lf_lanes, tier);
}

/* ---- init and deinit ---- */

static bool init_locks(struct lf_lanes *lanes)
{
    if (pthread_mutex_init(&lanes->lock, NULL) != 0) return false;
    if (pthread_cond_init(&lanes->lane[LF_TIER_SAVE].work, NULL) != 0) goto fail;
    if (pthread_cond_init(&lanes->lane[LF_TIER_LOAD].work, NULL) == 0) return true;
    pthread_cond_destroy(&lanes->lane[LF_TIER_SAVE].work);
fail:
    pthread_mutex_destroy(&lanes->lock);
    return false;
}

bool lf_lanes_init(struct lf_lanes *lanes, int n_jobs)
{
    LF_ASSERT(n_jobs >= 1);
    lanes->jobs = calloc((size_t)n_jobs, sizeof(*lanes->jobs));
    if (!lanes->jobs || !init_locks(lanes)) {
        free(lanes->jobs);
        return false;
    }
    lf_list_init(&lanes->free);
    lf_list_init(&lanes->back);
    for (size_t i = 0; i < LF_N_ELEMS(lanes->lane); i++) lf_list_init(&lanes->lane[i].queue);
    for (int i = 0; i < n_jobs; i++) lf_list_push_back(&lanes->free, &lanes->jobs[i].node);
    return true;
}

void lf_lanes_deinit(struct lf_lanes *lanes)
{
    LF_ASSERT(lanes->n_threads == 0);
    for (size_t i = 0; i < LF_N_ELEMS(lanes->lane); i++) pthread_cond_destroy(&lanes->lane[i].work);
    pthread_mutex_destroy(&lanes->lock);
    free(lanes->jobs);
}

bool lf_lanes_start(struct lf_lanes *lanes, void *(*fn)(void *arg), void *arg, const char *name)
{
    sigset_t all, before;
    LF_ASSERT(lanes->n_threads < LF_LANES_THREADS_N);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&lanes->threads[lanes->n_threads], NULL, fn, arg) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok) (void)pthread_setname_np(lanes->threads[lanes->n_threads++], name);
    return ok;
}

void lf_lanes_stop(struct lf_lanes *lanes)
{
    lf_lanes_lock(lanes);
    lanes->stop = true;
    for (int way = 0; way < (int)LF_N_ELEMS(lanes->lane); way++) {
        lf_lanes_give_back_waiting(lanes, (enum lf_tier_way)way, LF_SHUTDOWN);
        pthread_cond_broadcast(&lanes->lane[way].work);
    }
    lf_lanes_unlock(lanes);
    for (; lanes->n_threads > 0; lanes->n_threads--)
        LF_ASSERT(pthread_join(lanes->threads[lanes->n_threads - 1], NULL) == 0);
}

/* ---- the tier's threads ---- */

struct lf_tier_job *lf_lanes_take(struct lf_lanes *lanes, enum lf_tier_way way)
{
    struct lf_lane *l = &lanes->lane[way];
    struct lf_tier_job *job = job_of(lf_list_first(&l->queue));
    lf_list_remove(&job->node);
    l->n_waiting--;
    return job;
}

void lf_lanes_give_back(struct lf_lanes *lanes, struct lf_tier_job *job, enum lf_status status)
{
    job->status = status;
    lf_list_push_back(&lanes->back, &job->node);
}

void lf_lanes_give_back_waiting(struct lf_lanes *lanes, enum lf_tier_way way, enum lf_status status)
{
    while (lanes->lane[way].n_waiting > 0) lf_lanes_give_back(lanes, lf_lanes_take(lanes, way), status);
}

void lf_lanes_begin(struct lf_lanes *lanes, enum lf_tier_way way)
{
    struct lf_lane *l = &lanes->lane[way];
    if (l->n_busy++ == 0) l->busy_since_ns = lf_clock_ns();
}

void lf_lanes_end(struct lf_lanes *lanes, enum lf_tier_way way)
{
    struct lf_lane *l = &lanes->lane[way];
    if (--l->n_busy == 0) l->busy_ns += (double)(lf_clock_ns() - l->busy_since_ns);
}

/* ---- the engine thread ---- */

void lf_lanes_submit(struct lf_lanes *lanes, struct lf_tier_job *job,
                     enum lf_status (*refusal)(struct lf_lanes *lanes, enum lf_tier_way way))
{
    struct lf_lane *l = &lanes->lane[job->way];
    lanes->n_under_way++;
    lf_lanes_lock(lanes);
    enum lf_status status = lanes->stop ? LF_SHUTDOWN : refusal(lanes, job->way);
    if (status == LF_OK) {
        lf_list_push_back(&l->queue, &job->node);
        l->n_waiting++;
        pthread_cond_signal(&l->work);
    } else {
        lf_lanes_give_back(lanes, job, status);
    }
    lf_lanes_unlock(lanes);
    if (status != LF_OK) lanes->wake(lanes->wake_ctx);
}

struct lf_tier_job *lf_lanes_job(struct lf_tier *tier)
{
    struct lf_list *node = lf_list_first(&lanes_of(tier)->free);
    if (!node) return NULL;
    lf_list_remove(node);
    return job_of(node);
}

struct lf_tier_job *lf_lanes_back(struct lf_tier *tier)
{
    struct lf_lanes *lanes = lanes_of(tier);
    lf_lanes_lock(lanes);
    struct lf_list *node = lf_list_first(&lanes->back);
    if (node) lf_list_remove(node);
    lf_lanes_unlock(lanes);
    if (!node) return NULL;
    lanes->n_under_way--;
    return job_of(node);
}

void lf_lanes_done(struct lf_tier *tier, struct lf_tier_job *job)
{
    lf_list_push_back(&lanes_of(tier)->free, &job->node);
}

int lf_lanes_n_under_way(const struct lf_tier *tier)
{
    return ((const struct lf_lanes *)(const void *)tier)->n_under_way;
}

static double busy_ns(const struct lf_lane *l)
{
    return l->busy_ns + (l->n_busy > 0 ? (double)(lf_clock_ns() - l->busy_since_ns) : 0);
}

void lf_lanes_stats(const struct lf_lanes *lanes, uint64_t block_bytes, struct lf_tier_stats *out)
{
    const struct lf_lane *saves = &lanes->lane[LF_TIER_SAVE], *loads = &lanes->lane[LF_TIER_LOAD];
    *out = (struct lf_tier_stats){.n_saved = saves->n_done,
                                  .n_loaded = loads->n_done,
                                  .n_save_failed = saves->n_failed,
                                  .n_load_failed = loads->n_failed,
                                  .saved_bytes = saves->n_done * block_bytes,
                                  .loaded_bytes = loads->n_done * block_bytes,
                                  .save_ns = busy_ns(saves),
                                  .load_ns = busy_ns(loads)};
}
