/* Where everything a step writes lies in one buffer: the closed formula that plan.c adds up and model.c allocates. */
#ifndef LF_MODEL_WORKSPACE_H
#define LF_MODEL_WORKSPACE_H

#include <stdint.h>

#include "attention/attention.h"
#include "device/device.h"
#include "device/ops.h"
#include "model/hparams.h"
#include "model/layer_kinds.h"
#include "model/programs.h"

/* The largest step. */
struct lf_step_limits {
    int ctx;   /* positions */
    int chunk; /* tokens */
    int max_seqs;
    int max_out; /* rows of logits */
    int n_cp;    /* ranks that divide contexts: a block of a table stands for lf_kv_block_tokens of them; 0: 1 */
    enum lf_dtype kv_dtype;
};

/* The lists of struct lf_state_step (device/delta.h): where each begins. */
struct lf_workspace_states {
    uint64_t seqs, marks, chunks, long_seqs, first_chunks;
};

/* Offsets in bytes, each a multiple of 256.
 *
 *     ids     [chunk] int32,  logits_idx [max_out] int32     the step's input, uploaded
 *     states  of models that have such, on a GPU: struct lf_state_seq and so on of the step, uploaded
 *     values  of the programs, each where passes/place.c puts it; programs take turns, so they share the room
 *     scratch of the GEMMs and of gated delta nets
 *     logits  [max_out, n_vocab] float, and what sampling needs (sampler)
 *     ropes   a table each, q_scale [ctx] float where the model has one;  workspaces of attention */
struct lf_workspace {
    uint64_t ids, logits_idx, values, scratch, logits, sampler, ropes[LF_ROPES_N], q_scale;
    struct lf_workspace_states states;
    uint64_t attention[LF_ATTN_SHAPES_N];                     /* of the attention objects */
    uint64_t act_bytes, logits_bytes, rope_bytes, attn_bytes; /* sums of the above by purpose */
    uint64_t total_bytes;
};

/* Also writes into the programs where their values lie. */
void lf_workspace_layout(struct lf_workspace *out, struct lf_programs *programs, const struct lf_layer_kinds *kinds,
                         const struct lf_hparams *hp, const struct lf_step_limits *limits, const struct lf_ops *ops,
                         const struct lf_device_info *info);
/* Of kinds->shapes[shape_idx]. */
struct lf_attn_shape lf_workspace_attn_shape(const struct lf_layer_kinds *kinds, int shape_idx,
                                             const struct lf_hparams *hp, const struct lf_step_limits *limits);

#endif
