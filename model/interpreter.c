#include "model/interpreter.h"

#include "attention/rope.h"
#include "core/check.h"
#include "core/clock.h"

static size_t row_bytes(const struct lf_step *s, const struct lf_value *v)
{
    return (size_t)v->width * (size_t)lf_value_elem_bytes(v, lf_dtype_bytes(lf_device_info(s->dev)->act_dtype));
}

/* Own rows that are cut out stay where they are among all; where rows are not divided own rows are all, and nothing is
 * gathered. */
static void *at(const struct lf_step *s, int value)
{
    const struct lf_value *v = &s->program->values[value];
    size_t skipped = 0;
    while (v->rows_of != LF_NONE && (v->rows == LF_ROWS_OWN || !lf_split_divides(s->n_tokens, s->split))) {
        if (v->rows == LF_ROWS_OWN) skipped += (size_t)s->first_own * row_bytes(s, v);
        v = &s->program->values[v->rows_of];
    }
    return s->base + v->offset + skipped;
}

static const struct lf_weight *matrix(const struct lf_step *s, const struct lf_op *op)
{
    return &s->weights[op->weight[LF_OP_W]];
}

/* NULL where the op has none. */
static const float *vector(const struct lf_step *s, const struct lf_op *op, int place)
{
    return op->weight[place] == LF_NONE ? NULL : s->weights[op->weight[place]].data;
}

/* NULL where the op has none. */
static const float *residual(const struct lf_step *s, const struct lf_op *op)
{
    return op->in[LF_OP_RESIDUAL] == LF_NONE ? NULL : at(s, op->in[LF_OP_RESIDUAL]);
}

/* Tokens that the op computes in this step. */
/* Ranks that write into each other's memory are GPUs of one host. */
_Static_assert((int)LF_GPU_RANKS_N == (int)LF_ROPE_PEERS_N && (int)LF_GPU_RANKS_N == (int)LF_ATTN_OWNERS_N,
               "room for all of them");

static int n_tokens(const struct lf_step *s, const struct lf_op *op)
{
    enum lf_rows rows = s->program->values[op->out[LF_OP_Y]].rows;
    return rows == LF_ROWS_OUT ? s->n_out : rows == LF_ROWS_OWN ? s->n_own : s->n_tokens;
}

/* Rows of a value of the op's tokens: one a token, or one for each of its experts. */
static int n_rows_of(const struct lf_step *s, const struct lf_op *op, int value)
{
    return n_tokens(s, op) * LF_MAX(s->program->values[value].each, 1);
}

/* Those that the op makes. */
static int n_rows(const struct lf_step *s, const struct lf_op *op)
{
    return n_rows_of(s, op, op->out[LF_OP_Y]);
}

static bool fuses_norms(const struct lf_step *s, const struct lf_op *op)
{
    return n_rows(s, op) <= s->fused_norm_tokens;
}

/* A value as the GEMM of the matrix in a slot takes it: where codes are to be, if it takes them. */
static struct lf_x_codes codes_of(const struct lf_step *s, const struct lf_op *op, int slot, int value)
{
    const struct lf_ops *ops = lf_device_ops(s->dev);
    enum lf_fp8_scales by;
    if (slot == LF_NONE || !ops->quantizes_x(s->dev, &s->weights[slot], &by)) return (struct lf_x_codes){.codes = NULL};
    return lf_x_codes_at(at(s, value), n_rows_of(s, op, value), s->program->values[value].width, by);
}

struct lf_gemm_params lf_step_gemm_params(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_weight *w = matrix(s, op);
    return (struct lf_gemm_params){.y = at(s, op->out[LF_OP_Y]),
                                   .y_float = s->program->values[op->out[LF_OP_Y]].is_float,
                                   .x = at(s, op->in[LF_OP_X]),
                                   .w = w,
                                   .bias = vector(s, op, LF_OP_BIAS),
                                   .residual = residual(s, op),
                                   .alpha = op->alpha,
                                   .n_tokens = n_rows(s, op),
                                   .x_stride = w->n_in,
                                   .y_stride = w->n_out,
                                   .x_eps = op->x_eps,
                                   .scratch = s->base + s->ws->scratch};
}

/* With the prologue of a fused norm where the step has one. */
static struct lf_gemm_params gemm_params(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_gemm_params p = lf_step_gemm_params(s, op);
    if (op->in[LF_OP_X_SUM_SQUARES] != LF_NONE && fuses_norms(s, op))
        p.x_sum_squares = at(s, op->in[LF_OP_X_SUM_SQUARES]);
    if (op->x_codes) p.x_codes = codes_of(s, op, op->weight[LF_OP_W], op->in[LF_OP_X]);
    return p;
}

/* Tokens whose logits are wanted are picked by their ids where the op is among those that compute no others. */
static void embed(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_value *out = &s->program->values[op->out[LF_OP_Y]];
    struct lf_embed_params p = {.out = at(s, op->out[LF_OP_Y]),
                                .table = matrix(s, op),
                                .ids = (const int32_t *)(void *)(s->base + s->ws->ids),
                                .sampled = s->sampled,
                                .n_tokens = n_rows(s, op),
                                .scale = op->scale};
    if (out->rows == LF_ROWS_OWN) p.ids += s->first_own;
    if (out->rows == LF_ROWS_OUT) p.rows = (const int32_t *)(void *)(s->base + s->ws->logits_idx);
    p.is_part = op->first_id != LF_NONE;
    p.first_id = op->first_id;
    if (op->column != LF_NONE) {
        p.column = op->column;
        p.n_columns = out->width;
    }
    lf_device_ops(s->dev)->embed(s->dev, &p);
}

/* out = norm(x), with the op's weight and eps. */
static void run_norm(const struct lf_step *s, const struct lf_op *op, int x, int out, const float *residual)
{
    struct lf_rmsnorm_params p = {.out = at(s, out),
                                  .x = at(s, x),
                                  .weight = vector(s, op, LF_OP_NORM),
                                  .eps = op->eps,
                                  .n_tokens = n_rows(s, op),
                                  .dim = s->program->values[x].width,
                                  .residual = residual,
                                  .out_float = s->program->values[out].is_float,
                                  .scale = vector(s, op, LF_OP_SCALE),
                                  .codes = codes_of(s, op, op->codes_for, out)};
    lf_device_ops(s->dev)->rmsnorm(s->dev, &p);
}

static void rmsnorm(const struct lf_step *s, const struct lf_op *op)
{
    run_norm(s, op, op->in[LF_OP_X], op->out[LF_OP_Y], residual(s, op));
}

static struct lf_fused_norm fused_norm(const struct lf_step *s, const struct lf_op *op)
{
    return (struct lf_fused_norm){.h = at(s, op->out[LF_OP_Y2]),
                                  .weight = vector(s, op, LF_OP_NORM),
                                  .sum_squares = at(s, op->out[LF_OP_Y_SUM_SQUARES])};
}

/* Followed by the norm of y where the op has one: half of it is the epilogue where it can be. */
static void gemm(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_gemm_params p = gemm_params(s, op);
    bool has_norm = op->weight[LF_OP_NORM] != LF_NONE, is_fused = has_norm && fuses_norms(s, op);
    if (is_fused) p.norm = fused_norm(s, op);
    lf_device_ops(s->dev)->gemm(s->dev, &p);
    if (has_norm && !is_fused) run_norm(s, op, op->out[LF_OP_Y], op->out[LF_OP_Y2], NULL);
}

static struct lf_gate_mul_params gate_params(const struct lf_step *s, const struct lf_op *op, int gate_up, int out)
{
    return (struct lf_gate_mul_params){.out = at(s, out),
                                       .gate_up = at(s, gate_up),
                                       .n_tokens = n_rows(s, op),
                                       .dim = s->program->values[out].width,
                                       .act = op->act,
                                       .limit = op->limit,
                                       .up = op->in[LF_OP_UP] == LF_NONE ? NULL : at(s, op->in[LF_OP_UP]),
                                       .codes = codes_of(s, op, op->codes_for, out)};
}

static void gate_mul(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_gate_mul_params p = gate_params(s, op, op->in[LF_OP_X], op->out[LF_OP_Y]);
    lf_device_ops(s->dev)->gate_mul(s->dev, &p);
}

static void gemm_gate_mul(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_gemm_params p = gemm_params(s, op);
    struct lf_gate_mul_params gate = gate_params(s, op, op->out[LF_OP_Y], op->out[LF_OP_Y2]);
    lf_device_ops(s->dev)->gemm_gate_mul(s->dev, &p, &gate);
}

static const float *table_at(const struct lf_step *s, uint64_t offset)
{
    return (const float *)(const void *)(s->base + offset);
}

static struct lf_kv_place place_of(const struct lf_step *s, const struct lf_op *op)
{
    return s->kinds->layout.places[op->layer];
}

static struct lf_rope_append_params rope_params(const struct lf_step *s, const struct lf_op *op, int qkv, int q)
{
    const struct lf_kv_view *kv = &s->kv[place_of(s, op).group];
    return (struct lf_rope_append_params){.q_out = at(s, q),
                                          .qkv = at(s, qkv),
                                          .q_norm = vector(s, op, LF_OP_Q_NORM),
                                          .k_norm = vector(s, op, LF_OP_K_NORM),
                                          .norm_whole_row = op->norm_whole_row,
                                          .v_norm = op->v_norm,
                                          .v_of_k = op->v_of_k,
                                          .norm_eps = op->eps,
                                          .table = table_at(s, s->ws->ropes[op->rope]),
                                          .q_scale = op->scales_q ? table_at(s, s->ws->q_scale) : NULL,
                                          .n_tokens = s->n_tokens,
                                          .rotary_dim = op->rotary_dim,
                                          .n_heads = s->program->values[q].width / kv->head_dim,
                                          .kv = kv,
                                          .layer = place_of(s, op).layer,
                                          .schedule_idx = lf_layer_kind_of_append(s->kinds, op->layer)->schedule_idx};
}

static struct lf_attn *attn_of_append(const struct lf_step *s, const struct lf_op *op)
{
    return s->attn[lf_layer_kind_of_append(s->kinds, op->layer)->shape_idx];
}

/* Whether ranks write rows of this value where they belong: the step's are divided, and there is memory that all of
 * them have opened. */
static bool goes_direct(const struct lf_step *s, int value)
{
    return s->program->values[value].goes_direct && lf_split_divides(s->n_tokens, s->split) &&
           lf_comm_peer(s->cp, s->split->cp_rank, s->base);
}

/* Of own rows, queries of which go to all ranks, keys and values to where their stripe is. The others are done with
 * what is there before, and all has come behind it. */
static void rope_own_rows(const struct lf_step *s, const struct lf_op *op, struct lf_attn *attn,
                          struct lf_rope_append_params *p)
{
    p->qkv = at(s, s->program->values[op->in[LF_OP_X]].rows_of);
    p->n_tokens = s->n_own;
    p->first_row = s->first_own;
    p->peers.n = lf_split_n_cp(s->split);
    for (int r = 0; r < p->peers.n; r++) {
        p->peers.q_out[r] = lf_comm_peer(s->cp, r, p->q_out);
        p->peers.kv[r] = lf_comm_peer(s->cp, r, p->kv->base);
    }
    lf_comm_barrier(s->cp);
    lf_rope_append(attn, p);
    lf_comm_barrier(s->cp);
}

static void run_rope(const struct lf_step *s, const struct lf_op *op, struct lf_attn *attn,
                     struct lf_rope_append_params *p)
{
    if (goes_direct(s, op->in[LF_OP_X]))
        rope_own_rows(s, op, attn, p);
    else
        lf_rope_append(attn, p);
}

static void rope_append(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_rope_append_params p = rope_params(s, op, op->in[LF_OP_X], op->out[LF_OP_Y]);
    run_rope(s, op, attn_of_append(s, op), &p);
}

static void gemm_rope_append(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_gemm_params qkv = gemm_params(s, op);
    struct lf_rope_append_params p = rope_params(s, op, op->out[LF_OP_Y], op->out[LF_OP_Y2]);
    lf_gemm_rope_append(attn_of_append(s, op), &qkv, &p);
}

/* Of the layer's attention object, for the rows that the op computes. */
static int schedule_of(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_layer_kind *kind = lf_layer_kind_of(s->kinds, op->layer, op->window);
    bool of_picked = s->program->values[op->out[LF_OP_Y]].rows == LF_ROWS_OUT;
    return of_picked ? kind->tail_idx : kind->schedule_idx;
}

static void rope(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_rope_append_params p = rope_params(s, op, op->in[LF_OP_X], op->out[LF_OP_Y]);
    p.q_only = true;
    p.n_tokens = n_rows(s, op);
    p.schedule_idx = schedule_of(s, op);
    run_rope(s, op, s->attn[lf_layer_kind_of(s->kinds, op->layer, op->window)->shape_idx], &p);
}

/* Whether attention writes each row to the rank that has it: behind one another lie what all ranks have made of those,
 * for which there is room. */
static bool writes_to_owners(const struct lf_step *s, int partial)
{
    int n_cp = lf_split_n_cp(s->split);
    bool is_of_all = s->program->values[partial].rows == LF_ROWS_TOKENS;
    return is_of_all && goes_direct(s, partial) && n_cp * lf_split_first(s->n_tokens, 1, n_cp) <= s->most_tokens;
}

static struct lf_attn_owners owners_of(const struct lf_step *s, const struct lf_op *op)
{
    int partial = op->out[LF_OP_Y], lse = op->out[LF_OP_Y_LSE];
    struct lf_attn_owners owners = {.n = lf_split_n_cp(s->split)};
    size_t out_bytes = row_bytes(s, &s->program->values[partial]), lse_bytes = row_bytes(s, &s->program->values[lse]);
    for (int r = 0; r <= owners.n; r++) owners.first[r] = lf_split_first(s->n_tokens, r, owners.n);
    for (int r = 0; r < owners.n; r++) {
        size_t before = (size_t)s->split->cp_rank * (size_t)(owners.first[r + 1] - owners.first[r]);
        owners.out[r] = (char *)lf_comm_peer(s->cp, r, at(s, partial)) + before * out_bytes;
        owners.lse[r] = (float *)(void *)((char *)lf_comm_peer(s->cp, r, at(s, lse)) + before * lse_bytes);
    }
    return owners;
}

static void attention(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_layer_kind *kind = lf_layer_kind_of(s->kinds, op->layer, op->window);
    struct lf_attn_params p = {.out = at(s, op->out[LF_OP_Y]),
                               .q = at(s, op->in[LF_OP_X]),
                               .lse = op->out[LF_OP_Y_LSE] == LF_NONE ? NULL : at(s, op->out[LF_OP_Y_LSE]),
                               .kv = &s->kv[place_of(s, op).group],
                               .layer = place_of(s, op).layer,
                               .scale = op->scale,
                               .softcap = op->softcap,
                               .window = op->window,
                               .sinks = vector(s, op, LF_OP_W)};
    if (writes_to_owners(s, op->out[LF_OP_Y])) p.owners = owners_of(s, op);
    lf_attn_run(s->attn[kind->shape_idx], schedule_of(s, op), &p);
}

static void pick(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_value *v = &s->program->values[op->in[LF_OP_X]];
    struct lf_gather_params p = {.out = at(s, op->out[LF_OP_Y]),
                                 .x = at(s, op->in[LF_OP_X]),
                                 .rows = (const int32_t *)(void *)(s->base + s->ws->logits_idx),
                                 .n_rows = s->n_out,
                                 .dim = v->width,
                                 .dtype = v->is_float ? LF_F32 : lf_device_info(s->dev)->act_dtype};
    lf_device_ops(s->dev)->gather(s->dev, &p);
}

static void softcap(const struct lf_step *s, const struct lf_op *op)
{
    int64_t width = s->program->values[op->out[LF_OP_Y]].width;
    struct lf_softcap_params p = {.x = at(s, op->out[LF_OP_Y]), .n = n_rows(s, op) * width, .cap = op->softcap};
    lf_device_ops(s->dev)->softcap(s->dev, &p);
}

static void round_floats(const struct lf_step *s, const struct lf_op *op)
{
    int64_t width = s->program->values[op->out[LF_OP_Y]].width;
    struct lf_round_params p = {
        .out = at(s, op->out[LF_OP_Y]), .x = at(s, op->in[LF_OP_X]), .n = n_rows(s, op) * width};
    lf_device_ops(s->dev)->round(s->dev, &p);
}

/* Routing is two arrays of so many, one behind the other. */
static int32_t *routing_rows(const struct lf_step *s, int routing)
{
    return at(s, routing);
}

static int32_t *routing_places(const struct lf_step *s, int routing, int n_tokens)
{
    return (int32_t *)at(s, routing) + (size_t)n_tokens * (size_t)(s->program->values[routing].width / 2);
}

static void route(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_route_params p = {.logits = at(s, op->in[LF_OP_X]),
                                .route = op->route,
                                .n_tokens = n_tokens(s, op),
                                .n_experts = s->program->values[op->in[LF_OP_X]].width,
                                .k = s->program->values[op->out[LF_OP_Y]].width,
                                .scale = op->scale,
                                .expert_scale = vector(s, op, LF_OP_SCALE),
                                .weights = at(s, op->out[LF_OP_Y]),
                                .rows = routing_rows(s, op->out[LF_OP_Y_ROUTING]),
                                .places = routing_places(s, op->out[LF_OP_Y_ROUTING], n_tokens(s, op)),
                                .first = at(s, op->out[LF_OP_Y_FIRST])};
    lf_device_ops(s->dev)->route(s->dev, &p);
}

static void expert_gemm(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_value *y = &s->program->values[op->out[LF_OP_Y]];
    struct lf_expert_gemm_params p = {.y = at(s, op->out[LF_OP_Y]),
                                      .y_float = y->is_float,
                                      .x = at(s, op->in[LF_OP_X]),
                                      .x_by_token = s->program->values[op->in[LF_OP_X]].each == 0,
                                      .w = matrix(s, op),
                                      .bias = vector(s, op, LF_OP_BIAS),
                                      .rows = routing_rows(s, op->in[LF_OP_ROUTING]),
                                      .first = at(s, op->in[LF_OP_FIRST]),
                                      .n_tokens = n_tokens(s, op),
                                      .k = y->each,
                                      .scratch = s->base + s->ws->scratch};
    if (op->x_codes) p.x_codes = codes_of(s, op, op->weight[LF_OP_W], op->in[LF_OP_X]);
    lf_device_ops(s->dev)->expert_gemm(s->dev, &p);
}

static void expert_sum(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_value *x = &s->program->values[op->in[LF_OP_X]];
    struct lf_expert_sum_params p = {.y = at(s, op->out[LF_OP_Y]),
                                     .residual = residual(s, op),
                                     .x = at(s, op->in[LF_OP_X]),
                                     .weights = at(s, op->in[LF_OP_ROUTE_WEIGHTS]),
                                     .places = routing_places(s, op->in[LF_OP_ROUTING], n_tokens(s, op)),
                                     .n_tokens = n_tokens(s, op),
                                     .k = x->each,
                                     .dim = x->width};
    lf_device_ops(s->dev)->expert_sum(s->dev, &p);
}

static struct lf_state_view state_of(const struct lf_step *s, const struct lf_op *op)
{
    return s->states[place_of(s, op).layer];
}

static void conv(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_conv_params p = {.y = at(s, op->out[LF_OP_Y]),
                               .x = at(s, op->in[LF_OP_X]),
                               .x_stride = s->program->values[op->in[LF_OP_X]].width,
                               .w = vector(s, op, LF_OP_W),
                               .n_tokens = s->n_tokens,
                               .shape = op->delta,
                               .state = state_of(s, op),
                               .step = &s->state_step};
    lf_device_ops(s->dev)->conv(s->dev, &p);
}

static void delta(const struct lf_step *s, const struct lf_op *op)
{
    struct lf_delta_params p = {.out = at(s, op->out[LF_OP_Y]),
                                .qkv = at(s, op->in[LF_OP_X]),
                                .ba = at(s, op->in[LF_OP_GATE]),
                                .a_log = vector(s, op, LF_OP_W),
                                .dt = vector(s, op, LF_OP_BIAS),
                                .n_tokens = s->n_tokens,
                                .shape = op->delta,
                                .state = state_of(s, op),
                                .step = &s->state_step,
                                .scratch = s->base + s->ws->scratch};
    lf_device_ops(s->dev)->delta(s->dev, &p);
}

static void gated_norm(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_value *gate = &s->program->values[op->in[LF_OP_GATE]];
    int width = s->program->values[op->out[LF_OP_Y]].width, dim = s->weights[op->weight[LF_OP_NORM]].n_out;
    size_t act_bytes = lf_dtype_bytes(lf_device_info(s->dev)->act_dtype);
    struct lf_gated_norm_params p = {.out = at(s, op->out[LF_OP_Y]),
                                     .x = at(s, op->in[LF_OP_X]),
                                     .gate = (const char *)at(s, op->in[LF_OP_GATE]) +
                                             (size_t)(gate->width - width) * act_bytes,
                                     .gate_stride = gate->width,
                                     .weight = vector(s, op, LF_OP_NORM),
                                     .eps = op->eps,
                                     .n_tokens = n_rows(s, op),
                                     .n_heads = width / dim,
                                     .dim = dim};
    lf_device_ops(s->dev)->gated_norm(s->dev, &p);
}

static void gate_sigmoid(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_value *y = &s->program->values[op->out[LF_OP_Y]];
    struct lf_gate_sigmoid_params p = {.out = at(s, op->out[LF_OP_Y]),
                                       .x = at(s, op->in[LF_OP_X]),
                                       .is_float = y->is_float,
                                       .gate = at(s, op->in[LF_OP_GATE]),
                                       .of_token = s->program->values[op->in[LF_OP_GATE]].is_float,
                                       .residual = residual(s, op),
                                       .n_tokens = n_rows(s, op),
                                       .dim = y->width};
    lf_device_ops(s->dev)->gate_sigmoid(s->dev, &p);
}

/* Followed by the norm of y, as a gemm is. */
static void all_reduce(const struct lf_step *s, const struct lf_op *op)
{
    size_t width = (size_t)s->program->values[op->out[LF_OP_Y]].width;
    struct lf_all_reduce_params p = {.y = at(s, op->out[LF_OP_Y]),
                                     .x = at(s, op->in[LF_OP_X]),
                                     .residual = residual(s, op),
                                     .n = (size_t)n_rows(s, op) * width,
                                     .width = (int)width};
    bool has_norm = op->weight[LF_OP_NORM] != LF_NONE, is_fused = has_norm && fuses_norms(s, op);
    if (is_fused) p.norm = fused_norm(s, op);
    lf_comm_all_reduce(s->comm, &p);
    if (has_norm && !is_fused) run_norm(s, op, op->out[LF_OP_Y], op->out[LF_OP_Y2], NULL);
}

/* Columns that are cut anywhere. */
static void all_gather(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_value *y = &s->program->values[op->out[LF_OP_Y]];
    size_t first[LF_RANKS_N + 1];
    int n_ranks = lf_comm_n_ranks(s->comm);
    uint64_t elem_bytes = lf_value_elem_bytes(y, lf_dtype_bytes(lf_device_info(s->dev)->act_dtype));
    for (int r = 0; r <= n_ranks; r++) first[r] = (size_t)lf_split_first(y->width, r, n_ranks) * elem_bytes;
    struct lf_all_gather_params p = {
        .out = at(s, op->out[LF_OP_Y]), .x = at(s, op->in[LF_OP_X]), .first = first, .n_rows = n_rows(s, op)};
    lf_comm_all_gather(s->comm, &p);
}

/* ---- contexts over ranks ---- */

static void gather_rows(const struct lf_step *s, const struct lf_op *op)
{
    size_t first[LF_RANKS_N + 1], n = row_bytes(s, &s->program->values[op->out[LF_OP_Y]]);
    int n_cp = lf_split_n_cp(s->split);
    if (!lf_split_divides(s->n_tokens, s->split)) return; /* they are there: at() */
    if (goes_direct(s, op->out[LF_OP_Y])) return;         /* rope_own_rows */
    for (int r = 0; r <= n_cp; r++) first[r] = (size_t)lf_split_first(s->n_tokens, r, n_cp) * n;
    struct lf_all_gather_params p = {
        .out = at(s, op->out[LF_OP_Y]), .x = at(s, op->in[LF_OP_X]), .first = first, .n_rows = 1};
    lf_comm_all_gather(s->cp, &p);
}

/* They are there: at(). */
static void slice_rows(const struct lf_step *s, const struct lf_op *op)
{
    (void)s;
    (void)op;
}

/* To each rank its own rows, or all of them where each has all, or where they are picked. */
static void lse_combine(const struct lf_step *s, const struct lf_op *op)
{
    const struct lf_value *values = s->program->values, *y = &values[op->out[LF_OP_Y]];
    int first[LF_RANKS_N + 1], n_cp = lf_split_n_cp(s->split), n_heads = values[op->in[LF_OP_LSE]].width;
    bool is_divided = y->rows == LF_ROWS_OWN && lf_split_divides(s->n_tokens, s->split);
    for (int r = 0; r <= n_cp; r++) first[r] = lf_split_first(s->n_tokens, r, n_cp);
    struct lf_lse_combine_params p = {.out = at(s, op->out[LF_OP_Y]),
                                      .x = at(s, op->in[LF_OP_X]),
                                      .lse = at(s, op->in[LF_OP_LSE]),
                                      .dtype = lf_device_info(s->dev)->act_dtype,
                                      .first = is_divided ? first : NULL,
                                      .n_rows = y->rows == LF_ROWS_OUT ? s->n_out : s->n_tokens,
                                      .n_heads = n_heads,
                                      .dim = y->width / n_heads};
    if (writes_to_owners(s, op->in[LF_OP_X])) {
        p.is_here = true;
        p.first = NULL;
        p.n_rows = s->n_own;
    }
    lf_comm_lse_combine(s->cp, &p);
}

static void run_op(const struct lf_step *s, const struct lf_op *op)
{
    static void (*const run[LF_OP_KINDS_N])(const struct lf_step *, const struct lf_op *) = {
        [LF_OP_EMBED] = embed,
        [LF_OP_RMSNORM] = rmsnorm,
        [LF_OP_GEMM] = gemm,
        [LF_OP_GATE_MUL] = gate_mul,
        [LF_OP_ROPE_APPEND] = rope_append,
        [LF_OP_ROPE] = rope,
        [LF_OP_ATTENTION] = attention,
        [LF_OP_PICK] = pick,
        [LF_OP_SOFTCAP] = softcap,
        [LF_OP_ROUND] = round_floats,
        [LF_OP_ROUTE] = route,
        [LF_OP_EXPERT_GEMM] = expert_gemm,
        [LF_OP_EXPERT_SUM] = expert_sum,
        [LF_OP_CONV] = conv,
        [LF_OP_DELTA] = delta,
        [LF_OP_GATED_NORM] = gated_norm,
        [LF_OP_GATE_SIGMOID] = gate_sigmoid,
        [LF_OP_ALL_REDUCE] = all_reduce,
        [LF_OP_ALL_GATHER] = all_gather,
        [LF_OP_GATHER_ROWS] = gather_rows,
        [LF_OP_SLICE_ROWS] = slice_rows,
        [LF_OP_LSE_COMBINE] = lse_combine,
        [LF_OP_GEMM_GATE_MUL] = gemm_gate_mul,
        [LF_OP_GEMM_ROPE_APPEND] = gemm_rope_append,
    };
    run[op->kind](s, op);
}

void lf_interpret(const struct lf_step *s)
{
    for (int i = 0; i < s->program->n_ops; i++) run_op(s, &s->program->ops[i]);
}

enum lf_status lf_interpret_timed(const struct lf_step *s, double *seconds, struct lf_err *err)
{
    LF_TRY(lf_device_sync(s->dev, err));
    for (int i = 0; i < s->program->n_ops; i++) {
        int64_t start = lf_clock_ns();
        run_op(s, &s->program->ops[i]);
        LF_TRY(lf_device_sync(s->dev, err));
        seconds[i] = LF_MIN(seconds[i], (double)(lf_clock_ns() - start) / LF_NS_PER_S);
    }
    return LF_OK;
}
