/* See graphs.h. A graph's surplus rows cost what a step's rows do, so the counts lie close together: no step computes
 * half as many again as it has. */
#include "model/graphs.h"

#include "core/check.h"
#include "core/limits.h"

static const int ROWS[LF_GRAPHS_N] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, LF_GRAPH_ROWS};

int lf_graph_rows(int out[LF_GRAPHS_N], int most)
{
    int n = 0;
    LF_ASSERT(most >= 1);
    while (n < LF_GRAPHS_N && (n == 0 || out[n - 1] < most)) {
        out[n] = LF_MIN(ROWS[n], most);
        n++;
    }
    return n;
}

void lf_graphs_add(struct lf_graphs *graphs, struct lf_graph *graph, int n_rows)
{
    LF_ASSERT(graphs->n < LF_GRAPHS_N && (graphs->n == 0 || graphs->of[graphs->n - 1].n_rows < n_rows));
    graphs->of[graphs->n++] = (struct lf_graph_of){.graph = graph, .n_rows = n_rows};
}

struct lf_graph *lf_graphs_find(const struct lf_graphs *graphs, const struct lf_batch *batch)
{
    if (batch->n_out != batch->n_rows || batch->n_seqs != batch->n_rows) return NULL;
    for (int i = 0; i < batch->n_seqs; i++)
        if (!batch->seqs[i].generated) return NULL;
    for (int i = 0; i < graphs->n; i++)
        if (graphs->of[i].n_rows >= batch->n_rows) return graphs->of[i].graph;
    return NULL;
}
