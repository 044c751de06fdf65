/* One step of the engine, as the model sees it: plain data, all host memory, borrowed for the call. */
#ifndef LF_MODEL_BATCH_H
#define LF_MODEL_BATCH_H

#include <stdint.h>

#include "device/delta.h"
#include "kv/kv_view.h"
#include "model/sampler.h"

/* What is to be made of one row of logits: a token, or (echo) how likely a given one was. */
struct lf_batch_out {
    const struct lf_sampling *sampling; /* NULL: nothing is drawn, the result is about `given` */
    int32_t given;
    int n_given_top;       /* how many of the most likely are wanted beside it */
    const int32_t *prompt; /* [n_prompt], with what follows as in struct lf_sample_input */
    int n_prompt;
    const int32_t
        *output; /* [n_output]; on a device that samples by itself the last one may be a placeholder (below) */
    int n_output;
    const int32_t *banned;
    int n_banned;
    const uint32_t
        *mask; /* [lf_batch_mask_words] ids that may be drawn: id i is bit i % 32 of word i / 32. NULL: all */
    uint64_t position;
    int slot; /* of the sequence among those that run, < lf_batch_n_slots: where a device counts its tokens */
};

struct lf_batch {
    const int32_t *ids;           /* [n_tokens] token ids, each < n_vocab. Below zero, where scheduling is asynchronous,
                                     placeholders: -1 - r is what row r of the outs of the step before will be */
    int n_tokens;                 /* T <= chunk */
    const struct lf_kv_seq *seqs; /* [n_seqs], tokens in order and without holes */
    int n_seqs;                   /* <= max_seqs */
    /* Of models with states (device/delta.h), else NULL. */
    const struct lf_state_seq *states; /* [n_seqs] of the same sequences */
    const struct lf_state_mark *marks; /* [n_marks] */
    int n_marks;                       /* <= lf_batch_n_marks */
    const int32_t *logits_idx;         /* [n_out] indices of tokens whose logits are wanted, ascending */
    const struct lf_batch_out *outs;   /* [n_out] */
    int n_out;                         /* 0 <= n_out <= max_out */
    bool samples_later; /* what is drawn depends on what is not known yet (masks): lf_model_sample follows the launch */
};

/* A GPU's GEMMs of so many tokens read the weights once, and give a token the same bits in any company (device/ops.h):
 * what is tried beside the next tokens of sequences (server/engine/speculation.h) fills a step up to here. */
enum { LF_BATCH_FEW_TOKENS = 16 };

/* Words of a mask: a bit for each id. */
static inline int lf_batch_mask_words(int n_vocab)
{
    return (n_vocab + 31) / 32;
}

/* Sequences that may run at once where a step has max_seqs at most: an eighth more, rounded up, but for a first one.
 * Whose they are is said in server/engine/scheduler.h. */
static inline int lf_batch_n_slots(int max_seqs)
{
    return max_seqs + (max_seqs + 6) / 8;
}

/* The least tokens of a step on a GPU where layers have states: chunks of prompts are whole blocks there
 * (server/engine/scheduler.h), and one is to have room beside a step's decodes. */
enum { LF_BATCH_STATE_TOKENS = 2 * LF_KV_BLOCK_TOKENS };

/* Marks of a step: some for every sequence of it, and those of a few long ones. */
static inline int lf_batch_n_marks(int max_seqs)
{
    return 2 * max_seqs + 64;
}

#endif
