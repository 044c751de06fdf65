#include "device/cpu/wait_count.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"

enum { SPINS_PER_CLOCK = 32 };
#define CLOSED    (UINT32_C(1) << 31)
#define FAR_AHEAD (UINT32_C(1) << 30) /* of two counts the difference is less */

static bool has_reached(uint32_t word, uint32_t at_least)
{
    return ((word - at_least) & ~CLOSED) < FAR_AHEAD;
}

static void wake_all(struct lf_count *count)
{
    if (atomic_load(&count->n_sleeping) == 0) return;
    (void)syscall(SYS_futex, &count->word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint32_t lf_count_value(struct lf_count *count)
{
    return atomic_load(&count->word) & LF_COUNT_MASK;
}

void lf_count_raise(struct lf_count *count)
{
    uint32_t word = atomic_load(&count->word);
    while (!atomic_compare_exchange_weak(&count->word, &word, (word & CLOSED) | ((word + 1) & ~CLOSED))) continue;
    wake_all(count);
}

void lf_count_close(struct lf_count *count)
{
    atomic_fetch_or(&count->word, CLOSED);
    wake_all(count);
}

bool lf_count_has(struct lf_count *count, uint32_t at_least)
{
    return has_reached(atomic_load(&count->word), at_least);
}

/* Until the word is no longer `seen`, or that time. */
static void sleep_while(struct lf_count *count, uint32_t seen, int64_t until_ns)
{
    struct timespec left = {0};
    int64_t ns = until_ns - lf_clock_ns();
    if (until_ns != 0 && ns <= 0) return;
    left.tv_sec = (time_t)(ns / LF_NS_PER_S);
    left.tv_nsec = (long)(ns % LF_NS_PER_S);
    (void)syscall(SYS_futex, &count->word, FUTEX_WAIT, seen, until_ns ? &left : NULL, NULL, 0);
}

static void spin(struct lf_count *count, uint32_t at_least, int64_t until_ns)
{
    while (lf_clock_ns() < until_ns) {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            uint32_t word = atomic_load(&count->word);
            if ((word & CLOSED) || has_reached(word, at_least)) return;
        }
    }
}

enum lf_waited lf_count_wait(struct lf_count *count, uint32_t at_least, int64_t spin_ns, int64_t until_ns)
{
    enum lf_waited waited = LF_WAITED_TOO_LONG;
    if (spin_ns > 0) spin(count, at_least, lf_clock_ns() + spin_ns);
    /* Who sleeps says so, then looks again; who raises raises, then looks for sleepers: one of them sees the other. */
    atomic_fetch_add(&count->n_sleeping, 1);
    for (bool is_over = false;;) {
        uint32_t word = atomic_load(&count->word);
        if (word & CLOSED) waited = LF_WAITED_CLOSED;
        if (!(word & CLOSED) && has_reached(word, at_least)) waited = LF_WAITED_REACHED;
        if (waited != LF_WAITED_TOO_LONG || is_over) break;
        sleep_while(count, word, until_ns);
        is_over = until_ns != 0 && lf_clock_ns() >= until_ns;
    }
    atomic_fetch_sub(&count->n_sleeping, 1);
    return waited;
}
