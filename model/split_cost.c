#include "model/split_cost.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/json.h"
#include "model/plan_size.h"

/* Two splits that are nearer than this are equally fast: more devices must be worth it. */
#define WORTH 0.95
#define MS    1e3

/* Fitted to what docs/scaling.md has measured: tokens behind 128 and 32,768 tokens of one, two and four H100s give
 * bytes_per_s, layer_s and the reduces of few bytes; their first tokens give flops_per_s and the link's rate. */
static const struct lf_gpu_figures h100 = {.name = "H100s of one host, linked by NVLink",
                                           .bytes_per_s = 3.09e12,
                                           .flops_per_s = 650e12,
                                           .layer_s = 15.7e-6,
                                           .reduce_s = 2.8e-6,
                                           .reduce_rank_s = 0.5e-6,
                                           .link_bytes_per_s = 300e9};
enum { H100_SM = 90, H100_N_SMS = 132 };

const struct lf_gpu_figures *lf_gpu_figures_of(const struct lf_device_info *info)
{
    bool is_hopper = info->sm == H100_SM || (info->is_described && !info->is_host);
    return is_hopper && info->n_sms == H100_N_SMS ? &h100 : NULL;
}

static bool is_collective(const struct lf_op_row *row)
{
    return row->kind == LF_OP_ALL_REDUCE || row->kind == LF_OP_ALL_GATHER;
}

/* Of all ops of a row. Each rank has a part of the sum: it receives the others' and sends its own to the others. Of a
 * gather each has what it sends from the start. */
static double collective_s(const struct lf_gpu_figures *gpu, const struct lf_op_row *row, int n_ranks)
{
    double bytes = (double)row->n_rows * row->n_out * (double)sizeof(float);
    double passes = (row->kind == LF_OP_ALL_REDUCE ? 2.0 : 1.0) * (n_ranks - 1) / n_ranks;
    return row->n * (gpu->reduce_s + n_ranks * gpu->reduce_rank_s + passes * bytes / gpu->link_bytes_per_s);
}

double lf_split_step_s(const struct lf_gpu_figures *gpu, const struct lf_op_table *table, int n_ranks, int n_layers)
{
    double bytes = 0, flops = 0, collectives = 0;
    bool is_decode = table->step.n_tokens == 1;
    for (int i = 0; i < table->n_rows; i++) {
        const struct lf_op_row *row = &table->rows[i];
        if (is_collective(row)) {
            collectives += collective_s(gpu, row, n_ranks);
            continue;
        }
        bytes += is_decode ? row->bytes : (double)row->weight_bytes; /* a chunk's values pass while GEMMs compute */
        flops += row->flops;
    }
    return n_layers * gpu->layer_s + LF_MAX(bytes / gpu->bytes_per_s, flops / gpu->flops_per_s) + collectives;
}

/* ---- the choice ---- */

static bool is_better(const struct lf_split_option *a, const struct lf_split_option *than)
{
    if (a->ctx != than->ctx) return a->ctx > than->ctx;
    return a->token_s > 0 && a->token_s < WORTH * than->token_s;
}

static bool can_be(const struct lf_split_option *o)
{
    return o->why_not[0] == '\0';
}

/* -1: none fits. */
static int best_that_fits(const struct lf_splits *s)
{
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (can_be(&s->of[i]) && s->of[i].fits && (best < 0 || is_better(&s->of[i], &s->of[best]))) best = i;
    return best;
}

static int most_that_can_be(const struct lf_splits *s)
{
    int most = 0;
    for (int i = 0; i < s->n; i++)
        if (can_be(&s->of[i])) most = i;
    return most;
}

static const char *why(const struct lf_splits *s, const struct lf_split_option *chosen)
{
    int n_can = 0, n_fit = 0;
    for (int i = 0; i < s->n; i++) {
        n_can += can_be(&s->of[i]);
        n_fit += can_be(&s->of[i]) && s->of[i].fits;
        if (can_be(&s->of[i]) && s->of[i].fits && s->of[i].ctx < chosen->ctx) return "it has the longest context";
    }
    if (s->n == 1) return "there is one device";
    if (n_fit == 0) return "none fits, and this one lacks least";
    if (n_can == 1) return "no other split can be";
    if (n_fit == 1) return "no other one fits";
    if (s->gpu) return "of those that fit the fastest, but for 5%";
    return "it is the smallest that fits, and times are not known for this device";
}

void lf_splits_choose(struct lf_splits *s)
{
    int best = best_that_fits(s);
    LF_ASSERT(s->n >= 1 && s->n <= LF_SPLITS_N && can_be(&s->of[most_that_can_be(s)]));
    s->chosen = best >= 0 ? best : most_that_can_be(s);
    const struct lf_split_option *o = &s->of[s->chosen];
    snprintf(s->reason, sizeof(s->reason), "tp=%d: %s", o->n_ranks, why(s, o));
}

/* ---- to read ---- */

static void print_seconds(double seconds, int width, struct lf_buf *out)
{
    char text[32] = "-";
    if (seconds > 0 && seconds < 0.1) snprintf(text, sizeof(text), "%.2f ms", seconds * MS);
    if (seconds >= 0.1) snprintf(text, sizeof(text), "%.2f s", seconds);
    lf_buf_printf(out, " %*s", width, text);
}

static void print_option(const struct lf_split_option *o, struct lf_buf *out)
{
    lf_buf_printf(out, "  tp=%-5d %-5s %12s %10d %9d", o->n_ranks, o->fits ? "yes" : "no",
                  lf_plan_size(o->needed_bytes).text, o->ctx, o->n_requests);
    print_seconds(o->token_s, 12, out);
    print_seconds(o->first_s, 12, out);
    lf_buf_char(out, '\n');
}

/* Numbers of ranks that cannot be, and why the first of them cannot. */
static void print_impossible(const struct lf_splits *s, struct lf_buf *out)
{
    const struct lf_split_option *first = NULL;
    for (int i = 0; i < s->n; i++) {
        if (can_be(&s->of[i])) continue;
        lf_buf_printf(out, first ? ", %d" : "  Not tp=%d", s->of[i].n_ranks);
        if (!first) first = &s->of[i];
    }
    if (first) lf_buf_printf(out, ": %s.\n", first->why_not);
}

void lf_splits_print(const struct lf_splits *s, struct lf_buf *out)
{
    lf_buf_printf(out, "\n  %-8s %-5s %12s %10s %9s %12s %12s\n", "split", "fits", "needed", "context", "requests",
                  "a token", "first token");
    for (int i = 0; i < s->n; i++)
        if (can_be(&s->of[i])) print_option(&s->of[i], out);
    print_impossible(s, out);
    if (s->gpu) lf_buf_printf(out, "  Times of one request behind its whole context, predicted for %s.\n", s->gpu);
    lf_buf_printf(out, "--parallel auto is %s.\n", s->reason);
}

static void print_option_json(const struct lf_split_option *o, struct lf_buf *out)
{
    lf_buf_printf(out, "{\"tp\":%d", o->n_ranks);
    if (can_be(o)) {
        lf_buf_printf(out, ",\"fits\":%s,\"needed_bytes\":%" PRIu64 ",\"ctx\":%d,\"concurrent_requests\":%d",
                      o->fits ? "true" : "false", o->needed_bytes, o->ctx, o->n_requests);
        if (o->token_s > 0)
            lf_buf_printf(out, ",\"token_seconds\":%.6f,\"first_token_seconds\":%.6f", o->token_s, o->first_s);
    } else {
        lf_buf_cstr(out, ",\"why_not\":");
        lf_json_write_string(out, lf_str_c(o->why_not));
    }
    lf_buf_char(out, '}');
}

void lf_splits_print_json(const struct lf_splits *s, struct lf_buf *out)
{
    lf_buf_cstr(out, "\"splits\":[");
    for (int i = 0; i < s->n; i++) {
        if (i > 0) lf_buf_char(out, ',');
        print_option_json(&s->of[i], out);
    }
    lf_buf_printf(out, "],\"split\":{\"tp\":%d,\"reason\":", s->of[s->chosen].n_ranks);
    lf_json_write_string(out, lf_str_c(s->reason));
    lf_buf_char(out, '}');
}
