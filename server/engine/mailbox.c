/* See mailbox.h. */
#include "server/engine/mailbox.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "server/engine/shared_blocks.h"
#include "server/engine/states.h"

enum { COMING_MS = 20 }; /* between two looks at requests while what they need is on its way */

static struct lf_request *in_flight(struct lf_list *node)
{
    return LF_LIST_ENTRY(node, struct lf_request, flight_node);
}

static void lock(struct lf_mailbox *mb)
{
    LF_ASSERT(pthread_mutex_lock(&mb->lock) == 0);
}

static void unlock(struct lf_mailbox *mb)
{
    LF_ASSERT(pthread_mutex_unlock(&mb->lock) == 0);
}

/* Conditions on the monotonic clock, so that setting the time of day wakes nobody. */
static bool init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0) return false;
    bool ok = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 && pthread_cond_init(cond, &attr) == 0;
    pthread_condattr_destroy(&attr);
    return ok;
}

enum lf_status lf_mailbox_init(struct lf_mailbox *mb, const struct lf_mailbox_limits *limits,
                               struct lf_engine_metrics *metrics, struct lf_err *err)
{
    memset(mb, 0, sizeof(*mb));
    mb->limits = *limits;
    mb->metrics = metrics;
    mb->alive = true;
    mb->message = "";
    lf_list_init(&mb->inbox);
    lf_list_init(&mb->flight);
    lf_list_init(&mb->pins);
    if (pthread_mutex_init(&mb->lock, NULL) != 0) goto fail;
    if (!init_cond(&mb->wake)) goto fail_wake;
    if (!init_cond(&mb->attend)) goto fail_attend;
    if (!init_cond(&mb->notified)) goto fail_notified;
    return LF_OK;
fail_notified:
    pthread_cond_destroy(&mb->attend);
fail_attend:
    pthread_cond_destroy(&mb->wake);
fail_wake:
    pthread_mutex_destroy(&mb->lock);
fail:
    return lf_fail(err, LF_NO_MEMORY, "no lock for the engine's mailbox");
}

/* Under the lock. */
static void wake_engine(struct lf_mailbox *mb)
{
    mb->poked = true;
    pthread_cond_signal(&mb->wake);
}

/* ---- references ---- */

static void free_chain(struct lf_mailbox *mb, struct lf_request *dead)
{
    int n = 0;
    while (dead) {
        struct lf_request *next = dead->next_dead;
        lf_request_free(dead);
        dead = next;
        n++;
    }
    if (n == 0) return;
    lock(mb);
    mb->n_live -= n;
    unlock(mb);
}

/* Under the lock. True: that was the last reference, and the caller frees it. */
static bool drop(struct lf_request *req)
{
    LF_ASSERT(req->n_refs > 0);
    return --req->n_refs == 0;
}

/* Under the lock: leaves a request without references to the janitor. */
static void bury(struct lf_mailbox *mb, struct lf_request *req)
{
    req->next_dead = mb->dead;
    mb->dead = req;
    pthread_cond_signal(&mb->attend);
}

void lf_request_put(struct lf_request *req)
{
    struct lf_mailbox *mb = req->mailbox;
    lf_request_cancel(req);
    lock(mb);
    req->abandoned = true;
    while (req->n_notifying > 0) pthread_cond_wait(&mb->notified, &mb->lock);
    bool last = drop(req);
    if (last) mb->n_live--;
    if (!last && req->params.pin) wake_engine(mb); /* which would sleep on what it holds */
    unlock(mb);
    if (last) lf_request_free(req);
}

/* ---- submitting ---- */

struct tenant_use {
    int n_flight, n_waiting;
    int64_t waiting_tokens;
};

/* Under the lock. */
static struct tenant_use use_of_tenant(struct lf_mailbox *mb, uint64_t tenant)
{
    struct tenant_use use = {0};
    LF_LIST_EACH(it, &mb->flight)
    {
        const struct lf_request *req = in_flight(it);
        if (req->params.tenant != tenant) continue;
        use.n_flight += 1 + req->n_coming;
        use.n_waiting += req->n_coming;
        use.waiting_tokens += req->coming_tokens;
        if (!req->waiting) continue;
        use.n_waiting++;
        use.waiting_tokens += req->params.n_prompt;
    }
    return use;
}

/* Under the lock: how many requests may wait once n of this tenant have come. */
static int queue_for(struct lf_mailbox *mb, const struct lf_gen_params *p, int n)
{
    int queue_n = mb->limits.queue_n;
    bool modest = p->tenant == 0 || (n == 1 && use_of_tenant(mb, p->tenant).n_waiting == 0);
    return modest ? queue_n : queue_n - lf_mailbox_spare(queue_n);
}

/* Under the lock: whether a tenant's share of the queue, and what a key may have in flight, have room. */
static enum lf_status check_tenant(struct lf_mailbox *mb, const struct lf_gen_params *p, int n, int64_t n_tokens,
                                   struct lf_err *err)
{
    const struct lf_mailbox_limits *most = &mb->limits;
    struct tenant_use use = use_of_tenant(mb, p->tenant);
    int64_t share_n = lf_mailbox_share(most->queue_n), share_tokens = lf_mailbox_share(most->queue_tokens);
    if (use.n_waiting > 0 && use.n_waiting + n > share_n) {
        lf_counter_add(&mb->metrics->rejected_queue, 1);
        return lf_fail(err, LF_FULL,
                       "%d requests of this client are waiting, %d would come, at most %lld of one client may wait",
                       use.n_waiting, n, (long long)share_n);
    }
    if (use.n_waiting > 0 && use.waiting_tokens + n_tokens > share_tokens) {
        lf_counter_add(&mb->metrics->rejected_tokens, 1);
        return lf_fail(
            err, LF_FULL,
            "%lld prompt tokens of this client are waiting, %lld would come, at most %lld of one client may wait",
            (long long)use.waiting_tokens, (long long)n_tokens, (long long)share_tokens);
    }
    int in_flight_n = p->limits.in_flight ? p->limits.in_flight : most->per_tenant_n;
    if (in_flight_n > 0 && use.n_flight + n > in_flight_n) {
        lf_counter_add(&mb->metrics->rejected_tenant, 1);
        return lf_fail(err, LF_QUOTA, "this key has %d requests in flight, %d would come, at most %d may be",
                       use.n_flight, n, in_flight_n);
    }
    return LF_OK;
}

/* Under the lock: whether a tenant has tokens left. */
static enum lf_status check_quota(struct lf_mailbox *mb, const struct lf_gen_params *p, int *retry_after_s,
                                  struct lf_err *err)
{
    int64_t most = p->limits.tokens_per_minute;
    if (most == 0 || lf_quota_allows(&mb->quotas, p->tenant, most, lf_clock_ns(), retry_after_s)) return LF_OK;
    lf_counter_add(&mb->metrics->rejected_quota, 1);
    return lf_fail(err, LF_QUOTA, "this key may have %lld tokens computed a minute, and has had them", (long long)most);
}

/* Under the lock: brings what a request is charged for to what is known by now. n_computed: of its tokens. */
static void charge(struct lf_mailbox *mb, struct lf_request *req, int64_t n_computed)
{
    int64_t most = req->params.limits.tokens_per_minute;
    if (most == 0 || n_computed == req->charged) return;
    lf_quota_charge(&mb->quotas, req->params.tenant, most, n_computed - req->charged, lf_clock_ns());
    req->charged = n_computed;
}

/* Under the lock: whether the queue, and the tenant's share, have room for a request and those that follow it. */
static enum lf_status check_bounds(struct lf_mailbox *mb, const struct lf_gen_params *p, struct lf_err *err)
{
    struct lf_engine_metrics *m = mb->metrics;
    const struct lf_mailbox_limits *most = &mb->limits;
    int n = LF_MAX(p->n_group, 1);
    int64_t n_tokens = p->n_group > 0 ? p->group_tokens : p->n_prompt;
    int queue_n = queue_for(mb, p, n), n_waiting = mb->n_waiting + mb->n_coming;
    int64_t waiting_tokens = mb->waiting_tokens + mb->coming_tokens;
    if (n_waiting > 0 && n_waiting + n > queue_n) {
        lf_counter_add(&m->rejected_queue, 1);
        return lf_fail(err, LF_FULL, "the queue is full: %d requests are waiting, %d would come, at most %d may wait",
                       n_waiting, n, queue_n);
    }
    if (n_waiting > 0 && waiting_tokens + n_tokens > most->queue_tokens) {
        lf_counter_add(&m->rejected_tokens, 1);
        return lf_fail(err, LF_FULL,
                       "the queue is full: %lld prompt tokens are waiting, %lld would come, at most %lld may wait",
                       (long long)waiting_tokens, (long long)n_tokens, (long long)most->queue_tokens);
    }
    return p->tenant == 0 ? LF_OK : check_tenant(mb, p, n, n_tokens, err);
}

/* Under the lock. */
static enum lf_status check_room(struct lf_mailbox *mb, const struct lf_gen_params *p, int *retry_after_s,
                                 struct lf_err *err)
{
    if (!mb->alive) return lf_fail(err, LF_DEVICE, "%s", mb->message);
    if (mb->draining || mb->stop) {
        lf_counter_add(&mb->metrics->rejected_draining, 1);
        return lf_fail(err, LF_SHUTDOWN, "the server is shutting down");
    }
    if (p->first) return LF_OK;
    LF_TRY(check_quota(mb, p, retry_after_s, err));
    enum lf_status status = check_bounds(mb, p, err);
    if (status != LF_OK) *retry_after_s = LF_MAX(mb->figures.retry_after_s, 1);
    return status;
}

/* Under the lock: whether it was let in, for its tenant's meter. */
static void note_refusal(const struct lf_gen_params *p, enum lf_status status)
{
    if (p->limits.meter && (status == LF_FULL || status == LF_QUOTA)) lf_counter_add(&p->limits.meter->rejected, 1);
}

enum lf_status lf_mailbox_check_room(struct lf_mailbox *mb, const struct lf_gen_params *params, int *retry_after_s,
                                     struct lf_err *err)
{
    lock(mb);
    enum lf_status status = check_room(mb, params, retry_after_s, err);
    note_refusal(params, status);
    unlock(mb);
    return status;
}

/* ---- pins ---- */

int64_t lf_mailbox_pin_blocks(const struct lf_mailbox *mb, enum lf_pin pin, int64_t n_full)
{
    int64_t n = lf_kv_windows_pinned(&mb->limits.windows, (int)n_full);
    bool has_parts = n_full > 0 && pin != LF_PIN_DEVICE;
    return has_parts ? n + LF_STATES_PINNED_N * mb->limits.slot_blocks : n;
}

static int64_t n_pin_blocks(const struct lf_mailbox *mb, const struct lf_request *req, enum lf_pin pin)
{
    return lf_mailbox_pin_blocks(mb, pin, req->params.n_prompt / lf_kv_windows_block_tokens(&mb->limits.windows));
}

/* Slots that it pins: none where there are no states. */
static int n_pin_slots(const struct lf_mailbox *mb, const struct lf_request *req)
{
    bool pins = mb->limits.has_states && req->params.pin == LF_PIN_DEVICE;
    return pins ? lf_states_n_pinned(&req->seq) : 0;
}

/* Under the lock: the same for slots of the device. */
static enum lf_status check_pin_slots(const struct lf_mailbox *mb, const struct lf_request *req, struct lf_err *err)
{
    int n_new = n_pin_slots(mb, req), n = mb->n_pinned_slots;
    if (req->params.pin_spare[LF_PIN_DEVICE] > 0) n -= n_new; /* it is the same prompt's */
    if (n_new == 0 || n + n_new <= mb->limits.n_pin_slots) return LF_OK;
    return lf_fail(err, LF_LIMIT, "%d states would be pinned to the device; %d of %d that may be are", n_new, n,
                   mb->limits.n_pin_slots);
}

static int64_t n_needed(const struct lf_mailbox *mb, const struct lf_request *req)
{
    return lf_kv_windows_need(&mb->limits.windows,
                              lf_sched_n_blocks(&mb->limits.windows, req->params.n_prompt, req->params.max_tokens));
}

/* Under the lock: whether it and every other that is yet to be pinned to the device can be computed beside what all of
 * them keep, in any order. Windows take more while a prompt is computed than is pinned of it. */
static enum lf_status check_pins_in_turn(const struct lf_mailbox *mb, const struct lf_request *req, int64_t n_pinned,
                                         struct lf_err *err)
{
    int64_t n_more = n_needed(mb, req) - n_pin_blocks(mb, req, LF_PIN_DEVICE);
    LF_LIST_EACH(it, &mb->pins)
    {
        const struct lf_request *pin = LF_LIST_ENTRY(it, struct lf_request, pin_node);
        if (pin->params.pin != LF_PIN_DEVICE || pin->state.finish != LF_FINISH_NONE) continue;
        n_more = LF_MAX(n_more, n_needed(mb, pin) - n_pin_blocks(mb, pin, LF_PIN_DEVICE));
    }
    if (n_pinned + n_more <= mb->limits.n_blocks) return LF_OK;
    return lf_fail(err, LF_LIMIT,
                   "%lld blocks would be pinned to the device and %lld more needed to compute them, of %d",
                   (long long)n_pinned, (long long)n_more, mb->limits.n_blocks);
}

/* Under the lock: whether every tier that it is to stay in has room for it, among what may be pinned there. */
static enum lf_status check_pin(const struct lf_mailbox *mb, const struct lf_request *req, struct lf_err *err)
{
    for (int pin = LF_PIN_DISK; pin <= (int)req->params.pin; pin++) {
        int64_t most = mb->limits.pins_most[pin], n_new = n_pin_blocks(mb, req, (enum lf_pin)pin);
        int64_t n = mb->n_pinned[pin] - lf_mailbox_pin_blocks(mb, (enum lf_pin)pin, req->params.pin_spare[pin]);
        if (most > 0 && n + n_new > most)
            return lf_fail(err, LF_LIMIT, "%lld blocks would be pinned to the %s; %lld of %lld that may be are",
                           (long long)n_new, lf_pin_name((enum lf_pin)pin), (long long)n, (long long)most);
        if (pin == LF_PIN_DEVICE) LF_TRY(check_pins_in_turn(mb, req, n + n_new, err));
    }
    return check_pin_slots(mb, req, err);
}

/* Under the lock: blocks that a request with this beginning may have beside what stays on the device. What it shares
 * with that it has. */
static int64_t most_beside_pins(const struct lf_mailbox *mb, const struct lf_sched_seq *seq, int n_most)
{
    const struct lf_kv_windows *w = &mb->limits.windows;
    int64_t n_shared = 0;
    LF_LIST_EACH(it, &mb->pins)
    {
        const struct lf_request *pinned = LF_LIST_ENTRY(it, struct lf_request, pin_node);
        if (pinned->params.pin != LF_PIN_DEVICE || n_most == 0) continue;
        n_shared = LF_MAX(n_shared, lf_sched_sure_blocks(w, mb->limits.has_states, seq, &pinned->seq, n_most) *
                                        lf_kv_windows_n_full(w));
    }
    return mb->limits.n_blocks - mb->n_pinned[LF_PIN_DEVICE] + n_shared;
}

/* Under the lock: whether it could start at all. */
static enum lf_status check_beside_pins(struct lf_mailbox *mb, const struct lf_request *req, struct lf_err *err)
{
    int64_t n = n_needed(mb, req);
    if (n <= mb->limits.n_blocks - mb->n_pinned[LF_PIN_DEVICE]) return LF_OK;
    int64_t most = most_beside_pins(mb, &req->seq, lf_sched_max_cached_blocks(&req->seq));
    if (n <= most) return LF_OK;
    lf_counter_add(&mb->metrics->rejected_too_long, 1);
    return lf_fail(err, LF_LIMIT, "it needs %lld blocks, and pinned documents leave it %lld", (long long)n,
                   (long long)most);
}

int64_t lf_mailbox_most(struct lf_mailbox *mb, const struct lf_prefix_key *keys, int n_keys, int n_most)
{
    const struct lf_sched_seq seq = {.keys = (struct lf_prefix_key *)keys, .n_keys = n_keys};
    lock(mb);
    int64_t n = most_beside_pins(mb, &seq, n_most);
    unlock(mb);
    return n;
}

int64_t lf_mailbox_n_pinned(struct lf_mailbox *mb)
{
    lock(mb);
    int64_t n = mb->n_pinned[LF_PIN_DEVICE];
    unlock(mb);
    return n;
}

/* Under the lock. */
static void count_pin(struct lf_mailbox *mb, const struct lf_request *req, int sign)
{
    for (int pin = LF_PIN_DISK; pin <= (int)req->params.pin; pin++)
        mb->n_pinned[pin] += sign * n_pin_blocks(mb, req, (enum lf_pin)pin);
    mb->n_pinned_slots += sign * n_pin_slots(mb, req);
}

/* Under the lock: how long a prompt takes behind those that wait, at the speed measured so far. */
static int64_t first_eta_ns(const struct lf_mailbox *mb, const struct lf_request *req)
{
    double speed = mb->figures.prefill_tokens_per_s;
    double ns =
        ((double)mb->waiting_tokens + req->params.n_prompt) * (speed > 0 ? 1e9 / speed : LF_COST_START_TOKEN_NS);
    return ns < 1e18 ? LF_MAX((int64_t)ns, 1) : (int64_t)1e18;
}

/* Under the lock: so many more, with so many tokens, are to follow this one in; below 0: fewer. */
static void expect(struct lf_mailbox *mb, struct lf_request *first, int n, int64_t n_tokens)
{
    first->n_coming += n;
    first->coming_tokens += n_tokens;
    mb->n_coming += n;
    mb->coming_tokens += n_tokens;
}

/* Under the lock: it takes its place in its group, or places for those that follow it. */
static void join_group(struct lf_mailbox *mb, struct lf_request *req)
{
    const struct lf_gen_params *p = &req->params;
    if (p->first && p->first->n_coming > 0) expect(mb, p->first, -1, -p->n_prompt);
    if (p->n_group > 1) expect(mb, req, p->n_group - 1, p->group_tokens - p->n_prompt);
}

enum lf_status lf_mailbox_submit(struct lf_mailbox *mb, struct lf_request *req, struct lf_request *leader,
                                 int *retry_after_s, struct lf_err *err)
{
    lock(mb);
    enum lf_status status = check_room(mb, &req->params, retry_after_s, err);
    if (status == LF_OK) status = check_pin(mb, req, err);
    if (status == LF_OK && req->params.pin != LF_PIN_DEVICE) status = check_beside_pins(mb, req, err);
    note_refusal(&req->params, status);
    if (status == LF_OK) {
        if (req->params.limits.meter) lf_counter_add(&req->params.limits.meter->requests, 1);
        if (req->params.pin) {
            lf_list_push_back(&mb->pins, &req->pin_node);
            count_pin(mb, req, 1);
        }
        req->now.submitted_ns = req->state.submitted_ns = lf_clock_ns();
        req->now.eta_ns = req->state.eta_ns = first_eta_ns(mb, req);
        req->n_refs++;
        req->leader = leader;
        if (leader) leader->n_refs++;
        req->waiting = true;
        mb->n_waiting++;
        mb->waiting_tokens += req->params.n_prompt;
        join_group(mb, req);
        charge(mb, req, req->params.n_prompt);
        mb->n_flight++;
        mb->n_live++;
        lf_list_push_back(&mb->flight, &req->flight_node);
        lf_list_push_back(&mb->inbox, &req->inbox_node);
        pthread_cond_signal(&mb->wake);
    }
    unlock(mb);
    return status;
}

/* ---- looking ---- */

void lf_request_snapshot(struct lf_request *req, struct lf_request_state *out)
{
    lock(req->mailbox);
    *out = req->state;
    unlock(req->mailbox);
}

void lf_mailbox_snapshot_engine(struct lf_mailbox *mb, struct lf_engine_state *out)
{
    lock(mb);
    *out = mb->figures;
    out->alive = mb->alive;
    out->draining = mb->draining || mb->stop;
    out->message = mb->message;
    out->n_waiting = mb->n_waiting;
    out->n_running = mb->n_flight - mb->n_waiting;
    out->waiting_tokens = mb->waiting_tokens;
    for (int pin = LF_PIN_DISK; pin < LF_PIN_N; pin++)
        out->pins[pin] = (struct lf_engine_pins){mb->limits.pins_most[pin], mb->n_pinned[pin]};
    unlock(mb);
}

void lf_mailbox_drain(struct lf_mailbox *mb)
{
    lock(mb);
    mb->draining = true;
    unlock(mb);
}

void lf_mailbox_poke(struct lf_mailbox *mb)
{
    lock(mb);
    wake_engine(mb);
    unlock(mb);
}

void lf_mailbox_stop(struct lf_mailbox *mb)
{
    lock(mb);
    mb->stop = true;
    pthread_cond_signal(&mb->wake);
    unlock(mb);
}

bool lf_mailbox_is_alive(struct lf_mailbox *mb)
{
    lock(mb);
    bool alive = mb->alive;
    unlock(mb);
    return alive;
}

/* ---- the engine thread ---- */

static struct timespec in_ms(int ms)
{
    int64_t until_ns = lf_clock_ns() + ms * LF_NS_PER_MS;
    return (struct timespec){.tv_sec = (time_t)(until_ns / LF_NS_PER_S), .tv_nsec = (long)(until_ns % LF_NS_PER_S)};
}

/* Under the lock, which it gives up meanwhile. */
static void sleep_until_something(struct lf_mailbox *mb, enum lf_mailbox_work work)
{
    int ms = work == LF_WORK_COMING ? COMING_MS : mb->limits.idle_ms;
    struct timespec at = in_ms(ms);
    bool late = work == LF_WORK_NOW;
    while (!late && lf_list_empty(&mb->inbox) && !mb->stop && !mb->poked) {
        if (work == LF_WORK_NONE) mb->busy = false;
        if (ms > 0)
            late = pthread_cond_timedwait(&mb->wake, &mb->lock, &at) == ETIMEDOUT;
        else
            pthread_cond_wait(&mb->wake, &mb->lock);
    }
    mb->poked = false;
}

bool lf_mailbox_take(struct lf_mailbox *mb, enum lf_mailbox_work work, struct lf_list *out)
{
    lock(mb);
    sleep_until_something(mb, work);
    mb->n_moves++;
    if (!mb->busy) {
        mb->busy = true;
        if (mb->limits.watchdog_s > 0) pthread_cond_signal(&mb->attend);
    }
    LF_LIST_EACH_SAFE(it, &mb->inbox)
    {
        lf_list_remove(it);
        lf_list_push_back(out, it);
    }
    bool go_on = !mb->stop;
    unlock(mb);
    return go_on;
}

/* Under the lock. */
static void leave_queue(struct lf_mailbox *mb, struct lf_request *req)
{
    if (!req->waiting) return;
    req->waiting = false;
    mb->n_waiting--;
    mb->waiting_tokens -= req->params.n_prompt;
}

void lf_mailbox_leave_queue(struct lf_mailbox *mb, struct lf_request *req, int64_t started_ns)
{
    lock(mb);
    leave_queue(mb, req);
    if (req->state.finish == LF_FINISH_NONE) {
        req->state.started_ns = started_ns;
        req->state.eta_ns = req->now.eta_ns;
    }
    if (req->leader && drop(req->leader)) bury(mb, req->leader);
    req->leader = NULL;
    unlock(mb);
}

static void leave_flight(struct lf_mailbox *mb, struct lf_request *req)
{
    expect(mb, req, -req->n_coming, -req->coming_tokens); /* who comes later has no place any more, but gets in */
    lf_list_remove(&req->flight_node);
    mb->n_flight--;
}

/* Under the lock: whether notify is to be called; if so, put of this request waits for end_notify. */
static bool begin_notify(struct lf_request *req)
{
    if (!req->params.notify || req->abandoned) return false;
    req->n_notifying++;
    return true;
}

/* Under the lock. */
static void end_notify(struct lf_mailbox *mb, struct lf_request *req)
{
    req->n_notifying--;
    if (req->abandoned) pthread_cond_broadcast(&mb->notified);
}

int64_t lf_mailbox_room(struct lf_mailbox *mb, uint64_t tenant, int64_t now_ns)
{
    struct lf_sched_holds holds = {0};
    lock(mb);
    LF_LIST_EACH(it, &mb->flight)
    {
        const struct lf_request *req = in_flight(it);
        if (req->params.tenant != tenant) continue;
        holds.n_waiting += req->waiting;
        holds.n_running += !req->waiting;
        if (!req->waiting) holds.n_blocks += n_needed(mb, req);
    }
    bool takes = mb->alive && !mb->draining && !mb->stop;
    int64_t n = takes ? lf_sched_room_blocks(&mb->figures.room, tenant, &holds, now_ns) : 0;
    unlock(mb);
    return n;
}

/* Under the lock: counts for its tenant what has come since the last time. The prompt counts once its first step has
 * been read: then it is known what was cached. */
static void meter(struct lf_request *req)
{
    struct lf_tenant_meter *m = req->params.limits.meter;
    if (!m || req->abandoned) return;
    lf_counter_add(&m->generation_tokens, (uint64_t)(req->now.n_tokens - req->state.n_tokens));
    lf_counter_add(&m->cached_tokens, (uint64_t)(req->now.n_cached - req->state.n_cached));
    if (req->metered || req->now.n_processed == 0) return;
    req->metered = true;
    lf_counter_add(&m->prompt_tokens, (uint64_t)req->params.n_prompt);
}

/* Of one that goes on its whole prompt will be computed, as far as it was not in the cache. What was tried and did not
 * come was computed too. */
static int64_t n_computed(const struct lf_request *req)
{
    const struct lf_request_state *st = &req->state;
    int n_prompt = st->finish == LF_FINISH_NONE ? req->params.n_prompt : st->n_processed;
    return (int64_t)n_prompt - st->n_cached + st->n_tokens + st->n_proposed - st->n_accepted;
}

void lf_mailbox_publish(struct lf_mailbox *mb, struct lf_request *chain, const struct lf_engine_state *figures)
{
    lock(mb);
    if (figures) mb->figures = *figures;
    for (struct lf_request *req = chain; req; req = req->next_touched) {
        if (req->state.finish == LF_FINISH_NONE) { /* else the janitor has ended it */
            meter(req);
            req->state = req->now;
            charge(mb, req, n_computed(req));
            if (req->state.finish != LF_FINISH_NONE) leave_flight(mb, req);
        }
        req->notify_now = begin_notify(req);
    }
    unlock(mb);
    if (!chain) return;

    for (struct lf_request *req = chain; req; req = req->next_touched)
        if (req->notify_now) req->params.notify(req->params.notify_ctx);

    lock(mb);
    for (struct lf_request *req = chain, *next; req; req = next) {
        next = req->next_touched;
        req->touched = false;
        if (req->notify_now) end_notify(mb, req);
        if (req->now.finish != LF_FINISH_NONE && !req->holds && drop(req)) bury(mb, req);
    }
    unlock(mb);
}

/* Under the lock. */
static void unpin(struct lf_mailbox *mb, struct lf_request *req)
{
    if (lf_list_empty(&req->pin_node)) return;
    lf_list_remove(&req->pin_node);
    count_pin(mb, req, -1);
}

void lf_mailbox_unpin(struct lf_mailbox *mb, struct lf_request *req)
{
    lock(mb);
    unpin(mb, req);
    unlock(mb);
}

void lf_mailbox_let_go(struct lf_mailbox *mb, struct lf_request *req)
{
    lock(mb);
    unpin(mb, req);
    if (drop(req)) bury(mb, req);
    unlock(mb);
}

/* ---- the janitor ---- */

enum { TICK_MS = 250 };
static const char STUCK[] = "the engine has made no step for too long";

/* Under the lock: ends a request in place of the engine, which is stuck inside a step. Its blocks are lost, but nobody
 * is left waiting. A reference of the caller's (the janitor, or who declares the engine dead) keeps it until it has
 * been notified. */
static void end_for_engine(struct lf_mailbox *mb, struct lf_request *req, int64_t now_ns)
{
    req->state.finish = LF_FINISH_ERROR;
    req->state.status = LF_DEVICE;
    req->state.message = mb->message;
    req->state.finished_ns = now_ns;
    lf_counter_add(&mb->metrics->finished_error, 1);
    leave_queue(mb, req);
    leave_flight(mb, req);
    req->n_refs++;
    req->janitor_notifies = begin_notify(req);
}

/* Under the lock, which it gives up to call notify. */
static void end_all(struct lf_mailbox *mb, int64_t now_ns)
{
    struct lf_request *chain = NULL;
    LF_LIST_EACH_SAFE(it, &mb->flight)
    {
        struct lf_request *req = in_flight(it);
        end_for_engine(mb, req, now_ns);
        req->janitor_next = chain;
        chain = req;
    }
    unlock(mb);
    for (struct lf_request *req = chain; req; req = req->janitor_next)
        if (req->janitor_notifies) req->params.notify(req->params.notify_ctx);
    lock(mb);
    for (struct lf_request *req = chain, *next; req; req = next) {
        next = req->janitor_next;
        if (req->janitor_notifies) end_notify(mb, req);
        if (drop(req)) bury(mb, req);
    }
}

/* Under the lock, which it gives up meanwhile. True: a tick has passed, false: something is to be done before. */
static bool sleep_a_tick(struct lf_mailbox *mb)
{
    struct timespec at = in_ms(TICK_MS);
    return pthread_cond_timedwait(&mb->attend, &mb->lock, &at) == ETIMEDOUT;
}

/* Under the lock. Declares the engine dead if it has not come by for watchdog_s with work queued; otherwise sleeps for
 * a tick, or until something else is to be done. A tick that took longer, because this process did not run, is one. */
static void watch(struct lf_mailbox *mb)
{
    if (!mb->busy || !mb->alive || mb->limits.watchdog_s <= 0) {
        pthread_cond_wait(&mb->attend, &mb->lock);
        return;
    }
    if (mb->n_moves_seen != mb->n_moves) {
        mb->n_moves_seen = mb->n_moves;
        mb->n_still_ticks = 0;
    }
    if (mb->n_still_ticks < (int64_t)mb->limits.watchdog_s * 1000 / TICK_MS) {
        if (sleep_a_tick(mb)) mb->n_still_ticks++;
        return;
    }
    mb->alive = false;
    mb->message = STUCK;
    LF_ERROR("the engine has made no step for %d s with work queued", mb->limits.watchdog_s);
    end_all(mb, lf_clock_ns());
}

void lf_mailbox_declare_dead(struct lf_mailbox *mb, const char *message, bool ends_all)
{
    lock(mb);
    if (mb->alive) {
        mb->alive = false;
        mb->message = message;
        if (ends_all) end_all(mb, lf_clock_ns());
    }
    unlock(mb);
}

static void *janitor_main(void *ctx)
{
    struct lf_mailbox *mb = ctx;
    lock(mb);
    while (!mb->janitor_stop) {
        struct lf_request *dead = mb->dead;
        mb->dead = NULL;
        if (!dead) {
            watch(mb);
            continue;
        }
        unlock(mb);
        free_chain(mb, dead);
        lock(mb);
    }
    unlock(mb);
    return NULL;
}

enum lf_status lf_mailbox_start(struct lf_mailbox *mb, struct lf_err *err)
{
    if (pthread_create(&mb->janitor, NULL, janitor_main, mb) != 0)
        return lf_fail(err, LF_NO_MEMORY, "no thread for the engine's janitor");
    mb->janitor_started = true;
    return LF_OK;
}

void lf_mailbox_deinit(struct lf_mailbox *mb)
{
    if (mb->janitor_started) {
        lock(mb);
        mb->janitor_stop = true;
        pthread_cond_signal(&mb->attend);
        unlock(mb);
        LF_ASSERT(pthread_join(mb->janitor, NULL) == 0);
    }
    free_chain(mb, mb->dead);
    LF_ASSERT(mb->n_live == 0); /* every request has been put */
    pthread_cond_destroy(&mb->notified);
    pthread_cond_destroy(&mb->attend);
    pthread_cond_destroy(&mb->wake);
    pthread_mutex_destroy(&mb->lock);
}
