/* Hyperparameters: config.json, read once, checked against itself, and turned into data the one family file runs on.
 *
 * Nothing is guessed: a key that would change the result and is not implemented is refused by name. */
#ifndef LF_MODEL_HPARAMS_H
#define LF_MODEL_HPARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "attention/rope.h"
#include "core/dtype.h"
#include "core/status.h"

enum { LF_EOS_IDS_N = 16 };

struct lf_hparams {
    char architecture[64]; /* "LlamaForCausalLM" … */
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, intermediate, n_vocab;
    int max_positions; /* the context the model was made for, scaling included */
    float norm_eps;
    bool tied; /* lm_head is the embedding */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;
    int *window; /* [n_layers] sliding window of each layer, 0: none; owned */
    struct lf_rope_opts rope;
    enum lf_dtype dtype;           /* torch_dtype: what --load dummy makes */
    int32_t bos_id;                /* -1: none */
    int32_t eos_ids[LF_EOS_IDS_N]; /* config.json and generation_config.json */
    int n_eos;
};

/* Reads dir/config.json and, if there, generation_config.json. */
LF_MUST_CHECK enum lf_status lf_hparams_read(struct lf_hparams *out, const char *dir, struct lf_err *err);
void lf_hparams_deinit(struct lf_hparams *hp); /* accepts a zeroed one */

#endif
