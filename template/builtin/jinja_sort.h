/* Stable sorting with a comparison that may fail. */
#ifndef LF_TEMPLATE_BUILTIN_JINJA_SORT_H
#define LF_TEMPLATE_BUILTIN_JINJA_SORT_H

#include "template/jinja/jinja_run.h"

/* The order of keys as n indices in *out (in the arena). Equal ones keep their order, also when descending. */
LF_MUST_CHECK enum lf_status lf_jinja_sort_order(struct lf_jinja *j, size_t **out, const struct lf_jinja_list *keys,
                                                 bool descending);

#endif
