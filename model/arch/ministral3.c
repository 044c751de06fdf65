/* Ministral 3: Llama with YaRN, whose queries are scaled up step by step past the length that it was trained on before
 * its positions were stretched (llama_4_scaling_beta). By itself, or as the text part of a model that also sees. */
#include "model/arch/arch.h"

#include "core/check.h"
#include "core/limits.h"
#include "model/config.h"

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value rope = lf_json_get(config, "rope_scaling");
    const char *key = "original_max_position_embeddings";
    if (lf_json_is_absent(rope)) rope = lf_json_get(config, "rope_parameters");
    if (lf_json_is_absent(rope)) return lf_fail(err, LF_CORRUPT, "rope_parameters is missing");
    LF_TRY(lf_config_number_or(rope, "llama_4_scaling_beta", 0, 1e3, &hp->q_scale.beta, NULL, err));
    hp->q_scale.n_positions = hp->ropes[0].original_max_positions;
    if (hp->q_scale.beta > 0 && hp->q_scale.n_positions == 0)
        LF_TRY(lf_config_int(rope, key, 1, LF_CONTEXT_TOKENS, &hp->q_scale.n_positions, err));
    return LF_OK;
}

static const char *const reads[] = {"llama_4_scaling_beta", "max_position_embeddings", NULL};

const struct lf_arch lf_arch_ministral3 = {.name = "Ministral3ForCausalLM",
                                           .model_type = "ministral3",
                                           .sliding_window = true,
                                           .head_dim = 128,
                                           .read = read,
                                           .reads = reads,
                                           .record = lf_llama_record};
const struct lf_arch lf_arch_mistral3_ministral3 = {.name = "Mistral3ForConditionalGeneration",
                                                    .model_type = "mistral3",
                                                    .text_type = "ministral3",
                                                    .sliding_window = true,
                                                    .head_dim = 128,
                                                    .read = read,
                                                    .reads = reads,
                                                    .record = lf_llama_record};
