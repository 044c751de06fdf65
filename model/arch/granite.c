/* Granite 3 (dense): Llama, but for four multipliers: of the embedding, of what attention and MLP add to the residual
 * stream, of scores (in place of head_dim^-½), and of the logits, which are divided by theirs. */
#include "model/arch/arch.h"

#include "core/check.h"
#include "model/arch/decoder.h"
#include "model/config.h"

static int attention(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int norm = lf_rec_vector(r, layer, "model.layers.#.input_layernorm", hp->hidden);
    struct lf_linear qkv = lf_decoder_qkv(r, layer), out = lf_decoder_out(r, layer);
    int h = lf_rec_rmsnorm(r, x, norm);
    int q = lf_rec_rope_append(r, layer, lf_rec_gemm(r, h, qkv), LF_NONE, LF_NONE);
    return lf_rec_gemm_add_scaled(r, lf_rec_attention(r, layer, q, 0), out, hp->multipliers.residual, x);
}

static int mlp(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int norm = lf_rec_vector(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden);
    struct lf_linear gate_up = lf_decoder_gate_up(r, layer), down = lf_decoder_down(r, layer);
    int act = lf_decoder_swiglu(r, lf_rec_rmsnorm(r, x, norm), gate_up);
    return lf_rec_gemm_add_scaled(r, act, down, hp->multipliers.residual, x);
}

static void record(struct lf_recorder *r)
{
    const struct lf_multipliers *by = &r->hp->multipliers;
    struct lf_decoder_ends ends = lf_decoder_ends(r);
    int x = lf_rec_embed_scaled(r, ends.table, by->embedding);
    for (int layer = 0; layer < r->hp->n_layers; layer++) x = mlp(r, layer, attention(r, layer, x));
    lf_rec_logits_scaled(r, lf_rec_rmsnorm(r, x, ends.norm), ends.head, by->logits);
}

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    double embedding = 1, residual = 1, scores = 1, divisor = 1;
    LF_TRY(lf_config_number_or(config, "embedding_multiplier", 1e-6, 1e6, &embedding, NULL, err));
    LF_TRY(lf_config_number_or(config, "residual_multiplier", 1e-6, 1e6, &residual, NULL, err));
    LF_TRY(lf_config_number_or(config, "attention_multiplier", 1e-6, 1e6, &scores, NULL, err));
    LF_TRY(lf_config_number_or(config, "logits_scaling", 1e-6, 1e6, &divisor, NULL, err));
    hp->multipliers = (struct lf_multipliers){
        .embedding = (float)embedding, .residual = (float)residual, .logits = (float)(1 / divisor)};
    hp->attn_scale = (float)scores;
    return LF_OK;
}

static const char *const reads[] = {"embedding_multiplier", "residual_multiplier", "attention_multiplier",
                                    "logits_scaling", NULL};

const struct lf_arch lf_arch_granite = {.name = "GraniteForCausalLM",
                                        .model_type = "granite",
                                        .attention_bias = true,
                                        .mlp_bias = true,
                                        .as_many_kv_heads = true,
                                        .read = read,
                                        .reads = reads,
                                        .record = record};
