/* A pool of worker threads that run one parallel loop at a time.
 *
 * The caller takes part as worker 0. Between loops the workers spin for a short while (a decode step is a hundred
 * loops of some ten microseconds), then sleep on a futex, so an idle server uses no CPU. No allocation after create.
 * One owner thread calls lf_threads_run; loops do not nest. */
#ifndef LF_DEVICE_CPU_THREADS_H
#define LF_DEVICE_CPU_THREADS_H

#include "core/status.h"

struct lf_threads;

/* task_idx counts 0..n_tasks-1, each run exactly once; worker_idx is 0..n_threads-1, for scratch memory. */
typedef void lf_task_fn(void *ctx, int task_idx, int worker_idx);

LF_MUST_CHECK enum lf_status lf_threads_create(struct lf_threads **out, int n_threads, struct lf_err *err);
void lf_threads_destroy(struct lf_threads *threads); /* accepts NULL */
int lf_threads_n(const struct lf_threads *threads);
/* Runs fn for every task, handing tasks out in order of index as workers become free; returns when all are done. */
void lf_threads_run(struct lf_threads *threads, int n_tasks, lf_task_fn *fn, void *ctx);

#endif
