/* Recorded decode steps: for which row counts there are graphs, and which of them a batch replays. Host arithmetic;
 * what is recorded, and the graphs' end, are the caller's. */
#ifndef LF_MODEL_GRAPHS_H
#define LF_MODEL_GRAPHS_H

#include "device/device.h"
#include "model/batch.h"

enum { LF_GRAPHS_N = 16, LF_GRAPH_ROWS = 256 /* most rows of one */ };

/* A graph of up to n_rows rows. */
struct lf_graph_of {
    struct lf_graph *graph; /* borrowed */
    int n_rows;
};

/* Zeroed: none. */
struct lf_graphs {
    struct lf_graph_of of[LF_GRAPHS_N]; /* fewer rows first */
    int n;
};

/* Row counts to record where steps have up to `most` rows, most >= 1: ascending, each at most twice the one before it.
 * The last is most, or LF_GRAPH_ROWS if that is less. Returns how many. */
int lf_graph_rows(int out[LF_GRAPHS_N], int most);
/* n_rows: more than of any before; at most LF_GRAPHS_N in all. */
void lf_graphs_add(struct lf_graphs *graphs, struct lf_graph *graph, int n_rows);
/* The smallest that can stand for the batch: in it each sequence has one row, a generated one, and all logits are
 * wanted. NULL: none. */
struct lf_graph *lf_graphs_find(const struct lf_graphs *graphs, const struct lf_batch *batch);

#endif
