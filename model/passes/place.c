/* Liveness: a value needs its place from the op that makes it to the last op that reads it, and places of values that
 * are needed at different times may overlap. The residual stream is one place: a gemm adds to it, once nobody else
 * reads what was there before.
 *
 * What gather_rows and slice_rows make is, in some steps or in all, where their x is (interpreter.c): x lives as long.
 *
 * The largest place is put first, each as low as those that were put before it allow (greedy by size; Pisarchyk & Lee
 * 2020, §4.2). On the families here that is the least there can be: the op that needs most has its operands side by
 * side, and nothing else. Sizes are few, and values some thousand at most.
 *
 * Nearly all values live for a few ops, and lie in the order of those. So whoever looks for what is needed at the same
 * time as a value looks at its neighbours, and at the few that live long: the residual stream. */
#include "core/check.h"
#include "model/passes/passes.h"

enum { REACH = 16 }; /* ops that nearly all values live at most */

static uint64_t bytes_of(const struct lf_value *v, const struct lf_place_limits *limits)
{
    uint64_t n = lf_value_rows(v, limits->rows[v->rows]) * (uint64_t)v->width;
    n *= lf_value_elem_bytes(v, limits->act_bytes);
    return (n + LF_PLACE_ALIGN_BYTES - 1) / LF_PLACE_ALIGN_BYTES * LF_PLACE_ALIGN_BYTES;
}

/* From the last op on: of what is gathered rows may be gathered, or cut, again. */
static void keep_rows(struct lf_program *p)
{
    for (int i = 0; i < p->n_values; i++) p->values[i].rows_of = LF_NONE;
    for (int i = p->n_ops - 1; i >= 0; i--) {
        const struct lf_op *op = &p->ops[i];
        if (op->kind != LF_OP_GATHER_ROWS && op->kind != LF_OP_SLICE_ROWS) continue;
        struct lf_value *x = &p->values[op->in[LF_OP_X]], *y = &p->values[op->out[LF_OP_Y]];
        y->rows_of = op->in[LF_OP_X];
        x->last_op = LF_MAX(x->last_op, y->last_op);
    }
}

/* y is written over its residual where that is its last reader. */
static void join_residuals(struct lf_program *p)
{
    for (int i = 0; i < p->n_values; i++) p->values[i].place = i;
    for (int i = 0; i < p->n_ops; i++) {
        int residual = p->ops[i].in[LF_OP_RESIDUAL], y = p->ops[i].out[LF_OP_Y];
        if (residual == LF_NONE || p->values[residual].last_op > i) continue;
        int place = p->values[residual].place;
        p->values[y].place = place;
        p->values[place].last_op = p->values[y].last_op;
        p->values[residual].last_op = p->values[y].last_op;
    }
}

/* Whether the value has a place of its own in the room. */
static bool has_place(const struct lf_program *p, int value)
{
    const struct lf_value *v = &p->values[value];
    return v->first_op >= 0 && v->place == value && value != p->logits;
}

/* The largest size of a place below so many bytes; 0: there is none. */
static uint64_t next_size(const struct lf_program *p, const struct lf_place_limits *limits, uint64_t below)
{
    uint64_t size = 0;
    for (int i = 0; i < p->n_values; i++) {
        uint64_t bytes = bytes_of(&p->values[i], limits);
        if (has_place(p, i) && bytes < below) size = LF_MAX(size, bytes);
    }
    return size;
}

/* Values that live longer than REACH ops, in a list; the first, or LF_NONE. */
static int list_long(struct lf_program *p)
{
    int first = LF_NONE;
    for (int i = 0; i < p->n_values; i++) {
        if (!has_place(p, i) || p->values[i].last_op - p->values[i].first_op <= REACH) continue;
        p->values[i].next_long = first;
        first = i;
    }
    return first;
}

struct search {
    const struct lf_program *p;
    const struct lf_place_limits *limits;
    int value, long_lived;
    uint64_t at;
};

/* Where another value's place ends if that meets the one that is sought, at the same time; else 0. */
static uint64_t end_if_met(const struct search *s, int other_value)
{
    const struct lf_value *v = &s->p->values[s->value], *other = &s->p->values[other_value];
    if (!other->is_placed || other->last_op < v->first_op || other->first_op > v->last_op) return 0;
    uint64_t end = s->at + bytes_of(v, s->limits), other_end = other->offset + bytes_of(other, s->limits);
    return other->offset < end && s->at < other_end ? other_end : 0;
}

/* Where the place meets another one that is needed at the same time: where that one ends. 0: nowhere. */
static uint64_t end_of_conflict(const struct search *s)
{
    const struct lf_value *v = &s->p->values[s->value];
    uint64_t end = 0;
    for (int i = LF_MAX(v->first_op - REACH, 0); i <= v->last_op && end == 0; i++)
        for (int k = 0; k < LF_OP_OUTPUTS_N && end == 0; k++)
            if (s->p->ops[i].out[k] != LF_NONE) end = end_if_met(s, s->p->ops[i].out[k]);
    for (int i = s->long_lived; i != LF_NONE && end == 0; i = s->p->values[i].next_long) end = end_if_met(s, i);
    return end;
}

/* Puts the value's place as low as it can be, from s->at on; *end is then no less than where it ends. */
static void put(struct lf_program *p, struct search *s, uint64_t *end)
{
    struct lf_value *v = &p->values[s->value];
    for (uint64_t next; (next = end_of_conflict(s)) > 0;) s->at = next;
    v->offset = s->at;
    v->is_placed = true;
    *end = LF_MAX(*end, s->at + bytes_of(v, s->limits));
}

uint64_t lf_pass_place(struct lf_program *p, const struct lf_place_limits *limits, uint64_t begin)
{
    uint64_t end = begin;
    lf_program_find_lives(p);
    keep_rows(p);
    join_residuals(p);
    int long_lived = list_long(p);
    for (int i = 0; i < p->n_values; i++) p->values[i].is_placed = false;
    for (uint64_t size = next_size(p, limits, UINT64_MAX); size > 0; size = next_size(p, limits, size))
        for (int i = 0; i < p->n_values; i++)
            if (has_place(p, i) && bytes_of(&p->values[i], limits) == size)
                put(p, &(struct search){p, limits, i, long_lived, begin}, &end);
    for (int i = 0; i < p->n_values; i++)
        if (i != p->logits) p->values[i].offset = p->values[p->values[i].place].offset;
    return end;
}
