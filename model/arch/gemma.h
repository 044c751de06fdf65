/* What the generations of Gemma have in common. */
#ifndef LF_MODEL_ARCH_GEMMA_H
#define LF_MODEL_ARCH_GEMMA_H

#include "model/arch/arch.h"
#include "model/arch/decoder.h"

/* √n as transformers multiplies an embedding of n channels by it: rounded to the type of the weights. */
float lf_gemma_root(const struct lf_hparams *hp, int n);
/* The residual stream as it begins: √hidden times the embedding. */
int lf_gemma_embed(struct lf_recorder *r, const struct lf_decoder_ends *ends);
/* Logits of the residual stream as it ends, capped where final_logit_softcapping says so. */
void lf_gemma_logits(struct lf_recorder *r, const struct lf_decoder_ends *ends, int x);

#endif
