#include "core/clock.h"

#include <errno.h>
#include <time.h>

int64_t lf_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * LF_NS_PER_S + t.tv_nsec;
}

int64_t lf_clock_unix_s(void)
{
    return (int64_t)time(NULL);
}

void lf_clock_sleep_ms(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * LF_NS_PER_MS};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}
