/* Dead rows. Some ops every token must reach, for later steps read what they leave (lf_op_keeps): appends its K and V,
 * gated delta nets their state. Behind the last of them nobody reads the rows of a token whose logits are not wanted,
 * so what is needed from there on is picked and the rest of the program has fewer rows. */
#include "core/check.h"
#include "model/passes/passes.h"

/* The last op that every token must reach; or, with attention, that or the last attention. */
static int last_op(const struct lf_program *p, bool with_attention)
{
    int i = p->n_ops - 1;
    while (i >= 0 && !lf_op_keeps(p->ops[i].kind) && !(with_attention && p->ops[i].kind == LF_OP_ATTENTION)) i--;
    return i;
}

/* From ops[from] on, `to` is read instead of `value`. */
static void read_instead(struct lf_program *p, int from, int value, int to)
{
    for (int i = from; i < p->n_ops; i++)
        for (int k = 0; k < LF_OP_INPUTS_N; k++)
            if (p->ops[i].in[k] == value) p->ops[i].in[k] = to;
}

/* Inserts, as ops[at], the pick of a value that is read behind it. */
static enum lf_status pick(struct lf_program *p, int at, int value, struct lf_err *err)
{
    struct lf_op op = lf_op_init(LF_OP_PICK, -1);
    struct lf_value picked = p->values[value];
    picked.rows = LF_ROWS_OUT;
    op.in[LF_OP_X] = value;
    LF_TRY(lf_program_add_value(p, picked, &op.out[LF_OP_Y], err));
    LF_TRY(lf_program_insert(p, at, &op, err));
    read_instead(p, at + 1, value, op.out[LF_OP_Y]);
    return LF_OK;
}

/* Picks behind ops[last] whatever goes on. */
static enum lf_status pick_behind(struct lf_program *p, int last, struct lf_err *err)
{
    int at = last + 1, n_recorded = p->n_values;
    for (int value = 0; value < n_recorded; value++) {
        bool is_made = false;
        if (!lf_program_reads(p, at, value)) continue;
        for (int i = 0; i <= last && !is_made; i++) is_made = p->ops[i].out[LF_OP_Y] == value;
        if (is_made) LF_TRY(pick(p, at++, value, err));
    }
    for (int i = at; i < p->n_ops; i++)
        for (int k = 0; k < LF_OP_OUTPUTS_N; k++) {
            int value = p->ops[i].out[k];
            if (value != LF_NONE && p->values[value].rows == LF_ROWS_TOKENS) p->values[value].rows = LF_ROWS_OUT;
        }
    return LF_OK;
}

enum lf_status lf_pass_rows(struct lf_program *p, enum lf_wanted wanted, struct lf_err *err)
{
    int last = last_op(p, false);
    LF_ASSERT(last >= 0);
    switch (wanted) {
    case LF_WANTED_SOME:
        return pick_behind(p, last, err);
    case LF_WANTED_SEVERAL:
        return pick_behind(p, last_op(p, true), err);
    case LF_WANTED_NONE:
        p->n_ops = last + 1;
        p->logits = LF_NONE;
        return LF_OK;
    case LF_WANTED_ALL:
    case LF_WANTED_N:
        break;
    }
    return LF_OK;
}
