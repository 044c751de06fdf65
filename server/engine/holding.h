/* Sequences that have ended and keep their blocks: what is pinned. */
#ifndef LF_SERVER_ENGINE_HOLDING_H
#define LF_SERVER_ENGINE_HOLDING_H

#include "server/engine/scheduler.h"

/* A sequence that runs, whose prompt is computed: it keeps pins on its full blocks, and is none of those that run any
 * more. Or one that was never submitted, which keeps nothing but its place in the list. lf_sched_end ends it. */
void lf_sched_hold(struct lf_sched *s, struct lf_sched_seq *seq);
/* What it keeps is let go; it goes on holding, nothing. */
void lf_sched_let_go(struct lf_sched *s, struct lf_sched_seq *seq);

#endif
