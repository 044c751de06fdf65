/* Liveness: a value needs its place from the op that makes it to the last op that reads it, and places of values that
 * are needed at different times may overlap. The residual stream is one place: a gemm adds to it, once nobody else
 * reads what was there before.
 *
 * The largest place is put first, each as low as those that were put before it allow (greedy by size; Pisarchyk & Lee
 * 2020, §4.2). On the families here that is the least there can be: the op that needs most has its operands side by
 * side, and nothing else. Sizes are few, and values some thousand at most. */
#include "core/check.h"
#include "model/passes/passes.h"

static uint64_t bytes_of(const struct lf_value *v, const struct lf_place_limits *limits)
{
    uint64_t n = lf_value_rows(v, limits->rows[v->rows]) * (uint64_t)v->width;
    n *= lf_value_elem_bytes(v, limits->act_bytes);
    return (n + LF_PLACE_ALIGN_BYTES - 1) / LF_PLACE_ALIGN_BYTES * LF_PLACE_ALIGN_BYTES;
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

/* Where a place from `at` on meets another one that is needed at the same time: where that one ends. 0: nowhere. */
static uint64_t end_of_conflict(const struct lf_program *p, const struct lf_place_limits *limits, int value,
                                uint64_t at)
{
    const struct lf_value *v = &p->values[value];
    uint64_t end = at + bytes_of(v, limits);
    for (int i = 0; i < p->n_values; i++) {
        const struct lf_value *other = &p->values[i];
        if (!other->is_placed || other->last_op < v->first_op || other->first_op > v->last_op) continue;
        uint64_t other_end = other->offset + bytes_of(other, limits);
        if (other->offset < end && at < other_end) return other_end;
    }
    return 0;
}

/* Puts the value's place as low as it can be; *end is then no less than where it ends. */
static void put(struct lf_program *p, const struct lf_place_limits *limits, int value, uint64_t begin, uint64_t *end)
{
    uint64_t at = begin, next = end_of_conflict(p, limits, value, at);
    for (; next > 0; next = end_of_conflict(p, limits, value, at)) at = next;
    p->values[value].offset = at;
    p->values[value].is_placed = true;
    at += bytes_of(&p->values[value], limits);
    *end = LF_MAX(*end, at);
}

uint64_t lf_pass_place(struct lf_program *p, const struct lf_place_limits *limits, uint64_t begin)
{
    uint64_t end = begin;
    lf_program_find_lives(p);
    join_residuals(p);
    for (int i = 0; i < p->n_values; i++) p->values[i].is_placed = false;
    for (uint64_t size = next_size(p, limits, UINT64_MAX); size > 0; size = next_size(p, limits, size))
        for (int i = 0; i < p->n_values; i++)
            if (has_place(p, i) && bytes_of(&p->values[i], limits) == size) put(p, limits, i, begin, &end);
    for (int i = 0; i < p->n_values; i++)
        if (i != p->logits) p->values[i].offset = p->values[p->values[i].place].offset;
    return end;
}
