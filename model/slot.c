#include "model/slot.h"

#include "core/check.h"

/* Where row `row` of n rows that alternate comes from: the first half are the even ones. */
static int even_then_odd(int row, int n)
{
    int n_even = (n + 1) / 2;
    return row < n_even ? 2 * row : 2 * (row - n_even) + 1;
}

/* The row of a tensor of groups that is row `row` of their sections side by side. */
static int by_section(const struct lf_slot_part *part, int row)
{
    int n_group = 0, before = 0, i = 0;
    for (int k = 0; k < LF_SECTIONS_N; k++) n_group += part->sections[k];
    int n_groups = part->n_stored / n_group;
    for (; row >= n_groups * part->sections[i]; before += part->sections[i++]) row -= n_groups * part->sections[i];
    return row / part->sections[i] * n_group + before + row % part->sections[i];
}

int lf_row_order_source(const struct lf_slot_part *part, int row)
{
    if (part->order == LF_ROWS_BY_SECTION) return by_section(part, part->first + row);
    if (part->order == LF_ROWS_DEINTERLEAVE) return even_then_odd(row, part->n_rows);
    if (part->order == LF_ROWS_AS_STORED || row % part->head_dim >= part->rotary_dim) return row;
    return row - row % part->head_dim + even_then_odd(row % part->head_dim, part->rotary_dim);
}

int lf_slot_part_stored(const struct lf_slot_part *part)
{
    return part->order == LF_ROWS_BY_SECTION ? part->n_stored : part->n_rows;
}

uint64_t lf_slot_bytes(const struct lf_slot *slot, const struct lf_format *format, const struct lf_ops *ops)
{
    uint64_t n_each = (uint64_t)LF_MAX(slot->n_experts, 1);
    struct lf_weight w = {.format = *format, .n_out = slot->n_out, .n_in = slot->n_in};
    uint64_t n =
        slot->is_vector ? n_each * (uint64_t)slot->n_out * sizeof(float) : n_each * lf_weight_expert_bytes(ops, &w);
    return (n + LF_SLOT_ALIGN_BYTES - 1) / LF_SLOT_ALIGN_BYTES * LF_SLOT_ALIGN_BYTES;
}
