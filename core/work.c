#include "core/work.h"

#include "core/clock.h"

enum lf_status lf_work_check(struct lf_work *work)
{
    if (!work) return LF_OK;
    work->n_steps = 0;
    int64_t now = lf_clock_ns();
    if (work->status != LF_OK || now - work->checked_ns < LF_WORK_CHECK_MS * LF_NS_PER_MS) return work->status;
    work->checked_ns = now;
    if (work->deadline_ns && now >= work->deadline_ns) work->status = LF_TIMEOUT;
    if (work->is_over && work->is_over(work->ctx)) work->status = LF_CANCELLED;
    return work->status;
}
