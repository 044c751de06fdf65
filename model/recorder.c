#include "model/recorder.h"

#include <math.h>
#include <string.h>

#include "core/check.h"

void lf_recorder_begin(struct lf_recorder *r, const struct lf_hparams *hp)
{
    *r = (struct lf_recorder){.hp = hp, .program = {.logits = LF_NONE}, .status = LF_OK};
}

enum lf_status lf_recorder_end(struct lf_recorder *r, struct lf_program *out, struct lf_err *err)
{
    if (r->status == LF_OK) {
        *out = r->program;
        return LF_OK;
    }
    lf_program_deinit(&r->program);
    if (err) *err = r->err;
    return r->status;
}

/* Appends the op with a new value as what it makes; returns the value. 0 after a failure: an index that is looked up
 * only where there is a program. */
static int add_op(struct lf_recorder *r, struct lf_op op, struct lf_value value)
{
    if (r->status == LF_OK) r->status = lf_program_add_value(&r->program, value, &op.out[LF_OP_Y], &r->err);
    if (r->status == LF_OK) r->status = lf_program_insert(&r->program, r->program.n_ops, &op, &r->err);
    return r->status == LF_OK ? op.out[LF_OP_Y] : 0;
}

static int add_slot(struct lf_recorder *r, const struct lf_slot *slot)
{
    int out = 0;
    if (r->status == LF_OK) r->status = lf_program_add_slot(&r->program, slot, &out, &r->err);
    return r->status == LF_OK ? out : 0;
}

static int width_of(const struct lf_recorder *r, int value)
{
    return r->status == LF_OK ? r->program.values[value].width : 0;
}

static int each_of(const struct lf_recorder *r, int value)
{
    return r->status == LF_OK ? r->program.values[value].each : 0;
}

static int rows_of(const struct lf_recorder *r, struct lf_linear w)
{
    return r->status == LF_OK ? r->program.slots[w.weight].n_out : 0;
}

/* ---- slots ---- */

struct lf_linear lf_rec_linear(struct lf_recorder *r, int layer, const struct lf_linear_opts *o)
{
    bool is_stacked = o->n_experts > 0 && !strchr(o->parts[0].pattern, '@');
    struct lf_slot slot = {.layer = layer,
                           .n_experts = o->n_experts,
                           .n_in = o->n_in,
                           .shard = o->shard,
                           .tied_to = LF_NONE,
                           .suffix = is_stacked ? "" : ".weight",
                           .whole = o->whole,
                           .by_columns = o->by_columns};
    for (; slot.n_parts < LF_SLOT_PARTS_N && o->parts[slot.n_parts].pattern; slot.n_parts++) {
        slot.parts[slot.n_parts] = o->parts[slot.n_parts];
        slot.n_out += o->parts[slot.n_parts].n_rows;
    }
    struct lf_linear linear = {.weight = add_slot(r, &slot), .bias = LF_NONE};
    if (!o->bias) return linear;
    slot.is_vector = true;
    slot.n_in = 1;
    slot.suffix = is_stacked ? "_bias" : ".bias";
    slot.whole = NULL;
    slot.by_columns = false;
    linear.bias = add_slot(r, &slot);
    return linear;
}

static int add_vector(struct lf_recorder *r, int layer, const char *pattern, const char *suffix, int n, float add,
                      int n_heads)
{
    struct lf_slot slot = {.layer = layer,
                           .is_vector = true,
                           .add = add,
                           .n_out = n,
                           .n_in = 1,
                           .tied_to = LF_NONE,
                           .suffix = suffix,
                           .n_parts = 1,
                           .parts = {{.pattern = pattern, .n_rows = n}}};
    if (n_heads > 0) slot.shard = LF_SHARD_HEADS;
    if (n_heads > 0) slot.parts[0].runs[0] = (struct lf_slot_run){.n_rows = n, .n_heads = n_heads};
    return add_slot(r, &slot);
}

int lf_rec_vector(struct lf_recorder *r, int layer, const char *pattern, int n)
{
    return add_vector(r, layer, pattern, ".weight", n, 0, 0);
}

int lf_rec_vector_plus(struct lf_recorder *r, int layer, const char *pattern, int n, float add)
{
    return add_vector(r, layer, pattern, ".weight", n, add, 0);
}

int lf_rec_bare_vector(struct lf_recorder *r, int layer, const char *pattern, int n)
{
    return add_vector(r, layer, pattern, "", n, 0, 0);
}

int lf_rec_heads_vector(struct lf_recorder *r, int layer, const char *pattern, int n_heads)
{
    return add_vector(r, layer, pattern, "", n_heads, 0, n_heads);
}

int lf_rec_taps(struct lf_recorder *r, int layer, const char *pattern, const struct lf_delta_shape *d)
{
    int width = d->conv_width, slot = add_vector(r, layer, pattern, ".weight", lf_delta_channels(d) * width, 0, 0);
    struct lf_slot_run k = {.n_rows = d->n_k_heads * d->k_dim * width, .n_heads = d->n_k_heads};
    struct lf_slot_run runs[LF_SLOT_RUNS_N] = {
        k, k, {.n_rows = d->n_v_heads * d->v_dim * width, .n_heads = d->n_v_heads}};
    if (r->status != LF_OK) return slot;
    r->program.slots[slot].n_taps = width;
    r->program.slots[slot].shard = LF_SHARD_HEADS;
    memcpy(r->program.slots[slot].parts[0].runs, runs, sizeof(runs));
    return slot;
}

void lf_rec_tie(struct lf_recorder *r, struct lf_linear linear, struct lf_linear to)
{
    if (r->status == LF_OK) r->program.slots[linear.weight].tied_to = to.weight;
}

/* ---- ops ---- */

int lf_rec_embed(struct lf_recorder *r, struct lf_linear table)
{
    return lf_rec_embed_scaled(r, table, 1);
}

int lf_rec_embed_scaled(struct lf_recorder *r, struct lf_linear table, float scale)
{
    struct lf_op op = lf_op_init(LF_OP_EMBED, -1);
    op.scale = scale;
    op.weight[LF_OP_W] = table.weight;
    return add_op(r, op, (struct lf_value){.width = r->hp->hidden, .is_float = true});
}

int lf_rec_embed_columns(struct lf_recorder *r, int layer, struct lf_linear table, int column, int n, float scale)
{
    struct lf_op op = lf_op_init(LF_OP_EMBED, layer);
    op.scale = scale;
    op.column = column;
    op.weight[LF_OP_W] = table.weight;
    return add_op(r, op, (struct lf_value){.width = n, .is_float = true});
}

static int add_norm(struct lf_recorder *r, int x, int weight, int residual, int scale, bool is_float)
{
    struct lf_op op = lf_op_init(LF_OP_RMSNORM, -1);
    op.in[LF_OP_X] = x;
    op.in[LF_OP_RESIDUAL] = residual;
    op.weight[LF_OP_NORM] = weight;
    op.weight[LF_OP_SCALE] = scale;
    op.eps = r->hp->norm_eps;
    return add_op(r, op, (struct lf_value){.width = width_of(r, x), .is_float = is_float});
}

int lf_rec_rmsnorm(struct lf_recorder *r, int x, int weight)
{
    return add_norm(r, x, weight, LF_NONE, LF_NONE, false);
}

int lf_rec_norm_add(struct lf_recorder *r, int y, int weight, int residual)
{
    return add_norm(r, y, weight, residual, LF_NONE, true);
}

int lf_rec_norm_add_scaled(struct lf_recorder *r, int y, int weight, int residual, int scale)
{
    return add_norm(r, y, weight, residual, scale, true);
}

int lf_rec_round(struct lf_recorder *r, int x)
{
    struct lf_op op = lf_op_init(LF_OP_ROUND, -1);
    op.in[LF_OP_X] = x;
    return add_op(r, op, (struct lf_value){.width = width_of(r, x)});
}

static int add_gemm(struct lf_recorder *r, int x, struct lf_linear w, float alpha, int residual, struct lf_value y)
{
    struct lf_op op = lf_op_init(LF_OP_GEMM, -1);
    op.alpha = alpha;
    op.in[LF_OP_X] = x;
    op.in[LF_OP_RESIDUAL] = residual;
    op.weight[LF_OP_W] = w.weight;
    op.weight[LF_OP_BIAS] = w.bias;
    y.width = rows_of(r, w);
    return add_op(r, op, y);
}

int lf_rec_gemm(struct lf_recorder *r, int x, struct lf_linear w)
{
    return add_gemm(r, x, w, 1, LF_NONE, (struct lf_value){.is_float = false});
}

int lf_rec_gemm_float(struct lf_recorder *r, int x, struct lf_linear w)
{
    return add_gemm(r, x, w, 1, LF_NONE, (struct lf_value){.is_float = true});
}

int lf_rec_gemm_float_scaled(struct lf_recorder *r, int x, struct lf_linear w, float alpha)
{
    return add_gemm(r, x, w, alpha, LF_NONE, (struct lf_value){.is_float = true});
}

int lf_rec_gemm_add(struct lf_recorder *r, int x, struct lf_linear w, int residual)
{
    return lf_rec_gemm_add_scaled(r, x, w, 1, residual);
}

int lf_rec_gemm_add_scaled(struct lf_recorder *r, int x, struct lf_linear w, float alpha, int residual)
{
    return add_gemm(r, x, w, alpha, residual, (struct lf_value){.is_float = true});
}

int lf_rec_gate_mul(struct lf_recorder *r, int gate_up, enum lf_act act, float limit)
{
    struct lf_op op = lf_op_init(LF_OP_GATE_MUL, -1);
    op.in[LF_OP_X] = gate_up;
    op.act = act;
    op.limit = limit;
    return add_op(r, op, (struct lf_value){.each = each_of(r, gate_up), .width = width_of(r, gate_up) / 2});
}

int lf_rec_gate_mul_by(struct lf_recorder *r, int gate, int up, enum lf_act act)
{
    struct lf_op op = lf_op_init(LF_OP_GATE_MUL, -1);
    op.in[LF_OP_X] = gate;
    op.in[LF_OP_UP] = up;
    op.act = act;
    return add_op(r, op, (struct lf_value){.width = width_of(r, gate)});
}

/* Norm, rotation and scale of q. */
static struct lf_op rope_op(const struct lf_recorder *r, enum lf_op_kind kind, int layer, int x, int q_norm)
{
    struct lf_op op = lf_op_init(kind, layer);
    op.in[LF_OP_X] = x;
    op.weight[LF_OP_Q_NORM] = q_norm;
    op.eps = r->hp->norm_eps;
    op.norm_whole_row =
        r->status == LF_OK && q_norm != LF_NONE && r->program.slots[q_norm].n_out > lf_layer_head_dim(r->hp, layer);
    op.scales_q = r->hp->q_scale.beta > 0;
    op.rope = r->hp->layers[layer].rope;
    op.rotary_dim = r->hp->ropes[op.rope].rotary_dim;
    return op;
}

static int add_rope_append(struct lf_recorder *r, int layer, int qkv, int q_norm, int k_norm, bool v_norm, bool v_of_k)
{
    struct lf_op op = rope_op(r, LF_OP_ROPE_APPEND, layer, qkv, q_norm);
    op.v_norm = v_norm;
    op.v_of_k = v_of_k;
    op.weight[LF_OP_K_NORM] = k_norm;
    return add_op(r, op, (struct lf_value){.width = r->hp->n_heads * lf_layer_head_dim(r->hp, layer)});
}

int lf_rec_rope(struct lf_recorder *r, int layer, int q, int q_norm)
{
    struct lf_op op = rope_op(r, LF_OP_ROPE, layer, q, q_norm);
    op.window = r->hp->layers[layer].window;
    return add_op(r, op, (struct lf_value){.width = width_of(r, q)});
}

int lf_rec_rope_append(struct lf_recorder *r, int layer, int qkv, int q_norm, int k_norm)
{
    return add_rope_append(r, layer, qkv, q_norm, k_norm, false, false);
}

int lf_rec_rope_append_v_norm(struct lf_recorder *r, int layer, int qkv, int q_norm, int k_norm, bool v_of_k)
{
    return add_rope_append(r, layer, qkv, q_norm, k_norm, true, v_of_k);
}

int lf_rec_attention(struct lf_recorder *r, int layer, int q, int window)
{
    return lf_rec_sink_attention(r, layer, q, window, LF_NONE);
}

int lf_rec_sink_attention(struct lf_recorder *r, int layer, int q, int window, int sinks)
{
    struct lf_op op = lf_op_init(LF_OP_ATTENTION, layer);
    op.in[LF_OP_X] = q;
    op.weight[LF_OP_W] = sinks;
    op.scale = r->hp->attn_scale > 0 ? r->hp->attn_scale : 1.0f / sqrtf((float)lf_layer_head_dim(r->hp, layer));
    op.window = window;
    return add_op(r, op, (struct lf_value){.width = width_of(r, q)});
}

/* One more value that the op makes. */
static int add_output(struct lf_recorder *r, struct lf_value value)
{
    int out = 0;
    if (r->status == LF_OK) r->status = lf_program_add_value(&r->program, value, &out, &r->err);
    return r->status == LF_OK ? out : 0;
}

static struct lf_routing add_route(struct lf_recorder *r, int logits, int k, enum lf_route route, float scale,
                                   int expert_scale)
{
    struct lf_op op = lf_op_init(LF_OP_ROUTE, -1);
    op.weight[LF_OP_SCALE] = expert_scale;
    op.in[LF_OP_X] = logits;
    op.route = route;
    op.scale = scale;
    struct lf_routing routing = {.k = k};
    routing.routing = op.out[LF_OP_Y_ROUTING] = add_output(r, (struct lf_value){.width = 2 * k, .is_int = true});
    routing.first = op.out[LF_OP_Y_FIRST] =
        add_output(r, (struct lf_value){.rows = LF_ROWS_ONE, .width = width_of(r, logits) + 1, .is_int = true});
    routing.weights = add_op(r, op, (struct lf_value){.width = k, .is_float = true});
    return routing;
}

struct lf_routing lf_rec_route(struct lf_recorder *r, int logits, int k, enum lf_route route, float scale)
{
    return add_route(r, logits, k, route, scale, LF_NONE);
}

struct lf_routing lf_rec_route_scaled(struct lf_recorder *r, int logits, int k, enum lf_route route, int scale)
{
    return add_route(r, logits, k, route, 1, scale);
}

static int add_expert_gemm(struct lf_recorder *r, int x, struct lf_linear w, const struct lf_routing *routing,
                           bool is_float)
{
    struct lf_op op = lf_op_init(LF_OP_EXPERT_GEMM, -1);
    op.in[LF_OP_X] = x;
    op.in[LF_OP_ROUTING] = routing->routing;
    op.in[LF_OP_FIRST] = routing->first;
    op.weight[LF_OP_W] = w.weight;
    op.weight[LF_OP_BIAS] = w.bias;
    return add_op(r, op, (struct lf_value){.each = routing->k, .width = rows_of(r, w), .is_float = is_float});
}

int lf_rec_expert_gemm(struct lf_recorder *r, int x, struct lf_linear experts, const struct lf_routing *routing)
{
    return add_expert_gemm(r, x, experts, routing, false);
}

int lf_rec_expert_gemm_float(struct lf_recorder *r, int x, struct lf_linear experts, const struct lf_routing *routing)
{
    return add_expert_gemm(r, x, experts, routing, true);
}

int lf_rec_expert_sum(struct lf_recorder *r, int x, const struct lf_routing *routing, int residual)
{
    struct lf_op op = lf_op_init(LF_OP_EXPERT_SUM, -1);
    op.in[LF_OP_X] = x;
    op.in[LF_OP_RESIDUAL] = residual;
    op.in[LF_OP_ROUTING] = routing->routing;
    op.in[LF_OP_ROUTE_WEIGHTS] = routing->weights;
    return add_op(r, op, (struct lf_value){.width = width_of(r, x), .is_float = true});
}

int lf_rec_conv(struct lf_recorder *r, int layer, int x, int w)
{
    struct lf_op op = lf_op_init(LF_OP_CONV, layer);
    op.in[LF_OP_X] = x;
    op.weight[LF_OP_W] = w;
    op.delta = r->hp->delta;
    return add_op(r, op, (struct lf_value){.width = lf_delta_channels(&op.delta)});
}

int lf_rec_delta(struct lf_recorder *r, int layer, int qkv, int ba, int a_log, int dt)
{
    struct lf_op op = lf_op_init(LF_OP_DELTA, layer);
    op.in[LF_OP_X] = qkv;
    op.in[LF_OP_GATE] = ba;
    op.weight[LF_OP_W] = a_log;
    op.weight[LF_OP_BIAS] = dt;
    op.delta = r->hp->delta;
    return add_op(r, op, (struct lf_value){.width = op.delta.n_v_heads * op.delta.v_dim});
}

int lf_rec_gated_norm(struct lf_recorder *r, int x, int gate, int weight)
{
    struct lf_op op = lf_op_init(LF_OP_GATED_NORM, -1);
    op.in[LF_OP_X] = x;
    op.in[LF_OP_GATE] = gate;
    op.weight[LF_OP_NORM] = weight;
    op.eps = r->hp->norm_eps;
    return add_op(r, op, (struct lf_value){.width = width_of(r, x)});
}

int lf_rec_gate_sigmoid(struct lf_recorder *r, int x, int gate, int residual)
{
    struct lf_op op = lf_op_init(LF_OP_GATE_SIGMOID, -1);
    op.in[LF_OP_X] = x;
    op.in[LF_OP_GATE] = gate;
    op.in[LF_OP_RESIDUAL] = residual;
    bool is_float = r->status == LF_OK && r->program.values[x].is_float;
    return add_op(r, op, (struct lf_value){.width = width_of(r, x), .is_float = is_float});
}

void lf_rec_logits(struct lf_recorder *r, int x, struct lf_linear head)
{
    lf_rec_logits_scaled(r, x, head, 1);
}

void lf_rec_logits_scaled(struct lf_recorder *r, int x, struct lf_linear head, float alpha)
{
    r->program.logits = add_gemm(r, x, head, alpha, LF_NONE, (struct lf_value){.rows = LF_ROWS_OUT, .is_float = true});
}

void lf_rec_softcap(struct lf_recorder *r, float cap)
{
    struct lf_op op = lf_op_init(LF_OP_SOFTCAP, -1);
    op.in[LF_OP_X] = op.out[LF_OP_Y] = r->program.logits;
    op.softcap = cap;
    if (r->status == LF_OK) r->status = lf_program_insert(&r->program, r->program.n_ops, &op, &r->err);
}
