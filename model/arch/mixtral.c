/* Mixtral (Jiang et al. 2024): Mistral with a router and a few large experts in place of each MLP. The weights of the
 * experts that are chosen sum to 1. */
#include "model/arch/arch.h"

#include "core/check.h"
#include "model/arch/experts.h"

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    hp->expert_intermediate = hp->intermediate;
    hp->norm_topk = true;
    return lf_experts_read(hp, config, err);
}

/* Since its fifth version transformers calls the block "mlp", as in other families, where it keeps experts together. */
static const struct lf_expert_names names = {.router = "model.layers.#.block_sparse_moe.gate",
                                             .router_instead = "model.layers.#.mlp.gate.weight",
                                             .gate = "model.layers.#.block_sparse_moe.experts.@.w1",
                                             .up = "model.layers.#.block_sparse_moe.experts.@.w3",
                                             .gate_up_whole = "model.layers.#.mlp.experts.gate_up_proj",
                                             .down = "model.layers.#.block_sparse_moe.experts.@.w2",
                                             .down_whole = "model.layers.#.mlp.experts.down_proj"};

static int mlp(struct lf_recorder *r, int layer, int x)
{
    return lf_rec_expert_mlp(r, layer, x, &names, LF_ROUTE_SOFTMAX_RENORM);
}

static void record(struct lf_recorder *r)
{
    lf_llama_record_with(r, mlp);
}

static const char *const reads[] = {"num_experts", "num_local_experts", NULL};

const struct lf_arch lf_arch_mixtral = {.name = "MixtralForCausalLM",
                                        .model_type = "mixtral",
                                        .sliding_window = true,
                                        .rope_theta = 1e6,
                                        .read = read,
                                        .reads = reads,
                                        .record = record};
