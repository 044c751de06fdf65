/* What the ops of a step take: a row for each kind of op and shape, with its weights, floating-point operations and
 * bytes moved, and, where the step was run, its time. `longflash plan --ops` and `--profile` print it. */
#ifndef LF_MODEL_OP_TABLE_H
#define LF_MODEL_OP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"
#include "device/device.h"
#include "model/hparams.h"
#include "model/program.h"

enum { LF_OP_ROWS_N = 64 };

/* A step of one sequence: its last n_tokens tokens, of kv_len, are new; the logits of the last one are wanted. */
struct lf_op_step {
    int n_tokens, kv_len;
};

struct lf_op_row {
    enum lf_op_kind kind;
    int n;                 /* ops that it is the sum of */
    int n_rows;            /* of what each computes */
    int n_in, n_out;       /* of its matrix; without one, widths of input and output */
    int window;            /* of attention */
    uint64_t weight_bytes; /* packed; bytes that two slots share are the first one's */
    double flops;          /* a multiplication and an addition are two */
    double bytes;          /* weights, values and KV read and written, each once */
    double received_bytes; /* of collectives: what each rank receives of the others */
    double seconds;        /* measured; 0: not */
};

struct lf_op_table {
    struct lf_op_row rows[LF_OP_ROWS_N]; /* in the order of the first op of each */
    int n_rows;
    struct lf_op_step step;
    double step_seconds; /* of the step as a whole, measured; 0: not */
};

/* What the rows are made from. */
struct lf_op_table_opts {
    const struct lf_program *program; /* that of the step */
    const struct lf_slot *slots;
    const struct lf_weight *weights; /* by slot; data is not looked at */
    bool tied;                       /* slots that share bytes do (weights.h) */
    const struct lf_ops *ops;
    const struct lf_device_info *info;
    const struct lf_hparams *hp; /* shapes of K and V */
    enum lf_dtype kv_dtype;
    struct lf_op_step step;
    const double *seconds; /* [program->n_ops] of each op, or NULL */
};

/* LF_LIMIT where there are more rows than LF_OP_ROWS_N. */
LF_MUST_CHECK enum lf_status lf_op_table_make(struct lf_op_table *out, const struct lf_op_table_opts *opts,
                                              struct lf_err *err);
void lf_op_table_print(const struct lf_op_table *table, struct lf_buf *out);
void lf_op_table_print_json(const struct lf_op_table *table, struct lf_buf *out);

#endif
