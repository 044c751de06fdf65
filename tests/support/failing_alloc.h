/* Allocations that fail on demand: the k-th one of this thread, once or with all that follow.
 *
 * In a plain build the program's own malloc and its like stand before those of the C library, so allocations inside
 * PCRE2, sentencepiece and the C library itself are refused too. Sanitizers bring a malloc of their own; under them the
 * linker wraps the calls of the project's objects, and operator new is replaced (failing_new.cc).
 *
 * Counters belong to the thread that arms; blocks are counted over all threads. */
#ifndef LF_TESTS_SUPPORT_FAILING_ALLOC_H
#define LF_TESTS_SUPPORT_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* From here on the k-th allocation (1 is the next) is refused, and if for_good every one behind it. */
void failing_alloc_arm(long k, bool for_good);
/* No more refusals; how many there were. */
long failing_alloc_disarm(void);
/* Blocks that are allocated and not freed; always 0 under a sanitizer, which finds leaks itself. */
long failing_alloc_n_live(void);

#endif
