/* Weights, activations and a cache for one request are what a plan says (lf_plan_make); that no more than eight GPUs
 * run together is what it leaves out. Steps may be longer than --chunk: rows of a step are divided over the ranks of a
 * context only where each gets enough of them (model/split.h), so many ranks need long steps. */
#include "server/forecast.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/check.h"
#include "model/plan_size.h"
#include "model/split_choice.h"
#include "model/split_cost.h"
#include "server/device_choice.h"

enum { LEAST_CHUNK = 8192 };
#define MS    1e3
#define MICRO 1e6
#define GIGA  1e9
#define TERA  1e12

struct forecast {
    struct lf_runtime *rt;
    const struct lf_gpu_figures *gpu;
    struct lf_device_info info;
    double flops; /* of the whole prompt, however it is divided */
    struct lf_err *err;
};

/* One split of so many GPUs with steps of `chunk` tokens, or none: chunk 0. */
struct row {
    int n_ranks, n_cp, chunk;
    uint64_t needed_bytes;
    double first_s, token_s, exchange_s; /* exchange_s: of first_s */
    char why_not[160];                   /* where the model cannot be divided so; of chunk 0 alone */
};

static double answer_s(const struct row *r)
{
    return r->first_s + LF_SPLIT_ANSWER_TOKENS * r->token_s;
}

static enum lf_status make_plan(struct forecast *f, int chunk)
{
    struct lf_runtime *rt = f->rt;
    struct lf_plan_opts opts = {.ctx = rt->plan.ctx,
                                .chunk = chunk,
                                .max_seqs = 1,
                                .max_out = 1,
                                .concurrency = 1,
                                .no_prefix_cache = true,
                                .weight_format = rt->weights.format,
                                .quantized = rt->weights.quantized,
                                .kv_dtype = rt->plan.kv_dtype,
                                .is_forecast = true,
                                .no_fusion = rt->plan.no_fusion,
                                .cache_groups = rt->plan.cache_groups};
    return lf_plan_make(&rt->plan, &rt->hp, rt->weights.bytes, lf_device_ops(rt->dev), &f->info, &opts, f->err);
}

static enum lf_status make_table(struct forecast *f, struct lf_op_table *out, int n_tokens, int kv_len)
{
    struct lf_model_opts opts = lf_runtime_model_opts(f->rt);
    struct lf_op_step step = {.n_tokens = n_tokens, .kv_len = kv_len};
    return lf_model_plan_ops(out, &f->rt->hp, &opts, f->rt->dev, &step, f->err);
}

/* All chunks of a prompt of the whole context, each at the mean depth. */
static enum lf_status predict_prompt(struct forecast *f, struct row *r)
{
    struct lf_op_table table;
    int ctx = f->rt->plan.ctx, n = LF_MIN(r->chunk, ctx);
    double n_steps = (double)ctx / n;
    LF_TRY(make_table(f, &table, n, (ctx + n) / 2));
    r->first_s = n_steps * lf_split_step_s(f->gpu, &table, &f->rt->hp.split, f->rt->hp.n_layers);
    r->exchange_s = n_steps * lf_split_exchange_s(f->gpu, &table, &f->rt->hp.split);
    return LF_OK;
}

static enum lf_status predict_token(struct forecast *f, struct row *r)
{
    struct lf_op_table table;
    LF_TRY(make_table(f, &table, 1, f->rt->plan.ctx));
    r->token_s = lf_split_step_s(f->gpu, &table, &f->rt->hp.split, f->rt->hp.n_layers);
    return LF_OK;
}

/* What a prompt of the whole context is of operations, on one GPU. */
static enum lf_status count_flops(struct forecast *f)
{
    struct lf_op_table table;
    int ctx = f->rt->plan.ctx, n = LF_MIN((int)LEAST_CHUNK, ctx);
    LF_TRY(make_table(f, &table, n, (ctx + n) / 2));
    f->flops = 0;
    for (int i = 0; i < table.n_rows; i++) f->flops += table.rows[i].flops * ctx / n;
    return LF_OK;
}

/* Of each GPU, with a cache for one request and no more. */
static uint64_t needed_bytes(const struct lf_plan *p)
{
    uint64_t n_needed = (uint64_t)p->n_request_blocks + (uint64_t)p->n_step_blocks, n_blocks = (uint64_t)p->n_blocks;
    return p->total_bytes - (n_blocks - LF_MIN(n_blocks, n_needed)) * p->kv_block_bytes;
}

/* The length of steps with which the first token comes soonest, of those that fit; none leaves r->chunk 0. */
static enum lf_status find_chunk(struct forecast *f, struct row *r)
{
    for (int chunk = LEAST_CHUNK; chunk <= LF_STEP_TOKENS_N; chunk *= 2) {
        struct row with = *r;
        with.chunk = chunk;
        LF_TRY(make_plan(f, chunk));
        if (!f->rt->plan.fits) return LF_OK;
        LF_TRY(predict_prompt(f, &with));
        with.needed_bytes = needed_bytes(&f->rt->plan);
        if (r->chunk == 0 || with.first_s < r->first_s) *r = with;
        if (chunk >= f->rt->plan.ctx) return LF_OK;
    }
    return LF_OK;
}

static enum lf_status try_split(struct forecast *f, struct row *best, int n_ranks, int n_cp)
{
    struct lf_runtime *rt = f->rt;
    struct lf_model_opts opts = lf_runtime_model_opts(rt);
    struct row r = {.n_ranks = n_ranks, .n_cp = n_cp};
    rt->hp.split = (struct lf_split){.n_ranks = n_ranks, .n_cp = n_cp, .rows_least = rt->hp.split.rows_least};
    LF_TRY(lf_weights_measure(&rt->weights, &rt->hp, &opts, rt->dev, f->err));
    LF_TRY(find_chunk(f, &r));
    if (r.chunk == 0) return LF_OK;
    LF_TRY(predict_token(f, &r));
    if (best->chunk == 0 || answer_s(&r) < answer_s(best)) *best = r;
    return LF_OK;
}

/* What the model cannot be is passed by. */
static enum lf_status find_best(struct forecast *f, struct row *best, int n)
{
    bool can_be = false;
    *best = (struct row){.chunk = 0};
    for (int n_ranks = 1; n_ranks <= LF_MIN(n, f->gpu->n_host); n_ranks *= 2) {
        enum lf_status status = try_split(f, best, n_ranks, n / n_ranks);
        bool is_passed = n > 1 && (status == LF_UNSUPPORTED || status == LF_INVALID);
        if (status != LF_OK && !is_passed) return status;
        can_be |= !is_passed;
        if (is_passed)
            snprintf(best->why_not, sizeof(best->why_not), "%.*s", (int)sizeof(best->why_not) - 1, f->err->message);
    }
    if (can_be) best->why_not[0] = 0;
    return LF_OK;
}

/* ---- to read ---- */

static void print_row(const struct forecast *f, const struct row *r, int n, struct lf_buf *out)
{
    char name[LF_SPLIT_NAME_BYTES];
    if (r->chunk == 0) {
        lf_buf_printf(out, "  %5d %s\n", n, r->why_not[0] ? r->why_not : "does not fit");
        return;
    }
    lf_buf_printf(out, "  %5d %-13s %7d %12s %10.2f s %9.1f%% %9.0f %9.2f ms\n", n,
                  lf_split_name(name, r->n_ranks, r->n_cp), r->chunk, lf_plan_size(r->needed_bytes).text, r->first_s,
                  100 * r->exchange_s / r->first_s, f->flops / n / r->first_s / TERA, r->token_s * MS);
}

static void print_row_json(const struct forecast *f, const struct row *r, int n, struct lf_buf *out)
{
    lf_buf_printf(out, "{\"gpus\":%d,\"fits\":%s", n, r->chunk > 0 ? "true" : "false");
    if (r->chunk > 0)
        lf_buf_printf(out,
                      ",\"tp\":%d,\"cp\":%d,\"step_tokens\":%d,\"needed_bytes\":%" PRIu64
                      ",\"first_token_seconds\":%.6f,\"exchange_seconds\":%.6f,\"gpu_flops_per_second\":%.0f"
                      ",\"token_seconds\":%.6f",
                      r->n_ranks, r->n_cp, r->chunk, r->needed_bytes, r->first_s, r->exchange_s,
                      f->flops / n / r->first_s, r->token_s);
    lf_buf_char(out, '}');
}

static void print_head(const struct forecast *f, struct lf_buf *out)
{
    const struct lf_gpu_figures *g = f->gpu;
    lf_buf_printf(out,
                  "%s, a request of %d tokens, predicted for %s. More than %d GPUs do not run\n"
                  "together: a forecast, by a network of %.0f GB/s a GPU and %.0f µs a message, which are assumed.\n\n"
                  "  %5s %-13s %7s %12s %12s %10s %9s %12s\n",
                  f->rt->hp.architecture, f->rt->plan.ctx, g->name, g->n_host, g->network_bytes_per_s / GIGA,
                  g->network_s * MICRO, "GPUs", "split", "step", "needed", "first token", "exchange", "TFLOP/s",
                  "a token");
}

static enum lf_status start(struct forecast *f)
{
    const struct lf_config *c = f->rt->config;
    if (c->ops || c->profile || c->parallel)
        return lf_fail(f->err, LF_INVALID,
                       "--forecast is of splits that it finds itself, in place of a plan: expected it without --ops, "
                       "--profile and --parallel");
    if (c->memory || c->kv_tokens || c->chunk || c->max_seqs || c->concurrency)
        return lf_fail(f->err, LF_INVALID,
                       "--forecast is of one request in GPUs that have nothing else, in steps that it finds itself: "
                       "expected it without --memory, --kv-tokens, --chunk, --max-seqs and --concurrency");
    if (c->ctx == LF_CTX_AUTO)
        return lf_fail(f->err, LF_INVALID, "--forecast is of a request of --ctx tokens: expected a number of them");
    f->info = lf_device_choice_info(lf_device_info(f->rt->dev), 1);
    f->gpu = lf_gpu_figures_of(&f->info);
    if (!f->gpu)
        return lf_fail(f->err, LF_UNSUPPORTED,
                       "--forecast: no times are known for this device: expected --gpu-memory, or an H100");
    LF_TRY(lf_runtime_plan(f->rt, false, f->err)); /* of one GPU, whether it fits or not: lengths and types */
    return count_flops(f);
}

enum lf_status lf_forecast_print(struct lf_runtime *rt, struct lf_buf *out, struct lf_err *err)
{
    struct forecast f = {.rt = rt, .err = err};
    bool is_json = rt->config->json;
    struct row best;
    LF_TRY(start(&f));
    if (is_json)
        lf_buf_printf(out, "{\"ctx\":%d,\"gpus_per_host\":%d,\"forecast\":[", rt->plan.ctx, f.gpu->n_host);
    else
        print_head(&f, out);
    for (int n = 1; n <= rt->config->forecast; n *= 2) {
        LF_TRY(find_best(&f, &best, n));
        if (is_json && n > 1) lf_buf_char(out, ',');
        (is_json ? print_row_json : print_row)(&f, &best, n, out);
    }
    if (is_json) lf_buf_cstr(out, "]}\n");
    return LF_OK;
}
