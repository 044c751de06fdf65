/* Terminals: the regular parts of a grammar, run byte by byte.
 *
 * Three forms. A list of texts is a trie (enums, names, punctuation: cheap to build, whatever their number). A byte
 * automaton is a DFA. A string of so many characters is the DFA of its spelling with a counter beside the state
 * (counting.h), so that maxLength costs nothing: the state is q + n_states × count. Each form has numbers as states, 0
 * first. Read-only once made: any thread. */
#ifndef LF_GRAMMAR_TERMINAL_H
#define LF_GRAMMAR_TERMINAL_H

#include "grammar/counting.h"

#define LF_TERMINAL_DEAD      UINT32_MAX
#define LF_TERMINAL_UNBOUNDED LF_COUNTING_UNBOUNDED

enum lf_terminal_kind { LF_TERMINAL_DFA, LF_TERMINAL_TEXTS, LF_TERMINAL_COUNTED };

enum {
    LF_TERMINAL_ID_BYTES = 16,
    LF_TERMINAL_OPEN_N = 32 /* bytes that an accepting state goes on with, to be called open */
};

struct lf_text_node {
    uint32_t first; /* of its children, which lie together, ascending by byte */
    uint16_t n;
    uint8_t byte;
    uint8_t accept;
};

struct lf_terminal {
    enum lf_terminal_kind kind;
    struct lf_dfa dfa;          /* but for texts */
    uint8_t *endless;           /* [DFA state]: whatever plain characters come (vocabulary.h), it goes on; or NULL */
    uint8_t *steady;            /* [DFA state]: letters, digits and spaces lead back to it; or NULL */
    struct lf_text_node *nodes; /* of texts; [0] is the root */
    uint32_t n_nodes;
    struct lf_counting counting;      /* of a counted one */
    bool is_open;                     /* it may end at many bytes and go on with them as well: free text */
    bool is_control;                  /* one control token, with LF_GRAMMAR_CONTROL before its text; of texts */
    struct lf_str control;            /* that token's text, without it */
    uint8_t id[LF_TERMINAL_ID_BYTES]; /* of the content, so grammars share masks: equal where walks are the same */
};

/* The state behind a byte, or LF_TERMINAL_DEAD. */
static inline uint32_t lf_terminal_next_counted(const struct lf_terminal *t, uint32_t state, uint8_t byte)
{
    uint32_t n = t->dfa.n_states, q = state % n, count = state / n;
    uint32_t to = lf_dfa_next(&t->dfa, q, byte);
    if (to == LF_DFA_DEAD) return LF_TERMINAL_DEAD;
    count = lf_counting_behind(&t->counting, q, to, count);
    return lf_counting_can_end(&t->counting, to, count) ? to + n * count : LF_TERMINAL_DEAD;
}
static inline uint32_t lf_terminal_next_text(const struct lf_terminal *t, uint32_t state, uint8_t byte)
{
    uint32_t low = t->nodes[state].first, high = low + t->nodes[state].n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (t->nodes[mid].byte == byte) return mid;
        if (t->nodes[mid].byte < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return LF_TERMINAL_DEAD;
}
static inline uint32_t lf_terminal_next(const struct lf_terminal *t, uint32_t state, uint8_t byte)
{
    if (t->kind == LF_TERMINAL_TEXTS) return lf_terminal_next_text(t, state, byte);
    if (t->kind == LF_TERMINAL_COUNTED) return lf_terminal_next_counted(t, state, byte);
    uint32_t to = lf_dfa_next(&t->dfa, state, byte);
    return to == LF_DFA_DEAD ? LF_TERMINAL_DEAD : to;
}
static inline bool lf_terminal_accepts(const struct lf_terminal *t, uint32_t state)
{
    if (t->kind == LF_TERMINAL_TEXTS) return t->nodes[state].accept;
    return t->dfa.accept[t->kind == LF_TERMINAL_COUNTED ? state % t->dfa.n_states : state];
}
/* Whether no byte can follow. */
bool lf_terminal_is_final(const struct lf_terminal *t, uint32_t state);
bool lf_terminal_is_empty(const struct lf_terminal *t);
/* Whether the whole text is one of its texts. */
bool lf_terminal_matches(const struct lf_terminal *t, struct lf_str text);

/* All in the grammar's memory. texts is sorted here; equal ones count once. */
struct lf_terminal lf_terminal_of_texts(struct lf_compilation *c, struct lf_str *texts, size_t n);
struct lf_terminal lf_terminal_of_control(struct lf_compilation *c, struct lf_str text);
struct lf_terminal lf_terminal_of_dfa(struct lf_compilation *c, const struct lf_dfa *dfa);
/* JSON strings in any spelling, of min to max characters (LF_TERMINAL_UNBOUNDED: no end); surrogates come in pairs, and
 * \u0000 does not come, since readers refuse it. behind: what follows the closing quote. */
struct lf_terminal lf_terminal_of_string(struct lf_compilation *c, uint32_t min, uint32_t max, const char *behind);
/* JSON strings of these contents, in one spelling (json_string.h), of so many characters. */
struct lf_terminal lf_terminal_of_contents(struct lf_compilation *c, const struct lf_dfa *contents, uint32_t min,
                                           uint32_t max);

#endif
