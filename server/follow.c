/* Signals. A launcher sends TERM to all ranks at once, and then rank 0 drains, for which it needs the others: so the
 * first TERM or INT leaves a rank that has loaded where it is, it ends with the group. The second one ends it, with
 * status 1; before it has loaded the first one does, with 0, as in serve.c. */
#include "server/follow.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "device/comm.h"
#include "server/commands.h"
#include "server/ends.h"
#include "server/ranks.h"

static void wait_for_rank_0(int sig)
{
    static const char said[] = "longflash: this rank ends when rank 0 does; a second signal ends it at once\n";
    (void)sig;
    ssize_t n = write(STDERR_FILENO, said, sizeof(said) - 1);
    (void)n;
    lf_handle_ends(lf_end_failed);
}

/* The signals that serve fetches come by themselves here; a log that is moved away is not opened anew. */
static void take_signals(void)
{
    sigset_t none;
    lf_handle_ends(lf_end_now);
    (void)signal(SIGHUP, SIG_IGN);
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static enum lf_status load(struct lf_runtime *rt, struct lf_err *err)
{
    LF_TRY(lf_runtime_join(rt, err));
    enum lf_status status = lf_runtime_plan_told(rt, err);
    if (status == LF_OK) status = lf_runtime_load(rt, NULL, NULL, err);
    if (status == LF_OK) return LF_OK;
    struct lf_err why = *err; /* the group has its own reason already, or gets this one */
    lf_fail_within(&why, status, "rank %d", rt->rank);
    lf_ranks_fail(rt->ranks, &why);
    return status;
}

/* The group's end: orderly, or not. */
static int end(struct lf_runtime *rt, enum lf_status status, const struct lf_err *err)
{
    if (status != LF_SHUTDOWN) LF_ERROR("rank %d ends: %s", rt->rank, err->message);
    lf_handle_ends(status == LF_SHUTDOWN ? lf_end_now : lf_end_failed); /* launchers signal one rank after another */
    lf_runtime_close(rt);
    return status == LF_SHUTDOWN ? LF_EXIT_OK : LF_EXIT_FAILED;
}

int lf_follow(struct lf_runtime *rt, struct lf_notify *notify)
{
    struct lf_err err = {0};
    int64_t started_ns = lf_clock_ns();
    take_signals();
    enum lf_status status = load(rt, &err);
    if (status != LF_OK) {
        int exit_status = status == LF_SHUTDOWN ? LF_EXIT_OK : lf_report(&err);
        if (status != LF_SHUTDOWN) lf_handle_ends(lf_end_failed);
        lf_runtime_close(rt);
        lf_notify_close(notify);
        return exit_status;
    }
    lf_handle_ends(wait_for_rank_0);
    printf("ready in %.2f s: rank %d of %d, %.1f MiB, on %s\n", (double)(lf_clock_ns() - started_ns) / LF_NS_PER_S,
           rt->rank, rt->plan.n_ranks, (double)rt->plan.total_bytes / (1024.0 * 1024.0), rt->plan.device);
    fflush(stdout);
    lf_notify_tell(notify, "READY=1\nSTATUS=rank %d of %d", rt->rank, rt->plan.n_ranks);
    status = lf_model_follow(rt->model, &rt->kv, &err);
    lf_notify_close(notify);
    return end(rt, status, &err);
}
