#include "tests/support/rank_rigs.h"

#include <pthread.h>

#include "tests/support/test.h"

enum { TIMEOUT_MS = 60 * 1000 };

struct rank {
    struct model_rig_opts opts;
    struct lf_comm_group *group;
    rank_fn *fn;
    void *ctx;
    bool leads; /* rank 0 does */
    pthread_t thread;
    enum lf_status status;
    struct lf_err err;
};

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct model_rig rig;
    r->status = model_rig_open(&rig, &r->opts, &r->err);
    if (r->status != LF_OK) { /* the others do not wait for it */
        lf_comm_group_abort(r->group, r->status, "a rank did not open");
        return NULL;
    }
    int rank = lf_split_world_rank(&r->opts.split);
    if (r->leads && rank > 0) {
        r->status = lf_model_follow(rig.model, &rig.kv, &r->err);
    } else {
        r->fn(&rig, rank, r->ctx);
        r->status = lf_comm_check(r->opts.comm, &r->err);
    }
    if (r->leads && r->status == LF_SHUTDOWN) r->status = LF_OK;
    if (r->leads && rank == 0) lf_model_end(rig.model);
    model_rig_close(&rig);
    return NULL;
}

static void run(const struct model_rig_opts *opts, int n_ranks, rank_fn *fn, void *ctx, bool leads)
{
    int n_cp = lf_split_n_cp(&opts->split), n = n_ranks * n_cp;
    struct rank ranks[LF_RANKS_N];
    struct lf_comm_group *group;
    assert_int_equal(lf_comm_group_create(&group, n, TIMEOUT_MS, NULL), LF_OK);
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){.opts = *opts, .group = group, .fn = fn, .ctx = ctx, .leads = leads};
        ranks[i].opts.split =
            (struct lf_split){.rank = i % n_ranks, .n_ranks = n_ranks, .cp_rank = i / n_ranks, .n_cp = n_cp};
        assert_int_equal(lf_comm_create(&ranks[i].opts.comm, group, i, NULL), LF_OK);
    }
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    for (int i = 0; i < n; i++) assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    for (int i = 0; i < n; i++)
        if (ranks[i].status != LF_OK) fail_msg("rank %d of %d: %s", i, n, ranks[i].err.message);
    for (int i = 0; i < n; i++) lf_comm_destroy(ranks[i].opts.comm);
    lf_comm_group_destroy(group);
}

void rank_rigs_run(const struct model_rig_opts *opts, int n_ranks, rank_fn *fn, void *ctx)
{
    run(opts, n_ranks, fn, ctx, false);
}

void rank_rigs_lead(const struct model_rig_opts *opts, int n_ranks, rank_fn *fn, void *ctx)
{
    run(opts, n_ranks, fn, ctx, true);
}
