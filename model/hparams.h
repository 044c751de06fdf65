/* Hyperparameters: config.json, read once, checked against itself, and turned into the data that a family's file
 * (arch/) records a program from.
 *
 * Nothing is guessed: a key that would change the result and is not implemented is refused by name. */
#ifndef LF_MODEL_HPARAMS_H
#define LF_MODEL_HPARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "attention/rope.h"
#include "core/dtype.h"
#include "core/status.h"
#include "device/delta.h"
#include "device/gate.h"
#include "model/split.h"

enum { LF_EOS_IDS_N = 16, LF_ROPES_N = 2 };

struct lf_arch;         /* model/arch/arch.h */
struct lf_quantization; /* model/formats/quantization.h */

/* What layers of a model differ in. */
struct lf_layer_hparams {
    int window;                             /* sliding window, 0: none */
    int rope;                               /* index of ropes */
    int n_kv_heads, head_dim, intermediate; /* 0: the model's */
    int alias_back;   /* it has no keys and values of its own but reads those of the layer so many before it,
                         of the same window and shape; 0: it has */
    bool has_experts; /* in place of the MLP, or beside it (Gemma 4) */
    bool v_of_k;      /* V is K before its norm: there is no v_proj (Gemma 4) */
    bool is_delta; /* a gated delta net in place of attention: nothing in the KV cache, but a state (device/delta.h) */
};

/* Queries at position p are multiplied by 1 + beta · ln(1 + ⌊p / n_positions⌋) (Ministral 3). beta 0: they are not. */
struct lf_q_scale {
    double beta;
    int n_positions;
};

/* By which families multiply what goes into the residual stream and what comes out of it; those that do not say so do
 * not look at it. */
struct lf_multipliers {
    float embedding, residual, logits;
};

/* --max-position, --rope-scaling: positions behind those that the model was made for. Zeroed: none. */
struct lf_stretch {
    int max_position;  /* tokens; 0: those that it was made for */
    bool yarn;         /* YaRN where the configuration has no scaling; where it has YaRN it is that anyway */
    int yarn_original; /* tokens that it was trained on before; 0: all that it was made for */
};

struct lf_hparams {
    const struct lf_arch *arch; /* static */
    const char *architecture;   /* its name, "LlamaForCausalLM" …; static */
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, intermediate, n_vocab;
    int made_positions; /* the context the model was made for, scaling included */
    int max_positions;  /* that, or more of them where the stretch says so */
    struct lf_stretch stretch;
    int unused_window; /* of a family without windows: sliding_window, which no position may be beyond; 0: none */
    float norm_eps;
    float attn_scale; /* of scores; 0: head_dim^-½ */
    float softcap;    /* of logits; 0: none */
    enum lf_act act;  /* of MLPs and experts, but for gpt-oss, which has its own */
    struct lf_multipliers multipliers;
    struct lf_q_scale q_scale;
    bool tied; /* lm_head is the embedding */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;
    int n_experts, experts_per_token, expert_intermediate; /* of the layers that have experts; 0: none has */
    int shared_intermediate;         /* of the expert beside them that computes every token; 0: there is none */
    float swiglu_limit;              /* of LF_ACT_SWIGLU_OAI */
    struct lf_delta_shape delta;     /* of the layers that are gated delta nets; zeros: none is */
    bool norm_topk;                  /* the weights of the experts that compute a token sum to 1 */
    int layer_input, n_layer_inputs; /* width of an input that each layer has for each token, and how many tokens have
                                        one; 0: layers have none (Gemma 4) */
    struct lf_layer_hparams *layers; /* [n_layers] owned */
    struct lf_rope_opts ropes[LF_ROPES_N];
    int n_ropes;
    enum lf_dtype dtype;                  /* torch_dtype: what --load dummy makes, and quantized matrices stand for */
    struct lf_quantization *quantization; /* how matrices of the files are quantized, owned; NULL: they are not */
    bool mxfp4;                           /* experts are said to be in MXFP4 (arch.h); files may have them otherwise */
    int32_t eos_ids[LF_EOS_IDS_N];        /* config.json, generation_config.json, and what was added */
    int n_eos;
    struct lf_split split; /* of what the device has of the model; all numbers here are the whole model's */
};

/* Reads dir/config.json and, if there, generation_config.json. */
LF_MUST_CHECK enum lf_status lf_hparams_read(struct lf_hparams *out, const char *dir, struct lf_err *err);
/* The same with positions behind those that the model was made for: LF_INVALID, LF_UNSUPPORTED where it cannot have
 * them. */
LF_MUST_CHECK enum lf_status lf_hparams_read_stretched(struct lf_hparams *out, const char *dir,
                                                       const struct lf_stretch *stretch, struct lf_err *err);
/* One more id that ends an answer: the tokenizer's. false: it is in the list, or no id, or the list is full. */
bool lf_hparams_add_eos(struct lf_hparams *hp, int32_t id);
void lf_hparams_deinit(struct lf_hparams *hp); /* accepts a zeroed one */

/* Of a layer. */
static inline int lf_layer_n_kv_heads(const struct lf_hparams *hp, int layer)
{
    return hp->layers[layer].n_kv_heads ? hp->layers[layer].n_kv_heads : hp->n_kv_heads;
}

static inline int lf_layer_head_dim(const struct lf_hparams *hp, int layer)
{
    return hp->layers[layer].head_dim ? hp->layers[layer].head_dim : hp->head_dim;
}

static inline int lf_layer_intermediate(const struct lf_hparams *hp, int layer)
{
    return hp->layers[layer].intermediate ? hp->layers[layer].intermediate : hp->intermediate;
}

#endif
