/* What is derived from a recorded program, a file each. Pure functions of plain data; any thread. */
#ifndef LF_MODEL_PASSES_PASSES_H
#define LF_MODEL_PASSES_PASSES_H

#include "model/program.h"
#include "model/split.h"

/* What of a step's tokens has logits that somebody wants: a program each, for a token that nobody looks at need not go
 * on behind the last op that all must reach (lf_op_keeps: mostly an append). A chunk in the middle of a prompt has no
 * such token, its last chunk one; all tokens of a decode step are wanted. */
enum lf_wanted {
    LF_WANTED_ALL,     /* every token of the step: the program as it was recorded */
    LF_WANTED_SOME,    /* picked behind that op: attention, too, computes those alone */
    LF_WANTED_SEVERAL, /* picked behind the last attention: they are more runs of tokens than attention was made for */
    LF_WANTED_NONE,    /* the program ends with that op */
    LF_WANTED_N
};

/* check.c: every op's operands are there, and widths, types and weights fit each other; the first op that does not fit
 * is named, LF_CORRUPT. slots: of the recorded program. */
LF_MUST_CHECK enum lf_status lf_pass_check(const struct lf_program *program, const struct lf_slot *slots, int n_slots,
                                           struct lf_err *err);

/* rows.c: makes the recorded program that of `wanted`. A token's bits depend on its own position and keys only, so
 * this changes none. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_pass_rows(struct lf_program *program, enum lf_wanted wanted, struct lf_err *err);

/* shard.c: makes the recorded program and its slots those of one rank of several. `architecture` names the model where
 * that cannot be. LF_UNSUPPORTED for what there is no rule for, LF_INVALID where heads or rows do not divide by so many
 * ranks: both say what would do. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_pass_shard(struct lf_program *program, const struct lf_split *split,
                                           const char *architecture, struct lf_err *err);

/* context.c: makes a program that rows.c has made that of one rank of several that divide contexts; split->n_cp > 1.
 * n_heads: query heads of each layer that the rank has. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_pass_context(struct lf_program *program, const struct lf_split *split, int n_heads,
                                             struct lf_err *err);

/* What a backend can fuse beside what all can. */
struct lf_fuse_opts {
    bool norms; /* RMSNorms into GEMMs (fused_norm_tokens) */
    bool codes; /* activations are written as codes by what makes them (quantizes_x) */
};
/* fuse.c: replaces sequences of ops by fused ones. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_pass_fuse(struct lf_program *program, struct lf_fuse_opts opts, struct lf_err *err);

/* The largest step, and what an element takes. */
struct lf_place_limits {
    uint64_t rows[LF_ROWS_N]; /* rows of each kind, at most */
    uint64_t act_bytes;       /* of an element of act_dtype */
};
enum { LF_PLACE_ALIGN_BYTES = 256 };

/* place.c: gives each value but the logits a place from `begin` on, so that no two that are needed at the same time
 * overlap. Returns where the last one ends. */
uint64_t lf_pass_place(struct lf_program *program, const struct lf_place_limits *limits, uint64_t begin);

/* A step, as far as what it costs goes: the last n_tokens of the kv_len tokens of one sequence are new. */
struct lf_cost_step {
    int n_tokens, n_out, kv_len;
    int n_own;               /* of n_tokens; where contexts are not divided all, which 0 says too */
    int n_cp;                /* ranks that divide them; 0: 1 */
    int n_ranks;             /* ranks that divide layers; 0: 1 */
    uint64_t kv_layer_bytes; /* K and V of one token in the op's layer */
    uint64_t act_bytes;      /* of an element of act_dtype */
};
struct lf_op_cost {
    double flops, bytes;
    double received_bytes; /* of collectives: what each rank receives of the others */
};
/* cost.c: floating-point operations of an op, and the bytes that it must read and write: of experts those that its
 * tokens are expected to choose, each expert as likely as any. What ranks exchange is that of GPUs (device/comm.h),
 * where messages are large: sums go by parts, combined rows to their owners. weights: by slot, data is not looked at.
 */
struct lf_op_cost lf_pass_cost(const struct lf_program *program, const struct lf_op *op, const struct lf_slot *slots,
                               const struct lf_weight *weights, const struct lf_cost_step *step);
int lf_cost_rows(const struct lf_cost_step *step, const struct lf_value *value);
/* How many different ones n_tokens tokens choose that choose k of n_experts each: E·(1 − (1 − k/E)^T). */
double lf_cost_experts(double n_tokens, double k, double n_experts);

#endif
