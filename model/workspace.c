#include "model/workspace.h"

#include "core/check.h"
#include "model/sample_device.h"
#include "model/sample_rows.h"

enum { ALIGN_BYTES = 256 };

/* Reserves n bytes and returns where they begin. No sum passes 2^63: limits.h bounds every factor. */
static uint64_t reserve(uint64_t *at, uint64_t n)
{
    uint64_t offset = *at;
    *at += (n + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return offset;
}

struct lf_attn_shape lf_workspace_attn_shape(const struct lf_hparams *hp, const struct lf_step_limits *limits)
{
    return (struct lf_attn_shape){.n_heads = hp->n_heads,
                                  .n_kv_heads = hp->n_kv_heads,
                                  .head_dim = hp->head_dim,
                                  .kv_dtype = limits->kv_dtype,
                                  .max_tokens = limits->chunk,
                                  .max_seqs = limits->max_seqs,
                                  .max_kv_len = limits->ctx};
}

static uint64_t sampler_bytes(const struct lf_hparams *hp, const struct lf_step_limits *limits,
                              const struct lf_device_info *info)
{
    struct lf_sample_layout layout;
    if (info->is_host) return lf_sample_rows_scratch_bytes(hp->n_vocab);
    lf_sample_layout(&layout, limits->max_out, lf_batch_n_slots(limits->max_seqs), limits->ctx, hp->n_vocab);
    return layout.total;
}

void lf_workspace_layout(struct lf_workspace *out, const struct lf_hparams *hp, const struct lf_step_limits *limits,
                         const struct lf_ops *ops, const struct lf_device_info *info)
{
    struct lf_workspace w = {0};
    struct lf_attn_shape shape = lf_workspace_attn_shape(hp, limits);
    uint64_t elem = lf_dtype_bytes(info->act_dtype), tokens = (uint64_t)limits->chunk;
    uint64_t max_out = (uint64_t)limits->max_out;
    uint64_t hidden = (uint64_t)hp->hidden, inter = (uint64_t)hp->intermediate, dim = (uint64_t)hp->head_dim;
    uint64_t q_dim = (uint64_t)hp->n_heads * dim, qkv_dim = q_dim + 2 * (uint64_t)hp->n_kv_heads * dim;
    int max_in = LF_MAX(LF_MAX(hp->hidden, hp->intermediate), (int)q_dim);
    uint64_t at = 0;

    w.ids = reserve(&at, tokens * sizeof(int32_t));
    w.logits_idx = reserve(&at, max_out * sizeof(int32_t));
    w.x = reserve(&at, tokens * hidden * sizeof(float));
    w.x_out = reserve(&at, max_out * hidden * sizeof(float));
    w.h = reserve(&at, tokens * hidden * elem);
    uint64_t parts = ops->fused_norm_tokens ? (hidden + LF_NORM_PART - 1) / LF_NORM_PART : 0;
    w.sum_squares = reserve(&at, LF_FUSED_NORM_TOKENS * parts * sizeof(float));
    uint64_t region = at, mlp_end = at;
    w.qkv = reserve(&at, tokens * qkv_dim * elem);
    w.q = reserve(&at, tokens * q_dim * elem);
    w.attn = reserve(&at, tokens * q_dim * elem);
    LF_ASSERT(mlp_end == region);
    w.gate_up = reserve(&mlp_end, tokens * 2 * inter * elem);
    w.act = reserve(&mlp_end, tokens * inter * elem);
    at = LF_MAX(at, mlp_end);
    w.picked = reserve(&at, max_out * q_dim * elem);
    w.scratch = reserve(&at, ops->gemm_scratch_bytes(LF_MAX(limits->chunk, limits->max_out), max_in));
    w.act_bytes = at;

    w.logits = reserve(&at, max_out * (uint64_t)hp->n_vocab * sizeof(float));
    w.sampler = reserve(&at, sampler_bytes(hp, limits, info));
    w.logits_bytes = at - w.logits;
    w.rope = reserve(&at, lf_rope_table_bytes(&hp->rope, limits->ctx));
    w.rope_bytes = at - w.rope;
    w.attention = reserve(&at, lf_attn_workspace_bytes(&shape, info));
    w.attn_bytes = at - w.attention;
    w.total_bytes = at;
    *out = w;
}
