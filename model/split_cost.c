#include "model/split_cost.h"

#include "core/check.h"

/* Fitted to what docs/scaling.md has measured: tokens behind 128 and 32,768 tokens of one, two and four H100s give
 * bytes_per_s, layer_s and the sums of few bytes; their first tokens give flops_per_s and the sums' rate. What contexts
 * exchange is that of bench_comm: 1 and 8,192 rows of the same shape over two and four. */
static const struct lf_gpu_figures h100 = {
    .name = "H100s of one host, linked by NVLink",
    .bytes_per_s = 3.09e12,
    .flops_per_s = 650e12,
    .attention_flops_per_s = 628e12,
    .layer_s = 15.7e-6,
    .sum = {.start_s = 2.8e-6, .rank_s = 0.5e-6, .two_bytes_per_s = 300e9, .more_bytes_per_s = 300e9},
    .gather = {.start_s = 4.2e-6, .rank_s = 0.4e-6, .two_bytes_per_s = 267e9, .more_bytes_per_s = 289e9},
    .combine = {.start_s = 2.4e-6, .rank_s = 0.9e-6, .two_bytes_per_s = 239e9, .more_bytes_per_s = 302e9},
    /* not measured: an adapter of 400 Gbit/s for each GPU, nine tenths of it */
    .n_host = 8,
    .network_bytes_per_s = 45e9,
    .network_s = 5e-6};
enum { H100_SM = 90, H100_N_SMS = 132 };

const struct lf_gpu_figures *lf_gpu_figures_of(const struct lf_device_info *info)
{
    bool is_hopper = info->sm == H100_SM || (info->is_described && !info->is_host);
    return is_hopper && info->n_sms == H100_N_SMS ? &h100 : NULL;
}

/* NULL: the op is no collective, or one that does nothing in this step. */
static const struct lf_message_figures *message_of(const struct lf_gpu_figures *gpu, const struct lf_op_row *row)
{
    switch (row->kind) {
    case LF_OP_ALL_REDUCE:
    case LF_OP_ALL_GATHER:
        return &gpu->sum;
    case LF_OP_GATHER_ROWS:
        return row->received_bytes > 0 ? &gpu->gather : NULL;
    case LF_OP_LSE_COMBINE:
        return &gpu->combine;
    default:
        return NULL;
    }
}

/* Of what a rank of a context receives, the part that comes from other hosts. */
static double remote_part(const struct lf_gpu_figures *gpu, const struct lf_split *split)
{
    int n = lf_split_n_cp(split), n_here = gpu->n_host / lf_split_n_ranks(split);
    return lf_split_world(split) <= gpu->n_host ? 0 : (double)(n - n_here) / (n - 1);
}

/* Of all ops of a row. */
static double collective_s(const struct lf_gpu_figures *gpu, const struct lf_message_figures *m,
                           const struct lf_op_row *row, const struct lf_split *split)
{
    bool is_sum = m == &gpu->sum;
    int n = is_sum ? lf_split_n_ranks(split) : lf_split_n_cp(split);
    double remote = is_sum ? 0 : remote_part(gpu, split), bytes = row->received_bytes;
    double links_s = (1 - remote) * bytes / (n == 2 ? m->two_bytes_per_s : m->more_bytes_per_s);
    if (remote == 0) return row->n * (m->start_s + n * m->rank_s) + links_s;
    return row->n * (m->start_s + n * m->rank_s + gpu->network_s) +
           LF_MAX(links_s, remote * bytes / gpu->network_bytes_per_s);
}

double lf_split_exchange_s(const struct lf_gpu_figures *gpu, const struct lf_op_table *table,
                           const struct lf_split *split)
{
    double seconds = 0;
    for (int i = 0; i < table->n_rows; i++) {
        const struct lf_message_figures *message = message_of(gpu, &table->rows[i]);
        if (message) seconds += collective_s(gpu, message, &table->rows[i], split);
    }
    return seconds;
}

double lf_split_step_s(const struct lf_gpu_figures *gpu, const struct lf_op_table *table, const struct lf_split *split,
                       int n_layers)
{
    double bytes = 0, compute_s = 0;
    bool is_decode = table->step.n_tokens == 1;
    for (int i = 0; i < table->n_rows; i++) {
        const struct lf_op_row *row = &table->rows[i];
        if (message_of(gpu, row)) continue;
        bytes += is_decode ? row->bytes : (double)row->weight_bytes; /* a chunk's values pass while GEMMs compute */
        compute_s += row->flops / (row->kind == LF_OP_ATTENTION ? gpu->attention_flops_per_s : gpu->flops_per_s);
    }
    return n_layers * gpu->layer_s + LF_MAX(bytes / gpu->bytes_per_s, compute_s) +
           lf_split_exchange_s(gpu, table, split);
}
