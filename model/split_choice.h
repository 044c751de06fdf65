/* Which split of a model over several devices is the best, of those that there could be: tp=N, cp=M and both. What is
 * known of each comes from its plan and from the cost model (split_cost.h). Pure functions of plain data; any thread.
 *
 * The rule. Of the splits that fit those with the longest context; of these the one that answers a request of its whole
 * context soonest, LF_SPLIT_ANSWER_TOKENS tokens long: tp makes tokens come sooner, cp the first one. Of two whose
 * times are within 5% the one of fewer devices. Without times the one of the fewest devices that fits, layers divided
 * before contexts. */
#ifndef LF_MODEL_SPLIT_CHOICE_H
#define LF_MODEL_SPLIT_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "core/str.h"
#include "model/split.h"

enum { LF_SPLITS_N = 32, LF_SPLIT_ANSWER_TOKENS = 512, LF_SPLIT_NAME_BYTES = 32 };

/* One split of those that there could be. */
struct lf_split_option {
    int n_ranks, n_cp;     /* tp=N, cp=M */
    char why_not[160];     /* the model is not divided so, or the options do not go with it; "": it can be */
    bool fits;             /* in memory, with what was asked for */
    int ctx;               /* tokens, of the plan: what fits where --ctx is auto */
    uint64_t needed_bytes; /* of each device, with a cache for the requests that must fit and no more */
    int n_requests;        /* of ctx tokens at once, in the cache that the plan has */
    double token_s;        /* between two tokens of one request behind ctx tokens; 0: nobody knows */
    double first_s;        /* until the first one behind them; 0: nobody knows */
};

struct lf_splits {
    struct lf_split_option of[LF_SPLITS_N]; /* as lf_splits_list has them */
    int n;                                  /* 0: nothing was to be chosen */
    int n_devices;                          /* that there are */
    int chosen;                             /* index */
    const char *gpu;                        /* whose times they are; NULL: there are none */
    char reason[160];
};

/* All splits over 1 to n_devices devices, at most LF_GPU_RANKS_N; by number of devices, and of one number the one of
 * most tp first. The rest of *out is zeroed. */
void lf_splits_list(struct lf_splits *out, int n_devices);
/* "tp=2", "cp=4", "tp=2,cp=4". Returns name. */
const char *lf_split_name(char name[LF_SPLIT_NAME_BYTES], int n_ranks, int n_cp);
/* Chooses; where none fits, the one of the most devices, and of those the one that needs least. Writes chosen and
 * reason. At least one can be. */
void lf_splits_choose(struct lf_splits *s);
/* A small table, for people, of 1, 2, 4, 8 and all devices, and of what was chosen; and members "splits", of all, and
 * "split" of the plan's object. */
void lf_splits_print(const struct lf_splits *s, struct lf_buf *out);
void lf_splits_print_json(const struct lf_splits *s, struct lf_buf *out);

#endif
