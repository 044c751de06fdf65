/* gpt-oss 20B and 120B (OpenAI 2025, arXiv:2508.10925; transformers' modeling_gpt_oss.py has the names): Llama's pass
 * with these differences:
 *
 *     attention   biases; a sink of each head in the denominator; every second layer sees a window only
 *     MLP         a router with biases, which weighs the experts that it has chosen among themselves; experts with
 *                 biases; (min(up, ±limit) + 1) · g · σ(1.702 g) with g = min(gate, limit)
 *
 * Files have the experts of a layer in one tensor: in MXFP4 as published, or by columns as transformers saves them.
 * Rows of gate and up alternate in it. */
#include "model/arch/arch.h"

#include <math.h>

#include "core/check.h"
#include "model/arch/experts.h"
#include "model/config.h"

enum { DEFAULT_WINDOW = 128, HEAD_DIM = 64 };

#define DEFAULT_THETA 150000
#define DEFAULT_LIMIT 7
#define ALPHA         1.702 /* what LF_ACT_SWIGLU_OAI has */

/* The files of OpenAI's own program call it otherwise, and those on the hub have both. */
static enum lf_status check_names(struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value other = lf_json_get(config, "experts_per_token");
    int n, n_other;
    if (lf_json_is_absent(other)) return LF_OK;
    LF_TRY(lf_config_int(config, "num_experts_per_tok", 1, INT32_MAX, &n, err));
    LF_TRY(lf_config_int_of(other, "experts_per_token", 1, INT32_MAX, &n_other, err));
    if (n == n_other) return LF_OK;
    return lf_fail(err, LF_CORRUPT, "num_experts_per_tok is %d, but experts_per_token %d", n, n_other);
}

static enum lf_status read_act(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    double alpha = ALPHA, limit = DEFAULT_LIMIT;
    LF_TRY(lf_config_number_or(config, "swiglu_alpha", 0, 1e6, &alpha, NULL, err));
    LF_TRY(lf_config_number_or(config, "swiglu_limit", 1e-6, 1e6, &limit, NULL, err));
    hp->swiglu_limit = (float)limit;
    if (fabs(alpha - ALPHA) < 1e-9) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "swiglu_alpha %g is not implemented (%g is)", alpha, ALPHA);
}

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    bool bias = true;
    LF_TRY(lf_config_bool_or(config, "attention_bias", &bias, err));
    hp->qkv_bias = hp->o_bias = bias;
    hp->expert_intermediate = hp->intermediate;
    if (lf_json_is_absent(lf_json_get(config, "rope_scaling")) &&
        lf_json_is_absent(lf_json_get(config, "rope_parameters")))
        return lf_fail(err, LF_CORRUPT, "rope_scaling is missing, and so is rope_parameters");
    LF_TRY(lf_experts_read(hp, config, err));
    LF_TRY(check_names(config, err));
    return read_act(hp, config, err);
}

/* A matrix of each expert, with its biases. */
static struct lf_linear experts_of(struct lf_recorder *r, int layer, struct lf_slot_part part, int n_in,
                                   enum lf_shard shard)
{
    return lf_rec_linear(r, layer,
                         &(struct lf_linear_opts){.parts = {part},
                                                  .n_in = n_in,
                                                  .bias = true,
                                                  .n_experts = r->hp->n_experts,
                                                  .by_columns = true,
                                                  .shard = shard});
}

static int mlp(struct lf_recorder *r, int layer, int x)
{
    const struct lf_hparams *hp = r->hp;
    int norm = lf_rec_vector(r, layer, "model.layers.#.post_attention_layernorm", hp->hidden);
    struct lf_linear router =
        lf_rec_linear(r, layer,
                      &(struct lf_linear_opts){
                          .parts = {{"model.layers.#.mlp.router", hp->n_experts}}, .n_in = hp->hidden, .bias = true});
    struct lf_linear gate_up = experts_of(r, layer,
                                          (struct lf_slot_part){.pattern = "model.layers.#.mlp.experts.gate_up_proj",
                                                                .n_rows = 2 * hp->expert_intermediate,
                                                                .order = LF_ROWS_DEINTERLEAVE},
                                          hp->hidden, LF_SHARD_ROWS);
    struct lf_linear down = experts_of(
        r, layer, (struct lf_slot_part){.pattern = "model.layers.#.mlp.experts.down_proj", .n_rows = hp->hidden},
        hp->expert_intermediate, LF_SHARD_COLUMNS);
    int h = lf_rec_rmsnorm(r, x, norm);
    struct lf_routing routing =
        lf_rec_route(r, lf_rec_gemm_float(r, h, router), hp->experts_per_token, LF_ROUTE_TOPK_SOFTMAX, 1);
    int act = lf_rec_gate_mul(r, lf_rec_expert_gemm(r, h, gate_up, &routing), LF_ACT_SWIGLU_OAI, hp->swiglu_limit);
    return lf_rec_expert_sum(r, lf_rec_expert_gemm_float(r, act, down, &routing), &routing, x);
}

static void record(struct lf_recorder *r)
{
    lf_llama_record_with(r, mlp);
}

static const char *const reads[] = {"num_experts", "num_local_experts", NULL};

const struct lf_arch lf_arch_gpt_oss = {.name = "GptOssForCausalLM",
                                        .model_type = "gpt_oss",
                                        .attention_bias = true,
                                        .sinks = true,
                                        .sliding_window = true,
                                        .full_every = 2,
                                        .default_window = DEFAULT_WINDOW,
                                        .rope_theta = DEFAULT_THETA,
                                        .head_dim = HEAD_DIM,
                                        .mxfp4 = true,
                                        .only_silu = true,
                                        .read = read,
                                        .reads = reads,
                                        .record = record};
