/* Workers: the threads that read JSON, render templates and tokenize, so that a long document on one connection holds
 * up nobody's socket. A call waits in line while its connection is suspended; the line is as long as there are
 * connections at most. */
#include <stdlib.h>

#include "server/http/call.h"
#include "server/http/routes.h"

static struct lf_call *next_call(struct lf_http_server *s)
{
    struct lf_call *call = NULL;
    pthread_mutex_lock(&s->lock);
    while (lf_list_empty(&s->work) && !atomic_load(&s->stopping)) pthread_cond_wait(&s->work_cond, &s->lock);
    struct lf_list *node = lf_list_first(&s->work);
    if (node) {
        lf_list_remove(node);
        call = LF_LIST_ENTRY(node, struct lf_call, in_work);
    }
    pthread_mutex_unlock(&s->lock);
    return call;
}

/* Ends when the server stops and the line is empty: calls still waiting then go back unhandled, and end there. */
static void *work(void *ctx)
{
    struct lf_http_server *s = ctx;
    struct lf_call *call;
    while ((call = next_call(s))) {
        if (!lf_call_is_over(call)) call->route->handle(call);
        lf_call_hand_back(call);
    }
    return NULL;
}

enum lf_status lf_workers_start(struct lf_http_server *s, struct lf_err *err)
{
    int n = s->opts.n_threads;
    s->worker_threads = calloc((size_t)n, sizeof *s->worker_threads);
    if (!s->worker_threads) return lf_fail(err, LF_NO_MEMORY, "no memory for %d worker threads", n);
    for (; s->n_workers < n; s->n_workers++)
        if (pthread_create(&s->worker_threads[s->n_workers], NULL, work, s) != 0)
            return lf_fail(err, LF_NO_MEMORY, "worker thread %d of %d does not start", s->n_workers + 1, n);
    return LF_OK;
}

void lf_workers_stop(struct lf_http_server *s)
{
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->work_cond);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_workers; i++) pthread_join(s->worker_threads[i], NULL);
    s->n_workers = 0;
    free(s->worker_threads);
    s->worker_threads = NULL;
}
