/* Whether logits name the same best tokens as those that transformers computes. */
#ifndef LF_TESTS_GOLDEN_MODEL_GREEDY_H
#define LF_TESTS_GOLDEN_MODEL_GREEDY_H

#include "tests/support/expected.h"
#include "tests/support/test.h"

/* Index of the largest; *gap is its distance to the second. */
static inline int best_of(const float *x, int n, double *gap)
{
    int best = 0, second = -1;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[best]) best = i;
    }
    for (int i = 0; i < n; i++) {
        if (i != best && (second < 0 || x[i] > x[second])) second = i;
    }
    *gap = (double)x[best] - (double)x[second];
    return best;
}

/* Rows whose gap is clear must have the same best token. Returns how many were. */
static inline int check_greedy(const struct expected *e, const float *logits, double clear)
{
    int n = 0;
    for (int i = 0; i < e->n_ids; i++) {
        size_t at = (size_t)i * (size_t)e->n_vocab;
        double theirs_gap, ours_gap;
        int theirs = best_of(e->logits + at, e->n_vocab, &theirs_gap);
        int ours = best_of(logits + at, e->n_vocab, &ours_gap);
        if (theirs_gap < clear) continue;
        assert_int_equal(ours, theirs);
        n++;
    }
    return n;
}

#endif
