/* Fusions: a row each. A rule looks at the ops from one on; where it finds what it knows, it puts a fused op there and
 * takes the others away. A program in which none was applied computes the same, in more passes over memory. */
#include "core/check.h"
#include "model/passes/passes.h"

/* Whether the value that the op just before ops[by] makes is read by that one alone. */
static bool only_read_by(const struct lf_program *p, int by, int value)
{
    return p->values[value].last_op == by && p->ops[by].in[LF_OP_X] == value;
}

/* ops[at] and the op of that kind behind it, which alone reads what it makes, as one: it makes both values. */
static bool merge(struct lf_program *p, int at, enum lf_op_kind second, enum lf_op_kind fused)
{
    if (at + 1 >= p->n_ops || p->ops[at].kind != LF_OP_GEMM || p->ops[at + 1].kind != second) return false;
    struct lf_op *op = &p->ops[at], by = p->ops[at + 1];
    if (!only_read_by(p, at + 1, op->out[LF_OP_Y]) || by.in[LF_OP_UP] != LF_NONE) return false;
    op->kind = fused;
    op->layer = by.layer;
    op->out[LF_OP_Y2] = by.out[LF_OP_Y];
    op->weight[LF_OP_Q_NORM] = by.weight[LF_OP_Q_NORM];
    op->weight[LF_OP_K_NORM] = by.weight[LF_OP_K_NORM];
    op->eps = by.eps;
    op->rope = by.rope;
    op->rotary_dim = by.rotary_dim;
    op->norm_whole_row = by.norm_whole_row;
    op->scales_q = by.scales_q;
    op->v_norm = by.v_norm;
    op->v_of_k = by.v_of_k;
    op->act = by.act;
    op->limit = by.limit;
    lf_program_remove(p, at + 1);
    return true;
}

static enum lf_status fuse_gate_mul(struct lf_program *p, int at, struct lf_err *err)
{
    (void)err;
    (void)merge(p, at, LF_OP_GATE_MUL, LF_OP_GEMM_GATE_MUL);
    return LF_OK;
}

static enum lf_status fuse_rope_append(struct lf_program *p, int at, struct lf_err *err)
{
    (void)err;
    (void)merge(p, at, LF_OP_ROPE_APPEND, LF_OP_GEMM_ROPE_APPEND);
    return LF_OK;
}

/* Whether the op can make half of a norm of its y: what adds up the residual stream. */
static bool may_norm(const struct lf_op *op)
{
    return op->kind == LF_OP_ALL_REDUCE || (op->kind == LF_OP_GEMM && op->in[LF_OP_RESIDUAL] != LF_NONE);
}

/* gemm into the residual stream, or the sum over ranks behind it, its norm, and the one gemm that reads it: an epilogue
 * of the first and a prologue of the second (struct lf_fused_norm). The gemm that makes the logits has no such
 * prologue.
 */
static enum lf_status fuse_norm(struct lf_program *p, int at, struct lf_err *err)
{
    if (at + 2 >= p->n_ops || !may_norm(&p->ops[at])) return LF_OK;
    struct lf_op norm = p->ops[at + 1];
    int h = norm.out[LF_OP_Y], y = p->ops[at].out[LF_OP_Y], sum_squares;
    if (norm.kind != LF_OP_RMSNORM || norm.in[LF_OP_X] != y) return LF_OK;
    if (norm.weight[LF_OP_NORM] == LF_NONE || p->values[h].is_float) return LF_OK;
    const struct lf_op *reader = &p->ops[at + 2];
    bool is_fit = lf_op_has_gemm(reader->kind) && !p->values[reader->out[LF_OP_Y]].is_float;
    if (!is_fit || !only_read_by(p, at + 2, h)) return LF_OK;
    struct lf_value parts = {
        .rows = LF_ROWS_FEW, .width = (p->values[y].width + LF_NORM_PART - 1) / LF_NORM_PART, .is_float = true};
    LF_TRY(lf_program_add_value(p, parts, &sum_squares, err));
    lf_program_remove(p, at + 1);
    struct lf_op *first = &p->ops[at], *second = &p->ops[at + 2];
    first->out[LF_OP_Y2] = h;
    first->out[LF_OP_Y_SUM_SQUARES] = second->in[LF_OP_X_SUM_SQUARES] = sum_squares;
    first->weight[LF_OP_NORM] = norm.weight[LF_OP_NORM];
    first->eps = second->x_eps = norm.eps;
    return LF_OK;
}

static bool multiplies(enum lf_op_kind kind)
{
    return lf_op_has_gemm(kind) || kind == LF_OP_EXPERT_GEMM;
}

/* The op that alone reads the value, as the x of its gemm; NULL: there is none. */
static struct lf_op *only_gemm_of(struct lf_program *p, int value)
{
    struct lf_op *reader = NULL;
    for (int i = p->values[value].first_op + 1; i <= p->values[value].last_op; i++)
        for (int k = 0; k < LF_OP_INPUTS_N; k++) {
            if (p->ops[i].in[k] != value) continue;
            if (reader || k != LF_OP_X || !multiplies(p->ops[i].kind)) return NULL;
            reader = &p->ops[i];
        }
    return reader;
}

/* What ops[at] makes, and one gemm reads, is written as codes where that one's matrix wants them. */
static void write_codes(struct lf_program *p, int at, int value, int most_columns)
{
    if (p->values[value].is_float || p->values[value].width > most_columns) return;
    struct lf_op *reader = only_gemm_of(p, value);
    if (!reader) return;
    p->ops[at].codes_for = reader->weight[LF_OP_W];
    reader->x_codes = true;
}

/* Of a norm: on its own, or behind a gemm. */
static enum lf_status fuse_norm_codes(struct lf_program *p, int at, struct lf_err *err)
{
    (void)err;
    const struct lf_op *op = &p->ops[at];
    if (op->kind == LF_OP_RMSNORM) write_codes(p, at, op->out[LF_OP_Y], LF_NORM_CODES_DIM);
    if (op->kind == LF_OP_GEMM && op->weight[LF_OP_NORM] != LF_NONE)
        write_codes(p, at, op->out[LF_OP_Y2], LF_NORM_CODES_DIM);
    return LF_OK;
}

static enum lf_status fuse_gate_codes(struct lf_program *p, int at, struct lf_err *err)
{
    (void)err;
    if (p->ops[at].kind == LF_OP_GATE_MUL && p->ops[at].in[LF_OP_UP] == LF_NONE)
        write_codes(p, at, p->ops[at].out[LF_OP_Y], LF_GATE_CODES_DIM);
    if (p->ops[at].kind == LF_OP_GEMM_GATE_MUL) write_codes(p, at, p->ops[at].out[LF_OP_Y2], LF_GATE_CODES_DIM);
    return LF_OK;
}

enum lf_status lf_pass_fuse(struct lf_program *p, struct lf_fuse_opts opts, struct lf_err *err)
{
    /* In this order: what a norm is fused into has its own kind by then, and codes are of ops as they stay. */
    const struct {
        enum lf_status (*fuse)(struct lf_program *p, int at, struct lf_err *err);
        bool is_on;
    } rules[] = {{fuse_gate_mul, true},
                 {fuse_rope_append, true},
                 {fuse_norm, opts.norms},
                 {fuse_norm_codes, opts.codes},
                 {fuse_gate_codes, opts.codes}};
    for (size_t r = 0; r < LF_N_ELEMS(rules); r++) {
        if (!rules[r].is_on) continue;
        lf_program_find_lives(p);
        for (int at = 0; at < p->n_ops; at++) LF_TRY(rules[r].fuse(p, at, err));
        lf_program_compact(p);
    }
    return LF_OK;
}
