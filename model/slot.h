/* Slots: what of a checkpoint a program needs, and how it stands there. */
#ifndef LF_MODEL_SLOT_H
#define LF_MODEL_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "device/ops.h"

enum { LF_NONE = -1 }; /* no value, no slot */

/* Along which axis ranks divide a matrix, or a vector that goes with one (passes/shard.c). */
enum lf_shard {
    LF_SHARD_NONE,    /* each has all of it */
    LF_SHARD_ROWS,    /* of each run an equal part */
    LF_SHARD_COLUMNS, /* equal parts; what it multiplies to is then a part of a sum */
    LF_SHARD_HEADS,   /* of each run whole heads, or, where they are fewer than ranks, one head that others have too */
    LF_SHARD_VOCABULARY /* rows, anywhere */
};

enum { LF_SLOT_PARTS_N = 4, LF_SLOT_RUNS_N = 3, LF_SECTIONS_N = 4, LF_SLOT_ALIGN_BYTES = 64 };

/* How the rows of a tensor (the elements of a vector) are put in order where they are loaded. */
enum lf_row_order {
    LF_ROWS_AS_STORED,
    LF_ROWS_DEINTERLEAVE,      /* all even rows, then all odd ones: gate and up that alternate */
    LF_ROWS_DEINTERLEAVE_HEAD, /* within the first rotary_dim of each head_dim rows: even ones, then odd ones. RoPE of
                                 the pairs (2i, 2i + 1) becomes that of (i, i + rotary_dim/2), and scores stay the same
                                 where q and k are in the same order */
    LF_ROWS_BY_SECTION /* the tensor is groups of rows, all of the same sections: the first section of all groups, then
                          the second of all groups … */
};

/* What tensors of a checkpoint become: a matrix [n_out, n_in] in the order of the device's GEMM, or a vector of n_out
 * floats. Its parts are stacked by rows. Hashes (identity.h) are of the tensors as they are stored.
 *
 * With experts it is n_experts of them: matrices as struct lf_weight has them, or vectors one behind the other. Then
 * either each part of each expert is a tensor of its own (patterns have "@"), or a part is one tensor of all experts,
 * [n_experts, rows, n_in]. */
struct lf_slot {
    int layer; /* -1: outside the layers */
    bool is_vector;
    int n_taps;      /* of a vector that is [n_out / n_taps, 1, n_taps] in the files; 0: it is [n_out] */
    float add;       /* of a vector: what is added to each element (norms that multiply by 1 + w) */
    int n_experts;   /* 0: it has none */
    int n_out, n_in; /* a vector has n_in 1 */
    enum lf_shard shard;
    int rank_column, rank_columns; /* of a rank: its columns, as its rows above */
    int tied_to;        /* the slot whose bytes it shares unless the files hold others (lm_head), or LF_NONE */
    const char *suffix; /* of each name: ".weight", ".bias", "" */
    int n_parts;
    struct lf_slot_part {
        const char *pattern; /* a name, in which "#" stands for the layer and "@" for the expert; static */
        int n_rows;
        enum lf_row_order order;
        int head_dim, rotary_dim; /* of LF_ROWS_DEINTERLEAVE_HEAD */
        /* Where the part is n_rows rows of a tensor of more, in no slot of experts: from which row on, and how many the
         * tensor has. 0: it is all of it. */
        int tensor_row, tensor_rows;
        /* Of LF_ROWS_BY_SECTION: rows of each section, 0 behind the last; and, in their new order, which of the
         * tensor's n_stored rows the part begins with: the others are another slot's. */
        int sections[LF_SECTIONS_N], n_stored, first;
        /* What of its rows is divided by itself, one run behind the other: q, k and v that are stacked in one tensor
         * are three. None: it is one run, of no heads. */
        struct lf_slot_run {
            int n_rows, n_heads;
            bool is_kv; /* its heads may be fewer than ranks */
        } runs[LF_SLOT_RUNS_N];
        /* Of a rank: its rows are those from this one on of rank_rows that the part has. rank_rows 0: they are all. */
        int rank_row, rank_rows;
    } parts[LF_SLOT_PARTS_N];
    /* The whole name, but for its "#", of the one tensor in which the files may have all of it instead: of experts
     * [n_experts, n_out, n_in]. NULL: they may not. */
    const char *whole;
    /* Of matrices whose parts are tensors of all experts: they have the columns, [n_experts, n_in, rows]. Or, under the
     * names with "_blocks" and "_scales" behind them, the rows in MXFP4 (bind.c). */
    bool by_columns;
};

/* Of a part with an order: the row of its tensor that becomes row `row` of the part. */
int lf_row_order_source(const struct lf_slot_part *part, int row);
/* Rows (elements) of the part's tensor, or of one expert's share of it. */
int lf_slot_part_stored(const struct lf_slot_part *part);
/* What a slot's weights take, each slot's beginning aligned, of matrices of this format. */
uint64_t lf_slot_bytes(const struct lf_slot *slot, const struct lf_format *format, const struct lf_ops *ops);

#endif
