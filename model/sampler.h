/* Sampling: one row of logits to one token. A pure function of (logits, params, token counts, seed, position): the same
 * in any batch. Plain C over host memory; scratch is the caller's, nothing is allocated.
 *
 * Order, as vLLM and transformers have it: logit_bias, min_tokens mask and a grammar's, repetition, presence and
 * frequency penalties, log-probabilities (of this distribution), temperature, top_k, top_p, min_p, draw. temperature 0
 * is argmax, the lowest id among equals. What may not be drawn is in no list of the most likely. */
#ifndef LF_MODEL_SAMPLER_H
#define LF_MODEL_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/limits.h"
#include "device/sample.h"

/* Defaults in comments. Checked by who fills it. */
struct lf_sampling {
    float temperature;        /* 1 */
    float top_p;              /* 1 */
    float min_p;              /* 0 */
    int32_t top_k;            /* 0: all */
    float presence_penalty;   /* 0 */
    float frequency_penalty;  /* 0 */
    float repetition_penalty; /* 1 */
    uint64_t seed;
    int n_bias;
    struct lf_logit_bias bias[LF_LOGIT_BIAS_N];
    int n_logprobs; /* -1: none, 0: of the chosen token, k: and of the k most likely */
};

/* What holds where a request says nothing: the model's own (generation_config.h), or these that change nothing. */
struct lf_sampling_defaults {
    double temperature, top_p, min_p, repetition_penalty;
    int32_t top_k; /* 0: all */
};
#define LF_SAMPLING_PLAIN ((struct lf_sampling_defaults){.temperature = 1, .top_p = 1, .repetition_penalty = 1})

struct lf_sample_input {
    float *logits; /* [n_vocab]; overwritten */
    int n_vocab;
    const int32_t *prompt; /* [n_prompt] for repetition_penalty */
    int n_prompt;
    const int32_t *output; /* [n_output] tokens sampled so far, for all three penalties */
    int n_output;
    const int32_t *banned; /* [n_banned] ids not to be drawn (EOS and stop tokens while below min_tokens) */
    int n_banned;
    const uint32_t *mask; /* ids that may be drawn, a bit each from the lowest of each word on; NULL: all */
    uint64_t position;    /* of the token to be drawn: the counter of the random function */
};

size_t lf_sampler_scratch_bytes(int n_vocab);
void lf_sample(struct lf_sampled *out, const struct lf_sampling *params, const struct lf_sample_input *in,
               void *scratch);
/* Log-probability and rank of id, and the n_top most likely, of unmodified logits: for echoed prompts. */
void lf_logprobs(struct lf_sampled *out, const float *logits, int n_vocab, int32_t id, int n_top, void *scratch);

#endif
