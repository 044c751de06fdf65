/* The network: the context-free part of a grammar, as nodes and edges.
 *
 *     node ──text of a terminal──▶ node      node ──a whole sub-network──▶ node      node ──nothing──▶ node
 *
 * A sub-network (an object, an array) is named by the node it begins at and ends at any node marked as an end; so a
 * recursive schema is a network that calls itself, and an answer is a path with a stack of nodes to return to.
 *
 * A node's height is the number of calls within calls that the shortest way to its end needs; LF_NET_NO_WAY where there
 * is none. A reader that never enters a node whose height is more than what is left of its stack never gets stuck: that
 * is the whole proof that every answer can be finished. */
#ifndef LF_GRAMMAR_NETWORK_H
#define LF_GRAMMAR_NETWORK_H

#include "grammar/terminal.h"

enum lf_net_kind { LF_NET_EMPTY, LF_NET_TERMINAL, LF_NET_CALL };

#define LF_NET_NONE   UINT32_MAX
#define LF_NET_NO_WAY UINT16_MAX

struct lf_net_edge {
    uint32_t to;
    uint32_t next; /* edge of the same node, or LF_NET_NONE */
    uint32_t what; /* the terminal's index, or the node that the call begins at */
    uint8_t kind;
};

struct lf_net_node {
    uint32_t first; /* edge, or LF_NET_NONE */
    uint16_t height;
    uint8_t is_end;
};

struct lf_network {
    struct lf_net_node *nodes;
    struct lf_net_edge *edges;
    struct lf_terminal *terminals;
    size_t n_nodes, n_edges, n_terminals;
    size_t nodes_cap, edges_cap, terminals_cap;
    uint32_t start;
};

uint32_t lf_network_node(struct lf_network *net, struct lf_compilation *c);
uint32_t lf_network_end(struct lf_network *net, struct lf_compilation *c);
void lf_network_empty(struct lf_network *net, struct lf_compilation *c, uint32_t from, uint32_t to);
/* A terminal without texts makes no edge. */
void lf_network_terminal(struct lf_network *net, struct lf_compilation *c, uint32_t from, uint32_t to, uint32_t what);
void lf_network_call(struct lf_network *net, struct lf_compilation *c, uint32_t from, uint32_t to, uint32_t start);
/* Its index. */
uint32_t lf_network_add(struct lf_network *net, struct lf_compilation *c, struct lf_terminal t);

/* Of the nodes from `first` on, which lead to none before it but by calls, and those are done. */
void lf_network_heights(struct lf_network *net, struct lf_compilation *c, uint32_t first);
/* All of it from the scratch to the grammar's memory. */
void lf_network_keep(struct lf_network *net, struct lf_compilation *c);

#endif
