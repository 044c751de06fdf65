/* SmolLM3: Llama, but for layers that do not rotate their queries and keys (NoPE; Kazemnejad et al. 2023), by default
 * each fourth. no_rope_layers says it of each layer, and means the opposite of its name: 1 rotates. */
#include "model/arch/arch.h"

#include "core/check.h"
#include "model/config.h"

enum { DEFAULT_INTERVAL = 4 };

/* Which layers rotate, as no_rope_layers has it. */
static enum lf_status read_list(struct lf_hparams *hp, struct lf_json_value list, struct lf_err *err)
{
    int layer = 0;
    if (lf_json_type(list) != LF_JSON_ARRAY)
        return lf_config_wrong_type(list, "no_rope_layers", "an array of 0 and 1", err);
    if (lf_json_len(list) != (uint32_t)hp->n_layers)
        return lf_fail(err, LF_CORRUPT, "no_rope_layers is not an array of num_hidden_layers = %d numbers",
                       hp->n_layers);
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        int rotates;
        LF_TRY(lf_config_int_of(it, "no_rope_layers", 0, 1, &rotates, err));
        hp->layers[layer++].rope = !rotates;
    }
    return LF_OK;
}

/* Where layer_types does not say it, the window is that of layers that do not rotate. */
static enum lf_status read_window(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value value = lf_json_get(config, "sliding_window");
    bool use = false;
    int window;
    LF_TRY(lf_config_bool_or(config, "use_sliding_window", &use, err));
    if (!use || lf_json_is_absent(value) || !lf_json_is_absent(lf_json_get(config, "layer_types"))) return LF_OK;
    LF_TRY(lf_config_int_of(value, "sliding_window", 1, INT32_MAX, &window, err));
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].window = hp->layers[i].rope ? window : 0;
    return LF_OK;
}

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    struct lf_json_value list = lf_json_get(config, "no_rope_layers");
    int interval = DEFAULT_INTERVAL;
    if (!lf_json_is_absent(lf_json_get(config, "no_rope_layer_interval")))
        LF_TRY(lf_config_int(config, "no_rope_layer_interval", 1, INT32_MAX, &interval, err));
    for (int i = 0; i < hp->n_layers; i++) hp->layers[i].rope = (i + 1) % interval == 0;
    if (!lf_json_is_absent(list)) LF_TRY(read_list(hp, list, err));
    hp->ropes[1] = (struct lf_rope_opts){
        .kind = LF_ROPE_OFF, .head_dim = hp->head_dim, .rotary_dim = hp->ropes[0].rotary_dim, .theta = 10000};
    hp->n_ropes = 2;
    return read_window(hp, config, err);
}

static const char *const reads[] = {"no_rope_layers", NULL};

const struct lf_arch lf_arch_smollm3 = {.name = "SmolLM3ForCausalLM",
                                        .model_type = "smollm3",
                                        .attention_bias = true,
                                        .mlp_bias = true,
                                        .tied = true,
                                        .use_sliding_window = true,
                                        .rope_theta = 2e6,
                                        .read = read,
                                        .reads = reads,
                                        .record = lf_llama_record};
