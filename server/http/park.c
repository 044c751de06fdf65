/* Parking and waking: the rules at the top of call.h, and nothing else. */
#include <microhttpd.h>

#include "core/clock.h"
#include "server/http/call.h"

bool lf_call_is_over(struct lf_call *call)
{
    return atomic_load(&call->gone) || atomic_load(&call->server->stopping);
}

bool lf_call_park(struct lf_call *call, int64_t wake_at_ns)
{
    struct lf_http_server *s = call->server;
    pthread_mutex_lock(&s->lock);
    bool may = !call->wake_pending && !lf_call_is_over(call);
    call->wake_pending = false;
    if (may) {
        call->parked = true;
        call->wake_at_ns = wake_at_ns;
        s->n_parked++;
        MHD_suspend_connection(call->mhd);
    }
    pthread_mutex_unlock(&s->lock);
    return may;
}

bool lf_call_hand_over(struct lf_call *call)
{
    struct lf_http_server *s = call->server;
    pthread_mutex_lock(&s->lock);
    bool may = !atomic_load(&s->stopping);
    if (may) {
        call->busy = true;
        s->n_parked++;
        lf_list_push_back(&s->work, &call->in_work);
        MHD_suspend_connection(call->mhd);
        pthread_cond_signal(&s->work_cond);
    }
    pthread_mutex_unlock(&s->lock);
    return may;
}

void lf_call_hand_back(struct lf_call *call)
{
    struct lf_http_server *s = call->server;
    pthread_mutex_lock(&s->lock);
    call->busy = false;
    call->wake_pending = false; /* the resumed thread looks at everything */
    s->n_parked--;
    MHD_resume_connection(call->mhd);
    pthread_mutex_unlock(&s->lock);
}

void lf_call_wake_locked(struct lf_call *call)
{
    if (!call->parked) {
        call->wake_pending = true;
        return;
    }
    call->parked = false;
    call->woken_ns = lf_clock_ns();
    call->server->n_parked--;
    MHD_resume_connection(call->mhd);
}

void lf_call_notify(void *ctx)
{
    struct lf_call *call = ctx;
    struct lf_http_server *s = call->server;
    pthread_mutex_lock(&s->lock);
    bool first = lf_list_empty(&s->dirty);
    if (lf_list_empty(&call->in_dirty)) lf_list_push_back(&s->dirty, &call->in_dirty);
    pthread_mutex_unlock(&s->lock);
    if (first) lf_watch_wake(s);
}
