/* Counters in memory that several ranks share: one raises, others wait until it is high enough.
 *
 * Who waits spins for a while where there are CPUs for that, then sleeps on a futex. Closing a counter ends all waits,
 * those to come too: a bit of the word itself says so, and whoever is about to sleep sees that the word has changed.
 * Counts run on from 2^31 - 1 to 0; two that are compared are never so far apart. Ranks may be processes: futexes are
 * shared ones. */
#ifndef LF_DEVICE_CPU_WAIT_COUNT_H
#define LF_DEVICE_CPU_WAIT_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LF_COUNT_ALIGN = 64 };

/* Zeroed: at 0, open. */
struct lf_count {
    _Alignas(LF_COUNT_ALIGN) _Atomic uint32_t word; /* the count; the highest bit: closed */
    _Atomic int n_sleeping;
};

enum lf_waited { LF_WAITED_REACHED, LF_WAITED_CLOSED, LF_WAITED_TOO_LONG };

/* How high it is, closed or not: 31 bits. */
enum { LF_COUNT_MASK = INT32_MAX };
uint32_t lf_count_value(struct lf_count *count);
/* By one more; one thread at a time. What it has written before is seen by those who waited for it. */
void lf_count_raise(struct lf_count *count);
/* Any thread, any number of times. */
void lf_count_close(struct lf_count *count);
bool lf_count_has(struct lf_count *count, uint32_t at_least);
/* Until it is `count` at least. until_ns: by lf_clock_ns, 0: for ever. */
enum lf_waited lf_count_wait(struct lf_count *count, uint32_t at_least, int64_t spin_ns, int64_t until_ns);

#endif
