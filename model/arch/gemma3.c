/* Gemma 3, its text part (Gemma Team 2025, §2; transformers' modeling_gemma3.py for the names):
 *
 *     x = √hidden · embed(ids)
 *     each layer:   h = rmsnorm(x);  q, K, V = rope(h·Wqkvᵀ), a norm of each head of q and k before it
 *                   x += rmsnorm(attention(q, K, V)·Woᵀ)
 *                   h = rmsnorm(x);  x += rmsnorm((gelu(gate) · up)·Wdownᵀ)    with [gate, up] = h·Wguᵀ
 *     logits = rmsnorm(x)·Wheadᵀ, capped where final_logit_softcapping says so
 *
 * Norms multiply by 1 + w. Five of six layers have a window, and RoPE of another base. Scores are scaled by
 * query_pre_attn_scalar^-½. √hidden is rounded to the type of the weights, in which transformers multiplies. */
#include "model/arch/arch.h"

#include <math.h>

#include "core/check.h"
#include "core/dtype.h"
#include "model/arch/decoder.h"
#include "model/arch/gemma.h"
#include "model/config.h"

enum { SCALAR = 256, WINDOW = 4096 }; /* where the keys are missing */

static int norm_of(struct lf_recorder *r, int layer, const char *pattern, int n)
{
    return lf_rec_vector_plus(r, layer, pattern, n, 1);
}

static int attention(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int before = norm_of(r, layer, "model.layers.#.input_layernorm", hp->hidden);
    struct lf_linear qkv = lf_decoder_qkv(r, layer), out = lf_decoder_out(r, layer);
    int q_norm = norm_of(r, layer, "model.layers.#.self_attn.q_norm", hp->head_dim);
    int k_norm = norm_of(r, layer, "model.layers.#.self_attn.k_norm", hp->head_dim);
    int after = norm_of(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden);
    int h = lf_rec_rmsnorm(r, x, before);
    int q = lf_rec_rope_append(r, layer, lf_rec_gemm(r, h, qkv), q_norm, k_norm);
    int y = lf_rec_gemm_float(r, lf_rec_attention(r, layer, q, hp->layers[layer].window), out);
    return lf_rec_norm_add(r, y, after, x);
}

static int mlp(struct lf_recorder *r, int layer, int x)
{
    int hidden = r->hp->hidden, before = norm_of(r, layer, "model.layers.#.pre_feedforward_layernorm", hidden);
    struct lf_linear gate_up = lf_decoder_gate_up(r, layer), down = lf_decoder_down(r, layer);
    int after = norm_of(r, layer, "model.layers.#.post_feedforward_layernorm", hidden);
    int h = lf_rec_rmsnorm(r, x, before);
    int act = lf_rec_gate_mul(r, lf_rec_gemm(r, h, gate_up), r->hp->act, 0);
    return lf_rec_norm_add(r, lf_rec_gemm_float(r, act, down), after, x);
}

float lf_gemma_root(const struct lf_hparams *hp, int n)
{
    float scale = sqrtf((float)n), rounded;
    char stored[sizeof(float)];
    lf_from_f32(stored, hp->dtype, &scale, 1);
    lf_to_f32(&rounded, stored, hp->dtype, 1);
    return rounded;
}

int lf_gemma_embed(struct lf_recorder *r, const struct lf_decoder_ends *ends)
{
    return lf_rec_embed_scaled(r, ends->table, lf_gemma_root(r->hp, r->hp->hidden));
}

void lf_gemma_logits(struct lf_recorder *r, const struct lf_decoder_ends *ends, int x)
{
    lf_rec_logits(r, lf_rec_rmsnorm(r, x, ends->norm), ends->head);
    if (r->hp->softcap > 0) lf_rec_softcap(r, r->hp->softcap);
}

static void record(struct lf_recorder *r)
{
    struct lf_decoder_ends ends = lf_decoder_ends(r);
    int x = lf_gemma_embed(r, &ends);
    for (int layer = 0; layer < r->hp->n_layers; layer++) x = mlp(r, layer, attention(r, layer, x));
    lf_gemma_logits(r, &ends, x);
}

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    double scalar = SCALAR, cap = 0;
    LF_TRY(lf_config_number_or(config, "query_pre_attn_scalar", 1e-3, 1e6, &scalar, NULL, err));
    LF_TRY(lf_config_number_or(config, "final_logit_softcapping", 1e-3, 1e6, &cap, NULL, err));
    for (int i = 0; i < hp->n_ropes; i++)
        if (hp->ropes[i].rotary_dim != hp->head_dim)
            return lf_fail(err, LF_UNSUPPORTED, "partial_rotary_factor is set, but %s turns all channels",
                           hp->architecture);
    hp->attn_scale = (float)(1 / sqrt(scalar));
    hp->softcap = (float)cap;
    return LF_OK;
}

static const char *const reads[] = {"query_pre_attn_scalar", "final_logit_softcapping", NULL};

#define OF_BOTH                                                                                                        \
    .norm_plus_1 = true, .attention_bias = true, .qk_norm = true, .tied = true, .sliding_window = true,                \
    .default_window = WINDOW, .full_every = 6, .rope_theta = 1e6, .rope_by_type = true,                                \
    .local_theta_key = "rope_local_base_freq", .local_theta = 1e4, .stretched = true, .head_dim = 256,                 \
    .sizes = {.n_layers = 26,                                                                                          \
              .hidden = 2304,                                                                                          \
              .intermediate = 9216,                                                                                    \
              .n_vocab = 262208,                                                                                       \
              .n_heads = 8,                                                                                            \
              .n_kv_heads = 4,                                                                                         \
              .max_positions = 131072,                                                                                 \
              .norm_eps = 1e-6},                                                                                       \
    .hidden_activation = true, .read = read, .reads = reads, .record = record

const struct lf_arch lf_arch_gemma3_text = {.name = "Gemma3ForCausalLM", .model_type = "gemma3_text", OF_BOTH};
/* 4B, 12B and 27B, which also see. */
const struct lf_arch lf_arch_gemma3 = {
    .name = "Gemma3ForConditionalGeneration", .model_type = "gemma3", .text_type = "gemma3_text", OF_BOTH};
