/* The forward step of the llama family: Llama, Mistral, Qwen2, Qwen3. Variants are data (biases, QK norm, windows, rope
 * kinds), not code. */
#ifndef LF_MODEL_LLAMA_H
#define LF_MODEL_LLAMA_H

#include "attention/attention.h"
#include "model/batch.h"
#include "model/weights.h"
#include "model/workspace.h"

/* Everything a step needs, bound to its memory. Borrowed but for what model.c made; nothing changes after open. */
struct lf_llama {
    struct lf_device *dev;
    const struct lf_hparams *hp;
    struct lf_weights weights;
    struct lf_step_limits limits;
    struct lf_workspace ws;
    char *base; /* of the workspace, device address */
    struct lf_attn *attn;
    struct lf_kv_seq *tail_seqs; /* [limits.max_seqs] host */
};

/* As lf_model_step; kv: blocks of every sequence are writable. */
void lf_llama_step(struct lf_llama *m, const struct lf_kv_view *kv, const struct lf_batch *batch, float *logits);

#endif
