/* A model's programs, bound to a device and its memory, and run a step at a time.
 *
 * A step is prepared, then launched. Preparing makes the attention schedules and uploads what differs from step to
 * step: ids, logits_idx, sequences, tasks, what is done with states. Launching is a program (interpreter.h), chosen by
 * which tokens' logits are wanted. On a device with graphs the launches of pure decode steps are recorded once for a
 * few sizes (graphs.h), those with several tokens a sequence too; a step replays the next larger one, whose surplus
 * tokens compute on what is there and touch nothing that others read.
 *
 * Every buffer is a part of the workspace (workspace.h); a step allocates nothing. The engine's thread calls. */
#ifndef LF_MODEL_EXECUTOR_H
#define LF_MODEL_EXECUTOR_H

#include "attention/attention.h"
#include "device/comm.h"
#include "kv/kv_cache.h"
#include "model/batch.h"
#include "model/graphs.h"
#include "model/interpreter.h"
#include "model/programs.h"
#include "model/weights.h"
#include "model/workspace.h"

/* Borrowed but for what model.c made; nothing changes after lf_executor_prepare. */
struct lf_executor {
    struct lf_device *dev;
    struct lf_comm *comm; /* of several ranks; NULL: there is one */
    struct lf_comm *tp,
        *cp; /* of those that divide layers, and contexts: ends of their own where both do; NULL: none */
    const struct lf_hparams *hp;
    struct lf_programs programs;
    struct lf_weights weights;
    struct lf_step_limits limits;
    struct lf_workspace ws;
    char *base; /* of the workspace, device address */
    struct lf_layer_kinds kinds;
    struct lf_attn *attn[LF_ATTN_SHAPES_N];
    struct lf_kv_seq *tail_seqs;             /* [limits.max_seqs] host */
    struct lf_kv_view views[LF_KV_GROUPS_N]; /* of the cache that is run on */
    /* Where layers have states, else NULL. */
    struct lf_state_view *state_views; /* [their number] of the cache that is run on */
    struct lf_state_seq *state_seqs;   /* [limits.max_seqs] host, of the step, then places that nobody uses; of a GPU */
    struct lf_state_arrays state_arrays; /* host: the step's chunks */
    int n_state_slots;                   /* of that cache */
    struct lf_graphs graphs, several;    /* of decode steps, owned; none on a device without */
    int fused_norm_tokens[LF_WANTED_N];  /* of each program */
    const int32_t *sampled;              /* device; as in struct lf_step */
};

/* As lf_model_prepare. */
LF_MUST_CHECK enum lf_status lf_executor_prepare(struct lf_executor *x, const struct lf_kv_cache *kv,
                                                 struct lf_err *err);
/* Queues a step: its logits will be at ws.logits. n_before: outs of the step before, which ids below zero name. */
void lf_executor_run(struct lf_executor *x, const struct lf_kv_cache *kv, const struct lf_batch *batch, int n_before);
/* Runs a step n_runs times op by op, and as often as a whole. seconds: [ops of its program] the least time of each op,
 * *step_seconds that of the step; *wanted: whose program it was. Appends the batch's tokens, as run does. */
LF_MUST_CHECK enum lf_status lf_executor_profile(struct lf_executor *x, const struct lf_kv_cache *kv,
                                                 const struct lf_batch *batch, int n_runs, enum lf_wanted *wanted,
                                                 double *seconds, double *step_seconds, struct lf_err *err);
void lf_executor_deinit(struct lf_executor *x); /* what prepare made; accepts a zeroed one */

#endif
