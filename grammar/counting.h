/* Counting characters beside an automaton, so that a length multiplies no states.
 *
 * A string of min to max characters is an automaton over its spelling and a counter. A byte is taken only if an end can
 * still be reached from behind it, and that is known of every state and count, by two tables:
 *
 *     nearest   [state]     how many characters the shortest way to an end has. Once there are enough of them, no more
 *                           than that is asked: it must be within what is left of max
 *     short_of  [j][state]  bits: an end can be reached by at least j + 1 characters more, and by at most as many as
 * max leaves where min needs j + 1. Each j follows from the one before it, so that sooner or later they repeat, and
 * there are no more rows than until then (one, for most patterns)
 *
 * Both say which states, not which texts: what the automaton is to the walk over a vocabulary, it is with its counter,
 * too, at one look into a table for each byte. */
#ifndef LF_GRAMMAR_COUNTING_H
#define LF_GRAMMAR_COUNTING_H

#include "grammar/dfa.h"

#define LF_COUNTING_UNBOUNDED UINT32_MAX

struct lf_counting {
    uint32_t min, max;  /* characters; max may be LF_COUNTING_UNBOUNDED */
    uint8_t *between;   /* [state]: it is between two characters, where one has ended or the first may begin */
    uint32_t *nearest;  /* [state] */
    uint32_t farthest;  /* the largest of them */
    uint32_t *short_of; /* [n_rows][n_words] */
    uint32_t n_words, n_rows, loop; /* behind the last row comes row `loop` again */
};

/* Of the DFA of a quoted string, whose state 0 is before the quote; between: borrowed, as all else it makes in the
 * grammar's memory. min <= max. LF_LIMIT: states times characters are more than a number has. */
struct lf_counting lf_counting_of(struct lf_compilation *c, const struct lf_dfa *dfa, uint8_t *between, uint32_t min,
                                  uint32_t max);

/* How many characters there are behind a byte that led from one state to another. */
static inline uint32_t lf_counting_behind(const struct lf_counting *k, uint32_t from, uint32_t to, uint32_t count)
{
    bool counts = k->between[to] && from != 0 && (k->max != LF_COUNTING_UNBOUNDED || count < k->min);
    return count + counts;
}

/* Whether an end can be reached from here. */
static inline bool lf_counting_can_end(const struct lf_counting *k, uint32_t state, uint32_t count)
{
    if (count >= k->min) return count <= k->max && k->nearest[state] <= k->max - count;
    uint32_t row = k->min - count - 1;
    if (row >= k->n_rows) row = k->loop + (row - k->loop) % (k->n_rows - k->loop);
    return k->short_of[(size_t)row * k->n_words + state / 32] >> state % 32 & 1;
}

#endif
