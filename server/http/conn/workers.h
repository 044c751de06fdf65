/* Workers: the threads that read JSON, render templates and tokenize, so that a long document on one connection holds
 * up nobody's socket. A queue of jobs and the threads that take them; the queue is as long as there are connections at
 * most, and knows nothing of what a job is.
 *
 * The server has two such groups: one for short texts, and one for long ones, which runs at a lower priority. So a
 * short request waits behind no long document, however many there are, and neither do the engine and the sockets. */
#ifndef LF_SERVER_HTTP_CONN_WORKERS_H
#define LF_SERVER_HTTP_CONN_WORKERS_H

#include <pthread.h>
#include <stdbool.h>

#include "core/list.h"
#include "core/status.h"

struct lf_job {
    struct lf_list node;
    void (*run)(struct lf_job *job); /* on a worker's thread; the job is its own again */
};

struct lf_workers {
    pthread_t *threads; /* [n], owned */
    int n, niceness;
    pthread_mutex_t lock;
    pthread_cond_t not_empty;
    struct lf_list jobs;
    bool stopping;
};

/* niceness: of its threads, above that of the process (setpriority(2)). */
LF_MUST_CHECK enum lf_status lf_workers_start(struct lf_workers *workers, int n, int niceness, struct lf_err *err);
void lf_workers_enqueue(struct lf_workers *workers, struct lf_job *job);
/* Runs what still waits, joins the threads. Accepts what did not start whole. */
void lf_workers_stop(struct lf_workers *workers);

#endif
