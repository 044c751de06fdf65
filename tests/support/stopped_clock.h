/* A clock that stands where the test has put it. The linker sends the program's calls of lf_clock_ns here (--wrap).
 * Each program includes this once. */
#ifndef TESTS_SUPPORT_STOPPED_CLOCK_H
#define TESTS_SUPPORT_STOPPED_CLOCK_H

#include "core/clock.h"

static _Atomic int64_t now_ns; /* threads of the program may ask */

int64_t __wrap_lf_clock_ns(void);
int64_t __wrap_lf_clock_ns(void)
{
    return now_ns;
}

static inline int64_t ms(int64_t n)
{
    return n * LF_NS_PER_MS;
}

#endif
