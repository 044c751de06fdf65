#include "server/auto_split.h"

#include <stdio.h>

#include "core/check.h"
#include "model/split_cost.h"
#include "server/device_choice.h"

/* Of one request: a token behind all of ctx, and all chunks of a prompt of as many tokens, each at the mean depth (what
 * a chunk takes grows evenly with that). */
static enum lf_status predict(struct lf_runtime *rt, struct lf_split_option *o, const struct lf_gpu_figures *gpu,
                              struct lf_err *err)
{
    struct lf_model_opts opts = lf_runtime_model_opts(rt);
    struct lf_op_table table;
    int n = rt->plan.ctx, chunk = LF_MIN(rt->plan.chunk, n);
    struct lf_op_step token = {.n_tokens = 1, .kv_len = n}, prompt = {.n_tokens = chunk, .kv_len = (n + chunk) / 2};
    LF_TRY(lf_model_plan_ops(&table, &rt->hp, &opts, rt->dev, &token, err));
    o->token_s = lf_split_step_s(gpu, &table, &rt->hp.split, rt->hp.n_layers);
    LF_TRY(lf_model_plan_ops(&table, &rt->hp, &opts, rt->dev, &prompt, err));
    o->first_s = lf_split_step_s(gpu, &table, &rt->hp.split, rt->hp.n_layers) * n / chunk;
    return LF_OK;
}

/* On each device, for the requests that must fit: what more of the cache there is is what was left. */
static uint64_t needed_bytes(const struct lf_plan *p, int n_requests)
{
    uint64_t needed = (uint64_t)p->n_request_blocks * (uint64_t)n_requests + (uint64_t)p->n_step_blocks;
    uint64_t n_blocks = (uint64_t)p->n_blocks, n_caches = p->is_host ? (uint64_t)p->n_ranks : 1;
    return p->total_bytes - n_caches * (n_blocks - LF_MIN(n_blocks, needed)) * p->kv_block_bytes;
}

static enum lf_status plan_of(struct lf_runtime *rt, bool serves, struct lf_split_option *o, struct lf_err *err)
{
    const struct lf_gpu_figures *gpu = lf_gpu_figures_of(lf_device_info(rt->dev));
    LF_TRY(lf_runtime_split(rt, o->n_ranks, o->n_cp, err));
    LF_TRY(lf_runtime_plan(rt, serves, err));
    o->fits = rt->plan.fits;
    o->ctx = rt->plan.ctx;
    o->n_requests = rt->plan.n_concurrent;
    o->needed_bytes = needed_bytes(&rt->plan, LF_MAX(rt->config->concurrency, 1));
    return gpu ? predict(rt, o, gpu, err) : LF_OK;
}

/* One rank must do; of more, what cannot be is a row that says why. */
static enum lf_status try_split(struct lf_runtime *rt, bool serves, struct lf_split_option *o, struct lf_err *err)
{
    struct lf_err why;
    enum lf_status status = plan_of(rt, serves, o, &why);
    if (status == LF_OK) return LF_OK;
    if (o->n_ranks * o->n_cp == 1 || (status != LF_UNSUPPORTED && status != LF_INVALID && status != LF_LIMIT))
        return lf_fail(err, status, "%s", why.message);
    snprintf(o->why_not, sizeof(o->why_not), "%.*s", (int)sizeof(o->why_not) - 1, why.message);
    return LF_OK;
}

enum lf_status lf_auto_split_plan(struct lf_runtime *rt, bool serves, struct lf_err *err)
{
    const struct lf_device_info *info = lf_device_info(rt->dev);
    const struct lf_gpu_figures *gpu = lf_gpu_figures_of(info);
    struct lf_splits *s = &rt->splits;
    if (!rt->is_auto_split) return lf_runtime_plan(rt, serves, err);
    lf_splits_list(s, lf_device_choice_n(info));
    s->gpu = gpu ? gpu->name : NULL;
    for (int i = 0; i < s->n; i++) LF_TRY(try_split(rt, serves, &s->of[i], err));
    lf_splits_choose(s);
    LF_TRY(lf_runtime_split(rt, s->of[s->chosen].n_ranks, s->of[s->chosen].n_cp, err));
    if (s->chosen > 0) LF_TRY(lf_runtime_reopen(rt, err));
    return lf_runtime_plan(rt, serves, err);
}
