/* What the generations of Gemma have in common. */
#ifndef LF_MODEL_ARCH_GEMMA_H
#define LF_MODEL_ARCH_GEMMA_H

#include "model/hparams.h"

/* √hidden as transformers multiplies the embedding by it: rounded to the type of the weights. */
float lf_gemma_embed_scale(const struct lf_hparams *hp);

#endif
