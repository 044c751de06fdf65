/* Deterministic byte automata: what texts are made of, and the algebra on them.
 *
 * State 0 is the start. From every state an accepting one can be reached (dfa.c trims the others), so a byte that has a
 * transition never leads into a dead end. The empty language has no states. Bytes that no state tells apart share a
 * class. A finished one is read-only. */
#ifndef LF_GRAMMAR_DFA_H
#define LF_GRAMMAR_DFA_H

#include "grammar/nfa.h"

enum { LF_DFA_DEAD = 0xffff };

struct lf_dfa {
    uint32_t n_states;
    uint32_t n_classes;
    uint8_t class_of[256];
    uint16_t *next;  /* [state][class] */
    uint8_t *accept; /* [state] */
};

enum lf_dfa_op { LF_DFA_AND, LF_DFA_OR, LF_DFA_MINUS };

/* All of these put their result into the compilation's scratch; on failure (its status) it is the empty language. */
struct lf_dfa lf_dfa_of(struct lf_compilation *c, const struct lf_nfa *nfa);
struct lf_dfa lf_dfa_combine(struct lf_compilation *c, const struct lf_dfa *a, const struct lf_dfa *b,
                             enum lf_dfa_op op);
/* The same language with as few states as there can be. */
struct lf_dfa lf_dfa_minimize(struct lf_compilation *c, const struct lf_dfa *dfa);
/* A copy in the grammar's memory. */
struct lf_dfa lf_dfa_keep(struct lf_compilation *c, const struct lf_dfa *dfa);

static inline uint32_t lf_dfa_next(const struct lf_dfa *dfa, uint32_t state, uint8_t byte)
{
    return dfa->next[(size_t)state * dfa->n_classes + dfa->class_of[byte]];
}
bool lf_dfa_accepts(const struct lf_dfa *dfa, struct lf_str text);

#endif
