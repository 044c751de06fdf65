/* Runs a program's ops in order: one function a kind, none of which decides anything that a pass could have decided.
 * Nothing is allocated and nothing fails; on a GPU the ops are queued. */
#ifndef LF_MODEL_INTERPRETER_H
#define LF_MODEL_INTERPRETER_H

#include "attention/attention.h"
#include "device/comm.h"
#include "model/layer_kinds.h"
#include "model/program.h"
#include "model/workspace.h"

/* What the ops of a step share; all borrowed. */
struct lf_step {
    struct lf_device *dev;
    struct lf_attn *const *attn;        /* by shape_idx of a kind */
    const struct lf_layer_kinds *kinds; /* of the program's layers */
    const struct lf_program *program;
    const struct lf_weight *weights; /* by slot; a vector is its data */
    char *base;                      /* of the workspace, device address */
    const struct lf_workspace *ws;
    int fused_norm_tokens;       /* ops of so many rows at most fuse norms into GEMMs (device/ops.h) */
    const int32_t *sampled;      /* device: what the last sampling has drawn; NULL where the host samples */
    const struct lf_kv_view *kv; /* by group; NULL where no op is run */
    int n_tokens, n_out;
    int most_tokens;      /* of a step: there is room for so many rows */
    int first_own, n_own; /* of the tokens; all, where contexts or this step's rows are not divided */
    const struct lf_split *split;
    const struct lf_state_view
        *states;                     /* by layer with a state (kv_layout.h); NULL where no op is run, or none has one */
    struct lf_comm *comm, *cp;       /* of the ranks that divide layers, and contexts; NULL: they do not */
    struct lf_state_step state_step; /* the step's sequences, for all of them */
};

void lf_interpret(const struct lf_step *step);
/* The same, waiting for each op: seconds[i] becomes the time of op i where it is less than what is there. */
LF_MUST_CHECK enum lf_status lf_interpret_timed(const struct lf_step *step, double *seconds, struct lf_err *err);
/* The parameters of the GEMM that an op is or begins with, but for norms. */
struct lf_gemm_params lf_step_gemm_params(const struct lf_step *step, const struct lf_op *op);

#endif
