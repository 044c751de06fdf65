/* Time. Everything measures with the monotonic clock in nanoseconds; policies take the value as an argument, so that
 * the simulator can run them on a clock of its own. */
#ifndef LF_CORE_CLOCK_H
#define LF_CORE_CLOCK_H

#include <stdint.h>

/* Of 64 bits, so that a product with an int is too. */
#define LF_NS_PER_MS INT64_C(1000000)
#define LF_NS_PER_S  INT64_C(1000000000)

int64_t lf_clock_ns(void);      /* CLOCK_MONOTONIC */
int64_t lf_clock_unix_s(void);  /* seconds since 1970, for "created" */
void lf_clock_sleep_ms(int ms); /* resumes after signals */

#endif
