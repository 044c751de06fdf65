/* Recorded decode steps: for how many tokens there are graphs, and which of them a batch replays. Host arithmetic;
 * what is recorded, and the graphs' end, are the caller's. Steps in which sequences have several tokens (what is tried
 * beside the next one) have graphs of their own: attention is recorded for more query rows a sequence, which one alone
 * would pay for. */
#ifndef LF_MODEL_GRAPHS_H
#define LF_MODEL_GRAPHS_H

#include "device/device.h"
#include "model/batch.h"

enum { LF_GRAPHS_N = 16, LF_GRAPH_TOKENS = 256 /* most tokens of one */ };

/* A graph of up to n_tokens tokens. */
struct lf_graph_of {
    struct lf_graph *graph; /* borrowed */
    int n_tokens;
};

/* Fewer tokens first. Zeroed: none. */
struct lf_graphs {
    struct lf_graph_of of[LF_GRAPHS_N];
    int n;
};

/* Sizes to record where steps have up to `most` tokens, most >= 1: ascending, each at most twice the one before it.
 * The last is most, or LF_GRAPH_TOKENS if that is less. Returns how many. */
int lf_graph_sizes(int out[LF_GRAPHS_N], int most);
/* n_tokens: more than of any before; at most LF_GRAPHS_N in all. */
void lf_graphs_add(struct lf_graphs *graphs, struct lf_graph *graph, int n_tokens);
/* The smallest that can stand for the batch, in which all are decode tokens whose logits are wanted: of `single` where
 * each sequence has one, else of `several`. NULL: none. */
struct lf_graph *lf_graphs_find(const struct lf_graphs *single, const struct lf_graphs *several,
                                const struct lf_batch *batch);

#endif
