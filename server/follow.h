/* serve --rank R, of a rank that is not rank 0: a process that computes its part of each step and serves nobody. */
#ifndef LF_SERVER_FOLLOW_H
#define LF_SERVER_FOLLOW_H

#include "server/notify.h"
#include "server/runtime.h"

/* Takes a runtime and what notifies, which are open, and closes both. Joins the others, loads, and follows rank 0 until
 * the group ends: exit status 0 where that was rank 0's orderly end, 1 where a rank has failed; what was refused is
 * reported as elsewhere. */
int lf_follow(struct lf_runtime *rt, struct lf_notify *notify);

#endif
