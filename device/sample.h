/* What sampling gives and takes, and sampling on a device: what model/sampler.c does on the host, to many rows of
 * logits where they lie.
 *
 * A row's token is a function of (logits, parameters, counts, seed, position), the same in any batch and at any index
 * of it. Ids equal the host's but for one case: where a running sum of probabilities meets a limit (top_p, the drawn
 * number) within rounding of the sums, about 2⁻⁴⁰ of their total. Log-probabilities agree to 1e-5. */
#ifndef LF_DEVICE_SAMPLE_H
#define LF_DEVICE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"

#define LF_SAMPLE_INACTIVE UINT64_MAX /* a position: the row is skipped, nothing of it is read or written */

/* The id of a row from which no token can be drawn: a logit is NaN or +inf, or all are -inf. */
#define LF_SAMPLED_NONE (-1)

struct lf_logit_bias {
    int32_t id;
    float bias;
};

/* As struct lf_sampling and struct lf_sample_input of model/sampler.h; ids outside of the vocabulary are passed over.
 */
struct lf_sample_row {
    float temperature, top_p, min_p;
    float repetition_penalty, presence_penalty, frequency_penalty;
    int32_t top_k;
    int32_t n_logprobs;           /* -1: none; the record's logprob and top list are then not set */
    int32_t slot;                 /* of the request's token counts; -1: no penalties, and the token is not counted */
    int32_t ahead_first, n_ahead; /* ids that count as drawn beside the slot's counts: what is tried before this row */
    int32_t is_tried;             /* not 0: the token is not counted; of a slot that has several rows in all of them */
    int32_t bias_first, n_bias;   /* n_bias up to LF_LOGIT_BIAS_N */
    int32_t banned_first, n_banned;
    int32_t mask;  /* row of masks: what may be drawn; -1: all */
    int32_t given; /* an id whose log-probability is wanted, nothing is drawn then; -1: none */
    uint64_t seed, position;
};

struct lf_sampled {
    int32_t id;                         /* or LF_SAMPLED_NONE: logprob and n_top are 0 then */
    float logprob;                      /* natural log; set where n_logprobs >= 0 */
    int32_t n_top;                      /* fewer than were asked for where no more can come */
    int32_t rank;                       /* of an id that was given: 1 is the likeliest, the lower id among equals */
    int32_t top_ids[LF_TOP_LOGPROBS_N]; /* most likely first */
    float top_logprobs[LF_TOP_LOGPROBS_N];
};

/* All pointers are device addresses. */
struct lf_sample_params {
    float *logits;                    /* [n_rows, n_vocab]; overwritten */
    int n_rows;                       /* those to be skipped included: a graph's bucket */
    int n_vocab;                      /* up to LF_VOCAB_N */
    const struct lf_sample_row *rows; /* [n_rows] */
    const struct lf_logit_bias *bias; /* rows name their ranges */
    const int32_t *banned, *ahead;
    const uint32_t *masks;  /* [any, words of n_vocab bits]: id i is bit i % 32 of word i / 32 of a row's mask */
    uint32_t *counts;       /* [slots, n_vocab]: bit 31 in the prompt, below it how often in the output */
    int32_t *ids_out;       /* [n_rows]: for the next step's embed; 0 for LF_SAMPLED_NONE */
    struct lf_sampled *out; /* [n_rows] */
};

/* Makes a slot's counts those of a prompt and of the output so far; adds: counts these beside what it has. */
struct lf_sample_counts_params {
    uint32_t *counts; /* [n_vocab] of the slot */
    int n_vocab;
    const int32_t *prompt, *output; /* device; ids outside of the vocabulary are passed over */
    int n_prompt, n_output;
    bool adds;
};

#endif
