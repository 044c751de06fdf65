/* Checks: passing a failure upward, and stopping on a broken invariant.
 *
 * LF_ASSERT stays on in release builds: it guards what the program itself promises, never what a user sent. */
#ifndef LF_CORE_CHECK_H
#define LF_CORE_CHECK_H

#include "core/status.h"

/* Evaluates expr once; returns its status from the enclosing function unless it is LF_OK. */
#define LF_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        enum lf_status lf_try_status_ = (expr);                                                                        \
        if (lf_try_status_ != LF_OK) return lf_try_status_;                                                            \
    } while (0)

/* The same for a function that cleans up at a label: sets `status` (declared by the function) and jumps. */
#define LF_TRY_GOTO(expr, label)                                                                                       \
    do {                                                                                                               \
        status = (expr);                                                                                               \
        if (status != LF_OK) goto label;                                                                               \
    } while (0)

#define LF_ASSERT(cond)                                                                                                \
    do {                                                                                                               \
        if (__builtin_expect(!(cond), 0)) lf_assert_failed(#cond, __FILE__, __LINE__);                                 \
    } while (0)

_Noreturn void lf_assert_failed(const char *cond, const char *file, int line);

#define LF_MIN(a, b)       ((a) < (b) ? (a) : (b))
#define LF_MAX(a, b)       ((a) > (b) ? (a) : (b))
#define LF_ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to)) /* n >= 0, to > 0; evaluates `to` three times */
#define LF_N_ELEMS(arr)    (sizeof(arr) / sizeof((arr)[0]))

#endif
