/* The families (architectures) that can be opened: a file each, and a row in arch.c. */
#ifndef LF_MODEL_ARCH_ARCH_H
#define LF_MODEL_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/json.h"
#include "model/hparams.h"
#include "model/recorder.h"

/* What transformers takes where a key is missing. 0: it must be there. */
struct lf_arch_sizes {
    int n_layers, hidden, intermediate, n_vocab, n_heads, n_kv_heads, max_positions;
    double norm_eps;
};

/* What an architecture has whether config.json says so or not, which keys it listens to, and its forward pass. */
struct lf_arch {
    const char *name, *model_type; /* in config.json: architectures, model_type */
    /* Of a model that also sees: the model_type of its text_config, where the rest of this is read. NULL: it has none,
     * and everything is at the top. The towers of other senses are left unread. */
    const char *text_type;
    bool qkv_bias;       /* always, attention_bias or not */
    bool attention_bias; /* the key counts, for q, k, v and o */
    bool mlp_bias;       /* the key counts */
    bool qk_norm;
    bool norm_plus_1;        /* norms multiply by 1 + w */
    bool sinks;              /* self_attn.sinks: a number of each head joins the denominator (attention.h) */
    bool stacked;            /* q, k and v are one tensor of the files, and so are gate and up */
    bool stacked_gate_up;    /* gate and up alone are */
    bool own_code;           /* its repositories carry (auto_map) a copy of the code that transformers has for it */
    bool tied;               /* where tie_word_embeddings is missing */
    bool use_sliding_window; /* sliding_window counts only where this key is true, from layer max_window_layers on */
    bool sliding_window;     /* sliding_window counts for every layer */
    int default_window;      /* where sliding_window is missing, but would count */
    /* layer_types says which layers have the window; where it is missing each so many-th has not, or as
     * sliding_window_pattern has it. 0: all are alike. */
    int full_every;
    bool own_layer_types;         /* read_layers reads layer_types, which say something else */
    bool mxfp4;                   /* experts may be in MXFP4 (bind.c finds out of which tensors) */
    double rope_theta;            /* default; 0: 10,000 */
    double partial_rotary_factor; /* default; 0: 1 */
    bool rope_interleaved;        /* pairs are (2i, 2i + 1): rows of q and k are put in another order (decoder.h) */
    /* Layers with a window have RoPE of their own: rope_parameters has two objects, by type of layer, or rope_scaling
     * is that of the others. */
    bool rope_by_type;
    const char *local_theta_key; /* beside rope_theta: that of layers with a window; NULL: rope_theta is */
    double local_theta;          /* default of that key */
    bool stretched;              /* max_position_embeddings is what linear scaling has stretched already */
    int head_dim;                /* default; 0: hidden_size / num_attention_heads */
    bool as_many_kv_heads;       /* as heads, where num_key_value_heads is missing */
    struct lf_arch_sizes sizes;  /* defaults */
    bool hidden_activation;      /* the key of its activation, which is gelu_pytorch_tanh where that is missing; else it
                                    is hidden_act, and silu */
    bool only_silu;              /* no other may stand there: it says more than what MLPs have */
    /* What it reads beyond that, when the rest has been read; NULL: nothing. reads: those of its keys, and of its
     * parameters of RoPE, that change a result where nobody reads them, NULL behind the last. */
    enum lf_status (*read)(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err);
    const char *const *reads;
    /* What it reads before RoPE, which depends on it: shapes and types of layers; those of a type have one head_dim.
     * NULL: nothing. */
    enum lf_status (*read_layers)(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err);
    void (*record)(struct lf_recorder *r);
};

/* Adds a layer's MLP, or what stands in its place, with the norm before it, to the residual stream x: the sum. */
typedef int lf_record_mlp(struct lf_recorder *r, int layer, int x);

/* The forward pass of Llama and what is built like it (llama.c), and with another MLP. */
void lf_llama_record(struct lf_recorder *r);
void lf_llama_record_with(struct lf_recorder *r, lf_record_mlp *mlp);
int lf_llama_mlp(struct lf_recorder *r, int layer, int x);

extern const struct lf_arch lf_arch_gemma3, lf_arch_gemma3_text, lf_arch_gemma4, lf_arch_gemma4_text, lf_arch_glm4,
    lf_arch_gpt_oss, lf_arch_granite, lf_arch_llama, lf_arch_ministral3, lf_arch_mistral, lf_arch_mistral3,
    lf_arch_mistral3_ministral3, lf_arch_mixtral, lf_arch_olmo2, lf_arch_olmo3, lf_arch_phi3, lf_arch_qwen2,
    lf_arch_qwen3, lf_arch_qwen3_5, lf_arch_qwen3_5_moe, lf_arch_qwen3_5_moe_text, lf_arch_qwen3_5_text,
    lf_arch_qwen3_moe, lf_arch_qwen3_next, lf_arch_smollm3;

/* All of them, NULL behind the last. */
extern const struct lf_arch *const lf_archs[];

#endif
