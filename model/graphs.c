/* See graphs.h. A graph's surplus tokens cost what a step's tokens do, so sizes lie close together: no step computes
 * half as many again as it has. */
#include "model/graphs.h"

#include "core/check.h"

static const int SIZES[LF_GRAPHS_N] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, LF_GRAPH_TOKENS};

int lf_graph_sizes(int out[LF_GRAPHS_N], int most)
{
    int n = 0;
    LF_ASSERT(most >= 1);
    while (n < LF_GRAPHS_N && (n == 0 || out[n - 1] < most)) {
        out[n] = LF_MIN(SIZES[n], most);
        n++;
    }
    return n;
}

void lf_graphs_add(struct lf_graphs *graphs, struct lf_graph *graph, int n_tokens)
{
    LF_ASSERT(graphs->n < LF_GRAPHS_N && (graphs->n == 0 || graphs->of[graphs->n - 1].n_tokens < n_tokens));
    graphs->of[graphs->n++] = (struct lf_graph_of){.graph = graph, .n_tokens = n_tokens};
}

struct lf_graph *lf_graphs_find(const struct lf_graphs *single, const struct lf_graphs *several,
                                const struct lf_batch *batch)
{
    const struct lf_graphs *graphs = batch->n_seqs == batch->n_tokens ? single : several;
    if (batch->n_out != batch->n_tokens) return NULL;
    for (int i = 0; i < batch->n_seqs; i++)
        if (!batch->seqs[i].is_decode) return NULL;
    for (int i = 0; i < graphs->n; i++)
        if (graphs->of[i].n_tokens >= batch->n_tokens) return graphs->of[i].graph;
    return NULL;
}
