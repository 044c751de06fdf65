/* Qwen3 with experts (Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder): Qwen3's attention, and in place of most MLPs a
 * router and many small experts. mlp_only_layers and decoder_sparse_step say which layers have an MLP all the same;
 * norm_topk_prob, whether the weights of the chosen experts sum to 1. */
#include "model/arch/arch.h"

#include "core/check.h"
#include "core/limits.h"
#include "model/arch/experts.h"
#include "model/config.h"

enum { DEFAULT_WINDOW = 4096 };

/* Where use_sliding_window is true, sliding_window is of all layers: max_window_layers and layer_types, which Qwen3
 * has, count for nothing here. */
static enum lf_status read_window(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value value = lf_json_get(config, "sliding_window");
    int window = lf_json_type(value) == LF_JSON_NONE ? DEFAULT_WINDOW : 0;
    bool use = false;
    LF_TRY(lf_config_bool_or(config, "use_sliding_window", &use, err));
    if (!lf_json_is_absent(value)) LF_TRY(lf_config_int_of(value, "sliding_window", 1, INT32_MAX, &window, err));
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].window = use ? window : 0;
    return LF_OK;
}

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    LF_TRY(lf_experts_read(hp, config, err));
    LF_TRY(lf_config_int(config, "moe_intermediate_size", 1, LF_HIDDEN_N, &hp->expert_intermediate, err));
    LF_TRY(lf_config_bool_or(config, "norm_topk_prob", &hp->norm_topk, err));
    LF_TRY(lf_experts_read_dense(hp, config, err));
    return read_window(hp, config, err);
}

static const struct lf_expert_names names = {.router = "model.layers.#.mlp.gate",
                                             .gate = "model.layers.#.mlp.experts.@.gate_proj",
                                             .up = "model.layers.#.mlp.experts.@.up_proj",
                                             .gate_up_whole = "model.layers.#.mlp.experts.gate_up_proj",
                                             .down = "model.layers.#.mlp.experts.@.down_proj",
                                             .down_whole = "model.layers.#.mlp.experts.down_proj"};

static int mlp(struct lf_recorder *r, int layer, int x)
{
    enum lf_route route = r->hp->norm_topk ? LF_ROUTE_SOFTMAX_RENORM : LF_ROUTE_SOFTMAX;
    return r->hp->layers[layer].has_experts ? lf_rec_expert_mlp(r, layer, x, &names, route) : lf_llama_mlp(r, layer, x);
}

static void record(struct lf_recorder *r)
{
    lf_llama_record_with(r, mlp);
}

static const char *const reads[] = {"num_experts", "num_local_experts", NULL};

const struct lf_arch lf_arch_qwen3_moe = {.name = "Qwen3MoeForCausalLM",
                                          .model_type = "qwen3_moe",
                                          .attention_bias = true,
                                          .qk_norm = true,
                                          .use_sliding_window = true,
                                          .default_window = DEFAULT_WINDOW,
                                          .read = read,
                                          .reads = reads,
                                          .record = record};
