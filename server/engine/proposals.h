/* Proposed tokens (speculation.h), as part of a step. Where no id is on its way, a decode may carry tokens that are
 * likely to come, in ids behind those that are known, with a row of logits each; such a step is read before the next is
 * planned, for how many of them came decides where its sequences go on. With asynchronous scheduling both cost a wait:
 * lf_proposals_wait weighs what it costs (lf_proposals_waited) against what is expected to come of it, and where it
 * does not pay, or there is nothing to propose, steps follow each other as they do without. Proposed tokens are
 * nobody's until they have been drawn: only the first token of such an item counts as computed when it is launched, and
 * it has no placeholder; an id is appended as it is drawn, and what was computed for it counts once it is seen to be
 * what was proposed. Where more than one decodes, all that is proposed is predicted to make the step a quarter longer
 * at most. Pure, as the scheduler is. */
#ifndef LF_SERVER_ENGINE_PROPOSALS_H
#define LF_SERVER_ENGINE_PROPOSALS_H

#include <stdbool.h>
#include <stdint.h>

struct lf_sched;
struct lf_sched_seq;
struct lf_sched_step;

/* A sequence begins, and ends, to run. What nobody has tried of late is asked for by the next one, however short the
 * answers are: a price that is wrong would stay so. */
void lf_proposals_begin(const struct lf_sched *s, struct lf_sched_seq *seq);
void lf_proposals_end(struct lf_sched *s, const struct lf_sched_seq *seq);

/* Whether to wait for the ids that are on their way before the next step is planned: what is likely to be proposed then
 * is worth it. */
bool lf_proposals_wait(struct lf_sched *s);
/* Between a step that was waited for and the next the device idled so long. */
void lf_proposals_waited(struct lf_sched *s, int64_t took_ns);
/* Adds to a step, of whose decodes all are planned and of prefills none, what is likely to come behind them. */
void lf_proposals_plan(struct lf_sched *s, struct lf_sched_step *step);

#endif
