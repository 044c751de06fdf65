/* Operations and bytes of an op. Bytes are the least there could be: everything that is read or written, once. */
#include <math.h>

#include "core/check.h"
#include "model/passes/passes.h"

int lf_cost_rows(const struct lf_cost_step *step, const struct lf_value *value)
{
    const int rows[LF_ROWS_N] = {[LF_ROWS_TOKENS] = step->n_tokens,
                                 [LF_ROWS_OUT] = step->n_out,
                                 [LF_ROWS_FEW] = LF_FUSED_NORM_TOKENS,
                                 [LF_ROWS_ONE] = 1,
                                 [LF_ROWS_OWN] = step->n_own ? step->n_own : step->n_tokens};
    return (int)lf_value_rows(value, (uint64_t)rows[value->rows]);
}

double lf_cost_experts(double n_tokens, double k, double n_experts)
{
    return n_experts * (1 - pow(1 - k / n_experts, n_tokens));
}

static double value_bytes(const struct lf_program *p, const struct lf_cost_step *step, int value)
{
    if (value == LF_NONE) return 0;
    const struct lf_value *v = &p->values[value];
    return (double)lf_cost_rows(step, v) * v->width * (double)lf_value_elem_bytes(v, step->act_bytes);
}

/* A rank has so much of the keys and values of each sequence. */
static double kv_share(const struct lf_cost_step *step)
{
    return 1.0 / LF_MAX(step->n_cp, 1);
}

/* Keys that the last n_rows of kv_len tokens see, each up to itself and at most `window` of them. */
static double sum_keys(double n_rows, double kv_len, double window)
{
    double first = kv_len - n_rows + 1, full = (first + kv_len) / 2 * n_rows;
    if (window <= 0 || window >= kv_len) return full;
    if (window <= first) return window * n_rows;
    double n_short = window - first; /* those that see fewer than the window */
    return (first + window - 1) / 2 * n_short + window * (n_rows - n_short);
}

/* Of K and V: keys that any of the rows sees. */
static double keys_read(double n_rows, double kv_len, double window)
{
    return window > 0 ? LF_MIN(kv_len, window + n_rows - 1) : kv_len;
}

static struct lf_op_cost attention_cost(const struct lf_program *p, const struct lf_op *op,
                                        const struct lf_cost_step *step)
{
    double rows = lf_cost_rows(step, &p->values[op->out[LF_OP_Y]]), kv_len = step->kv_len;
    double n_keys = kv_share(step) * sum_keys(rows, kv_len, op->window);
    return (struct lf_op_cost){.flops = 4 * p->values[op->out[LF_OP_Y]].width * n_keys,
                               .bytes =
                                   kv_share(step) * keys_read(rows, kv_len, op->window) * (double)step->kv_layer_bytes};
}

static double elementwise_flops(const struct lf_program *p, const struct lf_op *op, const struct lf_cost_step *step)
{
    static const double of_element[LF_OP_KINDS_N] = {
        [LF_OP_RMSNORM] = 4,      [LF_OP_GATE_MUL] = 5,   [LF_OP_ROPE_APPEND] = 6,
        [LF_OP_ROPE] = 6,         [LF_OP_SOFTCAP] = 4,    [LF_OP_GATED_NORM] = 9,
        [LF_OP_GATE_SIGMOID] = 4, [LF_OP_ALL_REDUCE] = 1, [LF_OP_LSE_COMBINE] = 2};
    const struct lf_value *y = &p->values[op->out[LF_OP_Y]];
    return of_element[op->kind] * lf_cost_rows(step, y) * y->width;
}

/* Of a route or of the sum: an exponential and a comparison for each logit and choice, two for each element of a row.
 */
static double routing_flops(const struct lf_program *p, const struct lf_op *op, const struct lf_cost_step *step)
{
    const struct lf_value *x = &p->values[op->in[LF_OP_X]], *y = &p->values[op->out[LF_OP_Y]];
    double per_element = op->kind == LF_OP_ROUTE ? 2 + y->width : 2;
    return per_element * lf_cost_rows(step, x) * x->width;
}

/* Of a convolution: its taps and silu. Of the delta rule, for each element of S: the decay, Sᵀk̂, k̂uᵀ and Sᵀq̂; what
 * there is of each channel beside it is little. */
static double delta_flops(const struct lf_program *p, const struct lf_op *op, const struct lf_cost_step *step)
{
    double rows = lf_cost_rows(step, &p->values[op->out[LF_OP_Y]]);
    if (op->kind == LF_OP_CONV) return rows * lf_delta_channels(&op->delta) * (2.0 * op->delta.conv_width + 4);
    return rows * 7 * op->delta.n_v_heads * op->delta.k_dim * op->delta.v_dim;
}

/* Read and written once: the step's tokens are those of one sequence. */
static double state_bytes(const struct lf_op *op, const struct lf_cost_step *step)
{
    if (op->kind == LF_OP_DELTA) return 2 * (double)lf_delta_state_bytes(&op->delta);
    return 2 * (op->delta.conv_width - 1.0) * lf_delta_channels(&op->delta) * (double)step->act_bytes;
}

/* Of an input. A pick reads the rows that it picks, some ops some channels of what is wider. */
static double input_bytes(const struct lf_program *p, const struct lf_op *op, const struct lf_cost_step *step, int i)
{
    bool is_part = (op->kind == LF_OP_PICK || op->kind == LF_OP_CONV) && i == LF_OP_X;
    is_part |= op->kind == LF_OP_GATED_NORM && i == LF_OP_GATE;
    return value_bytes(p, step, is_part ? op->out[LF_OP_Y] : op->in[i]);
}

/* What it would make is there: rows that are cut out, or gathered where each rank has all (interpreter.c). */
static bool does_nothing(const struct lf_op *op, const struct lf_cost_step *step)
{
    bool is_divided = step->n_own > 0 && step->n_own < step->n_tokens;
    return op->kind == LF_OP_SLICE_ROWS || (op->kind == LF_OP_GATHER_ROWS && !is_divided);
}

/* Rows of a slot that an op with so many rows reads: of a table those of the ids, of experts those that are chosen. */
static double rows_read(const struct lf_program *p, const struct lf_op *op, const struct lf_slot *slot, double rows)
{
    if (op->kind == LF_OP_EMBED) return rows;
    if (slot->n_experts == 0) return slot->n_out;
    double k = p->values[op->out[LF_OP_Y]].each;
    return slot->n_out * lf_cost_experts(rows / k, k, slot->n_experts);
}

/* A sum is added up by parts: a rank receives its own part of all others', and then the parts that they have added up.
 * Of what is gathered it has its own. Of partial results it receives those of the rows that it is to have, from each.
 */
static double received_bytes(const struct lf_program *p, const struct lf_op *op, const struct lf_cost_step *step)
{
    double y = value_bytes(p, step, op->out[LF_OP_Y]), n_cp = LF_MAX(step->n_cp, 1), n_ranks = LF_MAX(step->n_ranks, 1);
    switch (op->kind) {
    case LF_OP_ALL_REDUCE:
        return 2 * (n_ranks - 1) / n_ranks * y;
    case LF_OP_ALL_GATHER:
        return (n_ranks - 1) / n_ranks * y;
    case LF_OP_GATHER_ROWS:
        return (n_cp - 1) / n_cp * y;
    case LF_OP_LSE_COMBINE:
        y += (double)sizeof(float) * lf_cost_rows(step, &p->values[op->out[LF_OP_Y]]) *
             p->values[op->in[LF_OP_LSE]].width;
        return (n_cp - 1) * y;
    default:
        return 0;
    }
}

struct lf_op_cost lf_pass_cost(const struct lf_program *p, const struct lf_op *op, const struct lf_slot *slots,
                               const struct lf_weight *weights, const struct lf_cost_step *step)
{
    struct lf_op_cost cost = {.flops = elementwise_flops(p, op, step)};
    double rows = lf_cost_rows(step, &p->values[op->out[LF_OP_Y]]);
    if (does_nothing(op, step)) return cost;
    cost.received_bytes = received_bytes(p, op, step);
    if (op->kind == LF_OP_ATTENTION) cost = attention_cost(p, op, step);
    if (op->kind == LF_OP_ROUTE || op->kind == LF_OP_EXPERT_SUM) cost.flops = routing_flops(p, op, step);
    if (lf_op_has_gemm(op->kind) || op->kind == LF_OP_EXPERT_GEMM) {
        const struct lf_slot *w = &slots[op->weight[LF_OP_W]];
        cost.flops = 2 * rows * w->n_in * w->n_out;
    }
    if (op->kind == LF_OP_CONV || op->kind == LF_OP_DELTA)
        cost = (struct lf_op_cost){.flops = delta_flops(p, op, step), .bytes = state_bytes(op, step)};
    for (int i = 0; i < LF_OP_INPUTS_N; i++) cost.bytes += input_bytes(p, op, step, i);
    for (int i = 0; i < LF_OP_OUTPUTS_N; i++) cost.bytes += value_bytes(p, step, op->out[i]);
    for (int i = 0; i < LF_OP_WEIGHTS_N; i++) {
        if (op->weight[i] == LF_NONE) continue;
        const struct lf_slot *slot = &slots[op->weight[i]];
        int n_in = op->kind == LF_OP_EMBED ? p->values[op->out[LF_OP_Y]].width : slot->n_in;
        double elem_bytes = lf_format_elem_bytes(&weights[op->weight[i]].format, slot->n_in);
        cost.bytes += rows_read(p, op, slot, rows) * n_in * elem_bytes;
    }
    if (op->kind == LF_OP_ROPE_APPEND || op->kind == LF_OP_GEMM_ROPE_APPEND)
        cost.bytes += kv_share(step) * rows * (double)step->kv_layer_bytes;
    return cost;
}
