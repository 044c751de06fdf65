/* OLMo 2 (OLMo team 2025, §3): a layer has its norms behind attention and behind the MLP, before what they make is
 * added to the residual stream, and none before them. Queries and keys have a norm over all heads at once. OLMo 3 is
 * the same with a window on three of four layers, whose RoPE is never scaled. */
#include "model/arch/arch.h"
#include "model/arch/decoder.h"

static int attention(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_linear qkv = lf_decoder_qkv(r, layer), out = lf_decoder_out(r, layer);
    int q_norm = lf_rec_vector(r, layer, "model.layers.#.self_attn.q_norm", lf_decoder_n_q(hp, layer));
    int k_norm = lf_rec_vector(r, layer, "model.layers.#.self_attn.k_norm", lf_decoder_n_kv(hp, layer));
    int norm = lf_rec_vector(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden);
    int q = lf_rec_rope_append(r, layer, lf_rec_gemm(r, lf_rec_round(r, x), qkv), q_norm, k_norm);
    int y = lf_rec_gemm_float(r, lf_rec_attention(r, layer, q, hp->layers[layer].window), out);
    return lf_rec_norm_add(r, y, norm, x);
}

static int mlp(struct lf_recorder *r, int layer, int x)
{
    struct lf_linear gate_up = lf_decoder_gate_up(r, layer), down = lf_decoder_down(r, layer);
    int norm = lf_rec_vector(r, layer, "model.layers.#.post_feedforward_layernorm", r->hp->hidden);
    int act = lf_decoder_swiglu(r, lf_rec_round(r, x), gate_up);
    return lf_rec_norm_add(r, lf_rec_gemm_float(r, act, down), norm, x);
}

static void record(struct lf_recorder *r)
{
    struct lf_decoder_ends ends = lf_decoder_ends(r);
    int x = lf_rec_embed(r, ends.table);
    for (int layer = 0; layer < r->hp->n_layers; layer++) x = mlp(r, layer, attention(r, layer, x));
    lf_rec_logits(r, lf_rec_rmsnorm(r, x, ends.norm), ends.head);
}

const struct lf_arch lf_arch_olmo2 = {.name = "Olmo2ForCausalLM",
                                      .model_type = "olmo2",
                                      .attention_bias = true,
                                      .as_many_kv_heads = true,
                                      .record = record};
const struct lf_arch lf_arch_olmo3 = {.name = "Olmo3ForCausalLM",
                                      .model_type = "olmo3",
                                      .attention_bias = true,
                                      .as_many_kv_heads = true,
                                      .sliding_window = true,
                                      .default_window = 4096,
                                      .full_every = 4,
                                      .rope_by_type = true,
                                      .rope_theta = 5e5,
                                      .record = record};
