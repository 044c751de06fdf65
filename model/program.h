/* The layer program: a forward pass as data.
 *
 * A family's file (arch/) says once, when a model is planned or opened, what a forward pass is. It records ops over
 * values: op i reads values that ops before it have made, and weight slots, and makes new values. Nothing runs
 * meanwhile; what comes out is a flat array of plain data. Everything else is derived from that array by passes of one
 * file each (passes/): whether shapes agree, which tensors are needed, which rows go on behind the last append, what a
 * backend fuses, where each value lies, what each op costs. interpreter.h runs it.
 *
 *     embed ──x──┬─ rmsnorm ─ gemm ─ rope_append ─q─ attention ─ gemm ─(+)─x─ …          each value is made once,
 *                └────────────────────────────────────────────────────┘                  and has one width and one type
 *
 * A value is [rows, width], dense. Its rows are the step's tokens, or those of them whose logits are wanted, or k for
 * each of these (expert rows, device/ops.h). Its elements are float (the residual stream, logits), the device's
 * act_dtype, or int32 (who stands where among expert rows).
 *
 * The plain ops are those of device/ops.h, attention/rope.h and attention/attention.h, and every backend has them. The
 * fused ones come out of passes/fuse.c alone. */
#ifndef LF_MODEL_PROGRAM_H
#define LF_MODEL_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "device/ops.h"
#include "model/slot.h"

enum lf_op_kind {
    LF_OP_EMBED,       /* x = scale · table row of each id */
    LF_OP_RMSNORM,     /* h = norm(x) (· weight) (+ residual) */
    LF_OP_GEMM,        /* y = alpha · (x·wᵀ (+ bias)) (+ residual) */
    LF_OP_GATE_MUL,    /* act = act(gate) · up (lf_act) */
    LF_OP_ROPE_APPEND, /* q = rope(qkv); K and V go to the cache of the op's layer */
    LF_OP_ROPE,        /* q = rope(q), in a layer that reads the cache of an earlier one */
    LF_OP_ATTENTION,   /* out = attention(q, cache of the op's layer) */
    LF_OP_PICK,        /* the rows of a value whose logits are wanted */
    LF_OP_SOFTCAP,     /* softcap · tanh(x / softcap), in place: y is x */
    LF_OP_ROUND,       /* h = x, in act_dtype */
    LF_OP_ROUTE,       /* which experts compute a token, and with what weights */
    LF_OP_EXPERT_GEMM, /* y = x·w[e]ᵀ (+ bias[e]) of each expert's rows */
    LF_OP_EXPERT_SUM,  /* x = Σ weight · row of a token's expert rows (+ residual) */
    /* of a gated delta net (device/delta.h) */
    LF_OP_CONV,         /* y = silu(convolution of the left channels of x); the state of the op's layer goes on */
    LF_OP_DELTA,        /* out = the delta rule over qkv; the state of the op's layer goes on */
    LF_OP_GATED_NORM,   /* h = norm(x) · weight · silu(gate), of each head */
    LF_OP_GATE_SIGMOID, /* h = x · σ(gate) (+ residual) */
    /* of several ranks (device/comm.h): out of passes/shard.c alone */
    LF_OP_ALL_REDUCE, /* y = the sum of x over ranks (+ residual) */
    LF_OP_ALL_GATHER, /* y = the columns of all ranks */
    /* of several ranks that divide contexts: out of passes/context.c alone */
    LF_OP_GATHER_ROWS, /* y = the own rows of all ranks: all tokens' */
    LF_OP_SLICE_ROWS,  /* y = the own rows of x */
    LF_OP_LSE_COMBINE, /* y = attention over the keys of all ranks, of which x is what each has made with its own */
    /* fused */
    LF_OP_GEMM_GATE_MUL,
    LF_OP_GEMM_ROPE_APPEND,
    LF_OP_KINDS_N
};

enum lf_rows {
    LF_ROWS_TOKENS, /* of the step */
    LF_ROWS_OUT,    /* those of them whose logits are wanted */
    LF_ROWS_FEW,    /* LF_FUSED_NORM_TOKENS at most, whatever the step has: only for sum_squares */
    LF_ROWS_ONE,    /* one, whatever the step has: only for routing's `first` */
    LF_ROWS_OWN,    /* of several ranks that divide contexts: this one's tokens (lf_split_divides) */
    LF_ROWS_N
};

struct lf_value {
    enum lf_rows rows;
    int each; /* rows for each of those tokens: k of expert rows. 0: one, which are no expert rows */
    int width;
    bool is_float, is_int;              /* else act_dtype */
    bool is_part, is_term, goes_direct; /* of ranks: has some columns; a term of a sum; see passes/context.c */
    int first_op, last_op; /* by lf_program_find_lives: from the op that makes it to the last one that reads it */
    /* By passes/place.c, which lets a value live as long as any in its place: */
    int place, next_long; /* place: the value that it was made for: itself, or the one that it is added to */
    int rows_of;          /* the value whose rows it has, own ones or all, and where it may lie; else LF_NONE */
    bool is_placed;
    uint64_t offset; /* in the workspace, bytes */
};

/* Which places of an op mean what. A place that is LF_NONE is not there.
 *
 *                      in                            out               weights
 *     embed                                          x                 table (all columns, or from `column` on)
 *     rmsnorm          x, residual                   h                 weight, scale (one number, of the sum)
 *     gemm             x, residual, sum_squares      y, h, sum_squares w, bias, norm
 *     gate_mul         gate_up; or gate, and UP      act
 *     rope_append      qkv                           q                 q_norm, k_norm
 *     rope             q                             q                 q_norm
 *     attention        q                             out, lse          sinks
 *     pick             any                           its rows
 *     softcap          x                             x
 *     round            x                             h
 *     route            logits                        weights, routing, first
 *     expert_gemm      x, –, –, routing, first       y                 w, bias
 *     expert_sum       x, residual, –, routing, –, weights     y
 *     conv             x                             y                 w [channels · width]
 *     delta            qkv, gate (b, then a)         out               a_log (w), dt (bias)
 *     gated_norm       x, gate                       h                 norm
 *     gate_sigmoid     x, residual, gate             h
 *     all_reduce       x, residual                   y, h, sum_squares –, –, norm
 *     all_gather       x                             y
 *     gather_rows      x                             y
 *     slice_rows       x                             y
 *     lse_combine      x, lse                        y
 *     gemm_gate_mul    x, –, sum_squares             gate_up, act      w, bias
 *     gemm_rope_append x, –, sum_squares             qkv, q            w, bias, –, q_norm, k_norm
 *
 * The gate of a gated_norm is the right channels of a value that may be wider, as conv's x is the left ones. That of a
 * gate_sigmoid is as wide as x, or one float for the whole row.
 * Routing is [tokens, 2·k] int32: `rows` of device/ops.h, then `places`.
 * The lse of attention is there where contexts are divided: a float for each head.
 * A gemm, or an all_reduce, with a norm makes h = norm(y) beside y; the gemm that reads h has the same sum_squares. In
 * steps of few rows that is the fused RMSNorm of device/ops.h, else a norm of its own behind the gemm (interpreter.c).
 * h of a norm, and act, may be codes and scales (device/x_codes.h) in the place of as many elements. */
enum {
    LF_OP_X,
    LF_OP_RESIDUAL,
    LF_OP_X_SUM_SQUARES,
    LF_OP_ROUTING,
    LF_OP_FIRST,
    LF_OP_ROUTE_WEIGHTS,
    LF_OP_GATE,
    LF_OP_INPUTS_N
};
enum { LF_OP_UP = LF_OP_ROUTE_WEIGHTS }; /* of a gate_mul */
enum { LF_OP_LSE = LF_OP_GATE };         /* of an lse_combine */
enum { LF_OP_Y, LF_OP_Y2, LF_OP_Y_SUM_SQUARES, LF_OP_OUTPUTS_N };
enum { LF_OP_Y_LSE = LF_OP_Y2 };                                          /* of attention */
enum { LF_OP_Y_ROUTING = LF_OP_Y2, LF_OP_Y_FIRST = LF_OP_Y_SUM_SQUARES }; /* of a route */
enum { LF_OP_W, LF_OP_BIAS, LF_OP_NORM, LF_OP_Q_NORM, LF_OP_K_NORM, LF_OP_SCALE, LF_OP_WEIGHTS_N };

struct lf_op {
    enum lf_op_kind kind;
    int layer; /* -1: outside the layers */
    int in[LF_OP_INPUTS_N], out[LF_OP_OUTPUTS_N], weight[LF_OP_WEIGHTS_N];
    float eps;            /* of the norm that the op is or has */
    float x_eps;          /* of the norm whose first half its x is, beside x's sum_squares */
    int rope, rotary_dim; /* which table (struct lf_hparams), and channels that it turns */
    bool norm_whole_row;  /* q_norm and k_norm are over all heads at once */
    bool scales_q;        /* by position (lf_hparams.q_scale) */
    bool v_norm, v_of_k;  /* of rope_append (rope.h) */
    float alpha;          /* of a gemm */
    int codes_for;        /* the slot of the matrix for which h or act is written as codes where the device's GEMM takes
                             them (quantizes_x of device/ops.h); LF_NONE: it is elements */
    bool x_codes;         /* of a gemm or expert_gemm: x is such a value */
    float scale;          /* of scores; of embed; of a route's weights */
    float softcap;        /* of scores, 0: none; of softcap */
    int window;           /* of attention and rope: keys that a query may see, 0: all */
    enum lf_act act;      /* of gate_mul */
    float limit;          /* of its act */
    enum lf_route route;  /* of route */
    int column;           /* of embed: the first of as many columns as x is wide; LF_NONE: x is whole rows */
    int first_id; /* of embed: whose row the table begins with; rows that it has not are zeros. LF_NONE: it has all */

    struct lf_delta_shape delta; /* of conv and delta */
};

/* One forward pass. Zeroed: none. */
struct lf_program {
    struct lf_op *ops;       /* [n_ops] owned, as the other arrays */
    struct lf_value *values; /* [n_values] */
    struct lf_slot *slots;   /* [n_slots]; none in a program that was derived: those of the recorded one hold */
    int n_ops, n_values, n_slots;
    int logits; /* value; LF_NONE: this program makes none */
};

/* An op with nothing in its places yet. */
struct lf_op lf_op_init(enum lf_op_kind kind, int layer);
/* LF_NO_MEMORY. ops and values of `from`, no slots. */
LF_MUST_CHECK enum lf_status lf_program_copy(struct lf_program *out, const struct lf_program *from, struct lf_err *err);
void lf_program_deinit(struct lf_program *program); /* accepts a zeroed one */
const char *lf_op_name(enum lf_op_kind kind);       /* "gemm", … */
/* Whether the op multiplies by a matrix. */
bool lf_op_has_gemm(enum lf_op_kind kind);
/* Whether every token of a step must reach the op: later steps read what it leaves (K and V, states). */
bool lf_op_keeps(enum lf_op_kind kind);
/* Makes room at ops[at] for one more. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_program_insert(struct lf_program *program, int at, const struct lf_op *op,
                                               struct lf_err *err);
/* The op is to go, and goes when lf_program_compact is called: until then the others stay where they are. */
void lf_program_remove(struct lf_program *program, int at);
void lf_program_compact(struct lf_program *program);
/* Fills in when each value is made and read; what nobody makes has first_op -1. */
void lf_program_find_lives(struct lf_program *program);
/* A new value; its index in *out. LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_program_add_value(struct lf_program *program, struct lf_value value, int *out,
                                                  struct lf_err *err);
/* LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_program_add_slot(struct lf_program *program, const struct lf_slot *slot, int *out,
                                                 struct lf_err *err);
/* Rows of a value in a step in which its kind of rows are so many. */
uint64_t lf_value_rows(const struct lf_value *value, uint64_t of_kind);
uint64_t lf_value_elem_bytes(const struct lf_value *value, uint64_t act_bytes);
/* Whether value v is read by an op from ops[from] on. */
bool lf_program_reads(const struct lf_program *program, int from, int value);

#endif
