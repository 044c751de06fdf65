/* plan: what a configuration takes, before a weight is read; with --profile, how long its ops take. */
#include <stdio.h>

#include "core/check.h"
#include "server/auto_split.h"
#include "server/commands.h"
#include "server/forecast.h"
#include "server/runtime.h"

enum { STEPS_N = 2, PROFILE_RUNS_N = 3 };

/* A chunk at the end of the longest context that fits, and one token there. */
static void choose_steps(const struct lf_plan *p, struct lf_op_step out[STEPS_N])
{
    int kv_len = LF_MAX(LF_MIN(p->longest_ctx, p->ctx), 1);
    out[0] = (struct lf_op_step){.n_tokens = LF_MIN(p->chunk, kv_len), .kv_len = kv_len};
    out[1] = (struct lf_op_step){.n_tokens = 1, .kv_len = kv_len};
}

static enum lf_status make_table(struct lf_op_table *out, struct lf_runtime *rt, const struct lf_op_step *step,
                                 struct lf_err *err)
{
    struct lf_model_opts opts = lf_runtime_model_opts(rt);
    if (rt->model) return lf_model_profile(out, rt->model, &rt->kv, step, PROFILE_RUNS_N, err);
    return lf_model_plan_ops(out, &rt->hp, &opts, rt->dev, step, err);
}

/* The tables, behind the plan: one object with it where JSON is asked for. */
static enum lf_status add_tables(struct lf_runtime *rt, struct lf_buf *page, struct lf_err *err)
{
    struct lf_op_step steps[STEPS_N];
    struct lf_op_table table;
    choose_steps(&rt->plan, steps);
    if (rt->config->profile && rt->plan.fits) LF_TRY(lf_runtime_load(rt, NULL, NULL, err));
    if (rt->config->json) page->len--; /* the plan's } */
    if (rt->config->json) lf_buf_cstr(page, ",\"steps\":[");
    for (int i = 0; i < STEPS_N; i++) {
        LF_TRY(make_table(&table, rt, &steps[i], err));
        if (!rt->config->json) lf_op_table_print(&table, page);
        if (rt->config->json && i > 0) lf_buf_char(page, ',');
        if (rt->config->json) lf_op_table_print_json(&table, page);
    }
    if (rt->config->json) lf_buf_cstr(page, "]}");
    return LF_OK;
}

/* Behind the plan as well. */
static void add_splits(const struct lf_runtime *rt, struct lf_buf *page)
{
    if (rt->splits.n == 0) return;
    if (!rt->config->json) {
        lf_splits_print(&rt->splits, page);
        return;
    }
    page->len--; /* the plan's } */
    lf_buf_char(page, ',');
    lf_splits_print_json(&rt->splits, page);
    lf_buf_char(page, '}');
}

static int print_plan(struct lf_runtime *rt, struct lf_err *err)
{
    struct lf_buf page;
    enum lf_status status = LF_OK;
    lf_buf_init(&page, 64 * 1024);
    if (rt->config->json)
        lf_plan_print_json(&rt->plan, &rt->hp, &page);
    else
        lf_plan_print(&rt->plan, &rt->hp, &page);
    add_splits(rt, &page);
    /* A plan that does not fit has no step that could be run: its tables are of the one that was asked for. */
    bool wants = rt->config->ops || (rt->config->profile && rt->plan.fits);
    if (wants) status = add_tables(rt, &page, err);
    if (rt->config->json) lf_buf_char(&page, '\n');
    int exit_status = rt->plan.fits ? LF_EXIT_OK : LF_EXIT_REFUSED;
    if (status != LF_OK)
        exit_status = lf_report(err);
    else if (fwrite(page.ptr, 1, page.len, stdout) != page.len)
        exit_status = LF_EXIT_FAILED;
    lf_buf_deinit(&page);
    return exit_status;
}

static int print_forecast(struct lf_runtime *rt, struct lf_err *err)
{
    struct lf_buf page;
    lf_buf_init(&page, 64 * 1024);
    int exit_status = lf_forecast_print(rt, &page, err) == LF_OK ? LF_EXIT_OK : lf_report(err);
    if (exit_status == LF_EXIT_OK && fwrite(page.ptr, 1, page.len, stdout) != page.len) exit_status = LF_EXIT_FAILED;
    lf_buf_deinit(&page);
    return exit_status;
}

static int plan(struct lf_runtime *rt, struct lf_err *err)
{
    if (rt->config->forecast > 0) return print_forecast(rt, err);
    return lf_auto_split_plan(rt, true, err) == LF_OK ? print_plan(rt, err) : lf_report(err);
}

int lf_plan_command(const struct lf_config *config)
{
    struct lf_runtime rt = {0};
    struct lf_err err;
    if (config->n_args > 0) {
        fprintf(stderr, "longflash: plan takes no arguments, got \"%.60s\" (a model is given as --model)\n",
                config->args[0]);
        return LF_EXIT_REFUSED;
    }
    if (lf_runtime_open(&rt, config, false, &err) != LF_OK) return lf_report(&err);
    int exit_status = plan(&rt, &err);
    lf_runtime_close(&rt);
    return exit_status;
}
