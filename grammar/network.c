#include "grammar/network.h"

#include <string.h>

#include "core/check.h"

uint32_t lf_network_node(struct lf_network *net, struct lf_compilation *c)
{
    struct lf_net_node *nodes = lf_compilation_grow(c, net->nodes, net->n_nodes, &net->nodes_cap, sizeof *nodes);
    if (!nodes || !lf_compilation_step(c, 1)) return 0;
    net->nodes = nodes;
    nodes[net->n_nodes] = (struct lf_net_node){.first = LF_NET_NONE, .height = LF_NET_NO_WAY};
    return (uint32_t)net->n_nodes++;
}

uint32_t lf_network_end(struct lf_network *net, struct lf_compilation *c)
{
    uint32_t node = lf_network_node(net, c);
    if (lf_compilation_ok(c)) net->nodes[node].is_end = 1;
    return node;
}

static void add(struct lf_network *net, struct lf_compilation *c, uint32_t from, struct lf_net_edge edge)
{
    struct lf_net_edge *edges = lf_compilation_grow(c, net->edges, net->n_edges, &net->edges_cap, sizeof *edges);
    if (!edges || !lf_compilation_step(c, 1)) return;
    net->edges = edges;
    edge.next = net->nodes[from].first;
    edges[net->n_edges] = edge;
    net->nodes[from].first = (uint32_t)net->n_edges++;
}

void lf_network_empty(struct lf_network *net, struct lf_compilation *c, uint32_t from, uint32_t to)
{
    add(net, c, from, (struct lf_net_edge){.to = to, .kind = LF_NET_EMPTY});
}

void lf_network_terminal(struct lf_network *net, struct lf_compilation *c, uint32_t from, uint32_t to, uint32_t what)
{
    if (!lf_compilation_ok(c) || lf_terminal_is_empty(&net->terminals[what])) return;
    add(net, c, from, (struct lf_net_edge){.to = to, .kind = LF_NET_TERMINAL, .what = what});
}

void lf_network_call(struct lf_network *net, struct lf_compilation *c, uint32_t from, uint32_t to, uint32_t start)
{
    add(net, c, from, (struct lf_net_edge){.to = to, .kind = LF_NET_CALL, .what = start});
}

uint32_t lf_network_add(struct lf_network *net, struct lf_compilation *c, struct lf_terminal t)
{
    struct lf_terminal *terminals =
        lf_compilation_grow(c, net->terminals, net->n_terminals, &net->terminals_cap, sizeof *terminals);
    if (!terminals) return 0;
    net->terminals = terminals;
    terminals[net->n_terminals] = t;
    return (uint32_t)net->n_terminals++;
}

static uint32_t height_through(const struct lf_network *net, const struct lf_net_edge *e)
{
    uint32_t behind = net->nodes[e->to].height;
    if (e->kind != LF_NET_CALL || behind == LF_NET_NO_WAY) return behind;
    uint32_t called = net->nodes[e->what].height;
    return called == LF_NET_NO_WAY ? LF_NET_NO_WAY : LF_MAX(behind, called + 1);
}

static bool lower(struct lf_network *net, uint32_t i)
{
    struct lf_net_node *node = &net->nodes[i];
    uint32_t least = node->is_end ? 0 : node->height;
    for (uint32_t e = node->first; e != LF_NET_NONE; e = net->edges[e].next)
        least = LF_MIN(least, height_through(net, &net->edges[e]));
    bool changed = least < node->height;
    node->height = (uint16_t)least;
    return changed;
}

void lf_network_heights(struct lf_network *net, struct lf_compilation *c, uint32_t first)
{
    uint32_t n = (uint32_t)net->n_nodes;
    uint64_t n_looks = 0;
    if (!lf_compilation_ok(c)) return;
    for (uint32_t i = first; i < n; i++) {
        net->nodes[i].height = LF_NET_NO_WAY;
        n_looks++;
        for (uint32_t e = net->nodes[i].first; e != LF_NET_NONE; e = net->edges[e].next) n_looks++;
    }
    /* Both ways in turn: what is built front to back settles in a pass or two. */
    for (bool changed = true; changed && lf_compilation_step(c, 2 * n_looks);) {
        changed = false;
        for (uint32_t i = n; i-- > first;) changed |= lower(net, i);
        for (uint32_t i = first; i < n; i++) changed |= lower(net, i);
    }
}

void lf_network_keep(struct lf_network *net, struct lf_compilation *c)
{
    struct lf_net_node *nodes = lf_compilation_keep(c, net->n_nodes, sizeof *nodes);
    struct lf_net_edge *edges = lf_compilation_keep(c, net->n_edges, sizeof *edges);
    struct lf_terminal *terminals = lf_compilation_keep(c, net->n_terminals, sizeof *terminals);
    if (!nodes || !edges || !terminals) return;
    if (net->n_nodes) memcpy(nodes, net->nodes, net->n_nodes * sizeof *nodes);
    if (net->n_edges) memcpy(edges, net->edges, net->n_edges * sizeof *edges);
    if (net->n_terminals) memcpy(terminals, net->terminals, net->n_terminals * sizeof *terminals);
    net->nodes = nodes;
    net->edges = edges;
    net->terminals = terminals;
}
