/* The forward step of the llama family: Llama, Mistral, Qwen2, Qwen3. Variants are data (biases, QK norm, windows, rope
 * kinds), not code. */
#ifndef LF_MODEL_LLAMA_H
#define LF_MODEL_LLAMA_H

#include "attention/attention.h"
#include "model/batch.h"
#include "model/graphs.h"
#include "model/weights.h"
#include "model/workspace.h"

enum { LF_LLAMA_WINDOWS_N = LF_ATTN_SCHEDULES_N - 1 }; /* that layers may differ in */

/* Everything a step needs, bound to its memory. Borrowed but for what model.c made; nothing changes after
 * lf_llama_prepare. */
struct lf_llama {
    struct lf_device *dev;
    const struct lf_hparams *hp;
    struct lf_weights weights;
    struct lf_step_limits limits;
    struct lf_workspace ws;
    char *base; /* of the workspace, device address */
    struct lf_attn *attn;
    struct lf_kv_seq *tail_seqs;     /* [limits.max_seqs] host */
    int windows[LF_LLAMA_WINDOWS_N]; /* attention schedule i is for windows[i] */
    int n_windows;
    struct lf_graphs graphs; /* of decode steps, owned; none on a device without */
    int fused_norm_tokens;   /* steps of so many tokens at most fuse norms into GEMMs (ops.h) */
    const int32_t *sampled;  /* device: what the last sampling has drawn; NULL where the host samples */
};

/* As lf_model_prepare. */
LF_MUST_CHECK enum lf_status lf_llama_prepare(struct lf_llama *m, const struct lf_kv_view *kv, struct lf_err *err);
/* Queues a step: its logits will be at ws.logits. n_before: outs of the step before, which ids below zero name. */
void lf_llama_run(struct lf_llama *m, const struct lf_kv_view *kv, const struct lf_batch *batch, int n_before);
void lf_llama_deinit(struct lf_llama *m); /* what prepare made; accepts a zeroed one */

#endif
