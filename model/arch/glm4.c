/* GLM-4-0414 (transformers' modeling_glm4.py): four norms a layer, one before and one behind each of attention and MLP;
 * half of a head's channels rotate, in neighbouring pairs; gate and up are one tensor.
 *
 *     each layer:   h = rmsnorm(x);  x += rmsnorm(attention(h)·Woᵀ)
 *                   h = rmsnorm(x);  x += rmsnorm((silu(gate) · up)·Wdownᵀ) */
#include "model/arch/arch.h"
#include "model/arch/decoder.h"
#include "model/config.h"

static int attention(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int before = lf_rec_vector(r, layer, "model.layers.#.input_layernorm", hp->hidden);
    int behind = lf_rec_vector(r, layer, "model.layers.#.post_self_attn_layernorm", hp->hidden);
    struct lf_linear qkv = lf_decoder_qkv(r, layer), out = lf_decoder_out(r, layer);
    int h = lf_rec_rmsnorm(r, x, before);
    int q = lf_rec_rope_append(r, layer, lf_rec_gemm(r, h, qkv), LF_NONE, LF_NONE);
    return lf_rec_norm_add(r, lf_rec_gemm_float(r, lf_rec_attention(r, layer, q, 0), out), behind, x);
}

static int mlp(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int before = lf_rec_vector(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden);
    int behind = lf_rec_vector(r, layer, "model.layers.#.post_mlp_layernorm", hp->hidden);
    struct lf_linear gate_up = lf_decoder_gate_up(r, layer), down = lf_decoder_down(r, layer);
    int act = lf_decoder_swiglu(r, lf_rec_rmsnorm(r, x, before), gate_up);
    return lf_rec_norm_add(r, lf_rec_gemm_float(r, act, down), behind, x);
}

static void record(struct lf_recorder *r)
{
    struct lf_decoder_ends ends = lf_decoder_ends(r);
    int x = lf_rec_embed(r, ends.table);
    for (int layer = 0; layer < r->hp->n_layers; layer++) x = mlp(r, layer, attention(r, layer, x));
    lf_rec_logits(r, lf_rec_rmsnorm(r, x, ends.norm), ends.head);
}

/* attention_bias is of q, k and v alone, and true where it is missing. */
static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    return lf_config_bool_or(config, "attention_bias", &hp->qkv_bias, err);
}

const struct lf_arch lf_arch_glm4 = {.name = "Glm4ForCausalLM",
                                     .model_type = "glm4",
                                     .qkv_bias = true,
                                     .stacked_gate_up = true,
                                     .rope_interleaved = true,
                                     .partial_rotary_factor = 0.5,
                                     .head_dim = 128,
                                     .read = read,
                                     .record = record};
