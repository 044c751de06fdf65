/* See masks.h. */
#include "server/engine/masks.h"

#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "grammar/grammar.h"

static void lock(struct lf_masks *masks)
{
    LF_ASSERT(pthread_mutex_lock(&masks->lock) == 0);
}

static void unlock(struct lf_masks *masks)
{
    LF_ASSERT(pthread_mutex_unlock(&masks->lock) == 0);
}

static void do_job(struct lf_mask_job *job, bool may_grow)
{
    lf_matcher_set_growing(job->matcher, may_grow);
    if (job->mask || job->n_ahead > 0)
        job->status =
            lf_matcher_look_ahead(job->matcher, job->ahead, job->n_ahead, job->mask, job->stride, &job->n_allowed);
    else
        job->status = lf_matcher_accept(job->matcher, job->token);
}

/* ---- the threads ---- */

/* Under the lock. */
static struct lf_mask_job *take(struct lf_masks *masks, bool may_grow)
{
    struct lf_mask_job *job = masks->first_short;
    if (may_grow && job) {
        masks->first_short = job->next_short;
        return job;
    }
    return masks->next < masks->n_jobs ? &masks->jobs[masks->next++] : NULL;
}

static void add_short(struct lf_mask_job **first, struct lf_mask_job *job)
{
    job->next_short = *first;
    *first = job;
}

static void *thread_main(void *ctx)
{
    struct lf_masks *masks = ctx;
    lock(masks);
    while (!masks->stop) {
        struct lf_mask_job *job = take(masks, true);
        if (!job) {
            pthread_cond_wait(&masks->work, &masks->lock);
            continue;
        }
        unlock(masks);
        do_job(job, true);
        lock(masks);
        if (--masks->n_left == 0) pthread_cond_signal(&masks->done);
    }
    unlock(masks);
    return NULL;
}

/* ---- the engine ---- */

/* The n jobs, and those that are short of memory, with the threads. */
static void share(struct lf_masks *masks, struct lf_mask_job *jobs, int n, struct lf_mask_job *first_short, int n_short)
{
    struct lf_mask_job *job;
    lock(masks);
    masks->jobs = jobs;
    masks->n_jobs = n;
    masks->next = 0;
    masks->first_short = first_short;
    masks->n_left = n + n_short;
    pthread_cond_broadcast(&masks->work);
    while ((job = take(masks, false)) != NULL) {
        unlock(masks);
        do_job(job, false);
        lock(masks);
        if (job->status != LF_FULL) {
            masks->n_left--;
            continue;
        }
        add_short(&masks->first_short, job);
        pthread_cond_signal(&masks->work);
    }
    while (masks->n_left > 0) pthread_cond_wait(&masks->done, &masks->lock);
    masks->n_jobs = masks->next = 0;
    unlock(masks);
}

static void try_job(void *jobs, int i, int worker_idx)
{
    (void)worker_idx;
    do_job((struct lf_mask_job *)jobs + i, false);
}

/* How many of them were tried: all, or what could be for LF_MASKS_ALONE_NS. */
static int try_without_memory(struct lf_masks *masks, struct lf_mask_job *jobs, int n)
{
    if (n > 1 && masks->run_tasks) {
        masks->run_tasks(masks->run_ctx, n, try_job, jobs);
        return n;
    }
    int64_t until_ns = n > 1 ? lf_clock_ns() + LF_MASKS_ALONE_NS : 0;
    int n_tried = 0;
    while (n_tried < n && (n_tried == 0 || lf_clock_ns() < until_ns)) do_job(&jobs[n_tried++], false);
    return n_tried;
}

void lf_masks_run(struct lf_masks *masks, struct lf_mask_job *jobs, int n)
{
    struct lf_mask_job *first_short = NULL;
    int n_tried = try_without_memory(masks, jobs, n), n_short = 0;
    for (int i = 0; i < n_tried; i++) {
        if (jobs[i].status != LF_FULL) continue;
        add_short(&first_short, &jobs[i]);
        n_short++;
    }
    if (n_tried < n || n_short > 0) share(masks, jobs + n_tried, n - n_tried, first_short, n_short);
}

/* ---- init and deinit ---- */

static void join(struct lf_masks *masks)
{
    lock(masks);
    masks->stop = true;
    pthread_cond_broadcast(&masks->work);
    unlock(masks);
    for (int i = 0; i < masks->n_threads; i++) LF_ASSERT(pthread_join(masks->threads[i], NULL) == 0);
}

void lf_masks_deinit(struct lf_masks *masks)
{
    join(masks);
    pthread_cond_destroy(&masks->done);
    pthread_cond_destroy(&masks->work);
    pthread_mutex_destroy(&masks->lock);
}

enum lf_status lf_masks_init(struct lf_masks *masks, int n_threads, struct lf_err *err)
{
    LF_ASSERT(n_threads >= 1 && n_threads <= LF_MASK_THREADS_N);
    memset(masks, 0, sizeof(*masks));
    if (pthread_mutex_init(&masks->lock, NULL) != 0) goto fail;
    if (pthread_cond_init(&masks->work, NULL) != 0) goto fail_work;
    if (pthread_cond_init(&masks->done, NULL) != 0) goto fail_done;
    for (; masks->n_threads < n_threads; masks->n_threads++)
        if (pthread_create(&masks->threads[masks->n_threads], NULL, thread_main, masks) != 0) goto fail_threads;
    return LF_OK;
fail_threads:
    lf_masks_deinit(masks);
    goto fail;
fail_done:
    pthread_cond_destroy(&masks->work);
fail_work:
    pthread_mutex_destroy(&masks->lock);
fail:
    return lf_fail(err, LF_NO_MEMORY, "no lock or thread for the masks of grammars");
}
