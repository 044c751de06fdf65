/* Whether a program means what its shapes say. A defect of a family's file, not of a model: that the tensors have the
 * shapes of the slots is checked where they are found (weights.c). */
#include "core/check.h"
#include "core/limits.h"
#include "model/passes/passes.h"

struct check {
    const struct lf_program *p;
    const struct lf_slot *slots;
    int n_slots, op_idx;
    struct lf_err *err;
};

static enum lf_status wrong(const struct check *c, const char *what, int have, int expected)
{
    const struct lf_op *op = &c->p->ops[c->op_idx];
    return lf_fail(c->err, LF_CORRUPT, "op %d of the program, %s of layer %d: %s is %d, expected %d", c->op_idx,
                   lf_op_name(op->kind), op->layer, what, have, expected);
}

/* An input is a value that an op before it has made. */
static enum lf_status check_input(const struct check *c, int value)
{
    bool is_made = false;
    if (value < 0 || value >= c->p->n_values) return wrong(c, "an input", value, c->p->n_values - 1);
    for (int i = c->op_idx - 1; i >= 0 && !is_made; i--) /* mostly by one just before it */
        for (int k = 0; k < LF_OP_OUTPUTS_N; k++) is_made |= c->p->ops[i].out[k] == value;
    return is_made ? LF_OK : wrong(c, "the number of ops that make its input", 0, 1);
}

static int width(const struct check *c, int value)
{
    return c->p->values[value].width;
}

static enum lf_status check_vector(const struct check *c, int place, int n, const char *what)
{
    int slot = c->p->ops[c->op_idx].weight[place];
    if (slot == LF_NONE) return LF_OK;
    if (slot < 0 || slot >= c->n_slots || !c->slots[slot].is_vector) return wrong(c, "a vector's slot", slot, 0);
    return c->slots[slot].n_out == n ? LF_OK : wrong(c, what, c->slots[slot].n_out, n);
}

/* A number for each head, and heads are equally wide. */
static enum lf_status check_sinks(const struct check *c, const struct lf_op *op)
{
    int slot = op->weight[LF_OP_W], x = width(c, op->in[LF_OP_X]);
    if (slot == LF_NONE) return LF_OK;
    if (slot < 0 || slot >= c->n_slots || !c->slots[slot].is_vector) return wrong(c, "the slot of its sinks", slot, 0);
    int n = c->slots[slot].n_out;
    return x % n == 0 ? LF_OK : wrong(c, "what its sinks leave of its width", x % n, 0);
}

/* A float for each head, of the same rows. */
static enum lf_status check_lse(const struct check *c, int lse, int x)
{
    const struct lf_value *values = c->p->values;
    if (lse < 0 || lse >= c->p->n_values) return wrong(c, "its lse", lse, 0);
    if (!values[lse].is_float || values[lse].rows != values[x].rows)
        return wrong(c, "an lse of float for each row", 0, 1);
    bool fits = values[lse].width > 0 && values[x].width % values[lse].width == 0;
    return fits ? LF_OK : wrong(c, "the width of its lse", values[lse].width, 1);
}

/* Between rows of all tokens and a rank's own: the same otherwise. */
static enum lf_status check_rows(const struct check *c, const struct lf_op *op)
{
    const struct lf_value *x = &c->p->values[op->in[LF_OP_X]], *y = &c->p->values[op->out[LF_OP_Y]];
    bool gathers = op->kind == LF_OP_GATHER_ROWS;
    enum lf_rows from = gathers ? LF_ROWS_OWN : LF_ROWS_TOKENS, to = gathers ? LF_ROWS_TOKENS : LF_ROWS_OWN;
    if (x->rows != from || y->rows != to) return wrong(c, "its kinds of rows", x->rows, from);
    if (x->is_float != y->is_float || x->is_int != y->is_int) return wrong(c, "an output of its input's type", 0, 1);
    return x->width == y->width ? LF_OK : wrong(c, "the width of its output", y->width, x->width);
}

/* What is added to y. */
static enum lf_status check_residual(const struct check *c, const struct lf_op *op)
{
    int y = op->out[LF_OP_Y], residual = op->in[LF_OP_RESIDUAL];
    if (residual == LF_NONE) return LF_OK;
    LF_TRY(check_input(c, residual));
    if (width(c, residual) != width(c, y))
        return wrong(c, "the width of its residual", width(c, residual), width(c, y));
    bool is_float = c->p->values[y].is_float && c->p->values[residual].is_float;
    return is_float ? LF_OK : wrong(c, "a residual of float", 0, 1);
}

/* Of each head of q or of all at once. */
static enum lf_status check_q_norm(const struct check *c, const struct lf_op *op, int n_q)
{
    int q_norm = op->weight[LF_OP_Q_NORM];
    int of_head = q_norm >= 0 && q_norm < c->n_slots ? c->slots[q_norm].n_out : 0;
    return check_vector(c, LF_OP_Q_NORM, op->norm_whole_row ? n_q : of_head, "the length of its q_norm");
}

/* From qkv to q; norms are of each head or of all heads of q, of k. */
static enum lf_status check_rope_append(const struct check *c, const struct lf_op *op, int qkv, int q)
{
    int n_q = width(c, q), n_k = (width(c, qkv) - n_q) / (op->v_of_k ? 1 : 2);
    if (n_k <= 0) return wrong(c, "the width of its input", width(c, qkv), n_q + 2);
    if (op->weight[LF_OP_Q_NORM] == LF_NONE) return LF_OK;
    int q_norm = op->weight[LF_OP_Q_NORM];
    int of_head = q_norm >= 0 && q_norm < c->n_slots ? c->slots[q_norm].n_out : 0;
    LF_TRY(check_q_norm(c, op, n_q));
    return check_vector(c, LF_OP_K_NORM, op->norm_whole_row ? n_k : of_head, "the length of its k_norm");
}

static enum lf_status check_gemm(const struct check *c, const struct lf_op *op)
{
    int w = op->weight[LF_OP_W], y = op->out[LF_OP_Y];
    if (w < 0 || w >= c->n_slots || c->slots[w].is_vector || c->slots[w].n_experts > 0)
        return wrong(c, "its matrix's slot", w, 0);
    if (c->slots[w].n_in != width(c, op->in[LF_OP_X]))
        return wrong(c, "the width of its input", width(c, op->in[LF_OP_X]), c->slots[w].n_in);
    if (c->slots[w].n_out != width(c, y)) return wrong(c, "the width of its output", width(c, y), c->slots[w].n_out);
    if (c->p->values[op->in[LF_OP_X]].is_float) return wrong(c, "an input of float", 1, 0);
    LF_TRY(check_vector(c, LF_OP_BIAS, c->slots[w].n_out, "the length of its bias"));
    if (op->kind == LF_OP_GEMM_ROPE_APPEND) LF_TRY(check_rope_append(c, op, y, op->out[LF_OP_Y2]));
    return check_residual(c, op);
}

/* Whether a value is the k for each token, or the one for all, of this width, that routing is made of. */
static enum lf_status check_ints(const struct check *c, int value, bool is_one, int n)
{
    LF_TRY(check_input(c, value));
    const struct lf_value *v = &c->p->values[value];
    if (!v->is_int || (v->rows == LF_ROWS_ONE) != is_one || v->each != 0) return wrong(c, "a value of routing", 0, 1);
    return v->width == n ? LF_OK : wrong(c, "the width of its routing", v->width, n);
}

static enum lf_status check_route(const struct check *c, const struct lf_op *op)
{
    const struct lf_value *values = c->p->values, *logits = &values[op->in[LF_OP_X]], *y = &values[op->out[LF_OP_Y]];
    int routing = op->out[LF_OP_Y_ROUTING], first = op->out[LF_OP_Y_FIRST];
    if (!logits->is_float || !y->is_float) return wrong(c, "logits and weights of float", 0, 1);
    if (y->width < 1 || y->width > LF_MIN(logits->width, LF_EXPERTS_PER_TOKEN_N))
        return wrong(c, "its number of experts a token", y->width, LF_MIN(logits->width, LF_EXPERTS_PER_TOKEN_N));
    if (routing == LF_NONE || first == LF_NONE || !values[routing].is_int || !values[first].is_int)
        return wrong(c, "the number of its outputs", 1, 3);
    if (values[routing].width != 2 * y->width) return wrong(c, "the width of its routing", values[routing].width, 0);
    LF_TRY(check_vector(c, LF_OP_SCALE, logits->width, "the length of its scale"));
    bool is_first = values[first].rows == LF_ROWS_ONE && values[first].width == logits->width + 1;
    return is_first ? LF_OK : wrong(c, "the width of its list of first rows", values[first].width, logits->width + 1);
}

static enum lf_status check_expert_gemm(const struct check *c, const struct lf_op *op)
{
    int w = op->weight[LF_OP_W], x = op->in[LF_OP_X];
    const struct lf_value *y = &c->p->values[op->out[LF_OP_Y]];
    if (w < 0 || w >= c->n_slots || c->slots[w].is_vector || c->slots[w].n_experts < 1)
        return wrong(c, "its matrices' slot", w, 0);
    const struct lf_slot *slot = &c->slots[w];
    if (slot->n_in != width(c, x)) return wrong(c, "the width of its input", width(c, x), slot->n_in);
    if (slot->n_out != y->width) return wrong(c, "the width of its output", y->width, slot->n_out);
    if (c->p->values[x].is_float || c->p->values[x].is_int) return wrong(c, "an input of float", 1, 0);
    if (y->each < 1 || (c->p->values[x].each != 0 && c->p->values[x].each != y->each))
        return wrong(c, "its number of rows a token", y->each, c->p->values[x].each);
    int bias = op->weight[LF_OP_BIAS];
    LF_TRY(check_vector(c, LF_OP_BIAS, slot->n_out, "the length of its bias"));
    if (bias != LF_NONE && c->slots[bias].n_experts != slot->n_experts)
        return wrong(c, "the number of its biases", c->slots[bias].n_experts, slot->n_experts);
    LF_TRY(check_ints(c, op->in[LF_OP_ROUTING], false, 2 * y->each));
    return check_ints(c, op->in[LF_OP_FIRST], true, slot->n_experts + 1);
}

static enum lf_status check_expert_sum(const struct check *c, const struct lf_op *op)
{
    const struct lf_value *values = c->p->values, *x = &values[op->in[LF_OP_X]], *y = &values[op->out[LF_OP_Y]];
    int weights = op->in[LF_OP_ROUTE_WEIGHTS];
    if (x->width != y->width) return wrong(c, "the width of its output", y->width, x->width);
    if (!x->is_float || !y->is_float || x->each < 1 || y->each != 0) return wrong(c, "expert rows of float", 0, 1);
    LF_TRY(check_ints(c, op->in[LF_OP_ROUTING], false, 2 * x->each));
    LF_TRY(check_input(c, weights));
    if (!values[weights].is_float || values[weights].width != x->each)
        return wrong(c, "the number of its weights", values[weights].width, x->each);
    return check_residual(c, op);
}

/* A value of act_dtype, or of float. */
static enum lf_status check_type(const struct check *c, int value, bool is_float, const char *what)
{
    const struct lf_value *v = &c->p->values[value];
    return v->is_float == is_float && !v->is_int ? LF_OK : wrong(c, what, v->is_float, is_float);
}

/* A vector that must be there. */
static enum lf_status need_vector(const struct check *c, int place, int n, const char *what)
{
    if (c->p->ops[c->op_idx].weight[place] == LF_NONE) return wrong(c, what, 0, n);
    return check_vector(c, place, n, what);
}

static enum lf_status check_conv(const struct check *c, const struct lf_op *op)
{
    int x = op->in[LF_OP_X], y = op->out[LF_OP_Y], n = lf_delta_channels(&op->delta);
    if (width(c, y) != n || n < 1) return wrong(c, "the width of its output", width(c, y), n);
    if (width(c, x) < n) return wrong(c, "the width of its input", width(c, x), n);
    LF_TRY(check_type(c, x, false, "an input of float"));
    LF_TRY(check_type(c, y, false, "an output of float"));
    return need_vector(c, LF_OP_W, n * op->delta.conv_width, "the length of its taps");
}

static enum lf_status check_delta(const struct check *c, const struct lf_op *op)
{
    int qkv = op->in[LF_OP_X], ba = op->in[LF_OP_GATE], y = op->out[LF_OP_Y], n_heads = op->delta.n_v_heads;
    LF_TRY(check_input(c, ba));
    if (width(c, qkv) != lf_delta_channels(&op->delta))
        return wrong(c, "the width of its input", width(c, qkv), lf_delta_channels(&op->delta));
    if (width(c, ba) != 2 * n_heads) return wrong(c, "the width of b and a", width(c, ba), 2 * n_heads);
    if (width(c, y) != n_heads * op->delta.v_dim)
        return wrong(c, "the width of its output", width(c, y), n_heads * op->delta.v_dim);
    LF_TRY(check_type(c, qkv, false, "an input of float"));
    LF_TRY(check_type(c, ba, true, "b and a of float"));
    LF_TRY(check_type(c, y, false, "an output of float"));
    LF_TRY(need_vector(c, LF_OP_W, n_heads, "the length of its a_log"));
    return need_vector(c, LF_OP_BIAS, n_heads, "the length of its dt");
}

static enum lf_status check_gated_norm(const struct check *c, const struct lf_op *op)
{
    int x = op->in[LF_OP_X], gate = op->in[LF_OP_GATE], y = op->out[LF_OP_Y], norm = op->weight[LF_OP_NORM];
    LF_TRY(check_input(c, gate));
    if (width(c, x) != width(c, y)) return wrong(c, "the width of its output", width(c, y), width(c, x));
    if (width(c, gate) < width(c, y)) return wrong(c, "the width of its gate", width(c, gate), width(c, y));
    LF_TRY(check_type(c, x, false, "an input of float"));
    LF_TRY(check_type(c, gate, false, "a gate of float"));
    LF_TRY(check_type(c, y, false, "an output of float"));
    int dim = norm >= 0 && norm < c->n_slots ? c->slots[norm].n_out : width(c, y);
    LF_TRY(need_vector(c, LF_OP_NORM, dim, "the length of its weight"));
    return width(c, y) % dim == 0 ? LF_OK : wrong(c, "what its weight leaves of its width", width(c, y) % dim, 0);
}

static enum lf_status check_gate_sigmoid(const struct check *c, const struct lf_op *op)
{
    int x = op->in[LF_OP_X], gate = op->in[LF_OP_GATE], y = op->out[LF_OP_Y];
    LF_TRY(check_input(c, gate));
    bool of_token = c->p->values[gate].is_float;
    int n_gate = of_token ? 1 : width(c, y);
    if (width(c, x) != width(c, y)) return wrong(c, "the width of its output", width(c, y), width(c, x));
    if (width(c, gate) != n_gate) return wrong(c, "the width of its gate", width(c, gate), n_gate);
    LF_TRY(check_type(c, y, c->p->values[x].is_float, "an output of float"));
    return check_residual(c, op);
}

/* Of an op that makes a row of each row. */
static enum lf_status check_each(const struct check *c, const struct lf_op *op)
{
    int x = c->p->values[op->in[LF_OP_X]].each, y = c->p->values[op->out[LF_OP_Y]].each;
    return x == y ? LF_OK : wrong(c, "its number of rows a token", y, x);
}

/* Whole rows of the table, or columns that it has. */
static enum lf_status check_embed(const struct check *c, const struct lf_op *op)
{
    int w = op->weight[LF_OP_W], y = width(c, op->out[LF_OP_Y]);
    if (w < 0 || w >= c->n_slots || c->slots[w].is_vector) return wrong(c, "its table's slot", w, 0);
    int n_in = c->slots[w].n_in;
    if (op->column == LF_NONE) return n_in == y ? LF_OK : wrong(c, "the width of its output", y, n_in);
    if (!c->p->values[op->out[LF_OP_Y]].is_float) return wrong(c, "an output of float", 0, 1);
    return op->column >= 0 && y <= n_in - op->column ? LF_OK
                                                     : wrong(c, "its last column", op->column + y - 1, n_in - 1);
}

/* Both halves in one value, or each in its own. */
static enum lf_status check_gate_mul(const struct check *c, const struct lf_op *op)
{
    int x = width(c, op->in[LF_OP_X]), y = width(c, op->out[LF_OP_Y]), up = op->in[LF_OP_UP];
    if (up == LF_NONE) return x == 2 * y ? LF_OK : wrong(c, "the width of its input", x, 2 * y);
    LF_TRY(check_input(c, up));
    if (!c->p->values[up].is_float || c->p->values[up].each != 0) return wrong(c, "an up of float", 0, 1);
    if (x != y) return wrong(c, "the width of its gate", x, y);
    return width(c, up) == y ? LF_OK : wrong(c, "the width of its up", width(c, up), y);
}

static enum lf_status check_op(const struct check *c, const struct lf_op *op)
{
    if (op->out[LF_OP_Y] < 0 || op->out[LF_OP_Y] >= c->p->n_values) return wrong(c, "its output", op->out[LF_OP_Y], 0);
    if (op->kind == LF_OP_EMBED) return check_embed(c, op);
    LF_TRY(check_input(c, op->in[LF_OP_X]));
    int x = width(c, op->in[LF_OP_X]), y = width(c, op->out[LF_OP_Y]);
    if (op->kind == LF_OP_ROUTE) return check_route(c, op);
    if (op->kind == LF_OP_EXPERT_GEMM) return check_expert_gemm(c, op);
    if (op->kind == LF_OP_EXPERT_SUM) return check_expert_sum(c, op);
    LF_TRY(check_each(c, op));
    if (lf_op_has_gemm(op->kind)) return check_gemm(c, op);
    switch (op->kind) {
    case LF_OP_RMSNORM:
        LF_TRY(check_vector(c, LF_OP_NORM, x, "the length of its weight"));
        LF_TRY(check_vector(c, LF_OP_SCALE, 1, "the length of its scale"));
        if (op->weight[LF_OP_SCALE] != LF_NONE && !c->p->values[op->out[LF_OP_Y]].is_float)
            return wrong(c, "a scaled output of float", 0, 1);
        if (!c->p->values[op->in[LF_OP_X]].is_float) return wrong(c, "an input of float", 0, 1);
        LF_TRY(check_residual(c, op));
        return x == y ? LF_OK : wrong(c, "the width of its output", y, x);
    case LF_OP_GATE_MUL:
        return check_gate_mul(c, op);
    case LF_OP_ATTENTION:
        LF_TRY(check_sinks(c, op));
        if (op->out[LF_OP_Y_LSE] != LF_NONE) LF_TRY(check_lse(c, op->out[LF_OP_Y_LSE], op->out[LF_OP_Y]));
        return x == y ? LF_OK : wrong(c, "the width of its output", y, x);
    case LF_OP_ROPE_APPEND:
        return check_rope_append(c, op, op->in[LF_OP_X], op->out[LF_OP_Y]);
    case LF_OP_ROPE:
        if (x != y) return wrong(c, "the width of its output", y, x);
        return check_q_norm(c, op, y);
    case LF_OP_CONV:
        return check_conv(c, op);
    case LF_OP_DELTA:
        return check_delta(c, op);
    case LF_OP_GATED_NORM:
        return check_gated_norm(c, op);
    case LF_OP_GATE_SIGMOID:
        return check_gate_sigmoid(c, op);
    case LF_OP_ALL_REDUCE:
        if (!c->p->values[op->in[LF_OP_X]].is_float) return wrong(c, "an input of float", 0, 1);
        if (!c->p->values[op->out[LF_OP_Y]].is_float) return wrong(c, "an output of float", 0, 1);
        LF_TRY(check_residual(c, op));
        return x == y ? LF_OK : wrong(c, "the width of its output", y, x);
    case LF_OP_ALL_GATHER:
        LF_TRY(check_type(c, op->in[LF_OP_X], c->p->values[op->out[LF_OP_Y]].is_float, "an input of float"));
        return x < y ? LF_OK : wrong(c, "the width of its input", x, y - 1);
    case LF_OP_GATHER_ROWS:
    case LF_OP_SLICE_ROWS:
        return check_rows(c, op);
    case LF_OP_LSE_COMBINE:
        LF_TRY(check_input(c, op->in[LF_OP_LSE]));
        LF_TRY(check_lse(c, op->in[LF_OP_LSE], op->in[LF_OP_X]));
        return x == y ? LF_OK : wrong(c, "the width of its output", y, x);
    case LF_OP_SOFTCAP:
        if (op->in[LF_OP_X] != op->out[LF_OP_Y]) return wrong(c, "its output", op->out[LF_OP_Y], op->in[LF_OP_X]);
        return c->p->values[op->in[LF_OP_X]].is_float ? LF_OK : wrong(c, "an input of float", 0, 1);
    case LF_OP_ROUND:
        if (!c->p->values[op->in[LF_OP_X]].is_float) return wrong(c, "an input of float", 0, 1);
        if (c->p->values[op->out[LF_OP_Y]].is_float) return wrong(c, "an output of float", 1, 0);
        return x == y ? LF_OK : wrong(c, "the width of its output", y, x);
    default:
        return x == y ? LF_OK : wrong(c, "the width of its output", y, x);
    }
}

enum lf_status lf_pass_check(const struct lf_program *program, const struct lf_slot *slots, int n_slots,
                             struct lf_err *err)
{
    struct check c = {.p = program, .slots = slots, .n_slots = n_slots, .err = err};
    for (; c.op_idx < program->n_ops; c.op_idx++) LF_TRY(check_op(&c, &program->ops[c.op_idx]));
    return LF_OK;
}
