/* Qwen3.5 and Qwen3.6, dense and with experts, their text part: delta_net.h with a matrix for each of [q, k, v], z, b
 * and a. With experts each layer has them, and one that computes every token; weights of the chosen ones sum to 1.
 *
 * Positions have three axes (mrope: time, height, width), which share the frequencies out among them. Of text all three
 * are equal, and what comes out is plain RoPE: mrope_section and mrope_interleaved are read as saying nothing. */
#include "core/check.h"
#include "model/arch/delta_net.h"

enum { EXPERTS = 256, PER_TOKEN = 8 }; /* where the keys are missing */

static struct lf_linear two_of(struct lf_recorder *r, int layer, struct lf_slot_part first, struct lf_slot_part second)
{
    struct lf_linear_opts opts = {.parts = {first, second}, .n_in = r->hp->hidden, .shard = LF_SHARD_HEADS};
    return lf_rec_linear(r, layer, &opts);
}

/* So many rows of each value head. */
static struct lf_slot_part of_v_heads(const struct lf_delta_shape *d, const char *pattern, int n_each)
{
    int n = d->n_v_heads * n_each;
    return (struct lf_slot_part){.pattern = pattern, .n_rows = n, .runs = {{.n_rows = n, .n_heads = d->n_v_heads}}};
}

static struct lf_delta_inputs inputs_of(struct lf_recorder *r, int layer)
{
    const struct lf_delta_shape *d = &r->hp->delta;
    struct lf_slot_run k = {.n_rows = d->n_k_heads * d->k_dim, .n_heads = d->n_k_heads};
    struct lf_slot_part z = of_v_heads(d, "model.layers.#.linear_attn.in_proj_z", d->v_dim);
    struct lf_slot_part qkv = {
        .pattern = "model.layers.#.linear_attn.in_proj_qkv", .n_rows = lf_delta_channels(d), .runs = {k, k, z.runs[0]}};
    return (struct lf_delta_inputs){.qkvz = two_of(r, layer, qkv, z),
                                    .ba = two_of(r, layer, of_v_heads(d, "model.layers.#.linear_attn.in_proj_b", 1),
                                                 of_v_heads(d, "model.layers.#.linear_attn.in_proj_a", 1))};
}

static void record(struct lf_recorder *r)
{
    lf_delta_net_record(r, inputs_of);
}

static const char *const reads[] = {"mrope_section", "mrope_interleaved", NULL};

#define DENSE                                                                                                          \
    LF_DELTA_NET_ROW,                                                                                                  \
        .sizes = {.n_layers = 32,                                                                                      \
                  .hidden = 4096,                                                                                      \
                  .intermediate = 12288,                                                                               \
                  .n_vocab = 248320,                                                                                   \
                  .n_heads = 16,                                                                                       \
                  .n_kv_heads = 4,                                                                                     \
                  .max_positions = 32768,                                                                              \
                  .norm_eps = 1e-6},                                                                                   \
        .reads = reads, .record = record

const struct lf_arch lf_arch_qwen3_5_text = {.name = "Qwen3_5ForCausalLM", .model_type = "qwen3_5_text", DENSE};
const struct lf_arch lf_arch_qwen3_5 = {
    .name = "Qwen3_5ForConditionalGeneration", .model_type = "qwen3_5", .text_type = "qwen3_5_text", DENSE};

/* ---- with experts ---- */

static enum lf_status read(struct lf_hparams *hp, struct lf_json_value config, struct lf_err *err)
{
    hp->norm_topk = true;
    return lf_delta_net_read_experts(hp, config, EXPERTS, PER_TOKEN, err);
}

static const char *const reads_of_moe[] = {"mrope_section", "mrope_interleaved", "num_experts", "num_local_experts",
                                           NULL};

/* No layer has an MLP, so there is no intermediate_size; where it stands it counts for nothing. */
#define MOE                                                                                                            \
    LF_DELTA_NET_ROW,                                                                                                  \
        .sizes = {.n_layers = 40,                                                                                      \
                  .hidden = 2048,                                                                                      \
                  .intermediate = 512,                                                                                 \
                  .n_vocab = 248320,                                                                                   \
                  .n_heads = 16,                                                                                       \
                  .n_kv_heads = 2,                                                                                     \
                  .max_positions = 32768,                                                                              \
                  .norm_eps = 1e-6},                                                                                   \
        .read = read, .reads = reads_of_moe, .record = record

const struct lf_arch lf_arch_qwen3_5_moe_text = {
    .name = "Qwen3_5MoeForCausalLM", .model_type = "qwen3_5_moe_text", MOE};
const struct lf_arch lf_arch_qwen3_5_moe = {
    .name = "Qwen3_5MoeForConditionalGeneration", .model_type = "qwen3_5_moe", .text_type = "qwen3_5_moe_text", MOE};
