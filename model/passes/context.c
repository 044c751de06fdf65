/* Context parallel: the program of one rank of several that divide a step's tokens, and the cache of each sequence
 * (kv/kv_view.h: a rank has a stripe of every block). Keys stay where they are; queries travel.
 *
 *     own rows ──▶ norms, gemms, gates, experts ──▶ own rows            a token needs no other
 *     own rows ──▶ gather ──▶ rope_append ──▶ q of all                  each appends the keys of its stripe
 *              ──▶ attention over the stripe ──▶ out and lse of all ──▶ lse_combine ──▶ own rows
 *     own rows ──▶ gather ──▶ conv ──▶ delta ──▶ slice ──▶ own rows     states go on on every rank, for all tokens
 *     own rows ──▶ gather ──▶ pick ──▶ picked rows                      from there on all ranks have the same
 *     own rows ──▶ gather ──▶ the gemm of the logits                    where all rows are wanted
 *
 * Where ranks reach each other's memory (lf_comm_open) rope_append takes own rows, and writes q to all ranks and keys
 * to their stripe; attention writes rows to their owners, and no message is left of the second and the third line.
 *
 * What tensor parallel has made of the program stays as it is: its sums are of rows, whoever's they are. A step of few
 * tokens has all of them as own rows on each rank (lf_split_divides), and runs the same program: a gather
 * does nothing then, for what it would make is where its x is (place.c), and what is combined goes to all. Nor does a
 * slice do anything, ever: own rows lie among all. Attention sinks are keys of nobody's position: those of the first
 * rank. */
#include "core/check.h"
#include "model/passes/passes.h"

struct context {
    struct lf_program *p;
    const struct lf_split *split;
    int n_heads;
    int n_head_ops; /* at the end of the program: what makes the logits of its rows */
    struct lf_err *err;
};

/* From the gemm on that makes the logits. */
static int count_head_ops(const struct lf_program *p)
{
    int n = 1;
    if (p->logits == LF_NONE) return 0;
    while (n < p->n_ops && !lf_op_has_gemm(p->ops[p->n_ops - n].kind)) n++;
    return n;
}

/* Whether the op reads rows of all tokens, and what it makes has all. */
static bool needs_all(const struct context *c, int at)
{
    switch (c->p->ops[at].kind) {
    case LF_OP_ROPE_APPEND:
    case LF_OP_ROPE:
    case LF_OP_ATTENTION:
    case LF_OP_CONV:
    case LF_OP_DELTA:
    case LF_OP_PICK:
        return true;
    default:
        return c->p->n_ops - at <= c->n_head_ops;
    }
}

/* What an op before ops[at] has made of the value; LF_NONE: there is none. */
static int find_made(const struct lf_program *p, int at, enum lf_op_kind kind, int value)
{
    for (int i = at - 1; i >= 0; i--)
        if (p->ops[i].kind == kind && p->ops[i].in[LF_OP_X] == value) return p->ops[i].out[LF_OP_Y];
    return LF_NONE;
}

/* Input k of ops[*at] with those rows, which an op before it makes where nobody has yet. */
static enum lf_status convert(struct context *c, int *at, int k, enum lf_rows rows)
{
    enum lf_op_kind kind = rows == LF_ROWS_OWN ? LF_OP_SLICE_ROWS : LF_OP_GATHER_ROWS;
    int value = c->p->ops[*at].in[k], made = find_made(c->p, *at, kind, value);
    if (made == LF_NONE) {
        struct lf_op op = lf_op_init(kind, c->p->ops[*at].layer);
        struct lf_value converted = c->p->values[value];
        converted.rows = rows;
        op.in[LF_OP_X] = value;
        LF_TRY(lf_program_add_value(c->p, converted, &made, c->err));
        op.out[LF_OP_Y] = made;
        LF_TRY(lf_program_insert(c->p, (*at)++, &op, c->err));
    }
    c->p->ops[*at].in[k] = made;
    return LF_OK;
}

static bool is_picked_alone(const struct lf_program *p, int value)
{
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < LF_OP_INPUTS_N; k++)
            if (p->ops[i].in[k] == value && p->ops[i].kind != LF_OP_PICK) return false;
    return true;
}

/* ops[at] is attention over this rank's keys; what it was to make, all ranks combine. */
static enum lf_status combine(struct context *c, int at)
{
    struct lf_op then = lf_op_init(LF_OP_LSE_COMBINE, c->p->ops[at].layer);
    int y = c->p->ops[at].out[LF_OP_Y];
    struct lf_value partial = c->p->values[y], lse = {.rows = partial.rows, .width = c->n_heads, .is_float = true};
    then.out[LF_OP_Y] = y;
    LF_TRY(lf_program_add_value(c->p, partial, &then.in[LF_OP_X], c->err));
    LF_TRY(lf_program_add_value(c->p, lse, &then.in[LF_OP_LSE], c->err));
    struct lf_op *op = &c->p->ops[at];
    op->out[LF_OP_Y] = then.in[LF_OP_X];
    op->out[LF_OP_Y_LSE] = then.in[LF_OP_LSE];
    if (c->split->cp_rank > 0) op->weight[LF_OP_W] = LF_NONE;
    if (partial.rows == LF_ROWS_TOKENS && !is_picked_alone(c->p, y)) {
        c->p->values[y].rows = LF_ROWS_OWN;
        c->p->values[then.in[LF_OP_X]].goes_direct = true;
    }
    return lf_program_insert(c->p, at + 1, &then, c->err);
}

/* *at: behind the ops that are inserted for it. */
static enum lf_status divide(struct context *c, int *at)
{
    bool all = needs_all(c, *at);
    for (int k = 0; k < LF_OP_INPUTS_N; k++) {
        int value = c->p->ops[*at].in[k];
        if (value == LF_NONE) continue;
        if (all && c->p->values[value].rows == LF_ROWS_OWN) LF_TRY(convert(c, at, k, LF_ROWS_TOKENS));
        if (!all && c->p->values[value].rows == LF_ROWS_TOKENS) LF_TRY(convert(c, at, k, LF_ROWS_OWN));
    }
    const struct lf_op *op = &c->p->ops[*at];
    for (int k = 0; k < LF_OP_OUTPUTS_N && !all; k++)
        if (op->out[k] != LF_NONE && c->p->values[op->out[k]].rows == LF_ROWS_TOKENS)
            c->p->values[op->out[k]].rows = LF_ROWS_OWN;
    if (op->kind != LF_OP_ATTENTION) return LF_OK;
    LF_TRY(combine(c, *at));
    (*at)++;
    return LF_OK;
}

static bool is_rope(enum lf_op_kind kind)
{
    return kind == LF_OP_ROPE_APPEND || kind == LF_OP_ROPE;
}

/* Ranks have just met, in the rope, when the first of them comes to ops[at]: where that is written nobody computes
 * anything else meanwhile. */
static bool follows_direct_rope(const struct lf_program *p, int at)
{
    const struct lf_op *before = at > 0 ? &p->ops[at - 1] : NULL;
    return before && is_rope(before->kind) && p->values[before->in[LF_OP_X]].goes_direct;
}

/* What is gathered for ropes and for nothing else need not be, where they can be made of own rows. */
static void find_direct(struct lf_program *p)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == LF_OP_GATHER_ROWS) p->values[p->ops[i].out[LF_OP_Y]].goes_direct = true;
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < LF_OP_INPUTS_N; k++) {
            int value = p->ops[i].in[k];
            if (value == LF_NONE || (k == LF_OP_X && is_rope(p->ops[i].kind)) || p->ops[i].kind == LF_OP_LSE_COMBINE)
                continue;
            p->values[value].goes_direct = false;
        }
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == LF_OP_ATTENTION && !follows_direct_rope(p, i))
            p->values[p->ops[i].out[LF_OP_Y]].goes_direct = false;
}

enum lf_status lf_pass_context(struct lf_program *program, const struct lf_split *split, int n_heads,
                               struct lf_err *err)
{
    struct context c = {
        .p = program, .split = split, .n_heads = n_heads, .n_head_ops = count_head_ops(program), .err = err};
    for (int i = 0; i < program->n_ops; i++) LF_TRY(divide(&c, &i));
    find_direct(program);
    return LF_OK;
}
