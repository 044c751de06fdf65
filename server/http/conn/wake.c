#include "server/http/conn/wake.h"

#include <microhttpd.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"

enum { PATIENCE_MS = 20, PATIENCE_SHARE = 8 };

bool lf_waker_init(struct lf_waker *waker)
{
    lf_list_init(&waker->wakes);
    lf_list_init(&waker->news);
    lf_list_init(&waker->later);
    pthread_mutex_init(&waker->lock, NULL);
    waker->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return waker->event_fd >= 0;
}

void lf_waker_deinit(struct lf_waker *waker)
{
    if (waker->event_fd >= 0) close(waker->event_fd);
    pthread_mutex_destroy(&waker->lock);
}

void lf_wake_init(struct lf_wake *wake, struct lf_waker *waker, struct MHD_Connection *mhd)
{
    *wake = (struct lf_wake){.waker = waker, .mhd = mhd, .began_ns = lf_clock_ns()};
    lf_list_init(&wake->in_wakes);
    lf_list_init(&wake->in_news);
    pthread_mutex_lock(&waker->lock);
    lf_list_push_back(&waker->wakes, &wake->in_wakes);
    pthread_mutex_unlock(&waker->lock);
}

void lf_wake_deinit(struct lf_wake *wake)
{
    pthread_mutex_lock(&wake->waker->lock);
    LF_ASSERT(wake->state == LF_WAKE_RUNNING);
    lf_list_remove(&wake->in_wakes);
    lf_list_remove(&wake->in_news);
    pthread_mutex_unlock(&wake->waker->lock);
}

bool lf_wake_is_over(void *ctx)
{
    struct lf_wake *wake = ctx;
    return atomic_load(&wake->gone) || atomic_load(&wake->waker->stopping);
}

/* ---- suspending ---- */

static void suspend_locked(struct lf_wake *wake, enum lf_wake_state state)
{
    wake->state = state;
    wake->waker->n_suspended++;
    MHD_suspend_connection(wake->mhd);
}

static void resume_locked(struct lf_wake *wake)
{
    wake->state = LF_WAKE_RUNNING;
    wake->pending = false; /* the resumed thread looks at everything */
    wake->woken_ns = lf_clock_ns();
    wake->waker->n_suspended--;
    MHD_resume_connection(wake->mhd);
}

bool lf_wake_suspend(struct lf_wake *wake, int64_t at_ns)
{
    pthread_mutex_lock(&wake->waker->lock);
    bool may = !wake->pending && !lf_wake_is_over(wake);
    wake->pending = false;
    wake->at_ns = at_ns;
    if (may) suspend_locked(wake, LF_WAKE_SUSPENDED);
    pthread_mutex_unlock(&wake->waker->lock);
    return may;
}

bool lf_wake_lend(struct lf_wake *wake)
{
    pthread_mutex_lock(&wake->waker->lock);
    bool may = !atomic_load(&wake->waker->stopping);
    if (may) suspend_locked(wake, LF_WAKE_LENT);
    pthread_mutex_unlock(&wake->waker->lock);
    return may;
}

void lf_wake_return(struct lf_wake *wake)
{
    struct lf_waker *waker = wake->waker; /* the wake may be gone as soon as the lock is */
    pthread_mutex_lock(&waker->lock);
    LF_ASSERT(wake->state == LF_WAKE_LENT);
    resume_locked(wake);
    pthread_mutex_unlock(&waker->lock);
}

/* ---- waking ---- */

static void post_locked(struct lf_wake *wake)
{
    if (wake->state == LF_WAKE_SUSPENDED)
        resume_locked(wake);
    else
        wake->pending = true;
}

void lf_wake_gone(struct lf_wake *wake)
{
    pthread_mutex_lock(&wake->waker->lock);
    atomic_store(&wake->gone, true);
    post_locked(wake);
    pthread_mutex_unlock(&wake->waker->lock);
}

void lf_wake_notify(void *ctx)
{
    struct lf_wake *wake = ctx;
    struct lf_waker *waker = wake->waker;
    pthread_mutex_lock(&waker->lock);
    bool first = lf_list_empty(&waker->news);
    if (lf_list_empty(&wake->in_news)) lf_list_push_back(&waker->news, &wake->in_news);
    pthread_mutex_unlock(&waker->lock);
    uint64_t one = 1;
    if (first) (void)!write(waker->event_fd, &one, sizeof one);
}

/* When a wake may follow its news. One that is patient is woken the less often the longer it runs: looking at each
 * token of an answer that is sent whole would cost more than making it. */
static int64_t due_ns(struct lf_wake *wake, int64_t now_ns)
{
    if (!atomic_load(&wake->patient)) return now_ns;
    int64_t gap = LF_MIN((now_ns - wake->began_ns) / PATIENCE_SHARE, PATIENCE_MS * LF_NS_PER_MS);
    return wake->woken_ns + gap;
}

static void wake_due(struct lf_list *list, struct lf_list *waiting, int64_t now_ns, int64_t *next_ns)
{
    LF_LIST_EACH_SAFE(node, list)
    {
        struct lf_wake *wake = LF_LIST_ENTRY(node, struct lf_wake, in_news);
        int64_t due = due_ns(wake, now_ns);
        lf_list_remove(node);
        if (due <= now_ns) {
            post_locked(wake);
            continue;
        }
        lf_list_push_back(waiting, node);
        *next_ns = LF_MIN(*next_ns, due);
    }
}

int64_t lf_waker_run(struct lf_waker *waker)
{
    struct lf_list waiting, *node;
    int64_t now_ns = lf_clock_ns(), next_ns = INT64_MAX;
    lf_list_init(&waiting);
    pthread_mutex_lock(&waker->lock);
    wake_due(&waker->later, &waiting, now_ns, &next_ns);
    wake_due(&waker->news, &waiting, now_ns, &next_ns);
    while ((node = lf_list_first(&waiting))) {
        lf_list_remove(node);
        lf_list_push_back(&waker->later, node);
    }
    pthread_mutex_unlock(&waker->lock);
    return next_ns;
}

void lf_waker_tick(struct lf_waker *waker, int64_t now_ns)
{
    pthread_mutex_lock(&waker->lock);
    LF_LIST_EACH(node, &waker->wakes)
    {
        struct lf_wake *wake = LF_LIST_ENTRY(node, struct lf_wake, in_wakes);
        if (wake->state == LF_WAKE_SUSPENDED && wake->at_ns && now_ns >= wake->at_ns) resume_locked(wake);
    }
    pthread_mutex_unlock(&waker->lock);
}

void lf_waker_count(struct lf_waker *waker, int *n_wakes, int *n_suspended)
{
    *n_wakes = 0;
    pthread_mutex_lock(&waker->lock);
    LF_LIST_EACH(node, &waker->wakes)++ *n_wakes;
    *n_suspended = waker->n_suspended;
    pthread_mutex_unlock(&waker->lock);
}

void lf_waker_stop(struct lf_waker *waker)
{
    uint64_t one = 1;
    pthread_mutex_lock(&waker->lock);
    atomic_store(&waker->stopping, true);
    LF_LIST_EACH(node, &waker->wakes) post_locked(LF_LIST_ENTRY(node, struct lf_wake, in_wakes));
    pthread_mutex_unlock(&waker->lock);
    (void)!write(waker->event_fd, &one, sizeof one);
}
