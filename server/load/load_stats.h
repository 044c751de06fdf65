/* Samples and their percentiles. One thread. */
#ifndef LF_SERVER_LOAD_LOAD_STATS_H
#define LF_SERVER_LOAD_LOAD_STATS_H

#include <stddef.h>

#include "core/status.h"

struct lf_samples {
    double *values; /* owned */
    size_t n, cap;
};

void lf_samples_deinit(struct lf_samples *s); /* accepts a zeroed one */
LF_MUST_CHECK enum lf_status lf_samples_add(struct lf_samples *s, double value);
/* The smallest sample that at least p percent of all are not above (the nearest-rank definition); 0 without samples.
 * Sorts the samples. */
double lf_samples_percentile(struct lf_samples *s, double p);

#endif
