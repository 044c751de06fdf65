/* Few things that are asked for often, and many that are not: of n things the i-th (from 0) is chosen with a
 * probability proportional to 1 / (i + 1)^s. Plain data; read by any thread once it is made. */
#ifndef LF_SERVER_LOAD_ZIPF_H
#define LF_SERVER_LOAD_ZIPF_H

#include <stdint.h>

#include "core/status.h"

struct lf_zipf {
    double *ends; /* owned: of thing i the probability that it or one before it is chosen */
    int n;
};

/* n >= 1; s 0: all alike. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_zipf_init(struct lf_zipf *zipf, int n, double s);
void lf_zipf_deinit(struct lf_zipf *zipf); /* accepts a zeroed one */
/* The thing that 64 random bits choose. */
int lf_zipf_choose(const struct lf_zipf *zipf, uint64_t random);

#endif
