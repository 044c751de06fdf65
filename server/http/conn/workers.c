#include "server/http/conn/workers.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static struct lf_job *take(struct lf_workers *workers)
{
    struct lf_job *job = NULL;
    pthread_mutex_lock(&workers->lock);
    while (lf_list_empty(&workers->jobs) && !workers->stopping) pthread_cond_wait(&workers->not_empty, &workers->lock);
    struct lf_list *node = lf_list_first(&workers->jobs);
    if (node) {
        lf_list_remove(node);
        job = LF_LIST_ENTRY(node, struct lf_job, node);
    }
    pthread_mutex_unlock(&workers->lock);
    return job;
}

/* On Linux a thread has a priority of its own. Where it may not be set nothing is lost but speed. */
static void yield_to_others(int niceness)
{
    id_t self = (id_t)gettid();
    if (niceness > 0) (void)setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + niceness);
}

static void *work(void *ctx)
{
    struct lf_workers *workers = ctx;
    struct lf_job *job;
    yield_to_others(workers->niceness);
    while ((job = take(workers))) job->run(job);
    return NULL;
}

enum lf_status lf_workers_start(struct lf_workers *workers, int n, int niceness, struct lf_err *err)
{
    *workers = (struct lf_workers){.niceness = niceness};
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->not_empty, NULL);
    lf_list_init(&workers->jobs);
    workers->threads = calloc((size_t)n, sizeof *workers->threads);
    if (!workers->threads) return lf_fail(err, LF_NO_MEMORY, "no memory for %d worker threads", n);
    for (; workers->n < n; workers->n++)
        if (pthread_create(&workers->threads[workers->n], NULL, work, workers) != 0)
            return lf_fail(err, LF_NO_MEMORY, "worker thread %d of %d does not start", workers->n + 1, n);
    return LF_OK;
}

void lf_workers_enqueue(struct lf_workers *workers, struct lf_job *job)
{
    pthread_mutex_lock(&workers->lock);
    lf_list_push_back(&workers->jobs, &job->node);
    pthread_cond_signal(&workers->not_empty);
    pthread_mutex_unlock(&workers->lock);
}

void lf_workers_stop(struct lf_workers *workers)
{
    if (!workers->jobs.next) return; /* never started */
    pthread_mutex_lock(&workers->lock);
    workers->stopping = true;
    pthread_cond_broadcast(&workers->not_empty);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->n; i++) pthread_join(workers->threads[i], NULL);
    free(workers->threads);
    pthread_cond_destroy(&workers->not_empty);
    pthread_mutex_destroy(&workers->lock);
    *workers = (struct lf_workers){0};
}
