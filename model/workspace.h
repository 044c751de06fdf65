/* Where everything a step writes lies in one buffer: the closed formula that plan.c adds up and model.c allocates. */
#ifndef LF_MODEL_WORKSPACE_H
#define LF_MODEL_WORKSPACE_H

#include <stdint.h>

#include "attention/attention.h"
#include "device/device.h"
#include "device/ops.h"
#include "model/hparams.h"

/* The largest step. */
struct lf_step_limits {
    int ctx;   /* positions */
    int chunk; /* tokens */
    int max_seqs;
    int max_out; /* rows of logits */
    enum lf_dtype kv_dtype;
};

/* Offsets in bytes, each a multiple of 256. T = chunk tokens.
 *
 *     ids      [T] int32,  logits_idx [max_out] int32      the step's input, uploaded
 *     x        [T, hidden]       the residual stream, float
 *     x_out    [max_out, hidden] its tokens that go on behind the last append, float
 *     h        [T, hidden]       its norm
 *     sum_squares [16, ceil(hidden / 16)] float, of fused norms (struct lf_fused_norm)
 *     one region, by turns:
 *       qkv    [T, (n_heads + 2·n_kv_heads)·head_dim]      gate_up [T, 2·intermediate]
 *       q      [T, n_heads·head_dim]                       act     [T, intermediate]
 *       attn   [T, n_heads·head_dim]
 *     picked   [max_out, n_heads·head_dim]   queries of the last layer, see llama.c
 *     scratch  of the GEMM;  logits [max_out, n_vocab] float, and what sampling needs (sampler)
 *     rope table;  workspace of attention */
struct lf_workspace {
    uint64_t ids, logits_idx, x, x_out, h, sum_squares, qkv, q, attn, gate_up, act, picked, scratch, logits, sampler,
        rope, attention;
    uint64_t act_bytes, logits_bytes, rope_bytes, attn_bytes; /* sums of the above by purpose */
    uint64_t total_bytes;
};

void lf_workspace_layout(struct lf_workspace *out, const struct lf_hparams *hp, const struct lf_step_limits *limits,
                         const struct lf_ops *ops, const struct lf_device_info *info);
struct lf_attn_shape lf_workspace_attn_shape(const struct lf_hparams *hp, const struct lf_step_limits *limits);

#endif
