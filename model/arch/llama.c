/* Llama, Mistral, Qwen2, Qwen3 (Touvron et al. 2023, §2.2, is the architecture; transformers' modeling_llama.py and its
 * neighbours the names):
 *
 *     x = embed(ids)
 *     each layer:   h = rmsnorm(x);  qkv = h·Wqkvᵀ;  q, K, V = rope(qkv), K and V appended to the cache
 *                   x += attention(q, K, V)·Woᵀ
 *                   h = rmsnorm(x);  x += (silu(gate) · up)·Wdownᵀ    with [gate, up] = h·Wguᵀ
 *     logits = rmsnorm(x)·Wheadᵀ
 *
 * They differ in biases, in a norm of each head of q and k, and in windows. Phi-3 and Phi-4 have the same pass with
 * matrices that are stacked in the files already, SmolLM3 one with layers that do not rotate (smollm3.c), Qwen3-MoE and
 * Mixtral experts in place of MLPs. */
#include "model/arch/arch.h"
#include "model/arch/decoder.h"

static int attention(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int norm = lf_rec_vector(r, layer, "model.layers.#.input_layernorm", hp->hidden);
    struct lf_linear qkv = lf_decoder_qkv(r, layer);
    int q_norm = LF_NONE, k_norm = LF_NONE;
    if (hp->qk_norm) {
        q_norm = lf_rec_vector(r, layer, "model.layers.#.self_attn.q_norm", hp->head_dim);
        k_norm = lf_rec_vector(r, layer, "model.layers.#.self_attn.k_norm", hp->head_dim);
    }
    struct lf_linear out = lf_decoder_out(r, layer);
    int sinks =
        hp->arch->sinks ? lf_rec_heads_vector(r, layer, "model.layers.#.self_attn.sinks", hp->n_heads) : LF_NONE;
    int h = lf_rec_rmsnorm(r, x, norm);
    int q = lf_rec_rope_append(r, layer, lf_rec_gemm(r, h, qkv), q_norm, k_norm);
    return lf_rec_gemm_add(r, lf_rec_sink_attention(r, layer, q, hp->layers[layer].window, sinks), out, x);
}

int lf_llama_mlp(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int norm = lf_rec_vector_plus(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden,
                                  hp->arch->norm_plus_1 ? 1 : 0);
    struct lf_linear gate_up = lf_decoder_gate_up(r, layer);
    struct lf_linear down = lf_decoder_down(r, layer);
    int h = lf_rec_rmsnorm(r, x, norm);
    return lf_rec_gemm_add(r, lf_decoder_swiglu(r, h, gate_up), down, x);
}

void lf_llama_record_with(struct lf_recorder *r, lf_record_mlp *mlp)
{
    const struct lf_hparams *hp = r->hp;
    struct lf_decoder_ends ends = lf_decoder_ends(r);
    int x = lf_rec_embed(r, ends.table);
    for (int layer = 0; layer < hp->n_layers; layer++) x = mlp(r, layer, attention(r, layer, x));
    lf_rec_logits(r, lf_rec_rmsnorm(r, x, ends.norm), ends.head);
}

void lf_llama_record(struct lf_recorder *r)
{
    lf_llama_record_with(r, lf_llama_mlp);
}

const struct lf_arch lf_arch_llama = {.name = "LlamaForCausalLM",
                                      .model_type = "llama",
                                      .attention_bias = true,
                                      .mlp_bias = true,
                                      .as_many_kv_heads = true,
                                      .record = lf_llama_record};
const struct lf_arch lf_arch_mistral = {.name = "MistralForCausalLM",
                                        .model_type = "mistral",
                                        .sliding_window = true,
                                        .default_window = 4096,
                                        .record = lf_llama_record};
/* Mistral Small 3.1 and 3.2: the text part. */
const struct lf_arch lf_arch_mistral3 = {.name = "Mistral3ForConditionalGeneration",
                                         .model_type = "mistral3",
                                         .text_type = "mistral",
                                         .sliding_window = true,
                                         .default_window = 4096,
                                         .record = lf_llama_record};
const struct lf_arch lf_arch_qwen2 = {.name = "Qwen2ForCausalLM",
                                      .model_type = "qwen2",
                                      .qkv_bias = true,
                                      .use_sliding_window = true,
                                      .default_window = 4096,
                                      .record = lf_llama_record};
const struct lf_arch lf_arch_qwen3 = {.name = "Qwen3ForCausalLM",
                                      .model_type = "qwen3",
                                      .attention_bias = true,
                                      .qk_norm = true,
                                      .use_sliding_window = true,
                                      .default_window = 4096,
                                      .head_dim = 128,
                                      .record = lf_llama_record};
/* Phi-3, Phi-3.5-mini, Phi-4-mini (Abdin et al. 2024), with longrope where their context was stretched. */
const struct lf_arch lf_arch_phi3 = {.name = "Phi3ForCausalLM",
                                     .model_type = "phi3",
                                     .sliding_window = true,
                                     .as_many_kv_heads = true,
                                     .stacked = true,
                                     .own_code = true,
                                     .record = lf_llama_record};
