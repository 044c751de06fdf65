/* Which prefill is next in a step: of the tenants the one that was served least, and of its prefills the one with the
 * least left to do.
 *
 * A step asks that for each of its chunks, and with a thousand prefills there are a thousand that no budget is left
 * for. So the order is kept: a list of the tenants that have prefills, ascending served_ns, and in each tenant a list
 * of these, ascending left_ns (the one admitted first among equals). Both are put right once a step, by insertion,
 * since a step changes few places in them; while it is planned a cursor in each tenant passes over what has been looked
 * at, and the first of the tenants moves back as it is served. Planning n prefills then takes steps in proportion to n.
 *
 * A sequence is in its tenant's list from its start until its prompt is computed, or it ends; but not while all that it
 * could compute is being restored (restore.h). Pure; the engine thread's. */
#ifndef LF_SERVER_ENGINE_PREFILL_ORDER_H
#define LF_SERVER_ENGINE_PREFILL_ORDER_H

struct lf_sched;
struct lf_sched_seq;
struct lf_sched_tenant;

void lf_prefill_order_join(struct lf_sched *s, struct lf_sched_seq *seq);
/* Does nothing to one that is in no list. */
void lf_prefill_order_leave(struct lf_sched_seq *seq);

/* A step begins: puts the lists in order, with each cursor at the first. Accounts and n_done are those of this step. */
void lf_prefill_order_sort(struct lf_sched *s);
/* The tenant served least of those with a prefill that this step has not looked at (n_planned is 0); NULL: none. */
struct lf_sched_tenant *lf_prefill_order_next(const struct lf_sched *s);
/* Of the tenant that is next: the prefill with the least left that has not been looked at. */
struct lf_sched_seq *lf_prefill_order_shortest(const struct lf_sched_tenant *t);
/* Of all its prefills the one admitted first. */
struct lf_sched_seq *lf_prefill_order_eldest(const struct lf_sched_tenant *t);
/* The tenant that was next has been charged, or one of its prefills has been looked at: finds its new place. */
void lf_prefill_order_moved(struct lf_sched *s, struct lf_sched_tenant *t);
/* Predicted ns for the rest of a prompt, with the device to itself. */
double lf_prefill_left_ns(const struct lf_sched *s, const struct lf_sched_seq *seq);
/* The least that a tenant with a prefill was served; -1: nobody has one. */
double lf_prefill_order_least_served(const struct lf_sched *s);

/* Asserts that the lists hold the running prefills and no others. */
void lf_prefill_order_check(const struct lf_sched *s);

#endif
