/* Byte automata as they are built: states, edges over ranges of bytes, and edges that take nothing.
 *
 * Two kinds of the latter hold only where nothing was read before (^) and where nothing follows ($). They are looked
 * at when the automaton is made deterministic (dfa.h), so an anchor may stand anywhere in a pattern. */
#ifndef LF_GRAMMAR_NFA_H
#define LF_GRAMMAR_NFA_H

#include "core/str.h"
#include "grammar/compilation.h"

enum lf_nfa_kind { LF_NFA_BYTES, LF_NFA_EMPTY, LF_NFA_AT_BEGIN, LF_NFA_AT_END };

enum { LF_NFA_NONE = 0xffffffffu >> 1 };

struct lf_nfa_edge {
    uint32_t to;
    uint32_t next; /* edge of the same state, LF_NFA_NONE: the last */
    uint8_t kind, low, high;
};

struct lf_nfa {
    struct lf_compilation *c; /* borrowed; its lists are in the scratch */
    uint32_t *first;          /* edge of each state */
    struct lf_nfa_edge *edges;
    size_t n_states, states_cap, n_edges, edges_cap;
    uint32_t start, accept;
};

/* With a start state and an accepting one, no edges. */
void lf_nfa_init(struct lf_nfa *nfa, struct lf_compilation *c);
uint32_t lf_nfa_state(struct lf_nfa *nfa);
void lf_nfa_edge(struct lf_nfa *nfa, uint32_t from, uint32_t to, enum lf_nfa_kind kind);
void lf_nfa_bytes(struct lf_nfa *nfa, uint32_t from, uint32_t to, uint8_t low, uint8_t high);
/* The UTF-8 of the code points low to high, surrogates left out. */
void lf_nfa_code_points(struct lf_nfa *nfa, uint32_t from, uint32_t to, uint32_t low, uint32_t high);
/* These bytes one after the other; returns the state behind them. */
uint32_t lf_nfa_text(struct lf_nfa *nfa, uint32_t from, struct lf_str text);

#endif
