/* Whether a program means what its shapes say. A defect of a family's file, not of a model: that the tensors have the
 * shapes of the slots is checked where they are found (weights.c). */
#include "core/check.h"
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

/* From qkv to q; norms are of each head or of all heads of q, of k. */
static enum lf_status check_rope_append(const struct check *c, const struct lf_op *op, int qkv, int q)
{
    int n_q = width(c, q), n_k = (width(c, qkv) - n_q) / 2;
    if (n_k <= 0) return wrong(c, "the width of its input", width(c, qkv), n_q + 2);
    if (op->weight[LF_OP_Q_NORM] == LF_NONE) return LF_OK;
    int q_norm = op->weight[LF_OP_Q_NORM];
    int of_head = q_norm >= 0 && q_norm < c->n_slots ? c->slots[q_norm].n_out : 0;
    LF_TRY(check_vector(c, LF_OP_Q_NORM, op->norm_whole_row ? n_q : of_head, "the length of its q_norm"));
    return check_vector(c, LF_OP_K_NORM, op->norm_whole_row ? n_k : of_head, "the length of its k_norm");
}

static enum lf_status check_gemm(const struct check *c, const struct lf_op *op)
{
    int w = op->weight[LF_OP_W], y = op->out[LF_OP_Y];
    if (w < 0 || w >= c->n_slots || c->slots[w].is_vector) return wrong(c, "its matrix's slot", w, 0);
    if (c->slots[w].n_in != width(c, op->in[LF_OP_X]))
        return wrong(c, "the width of its input", width(c, op->in[LF_OP_X]), c->slots[w].n_in);
    if (c->slots[w].n_out != width(c, y)) return wrong(c, "the width of its output", width(c, y), c->slots[w].n_out);
    if (c->p->values[op->in[LF_OP_X]].is_float) return wrong(c, "an input of float", 1, 0);
    LF_TRY(check_vector(c, LF_OP_BIAS, c->slots[w].n_out, "the length of its bias"));
    if (op->kind == LF_OP_GEMM_ROPE_APPEND) LF_TRY(check_rope_append(c, op, y, op->out[LF_OP_Y2]));
    return check_residual(c, op);
}

static enum lf_status check_op(const struct check *c, const struct lf_op *op)
{
    if (op->out[LF_OP_Y] < 0 || op->out[LF_OP_Y] >= c->p->n_values) return wrong(c, "its output", op->out[LF_OP_Y], 0);
    if (op->kind == LF_OP_EMBED) {
        int w = op->weight[LF_OP_W];
        return c->slots[w].n_in == width(c, op->out[LF_OP_Y])
                   ? LF_OK
                   : wrong(c, "the width of its output", width(c, op->out[LF_OP_Y]), c->slots[w].n_in);
    }
    LF_TRY(check_input(c, op->in[LF_OP_X]));
    int x = width(c, op->in[LF_OP_X]), y = width(c, op->out[LF_OP_Y]);
    if (lf_op_has_gemm(op->kind)) return check_gemm(c, op);
    switch (op->kind) {
    case LF_OP_RMSNORM:
        LF_TRY(check_vector(c, LF_OP_NORM, x, "the length of its weight"));
        if (!c->p->values[op->in[LF_OP_X]].is_float) return wrong(c, "an input of float", 0, 1);
        LF_TRY(check_residual(c, op));
        return x == y ? LF_OK : wrong(c, "the width of its output", y, x);
    case LF_OP_GATE_MUL:
        return x == 2 * y ? LF_OK : wrong(c, "the width of its input", x, 2 * y);
    case LF_OP_ROPE_APPEND:
        return check_rope_append(c, op, op->in[LF_OP_X], op->out[LF_OP_Y]);
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
