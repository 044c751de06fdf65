/* Work on one text: from where its memory comes, and for how long it may go on.
 *
 * Whoever reads a text that somebody else sent (JSON, a template, a document to tokenize) works on behalf of a client
 * who may have gone away meanwhile, under a deadline, in a server that may be asked to stop, and within a budget of
 * memory. One lf_work says all of it, and travels with the text through every function that loops over it.
 *
 * A loop calls lf_work_step with what it has just done, in bytes read or in steps of about that price (a nanosecond to
 * ten each). Every LF_WORK_CHECK_STEPS of them the clock is read, and once in LF_WORK_CHECK_MS whoever waits is asked.
 * That is what makes a hostile text end within a millisecond of its client's leaving.
 *
 * NULL is allowed everywhere: no budget, and nobody to ask (the command line, tests). One thread at a time. */
#ifndef LF_CORE_WORK_H
#define LF_CORE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct lf_text_memory;

enum { LF_WORK_CHECK_STEPS = 16 * 1024, LF_WORK_CHECK_MS = 1 };

struct lf_work {
    struct lf_text_memory *memory; /* borrowed; NULL: the process's heap */
    bool (*is_over)(void *ctx);    /* whether nobody waits any more; NULL: somebody always does */
    void *ctx;
    int64_t deadline_ns; /* of lf_clock_ns; 0: none */

    /* its own */
    size_t n_steps; /* since the clock was read */
    int64_t checked_ns;
    enum lf_status status; /* sticky: LF_OK, LF_CANCELLED or LF_TIMEOUT */
};

static inline struct lf_text_memory *lf_work_memory(const struct lf_work *work)
{
    return work ? work->memory : NULL;
}

/* Reads the clock, and asks if it is time to. LF_CANCELLED: nobody waits. LF_TIMEOUT: past the deadline. */
LF_MUST_CHECK enum lf_status lf_work_check(struct lf_work *work);

/* So many steps more. LF_OK means go on; anything else is passed upward as it is. */
LF_MUST_CHECK static inline enum lf_status lf_work_step(struct lf_work *work, size_t n_steps)
{
    if (!work) return LF_OK;
    work->n_steps += n_steps;
    return work->n_steps < LF_WORK_CHECK_STEPS ? work->status : lf_work_check(work);
}

#endif
