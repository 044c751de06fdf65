/* Liveness: a value needs its place from the op that makes it to the last op that reads it. Ops are walked in order;
 * what an op makes goes into the lowest gap that is large enough, between what is alive then. The residual stream stays
 * where it is: a gemm adds to it in place, once nobody else reads what was there before.
 *
 * How many values are alive at once depends on a family's ops, not on a model's sizes. */
#include "core/check.h"
#include "model/passes/passes.h"

enum { LIVE_N = 64 };

struct walk {
    struct lf_program *p;
    const struct lf_place_limits *limits;
    int live[LIVE_N]; /* values, by offset */
    int n_live;
    uint64_t begin, end;
};

static uint64_t bytes_of(const struct walk *w, int value)
{
    const struct lf_value *v = &w->p->values[value];
    uint64_t elem = v->is_float ? sizeof(float) : w->limits->act_bytes;
    uint64_t n = w->limits->rows[v->rows] * (uint64_t)v->width * elem;
    return (n + LF_PLACE_ALIGN_BYTES - 1) / LF_PLACE_ALIGN_BYTES * LF_PLACE_ALIGN_BYTES;
}

static void place(struct walk *w, int value)
{
    uint64_t at = w->begin, bytes = bytes_of(w, value);
    int i = 0;
    for (; i < w->n_live; i++) {
        const struct lf_value *other = &w->p->values[w->live[i]];
        if (other->offset >= at + bytes) break;
        at = LF_MAX(at, other->offset + bytes_of(w, w->live[i]));
    }
    LF_ASSERT(w->n_live < LIVE_N);
    for (int k = w->n_live++; k > i; k--) w->live[k] = w->live[k - 1];
    w->live[i] = value;
    w->p->values[value].offset = at;
    w->end = LF_MAX(w->end, at + bytes);
}

static void find_last_ops(struct lf_program *p)
{
    for (int i = 0; i < p->n_values; i++) p->values[i].last_op = -1;
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < LF_OP_INPUTS_N; k++)
            if (p->ops[i].in[k] != LF_NONE) p->values[p->ops[i].in[k]].last_op = i;
}

/* Whether the op writes y over its residual, which nobody reads behind it. */
static bool adds_in_place(const struct walk *w, int op_idx)
{
    int residual = w->p->ops[op_idx].in[LF_OP_RESIDUAL];
    return residual != LF_NONE && w->p->values[residual].last_op == op_idx;
}

static void take_over(struct walk *w, int residual, int y)
{
    int i = 0;
    while (w->live[i] != residual) i++;
    w->live[i] = y;
    w->p->values[y].offset = w->p->values[residual].offset;
}

static void drop_dead(struct walk *w, int op_idx)
{
    int n = 0;
    for (int i = 0; i < w->n_live; i++)
        if (w->p->values[w->live[i]].last_op > op_idx) w->live[n++] = w->live[i];
    w->n_live = n;
}

uint64_t lf_pass_place(struct lf_program *p, const struct lf_place_limits *limits, uint64_t begin)
{
    struct walk w = {.p = p, .limits = limits, .begin = begin, .end = begin};
    find_last_ops(p);
    for (int i = 0; i < p->n_ops; i++) {
        const struct lf_op *op = &p->ops[i];
        for (int k = 0; k < LF_OP_OUTPUTS_N; k++) {
            if (op->out[k] == LF_NONE || op->out[k] == p->logits) continue;
            if (k == LF_OP_Y && adds_in_place(&w, i))
                take_over(&w, op->in[LF_OP_RESIDUAL], op->out[k]);
            else
                place(&w, op->out[k]);
        }
        drop_dead(&w, i);
    }
    return w.end;
}
