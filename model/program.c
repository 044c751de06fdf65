#include "model/program.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"

static const struct {
    const char *name;
    bool has_gemm, keeps;
} kinds[LF_OP_KINDS_N] = {
    [LF_OP_EMBED] = {"embed", false, false},
    [LF_OP_RMSNORM] = {"rmsnorm", false, false},
    [LF_OP_GEMM] = {"gemm", true, false},
    [LF_OP_GATE_MUL] = {"gate_mul", false, false},
    [LF_OP_ROPE_APPEND] = {"rope_append", false, true},
    [LF_OP_ROPE] = {"rope", false, false},
    [LF_OP_ATTENTION] = {"attention", false, false},
    [LF_OP_PICK] = {"pick", false, false},
    [LF_OP_SOFTCAP] = {"softcap", false, false},
    [LF_OP_ROUND] = {"round", false, false},
    [LF_OP_ROUTE] = {"route", false, false},
    [LF_OP_EXPERT_GEMM] = {"expert_gemm", false, false},
    [LF_OP_EXPERT_SUM] = {"expert_sum", false, false},
    [LF_OP_CONV] = {"conv", false, true},
    [LF_OP_DELTA] = {"delta", false, true},
    [LF_OP_GATED_NORM] = {"gated_norm", false, false},
    [LF_OP_GATE_SIGMOID] = {"gate_sigmoid", false, false},
    [LF_OP_ALL_REDUCE] = {"all_reduce", false, false},
    [LF_OP_ALL_GATHER] = {"all_gather", false, false},
    [LF_OP_GATHER_ROWS] = {"gather_rows", false, false},
    [LF_OP_SLICE_ROWS] = {"slice_rows", false, false},
    [LF_OP_LSE_COMBINE] = {"lse_combine", false, false},
    [LF_OP_GEMM_GATE_MUL] = {"gemm_gate_mul", true, false},
    [LF_OP_GEMM_ROPE_APPEND] = {"gemm_rope_append", true, true},
};

const char *lf_op_name(enum lf_op_kind kind)
{
    return kinds[kind].name;
}

bool lf_op_has_gemm(enum lf_op_kind kind)
{
    return kinds[kind].has_gemm;
}

bool lf_op_keeps(enum lf_op_kind kind)
{
    return kinds[kind].keeps;
}

struct lf_op lf_op_init(enum lf_op_kind kind, int layer)
{
    struct lf_op op = {.kind = kind,
                       .layer = layer,
                       .alpha = 1,
                       .scale = 1,
                       .codes_for = LF_NONE,
                       .column = LF_NONE,
                       .first_id = LF_NONE};
    for (int i = 0; i < LF_OP_INPUTS_N; i++) op.in[i] = LF_NONE;
    for (int i = 0; i < LF_OP_OUTPUTS_N; i++) op.out[i] = LF_NONE;
    for (int i = 0; i < LF_OP_WEIGHTS_N; i++) op.weight[i] = LF_NONE;
    return op;
}

/* The array with one more element, which is zeroed; NULL: no memory, and the array is as it was. Room is made in powers
 * of two, so that n says how much there is. */
static void *grow(void *array, int n, size_t elem_bytes)
{
    bool is_full = (n & (n - 1)) == 0;
    size_t room = n == 0 ? 1 : 2 * (size_t)n;
    char *grown = is_full ? realloc(array, room * elem_bytes) : array;
    if (grown) memset(grown + (size_t)n * elem_bytes, 0, elem_bytes);
    return grown;
}

static enum lf_status no_memory(struct lf_err *err)
{
    return lf_fail(err, LF_NO_MEMORY, "no memory for the program of a model");
}

enum lf_status lf_program_insert(struct lf_program *p, int at, const struct lf_op *op, struct lf_err *err)
{
    struct lf_op *ops = grow(p->ops, p->n_ops, sizeof(*ops));
    if (!ops) return no_memory(err);
    p->ops = ops;
    memmove(&ops[at + 1], &ops[at], (size_t)(p->n_ops - at) * sizeof(*ops));
    ops[at] = *op;
    p->n_ops++;
    return LF_OK;
}

void lf_program_remove(struct lf_program *p, int at)
{
    p->ops[at].kind = LF_OP_KINDS_N;
}

void lf_program_compact(struct lf_program *p)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind != LF_OP_KINDS_N) p->ops[n++] = p->ops[i];
    p->n_ops = n;
}

void lf_program_find_lives(struct lf_program *p)
{
    for (int i = 0; i < p->n_values; i++) p->values[i].first_op = p->values[i].last_op = -1;
    for (int i = 0; i < p->n_ops; i++) {
        const struct lf_op *op = &p->ops[i];
        for (int k = 0; k < LF_OP_OUTPUTS_N; k++)
            if (op->out[k] != LF_NONE) {
                struct lf_value *v = &p->values[op->out[k]];
                if (v->first_op < 0) v->first_op = i; /* softcap changes what is there */
                v->last_op = i;
            }
        for (int k = 0; k < LF_OP_INPUTS_N; k++)
            if (op->in[k] != LF_NONE) p->values[op->in[k]].last_op = i;
    }
}

enum lf_status lf_program_add_value(struct lf_program *p, struct lf_value value, int *out, struct lf_err *err)
{
    struct lf_value *values = grow(p->values, p->n_values, sizeof(*values));
    if (!values) return no_memory(err);
    p->values = values;
    *out = p->n_values++;
    values[*out] = value;
    return LF_OK;
}

enum lf_status lf_program_add_slot(struct lf_program *p, const struct lf_slot *slot, int *out, struct lf_err *err)
{
    struct lf_slot *slots = grow(p->slots, p->n_slots, sizeof(*slots));
    if (!slots) return no_memory(err);
    p->slots = slots;
    *out = p->n_slots++;
    slots[*out] = *slot;
    return LF_OK;
}

enum lf_status lf_program_copy(struct lf_program *out, const struct lf_program *from, struct lf_err *err)
{
    struct lf_program p = {.logits = from->logits};
    enum lf_status status = LF_OK;
    int value;
    for (int i = 0; i < from->n_values && status == LF_OK; i++)
        status = lf_program_add_value(&p, from->values[i], &value, err);
    for (int i = 0; i < from->n_ops && status == LF_OK; i++) status = lf_program_insert(&p, i, &from->ops[i], err);
    if (status == LF_OK)
        *out = p;
    else
        lf_program_deinit(&p);
    return status;
}

void lf_program_deinit(struct lf_program *program)
{
    free(program->ops);
    free(program->values);
    free(program->slots);
    *program = (struct lf_program){0};
}

uint64_t lf_value_rows(const struct lf_value *value, uint64_t of_kind)
{
    return of_kind * (uint64_t)LF_MAX(value->each, 1);
}

uint64_t lf_value_elem_bytes(const struct lf_value *value, uint64_t act_bytes)
{
    return value->is_float ? sizeof(float) : value->is_int ? sizeof(int32_t) : act_bytes;
}

bool lf_program_reads(const struct lf_program *p, int from, int value)
{
    for (int i = from; i < p->n_ops; i++)
        for (int k = 0; k < LF_OP_INPUTS_N; k++)
            if (p->ops[i].in[k] == value) return true;
    return false;
}
