/* What a split of a model over several GPUs makes of its times, and which split is the best: the cost model of
 * docs/scaling.md. Pure functions of plain data; any thread.
 *
 *     a token   t₀ + W / (N · b) + n · r(N)
 *     a prompt  F / (N · f) + n · r(N) and what passes between GPUs, for each chunk
 *
 * W bytes of weights, keys and values; F floating-point operations; n all-reduces. b, f, t₀ and r were measured on one
 * kind of GPU; for another one there are no times, and a split is as good as the memory it saves. */
#ifndef LF_MODEL_SPLIT_COST_H
#define LF_MODEL_SPLIT_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "core/str.h"
#include "device/device.h"
#include "model/op_table.h"

enum { LF_SPLITS_N = 16 };

struct lf_gpu_figures {
    const char *name;        /* whose they are */
    double bytes_per_s;      /* of its memory, in decode steps */
    double flops_per_s;      /* in long prefills, bf16 */
    double layer_s;          /* of a step, each layer: starts of kernels, norms: what does not shrink with ranks */
    double reduce_s;         /* what a collective adds among two or more, before the first byte: this, and */
    double reduce_rank_s;    /* this for each rank */
    double link_bytes_per_s; /* that each rank sends while it receives as many */
};

/* NULL: nothing is known of such a GPU. A CPU's ranks share what one of them has: nothing either. */
const struct lf_gpu_figures *lf_gpu_figures_of(const struct lf_device_info *info);

/* Seconds of a step: the table is that of one rank of n_ranks. */
double lf_split_step_s(const struct lf_gpu_figures *gpu, const struct lf_op_table *table, int n_ranks, int n_layers);

/* One split of those that there could be. */
struct lf_split_option {
    int n_ranks;           /* tp=N */
    char why_not[160];     /* the model is not divided so, or the options do not go with it; "": it can be */
    bool fits;             /* in memory, with what was asked for */
    int ctx;               /* tokens, of the plan: what fits where --ctx is auto */
    uint64_t needed_bytes; /* of each device, with a cache for the requests that must fit and no more */
    int n_requests;        /* of ctx tokens at once, in the cache that the plan has */
    double token_s;        /* between two tokens of one request behind ctx tokens; 0: nobody knows */
    double first_s;        /* until the first one behind them; 0: nobody knows */
};

struct lf_splits {
    struct lf_split_option of[LF_SPLITS_N]; /* by number of ranks, from 1 on */
    int n;                                  /* 0: nothing was to be chosen */
    int chosen;                             /* index */
    const char *gpu;                        /* whose times they are; NULL: there are none */
    char reason[160];
};

/* Chooses: of the splits that fit those with the longest context, of these the fastest, and of two that are within 5%
 * the one of fewer devices; without times the one of the fewest. Where none fits, the one of the most devices. Writes
 * chosen and reason. At least one can be. */
void lf_splits_choose(struct lf_splits *s);
/* A small table, for people; and a member "splits" of the plan's object. */
void lf_splits_print(const struct lf_splits *s, struct lf_buf *out);
void lf_splits_print_json(const struct lf_splits *s, struct lf_buf *out);

#endif
