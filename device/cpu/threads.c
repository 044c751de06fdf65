/* The pool's idea: one 64-bit word, the ticket, says which loop runs and how many of its tasks are not handed out.
 *
 *     ticket = loop number << 32 | tasks left
 *
 * A worker takes a task by compare-and-swap of ticket to ticket - 1. While a loop has tasks left, its function, context
 * and count stand still; so if the swap succeeds, what was read just before belongs to that very loop, and a worker
 * that slept through a loop finds nothing left and can harm no later one. The owner waits for finished tasks, not for
 * workers: one that the system has put aside delays nobody unless it holds a task.
 *
 * Sleeping is the usual pair of flag and futex: who goes to sleep announces it, then looks again; who makes work
 * publishes it, then looks for sleepers. Both sides use sequentially consistent operations, so at least one sees the
 * other.
 *
 * What it does not do: nested loops, several owners, priorities, pinning. */
#include "device/cpu/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/limits.h"
#include "device/cpu/sysinfo.h"

enum {
    SPIN_NS = 80 * 1000, /* longer than the serial stretches of a decode step, short enough that idle uses no CPU */
    SPINS_PER_CLOCK = 32,
    CACHE_LINE = 64
};

struct worker {
    struct lf_threads *threads;
    pthread_t thread;
    int idx;
};

struct lf_threads {
    /* any thread */
    _Alignas(CACHE_LINE) _Atomic uint64_t ticket;
    _Alignas(CACHE_LINE) _Atomic uint32_t n_done; /* finished tasks of this loop; the owner's futex */
    _Atomic bool owner_waits;
    _Alignas(CACHE_LINE) _Atomic uint32_t wake_count; /* the workers' futex */
    _Atomic int n_sleeping;
    _Atomic bool stop;

    /* written by the owner between loops, read by workers under the ticket's rule */
    _Alignas(CACHE_LINE) _Atomic(lf_task_fn *) fn;
    _Atomic(void *) ctx;
    _Atomic int n_tasks;

    /* fixed after create */
    int64_t spin_ns;
    int n_threads; /* with the owner */
    int n_started;

    /* owner */
    uint32_t loop;

    struct worker workers[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t tasks_left(struct lf_threads *p)
{
    return (uint32_t)atomic_load(&p->ticket);
}

/* Runs tasks until none is left to hand out, then reports how many were run. Nothing runs between the two, so the
 * loop cannot end, and the next cannot start, before the report. */
static void take_tasks(struct lf_threads *p, int worker_idx)
{
    uint32_t n_run = 0;
    uint64_t ticket = atomic_load(&p->ticket);
    while ((uint32_t)ticket > 0) {
        lf_task_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
        int n_tasks = atomic_load_explicit(&p->n_tasks, memory_order_relaxed);
        if (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket - 1)) continue;
        fn(ctx, n_tasks - (int)(uint32_t)ticket, worker_idx);
        n_run++;
        ticket = atomic_load(&p->ticket);
    }
    if (n_run == 0) return;
    atomic_fetch_add(&p->n_done, n_run);
    if (atomic_load(&p->owner_waits)) futex_wake(&p->n_done, 1);
}

/* True once there is work or the pool stops; false when the spinning time is over. */
static bool spin_for_work(struct lf_threads *p)
{
    if (p->spin_ns == 0) return false;
    int64_t end_ns = lf_clock_ns() + p->spin_ns;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (tasks_left(p) > 0) return true;
            pause_cpu();
        }
        if (atomic_load_explicit(&p->stop, memory_order_relaxed)) return true;
    } while (lf_clock_ns() < end_ns);
    return false;
}

static void sleep_for_work(struct lf_threads *p)
{
    atomic_fetch_add(&p->n_sleeping, 1);
    uint32_t seen = atomic_load(&p->wake_count);
    while (tasks_left(p) == 0 && !atomic_load(&p->stop)) {
        futex_wait(&p->wake_count, seen);
        seen = atomic_load(&p->wake_count);
    }
    atomic_fetch_sub(&p->n_sleeping, 1);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct lf_threads *p = worker->threads;
    while (!atomic_load(&p->stop)) {
        take_tasks(p, worker->idx);
        if (!spin_for_work(p)) sleep_for_work(p);
    }
    return NULL;
}

static void wake_workers(struct lf_threads *p, int n)
{
    atomic_fetch_add(&p->wake_count, 1);
    futex_wake(&p->wake_count, n);
}

/* Workers take no signals: those belong to the threads that wait for them. */
static enum lf_status start_workers(struct lf_threads *p, struct lf_err *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    enum lf_status status = LF_OK;
    for (int i = 1; i < p->n_threads && status == LF_OK; i++) {
        struct worker *worker = &p->workers[i - 1];
        *worker = (struct worker){.threads = p, .idx = i};
        int rc = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (rc != 0) {
            char reason[128];
            status = lf_fail(err, LF_NO_MEMORY, "worker thread %d of %d does not start: %s", i, p->n_threads,
                             strerror_r(rc, reason, sizeof reason));
            break;
        }
        p->n_started++;
        char name[16];
        (void)snprintf(name, sizeof name, "lf-w%d", i);
        (void)pthread_setname_np(worker->thread, name);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

enum lf_status lf_threads_create(struct lf_threads **out, int n_threads, struct lf_err *err)
{
    if (n_threads < 1 || n_threads > LF_THREADS_N)
        return lf_fail(err, LF_INVALID, "threads must be 1 to %d, not %d", LF_THREADS_N, n_threads);
    size_t bytes = sizeof(struct lf_threads) + (size_t)(n_threads - 1) * sizeof(struct worker);
    bytes = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct lf_threads *p = aligned_alloc(CACHE_LINE, bytes);
    if (p == NULL) return lf_fail(err, LF_NO_MEMORY, "no memory for %d threads", n_threads);
    memset(p, 0, bytes);
    p->n_threads = n_threads;
    /* With more threads than CPUs whoever spins keeps another from working. */
    p->spin_ns = n_threads <= lf_sysinfo_n_cpus("") ? SPIN_NS : 0;

    enum lf_status status = start_workers(p, err);
    if (status != LF_OK) {
        lf_threads_destroy(p);
        return status;
    }
    *out = p;
    return LF_OK;
}

void lf_threads_destroy(struct lf_threads *threads)
{
    if (threads == NULL) return;
    atomic_store(&threads->stop, true);
    wake_workers(threads, threads->n_threads);
    for (int i = 0; i < threads->n_started; i++) (void)pthread_join(threads->workers[i].thread, NULL);
    free(threads);
}

int lf_threads_n(const struct lf_threads *threads)
{
    return threads->n_threads;
}

static void wait_until_done(struct lf_threads *p, uint32_t n_tasks)
{
    int64_t end_ns = 0;
    for (unsigned i = 1; atomic_load(&p->n_done) != n_tasks; i++) {
        pause_cpu();
        if (p->spin_ns != 0 && i % SPINS_PER_CLOCK != 0) continue;
        int64_t ns = lf_clock_ns();
        if (end_ns == 0) end_ns = ns + p->spin_ns;
        if (ns >= end_ns) break;
    }
    uint32_t n_done = atomic_load(&p->n_done);
    if (n_done == n_tasks) return;
    atomic_store(&p->owner_waits, true);
    while ((n_done = atomic_load(&p->n_done)) != n_tasks) futex_wait(&p->n_done, n_done);
    atomic_store(&p->owner_waits, false);
}

void lf_threads_run(struct lf_threads *threads, int n_tasks, lf_task_fn *fn, void *ctx)
{
    struct lf_threads *p = threads;
    LF_ASSERT(n_tasks >= 0);
    if (n_tasks <= 1 || p->n_threads == 1) {
        for (int i = 0; i < n_tasks; i++) fn(ctx, i, 0);
        return;
    }
    LF_ASSERT(tasks_left(p) == 0);
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->n_tasks, n_tasks, memory_order_relaxed);
    atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
    p->loop++;
    atomic_store(&p->ticket, (uint64_t)p->loop << 32 | (uint32_t)n_tasks);
    int n_sleeping = atomic_load(&p->n_sleeping);
    if (n_sleeping > 0) wake_workers(p, LF_MIN(n_sleeping, n_tasks - 1));
    take_tasks(p, 0);
    wait_until_done(p, (uint32_t)n_tasks);
}
