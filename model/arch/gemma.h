/* What the generations of Gemma have in common. */
#ifndef LF_MODEL_ARCH_GEMMA_H
#define LF_MODEL_ARCH_GEMMA_H

#include "model/arch/arch.h"

/* The forward pass out of what a layer does: attention and MLP take the residual stream and return it. √hidden, by
 * which the embedding is multiplied, is rounded to the type of the weights, as in transformers; logits are capped where
 * final_logit_softcapping says so. */
typedef int lf_gemma_half(struct lf_recorder *r, int layer, int x);
void lf_gemma_record(struct lf_recorder *r, lf_gemma_half *attention_of, lf_gemma_half *mlp_of);

#endif
