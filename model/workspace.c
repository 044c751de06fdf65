#include "model/workspace.h"

#include <string.h>

#include "core/check.h"
#include "model/batch.h"
#include "model/sample_device.h"
#include "model/sample_rows.h"

/* Reserves n bytes and returns where they begin. No sum passes 2^63: limits.h bounds every factor. */
static uint64_t reserve(uint64_t *at, uint64_t n)
{
    uint64_t offset = *at;
    *at += (n + LF_PLACE_ALIGN_BYTES - 1) / LF_PLACE_ALIGN_BYTES * LF_PLACE_ALIGN_BYTES;
    return offset;
}

struct lf_attn_shape lf_workspace_attn_shape(const struct lf_layer_kinds *kinds, int shape_idx,
                                             const struct lf_hparams *hp, const struct lf_step_limits *limits)
{
    const struct lf_attn_shape_of_kinds *shape = &kinds->shapes[shape_idx];
    int n_stripes = LF_MIN(hp->split.n_cp, (int)LF_RANKS_N); /* of more, which a forecast has, it takes no more */
    return (struct lf_attn_shape){.n_heads = lf_split_n_heads(hp->n_heads, &hp->split),
                                  .n_kv_heads = shape->n_kv_heads,
                                  .head_dim = shape->head_dim,
                                  .kv_dtype = limits->kv_dtype,
                                  .stripe = {.idx = hp->split.cp_rank, .n = n_stripes},
                                  .max_tokens = limits->chunk,
                                  .max_seqs = limits->max_seqs,
                                  .max_kv_len = limits->ctx,
                                  .max_window = shape->max_window,
                                  .n_schedules = shape->n_schedules,
                                  .n_groups = shape->n_groups};
}

static uint64_t sampler_bytes(const struct lf_hparams *hp, const struct lf_step_limits *limits,
                              const struct lf_device_info *info)
{
    struct lf_sample_layout layout;
    if (info->is_host) return lf_sample_rows_scratch_bytes(hp->n_vocab);
    lf_sample_layout(&layout, limits->max_out, lf_batch_n_slots(limits->max_seqs), limits->ctx, hp->n_vocab);
    return layout.total;
}

/* The widest input of a GEMM: a table that is only looked up in may be wider. */
static int max_n_in(const struct lf_program *p)
{
    int n = 1;
    for (int i = 0; i < p->n_ops; i++)
        if (lf_op_has_gemm(p->ops[i].kind)) n = LF_MAX(n, p->slots[p->ops[i].weight[LF_OP_W]].n_in);
    return n;
}

static uint64_t expert_scratch_bytes(const struct lf_program *p, const struct lf_op *op, int n_tokens,
                                     const struct lf_ops *ops)
{
    const struct lf_slot *slot = &p->slots[op->weight[LF_OP_W]];
    struct lf_weight w = {.n_out = slot->n_out, .n_in = slot->n_in, .n_experts = slot->n_experts};
    struct lf_expert_gemm_params params = {.w = &w,
                                           .x_by_token = p->values[op->in[LF_OP_X]].each == 0,
                                           .n_tokens = n_tokens,
                                           .k = p->values[op->out[LF_OP_Y]].each};
    return ops->expert_gemm_scratch_bytes(&params);
}

/* Of any GEMM or gated delta net: they take turns. */
static uint64_t scratch_bytes(const struct lf_programs *programs, const struct lf_layer_kinds *kinds,
                              const struct lf_hparams *hp, const struct lf_step_limits *limits,
                              const struct lf_ops *ops)
{
    const struct lf_program *p = &programs->recorded;
    int n_tokens = LF_MAX(lf_split_most_rows(limits->chunk, &hp->split), limits->max_out);
    uint64_t bytes = ops->gemm_scratch_bytes(n_tokens, max_n_in(p));
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind != LF_OP_EXPERT_GEMM) continue;
        uint64_t n = expert_scratch_bytes(p, &p->ops[i], n_tokens, ops);
        bytes = LF_MAX(bytes, n);
    }
    if (kinds->layout.states.n_layers > 0) {
        struct lf_delta_shape delta = lf_split_delta(&hp->delta, &hp->split);
        uint64_t n = ops->delta_scratch_bytes(&delta, limits->chunk, limits->max_seqs);
        bytes = LF_MAX(bytes, n);
    }
    return bytes;
}

/* The lists of a step's states. On a CPU they stay where they are made. */
static void reserve_states(struct lf_workspace_states *out, uint64_t *at, const struct lf_step_limits *limits)
{
    uint64_t n_long = (uint64_t)lf_state_most_long(limits->chunk, limits->max_seqs);
    uint64_t n_chunks = (uint64_t)lf_state_most_chunks(limits->chunk, limits->max_seqs);
    out->seqs = reserve(at, (uint64_t)limits->max_seqs * sizeof(struct lf_state_seq));
    out->marks = reserve(at, (uint64_t)lf_batch_n_marks(limits->max_seqs) * sizeof(struct lf_state_mark));
    out->chunks = reserve(at, n_chunks * sizeof(struct lf_state_chunk));
    out->long_seqs = reserve(at, n_long * sizeof(int32_t));
    out->first_chunks = reserve(at, (n_long + 1) * sizeof(int32_t));
}

/* Places the values of all programs from `begin` on; returns where the longest ends. */
static uint64_t place_values(struct lf_programs *programs, const struct lf_step_limits *limits,
                             const struct lf_split *split, const struct lf_device_info *info, uint64_t begin)
{
    struct lf_place_limits sizes = {.rows = {[LF_ROWS_TOKENS] = (uint64_t)limits->chunk,
                                             [LF_ROWS_OUT] = (uint64_t)limits->max_out,
                                             [LF_ROWS_FEW] = LF_FUSED_NORM_TOKENS,
                                             [LF_ROWS_ONE] = 1,
                                             [LF_ROWS_OWN] = (uint64_t)lf_split_most_rows(limits->chunk, split)},
                                    .act_bytes = lf_dtype_bytes(info->act_dtype)};
    bool is_placed = programs->placed_end > 0 && programs->placed_begin == begin &&
                     memcmp(&programs->placed_for, &sizes, sizeof(sizes)) == 0;
    if (is_placed) return programs->placed_end; /* a plan is made for many contexts */
    programs->placed_for = sizes;
    programs->placed_begin = programs->placed_end = begin;
    for (int i = 0; i < LF_WANTED_N; i++) {
        uint64_t end = lf_pass_place(&programs->of[i], &sizes, begin);
        programs->placed_end = LF_MAX(programs->placed_end, end);
    }
    return programs->placed_end;
}

void lf_workspace_layout(struct lf_workspace *out, struct lf_programs *programs, const struct lf_layer_kinds *kinds,
                         const struct lf_hparams *hp, const struct lf_step_limits *limits, const struct lf_ops *ops,
                         const struct lf_device_info *info)
{
    struct lf_workspace w = {0};
    uint64_t max_out = (uint64_t)limits->max_out, at = 0;

    w.ids = reserve(&at, (uint64_t)limits->chunk * sizeof(int32_t));
    w.logits_idx = reserve(&at, max_out * sizeof(int32_t));
    if (kinds->layout.states.n_layers > 0 && !info->is_host) reserve_states(&w.states, &at, limits);
    w.values = at;
    at = place_values(programs, limits, &hp->split, info, at);
    w.scratch = reserve(&at, scratch_bytes(programs, kinds, hp, limits, ops));
    w.act_bytes = at;

    w.logits = reserve(&at, max_out * (uint64_t)hp->n_vocab * sizeof(float));
    w.sampler = reserve(&at, sampler_bytes(hp, limits, info));
    w.logits_bytes = at - w.logits;
    for (int i = 0; i < hp->n_ropes; i++) w.ropes[i] = reserve(&at, lf_rope_table_bytes(&hp->ropes[i], limits->ctx));
    if (hp->q_scale.beta > 0) w.q_scale = reserve(&at, (uint64_t)limits->ctx * sizeof(float));
    w.rope_bytes = at - w.ropes[0];
    w.attn_bytes = at;
    for (int i = 0; i < kinds->n_shapes; i++) {
        struct lf_attn_shape shape = lf_workspace_attn_shape(kinds, i, hp, limits);
        w.attention[i] = reserve(&at, lf_attn_workspace_bytes(&shape, info));
    }
    w.attn_bytes = at - w.attn_bytes;
    w.total_bytes = at;
    for (int i = 0; i < LF_WANTED_N; i++) {
        struct lf_program *p = &programs->of[i];
        if (p->logits != LF_NONE) p->values[p->logits].offset = w.logits;
    }
    *out = w;
}
