/* --parallel auto: which split there is, by making the plan of each. */
#ifndef LF_SERVER_AUTO_SPLIT_H
#define LF_SERVER_AUTO_SPLIT_H

#include "server/runtime.h"

/* lf_runtime_plan, of the split that was asked for; where that is auto, of the best one, and rt->splits has all. Its
 * errors, and those of one rank. */
LF_MUST_CHECK enum lf_status lf_auto_split_plan(struct lf_runtime *rt, bool serves, struct lf_err *err);

#endif
