/* The mailbox: where HTTP threads and the engine thread meet, and nowhere else. All locks of the engine are in here,
 * but for the one between it and its mask threads (masks.h).
 *
 * One mutex. Lock order: the mailbox's is the last one taken by anyone; nothing is called with it held, notify least of
 * all, so a caller may hold locks of its own in snapshot, cancel and submit. One exception: lf_request_put waits until
 * a notify of that request that is going on has returned, so it must not be called under a lock that notify takes.
 *
 * Three kinds of threads come here:
 *     HTTP threads     submit; lf_request_snapshot and lf_request_put, which are defined here (lf_request_cancel sets
 *                      an atomic flag and takes no lock)
 *     the engine       take (sleeps here while there is nothing to do), leave_queue, publish
 *     the janitor      one thread that frees requests the engine let go of last (the engine never calls free) and
 *                      watches that the engine moves; it sleeps while neither is needed. It counts ticks of its own
 *                      rather than time: a process that is stopped, or a machine that sleeps, ages the engine by one
 *
 * Life of a request's references: the caller's from submit to put, the engine's from submit until it has published the
 * end, one for each follower until that is admitted or ends. Who drops the last one on an HTTP thread frees it there.
 */
#ifndef LF_SERVER_ENGINE_MAILBOX_H
#define LF_SERVER_ENGINE_MAILBOX_H

#include <pthread.h>

#include "core/check.h"
#include "server/engine/engine.h"
#include "server/engine/quota.h"
#include "server/engine/request_internal.h"

struct lf_mailbox_limits {
    int queue_n;
    int64_t queue_tokens;
    int per_tenant_n; /* 0: no limit */
    int watchdog_s;   /* 0: off */
    int idle_ms;      /* without work the engine sleeps so long at most; 0: until there is some */
    int n_blocks;     /* of the cache that may be reserved */
    struct lf_kv_windows windows;
    bool has_states;             /* states.h */
    int slot_blocks;             /* parts of a snapshot; 0: none */
    int n_pin_slots;             /* slots that may be pinned to the device */
    int64_t pins_most[LF_PIN_N]; /* blocks that may be pinned to each tier; 0: there is no such tier */
};

struct lf_mailbox {
    struct lf_mailbox_limits limits;   /* immutable */
    struct lf_engine_metrics *metrics; /* borrowed; atomics */
    pthread_t janitor;
    bool janitor_started;

    pthread_mutex_t lock;
    pthread_cond_t wake;     /* the engine: there is something to take, or stop */
    pthread_cond_t attend;   /* the janitor: there is something to free or to watch, or stop */
    pthread_cond_t notified; /* putters: a notify has returned */
    /* Under the lock: */
    struct lf_list inbox;       /* submitted, not taken */
    struct lf_list flight;      /* all that have not ended */
    struct lf_list pins;        /* those with a pin, until they hold nothing any more */
    int64_t n_pinned[LF_PIN_N]; /* blocks of these, for each tier; what several share counts several times */
    int n_pinned_slots;         /* and slots, on the device */
    struct lf_request *dead;    /* without a reference, for the janitor */
    int n_flight, n_waiting;
    int n_live; /* requests that exist, for destroy to check */
    int64_t waiting_tokens;
    int n_coming; /* of groups: they have their places, and their tokens', though they are yet to be submitted */
    int64_t coming_tokens;
    struct lf_quotas quotas;
    bool stop, janitor_stop, draining, alive;
    bool poked;
    bool busy;                      /* the engine has work */
    uint64_t n_moves;               /* how often it has come by */
    uint64_t n_moves_seen;          /* when the janitor last looked, */
    int n_still_ticks;              /* and for how many of its ticks there have been no more */
    const char *message;            /* why it is dead, static text */
    struct lf_engine_state figures; /* what the engine last said of itself; queue and flags are filled in by look */
};

LF_MUST_CHECK enum lf_status lf_mailbox_init(struct lf_mailbox *mb, const struct lf_mailbox_limits *limits,
                                             struct lf_engine_metrics *metrics, struct lf_err *err);
/* Starts the janitor. */
LF_MUST_CHECK enum lf_status lf_mailbox_start(struct lf_mailbox *mb, struct lf_err *err);
/* After the engine thread has ended: joins the janitor, if it was started, and frees what is dead. */
void lf_mailbox_deinit(struct lf_mailbox *mb);

/* Of a queue's n requests or tokens those that one tenant may have waiting: the others' requests find room beside any
 * flood of its. Tenant 0 is nobody in particular and has no share. */
static inline int64_t lf_mailbox_share(int64_t n)
{
    return LF_MAX(n - (n + 3) / 4, 1);
}

/* Of a queue's n requests the last ones, for those of which nothing waits and that ask for one answer: many floods at
 * once do not keep them out. */
static inline int lf_mailbox_spare(int n)
{
    return n / 8;
}

/* HTTP threads. */
/* Whether a request would be taken at this moment: what submit checks, before anything is built. While nothing waits
 * there is room for any one client's requests, and while nothing of a tenant waits its share has room for them, so what
 * is refused can be taken later. */
LF_MUST_CHECK enum lf_status lf_mailbox_check_room(struct lf_mailbox *mb, const struct lf_gen_params *params,
                                                   int *retry_after_s, struct lf_err *err);
/* Checks again and queues it; adds the engine's reference, and one on leader (may be NULL). On failure nothing is kept.
 */
LF_MUST_CHECK enum lf_status lf_mailbox_submit(struct lf_mailbox *mb, struct lf_request *req, struct lf_request *leader,
                                               int *retry_after_s, struct lf_err *err);
void lf_mailbox_snapshot_engine(struct lf_mailbox *mb, struct lf_engine_state *out);
/* Blocks of the cache that requests with these keys, the chain's root first, may have beside what is pinned: those that
 * they share with it among their first n_most count as theirs. */
int64_t lf_mailbox_most(struct lf_mailbox *mb, const struct lf_prefix_key *keys, int n_keys, int n_most);
/* Blocks of a tier that are pinned with so many full ones of a prompt. */
int64_t lf_mailbox_pin_blocks(const struct lf_mailbox *mb, enum lf_pin pin, int64_t n_full);
/* Blocks that are pinned to the device, or will be. */
int64_t lf_mailbox_n_pinned(struct lf_mailbox *mb);
/* Blocks that a request of this tenant may need to be admitted at once. */
int64_t lf_mailbox_room(struct lf_mailbox *mb, uint64_t tenant, int64_t now_ns);
void lf_mailbox_drain(struct lf_mailbox *mb);
/* Wakes the engine: something that it waits for has come. Any thread. */
void lf_mailbox_poke(struct lf_mailbox *mb);
/* The engine is dead from here on: submit refuses. ends_all: what is in flight is ended in its place, for it may stand
 * still; else it does so itself. message is static text. The engine thread may call it, too. */
void lf_mailbox_declare_dead(struct lf_mailbox *mb, const char *message, bool ends_all);
void lf_mailbox_stop(struct lf_mailbox *mb); /* the engine ends everything and returns from its loop */

/* The engine thread. */
/* What the engine has to do beside the inbox. What comes pokes it. */
enum lf_mailbox_work { LF_WORK_NONE, LF_WORK_COMING, LF_WORK_NOW };
/* Moves the inbox to the end of out (an initialized list, by inbox_node). Where the inbox is empty and nobody has poked
 * since the last time it sleeps first: without work until there is something, or for idle_ms, with work that is coming
 * for a short while at most, so that requests that are cancelled or late meanwhile are seen. False: stop was called. */
bool lf_mailbox_take(struct lf_mailbox *mb, enum lf_mailbox_work work, struct lf_list *out);
bool lf_mailbox_is_alive(struct lf_mailbox *mb);
/* Publishes `now` of each request in the chain, calls their notify, and drops the engine's reference on those that have
 * ended. figures: may be NULL. */
void lf_mailbox_publish(struct lf_mailbox *mb, struct lf_request *chain, const struct lf_engine_state *figures);
/* A request leaves the queue at started_ns; or ends in it (0). Lets go of its leader, which it need not wait for. */
void lf_mailbox_leave_queue(struct lf_mailbox *mb, struct lf_request *req, int64_t started_ns);
/* A request holds nothing any more, or never will. */
void lf_mailbox_unpin(struct lf_mailbox *mb, struct lf_request *req);
/* And the engine lets go of it: it has been published as ended. */
void lf_mailbox_let_go(struct lf_mailbox *mb, struct lf_request *req);

#endif
