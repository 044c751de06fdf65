/* What a split of a model over several GPUs makes of its times: the cost model of docs/scaling.md. Pure functions of
 * plain data; any thread.
 *
 *     a token   t₀ + W / b + Σ r
 *     a prompt  t₀ + F / f + Σ r, for each chunk
 *
 * W bytes of weights, keys and values and F floating-point operations of one rank, as its op table has them: tp divides
 * both; cp divides keys, values and a chunk's rows, and leaves weights as they are. r is what a collective takes: the
 * sums of tp, the gathers and combines of cp. Stripes give each rank of a context the same share of the keys that any
 * token sees, so the slowest rank is any of them. b, f, t₀ and r were measured on one kind of GPU; for another one
 * there are no times, and a split is as good as the memory it saves.
 *
 * Of more ranks than a host has GPUs those of one context stand in several hosts, those that divide layers in one. What
 * a rank receives of other hosts comes over the network while the rest comes over the links. */
#ifndef LF_MODEL_SPLIT_COST_H
#define LF_MODEL_SPLIT_COST_H

#include "device/device.h"
#include "model/op_table.h"
#include "model/split.h"

/* What a collective of N ranks takes: start_s + N · rank_s before its first byte, and what a rank receives at a rate:
 * two GPUs and more of them were measured to have different ones. */
struct lf_message_figures {
    double start_s, rank_s, two_bytes_per_s, more_bytes_per_s;
};

struct lf_gpu_figures {
    const char *name;             /* whose they are */
    double bytes_per_s;           /* of its memory, in decode steps */
    double flops_per_s;           /* in long prefills, of all but attention, bf16 */
    double attention_flops_per_s; /* of attention there */
    double layer_s;               /* of a step, each layer: starts of kernels, norms: what does not shrink with ranks */
    struct lf_message_figures sum;     /* all-reduces, and gathers of logits */
    struct lf_message_figures gather;  /* of the rows of a step whose contexts are divided */
    struct lf_message_figures combine; /* of partial results */
    int n_host;                        /* GPUs that are linked so: ranks of layers, and those beside them */
    double network_bytes_per_s; /* between hosts, of each GPU; and what a message adds. Nothing here has run so: */
    double network_s;           /* figures that are assumed, for forecasts */
};

/* NULL: nothing is known of such a GPU. A CPU's ranks share what one of them has: nothing either. */
const struct lf_gpu_figures *lf_gpu_figures_of(const struct lf_device_info *info);

/* Seconds of a step: the table is that of one rank of the split, which divides layers over n_host ranks at most. */
double lf_split_step_s(const struct lf_gpu_figures *gpu, const struct lf_op_table *table, const struct lf_split *split,
                       int n_layers);
/* What of it ranks exchange. */
double lf_split_exchange_s(const struct lf_gpu_figures *gpu, const struct lf_op_table *table,
                           const struct lf_split *split);

#endif
