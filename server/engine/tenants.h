/* Tenants: whose requests share the device, and how much of it each has had.
 *
 * A tenant has two accounts of predicted device time, and each decides who is next where something is scarce:
 *
 *     admitted_ns   who leaves the queue next. A request is charged for its prefill when it is admitted, and for each
 *                   token of its answer as it comes: nobody knows beforehand how long that will be
 *     served_ns     whose prefill is next in a step. Charged with the chunks and the decodes of each step. What a step
 *                   costs by itself is charged to those who decode, since it is for them that it is short. Who runs
 *                   one request pays seven eighths for its prefill: that many at once cost more than the model of a
 *                   step says (a step of many chunks, connections, refusals), and it is the others who are many
 *
 * The tenant with the least goes first: deficit round robin with a deficit instead of a quantum, so a turn is never
 * too small for a chunk. An account matters only while its tenant competes. One that begins to (its queue was empty, it
 * had no prefill in the last step) is brought level: at most a few steps ahead of the others, so that a pause saves
 * nothing up, and at most LF_SCHED_DEBT_NS behind, so that what it used while nobody else wanted it is forgotten.
 *
 * Slots are kept for tenants that run nothing: beyond max_seqs there are n_kept, and a sequence may have one of them
 * only if its tenant runs no other. So however many answers others have begun and however long these are, the first
 * n_kept that come wait for none of them to end for a slot; for blocks they wait as everybody does (scheduler.h, 4).
 * Nothing is taken from a tenant alone, which has max_seqs: a step has no more sequences than before, and while more
 * than that decode they take turns.
 *
 * The table has room for as many tenants as can wait and run. A tenant that left stays in it until its entry is needed;
 * should there be none, two tenants share an entry and count as one. All of it is the engine thread's. */
#ifndef LF_SERVER_ENGINE_TENANTS_H
#define LF_SERVER_ENGINE_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "server/engine/room.h"

struct lf_sched;
struct lf_sched_seq;

/* A sequence at the head of a queue that cannot start, since when, and the blocks that have passed it. */
struct lf_sched_hold {
    const struct lf_sched_seq *seq;
    int64_t since_ns, passed_blocks;
    uint64_t scan_no; /* the last scan of the queue that found it so */
};

struct lf_sched_tenant {
    uint64_t id;
    int n_waiting, n_running;
    struct lf_list queue;                                 /* what waits, ascending order_ns, by tenant_node */
    struct lf_list node;                                  /* among the tenants with a queue */
    struct lf_list prefills, prefill_node, *next_prefill; /* see prefill_order.h */
    double admitted_ns, served_ns;
    int64_t turn_ns;              /* when it last had something admitted, or its queue began */
    int64_t n_blocks;             /* tables of those that run, added up: at least what the tenant holds */
    struct lf_sched_hold blocked; /* does not fit into the pool */
    struct lf_sched_hold held;    /* is beyond the tenant's share */
    double eldest_credit_ns;      /* what its prefill admitted first has not been given yet of its quarter */
    /* Of the step planned last: */
    uint64_t step_no, prefill_no, eldest_no; /* in which it ran, had a prefill, gave its eldest its quarter */
    double decode_ns;
};

/* Its entry in the table. */
struct lf_sched_tenant *lf_sched_tenant_of(struct lf_sched *s, uint64_t id);
/* A sequence of it comes, starts and goes. */
void lf_sched_tenant_joins(struct lf_sched *s, struct lf_sched_seq *seq, int64_t now_ns);
void lf_sched_tenant_starts(struct lf_sched *s, struct lf_sched_seq *seq, int64_t now_ns);
void lf_sched_tenant_leaves(struct lf_sched *s, struct lf_sched_seq *seq);
/* Of n blocks or slots those that one of several tenants may have. */
int64_t lf_sched_share_of(int64_t n);
/* How many blocks a sequence may have that passes this one. */
int64_t lf_sched_room_beside(const struct lf_sched *s, const struct lf_sched_hold *hold);
/* Whether one of the two that left last is another tenant, and left a short while ago. */
bool lf_sched_other_left(const struct lf_sched_left left[2], uint64_t tenant, int64_t now_ns);
/* Whether another tenant waits or runs, or was here a short while ago. */
bool lf_sched_others_may_come(const struct lf_sched *s, const struct lf_sched_tenant *t, int64_t now_ns);
/* Whether the tenant may hold what seq needs, beside what it has. counted: whether the blocks it holds have been
 * counted in this look at its queue; kept by this function, false at first. */
bool lf_sched_within_share(struct lf_sched *s, const struct lf_sched_seq *seq, int n_hint, int64_t now_ns,
                           bool *counted);
/* Puts the tenants with a queue in the order of their turns. */
void lf_sched_sort_queues(struct lf_sched *s, int64_t now_ns);
/* Asserts that table, queues and counts agree. */
void lf_sched_check_tenants(const struct lf_sched *s);
/* Of a step: the tenant runs in it; brings the account of one whose prefills begin level. */
void lf_sched_tenant_runs(struct lf_sched *s, struct lf_sched_tenant *t, bool in_prefill);

#endif
