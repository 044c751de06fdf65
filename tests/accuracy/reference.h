/* A file of probability distributions: what configuration A said at each position, for configuration B to be measured
 * against. Both are given the same rows of logits in the same order, so the file is written once from front to back and
 * read the same way, and only one of the two models is in memory at a time.
 *
 * Of a row p = softmax(logits) the file has the likeliest id, the `top` largest p with their ids, and the sum of all
 * others. Over these top + 1 events
 *
 *     KL(p ‖ q) = Σ_i p_i · (log p_i - log q_i)      in nats
 *
 * which is the divergence of the whole vocabulary where top is its size, and at most that where it is less: what is
 * lumped together cannot be told apart (the log sum inequality). Sums are of doubles, what is kept is float.
 *
 * Rows stand in sections, one for each list of token ids that was run; a section has the number of its ids and a hash
 * of them, so that a file of other texts is refused, and may carry an answer. Host byte order: the file is made to be
 * read by the same program. */
#ifndef LF_TESTS_ACCURACY_REFERENCE_H
#define LF_TESTS_ACCURACY_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"
#include "tokenizer/tokenizer.h"

struct reference_entry {
    int32_t id;
    float log_p;
};

struct reference {
    FILE *file;
    const char *path; /* borrowed */
    bool compares;    /* reads and compares; else writes */
    int n_vocab, top;
    struct reference_entry *entries; /* [top] of one row */
    bool *is_entry;                  /* [n_vocab]; all false between rows */
};

/* What a row costs. */
struct row_cost {
    double kl;     /* of A's distribution from this one; 0 where A's is being written */
    bool same_top; /* A's likeliest token is this one's too */
    double nll;    /* -log of this distribution's probability of the token that comes, nats */
};

/* Creates the file. 0 < top: at most n_vocab are kept. LF_IO, LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status reference_create(struct reference *ref, const char *path, int n_vocab, int top,
                                              struct lf_err *err);
/* Opens one. LF_IO; LF_CORRUPT: no such file; LF_INVALID: of a model with another vocabulary. */
LF_MUST_CHECK enum lf_status reference_open(struct reference *ref, const char *path, int n_vocab, struct lf_err *err);
/* Writes what is pending; LF_IO where it did not fit. Accepts a zeroed one. */
LF_MUST_CHECK enum lf_status reference_close(struct reference *ref, struct lf_err *err);

/* A section of these ids begins. LF_INVALID: the file has another one here. */
LF_MUST_CHECK enum lf_status reference_begin(struct reference *ref, const int32_t *ids, int n, struct lf_err *err);
/* Its answer: written as it is, or replaced by what was written. */
LF_MUST_CHECK enum lf_status reference_answer(struct reference *ref, struct lf_ids *answer, struct lf_err *err);
/* The next row of logits [n_vocab], of which `next` is the token that comes. LF_CORRUPT: the file has no more;
 * LF_DEVICE: a logit is no number. */
LF_MUST_CHECK enum lf_status reference_row(struct reference *ref, const float *logits, int32_t next,
                                           struct row_cost *cost, struct lf_err *err);

#endif
